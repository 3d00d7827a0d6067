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
	delivered bool // the reply is out; only its record is missing
}

// broken is a try that did not go through.
type broken struct {
	lease  store.Lease
	key    string
	queued queued
	story  *story // nil where not even the record could be read
}

// mostTries of one message by one process. Then the person is told, and the thread goes on without it.
const mostTries = 3

// ErrOtherPack says that a message in the store was said to another bot. It stays there.
var ErrOtherPack = errors.New("an unfinished message belongs to another pack")

// notOurs tells of a message to another bot, once.
func (e *Engine) notOurs(key string, q queued) error {
	err := fmt.Errorf("%w: start %s with this store to finish turn %s, or set BOT_STORE to another one", ErrOtherPack, q.Pack, q.Turn)
	if e.count(key) == 1 {
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
	key, q := b.key, b.queued
	n := e.count(key)
	e.o.Log.Error().Str("error", e.desks.desk().Mask().Text(cause.Error())).Str("turn", q.Turn).Int("try", n).Msg("turn failed")
	replied := b.story != nil && b.story.again || e.wasDelivered(key) // it has its final text
	if n == mostTries && replied {
		e.tell(Finished{Turn: q.Turn, Key: key, Outcome: Failed, Err: cause})
	}
	if n < mostTries || replied {
		return cause
	}
	return e.giveUp(ctx, b, cause)
}

// giveUp apologises, with what is known of the turn's effects, and takes the message off its queue. Where not even that
// can be written, the message stays, and is tried again now and then and by the next process; the apology is said once.
func (e *Engine) giveUp(ctx context.Context, t broken, cause error) error {
	l, key, q := t.lease, t.key, t.queued
	desk := e.desks.desk()
	past, known, err := journal.Read(ctx, e.o.Store, q.Turn)
	if err != nil {
		e.o.Log.Error().Err(err).Str("turn", q.Turn).Msg("read what a broken turn has done")
	}
	s := &story{e: e, lease: l, key: key, threadID: l.Thread, msg: q.Message, asker: q.Message.From, desk: desk, reply: brokenWords(q.Turn)}
	for _, f := range past.Folded { // what they asked for may have been done
		s.folded = append(s.folded, *f)
	}
	s.journal = journal.NewRecorder(journal.RecorderOptions{
		Store: e.o.Store, Lease: l, Turn: q.Turn, Now: e.o.Now, Retention: desk.Pack.Retention, Mask: desk.Mask(),
	})
	if slices.ContainsFunc(past.Calls, journal.Call.Changes) {
		s.reply += "\n\n" + s.clean(accountWords(past.Calls), nil)
	}
	if e.tries(key) == mostTries {
		post := Post{Key: q.Turn + "/sorry", Turn: q.Turn, To: q.Message, Reply: chat.Reply{Text: s.reply}, Outcome: Failed, Resumed: true}
		if err := e.o.Surface.Post(ctx, post); err != nil {
			e.o.Log.Error().Err(err).Str("turn", q.Turn).Msg("apologise")
		} else if t.story != nil {
			t.story.posted = true
		}
		e.tell(Finished{Turn: q.Turn, Key: key, Outcome: Failed, Reply: post.Reply, Err: cause})
	}
	if items, err := e.o.Store.Items(context.WithoutCancel(ctx), l); err == nil {
		s.stops = s.stopsAmong(items)
	}
	err = s.journal.Commit(context.WithoutCancel(ctx), func(b *store.Batch) {
		if !known {
			s.journal.Event(b, journal.KindBegun, journal.Begun{
				Turn: q.Turn, Thread: l.Thread, Person: q.Message.From.ID, Channel: q.Message.Channel.ID, Pack: desk.Pack.Digest,
			})
		}
		s.journal.Reply(b, s.reply)
		s.journal.Event(b, journal.KindEnded, journal.Ended{Outcome: Failed})
		s.finish(b)
	})
	if err != nil {
		return errors.Join(cause, err)
	}
	return nil
}

func (e *Engine) count(key string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.trouble[key]
	t.tries++
	e.trouble[key] = t
	return t.tries
}

func (e *Engine) tries(key string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.trouble[key].tries
}

// delivered remembers that a reply is out.
func (e *Engine) delivered(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.trouble[key]
	t.delivered = true
	e.trouble[key] = t
}

func (e *Engine) wasDelivered(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.trouble[key].delivered
}

// pause is how long to wait before a message that has failed is tried again.
func (e *Engine) pause(key string) time.Duration {
	return min(250*time.Millisecond<<min(max(e.tries(key)-1, 0), 7), 30*time.Second)
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
