package sim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"switchboard/slack/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	bot  = "xoxb-test"
	app  = "xapp-test"
	bobs = "U0BOB"
	anas = "U0ANA"
	hall = "C0HALL"
)

// clock is a clock that a test moves.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Unix(1_780_000_000, 0)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// world is a served workspace with an app, two people and a channel that they are all in.
type world struct {
	*sim.Workspace
	t     *testing.T
	s     *sim.Server
	clock *clock
	app   sim.App
}

// open starts one. change may alter its options and its app.
func open(t *testing.T, change ...func(*sim.Options, *sim.App)) *world {
	t.Helper()
	c := newClock()
	o := sim.Options{Seed: 7, Now: c.now, Times: sim.Times{Ack: time.Second, Retry: []time.Duration{}, Cut: 10 * time.Millisecond}}
	a := sim.App{ID: "A0BOT", Name: "switchboard", User: "U0BOT", Bot: "B0BOT", BotToken: bot, AppToken: app, SigningSecret: "shh", AgentView: true}
	for _, f := range change {
		f(&o, &a)
	}
	w := sim.New(o)
	s, err := sim.Start(t.Context(), w, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	w.AddPerson(sim.Person{ID: anas, Name: "ana"})
	w.AddPerson(sim.Person{ID: bobs, Name: "bob"})
	a = w.AddApp(a)
	w.AddChannel(sim.Channel{ID: hall, Name: "hall", Members: []string{anas, bobs, a.User}})
	return &world{Workspace: w, t: t, s: s, clock: c, app: a}
}

// args are those of a call.
type args map[string]any

// form writes them as a form: structures as JSON.
func (a args) form() url.Values {
	out := url.Values{}
	for k, v := range a {
		if s, ok := v.(string); ok {
			out.Set(k, s)
			continue
		}
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		out.Set(k, string(b))
	}
	return out
}

// request makes a call and gives the answer as it came.
func (w *world) request(method, token string, a args) (*answered, []byte, error) {
	return w.requestFrom(w.t.Context(), method, token, a)
}

func (w *world) requestFrom(ctx context.Context, method, token string, a args) (*answered, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.s.APIURL()+method, strings.NewReader(a.form().Encode()))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return do(req)
}

// answered is what is looked at of an answer beside its body.
type answered struct {
	StatusCode int
	Header     http.Header
}

// do makes a request on a connection of its own, which leaves nothing behind.
func do(req *http.Request) (*answered, []byte, error) {
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	return &answered{res.StatusCode, res.Header}, b, err
}

// call makes a call with the bot's token and gives the answer's fields.
func (w *world) call(method string, a args) map[string]any {
	w.t.Helper()
	return w.callAs(method, bot, a)
}

func (w *world) callAs(method, token string, a args) map[string]any {
	w.t.Helper()
	res, b, err := w.request(method, token, a)
	if err != nil {
		w.t.Fatalf("%s: %v", method, err)
	}
	if res.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: status %d: %s", method, res.StatusCode, b)
	}
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		w.t.Fatalf("%s: %v: %s", method, err, b)
	}
	return out
}

func decoded(tb testing.TB, b []byte) map[string]any {
	tb.Helper()
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		tb.Fatalf("%v: %s", err, b)
	}
	return out
}

// ok makes a call that must go well.
func (w *world) ok(method string, a args) map[string]any {
	w.t.Helper()
	out := w.call(method, a)
	if out["ok"] != true {
		w.t.Fatalf("%s %v: %v", method, a, out)
	}
	return out
}

// refused makes a call that must be refused with an error.
func (w *world) refused(want, method string, a args) {
	w.t.Helper()
	out := w.call(method, a)
	if out["ok"] != false || out["error"] != want {
		w.t.Errorf("%s %.300v: got %v %v, want the error %s", method, a, out["ok"], out["error"], want)
	}
}

// post posts a text to the hall and gives its ts.
func (w *world) post(text string) string {
	w.t.Helper()
	return str(w.ok("chat.postMessage", args{"channel": hall, "text": text}), "ts")
}

// say lets somebody say something in the hall.
func (w *world) say(text string) string {
	w.t.Helper()
	ts, err := w.Say(sim.Say{From: anas, Channel: hall, Text: text})
	if err != nil {
		w.t.Fatal(err)
	}
	return ts
}

// str digs a text out of an answer.
func str(v any, path ...string) string {
	s, _ := dig(v, path...).(string)
	return s
}

func dig(v any, path ...string) any {
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

// await waits for an entry of the log.
func (w *world) await(from int, what sim.What, more ...func(sim.Entry) bool) sim.Entry {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	e, err := w.Await(ctx, from, func(e sim.Entry) bool {
		if e.What != what {
			return false
		}
		for _, f := range more {
			if !f(e) {
				return false
			}
		}
		return true
	})
	if err != nil {
		w.t.Fatalf("wait for %s: %v", what, err)
	}
	return e
}

// client is the other end of a socket.
type client struct {
	*websocket.Conn
	t     *testing.T
	hello map[string]any
}

// dial opens a socket and reads the hello.
func (w *world) dial() *client {
	w.t.Helper()
	c := w.dialRaw("")
	c.hello = c.next()
	if c.hello["type"] != "hello" {
		w.t.Fatalf("first frame is %v, want hello", c.hello)
	}
	return c
}

// dialRaw opens a socket and reads nothing.
func (w *world) dialRaw(more string) *client {
	w.t.Helper()
	out := w.callAs("apps.connections.open", app, nil)
	if out["ok"] != true {
		w.t.Fatalf("apps.connections.open: %v", out)
	}
	d := websocket.Dialer{WriteBufferSize: 65536}
	conn, res, err := d.DialContext(w.t.Context(), str(out, "url")+more, http.Header{"Origin": {"https://api.slack.com"}})
	if err != nil {
		w.t.Fatalf("dial: %v", err)
	}
	_ = res.Body.Close()
	w.t.Cleanup(func() { _ = conn.Close() })
	return &client{Conn: conn, t: w.t}
}

// next reads a frame.
func (c *client) next() map[string]any {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, b, err := c.ReadMessage()
	if err != nil {
		c.t.Fatalf("read frame: %v", err)
	}
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		c.t.Fatalf("frame %s: %v", b, err)
	}
	return out
}

// ack acknowledges an envelope, with a payload if there is one.
func (c *client) ack(frame map[string]any, payload any) {
	c.t.Helper()
	out := map[string]any{"envelope_id": frame["envelope_id"]}
	if payload != nil {
		out["payload"] = payload
	}
	if err := c.WriteJSON(out); err != nil {
		c.t.Fatalf("ack: %v", err)
	}
}

// take reads a frame and acknowledges it.
func (c *client) take() map[string]any {
	c.t.Helper()
	f := c.next()
	c.ack(f, nil)
	return f
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }

func texts(n int, block any) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = block
	}
	return out
}

// postJSON posts a body and gives the answer.
func (w *world) postJSON(to string, body any, header ...string) (*answered, []byte) {
	w.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, to, bytes.NewReader(b))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	res, got, err := do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	return res, got
}
