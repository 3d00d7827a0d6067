package dojotest

import (
	"context"
	"fmt"
	"time"

	"switchboard/chat"
	"switchboard/journal"
)

// decide is what the person does who has asked: they read the card, and agree to what their task needs, or to whatever this
// run says.
func (b *bot) decide(ctx context.Context, r *run, card *chat.Card) error {
	own := r.needs(card)
	r.asked++
	if own {
		r.askedOwn++
	}
	d := chat.Decision{Key: "click:" + card.ID + ":" + asker().ID + ":1", Card: card.ID, By: asker(), Say: chat.Deny, Words: "I have not asked for that.", At: time.Now()}
	if r.approves(own) {
		d.Say, d.Words = chat.Approve, ""
	}
	ruling, err := b.engine.Decide(ctx, d)
	if err != nil {
		return err
	}
	if !ruling.Taken {
		return fmt.Errorf("the decision on %s did not count: %s", card.Tool, ruling.Words)
	}
	return nil
}

// byPerson says whether a person decided how the call ended.
func byPerson(c journal.Call) bool { return c.Decided != nil }
