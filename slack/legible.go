package slack

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	mostSpaces = 40 // in a row, that are shown as what they are
	mostBreaks = 3  // ends of lines in a row
	mostMarks  = 4  // marks over one letter
)

// legible makes everything in a text something that people can see: what nobody sees, or sees elsewhere than where it
// stands, is written out as ⟨U+202E⟩, and repeated spaces and ends of lines that would push the rest out of sight as
// ⟨U+0020×200⟩. The brackets themselves are written out too, so that one text has one way to look, and no text looks like
// another.
func legible(s string) string {
	var b strings.Builder
	marks := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&b, "⟨%02X⟩", s[i])
			i++
			continue
		}
		if !unicode.In(r, unicode.Mn, unicode.Me) {
			marks = 0
		} else {
			marks++
		}
		n := 1
		if r == ' ' || r == '\n' || r == '\t' || hidden(r) {
			n = repeated(s[i:], r, size)
		}
		edge := i == 0 || i+n*size == len(s)
		switch i += n * size; {
		case r == ' ' && n <= mostSpaces && !edge, r == '\n' && n <= mostBreaks && !edge, r == '\t' && n <= mostSpaces && !edge:
			b.WriteString(strings.Repeat(string(r), n))
		case r == ' ' || r == '\n' || r == '\t' || hidden(r) || marks > mostMarks:
			b.WriteString(writtenOut(r, n))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// inLine is legible for what must stay in one line.
func inLine(s string) string {
	return strings.NewReplacer("\n", "⟨U+000A⟩", "\t", "⟨U+0009⟩").Replace(legible(s))
}

func writtenOut(r rune, n int) string {
	if n > 1 {
		return fmt.Sprintf("⟨U+%04X×%d⟩", r, n)
	}
	return fmt.Sprintf("⟨U+%04X⟩", r)
}

// repeated counts how often a text begins with a character.
func repeated(s string, r rune, size int) int {
	n := 1
	for at := size; strings.HasPrefix(s[at:], string(r)); at += size {
		n++
	}
	return n
}

// hidden says that people do not see a character, or take it for a space: controls, what directs bidirectional text, joiners,
// tags, selectors of variants, spaces other than the usual one, fillers, and what no font knows. The brackets that hidden
// ones are written in count as such.
func hidden(r rune) bool {
	switch {
	case r >= ' ' && r < 0x7f:
		return false
	case r == '⟨' || r == '⟩', !unicode.IsPrint(r):
		return true
	case r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0100 && r <= 0xe01ef, r >= 0x180b && r <= 0x180f:
		return true
	}
	switch r {
	case 0x034f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x2800, 0x3164, 0xffa0:
		return true
	}
	return false
}

// beginning cuts what legible gives to a number of characters, never within something that is written out. It says whether
// there was more.
func beginning(s string, most int) (head string, cut bool) {
	if utf8.RuneCountInString(s) <= most {
		return s, false
	}
	n := 0
	for at := range s {
		if n == most {
			head = s[:at]
			break
		}
		n++
	}
	if open := strings.LastIndex(head, "⟨"); open > strings.LastIndex(head, "⟩") {
		head = head[:open]
	}
	return head, true
}
