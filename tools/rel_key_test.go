package tools_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"switchboard/config"
	"switchboard/tools"
)

// cashier is a payment provider that knows idempotency keys, as the draft of the IETF says: no key 400, a key that is at
// work 409, a key of another request 422, a key that is done its first answer again.
type cashier struct {
	mu      sync.Mutex
	charged int
	bodies  map[string]string // by key, as it came
	answers map[string]string // by key, once it is done; "500" is a failure that is kept
	after   string            // what a busy server says in Retry-After
	taken   bool              // a conflict that has nothing to do with keys

	begun chan struct{} // one request has charged and keeps its answer back
	hold  chan struct{} // until this is closed
}

func (c *cashier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	key := r.Header.Get("Idempotency-Key")
	code, text, wait := c.take(key, string(body))
	c.mu.Lock()
	after := c.after
	c.mu.Unlock()
	if wait {
		c.begun <- struct{}{}
		<-c.hold
		c.mu.Lock()
		c.answers[key] = text
		c.mu.Unlock()
	}
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusConflict && after != "" {
		w.Header().Set("Retry-After", after)
	}
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text)
}

func (c *cashier) take(key, body string) (code int, text string, wait bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, known := c.bodies[key]
	switch {
	case key == "":
		return 400, `{"error":"Idempotency-Key is missing"}`, false
	case c.taken:
		return 409, `{"error":"court 3 is taken"}`, false
	case known && first != body:
		return 422, fmt.Sprintf(`{"error":"%s was used for another request"}`, key), false
	case known && c.answers[key] == "":
		return 409, fmt.Sprintf(`{"error":"%s is in progress"}`, key), false
	case known && c.answers[key] == "500":
		return 500, `{"error":"it broke"}`, false
	case known:
		return 200, c.answers[key], false
	}
	c.bodies[key] = body
	c.charged++
	if strings.Contains(body, `"broken"`) {
		c.answers[key] = "500"
		return 500, `{"error":"it broke"}`, false
	}
	text = fmt.Sprintf(`{"charge":%d}`, c.charged)
	if c.hold != nil {
		return 200, text, true
	}
	c.answers[key] = text
	return 200, text, false
}

func (c *cashier) charges() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.charged
}

// charge is a keyed tool and its provider.
func charge(t *testing.T, c *cashier) tools.Tool {
	t.Helper()
	c.bodies, c.answers = map[string]string{}, map[string]string{}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	k := contract("POST", "/charges")
	k.Idempotency = &config.Idempotency{Header: "Idempotency-Key", ProviderKeeps: 24 * time.Hour}
	return build(t, k, s.URL)
}

func paying(amount any) tools.Input {
	return tools.Input{Args: map[string]any{"amount": amount}, Bound: map[string]string{"org": "org_7"}, Key: "key-canary-1"}
}

func TestRel_E05_ATimeoutAfterTheDeedChargesOnce(t *testing.T) {
	t.Parallel()
	provider := &cashier{begun: make(chan struct{}, 1), hold: make(chan struct{})}
	tool := charge(t, provider)
	ctx, giveUp := context.WithTimeout(t.Context(), time.Minute)
	result := make(chan error, 1)
	go func() {
		_, err := tool.Run(ctx, paying(int64(7)))
		result <- err
	}()
	<-provider.begun // it has charged, and nobody was told
	// The same key while the first is at work.
	for after, want := range map[string]time.Duration{"": time.Second, "0": time.Second, "7": 7 * time.Second} {
		provider.mu.Lock()
		provider.after = after
		provider.mu.Unlock()
		_, err := tool.Run(t.Context(), paying(int64(7)))
		f := faultOf(t, err)
		if f.Kind != tools.Conflict || !f.Transient || !f.Maybe || f.Wait != want || f.Status != 409 {
			t.Errorf("Retry-After %q: %+v", after, f)
		}
		if strings.Contains(f.Detail, "canary") || !strings.Contains(f.Detail, "is in progress") {
			t.Errorf("detail: %s", f.Detail)
		}
	}
	giveUp()
	if f := faultOf(t, <-result); !f.Maybe {
		t.Errorf("the first attempt: %+v", f)
	}
	close(provider.hold)
	done := make(chan struct{})
	go func() { // the answer is kept as soon as the provider's own work ends
		defer close(done)
		for {
			out, err := tool.Run(t.Context(), paying(int64(7)))
			if err == nil {
				if v, ok := out.Value.(map[string]any); !ok || v["charge"] != int64(1) {
					t.Errorf("the answer is not the first one: %v", out.Value)
				}
				return
			}
			if f, ok := err.(*tools.Fault); !ok || f.Status != 409 { //nolint:errorlint // it is not wrapped
				t.Error(err)
				return
			}
		}
	}()
	<-done
	if n := provider.charges(); n != 1 {
		t.Errorf("charged %d times", n)
	}
}

func TestRel_E06_AUsedKeyIsNeverTriedAgain(t *testing.T) {
	t.Parallel()
	provider := &cashier{}
	tool := charge(t, provider)
	if _, err := tool.Run(t.Context(), paying(int64(7))); err != nil {
		t.Fatal(err)
	}
	_, err := tool.Run(t.Context(), paying(int64(8)))
	f := faultOf(t, err)
	if f.Kind != tools.Conflict || f.Transient || !f.Maybe || f.Status != 422 || strings.Contains(f.Detail, "canary") || !strings.Contains(f.Detail, "same key") {
		t.Errorf("%+v", f)
	}
	if fresh := tools.Fresh(f); fresh.Kind != tools.Rejected || fresh.Transient || fresh.Maybe || fresh.Status != 422 || strings.Contains(fresh.Detail, "canary") {
		t.Errorf("fresh: %+v", fresh)
	}
	in := paying(int64(9))
	in.Key = ""
	_, err = tool.Run(t.Context(), in)
	if f := faultOf(t, err); f.Kind != tools.Rejected || f.Transient || f.Maybe || f.Status != 400 {
		t.Errorf("without a key: %+v", f)
	}
	if n := provider.charges(); n != 1 {
		t.Errorf("charged %d times", n)
	}
}

// A 409 on the first attempt of all has nothing to do with the key.
func TestRel_E06_AConflictOfTheFirstAttemptIsARefusal(t *testing.T) {
	t.Parallel()
	tool := charge(t, &cashier{taken: true})
	_, err := tool.Run(t.Context(), paying(int64(7)))
	f := faultOf(t, err)
	if !f.Maybe || !f.Transient || !strings.Contains(f.Detail, "court 3 is taken") {
		t.Errorf("%+v", f)
	}
	fresh := tools.Fresh(f)
	if fresh.Kind != tools.Conflict || fresh.Maybe || fresh.Transient || fresh.Wait != 0 || fresh.Detail != "This conflicts with what is already there: court 3 is taken." {
		t.Errorf("fresh: %+v", fresh)
	}
	if tools.Fresh(fresh) != fresh {
		t.Error("a fault that is no doubt was changed")
	}
}

func TestRel_E06_AReplayedFailureIsFinal(t *testing.T) {
	t.Parallel()
	provider := &cashier{}
	tool := charge(t, provider)
	for range 2 {
		_, err := tool.Run(t.Context(), paying("broken"))
		if f := faultOf(t, err); f.Kind != tools.Unavailable || f.Transient || !f.Maybe || f.Status != 500 || tools.Fresh(f) != f {
			t.Errorf("%+v", f)
		}
	}
	if n := provider.charges(); n != 1 {
		t.Errorf("charged %d times", n)
	}
}

func TestRel_E06_StatusesUnderAKey(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]struct {
		transient, maybe bool
	}{
		307: {false, true},
		400: {false, false}, 401: {false, false}, 402: {false, false}, 403: {false, false}, 404: {false, false}, 408: {true, false}, 410: {false, false},
		409: {true, true}, 422: {false, true}, 429: {true, false},
		500: {false, true}, 501: {false, true}, 502: {true, true}, 503: {true, true}, 504: {true, true}, 507: {false, true},
	} {
		base, _ := recorder(t, status(code, "application/json", `{"error":"no"}`))
		c := contract("POST", "/x")
		c.Idempotency = &config.Idempotency{Header: "Idempotency-Key"}
		_, err := build(t, c, base).Run(t.Context(), tools.Input{Key: "k1"})
		if f := faultOf(t, err); f.Transient != want.transient || f.Maybe != want.maybe {
			t.Errorf("%d: %+v", code, f)
		}
		c.Effect = config.NoEffect // a read does nothing, whatever goes with it
		_, err = build(t, c, base).Run(t.Context(), tools.Input{Key: "k1"})
		if f := faultOf(t, err); f.Maybe {
			t.Errorf("read, %d: %+v", code, f)
		}
	}
}

// An attempt is one request, also where a kept connection breaks under it and the transport would send it again.
func TestRel_E10_AnAttemptIsOneRequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method string
		key    bool
	}{{"GET", false}, {"GET", true}, {"DELETE", false}, {"DELETE", true}, {"POST", false}, {"POST", true}} {
		base, got := fickle(t)
		k := contract(c.method, "/x")
		k.Effect = config.Write
		in := tools.Input{}
		if c.key {
			k.Idempotency, in.Key = &config.Idempotency{Header: "Idempotency-Key"}, "k1"
		}
		tool := build(t, k, base)
		if _, err := tool.Run(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if r := <-got; r.Method != c.method || r.ContentLength > 0 && c.method != "POST" || len(r.TransferEncoding) > 0 || r.Header.Get("Content-Length") != "" && c.method != "POST" {
			t.Errorf("%+v: the request is odd: %+v", c, r)
		}
		_, err := tool.Run(t.Context(), in)
		if f := faultOf(t, err); f.Kind != tools.Network || !f.Maybe || !f.Transient {
			t.Errorf("%+v: %+v", c, f)
		}
		<-got
		if len(got) > 0 {
			t.Errorf("%+v: sent again", c)
		}
	}
}

// The same requests over HTTP/2, which frames bodies in its own way.
func TestRel_E10_AnAttemptIsOneRequestOverHTTP2(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- fmt.Sprint(r.ProtoMajor, r.Method, tools.Prepared{Method: r.Method, Target: r.RequestURI, Body: body}.Digest())
		sends("application/json", "1")(w, r)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	for _, method := range []string{"GET", "DELETE", "POST"} {
		c := contract(method, "/rows/{id}")
		c.Effect, c.Idempotency = config.Write, &config.Idempotency{Header: "Idempotency-Key"}
		tool, err := tools.NewHTTP(c, environ(s.URL), s.Client())
		if err != nil {
			t.Fatal(err)
		}
		in := tools.Input{Args: map[string]any{"id": "a/b", "q": "c d"}, Key: "k1"}
		for range 2 {
			if _, err := tool.Run(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if r, want := <-got, fmt.Sprint(2, method, prepare(t, tool, in).Digest()); r != want {
				t.Errorf("got %s, want %s", r, want)
			}
		}
	}
}

// fickle answers the first request of each connection and hangs up on the second, when it has read it.
func fickle(t *testing.T) (string, chan *http.Request) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan *http.Request, 10)
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			all.Go(func() {
				defer func() { _ = conn.Close() }()
				in := bufio.NewReader(conn)
				for n := range 2 {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					got <- r
					if n == 0 {
						_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n1")
					}
				}
			})
		}
	})
	return "http://" + l.Addr().String(), got
}
