package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"switchboard/store"
	"switchboard/store/redis"
	"switchboard/store/redistest"
)

// The server dies under writers. What they were told is written is there, with appendfsync always. With everysec Redis answers
// before it writes while its disk is busy, up to two seconds long: then the last of what was acknowledged may be gone.
func TestRel_R04_KilledServerLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.URL(), redis.Options{})
	var mu sync.Mutex
	acked := map[string]bool{}
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key := fmt.Sprintf("%d-%d", w, i)
				_, err := s.Push(ctx, store.Item{Key: key, Thread: strconv.Itoa(w)})
				if err == nil {
					mu.Lock()
					acked[key] = true
					mu.Unlock()
				} else if ctx.Err() == nil {
					t.Errorf("push %s: %v", key, err)
				}
			}
		})
	}
	more := func(n int) { // waits until so many more are acknowledged
		mu.Lock()
		target := len(acked) + n
		mu.Unlock()
		for have := 0; have < target && !t.Failed(); {
			<-time.After(5 * time.Millisecond)
			mu.Lock()
			have = len(acked)
			mu.Unlock()
		}
	}
	for range kills {
		more(300)
		server.Restart() // kill -9 first
	}
	more(100)
	cancel()
	writers.Wait()
	have := map[string]bool{}
	for w := range 8 {
		keys, err := server.Client(t).ZRange(t.Context(), "{bot:test}:thread:"+strconv.Itoa(w), 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		for i, key := range keys {
			have[key] = true
			if key != fmt.Sprintf("%d-%d", w, i) {
				t.Fatalf("item %d of thread %d is %q", i, w, key)
			}
		}
	}
	for key := range acked {
		if !have[key] {
			t.Errorf("push %s was acknowledged and is lost", key)
		}
	}
	t.Logf("%d acknowledged over %d kills", len(acked), kills)
}

// Each message is accepted once, a second, five minutes, an hour, a day later and up to the last moment of seven days.
func TestRel_R17_TheSameKeyLater(t *testing.T) {
	t.Parallel()
	h := bots(redistest.Start(t).URL())(t)
	s := h.Store()
	at := time.Duration(0)
	for _, later := range []time.Duration{0, time.Second, 5 * time.Minute, time.Hour, 24 * time.Hour, store.ClaimLife - time.Second} {
		h.Advance(later - at)
		at = later
		fresh, err := s.Push(t.Context(), store.Item{Key: "k", Thread: "t"})
		if err != nil || fresh != (later == 0) {
			t.Fatalf("after %s: %v, %v", later, fresh, err)
		}
		if later == 0 {
			l, err := s.Claim(t.Context(), time.Minute)
			if err == nil {
				err = s.Commit(t.Context(), store.Batch{Lease: &l, Ack: []string{"k"}, Release: true})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if n, err := s.Sweep(t.Context()); err != nil || n != 0 {
			t.Fatalf("after %s: swept %d, %v", later, n, err)
		}
	}
}

// The server is away: writes fail in their time and say why, Claims wait, and all goes on when it is back.
func TestRel_R22_ServerAwayAndBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.URL(), redis.Options{Patience: 300 * time.Millisecond})
	push(t, s, "t", "before")
	l := claim(t, s, time.Minute)
	server.Kill()
	began := time.Now()
	if _, err := s.Push(t.Context(), store.Item{Key: "k", Thread: "u"}); err == nil || !strings.Contains(err.Error(), "is it running") ||
		errors.Is(err, redis.ErrInDoubt) {
		t.Errorf("push without a server: %v", err)
	}
	if _, err := s.Get(t.Context(), "r"); err == nil {
		t.Error("read without a server")
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Commit(short, store.Batch{Lease: &l}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("commit without a server: %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("three calls without a server took %s", took)
	}
	got := make(chan store.Lease, 1)
	var waits sync.WaitGroup
	waits.Go(func() { got <- claim(t, s, time.Minute) })
	server.Restart()
	began = time.Now()
	push(t, s, "u", "k") // nothing was written before
	if l := <-got; l.Thread != "u" {
		t.Errorf("claimed %+v", l)
	}
	waits.Wait()
	if items, err := s.Items(t.Context(), l); err != nil || len(items) != 1 {
		t.Errorf("items of the lease from before: %v, %v", items, err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("back to normal after %s", took)
	}
}

// A server that takes writes and says nothing: the caller is told that nobody knows.
func TestRel_R12_SilentServerLeavesDoubt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.URL(), redis.Options{Patience: 200 * time.Millisecond})
	push(t, s, "t", "k1")
	server.Pause()
	_, err := s.Push(t.Context(), store.Item{Key: "k2", Thread: "t"})
	server.Resume()
	if !errors.Is(err, redis.ErrInDoubt) {
		t.Fatalf("push to a silent server: %v", err)
	}
	if n, err := s.Queued(t.Context(), "t"); err != nil || n < 1 || n > 2 {
		t.Errorf("queued %d, %v", n, err)
	}
}

func TestRel_R23_ErrorsOfTheServer(t *testing.T) {
	t.Parallel()
	p := redistest.Through(t, redistest.Start(t).Addr())
	s := open(t, p.URL(), redis.Options{Patience: 2 * time.Second})
	write := func(i int) error {
		return s.Commit(t.Context(), store.Batch{Puts: []store.Put{{Key: fmt.Sprint("r", i), Value: []byte("v")}}})
	}
	if err := write(0); err != nil { // the script is known from now on
		t.Fatal(err)
	}
	for i, c := range []struct {
		say   string
		waits bool
		next  string
	}{
		{"-LOADING Redis is loading the dataset in memory", true, "wait until it has"},
		{"-NOSCRIPT No matching script. Please use EVAL.", true, ""},
		{"-BUSY Redis is busy running a script.", true, "SCRIPT KILL"},
		{"-MASTERDOWN Link with MASTER is down", true, ""},
		{"-READONLY You can't write against a read only replica.", false, "name the primary"},
		{"-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", false, "free some space"},
		{"-OOM command not allowed when used memory > 'maxmemory'.", false, "raise maxmemory"},
		{"-NOREPLICAS Not enough good replicas to write.", false, "min-replicas-to-write"},
		{"-NOPERM this user has no permissions to run the 'evalsha' command", false, "the user's rights"},
	} {
		// READONLY has its connection closed, and the proxy must not answer the greeting of the next one.
		prime := func() {
			_, err := s.Count(t.Context(), "n")
			if err := errors.Join(err, s.Commit(t.Context(), store.Batch{})); err != nil {
				t.Fatal(err)
			}
		}
		prime()
		p.Say(c.say)
		err := write(i + 1)
		if c.waits != (err == nil) || err != nil && !strings.Contains(err.Error(), c.next) {
			t.Errorf("%s: %v", c.say, err)
		}
		if reply, ok := errors.AsType[goredis.Error](err); !c.waits && (!ok || reply.Error() != c.say[1:]) {
			t.Errorf("%s: %v does not carry the cause", c.say, err)
		}
		if r, err := s.Get(t.Context(), fmt.Sprint("r", i+1)); err != nil || (r.Version == 1) != c.waits {
			t.Errorf("%s: the record is %+v, %v", c.say, r, err)
		}
		prime()
		p.Say(c.say)
		if _, err := s.Count(t.Context(), "n"); c.waits != (err == nil) {
			t.Errorf("%s: read: %v", c.say, err)
		}
	}
}

// A server that is full refuses what is new, and nothing half; what it has can still be worked off.
func TestRel_R23_FullServerWorksOff(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := server.Client(t)
	s := open(t, server.URL(), redis.Options{})
	ctx := t.Context()
	for i := range 5 {
		push(t, s, strconv.Itoa(i), fmt.Sprint("k", i))
	}
	if err := s.Commit(ctx, store.Batch{Contents: []store.Content{{Key: "c", Value: []byte("w"), Until: time.Now().Add(-time.Hour)}}}); err != nil {
		t.Fatal(err)
	}
	if err := c.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	full := store.Batch{
		Puts: []store.Put{{Key: "r", Value: []byte("v")}}, Events: []store.Event{{Stream: "s", Kind: "x"}},
		Adds: []store.Add{{Key: "n", Delta: 1}}, Push: []store.Item{{Key: "p", Thread: "p"}},
		Contents: []store.Content{{Key: "d", Value: []byte("v")}},
	}
	if err := s.Commit(ctx, full); err == nil || !strings.Contains(err.Error(), "raise maxmemory") {
		t.Fatalf("commit to a full server: %v", err)
	}
	stale := store.Lease{Thread: "t", Epoch: 1}
	if err := s.Renew(ctx, stale, time.Minute); !errors.Is(err, store.ErrStale) {
		t.Errorf("stale renew on a full server: %v", err)
	}
	for range 5 {
		l := claim(t, s, time.Minute)
		b := full
		b.Lease, b.Ack, b.Release = &l, []string{"k" + l.Thread}, true
		b.Puts, b.Push = nil, nil
		if err := s.Commit(ctx, b); err != nil {
			t.Fatalf("work off on a full server: %v", err)
		}
	}
	if n, err := s.Sweep(ctx); err != nil || n != 1 {
		t.Errorf("sweep on a full server: %d, %v", n, err)
	}
	if err := c.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	r, err1 := s.Get(ctx, "r")
	es, err2 := s.Events(ctx, "s")
	n, err3 := s.Waiting(ctx)
	if err := errors.Join(err1, err2, err3); err != nil || r.Version != 0 || len(es) != 5 || n != 0 {
		t.Errorf("the refused batch left %+v, %d events, %d items, %v", r, len(es), n, err)
	}
	if err := c.ScriptFlush(ctx).Err(); err != nil { // NOSCRIPT, for real
		t.Fatal(err)
	}
	if err := s.Commit(ctx, full); err != nil {
		t.Error(err)
	}
}

// All keys of a bot are in one slot, so that every script's keys are.
func TestRel_R25_OneSlot(t *testing.T) {
	t.Parallel()
	plain, cluster := redistest.Start(t), redistest.Start(t, "--cluster-enabled", "yes")
	s := open(t, plain.URL(), redis.Options{Name: "a:b"})
	ctx := t.Context()
	for i, name := range []string{"t", "{x}", "}{", "a}b{c", "ü\x00\xff"} {
		if _, err := s.Push(ctx, store.Item{Key: name, Thread: name}); err != nil {
			t.Fatal(err)
		}
		l := claim(t, s, time.Minute)
		until := time.Now().Add(time.Hour)
		err := s.Commit(ctx, store.Batch{
			Lease: &l, Puts: []store.Put{{Key: name, Value: []byte("v")}}, Events: []store.Event{{Stream: name, Kind: name}},
			Contents: []store.Content{{Key: name, Until: until}}, Adds: []store.Add{{Key: name, Delta: 1, Until: until}},
			Push: []store.Item{{Key: name + "2", Thread: name + "2"}},
		})
		if err != nil || i == 2 && s.Release(ctx, l) != nil {
			t.Fatal(err)
		}
		l = claim(t, s, time.Minute)
	}
	push(t, s, "last", "last") // so that one is ready
	keys, err := plain.Client(t).Keys(ctx, "*").Result()
	if err != nil || len(keys) < 30 {
		t.Fatalf("keys: %q, %v", keys, err)
	}
	want := int64(-1)
	for _, key := range keys {
		slot, err := cluster.Client(t).ClusterKeySlot(ctx, key).Result()
		if err != nil {
			t.Fatal(err)
		}
		if want < 0 {
			want = slot
		}
		if slot != want || !strings.HasPrefix(key, "{bot:a:b}:") {
			t.Errorf("key %q is in slot %d, others in %d", key, slot, want)
		}
	}
}

// When all is done and its time is over, nothing is left but what is kept for ever.
func TestRel_R27_NothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := server.Client(t)
	h := bots(server.URL())(t)
	s, ctx := h.Store(), t.Context()
	var workers sync.WaitGroup
	for w := range 6 {
		workers.Go(func() {
			for i := range 100 {
				key := fmt.Sprintf("%d-%d", w, i)
				until := h.Now().Add(time.Hour)
				if _, err := s.Push(ctx, store.Item{Key: key, Thread: strconv.Itoa(i % 7)}); err != nil {
					t.Error(err)
				}
				short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				l, err := s.Claim(short, time.Minute)
				cancel()
				if err != nil {
					continue // others were faster
				}
				items, err := s.Items(ctx, l)
				if err != nil {
					t.Error(err)
					return
				}
				b := store.Batch{
					Lease: &l, Release: true, Contents: []store.Content{{Key: key, Value: []byte(key), Until: until}},
					Adds: []store.Add{{Key: key, Delta: 1, Until: until}},
				}
				for _, it := range items {
					b.Ack = append(b.Ack, it.Key)
				}
				err = errors.Join(s.Commit(ctx, b),
					s.Commit(ctx, store.Batch{Puts: []store.Put{{Key: key, Value: []byte("v")}}}),
					s.Commit(ctx, store.Batch{Puts: []store.Put{{Key: key, Version: 1}}}))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	drain(t, s)
	h.Advance(store.ClaimLife)
	if n, err := s.Sweep(ctx); err != nil || n < 6*100 {
		t.Errorf("swept %d, %v", n, err)
	}
	keys, err := c.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		left, err := c.PTTL(ctx, key).Result()
		if err != nil {
			t.Fatal(err)
		}
		switch mark := strings.Contains(key, "}:done:"); {
		case mark && (left <= 0 || left > 2*time.Minute):
			t.Errorf("mark %q lives for %s", key, left)
		case !mark && !strings.HasSuffix(key, "}:meta"):
			t.Errorf("key %q is left", key)
		case !mark && left > 0:
			t.Errorf("key %q expires", key)
		}
	}
}

// drain works off what waits.
func drain(t *testing.T, s store.Store) {
	t.Helper()
	for {
		n, err := s.Waiting(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
		l, err := s.Claim(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		items, err := s.Items(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		b := store.Batch{Lease: &l, Release: true}
		for _, it := range items {
			b.Ack = append(b.Ack, it.Key)
		}
		if err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
}
