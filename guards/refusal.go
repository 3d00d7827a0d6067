package guards

import (
	"fmt"
	"slices"

	"switchboard/config"
)

// Refusal is the guard against going round a person: what somebody has refused, or let run out of time, is not done in
// another way in the same run. The zero value has seen nothing. It is not safe for concurrent use.
type Refusal struct{ refused []refused }

type refused struct {
	tool  string
	names []string // what its arguments name
}

// Note remembers an effect that a person refused.
func (r *Refusal) Note(tool string, args map[string]any) {
	r.refused = append(r.refused, refused{tool, things(args)})
}

// Lift forgets refusals: the person who asked has said something new.
func (r *Refusal) Lift() { r.refused = nil }

// Judge says whether an effect may be tried after the refusals of this run. No effect that cannot be taken back may, and no
// other one that names what a refused one named.
func (r *Refusal) Judge(t *config.Tool, args map[string]any) Verdict {
	for _, past := range r.refused {
		same := slices.ContainsFunc(things(args), func(v string) bool { return slices.Contains(past.names, v) })
		if t.Effect == config.Irreversible || t.Effect == config.Write && (same || len(past.names) == 0) {
			return Verdict{Say: Deny, Why: fmt.Sprintf("a person has refused %s in this run, so nothing like it is done in another way. Tell the user, and leave it at that.", past.tool)}
		}
	}
	return Verdict{Say: Allow}
}

// things lists the texts in arguments that can name something: an order, a customer, an address. What an argument is called
// names nothing.
func things(args map[string]any) []string {
	var all []string
	for _, name := range sorted(args) {
		all = append(all, texts(args[name])...)
	}
	return slices.DeleteFunc(all, func(s string) bool { return len(s) < 3 })
}
