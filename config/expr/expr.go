// Package expr is the pack's expression language: CEL, typed from JSON Schemas, without side effects and with a bound on
// its cost. It is the only importer of cel-go and of the JSON Schema library.
//
// It must not know packs: no files, no keys, only sources and where in them a problem stands.
package expr

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"
)

// costLimit is the most work one evaluation may do, in CEL's own units; one comparison is about one. It stops nested loops
// over a few thousand rows within milliseconds.
const costLimit = 100_000

// maxSource is the longest expression, in characters.
const maxSource = 4_000

// Issue is what is wrong with a source, and where: Line and Col count from 1, in characters of the source.
type Issue struct {
	Line, Col int
	Msg       string
	Hint      string // what to write instead
	// Name is set when the source uses a name that does not exist: a field of Of, a variable when Of is "", or a tool when
	// Of is DoneVar.
	Name, Of string
}

// String gives line:col: message (hint).
func (i Issue) String() string {
	s := fmt.Sprintf("%d:%d: %s", i.Line, i.Col, i.Msg)
	if i.Hint != "" {
		s += " (" + i.Hint + ")"
	}
	return s
}

// Var is a name that expressions may use.
type Var struct {
	Name string
	Type *Type
}

// Env is a set of variables and functions. Env values never change; With makes wider ones at little cost.
type Env struct {
	cel  *cel.Env
	vars []Var
	objs *objects
	mu   sync.Mutex // held while the checker fills objs.missed
	done sync.Map   // what was compiled before, by wish: packs repeat themselves
}

// wish is an expression that somebody wants compiled.
type wish struct {
	src  string
	cond bool
}

// New makes an environment without variables. It costs about a millisecond: make one, and widen it.
func New() (*Env, error) {
	objs := &objects{}
	env, err := cel.NewEnv(
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.EagerlyValidateDeclarations(true),
		cel.ParserRecursionLimit(64),
		cel.ParserExpressionSizeLimit(maxSource),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals()),
		ext.Strings(ext.StringsVersion(3)),
		daysFunction(), sumFunction(), cel.Macros(doneMacro()),
	)
	if err != nil {
		return nil, fmt.Errorf("build the expression environment: %w", err)
	}
	return &Env{cel: env, objs: objs}, nil
}

// With adds variables.
func (e *Env) With(vars ...Var) (*Env, error) {
	all := append(slices.Clone(e.vars), vars...)
	objs := &objects{Provider: e.cel.CELTypeProvider(), byName: map[string]*Type{}, cels: map[string]*cel.Type{}}
	if base, ok := objs.Provider.(*objects); ok {
		objs.Provider = base.Provider
	}
	opts := []cel.EnvOption{cel.CustomTypeProvider(objs)}
	for i, v := range all {
		t := objs.declare(v.Name, v.Type)
		if i >= len(e.vars) {
			opts = append(opts, cel.Variable(v.Name, t))
		}
	}
	env, err := e.cel.Extend(opts...)
	if err != nil {
		return nil, fmt.Errorf("declare variables for expressions: %w", err)
	}
	return &Env{cel: env, vars: all, objs: objs}, nil
}

// daysFunction declares days(n): a duration of whole days, of up to a hundred years.
func daysFunction() cel.EnvOption {
	return cel.Function("days", cel.Overload("days_int", []*cel.Type{cel.IntType}, cel.DurationType,
		cel.UnaryBinding(func(v ref.Val) ref.Val {
			n, ok := v.(types.Int)
			if !ok || n < -36_500 || n > 36_500 {
				return types.NewErr("days takes a whole number between -36500 and 36500")
			}
			return types.Duration{Duration: day * duration(n)}
		})))
}

// doneMacro turns done("tool") into a look at DoneVar.
func doneMacro() cel.Macro {
	return cel.GlobalMacro("done", 1, func(x cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
		if args[0].Kind() == ast.LiteralKind {
			if _, ok := args[0].AsLiteral().Value().(string); ok {
				return x.NewCall(operators.In, args[0], x.NewIdent(DoneVar)), nil
			}
		}
		return nil, x.NewError(args[0].ID(), `done takes the name of a tool in quotes`)
	})
}

// sumFunction declares sum(list) and list.sum(): the sum of numbers, 0 for none.
func sumFunction() cel.EnvOption {
	list, elem := cel.ListType(cel.TypeParamType("T")), cel.TypeParamType("T")
	add := cel.UnaryBinding(func(v ref.Val) ref.Val {
		l, ok := v.(traits.Lister)
		if !ok {
			return types.MaybeNoSuchOverloadErr(v)
		}
		var total ref.Val = types.Int(0)
		for it := l.Iterator(); it.HasNext() == types.True; {
			n := it.Next()
			adder, ok := total.(traits.Adder)
			switch {
			case n.Type() != types.IntType && n.Type() != types.DoubleType || !ok:
				return types.NewErr("sum takes a list of numbers")
			case n.Type() == total.Type():
				total = adder.Add(n)
			default: // a list that mixes whole numbers and others
				total = asDouble(total).Add(asDouble(n))
			}
			if types.IsError(total) {
				return total
			}
		}
		return total
	})
	return cel.Function("sum", cel.Overload("sum_list", []*cel.Type{list}, elem, add),
		cel.MemberOverload("list_sum", []*cel.Type{list}, elem, add))
}

func asDouble(v ref.Val) types.Double {
	if n, ok := v.(types.Int); ok {
		return types.Double(n)
	}
	d, _ := v.(types.Double)
	return d
}

// compile parses and checks; when it fails there is at least one issue.
func (e *Env) compile(src string) (*cel.Ast, []Issue) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if utf8.RuneCountInString(src) > maxSource {
		return nil, []Issue{{Line: 1, Col: 1, Msg: fmt.Sprintf("the expression is longer than %d characters", maxSource), Hint: "split it"}}
	}
	e.objs.missed = nil
	ast, iss := e.cel.Compile(src)
	if iss.Err() == nil {
		return ast, e.outsideEnums(ast)
	}
	first := iss.Errors()[0] // one expression, one problem: what follows the first is often its echo
	if i, found := habit(src); found && strings.HasPrefix(first.Message, "Syntax error") {
		return nil, []Issue{i}
	}
	i := e.issue(first)
	i.Line, i.Col = first.Location.Line(), first.Location.Column()+1
	if i.Line < 1 {
		i.Line, i.Col = 1, 1
	}
	if i.Of != "" {
		i.Col++ // the checker points at the dot
	}
	return nil, []Issue{i}
}

// quoted finds the name that the checker complains about.
func quoted(msg string) string {
	m := regexp.MustCompile(`'([^']*)'`).FindStringSubmatch(msg)
	if m == nil {
		return ""
	}
	return m[1]
}

// issue words one of the checker's complaints for people, with the name they most likely meant.
func (e *Env) issue(err *cel.Error) Issue {
	msg := err.Message
	switch {
	case strings.HasPrefix(msg, "undefined field"):
		return e.undefinedField(quoted(msg))
	case strings.HasPrefix(msg, "undeclared reference"):
		return e.undeclared(quoted(msg))
	case strings.HasPrefix(msg, "Syntax error"):
		msg, _, _ = strings.Cut(strings.TrimPrefix(msg, "Syntax error: "), " expecting ")
		return Issue{Msg: "the expression cannot be read: " + plainSyntax(msg), Hint: "write CEL, for example args.amount > 5000 && args.status == \"open\""}
	case strings.HasPrefix(msg, "found no matching overload"):
		msg = strings.NewReplacer("found no matching overload for", "no operator or function", "applied to", "takes", "'", "").Replace(operatorName(msg))
		return Issue{Msg: msg, Hint: "compare and combine values of the same type"}
	default:
		return Issue{Msg: strings.ReplaceAll(msg, "'", `"`), Hint: "correct the expression"}
	}
}

// plainSyntax words the parser's end-of-text mark.
func plainSyntax(msg string) string {
	msg = strings.ReplaceAll(msg, "'<EOF>'", "the end of the text")
	return strings.ReplaceAll(strings.ReplaceAll(msg, "<EOF>", "the end of the text"), "'", `"`)
}

// operatorName turns CEL's inner names of operators (_>_) into what people write (>).
func operatorName(msg string) string {
	return regexp.MustCompile(`'[_!@-][^' ]*'`).ReplaceAllStringFunc(msg, func(s string) string {
		return strings.Trim(s, "'_@")
	})
}

func (e *Env) undefinedField(name string) Issue {
	of, known := "", []string(nil)
	for _, m := range e.objs.missed {
		if m.field == name {
			of, known = strings.TrimPrefix(m.object, "object "), e.objs.fields(m.object)
		}
	}
	i := Issue{Msg: fmt.Sprintf("%s has no field %q", of, name), Name: name, Of: of}
	switch near := Near(name, known); {
	case near != "":
		i.Hint = fmt.Sprintf("did you mean %q?", near)
	case len(known) == 0:
		i.Hint = "it has no fields here"
	default:
		i.Hint = "it has " + strings.Join(known, ", ")
	}
	return i
}

func (e *Env) undeclared(name string) Issue {
	i := Issue{Msg: fmt.Sprintf("unknown name %q in the expression", name), Name: name}
	functions := []string{"days", "duration", "timestamp", "has", "matches", "size", "sum"}
	var vars []string
	for _, v := range e.vars {
		if v.Name == DoneVar {
			functions = append(functions, "done")
			continue
		}
		vars = append(vars, v.Name)
	}
	if name == DoneVar {
		return Issue{Msg: "done(…) is not known here", Hint: "only conditions of a policy see it"}
	}
	switch near := Near(name, append(functions, vars...)); {
	case name == "env":
		i.Hint = "an expression cannot read the environment; only {env: NAME} in a key that takes it can"
	case name == "done" && slices.Contains(functions, "done"):
		i.Hint = `write done("tool"), with the name of one tool`
	case name == "not":
		i.Hint = "did you mean ! ?"
	case name == "scope":
		i.Hint = "scope is seen by policy conditions and bind only"
	case near != "":
		i.Hint = fmt.Sprintf("did you mean %q?", near)
	default:
		slices.Sort(vars)
		i.Hint = "it may use " + strings.Join(vars, ", ")
	}
	return i
}

// Reserved says whether CEL keeps the word for itself, so that it cannot name an argument.
func Reserved(name string) bool {
	switch name {
	case "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
		"namespace", "null", "package", "return", "true", "var", "void", "while":
		return true
	}
	return false
}
