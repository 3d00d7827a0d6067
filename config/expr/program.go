package expr

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Program is a compiled expression. It is safe for use by many goroutines at once.
type Program struct {
	src  string
	prg  cel.Program
	vars []Var
	out  *cel.Type
	cond bool
	seen []string // the variables that it names; none: it always has the same value

	pick  string              // the variable whose text chooses the form
	forms map[string]*Program // nil: there is one form
}

// Value compiles an expression that may give anything.
func (e *Env) Value(src string) (*Program, []Issue) { return e.program(src, false) }

// Condition compiles an expression that must give true or false.
func (e *Env) Condition(src string) (*Program, []Issue) { return e.program(src, true) }

// compiled is what became of a wish.
type compiled struct {
	p      *Program
	issues []Issue
}

func (e *Env) program(src string, cond bool) (*Program, []Issue) {
	w := wish{strings.TrimRight(src, " \t\r\n"), cond} // so that the end of the text is a place in it
	if c, ok := e.done.Load(w); ok {
		if c, ok := c.(compiled); ok {
			return c.p, slices.Clone(c.issues)
		}
	}
	p, issues := e.build(w.src, cond)
	e.done.Store(w, compiled{p, issues})
	return p, slices.Clone(issues)
}

func (e *Env) build(src string, cond bool) (*Program, []Issue) {
	if strings.TrimSpace(src) == "" {
		return nil, []Issue{{Line: 1, Col: 1, Msg: "the expression is empty", Hint: "write one, or leave the key out"}}
	}
	checked, issues := e.compile(src)
	if len(issues) > 0 {
		return nil, issues
	}
	out := checked.OutputType()
	if cond && out.Kind() != types.BoolKind && out.Kind() != types.DynKind {
		return nil, []Issue{{
			Line: 1, Col: 1, Msg: "the condition gives " + typeName(out) + ", not true or false",
			Hint: "compare it with something",
		}}
	}
	prg, err := e.cel.Program(checked, cel.CostLimit(costLimit), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, []Issue{{Line: 1, Col: 1, Msg: "the expression cannot run: " + err.Error(), Hint: "correct it"}}
	}
	return &Program{src: src, prg: prg, vars: e.vars, out: out, cond: cond, seen: e.variables(checked)}, nil
}

// typeName words a type for people.
func typeName(t *cel.Type) string {
	switch t.Kind() {
	case types.StringKind:
		return "text"
	case types.IntKind, types.UintKind, types.DoubleKind:
		return "a number"
	case types.ListKind:
		return "a list"
	case types.StructKind, types.MapKind:
		return "an object"
	case types.NullTypeKind:
		return "nothing"
	case types.TimestampKind:
		return "a moment"
	case types.DurationKind:
		return "a duration"
	default:
		return "a " + t.String()
	}
}

// variables lists those that the expression names.
func (e *Env) variables(checked *cel.Ast) (out []string) {
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		if x.Kind() == ast.IdentKind && slices.ContainsFunc(e.vars, func(v Var) bool { return v.Name == x.AsIdent() }) {
			out = append(out, x.AsIdent())
		}
	}))
	return out
}

// Sees says whether the expression names the variable.
func (p *Program) Sees(name string) bool { return slices.Contains(p.seen, name) }

// ByName joins programs of one source that were compiled for different types: pick names the text variable that chooses.
func ByName(pick string, forms map[string]*Program) *Program {
	if len(forms) == 1 {
		for _, p := range forms {
			return p
		}
	}
	p := &Program{pick: pick, forms: forms}
	for _, f := range forms {
		p.src, p.cond, p.seen, p.out = f.src, f.cond, f.seen, f.out
	}
	return p
}

// Short says whether the value can be a text or a whole number; if not, what it is instead, in words.
func (p *Program) Short() (instead string, ok bool) {
	switch p.out.Kind() {
	case types.StringKind, types.IntKind, types.UintKind, types.DynKind:
		return "", true
	case types.DoubleKind:
		return "a number with a fraction", false
	default:
		return typeName(p.out), false
	}
}

// Source is the text of the expression.
func (p *Program) Source() string { return p.src }

// Constant says whether the expression depends on nothing, and then what it always gives.
func (p *Program) Constant() (value any, always bool) {
	if len(p.seen) > 0 {
		return nil, false
	}
	v, err := p.Eval(nil)
	return v, err == nil
}

// Eval gives the value as plain Go: nil, bool, int64, float64, string, []any or map[string]any; a moment or a duration
// becomes text. It fails on missing fields, wrong types and beyond the cost limit; a condition fails unless it is bool.
// Only variables that the environment declared are seen.
func (p *Program) Eval(vars map[string]any) (any, error) {
	if p.forms != nil {
		name, _ := vars[p.pick].(string)
		form := p.forms[name]
		if form == nil {
			return nil, fmt.Errorf("evaluate %q: it was not compiled for %s %q", p.src, p.pick, name)
		}
		return form.Eval(vars)
	}
	in := make(map[string]any, len(p.vars))
	for _, v := range p.vars {
		if value, ok := vars[v.Name]; ok {
			in[v.Name] = v.Type.fit(value)
		}
	}
	out, _, err := p.prg.Eval(in)
	if err != nil {
		return nil, fmt.Errorf("evaluate %q: %w", p.src, err)
	}
	v, err := plain(out)
	if err != nil {
		return nil, fmt.Errorf("evaluate %q: %w", p.src, err)
	}
	if _, ok := v.(bool); p.cond && !ok {
		return nil, fmt.Errorf("evaluate %q: the condition gave no true or false", p.src)
	}
	return v, nil
}

// Holds evaluates a condition.
func (p *Program) Holds(vars map[string]any) (bool, error) {
	v, err := p.Eval(vars)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("evaluate %q: the condition gave no true or false", p.src)
	}
	return b, nil
}

// plain turns a value of CEL into plain Go.
func plain(v ref.Val) (any, error) {
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		return plainUint(v)
	case types.Double:
		return float64(v), nil
	case types.String:
		return string(v), nil
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339Nano), nil
	case types.Duration:
		return v.String(), nil
	case traits.Lister:
		out := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			e, err := plain(it.Next())
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
		return out, nil
	case traits.Mapper:
		return plainMap(v)
	}
	return nil, fmt.Errorf("the value is %s, which JSON does not have", v.Type().TypeName())
}

func plainUint(v types.Uint) (any, error) {
	if v > 1<<63-1 {
		return nil, errors.New("the number is too large")
	}
	return int64(v), nil
}

func plainMap(m traits.Mapper) (any, error) {
	out := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		k := it.Next()
		key, ok := k.(types.String)
		if !ok {
			return nil, errors.New("an object has a key that is no text")
		}
		v, err := plain(m.Get(k))
		if err != nil {
			return nil, err
		}
		out[string(key)] = v
	}
	return out, nil
}

// outsideEnums finds comparisons that compile and never hold: with a text that the field cannot have.
func (e *Env) outsideEnums(checked *cel.Ast) []Issue {
	var out []Issue
	tree := checked.NativeRep()
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		if x.Kind() != ast.CallKind {
			return
		}
		call := x.AsCall()
		switch call.FunctionName() {
		case operators.Equals, operators.NotEquals:
			a, b := call.Args()[0], call.Args()[1]
			out = append(out, e.outside(tree, a, b)...)
			out = append(out, e.outside(tree, b, a)...)
		case operators.In:
			l := call.Args()[1]
			switch {
			case l.Kind() == ast.ListKind:
				for _, el := range l.AsList().Elements() {
					out = append(out, e.outside(tree, call.Args()[0], el)...)
				}
			case l.Kind() == ast.IdentKind && l.AsIdent() == DoneVar:
				out = append(out, e.neverDone(tree, call.Args()[0])...)
			}
		}
	}))
	return out
}

// outside complains when the literal is none of the values that the field can have.
func (e *Env) outside(tree *ast.AST, field, literal ast.Expr) []Issue {
	if literal.Kind() != ast.LiteralKind {
		return nil
	}
	value, ok := literal.AsLiteral().Value().(string)
	t, name := e.typeOf(tree, field)
	if !ok || t == nil || len(t.enum) == 0 || slices.Contains(t.enum, any(value)) {
		return nil
	}
	var known []string
	for _, v := range t.enum {
		if s, ok := v.(string); ok {
			known = append(known, s)
		}
	}
	at := tree.SourceInfo().GetStartLocation(literal.ID())
	i := Issue{Line: at.Line(), Col: at.Column() + 1, Msg: fmt.Sprintf("%s is never %q", name, value)}
	if i.Hint = "it is one of " + strings.Join(known, ", "); Near(value, known) != "" {
		i.Hint = fmt.Sprintf("did you mean %q?", Near(value, known))
	}
	return []Issue{i}
}

// neverDone complains when the literal is the name of no tool.
func (e *Env) neverDone(tree *ast.AST, literal ast.Expr) []Issue {
	at := slices.IndexFunc(e.vars, func(v Var) bool { return v.Name == DoneVar })
	if at < 0 || literal.Kind() != ast.LiteralKind {
		return nil
	}
	name, ok := literal.AsLiteral().Value().(string)
	tools := e.vars[at].Type.elem.enum
	if !ok || slices.Contains(tools, any(name)) {
		return nil
	}
	var known []string
	for _, v := range tools {
		if s, ok := v.(string); ok {
			known = append(known, s)
		}
	}
	place := tree.SourceInfo().GetStartLocation(literal.ID())
	i := Issue{Line: place.Line(), Col: place.Column() + 1, Msg: fmt.Sprintf("there is no tool %q to be done", name), Name: name, Of: DoneVar}
	if i.Hint = "name a tool of the pack"; Near(name, known) != "" {
		i.Hint = fmt.Sprintf("did you mean %q?", Near(name, known))
	}
	return []Issue{i}
}

// typeOf finds the declared type of a variable or of a field of a typed object.
func (e *Env) typeOf(tree *ast.AST, x ast.Expr) (*Type, string) {
	switch x.Kind() { //nolint:exhaustive // nothing else has a declared type
	case ast.IdentKind:
		for _, v := range e.vars {
			if v.Name == x.AsIdent() {
				return v.Type, v.Name
			}
		}
	case ast.SelectKind:
		sel := x.AsSelect()
		of := tree.GetType(sel.Operand().ID())
		if of == nil || e.objs.byName[of.TypeName()] == nil || sel.IsTestOnly() {
			return nil, ""
		}
		return e.objs.byName[of.TypeName()].fields[sel.FieldName()], sel.FieldName()
	}
	return nil, ""
}
