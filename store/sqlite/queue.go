package sqlite

import (
	"bytes"
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"switchboard/store"
)

// item is a waiting item with its row.
type item struct {
	store.Item
	id int64
}

// thread is one conversation's line. It is known only while it has items, a lease or a batch being written.
type thread struct {
	name  string
	items []item // durable and not acked, oldest first
	epoch int64  // of the live lease; 0: none
	last  int64  // the epoch of the last lease, since the thread is known
	until time.Time
	held  int           // batches that are being written under a lease of this thread: nobody can claim it meanwhile
	place *list.Element // in queue.ready
}

// waiter is a Claim that found nothing.
type waiter struct {
	ttl   time.Duration
	lease chan store.Lease // takes one lease, or is closed with the queue
}

// queue says who works on which thread. Its truth about items is the file: they enter and leave after the commit.
type queue struct {
	now       func() time.Time
	afterFunc func(time.Duration, func()) func() bool

	mu      sync.Mutex
	threads map[string]*thread
	ready   list.List // of *thread with items and nothing else, the longest waiting first
	waiting list.List // of *waiter, oldest first
	leased  map[*thread]bool
	epoch   int64     // the last one given
	stale   int64     // writes that were ever refused because their lease was lost
	alarm   time.Time // when the timer fires; zero: there is none
	stop    func() bool
	closed  bool
}

func newQueue(generation int64, o Options) *queue {
	return &queue{
		now: o.Now, afterFunc: o.AfterFunc, epoch: generation << 32,
		threads: map[string]*thread{}, leased: map[*thread]bool{},
	}
}

// thread finds or begins a thread.
func (q *queue) thread(name string) *thread {
	t := q.threads[name]
	if t == nil {
		t = &thread{name: name}
		q.threads[name] = t
	}
	return t
}

// claim hands out a ready thread or waits for one. Nobody polls: whoever makes a thread ready gives it to the first waiter.
func (q *queue) claim(ctx context.Context, ttl time.Duration) (store.Lease, error) {
	if ttl <= 0 {
		return store.Lease{}, fmt.Errorf("claim thread for %s: the lease must last longer than nothing", ttl)
	}
	if err := ctx.Err(); err != nil {
		return store.Lease{}, err
	}
	w := &waiter{ttl, make(chan store.Lease, 1)}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return store.Lease{}, fmt.Errorf("claim thread: %w", store.ErrClosed)
	}
	place := q.waiting.PushBack(w)
	q.expire()
	q.grant()
	q.mu.Unlock()

	select {
	case l, ok := <-w.lease:
		return claimed(l, ok)
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case l, ok := <-w.lease: // it came in the same moment: the next one takes it, first
		if t := q.live(l); ok && t != nil {
			q.end(t)
			if t.place != nil {
				q.ready.MoveToFront(t.place)
			}
			q.grant()
		}
	default:
		q.waiting.Remove(place)
	}
	return store.Lease{}, ctx.Err()
}

func claimed(l store.Lease, ok bool) (store.Lease, error) {
	if !ok {
		return store.Lease{}, fmt.Errorf("claim thread: %w", store.ErrClosed)
	}
	return l, nil
}

// grant brings waiters and ready threads together.
func (q *queue) grant() {
	for q.waiting.Len() > 0 && q.ready.Len() > 0 {
		w, _ := q.waiting.Remove(q.waiting.Front()).(*waiter)
		t, _ := q.ready.Remove(q.ready.Front()).(*thread)
		t.place = nil
		q.epoch++
		t.epoch, t.last, t.until = q.epoch, q.epoch, q.now().Add(w.ttl)
		q.leased[t] = true
		q.arm(t.until)
		w.lease <- store.Lease{Thread: t.name, Epoch: t.epoch}
	}
}

// live gives the thread of a lease that has not ended, else nil.
func (q *queue) live(l store.Lease) *thread {
	t := q.threads[l.Thread]
	if t == nil || l.Epoch == 0 || t.epoch != l.Epoch || !q.now().Before(t.until) {
		return nil
	}
	return t
}

// holder is live for callers from outside: it says why there is no thread.
func (q *queue) holder(l store.Lease, verb string) (*thread, error) {
	if q.closed {
		return nil, fmt.Errorf("%s thread %q: %w", verb, l.Thread, store.ErrClosed)
	}
	if t := q.live(l); t != nil {
		return t, nil
	}
	return nil, stale(verb, l)
}

// end takes the lease away and puts the thread where it belongs.
func (q *queue) end(t *thread) {
	t.epoch = 0
	delete(q.leased, t)
	q.settle(t)
}

// settle puts a thread that has become free into the line, or forgets it when it is empty.
func (q *queue) settle(t *thread) {
	switch {
	case t.epoch != 0 || t.held > 0 || t.place != nil:
	case len(t.items) == 0:
		delete(q.threads, t.name)
	default:
		t.place = q.ready.PushBack(t)
	}
}

// expire ends the leases whose time is up, the earliest first, and sets the timer for the next one.
func (q *queue) expire() {
	if now := q.now(); !q.alarm.IsZero() && !now.Before(q.alarm) {
		q.review(now)
	}
}

// review looks at every lease. It sets the timer again whatever it finds, so that one that fires early is not the last.
func (q *queue) review(now time.Time) {
	q.disarm()
	var over []*thread
	var next time.Time
	for t := range q.leased {
		switch {
		case !now.Before(t.until):
			over = append(over, t)
		case next.IsZero() || t.until.Before(next):
			next = t.until
		}
	}
	slices.SortFunc(over, func(a, b *thread) int {
		return cmp.Or(a.until.Compare(b.until), cmp.Compare(a.epoch, b.epoch))
	})
	for _, t := range over {
		q.end(t)
	}
	if !next.IsZero() {
		q.arm(next)
	}
}

// arm makes sure that the timer fires at this time or earlier.
func (q *queue) arm(at time.Time) {
	if !q.alarm.IsZero() && !at.Before(q.alarm) {
		return
	}
	q.disarm()
	q.alarm = at
	q.stop = q.afterFunc(at.Sub(q.now()), func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if !q.closed {
			q.review(q.now())
			q.grant()
		}
	})
}

func (q *queue) disarm() {
	if q.stop != nil {
		q.stop()
	}
	q.alarm, q.stop = time.Time{}, nil
}

func (q *queue) list(l store.Lease) ([]store.Item, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t, err := q.holder(l, "list items of")
	if err != nil {
		return nil, err
	}
	out := make([]store.Item, len(t.items))
	for i, it := range t.items {
		out[i] = it.Item
		out[i].Body = bytes.Clone(it.Body)
	}
	return out, nil
}

func (q *queue) count(thread string) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0, fmt.Errorf("count items of thread %q: %w", thread, store.ErrClosed)
	}
	if t := q.threads[thread]; t != nil {
		return len(t.items), nil
	}
	return 0, nil
}

// states lists the threads with items, the one with the oldest item first.
func (q *queue) states(limit int) ([]store.ThreadState, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, fmt.Errorf("list threads: %w", store.ErrClosed)
	}
	var busy []*thread
	for _, t := range q.threads {
		if len(t.items) > 0 {
			busy = append(busy, t)
		}
	}
	slices.SortFunc(busy, func(a, b *thread) int { return cmp.Compare(a.items[0].id, b.items[0].id) })
	var out []store.ThreadState
	now := q.now()
	for _, t := range busy[:min(max(limit, 0), len(busy))] {
		s := store.ThreadState{Thread: t.name, Waiting: len(t.items), Epoch: t.last}
		if t.epoch != 0 {
			s.Leased = max(t.until.Sub(now), 0)
		}
		out = append(out, s)
	}
	return out, nil
}

// refusals says how many writes were refused because their lease was lost.
func (q *queue) refusals() (n int64, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stale, q.closed
}

// note counts a refusal, in memory: the writer saves the sum with its next commit and at the end. The caller holds the mutex.
func (q *queue) note(err error) error {
	if errors.Is(err, store.ErrStale) {
		q.stale++
	}
	return err
}

// refused counts a batch's refusal. It is for the writer, once it is sure not to try the batch again.
func (q *queue) refused(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_ = q.note(err)
}

func (q *queue) renew(l store.Lease, ttl time.Duration) error {
	if ttl <= 0 {
		return fmt.Errorf("renew lease on thread %q for %s: the lease must last longer than nothing", l.Thread, ttl)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t, err := q.holder(l, "renew lease on")
	if err != nil {
		return q.note(err)
	}
	t.until = q.now().Add(ttl)
	q.arm(t.until)
	return nil
}

func (q *queue) release(l store.Lease) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	t, err := q.holder(l, "release")
	if err != nil {
		return q.note(err)
	}
	q.end(t)
	q.grant()
	return nil
}

// close wakes every waiter. The writer may still settle its last group.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.disarm()
	for q.waiting.Len() > 0 {
		w, _ := q.waiting.Remove(q.waiting.Front()).(*waiter)
		close(w.lease)
	}
}

// hold checks a batch's lease and acks against the state that the group has made so far, and keeps the thread from being
// claimed until done. So the check is still true at the moment when the disk has the batch.
func (q *queue) hold(b *store.Batch, g *group) (*thread, []int64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.live(*b.Lease)
	if t == nil || g.released[t] {
		return nil, nil, stale("commit batch for", *b.Lease)
	}
	ids := make([]int64, 0, len(b.Ack))
	for _, key := range b.Ack {
		i := slices.IndexFunc(t.items, func(it item) bool { return it.Key == key })
		if i < 0 || g.acked[t.items[i].id] || slices.Contains(ids, t.items[i].id) {
			return nil, nil, fmt.Errorf("ack item %q: it does not wait in thread %q", key, t.name)
		}
		ids = append(ids, t.items[i].id)
	}
	t.held++
	g.held = append(g.held, t)
	return t, ids, nil
}

// done lets the held threads go and, when the group is durable, makes its changes visible.
func (q *queue) done(g *group, durable bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range g.held {
		t.held--
		if durable {
			t.items = slices.DeleteFunc(t.items, func(it item) bool { return g.acked[it.id] })
			if g.released[t] {
				t.epoch = 0
				delete(q.leased, t)
			}
		}
	}
	if durable {
		for _, it := range g.pushed {
			t := q.thread(it.Thread)
			t.items = append(t.items, it)
			q.settle(t)
		}
	}
	for _, t := range g.held {
		q.settle(t)
	}
	q.expire()
	if !q.closed {
		q.grant()
	}
}

// restore takes in the items that the file held at Open.
func (q *queue) restore(items []item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range items {
		t := q.thread(it.Thread)
		t.items = append(t.items, it)
		q.settle(t)
	}
}

func stale(verb string, l store.Lease) error {
	return fmt.Errorf("%s thread %q, epoch %d: %w", verb, l.Thread, l.Epoch, store.ErrStale)
}
