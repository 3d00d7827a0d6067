package main

import (
	"context"
	"sync"

	"switchboard/chat"
	"switchboard/journal"
	"switchboard/store"
	"switchboard/turn"
)

// terminal is the surface of bot chat. A reply has been delivered once it is printed.
type terminal struct {
	streams
	json   bool
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

// Post prints a reply, or the whole turn as one JSON object.
func (t *terminal) Post(ctx context.Context, p turn.Post) error {
	t.mu.Lock()
	defer t.mu.Unlock()
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
	out.print("\n")
	return out.err
}

// summary draws the turn from the record. The turn is not over before this is printed, so its end is filled in here; when
// the record cannot be read the reply alone is said.
func (t *terminal) summary(ctx context.Context, p turn.Post) journal.Summary {
	full, ok, err := journal.Read(ctx, t.record, p.Turn)
	if err != nil || !ok {
		full = journal.Turn{Begun: journal.Begun{Turn: p.Turn}}
	}
	full.Ended = &journal.Ended{Outcome: p.Outcome, MS: p.Took.Milliseconds()}
	full.Reply = p.Reply.Text
	return journal.Summarise(full)
}

// Look has nothing to add: a terminal knows no more of a message than it was given.
func (t *terminal) Look(_ context.Context, m chat.Message, _ bool) (turn.Seen, error) {
	return turn.Seen{Message: m}, nil
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
