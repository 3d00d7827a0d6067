package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"switchboard/store"
	"switchboard/store/sqlite"
)

// cpu is what this process has used so far.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure runs work b.N times over the callers and reports what a batch cost.
func measure(b *testing.B, callers int, work func(s *sqlite.Store, caller, i int) error) {
	b.Helper()
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "bot.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	before, commits, batches := cpu(b), s.Commits(), s.Batches()
	var next atomic.Int64
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := 0; next.Add(1) <= int64(b.N); i++ {
				if err := work(s, caller, i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	n := float64(s.Batches() - batches)
	b.ReportMetric(float64(cpu(b)-before)/float64(time.Microsecond)/n, "cpu-us/batch")
	b.ReportMetric(float64(s.Commits()-commits)/n, "commits/batch")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// step is a batch as a round of a run writes it, six to a run: the run's record, an event with its words, a figure.
func step(caller, i int) store.Batch {
	run := fmt.Sprintf("r_%08x", uint32(i/6*100+caller)*2654435761) //nolint:gosec // ids of runs are spread like this
	until := time.Now().Add(30 * 24 * time.Hour)
	return store.Batch{
		Puts:     []store.Put{{Key: "run/" + run, Value: []byte(strings.Repeat("s", 600)), Version: int64(i % 6)}},
		Events:   []store.Event{{Stream: run, At: time.Now(), Kind: "call", Meta: []byte(strings.Repeat("m", 200))}},
		Contents: []store.Content{{Key: fmt.Sprintf("%s/%d", run, i%6), Value: []byte(strings.Repeat("c", 900)), Until: until}},
		Adds:     []store.Add{{Key: "usd/U0ANA/2026-05-04", Delta: 1, Until: until}},
	}
}

func BenchmarkCommit(b *testing.B) {
	for name, callers := range map[string]int{"alone": 1, "callers=32": 32} {
		b.Run(name, func(b *testing.B) {
			measure(b, callers, func(s *sqlite.Store, caller, i int) error {
				return s.Commit(context.Background(), step(caller, i))
			})
		})
	}
}

func BenchmarkPushClaim(b *testing.B) {
	for name, callers := range map[string]int{"alone": 1, "callers=32": 32} {
		b.Run(name, func(b *testing.B) {
			ctx, body := b.Context(), []byte(strings.Repeat("b", 400))
			measure(b, callers, func(s *sqlite.Store, caller, i int) error {
				name := fmt.Sprintf("T1:C%d:%d", caller, i)
				it := store.Item{Key: "msg:" + name, Thread: name, Body: body}
				if _, err := s.Push(ctx, it); err != nil {
					return err
				}
				l, err := s.Claim(ctx, time.Minute)
				if err != nil {
					return err
				}
				items, err := s.Items(ctx, l)
				if err != nil {
					return err
				}
				return s.Commit(ctx, store.Batch{Lease: &l, Ack: []string{items[0].Key}, Release: true})
			})
		})
	}
}
