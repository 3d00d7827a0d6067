package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"switchboard/slack/sim"
)

// Slack's four reasons for asking a client to leave, and three ways of losing a socket without a word.
func TestReconnects(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*house){
		"warning":             func(h *house) { h.w.Disconnect("", sim.Warning) },
		"refresh_requested":   func(h *house) { h.w.Disconnect("", sim.Refresh) },
		"too_many_websockets": func(h *house) { h.w.Disconnect("", sim.TooMany) },
		"cut":                 func(h *house) { h.w.Cut("") },
		"two at once": func(h *house) {
			h.w.Disconnect("", sim.Warning)
			h.w.Disconnect("", sim.Refresh)
		},
		"refused at first": func(h *house) { h.w.RefuseSockets("", 3); h.w.Cut("") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := build(t, plan{sim: sim.Options{Times: sim.Times{Cut: 50 * time.Millisecond}}})
			d := h.dm(t, ana)
			for i := range 5 {
				h.clock.forward(2 * sound) // the one before was a good one
				lose(h)
				h.untilOpen(t, i+2)
			}
			h.say(t, sim.Say{From: ana, Channel: d, Text: "still there?"})
			h.settled(t)
			if got := h.take(); len(got) != 1 {
				t.Errorf("accepted %d messages", len(got))
			}
			h.fewSockets(t, 6)
			if got := h.slack.Health(); !got.Ready {
				t.Errorf("health %+v", got)
			}
		})
	}
}

// fewSockets: there are never more than two sockets, of all that were opened. The workspace counts one until it has taken
// note of its end, which is a little after the client has seen it, so it may have counted a third one in passing.
func (h *house) fewSockets(t *testing.T, ever int) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errors.New("too many sockets are open"))
	defer cancel()
	closed := 0
	_, err := h.w.Await(ctx, 0, func(e sim.Entry) bool {
		if e.What == sim.Closed {
			closed++
		}
		return closed >= ever-2
	})
	if n := h.w.Sockets(""); err != nil || n.Open > 2 || n.Most > 3 || n.Ever != ever {
		t.Errorf("%v: %+v", err, n)
	}
}

// While a socket is being replaced both are served, and what comes over either is one message.
func TestD1_TwoSockets(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	h.clock.forward(2 * sound)
	h.w.Disconnect("", sim.Warning) // Slack will close it in 10 s
	h.untilOpen(t, 2)
	ts := h.say(t, sim.Say{From: ana, Channel: front, Text: "<@U0BOT> hello"})
	h.w.Resend(front, ts, sim.Repeat{Times: 9, NewEvent: true})
	h.settled(t)
	if got := h.take(); len(got) != 1 {
		t.Errorf("accepted %d messages", len(got))
	}
	used := map[int]int{}
	for _, e := range h.w.Log() {
		if e.What == sim.Acked {
			used[e.Socket]++
		}
	}
	if len(used) != 2 || h.w.Sockets("").Open != 2 {
		t.Errorf("acknowledged by socket: %v, %+v", used, h.w.Sockets(""))
	}
}

func TestThirtyReconnects(t *testing.T) {
	t.Parallel()
	h := build(t, plan{sim: sim.Options{Times: sim.Times{Cut: 30 * time.Millisecond}}})
	d := h.dm(t, ana)
	for i := range 30 {
		h.say(t, sim.Say{From: ana, Channel: d, Text: fmt.Sprint("message ", i)})
		h.w.Disconnect("", []sim.Reason{sim.Warning, sim.Refresh}[i%2])
		h.untilOpen(t, i+2)
	}
	h.w.Redeliver()
	h.desk.until(t, "all messages are stored", func() bool { return len(h.desk.accepted) == 30 })
	h.fewSockets(t, 31)
}

// A server that lets a client in and sends it away at once must not be redialled at once, over and over.
func TestNoStorm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason sim.Reason
		waits  []time.Duration
	}{
		{sim.TooMany, []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute, 10 * time.Minute}},
		{sim.Refresh, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, 64 * time.Second, 2 * time.Minute, 2 * time.Minute}},
	} {
		t.Run(string(c.reason), func(t *testing.T) {
			t.Parallel()
			h := build(t, plan{})
			for i := range c.waits {
				// Each socket lasts no longer than it was waited for, which is over for the clock too.
				h.w.Disconnect("", c.reason)
				h.untilOpen(t, i+2)
			}
			got := h.clock.waited()
			if len(got) < len(c.waits) {
				t.Fatalf("waited %v, want %v", got, c.waits)
			}
			for i, want := range c.waits {
				if got[i] != want {
					t.Fatalf("waited %v, want %v", got, c.waits)
				}
			}
		})
	}
}

func TestLinkDisabled(t *testing.T) {
	t.Parallel()
	h := build(t, plan{sim: sim.Options{Times: sim.Times{Cut: 10 * time.Millisecond}}})
	h.w.Disconnect("", sim.LinkDisabled)
	err := <-h.slack.Fatal()
	if !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "Socket Mode is switched off") {
		t.Error(err)
	}
	if got := h.slack.Health(); !got.Live || got.Ready || !strings.Contains(got.Reason, "Socket Mode is switched off") {
		t.Errorf("health %+v", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := h.w.Await(ctx, 0, func(e sim.Entry) bool { return e.What == sim.Closed }); err != nil {
		t.Error(err)
	}
	if n := h.w.Sockets(""); n.Ever != 1 || n.Open != 0 {
		t.Errorf("sockets: %+v", n)
	}
}

// A socket on which Slack is silent is dead, whatever the network says.
func TestSilence(t *testing.T) {
	t.Parallel()
	h := build(t, plan{quiet: 150 * time.Millisecond, sim: sim.Options{Times: sim.Times{
		Ping: 20 * time.Millisecond, Ack: 100 * time.Millisecond, Retry: slices.Repeat([]time.Duration{50 * time.Millisecond}, 50),
	}}})
	h.clock.forward(2 * sound)
	h.w.SilencePings("", true)
	h.untilOpen(t, 2)
	h.w.SilencePings("", false)
	h.say(t, sim.Say{From: ana, Channel: h.dm(t, ana), Text: "hello"})
	h.desk.until(t, "the message is stored", func() bool { return len(h.desk.accepted) == 1 })
	if !h.slack.Health().Ready {
		t.Errorf("health %+v", h.slack.Health())
	}
}

func TestNotReadyWithoutSocket(t *testing.T) {
	t.Parallel()
	h := build(t, plan{idle: true})
	if got := h.slack.Health(); !got.Live || got.Ready || got.Reason != "not started" {
		t.Errorf("before the start: %+v", got)
	}
	h.w.RefuseSockets("", 1_000_000)
	h.clock.mu.Lock()
	h.clock.block = make(chan struct{})
	h.clock.mu.Unlock()
	if err := h.slack.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := h.slack.Health(); !got.Live || got.Ready || !strings.Contains(got.Reason, "not connected") {
		t.Errorf("without a socket: %+v", got)
	}
	h.w.RefuseSockets("", 0)
	close(h.clock.block)
	h.untilOpen(t, 1)
	h.say(t, sim.Say{From: ana, Channel: h.dm(t, ana), Text: "hello"})
	h.settled(t)
	if got := h.slack.Health(); !got.Ready || got.Reason != "" {
		t.Errorf("with a socket: %+v", got)
	}
}

// What has come in when the bot is stopped is stored and acknowledged; what comes later is left to the next start.
func TestD4_StopDrains(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	release, entered := make(chan struct{}), make(chan struct{}, 100)
	h.desk.write(func() {
		h.desk.gate = func(context.Context) error { entered <- struct{}{}; <-release; return nil }
	})
	d := h.dm(t, ana)
	for i := range 10 {
		h.say(t, sim.Say{From: ana, Channel: d, Text: fmt.Sprint("message ", i)})
	}
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- h.slack.Stop(context.WithoutCancel(t.Context())) }()
	close(release)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	n, acked := len(h.take()), 0
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errors.New("not acknowledged"))
	defer cancel()
	if _, err := h.w.Await(ctx, 0, func(e sim.Entry) bool {
		if e.What == sim.Acked {
			acked++
		}
		return acked >= n
	}); err != nil || n == 0 {
		t.Errorf("stored %d, acknowledged %d: %v", n, acked, err)
	}
	if got := h.slack.Health(); got.Live || got.Ready {
		t.Errorf("health %+v", got)
	}
}

// Stopping with no patience left breaks off, also where the store hangs.
func TestStopBreaksOff(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	entered := make(chan struct{}, 1)
	h.desk.write(func() {
		h.desk.gate = func(ctx context.Context) error { entered <- struct{}{}; <-ctx.Done(); return ctx.Err() }
	})
	h.say(t, sim.Say{From: ana, Channel: h.dm(t, ana), Text: "hello"})
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := h.slack.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if n := len(h.take()); n != 0 {
		t.Errorf("stored %d", n)
	}
}

// Starting and stopping while things are being delivered, over and over.
func TestStopWhileDelivering(t *testing.T) {
	t.Parallel()
	for range 20 {
		h := build(t, plan{})
		d := h.dm(t, ana)
		for i := range 30 {
			h.say(t, sim.Say{From: ana, Channel: d, Text: fmt.Sprint(i)})
		}
		if err := h.slack.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// rogue is a server that speaks Socket Mode badly.
func rogue(t *testing.T, talk func(n int, ws *websocket.Conn)) *Slack {
	t.Helper()
	var n atomic.Int32
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	mux.HandleFunc("/api/auth.test", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "team_id": "T0SIM", "user_id": "U0BOT", "bot_id": "B0BOT", "user": "desk"})
	})
	mux.HandleFunc("/api/apps.connections.open", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "url": "ws" + strings.TrimPrefix(server.URL, "http") + "/link"})
	})
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	mux.HandleFunc("/link", func(w http.ResponseWriter, r *http.Request) {
		ws, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = ws.Close() }()
		talk(int(n.Add(1)), ws)
	})
	s, err := New(Options{BotToken: "xoxb-1", AppToken: "xapp-1", APIURL: server.URL + "/api/", Settings: noSettings, Bot: newDesk(), Judge: noJudge{}, Desk: noDesk{}, Now: time.Now, Wait: (&clock{}).wait})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return s
}

// Frames that nobody documents are acknowledged where they can be, and never end the connection.
func TestStrangeFrames(t *testing.T) {
	t.Parallel()
	acks := make(chan string, 100)
	s := rogue(t, func(_ int, ws *websocket.Conn) {
		for _, f := range []string{
			`{"type":"hello","num_connections":5}`, `{"type":"hello","num_connections":5}`, `nonsense`, `{}`, `{"type":"events_api"}`, `[]`,
			`{"type":"events_api","envelope_id":"no payload"}`, `{"type":"events_api","envelope_id":"nonsense","payload":[1]}`,
			`{"type":"brand_new","envelope_id":"unknown kind","payload":{}}`,
			`{"type":"events_api","envelope_id":"unknown event","payload":{"type":"event_callback","team_id":"T0SIM","event":{"type":"brand_new"}}}`,
			`{"type":"events_api","envelope_id":"rate limited","payload":{"type":"app_rate_limited","team_id":"T0SIM","minute_rate_limited":1}}`,
			`{"type":"interactive","envelope_id":"no user","accepts_response_payload":true,"payload":{"type":"block_actions"}}`,
		} {
			_ = ws.WriteMessage(websocket.TextMessage, []byte(f))
		}
		for {
			_, data, err := ws.ReadMessage()
			if err != nil {
				return
			}
			acks <- string(data)
		}
	})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for range 6 {
		got[<-acks] = true
	}
	for _, id := range []string{"no payload", "nonsense", "unknown kind", "unknown event", "rate limited", "no user"} {
		if !got[`{"envelope_id":"`+id+`"}`] {
			t.Errorf("no acknowledgement of %q in %v", id, got)
		}
	}
	if !s.Health().Ready {
		t.Errorf("health %+v", s.Health())
	}
}

// Acknowledgements of a socket that is gone go nowhere: on another socket they might mean something else.
func TestAcknowledgedOnItsOwnSocket(t *testing.T) {
	t.Parallel()
	second := make(chan struct{})
	wrong := make(chan string, 10)
	s := rogue(t, func(n int, ws *websocket.Conn) {
		_ = ws.WriteMessage(websocket.TextMessage, []byte(`{"type":"hello"}`))
		if n == 1 {
			_ = ws.WriteMessage(websocket.TextMessage, []byte(`{"type":"events_api","envelope_id":"e1","payload":{"type":"event_callback","team_id":"T0SIM","event":{"type":"app_mention","channel":"C1X","user":"U0ANA","text":"<@U0BOT> x","ts":"1700000000.000100"}}}`))
			return // cut
		}
		close(second)
		for {
			_, data, err := ws.ReadMessage()
			if err != nil {
				return
			}
			wrong <- string(data)
		}
	})
	d, _ := s.o.Bot.(*desk)
	d.gate = func(context.Context) error { <-second; return nil }
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.until(t, "the message is stored", func() bool { return len(d.accepted) == 1 })
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case data := <-wrong:
		t.Errorf("acknowledged on another socket: %s", data)
	default:
	}
}

// An answer that Slack would silently ignore is not sent.
func TestBigAcknowledgement(t *testing.T) {
	t.Parallel()
	big, err := json.Marshal(strings.Repeat("x", biggestAck))
	if err != nil {
		t.Fatal(err)
	}
	if err := (&wire{}).ack("e", big); err == nil {
		t.Error("no error")
	}
}
