package rehearse

import (
	"context"
	"fmt"
	"time"

	"switchboard/chat"
	"switchboard/config"
	"switchboard/journal"
	"switchboard/turn"
)

// click lets a person decide the oldest open card that the step is about, or lets its time run out, and checks what is
// expected of the run as it then stands. It goes through the engine's own door: who may not decide here, may not there.
func (s *stage) click(ctx context.Context, e *turn.Engine, n int, p part) (goOn bool, err error) {
	c := p.by.Click
	s.heard.reset()
	open, err := s.open(ctx, c)
	if err != nil {
		return false, err
	}
	if open == nil {
		s.fail(p.by.Place, "expected an open card %s, there is none", about(c))
		return s.o.Live != nil, nil
	}
	o, err := s.outcome(ctx, open.Turn)
	if err != nil {
		return false, fmt.Errorf("look at the turn of %s: %w", line(p.by.Place), err)
	}
	was := before{turn: open.Turn, steps: len(o.full.Steps), posts: len(o.posts), over: o.full.Ended != nil}
	if taken, err := s.decide(ctx, e, n, p, *open); err != nil || !taken {
		return s.o.Live != nil, err
	}
	a, _, err := journal.FindApproval(ctx, s.store, open.ID)
	if err != nil {
		return false, err
	}
	if a.Stand != journal.Open { // else somebody else has to decide it as well
		if err := s.await(ctx, a.Turn); err != nil {
			return false, err
		}
	}
	return s.judge(ctx, p, was)
}

// decide says what the step says to a card. What is not taken is a failure, in the words that the person gets.
func (s *stage) decide(ctx context.Context, e *turn.Engine, n int, p part, a journal.Approval) (taken bool, err error) {
	c := p.by.Click
	if c.Say == "" {
		s.clock.advance(max(0, a.Until.Sub(s.clock.now())) + time.Second)
		return true, e.Expire(ctx)
	}
	ruling, err := e.Decide(ctx, chat.Decision{
		Key: fmt.Sprintf("click:%s:%s:%d", a.ID, c.As, n+1), Card: a.ID, By: Person(s.pack, c.As), Say: c.Say, Words: c.Words, At: s.clock.now(),
	})
	if err != nil {
		return false, err
	}
	if !ruling.Taken {
		s.fail(p.by.Place, "expected that %s decides the card %s, it was not taken: %s", c.As, about(c), ruling.Words)
	}
	return ruling.Taken, nil
}

// open gives the oldest open card that a click can be about; nil where there is none.
func (s *stage) open(ctx context.Context, c *config.Click) (*journal.Approval, error) {
	all, err := journal.OpenApprovals(ctx, s.store, "") // a rehearsal is one thread
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if takes(a, c) {
			return &a, nil
		}
	}
	return nil, nil //nolint:nilnil // there is none, and that is no error
}

func takes(a journal.Approval, c *config.Click) bool {
	switch c.Say {
	case chat.Approve, chat.Deny:
		return a.Kind == chat.CardApprove && a.Tool == c.Tool
	case chat.Answer:
		return a.Kind == chat.CardAsk
	case chat.Happened, chat.NotDone:
		return a.Kind == chat.CardUnknown && a.Tool == c.Tool
	default: // the time runs out
		return !a.Until.IsZero() && a.Tool == c.Tool
	}
}

// about names the card of a click, for people.
func about(c *config.Click) string {
	switch c.Say {
	case chat.Answer:
		return "with a question"
	case chat.Happened, chat.NotDone:
		return "about an effect of " + c.Tool + " that nobody knows the outcome of"
	default:
		return "for a call of " + c.Tool
	}
}
