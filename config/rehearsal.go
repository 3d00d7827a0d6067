package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"switchboard/config/expr"

	"go.yaml.in/yaml/v3"
)

func (l *loader) readRehearsals(d *source, n *yaml.Node) {
	listOf("list of rehearsals", 1, 500, nil, l.readRehearsal).read(d, n)
}

func (l *loader) readRehearsal(d *source, n *yaml.Node) bool {
	r := &Rehearsal{Place: d.at(n), Tools: map[string]*Canned{}}
	g, ok := d.keysOf(n, l.rehearsalTable(r))
	if g.good("script") && r.Steps[0].Say == "" {
		ok = d.bad(g.nodes["script"].Content[0], "a script begins with what a person says", "add - say: and a text before it")
	}
	if !ok {
		return true // the list is good, one of its items is not
	}
	for _, other := range l.pack.Rehearsals {
		switch {
		case other.Name == r.Name:
			d.bad(g.nodes["name"], fmt.Sprintf("there is another rehearsal %q at %s", clip(r.Name), other.Place), "rename one of them")
		case Fold(other.Steps[0].Say) == Fold(r.Steps[0].Say) && overlap(other.As, r.As) && overlap(other.In, r.In):
			d.bad(n, fmt.Sprintf("the rehearsal cannot be told apart from the one at %s: same first words, person and channel", other.Place), "change the first words, or as, or in")
		}
	}
	l.pack.Rehearsals = append(l.pack.Rehearsals, r)
	return true
}

func overlap(a, b string) bool { return a == b || a == "" || b == "" }

// Fold gives the form in which first messages are compared: small letters and digits, single spaces, no punctuation.
func Fold(text string) string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) })
	if len(words) == 0 {
		return strings.TrimSpace(text)
	}
	return strings.Join(words, " ")
}

func (l *loader) rehearsalTable(r *Rehearsal) *table {
	at := value{words: says("moment such as 2026-05-04T10:00:00+02:00"), read: func(d *source, n *yaml.Node) bool {
		s, ok := d.text(n)
		if !ok {
			return false
		}
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return d.bad(n, fmt.Sprintf("%q is no moment", clip(s)), `write date, time and offset: "2026-05-04T10:00:00+02:00"`)
		}
		r.At = t
		return true
	}}
	return &table{
		what:  "a rehearsal",
		about: "One scripted conversation. It is the offline model, too: it is found by the first thing said, the person and the channel.",
		later: map[string]string{"schedule": "scheduled posts"},
		keys: []key{
			{"name", text(&r.Name, 200), required, "What it shows.", "the second identical failed call is refused"},
			{"as", l.resident(&r.As), "anybody", "Person who speaks.", "U0ANA"},
			{"in", l.room(&r.In), "anywhere", "Channel.", "C0FRONT"},
			{"at", at, "now", "The moment at which it plays.", `"2026-05-04T10:00:00+02:00"`},
			{"tools", l.cannedTools(r), "the real server is asked", "What tools answer: a result, a list of results in order (the last one stays), or {fail: KIND} in place of a result; kinds are " + strings.Join(failKinds(), ", ") + ".", "{payments.refund: [{fail: timeout}, {id: r1}]}"},
			{"script", listOf("list of steps", 1, 200, l.stepTable(&stepFile{}), func(d *source, n *yaml.Node) bool { return l.readStep(d, n, r) }), required, "What is said and answered, in order; the first step is a say.", "[{say: hello}]"},
		},
	}
}

func failKinds() []string {
	return []string{"timeout", "not_found", "refused", "unavailable", "broken"}
}

func (l *loader) cannedTools(r *Rehearsal) value {
	return entries("answers by tool", nil, func(d *source, k, v *yaml.Node) bool {
		l.tools.use(k.Value, d.at(k))
		c := &Canned{}
		r.Tools[k.Value] = c
		if v.Kind != yaml.SequenceNode {
			return d.canned(v, c)
		}
		return listOf("list of answers", 1, 200, nil, func(d *source, n *yaml.Node) bool { return d.canned(n, c) }).read(d, v)
	})
}

// canned reads one answer: a result, or a failure by name.
func (d *source) canned(n *yaml.Node, c *Canned) bool {
	if n.Kind == yaml.MappingNode && len(n.Content) == 2 && n.Content[0].Value == "fail" {
		kind, ok := d.text(n.Content[1])
		c.Answers = append(c.Answers, CannedAnswer{Fail: kind})
		return ok && d.oneOf(n.Content[1], kind, failKinds(), nil)
	}
	v, ok := d.plain(n)
	c.Answers = append(c.Answers, CannedAnswer{Result: v})
	return ok
}

// stepFile is a step while it is read.
type stepFile struct {
	Step
	raw    string
	route  RouteAnswer
	finish Finished
	click  Click
	expect Expect
}

func (l *loader) readStep(d *source, n *yaml.Node, r *Rehearsal) bool {
	s := &stepFile{Step: Step{Place: d.at(n)}}
	t := l.stepTable(s)
	g, ok := d.keysOf(n, t)
	if n.Kind != yaml.MappingNode {
		return false
	}
	switch {
	case len(g.nodes) == 0 && ok:
		ok = d.bad(n, "the step says nothing", "write one of "+strings.Join(t.names(), ", "))
	case len(g.nodes) > 1:
		ok = d.bad(n, "a step is one thing", "write one step an item: "+strings.Join(sortedNodes(g), ", then "))
	}
	if g.has("route") {
		s.Route = &s.route
	}
	if g.has("raw") {
		s.Raw = &s.raw
	}
	if g.has("finish") {
		s.Finish = &s.finish
	}
	if g.has("click") {
		s.Click = &s.click
	}
	if g.has("expect") {
		s.Expect = &s.expect
	}
	r.Steps = append(r.Steps, s.Step)
	return ok
}

func sortedNodes(g got) []string {
	var out []string
	for k := range g.nodes {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// faults are the ways in which a model call can fail.
func faults() []string {
	return []string{
		"rate_limited", "overloaded", "network", "empty", "cut_short", "timeout", "context_too_long", "auth", "quota",
		"bad_request", "declined",
	}
}

func (l *loader) stepTable(s *stepFile) *table {
	callTable := l.callTable(&callFile{})
	one := value{words: says("a call"), sub: callTable, read: func(d *source, n *yaml.Node) bool { return l.readCall(d, n, &s.Step) }}
	many := listOf("list of calls", 1, 32, callTable, func(d *source, n *yaml.Node) bool { return l.readCall(d, n, &s.Step) })
	reply := value{words: says("text with expressions over calls"), read: func(d *source, n *yaml.Node) bool {
		if _, ok := d.text(n); !ok {
			return false
		}
		t, ok := l.template(d, n)
		s.Reply = t
		return ok
	}}
	raw := value{words: says("text, possibly empty"), read: func(d *source, n *yaml.Node) bool {
		if n.Kind == yaml.ScalarNode && n.Style != 0 && !d.spoiled[n] {
			s.raw = n.Value
			return true
		}
		v, ok := d.text(n)
		s.raw = v
		return ok
	}}
	return &table{
		what:  "a step",
		about: "Exactly one key. Answers of the model are taken in order: the router's for each say, then the assistant's.",
		later: map[string]string{
			"fire": "schedules", "announce": "announced calls", "plan": "plans", "judge": "plans",
		},
		keys: []key{
			{"say", text(&s.Say, 4_000), "", "A person says it; a turn begins.", "refund order A-1001"},
			{"route", object(l.routeTable(&s.route), nil), "", "The router's model answers.", "{assistant: help, confidence: 0.95}"},
			{"call", one, "", "The model asks for one tool.", "{tool: orders.get, args: {order: A-1001}, why: see what was paid, expects: an order}"},
			{"calls", many, "", "The model asks for several tools in one round.", "[…]"},
			{"reply", reply, "", "The model answers with text; ${ … } sees the calls of the run so far: calls[0].tool, .args, .result, .outcome.", "Order ${ calls[0].result.order } is refunded."},
			{"raw", raw, "", "The model's literal text, for the router or for an answer.", `"{not JSON"`},
			{"finish", object(finishTable(&s.finish), nil), "", "The model stops before it is done.", "{reason: length, text: Once upon}"},
			{"error", choice(&s.Fault, faults(), nil), "", "The model call fails for good.", "overloaded"},
			{"click", object(l.clickTable(&s.click), oneClick), "", "A person decides the oldest open card.", "{approve: payments.refund, as: U0BOB}"},
			{"expect", object(l.expectTable(&s.expect), nil), "", "What must hold after the turn before it.", `{that: "run.rounds <= 4"}`},
		},
	}
}

func (l *loader) routeTable(r *RouteAnswer) *table {
	assistant := value{words: says("name of an assistant, or none"), read: func(d *source, n *yaml.Node) bool {
		s, ok := d.text(n)
		r.Assistant = s
		if ok {
			l.assistants.use(s, d.at(n))
		}
		return ok
	}}
	return &table{what: "a route", about: "A well-formed answer of the router; script a wrong one with raw.", keys: []key{
		{"assistant", assistant, required, "Whom it chooses.", "help"},
		{"confidence", ratio(&r.Confidence, 0, 1), required, "How sure it is.", "0.95"},
		{"question", text(&r.Question, 500), "", "What it would ask.", "Which order?"},
	}}
}

func finishTable(f *Finished) *table {
	return &table{what: "finish", about: "An answer that ends for another reason than being done.", keys: []key{
		{"reason", choice(&f.Reason, []string{"length", "refused"}, nil), required, "length: the answer was cut; refused: the model would not.", "length"},
		{"text", text(&f.Text, 4_000), "", "Its text so far.", "The opening hours are"},
	}}
}

// callFile is a scripted call while it is read.
type callFile struct {
	ScriptCall
	raw string
}

func (l *loader) readCall(d *source, n *yaml.Node, s *Step) bool {
	c := &callFile{}
	g, ok := d.keysOf(n, l.callTable(c))
	switch {
	case g.has("raw_args") && g.has("args"):
		ok = d.bad(n, "a call has either args or raw_args", "leave one of them out")
	case g.has("raw_args"):
		c.RawArgs = &c.raw
	case n.Kind == yaml.MappingNode:
		missing := slices.DeleteFunc([]string{"why", "expects"}, g.has)
		if len(missing) > 0 && !*g.other {
			d.l.report(d.at(n), "missing in a call: "+strings.Join(missing, " and "), "add them, a short sentence each; only raw_args does without")
			ok = false
		}
		if c.Args == nil {
			c.Args = expr.ObjectOf(map[string]*expr.Template{})
		}
	}
	if g.good("tool") && !g.has("raw_args") {
		l.tools.use(c.Tool, d.at(g.nodes["tool"]))
	}
	s.Calls = append(s.Calls, c.ScriptCall)
	return ok
}

func (l *loader) callTable(c *callFile) *table {
	args := value{words: says("arguments by name, with expressions over calls"), read: func(d *source, n *yaml.Node) bool {
		if n.Kind != yaml.MappingNode && !d.spoiled[n] {
			return d.expected(n, "arguments by name", "write {name: value}, or raw_args: and a text for broken ones")
		}
		t, ok := l.template(d, n)
		c.Args = t
		return ok
	}}
	raw := value{words: says("text, possibly empty"), read: func(d *source, n *yaml.Node) bool {
		if n.Kind == yaml.ScalarNode && n.Style != 0 && !d.spoiled[n] {
			c.raw = n.Value
			return true
		}
		v, ok := d.text(n)
		c.raw = v
		return ok
	}}
	return &table{what: "a call", about: "A tool call as a model would write it.", keys: []key{
		{"tool", text(&c.Tool, 100), required, "Name of the tool. With raw_args it may be one that does not exist.", "orders.get"},
		{"args", args, "{}", "The arguments. They may be wrong on purpose.", "{order: A-1001}"},
		{"raw_args", raw, "", "Literal text of the arguments, for broken ones; why and expects may then be left out.", `"{\"order\": "`},
		{"why", text(&c.Why, 500), required + " without raw_args", "What the model says the call is for.", "see what was paid"},
		{"expects", text(&c.Expects, 500), required + " without raw_args", "What it expects to get.", "a delivered order"},
	}}
}

func (l *loader) expectTable(e *Expect) *table {
	that := value{words: says("condition over run, calls, reply"), read: func(d *source, n *yaml.Node) bool {
		s, ok := d.text(n)
		if !ok || d.foldedExpr(n) {
			return false
		}
		p, found := l.run.Condition(s)
		e.That = p
		return d.issues(n, found, nil)
	}}
	assistant := value{words: says("name of an assistant"), read: func(d *source, n *yaml.Node) bool {
		s, ok := d.text(n)
		e.Assistant = s
		if ok {
			l.assistants.use(s, d.at(n))
		}
		return ok
	}}
	outcomes := []string{"answered", "clarify", "capped", "waiting", "stopped", "refused", "failed"}
	return &table{
		what:  "expect",
		about: "Keys that are left out are not looked at.",
		keys: []key{
			{"that", that, "", "Condition over run {id, assistant, outcome, rounds, calls, tokens, usd, ms}, calls [{seq, tool, args, result, outcome, reason, why, expects}] and reply.", `"run.rounds <= 4"`},
			{"outcome", choice(&e.Outcome, outcomes, nil), "", "How the turn ended; waiting is for a person's decision.", "answered"},
			{"assistant", assistant, "", "Who answered.", "help"},
			{"refused", l.toolName(&e.Refused), "", "A tool that had a refused call.", "docs.fetch"},
			{"denied", l.toolName(&e.Denied), "", "A tool that had a denied call.", "payments.refund"},
			{"waits", l.toolName(&e.Waits), "", "A tool with a call that waits for a person.", "payments.refund"},
			{"on", texts(&e.On, "list of names of people, ids (U…, S…) and requester", 1, 50, l.decider), "", "Who may decide it, all of them.", "[finance]"},
			{"says", texts(&e.Says, "list of texts", 1, 50, nil), "", "Texts that must stand in the reply.", "[waivers]"},
		},
	}
}

// template reads a value whose texts may hold expressions over calls.
func (l *loader) template(d *source, n *yaml.Node) (*expr.Template, bool) {
	return templateIn(l.calls, d, n, nil)
}

// templateIn reads a value whose texts may hold expressions. missing takes care of names that do not exist, as for issues.
func templateIn(env *expr.Env, d *source, n *yaml.Node, missing func(expr.Issue, Place) bool) (*expr.Template, bool) {
	switch n.Kind { //nolint:exhaustive // every other node is a scalar: vet refuses aliases
	case yaml.MappingNode:
		fields := map[string]*expr.Template{}
		ok := entries("values by name", nil, func(d *source, k, v *yaml.Node) (ok bool) {
			fields[k.Value], ok = templateIn(env, d, v, missing)
			return ok
		}).read(d, n)
		return expr.ObjectOf(fields), ok
	case yaml.SequenceNode:
		items, ok := make([]*expr.Template, 0, len(n.Content)), true
		for _, c := range n.Content {
			t, good := templateIn(env, d, c, missing)
			items, ok = append(items, t), ok && good
		}
		return expr.ListOf(items), ok
	}
	v, ok := d.plainScalar(n)
	if s, isText := v.(string); ok && isText && strings.Contains(s, "${") {
		if expr.HasExpr(s) && d.foldedExpr(n) {
			return nil, false
		}
		t, found := env.Template(s)
		return t, d.issues(n, found, missing)
	}
	return expr.Literal(v), ok
}

// CompileThat compiles a condition over a finished run, as `expect: {that: …}` and `bot runs --that` take it.
func CompileThat(src string) (*expr.Program, error) {
	base, err := expr.New()
	if err != nil {
		return nil, err
	}
	env, err := base.With(expr.RunVars()...)
	if err != nil {
		return nil, err
	}
	p, found := env.Condition(src)
	if len(found) > 0 {
		return nil, fmt.Errorf("compile the condition: %s", found[0])
	}
	return p, nil
}
