package slack

import (
	"bytes"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// room is what fits into one message.
type room struct {
	bytes  int // of the text, with what is repeated in it
	blocks int // top-level blocks, which Slack turns into blocks of its own
	rows   int // of tables
	tables int
}

// usual is well below Slack's limits: 12,000 characters of Markdown and 50 blocks a message, 100 rows a table. Slack counts
// after a conversion of its own, and bytes are never fewer than characters.
// https://docs.slack.dev/reference/block-kit/blocks/markdown-block, …/table-block
func usual() room { return room{bytes: 9000, blocks: 40, rows: 90, tables: 10} }

// smaller is for what Slack has called too long, or has not understood.
func (r room) smaller() room {
	return room{bytes: max(r.bytes/2, 500), blocks: max(r.blocks/2, 1), rows: max(r.rows/2, 1), tables: 1}
}

// part is a piece of a reply that stands as a message of its own.
type part struct {
	text     string // Markdown that is whole in itself: fences closed and opened again, a table's header repeated
	from, to int    // the bytes of the reply that it carries
}

// parts splits Markdown into messages, at the ends of its blocks wherever it can, and never within a link, a mention or a
// character. The parts carry all of the text, in order. A text without a visible character has none.
func parts(markdown string, fits room) []part {
	if blank(markdown) {
		return nil
	}
	d := readDocument(markdown)
	var out []part
	for from, first := 0, 0; from < len(d.source); {
		p, next := d.take(from, first, fits)
		if blank(p.text) && len(out) > 0 {
			out[len(out)-1].to = p.to
		} else if !blank(p.text) {
			out = append(out, p)
		}
		from, first = p.to, next
	}
	if len(out) > 0 {
		out[0].from = 0
	}
	return out
}

// blank says that nobody would see anything of a text.
func blank(s string) bool {
	for _, r := range s {
		if !unicode.IsSpace(r) && !unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Cc, r) && r != '\u115f' && r != '\u3164' && r != '\u2800' {
			return false
		}
	}
	return true
}

// tidy makes every end of line the same, and takes the teeth out of what would call a whole channel. The filter on what
// leaves has done so already; here it is done once more since Slack's reading of <!…> in Markdown is not documented.
func tidy(markdown string) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "", "<!", "<\u200b!").Replace(strings.ToValidUTF8(markdown, "\ufffd"))
}

// How good a place the beginning of a line is to cut before it.
type grade int

const (
	never   grade = iota // a table's first rows, the end of a fence
	poor                 // within a paragraph or a fence
	fair                 // between a table's rows
	good                 // a list's item, or after an empty line
	perfect              // between two blocks of the document
)

// line is a line of the document, with what must be said again if the text is cut before it.
type line struct {
	start int
	grade grade
	tail  string // closes before the cut what is open
	head  string // opens it again after the cut
	block bool   // a top-level block begins here
	table bool   // a table begins here
	row   bool   // a row of a table
}

type document struct {
	source []byte
	lines  []line
	refs   []reference
	tail   string // closes a fence that the text leaves open
	head   string // opens it again
}

// reference is a definition of a link, which every part needs whose text refers to it.
type reference struct{ label, text string }

// readDocument finds the lines of a text and their grades.
func readDocument(markdown string) document {
	d := document{source: []byte(tidy(markdown))}
	for at := 0; at < len(d.source); {
		d.lines = append(d.lines, line{start: at, grade: poor})
		end := bytes.IndexByte(d.source[at:], '\n')
		if end < 0 {
			break
		}
		at += end + 1
	}
	blocks := parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...), parser.WithParagraphTransformers(append(
		parser.DefaultParagraphTransformers(), util.Prioritized(extension.NewTableParagraphTransformer(), 200))...))
	root := blocks.Parse(text.NewReader(d.source))
	d.gradeGaps()
	for _, s := range spread.FindAllIndex(d.source, -1) { // the words of a link may go over several lines
		for i := d.lineOf(s[0]) + 1; s[1]-s[0] <= longestForm && i > 0 && i < len(d.lines) && d.lines[i].start < s[1]; i++ {
			d.lines[i].grade = never
		}
	}
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering && n != root {
			d.grade(n)
		}
		return ast.WalkContinue, nil
	})
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		if i := d.lineOf(n.Pos()); i >= 0 {
			d.lines[i].block = true
			switch {
			case d.lines[i].grade == never:
			case afterHeading(n):
				d.lines[i].grade = poor
			default:
				d.lines[i].grade = perfect
			}
		}
	}
	return d
}

// afterHeading says that a block stands right under a heading, which would be left alone at the end of a message.
func afterHeading(n ast.Node) bool {
	p := n.PreviousSibling()
	return p != nil && p.Kind() == ast.KindHeading
}

// spread are links, which may go over several lines.
var spread = regexp.MustCompile(`\[[^\[\]]*\](\([^()]*\)|\[[^\[\]]*\])|<[^<>\s][^<>]*>`)

// gradeGaps marks the lines after empty ones, unless they are so far in that they would be read as code on their own.
func (d *document) gradeGaps() {
	for i := 1; i < len(d.lines); i++ {
		if blank(d.lineText(i-1)) && indent(d.lineText(i)) < 4 {
			d.lines[i].grade = good
		}
	}
}

func indent(s string) int { return len(s) - len(strings.TrimLeft(s, " \t")) }

// grade takes in what a node says about its lines.
func (d *document) grade(n ast.Node) {
	if n.Type() != ast.TypeBlock {
		return
	}
	at := d.lineOf(n.Pos())
	if at < 0 {
		return
	}
	switch n.Kind() {
	case ast.KindListItem:
		if d.lines[at].grade != never && indent(d.lineText(at)) < 4 {
			d.lines[at].grade = good
		}
	case ast.KindFencedCodeBlock:
		d.gradeFence(n, at)
	case extast.KindTableHeader:
		d.gradeTable(n, at)
	case ast.KindLinkReferenceDefinition:
		if def := strings.TrimSpace(d.lineText(at)); strings.HasPrefix(def, "[") {
			if label, _, ok := strings.Cut(def[1:], "]:"); ok {
				d.refs = append(d.refs, reference{label: strings.ToLower(label), text: def})
			}
		}
	}
}

// gradeFence says of the lines of a fence how to close it and open it again.
func (d *document) gradeFence(n ast.Node, at int) {
	opening := string(d.source[n.Pos():d.lineEnd(at)])
	mark := opening[:len(opening)-len(strings.TrimLeft(opening, opening[:1]))]
	last := at
	for i := range n.Lines().Len() {
		s := n.Lines().At(i)
		l := d.lineOf(s.Start)
		if l < 0 || l == at {
			continue
		}
		lead := string(d.source[d.lines[l].start:s.Start])
		if strings.TrimLeft(lead, " >\t") != "" {
			lead = ""
		}
		d.lines[l].tail, d.lines[l].head, d.lines[l].grade = lead+mark, lead+opening+"\n", poor
		last = l
	}
	if at+1 < len(d.lines) {
		d.lines[at+1].grade = never // the opening line alone
	}
	end := last + 1
	if end == len(d.lines) {
		lead := d.lineText(at)[:n.Pos()-d.lines[at].start]
		if strings.TrimLeft(lead, " >\t") != "" {
			lead = strings.Repeat(" ", len(lead))
		}
		d.tail, d.head = lead+mark, lead+opening+"\n"
		return
	}
	if strings.HasPrefix(strings.TrimLeft(d.lineText(end), " >\t"), mark) {
		d.lines[end].grade = never
		d.lines[end].tail, d.lines[end].head = d.lines[last].tail, d.lines[last].head
	}
}

// gradeTable says of a table's rows that they need its header.
func (d *document) gradeTable(n ast.Node, at int) {
	if at+1 >= len(d.lines) {
		return
	}
	head := d.lineText(at) + "\n" + d.lineText(at+1) + "\n"
	d.lines[at].table, d.lines[at].row = true, true
	d.lines[at+1].grade = never
	for i, row := at+2, n.NextSibling(); row != nil && i < len(d.lines); i, row = i+1, row.NextSibling() {
		d.lines[i].row, d.lines[i].head, d.lines[i].grade = true, head, fair
		if i == at+2 {
			d.lines[i].grade = never
		}
	}
}

// lineOf gives the number of the line that holds a place, or -1.
func (d *document) lineOf(at int) int {
	if at < 0 || at >= len(d.source) {
		return -1
	}
	low, high := 0, len(d.lines)
	for low < high {
		if mid := (low + high) / 2; d.lines[mid].start <= at {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low - 1
}

func (d *document) lineEnd(i int) int {
	end := len(d.source)
	if i+1 < len(d.lines) {
		end = d.lines[i+1].start - 1
	} else if end > 0 && d.source[end-1] == '\n' && end-1 >= d.lines[i].start {
		end--
	}
	return end
}

func (d *document) lineText(i int) string { return string(d.source[d.lines[i].start:d.lineEnd(i)]) }

// take gives the part that begins at a place within the line of number first, and the line that the next one begins in.
func (d *document) take(from, first int, fits room) (part, int) {
	head := d.lines[first].head
	best, blocks, tables, rows := -1, 0, 0, 0
	for i := first; ; i++ {
		if i == len(d.lines) { // all the rest fits, if its bytes do
			if d.size(head, from, len(d.source), d.tail) <= fits.bytes {
				return d.part(head, from, len(d.source), d.tail), i
			}
			break
		}
		if l := d.lines[i]; i > first {
			if d.size(head, from, l.start, l.tail) > fits.bytes {
				break
			}
			if l.grade != never && (best < 0 || l.grade >= d.lines[best].grade || d.lines[best].start-from < fits.bytes/3) {
				best = i
			}
		}
		blocks += count(d.lines[i].block || i == first)
		tables += count(d.lines[i].table || i == first && d.lines[i].row)
		rows += count(d.lines[i].row)
		if blocks > fits.blocks || tables > fits.tables || rows > fits.rows {
			break
		}
	}
	if best >= 0 {
		return d.part(head, from, d.lines[best].start, d.lines[best].tail), best
	}
	return d.within(from, first, fits)
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// within cuts a line that is too long for a message.
func (d *document) within(from, first int, fits room) (part, int) {
	l := d.lines[first]
	end := d.lineEnd(first)
	for first+1 < len(d.lines) && d.lines[first+1].grade == never && d.size(l.head, from, end, l.tail) <= fits.bytes {
		first++ // lines that belong together
		end = d.lineEnd(first)
	}
	limit := max(fits.bytes-len(l.head)-len(l.tail)-2, fits.bytes/4)
	if end-from <= limit {
		if first+1 < len(d.lines) {
			return d.part(l.head, from, d.lines[first+1].start, d.lines[first+1].tail), first + 1
		}
		return d.part(l.head, from, len(d.source), d.tail), len(d.lines)
	}
	at := from + cutAt(string(d.source[from:end]), limit)
	return d.part(l.head, from, at, l.tail), d.lineOf(at)
}

func (d *document) size(head string, from, to int, tail string) int {
	return len(head) + to - from + len(tail) + 1
}

func (d *document) part(head string, from, to int, tail string) part {
	body := string(d.source[from:to])
	if head == "" {
		for body != "" && strings.IndexByte(" \t\n", body[0]) >= 0 && (body[0] == '\n' || blank(firstLine(body))) {
			body = body[1:]
		}
	}
	if tail != "" {
		body = strings.TrimSuffix(body, "\n") + "\n" + tail
	} else {
		body = strings.TrimRight(body, " \t\n")
	}
	return part{text: d.define(head + body), from: from, to: to}
}

// define adds the definitions that a part refers to: nobody sees them, and a link without one is no link.
func (d *document) define(body string) string {
	const most = 1500
	added, low := 0, strings.ToLower(body)
	for _, ref := range d.refs {
		if added+len(ref.text) < most && strings.Contains(low, "["+ref.label+"]") && !strings.Contains(low, "["+ref.label+"]:") {
			body += "\n\n" + ref.text
			added += len(ref.text)
		}
	}
	return body
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// longestForm is in bytes. The filter on what leaves takes longer ones apart.
const longestForm = 4000

// uncut is what no cut may go through: links, mentions, code, entities, addresses.
var uncut = regexp.MustCompile("!?\\[[^\\[\\]]*\\](\\([^()]*\\)|\\[[^\\[\\]]*\\])?|<[^<>\\s][^<>]*>|`[^`\n]*`|&[a-z]+;|[a-z][a-z0-9+.-]*://[^\\s<>]+|\\S+@\\S+")

// cutAt gives the best place to cut a line, after at most limit bytes: a space before a word, else between two characters,
// and never within a link, an address, a mention or code.
func cutAt(line string, limit int) int {
	if len(line) <= limit {
		return len(line)
	}
	spans := uncut.FindAllStringIndex(line[:min(len(line), limit+longestForm)], -1)
	closed := func(at int) bool {
		for _, s := range spans {
			if s[0] < at && at < s[1] && s[1]-s[0] <= longestForm {
				return false
			}
		}
		return true
	}
	for at := limit; at > limit/3; at-- {
		if line[at-1] == ' ' && !closed(at) {
			continue
		}
		if r, _ := utf8.DecodeRuneInString(line[at:]); line[at-1] == ' ' && (unicode.IsLetter(r) || r >= 0x2000) {
			return at
		}
	}
	for at := limit; at > 0; at-- {
		if apart(line, at) && closed(at) {
			return at
		}
	}
	at := limit
	for at > 1 && !utf8.RuneStart(line[at]) {
		at--
	}
	return at
}

// apart says that a cut at a place leaves what people take for one character whole: letters with marks, emoji with their
// modifiers and joiners, flags.
func apart(s string, at int) bool {
	if !utf8.RuneStart(s[at]) {
		return false
	}
	next, _ := utf8.DecodeRuneInString(s[at:])
	before, _ := utf8.DecodeLastRuneInString(s[:at])
	const joiner = '\u200d'
	if before == joiner || next == joiner || unicode.In(next, unicode.M) || next >= 0x1f3fb && next <= 0x1f3ff || next >= 0xe0020 && next <= 0xe007f {
		return false
	}
	flag := func(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }
	if !flag(before) || !flag(next) {
		return true
	}
	run := 0 // flags are pairs of letters
	for end := at; end > 0; run++ {
		r, size := utf8.DecodeLastRuneInString(s[:end])
		if !flag(r) {
			break
		}
		end -= size
	}
	return run%2 == 0
}
