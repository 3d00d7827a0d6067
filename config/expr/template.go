package expr

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
)

// Template is a value with expressions in it, written ${ … }: a text, or a whole tree of objects and lists. A text that is
// one whole expression keeps the expression's type; inside longer text only scalars may stand. $${ is a literal ${.
type Template struct {
	// Exactly one of these is set; a literal may be nil too.
	literal any
	whole   *Program
	parts   []part
	object  map[string]*Template
	list    []*Template
}

// part is a piece of text, or an expression within it.
type part struct {
	text string
	expr *Program
}

// Literal is a template without expressions.
func Literal(v any) *Template { return &Template{literal: v} }

// ObjectOf is an object whose values are templates.
func ObjectOf(fields map[string]*Template) *Template { return &Template{object: fields} }

// ListOf is a list of templates.
func ListOf(items []*Template) *Template { return &Template{list: items} }

// Template compiles a text.
func (e *Env) Template(src string) (*Template, []Issue) {
	pieces, issues := scan(src)
	if len(issues) > 0 {
		return nil, issues
	}
	t := &Template{}
	for _, pc := range pieces {
		if !pc.expr {
			t.parts = append(t.parts, part{text: pc.text})
			continue
		}
		p, found := e.Value(pc.text)
		if len(found) == 0 && len(pieces) > 1 && !scalar(p) {
			found = []Issue{{Line: 1, Col: 1, Msg: "the expression gives " + typeName(p.out) + "; inside text only text, numbers and true or false can stand", Hint: "choose one field of it"}}
		}
		for _, i := range found {
			if i.Line == 1 {
				i.Col += pc.col - 1
			}
			i.Line += pc.line - 1
			issues = append(issues, i)
		}
		t.parts = append(t.parts, part{expr: p})
	}
	switch {
	case len(issues) > 0:
		return nil, issues
	case len(t.parts) == 0:
		return Literal(""), nil
	case len(t.parts) == 1 && t.parts[0].expr != nil:
		return &Template{whole: t.parts[0].expr}, nil
	case len(t.parts) == 1:
		return Literal(t.parts[0].text), nil
	}
	return t, nil
}

// ByNameTemplate joins templates of one text that were compiled for different types, as ByName does.
func ByNameTemplate(pick string, forms map[string]*Template) *Template {
	var first *Template
	for _, name := range slices.Sorted(maps.Keys(forms)) {
		first = forms[name]
		break
	}
	if first == nil || len(forms) == 1 {
		return first
	}
	each := func(get func(*Template) *Program) *Program {
		programs := map[string]*Program{}
		for name, f := range forms {
			programs[name] = get(f)
		}
		return ByName(pick, programs)
	}
	if first.whole != nil {
		return &Template{whole: each(func(t *Template) *Program { return t.whole })}
	}
	t := &Template{literal: first.literal}
	for i, p := range first.parts {
		if p.expr != nil {
			p.expr = each(func(t *Template) *Program { return t.parts[i].expr })
		}
		t.parts = append(t.parts, p)
	}
	return t
}

func scalar(p *Program) bool {
	switch p.out.Kind() {
	case types.ListKind, types.MapKind, types.StructKind, types.NullTypeKind, types.TypeKind, types.BytesKind:
		return false
	default:
		return true
	}
}

// Eval fills the template in. It fails where an expression does.
func (t *Template) Eval(vars map[string]any) (any, error) {
	switch {
	case t.whole != nil:
		return t.whole.Eval(vars)
	case t.parts != nil:
		return t.join(vars)
	case t.object != nil:
		out := make(map[string]any, len(t.object))
		for _, k := range slices.Sorted(maps.Keys(t.object)) {
			v, err := t.object[k].Eval(vars)
			if err != nil {
				return nil, err
			}
			out[k] = v
		}
		return out, nil
	case t.list != nil:
		out := make([]any, len(t.list))
		for i, item := range t.list {
			v, err := item.Eval(vars)
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return out, nil
	default:
		return t.literal, nil
	}
}

// Text fills the template in and gives the result as text.
func (t *Template) Text(vars map[string]any) (string, error) {
	v, err := t.Eval(vars)
	if err != nil {
		return "", err
	}
	return inText(v)
}

func (t *Template) join(vars map[string]any) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.expr == nil {
			b.WriteString(p.text)
			continue
		}
		v, err := p.expr.Eval(vars)
		if err != nil {
			return "", err
		}
		s, err := inText(v)
		if err != nil {
			return "", fmt.Errorf("fill in ${ %s }: %w", strings.TrimSpace(p.expr.src), err)
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

// inText writes a scalar as people read it.
func inText(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case nil:
		return "", errors.New("there is no value")
	default:
		return "", errors.New("a list or an object cannot stand in text")
	}
}

// piece is a stretch of a template's source; line and col say where an expression begins, after its ${.
type piece struct {
	text      string
	expr      bool
	line, col int
}

// HasExpr says whether a text holds an expression.
func HasExpr(src string) bool {
	for i := strings.Index(src, "${"); i >= 0; {
		if i == 0 || src[i-1] != '$' {
			return true
		}
		next := strings.Index(src[i+2:], "${")
		if next < 0 {
			return false
		}
		i += 2 + next
	}
	return false
}

// Plain gives a text in which nothing is evaluated, each $${ turned into ${. An issue is a ${ that would stay as it is.
func Plain(src string) (string, []Issue) {
	var out strings.Builder
	var issues []Issue
	rs := []rune(src)
	line, col := 1, 1
	for i := 0; i < len(rs); i++ {
		switch {
		case starts(rs[i:], "$${"):
			i, col = i+1, col+1
		case starts(rs[i:], "${") && (i == 0 || rs[i-1] != '$'):
			issues = append(issues, Issue{
				Line: line, Col: col, Msg: "${ is not evaluated here",
				Hint: "write $${ for the two characters themselves",
			})
		}
		out.WriteRune(rs[i])
		if col++; rs[i] == '\n' {
			line, col = line+1, 1
		}
	}
	return out.String(), issues
}

// scan cuts a text at its expressions.
func scan(src string) ([]piece, []Issue) {
	var out []piece
	var lit strings.Builder
	rs := []rune(src)
	line, col := 1, 1
	step := func(n int, i int) {
		for _, r := range rs[i : i+n] {
			if r == '\n' {
				line, col = line+1, 1
			} else {
				col++
			}
		}
	}
	flush := func() {
		if lit.Len() > 0 {
			out = append(out, piece{text: lit.String()})
			lit.Reset()
		}
	}
	for i := 0; i < len(rs); {
		rest := rs[i:]
		switch {
		case starts(rest, "$${"):
			lit.WriteString("${")
			step(3, i)
			i += 3
		case starts(rest, "${"):
			end := exprEnd(rs, i+2)
			if end < 0 {
				return nil, []Issue{{Line: line, Col: col, Msg: "${ has no closing }", Hint: "close it, or write $${ for the two characters themselves"}}
			}
			flush()
			step(2, i)
			out = append(out, piece{text: string(rs[i+2 : end]), expr: true, line: line, col: col})
			step(end+1-(i+2), i+2)
			i = end + 1
		default:
			lit.WriteRune(rs[i])
			step(1, i)
			i++
		}
	}
	flush()
	return out, nil
}

func starts(rs []rune, s string) bool {
	return len(rs) >= len(s) && string(rs[:len(s)]) == s
}

// exprEnd finds the } that closes an expression, skipping CEL's strings, comments and brackets; -1 when there is none.
func exprEnd(rs []rune, i int) int {
	depth := 0
	for i < len(rs) {
		switch r := rs[i]; r {
		case '"', '\'':
			i = stringEnd(rs, i)
			if i < 0 {
				return -1
			}
			continue
		case '/':
			if i+1 < len(rs) && rs[i+1] == '/' {
				for i < len(rs) && rs[i] != '\n' {
					i++
				}
				continue
			}
		case '{', '[', '(':
			depth++
		case ']', ')':
			depth--
		case '}':
			if depth <= 0 {
				return i
			}
			depth--
		}
		i++
	}
	return -1
}

// stringEnd gives the index after a CEL string that opens at i; -1 when it does not close.
func stringEnd(rs []rune, i int) int {
	quote := string(rs[i])
	if starts(rs[i:], strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	raw := rawPrefix(rs, i)
	for i += len(quote); i < len(rs); i++ {
		switch {
		case rs[i] == '\\' && !raw:
			i++
		case rs[i] == '\n' && len(quote) == 1:
			return -1
		case starts(rs[i:], quote):
			return i + len(quote)
		}
	}
	return -1
}

// rawPrefix says whether the string at i is a raw one: r"", rb"", R""…, and not an identifier that ends in r.
func rawPrefix(rs []rune, i int) bool {
	j := i
	for j > 0 && strings.ContainsRune("rRbB", rs[j-1]) {
		j--
	}
	prefix := strings.ToLower(string(rs[j:i]))
	return strings.Contains(prefix, "r") && (j == 0 || !isWord(rs[j-1]))
}

func isWord(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}
