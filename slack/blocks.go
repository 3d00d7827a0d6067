package slack

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	slackgo "github.com/slack-go/slack"

	"switchboard/chat"
	"switchboard/turn"
)

// Slack's limits of elements: https://docs.slack.dev/reference/block-kit/block-elements/button-element (label 75, value
// 2,000), …/blocks/actions-block (25 elements), …/blocks/section-block (3,000 characters), and for text as a fallback
// https://docs.slack.dev/reference/methods/chat.update (4,000).
const (
	mostLabel    = 75
	mostButtons  = 25
	mostSection  = 2900
	mostFallback = 3000
	mostTitle    = 256 // of a task: https://docs.slack.dev/reference/methods/chat.appendStream
)

// form is how a message is dressed. Each is plainer than the one before, for what Slack refuses.
type form int

const (
	dressed  form = iota // Markdown, feedback buttons
	plainer              // Markdown, ordinary buttons only
	sections             // Slack's old markup in sections
	bare                 // text alone
)

// message is a part of a reply with what stands around it.
type message struct {
	part   part
	number int // of the part, from 0
	of     int // how many there are
	foot   foot
	more   bool // it is a piece of a part that Slack called too long, and not the last one
}

// foot is what stands under the last part of a reply.
type foot struct {
	turn     string
	buttons  []chat.Button
	feedback bool
}

// footOf says what a reply carries: the choices of a question, else a way to say what one thinks of it and to see how it came
// about.
func footOf(p turn.Post) foot {
	f := foot{turn: p.Turn, buttons: p.Reply.Buttons}
	switch p.Outcome {
	case turn.Clarify, turn.Refused:
	default:
		f.feedback = len(f.buttons) == 0
	}
	return f
}

// blocks draws a message. A bare one has none.
func (m message) blocks(f form) []slackgo.Block {
	if f == bare {
		return []slackgo.Block{}
	}
	var out []slackgo.Block
	if f == sections {
		for _, text := range chunks(mrkdwn(m.part.text), mostSection) {
			out = append(out, slackgo.NewSectionBlock(slackgo.NewTextBlockObject(slackgo.MarkdownType, text, false, true), nil, nil))
		}
		out = out[:min(len(out), 40)]
	} else {
		out = append(out, slackgo.NewMarkdownBlock("", m.part.text))
	}
	if line := m.counter(); line != "" {
		out = append(out, remark(line))
	}
	if m.number == m.of-1 && !m.more {
		out = append(out, m.foot.blocks(f)...)
	}
	return out
}

// counter says which part of how many it is, at the end of the part.
func (m message) counter() string {
	if m.of < 2 || m.more {
		return ""
	}
	return fmt.Sprintf("(%d/%d)", m.number+1, m.of)
}

// fallback is the message for notifications and for those who have it read to them.
func (m message) fallback(f form) string {
	if f != bare {
		return plain(m.part.text)
	}
	text := mrkdwn(m.part.text)
	if line := m.counter(); line != "" {
		text += "\n" + line
	}
	return text
}

// blocks draws the foot. Slack wants every action id once in a block, so that the choices are numbered.
func (f foot) blocks(in form) []slackgo.Block {
	if len(f.buttons) > 0 {
		row := make([]slackgo.BlockElement, 0, len(f.buttons))
		for i, b := range f.buttons[:min(len(f.buttons), mostButtons)] {
			row = append(row, button(actionPick+"."+strconv.Itoa(i), f.turn+"\n"+b.Value, b.Label))
		}
		return []slackgo.Block{slackgo.NewActionBlock("", row...)}
	}
	if !f.feedback || f.turn == "" {
		return nil
	}
	trace := button(actionTrace, f.turn, "How I got this")
	if in != dressed {
		return []slackgo.Block{slackgo.NewActionBlock("", button(actionFeedback+".good", f.turn+"\ngood", "Good answer"),
			button(actionFeedback+".bad", f.turn+"\nbad", "Bad answer"), trace)}
	}
	choice := func(label, value string) *slackgo.FeedbackButton {
		return slackgo.NewFeedbackButton(slackgo.NewTextBlockObject(slackgo.PlainTextType, label, false, false), f.turn+"\n"+value).
			WithAccessibilityLabel(label)
	}
	return []slackgo.Block{
		slackgo.NewContextActionsBlock("", slackgo.NewFeedbackButtonsBlockElement(actionFeedback,
			choice("Good answer", "good"), choice("Bad answer", "bad"))),
		slackgo.NewActionBlock("", trace),
	}
}

// actionOf gives the kind of an action id: the choices of a question are numbered, and feedback may be two plain buttons.
func actionOf(id string) string {
	for _, kind := range []string{actionPick, actionFeedback, actionTrace, actionCard} {
		if id == kind || strings.HasPrefix(id, kind+".") {
			return kind
		}
	}
	return id
}

func button(action, value, label string) *slackgo.ButtonBlockElement {
	if blank(label) {
		label = "…"
	}
	return slackgo.NewButtonBlockElement(action, value, slackgo.NewTextBlockObject(slackgo.PlainTextType, short(label, mostLabel), false, false))
}

// remark is a line in small type, as plain text.
func remark(line string) *slackgo.ContextBlock {
	return slackgo.NewContextBlock("", slackgo.NewTextBlockObject(slackgo.PlainTextType, short(line, 1900), false, false))
}

// short cuts a text to a number of characters, and marks the cut.
func short(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	at, n := 0, 1
	for i := range s {
		if at = i; n >= most {
			break
		}
		n++
	}
	for at > 0 && !apart(s, at) {
		_, size := utf8.DecodeLastRuneInString(s[:at])
		at -= size
	}
	return strings.TrimRight(s[:at], " ") + "…"
}

// oneLine makes a text fit to stand in a line.
func oneLine(s string, most int) string { return short(inOneLine(s), most) }

// escape makes a text mean itself in Slack's own markup. Slack: https://docs.slack.dev/messaging/formatting-message-text
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// plain is the beginning of a Markdown text as inert text.
func plain(markdown string) string {
	head := markdown[:min(len(markdown), utf8.UTFMax*mostFallback+mostFallback)]
	text := strings.TrimSpace(tidy(head))
	for most := mostFallback; ; most = most * 2 / 3 {
		if out := escape(short(text, most)); utf8.RuneCountInString(out) <= mostFallback {
			return out
		}
	}
}

// What mrkdwn knows of Markdown.
var (
	fenceForm   = regexp.MustCompile("^[\\s>]*(```+|~~~+)")
	headingForm = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	// Code, link, address, mention, bold.
	inlineForm = regexp.MustCompile("(`[^`]+`)|\\[([^\\]]+)\\]\\((https?://[^\\s()|<>]+|mailto:[^\\s()|<>]+)\\)|<((?:https?://|mailto:)[^\\s|<>]+)>|<([@#][A-Z0-9]+)>|\\*\\*([^*]+)\\*\\*")
)

// mrkdwn rewrites Markdown in Slack's old markup, as far as that has it: bold, headings, links, code; tables as code. What it
// does not know stays as it is, escaped. Mentions that are there have passed the filter, and stay mentions.
func mrkdwn(markdown string) string {
	var out []string
	open, table := "", false
	for line := range strings.SplitSeq(tidy(markdown), "\n") {
		row := open == "" && strings.HasPrefix(strings.TrimSpace(line), "|")
		if row != table {
			out = append(out, "```")
			table = row
		}
		mark := fenceForm.FindStringSubmatch(line)
		switch {
		case row:
			out = append(out, escape(line))
		case mark != nil && open == "":
			open = mark[1]
			out = append(out, "```")
		case mark != nil && strings.HasPrefix(mark[1], open):
			open = ""
			out = append(out, "```")
		case open != "":
			out = append(out, escape(line))
		case headingForm.MatchString(line):
			out = append(out, "*"+inline(headingForm.FindStringSubmatch(line)[1])+"*")
		default:
			out = append(out, inline(line))
		}
	}
	if table || open != "" {
		out = append(out, "```")
	}
	return strings.Join(out, "\n")
}

// inline rewrites a line outside of code.
func inline(line string) string {
	var b strings.Builder
	last := 0
	for _, m := range inlineForm.FindAllStringSubmatchIndex(line, -1) {
		b.WriteString(escape(line[last:m[0]]))
		group := func(n int) string { return line[m[2*n]:m[2*n+1]] }
		switch {
		case m[2] >= 0:
			b.WriteString(escape(group(1)))
		case m[4] >= 0:
			b.WriteString("<" + escape(group(3)) + "|" + strings.ReplaceAll(escape(strings.ReplaceAll(group(2), "**", "")), "|", "¦") + ">")
		case m[8] >= 0:
			b.WriteString("<" + escape(group(4)) + ">")
		case m[10] >= 0:
			b.WriteString("<" + group(5) + ">")
		default:
			b.WriteString("*" + inline(group(6)) + "*")
		}
		last = m[1]
	}
	b.WriteString(escape(line[last:]))
	return b.String()
}

// chunks cuts a text in Slack's markup at ends of lines into pieces of at most so many characters; a fence that is open at a
// cut is closed and opened again.
func chunks(text string, most int) []string {
	var out []string
	var b strings.Builder
	open := false
	flush := func() {
		if !blank(strings.ReplaceAll(b.String(), "```", "")) {
			s := b.String()
			if open {
				s += "```"
			}
			out = append(out, strings.TrimSuffix(s, "\n"))
		}
		b.Reset()
		if open {
			b.WriteString("```\n")
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		for utf8.RuneCountInString(b.String())+utf8.RuneCountInString(line)+8 > most {
			if utf8.RuneCountInString(line)+16 <= most {
				flush()
				break
			}
			at := cutAt(line, most-16)
			b.WriteString(line[:at])
			line = line[at:]
			flush()
		}
		b.WriteString(line + "\n")
		if line == "```" {
			open = !open
		}
	}
	open = false
	flush()
	return out
}
