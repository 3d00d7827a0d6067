package config

import (
	"fmt"
	"slices"
	"time"

	"switchboard/config/expr"

	"go.yaml.in/yaml/v3"
)

// The bounds of how long a card may be decided.
const (
	shortestWait = time.Minute
	longestWait  = 30 * 24 * time.Hour
)

// wait is how long a call may wait for a person, and where the pack says so.
type wait struct {
	within time.Duration
	at     Place
}

// approveValue is who decides, where and for how long.
func (l *loader) approveValue(a *Approve) value {
	return object(l.approveTable(a), func(d *source, n *yaml.Node, g got) bool {
		switch {
		case len(g.nodes) == 0:
			return d.bad(n, "approve says nothing", "write by, within, in or four_eyes")
		case a.FourEyes && g.has("by") && onlyRequester(a.By):
			return d.bad(g.nodes["by"], "nobody could decide: with four_eyes the requester may not, and nobody else is named", "name others in by, or leave four_eyes out")
		}
		return true
	})
}

func onlyRequester(by []string) bool {
	return !slices.ContainsFunc(by, func(s string) bool { return s != Requester })
}

func (l *loader) approveTable(a *Approve) *table {
	within := used(period(&a.Within, shortestWait, longestWait), func(d *source, n *yaml.Node) {
		l.waits = append(l.waits, wait{a.Within, d.at(n)})
	})
	return &table{
		what:  "approve",
		about: "Who may decide a call that waits, where its card is shown, and for how long.",
		keys: []key{
			{"by", texts(&a.By, "list of names of people, ids of people (U…) and groups (S…), and requester", 1, 50, l.decider), "the policy's, else requester", "Who may approve or deny: groups of `people`, ids, or requester, the person on whose behalf the run works. One of them is enough.", "[finance, U0BOB]"},
			{"within", within, "the policy's, else 24h", "How long it may be decided; then it counts as refused.", "4h"},
			{"in", shaped(&a.In, roomID()), "the policy's, else the thread alone", "Channel that gets the card too.", "C0FINANCE"},
			{"four_eyes", boolean(&a.FourEyes), "false", "Whoever asked for the call may not decide it, even as one of by.", "true"},
		},
	}
}

// decider is somebody who may decide: a group of the pack's people, an id, or the requester.
func (l *loader) decider(d *source, n *yaml.Node, s string) bool {
	switch {
	case s == Requester || len(s) <= 200 && memberForm.MatchString(s):
		return true
	case s == Everyone || s == Guests || s == Externals:
		return d.bad(n, fmt.Sprintf("%q cannot decide: anybody could approve", s), "name a group of people, or ids")
	case !dashForm.MatchString(s):
		return d.bad(n, fmt.Sprintf("%q is neither a group of people nor an id", clip(s)), "write a name from `people` in bot.yaml, an id such as U0ANA or S0FIN, or requester")
	case expr.Near(s, append(l.groups.known(), Requester)) == Requester:
		return d.bad(n, fmt.Sprintf("unknown group of people %q", s), fmt.Sprintf("did you mean %q?", Requester))
	}
	l.groups.use(s, d.at(n))
	return true
}

// decidable checks who decides a rule against its verdict and against what the policy says for all.
func (r *ruleFile) decidable(d *source, g got, policy Approve) bool {
	switch {
	case g.good("verdict") && r.Verdict != Ask:
		return d.bad(g.nodes["approve"], fmt.Sprintf("approve belongs to verdict: ask; this rule has %s", r.Verdict), "leave it out, or write verdict: ask")
	case r.approve.FourEyes && len(r.approve.By) == 0 && !r.policy.unsure && onlyRequester(policy.By):
		return d.bad(g.nodes["approve"], "nobody could decide: with four_eyes the requester may not, and nobody else is named", "name others in by")
	}
	return true
}

// longestWait refuses a call that may wait longer than its words are kept: nobody could read any more what they decide.
func (l *loader) longestWait() {
	if len(l.waits) == 0 {
		return
	}
	longest := slices.MaxFunc(l.waits, func(a, b wait) int { return int(a.within - b.within) })
	if keep := l.pack.Retention; longest.within > keep {
		l.report(longest.at, fmt.Sprintf("a call may wait %s here, while its words are deleted after %s", short(longest.within), short(keep)),
			"write a shorter time, or a longer retention in bot.yaml")
	}
}
