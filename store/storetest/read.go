package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"switchboard/store"
)

func isConflict(err error) bool { return errors.Is(err, store.ErrConflict) }
func isClosed(err error) bool   { return errors.Is(err, store.ErrClosed) }

func eventsGapless(d *desk) {
	const streams, writers, each = 5, 8, 6
	d.together(writers, func(w int) {
		for i := range each {
			var es []store.Event
			for s := range streams { // in an order of its own for each writer
				es = append(es, store.Event{Stream: name("s", (s+w)%streams), Kind: "x", Meta: fmt.Appendf(nil, "[%d,%d]", w, i)})
			}
			if err := d.s.Commit(d.ctx, store.Batch{Events: append(es, es[0])}); err != nil {
				d.Error(err)
			}
		}
	})
	d.reopen()
	total := 0
	for s := range streams {
		d.commit(store.Batch{Events: []store.Event{{Stream: name("s", s), Kind: "last"}}}, nil)
		es := d.events(name("s", s))
		last := map[string]string{}
		for i, e := range es {
			d.same(e.Seq, int64(i+1))
			writer, step, _ := strings.Cut(string(e.Meta), ",")
			if last[writer] > step {
				d.Fatalf("stream %d: %s after %s of writer %s", s, step, last[writer], writer)
			}
			last[writer] = step
		}
		d.same(es[len(es)-1].Kind, "last")
		total += len(es)
	}
	d.same(total, writers*each*(streams+1)+streams)
}

func eventValues(d *desk) {
	at := d.h.Now().Add(-time.Hour).Add(123456789).UTC()
	d.commit(store.Batch{Events: []store.Event{
		{Stream: "s", At: at, Kind: "a", Meta: []byte(`{"x":"ü"}`), Seq: 99},
		{Stream: "s", Kind: "b"},
	}}, nil)
	now := d.h.Now()
	es := d.events("s")
	d.same(len(es), 2)
	d.same(es[0], store.Event{Stream: "s", Seq: 1, At: at, Kind: "a", Meta: []byte(`{"x":"ü"}`)})
	d.same(es[1].Seq, int64(2))
	if es[1].At.Before(at) || es[1].At.After(now) {
		d.Fatalf("the store's own time is %s, the clock shows %s", es[1].At, now)
	}
	d.same(len(d.events("nowhere")), 0)
}

func streams(d *desk) {
	for i := range 6 {
		kind := []string{"run", "turn"}[i%2]
		d.commit(store.Batch{Events: []store.Event{{Stream: name("s", i), At: d.h.Now(), Kind: kind, Meta: fmt.Append(nil, i)}}}, nil)
		d.h.Advance(time.Second)
	}
	d.commit(store.Batch{Events: []store.Event{{Stream: "s000", Kind: "turn"}, {Stream: "s001", Kind: "run"}}}, nil)
	list := func(kind string, limit int) (names []string) {
		d.Helper()
		es, err := d.s.Streams(d.ctx, kind, limit)
		d.want(err, nil)
		for _, e := range es {
			d.same(e, d.events(e.Stream)[0])
			names = append(names, e.Stream)
		}
		return names
	}
	look := func() {
		d.Helper()
		d.same(list("run", 10), []string{"s004", "s002", "s000"})
		d.same(list("run", 2), []string{"s004", "s002"})
		d.same(list("turn", 1), []string{"s005"})
		d.same(list("run", 0), []string(nil))
		d.same(list("nothing", 10), []string(nil))
	}
	look()
	d.reopen()
	look()
	d.commit(store.Batch{Events: []store.Event{{Stream: "new", Kind: "run"}}}, nil)
	d.same(list("run", 2), []string{"new", "s004"})
}

func contentsPrefix(d *desk) {
	for _, key := range []string{"b/1", "a/2", "a/10", "a/1", "a", "a0", "a/", "ä/1", "A/1", "a%", "a_"} {
		d.commit(store.Batch{Contents: []store.Content{{Key: key, Value: []byte("v" + key)}}}, nil)
	}
	list := func(prefix string) (keys []string) {
		d.Helper()
		cs, err := d.s.ContentsUnder(d.ctx, prefix)
		d.want(err, nil)
		for _, c := range cs {
			d.same(c, store.Content{Key: c.Key, Value: []byte("v" + c.Key)})
			keys = append(keys, c.Key)
		}
		return keys
	}
	d.same(list("a/"), []string{"a/", "a/1", "a/10", "a/2"})
	d.same(list("a%"), []string{"a%"})
	d.same(list("ä"), []string{"ä/1"})
	d.same(list("zz"), []string(nil))
	d.same(list("\xff"), []string(nil))
	d.same(list(""), []string{"A/1", "a", "a%", "a/", "a/1", "a/10", "a/2", "a0", "a_", "b/1", "ä/1"})

	d.commit(store.Batch{Contents: []store.Content{{Key: "a/1", Value: []byte("new")}, {Key: "empty"}}}, nil)
	d.same(string(d.content("a/1")), "new")
	d.same(d.content("empty"), []byte{})
	d.same(d.content("nowhere"), []byte(nil))
	large := []byte(strings.Repeat("0123456789abcdef", 1<<16)) // 1 MiB
	d.commit(store.Batch{Contents: []store.Content{{Key: "large", Value: large}}}, nil)
	d.reopen()
	d.same(string(d.content("large")) == string(large), true)
}

func recordsPrefix(d *desk) {
	keys := []string{"b/1", "a/2", "a/10", "a/1", "a", "a0", "a/", "ä/1", "A/1", "a%", "a_", "z\xff", "z\xff\xff1"}
	for _, key := range keys {
		d.commit(store.Batch{Puts: []store.Put{{Key: key, Value: []byte("v" + key)}}}, nil)
	}
	list := func(prefix string, want ...string) {
		d.Helper()
		rs, err := d.s.Under(d.ctx, prefix)
		d.want(err, nil)
		var got []string
		for _, r := range rs {
			d.same(r.Record, d.record(r.Key))
			got = append(got, r.Key)
		}
		d.same(got, want)
	}
	look := func() {
		d.Helper()
		list("a/", "a/", "a/1", "a/10", "a/2")
		list("a%", "a%")
		list("ä", "ä/1")
		list("zz")
		list("z\xff", "z\xff", "z\xff\xff1")
		list("\xff")
		list("", "A/1", "a", "a%", "a/", "a/1", "a/10", "a/2", "a0", "a_", "b/1", "z\xff", "z\xff\xff1", "ä/1")
	}
	look()
	d.reopen()
	look()
	d.commit(store.Batch{Puts: []store.Put{
		{Key: "a/1", Value: []byte("new"), Version: 1}, {Key: "a/10", Version: 1}, {Key: "a/3", Value: []byte("3")},
	}}, nil)
	list("a/", "a/", "a/1", "a/2", "a/3")
	rs, err := d.s.Under(d.ctx, "a/1")
	d.want(err, nil)
	d.same(rs, []store.Named{{Key: "a/1", Record: store.Record{Value: []byte("new"), Version: 2}}})
}

func contentsUntil(d *desk) {
	until := d.h.Now().Add(time.Minute).UTC()
	d.commit(store.Batch{Contents: []store.Content{
		{Key: "c/short", Value: []byte("s"), Until: until},
		{Key: "c/long", Value: []byte("l"), Until: until.Add(time.Hour)},
		{Key: "c/ever", Value: []byte("e")},
		{Key: "c/extended", Value: []byte("x"), Until: until},
	}}, nil)
	d.commit(store.Batch{Contents: []store.Content{{Key: "c/extended", Value: []byte("x2"), Until: until.Add(time.Hour)}}}, nil)
	d.h.Advance(time.Minute - time.Second)
	d.sweep(0)
	cs, err := d.s.ContentsUnder(d.ctx, "c/")
	d.want(err, nil)
	d.same(cs, []store.Content{
		{Key: "c/ever", Value: []byte("e")},
		{Key: "c/extended", Value: []byte("x2"), Until: until.Add(time.Hour)},
		{Key: "c/long", Value: []byte("l"), Until: until.Add(time.Hour)},
		{Key: "c/short", Value: []byte("s"), Until: until},
	})
	d.h.Advance(time.Second)
	d.same(d.content("c/short"), []byte(nil)) // before any Sweep
	d.same(string(d.content("c/extended")), "x2")
	cs, err = d.s.ContentsUnder(d.ctx, "c/")
	d.want(err, nil)
	d.same(len(cs), 3)
	d.sweep(1)
	d.sweep(0)
	d.h.Advance(time.Hour)
	d.sweep(2)
	d.same(string(d.content("c/ever")), "e")

	// More than a store would delete in one step.
	var many []store.Content
	for i := range 1203 {
		many = append(many, store.Content{Key: name("m", i), Value: []byte("m"), Until: d.h.Now().Add(time.Second)})
	}
	d.commit(store.Batch{Contents: many}, nil)
	d.h.Advance(time.Second)
	d.sweep(len(many))
}

func counters(d *desk) {
	until := d.h.Now().Add(time.Minute)
	add := func(key string, delta int64, until time.Time) {
		d.Helper()
		d.commit(store.Batch{Adds: []store.Add{{Key: key, Delta: delta, Until: until}}}, nil)
	}
	add("n", 5, until)
	add("n", -2, until)
	add("ever", 1<<40, time.Time{})
	d.commit(store.Batch{Adds: []store.Add{{Key: "n", Delta: 1, Until: until}, {Key: "n", Delta: 1, Until: until}}}, nil)
	d.together(20, func(int) {
		if err := d.s.Commit(d.ctx, store.Batch{Adds: []store.Add{{Key: "n", Delta: 2, Until: until}}}); err != nil {
			d.Error(err)
		}
	})
	d.reopen()
	d.same(d.count("n"), int64(45))
	d.same(d.count("ever"), int64(1<<40))
	d.same(d.count("nowhere"), int64(0))
	d.h.Advance(time.Minute)
	d.same(d.count("n"), int64(0)) // before any Sweep
	add("n", 7, d.h.Now().Add(time.Minute))
	d.same(d.count("n"), int64(7))
	d.sweep(0)
	d.h.Advance(time.Minute)
	d.sweep(1)
	d.same(d.count("n"), int64(0))
	d.same(d.count("ever"), int64(1<<40))
}
