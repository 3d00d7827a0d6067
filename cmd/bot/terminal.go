package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"switchboard/chat"
	"switchboard/journal"
	"switchboard/store"
	"switchboard/turn"
)

// terminal is the surface of bot chat. A reply has been delivered once it is printed.
type terminal struct {
	streams
	json   bool
	local  bool // the operator may decide here
	record store.Reader

	mu sync.Mutex // calls of a round report side by side
}

var _ turn.Surface = (*terminal)(nil)

// Show prints what is going on; in JSON nothing is printed before the turn is over.
func (t *terminal) Show(_ context.Context, p turn.Progress) {
	if t.json {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	out := page{w: t.out} // a sign of life that cannot be printed is no reason to stop
	if p.Card != nil && p.Card.Decided != "" {
		out.print("  (card %s: %s)\n", p.Card.ID, spelled(p.Card.Decided))
	}
	if p.Status != "" {
		out.print("  %s: %s\n", p.Assistant, p.Status)
	}
	if p.Call == nil {
		return
	}
	if p.Call.Settled == nil || p.Call.Verdict != allowed { // what does not run is shown only once it has ended
		out.print("  %s  %s\n    why  %s\n", p.Assistant, journal.Spell(*p.Call), p.Call.Why)
	}
	if p.Call.Settled != nil {
		out.print("    -> %s\n", journal.Ending(*p.Call))
	}
}

// allowed is the verdict on a call that runs.
const allowed = "allow"

// Post prints a reply, or the whole turn as one JSON object. A card is printed for people; for programs it stands in the
// turn that waits for it, or in bot approvals.
func (t *terminal) Post(ctx context.Context, p turn.Post) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.json && p.Card != nil || p.Place != nil { // a terminal is one place
		return nil
	}
	if t.json {
		return printJSON(t.out, t.summary(ctx, p))
	}
	repeated := ""
	if p.Again { // a terminal has no memory
		repeated = " (again; it may have been printed before)"
	}
	out := page{w: t.out}
	out.print("bot%s> %s\n", repeated, p.Reply.Text)
	for i, b := range p.Reply.Buttons {
		out.print("  %d  %s\n", i+1, b.Label)
	}
	if len(p.Reply.Buttons) > 0 {
		out.print("  (answer with a number, a name, or in your own words)\n")
	}
	if p.Card != nil {
		printCard(&out, *p.Card)
		if t.local {
			out.print("  (%s)\n", ordersFor(*p.Card))
		}
	}
	out.print("\n")
	return out.err
}

// ordersFor says how a card can be decided at the terminal.
func ordersFor(c chat.Card) string {
	switch c.Kind {
	case chat.CardAsk:
		return "/answer " + c.ID + " TEXT"
	case chat.CardUnknown:
		return "/happened " + c.ID + ", or /notdone " + c.ID
	default:
		return "/approve " + c.ID + ", or /deny " + c.ID + " REASON"
	}
}

// waits says that a turn waits for people: to programs with all that they need to decide.
func (t *terminal) waits(ctx context.Context, id string) error {
	if !t.json {
		if !t.local {
			t.note("(this waits for a person; bot approvals lists it and says how it is decided)\n")
		}
		return nil
	}
	full, _, err := journal.Read(ctx, t.record, id)
	if err != nil {
		return err
	}
	out := waitingTurn{Summary: standingOf(full), Waits: []waitingCard{}}
	for _, c := range full.Calls {
		if c.Outcome() != journal.Waiting || c.Decided != nil {
			continue
		}
		a, card, err := journal.FindApproval(ctx, t.record, c.Card)
		if err != nil {
			return err
		}
		w := newWaiting(a, card)
		out.Waits = append(out.Waits, waitingCard{w.Card, w.Tool, w.Digest, w.Until, w.Deciders})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return printJSON(t.out, out)
}

// waitingTurn is a turn that waits for people, for programs.
type waitingTurn struct {
	journal.Summary
	Waits []waitingCard `json:"waits"`
}

type waitingCard struct {
	Card     string     `json:"card"`
	Tool     string     `json:"tool"`
	Digest   *string    `json:"digest"` // of the request that will be sent
	Until    *time.Time `json:"until"`  // null: it waits for ever
	Deciders []string   `json:"deciders"`
}

// summary draws the turn from the record. The turn is not over before this is printed, so its end is filled in here; when
// the record cannot be read the reply alone is said.
func (t *terminal) summary(ctx context.Context, p turn.Post) journal.Summary {
	full, ok, err := journal.Read(ctx, t.record, p.Turn)
	if err != nil || !ok {
		full = journal.Turn{Begun: journal.Begun{Turn: p.Turn}}
	}
	if full.Ended == nil {
		full.Ended = &journal.Ended{Outcome: p.Outcome, MS: p.Took.Milliseconds()}
	}
	full.Reply = p.Reply.Text
	return journal.Summarise(full)
}

// Look has nothing to add: a terminal knows no more of a message than it was given.
func (t *terminal) Look(_ context.Context, m chat.Message, _ bool) (turn.Seen, error) {
	return turn.Seen{Message: m}, nil
}

// tell says something to whoever typed, apart from the conversation.
func (t *terminal) tell(words string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := page{w: t.out}
	if t.json {
		out.w = t.err
	}
	for line := range strings.SplitSeq(words, "\n") {
		out.print("(%s)\n", spelled(line))
	}
}

// note prints a word about the conversation itself, for people.
func (t *terminal) note(format string, args ...any) {
	if !t.json {
		t.mu.Lock()
		defer t.mu.Unlock()
		out := page{w: t.out}
		out.print(format, args...)
	}
}
