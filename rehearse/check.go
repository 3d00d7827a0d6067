package rehearse

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"switchboard/config"
	"switchboard/journal"
	"switchboard/turn"
)

// outcome is everything that is known of a turn, as it stands.
type outcome struct {
	full  journal.Turn
	sum   journal.Summary
	posts []turn.Post // replies; cards are none
}

// outcome reads what came of a turn so far.
func (s *stage) outcome(ctx context.Context, id string) (outcome, error) {
	full, ok, err := journal.Read(ctx, s.store, id)
	if err != nil {
		return outcome{}, err
	}
	if !ok {
		return outcome{}, fmt.Errorf("turn %s is not on record", id)
	}
	o := outcome{full: full, sum: journal.Summarise(full), posts: s.surface.of(id)}
	if o.sum.Outcome == "" && o.waits() {
		o.sum.Outcome = turn.Waiting
	}
	return o, nil
}

// waits says whether the turn goes on once people have decided.
func (o outcome) waits() bool { return o.full.Ended == nil && len(o.full.Waits) > 0 }

// reply is what the person read last.
func (o outcome) reply() string {
	if len(o.posts) == 0 {
		return o.full.Reply
	}
	return o.posts[len(o.posts)-1].Reply.Text
}

// check holds a turn against one expectation.
func (s *stage) check(ctx context.Context, st config.Step, o outcome) {
	e := st.Expect
	if e.Outcome != "" && e.Outcome != string(o.sum.Outcome) {
		s.fail(st.Place, "expected outcome %s, it was %s (%s)", e.Outcome, o.sum.Outcome, o.story())
	}
	if got := known(o.sum.Assistant); e.Assistant != "" && e.Assistant != got {
		if got == "" {
			got = "none"
		}
		s.fail(st.Place, "expected assistant %s, it was %s (%s)", e.Assistant, got, o.story())
	}
	if e.Refused != "" && !o.has(e.Refused, journal.Refused) {
		s.fail(st.Place, "expected a refused call of %s, there was none (%s)", e.Refused, o.story())
	}
	if e.Denied != "" && !o.has(e.Denied, journal.Denied) {
		s.fail(st.Place, "expected a denied call of %s, there was none (%s)", e.Denied, o.story())
	}
	if e.Waits != "" || len(e.On) > 0 {
		s.checkWaits(ctx, st, o)
	}
	for _, words := range e.Says {
		if !strings.Contains(strings.ToLower(o.reply()), strings.ToLower(words)) {
			s.fail(st.Place, "expected a reply that says %q (%s)", words, o.story())
		}
	}
	if e.That == nil {
		return
	}
	holds, err := e.That.Holds(o.sum.Vars(o.full))
	switch {
	case err != nil:
		s.fail(st.Place, "expected %s, which cannot be evaluated: %v (%s)", e.That.Source(), err, o.story())
	case !holds:
		s.fail(st.Place, "expected %s, it does not hold (%s)", e.That.Source(), o.story())
	}
}

// checkWaits holds the calls that wait for people against what is expected of them.
func (s *stage) checkWaits(ctx context.Context, st config.Step, o outcome) {
	e := st.Expect
	var by []string
	waiting := false
	for _, c := range o.full.Calls {
		if c.Outcome() != journal.Waiting || c.Decided != nil || e.Waits != "" && c.Tool != e.Waits {
			continue
		}
		waiting = true
		a, _, err := journal.FindApproval(ctx, s.store, c.Card)
		if err != nil {
			s.fail(st.Place, "expected to know who may decide %s: %v", c.Tool, err)
			return
		}
		for _, n := range a.Needs {
			by = append(by, n.By...)
		}
	}
	switch {
	case !waiting && e.Waits == "":
		s.fail(st.Place, "expected a call that waits for %s, there was none (%s)", strings.Join(e.On, ", "), o.story())
	case !waiting:
		s.fail(st.Place, "expected a call of %s that waits for a person, there was none (%s)", e.Waits, o.story())
	case len(e.On) > 0 && !slices.Equal(set(by), set(e.On)):
		s.fail(st.Place, "expected that %s may decide, it was %s (%s)", strings.Join(set(e.On), ", "), strings.Join(set(by), ", "), o.story())
	}
}

// set gives the different texts, in order.
func set(list []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

func (o outcome) has(tool string, ended journal.Outcome) bool {
	return slices.ContainsFunc(o.sum.Calls, func(c journal.CallSummary) bool { return c.Tool == tool && c.Outcome == journal.Word(ended) })
}

// mostReply is how much of a reply a failure quotes, in bytes.
const mostReply = 200

// story tells what there was, in one line.
func (o outcome) story() string {
	parts := []string{"there was: " + string(o.sum.Outcome)}
	if a := known(o.sum.Assistant); a != "" {
		parts[0] += " by " + a
	}
	parts = append(parts, fmt.Sprintf("%d rounds", o.sum.Rounds))
	for _, c := range o.sum.Calls {
		call := c.Tool + " " + string(cmp.Or(c.Outcome, "under way"))
		if why := known(c.Reason); why != "" {
			call += ": " + clip(why, mostReply)
		}
		parts = append(parts, call)
	}
	reply := strings.Join(strings.Fields(o.reply()), " ")
	return strings.Join(parts, ", ") + ", reply “" + clip(reply, mostReply) + "”"
}

// clip cuts s to about n bytes, at a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func known(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
