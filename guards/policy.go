package guards

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"switchboard/chat"
	"switchboard/config"
)

// Asked is everything that a policy rule may look at.
type Asked struct {
	Tool    *config.Tool
	Args    map[string]any // without why, expects and bound values
	Facts   map[string]any // what the runtime has read for the rules of this tool
	Actor   chat.Person
	Channel chat.Channel
	Scope   map[string]string
	Done    []string // tools that were done in this run
	Taint   Taint
	Now     time.Time

	groups []string // of the version that is asked
}

// Policy is the guard that reads the pack's rules. The strictest of all rules that match wins, over every version given:
// the one that the run is pinned to and the one that is active now (rule D5). A rule that cannot be evaluated matches.
type Policy []Version

// Version is the rules of one version of a pack, with the people that it knows the actor as.
type Version struct {
	Rules  config.Policy
	Groups []string // names of the pack's people that the actor belongs to
}

// Judge says whether the call is allowed, denied, or for a person to decide. Every reason to ask is given, from all versions,
// so that one decision can speak for all of them.
func (p Policy) Judge(a Asked) Verdict {
	var needs []Need
	for _, version := range p {
		a.groups = version.Groups
		v := judge(version.Rules, a)
		if v.Say == Deny {
			return v
		}
		for _, n := range append(v.Needs, a.Taint.needs(version.Rules, a)...) {
			if !slices.ContainsFunc(needs, func(o Need) bool { return o.Rule == n.Rule }) {
				needs = append(needs, n)
			}
		}
	}
	if len(needs) == 0 {
		return Verdict{Say: Allow}
	}
	for _, n := range needs {
		if a.Actor.Kind != chat.Member && len(n.By) == 1 && n.By[0] == config.Requester {
			return Verdict{Say: Deny, Why: "this needs a decision, and nobody is named who may make it for a guest: " + n.Why, Rule: n.At}
		}
	}
	return Verdict{Say: Ask, Needs: needs, Why: needs[0].Why, Rule: needs[0].At}
}

func judge(p config.Policy, a Asked) Verdict {
	spoken := false
	var needs []Need
	for _, r := range p.Rules {
		if !r.Names(a.Tool.Name) {
			continue
		}
		matches, broken := matches(r, a)
		if !matches {
			continue
		}
		spoken = true
		switch r.Verdict {
		case config.Deny:
			return Verdict{Say: Deny, Why: reason(r, a, broken), Rule: r.Place.String()}
		case config.Ask:
			needs = append(needs, need(p, r.Approve, Need{Rule: r.Digest, At: r.Place.String(), Why: reason(r, a, broken)}))
		case config.Allow:
		}
	}
	if spoken {
		return Verdict{Say: Allow, Needs: needs}
	}
	switch p.Of(a.Tool.Effect) {
	case config.Deny:
		return Verdict{Say: Deny, Why: fmt.Sprintf("no rule allows %s, and tools of effect %q are denied unless one does", a.Tool.Name, a.Tool.Effect)}
	case config.Ask:
		why := fmt.Sprintf("No rule allows %s, and tools of effect %q ask unless one does.", a.Tool.Name, a.Tool.Effect)
		needs = append(needs, need(p, nil, Need{Rule: "default " + string(a.Tool.Effect), Why: why}))
	case config.Allow:
	}
	return Verdict{Say: Allow, Needs: needs}
}

// need fills in who may decide, where and until when: as the rule says, else as the policy does, else the one who asked.
func need(p config.Policy, own *config.Approve, n Need) Need {
	said := p.Approve
	if own != nil {
		if len(own.By) > 0 {
			said.By, said.FourEyes = own.By, own.FourEyes
		}
		said.FourEyes = said.FourEyes || own.FourEyes
		said.Within, said.In = cmp.Or(own.Within, said.Within), cmp.Or(own.In, said.In)
	}
	n.By, n.FourEyes, n.In, n.Within = said.By, said.FourEyes, said.In, cmp.Or(said.Within, config.DefaultWithin)
	if len(n.By) == 0 {
		n.By = []string{config.Requester}
	}
	// Who may decide is a part of what asks: a version that names others asks for something else, and a decision under the
	// one is none under the other (rule D5).
	n.Rule += " by " + strings.Join(slices.Sorted(slices.Values(n.By)), ",")
	if n.FourEyes {
		n.Rule += ", four eyes"
	}
	return n
}

func matches(r config.Rule, a Asked) (ok bool, broken error) {
	if r.When == nil {
		return true, nil
	}
	// A rule that allows and cannot be evaluated must not make a default void that asks or denies.
	v, err := r.When.Eval(a.vars())
	if err != nil {
		return r.Verdict != config.Allow, err
	}
	b, isBool := v.(bool)
	return b || !isBool && r.Verdict != config.Allow, nil
}

func reason(r config.Rule, a Asked, broken error) string {
	if broken != nil {
		return "the rule at " + r.Place.String() + " could not be evaluated, so it counts as matching"
	}
	if r.Why != nil {
		if why, err := r.Why.Text(a.vars()); err == nil {
			return why
		}
	}
	return "the rule at " + r.Place.String() + " says so"
}

func (a Asked) vars() map[string]any {
	groups := make([]any, len(a.groups))
	for i, g := range a.groups {
		groups[i] = g
	}
	scope := make(map[string]any, len(a.Scope))
	for k, v := range a.Scope {
		scope[k] = v
	}
	vars := map[string]any{
		"tool": a.Tool.Name, "effect": string(a.Tool.Effect), "args": a.Args,
		"actor":   map[string]any{"id": a.Actor.ID, "kind": string(a.Actor.Kind), "groups": groups},
		"channel": map[string]any{"id": a.Channel.ID, "visibility": string(a.Channel.Visibility)},
		"scope":   scope, "now": a.Now, "taint": a.Taint.Tainted(), "done_": a.Done,
	}
	maps.Copy(vars, a.Facts)
	return vars
}
