package slack

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"switchboard/slack/sim"
)

// sign signs a body as Slack does.
func sign(secret, body string, at time.Time) (stamp, signature string) {
	stamp = fmt.Sprint(at.Unix())
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("v0:" + stamp + ":" + body))
	return stamp, "v0=" + hex.EncodeToString(mac.Sum(nil))
}

func TestM5_OnlySignedRequests(t *testing.T) {
	t.Parallel()
	h := build(t, plan{web: true})
	secret, now := h.app.SigningSecret, h.clock.now()
	mention := `{"type":"event_callback","team_id":"T0SIM","event":{"type":"app_mention","channel":"C0FRONT","user":"U0ANA","text":"<@U0BOT> x","ts":"1700000000.000100"}}`
	challenge := `{"type":"url_verification","challenge":"abc"}`
	for _, c := range []struct {
		name, body string
		secret     string
		at         time.Time
		form       string // Content-Type, "" is JSON
		want       int
	}{
		{"signed", mention, secret, now, "", 200},
		{"with a character set", mention, secret, now, "application/json; charset=utf-8", 200},
		{"signed with another secret", mention, "some-other-secret-here", now, "", 401},
		{"old", mention, secret, now.Add(-6 * time.Minute), "", 401},
		{"from the future", mention, secret, now.Add(6 * time.Minute), "", 401},
		{"a little off", mention, secret, now.Add(4 * time.Minute), "", 200},
		{"the challenge", challenge, secret, now, "", 200},
		{"the challenge of a stranger", challenge, "some-other-secret-here", now, "", 401},
		{"a certificate check", "ssl_check=1&token=x", "unsigned, no matter", now, "application/x-www-form-urlencoded", 200},
		{"a form of nobody", "a=b", secret, now, "application/x-www-form-urlencoded", 400},
		{"a form with a character set", "payload=" + url.QueryEscape(`{"type":"view_closed","user":{"id":"U0ANA"}}`), secret, now, "application/x-www-form-urlencoded; charset=utf-8", 200},
		{"text", mention, secret, now, "text/plain", 400},
		{"too large", strings.Repeat(" ", biggestBody) + mention, secret, now, "", 413},
		{"nonsense", "{", secret, now, "", 200}, // it would be no better the next time
	} {
		stamp, signature := sign(c.secret, c.body, c.at)
		got, body := h.request(t, c.form, c.body, [2]string{stamp, signature})
		if got != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, got, body, c.want)
		}
		if c.name == "the challenge" && strings.TrimSpace(body) != `{"challenge":"abc"}` {
			t.Errorf("challenge answered %q", body)
		}
	}
	for _, stamp := range []string{"", "soon", "99999999999999999999"} {
		_, signature := sign(secret, mention, now)
		if got, _ := h.request(t, "", mention, [2]string{stamp, signature}); got != 401 {
			t.Errorf("time %q: %d", stamp, got)
		}
	}
	if got := h.take(); len(got) != 1 {
		t.Errorf("accepted %d messages", len(got))
	}
	if err := h.w.Verify(t.Context(), ""); err != nil {
		t.Error(err)
	}
}

func (h *house) request(t *testing.T, media, body string, signed [2]string) (status int, answer string) {
	t.Helper()
	if media == "" {
		media = "application/json"
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/slack/events", strings.NewReader(body))
	r.Header.Set("Content-Type", media)
	r.Header.Set("X-Slack-Request-Timestamp", signed[0])
	r.Header.Set("X-Slack-Signature", signed[1])
	w := httptest.NewRecorder()
	h.slack.Handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// Only what is stored is acknowledged, in both modes; a repeated delivery is one like any other.
func TestD1_StoredBeforeAcknowledged(t *testing.T) {
	t.Parallel()
	for _, web := range []bool{false, true} {
		t.Run(fmt.Sprint("web=", web), func(t *testing.T) {
			t.Parallel()
			h := build(t, plan{web: web, sim: sim.Options{Times: sim.Times{Ack: 300 * time.Millisecond, Retry: []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond}}}})
			fails := 2
			h.desk.write(func() {
				h.desk.gate = func(context.Context) error {
					h.desk.mu.Lock()
					defer h.desk.mu.Unlock()
					if fails--; fails >= 0 {
						return errors.New("the disk is full")
					}
					return nil
				}
			})
			ts := h.say(t, sim.Say{From: ana, Channel: h.dm(t, ana), Text: "hello"})
			h.settled(t)
			if got := h.take(); len(got) != 1 || got[0].ID != ts {
				t.Errorf("accepted %+v", got)
			}
			missed := 0
			for _, e := range h.w.Log() {
				if e.What == sim.Missed {
					missed++
				}
			}
			if missed != 2 {
				t.Errorf("%d tries went without an acknowledgement, want 2", missed)
			}
		})
	}
}

// A slow store makes acknowledgements late; nothing is lost, and the order within a channel stays.
func TestD2_SlowStore(t *testing.T) {
	t.Parallel()
	h := build(t, plan{sim: sim.Options{Times: sim.Times{Ack: 50 * time.Millisecond, Ping: 20 * time.Millisecond, Retry: []time.Duration{0, 10 * time.Millisecond}}}, quiet: 200 * time.Millisecond})
	open := make(chan struct{})
	h.desk.write(func() {
		h.desk.gate = func(ctx context.Context) error {
			select {
			case <-open:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	d := h.dm(t, ana)
	var want []string
	for i := range 20 {
		want = append(want, h.say(t, sim.Say{From: ana, Channel: d, Text: fmt.Sprint("message ", i)}))
	}
	mark := h.w.Mark()
	if _, err := h.w.Await(t.Context(), mark, func(e sim.Entry) bool { return e.What == sim.GivenUp }); err != nil {
		t.Fatal(err)
	}
	if n := h.w.Sockets("").Open; n != 1 {
		t.Errorf("%d sockets are open: the slow store has cost the connection", n)
	}
	close(open)
	h.desk.until(t, "all messages are stored", func() bool { return len(h.desk.accepted) == 20 })
	var got []string
	for _, m := range h.take() {
		got = append(got, m.ID)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("order\n got %v\nwant %v", got, want)
	}
}

// A fault in dealing with one delivery does not end the process, nor the others.
func TestPanicInAStore(t *testing.T) {
	t.Parallel()
	h := build(t, plan{web: true})
	h.desk.write(func() { h.desk.gate = func(context.Context) error { panic("out of order") } })
	body := `{"type":"event_callback","team_id":"T0SIM","event":{"type":"app_mention","channel":"C0FRONT","user":"U0ANA","text":"<@U0BOT> x","ts":"1700000000.000100"}}`
	stamp, signature := sign(h.app.SigningSecret, body, h.clock.now())
	if got, _ := h.request(t, "", body, [2]string{stamp, signature}); got != http.StatusServiceUnavailable {
		t.Error("status", got)
	}
	h.desk.write(func() { h.desk.gate = nil })
	if got, _ := h.request(t, "", body, [2]string{stamp, signature}); got != http.StatusOK {
		t.Error("status", got)
	}
}

// Whoever cannot sign takes no room away from Slack: requests that only begin do not count.
func TestM5_StrangersTakeNoRoom(t *testing.T) {
	t.Parallel()
	h := build(t, plan{web: true})
	server := httptest.NewServer(h.slack.Handler())
	defer server.Close()
	for range atOnce + 1 {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(server.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_, err = fmt.Fprint(c, "POST /slack/events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(c).ReadString('\n'); err != nil { // 100 Continue: the body is waited for
			t.Fatal(err)
		}
	}
	body := `{"type":"event_callback","team_id":"T0SIM","event":{"type":"app_mention","channel":"C0FRONT","user":"U0ANA","text":"<@U0BOT> x","ts":"1700000000.000100"}}`
	stamp, signature := sign(h.app.SigningSecret, body, h.clock.now())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/slack/events", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "X-Slack-Request-Timestamp": {stamp}, "X-Slack-Signature": {signature}}
	a, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Body.Close()
	if a.StatusCode != http.StatusOK {
		t.Error("Slack's own request:", a.Status)
	}
}

// A body that does not come is not waited for.
func TestD2_ABodyHasItsTime(t *testing.T) {
	t.Parallel()
	h := build(t, plan{web: true})
	server := httptest.NewServer(h.slack.Handler())
	defer server.Close()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err = fmt.Fprint(c, "POST /slack/events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(3 * bodyTime))
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "413") {
		t.Errorf("%q, %v", line, err)
	}
}

// Both modes take one way in: what comes first is stored first, also where the first is slow to be stored.
func TestD2_HTTPKeepsTheOrder(t *testing.T) {
	t.Parallel()
	h := build(t, plan{web: true})
	first, entered := make(chan struct{}), make(chan struct{}, 10)
	h.desk.write(func() {
		n := 0
		h.desk.gate = func(ctx context.Context) error {
			h.desk.mu.Lock()
			n++
			slow := n == 1
			h.desk.mu.Unlock()
			entered <- struct{}{}
			if slow {
				select {
				case <-first:
				case <-ctx.Done():
				}
			}
			return nil
		}
	})
	d := h.dm(t, ana)
	answered := make(chan int, 2)
	ask := func(n int) (taken func() bool) {
		body := fmt.Sprintf(`{"type":"event_callback","team_id":"T0SIM","event":{"type":"message","channel_type":"im","channel":%q,"user":"U0ANA","text":"message %d","ts":"1700000000.00010%d"}}`, d, n, n)
		stamp, signature := sign(h.app.SigningSecret, body, h.clock.now())
		number := maphash.String(h.slack.intake.seed, d) % lanes
		go func() {
			status, _ := h.request(t, "", body, [2]string{stamp, signature})
			answered <- status
		}()
		return func() bool { return len(h.slack.intake.lanes[number]) > 0 }
	}
	ask(1)
	<-entered
	for taken := ask(2); !taken() && len(answered) == 0; { // it stands behind the first one in its lane
		runtime.Gosched()
	}
	close(first)
	for range 2 {
		if status := <-answered; status != http.StatusOK {
			t.Error("status", status)
		}
	}
	if got := h.take(); len(got) != 2 || got[0].Text != "message 1" || got[1].Text != "message 2" {
		t.Errorf("accepted %+v", got)
	}
}

// Ready means that events come in and can be answered.
func TestReadyNeedsAToken(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	<-h.slack.Connected() // else it is not ready for that reason
	lift := h.w.Fail(sim.Fault{Method: "users.info", Do: sim.Refuse, Error: "token_revoked", Times: -1})
	_, _ = h.slack.user(t.Context(), ana, false)
	if got := h.slack.Health(); got.Ready || !got.Live || !strings.Contains(got.Reason, "token_revoked") {
		t.Errorf("health with a token that Slack refuses: %+v", got)
	}
	lift()
	_, _ = h.slack.user(t.Context(), mia, false)
	if got := h.slack.Health(); !got.Ready {
		t.Errorf("health with a token that works: %+v", got)
	}
	h.w.Fail(sim.Fault{Method: "users.info", Do: sim.Refuse, Error: "missing_scope"})
	_, _ = h.slack.user(t.Context(), gus, false)
	if got := h.slack.Health(); !got.Ready {
		t.Errorf("health where one scope is missing: %+v", got)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	good := Options{BotToken: "xoxb-1", AppToken: "xapp-1", Settings: noSettings, Bot: noBot{}, Judge: noJudge{}, Desk: noDesk{}, Now: time.Now, Wait: (&clock{}).wait}
	for name, c := range map[string]struct {
		change func(*Options)
		want   string // in the error; "" is none
	}{
		"socket mode":      {func(*Options) {}, ""},
		"HTTP mode":        {func(o *Options) { o.AppToken, o.SigningSecret = "", "0123456789abcdef0123" }, ""},
		"no token":         {func(o *Options) { o.BotToken = "" }, "bot token must begin with xoxb-"},
		"user token":       {func(o *Options) { o.BotToken = "xoxp-1" }, "bot token must begin with xoxb-"},
		"neither":          {func(o *Options) { o.AppToken = "" }, "neither an app token"},
		"swapped":          {func(o *Options) { o.BotToken, o.AppToken = o.AppToken, o.BotToken }, "app token must begin with xapp-"},
		"short secret":     {func(o *Options) { o.AppToken, o.SigningSecret = "", "short" }, "signing secret is too short"},
		"address":          {func(o *Options) { o.APIURL = "http://127.0.0.1/api" }, "must be a whole URL that ends in a slash"},
		"nobody behind it": {func(o *Options) { o.Bot = nil }, "must all be given"},
	} {
		o := good
		c.change(&o)
		_, err := New(o)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// slackOf answers every method with the same thing.
func slackOf(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(server.Close)
	return server.URL + "/api/"
}

func TestFatalCauses(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"invalid_auth", "account_inactive", "token_revoked", "not_allowed_token_type", "missing_scope", "link_disabled"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			h := build(t, plan{})
			h.w.Fail(sim.Fault{Method: "apps.connections.open", Do: sim.Refuse, Error: code, Times: -1})
			h.w.Cut("")
			err := <-h.slack.Fatal()
			if !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), code) {
				t.Error(err)
			}
			got := h.slack.Health()
			if !got.Live || got.Ready || got.Reason != err.Error() {
				t.Errorf("health %+v", got)
			}
			calls := 0
			for _, e := range h.w.Log() {
				if e.Method == "apps.connections.open" {
					calls++
				}
			}
			if calls > 3 {
				t.Errorf("%d calls", calls)
			}
		})
	}
	t.Run("no API there", func(t *testing.T) {
		t.Parallel()
		address := slackOf(t, http.NotFound)
		s, err := New(Options{BotToken: "xoxb-1", AppToken: "xapp-1", APIURL: address, Settings: noSettings, Bot: noBot{}, Judge: noJudge{}, Desk: noDesk{}, Now: time.Now, Wait: (&clock{}).wait})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context()); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "404") {
			t.Error(err)
		}
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestRevoked(t *testing.T) {
	t.Parallel()
	for event, want := range map[string]bool{
		`{"type":"app_uninstalled"}`: true, `{"type":"tokens_revoked","tokens":{"oauth":[],"bot":["U0BOT"]}}`: true,
		`{"type":"tokens_revoked","tokens":{"oauth":["U0ANA"],"bot":[]}}`: false,
	} {
		h := build(t, plan{})
		if err := h.w.Emit("", json.RawMessage(event)); err != nil {
			t.Fatal(err)
		}
		h.settled(t)
		if got := h.slack.Health().Ready; got == want {
			t.Errorf("%s: ready %v", event, got)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	h := build(t, plan{idle: true, app: func(a *sim.App) {
		a.Scopes = strings.Fields("app_mentions:read chat:write im:history im:read channels:history channels:read groups:history groups:read users:read")
	}})
	o := h.slack.o
	r, err := Check(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var missing, optional []string
	for _, l := range r.Lines {
		if !l.OK && l.Next == "" {
			t.Errorf("nothing to do about %+v", l)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(l.What, "scope "), ",")
		switch {
		case !l.OK && l.Optional:
			optional = append(optional, name)
		case !l.OK:
			missing = append(missing, name)
		}
	}
	if r.OK() || strings.Join(missing, " ") != "im:write" || len(optional) != 7 {
		t.Errorf("missing %v, optional %v", missing, optional)
	}
	for name, change := range map[string]func(*Options){
		"the bot token is valid":         func(o *Options) { o.BotToken = "xoxb-wrong" },
		"the app token opens a socket":   func(o *Options) { o.AppToken = "xapp-wrong" },
		"the tokens have the right form": func(o *Options) { o.AppToken = "wrong" },
	} {
		o := h.slack.o
		change(&o)
		r, err := Check(t.Context(), o)
		last := r.Lines[len(r.Lines)-1]
		if err != nil || r.OK() || last.OK || last.What != name || last.Next == "" {
			t.Errorf("%s: %v %+v", name, err, last)
		}
	}
	if _, err := Check(t.Context(), func() Options { o := o; o.APIURL = "http://127.0.0.1:1/api/"; return o }()); err == nil {
		t.Error("no error without Slack")
	}
	if got := h.w.Sockets("").Ever; got != 0 {
		t.Errorf("the check has opened %d sockets", got)
	}
}
