package guards

import (
	"html"
	"regexp"
	"strings"
	"unicode"
)

func unescape(text string) string { return html.UnescapeString(text) }

var definition = regexp.MustCompile(`(?m)^[ \t>*+\-]{0,20}\[((?:[^\[\]\\]|\\.){1,300})\]:[ \t]*\n?[ \t>]*(<[^>\n]*>|[^\s]+)([^\n]*)$`)

var titled = regexp.MustCompile(`^\s*(?:"[^"]*"|'[^']*'|\([^)]*\))?\s*$`)

// definitions takes out the lines that say where reference links lead, if it is somewhere not allowed, and remembers
// their labels. Footnotes are left to the scan.
func (f *filter) definitions(text string) string {
	return definition.ReplaceAllStringFunc(text, func(line string) string {
		m := definition.FindStringSubmatch(line)
		label, target, rest := m[1], strings.Trim(m[2], "<>"), m[3]
		if strings.HasPrefix(label, "^") || f.allowed(target) || !leads(target) || !titled.MatchString(rest) {
			return line
		}
		f.gone[foldLabel(label)] = true
		f.took(RemovedLink, whither(target))
		return ""
	})
}

func foldLabel(label string) string { return strings.ToLower(strings.Join(strings.Fields(label), " ")) }

// leads says whether a target could lead anywhere: one plain word cannot.
func leads(target string) bool { return strings.ContainsAny(target, `:/\.%&#@`) }

// bracket reads a link or an image in Markdown, from its [ on. size 0: it is none.
func (f *filter) bracket(text string, kind RemovedKind, depth int) (size int, by string) {
	end := closing(text)
	if end < 0 {
		return 0, ""
	}
	label, after := text[1:end], text[end+1:]
	switch {
	case strings.HasPrefix(after, "("):
		target, length, ok := destination(after)
		if !ok {
			return 0, ""
		}
		if !leads(target) {
			return 0, "" // one plain word, as in f[0](x)
		}
		size = end + 1 + length
		if f.allowed(target) && !strings.ContainsAny(target, "()") || f.allowed(target) && strings.HasPrefix(after[1:], target) {
			by = "[" + f.words(label, depth) + "](" + target + ")"
			if kind == RemovedImage {
				by = "!" + by
			}
			return size, by
		}
		f.took(kind, whither(target))
		return size, marked(f.words(label, depth), kind)
	case strings.HasPrefix(after, "["):
		if last := closing(after); last > 0 {
			name := after[1:last]
			if strings.TrimSpace(name) == "" {
				name = label
			}
			if f.gone[foldLabel(name)] {
				return end + 1 + last + 1, marked(f.words(label, depth), kind)
			}
		}
	}
	if f.gone[foldLabel(label)] {
		return end + 1, marked(f.words(label, depth), kind)
	}
	return 0, ""
}

// closing gives the place of the ] that belongs to the [ at the beginning; -1 when the paragraph ends before it.
func closing(text string) int {
	depth := 0
	for i := 0; i < len(text) && i < maxForm; i++ {
		switch text[i] {
		case '\\':
			i++
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return i
			}
		case '\n':
			if strings.HasPrefix(strings.TrimLeft(text[i+1:], " \t"), "\n") {
				return -1
			}
		}
	}
	return -1
}

// destination reads the part of a link from its ( on: where it leads, and how long the part is. Something that is no
// link by the book is taken for one all the same if it looks as if it leads somewhere: readers are lenient.
func destination(text string) (target string, length int, ok bool) {
	at := 1 + space(text[1:])
	if strings.HasPrefix(text[at:], "<") {
		if end := strings.IndexAny(text[at+1:], ">\n"); end >= 0 && text[at+1+end] == '>' {
			target, at = text[at+1:at+1+end], at+end+2
		}
	} else {
		end := at + balanced(text[at:])
		target, at = text[at:end], end
	}
	at += space(text[at:])
	at += title(text[at:])
	at += space(text[at:])
	if strings.HasPrefix(text[at:], ")") {
		return target, at + 1, strings.TrimSpace(target) != ""
	}
	paragraph, _, _ := strings.Cut(text[:min(len(text), maxForm)], "\n\n")
	end := nested(paragraph)
	if end < 0 {
		return "", 0, false
	}
	// A browser drops tabs and line ends within an address.
	inside := strings.TrimLeft(strings.TrimSpace(strings.NewReplacer("\t", "", "\n", "").Replace(paragraph[1:end])), "<")
	return inside, end + 1, strings.ContainsAny(inside, `/\`) || coloned.MatchString(inside)
}

// nested gives the place of the ) that belongs to the ( at the beginning, or of the last ) there is; -1 without one.
func nested(text string) int {
	depth := 0
	for i, r := range text {
		switch r {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return strings.LastIndexByte(text, ')')
}

// space counts the white space at the beginning.
func space(text string) int { return len(text) - len(strings.TrimLeft(text, " \t\n")) }

// balanced counts what belongs to a target: up to white space or a ) that was not opened in it.
func balanced(text string) int {
	depth := 0
	for i, r := range text {
		switch {
		case r == ' ' || r == '\t' || r == '\n', r == ')' && depth == 0, i >= maxForm: // no other space ends a target
			return i
		case r == '(':
			depth++
		case r == ')':
			depth--
		}
	}
	return len(text)
}

// title counts a title in quotes or parentheses at the beginning.
func title(text string) int {
	if text == "" || !strings.ContainsRune(`"'(`, rune(text[0])) {
		return 0
	}
	end := strings.ReplaceAll(text[:1], "(", ")")
	if i := strings.Index(text[1:min(len(text), maxForm)], end); i >= 0 {
		return i + 2
	}
	return 0
}

var (
	person  = regexp.MustCompile(`(?s)^\s*[@#]([A-Za-z0-9]+)\s*(?:\|(.*))?$`)
	special = regexp.MustCompile(`(?s)^!([A-Za-z]+)((?:\^[^|^]*)*)(?:\|(.*))?$`)
	scheme  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.\-]*:`)
	spaced  = regexp.MustCompile(`^(?:[A-Za-z][A-Za-z0-9+.\-]*:.*)?//`)
	coloned = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.\-]*:\S`)
	tag     = regexp.MustCompile(`(?is)^(a|img|image|iframe|frame|script|link|base|meta|form|input|button|area|video|audio|source|track|embed|object|svg|math|style|body)[\s/][^>]*=`)
	source  = regexp.MustCompile(`(?is)[\s/"'](?:href|src)\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)`)
	alt     = regexp.MustCompile(`(?is)\salt\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)`)
	anchor  = regexp.MustCompile(`(?i)</a\s*>`)
)

// angle reads a form in angle brackets: Slack's mentions and links, Markdown's <url>, tags of HTML. size 0: it is none.
func (f *filter) angle(text string, code bool, depth int) (size int, by string) {
	text = text[:min(len(text), 2*maxForm)]
	if end := strings.IndexByte(text, '>'); end > 0 && end < maxForm && !code && tag.MatchString(text[1:end]) {
		return f.html(text, text[1:end], depth)
	}
	end := strings.IndexAny(text[1:min(len(text), maxForm)], "<>")
	if end < 0 || text[1+end] != '>' {
		return 0, ""
	}
	size, inside := end+2, text[1:1+end]
	if m := person.FindStringSubmatch(inside); m != nil {
		return size, f.mention(m[1], strings.TrimSpace(inside)[:1], m[2], depth)
	}
	if m := special.FindStringSubmatch(inside); m != nil {
		return size, f.command(m[1], m[2], m[3], depth)
	}
	target, label, named := strings.Cut(inside, "|")
	target = strings.NewReplacer("\t", "", "\n", "").Replace(target) // as a browser does
	if strings.ContainsFunc(target, unicode.IsSpace) && !spaced.MatchString(strings.TrimSpace(target)) {
		return 0, "" // a comparison, a remark
	}
	switch known := scheme.MatchString(target); {
	case f.allowed(target):
		if named {
			return size, "<" + target + "|" + strings.NewReplacer("<", "", ">", "").Replace(f.words(label, depth)) + ">"
		}
		return size, "<" + target + ">"
	case code && !named && !strings.Contains(target, "//") && !address.MatchString(target):
		return 0, "" // code is full of <x:y>
	case !known && !strings.HasPrefix(target, "//") && !strings.Contains(target, "://") && (!named || !leads(target)):
		return 0, "" // also <ana@club.com> and <club.com>: the scan of bare text sees to them
	case !named && known && !address.MatchString(target):
		f.took(RemovedLink, whither(target))
		return size, f.bare(target, code)
	}
	f.took(RemovedLink, whither(target))
	return size, marked(f.words(label, depth), RemovedLink)
}

// mention lets an allowed one stand, without a label that could say anything.
func (f *filter) mention(id, sign, label string, depth int) string {
	if f.mentions[strings.ToLower(id)] {
		return "<" + sign + id + ">"
	}
	f.took(RemovedMention, id)
	if label = strings.TrimSpace(f.words(label, depth)); label == "" {
		return "(mention removed)"
	}
	return strings.TrimLeft(label, "@")
}

// command reads <!…>: groups, everybody at once, dates.
func (f *filter) command(name, parts, label string, depth int) string {
	id := name
	fields := strings.Split(strings.TrimPrefix(parts, "^"), "^")
	switch {
	case name == "date" && len(fields) == 2 && f.bare(parts, false) == parts:
		return "<!date" + parts + "|" + strings.NewReplacer("<", "", ">", "").Replace(f.words(label, depth)) + ">"
	case name == "date":
		f.took(RemovedLink, whither(fields[len(fields)-1]))
		return marked(f.words(label, depth), RemovedLink)
	case name == "subteam":
		id = fields[0]
	}
	if f.mentions[strings.ToLower(id)] && len(fields) == 1 {
		return "<!" + name + parts + ">"
	}
	f.took(RemovedMention, id)
	if label = strings.TrimLeft(strings.TrimSpace(f.words(label, depth)), "@"); label != "" {
		return label
	}
	if name == "subteam" {
		return "(mention removed)"
	}
	return name
}

// html reads a tag that can lead away or load something. An allowed a or img keeps its address and nothing else.
func (f *filter) html(text, inside string, depth int) (size int, by string) {
	size = len(inside) + 2
	name := strings.ToLower(tag.FindStringSubmatch(inside)[1])
	target := attribute(source, inside)
	quotable := f.allowed(target) && !strings.ContainsAny(target, `"&`)
	switch {
	case name == "a" && quotable:
		return size, `<a href="` + target + `">`
	case name == "img" && quotable:
		return size, `<img src="` + target + `">`
	case name == "a":
		f.took(RemovedLink, whither(target))
		if end := anchor.FindStringIndex(text[size:min(len(text), size+maxForm)]); end != nil {
			return size + end[1], marked(f.words(text[size:size+end[0]], depth), RemovedLink)
		}
		return size, "(link removed) "
	case name == "img" || name == "image":
		f.took(RemovedImage, whither(target))
		return size, marked(f.words(attribute(alt, inside), depth), RemovedImage)
	}
	f.took(RemovedLink, name)
	return size, ""
}

func attribute(which *regexp.Regexp, inside string) string {
	m := which.FindStringSubmatch(inside)
	if m == nil {
		return ""
	}
	return strings.TrimSpace(unescape(strings.Trim(m[1], `"'`)))
}
