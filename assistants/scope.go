package assistants

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"switchboard/chat"
	"switchboard/config"
	"switchboard/journal"
	"switchboard/tools"
)

// lookup is a scope variable whose values a tool knows.
type lookup struct {
	config.ScopeVar
	tool tools.Bound
}

// lookups makes the look-ups of the pack ready, in its order, from its opened tools.
func lookups(p *config.Pack, contracts map[string]tools.Bound) ([]lookup, error) {
	var out []lookup
	for _, v := range p.Scope {
		if v.Call == nil {
			continue
		}
		b, ok := contracts[v.Call.Tool]
		if !ok {
			return nil, fmt.Errorf("open scope variable %s: there is no tool %s", v.Name, v.Call.Tool)
		}
		out = append(out, lookup{v, b})
	}
	return out, nil
}

// Scope gives the values that are bound to a request of this person in this channel: those that stand in the pack, and
// those that tools look up. A variable without a value is left out, and the tools that bind it do not exist then (rule M2).
//
// It looks up only what an assistant of the person binds, or a rule asks for. Each look-up takes as long as its tool's
// timeout at most, so ask once for each request. The error names what could not be looked up, and holds no value; the
// values that are given are good all the same, and none is guessed. That a tool knows nobody of the id is no error.
func (d *Desk) Scope(ctx context.Context, channel string, p chat.Person) (map[string]string, error) {
	scope := d.Pack.ScopeOf(channel, p.ID)
	if len(d.lookups) == 0 {
		return scope, nil
	}
	var failed []error
	for _, l := range d.needed(p) {
		bound, whole := l.bind(scope)
		if !whole {
			continue
		}
		id := channel
		if l.From[0] == "person" {
			id = p.ID
		}
		value, err := d.ask(ctx, l, tools.Input{Args: map[string]any{l.Call.Arg: id}, Bound: bound})
		switch {
		case ctx.Err() != nil:
			return scope, errors.Join(append(failed, fmt.Errorf("look up scope variable %s: %w", l.Name, context.Cause(ctx)))...)
		case err != nil:
			failed = append(failed, fmt.Errorf("look up scope variable %s: %w", l.Name, err))
		case value != "":
			scope[l.Name] = value
		}
	}
	return scope, errors.Join(failed...)
}

// ask gives the value of one variable; "" when there is none.
func (d *Desk) ask(ctx context.Context, l lookup, in tools.Input) (string, error) {
	result, err := tools.Look(ctx, l.tool, in, &d.rates)
	if fault, ok := errors.AsType[*tools.Fault](err); ok && fault.Kind == tools.NotFound {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return l.Call.Take(result)
}

// bind gives the values that a look-up's own tool binds; whole is false when one of them is not known.
func (l lookup) bind(scope map[string]string) (bound map[string]string, whole bool) {
	bound = map[string]string{}
	for arg, name := range l.tool.Contract.Bind {
		if scope[name] == "" {
			return nil, false
		}
		bound[arg] = scope[name]
	}
	return bound, true
}

// needed lists the look-ups that can matter to a person, in the pack's order: what their assistants bind, what rules ask
// for, and what other look-ups of these bind.
func (d *Desk) needed(p chat.Person) []lookup {
	wanted := map[string]bool{}
	for _, a := range d.OpenTo(p) {
		for _, b := range a.bound {
			for _, name := range b.Contract.Bind {
				wanted[name] = true
			}
		}
	}
	all := slices.ContainsFunc(d.Pack.Policy.Rules, func(r config.Rule) bool {
		return r.When != nil && strings.Contains(r.When.Source(), "scope")
	})
	var out []lookup
	for _, l := range slices.Backward(d.lookups) { // a look-up binds what stands above it
		if !wanted[l.Name] && !all {
			continue
		}
		out = append(out, l)
		for _, name := range l.tool.Contract.Bind {
			wanted[name] = true
		}
	}
	slices.Reverse(out)
	return out
}

// MaskFor hides, beside what Mask hides, the values that were looked up for one request.
func (d *Desk) MaskFor(scope map[string]string) journal.Mask {
	m := d.mask
	for _, l := range d.lookups {
		if v := scope[l.Name]; v != "" {
			m = m.With(l.Name, v)
		}
	}
	return m
}
