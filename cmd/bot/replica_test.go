package main

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"switchboard/config"
	"switchboard/slack/sim"
	"switchboard/store/redis"
	"switchboard/store/redistest"
)

// signal sends the process a signal.
func (b *effectBot) signal(s syscall.Signal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running {
		_ = b.cmd.Process.Signal(s) // it may have ended
	}
}

// stale counts the writes that the store has refused because their lease was lost.
func (w *effectWorld) stale(ctx context.Context) (n int64, err error) {
	p, err := load(filepath.Join(w.dir, "pack"), config.Options{})
	if err != nil {
		return 0, err
	}
	r, err := redis.OpenReader(ctx, w.o.store, redis.Options{Name: p.Name})
	if err != nil {
		return 0, err
	}
	defer func() { _ = r.Close() }()
	return r.Stale(ctx)
}

// A replica dies right after it has begun an effect. The other takes its thread over within 10 s and ends the effect, once.
func TestRel_R21_AReplicaIsTakenOver(t *testing.T) {
	t.Parallel()
	w := newEffectWorld(t, effectOptions{store: redistest.Start(t).URL()})
	w.start()
	w.start()
	var took time.Duration
	died := make(chan time.Time, 1)
	w.points.strike = func(bot string) {
		w.bot(bot).kill()
		died <- time.Now()
	}
	e, at := w.struck(t, "refund", "commit(call.attempt,approval).after#1", died)
	took = e.entry(t, whole).At.Sub(at)
	t.Logf("the other replica had answered %s after the death of the first", took.Round(10*time.Millisecond))
	if took > 10*time.Second {
		t.Errorf("it took %s to take over and answer, want 10 s at most", took)
	}
	e.b = w.alive()
	if err := e.b.idle(t.Context()); err != nil {
		t.Error(err)
	}
	e.b.stop()
	e.hold("")
	if err := w.books(t.Context()); err != nil {
		t.Error(err)
	}
}

// alive gives a bot that runs.
func (w *effectWorld) alive() *effectBot {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.bots {
		b.mu.Lock()
		running := b.running
		b.mu.Unlock()
		if running {
			return b
		}
	}
	w.t.Fatal("no bot runs")
	return nil
}

// struck plays an errand in which a replica is struck at a point, and gives the time of it.
func (w *effectWorld) struck(t *testing.T, kind, point string, at <-chan time.Time) (*errand, time.Time) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), errandTime)
	defer cancel()
	e, err := w.newErrand(ctx, kind)
	if err != nil {
		t.Fatal(err)
	}
	e.b = w.bots[0]
	w.points.begin(point)
	if err := e.play(ctx); err != nil {
		w.dump(e.from)
		t.Fatalf("%v\npassed %v", err, w.points.passed())
	}
	select {
	case when := <-at:
		return e, when
	default:
		t.Fatalf("nobody came by %s; passed %v", point, w.points.passed())
		return nil, time.Time{}
	}
}

// entry gives the first entry of the log about a message of the bot in the errand's thread that holds a text.
func (e *errand) entry(t *testing.T, text string) sim.Entry {
	t.Helper()
	l, err := e.w.ws.Await(t.Context(), e.from, e.says(text))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A replica is stopped for longer than its lease, right after it has begun an effect or when it is about to reply, and goes on when the other has done
// everything: what it then wants to write is refused, counted, and changes nothing.
func TestRel_R13_AZombieIsRefused(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]struct{ kind, point string }{
		"an effect with a key":    {"refund", "commit(call.attempt,approval).after#1"},
		"an effect without a key": {"payout", "commit(call.attempt,approval).after#1"},
		"the reply":               {"refund", "commit(step).after#1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEffectWorld(t, effectOptions{store: redistest.Start(t).URL()})
			w.start()
			w.start()
			zombie, stopped := "", make(chan time.Time, 1)
			w.points.strike = func(bot string) {
				zombie = bot
				w.bot(bot).signal(syscall.SIGSTOP)
				stopped <- time.Now()
			}
			e, when := w.struck(t, at.kind, at.point, stopped)
			t.Logf("the other replica had answered after %s", e.entry(t, whole).At.Sub(when).Round(10*time.Millisecond))
			from := w.ws.Mark()
			w.bot(zombie).signal(syscall.SIGCONT)
			// It is back once it takes part again.
			if _, err := w.ws.Await(t.Context(), from, func(l sim.Entry) bool { return l.What == sim.Opened || l.What == sim.Acked }); err != nil {
				t.Fatal(err)
			}
			for {
				n, err := w.stale(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if n > 0 {
					t.Logf("%d stale writes refused", n)
					break
				}
				if err := wait(t.Context(), 50*time.Millisecond); err != nil {
					t.Fatalf("nothing of the zombie was refused: %v", err)
				}
			}
			for _, b := range w.bots {
				b.stop() // it takes back what it has shown
			}
			e.hold("")
			if t.Failed() {
				w.dump(e.from)
			}
			if err := w.books(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// chaos is what happens to two replicas and their Redis during a storm.
type chaos struct {
	seed   uint64
	length time.Duration
}

// play lets replicas die and stand still, the server die, and answers of the server get lost.
func (c chaos) play(t *testing.T) {
	t.Helper()
	server := redistest.Start(t)
	proxy := redistest.Through(t, server.Addr())
	w := newEffectWorld(t, effectOptions{store: proxy.URL(), plain: true, latency: 50 * time.Millisecond})
	w.start()
	w.start()
	proxy.DropAtRandom(c.seed, 0.002)
	s := &storm{w: w, seed: c.seed, clerks: 6, threads: 6}
	end := s.blow(t.Context())
	rnd := rand.New(rand.NewPCG(c.seed, 7)) //nolint:gosec // a test that can be played again
	deaths, stops, falls := 0, 0, 0
	over := time.Now().Add(c.length)
	for i := 0; time.Now().Before(over); i++ {
		b := w.bots[rnd.IntN(2)]
		pause := time.Duration(300+rnd.IntN(900)) * time.Millisecond
		switch i % 4 {
		case 0, 1:
			b.kill()
			if err := b.start(); err != nil {
				t.Fatal(err)
			}
			deaths++
		case 2:
			server.Kill()
			if err := wait(t.Context(), pause/2); err != nil {
				t.Fatal(err)
			}
			server.Restart()
			falls++
		case 3:
			b.signal(syscall.SIGSTOP)
			stops++
			pause = sharedLease + pause
		}
		if err := wait(t.Context(), pause); err != nil {
			t.Fatal(err)
		}
		b.signal(syscall.SIGCONT)
	}
	lost := proxy.Lost()
	proxy.DropAtRandom(0, 0)
	w.ws.Redeliver() // Slack may have given up a message that it found nobody for
	end()
	if err := s.taken(t.Context()); err != nil {
		t.Error(err)
	}
	if err := w.bots[0].idle(t.Context()); err != nil {
		t.Error(err)
	}
	n, err := w.stale(t.Context())
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d deaths of replicas, %d stand-stills beyond the lease, %d deaths of Redis, %d lost answers; %d stale writes refused", deaths, stops, falls, lost, n)
	for _, b := range w.bots {
		b.stop()
	}
	s.hold(t)
}

// A sample of what make soak plays at length.
func TestRel_R03_TwoReplicasThroughChaos(t *testing.T) {
	t.Parallel()
	chaos{seed: 5, length: 8 * time.Second}.play(t)
}
