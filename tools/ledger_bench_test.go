package tools_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"switchboard/chat"
	"switchboard/config"
	"switchboard/guards"
	"switchboard/journal"
	"switchboard/store"
	"switchboard/store/redis"
	"switchboard/store/redistest"
	"switchboard/store/sqlite"
	"switchboard/tools"
)

// counting counts commits and what they take.
type counting struct {
	store.Committer
	n, took atomic.Int64
}

func (c *counting) Commit(ctx context.Context, b store.Batch) error {
	began := time.Now()
	defer func() {
		c.n.Add(1)
		c.took.Add(int64(time.Since(began)))
	}()
	return c.Committer.Commit(ctx, b)
}

// at is a tool that takes no time.
type at struct{ calls atomic.Int64 }

func (a *at) Run(context.Context, tools.Input) (tools.Output, error) {
	a.calls.Add(1)
	return tools.Output{Value: map[string]any{"ok": true}}, nil
}

// One effect through the door, on each store: its intent and its place in the ledger are one commit, its outcome is the
// other. The tool takes no time, so what is left is what being sure costs.
func BenchmarkEffect(b *testing.B) {
	stores := []struct {
		name string
		open func(b *testing.B) store.Store
	}{
		{"sqlite", func(b *testing.B) store.Store {
			b.Helper()
			s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "bot.db"), sqlite.Options{})
			return opened(b, s, err)
		}},
		{"redis-everysec", func(b *testing.B) store.Store { b.Helper(); return redisStore(b, "everysec") }},
		{"redis-always", func(b *testing.B) store.Store { b.Helper(); return redisStore(b, "always") }},
	}
	for _, s := range stores {
		b.Run(s.name, func(b *testing.B) { benchEffect(b, s.open(b)) })
	}
}

func redisStore(b *testing.B, fsync string) store.Store {
	b.Helper()
	s, err := redis.Open(b.Context(), redistest.Start(b, "--appendfsync", fsync).URL(), redis.Options{Name: "bench"})
	return opened(b, s, err)
}

func opened(b *testing.B, s store.Store, err error) store.Store {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

func benchEffect(b *testing.B, st store.Store) {
	b.Helper()
	pack, err := config.Load(files(packFiles), config.Options{})
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	if _, err := st.Push(ctx, store.Item{Key: "k", Thread: "a", Body: []byte("x")}); err != nil {
		b.Fatal(err)
	}
	lease, err := st.Claim(ctx, time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	c, work := &counting{Committer: st}, &at{}
	d := tools.NewDispatcher(tools.Options{
		Tools: map[string]tools.Bound{"rows.keyed": {Contract: pack.Tool("rows.keyed"), Do: work}}, Read: pack.Tool(tools.ResultRead), Results: st,
		Rates: &tools.Rates{}, Now: time.Now, Log: zerolog.Nop(), Asked: guards.Asked{Actor: chat.Person{ID: "U0ANA", Kind: chat.Member}, Scope: map[string]string{"org": "org_7"}},
		Policy: guards.Policy{{Rules: pack.Policy}},
		Record: journal.NewRecorder(journal.RecorderOptions{Store: c, Lease: lease, Turn: "t_a", Now: time.Now, Retention: time.Hour}),
	})
	seq := 0
	for b.Loop() {
		if _, err := d.Call(ctx, tools.At{Seq: seq}, call("rows.keyed", good(seq))); err != nil {
			b.Fatal(err)
		}
		seq++
	}
	if int(work.calls.Load()) != seq {
		b.Fatalf("%d effects ran of %d", work.calls.Load(), seq)
	}
	b.ReportMetric(float64(c.n.Load())/float64(b.N), "commits/op")
	b.ReportMetric(float64(c.took.Load())/float64(c.n.Load())/1e6, "ms/commit")
}
