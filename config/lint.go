package config

import (
	"fmt"
	"slices"
	"strings"
)

// lint looks at a pack that is good in its parts for what makes it unsafe as a whole (rule M6). It says nothing of a pack
// with problems: what one slip makes of the rest is no finding of its own.
func (l *loader) lint() {
	if len(l.problems) > 0 {
		return
	}
	for _, a := range l.pack.Assistants {
		l.selfApproval(a)
	}
	l.unlabelled()
}

// selfApproval refuses assistants of guests whose calls nobody but the guests themselves would approve.
func (l *loader) selfApproval(a *Assistant) {
	var who []string
	for _, s := range []struct{ group, words string }{{Guests, "guests"}, {Externals, "people of other organisations"}} {
		if slices.Contains(a.OpenTo, s.group) {
			who = append(who, s.words)
		}
	}
	if len(who) == 0 {
		return
	}
	for _, name := range a.Tools {
		t := l.pack.Tool(name)
		if t == nil || t.Effect != Irreversible && (t.Effect != Write || len(t.Targets) == 0) || l.pack.Policy.decided(t) {
			continue
		}
		l.report(l.wants[a.Name][name], fmt.Sprintf("%s would approve %s for themselves: nobody else may decide it", strings.Join(who, " and "), name),
			"name who decides: approve: {by: [GROUP]} in policy.yaml, or in a rule that asks")
	}
}

// decided says whether somebody beside the requester decides calls of a tool, or nobody has to.
func (p Policy) decided(t *Tool) bool {
	if !onlyRequester(p.Approve.By) {
		return true
	}
	open := p.Of(t.Effect) != Deny
	for _, r := range p.Rules {
		switch {
		case !r.Names(t.Name):
		case r.Verdict == Deny && r.When == nil, r.Approve != nil && !onlyRequester(r.Approve.By):
			return true
		case r.Verdict != Deny:
			open = true
		}
	}
	return !open
}

// unlabelled refuses effects that may reach a stranger's address: their arguments are called like a recipient, nothing says
// whether they are one, and the assistant reads what strangers wrote.
func (l *loader) unlabelled() {
	said := map[Place]bool{}
	for _, a := range l.pack.Assistants {
		strange := slices.IndexFunc(a.Tools, func(name string) bool { t := l.pack.Tool(name); return t != nil && t.Untrusted })
		if strange < 0 {
			continue
		}
		for _, name := range a.Tools {
			c := l.contracts[name]
			if c == nil || !c.Effect.Changes() {
				continue
			}
			for _, arg := range c.doubtful() {
				at := c.args.defs[arg]
				if said[at] {
					continue
				}
				said[at] = true
				l.report(at, fmt.Sprintf("the argument %q of %s may say whom a call reaches, and the assistant %s also reads what strangers wrote, through %s", arg, name, a.Name, a.Tools[strange]),
					"write target: true in its schema, or target: false if it names nobody")
			}
		}
	}
}

// doubtful lists the arguments that are called like a recipient and of which the contract does not say whether they are one.
func (c *contract) doubtful() []string {
	var out []string
	for _, name := range sortedKeys(c.argDocs) {
		_, said := c.targets[name]
		_, bound := c.Bind[name]
		doc, _ := c.argDocs[name].(map[string]any)
		if !said && !bound && reaches(doc) && slices.ContainsFunc(strings.Split(strings.ToLower(name), "_"), recipient) {
			out = append(out, name)
		}
	}
	return out
}

// recipient says whether a word of a name most likely means somebody or some place.
func recipient(word string) bool {
	words := []string{"to", "recipient", "email", "channel", "url", "user", "payee", "beneficiary", "iban", "address", "phone", "webhook"}
	return slices.Contains(words, word) || slices.Contains(words, strings.TrimSuffix(word, "s"))
}
