package config

import (
	"fmt"
	"slices"

	"switchboard/config/expr"

	"go.yaml.in/yaml/v3"
)

// readFile is a read of the runtime's own while it is read from a file.
type readFile struct {
	Read
	at, call, given *yaml.Node
	good            bool
}

// factFile is a fact while it is read.
type factFile struct {
	readFile
	name string
}

// lookupFile is a look-up while it is read.
type lookupFile struct {
	readFile
	that *yaml.Node
}

// mostFacts is how many facts one tool may have: each is a request before every call.
const mostFacts = 8

// factEntries reads the facts of a tool by name.
func (l *loader) factEntries(c *contract) value {
	v := entries("reads by name", l.factTable(&readFile{}), func(d *source, k, v *yaml.Node) bool {
		if !d.factName(k) {
			c.facts.broken = true
			return false
		}
		c.facts.define(k.Value, d.at(k))
		f := &factFile{name: k.Value, readFile: readFile{at: k}}
		_, f.good = d.keysOf(v, l.factTable(&f.readFile))
		c.reads = append(c.reads, f)
		return f.good
	})
	read := v.read
	v.read = func(d *source, n *yaml.Node) bool {
		ok := read(d, n)
		for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
			c.facts.broken = c.facts.broken || d.spoiled[n.Content[i]] // such as a name that stands twice and should be another
		}
		if ok && len(c.reads) > mostFacts {
			return d.bad(n, fmt.Sprintf("the tool has %d facts, at most %d are read", len(c.reads), mostFacts), "read them with one call, or leave some out")
		}
		return ok
	}
	return v
}

// factName checks the name of a fact: conditions know it beside their other names.
func (d *source) factName(k *yaml.Node) bool {
	if expr.Taken(k.Value) {
		return d.bad(k, k.Value+" means something else in a condition", "choose another name")
	}
	return d.fits(k, k.Value, scopeName())
}

func (l *loader) factTable(r *readFile) *table {
	return &table{
		what:  "a fact",
		about: "A read that the runtime makes itself, under the scope of the request. All facts of a tool are read before its rules are; where one cannot be read, the call is refused.",
		keys:  l.readKeys(r),
	}
}

// readKeys are the keys of a read.
func (l *loader) readKeys(r *readFile) []key {
	call := value{words: says("name of a tool"), read: func(d *source, n *yaml.Node) bool {
		name, ok := d.text(n)
		r.Tool, r.call = name, n
		if ok {
			l.tools.use(name, d.at(n))
		}
		return ok
	}}
	args := value{words: says("arguments by name, with expressions over args"), read: func(d *source, n *yaml.Node) bool {
		if n.Kind != yaml.MappingNode && !d.spoiled[n] {
			return d.expected(n, "arguments by name", `write {name: value}, such as {order: "${ args.order }"}`)
		}
		r.given = n
		return !d.spoiled[n]
	}}
	return []key{
		{"call", call, required, "A tool of the pack with effect none and without facts of its own. What it binds comes from scope.", "orders.get"},
		{"args", args, "none", "Its arguments; ${ … } sees args, the arguments of the call that it is read for.", `{order: "${ args.order }"}`},
	}
}

// lookupValue reads the look-up of a tool.
func (l *loader) lookupValue(c *contract) value {
	return value{words: says("keys and values"), sub: l.lookupTable(&lookupFile{}), read: func(d *source, n *yaml.Node) bool {
		u := &lookupFile{readFile: readFile{at: n}}
		_, u.good = d.keysOf(n, l.lookupTable(u))
		c.lookup = u
		return u.good
	}}
}

func (l *loader) lookupTable(u *lookupFile) *table {
	that := value{words: says("condition over result, args, key, since"), read: func(d *source, n *yaml.Node) bool {
		_, ok := d.text(n)
		u.that = n
		return ok && !d.foldedExpr(n)
	}}
	return &table{
		what:  "lookup",
		about: "A read that shows whether an effect took place. It is asked when a request was sent and its outcome is not known; where it cannot tell, a person is asked.",
		keys: append(l.readKeys(&u.readFile),
			key{"that", that, required, "Condition that holds if the effect took place. It sees result, args, key (the idempotency key that was sent) and since (when the first attempt began).", `"result.rows.exists(r, r.amount == args.amount)"`}),
	}
}

// finishReads holds the facts and the look-up of a tool against the tools that they call, once all are read.
func (l *loader) finishReads(d *source, c *contract) {
	for _, f := range c.reads {
		if f.good {
			l.finishRead(d, c, &f.readFile)
		}
		c.Facts = append(c.Facts, Fact{Name: f.name, Read: f.Read, Place: d.at(f.at)})
	}
	u := c.lookup
	if u == nil || !u.good {
		return
	}
	of := l.finishRead(d, c, &u.readFile)
	if of == nil {
		return
	}
	env, err := l.base.With(expr.LookupVars(of.resultType(), c.argType)...)
	if err != nil {
		d.bad(u.that, err.Error(), "rename the fields of the result of "+of.Name)
		return
	}
	p, found := env.Condition(u.that.Value)
	if !d.issues(u.that, found, func(i expr.Issue, at Place) bool {
		switch i.Of {
		case "args":
			c.args.use(i.Name, at)
		case "result":
			of.results.use(i.Name, at)
		default:
			return false
		}
		return true
	}) {
		return
	}
	if _, always := p.Constant(); always {
		d.bad(u.that, "the condition is always the same and finds out nothing", "compare the result with args, key or since")
		return
	}
	c.Lookup = &Lookup{Read: u.Read, Place: d.at(u.at), that: p}
}

// finishRead compiles the arguments of a read. It gives the contract of the tool that is asked; nil when that cannot be.
func (l *loader) finishRead(d *source, c *contract, r *readFile) *contract {
	of := l.contracts[r.Tool]
	switch {
	case of == nil && l.brings(r.Tool):
		d.bad(r.call, r.Tool+" is built in and knows nothing of what a call is about", "name a tool of the pack")
		return nil
	case of == nil:
		return nil // an unknown name is reported as such
	case of.Effect.Changes():
		d.bad(r.call, fmt.Sprintf("the tool %s changes something; the runtime itself only reads", of.Name), "name a tool with effect: none")
		return nil
	case len(of.reads) > 0:
		d.bad(r.call, fmt.Sprintf("the tool %s has facts of its own, which would have to be read first", of.Name), "name a tool without facts")
		return nil
	}
	r.args = expr.ObjectOf(map[string]*expr.Template{})
	if !l.readArgs(d, r, of) || r.given == nil {
		return of
	}
	env, err := l.base.With(expr.ReadVars(c.argType)...)
	if err != nil {
		d.bad(r.given, err.Error(), "rename the arguments of "+c.Name)
		return of
	}
	args, ok := templateIn(env, d, r.given, func(i expr.Issue, at Place) bool {
		if i.Of == "args" {
			c.args.use(i.Name, at)
		}
		return i.Of == "args"
	})
	if ok {
		r.args = args
	}
	return of
}

// readArgs holds the names of a read's arguments against those that its tool takes.
func (l *loader) readArgs(d *source, r *readFile, of *contract) bool {
	ok, strange, given := true, of.args.unsettled(), map[string]bool{}
	for i := 0; r.given != nil && i+1 < len(r.given.Content); i += 2 {
		k := r.given.Content[i]
		if _, bound := of.Bind[k.Value]; bound {
			ok = d.bad(k, fmt.Sprintf("the argument %q of %s comes from scope", clip(k.Value), of.Name), "leave it out")
			continue
		}
		_, known := of.args.defs[k.Value]
		of.args.use(k.Value, d.at(k))
		given[k.Value], strange = true, strange || !known
	}
	if strange || of.args.broken || of.unsure || !ok {
		return ok // what is missing most likely goes by another name
	}
	at := r.call
	if r.given != nil {
		at = r.given
	}
	for _, name := range sortedKeys(of.argDocs) {
		_, bound := of.Bind[name]
		if !bound && !given[name] && !slices.Contains(of.optional, name) {
			d.l.report(d.at(at), fmt.Sprintf("the argument %q of %s is missing", name, of.Name), fmt.Sprintf(`add it to args: {%s: "${ args.%s }"}, or name it in "optional" of %s`, name, name, of.Name))
			ok = false
		}
	}
	return ok
}

// sees notes which facts a condition uses.
func (c *contract) sees(p *expr.Program, at Place) {
	if c == nil || p == nil {
		return
	}
	for name := range c.facts.defs {
		if p.Sees(name) {
			c.facts.use(name, at)
		}
	}
}

// factVars are the facts of a tool as names that conditions may use.
func (l *loader) factVars(c *contract) []expr.Var {
	if c == nil {
		return nil
	}
	out := make([]expr.Var, 0, len(c.reads))
	for _, f := range c.reads {
		t := expr.Dyn()
		if of := l.contracts[f.Tool]; of != nil {
			t = of.resultType()
		}
		out = append(out, expr.Var{Name: f.name, Type: t})
	}
	return out
}
