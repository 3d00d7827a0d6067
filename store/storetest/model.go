package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"switchboard/store"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// world is the plainest store there is: what the real one must agree with, step by step.
type world struct {
	claimed  map[string]time.Time
	lines    map[string]*line
	records  map[string]store.Record
	events   map[string][]store.Event
	begun    []string // streams in the order of their first event
	contents map[string]store.Content
	counters map[string]counter
	stale    int64
	pushed   int // items, ever
}

type counter struct {
	n     int64
	until time.Time
}

// line is a thread of the world.
type line struct {
	keys  []string
	ages  map[string]int // of the keys: how many were pushed before, in all lines
	lease store.Lease    // Epoch 0: none
	until time.Time
	since time.Time // when it began to wait for a worker
}

// tidy turns a lease that has expired into a thread that waits since then.
func (l *line) tidy(now time.Time) {
	if l.lease.Epoch != 0 && !now.Before(l.until) {
		l.lease, l.since = store.Lease{}, l.until
	}
}

func (l *line) push(key string, age int, now time.Time) {
	if len(l.keys) == 0 {
		l.since, l.ages = now, map[string]int{}
	}
	l.ages[key] = age
	l.keys = append(l.keys, key)
}

func past(until, now time.Time) bool { return !until.IsZero() && !until.After(now) }

// model plays random steps on a store and on a world, and compares all that can be read.
func model(d *desk) {
	rapid.Check(d.T, func(t *rapid.T) {
		h := d.open(d.T)
		p := &play{T: t, outer: d.T, h: h, s: h.Store(), ctx: d.ctx, w: world{
			map[string]time.Time{},
			map[string]*line{},
			map[string]store.Record{},
			map[string][]store.Event{},
			nil,
			map[string]store.Content{},
			map[string]counter{},
			0,
			0,
		}}
		p.Repeat(map[string]func(*rapid.T){
			"push": p.push, "claim": p.claim, "commit": p.commit, "commit again": p.commit, "renew": p.renew,
			"release": p.release, "advance": p.advance, "reopen": p.reopen, "sweep": p.sweep, "": p.compare,
		})
		if err := p.s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// play is one game.
type play struct {
	*rapid.T
	outer  *testing.T
	h      Harness
	s      store.Store
	ctx    context.Context //nolint:containedctx // the test's own; a play lives as long as it
	w      world
	leases []store.Lease // all that were ever given
}

// draw gives one of n names of a kind.
func draw(t *rapid.T, kind string, n int) string {
	return fmt.Sprint(kind, rapid.IntRange(1, n).Draw(t, kind))
}

func (p *play) line(thread string) *line {
	l := p.w.lines[thread]
	if l == nil {
		l = &line{}
		p.w.lines[thread] = l
	}
	l.tidy(p.h.Now())
	return l
}

// live finds the line of a lease that is good, else nil.
func (p *play) live(l store.Lease) *line {
	if n := p.line(l.Thread); n.lease == l {
		return n
	}
	return nil
}

func (p *play) item(t *rapid.T) store.Item {
	key := draw(t, "k", 40)
	return store.Item{Key: key, Thread: draw(t, "t", 4), Body: []byte(key)}
}

func (p *play) accept(it store.Item) (fresh bool) {
	if _, known := p.w.claimed[it.Key]; known {
		return false
	}
	p.w.claimed[it.Key] = p.h.Now()
	p.w.pushed++
	p.line(it.Thread).push(it.Key, p.w.pushed, p.h.Now())
	return true
}

func (p *play) push(t *rapid.T) {
	it := p.item(t)
	fresh, err := p.s.Push(p.ctx, it)
	if want := p.accept(it); err != nil || fresh != want {
		t.Fatalf("push %q: %v, %v, want %v", it.Key, fresh, err, want)
	}
}

func (p *play) claim(t *rapid.T) {
	ready := map[string]time.Time{}
	for name := range p.w.lines {
		if l := p.line(name); len(l.keys) > 0 && l.lease.Epoch == 0 {
			ready[name] = l.since
		}
	}
	if len(ready) == 0 {
		t.Skip("no thread is ready")
	}
	length := time.Duration(rapid.IntRange(1, 60).Draw(t, "ttl")) * time.Second
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	got, err := p.s.Claim(ctx, length)
	if err != nil {
		t.Fatalf("claim with %v ready: %v", ready, err)
	}
	since, ok := ready[got.Thread]
	for name, other := range ready {
		if !ok || other.Before(since) {
			t.Fatalf("claimed %q, but %q waits longer: %v", got.Thread, name, ready)
		}
	}
	for _, l := range p.leases {
		if got.Epoch <= l.Epoch && got.Thread == l.Thread {
			t.Fatalf("claimed %+v after %+v", got, l)
		}
	}
	l := p.line(got.Thread)
	l.lease, l.until = got, p.h.Now().Add(length)
	p.leases = append(p.leases, got)
}

func (p *play) lease(t *rapid.T) store.Lease {
	if len(p.leases) == 0 {
		t.Skip("no lease was given yet")
	}
	if n := len(p.leases); rapid.Bool().Draw(t, "latest") {
		return p.leases[n-1]
	}
	return rapid.SampledFrom(p.leases).Draw(t, "lease")
}

func (p *play) renew(t *rapid.T) {
	l := p.lease(t)
	length := time.Duration(rapid.IntRange(1, 60).Draw(t, "ttl")) * time.Second
	err := p.s.Renew(p.ctx, l, length)
	if n := p.live(l); n != nil {
		n.until = p.h.Now().Add(length)
		p.verdict(t, "renew", err, nil)
		return
	}
	p.w.stale++
	p.verdict(t, "renew", err, store.ErrStale)
}

func (p *play) release(t *rapid.T) {
	l := p.lease(t)
	err := p.s.Release(p.ctx, l)
	if n := p.live(l); n != nil {
		n.lease, n.since = store.Lease{}, p.h.Now()
		p.verdict(t, "release", err, nil)
		return
	}
	p.w.stale++
	p.verdict(t, "release", err, store.ErrStale)
}

func (p *play) verdict(t *rapid.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: got %v, want %v", what, err, want)
	}
}

func (p *play) advance(*rapid.T) {
	p.h.Advance(rapid.SampledFrom([]time.Duration{
		time.Second, 10 * time.Second, time.Minute, time.Hour, store.ClaimLife,
	}).Draw(p.T, "by"))
}

func (p *play) reopen(*rapid.T) {
	p.s = p.h.Reopen(p.outer)
	for _, l := range p.w.lines {
		l.lease, l.since = store.Lease{}, p.h.Now()
	}
}

func (p *play) sweep(t *rapid.T) {
	now, want := p.h.Now(), 0
	for key, c := range p.w.contents {
		if past(c.Until, now) {
			delete(p.w.contents, key)
			want++
		}
	}
	for key, c := range p.w.counters {
		if past(c.until, now) {
			delete(p.w.counters, key)
			want++
		}
	}
	waits := map[string]bool{}
	for _, l := range p.w.lines {
		for _, key := range l.keys {
			waits[key] = true
		}
	}
	for key, at := range p.w.claimed {
		if past(at.Add(store.ClaimLife), now) && !waits[key] {
			delete(p.w.claimed, key)
			want++
		}
	}
	if n, err := p.s.Sweep(p.ctx); err != nil || n != want {
		t.Fatalf("sweep: %d, %v, want %d", n, err, want)
	}
}

func (p *play) until(t *rapid.T) time.Time {
	if d := rapid.IntRange(0, 3).Draw(t, "until"); d > 0 {
		return p.h.Now().Add(time.Duration(d) * 20 * time.Second).UTC()
	}
	return time.Time{}
}

// batch draws one that may be right or wrong in each of its parts.
func (p *play) batch(t *rapid.T) (b store.Batch) {
	some := func(what string, most int, add func()) {
		for range rapid.IntRange(0, most).Draw(t, what) {
			add()
		}
	}
	if len(p.leases) > 0 && rapid.Bool().Draw(t, "leased") {
		l := p.lease(t)
		b.Lease, b.Release = &l, rapid.Bool().Draw(t, "release")
		keys := p.line(l.Thread).keys
		b.Ack = slices.Clone(keys[:rapid.IntRange(0, len(keys)).Draw(t, "acks")])
		if rapid.IntRange(0, 9).Draw(t, "wrong ack") == 0 {
			b.Ack = append(b.Ack, draw(t, "k", 40))
		}
	}
	some("puts", 3, func() {
		put := store.Put{Key: draw(t, "r", 3), Value: []byte(draw(t, "v", 5))}
		put.Version = p.w.records[put.Key].Version
		if rapid.IntRange(0, 9).Draw(t, "wrong version") == 0 {
			put.Version = rapid.Int64Range(0, 4).Draw(t, "version")
		}
		if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
			put.Value = nil
		}
		b.Puts = append(b.Puts, put)
	})
	some("events", 3, func() {
		b.Events = append(b.Events, store.Event{Stream: draw(t, "s", 4), At: p.h.Now(), Kind: draw(t, "kind", 2), Meta: []byte("{}")})
	})
	some("contents", 2, func() {
		b.Contents = append(b.Contents, store.Content{Key: draw(t, "c", 4), Value: []byte(draw(t, "v", 5)), Until: p.until(t)})
	})
	some("adds", 2, func() {
		b.Adds = append(b.Adds, store.Add{Key: draw(t, "n", 3), Delta: rapid.Int64Range(-5, 5).Draw(t, "delta"), Until: p.until(t)})
	})
	some("pushes", 2, func() { b.Push = append(b.Push, p.item(t)) })
	return b
}

func (p *play) commit(t *rapid.T) {
	b := p.batch(t)
	err := p.s.Commit(p.ctx, b)
	if b.Lease != nil && p.live(*b.Lease) == nil {
		p.w.stale++
		p.verdict(t, "commit", err, store.ErrStale)
		return
	}
	acked := map[string]bool{}
	badAck := false
	for _, key := range b.Ack {
		badAck = badAck || acked[key] || !slices.Contains(p.line(b.Lease.Thread).keys, key)
		acked[key] = true
	}
	records, conflict := maps.Clone(p.w.records), false
	for _, put := range b.Puts {
		conflict = conflict || records[put.Key].Version != put.Version
		if len(put.Value) == 0 {
			delete(records, put.Key)
		} else {
			records[put.Key] = store.Record{Value: put.Value, Version: put.Version + 1}
		}
	}
	switch {
	case badAck:
		if err == nil {
			t.Fatalf("acked %q", b.Ack)
		}
		return
	case conflict:
		p.verdict(t, "commit", err, store.ErrConflict)
		return
	}
	p.verdict(t, "commit", err, nil)
	p.w.records = records
	p.apply(b, acked)
}

// apply does to the world what follows once a batch cannot be refused any more.
func (p *play) apply(b store.Batch, acked map[string]bool) {
	now := p.h.Now()
	for _, e := range b.Events {
		e.Seq, e.At = int64(len(p.w.events[e.Stream])+1), e.At.UTC()
		if e.Seq == 1 {
			p.w.begun = append(p.w.begun, e.Stream)
		}
		p.w.events[e.Stream] = append(p.w.events[e.Stream], e)
	}
	for _, c := range b.Contents {
		p.w.contents[c.Key] = c
	}
	for _, a := range b.Adds {
		c := p.w.counters[a.Key]
		if past(c.until, now) {
			c.n = 0
		}
		p.w.counters[a.Key] = counter{c.n + a.Delta, a.Until}
	}
	if b.Lease != nil {
		l := p.line(b.Lease.Thread)
		l.keys = slices.DeleteFunc(l.keys, func(key string) bool { return acked[key] })
	}
	for _, it := range b.Push {
		p.accept(it)
	}
	if b.Release {
		l := p.line(b.Lease.Thread)
		l.lease, l.since = store.Lease{}, now
	}
}

// compare reads all there is.
func (p *play) compare(t *rapid.T) {
	now := p.h.Now()
	same := func(what string, got, want any, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("read %s: %v", what, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s (-want +got)\n%s", what, diff)
		}
	}
	for i := range 3 {
		key := fmt.Sprint("r", i+1)
		got, err := p.s.Get(p.ctx, key)
		same(key, got, p.w.records[key], err)
	}
	for stream, want := range p.w.events {
		got, err := p.s.Events(p.ctx, stream)
		same(stream, got, want, err)
	}
	for _, kind := range []string{"kind1", "kind2"} {
		var want []store.Event
		for _, stream := range slices.Backward(p.w.begun) {
			if e := p.w.events[stream][0]; e.Kind == kind {
				want = append(want, e)
			}
		}
		got, err := p.s.Streams(p.ctx, kind, 10)
		same(kind, got, want, err)
	}
	for key, c := range p.w.counters {
		if past(c.until, now) {
			c.n = 0
		}
		got, err := p.s.Count(p.ctx, key)
		same(key, got, c.n, err)
	}
	waiting := 0
	for thread, l := range p.w.lines {
		waiting += len(l.keys)
		n, err := p.s.Queued(p.ctx, thread)
		same("queued in "+thread, n, len(l.keys), err)
	}
	n, err := p.s.Waiting(p.ctx)
	same("waiting", n, waiting, err)
	stale, err := p.s.Stale(p.ctx)
	same("stale writes", stale, p.w.stale, err)
	p.compareLists(t)
	for _, l := range p.leases {
		items, err := p.s.Items(p.ctx, l)
		n := p.live(l)
		if n == nil {
			p.verdict(t, "items", err, store.ErrStale)
			continue
		}
		got := []string{}
		for _, it := range items {
			got = append(got, it.Key)
		}
		same(l.Thread, got, append([]string{}, n.keys...), err)
	}
}

// compareLists reads what is listed, by prefix or by age.
func (p *play) compareLists(t *rapid.T) {
	var records []store.Named
	for _, key := range slices.Sorted(maps.Keys(p.w.records)) {
		records = append(records, store.Named{Key: key, Record: p.w.records[key]})
	}
	got, err := p.s.Under(p.ctx, "r")
	if diff := cmp.Diff(records, got); diff != "" || err != nil {
		t.Fatalf("records: %v (-want +got)\n%s", err, diff)
	}
	now := p.h.Now()
	var kept []store.Content
	for _, key := range slices.Sorted(maps.Keys(p.w.contents)) {
		if c := p.w.contents[key]; !past(c.Until, now) {
			kept = append(kept, c)
		}
	}
	contents, err := p.s.ContentsUnder(p.ctx, "c")
	if diff := cmp.Diff(kept, contents); diff != "" || err != nil {
		t.Fatalf("contents: %v (-want +got)\n%s", err, diff)
	}
	var want []store.ThreadState
	oldest := map[string]int{}
	for name := range p.w.lines {
		l := p.line(name)
		if len(l.keys) == 0 {
			continue
		}
		s := store.ThreadState{Thread: name, Waiting: len(l.keys)}
		if l.lease.Epoch != 0 {
			s.Epoch, s.Leased = l.lease.Epoch, l.until.Sub(now)
		}
		want, oldest[name] = append(want, s), l.ages[l.keys[0]]
	}
	slices.SortFunc(want, func(a, b store.ThreadState) int { return oldest[a.Thread] - oldest[b.Thread] })
	states, err := p.s.Threads(p.ctx, 10)
	for i, s := range states {
		if s.Leased == 0 {
			states[i].Epoch = 0 // of a lease that is over
		}
	}
	if diff := cmp.Diff(want, states); diff != "" || err != nil {
		t.Fatalf("threads: %v (-want +got)\n%s", err, diff)
	}
}
