package config

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"switchboard/config/expr"

	"go.yaml.in/yaml/v3"
)

// NoAssistant is what the router answers for a message that no assistant should take; no assistant can have the name.
const NoAssistant = "none"

// mostTools is how many tools one assistant may have: with more, models choose worse.
const mostTools = 10

func (l *loader) readAssistant(d *source, n *yaml.Node) {
	a := &Assistant{Name: assistantName(d.name), Place: d.at(n)}
	l.nameAssistant(a.Name, d.name)
	d.keysOf(n, l.assistantTable(a))
	l.pack.Assistants = append(l.pack.Assistants, a)
	if len(a.Docs) == 0 {
		a.Docs = []string{"**"}
	}
	l.later = append(l.later, func() {
		a.Limits = a.Limits.or(l.pack.Limits.Run)
	})
}

// lostAssistant takes note of an assistant whose file cannot be parsed: its name exists all the same.
func (l *loader) lostAssistant(file string) { l.nameAssistant(assistantName(file), file) }

func assistantName(file string) string { return strings.TrimSuffix(path.Base(file), ".yaml") }

func (l *loader) nameAssistant(name, file string) {
	at := Place{file, 1, 1}
	l.assistants.define(name, at)
	if name == NoAssistant {
		l.assistants.broken = true
		l.report(at, "no assistant can be called none: it is the router's word for nobody", "rename the file")
		return
	}
	d := &source{l: l, name: file, spoiled: map[*yaml.Node]bool{}}
	if !d.fits(&yaml.Node{Line: 1, Column: 1}, name, dashName()) {
		l.assistants.broken = true
	}
}

// or puts the bot's limits where an assistant sets none.
func (r RunLimits) or(bot RunLimits) RunLimits {
	if r.Tokens == 0 {
		r.Tokens = bot.Tokens
	}
	if r.Money == 0 {
		r.Money = bot.Money
	}
	if r.Time == time.Duration(0) {
		r.Time = bot.Time
	}
	if r.Calls == 0 {
		r.Calls = bot.Calls
	}
	return r
}

func (l *loader) assistantTable(a *Assistant) *table {
	mode := "loop"
	limits := l.runLimits(&a.Limits)
	for i := range limits.keys {
		limits.keys[i].need = "the bot's"
	}
	return &table{
		what:  "an assistant",
		about: "One narrow specialist. The file's name is its name (a-z, 0-9 and -; not none).",
		later: map[string]string{"plan": "plans", "approve": "approvals"},
		hints: map[string]string{"name": "the file's name is the assistant's; leave the key out"},
		keys: []key{
			{"about", text(&a.About, 500), required, "What it is for. With the examples, this is all that the router sees.", "How-to questions about the product."},
			{"examples", texts(&a.Examples, "list of messages", 1, 50, nil), required, "Messages that it should take.", "[how do I export waivers]"},
			{"model", l.modelName(&a.Model), required, "Name of a model in bot.yaml.", "fast"},
			{"rounds", whole(&a.Rounds, 1, 50), required, "Most model calls with tools in one run; then one more without.", "6"},
			{"mode", choice(&mode, []string{"loop"}, map[string]string{"plan": "a plan before the first call", "announce": "a list of calls, approved as a whole"}), "loop", "How it works: loop is calls and results in turn.", "loop"},
			{"tools", l.toolNames(a, mostTools), "no tools", "Names of tools, of the pack or built in.", "[docs.search, docs.fetch]"},
			{"docs", texts(&a.Docs, "list of patterns", 1, 100, l.docPattern), "all documents", "Documents that docs.search and docs.fetch see: names under docs/ without their extension; * is anything within a folder, ** at the end anything below it.", "[help/**]"},
			{"open_to", texts(&a.OpenTo, "list of groups of people", 1, 50, l.group), required, "Who may use it: everyone (members, no guests), guests, external, or names in `people`.", "[everyone]"},
			{"instructions", instructions(&a.Instructions), required, "What the model is told: plain text, in which nothing is evaluated and which never holds scope values. `$${` is a literal `${`.", "|"},
			{"limits", object(limits, nil), "the bot's", "Bounds of one run of this assistant.", "{usd: 0.05}"},
		},
	}
}

// instructions are plain text: an expression in them would reach the model as it stands.
func instructions(p *string) value {
	v := text(p, 20_000)
	read := v.read
	v.read = func(d *source, n *yaml.Node) bool {
		if !read(d, n) {
			return false
		}
		plain, found := expr.Plain(*p)
		*p = plain
		for _, i := range found {
			d.l.report(d.spot(n, i.Line, i.Col), "instructions are plain text: ${ is not evaluated in them, and values that are bound are never shown to a model", i.Hint)
		}
		return len(found) == 0
	}
	return v
}

func (l *loader) toolNames(a *Assistant, most int) value {
	return texts(&a.Tools, "list of tools", 0, most, func(d *source, n *yaml.Node, s string) bool {
		l.tools.use(s, d.at(n))
		if l.wants[a.Name] == nil {
			l.wants[a.Name] = map[string]Place{}
		}
		l.wants[a.Name][s] = d.at(n)
		return true
	})
}

// toolName is the name of a tool, of the pack or built in.
func (l *loader) toolName(p *string) value {
	return value{words: says("name of a tool"), read: func(d *source, n *yaml.Node) bool {
		s, ok := d.text(n)
		*p = s
		if ok {
			l.tools.use(s, d.at(n))
		}
		return ok
	}}
}

func (l *loader) group(d *source, n *yaml.Node, s string) bool {
	l.groups.use(s, d.at(n))
	return true
}

// docPattern notes a pattern; whether a document fits is checked when all are read.
func (l *loader) docPattern(d *source, n *yaml.Node, s string) bool {
	if _, err := path.Match(s, ""); err != nil {
		return d.bad(n, fmt.Sprintf("%q is no pattern", clip(s)), "close the bracket, or write * for anything")
	}
	l.later = append(l.later, func() {
		var names []string
		for _, doc := range l.pack.Docs {
			names = append(names, doc.Name)
		}
		if slices.ContainsFunc(names, func(name string) bool { return DocMatches(s, name) }) {
			return
		}
		mend := nearName(s, names)
		if mend == "" {
			mend = "patterns are names under docs/ without .md, such as help/**"
		}
		d.bad(n, fmt.Sprintf("the pattern %q fits no document", clip(s)), mend)
	})
	return true
}

// DocMatches says whether a pattern of an assistant's docs fits a document's name: ** is everything, a/** everything below
// a, and * anything within one folder.
func DocMatches(pattern, name string) bool {
	if pattern == "**" {
		return true
	}
	if dir, ok := strings.CutSuffix(pattern, "/**"); ok {
		for at := path.Dir(name); at != "."; at = path.Dir(at) {
			if ok, err := path.Match(dir, at); err == nil && ok {
				return true
			}
		}
		return false
	}
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}
