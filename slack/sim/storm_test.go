package sim_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"switchboard/slack/sim"
)

// worker is an app that acknowledges most of what it gets, and comes back whenever its socket is cut.
type worker struct {
	w    *world
	seed uint64
	mu   *sync.Mutex
	seen map[string]int
}

// run works until ctx ends.
func (k worker) run(ctx context.Context) {
	rnd := rand.New(rand.NewPCG(k.seed, 1)) //nolint:gosec // which ones are left unacknowledged is no secret
	for ctx.Err() == nil {
		_, b, err := k.w.requestFrom(ctx, "apps.connections.open", app, nil)
		if err != nil {
			return
		}
		conn, res, err := websocket.DefaultDialer.DialContext(ctx, str(decoded(k.w.t, b), "url"), nil)
		if err != nil {
			continue
		}
		_ = res.Body.Close()
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		for {
			var f map[string]any
			if conn.ReadJSON(&f) != nil {
				break
			}
			if f["envelope_id"] == nil || rnd.IntN(10) == 0 {
				continue
			}
			k.mu.Lock()
			k.seen[str(f, "payload", "event", "ts")]++
			k.mu.Unlock()
			_ = conn.WriteJSON(map[string]any{"envelope_id": f["envelope_id"]})
		}
		stop()
		_ = conn.Close()
	}
}

// TestNothingIsLostWhileSocketsAreCut cuts sockets at random while people write, and lets the app forget to acknowledge.
func TestNothingIsLostWhileSocketsAreCut(t *testing.T) {
	t.Parallel()
	w := open(t, func(o *sim.Options, _ *sim.App) {
		o.Times.Ack = 100 * time.Millisecond
		o.Times.Retry = make([]time.Duration, 50)
		for i := range o.Times.Retry {
			o.Times.Retry[i] = 5 * time.Millisecond
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	seen := map[string]int{}
	var done sync.WaitGroup
	for _, seed := range []uint64{1, 2} {
		done.Go(func() { worker{w: w, seed: seed, mu: &mu, seen: seen}.run(ctx) })
	}
	w.await(0, sim.Opened)
	rnd := rand.New(rand.NewPCG(3, 1)) //nolint:gosec // as above
	var said []string
	for range 150 {
		said = append(said, w.say("x"))
		if rnd.IntN(8) == 0 {
			w.CutOne("")
		}
	}
	for _, ts := range said {
		mark := 0
		for {
			mu.Lock()
			n := seen[ts]
			mu.Unlock()
			if n > 0 {
				break
			}
			mark = w.await(mark, sim.Acked).N
		}
	}
	mark := 0
	for waiting, lost := w.Unacked(); waiting > 0 || lost > 0; waiting, lost = w.Unacked() {
		if lost > 0 {
			t.Fatalf("%d events were given up", lost)
		}
		mark = w.await(mark, sim.Acked).N
	}
	cancel()
	done.Wait()
}

func TestWorkspaceEndsWithTheContextOfStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	w := sim.New(sim.Options{Seed: 1})
	s, err := sim.Start(ctx, w, "")
	if err != nil {
		t.Fatal(err)
	}
	w.AddApp(sim.App{ID: "A0BOT", BotToken: bot, AppToken: app})
	c := (&world{Workspace: w, t: t, s: s}).dial()
	cancel()
	if _, _, err := c.ReadMessage(); err == nil {
		t.Error("the socket goes on")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
