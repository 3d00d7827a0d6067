package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"switchboard/config/expr"

	"go.yaml.in/yaml/v3"
)

// The defaults of a tool.
const (
	defaultTimeout  = 10 * time.Second
	defaultAttempts = 3 // where a retry is safe
	defaultKeeps    = 24 * time.Hour
)

// toolFile is one file of tools while it is read.
type toolFile struct {
	base     *Ref // of the server of every tool in the file
	auth     HTTP // only what the server's auth says
	bind     map[string]string
	binds    map[string]Place
	timeout  time.Duration
	attempts int
	strange  bool // its tools are untrusted unless they say otherwise
}

// contract is one tool while it is read.
type contract struct {
	*Tool
	file           *toolFile
	args, results  *names
	facts          *names
	reads          []*factFile     // in the order of the file
	lookup         *lookupFile     // nil: none
	targets        map[string]bool // what the contract says of arguments, either way
	argDocs        map[string]any
	resultDocs     map[string]any
	optional       []string
	unsure         bool // of optional
	optionalResult []string
	method, path   string
	pathNode       *yaml.Node
	attempts       int
	keeps          Idempotency
	argType        *expr.Type // for policy: without bound names
}

func (l *loader) readTools(d *source, n *yaml.Node) {
	f := &toolFile{bind: map[string]string{}, binds: map[string]Place{}, timeout: defaultTimeout, attempts: defaultAttempts}
	g, _ := d.keysOf(n, l.toolFileTable(f))
	if !g.good("tools") {
		l.tools.broken = true
	}
}

func (l *loader) toolFileTable(f *toolFile) *table {
	server := &table{what: "server", about: "The HTTP server of every tool in the file.", keys: []key{
		{"base", reference(&f.base), required, "Its address, http or https, without query.", "{env: PAYMENTS_URL}"},
		{"auth", object(authTable(&f.auth), oneAuth), "none", "How requests prove who they are.", "{bearer: {env: PAYMENTS_TOKEN}}"},
	}}
	defaults := &table{
		what: "defaults", about: "What holds for every tool in the file that does not say otherwise.",
		keys: []key{
			{"bind", l.binding(f.bind, f.binds), "none", "Arguments that the runtime fills in from scope. The model can neither see nor set them. They go into the path, the query (get, delete) or the body.", "{org: scope.org}"},
			{"timeout", period(&f.timeout, time.Second, 5*time.Minute), "10s", "Time of one attempt.", "10s"},
			{"retry", object(retryTable(&f.attempts), nil), "3 attempts where a retry is safe", "Further attempts after a failure that passes.", "{attempts: 3}"},
			{"untrusted", boolean(&f.strange), "false", "Results carry words of people who are not the team's.", "true"},
		},
	}
	return &table{
		what:  "a file of tools",
		about: "Tools of one HTTP server. The name of the file does not matter.",
		later: map[string]string{"openapi": "tools of an OpenAPI description", "mcp": "tools of an MCP server", "sql": "tools that are queries"},
		keys: []key{
			{"server", object(server, nil), required, server.about, "{base: {env: PAYMENTS_URL}}"},
			{"defaults", object(defaults, nil), "", defaults.about, "{timeout: 5s}"},
			{"tools", listOf("list of tools", 1, 200, l.toolTable(newContract(f)), func(d *source, n *yaml.Node) bool { return l.readTool(d, n, f) }), required, "The tools.", "[…]"},
		},
	}
}

func authTable(h *HTTP) *table {
	return &table{what: "auth", about: "Either bearer, or header and value.", keys: []key{
		{"bearer", reference(&h.Bearer), "", "Token of an Authorization: Bearer header.", "{env: PAYMENTS_TOKEN}"},
		{"header", header(&h.Header), "", "Name of another header.", "X-Api-Key"},
		{"value", reference(&h.Value), "", "Its value.", "{env: PAYMENTS_KEY}"},
	}}
}

func oneAuth(d *source, n *yaml.Node, g got) bool {
	if g.has("bearer") != g.has("header") && g.has("header") == g.has("value") {
		return true
	}
	return d.bad(n, "auth takes either bearer, or header and value", "write {bearer: {env: NAME}} or {header: X-Api-Key, value: {env: NAME}}")
}

func retryTable(attempts *int) *table {
	return &table{what: "retry", about: "Only reads, and effects with an idempotency key, are tried again.", keys: []key{
		{"attempts", whole(attempts, 1, 5), required, "Most attempts of one call, the first one included.", "3"},
	}}
}

// binding reads argument: scope.NAME.
func (l *loader) binding(bind map[string]string, places map[string]Place) value {
	return entries("scope variables by argument", nil, func(d *source, k, v *yaml.Node) bool {
		if !d.argName(k) {
			return false
		}
		s, ok := d.text(v)
		if !ok {
			return false
		}
		name, found := strings.CutPrefix(s, "scope.")
		if !found || !scopeForm.MatchString(name) {
			return d.bad(v, fmt.Sprintf("%q is no scope variable", clip(s)), "write scope.NAME, a name from `scope` in bot.yaml")
		}
		l.scope.use(name, d.at(v))
		bind[k.Value], places[k.Value] = name, d.at(k)
		return true
	})
}

// argName checks the name of an argument.
func (d *source) argName(k *yaml.Node) bool {
	switch {
	case k.Value == "why" || k.Value == "expects":
		return d.bad(k, k.Value+" is added to every tool by the runtime", "choose another name")
	case expr.Reserved(k.Value):
		return d.bad(k, k.Value+" is a word that expressions keep for themselves", "choose another name")
	}
	return d.fits(k, k.Value, argName())
}

func newContract(f *toolFile) *contract {
	return &contract{
		Tool: &Tool{Timeout: f.timeout, Bind: maps.Clone(f.bind), Untrusted: f.strange}, file: f, attempts: 0,
		args: newNames("argument"), results: newNames("field of the result"), facts: newNames("fact"),
		keeps: Idempotency{ProviderKeeps: defaultKeeps}, targets: map[string]bool{},
	}
}

func (l *loader) readTool(d *source, n *yaml.Node, f *toolFile) bool {
	c := newContract(f)
	c.Place = d.at(n)
	g, ok := d.keysOf(n, l.toolTable(c))
	if !g.good("name") {
		l.tools.broken = true
	} else if !l.tools.define(c.Name, d.at(g.nodes["name"])) {
		msg, mend := fmt.Sprintf("there is another tool %q at %s", c.Name, l.tools.defs[c.Name]), "rename one of them"
		if l.tools.defs[c.Name] == (Place{}) {
			msg, mend = fmt.Sprintf("%s is the name of a built-in tool", c.Name), "choose another name"
		}
		d.bad(g.nodes["name"], msg, mend)
		l.tools.broken = true // most likely it should have another name, which others want
		return true
	}
	if n.Kind != yaml.MappingNode {
		return true // the list is good, one of its items is not
	}
	l.complete(d, n, c, g)
	if g.good("name") {
		l.contracts[c.Name] = c
	}
	if ok {
		l.pack.Tools = append(l.pack.Tools, c.Tool)
	}
	return true
}

func (l *loader) toolTable(c *contract) *table {
	t := c.Tool
	keys := []key{
		{"name", shaped(&t.Name, toolName()), required, "Name of the tool.", "payments.refund"},
		{"about", text(&t.About, 500), required, "What it does; the model reads it.", "Refund one order, in cents."},
		{"effect", choice(&t.Effect, []Effect{NoEffect, Write, Irreversible}, nil), required, "What it changes: none, write, or irreversible for what cannot be taken back, which a person approves unless policy.yaml says otherwise.", "write"},
		{"bind", l.binding(t.Bind, map[string]Place{}), "the file's", "As in defaults; adds to it.", "{org: scope.org}"},
	}
	for _, m := range methods() {
		keys = append(keys, key{m, c.route(m), "", "Path of a " + strings.ToUpper(m) + " request. {x} is one argument, escaped; the others go to the " + carrier(m) + ". A tool has exactly one of get, post, put, patch, delete.", "/refunds/{order}"})
	}
	keys = append(keys,
		key{"args", l.argSchemas(c), "none", "Schemas of the arguments, by name. Arguments are required unless `optional` names them, and there are no others. why and expects are added to every tool.", `{order: {type: string, pattern: "^A-[0-9]+$"}}`},
		key{"optional", c.names(&c.optional, c.args), "none", "Arguments that may be absent.", "[note]"},
		key{"result", l.resultSchemas(c), "anything", "Schemas of the result's fields, by name, after `take`. They must be there unless `optional_result` names them; there may be others.", "{id: {type: string}}"},
		key{"optional_result", c.names(&c.optionalResult, c.results), "none", "Fields of the result that may be absent.", "[note]"},
		key{"take", l.takeExpr(c), "the whole body", "Expression over body and status that gives the result.", "body.data"},
		key{"fails_when", l.failsExpr(c), "never", "Condition over result that means failure.", `result.status == "rejected"`},
		key{"fails_text", pattern(func(s string, re *regexp.Regexp) { t.FailsText, t.failsText = s, re }), "a leading Error:, or not found, or not implemented", "Pattern (RE2): a result that is text and matches means failure.", `"^ERR "`},
		key{"timeout", period(&t.Timeout, time.Second, 5*time.Minute), "the file's, else 10s", "Time of one attempt.", "10s"},
		key{"retry", object(retryTable(&c.attempts), nil), "the file's, else 3 attempts for effect none or with idempotency; 1 otherwise", "Further attempts after a failure that passes.", "{attempts: 3}"},
		key{"rate", rate(&t.Rate), "no limit", "Most calls in a time.", "5/s"},
		key{"idempotency", object(keepsTable(&c.keeps), nil), "none", "How the server recognises a request that comes again.", "{header: Idempotency-Key, provider_keeps: 24h}"},
		key{"repeatable", boolean(&t.Repeatable), "false", "An equal effect may run again in one run.", "true"},
		key{"fresh", boolean(&t.Fresh), "false", "A repeated read is really asked again, never answered from the record.", "true"},
		key{"untrusted", boolean(&t.Untrusted), "the file's, else false", "Results carry words of people who are not the team's: web pages, mails, forms. A run that has read them is tainted.", "true"},
		key{"facts", l.factEntries(c), "none", "What the runtime reads before it judges a call, for the rules and for whoever approves it. The model does not see them.", `{order: {call: orders.get, args: {order: "${ args.order }"}}}`},
		key{"lookup", l.lookupValue(c), "a person is asked", "How to find out whether an effect took place, when no answer came.", `{call: refunds.list, args: {order: "${ args.order }"}, that: "result.rows.exists(r, r.amount == args.amount)"}`},
	)
	return &table{
		what: "a tool", about: "One typed contract.", keys: keys,
		later: map[string]string{"openapi": "tools of an OpenAPI description", "mcp": "tools of an MCP server", "sql": "tools that are queries"},
		hints: map[string]string{"target": "an argument is a target; write target: true in its schema"},
	}
}

func methods() []string { return []string{"get", "post", "put", "patch", "delete"} }

func carrier(method string) string {
	if method == "get" || method == "delete" {
		return "query"
	}
	return "JSON body"
}

func keepsTable(i *Idempotency) *table {
	return &table{what: "idempotency", about: "The key is the same for every attempt of one effect.", keys: []key{
		{"header", header(&i.Header), required, "Header that carries the key.", "Idempotency-Key"},
		{"provider_keeps", period(&i.ProviderKeeps, time.Minute, 365*24*time.Hour), "24h", "How long the server remembers a key.", "24h"},
	}}
}

// route reads the path of one method.
func (c *contract) route(method string) value {
	return value{words: says("path such as /refunds/{order}"), read: func(d *source, n *yaml.Node) bool {
		s, ok := d.text(n)
		if !ok {
			return false
		}
		if c.method != "" {
			return d.bad(n, fmt.Sprintf("the tool has %s already", c.method), "leave one of them out: a tool makes one request")
		}
		c.method, c.path, c.pathNode = method, s, n
		bare := pathName.ReplaceAllString(s, "x")
		if !pathForm.MatchString(bare) || slices.ContainsFunc(strings.Split(s, "/"), func(seg string) bool { return seg == "." || seg == ".." }) {
			return d.bad(n, fmt.Sprintf("%q is no plain path", clip(s)), "begin it with /, and leave out host, query and dots: /refunds/{order}")
		}
		return true
	}}
}

func (l *loader) argSchemas(c *contract) value {
	return schemas(c.args, (*source).argName, func(d *source, name string, v *yaml.Node) bool {
		if c.argDocs == nil {
			c.argDocs = map[string]any{}
		}
		doc, target, ok := d.argument(v)
		c.argDocs[name] = doc
		if target != nil {
			c.targets[name] = *target
		}
		return ok
	})
}

func (l *loader) resultSchemas(c *contract) value {
	named := func(d *source, k *yaml.Node) bool { return d.fits(k, k.Value, argName()) }
	return schemas(c.results, named, func(d *source, name string, v *yaml.Node) bool {
		if c.resultDocs == nil {
			c.resultDocs = map[string]any{}
		}
		doc, ok := d.schema(v, false)
		c.resultDocs[name] = doc
		return ok
	})
}

// schemas are schemas by name: named checks a name, and put reads what stands there.
func schemas(ns *names, named func(*source, *yaml.Node) bool, put func(*source, string, *yaml.Node) bool) value {
	v := entries("schemas by name", schemaTable(&property{}), func(d *source, k, v *yaml.Node) bool {
		if !named(d, k) {
			ns.broken = true
			return false
		}
		ns.define(k.Value, d.at(k))
		return put(d, k.Value, v)
	})
	read := v.read
	v.read = func(d *source, n *yaml.Node) bool {
		ok := read(d, n)
		for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
			ns.broken = ns.broken || d.spoiled[n.Content[i]] // such as a name that stands twice and should be another
		}
		return ok
	}
	return v
}

// names reads a list of names that the contract defines.
func (c *contract) names(p *[]string, ns *names) value {
	return texts(p, "list of names", 0, 200, func(d *source, n *yaml.Node, s string) bool {
		ns.use(s, d.at(n))
		return true
	})
}

func (l *loader) takeExpr(c *contract) value {
	return value{words: says("expression"), read: func(d *source, n *yaml.Node) bool {
		s, ok := d.text(n)
		if !ok || d.foldedExpr(n) {
			return false
		}
		p, found := l.take.Value(s)
		c.take = p
		return d.issues(n, found, nil)
	}}
}

func (l *loader) failsExpr(c *contract) value {
	return value{words: says("condition"), read: func(d *source, n *yaml.Node) bool {
		s, ok := d.text(n)
		if !ok || d.foldedExpr(n) {
			return false
		}
		env, err := l.base.With(expr.Var{Name: "result", Type: c.resultType()})
		if err != nil {
			return d.bad(n, err.Error(), "rename the fields of the result")
		}
		p, found := env.Condition(s)
		c.failsWhen = p
		return d.issues(n, found, func(i expr.Issue, at Place) bool {
			if i.Of == "result" {
				c.results.use(i.Name, at)
			}
			return i.Of == "result"
		})
	}}
}

// resultType is what expressions know of the result.
func (c *contract) resultType() *expr.Type {
	if c.resultDocs == nil || c.results.broken {
		return expr.Dyn()
	}
	return exprType(c.resultDocs)
}

// complete checks the parts of a tool against each other and builds what the runtime asks it.
func (l *loader) complete(d *source, n *yaml.Node, c *contract, g got) {
	c.args.what = "argument of " + c.Name
	c.results.what = "field of the result of " + c.Name
	c.args.broken = c.args.broken || g.broken["args"] && c.argDocs == nil || g.broken["bind"] || g.lacks("args")
	c.unsure = g.broken["optional"] || g.lacks("optional")
	c.results.broken = c.results.broken || g.broken["result"] && c.resultDocs == nil || g.lacks("result")
	c.facts.what = "fact of " + c.Name
	c.facts.broken = c.facts.broken || g.broken["facts"] && len(c.reads) == 0 || g.lacks("facts")
	if !g.has("args") {
		c.args.section, c.args.home = "args", d.at(n)
	}
	if !g.has("result") {
		c.results.section, c.results.home = "result", d.at(n)
	}
	if c.method == "" && !*g.other && !slices.ContainsFunc(methods(), func(m string) bool { return g.broken[m] }) {
		l.report(d.at(n), "the tool has no request", "add one of get, post, put, patch, delete with a path")
	}
	c.checkPath(d, g)
	switch {
	case c.attempts > 1 && c.Effect.Changes() && !g.has("idempotency") && !*g.other:
		l.report(d.at(n), "idempotency is missing: without a key an effect that is tried again could take place twice", "add idempotency, or leave retry out")
	case c.attempts > 0:
		c.Attempts = c.attempts
	case c.Effect == NoEffect || g.has("idempotency"):
		c.Attempts = c.file.attempts
	default:
		c.Attempts = 1
	}
	if g.good("idempotency") {
		c.Idempotency = &c.keeps
	}
	h := c.file.auth
	h.Method, h.Path = strings.ToUpper(c.method), c.path
	if c.file.base != nil {
		h.Base = *c.file.base
	}
	c.HTTP = &h
	if c.lookup != nil && c.Effect == NoEffect {
		d.bad(c.lookup.at, "lookup belongs to tools with an effect: a read that failed has changed nothing", "leave it out")
	}
	for _, name := range sortedKeys(c.argDocs) {
		if _, bound := c.Bind[name]; c.targets[name] && !bound {
			c.Targets = append(c.Targets, name)
		}
	}
	c.seal(l, d, n)
	l.later = append(l.later, func() { l.finishReads(d, c) })
}

// seal compiles the schemas of a contract.
func (c *contract) seal(l *loader, d *source, n *yaml.Node) {
	props := maps.Clone(c.argDocs)
	if props == nil {
		props = map[string]any{}
	}
	shown := maps.Clone(props)
	for name := range c.Bind {
		delete(shown, name)
		if props[name] == nil {
			props[name] = map[string]any{"type": "string"}
		}
	}
	c.argType = exprType(shown)
	if c.args.broken {
		c.argType = expr.Dyn()
	}
	var result map[string]any
	if c.resultDocs != nil {
		result = objectDoc(c.resultDocs, c.optionalResult, false)
	}
	if err := c.compile(&l.schemas, docs{objectDoc(props, c.optional, true), shown, c.optional, result}); err != nil {
		l.report(d.at(n), "the schemas of the tool do not fit together: "+err.Error(), "correct args and result")
	}
}

// checkPath holds the names in a path against the arguments.
func (c *contract) checkPath(d *source, g got) {
	if c.pathNode == nil || g.broken[c.method] {
		return
	}
	for _, m := range pathName.FindAllStringSubmatchIndex(c.path, -1) {
		name := c.path[m[2]:m[3]]
		at := d.spot(c.pathNode, 1, 1+len([]rune(c.path[:m[2]])))
		if _, bound := c.Bind[name]; bound {
			continue
		}
		c.args.use(name, at)
		doc, _ := c.argDocs[name].(map[string]any)
		switch {
		case slices.Contains(c.optional, name):
			d.l.report(at, fmt.Sprintf("the argument %q stands in the path and cannot be optional", name), "leave it out of optional")
		case doc["type"] == "array" || doc["type"] == "object":
			d.l.report(at, fmt.Sprintf("the argument %q is a %s and cannot stand in a path", name, doc["type"]), "put text or a number there")
		}
	}
}
