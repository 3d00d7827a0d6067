package sim_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"switchboard/slack/sim"
)

func TestHelloAndOneShotTickets(t *testing.T) {
	t.Parallel()
	w := open(t)
	out := w.callAs("apps.connections.open", app, nil)
	link := str(out, "url")
	c := w.dial()
	if c.hello["num_connections"] != 1.0 || str(c.hello, "connection_info", "app_id") != "A0BOT" || dig(c.hello, "debug_info", "approximate_connection_time") == nil {
		t.Errorf("hello %v", c.hello)
	}
	if two := w.dial(); two.hello["num_connections"] != 2.0 {
		t.Errorf("second hello %v", two.hello)
	}
	conn, res, err := websocket.DefaultDialer.DialContext(t.Context(), link, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	_ = conn.Close()
	if _, res, err = websocket.DefaultDialer.DialContext(t.Context(), link, nil); err == nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("a used address was taken: %v", err)
	}
	_ = res.Body.Close()
}

func TestEachEventGoesToOneSocket(t *testing.T) {
	t.Parallel()
	w := open(t)
	cs := []*client{w.dial(), w.dial()}
	var got [2]atomic.Int32
	frames := make(chan string, 40)
	for i, c := range cs {
		go func() {
			for {
				var f map[string]any
				if c.ReadJSON(&f) != nil {
					return
				}
				got[i].Add(1)
				_ = c.WriteJSON(map[string]any{"envelope_id": f["envelope_id"]})
				frames <- str(f, "payload", "event", "ts")
			}
		}()
	}
	seen := map[string]bool{}
	for i := range 40 {
		w.say(fmt.Sprint(i))
	}
	for range 40 {
		ts := <-frames
		if seen[ts] {
			t.Errorf("%s came twice", ts)
		}
		seen[ts] = true
	}
	if a, b := got[0].Load(), got[1].Load(); a+b != 40 || a == 0 || b == 0 {
		t.Errorf("sockets got %d and %d", a, b)
	}
}

func TestUnacknowledgedEventsAreSentAgain(t *testing.T) {
	t.Parallel()
	w := open(t, func(o *sim.Options, _ *sim.App) {
		o.Times.Ack = 30 * time.Millisecond
		o.Times.Retry = []time.Duration{0, 10 * time.Millisecond}
	})
	c := w.dial()
	mark := w.Mark()
	w.say("hi")
	ids, envelopes := map[string]bool{}, map[string]bool{}
	for i := range 3 {
		f := c.next()
		if f["retry_attempt"] != float64(i) || (f["retry_reason"] == "timeout") != (i > 0) {
			t.Errorf("try %d: %v %v", i, f["retry_attempt"], f["retry_reason"])
		}
		if f["accepts_response_payload"] != false || f["type"] != "events_api" {
			t.Errorf("frame %v", f)
		}
		ids[str(f, "payload", "event_id")] = true
		envelopes[str(f, "envelope_id")] = true
	}
	if len(ids) != 1 || len(envelopes) != 3 {
		t.Errorf("event ids %v, envelopes %v: want one and three", ids, envelopes)
	}
	w.await(mark, sim.GivenUp)
	if _, lost := w.Unacked(); lost != 1 {
		t.Errorf("%d lost, want 1", lost)
	}
	w.Redeliver()
	c.take()
	w.await(mark, sim.Acked)
	if waiting, lost := w.Unacked(); waiting != 0 || lost != 0 {
		t.Errorf("%d waiting, %d lost", waiting, lost)
	}
}

func TestAcknowledgementsWithAndWithoutPayload(t *testing.T) {
	t.Parallel()
	w := open(t)
	c := w.dial()
	for _, payload := range []any{nil, map[string]any{}, map[string]any{"text": "x"}} {
		mark := w.Mark()
		w.say("hi")
		c.ack(c.next(), payload)
		if e := w.await(mark, sim.Acked); e.Body != nil {
			t.Errorf("an event's answer is looked at: %s", e.Body)
		}
	}
	mark := w.Mark()
	if _, err := w.Slash(sim.Command{From: anas, Channel: hall, Command: "/bot", Text: "x"}); err != nil {
		t.Fatal(err)
	}
	f := c.next()
	if f["type"] != "slash_commands" || f["accepts_response_payload"] != true || str(f, "payload", "command") != "/bot" || f["retry_attempt"] != nil {
		t.Errorf("command %v", f)
	}
	c.ack(f, map[string]any{"text": "only you"})
	if e := w.await(mark, sim.Whispered); e.Text != "only you" || e.Person != anas {
		t.Errorf("answer %+v", e)
	}
}

func TestRepliesOf20480BytesAndFragmentsAreIgnored(t *testing.T) {
	t.Parallel()
	w := open(t)
	c := w.dial()
	w.say("hi")
	f := c.next()
	frame := func(size int) []byte {
		b := fmt.Sprintf(`{"envelope_id":%q,"payload":{"x":""}}`, f["envelope_id"])
		return []byte(strings.Replace(b, `""`, `"`+repeat("x", size-len(b))+`"`, 1))
	}
	mark := w.Mark()
	if err := c.WriteMessage(websocket.TextMessage, frame(20480)); err != nil {
		t.Fatal(err)
	}
	w.await(mark, sim.Ignored, func(e sim.Entry) bool { return strings.Contains(e.Error, "20480 bytes") })
	// A message larger than the client's write buffer goes out in several frames.
	mark = w.Mark()
	part, err := c.NextWriter(websocket.TextMessage)
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range [][]byte{frame(100)[:50], []byte(repeat(" ", 70000)), frame(100)[50:]} {
		if _, err := part.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if err := part.Close(); err != nil {
		t.Fatal(err)
	}
	w.await(mark, sim.Ignored, func(e sim.Entry) bool { return strings.Contains(e.Error, "several frames") })
	for _, b := range []string{"hello", `{"type":"x"}`} {
		mark = w.Mark()
		if err := c.WriteMessage(websocket.TextMessage, []byte(b)); err != nil {
			t.Fatal(err)
		}
		w.await(mark, sim.Ignored)
	}
	mark = w.Mark()
	if err := c.WriteMessage(websocket.TextMessage, frame(20479)); err != nil {
		t.Fatal(err)
	}
	w.await(mark, sim.Acked)
	mark = w.Mark()
	c.ack(f, nil)
	w.await(mark, sim.Ignored, func(e sim.Entry) bool { return strings.Contains(e.Error, "no such envelope") })
}

func TestAcknowledgementOverAnotherSocketDoesNotCount(t *testing.T) {
	t.Parallel()
	w := open(t)
	a := w.dial()
	w.say("hi")
	f := a.next()
	b := w.dial()
	mark := w.Mark()
	b.ack(f, nil)
	w.await(mark, sim.Ignored)
	a.ack(f, nil)
	w.await(mark, sim.Acked)
}

func TestDisconnectReasons(t *testing.T) {
	t.Parallel()
	w := open(t)
	for _, r := range []sim.Reason{sim.Warning, sim.Refresh, sim.TooMany} {
		c := w.dial()
		w.Disconnect("", r)
		f := c.next()
		if f["type"] != "disconnect" || f["reason"] != string(r) {
			t.Errorf("frame %v, want %s", f, r)
		}
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, _, err := c.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			t.Errorf("%s ends with %v, want a close frame", r, err)
		}
	}
	w.Disconnect("", sim.LinkDisabled)
	for range 2 {
		if f := w.dialRaw("").next(); f["reason"] != "link_disabled" {
			t.Errorf("with Socket Mode off: %v", f)
		}
	}
	w.SetSocketMode("", true)
	w.dial()
}

func TestEleventhSocketIsSentAway(t *testing.T) {
	t.Parallel()
	w := open(t)
	for range 10 {
		w.dial()
	}
	if f := w.dialRaw("").next(); f["type"] != "disconnect" || f["reason"] != "too_many_websockets" {
		t.Errorf("frame %v", f)
	}
	if got := w.Sockets(""); got.Open != 10 || got.Most != 10 || got.Ever != 11 {
		t.Errorf("sockets %+v", got)
	}
}

func TestPingsAndTheCloseHandshake(t *testing.T) {
	t.Parallel()
	w := open(t, func(o *sim.Options, _ *sim.App) { o.Times.Ping = 5 * time.Millisecond })
	c := w.dial()
	pings := make(chan string, 100)
	pongs := make(chan string, 1)
	c.SetPingHandler(func(s string) error {
		select {
		case pings <- s:
		default:
		}
		_ = c.WriteControl(websocket.PongMessage, []byte(s), time.Now().Add(time.Second)) // one may come after the close frame
		return nil
	})
	c.SetPongHandler(func(s string) error { pongs <- s; return nil })
	closed := make(chan error, 1)
	go func() {
		for {
			if _, _, err := c.ReadMessage(); err != nil {
				closed <- err
				return
			}
		}
	}()
	<-pings
	<-pings
	if err := c.WriteControl(websocket.PingMessage, []byte("mine"), time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := <-pongs; got != "mine" {
		t.Errorf("pong %q", got)
	}
	mark := w.Mark()
	if err := c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""), time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; !websocket.IsCloseError(err, 1000) {
		t.Errorf("closing ends with %v", err)
	}
	w.await(mark, sim.Closed, func(e sim.Entry) bool { return strings.Contains(e.Error, "1000") })
}

func TestCutAndRefusedSockets(t *testing.T) {
	t.Parallel()
	w := open(t, func(o *sim.Options, _ *sim.App) { o.Times.Retry = []time.Duration{0} })
	c := w.dial()
	mark := w.Mark()
	w.say("hi")
	c.next() // not acknowledged
	spare := w.dial()
	if !w.CutOne("") {
		t.Fatal("nothing to cut")
	}
	if _, _, err := c.ReadMessage(); !websocket.IsUnexpectedCloseError(err) {
		t.Errorf("a cut reads as %v", err)
	}
	// What was on its way over the socket comes again over the other.
	if f := spare.take(); f["retry_attempt"] != 1.0 {
		t.Errorf("frame %v", f)
	}
	w.await(mark, sim.Acked)
	w.Cut("")
	w.RefuseSockets("", 1)
	link := str(w.callAs("apps.connections.open", app, nil), "url")
	_, res, err := websocket.DefaultDialer.DialContext(t.Context(), link, nil)
	if err == nil || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("refused socket: %v", err)
	}
	_ = res.Body.Close()
	w.dial()
}

func TestDebugReconnectsShortensTheLife(t *testing.T) {
	t.Parallel()
	w := open(t)
	c := w.dialRaw("&debug_reconnects=true")
	if got := dig(c.next(), "debug_info", "approximate_connection_time"); got != 360.0 {
		t.Errorf("approximate_connection_time %v, want 360", got)
	}
}
