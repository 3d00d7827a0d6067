package redis_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"switchboard/store"
	"switchboard/store/redis"
	"switchboard/store/redistest"
)

// cpu is what this process has used so far; the server's share is its own.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure runs work b.N times over the callers, for both ways to sync the disk that a bot should use.
func measure(b *testing.B, work func(s *redis.Store, caller, i int) error) {
	b.Helper()
	for _, fsync := range []string{"everysec", "always"} {
		for name, callers := range map[string]int{"alone": 1, "callers=32": 32} {
			b.Run(fsync+"/"+name, func(b *testing.B) {
				server := redistest.Start(b, "--appendfsync", fsync)
				s, err := redis.Open(b.Context(), server.URL(), redis.Options{Name: "bench"})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				b.ResetTimer()
				before := cpu(b)
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
				b.ReportMetric(float64(cpu(b)-before)/float64(time.Microsecond)/float64(b.N), "cpu-us/op")
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// BenchmarkCommit writes what a round of a run writes, six to a run: the run's record, an event with its words, a figure.
func BenchmarkCommit(b *testing.B) {
	measure(b, func(s *redis.Store, caller, i int) error {
		run := fmt.Sprintf("r_%08x", uint32(i/6*100+caller)*2654435761) //nolint:gosec // ids of runs are spread like this
		until := time.Now().Add(30 * 24 * time.Hour)
		return s.Commit(context.Background(), store.Batch{
			Puts:     []store.Put{{Key: "run/" + run, Value: []byte(strings.Repeat("s", 600)), Version: int64(i % 6)}},
			Events:   []store.Event{{Stream: run, At: time.Now(), Kind: "call", Meta: []byte(strings.Repeat("m", 200))}},
			Contents: []store.Content{{Key: fmt.Sprintf("%s/%d", run, i%6), Value: []byte(strings.Repeat("c", 900)), Until: until}},
			Adds:     []store.Add{{Key: "usd/U0ANA/2026-05-04", Delta: 1, Until: until}},
		})
	})
}

// BenchmarkPushClaim takes a message through the queue: Push, Claim, Items, and one Commit that acks and releases.
func BenchmarkPushClaim(b *testing.B) {
	body := []byte(strings.Repeat("b", 400))
	measure(b, func(s *redis.Store, caller, i int) error {
		ctx := context.Background()
		name := fmt.Sprintf("T1:C%d:%d", caller, i)
		if _, err := s.Push(ctx, store.Item{Key: "msg:" + name, Thread: name, Body: body}); err != nil {
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
}
