package slack

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	slackgo "github.com/slack-go/slack"

	"switchboard/chat"
)

const (
	// cardRoom is how many characters a card shows at most. Slack names no figure for rich text; about 13,000 are reported.
	cardRoom = 9000
	// mostCardText is of one text. Slack: 3,000, https://docs.slack.dev/reference/block-kit/blocks/section-block.
	mostCardText = 2900
	fewFields    = 20 // that are shown of a card which does not fit
	manyFields   = 200

	mostConfirm = 100 // characters of a tool's name in the last question; it stands whole in the card
)

// picture is a card as it is to stand in Slack.
type picture struct {
	blocks []slackgo.Block
	file   *enclosure // all of the card, where the message does not hold it; nil where it does
}

// enclosure is the file that goes before a card.
type enclosure struct {
	name   string
	data   []byte
	digest string // sha256 of data, in hex
}

// draw draws a card in at most so many characters. Either the message says all of it, or it names the file that does, and
// marks each place where something is missing. Nothing in it is Markdown: the texts come from strangers.
func draw(c *chat.Card, room int) picture {
	d := &sketch{card: c, text: min(mostCardText, room), fields: manyFields}
	blocks := d.blocks()
	if !d.cut && d.size <= room {
		return picture{blocks: blocks}
	}
	file := enclose(c)
	for text, fields := room/4, fewFields; ; text, fields = text/2, max(fields*2/3, 3) {
		d = &sketch{card: c, file: file, text: max(min(text, mostCardText), 40), fields: fields}
		if blocks = d.blocks(); d.size <= room || text <= 40 {
			return picture{blocks: blocks, file: file}
		}
	}
}

// sketch is a card being drawn.
type sketch struct {
	card   *chat.Card
	file   *enclosure
	text   int  // characters of each text that are shown
	fields int  // fields of each list that are shown
	size   int  // characters so far
	cut    bool // something is not shown
}

func (d *sketch) blocks() []slackgo.Block {
	c := d.card
	out := []slackgo.Block{slackgo.NewHeaderBlock(plainText(d.heading()))}
	if c.Decided != "" {
		out = append(out, d.rich(append([]slackgo.RichTextElement{d.line(bold("Decided"))}, d.box(c.Decided)...)...))
	}
	out = append(out, d.about())
	if d.file != nil {
		out = append(out, d.rich(d.line(bold("Not all of it fits in this message."), words(" The whole stands in the file "), mono(d.file.name),
			words(" beside it: "+strconv.Itoa(len(d.file.data))+" bytes, sha256 "), mono(d.file.digest), words(". Where something is left out below, it says so."))))
	}
	for _, list := range []struct {
		title  string
		fields []chat.Field
	}{{"Arguments", c.Args}, {"Facts, read by the bot itself", c.Facts}} {
		if len(list.fields) > 0 {
			out = append(out, d.rich(d.list(list.title, list.fields)...))
		}
	}
	if more := d.reasons(); len(more) > 0 {
		out = append(out, d.rich(more...))
	}
	if c.Decided != "" {
		return out
	}
	if !c.Until.IsZero() {
		line := "Open until " + moment(c.Until) + "."
		if c.Kind == chat.CardApprove {
			line = "Open until " + moment(c.Until) + ". After that it counts as refused."
		}
		out = append(out, slackgo.NewContextBlock("", slackgo.NewTextBlockObject(slackgo.MarkdownType, line, false, true)))
	}
	return append(out, slackgo.NewActionBlock("", d.buttons()...))
}

func (d *sketch) heading() string {
	heading := map[chat.CardKind]string{chat.CardApprove: "Approval needed", chat.CardAsk: "A question", chat.CardUnknown: "Did this take place?"}[d.card.Kind]
	if heading == "" {
		heading = "A decision is needed"
	}
	if d.card.Decided != "" {
		heading += " (decided)"
	}
	return heading
}

// about says what it is about, and on whose request.
func (d *sketch) about() slackgo.Block {
	c := d.card
	var out []slackgo.RichTextElement
	switch {
	case c.Title != "" && c.Tool != "":
		out = append(out, d.line(bold(d.short(c.Title)), words(" ("), mono(d.short(c.Tool)), words(")")))
	case c.Tool != "":
		out = append(out, d.line(words("The tool "), mono(d.short(c.Tool))))
	case c.Title != "":
		out = append(out, d.line(bold(d.short(c.Title))))
	}
	if c.Question != "" {
		label := "The question"
		if c.Kind == chat.CardUnknown {
			label = "What is known"
		}
		out = append(out, d.line(bold(label)))
		out = append(out, d.box(c.Question)...)
	}
	who := []slackgo.RichTextSectionElement{words("On request of "), d.somebody(c.Asker.ID, c.Asker.Name)}
	switch c.Asker.Kind {
	case chat.Guest:
		who = append(who, words(" (a guest)"))
	case chat.External:
		who = append(who, words(" (from another organisation)"))
	default:
	}
	if idForm.MatchString(c.Channel) && c.Channel[0] == 'C' {
		who = append(who, words(" in "), slackgo.NewRichTextSectionChannelElement(c.Channel, nil))
	}
	if c.Assistant != "" {
		who = append(who, words(", by the assistant "), mono(d.short(c.Assistant)))
	}
	return d.rich(append(out, d.line(who...))...)
}

// reasons says why somebody must decide, and who may.
func (d *sketch) reasons() []slackgo.RichTextElement {
	c := d.card
	var out []slackgo.RichTextElement
	for _, own := range []struct{ label, text string }{
		{"Why (the model's own words)", c.Why}, {"What it expects (the model's own words)", c.Expects},
	} {
		if own.text != "" {
			out = append(out, d.line(bold(own.label)))
			out = append(out, d.box(own.text)...)
		}
	}
	for i, rule := range c.Rules {
		if i == d.fields {
			out = append(out, d.left(len(c.Rules)-i, "rules"))
			break
		}
		out = append(out, d.line(bold("Rule "), words(d.short(rule))))
	}
	if len(c.Deciders) > 0 {
		may := []slackgo.RichTextSectionElement{bold("Who may decide ")}
		for i, who := range c.Deciders {
			if i == d.fields {
				d.cut = true
				may = append(may, words(", and "+strconv.Itoa(len(c.Deciders)-i)+" more, who stand in the file"))
				break
			}
			if i > 0 {
				may = append(may, words(", "))
			}
			may = append(may, d.somebody(who, ""))
		}
		out = append(out, d.line(may...))
	}
	if c.Digest != "" {
		out = append(out, d.line(bold("Digest of what will be sent "), words("sha256 "), mono(d.short(c.Digest))))
	}
	return out
}

// mostInLine is how long a value may be that stands in its name's line, in characters.
const mostInLine = 60

// list draws named values: a short one beside its name, any other in a box of its own.
func (d *sketch) list(title string, fields []chat.Field) []slackgo.RichTextElement {
	out := []slackgo.RichTextElement{d.line(bold(title))}
	for i, f := range fields {
		if i == d.fields {
			return append(out, d.left(len(fields)-i, "values"))
		}
		name := d.short(f.Name)
		if name == "" {
			name = "(no name)"
		}
		line := []slackgo.RichTextSectionElement{mono(name)}
		if f.Value == "" {
			line = append(line, words(" is empty"))
		}
		value := legible(f.Value)
		if inLine := f.Value != "" && !strings.ContainsAny(value, "\n\r") && utf8.RuneCountInString(value) <= min(mostInLine, d.text); inLine {
			out = append(out, d.line(append(line, words("  "), mono(value))...))
		} else {
			out = append(out, d.line(line...))
			out = append(out, d.box(f.Value)...)
		}
		switch {
		case f.Note == "":
		case strings.HasPrefix(f.Value, "‹"): // by its name only: there is nothing to look at
			out = append(out, d.line(words("("+d.short(f.Note)+")")))
		default:
			out = append(out, d.line(bold("Look closely: "), words(d.short(f.Note))))
		}
	}
	return out
}

func (d *sketch) left(n int, what string) slackgo.RichTextElement {
	d.cut = true
	return d.line(bold(fmt.Sprintf("… and %d more %s, which stand in the file only.", n, what)))
}

// box is a text of strangers, as it is. What is cut off is counted.
func (d *sketch) box(text string) []slackgo.RichTextElement {
	if text == "" {
		return nil
	}
	whole := legible(text)
	head, cut := beginning(whole, d.text)
	d.size += utf8.RuneCountInString(head)
	out := []slackgo.RichTextElement{&slackgo.RichTextPreformatted{Type: slackgo.RTEPreformatted, Elements: []slackgo.RichTextSectionElement{words(head)}}}
	if cut {
		d.cut = true
		out = append(out, d.line(bold("… this is only its beginning: "), words(fmt.Sprintf("%d of %d characters. All of it stands in the file.",
			utf8.RuneCountInString(head), utf8.RuneCountInString(whole)))))
	}
	return out
}

// short is a text of strangers within a line.
func (d *sketch) short(text string) string {
	head, cut := beginning(inLine(text), d.text)
	if cut {
		d.cut = true
		head += "… (more in the file)"
	}
	return head
}

// somebody is a person, a group, or whoever the words mean.
func (d *sketch) somebody(id, name string) slackgo.RichTextSectionElement {
	switch {
	case !idForm.MatchString(id):
	case id[0] == 'U' || id[0] == 'W':
		return slackgo.NewRichTextSectionUserElement(id, nil)
	case id[0] == 'S':
		return slackgo.NewRichTextSectionUserGroupElement(id)
	}
	for _, s := range []string{name, id} {
		if s = d.short(s); s != "" {
			return words(s)
		}
	}
	return words("somebody")
}

func (d *sketch) line(elements ...slackgo.RichTextSectionElement) slackgo.RichTextElement {
	for _, e := range elements {
		if t, ok := e.(*slackgo.RichTextSectionTextElement); ok {
			d.size += utf8.RuneCountInString(t.Text)
		} else {
			d.size += nameMost // a name, which Slack puts in
		}
	}
	return slackgo.NewRichTextSection(elements...)
}

func (d *sketch) rich(elements ...slackgo.RichTextElement) slackgo.Block {
	return slackgo.NewRichTextBlock("", elements...)
}

func words(s string) *slackgo.RichTextSectionTextElement {
	return slackgo.NewRichTextSectionTextElement(s, nil)
}

func bold(s string) *slackgo.RichTextSectionTextElement {
	return slackgo.NewRichTextSectionTextElement(s, &slackgo.RichTextSectionTextStyle{Bold: true})
}

func mono(s string) *slackgo.RichTextSectionTextElement {
	return slackgo.NewRichTextSectionTextElement(s, &slackgo.RichTextSectionTextStyle{Code: true})
}

func plainText(s string) *slackgo.TextBlockObject {
	return slackgo.NewTextBlockObject(slackgo.PlainTextType, s, false, false)
}

// buttons are what can be said to a card. There is none that says it to several cards.
func (d *sketch) buttons() []slackgo.BlockElement {
	press := func(say chat.Saying, label string) *slackgo.ButtonBlockElement {
		return slackgo.NewButtonBlockElement(actionCard+"."+string(say), d.card.ID, plainText(label))
	}
	switch d.card.Kind {
	case chat.CardAsk:
		return []slackgo.BlockElement{press(chat.Answer, "Answer").WithStyle(slackgo.StylePrimary)}
	case chat.CardUnknown:
		return []slackgo.BlockElement{press(chat.Happened, "It happened"), press(chat.NotDone, "It did not")}
	default:
	}
	tool, _ := beginning(inLine(d.card.Tool), mostConfirm)
	sure := slackgo.NewConfirmationBlockObject(plainText("Approve this?"),
		plainText(tool+" will run with exactly the arguments that the card shows, in your name."), plainText("Approve"), plainText("Not yet"))
	return []slackgo.BlockElement{press(chat.Approve, "Approve").WithStyle(slackgo.StylePrimary).WithConfirm(sure), press(chat.Deny, "Deny").WithStyle(slackgo.StyleDanger)}
}

// enclose writes all of a card as JSON, for people to read: what they would not see in it stands there as JSON's escapes. It
// is the same for the same card, decided or not.
func enclose(c *chat.Card) *enclosure {
	type value struct {
		Name  string `json:"name"`
		Value string `json:"value"`
		Note  string `json:"note,omitempty"`
	}
	values := func(fields []chat.Field) []value {
		out := []value{}
		for _, f := range fields {
			out = append(out, value(f))
		}
		return out
	}
	until := ""
	if !c.Until.IsZero() {
		until = c.Until.UTC().Format(time.RFC3339)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(struct { // texts only: it cannot fail
		Card      string   `json:"card"`
		Kind      string   `json:"kind"`
		Tool      string   `json:"tool,omitempty"`
		Title     string   `json:"title,omitempty"`
		Question  string   `json:"question,omitempty"`
		Asker     string   `json:"asker"`
		Assistant string   `json:"assistant,omitempty"`
		Arguments []value  `json:"arguments"`
		Facts     []value  `json:"facts"`
		Why       string   `json:"why_in_the_models_words,omitempty"`
		Expects   string   `json:"expects_in_the_models_words,omitempty"`
		Rules     []string `json:"rules,omitempty"`
		Deciders  []string `json:"may_decide,omitempty"`
		Until     string   `json:"until,omitempty"`
		Digest    string   `json:"sha256_of_what_will_be_sent,omitempty"`
	}{c.ID, string(c.Kind), c.Tool, c.Title, c.Question, c.Asker.ID, c.Assistant, values(c.Args), values(c.Facts), c.Why, c.Expects, c.Rules, c.Deciders, until, c.Digest})
	data := []byte(jsonVisible(out.String()))
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	return &enclosure{name: "card-" + digest[:12] + ".json", data: data, digest: digest}
}

// jsonVisible writes out in JSON what people do not see.
func jsonVisible(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || r == '⟨' || r == '⟩' || !hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
