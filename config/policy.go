package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"switchboard/config/expr"

	"go.yaml.in/yaml/v3"
)

// policyFile is policy.yaml while it is read.
type policyFile struct {
	at     Place   // of default, or of the file's keys without it
	idle   []Place // rules that allow what is allowed anyway
	rules  []*ruleFile
	unsure bool // of who decides where a rule says nothing
}

// ruleFile is one rule while it is read.
type ruleFile struct {
	*Rule
	when, why *yaml.Node
	approve   Approve
	policy    *policyFile
	spoken    []*Tool // what it speaks for; nil where that cannot be told
	always    bool    // it has no condition, and is good
}

func (l *loader) readPolicy(d *source, n *yaml.Node) {
	f := &policyFile{at: d.at(n)}
	g, _ := d.keysOf(n, l.policyTable(f))
	if g.has("default") {
		f.at = d.at(g.nodes["default"])
	}
	l.later = append(l.later, func() {
		if !g.broken["default"] {
			f.reportIdle(l)
		}
		f.reportDead(l)
		l.longestWait()
	})
}

// reportIdle says it rule by rule where some default denies or asks, and once where none does: then default is what is
// missing.
func (f *policyFile) reportIdle(l *loader) {
	if len(f.idle) == 0 {
		return
	}
	const mend = "leave it out, or set default: {write: deny}"
	if l.pack.Policy.Of(NoEffect) == Allow && l.pack.Policy.Of(Write) == Allow {
		l.report(f.at, fmt.Sprintf("the rule at %s that allows changes nothing: without it the tools are allowed too", f.idle[0]), mend)
		return
	}
	for _, at := range f.idle {
		l.report(at, "the rule changes nothing: without it the tools are allowed too, and a rule that denies is stronger", mend)
	}
}

// reportDead refuses rules whose tools other rules deny in any case. It says so where the stronger rule stands, once: most
// likely its condition is what is missing.
func (f *policyFile) reportDead(l *loader) {
	closed := map[*Tool]*ruleFile{} // the first rule that always denies a tool
	for _, r := range f.rules {
		for _, t := range r.spoken {
			if r.always && r.Verdict == Deny && closed[t] == nil {
				closed[t] = r
			}
		}
	}
	dead := map[*ruleFile][]string{}
	for _, r := range f.rules {
		// A rule lives while one of its tools is open beside it.
		if len(r.spoken) > 0 && !slices.ContainsFunc(r.spoken, func(t *Tool) bool { return closed[t] == nil || closed[t] == r }) {
			by := closed[r.spoken[0]]
			dead[by] = append(dead[by], r.Place.String())
		}
	}
	for _, r := range f.rules {
		switch places := dead[r]; len(places) {
		case 0:
		case 1:
			l.report(r.Place, fmt.Sprintf("the rule always denies, so that the rule at %s changes nothing", places[0]), `add a condition as "when", or leave the other rule out`)
		default:
			l.report(r.Place, fmt.Sprintf("the rule always denies, so that the rules at %s change nothing", listed(places)), `add a condition as "when", or leave the other rules out`)
		}
	}
}

func verdicts() []Verdict { return []Verdict{Allow, Ask, Deny} }

func (l *loader) policyTable(f *policyFile) *table {
	p := &l.pack.Policy
	byEffect := map[Effect]*Verdict{NoEffect: new(Allow), Write: new(Allow), Irreversible: new(Ask)}
	verdict := func(e Effect, of []Verdict) value { return choice(byEffect[e], of, nil) }
	defaults := &table{
		what: "default", about: "The verdict where no rule of the tool matches.",
		keys: []key{
			{"none", verdict(NoEffect, []Verdict{Allow, Deny}), "allow", "For tools that change nothing.", "allow"},
			{"write", verdict(Write, verdicts()), "allow", "For tools that change something.", "deny"},
			{"irreversible", verdict(Irreversible, verdicts()), "ask", "For tools that change what cannot be changed back.", "ask"},
		},
	}
	approve := l.approveValue(&p.Approve)
	read := approve.read
	approve.read = func(d *source, n *yaml.Node) bool {
		f.unsure = !read(d, n)
		if !f.unsure && p.Approve.FourEyes && len(p.Approve.By) == 0 {
			f.unsure = true
			return d.bad(n, "nobody could decide: with four_eyes the requester may not, and nobody else is named", "name others in by")
		}
		return !f.unsure
	}
	return &table{
		what:  "policy.yaml",
		about: "Who may do what. The strictest of all rules that match wins. A rule that asks or denies and fails when it is evaluated counts as matching; one that allows does not.",
		keys: []key{
			{"default", object(defaults, func(_ *source, _ *yaml.Node, _ got) bool {
				for e, v := range byEffect {
					p.Default[e] = *v
				}
				return true
			}), "none and write are allowed, irreversible is asked for", defaults.about, "{write: deny}"},
			{"approve", approve, "the requester decides, within 24h", "Who decides where a rule, a default or the guard against strangers' words asks, and nobody is named.", "{by: [finance], within: 8h}"},
			{"hosts", texts(&p.Hosts, "list of whole host names", 0, 100, hostName), "none", "Hosts that targets and links of calls may name although the run has read strangers' words.", "[docs.example.com]"},
			{"rules", listOf("list of rules", 0, 500, l.ruleTable(&ruleFile{Rule: &Rule{}}), func(d *source, n *yaml.Node) bool { return l.readRule(d, n, f) }), "none", "The rules.", "[…]"},
		},
	}
}

func (l *loader) readRule(d *source, n *yaml.Node, f *policyFile) bool {
	r := &ruleFile{Rule: &Rule{Place: d.at(n)}, policy: f}
	g, ok := d.keysOf(n, l.ruleTable(r))
	if g.good("verdict") && r.Verdict != Allow && !g.has("why") && !*g.other {
		verb := map[Verdict]string{Deny: "denies", Ask: "asks"}[r.Verdict]
		l.report(d.at(n), "why is missing: a rule that "+verb+" says why", "add why: and a sentence for people")
		ok = false
	}
	if g.good("approve") {
		r.Approve = &r.approve
		ok = r.decidable(d, g, l.pack.Policy.Approve) && ok
	}
	f.rules = append(f.rules, r)
	at := len(l.pack.Policy.Rules)
	l.pack.Policy.Rules = append(l.pack.Policy.Rules, *r.Rule)
	l.later = append(l.later, func() {
		l.finishRule(d, r, g)
		if ok {
			r.Digest = r.digest()
			l.pack.Policy.Rules[at] = *r.Rule
		}
	})
	return ok
}

// digest is taken over what the rule says: its tools and its deciders in any order.
func (r *ruleFile) digest() string {
	list := func(words []string) []any {
		out := []any{}
		for _, w := range slices.Sorted(slices.Values(words)) {
			out = append(out, w)
		}
		return out
	}
	says := map[string]any{"tools": list(r.Tools), "verdict": string(r.Verdict)}
	if r.when != nil {
		says["when"] = strings.TrimSpace(r.when.Value)
	}
	if r.why != nil {
		says["why"] = strings.TrimSpace(r.why.Value)
	}
	if a := r.Approve; a != nil {
		says["approve"] = map[string]any{"by": list(a.By), "within": a.Within.String(), "in": a.In, "four_eyes": a.FourEyes}
	}
	sum := sha256.Sum256(Canonical(says))
	return hex.EncodeToString(sum[:])
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
		about: "One rule. Conditions see args, the facts of the tools by their names, tool, effect, actor {id, kind, groups}, channel {id, visibility}, scope, now, taint (the run has read strangers' words) and done(\"tool\") (that tool was done in this run).",
		keys: []key{
			{"tools", texts(&r.Tools, "list of tools", 1, 200, l.rulePattern), required, "Names of tools, or prefixes such as bookings.*", "[payments.refund]"},
			{"when", source(&r.when, "condition"), "always", "Condition; it must hold for every one of the tools' types. A fact may be named where each of the tools has it.", "args.amount > 5000"},
			{"verdict", choice(&r.Verdict, verdicts(), nil), required, "allow, ask (a person must approve it first) or deny.", "deny"},
			{"approve", l.approveValue(&r.approve), "the policy's", "Who decides; only beside verdict: ask.", "{by: [finance], within: 4h}"},
			{"why", source(&r.why, "text with expressions over args, facts and now"), "required for ask and deny", "The reason, for the person and the model.", "At most 50 euros."},
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
		l.all = append(slices.Clone(l.builtins), l.ask)
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
	r.spoken = tools
	conditions, reasons := map[string]*expr.Program{}, map[string]*expr.Template{}
	fine, seen := true, map[Place]bool{}
	for _, t := range tools {
		args := t.shown.Type().Without("why", "expects")
		c := l.contracts[t.Name]
		if c != nil {
			args = c.argType
		}
		missing := func(i expr.Issue, at Place) bool {
			if i.Of == "" && seen[at] {
				return true
			}
			seen[at] = seen[at] || i.Of == ""
			return l.missingName(c, i, at)
		}
		if g.good("when") {
			env := l.policyEnv(t, args)
			p, found := env.Condition(r.when.Value)
			fine = d.issues(r.when, found, missing) && fine
			conditions[t.Name] = p
			c.sees(p, r.Place)
		}
		if g.good("why") {
			env, err := l.base.With(expr.WhyVars(args, l.factVars(c))...)
			if err != nil {
				d.bad(r.why, err.Error(), "rename the arguments or the facts of "+t.Name)
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
	r.always = !g.has("when") && g.good("verdict") && !*g.other
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
	env, err := l.base.With(expr.PolicyVars(args, l.factVars(l.contracts[t.Name]), tools, scope)...)
	if err != nil {
		env = l.base
	}
	l.policies[t.Name] = env
	return env
}

// missingName takes care of names that the pack could define elsewhere: arguments, facts and their fields, scope variables,
// tools.
func (l *loader) missingName(c *contract, i expr.Issue, at Place) bool {
	switch {
	case i.Of == "scope":
		l.scope.use(i.Name, at)
	case i.Of == expr.DoneVar:
		l.tools.use(i.Name, at)
	case c == nil:
		return false
	case i.Of == "args":
		c.args.use(i.Name, at)
	case i.Of == "":
		return l.missingFact(c, i, at)
	default:
		f := slices.IndexFunc(c.reads, func(f *factFile) bool { return f.name == i.Of })
		if f < 0 || l.contracts[c.reads[f].Tool] == nil {
			return false
		}
		l.contracts[c.reads[f].Tool].results.use(i.Name, at)
	}
	return true
}

// missingFact takes care of a name that stands alone and may be that of a fact.
func (l *loader) missingFact(c *contract, i expr.Issue, at Place) bool {
	names := expr.PolicyNames()
	switch {
	case slices.Contains(names, i.Name) || expr.Near(i.Name, names) != "":
		return false
	case c.facts.broken:
		return true
	case len(c.facts.defs) > 0:
		c.facts.use(i.Name, at)
		return true
	case !strings.HasPrefix(i.Hint, "it may use "):
		return false
	}
	l.report(at, fmt.Sprintf("unknown name %q in the expression, and %s has no \"facts\"", i.Name, c.Name), i.Hint)
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
	r.policy.idle = append(r.policy.idle, r.Place)
}

// Of is the verdict for tools of an effect where no rule matches. What the pack does not say is allow, and ask for what
// cannot be taken back.
func (p Policy) Of(e Effect) Verdict {
	switch v := p.Default[e]; {
	case v != "":
		return v
	case e == Irreversible:
		return Ask
	default:
		return Allow
	}
}

// Names says whether the rule speaks for a tool.
func (r Rule) Names(tool string) bool {
	return slices.ContainsFunc(r.Tools, func(name string) bool {
		prefix, ok := strings.CutSuffix(name, "*")
		return name == tool || ok && strings.HasPrefix(tool, prefix)
	})
}
