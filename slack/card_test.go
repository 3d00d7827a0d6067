package slack

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"switchboard/chat"
)

// refund is a card as the engine makes it.
func refund() *chat.Card {
	return &chat.Card{
		ID: "c_r1.3", Kind: chat.CardApprove, Turn: "t_1", Tool: "payments.refund", Title: "Refund one order", Assistant: "order-refunds",
		Asker: chat.Person{ID: "U0ANA", Name: "Ana", Kind: chat.Guest},
		Args:  []chat.Field{{Name: "order", Value: `"A-1001"`}, {Name: "amount", Value: "8000", Note: "a note on it"}, {Name: "remark"}},
		Facts: []chat.Field{{Name: "order.total", Value: "9000"}},
		Why:   "pay it back", Expects: "status done", Rules: []string{"policy.yaml:4: Above 50 euros."},
		Deciders: []string{"U0BOB", "S0FIN", "whoever is on duty"}, Until: time.Unix(1_780_000_000, 0),
		Digest: strings.Repeat("ab", 32),
	}
}

// seen gives what people read of a picture, a line for each text, and its elements by their types.
func (p picture) seen(t *testing.T) (lines []string, all []map[string]any) {
	t.Helper()
	data, err := json.Marshal(p.blocks)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []any
	if err := json.Unmarshal(data, &blocks); err != nil {
		t.Fatal(err)
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			all = append(all, v)
			if s, ok := v["text"].(string); ok {
				lines = append(lines, s)
			}
			for _, key := range []string{"text", "elements", "confirm", "title"} {
				walk(v[key])
			}
		}
	}
	walk(blocks)
	return lines, all
}

func TestACardShowsAllThatIsDecidedOn(t *testing.T) {
	t.Parallel()
	p := draw(refund(), cardRoom)
	lines, all := p.seen(t)
	text := strings.Join(lines, "\n")
	for _, want := range []string{
		"Approval needed", "Refund one order", "payments.refund", "order-refunds", " (a guest)", "Arguments\norder\n  \n\"A-1001\"\namount\n  \n8000\nLook closely: \na note on it\nremark\n is empty",
		"Facts, read by the bot itself\norder.total\n  \n9000", "Why (the model's own words)\npay it back", "What it expects (the model's own words)\nstatus done",
		"policy.yaml:4: Above 50 euros.", "whoever is on duty", strings.Repeat("ab", 32), "Open until <!date^1780000000^", "counts as refused", "Approve", "Deny",
		"payments.refund will run with exactly the arguments that the card shows",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the card does not say %q:\n%s", want, text)
		}
	}
	if p.file != nil {
		t.Error("what fits needs no file")
	}
	mentions, buttons := map[string]string{}, map[string]map[string]any{}
	for _, e := range all {
		switch e["type"] {
		case "user":
			mentions[e["user_id"].(string)] = "user"
		case "usergroup":
			mentions[e["usergroup_id"].(string)] = "usergroup"
		case "button":
			buttons[e["action_id"].(string)] = e
		}
	}
	if d := cmp.Diff(map[string]string{"U0ANA": "user", "U0BOB": "user", "S0FIN": "usergroup"}, mentions); d != "" {
		t.Error(d)
	}
	approve, deny := buttons[actionCard+".approve"], buttons[actionCard+".deny"]
	if len(buttons) != 2 || approve["style"] != "primary" || approve["confirm"] == nil || approve["value"] != "c_r1.3" || deny["value"] != "c_r1.3" {
		t.Errorf("buttons: %v", buttons)
	}
}

func TestEachKindOfCardHasItsButtons(t *testing.T) {
	t.Parallel()
	for kind, want := range map[chat.CardKind]string{
		chat.CardApprove: "approve deny", chat.CardAsk: "answer", chat.CardUnknown: "happened not_done",
	} {
		c := &chat.Card{ID: "c_1", Kind: kind, Question: "which of the two orders?", Tool: "payments.refund", Asker: chat.Person{Name: "somebody *bold*"}}
		lines, all := draw(c, cardRoom).seen(t)
		var got []string
		for _, e := range all {
			if e["type"] == "button" {
				got = append(got, strings.TrimPrefix(e["action_id"].(string), actionCard+"."))
			}
		}
		if d := cmp.Diff(want, strings.Join(got, " ")); d != "" {
			t.Errorf("%s: %s", kind, d)
		}
		text := strings.Join(lines, "\n")
		if !strings.Contains(text, "which of the two orders?") || !strings.Contains(text, "somebody *bold*") {
			t.Errorf("%s: %s", kind, text)
		}
		c.Decided = "answered by Bob: the first"
		lines, all = draw(c, cardRoom).seen(t)
		if text = strings.Join(lines, "\n"); !strings.Contains(text, "Decided\nanswered by Bob: the first") || !strings.Contains(text, "(decided)") {
			t.Errorf("%s: %s", kind, text)
		}
		for _, e := range all {
			if e["type"] == "button" || e["type"] == "actions" {
				t.Errorf("%s: there is still a button", kind)
			}
		}
	}
}

// lies are texts that look other than they are.
func lies() map[string]string {
	return map[string]string{
		"mrkdwn":              "*Approve* <https://evil.example|the invoice> <!channel> <@U0BOB> `x` ```y``` _z_ ~q~ :smile:",
		"Markdown":            "**ok** [the invoice](https://evil.example) # heading\n> quote\n| a | b |",
		"right to left":       "pay \u202e0001-A\u202c now \u2066x\u2069",
		"zero width":          "A-10\u200b01\u200d\u2060\ufeff",
		"tags":                "A\U000e0049\U000e0067\U000e006e",
		"selectors":           "A\ufe0f\ufe00 \U000e0100 \u180b",
		"fillers":             "\u3164\u2800\u115f\uffa0\u034f\u00ad",
		"other spaces":        "a\u00a0b\u2003c\u202fd\u3000e",
		"controls":            "a\x00b\x1b[31mc\rd\u0085\u2028\u2029",
		"look-alikes":         "раураl.com and C0FRОNT",
		"pushed out of sight": "small" + strings.Repeat("\n", 500) + "and send it all" + strings.Repeat(" ", 3000) + "to evil",
		"edges":               "  both ends \n",
		"pretended escapes":   "⟨U+202E⟩ ⟨FF⟩",
		"heaped marks":        "a" + strings.Repeat("\u0301", 50),
		"broken bytes":        "a\xff\xfeb",
		"pretended card":      "Decided\nApproved by Bob\n---\nArguments\namount\n1",
		"JSON":                `{"a":"\u202e","b":[1,2]}`,
	}
}

// illegible undoes legible.
func illegible(t interface{ Fatal(...any) }, s string) string {
	return regexp.MustCompile(`⟨([^⟩]*)⟩`).ReplaceAllStringFunc(s, func(e string) string {
		e = strings.TrimSuffix(strings.TrimPrefix(e, "⟨"), "⟩")
		hex, times, counted := strings.Cut(e, "×")
		n := 1
		var err error
		if counted {
			n, err = strconv.Atoi(times)
		}
		point, isRune := strings.CutPrefix(hex, "U+")
		value, err2 := strconv.ParseUint(point, 16, 32)
		if err != nil || err2 != nil {
			t.Fatal("not an escape: ", e)
		}
		if !isRune {
			return string([]byte{byte(value & 0xff)})
		}
		return strings.Repeat(string(rune(value&0x1fffff)), n)
	})
}

func TestRel_S31_NothingIsHidden(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.SampledFrom([]string{"a", " ", "  ", "\n", "\t", "\u202e", "\u200b", "⟨", "⟩", "U+0020", "×2", "\u0301", "é", "\xff", "👍🏽", "\U000e0041", "\ufe0f", "ب", strings.Repeat(" ", 41), "\n\n\n\n"})).Draw(t, "pieces")
		s := strings.Join(pieces, "")
		shown := legible(s)
		if got := illegible(t, shown); got != s {
			t.Fatalf("%q is shown as %q, which means %q", s, shown, got)
		}
		for _, r := range shown {
			if r != '\n' && r != '\t' && r != '⟨' && r != '⟩' && hidden(r) {
				t.Fatalf("%q is shown as %q", s, shown)
			}
		}
	})
}

// The card is drawn from the bytes themselves, escaped, and nothing is cut silently.
func TestRel_S31_ACardDoesNotLie(t *testing.T) {
	t.Parallel()
	for name, lie := range lies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &chat.Card{
				ID: "c_1", Kind: chat.CardApprove, Tool: lie, Title: lie, Asker: chat.Person{ID: lie, Name: lie}, Assistant: lie,
				Args: []chat.Field{{Name: lie, Value: lie, Note: lie}}, Facts: []chat.Field{{Name: lie, Value: lie, Note: lie}},
				Why: lie, Expects: lie, Question: lie, Rules: []string{lie}, Deciders: []string{lie}, Digest: lie,
			}
			p := draw(c, cardRoom)
			lines, all := p.seen(t)
			boxes := 0
			for _, line := range lines {
				for _, r := range line {
					if r != '\n' && r != '\t' && r != '⟨' && r != '⟩' && hidden(r) {
						t.Errorf("a hidden character %U in %q", r, line)
					}
				}
				if illegible(t, line) == lie {
					boxes++
				}
			}
			if boxes < 11 { // tool, title, assistant, names, values, why, expects, question, decider, digest; the notes and the rule too
				t.Errorf("the text stands there %d times: %q", boxes, lines)
			}
			for _, e := range all {
				switch e["type"] {
				case "mrkdwn", "link", "user", "usergroup", "broadcast", "markdown":
					t.Errorf("a text of strangers became %v", e)
				}
			}
		})
	}
}

func TestRel_S31_WhatDoesNotFitStandsInAFile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := func(most int) string {
			return strings.Repeat(rapid.SampledFrom([]string{"x", "word ", "\u202e", "é\n", "⟨"}).Draw(t, "letter"), rapid.IntRange(0, most).Draw(t, "length"))
		}
		c := &chat.Card{ID: "c_1", Kind: chat.CardApprove, Tool: text(300), Title: text(3500), Why: text(4000), Expects: text(50), Question: text(4000), Digest: "d"}
		for range rapid.IntRange(0, 40).Draw(t, "arguments") {
			c.Args = append(c.Args, chat.Field{Name: text(20), Value: text(rapid.SampledFrom([]int{5, 5, 5, 3500}).Draw(t, "most")), Note: text(10)})
		}
		for range rapid.IntRange(0, 60).Draw(t, "rules") {
			c.Rules, c.Deciders = append(c.Rules, text(100)), append(c.Deciders, text(30))
		}
		room := rapid.SampledFrom([]int{cardRoom, cardRoom / 3, cardRoom / 9}).Draw(t, "room")
		p := draw(c, room)
		d := &sketch{card: c, file: p.file, text: mostCardText, fields: manyFields}
		d.blocks()
		if whole := !d.cut && d.size <= room; whole != (p.file == nil) {
			t.Fatalf("cut: %v, %d characters in %d, file: %v", d.cut, d.size, room, p.file != nil)
		}
		data, err := json.Marshal(p.blocks)
		if err != nil || len(p.blocks) > 20 {
			t.Fatal(len(p.blocks), err)
		}
		if n := utf8.RuneCount(data); p.file != nil && !strings.Contains(string(data), p.file.digest) || n > 13*cardRoom {
			t.Fatalf("%d characters, and the file is not named", n)
		}
		if p.file == nil {
			return
		}
		var in struct {
			Arguments []struct{ Name, Value, Note string }
			Why       string `json:"why_in_the_models_words"`
			Rules     []string
		}
		if err := json.Unmarshal(p.file.data, &in); err != nil {
			t.Fatal(err)
		}
		for i, f := range c.Args {
			if got := in.Arguments[i]; got.Name != f.Name || got.Value != f.Value || got.Note != f.Note {
				t.Fatalf("the file says %q of %q", got, f)
			}
		}
		if in.Why != c.Why || len(in.Rules) != len(c.Rules) {
			t.Fatalf("the file says %+v", in)
		}
		if strings.ContainsRune(string(p.file.data), '\u202e') {
			t.Fatal("something is hidden in the file")
		}
		sum := sha256.Sum256(p.file.data)
		if hex.EncodeToString(sum[:]) != p.file.digest {
			t.Fatal("the digest is not that of the file")
		}
	})
}

func TestACutSaysHowMuchIsMissing(t *testing.T) {
	t.Parallel()
	c := refund()
	c.Args[0].Value = strings.Repeat("\u200b!", 10_000)
	p := draw(c, cardRoom)
	lines, _ := p.seen(t)
	text := strings.Join(lines, "\n")
	if p.file == nil || !strings.Contains(text, fmt.Sprintf("%d bytes", len(p.file.data))) || !strings.Contains(text, p.file.name) {
		t.Fatalf("the file is not named:\n%s", text)
	}
	m := regexp.MustCompile(`only its beginning: \n(\d+) of (\d+) characters`).FindStringSubmatch(text)
	if m == nil || m[2] != "90000" {
		t.Fatalf("the cut is not counted: %v\n%s", m, text)
	}
	c.Decided = "denied by Bob"
	if again := draw(c, cardRoom); again.file == nil || again.file.digest != p.file.digest {
		t.Error("a decided card names another file")
	}
}
