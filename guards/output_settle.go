package guards

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Settled gives the length of the longest beginning of a text that may be shown while more of the text is to come. It ends
// at a space, outside of every form that is still open: a link, a mention, an image, a code span, the first line of a
// fence, a definition, a word that could become an address. In an open fence it ends behind a whole line.
//
// What may be shown still has to be cleaned; and where a definition comes after the words that it makes a link of, Clean
// changes those words later.
func (o Output) Settled(text string) int {
	plain, back := unfold(text)
	n, _ := settle(plain, place{})
	return back.at(n)
}

// place is where a part of a text begins: what of the text before it matters to it.
type place struct {
	fence  string // the mark of the fence that is open; "" outside
	inLine bool   // on its line stands something already that keeps the rest from beginning a fence or a definition
}

// settle says how much of a text is settled, and at what place the rest begins.
func settle(text string, p place) (int, place) {
	w := walk{text: text[:openAngle(text)], place: p}
	w.run()
	switch {
	case w.fence != "":
		w.inLine = false
	case w.safe > 0:
		line := text[:w.safe]
		if i := strings.LastIndexByte(line, '\n'); i >= 0 {
			line, w.inLine = line[i+1:], false
		}
		w.inLine = w.inLine || strings.Trim(line, " \t>*+-") != "" // these may stand before a fence or a definition
	}
	return w.safe, w.place
}

// walk goes over a text once and skips whole forms.
type walk struct {
	place
	text string
	i    int // where it is
	safe int // up to where the text is settled
	form int // where a form ends that began in a line which was gone past as a whole
}

// settled notes that the text is settled up to here, unless a form goes on.
func (w *walk) settled(n int) {
	if n >= w.form {
		w.safe = n
	}
}

func (w *walk) run() {
	starts := !w.inLine // a line begins here
	foreign := true     // the word that is being read holds letters of scripts without spaces only
	for w.i < len(w.text) {
		if w.fence != "" || starts {
			from := w.i
			if !w.line() {
				return
			}
			if w.i > from {
				starts = true
				continue
			}
			starts = false
		}
		r, size := utf8.DecodeRuneInString(w.text[w.i:])
		switch {
		case blank(r):
			w.i += size
			w.settled(w.i)
			starts, foreign = r == '\n', true
		case strings.ContainsRune("`<![", r):
			skip, open := form(w.text[w.i:])
			if open {
				return
			}
			w.i += skip
			foreign = false
		default:
			w.i += size
			if foreign = foreign && spaceless(r); foreign && unicode.IsPunct(r) {
				if next, _ := utf8.DecodeRuneInString(w.text[w.i:]); spaceless(next) && unicode.IsLetter(next) {
					w.settled(w.i)
				}
			}
		}
	}
}

// blank says whether a character ends a word for all readings of the filter: some take other spaces for letters.
func blank(r rune) bool { return r == ' ' || r == '\t' || r == '\n' }

// spaceless says whether a character belongs to a script that sets no spaces between words.
func spaceless(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || r >= 0x3001 && r <= 0x301b || strings.ContainsRune("ー！，：；？（）", r)
}

var (
	// mayFence is the beginning of a line that could become the first of a fence.
	mayFence = regexp.MustCompile("^[ \t>]*(?:`{0,2}|~{0,2}|(?:```+|~~~+)[^`]*)$")
	// mayDefine is the beginning of a line that could become a definition.
	mayDefine = regexp.MustCompile(`^[ \t>*+\-]{0,20}\[`)
)

// line looks at the line that begins here. It reports false when the text is open from here on. What is a matter of whole
// lines it goes past: fences and definitions.
func (w *walk) line() bool {
	line, _, whole := strings.Cut(w.text[w.i:], "\n")
	end := w.i + len(line) + 1
	switch {
	case w.fence != "":
		if !whole {
			return false
		}
		if closes(line, w.fence) {
			w.fence = ""
		}
		w.pass(end)
	case !whole && mayFence.MatchString(line):
		return false
	case whole && fence.MatchString(line):
		w.fence = fence.FindStringSubmatch(line)[1]
		w.pass(end)
	default:
		m := mayDefine.FindString(line)
		if m == "" {
			return true
		}
		label := w.text[w.i+len(m)-1:]
		at, open := labelled(label)
		if at == 0 {
			return !open
		}
		// The label may have brought line ends of its own.
		target, _, whole := strings.Cut(label[at:], "\n")
		end := w.i + len(m) - 1 + at + len(target) + 1
		if whole && strings.Trim(target, " \t>") == "" {
			target, _, whole = strings.Cut(w.text[end:], "\n")
			end += len(target) + 1
		}
		if !whole {
			return false
		}
		w.pass(end)
	}
	return true
}

// labelled reads the label of a definition with its colon. size 0: it is none, or not known yet. Definitions are taken out
// even if their label goes over paragraphs.
func labelled(text string) (size int, open bool) {
	escaped := false
	for i, r := range text[1:] {
		if escaped || r == '\\' {
			escaped = !escaped
			continue
		}
		switch {
		case i > 2*mostLabel || r == '[':
			return 0, false
		case r == ']':
			after := text[i+2:]
			if strings.HasPrefix(after, ":") {
				return i + 3, false
			}
			return 0, after == ""
		}
	}
	return 0, true
}

// mostLabel is how many characters a label has at most; with escapes they are twice as many.
const mostLabel = 300

// pass goes past whole lines. They are settled unless a form in angle brackets goes on behind them.
func (w *walk) pass(end int) {
	w.i = end
	for at := max(0, end-maxForm); at < end; at++ {
		if w.text[at] != '<' {
			continue
		}
		rest := w.text[at:min(len(w.text), at+maxForm)]
		if i := matching(rest); at+i >= end && closedAngle(rest[1:i]) {
			w.form = max(w.form, at+i+1)
		}
	}
	w.settled(end)
}

// closes says whether a line ends a fence with this mark.
func closes(line, mark string) bool {
	trimmed := strings.Trim(line, " \t>")
	return strings.HasPrefix(trimmed, mark) && strings.Trim(trimmed, mark[:1]) == ""
}

// form reads what may be a form at the beginning of a text: how much of the text it takes, or that it is not known yet.
func form(text string) (size int, open bool) {
	switch text[0] {
	case '`':
		if size = span(text); size > 0 {
			return size, false
		}
		return 1, len(text) < maxForm && !strings.Contains(text, "\n")
	case '<':
		return angled(text)
	case '!':
		if len(text) > 1 && text[1] != '[' {
			return 1, false
		}
		if len(text) == 1 {
			return 0, true
		}
		size, open = bracketed(text[1:])
		return size + 1, open
	default:
		return bracketed(text)
	}
}

// angled reads a form in angle brackets, or a tag with all that it makes a link of. What is open, openAngle has seen to.
func angled(text string) (size int, open bool) {
	end := matching(text[:min(len(text), maxForm)])
	if end < 0 || !closedAngle(text[1:end]) {
		return 1, false
	}
	size = end + 1
	if m := tag.FindStringSubmatch(text[1:end]); m == nil || !strings.EqualFold(m[1], "a") {
		return size, false
	}
	rest := text[size:]
	if end := anchor.FindStringIndex(rest[:min(len(rest), maxForm)]); end != nil {
		return size + end[1], false
	}
	return size, len(rest) < maxForm && !paragraph(rest)
}

// matching gives the place of the > that belongs to the < at the beginning; -1 without one. What stands in angle brackets
// within is taken out first, which makes one form of the rest.
func matching(text string) int {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '<':
			depth++
		case '>':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// paragraph says whether a paragraph ends in a text.
func paragraph(text string) bool { return strings.Contains(text, "\n\n") }

// bracketed reads a [ with what belongs to it.
func bracketed(text string) (size int, open bool) {
	end := closing(text)
	if end < 0 {
		return 1, len(text) < maxForm && !ended(text)
	}
	after := text[end+1:]
	switch {
	case after == "":
		return 0, true
	case after[0] == '(':
		size, open = target(after)
	}
	return end + 1 + size, open
}

// ended says whether the paragraph of a text has ended, as closing sees it.
func ended(text string) bool {
	for i := range len(text) {
		if text[i] == '\n' && strings.HasPrefix(strings.TrimLeft(text[i+1:], " \t"), "\n") {
			return true
		}
	}
	return false
}

// target reads the part of a link from its ( on, by the steps of destination.
func target(text string) (size int, open bool) {
	more := len(text) < maxForm // spaces and titles go over paragraphs
	at := 1 + space(text[1:])
	if strings.HasPrefix(text[at:], "<") {
		end := strings.IndexAny(text[at+1:], ">\n")
		if end < 0 {
			return 0, more
		}
		at += end + 2
	} else {
		at += balanced(text[at:])
	}
	at += space(text[at:])
	if at < len(text) && strings.ContainsRune(`"'(`, rune(text[at])) {
		size := title(text[at:])
		if size == 0 && more {
			return 0, true
		}
		at += size
		at += space(text[at:])
	}
	if at >= len(text) {
		return 0, more
	}
	if text[at] == ')' {
		return at + 1, false
	}
	depth := 0
	for i := range min(len(text), maxForm) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1, false
			}
		}
	}
	return 0, more && !paragraph(text)
}

// openAngle gives the place of the first < that may still become a mention, a link or a tag; the length of the text when
// there is none. Slack reads these anywhere, also in code.
func openAngle(text string) int {
	for at := 0; ; at++ {
		i := strings.IndexByte(text[at:], '<')
		if i < 0 {
			return len(text)
		}
		at += i
		rest := text[at+1 : min(len(text), at+maxForm)]
		if len(rest) == maxForm-1 {
			continue // too long for any form
		}
		if mayAngle(rest) && matching(text[at:at+1+len(rest)]) < 0 {
			return at
		}
	}
}

// mayTag is the beginning of a tag that leads somewhere, behind its <.
var mayTag = regexp.MustCompile(`(?i)^(?:[a-z]*$|(?:a|img|image|iframe|frame|script|link|base|meta|form|input|button|area|video|audio|source|track|embed|object|svg|math|style|body)[\s/])`)

// mayAngle says whether a text could be what stands in angle brackets, as long as nothing has closed them.
func mayAngle(text string) bool {
	trimmed := strings.TrimLeft(text, " \t\n")
	if trimmed == "" || strings.ContainsRune("!@#", rune(trimmed[0])) || mayTag.MatchString(text) {
		return true
	}
	target, _, named := strings.Cut(text, "|")
	if leading(target) {
		return true
	}
	if named {
		return false
	}
	return scheme.MatchString(trimmed) || !strings.ContainsFunc(trimmed, unicode.IsSpace)
}

// leading says whether a target may lead somewhere, as angle does.
func leading(target string) bool {
	target = strings.NewReplacer("\t", "", "\n", "").Replace(target)
	return !strings.ContainsFunc(target, unicode.IsSpace) || spaced.MatchString(strings.TrimSpace(target))
}

// closedAngle says the same of a text that is closed: a comparison is none.
func closedAngle(text string) bool {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || strings.ContainsRune("!@#", rune(trimmed[0])) || tag.MatchString(text) {
		return trimmed != ""
	}
	target, _, _ := strings.Cut(text, "|")
	return leading(target)
}

// origin says for each byte of an unfolded text where that ends which it came from; nil: in the same place.
type origin []int

// at gives the place in the text itself that n bytes of the unfolded text reach to.
func (o origin) at(n int) int {
	if o == nil || n == 0 {
		return n
	}
	return o[n-1]
}

// unfold resolves what could hide a form: entities, characters that nobody sees, other line ends. What the end of the text
// leaves open of these belongs to a word, or is left out.
func unfold(text string) (string, origin) {
	if !strings.ContainsAny(text, "&\r") && !strings.ContainsFunc(text, unplain) {
		return text, nil
	}
	var plain strings.Builder
	var back origin
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		as := text[i : i+size]
		switch {
		case r == '\r':
			if i+1 == len(text) {
				return plain.String(), back // half of a line end, or all of it
			}
			if text[i+1] == '\n' {
				size = 2
			}
			as = "\n"
		case r == '\u0085' || r == '\u2028' || r == '\u2029':
			as = "\n"
		case hidden(r):
			as = ""
		case r == '&':
			if m := entity.FindStringIndex(text[i:min(len(text), i+40)]); m != nil && m[0] == 0 {
				size = m[1]
				as = decode(text[i : i+size])
				if r, _ := utf8.DecodeRuneInString(as); hidden(r) {
					as = ""
				}
			}
		}
		i += size
		plain.WriteString(as)
		for range len(as) {
			back = append(back, i)
		}
	}
	return plain.String(), back
}

func unplain(r rune) bool {
	return r >= 0x7f && (hidden(r) || r == '\u2028' || r == '\u2029') || r < ' ' && r != '\n' && r != '\t'
}
