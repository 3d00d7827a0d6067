package turn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"switchboard/chat"
	"switchboard/journal"
	"switchboard/loop"
	"switchboard/store"
)

// underway is a turn that this process works on. A stop that is accepted meanwhile cuts its model call short; that the turn
// is to end, it then reads in its queue.
type underway struct {
	keys   []string // of the messages: the turn's own, and those folded in
	halted bool
	cut    context.CancelCauseFunc // of the model call under way; nil between calls
}

// takeUp notes that this process works on a message; the returned function, that it does not any more.
func (e *Engine) takeUp(thread, key string) (u *underway, done func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	u = &underway{keys: []string{key}}
	e.under[thread] = u
	return u, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.under[thread] == u { // else the lease was lost, and another worker has the thread by now
			delete(e.under, thread)
		}
	}
}

// joined notes that a message became part of the turn.
func (s *story) joined(key string) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	s.under.keys = append(s.under.keys, key)
}

// worksOn gives the key of the message that is worked on in a thread by this process, or "".
func (e *Engine) worksOn(thread string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if u := e.under[thread]; u != nil {
		return u.keys[0]
	}
	return ""
}

// cutShort ends the model call of a turn at once.
func (e *Engine) cutShort(thread, key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	u := e.under[thread]
	if u == nil || !slices.Contains(u.keys, key) {
		return
	}
	u.halted = true
	if u.cut != nil {
		u.cut(loop.ErrStopped)
	}
}

// interruptible gives a context for one model call of the turn, which a stop ends.
func (s *story) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cut := context.WithCancelCause(ctx)
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	s.under.cut = cut
	if s.under.halted {
		cut(loop.ErrStopped)
	}
	return ctx, func() {
		cut(nil)
		s.e.mu.Lock()
		defer s.e.mu.Unlock()
		s.under.cut = nil
	}
}

// stopHead is how the body of every stop begins.
const stopHead = `{"stop":`

// stopOf reads an item as a stop of a turn of this bot.
func (e *Engine) stopOf(it store.Item) (chat.Stop, bool) {
	if !bytes.HasPrefix(it.Body, []byte(stopHead)) {
		return chat.Stop{}, false
	}
	var q queued
	if json.Unmarshal(it.Body, &q) != nil || q.Stop == nil || q.Pack != e.desks.desk().Pack.Name {
		return chat.Stop{}, false
	}
	q.Stop.Key = it.Key
	return *q.Stop, true
}

// firstMessage gives the place of the oldest item that is no stop.
func (e *Engine) firstMessage(items []store.Item) int {
	for i, it := range items {
		if _, ok := e.stopOf(it); !ok {
			return i
		}
	}
	return len(items)
}

// obsolete gives the keys of those stops that were about nothing in the line behind them.
func (e *Engine) obsolete(stops, line []store.Item) []string {
	var keys []string
	for _, it := range stops {
		stop, ok := e.stopOf(it)
		if ok && !slices.ContainsFunc(line, func(it store.Item) bool { return it.Key == stop.Message }) {
			keys = append(keys, it.Key)
		}
	}
	return keys
}

// deleted gives the ids of what people have deleted, by the stops that are there.
func (e *Engine) deleted(items []store.Item) []string {
	var ids []string
	for _, it := range items {
		if stop, ok := e.stopOf(it); ok && stop.Deleted && stop.ID != "" {
			ids = append(ids, stop.ID)
		}
	}
	return ids
}

// forgetWords takes what was deleted out of the words of a thread, where it stands there.
func (e *Engine) forgetWords(ctx context.Context, b *store.Batch, thread string, ids []string) error {
	data, err := e.o.Store.Content(ctx, threadKey(thread))
	if err != nil {
		return fmt.Errorf("read the words of thread %s: %w", thread, err)
	}
	var w words
	if data == nil {
		return nil
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("read the words of thread %s: %w", thread, err)
	}
	if !w.drop(ids) {
		return nil
	}
	if data, err = json.Marshal(w); err != nil {
		return fmt.Errorf("write the words of thread %s: %w", thread, err)
	}
	b.Contents = append(b.Contents, store.Content{Key: threadKey(thread), Value: data, Until: e.o.Now().Add(e.desks.desk().Pack.Retention)})
	return nil
}

// nothingToStop takes stops off the queue of a thread in which nothing is under way.
func (e *Engine) nothingToStop(ctx context.Context, l store.Lease, items []store.Item) error {
	b := store.Batch{Lease: &l, Release: true}
	for _, it := range items {
		b.Ack = append(b.Ack, it.Key)
	}
	if err := e.stopWaiting(ctx, l, items); err != nil {
		return err
	}
	if ids := e.deleted(items); len(ids) > 0 {
		if err := e.forgetWords(ctx, &b, l.Thread, ids); err != nil {
			return err
		}
	}
	if err := e.o.Store.Commit(ctx, b); err != nil {
		return fmt.Errorf("take stops off the queue of %s: %w", l.Thread, err)
	}
	return nil
}

// stopWaiting ends the runs of a thread that wait for people, where somebody wants that.
func (e *Engine) stopWaiting(ctx context.Context, l store.Lease, items []store.Item) error {
	rec, err := e.o.Store.Get(ctx, threadKey(l.Thread))
	if err != nil || rec.Version == 0 {
		return err
	}
	var t thread
	if err := json.Unmarshal(rec.Value, &t); err != nil {
		return fmt.Errorf("read thread %s: %w", l.Thread, err)
	}
	for _, it := range items {
		stop, ok := e.stopOf(it)
		for _, w := range t.Waits {
			if !ok || stop.Message != "" && stop.Message != w.Key {
				continue
			}
			if err := e.withdrawn(ctx, w.Turn, stop, l.Thread); err != nil {
				return err
			}
		}
	}
	return nil
}

// halted looks whether anybody wants the turn to end. It is asked at every safe point: before a model call, before a call
// of a tool. Once the answer is yes it stays yes.
func (s *story) halted(ctx context.Context) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.stops) > 0 {
		return true, nil
	}
	items, err := s.e.o.Store.Items(context.WithoutCancel(ctx), s.lease)
	if err != nil {
		return false, fmt.Errorf("turn %s: %w: what waits behind it: %w", s.journal.Turn(), errRead, err)
	}
	s.stops = s.stopsAmong(items)
	return len(s.stops) > 0, nil
}

// stopsAmong finds the stops of this turn: those that name one of its messages, wherever they stand, and those that name
// none and came after it.
func (s *story) stopsAmong(items []store.Item) []chat.Stop {
	var found []chat.Stop
	own := false
	for _, it := range items {
		own = own || it.Key == s.key
		stop, ok := s.e.stopOf(it)
		if ok && (stop.Message == s.key || stop.Message == s.msg.Key || stop.Message == "" && own || s.hasFolded(stop.Message)) {
			found = append(found, stop)
		}
	}
	return found
}

// stopped ends the turn because somebody wants it to: with what was done, from the record. Where the question is gone and
// nothing was done, there is nobody left to tell anything.
func (s *story) stopped(ctx context.Context, calls []journal.Call, shown string) error {
	if _, err := s.halted(ctx); err != nil { // what cut a model call short was a signal; the wish itself is in the queue
		return err
	}
	if len(s.stops) == 0 {
		return fmt.Errorf("stop turn %s: the wish that it should end is not in its queue", s.journal.Turn())
	}
	s.rec.StoppedBy = s.stops[0].By.ID
	gone := func(key string) bool {
		return slices.ContainsFunc(s.stops, func(w chat.Stop) bool { return w.Deleted && w.Message == key })
	}
	deleted := gone(s.msg.Key) && !slices.ContainsFunc(s.folded, func(f journal.Folded) bool { return !gone(f.Key) })
	if deleted && !slices.ContainsFunc(calls, mayHaveChanged) {
		if shown != "" {
			s.show(ctx, Progress{Void: true})
		}
		return s.silence(ctx, journal.Routed{Kind: kindNobody}, Stopped)
	}
	s.doubts(calls)
	text := below(shown, s.clean(stoppedWords+" "+accountWords(calls), nil))
	if s.rec.State == stateFresh {
		s.rec.State, s.rec.Outcome, s.reply = stateDelivering, Stopped, text
		return s.commit(ctx, func(b *store.Batch) {
			s.begin(b, journal.Routed{Kind: kindNobody})
			s.journal.Reply(b, s.reply)
		})
	}
	return s.conclude(ctx, Stopped, text)
}

func mayHaveChanged(c journal.Call) bool {
	return c.Changes() && (c.Outcome() == journal.OK || c.Outcome() == journal.Unknown || c.Outcome() == "")
}

// below puts the runtime's sentence below what people have seen already, and not into a code block that was left open.
func below(shown, text string) string {
	shown = strings.TrimSpace(shown)
	if shown == "" {
		return text
	}
	fence := ""
	for line := range strings.Lines(shown) {
		switch line = strings.TrimSpace(line); {
		case fence == "" && (strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~")):
			fence = line[:3]
		case fence != "" && strings.HasPrefix(line, fence):
			fence = ""
		}
	}
	if fence != "" {
		shown += "\n" + fence
	}
	return shown + "\n\n" + text
}

func isStopped(err error) bool { return errors.Is(err, loop.ErrStopped) }
