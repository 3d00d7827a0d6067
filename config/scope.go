package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"switchboard/config/expr"

	"go.yaml.in/yaml/v3"
)

// ShortestBound is how many characters a bound value must have: a shorter one could not be hidden wherever it turns up.
const ShortestBound = 4

// scopeFile is a scope variable while it is read.
type scopeFile struct {
	ScopeVar
	from, call, take *yaml.Node
}

func (l *loader) scopeEntries() value {
	return entries("scope variables by name", l.scopeTable(&scopeFile{}), func(d *source, k, v *yaml.Node) bool {
		s := &scopeFile{ScopeVar: ScopeVar{Name: k.Value, Map: map[string]string{}}}
		ok := d.fits(k, k.Value, scopeName())
		g, good := d.keysOf(v, l.scopeTable(s))
		if good {
			s.whole(d, v, g)
		}
		l.scope.define(k.Value, d.at(k))
		at := len(l.pack.Scope)
		l.pack.Scope = append(l.pack.Scope, s.ScopeVar)
		if s.Call != nil {
			l.later = append(l.later, func() { l.finishScope(d, s, at) })
		}
		return ok
	})
}

// whole checks that a variable says where its values come from, and in one way.
func (s *scopeFile) whole(d *source, n *yaml.Node, g got) {
	call, take := g.has("call"), g.has("take")
	switch {
	case g.has("map") && (call || take):
		d.bad(n, "a scope variable has either map, or call and take", "leave one of them out")
	case g.has("map") || *g.other:
	case !call && !take:
		d.l.report(d.at(n), "map is missing in a scope variable", "add map: {C0FRONT: org_7}, or call: and take: to look values up")
	case !take:
		d.l.report(d.at(n), "take is missing: it says where in the tool's result the value stands", "add take: result.id")
	case !call:
		d.l.report(d.at(n), "call is missing: it names the tool that looks values up", "add call: and the name of a tool")
	case len(s.From) != 1:
		d.bad(s.from, "a look-up is given one id, of the channel or of the person", "leave one of them out")
	default:
		s.Call = &ScopeCall{Tool: s.call.Value}
	}
}

func (l *loader) scopeTable(s *scopeFile) *table {
	from := value{words: says("channel, person, or a list of both in the order they are tried"), read: func(d *source, n *yaml.Node) bool {
		s.from = n
		if n.Kind == yaml.ScalarNode {
			var one string
			if !choice(&one, []string{"channel", "person"}, nil).read(d, n) {
				return false
			}
			s.From = []string{one}
			return true
		}
		var both []string
		if !texts(&both, "channel or person", 1, 2, func(d *source, n *yaml.Node, v string) bool {
			return d.oneOf(n, v, []string{"channel", "person"}, nil)
		}).read(d, n) {
			return false
		}
		s.From = both
		return true
	}}
	call := value{words: says("name of a tool"), read: func(d *source, n *yaml.Node) bool {
		name, ok := d.text(n)
		if ok {
			s.call = n
			l.tools.use(name, d.at(n))
		}
		return ok
	}}
	take := value{words: says("expression"), read: func(d *source, n *yaml.Node) bool {
		_, ok := d.text(n)
		s.take = n
		return ok && !d.foldedExpr(n)
	}}
	return &table{
		what:  "a scope variable",
		about: "One value that tools bind, such as the organisation. Its values stand in map, or a tool looks them up: call and take. A value has at least 4 characters, so that it can be masked wherever it turns up.",
		keys: []key{
			{"from", from, required, "What names the value; one of channel and person with call.", "[channel, person]"},
			{"map", s.entries(), required + " without call", "Values by channel id (C…, D…, G…) and person id (U…, W…).", "{C0FRONT: org_7, U0ANA: org_7}"},
			{"call", call, required + " without map", "A tool of the pack with effect none and, beside what it binds, one text argument: it is given the id of the channel or the person, once for each request. It may bind variables that have a map, or stand above this one.", "members.by_slack"},
			{"take", take, required + " with call", "Expression over result: where the value stands in it. Nothing there, or a call that fails, means that there is no value.", "result.id"},
		},
	}
}

// entries reads the map of a scope variable.
func (s *scopeFile) entries() value {
	stray := false
	return entries("values by id", nil, func(d *source, k, v *yaml.Node) bool {
		kind := "channel"
		if personForm.MatchString(k.Value) {
			kind = "person"
		} else if !channelForm.MatchString(k.Value) {
			return d.bad(k, fmt.Sprintf("%q is no id of a channel or a person", clip(k.Value)), "use the id, such as C0FRONT or U0ANA; names come with a later version")
		}
		if len(s.From) > 0 && !slices.Contains(s.From, kind) && !stray {
			stray = true
			return d.bad(s.from, fmt.Sprintf("the map holds the id of a %s (%s), which from does not name", kind, k.Value), "add "+kind+" to from, or leave such ids out")
		}
		text, ok := d.text(v)
		if ok && len([]rune(text)) < ShortestBound {
			return d.bad(v, "the value is shorter than 4 characters and could not be masked", "use a longer value")
		}
		s.Map[k.Value] = text
		return ok
	})
}

// finishScope holds a look-up against its tool, once all tools are read. at is the variable's number.
func (l *loader) finishScope(d *source, s *scopeFile, at int) {
	c := l.contracts[s.Call.Tool]
	if c == nil {
		if l.brings(s.Call.Tool) {
			d.bad(s.call, s.Call.Tool+" is built in and looks up nobody", "name a tool of the pack")
		}
		return // an unknown name is reported as such
	}
	if c.Effect.Changes() {
		d.bad(s.call, fmt.Sprintf("the tool %s changes something; values are looked up by a read", c.Name), "name a tool with effect: none")
		return
	}
	if msg, mend := l.lookupBinds(c, at); msg != "" {
		d.bad(s.call, msg, mend)
		return
	}
	if !l.lookupArg(d, s, c) {
		return
	}
	l.lookupTake(d, s, c)
}

// lookupBinds says what is wrong with the variables that a look-up's tool binds: they must be known before it is asked.
func (l *loader) lookupBinds(c *contract, at int) (msg, mend string) {
	for _, arg := range slices.Sorted(maps.Keys(c.Bind)) {
		name := c.Bind[arg]
		i := slices.IndexFunc(l.pack.Scope, func(v ScopeVar) bool { return v.Name == name })
		if i >= at && l.pack.Scope[i].Call != nil {
			return fmt.Sprintf("the tool %s binds scope.%s, which is not known when it is asked", c.Name, name),
				"bind variables that have a map, or stand above " + l.pack.Scope[at].Name
		}
	}
	return "", ""
}

// lookupArg finds the argument that takes the id.
func (l *loader) lookupArg(d *source, s *scopeFile, c *contract) bool {
	for name := range c.args.uses {
		if _, ok := c.args.defs[name]; !ok {
			return true // its arguments are wrong, and that is reported
		}
	}
	if c.args.broken {
		return true
	}
	var free []string
	for _, name := range sortedKeys(c.argDocs) {
		if _, bound := c.Bind[name]; !bound {
			free = append(free, name)
		}
	}
	if len(free) != 1 {
		names := "none"
		if len(free) > 0 {
			names = strings.Join(free, ", ")
		}
		return d.bad(s.call, fmt.Sprintf("the tool %s must have one argument that takes the id, beside what it binds; it has %s", c.Name, names), "name a tool with one text argument")
	}
	doc, _ := c.argDocs[free[0]].(map[string]any)
	if len(doc) > 0 && doc["type"] != "string" { // an empty one could not be read
		return d.bad(s.call, fmt.Sprintf("the argument %q of %s is no text and cannot take an id", free[0], c.Name), "name a tool with one text argument")
	}
	s.Call.Arg = free[0]
	return true
}

// lookupTake compiles take for the result of its tool.
func (l *loader) lookupTake(d *source, s *scopeFile, c *contract) {
	env, err := l.base.With(expr.Var{Name: "result", Type: c.resultType()})
	if err != nil {
		d.bad(s.take, err.Error(), "rename the fields of the result of "+c.Name)
		return
	}
	p, found := env.Value(s.take.Value)
	if !d.issues(s.take, found, func(i expr.Issue, at Place) bool {
		if i.Of == "result" {
			c.results.use(i.Name, at)
		}
		return i.Of == "result"
	}) {
		return
	}
	if _, always := p.Constant(); always {
		d.bad(s.take, "the value is always the same", "take it from the result, such as result.id; a fixed value stands in map")
		return
	}
	if instead, ok := p.Short(); !ok {
		d.bad(s.take, "take gives "+instead+"; a bound value is text, or a whole number", "take one field of it")
		return
	}
	s.Call.take = p
}

// Take finds the value in a tool's result; "" means that there is none. A value that nobody may bind is an error, which
// does not repeat it.
func (c *ScopeCall) Take(result any) (string, error) {
	v, err := c.take.Eval(map[string]any{"result": result})
	if err != nil {
		return "", fmt.Errorf("take the value out of the result of %s: %w", c.Tool, err)
	}
	var text string
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		text = strings.TrimSpace(v)
	case int64:
		text = strconv.FormatInt(v, 10)
	default:
		return "", fmt.Errorf("take the value out of the result of %s: it is neither text nor a whole number", c.Tool)
	}
	if text != "" && len([]rune(text)) < ShortestBound {
		return "", fmt.Errorf("take the value out of the result of %s: it has fewer than %d characters and could not be masked", c.Tool, ShortestBound)
	}
	return text, nil
}
