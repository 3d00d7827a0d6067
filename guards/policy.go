package guards

import (
	"fmt"
	"strings"
	"time"

	"switchboard/chat"
	"switchboard/config"
)

// Asked is everything that a policy rule may look at.
type Asked struct {
	Tool    *config.Tool
	Args    map[string]any // without why, expects and bound values
	Actor   chat.Person
	Channel chat.Channel
	Scope   map[string]string
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

// Judge says whether the call is allowed.
func (p Policy) Judge(a Asked) Verdict {
	for _, version := range p {
		a.groups = version.Groups
		if v := judge(version.Rules, a); v.Say != Allow {
			return v
		}
	}
	return Verdict{Say: Allow}
}

func judge(p config.Policy, a Asked) Verdict {
	spoken := false
	for _, r := range p.Rules {
		if !names(r.Tools, a.Tool.Name) {
			continue
		}
		matches, broken := matches(r, a)
		if !matches {
			continue
		}
		spoken = true
		if r.Verdict == config.Deny {
			return Verdict{Say: Deny, Why: reason(r, a, broken), Rule: r.Place.String()}
		}
	}
	if !spoken && p.Default[a.Tool.Effect] == config.Deny {
		return Verdict{Say: Deny, Why: fmt.Sprintf("no rule allows %s, and tools of effect %q are denied unless one does", a.Tool.Name, a.Tool.Effect)}
	}
	return Verdict{Say: Allow}
}

func names(patterns []string, tool string) bool {
	for _, p := range patterns {
		if p == tool {
			return true
		}
		if prefix, ok := strings.CutSuffix(p, "*"); ok && strings.HasPrefix(tool, prefix) {
			return true
		}
	}
	return false
}

func matches(r config.Rule, a Asked) (ok bool, broken error) {
	if r.When == nil {
		return true, nil
	}
	v, err := r.When.Eval(a.vars())
	if err != nil {
		return true, err
	}
	b, isBool := v.(bool)
	return b || !isBool, nil
}

func reason(r config.Rule, a Asked, broken error) string {
	if broken != nil {
		return "the rule at " + r.Place.String() + " could not be evaluated, so it counts as matching"
	}
	if why, err := r.Why.Text(a.vars()); err == nil {
		return why
	}
	return "a rule at " + r.Place.String() + " denies it"
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
	return map[string]any{
		"tool": a.Tool.Name, "effect": string(a.Tool.Effect), "args": a.Args,
		"actor":   map[string]any{"id": a.Actor.ID, "kind": string(a.Actor.Kind), "groups": groups},
		"channel": map[string]any{"id": a.Channel.ID, "visibility": string(a.Channel.Visibility)},
		"scope":   scope, "now": a.Now,
	}
}
