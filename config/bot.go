package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"switchboard/config/expr"

	"go.yaml.in/yaml/v3"
)

// The defaults of bot.yaml.
const (
	defaultThreshold = 0.8
	defaultOutput    = 1024 // tokens of one answer
	defaultTokens    = 60_000
	defaultTime      = 90 * time.Second
	defaultCalls     = 40
	defaultRetention = 30 * 24 * time.Hour
)

func (l *loader) readBot(d *source, n *yaml.Node) {
	p := l.pack
	p.Router.Threshold = defaultThreshold
	p.Limits.Run = RunLimits{Tokens: defaultTokens, Time: defaultTime, Calls: defaultCalls}
	p.Retention = defaultRetention
	p.Slack.Listen = Threads
	l.bot = d.at(n)
	if n.Kind != yaml.MappingNode || d.spoiled[n] {
		d.keysOf(n, l.botTable())
		l.lostBot()
		return
	}
	g, _ := d.keysOf(n, l.botTable())
	l.models.broken = l.models.broken || !g.good("models")
	for section, ns := range map[string]*names{"scope": l.scope, "people": l.groups} {
		ns.broken = ns.broken || g.broken[section] || g.lacks(section)
		if !g.has(section) {
			ns.section, ns.home = section, d.at(n)
		}
	}
	l.later = append(l.later, l.checkPrices)
}

func (l *loader) botTable() *table {
	p := l.pack
	var version int
	limits := &table{what: "limits", about: "What a run and a person may cost. Waiting for people is not counted.", keys: []key{
		{"run", object(l.runLimits(&p.Limits.Run), nil), "", "Bounds of one run; assistants may set their own.", "{tokens: 60000, usd: 0.20, time: 90s}"},
		{"person", object(l.personLimits(), nil), "", "Bounds of one person.", "{usd_per_day: 2.00}"},
	}}
	return &table{
		what:  "bot.yaml",
		about: "The bot itself: its models, who is who, and its limits.",
		later: map[string]string{"schedules": "scheduled posts", "mcp": "tools of MCP servers"},
		keys: []key{
			{"pack", whole(&version, 1, 1), required, "Version of this format.", "1"},
			{"name", shaped(&p.Name, dashName()), required, "Name of the bot; it stands in its records.", "club"},
			{"models", l.modelEntries(), required, "Language models by the names that assistants use.", "{fast: {use: openai/gpt-4o-mini}}"},
			{"router", object(l.routerTable(), nil), required, "How a message finds its assistant.", "{model: fast, threshold: 0.8}"},
			{"scope", l.scopeEntries(), "", "Values that the runtime binds to a request by where it comes from. A model can neither see nor set them. Nobody has a default: without a value the tools that bind it do not exist.", "{org: {from: channel, map: {C0FRONT: org_7}}}"},
			{"people", l.peopleEntries(), "", "Named sets of people, for open_to, for approve and for ask.person. everyone, guests and external exist already.", "{admins: [U0ANA, S0ADM]}"},
			{"limits", object(limits, nil), "", limits.about, "{run: {tokens: 60000}}"},
			{"links", texts(&p.Links, "list of whole host names", 0, 100, hostName), "none", "Hosts that a reply may link to. Other links are removed.", "[docs.example.com]"},
			{"retention", period(&p.Retention, 24*time.Hour, 3650*24*time.Hour), "30d", "How long messages, arguments and results are kept. Records of what was done stay.", "30d"},
			{"slack", object(slackTable(&p.Slack), nil), "", slackTable(&p.Slack).about, "{listen: thread}"},
			{"reload", object(reloadTable(&p.Reload), nil), "", reloadTable(&p.Reload).about, "{rehearse: true}"},
			{"example", l.exampleName(), "none", "An example server that is compiled in and that the bot starts beside itself.", "backoffice"},
		},
	}
}

// exampleName is the name of a server that is compiled in.
func (l *loader) exampleName() value {
	v := shaped(&l.pack.Example, dashName())
	read := v.read
	v.read = func(d *source, n *yaml.Node) bool {
		if !read(d, n) {
			return false
		}
		if name := l.pack.Example; l.examples != nil && !slices.Contains(l.examples, name) {
			mend := nearName(name, l.examples)
			switch {
			case len(l.examples) == 0:
				mend = "none is compiled in; leave the key out"
			case mend == "":
				mend = "known: " + listed(sortedWords(l.examples))
			}
			return d.bad(n, fmt.Sprintf("unknown example server %q", clip(name)), mend)
		}
		return true
	}
	return v
}

func (l *loader) modelEntries() value {
	return entries("models by name", modelTable(&modelFile{}), func(d *source, k, v *yaml.Node) bool {
		ok := d.fits(k, k.Value, dashName())
		m := &modelFile{Model: Model{Name: k.Value, Output: defaultOutput}}
		g, good := d.keysOf(v, modelTable(m))
		if g.good("price") {
			m.Price = &m.price
		}
		if g.good("temperature") {
			m.Heat = &m.heat
		}
		if g.broken["price"] || !good && !g.has("price") {
			l.unpriced[k.Value] = true
		}
		l.models.define(k.Value, d.at(k))
		m.Place = d.at(v)
		l.pack.Models = append(l.pack.Models, m.Model)
		return ok // a model whose keys are wrong still exists
	})
}

// modelFile is a model while it is read.
type modelFile struct {
	Model
	price Price
	heat  float64
}

func modelTable(m *modelFile) *table {
	use := value{words: says("provider/id, the provider being openai or anthropic"), read: func(d *source, n *yaml.Node) bool {
		s, ok := d.text(n)
		if !ok {
			return false
		}
		provider, id, found := strings.Cut(s, "/")
		if !found || id == "" || strings.ContainsAny(id, " \t\n") {
			return d.bad(n, fmt.Sprintf("%q is not provider/id", clip(s)), "write for example openai/gpt-4o-mini")
		}
		m.Provider, m.ID = provider, id
		return d.oneOf(n, provider, []string{"openai", "anthropic"}, nil)
	}}
	return &table{
		what:  "a model",
		about: "One language model. openai also means any server that speaks OpenAI's dialect, at `base`.",
		keys: []key{
			{"use", use, required, "Provider and its name of the model.", "openai/gpt-4o-mini"},
			{"base", reference(&m.Base), "OPENAI_BASE_URL or ANTHROPIC_BASE_URL, else the provider's own address", "Address of a compatible server.", "{env: MODELS_URL}"},
			{"key", reference(&m.Key), "OPENAI_API_KEY or ANTHROPIC_API_KEY", "The key for it.", "{env: MODELS_KEY}"},
			{"price", object(priceTable(&m.price), func(_ *source, _ *yaml.Node, g got) bool {
				if !g.has("cached") {
					m.price.Cached = m.price.Input
				}
				return true
			}), "unpriced", "USD per million tokens. A limit in money needs the price of every model in use.", "{input: 0.15, cached: 0.075, output: 0.60}"},
			{"output", whole(&m.Output, 16, 1_000_000), "1024", "Most tokens of one answer.", "1024"},
			{"temperature", ratio(&m.heat, 0, 2), "the provider's own", "How freely the model chooses its words.", "0.2"},
		},
	}
}

func priceTable(p *Price) *table {
	const perToken = 1_000_000 // picodollars a token for one USD per million tokens
	return &table{what: "a price", about: "USD per million tokens, at most six decimals.", keys: []key{
		{"input", usd(&p.Input, perToken, 0, 10_000), required, "Tokens that are sent.", "0.15"},
		{"cached", usd(&p.Cached, perToken, 0, 10_000), "the price of input", "Sent tokens that the provider had in its cache.", "0.075"},
		{"output", usd(&p.Output, perToken, 0, 10_000), required, "Tokens that are answered.", "0.60"},
	}}
}

func (l *loader) routerTable() *table {
	r := &l.pack.Router
	return &table{what: "the router", about: "The router has no tools: it says which assistant should take a message, and how sure it is.", keys: []key{
		{"model", l.modelName(&r.Model), required, "Name of a model in `models`.", "fast"},
		{"threshold", ratio(&r.Threshold, 0, 1), "0.8", "Confidence below which the router asks instead.", "0.8"},
	}}
}

// modelName is the name of a model that bot.yaml defines.
func (l *loader) modelName(p *string) value {
	return value{words: says("name of a model"), read: func(d *source, n *yaml.Node) bool {
		s, ok := d.text(n)
		if ok {
			*p = s
			l.models.use(s, d.at(n))
		}
		return ok
	}}
}

func (l *loader) peopleEntries() value {
	return entries("lists of ids by name", nil, func(d *source, k, v *yaml.Node) bool {
		g := Group{Name: k.Value}
		ok := d.fits(k, k.Value, dashName())
		switch k.Value {
		case Everyone, Guests, Externals:
			return d.bad(k, k.Value+" is a group that every pack has", "choose another name")
		case Requester:
			return d.bad(k, k.Value+" is whoever a run works for", "choose another name")
		}
		texts(&g.Members, "ids of people (U…) and groups (S…)", 1, 10_000, func(d *source, n *yaml.Node, s string) bool {
			return d.fits(n, s, memberID())
		}).read(d, v)
		l.groups.define(k.Value, d.at(k))
		l.pack.People = append(l.pack.People, g)
		return ok
	})
}

// runLimits is the table of one run's bounds.
func (l *loader) runLimits(r *RunLimits) *table {
	money := usd(&r.Money, 1e12, 0.0001, 10_000)
	read := money.read
	money.read = func(d *source, n *yaml.Node) bool {
		l.money = append(l.money, d.at(n))
		return read(d, n)
	}
	return &table{
		what:  "the limits of a run",
		about: "What one run may use before it ends with what it has.",
		hints: map[string]string{"cost": "money is written usd: 0.20"},
		keys: []key{
			{"tokens", whole(&r.Tokens, 1_000, 10_000_000), "60000", "Tokens of all model calls together, sent and answered.", "60000"},
			{"usd", money, "no limit", "Cost of all model calls together, in US dollars.", "0.20"},
			{"time", period(&r.Time, 5*time.Second, time.Hour), "90s", "Time on the clock.", "90s"},
			{"calls", whole(&r.Calls, 1, 500), "40", "Tool calls.", "40"},
		},
	}
}

func (l *loader) personLimits() *table {
	money := usd(&l.pack.Limits.PersonDay, 1e12, 0.0001, 100_000)
	read := money.read
	money.read = func(d *source, n *yaml.Node) bool {
		l.money = append(l.money, d.at(n))
		return read(d, n)
	}
	return &table{what: "the limits of a person", about: "What one person may cost.", keys: []key{
		{"usd_per_day", money, "no limit", "US dollars a day (UTC).", "2.00"},
	}}
}

// hostName is a whole host name, as links spell it.
func hostName(d *source, n *yaml.Node, s string) bool {
	if hostForm.MatchString(s) {
		return true
	}
	return d.bad(n, fmt.Sprintf("%q is not a whole host name", clip(s)), "write it in small letters, without https://, port, path or *: docs.example.com")
}

// checkPrices refuses a limit in money beside a model that can be used and has no price (rule L6).
func (l *loader) checkPrices() {
	if len(l.money) == 0 {
		return
	}
	used := map[string]bool{l.pack.Router.Model: true}
	for _, a := range l.pack.Assistants {
		used[a.Model] = true
	}
	for _, m := range l.pack.Models {
		if used[m.Name] && m.Price == nil && !l.unpriced[m.Name] {
			l.report(m.Place, fmt.Sprintf("the model %q has no price, while %s limits money", m.Name, l.money[0]),
				"add price: {input: 0.15, output: 0.60}, in USD per million tokens")
		}
	}
}

// nearName words a suggestion for a name; "" when none is near.
func nearName(name string, known []string) string {
	if near := expr.Near(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}
