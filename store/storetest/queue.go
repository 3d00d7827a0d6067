package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"switchboard/store"
)

func sameKey(d *desk) {
	var fresh atomic.Int64
	d.together(20, func(int) {
		ok, err := d.s.Push(d.ctx, store.Item{Key: "k", Thread: "t", Body: []byte("body of k")})
		if err != nil {
			d.Error(err)
		}
		if ok {
			fresh.Add(1)
		}
	})
	d.same(fresh.Load(), int64(1))
	d.same(d.push("elsewhere", "k"), false)
	d.same(d.keys(d.claimThread("t")), []string{"k"})
	d.nobody()
}

func claimOutlives(d *desk) {
	d.push("t", "k")
	l := d.claim()
	d.commit(store.Batch{Lease: &l, Ack: []string{"k"}, Release: true}, nil)
	d.same(d.push("t", "k"), false)
	d.reopen()
	d.same(d.push("t", "k"), false)
	d.nobody()
}

func itemsSurvive(d *desk) {
	for i := range 4 {
		d.push("a", name("a", i))
		d.push("b", name("b", i))
	}
	l := d.claimThread("a")
	d.commit(store.Batch{Lease: &l, Ack: []string{"a000", "a002"}}, nil)
	d.reopen()
	d.push("a", "a004")
	got := map[string][]string{}
	for range 2 {
		l := d.claim()
		got[l.Thread] = d.keys(l)
	}
	d.same(got, map[string][]string{"a": {"a001", "a003", "a004"}, "b": {"b000", "b001", "b002", "b003"}})
}

func order(d *desk) {
	var want []string
	for i := range 30 {
		d.push("t", name("k", i))
		d.push("other", name("o", i))
		want = append(want, name("k", i))
	}
	l := d.claimThread("t")
	d.same(d.keys(l), want)
	d.commit(store.Batch{Lease: &l, Ack: []string{want[3], want[0], want[29]}}, nil)
	d.same(d.keys(l), slices.Delete(slices.Clone(want), 3, 4)[1:28])
}

func oneLease(d *desk) {
	d.push("t", "k1")
	l := d.claimThread("t")
	d.push("t", "k2")
	d.nobody()
	d.same(d.keys(l), []string{"k1", "k2"})
}

func parallel(d *desk) {
	seen := map[string]bool{}
	for i := range 10 {
		d.push(name("t", i), name("k", i))
	}
	for range 10 {
		l := d.claim()
		if seen[l.Thread] {
			d.Fatalf("thread %q was leased twice", l.Thread)
		}
		seen[l.Thread] = true
	}
	d.nobody()
}

func fairness(d *desk) {
	for _, thread := range []string{"a", "b", "c"} {
		d.push(thread, thread+"1")
		d.h.Advance(time.Second)
	}
	a := d.claimThread("a")
	d.push("a", "a2")
	d.want(d.s.Release(d.ctx, a), nil) // to the end of the line, although its items are the oldest
	d.h.Advance(time.Second)
	d.push("b", "b2")
	b := d.claimThread("b")
	d.commit(store.Batch{Lease: &b, Ack: []string{"b1"}, Release: true}, nil)
	d.claimThread("c")
	d.claimThread("a")
	d.claimThread("b")
}

// refused says that a lease is good for nothing.
func (d *desk) refused(l store.Lease) {
	d.Helper()
	_, err := d.s.Items(d.ctx, l)
	d.want(err, store.ErrStale)
	d.want(d.s.Renew(d.ctx, l, ttl), store.ErrStale)
	d.want(d.s.Release(d.ctx, l), store.ErrStale)
	d.commit(store.Batch{Lease: &l}, store.ErrStale)
	d.commit(store.Batch{Lease: &l, Events: []store.Event{{Stream: "late", Kind: "x"}}}, store.ErrStale)
	if es := d.events("late"); len(es) > 0 {
		d.Fatalf("a stale lease wrote %v", es)
	}
}

func staleExpired(d *desk) {
	d.push("t", "k")
	l := d.claim()
	d.h.Advance(ttl - time.Second)
	d.commit(store.Batch{Lease: &l}, nil)
	d.h.Advance(time.Second)
	d.refused(l) // nobody else has it, and yet
	d.claimThread("t")
}

func staleReclaimed(d *desk) {
	d.push("t", "k")
	old := d.claim()
	d.h.Advance(ttl)
	l := d.claimThread("t")
	if l.Epoch <= old.Epoch {
		d.Fatalf("epoch %d follows %d", l.Epoch, old.Epoch)
	}
	d.refused(old)
	d.commit(store.Batch{Lease: &old, Ack: []string{"k"}}, store.ErrStale)
	d.commit(store.Batch{Lease: &old, Release: true}, store.ErrStale)
	d.same(d.keys(l), []string{"k"})
	d.commit(store.Batch{Lease: &l, Ack: []string{"k"}, Release: true}, nil)
	d.nobody()
}

func staleReleased(d *desk) {
	d.push("t", "k")
	l := d.claim()
	d.want(d.s.Release(d.ctx, l), nil)
	d.refused(l)
	d.commit(store.Batch{Lease: &l, Ack: []string{"k"}}, store.ErrStale)
	d.same(d.keys(d.claimThread("t")), []string{"k"})
}

func staleReopened(d *desk) {
	d.push("t", "k")
	old := d.claim()
	for range 3 {
		d.reopen()
		d.refused(old)
		l := d.claimThread("t")
		if l.Epoch <= old.Epoch {
			d.Fatalf("epoch %d follows %d over a reopen", l.Epoch, old.Epoch)
		}
		d.refused(old)
		old = l
	}
}

func staleForged(d *desk) {
	d.push("t", "k")
	d.refused(store.Lease{Thread: "t"})
	d.refused(store.Lease{Thread: "nowhere", Epoch: 1})
	l := d.claim()
	d.refused(store.Lease{Thread: "t"})
	d.refused(store.Lease{Thread: "t", Epoch: l.Epoch + 1})
	d.refused(store.Lease{Thread: "other", Epoch: l.Epoch})
	d.commit(store.Batch{Lease: &l, Ack: []string{"k"}}, nil)
}

// load has workers race for threads that writers fill, and holds every item against D1 and D2.
func load(d *desk) {
	const threads, each, workers = 12, 15, 6
	ctx, cancel := context.WithTimeout(d.ctx, 3*patience)
	defer cancel()
	var mu sync.Mutex
	busy, got := map[string]bool{}, map[string][]string{}
	left := threads * each
	work := func() {
		for {
			l, err := d.s.Claim(ctx, ttl)
			if errors.Is(err, context.Canceled) {
				return
			}
			if err != nil {
				d.Error(err)
				return
			}
			mu.Lock()
			if busy[l.Thread] {
				d.Errorf("thread %q has two workers", l.Thread)
			}
			busy[l.Thread] = true
			mu.Unlock()
			items, err := d.s.Items(ctx, l)
			if err != nil || len(items) == 0 {
				d.Errorf("items of claimed thread %q: %v, %v", l.Thread, items, err)
				return
			}
			mu.Lock()
			busy[l.Thread] = false
			got[l.Thread] = append(got[l.Thread], items[0].Key)
			mu.Unlock()
			//nolint:contextcheck // the cancel of another worker must not cut it off
			if err := d.s.Commit(d.ctx, store.Batch{Lease: &l, Ack: []string{items[0].Key}, Release: true}); err != nil {
				d.Error(err)
				return
			}
			mu.Lock()
			if left--; left == 0 {
				cancel()
			}
			mu.Unlock()
		}
	}
	d.together(workers+threads, func(i int) {
		if i < workers {
			work()
			return
		}
		for k := range each {
			if _, err := d.s.Push(d.ctx, store.Item{Key: name(name("t", i), k), Thread: name("t", i)}); err != nil {
				d.Error(err)
			}
		}
	})
	for i := workers; i < workers+threads; i++ {
		var want []string
		for k := range each {
			want = append(want, name(name("t", i), k))
		}
		d.same(got[name("t", i)], want)
	}
}

func renewExtends(d *desk) {
	d.push("t", "k")
	l := d.claim()
	d.h.Advance(ttl - time.Second)
	d.want(d.s.Renew(d.ctx, l, ttl), nil)
	d.h.Advance(ttl - time.Second)
	d.same(d.keys(l), []string{"k"})
	d.nobody()
	d.h.Advance(time.Second)
	d.refused(l)
	if err := d.s.Renew(d.ctx, d.claimThread("t"), 0); err == nil || errors.Is(err, store.ErrStale) {
		d.Fatalf("renew for nothing: %v", err)
	}
}

func claimPush(d *desk) {
	c := d.claiming(d.ctx)
	d.push("t", "k")
	a := d.await(c)
	d.want(a.err, nil)
	d.same(d.keys(a.lease), []string{"k"})
}

func claimRelease(d *desk) {
	d.push("t", "k")
	l := d.claim()
	c := d.claiming(d.ctx)
	d.want(d.s.Release(d.ctx, l), nil)
	a := d.await(c)
	d.want(a.err, nil)
	d.same(d.keys(a.lease), []string{"k"})

	c = d.claiming(d.ctx)
	d.push("t", "k2")
	d.commit(store.Batch{Lease: &a.lease, Ack: []string{"k"}, Release: true}, nil)
	a = d.await(c)
	d.want(a.err, nil)
	d.same(d.keys(a.lease), []string{"k2"})
}

func claimExpiry(d *desk) {
	d.push("t", "k")
	l := d.claim()
	d.nobody()
	c := d.claiming(d.ctx)
	d.h.Advance(ttl)
	a := d.await(c)
	d.want(a.err, nil)
	d.refused(l)
	d.same(d.keys(a.lease), []string{"k"})
}

func claimContext(d *desk) {
	ended, cancel := context.WithCancel(d.ctx)
	c := d.claiming(ended)
	cancel()
	d.want(d.await(c).err, context.Canceled)
	d.push("t", "k")
	d.want(d.await(d.claiming(ended)).err, context.Canceled)
	d.claimThread("t") // the ended ones did not take it along

	// Claims that are cancelled while the item comes: whoever has it, it is not lost.
	for i := range 20 {
		racing, cancel := context.WithCancel(d.ctx)
		c := d.claiming(racing)
		thread := name("t", i)
		d.together(2, func(side int) {
			if side == 0 {
				cancel()
			} else if _, err := d.s.Push(d.ctx, store.Item{Key: thread, Thread: thread, Body: []byte("body of " + thread)}); err != nil {
				d.Error(err)
			}
		})
		if a := d.await(c); a.err != nil {
			d.want(a.err, context.Canceled)
			d.claimThread(thread)
		} else {
			d.same(d.keys(a.lease), []string{thread})
		}
		cancel()
	}
}

func claimLength(d *desk) {
	d.push("t", "k")
	for _, length := range []time.Duration{0, -time.Second} {
		if l, err := d.s.Claim(d.ctx, length); err == nil {
			d.Fatalf("claimed %+v for %s", l, length)
		}
	}
	d.claimThread("t")
}

func backlog(d *desk) {
	waiting := func(want int) {
		d.Helper()
		n, err := d.s.Waiting(d.ctx)
		d.want(err, nil)
		d.same(n, want)
	}
	queued := func(thread string, want int) {
		d.Helper()
		n, err := d.s.Queued(d.ctx, thread)
		d.want(err, nil)
		d.same(n, want)
	}
	waiting(0)
	queued("a", 0)
	d.push("a", "a1")
	d.push("a", "a2")
	d.push("b", "b1")
	d.push("b", "b1")
	waiting(3)
	queued("a", 2)
	queued("b", 1)
	l := d.claimThread("a")
	queued("a", 2)
	waiting(3) // what is being worked on is not done
	d.commit(store.Batch{Lease: &l, Ack: []string{"a1"}, Push: []store.Item{{Key: "c1", Thread: "c"}}}, nil)
	waiting(3)
	queued("a", 1)
	queued("c", 1)
	d.commit(store.Batch{Lease: &l, Ack: []string{"a2"}, Release: true}, nil)
	waiting(2)
	queued("a", 0)
	d.reopen()
	waiting(2)
	queued("a", 0)
	queued("c", 1)
}

func threads(d *desk) {
	states := func(limit int, want ...store.ThreadState) {
		d.Helper()
		got, err := d.s.Threads(d.ctx, limit)
		d.want(err, nil)
		d.same(got, want)
	}
	states(10)
	for _, thread := range []string{"c", "a", "b"} {
		d.push(thread, thread+"1")
		d.h.Advance(time.Second)
	}
	d.push("c", "c2")
	a, b, c := store.ThreadState{Thread: "a", Waiting: 1}, store.ThreadState{Thread: "b", Waiting: 1}, store.ThreadState{Thread: "c", Waiting: 2}
	states(10, c, a, b)
	states(2, c, a)
	states(0)
	states(-1)
	l := d.claimThread("c")
	c.Epoch, c.Leased = l.Epoch, ttl
	states(10, c, a, b) // what is being worked on waits too
	d.h.Advance(ttl / 3)
	d.commit(store.Batch{Lease: &l, Ack: []string{"c1"}}, nil)
	c.Waiting, c.Leased = 1, ttl-ttl/3
	states(10, a, b, c)
	d.want(d.s.Renew(d.ctx, l, 2*ttl), nil)
	c.Leased = 2 * ttl
	states(10, a, b, c)
	d.want(d.s.Release(d.ctx, l), nil)
	c.Leased = 0
	states(10, a, b, c) // the epoch of the last lease stays in sight
	l = d.claimThread("a")
	d.h.Advance(ttl)
	a.Epoch = l.Epoch
	states(1, a) // its lease is over
	l = d.claimThread("b")
	d.commit(store.Batch{Lease: &l, Ack: []string{"b1"}, Release: true}, nil)
	states(10, a, c)
	d.reopen()
	got, err := d.s.Threads(d.ctx, 10)
	d.want(err, nil)
	for i := range got {
		got[i].Epoch = 0 // a store may have forgotten it with the process
	}
	a.Epoch, c.Epoch = 0, 0
	d.same(got, []store.ThreadState{a, c})
}

// staleCounted counts refused writes, and those alone.
func staleCounted(d *desk) {
	stale := func(want int64) {
		d.Helper()
		n, err := d.s.Stale(d.ctx)
		d.want(err, nil)
		d.same(n, want)
	}
	stale(0)
	d.push("t", "k")
	l := d.claim()
	d.commit(store.Batch{Lease: &l, Ack: []string{"nowhere"}, Puts: []store.Put{{Key: "k"}}, Push: nil, Release: true}, errAny)
	d.want(d.s.Release(d.ctx, l), nil)
	stale(0)
	d.commit(store.Batch{Lease: &l, Ack: []string{"k"}}, store.ErrStale)
	stale(1)
	d.want(d.s.Renew(d.ctx, l, ttl), store.ErrStale)
	d.want(d.s.Release(d.ctx, l), store.ErrStale)
	stale(3)
	_, err := d.s.Items(d.ctx, l) // a read
	d.want(err, store.ErrStale)
	stale(3)
	d.together(10, func(int) {
		if err := d.s.Commit(d.ctx, store.Batch{Lease: &l}); !errors.Is(err, store.ErrStale) {
			d.Error(err)
		}
	})
	stale(13)
	d.reopen()
	stale(13)
	d.commit(store.Batch{Lease: &l}, store.ErrStale)
	d.push("t", "k2")
	d.reopen()
	stale(14)
}

func pushBeforeRelease(d *desk) {
	d.push("t", "k1")
	l := d.claim()
	d.same(d.keys(l), []string{"k1"})
	d.push("t", "k2") // after the worker has looked
	d.commit(store.Batch{Lease: &l, Ack: []string{"k1"}, Release: true}, nil)
	l = d.claimThread("t")
	d.same(d.keys(l), []string{"k2"})
	d.commit(store.Batch{Lease: &l, Ack: []string{"k2"}}, nil)
	d.push("t", "k3")
	d.want(d.s.Release(d.ctx, l), nil)
	d.same(d.keys(d.claimThread("t")), []string{"k3"})
}
