package config

import (
	"fmt"
	"slices"
	"strings"

	"switchboard/config/expr"

	"go.yaml.in/yaml/v3"
)

// ruleFile is one rule while it is read.
type ruleFile struct {
	*Rule
	when, why *yaml.Node
	idle      *idleRules
}

func (l *loader) readPolicy(d *source, n *yaml.Node) {
	idle := &idleRules{at: d.at(n)}
	g, _ := d.keysOf(n, l.policyTable(idle))
	if g.has("default") {
		idle.at = d.at(g.nodes["default"])
	}
	l.later = append(l.later, func() {
		if !g.broken["default"] {
			idle.report(l)
		}
	})
}

// idleRules are the rules of a file that change nothing.
type idleRules struct {
	at    Place // of default, or of the file's keys without it
	rules []Place
}

// report says it rule by rule where some default denies, and once where none does: then default is what is missing.
func (i *idleRules) report(l *loader) {
	if len(i.rules) == 0 {
		return
	}
	const mend = "leave it out, or set default: {write: deny}"
	if l.pack.Policy.Of(NoEffect) == Allow && l.pack.Policy.Of(Write) == Allow {
		l.report(i.at, fmt.Sprintf("the rule at %s that allows changes nothing: without it the tools are allowed too", i.rules[0]), mend)
		return
	}
	for _, at := range i.rules {
		l.report(at, "the rule changes nothing: without it the tools are allowed too, and a rule that denies is stronger", mend)
	}
}

// verdictsLater are those of a later version.
func verdictsLater() map[string]string { return map[string]string{"ask": "approvals"} }

func (l *loader) policyTable(idle *idleRules) *table {
	p := &l.pack.Policy
	byEffect := map[Effect]*Verdict{NoEffect: new(Allow), Write: new(Allow)}
	verdict := func(e Effect) value { return choice(byEffect[e], []Verdict{Allow, Deny}, verdictsLater()) }
	defaults := &table{
		what: "default", about: "The verdict where no rule of the tool matches.", later: map[string]string{"irreversible": "effects that need an approval"},
		keys: []key{
			{"none", verdict(NoEffect), "allow", "For tools that change nothing.", "allow"},
			{"write", verdict(Write), "allow", "For tools that change something.", "deny"},
		},
	}
	return &table{
		what:  "policy.yaml",
		about: "Who may do what. The strictest of all rules that match wins; a rule that fails when it is evaluated counts as matching.",
		keys: []key{
			{"default", object(defaults, func(_ *source, _ *yaml.Node, _ got) bool {
				p.Default = map[Effect]Verdict{NoEffect: *byEffect[NoEffect], Write: *byEffect[Write]}
				return true
			}), "allow all", defaults.about, "{write: deny}"},
			{"rules", listOf("list of rules", 0, 500, l.ruleTable(&ruleFile{Rule: &Rule{}}), func(d *source, n *yaml.Node) bool { return l.readRule(d, n, idle) }), "none", "The rules.", "[…]"},
		},
	}
}

func (l *loader) readRule(d *source, n *yaml.Node, idle *idleRules) bool {
	r := &ruleFile{Rule: &Rule{Place: d.at(n)}, idle: idle}
	g, ok := d.keysOf(n, l.ruleTable(r))
	if g.good("verdict") && r.Verdict == Deny && !g.has("why") && !*g.other {
		l.report(d.at(n), "why is missing: a rule that denies says why", "add why: and a sentence for people")
		ok = false
	}
	at := len(l.pack.Policy.Rules)
	l.pack.Policy.Rules = append(l.pack.Policy.Rules, *r.Rule)
	l.later = append(l.later, func() {
		l.finishRule(d, r, g)
		if ok {
			l.pack.Policy.Rules[at] = *r.Rule
		}
	})
	return ok
}

func (l *loader) ruleTable(r *ruleFile) *table {
	source := func(p **yaml.Node, words string) value {
		return value{words: says(words), read: func(d *source, n *yaml.Node) bool {
			s, ok := d.text(n)
			if ok && (words == "condition" || strings.Contains(s, "${")) && d.foldedExpr(n) {
				return false
			}
			*p = n
			return ok
		}}
	}
	return &table{
		what:  "a rule",
		about: "One rule. Conditions see args, tool, effect, actor {id, kind, groups}, channel {id, visibility}, scope, now.",
		later: map[string]string{"approve": "approvals"},
		keys: []key{
			{"tools", texts(&r.Tools, "list of tools", 1, 200, l.rulePattern), required, "Names of tools, or prefixes such as bookings.*", "[payments.refund]"},
			{"when", source(&r.when, "condition"), "always", "Condition; it must hold for every one of the tools' types.", "args.amount > 5000"},
			{"verdict", choice(&r.Verdict, []Verdict{Allow, Deny}, verdictsLater()), required, "allow or deny.", "deny"},
			{"why", source(&r.why, "text with expressions over args and now"), "required for deny", "The reason, for the person and the model.", "At most 50 euros."},
		},
	}
}

// rulePattern notes which tools a rule names; a prefix must fit one.
func (l *loader) rulePattern(d *source, n *yaml.Node, s string) bool {
	prefix, ok := strings.CutSuffix(s, ".*")
	if !ok {
		l.tools.use(s, d.at(n))
		return true
	}
	l.later = append(l.later, func() {
		var prefixes []string
		for _, name := range l.tools.known() {
			if strings.HasPrefix(name, prefix+".") {
				return
			}
			prefixes = append(prefixes, name[:strings.LastIndex(name, ".")]+".*")
		}
		if l.tools.broken {
			return
		}
		mend := nearName(s, prefixes)
		if mend == "" {
			mend = "write the beginning of a tool's name and .*"
		}
		d.bad(n, fmt.Sprintf("no tool begins with %q", prefix+"."), mend)
	})
	return true
}

// matches lists the tools that a rule speaks for; complete is false when one of its names does not exist.
func (l *loader) matches(r *Rule) (out []*Tool, complete bool) {
	complete = true
	for _, name := range r.Tools {
		if prefix, ok := strings.CutSuffix(name, ".*"); ok {
			for _, t := range l.everyTool() {
				if strings.HasPrefix(t.Name, prefix+".") && !slices.Contains(out, t) {
					out = append(out, t)
				}
			}
			continue
		}
		at := slices.IndexFunc(l.everyTool(), func(t *Tool) bool { return t.Name == name })
		if at < 0 {
			complete = false
		} else if !slices.Contains(out, l.everyTool()[at]) {
			out = append(out, l.everyTool()[at])
		}
	}
	return out, complete
}

// everyTool lists the tools of the pack and those built in, also those with problems.
func (l *loader) everyTool() []*Tool {
	if l.all == nil {
		l.all = slices.Clone(l.builtins)
		for _, c := range l.contracts {
			l.all = append(l.all, c.Tool)
		}
		slices.SortFunc(l.all, func(a, b *Tool) int { return strings.Compare(a.Name, b.Name) })
	}
	return l.all
}

// finishRule compiles a rule for every tool that it names, and refuses rules that change nothing.
func (l *loader) finishRule(d *source, r *ruleFile, g got) {
	tools, complete := l.matches(r.Rule)
	if !complete || len(tools) == 0 || !g.good("tools") {
		return
	}
	conditions, reasons := map[string]*expr.Program{}, map[string]*expr.Template{}
	fine := true
	for _, t := range tools {
		args := t.shown.Type().Without("why", "expects")
		c := l.contracts[t.Name]
		if c != nil {
			args = c.argType
		}
		missing := func(i expr.Issue, at Place) bool { return l.missingName(c, i, at) }
		if g.good("when") {
			env := l.policyEnv(t, args)
			p, found := env.Condition(r.when.Value)
			fine = d.issues(r.when, found, missing) && fine
			conditions[t.Name] = p
		}
		if g.good("why") {
			env, err := l.base.With(expr.WhyVars(args)...)
			if err != nil {
				d.bad(r.why, err.Error(), "rename the arguments of "+t.Name)
				return
			}
			w, found := env.Template(r.why.Value)
			fine = d.issues(r.why, found, missing) && fine
			reasons[t.Name] = w
		}
	}
	if !fine {
		return
	}
	if g.good("when") {
		r.When = expr.ByName("tool", conditions)
	}
	if g.good("why") {
		r.Why = expr.ByNameTemplate("tool", reasons)
	}
	l.idle(d, r, g, tools)
}

// policyEnv is the environment of a rule's condition for one tool.
func (l *loader) policyEnv(t *Tool, args *expr.Type) *expr.Env {
	if env := l.policies[t.Name]; env != nil {
		return env
	}
	tools := make([]string, 0, len(l.everyTool()))
	for _, other := range l.everyTool() {
		tools = append(tools, other.Name)
	}
	var scope *expr.Type
	if !l.scope.broken {
		fields := map[string]*expr.Type{}
		for name := range l.scope.defs {
			fields[name] = expr.Text()
		}
		scope = expr.Object(fields)
	} else {
		scope = expr.Dyn()
	}
	env, err := l.base.With(expr.PolicyVars(args, tools, scope)...)
	if err != nil {
		env = l.base
	}
	l.policies[t.Name] = env
	return env
}

// missingName takes care of names that the pack could define elsewhere: arguments and scope variables.
func (l *loader) missingName(c *contract, i expr.Issue, at Place) bool {
	switch {
	case i.Of == "args" && c != nil:
		c.args.use(i.Name, at)
	case i.Of == "scope":
		l.scope.use(i.Name, at)
	default:
		return false
	}
	return true
}

// idle refuses rules that never match or never change a verdict.
func (l *loader) idle(d *source, r *ruleFile, g got, tools []*Tool) {
	if r.When != nil {
		if v, always := r.When.Constant(); always {
			mend, msg := "leave the condition out", "the condition always holds"
			if v == false {
				mend, msg = "leave the rule out, or correct the condition", "the condition never holds"
			}
			d.bad(r.when, msg, mend)
			return
		}
	}
	if !g.good("verdict") || r.Verdict != Allow || l.tools.broken {
		return
	}
	for _, t := range tools {
		if l.pack.Policy.Of(t.Effect) != Allow {
			return
		}
	}
	r.idle.rules = append(r.idle.rules, r.Place)
}

// Of is the verdict for tools of an effect where no rule matches.
func (p Policy) Of(e Effect) Verdict {
	if v := p.Default[e]; v != "" {
		return v
	}
	return Allow
}
