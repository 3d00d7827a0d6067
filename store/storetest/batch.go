package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"switchboard/store"
)

// full is a batch that touches everything, under names that end in tag.
func full(d *desk, tag string) store.Batch {
	return store.Batch{
		Puts:     []store.Put{{Key: "r1" + tag, Value: []byte("v")}, {Key: "r2" + tag, Value: []byte("v")}},
		Events:   []store.Event{{Stream: "s" + tag, At: d.h.Now(), Kind: "begun", Meta: []byte(`{"n":1}`)}},
		Contents: []store.Content{{Key: "c" + tag, Value: []byte("words")}},
		Adds:     []store.Add{{Key: "n" + tag, Delta: 3}},
		Push:     []store.Item{{Key: "p" + tag, Thread: "pushed" + tag, Body: []byte("body of p" + tag)}},
	}
}

// untouched says that nothing of full was written.
func (d *desk) untouched(tag string) {
	d.Helper()
	d.same(d.record("r1"+tag), store.Record{})
	d.same(d.record("r2"+tag), store.Record{})
	d.same(len(d.events("s"+tag)), 0)
	d.same(d.content("c"+tag), []byte(nil))
	d.same(d.count("n"+tag), int64(0))
	streams, err := d.s.Streams(d.ctx, "begun", 100)
	d.want(err, nil)
	for _, e := range streams {
		if e.Stream == "s"+tag {
			d.Fatalf("stream %q is listed", e.Stream)
		}
	}
}

func nothing(d *desk, tag string, b store.Batch, want error) {
	d.Helper()
	err := d.s.Commit(d.ctx, b)
	if err == nil {
		d.Fatal("the batch was written")
	}
	if want != nil {
		d.want(err, want)
	}
	d.untouched(tag)
}

func atomicity(d *desk) {
	d.push("t", "k")
	l := d.claim()
	d.commit(store.Batch{Puts: []store.Put{{Key: "taken", Value: []byte("v")}}}, nil)

	for i, at := range []int{0, 1, 2} { // the conflict as the first, a middle and the last record
		tag := fmt.Sprint("-conflict", i)
		b := full(d, tag)
		puts := append([]store.Put(nil), b.Puts[:at]...)
		b.Puts = append(append(puts, store.Put{Key: "taken", Value: []byte("w")}), b.Puts[at:]...)
		b.Lease, b.Ack, b.Release = &l, []string{"k"}, true
		nothing(d, tag, b, store.ErrConflict)
		d.same(d.keys(l), []string{"k"}) // neither acked nor released
	}
	b := full(d, "-ack")
	b.Lease, b.Ack = &l, []string{"k", "unknown"}
	nothing(d, "-ack", b, nil)
	d.same(d.keys(l), []string{"k"})

	old := l
	d.want(d.s.Release(d.ctx, l), nil)
	b = full(d, "-stale")
	b.Lease = &old
	nothing(d, "-stale", b, store.ErrStale)
	d.claimThread("t")
	d.nobody() // no item of a refused batch waits

	// Refused batches left no claims behind, and do not hurt those that share a commit with them.
	d.together(30, func(i int) {
		b := full(d, name("-shared", i))
		if i%3 == 0 {
			b.Puts = append(b.Puts, store.Put{Key: "taken", Value: []byte("w")})
		}
		if err := d.s.Commit(d.ctx, b); (err != nil) != (i%3 == 0) {
			d.Errorf("batch %d: %v", i, err)
		}
	})
	for i := range 30 {
		if tag := name("-shared", i); i%3 == 0 {
			d.untouched(tag)
		} else {
			d.same(d.count("n"+tag), int64(3))
		}
	}
	d.same(d.push("t", "p-conflict1"), true)
	d.same(d.push("t", "p-shared000"), true)
	d.same(d.push("t", "p-shared001"), false)
}

func everything(d *desk) {
	d.push("t", "k1")
	d.push("t", "k2")
	l := d.claim()
	b := full(d, "")
	b.Lease, b.Ack, b.Release = &l, []string{"k1"}, true
	d.commit(b, nil)
	look := func() {
		d.Helper()
		d.same(d.record("r1"), store.Record{Value: []byte("v"), Version: 1})
		d.same(d.record("r2"), store.Record{Value: []byte("v"), Version: 1})
		d.same(d.events("s"), []store.Event{{Stream: "s", Seq: 1, At: b.Events[0].At, Kind: "begun", Meta: []byte(`{"n":1}`)}})
		d.same(string(d.content("c")), "words")
		d.same(d.count("n"), int64(3))
		got := map[string][]string{}
		for range 2 {
			l := d.claim()
			got[l.Thread] = d.keys(l)
		}
		d.same(got, map[string][]string{"t": {"k2"}, "pushed": {"p"}})
		d.nobody()
	}
	look()
	d.reopen()
	look()
}

func batchPush(d *desk) {
	item := func(key, thread string) store.Item {
		return store.Item{Key: key, Thread: thread, Body: []byte("body of " + key)}
	}
	d.push("t", "k1")
	d.commit(store.Batch{Push: []store.Item{item("k1", "other"), item("k2", "t"), item("k2", "t"), item("k3", "t")}}, nil)
	l := d.claimThread("t")
	d.same(d.keys(l), []string{"k1", "k2", "k3"})
	d.nobody()
	d.commit(store.Batch{Lease: &l, Push: []store.Item{item("k4", "t"), item("x", "u")}, Ack: []string{"k1"}}, nil)
	d.same(d.keys(l), []string{"k2", "k3", "k4"})
	d.same(d.keys(d.claimThread("u")), []string{"x"})
	d.same(d.push("t", "k4"), false)
}

func batchRelease(d *desk) {
	d.push("t", "k")
	l := d.claim()
	d.commit(store.Batch{Lease: &l, Release: true}, nil)
	d.refused(l)
	l = d.claimThread("t")
	d.commit(store.Batch{Lease: &l, Ack: []string{"k"}, Release: true}, nil)
	d.refused(l)
	d.nobody()
	d.push("t", "again")
	d.claimThread("t")
}

func ackOther(d *desk) {
	d.push("a", "a1")
	d.push("b", "b1")
	a := d.claimThread("a")
	for _, keys := range [][]string{{"b1"}, {"a1", "b1"}, {"a1", "a1"}, {"nowhere"}} {
		if err := d.s.Commit(d.ctx, store.Batch{Lease: &a, Ack: keys}); err == nil {
			d.Fatalf("acked %q with the lease of thread a", keys)
		}
	}
	d.same(d.keys(a), []string{"a1"})
	d.commit(store.Batch{Lease: &a, Ack: []string{"a1"}}, nil)
	if err := d.s.Commit(d.ctx, store.Batch{Lease: &a, Ack: []string{"a1"}}); err == nil {
		d.Fatal("acked an item twice")
	}
	d.same(d.keys(d.claimThread("b")), []string{"b1"})
}

func nonsense(d *desk) {
	l := store.Lease{Thread: "t", Epoch: 1}
	for i, b := range []store.Batch{
		{Ack: []string{"k"}},
		{Release: true},
		{Puts: []store.Put{{Value: []byte("v")}}},
		{Puts: []store.Put{{Key: "k", Value: []byte("v"), Version: -1}}},
		{Events: []store.Event{{Kind: "x"}}},
		{Events: []store.Event{{Stream: "x"}}},
		{Contents: []store.Content{{Value: []byte("v")}}},
		{Adds: []store.Add{{Delta: 1}}},
		{Push: []store.Item{{Thread: "t"}}},
		{Push: []store.Item{{Key: "k"}}},
		{Lease: &l},
	} {
		if err := d.s.Commit(d.ctx, b); err == nil {
			d.Errorf("batch %d was written: %+v", i, b)
		}
	}
	for _, it := range []store.Item{{Thread: "t"}, {Key: "k"}} {
		if _, err := d.s.Push(d.ctx, it); err == nil {
			d.Errorf("pushed %+v", it)
		}
	}
	d.nobody()
}

func endedContext(d *desk) {
	ended, cancel := context.WithCancel(d.ctx)
	cancel()
	d.want(d.s.Commit(ended, full(d, "")), context.Canceled)
	d.untouched("")
	_, err := d.s.Push(ended, store.Item{Key: "k", Thread: "t"})
	d.want(err, context.Canceled)
	_, err = d.s.Get(ended, "r1")
	d.want(err, context.Canceled)
	d.nobody()
	d.same(d.push("t", "k"), true)

	// A commit that is cancelled while it is under way either happened, without an error, or did not.
	for i := range 30 {
		racing, cancel := context.WithCancel(d.ctx)
		key := name("r", i)
		d.together(2, func(side int) {
			if side == 0 {
				cancel()
				return
			}
			err := d.s.Commit(racing, store.Batch{Puts: []store.Put{{Key: key, Value: []byte("v")}}})
			//nolint:contextcheck // racing has ended
			if r, e := d.s.Get(d.ctx, key); e != nil || (err == nil) != (r.Version == 1) {
				d.Errorf("commit said %v, and the record is %+v, %v", err, r, e)
			}
		})
		cancel()
	}
}

func compareAndSet(d *desk) {
	put := func(value string, version int64, want error) {
		d.Helper()
		d.commit(store.Batch{Puts: []store.Put{{Key: "k", Value: []byte(value), Version: version}}}, want)
	}
	d.same(d.record("k"), store.Record{})
	put("", 0, nil) // there is none, as it should be
	put("a", 1, store.ErrConflict)
	put("a", 0, nil)
	put("b", 0, store.ErrConflict)
	put("", 0, store.ErrConflict)
	d.same(d.record("k"), store.Record{Value: []byte("a"), Version: 1})
	put("b", 1, nil)
	put("c", 1, store.ErrConflict)
	put("", 1, store.ErrConflict)
	d.reopen()
	d.same(d.record("k"), store.Record{Value: []byte("b"), Version: 2})
	put("", 2, nil)
	d.same(d.record("k"), store.Record{})
	put("c", 2, store.ErrConflict)
	put("c", 0, nil)
	d.same(d.record("k"), store.Record{Value: []byte("c"), Version: 1})

	// Within one batch, puts follow each other.
	d.commit(store.Batch{Puts: []store.Put{{Key: "k", Value: []byte("d"), Version: 1}, {Key: "k", Value: []byte("e"), Version: 2}}}, nil)
	d.same(d.record("k"), store.Record{Value: []byte("e"), Version: 3})
	d.commit(store.Batch{Puts: []store.Put{{Key: "k", Value: []byte("f"), Version: 3}, {Key: "k", Value: []byte("g"), Version: 3}}},
		store.ErrConflict)
	d.same(d.record("k"), store.Record{Value: []byte("e"), Version: 3})
}

func compareAndSetRace(d *desk) {
	var won atomic.Int64
	d.together(16, func(int) {
		for done := 0; done < 5; {
			r, err := d.s.Get(d.ctx, "k")
			if err != nil {
				d.Error(err)
				return
			}
			value := []byte(fmt.Sprint(r.Version + 1))
			switch err := d.s.Commit(d.ctx, store.Batch{Puts: []store.Put{{Key: "k", Value: value, Version: r.Version}}}); {
			case err == nil:
				won.Add(1)
				done++
			case !isConflict(err):
				d.Error(err)
				return
			}
		}
	})
	d.same(won.Load(), int64(80))
	d.same(d.record("k"), store.Record{Value: []byte("80"), Version: 80})
}

func sweepClaims(d *desk) {
	d.push("t", "done")
	l := d.claim()
	d.commit(store.Batch{Lease: &l, Ack: []string{"done"}, Release: true}, nil)
	d.push("t", "waits")
	d.h.Advance(store.ClaimLife - time.Second)
	d.sweep(0)
	d.same(d.push("t", "done"), false)
	d.h.Advance(time.Second)
	d.sweep(1)
	d.same(d.push("t", "waits"), false) // else it would run twice
	d.same(d.push("t", "done"), true)
	d.same(d.keys(d.claimThread("t")), []string{"waits", "done"})
}

func (d *desk) sweep(want int) {
	d.Helper()
	n, err := d.s.Sweep(d.ctx)
	d.want(err, nil)
	d.same(n, want)
}

func closed(d *desk) {
	d.push("t", "k")
	l := d.claim()
	d.commit(full(d, ""), nil)
	d.claimThread("pushed")
	c1, c2 := d.claiming(d.ctx), d.claiming(d.ctx)
	d.want(d.s.Close(), nil)
	d.want(d.await(c1).err, store.ErrClosed)
	d.want(d.await(c2).err, store.ErrClosed)
	d.want(d.s.Close(), nil)

	d.commit(store.Batch{Puts: []store.Put{{Key: "k", Value: []byte("v")}}}, store.ErrClosed)
	d.want(d.await(d.claiming(d.ctx)).err, store.ErrClosed)
	d.want(d.s.Renew(d.ctx, l, ttl), store.ErrClosed)
	d.want(d.s.Release(d.ctx, l), store.ErrClosed)
	for name, call := range map[string]func() error{
		"push":     func() error { _, err := d.s.Push(d.ctx, store.Item{Key: "x", Thread: "t"}); return err },
		"items":    func() error { _, err := d.s.Items(d.ctx, l); return err },
		"get":      func() error { _, err := d.s.Get(d.ctx, "r1"); return err },
		"events":   func() error { _, err := d.s.Events(d.ctx, "s"); return err },
		"streams":  func() error { _, err := d.s.Streams(d.ctx, "begun", 1); return err },
		"content":  func() error { _, err := d.s.Content(d.ctx, "c"); return err },
		"contents": func() error { _, err := d.s.ContentsUnder(d.ctx, ""); return err },
		"count":    func() error { _, err := d.s.Count(d.ctx, "n"); return err },
		"queued":   func() error { _, err := d.s.Queued(d.ctx, "t"); return err },
		"waiting":  func() error { _, err := d.s.Waiting(d.ctx); return err },
		"under":    func() error { _, err := d.s.Under(d.ctx, ""); return err },
		"threads":  func() error { _, err := d.s.Threads(d.ctx, 1); return err },
		"stale":    func() error { _, err := d.s.Stale(d.ctx); return err },
		"sweep":    func() error { _, err := d.s.Sweep(d.ctx); return err },
	} {
		if err := call(); !isClosed(err) {
			d.Errorf("%s on a closed store: %v", name, err)
		}
	}
	d.reopen()
	d.same(d.record("k"), store.Record{})
	d.same(d.count("n"), int64(3))
}
