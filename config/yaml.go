package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"switchboard/config/expr"

	"go.yaml.in/yaml/v3"
)

// source is one YAML file while it is read.
type source struct {
	l       *loader
	name    string
	lines   []string
	spoiled map[*yaml.Node]bool // nodes with a problem that is reported already
}

// open parses a file. It gives nil when the file has no content that can be read, which is then reported.
func (l *loader) open(f File) (*source, *yaml.Node) {
	d := &source{l: l, name: f.Name, lines: strings.Split(string(f.Data), "\n"), spoiled: map[*yaml.Node]bool{}}
	if !utf8.Valid(f.Data) {
		for i, line := range d.lines {
			if !utf8.ValidString(line) {
				l.report(Place{f.Name, i + 1, 1}, "the line is not valid UTF-8", "save the file as UTF-8")
				return nil, nil
			}
		}
	}
	if i := bytes.IndexByte(f.Data, 0); i >= 0 {
		l.report(Place{f.Name, 1 + bytes.Count(f.Data[:i], []byte("\n")), 1}, "the file holds a zero byte", "save it as text")
		return nil, nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(f.Data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		l.report(Place{f.Name, 1, 1}, "the file is empty", "write its keys, or delete the file")
		return nil, nil
	} else if err != nil {
		d.syntax(err)
		return nil, nil
	}
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		d.syntax(err)
		return nil, nil
	default:
		l.report(d.at(&second), "a second document begins here; it would be lost", "put it into a file of its own, without the --- line")
		return nil, nil
	}
	if len(doc.Content) != 1 {
		l.report(Place{f.Name, 1, 1}, "the file is empty", "write its keys, or delete the file")
		return nil, nil
	}
	d.vet(doc.Content[0])
	return d, doc.Content[0]
}

// at is where a node stands.
func (d *source) at(n *yaml.Node) Place { return Place{d.name, max(n.Line, 1), max(n.Column, 1)} }

// bad reports a problem at a node and spoils it.
func (d *source) bad(n *yaml.Node, msg, mend string) bool {
	if !d.spoiled[n] {
		d.l.report(d.at(n), msg, mend)
	}
	d.spoiled[n] = true
	return false
}

// vet refuses what YAML has beyond plain values: its own tags, anchors, aliases, merges.
func (d *source) vet(n *yaml.Node) {
	switch {
	case n.Kind == yaml.AliasNode:
		d.bad(n, "aliases (*"+n.Value+") are not part of a pack", "write the value out")
		return
	case n.Anchor != "":
		d.bad(n, "anchors (&"+n.Anchor+") are not part of a pack", "leave it out, and write the value where it is needed")
	case n.Tag == "!!merge":
		d.bad(n, "merges (<<) are not part of a pack", "write the keys out")
	case n.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(n.Tag, "!!"):
		d.bad(n, "an unquoted ! begins a YAML tag ("+n.Tag+")", "put the value in quotes: "+strconv.Quote(strings.TrimSpace(n.Tag+" "+n.Value)))
	case n.Style&yaml.TaggedStyle != 0 && n.Tag != "!!str" && n.Tag != "!!map" && n.Tag != "!!seq":
		d.bad(n, "tags ("+n.Tag+") are not part of a pack", "leave it out")
	}
	for _, c := range n.Content {
		d.vet(c)
	}
}

// syntax reports what yaml could not parse. Its messages carry a line at most, and that one low for the parser's own.
func (d *source) syntax(err error) {
	msg, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if m := syntaxLine.FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1])
		msg = m[2]
		if strings.HasPrefix(msg, "did not find expected") && !strings.Contains(msg, "alphabetic") && !strings.Contains(msg, "hexdecimal") {
			line++ // a message of the parser, not of the scanner
		}
	}
	line = min(max(line, 1), len(d.lines))
	for line > 1 && strings.TrimSpace(d.lines[line-1]) == "" {
		line--
	}
	p, hint := d.trap(line, msg)
	if hint == "" {
		p, hint = Place{d.name, line, firstCol(d.lines[line-1])}, "look for a missing quote, bracket, colon or indent here or just above"
	}
	d.l.report(p, "the YAML cannot be read: "+msg, hint)
}

func firstCol(line string) int {
	return 1 + utf8.RuneCountInString(line) - utf8.RuneCountInString(strings.TrimLeft(line, " \t"))
}

// trap is one of the ways in which a line that looks right is no YAML. The first group of re is the place.
type trap struct {
	re   *regexp.Regexp
	hint string
}

var (
	syntaxLine = regexp.MustCompile(`^line (\d+): (.*)$`)
	tabTrap    = regexp.MustCompile(`^ *(\t)`)
	startTrap  = regexp.MustCompile(`: ([>|*&%@` + "`" + `][^\n]*)$`)
	askTrap    = regexp.MustCompile(`[\[{].*?[^"'](\?)\s*[,\]}]`)
	colonTrap  = regexp.MustCompile(`^[^"'#\[{]*: [^"'#\[{]*?(: )`)
	plainTrap  = regexp.MustCompile(`^\s*(?:- +)*[^"'#\[{:\s][^:]*: +[^"'\[{|>#\s].*?(: )`)
	flowTrap   = regexp.MustCompile(`\w: +[^"'\[{\s][^{}]*? \? [^{}]*?(: )`)
	afterTrap  = regexp.MustCompile(`: (?:"[^"]*"|'[^']*')\s+([^\s#,}\]])`)
	quoteTrap  = regexp.MustCompile(`(?:: |- |[\[{,] ?)(["'])[^"']*$`)
	openTrap   = regexp.MustCompile(`([\[{])[^\]}]*$`)
)

func traps() []trap {
	return []trap{
		{tabTrap, "indent with spaces, not with a tab"},
		{startTrap, "put the value in quotes: it begins with a character that YAML keeps for itself"},
		{askTrap, "a ? before a comma or a bracket must stand in quotes; or write the list one item a line"},
		{colonTrap, "a colon followed by a space must stand in quotes"},
		{afterTrap, "text goes on after a closing quote: put the whole value in quotes of the other kind"},
		{quoteTrap, "the quote is not closed on this line"},
		{openTrap, "the bracket is not closed on this line"},
	}
}

// trap looks for a known slip: on the line and the one above, and, where YAML notices a slip only later or names the
// beginning of what it was reading, in the rest of the file.
func (d *source) trap(line int, msg string) (Place, string) {
	try := func(at int, t trap) (Place, bool) {
		m := t.re.FindStringSubmatchIndex(d.lines[at-1])
		if m == nil {
			return Place{}, false
		}
		return Place{d.name, at, 1 + utf8.RuneCountInString(d.lines[at-1][:m[2]])}, true
	}
	all := traps()
	for _, far := range []struct {
		msg      string
		from, to int
		trap     trap
	}{
		{"tab character", line, len(d.lines), all[0]},
		{"did not find expected key", line, len(d.lines), all[4]},
		{"unexpected end of stream", 1, len(d.lines), all[5]},
		{"mapping values are not allowed", line, line, trap{plainTrap, all[3].hint}},
		{"did not find expected ',' or '}'", line, line, trap{flowTrap, all[3].hint}},
	} {
		for at := far.from; strings.Contains(msg, far.msg) && at <= far.to; at++ {
			if p, ok := try(at, far.trap); ok {
				return p, far.trap.hint
			}
		}
	}
	for _, at := range []int{line, line - 1} {
		for _, t := range all {
			if at < 1 {
				continue
			}
			if p, ok := try(at, t); ok {
				return p, t.hint
			}
		}
	}
	return Place{}, ""
}

// line gives a raw line of the file without its end, as characters; nil beyond the file.
func (d *source) line(n int) []rune {
	if n < 1 || n > len(d.lines) {
		return nil
	}
	return []rune(strings.TrimSuffix(d.lines[n-1], "\r"))
}

// exact says whether places within the text map to places in the file: not so in text that YAML folds.
func (d *source) exact(n *yaml.Node) bool {
	raw := d.line(n.Line)
	if n.Column > len(raw)+1 || n.Column < 1 {
		return false
	}
	raw = raw[n.Column-1:]
	switch {
	case n.Style&yaml.LiteralStyle != 0:
		return true
	case n.Style&yaml.FoldedStyle != 0:
		return false
	case n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		_, closed := unquoted(raw)
		return closed
	default:
		return strings.HasPrefix(string(raw), n.Value)
	}
}

// spot maps a place within the text of a scalar (line and column from 1, in characters) to its place in the file.
func (d *source) spot(n *yaml.Node, line, col int) Place {
	if !d.exact(n) {
		return d.at(n)
	}
	switch {
	case n.Style&yaml.LiteralStyle != 0:
		text := strings.Split(n.Value, "\n")
		raw := d.line(n.Line + line)
		if line > len(text) || raw == nil {
			return d.at(n)
		}
		indent := len(raw) - utf8.RuneCountInString(text[line-1])
		return Place{d.name, n.Line + line, max(indent, 0) + col}
	case n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		at := 0 // index of the character in the text
		for i, r := range []rune(n.Value) {
			if line == 1 && col == 1 {
				break
			}
			if at = i + 1; r == '\n' && line > 1 {
				line--
			} else if line == 1 {
				col--
			}
		}
		cols, _ := unquoted(d.line(n.Line)[n.Column-1:])
		if at < len(cols) {
			return Place{d.name, n.Line, n.Column + cols[at]}
		}
		return d.at(n)
	default:
		return Place{d.name, n.Line, n.Column + col - 1}
	}
}

// unquoted gives, for each character of the text that a quoted scalar holds (and for its end), how far from the opening
// quote it is written. closed is false when the quote does not close on this line.
func unquoted(raw []rune) (cols []int, closed bool) {
	if len(raw) == 0 {
		return nil, false
	}
	quote := raw[0]
	for i := 1; i < len(raw); {
		cols = append(cols, i)
		switch {
		case quote == '\'' && raw[i] == '\'' && i+1 < len(raw) && raw[i+1] == '\'':
			i += 2
		case raw[i] == quote:
			return cols, true
		case quote == '"' && raw[i] == '\\' && i+1 < len(raw):
			i += escapeLen(raw[i+1])
		default:
			i++
		}
	}
	return cols, false
}

func escapeLen(r rune) int {
	switch r {
	case 'x':
		return 4
	case 'u':
		return 6
	case 'U':
		return 10
	default:
		return 2
	}
}

// issues reports what is wrong with an expression, at its places in the file. Names that do not exist are given to missing,
// which says whether it takes care of them.
func (d *source) issues(n *yaml.Node, found []expr.Issue, missing func(expr.Issue, Place) bool) bool {
	for _, i := range found {
		p := d.spot(n, i.Line, i.Col)
		if missing == nil || i.Name == "" || !missing(i, p) {
			hint := i.Hint
			if hint == "" {
				hint = "correct the expression"
			}
			d.l.report(p, i.Msg, hint)
		}
	}
	return len(found) == 0
}

// foldedExpr refuses an expression whose place in the file would be lost.
func (d *source) foldedExpr(n *yaml.Node) bool {
	if d.exact(n) {
		return false
	}
	d.bad(n, "an expression cannot stand in text that YAML folds", "write the text on one line, in quotes, or as a block that begins with |")
	return true
}

// found words what stands at a node.
func (d *source) found(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "keys and values"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "nothing"
	case n.Tag == "!!int" || n.Tag == "!!float":
		return "the number " + n.Value
	case n.Tag == "!!bool":
		return n.Value
	default:
		return "text"
	}
}

// expected reports that something else stands at the node than is wanted.
func (d *source) expected(n *yaml.Node, want, mend string) bool {
	if n.Tag == "!!null" && n.Kind == yaml.ScalarNode {
		if raw := string(d.line(n.Line)); strings.Contains(raw, ": #") || strings.Contains(raw, "- #") {
			mend = "an unquoted # begins a comment: put the value in quotes"
		}
	}
	return d.bad(n, fmt.Sprintf("expected %s, found %s", want, d.found(n)), mend)
}
