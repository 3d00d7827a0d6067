package turn

import (
	"context"
	"errors"
	"fmt"
	"time"

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
		Key: s.journal.Turn(), Turn: s.journal.Turn(), Thread: s.msg.Thread, Reply: reply, Outcome: s.rec.Outcome, Took: s.e.o.Now().Sub(s.rec.Began),
	}
	posted := s.e.wasDelivered(s.key)
	if s.again && !posted {
		var err error
		posted, err = s.e.o.Surface.Posted(ctx, s.msg.Thread, post.Key)
		post.Repeated = errors.Is(err, ErrCannotTell)
		if err != nil && !post.Repeated {
			return fmt.Errorf("look up the reply of turn %s: %w", s.journal.Turn(), err)
		}
	}
	if !posted {
		if err := s.e.o.Surface.Post(ctx, post); err != nil {
			return fmt.Errorf("post the reply of turn %s: %w", s.journal.Turn(), err)
		}
		s.e.delivered(s.key)
	}
	s.rec.State = stateDone
	err := s.commit(context.WithoutCancel(ctx), func(b *store.Batch) {
		s.journal.Event(b, journal.KindEnded, journal.Ended{Outcome: s.rec.Outcome, MS: s.e.o.Now().Sub(s.rec.Began).Milliseconds()})
		s.closeThread(b, s.reply)
		if s.cost > 0 {
			b.Adds = append(b.Adds, store.Add{Key: s.spendKey(), Delta: int64(s.cost), Until: s.rec.Began.Add(48 * time.Hour)})
		}
		s.finish(b)
	})
	if err != nil {
		return err
	}
	s.e.tell(Finished{Turn: s.journal.Turn(), Key: s.key, Outcome: s.rec.Outcome, Reply: reply})
	return nil
}

// ack takes a message off the queue whose turn was over already.
func (s *story) ack(ctx context.Context) error { return s.journal.Commit(ctx, s.finish) }

func (s *story) finish(b *store.Batch) {
	b.Ack = append(b.Ack, s.key)
	b.Release = true
}
