package expr

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// object is the schema of an object, for tests.
func schemaOf(props map[string]any) map[string]any {
	return map[string]any{"type": "object", "properties": props}
}

// shop is an environment with one variable of each sort.
func shop(t *testing.T) *Env {
	t.Helper()
	e, err := New()
	if err != nil {
		t.Fatal(err)
	}
	text, whole := map[string]any{"type": "string"}, map[string]any{"type": "integer"}
	args := FromSchema(schemaOf(map[string]any{
		"amount": whole, "price": map[string]any{"type": "number"}, "order": text,
		"status": map[string]any{"enum": []any{"open", "paid"}},
		"note":   map[string]any{"type": []any{"string", "null"}},
		"buyer":  schemaOf(map[string]any{"id": text, "vip": map[string]any{"type": "boolean"}}),
		"rows":   map[string]any{"type": "array", "items": schemaOf(map[string]any{"n": whole, "state": map[string]any{"enum": []any{"new", "old"}}})},
		"free":   map[string]any{"type": "object"},
	}))
	w, err := e.With(Var{"args", args}, Var{"now", Time()}, Var{"any", Dyn()}, Var{"flag", Bool()}, Var{"ratio", Double()})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func shopVars() map[string]any {
	return map[string]any{
		"args": map[string]any{
			"amount": int64(7), "price": int64(4), "order": "A-1", "status": "open", "note": nil,
			"buyer": map[string]any{"id": "b1", "vip": true},
			"rows":  []any{map[string]any{"n": int64(2), "state": "new"}, map[string]any{"n": 3.0, "state": "old"}},
			"free":  map[string]any{"x": int64(1)},
		},
		"now": time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC), "any": map[string]any{"deep": []any{int64(1)}}, "flag": true, "ratio": 0.5,
		"hidden": "not declared",
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	e := shop(t)
	for src, want := range map[string]any{
		"args.amount + 1":                      int64(8),
		"args.price * 2.0":                     8.0, // JSON wrote 4 for a number
		"args.price > 3":                       true,
		"args.amount > 6.5":                    true,
		"args.rows.map(r, r.n)":                []any{int64(2), int64(3)}, // and 3.0 for a whole one
		"sum(args.rows.map(r, r.n))":           int64(5),
		"args.rows.map(r, r.n).sum() == 5":     true,
		"sum([1.5, 2.0])":                      3.5,
		"sum([])":                              int64(0),
		"sum([any.deep[0], 0.5])":              1.5,
		"now - days(30) < now":                 true,
		"days(2) == duration('48h')":           true,
		"args.note == null":                    true,
		"has(args.order) && !has(args.status)": false,
		"args.free.x + 1":                      int64(2),
		"any.deep.size()":                      int64(1),
		"{'a': [args.order, null, 2u]}":        map[string]any{"a": []any{"A-1", nil, int64(2)}},
		"now":                                  "2026-05-04T10:00:00Z",
		"days(1)":                              "24h0m0s",
		"args.buyer":                           map[string]any{"id": "b1", "vip": true},
		"args.order.lowerAscii()":              "a-1",
		"flag || 1 / 0 == 1":                   true,
		"ratio":                                0.5,
	} {
		p, issues := e.Value(src)
		if len(issues) > 0 {
			t.Errorf("%s: %v", src, issues)
			continue
		}
		got, err := p.Eval(shopVars())
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", src, err, diff)
		}
	}
}

func TestIssuesNameThePlaceAndTheMend(t *testing.T) {
	t.Parallel()
	e := shop(t)
	for src, want := range map[string]string{
		"args.amuont > 5":                `1:6: args has no field "amuont" (did you mean "amount"?)`,
		"args.buyer.di == 'x'":           `1:12: args.buyer has no field "di" (did you mean "id"?)`,
		"args.rows.exists(r, r.m > 2)":   `1:23: args.rows[] has no field "m" (it has n, state)`,
		"args.amount > 1 &&\n  agrs.x":   `2:3: unknown name "agrs" in the expression (did you mean "args"?)`,
		"args.status == 'opne'":          `1:16: status is never "opne" (did you mean "open"?)`,
		"'x' != args.status":             `1:1: status is never "x" (it is one of open, paid)`,
		"args.rows.all(r, r.state=='')":  `1:27: state is never "" (it is one of new, old)`,
		"args.amount":                    `1:1: the condition gives a number, not true or false (compare it with something)`,
		"days(3)":                        `1:1: the condition gives a duration, not true or false (compare it with something)`,
		"args.order > 5":                 `1:12: no operator or function > takes (string, int) (compare and combine values of the same type)`,
		"env.HOME == ''":                 `1:1: unknown name "env" in the expression (an expression cannot read the environment; only {env: NAME} in a key that takes it can)`,
		"scope.org == ''":                `1:1: unknown name "scope" in the expression (scope is seen by policy conditions and bind only)`,
		"":                               `1:1: the expression is empty (write one, or leave the key out)`,
		"args.amount >\n\n":              `1:14: the expression cannot be read: mismatched input the end of the text (write CEL, for example args.amount > 5000 && args.status == "open")`,
		strings.Repeat("1+", 3000) + "1": "1:1: the expression is longer than 4000 characters (split it)",
	} {
		_, issues := e.Condition(src)
		if len(issues) != 1 || issues[0].String() != want {
			t.Errorf("%.40s:\n got %v\nwant %s", src, issues, want)
		}
	}
}

func TestConditionsAreBoolAtRunTimeToo(t *testing.T) {
	t.Parallel()
	p, issues := shop(t).Condition("any.deep[0]")
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	if holds, err := p.Holds(shopVars()); err == nil || holds {
		t.Errorf("a number holds: %v, %v", holds, err)
	}
	for _, src := range []string{"args.gone > 1", "any.gone == 1", "sum(any.deep.map(d, dyn('x'))) == 1", "days(any.deep[0] * 100000) == days(1)", "1 / 0 == 1"} {
		p, issues := shop(t).Condition(strings.ReplaceAll(src, "args.gone", "args.amount"))
		if len(issues) > 0 {
			t.Errorf("%s: %v", src, issues)
			continue
		}
		vars := shopVars()
		vars["args"] = map[string]any{}
		if holds, err := p.Holds(vars); err == nil || holds {
			t.Errorf("%s: %v, %v", src, holds, err)
		}
	}
}

func TestCostIsBounded(t *testing.T) {
	t.Parallel()
	p, issues := shop(t).Condition("any.rows.all(a, any.rows.all(b, a.n <= b.n || a.n > b.n))")
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	rows := make([]any, 2000)
	for i := range rows {
		rows[i] = map[string]any{"n": int64(i)}
	}
	if _, err := p.Holds(map[string]any{"any": map[string]any{"rows": rows}}); err == nil || !strings.Contains(err.Error(), "cost limit") {
		t.Errorf("four million comparisons: %v", err)
	}
}

func TestConstants(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]struct {
		v      any
		always bool
	}{"1 < 2": {true, true}, "[1, 2].exists(x, x > 5)": {false, true}, "flag": {nil, false}, "1 / 0 == 1": {nil, false}} {
		p, issues := shop(t).Condition(src)
		if len(issues) > 0 {
			t.Fatalf("%s: %v", src, issues)
		}
		if v, always := p.Constant(); v != want.v || always != want.always {
			t.Errorf("%s: %v, %v", src, v, always)
		}
	}
}

func TestProgramsOfSeveralTypesAreChosenByName(t *testing.T) {
	t.Parallel()
	base, err := New()
	if err != nil {
		t.Fatal(err)
	}
	forms, texts := map[string]*Program{}, map[string]*Template{}
	for name, typ := range map[string]*Type{"a": Double(), "b": Int()} {
		e, err := base.With(Var{"args", Object(map[string]*Type{"n": typ})}, Var{"tool", Text()})
		if err != nil {
			t.Fatal(err)
		}
		forms[name], _ = e.Value("args.n")
		texts[name], _ = e.Template("n is ${ args.n }")
	}
	p, text := ByName("tool", forms), ByNameTemplate("tool", texts)
	for name, want := range map[string]any{"a": 1.0, "b": int64(1)} {
		vars := map[string]any{"tool": name, "args": map[string]any{"n": int64(1)}}
		if got, err := p.Eval(vars); got != want || err != nil {
			t.Errorf("%s: %v (%T), %v", name, got, got, err)
		}
		if got, err := text.Text(vars); got != "n is 1" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := p.Eval(map[string]any{"tool": "c"}); err == nil {
		t.Error("a program for another tool runs")
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	e := shop(t)
	for src, want := range map[string]any{
		"plain":                                "plain",
		"":                                     "",
		"${ args.amount }":                     int64(7),
		" ${ args.amount }":                    " 7",
		"${args.order}/${args.amount + 1}":     "A-1/8",
		"$${ args.x } costs $5 $$ ${ 1.5 }":    "${ args.x } costs $5 $$ 1.5",
		"${ '}' + \"}\" }!":                    "}}!",
		`${ r'\' + 'a' }.`:                     `\a.`,
		`${ '''a'b}''' }.`:                     "a'b}.",
		`${ "\"}" }.`:                          `"}.`,
		"${ {'a': {'b': 1}}['a']['b'] }.":      "1.",
		"${ [1, 2][0] // a } in a comment\n}.": "1.",
		"é${ flag }é":                          "étrueé",
	} {
		tpl, issues := e.Template(src)
		if len(issues) > 0 {
			t.Errorf("%q: %v", src, issues)
			continue
		}
		got, err := tpl.Eval(shopVars())
		if got != want || err != nil {
			t.Errorf("%q: %#v, %v; want %#v", src, got, err, want)
		}
	}
	tree := ObjectOf(map[string]*Template{"a": ListOf([]*Template{Literal(int64(1)), Literal(nil)}), "b": Literal("x")})
	got, err := tree.Eval(nil)
	if diff := cmp.Diff(any(map[string]any{"a": []any{int64(1), nil}, "b": "x"}), got); diff != "" || err != nil {
		t.Errorf("a tree: %v (-want +got):\n%s", err, diff)
	}
	if _, err := tree.Text(nil); err == nil {
		t.Error("an object becomes text")
	}
}

func TestTemplateIssues(t *testing.T) {
	t.Parallel()
	e := shop(t)
	for src, want := range map[string]string{
		"ab ${ args.amuont } c":        `1:12: args has no field "amuont" (did you mean "amount"?)`,
		"a\nb ${ 1 } ${ args.amuont }": `2:18: args has no field "amuont" (did you mean "amount"?)`,
		"${\n  arsg }":                 `2:3: unknown name "arsg" in the expression (did you mean "args"?)`,
		"é ${ args.amount":             "1:3: ${ has no closing } (close it, or write $${ for the two characters themselves)",
		"a ${ 'x }":                    "1:3: ${ has no closing } (close it, or write $${ for the two characters themselves)",
		"a ${ args.rows }":             "1:5: the expression gives a list; inside text only text, numbers and true or false can stand (choose one field of it)",
		"a ${ }":                       "1:5: the expression is empty (write one, or leave the key out)",
	} {
		_, issues := e.Template(src)
		if len(issues) != 1 || issues[0].String() != want {
			t.Errorf("%q:\n got %v\nwant %s", src, issues, want)
		}
	}
	tpl, issues := e.Template("a ${ any.deep }")
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	if _, err := tpl.Eval(shopVars()); err == nil {
		t.Error("a list stands in text")
	}
}

func TestHasExpr(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]bool{"${ a }": true, "a ${": true, "$${ a }": false, "$${ a } ${ b }": true, "$ {": false, "": false} {
		if got := HasExpr(src); got != want {
			t.Errorf("%q: %v", src, got)
		}
	}
}

func TestPlainTextKeepsItsCharacters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ src, want, issues string }{
		{"", "", ""},
		{"a $ { } $$", "a $ { } $$", ""},
		{"$${ a } and $$${ b }", "${ a } and $${ b }", ""},
		{"ä ${ a }", "ä ${ a }", "1:3"},
		{"x\ny $${ z\n ${ a } ${", "x\ny ${ z\n ${ a } ${", "3:2 3:9"},
	} {
		got, found := Plain(c.src)
		var at []string
		for _, i := range found {
			at = append(at, fmt.Sprintf("%d:%d", i.Line, i.Col))
		}
		if got != c.want || strings.Join(at, " ") != c.issues {
			t.Errorf("%q: %q, %v", c.src, got, found)
		}
	}
}

func TestHabitsOfOtherLanguages(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"a = 1": "1:3 did you mean == ?", "a === 1": "1:3 did you mean == ?", "a =< 1": "1:3 did you mean <= ?",
		"a\n and b": "2:2 did you mean && ?", "a OR b": "1:3 did you mean || ?", "a | b": "1:3 did you mean || ?",
		`"=" = a`: "1:5 did you mean == ?", "a.or + b. // = ": "", `"""= or""" +`: "", "a &&!b ||": "", "r'\\' or b": "1:6 did you mean || ?",
		"order + android": "", "'a": "1:1 close it with '", "${ a }": "1:1 write the expression bare here, without ${ }", "“a”": "1:1 write straight quotes: \"",
	} {
		got := ""
		if i, found := habit(src); found {
			got = fmt.Sprintf("%d:%d %s", i.Line, i.Col, i.Hint)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", src, got, want)
		}
	}
}

func TestBrokenBoundsAreSaidInPlainWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key        string
		bound, bad any
		want       string
	}{
		{"minLength", 1, "", "must not be empty"},
		{"minLength", 4, "SEC", "must have at least 4 characters"},
		{"maxLength", 1, "SECRET", "must have at most 1 character"},
		{"minItems", 1, []any{}, "must have at least 1 item"},
		{"maxItems", 2, []any{1, 2, 3}, "must have at most 2 items"},
		{"uniqueItems", true, []any{"SECRET", "SECRET"}, "must not have an item twice"},
		{"minimum", 1, 0.5, "must be at least 1"},
		{"maximum", 2.5, 99, "must be at most 2.5"},
		{"exclusiveMinimum", 0, 0, "must be above 0"},
		{"exclusiveMaximum", 10000000, 10000000, "must be below 10000000"},
		{"multipleOf", 5, 7, "must be a multiple of 5"},
		{"const", "x", "SECRET", "breaks const"},
	} {
		s, err := CompileSchema(schemaOf(map[string]any{"name": map[string]any{c.key: c.bound}}))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Check(map[string]any{"name": c.bad}); err == nil || err.Error() != "name: "+c.want {
			t.Errorf("%s: %v, want %s", c.key, err, c.want)
		}
	}
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	doc := schemaOf(map[string]any{
		"a": map[string]any{"type": "integer", "minimum": int64(1)}, "d": map[string]any{"type": "string", "format": "date"},
		"l": map[string]any{"type": "array", "items": schemaOf(map[string]any{"x": map[string]any{"enum": []any{"u", "v"}}})},
	})
	doc["required"], doc["additionalProperties"] = []any{"a"}, false
	var all Schemas
	s, err := all.Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := all.Compile(doc); again != s {
		t.Error("an equal schema is compiled twice")
	}
	for _, c := range []struct {
		v    any
		want string
	}{
		{map[string]any{"a": int64(1)}, ""},
		{map[string]any{"a": 1.0}, ""},
		{map[string]any{"a": 1.5}, "a: expected integer, found number"},
		{map[string]any{"b": 1, "a": "x"}, "unknown: b"},
		{map[string]any{}, "a is missing"},
		{map[string]any{"a": int64(1), "d": "2026-13-01"}, "d: expected text of the form date"},
		{map[string]any{"a": int64(1), "l": []any{map[string]any{"x": "w"}}}, `l[0].x: expected one of "u", "v"`},
		{[]any{}, "expected object, found array"},
	} {
		got := ""
		if err := s.Check(c.v); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.v, got, c.want)
		}
	}
	for _, wrong := range []any{map[string]any{"type": "nothing"}, map[string]any{"pattern": "("}, map[string]any{"$ref": "http://x.example/y"}, map[string]any{"$ref": "file:///etc/passwd"}} {
		if _, err := CompileSchema(wrong); err == nil {
			t.Errorf("%v compiles", wrong)
		}
	}
}

func TestNear(t *testing.T) {
	t.Parallel()
	known := []string{"amount", "order", "in", "status", "a"}
	for name, want := range map[string]string{"amuont": "amount", "Order": "order", "ni": "in", "stats": "status", "zzz": "", "b": "", "amount": "", "inn": "in"} {
		if got := Near(name, known); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestReserved(t *testing.T) {
	t.Parallel()
	e, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop", "namespace", "null", "package", "return", "true", "var", "void", "while"} {
		if w, err := e.With(Var{"args", Object(map[string]*Type{word: Int()})}); err == nil {
			if _, issues := w.Value("args." + word + " + " + word); len(issues) == 0 {
				t.Errorf("%s can be used as a name", word)
			}
		}
		if !Reserved(word) {
			t.Errorf("%s is not reserved", word)
		}
	}
	if Reserved("order") {
		t.Error("order is reserved")
	}
}

func BenchmarkCompileExtended(b *testing.B) {
	e, err := New()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		w, err := e.With(Var{"args", Object(map[string]*Type{"a": Int()})})
		if err != nil {
			b.Fatal(err)
		}
		if _, issues := w.Condition("args.a > 5 && args.a < 10"); len(issues) > 0 {
			b.Fatal(issues)
		}
	}
}

func BenchmarkEval(b *testing.B) {
	e, err := New()
	if err != nil {
		b.Fatal(err)
	}
	w, err := e.With(Var{"args", Object(map[string]*Type{"a": Int()})})
	if err != nil {
		b.Fatal(err)
	}
	p, _ := w.Condition("args.a > 5 && args.a < 10")
	vars := map[string]any{"args": map[string]any{"a": int64(7)}}
	for b.Loop() {
		if _, err := p.Holds(vars); err != nil {
			b.Fatal(err)
		}
	}
}

// policy is the environment of a rule for one tool that has a fact.
func policy(t *testing.T) *Env {
	t.Helper()
	base, err := New()
	if err != nil {
		t.Fatal(err)
	}
	order := FromSchema(schemaOf(map[string]any{"paid": map[string]any{"type": "integer"}}))
	e, err := base.With(PolicyVars(Object(nil), []Var{{"order", order}}, []string{"orders.get", "orders.refund"}, Object(nil))...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestDoneLooksAtWhatWasDone(t *testing.T) {
	t.Parallel()
	e := policy(t)
	p, issues := e.Condition(`taint && done("orders.get") && !done('orders.refund') && order.paid > 1`)
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	for name, want := range map[string]bool{"taint": true, "order": true, DoneVar: true, "args": false, "now": false} {
		if p.Sees(name) != want {
			t.Errorf("it sees %s: %t", name, !want)
		}
	}
	for _, c := range []struct {
		done  any
		want  bool
		fails bool
	}{
		{[]string{"orders.get"}, true, false},
		{[]any{"orders.get", "time.now"}, true, false},
		{[]string{"orders.get", "orders.refund"}, false, false},
		{[]string{}, false, false},
		{nil, false, true},
	} {
		vars := map[string]any{"taint": true, "order": map[string]any{"paid": 2.0}}
		if c.done != nil {
			vars[DoneVar] = c.done
		}
		got, err := p.Holds(vars)
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("done %v: %t, %v", c.done, got, err)
		}
	}
	for src, want := range map[string]string{
		`taint && done("orders.gte")`: `1:15: there is no tool "orders.gte" to be done (did you mean "orders.get"?)`,
		`done("mail")`:                `1:6: there is no tool "mail" to be done (name a tool of the pack)`,
		`done(tool)`:                  `1:6: done takes the name of a tool in quotes (correct the expression)`,
		`done(1) || taint`:            `1:6: done takes the name of a tool in quotes (correct the expression)`,
		`done()`:                      `1:5: unknown name "done" in the expression (write done("tool"), with the name of one tool)`,
		`"x" in done`:                 `1:8: unknown name "done" in the expression (write done("tool"), with the name of one tool)`,
		`foo`:                         `1:1: unknown name "foo" in the expression (it may use actor, args, channel, effect, now, order, scope, taint, tool)`,
	} {
		_, issues := e.Condition(src)
		if len(issues) != 1 || issues[0].String() != want {
			t.Errorf("%s:\n got %v\nwant %s", src, issues, want)
		}
	}
	_, issues = shop(t).Condition(`done("orders.get")`)
	if len(issues) != 1 || issues[0].String() != "1:5: done(…) is not known here (only conditions of a policy see it)" {
		t.Errorf("outside a policy: %v", issues)
	}
}

func TestNamesOfFactsMeanNothingElse(t *testing.T) {
	t.Parallel()
	for name, taken := range map[string]bool{
		"args": true, "done": true, DoneVar: true, "taint": true, "list": true, "in": true, "now": true,
		"order": false, "customer": false, "result": false,
	} {
		if Taken(name) != taken {
			t.Errorf("%s is taken: %t", name, !taken)
		}
	}
}
