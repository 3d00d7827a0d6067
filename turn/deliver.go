package turn

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"switchboard/chat"
	"switchboard/journal"
	"switchboard/store"
)

// deliver brings the stored text to the person, once, and closes the turn: thread history, counters and the queue's
// acknowledgement are one durable step.
func (s *story) deliver(ctx context.Context) error {
	if s.reply == "" { // only once retention has taken the words of a turn that was never delivered
		s.reply = brokenWords(s.journal.Turn())
	}
	reply := chat.Reply{Text: s.reply, Buttons: s.rec.Buttons}
	post := Post{
		Key: s.journal.Turn(), Turn: s.journal.Turn(), To: s.msg, Reply: reply, Outcome: s.rec.Outcome, Took: s.e.o.Now().Sub(s.rec.Began),
		Resumed: s.resumed, Again: s.again, Held: s.grip.held,
	}
	var lost error
	if !s.e.troubleOf(s.key, nil).delivered {
		switch err := s.e.o.Surface.Post(ctx, post); {
		case errors.Is(err, ErrUndeliverable):
			lost = fmt.Errorf("post the reply of turn %s: %w", s.journal.Turn(), err)
			s.e.o.Log.Error().Err(lost).Str("turn", s.journal.Turn()).Msg("a reply is lost")
		case err != nil:
			return fmt.Errorf("post the reply of turn %s: %w", s.journal.Turn(), err)
		default:
			s.e.troubleOf(s.key, func(t *trouble) { t.delivered = true })
		}
	}
	for _, id := range s.rec.Doubts {
		if err := s.postCard(ctx, id, doubtWords); err != nil {
			return err
		}
	}
	if s.posted = lost == nil; lost != nil { // nobody has read it: no question waits for an answer
		s.rec.Outcome, s.rec.Question = Failed, nil
	}
	if err := s.end(context.WithoutCancel(ctx), nil); err != nil {
		return err
	}
	s.e.tell(Finished{Turn: s.journal.Turn(), Key: s.msg.Key, Outcome: s.rec.Outcome, Reply: reply, Err: lost})
	return nil
}

// silence ends the turn without a word to anybody.
func (s *story) silence(ctx context.Context, r journal.Routed, outcome string) error {
	fresh := s.rec.State == stateFresh
	s.rec.Outcome, s.reply = outcome, ""
	err := s.end(ctx, func(b *store.Batch) {
		if fresh {
			s.begin(b, r)
		}
	})
	if err != nil {
		return err
	}
	s.e.tell(Finished{Turn: s.journal.Turn(), Key: s.msg.Key, Outcome: outcome})
	return nil
}

// end closes the turn, with what before brings; before may be nil.
func (s *story) end(ctx context.Context, before func(*store.Batch)) error {
	s.quiet(ctx)
	open, err := s.openCards(ctx)
	if err != nil {
		return err
	}
	s.rec.State = stateDone
	return s.commit(ctx, func(b *store.Batch) {
		for i := range open {
			open[i].Close(b, "", s.e.o.Now())
		}
		if before != nil {
			before(b)
		}
		s.journal.Event(b, journal.KindEnded, journal.Ended{Outcome: s.rec.Outcome, MS: s.e.o.Now().Sub(s.rec.Began).Milliseconds(), By: s.rec.StoppedBy})
		s.closeThread(b)
		s.charge(b)
		s.finish(b)
	})
}

// openCards are the decisions that a turn which ends leaves open: nobody has to make them any more.
func (s *story) openCards(ctx context.Context) ([]journal.Approval, error) {
	asked := func(c journal.Call) bool { return c.Card != "" }
	if len(s.rec.Waits.Cards) == 0 && len(s.rec.Waits.Asking) == 0 && !slices.ContainsFunc(s.past.Calls, asked) {
		return nil, nil
	}
	open, err := journal.OpenApprovals(ctx, s.e.o.Store, s.threadID)
	if err != nil {
		return nil, err
	}
	open = slices.DeleteFunc(open, func(a journal.Approval) bool { return a.Turn != s.journal.Turn() || a.Kind == chat.CardUnknown })
	for i := range open {
		open[i].Stand, open[i].At = journal.Withdrawn, s.e.o.Now()
	}
	return open, nil
}

// ack takes a message off the queue whose turn was over already.
func (s *story) ack(ctx context.Context) error { return s.journal.Commit(ctx, s.finish) }

// finish takes all that the turn has dealt with off the queue, and gives the thread back.
func (s *story) finish(b *store.Batch) {
	b.Ack = append(b.Ack, s.key)
	for _, f := range s.folded[min(s.before.Folded, len(s.folded)):] {
		b.Ack = append(b.Ack, f.Key)
	}
	for _, stop := range s.stops {
		if stop.Key != "" {
			b.Ack = append(b.Ack, stop.Key)
		}
	}
	b.Ack = append(b.Ack, s.late...)
	b.Release = true
}
