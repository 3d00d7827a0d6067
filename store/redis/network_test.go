package redis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"switchboard/store"
	"switchboard/store/redis"
	"switchboard/store/redistest"
)

// open opens a store and closes it at the end of the test.
func open(t *testing.T, url string, o redis.Options) *redis.Store {
	t.Helper()
	if o.Name == "" {
		o.Name = "test"
	}
	s, err := redis.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func push(t *testing.T, s *redis.Store, thread, key string) {
	t.Helper()
	if fresh, err := s.Push(t.Context(), store.Item{Key: key, Thread: thread, Body: []byte(key)}); err != nil || !fresh {
		t.Fatalf("push %q: %v, %v", key, fresh, err)
	}
}

func claim(t *testing.T, s *redis.Store, ttl time.Duration) store.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	l, err := s.Claim(ctx, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Each write, with its answer lost once and three times over, has the effect and the answer that it has without.
func TestRel_R08_R09_LostRepliesChangeNothing(t *testing.T) {
	t.Parallel()
	p := redistest.Through(t, redistest.Start(t).Addr())
	for _, drops := range []int{1, 3} {
		s := open(t, p.URL(), redis.Options{Name: fmt.Sprint("drops-", drops)})
		ctx := t.Context()
		lose := func() {
			t.Helper()
			p.Drop(drops)
		}
		lost := func(before int) {
			t.Helper()
			if p.Lost() < before+drops {
				t.Errorf("only %d answers were lost", p.Lost()-before)
			}
		}
		before := p.Lost()
		lose()
		push(t, s, "t", "k1") // fails if it is told that the key was known
		lost(before)
		if n, err := s.Queued(ctx, "t"); err != nil || n != 1 {
			t.Fatalf("queued: %d, %v", n, err)
		}

		before = p.Lost()
		lose()
		l := claim(t, s, time.Minute) // the holder knows that it holds
		lost(before)
		before = p.Lost()
		lose()
		if err := s.Renew(ctx, l, time.Minute); err != nil {
			t.Fatal(err)
		}
		lost(before)

		before = p.Lost()
		lose()
		b := store.Batch{
			Lease: &l, Ack: []string{"k1"}, Push: []store.Item{{Key: "k2", Thread: "t"}},
			Puts:     []store.Put{{Key: "r", Value: []byte("v")}},
			Adds:     []store.Add{{Key: "n", Delta: 1}},
			Events:   []store.Event{{Stream: "s", Kind: "x"}},
			Contents: []store.Content{{Key: "c", Value: []byte("w"), Until: time.Now().Add(-time.Hour)}},
		}
		if err := s.Commit(ctx, b); err != nil {
			t.Fatal(err)
		}
		lost(before)
		rec, err1 := s.Get(ctx, "r")
		n, err2 := s.Count(ctx, "n")
		es, err3 := s.Events(ctx, "s")
		if err := errors.Join(err1, err2, err3); err != nil || rec.Version != 1 || n != 1 || len(es) != 1 {
			t.Fatalf("after one commit: %+v, %d, %v, %v", rec, n, es, err)
		}

		before = p.Lost()
		lose()
		if swept, err := s.Sweep(ctx); err != nil || swept != 1 {
			t.Fatalf("swept %d, %v", swept, err)
		}
		lost(before)
		before = p.Lost()
		lose()
		if err := s.Release(ctx, l); err != nil {
			t.Fatal(err)
		}
		lost(before)
		before = p.Lost()
		lose()
		if err := s.Commit(ctx, b); !errors.Is(err, store.ErrStale) {
			t.Fatalf("commit with a lease that was given back: %v", err)
		}
		lost(before)
		if n, err := s.Stale(ctx); err != nil || n != 1 {
			t.Fatalf("%d stale writes, %v", n, err)
		}
	}
}

func TestRel_R10_WaitingClaimsHoldNoConnections(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.URL(), redis.Options{Connections: 4})
	ctx, cancel := context.WithCancel(t.Context())
	var claims sync.WaitGroup
	for range 512 {
		claims.Go(func() {
			if _, err := s.Claim(ctx, time.Minute); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	var took []time.Duration
	for i := range 31 {
		began := time.Now()
		err := s.Commit(t.Context(), store.Batch{Puts: []store.Put{{Key: fmt.Sprint(i), Value: []byte("v")}}})
		if _, e := s.Get(t.Context(), "0"); e != nil || err != nil {
			t.Fatal(err, e)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	if middle := took[len(took)/2]; middle > 100*time.Millisecond {
		t.Errorf("a write and a read took %s beside 512 waiting Claims", middle)
	}
	cancel()
	claims.Wait()
	clients, err := server.Client(t).Do(t.Context(), "CLIENT", "LIST").Text()
	if ours := strings.Count(clients, "name=switchboard"); err != nil || ours < 3 || ours > 4+4+1 {
		t.Errorf("%d connections, %v", ours, err)
	}
}

// A process that is told to stop ends its waiting Claims at once, whether the server answers or not.
func TestRel_R11_StopDoesNotWaitForTheServer(t *testing.T) {
	t.Parallel()
	for name, paused := range map[string]bool{"healthy": false, "paused": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s := open(t, server.URL(), redis.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { _, err := s.Claim(ctx, time.Minute); first <- err }()
			go func() { _, err := s.Claim(t.Context(), time.Minute); second <- err }()
			push(t, s, "t", "k") // one of them has it, or the next poll would
			select {
			case err := <-first:
				if err != nil {
					t.Error(err)
				}
				go func() { _, err := s.Claim(ctx, time.Minute); first <- err }()
			case err := <-second:
				if err != nil {
					t.Error(err)
				}
				go func() { _, err := s.Claim(t.Context(), time.Minute); second <- err }()
			}
			if paused {
				server.Pause()
				defer server.Resume()
			}
			began := time.Now()
			cancel()
			if err := <-first; !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled Claim: %v", err)
			}
			if took := time.Since(began); took > 500*time.Millisecond {
				t.Errorf("a cancelled Claim took %s", took)
			}
			began = time.Now()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 2*time.Second { // a second, and room for a busy machine
				t.Errorf("Close took %s", took)
			}
			if err := <-second; !errors.Is(err, store.ErrClosed) {
				t.Errorf("Claim at Close: %v", err)
			}
		})
	}
}

// After each fault of the network the same store goes on within five seconds.
func TestRel_R12_BadNetworks(t *testing.T) {
	t.Parallel()
	p := redistest.Through(t, redistest.Start(t).Addr())
	s := open(t, p.URL(), redis.Options{})
	for i, fault := range []struct {
		name    string
		on, off func()
	}{
		{"slow", func() { p.Slow(30 * time.Millisecond) }, func() { p.Slow(0) }},
		{"sliced", func() { p.Slice(true) }, func() { p.Slice(false) }},
		{"reset", p.Reset, func() {}},
		{"half-open", p.Freeze, func() {}},
	} {
		fault.on()
		got := make(chan store.Lease, 1)
		began := time.Now()
		var waits sync.WaitGroup
		waits.Go(func() {
			l, err := s.Claim(t.Context(), time.Minute)
			if err != nil {
				t.Error(err)
			}
			got <- l
		})
		push(t, s, fault.name, fmt.Sprint("k", i))
		l := <-got
		if err := s.Commit(t.Context(), store.Batch{Lease: &l, Ack: []string{fmt.Sprint("k", i)}, Release: true}); err != nil {
			t.Fatalf("%s: %v", fault.name, err)
		}
		if _, err := s.Get(t.Context(), "r"); err != nil {
			t.Fatalf("%s: %v", fault.name, err)
		}
		if took := time.Since(began); took > 8*time.Second { // two connections may fall silent one after the other
			t.Errorf("%s: took %s", fault.name, took)
		}
		waits.Wait()
		fault.off()
	}
}

// Wake-ups cross processes, and a lease that expires wakes as well; neither waits for the next poll.
func TestWakeUpsCrossProcesses(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	a, b := open(t, url, redis.Options{}), open(t, url, redis.Options{})
	var took []time.Duration
	for i := range 9 {
		got := make(chan store.Lease, 1)
		var waits sync.WaitGroup
		waits.Go(func() { got <- claim(t, a, time.Minute) })
		select {
		case <-got:
			t.Fatal("claimed what is not there")
		case <-time.After(20 * time.Millisecond):
		}
		began := time.Now()
		push(t, b, fmt.Sprint("t", i), fmt.Sprint("k", i))
		l := <-got
		took = append(took, time.Since(began))
		waits.Wait()
		if err := a.Commit(t.Context(), store.Batch{Lease: &l, Ack: []string{fmt.Sprint("k", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(took)
	if took[4] > 400*time.Millisecond {
		t.Errorf("a Claim in another process took %s after the push", took[4])
	}
	push(t, b, "short", "short")
	old := claim(t, a, 300*time.Millisecond)
	began := time.Now()
	l := claim(t, b, time.Minute)
	if took := time.Since(began); l.Thread != "short" || l.Epoch <= old.Epoch || took < 100*time.Millisecond || took > 5*time.Second {
		t.Errorf("claimed %+v after %+v in %s", l, old, took)
	}
	if err := a.Commit(t.Context(), store.Batch{Lease: &old, Ack: []string{"short"}}); !errors.Is(err, store.ErrStale) {
		t.Errorf("commit with an expired lease: %v", err)
	}
}
