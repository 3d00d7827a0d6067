package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"switchboard/chat"
	"switchboard/journal"
	"switchboard/store"
)

// trouble is what this process remembers of a message whose turn did not go through.
type trouble struct {
	tries     int
	told      bool // the apology is out
	delivered bool // the reply is out; only its record is missing
}

// broken is a try that did not go through.
type broken struct {
	lease  store.Lease
	key    string
	queued queued
	story  *story // nil where not even the record could be read
	hold   *grip
}

// mostTries of one message by one process. Then the person is told, and the thread goes on without it.
const mostTries = 3

// ErrOtherPack says that a message in the store was said to another bot. It stays there.
var ErrOtherPack = errors.New("an unfinished message belongs to another pack")

// notOurs tells of a message to another bot, once.
func (e *Engine) notOurs(key string, q queued) error {
	err := fmt.Errorf("%w: start %s with this store to finish turn %s, or set BOT_STORE to another one", ErrOtherPack, q.Pack, q.Turn)
	if e.troubleOf(key, func(t *trouble) { t.tries++ }).tries == 1 {
		e.tell(Finished{Turn: q.Turn, Key: key, Err: err})
	}
	return err
}

// othersToo tells of the messages behind one that is not ours.
func (e *Engine) othersToo(items []store.Item) {
	for _, it := range items {
		var q queued
		if json.Unmarshal(it.Body, &q) == nil && q.Pack != e.desks.desk().Pack.Name {
			_ = e.notOurs(it.Key, q) // it is told of; the error is for a try
		}
	}
}

// failed counts a try that broke. After the last one the turn is given up, unless it has its reply: then that, or only its
// record, is tried until it goes through. The error is nil where the turn is over.
func (e *Engine) failed(ctx context.Context, b broken, cause error) error {
	key, q, mask := b.key, b.queued, e.desks.desk().Mask()
	if b.story != nil {
		mask = b.story.journal.Mask() // it also hides what was looked up for the request
	}
	t := e.troubleOf(key, func(t *trouble) { t.tries++ })
	e.o.Log.Error().Str("error", mask.Text(cause.Error())).Str("turn", q.Turn).Int("try", t.tries).Msg("turn failed")
	replied := b.story != nil && b.story.stored == stateDelivering || t.delivered // it has its final text
	if t.tries == mostTries && replied {
		e.tell(Finished{Turn: q.Turn, Key: key, Outcome: Failed, Err: cause})
	}
	if t.tries < mostTries || replied {
		return cause
	}
	return e.giveUp(ctx, b, cause)
}

// giveUp apologises, with what is known of the turn's effects, and takes the message off its queue. Where that cannot be said
// or written, the message stays, and is tried again now and then and by the next process; the apology is said once.
func (e *Engine) giveUp(ctx context.Context, b broken, cause error) error {
	past, known, err := journal.Read(ctx, e.o.Store, b.queued.Turn)
	if err != nil {
		e.o.Log.Error().Err(err).Str("turn", b.queued.Turn).Msg("read what a broken turn has done")
	}
	s := e.remains(b, past)
	calls := past.Calls
	if settled, err := s.breakOffCalls(ctx); err == nil { // what was under way is in doubt, which a person has to hear
		calls = settled
		s.doubts(calls)
	}
	if !s.msg.Unasked { // who did not ask the bot is not told that it cannot help
		s.reply = brokenWords(b.queued.Turn)
		if slices.ContainsFunc(calls, journal.Call.Changes) {
			s.reply += "\n\n" + s.clean(accountWords(calls), nil)
		}
	}
	if err := e.apologise(ctx, b, s, cause); err != nil {
		return err
	}
	for _, id := range s.rec.Doubts {
		if err := s.postCard(ctx, id, doubtWords); err != nil {
			e.o.Log.Error().Err(err).Str("turn", b.queued.Turn).Msg("ask who is to look")
		}
	}
	if items, err := e.o.Store.Items(context.WithoutCancel(ctx), b.lease); err == nil {
		s.stops = s.stopsAmong(items)
	}
	s.quiet(ctx)
	open, err := s.openCards(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	err = s.journal.Commit(context.WithoutCancel(ctx), func(batch *store.Batch) {
		for i := range open {
			open[i].Close(batch, "", s.e.o.Now())
		}
		if !known {
			s.journal.Event(batch, journal.KindBegun, journal.Begun{
				Turn: b.queued.Turn, Thread: b.lease.Thread, Person: s.msg.From.ID, Channel: s.msg.Channel.ID, Pack: s.desk.Pack.Digest,
			})
		}
		s.journal.Reply(batch, s.reply)
		s.journal.Event(batch, journal.KindEnded, journal.Ended{Outcome: Failed})
		s.charge(batch)
		s.finish(batch)
	})
	if err != nil {
		return errors.Join(cause, err)
	}
	return nil
}

// remains puts together what is left of a turn that is given up, without trusting what broke.
func (e *Engine) remains(b broken, past journal.Turn) *story {
	desk := e.desks.desk()
	s := &story{e: e, lease: b.lease, key: b.key, threadID: b.lease.Thread, msg: b.queued.Message, asker: b.queued.Message.From, desk: desk, active: desk, past: past, grip: b.hold}
	s.rec.Began, s.spent, s.began, s.resumed = past.At, past.Usage(), true, true
	if past.Person != "" {
		s.asker.ID = past.Person
	}
	mask := desk.Mask()
	if t := b.story; t != nil {
		mask, s.asker.ID, s.rec.Began, s.spent = t.journal.Mask(), t.asker.ID, t.rec.Began, t.spent
		t.began = false // what people see of it ends here
		s.msg, s.asker, s.before, s.charged = t.msg, t.asker, t.before, t.charged
	}
	if s.rec.Began.IsZero() {
		s.rec.Began = e.o.Now()
	}
	for _, f := range past.Folded { // what they asked for may have been done
		s.folded = append(s.folded, *f)
	}
	s.journal = journal.NewRecorder(journal.RecorderOptions{
		Store: e.o.Store, Lease: b.lease, Turn: b.queued.Turn, Now: e.o.Now, Retention: desk.Pack.Retention, Mask: mask,
	})
	return s
}

// apologise tells the person that the turn is given up, unless this process has done so. An error means that they are not
// known to have heard of it.
func (e *Engine) apologise(ctx context.Context, b broken, s *story, cause error) error {
	t := e.troubleOf(b.key, nil)
	post := Post{
		Key: b.queued.Turn + "/sorry", Turn: b.queued.Turn, To: s.msg, Reply: chat.Reply{Text: s.reply}, Outcome: Failed, Resumed: true, Again: t.tries > mostTries, Held: s.grip.held,
	}
	if t.tries == mostTries {
		defer e.tell(Finished{Turn: b.queued.Turn, Key: b.key, Outcome: Failed, Reply: post.Reply, Err: cause})
	}
	if t.told || s.msg.Unasked {
		s.posted = t.told
		return nil
	}
	err := e.o.Surface.Post(ctx, post)
	if err != nil && !errors.Is(err, ErrUndeliverable) {
		s.quiet(ctx)
		return errors.Join(cause, fmt.Errorf("apologise: %w", err))
	}
	e.troubleOf(b.key, func(t *trouble) { t.told = true })
	s.posted = err == nil
	return nil
}

// troubleOf gives what is remembered of a message, after a change of it; change may be nil.
func (e *Engine) troubleOf(key string, change func(*trouble)) trouble {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.trouble[key]
	if change != nil {
		change(&t)
		e.trouble[key] = t
	}
	return t
}

// pause is how long to wait before a message that has failed is tried again.
func (e *Engine) pause(key string) time.Duration {
	return min(250*time.Millisecond<<min(max(e.troubleOf(key, nil).tries-1, 0), 7), 30*time.Second)
}

func (e *Engine) forget(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.trouble, key)
}

func (e *Engine) tell(f Finished) {
	if e.o.Finished != nil {
		e.o.Finished(f)
	}
}
