package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchboard/store"
	"switchboard/store/sqlite"
	"switchboard/store/storetest"
)

// openWith opens a store with its own clock and closes it at the end of the test.
func openWith(t *testing.T, o sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "bot.db"), o)
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

// claim claims with a bound on real time.
func claim(t *testing.T, s *sqlite.Store, patience time.Duration) (store.Lease, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return s.Claim(ctx, time.Minute)
}

// A lease that expires while its batch is being written: the next worker starts after that batch, never beside it.
func TestD2_NobodyClaimsDuringACommit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		durable, release bool
		want             []string
	}{
		"written":              {true, false, []string{"k2"}},
		"written and released": {true, true, []string{"k2"}},
		"failed":               {false, false, []string{"k1", "k2"}},
		"failed release":       {false, true, []string{"k1", "k2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := storetest.NewClock(start())
			s := openWith(t, sqlite.Options{Now: clock.Now, AfterFunc: clock.AfterFunc})
			for _, key := range []string{"k1", "k2"} {
				if _, err := s.Push(t.Context(), store.Item{Key: key, Thread: "t"}); err != nil {
					t.Fatal(err)
				}
			}
			l, err := claim(t, s, 20*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			done, err := s.Hold(store.Batch{Lease: &l, Ack: []string{"k1"}, Release: c.release})
			if err != nil {
				t.Fatal(err)
			}
			clock.Advance(time.Minute)
			if l, err := claim(t, s, 50*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("claimed %+v, %v while a batch of the thread is being written", l, err)
			}
			if _, err := s.Hold(store.Batch{Lease: &l}); !errors.Is(err, store.ErrStale) {
				t.Fatalf("a second batch after the expiry: %v", err)
			}
			done(c.durable)
			if l, err = claim(t, s, 20*time.Second); err != nil {
				t.Fatal(err)
			}
			items, err := s.Items(t.Context(), l)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, it := range items {
				got = append(got, it.Key)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// The fence does not rest on the timer: an expired lease is refused even if the timer is late.
func TestD2_ExpiryDoesNotNeedTheTimer(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock(start())
	never := func(time.Duration, func()) func() bool { return func() bool { return true } }
	s := openWith(t, sqlite.Options{Now: clock.Now, AfterFunc: never})
	if _, err := s.Push(t.Context(), store.Item{Key: "k", Thread: "t"}); err != nil {
		t.Fatal(err)
	}
	l, err := claim(t, s, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Minute)
	if err := s.Commit(t.Context(), store.Batch{Lease: &l, Ack: []string{"k"}}); !errors.Is(err, store.ErrStale) {
		t.Errorf("commit with an expired lease: %v", err)
	}
	if err := s.Renew(t.Context(), l, time.Minute); !errors.Is(err, store.ErrStale) {
		t.Errorf("renew of an expired lease: %v", err)
	}
	if again, err := claim(t, s, 20*time.Second); err != nil || again.Epoch <= l.Epoch {
		t.Errorf("claim after the expiry: %+v, %v", again, err)
	}
}

// Leases expire one after the other; each wakes a waiting worker.
func TestEachExpiryWakesAWorker(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock(start())
	s := openWith(t, sqlite.Options{Now: clock.Now, AfterFunc: clock.AfterFunc})
	for _, thread := range []string{"a", "b", "c"} {
		if _, err := s.Push(t.Context(), store.Item{Key: thread, Thread: thread}); err != nil {
			t.Fatal(err)
		}
		if l, err := claim(t, s, 20*time.Second); err != nil || l.Thread != thread {
			t.Fatalf("claim: %+v, %v", l, err)
		}
		clock.Advance(time.Second)
	}
	got := make(chan store.Lease)
	clock.Advance(time.Minute - 4*time.Second) // one second before the first expires
	for _, thread := range []string{"a", "b", "c"} {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			l, err := s.Claim(ctx, time.Hour)
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		clock.Advance(time.Second)
		if l := <-got; l.Thread != thread {
			t.Fatalf("woke with %+v, want thread %s", l, thread)
		}
	}
}

// A timer that fires before the store's clock says so, as after a step back of the clock, is set again.
func TestAnEarlyTimerIsSetAgain(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock(start())
	var timers []func()
	s := openWith(t, sqlite.Options{Now: clock.Now, AfterFunc: func(_ time.Duration, f func()) func() bool {
		timers = append(timers, f)
		return func() bool { return true }
	}})
	if _, err := s.Push(t.Context(), store.Item{Key: "k", Thread: "t"}); err != nil {
		t.Fatal(err)
	}
	if _, err := claim(t, s, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	timers[0]()
	if len(timers) != 2 {
		t.Fatalf("%d timers were set", len(timers))
	}
	clock.Advance(time.Minute)
	timers[1]()
	if l, err := claim(t, s, 20*time.Second); err != nil || l.Thread != "t" {
		t.Fatalf("claim after the second timer: %+v, %v", l, err)
	}
}

// A caller whose context ends knows all the same what became of its batch.
func TestEndedContextDuringACommit(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock(start())
	var hook atomic.Pointer[func()]
	s := openWith(t, sqlite.Options{AfterFunc: clock.AfterFunc, Now: func() time.Time {
		if f := hook.Swap(nil); f != nil { // the writer asks for the time in the middle of a batch with a counter
			(*f)()
		}
		return clock.Now()
	}})
	first, cancelFirst := context.WithCancel(t.Context())
	second, cancelSecond := context.WithCancel(t.Context())
	defer cancelSecond()
	answers := make(chan error)
	inside := func() {
		cancelFirst() // the first batch is being written
		go func() { answers <- s.Commit(second, large("second", 1)) }()
		for s.InLine() == 0 {
			runtime.Gosched()
		}
		cancelSecond() // the second waits in the line
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("the batch in the line: %v", err)
		}
	}
	hook.Store(&inside)
	if err := s.Commit(first, large("first", 1)); err != nil {
		t.Errorf("the batch that was being written: %v", err)
	}
	if err := s.Commit(t.Context(), large("third", 1)); err != nil { // whatever stood in the line before it is done then
		t.Fatal(err)
	}
	if !written(t, s, "first") || written(t, s, "second") {
		t.Error("what was written is not what the callers were told")
	}
}

func TestD1_SettingsThatPowerLossNeeds(t *testing.T) {
	t.Parallel()
	s := openWith(t, sqlite.Options{})
	for query, want := range map[string]int64{
		"PRAGMA synchronous": 2, // FULL: the commit waits for the disk
		"SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'wal'": 1,
	} {
		if n, err := s.Number(query); err != nil || n != want {
			t.Errorf("%s: %d, %v, want %d", query, n, err, want)
		}
	}
}
