package main

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"switchboard/chat"
)

// printCard prints all of a card: every field whole, and in it every character. Each line begins with a bar, so that no text
// of a stranger can look like something that the bot says itself.
func printCard(p *page, c chat.Card) {
	heading := map[chat.CardKind]string{
		chat.CardApprove: "a call waits for a decision", chat.CardAsk: "a question waits for an answer", chat.CardUnknown: "nobody knows whether this took effect",
	}[c.Kind]
	bar(p, "", heading+"  "+c.ID)
	what := c.Tool
	if c.Title != "" {
		what += ": " + c.Title
	}
	bar(p, "what", what)
	by := personWords(c.Asker)
	if c.Assistant != "" {
		by += ", through the assistant " + c.Assistant
	}
	bar(p, "for", by)
	bar(p, "asks", c.Question)
	for _, list := range []struct {
		title  string
		fields []chat.Field
	}{{"with", c.Args}, {"facts", c.Facts}} {
		for _, f := range list.fields {
			bar(p, list.title, f.Name+" = "+f.Value)
			bar(p, "note", f.Note)
		}
	}
	bar(p, "why", c.Why)
	bar(p, "expects", c.Expects)
	for _, rule := range c.Rules {
		bar(p, "because", rule)
	}
	bar(p, "sends", c.Digest)
	if c.Decided != "" {
		bar(p, "decided", c.Decided)
		return
	}
	bar(p, "who may", strings.Join(c.Deciders, ", "))
	if !c.Until.IsZero() {
		bar(p, "until", moment(c.Until)+", then it counts as refused")
	}
}

// bar prints a text beside its name, line by line. What says nothing is left out.
func bar(p *page, name, text string) {
	if text == "" {
		return
	}
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			name = ""
		}
		p.print("  | %-8s %s\n", name, spelled(line))
	}
}

func personWords(p chat.Person) string {
	words := p.ID
	if p.Name != "" && p.Name != p.ID {
		words = p.Name + " (" + p.ID + ")"
	}
	switch p.Kind {
	case chat.Guest:
		words += ", a guest"
	case chat.External:
		words += ", from another organisation"
	case chat.Member:
	}
	return words
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// mostBlanks is how many spaces in a row are shown as such. More of them would push the rest out of sight.
const mostBlanks = 20

// spelled writes out what nobody sees in a line of text, or what would steer the terminal: ⟨U+202E⟩. The brackets are written
// out as well, so that no text looks like another.
func spelled(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&b, "⟨%02X⟩", s[i])
			i++
			continue
		}
		n := 1
		for r == ' ' && strings.HasPrefix(s[i+n:], " ") {
			n++
		}
		i += n * size
		switch {
		case n > mostBlanks:
			fmt.Fprintf(&b, "⟨U+0020×%d⟩", n)
		case unseen(r):
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		default:
			b.WriteString(strings.Repeat(string(r), n))
		}
	}
	return b.String()
}

// unseen says that a terminal shows nothing for a character, a space, or something that is not there.
func unseen(r rune) bool {
	switch {
	case r == ' ':
		return false
	case r == '⟨', r == '⟩', !unicode.IsPrint(r), unicode.Is(unicode.Variation_Selector, r):
		return true
	}
	return strings.ContainsRune("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0", r) // fillers, which count as letters
}
