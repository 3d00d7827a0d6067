package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"switchboard/chat"
	"switchboard/config/expr"
	"switchboard/journal"
	"switchboard/turn"
)

// order is a line of the terminal that decides a card: /approve ID, /deny ID and a reason. It is no message, and no model
// ever sees it.
type order struct {
	say   chat.Saying
	card  string // "": the only one that is open
	words string
}

// orders are the lines that decide.
func orders() map[string]chat.Saying {
	return map[string]chat.Saying{
		"/approve": chat.Approve, "/deny": chat.Deny, "/answer": chat.Answer, "/happened": chat.Happened, "/notdone": chat.NotDone,
	}
}

// readOrder takes a line for an order; ok is false for a message. near is the order that a line may have meant to be.
func readOrder(line string) (o order, near string, ok bool) {
	verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	if !strings.HasPrefix(verb, "/") {
		return order{}, "", false
	}
	say, ok := orders()[verb]
	if !ok {
		return order{}, expr.Near(verb, slices.Sorted(maps.Keys(orders()))), false
	}
	o = order{say: say, words: strings.TrimSpace(rest)}
	if id, words, _ := strings.Cut(o.words, " "); cardID.MatchString(id) {
		o.card, o.words = id, strings.TrimSpace(words)
	}
	return o, "", true
}

// obey decides a card as the operator of this machine, and waits for what comes of it.
func (c *conversation) obey(ctx context.Context, o order) error {
	if !c.app.ByHand() {
		c.terminal.tell("Nobody can decide here: this bot was started without --local-approvals. Start it again with that flag; what waits is kept.")
		return nil
	}
	card, why, err := c.meant(ctx, o)
	if err != nil {
		return err
	}
	if card == "" {
		c.terminal.tell(why)
		return nil
	}
	ruling, err := c.app.Decide(ctx, newSpoken(card, o.say, o.words).decision(time.Now()))
	if err != nil {
		return err
	}
	c.terminal.tell(ruling.Words)
	if !ruling.Taken {
		return nil
	}
	a, _, err := journal.FindApproval(ctx, c.app.store, card)
	if err != nil || a.Stand == journal.Open { // another rule needs somebody else's word
		return err
	}
	return c.await(ctx, func(f turn.Finished) bool { return f.Turn == a.Turn })
}

// meant finds the card that an order is about; why says what to do where it is not clear.
func (c *conversation) meant(ctx context.Context, o order) (card, why string, err error) {
	if o.card != "" {
		return o.card, "", nil
	}
	open, err := openDecisions(ctx, c.app.store)
	if err != nil {
		return "", "", err
	}
	open = slices.DeleteFunc(open, func(w waiting) bool { return !fitsCard(w.Kind, o.say) })
	switch len(open) {
	case 0:
		return "", "Nothing is open that this would decide.", nil
	case 1:
		return open[0].Card, "", nil
	}
	why = "More than one is open; say which, by its id:"
	for _, w := range open {
		why += fmt.Sprintf("\n  %s  %s", w.Card, w.line())
	}
	return "", why, nil
}
