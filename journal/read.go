package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"time"

	"switchboard/chat"
	"switchboard/llm"
	"switchboard/store"
)

// Turn is everything that the record says of one turn, in the order in which it happened.
type Turn struct {
	Begun
	At      time.Time
	Entries []Entry // model calls and tool calls
	Steps   []Step
	Calls   []Call // by number
	Routed  *Routed
	Ended   *Ended
	Folded  []*Folded // messages that became part of it, in order
	Message string
	Seen    []byte // what the turn has put into Recorder.Seen
	Reply   string
	Rounds  []Reply // stored model replies, by round
	Rated   Feedback
	Scope   map[string]string // bound to the run; not to be shown
	Talk    []byte            // what the turn has put into Recorder.Talk
	Waits   []Waits           // how often the run waited for people, and for what
	Cards   []chat.Card       // all that were shown, by call
}

// Entry is a line of the trace: a model call, a message that was folded in, or a tool call by its number.
type Entry struct {
	At     time.Time
	Step   *Step
	Folded *Folded
	// Decided is what a person decided, or that their time was over.
	Decided *Decided
	Call    int // the call's number where the others are nil
}

// Reader is what reading the record needs of a store.
type Reader interface {
	store.Log
	store.Contents
}

// Read puts a turn together. ok is false when there is none of that id.
func Read(ctx context.Context, s Reader, turn string) (t Turn, ok bool, err error) {
	events, err := s.Events(ctx, turn)
	if err != nil {
		return Turn{}, false, fmt.Errorf("read turn %s: %w", turn, err)
	}
	if len(events) == 0 {
		return Turn{}, false, nil
	}
	t.At = events[0].At
	t.Turn = turn
	for _, e := range events {
		if err := t.apply(e); err != nil {
			return Turn{}, false, fmt.Errorf("read turn %s: event %d: %w", turn, e.Seq, err)
		}
	}
	contents, err := s.ContentsUnder(ctx, turn+"/")
	if err != nil {
		return Turn{}, false, fmt.Errorf("read turn %s: %w", turn, err)
	}
	for _, c := range contents {
		if err := t.fill(c); err != nil {
			return Turn{}, false, fmt.Errorf("read turn %s: content %s: %w", turn, c.Key, err)
		}
	}
	// Calls of one round run side by side, so their rows may stand in any order.
	sort.Slice(t.Calls, func(i, j int) bool { return t.Calls[i].Seq < t.Calls[j].Seq })
	return t, true, nil
}

func (t *Turn) apply(e store.Event) error {
	switch e.Kind {
	case KindBegun:
		return json.Unmarshal(e.Meta, &t.Begun)
	case KindRouted:
		return json.Unmarshal(e.Meta, &t.Routed)
	case KindEnded:
		return json.Unmarshal(e.Meta, &t.Ended)
	case KindFolded:
		var f Folded
		if err := json.Unmarshal(e.Meta, &f); err != nil {
			return err
		}
		t.Folded = append(t.Folded, &f)
		t.Entries = append(t.Entries, Entry{At: e.At, Folded: &f})
	case KindStep:
		var s Step
		if err := json.Unmarshal(e.Meta, &s); err != nil {
			return err
		}
		t.Steps = append(t.Steps, s)
		t.Entries = append(t.Entries, Entry{At: e.At, Step: &s})
	case KindIntent:
		var in Intent
		if err := json.Unmarshal(e.Meta, &in); err != nil {
			return err
		}
		t.Entries = append(t.Entries, Entry{At: e.At, Call: in.Seq})
		t.Calls = append(t.Calls, Call{Intent: in, At: e.At})
	case KindAttempt, KindDecided, KindWaits:
		return t.applyWait(e)
	case KindOutcome:
		var s Settled
		if err := json.Unmarshal(e.Meta, &s); err != nil {
			return err
		}
		if c := t.Call(s.Seq); c != nil {
			c.Settled = &s
		}
	}
	return nil
}

// applyWait takes in what belongs to waiting for people and to the ledger.
func (t *Turn) applyWait(e store.Event) error {
	switch e.Kind {
	case KindAttempt:
		var a Attempt
		if err := json.Unmarshal(e.Meta, &a); err != nil {
			return err
		}
		if c := t.Call(a.Seq); c != nil {
			if c.Attempts == nil {
				c.Begun = e.At
			}
			c.Attempts = append(c.Attempts, a)
		}
	case KindDecided:
		d := Decided{At: e.At}
		if err := json.Unmarshal(e.Meta, &d); err != nil {
			return err
		}
		t.Entries = append(t.Entries, Entry{At: e.At, Decided: &d})
		switch c := t.Call(d.Seq); {
		case c == nil:
		case d.Kind == chat.CardUnknown:
			c.Resolved = &d
		default:
			c.Decided = &d
		}
	case KindWaits:
		var w Waits
		if err := json.Unmarshal(e.Meta, &w); err != nil {
			return err
		}
		t.Waits = append(t.Waits, w)
	}
	return nil
}

// Call gives the call of that number, or nil.
func (t *Turn) Call(seq int) *Call {
	for i := range t.Calls {
		if t.Calls[i].Seq == seq {
			return &t.Calls[i]
		}
	}
	return nil
}

func (t *Turn) fill(c store.Content) error {
	name := strings.TrimPrefix(c.Key, t.Turn+"/")
	var n int
	switch {
	case name == "message":
		t.Message = string(c.Value)
	case name == "reply":
		t.Reply = string(c.Value)
	case name == "seen":
		t.Seen = c.Value
	case name == "talk":
		t.Talk = c.Value
	case name == "scope":
		return json.Unmarshal(c.Value, &t.Scope)
	case strings.HasPrefix(name, "card/"):
		var card chat.Card
		if err := json.Unmarshal(c.Value, &card); err != nil {
			return err
		}
		t.Cards = append(t.Cards, card)
	case scan(name, "said/%d", &n):
		call := t.Call(n)
		switch found := strings.HasSuffix(name, string(chat.CardUnknown)); {
		case call == nil:
		case found && call.Resolved != nil:
			call.Resolved.Words = string(c.Value)
		case !found && call.Decided != nil:
			call.Decided.Words = string(c.Value)
		}
	case strings.HasPrefix(name, feedbackName):
		var r rating
		if err := json.Unmarshal(c.Value, &r); err != nil {
			return err
		}
		t.Rated.add(r)
	case scan(name, "round/%d", &n):
		if n != len(t.Rounds) { // contents come by key, so a gap means that retention took the earlier ones
			return nil
		}
		var r Reply
		if err := json.Unmarshal(c.Value, &r); err != nil {
			return err
		}
		t.heard(n, r)
		t.Rounds = append(t.Rounds, r)
	case strings.HasSuffix(name, "/words") && scan(name, "call/%d/words", &n):
		if call := t.Call(n); call != nil {
			return json.Unmarshal(c.Value, &call.Words)
		}
	case strings.HasSuffix(name, "/answer") && scan(name, "call/%d/answer", &n):
		if call := t.Call(n); call != nil {
			return json.Unmarshal(c.Value, &call.Answer)
		}
	}
	return nil
}

// heard gives the messages that were folded in before a round their words.
func (t *Turn) heard(round int, r Reply) {
	for _, f := range t.Folded {
		if f.Round == round && len(r.Heard) > 0 {
			f.Text, r.Heard = r.Heard[0], r.Heard[1:]
			f.Said = f.Text
			if len(r.Said) > 0 {
				f.Said, r.Said = cmp.Or(r.Said[0], f.Text), r.Said[1:]
			}
		}
	}
}

func scan(s, format string, n *int) bool {
	got, err := fmt.Sscanf(s, format, n)
	return err == nil && got == 1
}

// Full gives the whole result of a call whose beginning only was shown; ok is false when there is none (any longer).
func Full(ctx context.Context, s store.Contents, turn string, seq int) (text string, ok bool, err error) {
	data, err := s.Content(ctx, fullKey(turn, seq))
	if err != nil {
		return "", false, fmt.Errorf("read result %d of turn %s: %w", seq, turn, err)
	}
	return string(data), data != nil, nil
}

// Usage sums the turn's model calls.
func (t Turn) Usage() llm.Usage {
	u := llm.Usage{Known: true}
	for _, s := range t.Steps {
		u = u.Add(llm.Usage{Input: s.Input, Cached: s.Cached, Output: s.Output, Cost: s.Cost, Known: true})
	}
	return u
}

// OfferedRounds counts the model replies that might ask for tools.
func (t Turn) OfferedRounds() int {
	n := 0
	for _, s := range t.Steps {
		if s.Role == RoleRound && s.Error == "" {
			n++
		}
	}
	return n
}

// The roles of a Step.
const (
	RoleRouter = "router"
	RoleRound  = "round"
	RoleFinal  = "final"
)
