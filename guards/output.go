package guards

import (
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Output is the one filter on every text that leaves (rule M7): links, images and mentions pass only if they are allowed.
//
// The same text is posted as Slack's own markup, as Markdown and as plain text in a terminal, each with its own idea of
// what becomes a link. So the filter trusts no reading of the text: it takes apart every form it knows, then looks at all
// that is left for anything that a client could turn into a link, and repeats until nothing changes.
type Output struct {
	Links    []string // whole host names that may be linked to, in ASCII (xn--…); host:port for a port of its own
	Mentions []string // ids that may be mentioned (U0ANA, C0FRONT, S0FIN); channel, here, everyone for all at once
}

// RemovedKind says what was taken out.
type RemovedKind string

// The kinds of things that are taken out.
const (
	RemovedLink    RemovedKind = "link"
	RemovedImage   RemovedKind = "image"
	RemovedMention RemovedKind = "mention"
	RemovedHidden  RemovedKind = "hidden" // characters that nobody sees
)

// Removed is one thing that was taken out. What is a host, a scheme or an id, at most 100 bytes; "" for hidden characters.
type Removed struct {
	Kind RemovedKind
	What string
}

const (
	maxPasses = 12   // a text that has not settled by then is flattened
	maxDepth  = 6    // of links within the words of links
	maxForm   = 3000 // bytes of one form, from its opening to its closing character
)

// Clean gives the text without what is not allowed, and what was taken out. A removed link keeps its words and is marked
// "(link removed)"; a bare address is replaced by the mark, a bare host name keeps its letters (evil[.]com). Cleaning a
// clean text changes nothing. A text of which nothing is left becomes "".
func (o Output) Clean(text string) (string, []Removed) {
	f := o.filter()
	text = f.clean(text)
	if strings.TrimSpace(text) == "" {
		text = ""
	}
	return text, f.removed
}

func (o Output) filter() *filter {
	f := &filter{links: map[string]bool{}, mentions: map[string]bool{}}
	for _, host := range o.Links {
		f.links[strings.TrimSuffix(strings.ToLower(host), ".")] = true
	}
	for _, id := range o.Mentions {
		f.mentions[strings.ToLower(id)] = true
	}
	return f
}

// filter is one cleaning: what is allowed, and what was found so far.
type filter struct {
	links, mentions map[string]bool
	gone            map[string]bool // labels of the definitions that this pass took out
	removed         []Removed
}

func (f *filter) took(kind RemovedKind, what string) {
	if len(what) > 100 {
		what = strings.ToValidUTF8(what[:100], "")
	}
	f.removed = append(f.removed, Removed{kind, what})
}

// clean cleans until nothing changes.
func (f *filter) clean(text string) string {
	for range maxPasses {
		next := f.pass(text)
		if next == text {
			return text
		}
		text = next
	}
	return f.flat(text)
}

// pass cleans once.
func (f *filter) pass(text string) string {
	f.gone = map[string]bool{}
	text = decode(f.visible(text))
	// Slack reads its mentions before it reads anything else, across lines and fences.
	text = sigil.ReplaceAllStringFunc(text, func(m string) string {
		if size, by := f.angle(m, true, 0); size == len(m) {
			return by
		}
		return m
	})
	var out strings.Builder
	fences(text, func(part string, code bool) {
		if !code {
			part = f.definitions(part)
		}
		out.WriteString(part)
	})
	text = out.String()
	out.Reset()
	fences(text, func(part string, code bool) { out.WriteString(f.scan(part, code, 0)) })
	return out.String()
}

// flat is for a text that does not settle: everything that forms are made of becomes a space.
func (f *filter) flat(text string) string {
	f.took(RemovedLink, "")
	text = strings.Map(func(r rune) rune {
		if strings.ContainsRune("<>[]()@:/\\.&`"+dots, r) {
			return ' '
		}
		return r
	}, norm.NFKC.String(text))
	return f.visible(text)
}

// visible takes out what nobody sees: control, zero-width, bidi and tag characters, variation selectors. A joiner or a
// selector that makes an emoji stays.
func (f *filter) visible(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if strings.ContainsAny(text, "\r\u0085\u2028\u2029") {
		text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n").Replace(text)
	}
	if !strings.ContainsFunc(text, hidden) {
		return text
	}
	runes := []rune(text)
	kept := make([]rune, 0, len(runes))
	for i, r := range runes {
		if hidden(r) {
			emoji := len(kept) > 0 && pictured(kept[len(kept)-1])
			if !emoji || r != '\ufe0f' && (r != '\u200d' || i+1 == len(runes) || !pictured(runes[i+1])) {
				continue
			}
		}
		kept = append(kept, r)
	}
	if len(kept) < len(runes) {
		f.took(RemovedHidden, "")
	}
	return string(kept)
}

func hidden(r rune) bool {
	if r == '\n' || r == '\t' {
		return false
	}
	return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) ||
		unicode.Is(unicode.Variation_Selector, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// pictured says whether a character is (part of) an emoji, to which a joiner or a selector may be added.
func pictured(r rune) bool {
	return r == '\ufe0f' || r >= 0x2190 && (unicode.Is(unicode.So, r) || unicode.Is(unicode.Sm, r)) || r >= 0x1f3fb && r <= 0x1f3ff
}

var sigil = regexp.MustCompile(`<\s*[!@#][^<>]*>`)

var entity = regexp.MustCompile(`&(?:#[0-9]{1,7};?|#[xX][0-9a-fA-F]{1,6};?|[A-Za-z][A-Za-z0-9]{1,31};)`)

// decode resolves entities that stand for a character of an address or of a form. Those of < > & and quotes stay: they
// keep a form harmless.
func decode(text string) string {
	if !strings.Contains(text, "&") {
		return text
	}
	return entity.ReplaceAllStringFunc(text, func(e string) string {
		plain := []rune(unescape(e))
		if len(plain) != 1 {
			return e
		}
		r := plain[0]
		if hidden(r) || strings.ContainsRune("\t\n"+dots, r) || r > ' ' && r < 0x7f && !strings.ContainsRune(`<>&"'`, r) {
			return string(r)
		}
		return e
	})
}

var fence = regexp.MustCompile("(?m)^[ \t>]*(```+|~~~+)[^`\n]*$")

// fences hands the text on in order, part by part, and says which parts are fenced code.
func fences(text string, give func(part string, code bool)) {
	for text != "" {
		open := fence.FindStringSubmatchIndex(text)
		if open == nil {
			give(text, false)
			return
		}
		if open[0] > 0 {
			give(text[:open[0]], false)
		}
		mark, end := text[open[2]:open[3]], len(text)
		for at := open[1]; at < len(text); {
			line, _, more := strings.Cut(text[at+1:], "\n")
			if trimmed := strings.Trim(line, " \t>"); strings.HasPrefix(trimmed, mark) && strings.Trim(trimmed, mark[:1]) == "" {
				end = at + 1 + len(line)
				break
			}
			if at += 1 + len(line); !more {
				break
			}
		}
		give(text[open[0]:end], true)
		text = text[end:]
	}
}

// scan cleans one part: forms first, then all that is left between them.
func (f *filter) scan(text string, code bool, depth int) string {
	var out strings.Builder
	from := 0 // where the text begins that belongs to no form
	swap := func(at, size int, by string) {
		out.WriteString(f.bare(text[from:at], code))
		out.WriteString(by)
		from = at + size
	}
	for i := 0; i < len(text); {
		size, by := 0, ""
		switch c := text[i]; {
		case c == '<':
			size, by = f.angle(text[i:], code, depth)
		case code:
		case c == '`':
			if size = span(text[i:]); size > 0 {
				by = f.scan(text[i:i+size], true, depth)
			}
		case c == '!' && strings.HasPrefix(text[i+1:], "["):
			if size, by = f.bracket(text[i+1:], RemovedImage, depth); size > 0 {
				size++
			}
		case c == '[':
			size, by = f.bracket(text[i:], RemovedLink, depth)
		}
		if size == 0 {
			i++
			continue
		}
		swap(i, size, by)
		i += size
	}
	swap(len(text), 0, "")
	return out.String()
}

// span gives the length of the code span that the text begins with, backticks included; 0 when it is none on this line.
func span(text string) int {
	n := len(text) - len(strings.TrimLeft(text, "`"))
	line, _, _ := strings.Cut(text[:min(len(text), maxForm)], "\n")
	for at := n; at < len(line); {
		next := strings.IndexByte(line[at:], '`')
		if next < 0 {
			return 0
		}
		at += next
		run := len(line[at:]) - len(strings.TrimLeft(line[at:], "`"))
		if at += run; run == n {
			return at
		}
	}
	return 0
}

// words cleans the visible words of a form.
func (f *filter) words(text string, depth int) string {
	if depth >= maxDepth {
		return f.flat(text)
	}
	return f.scan(text, false, depth+1)
}

// marked gives the words of something removed, with the mark behind them.
func marked(words string, kind RemovedKind) string {
	mark := "(link removed)"
	if kind == RemovedImage {
		mark = "(image removed)"
	}
	if words = strings.TrimSpace(words); words == "" || words == mark {
		return mark
	}
	if strings.HasSuffix(words, mark) {
		return words
	}
	return words + " " + mark
}
