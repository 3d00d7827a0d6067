package sim_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"switchboard/slack/sim"
)

// delivered is a request that reached the app.
type delivered struct {
	header http.Header
	body   string
}

// httpWorld is a workspace with an app in HTTP mode that answers as the test says.
func httpWorld(t *testing.T, answer http.HandlerFunc, change ...func(*sim.Options, *sim.App)) (*world, <-chan delivered) {
	t.Helper()
	got := make(chan delivered, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- delivered{r.Header.Clone(), string(b)}
		answer(rw, r)
	}))
	t.Cleanup(srv.Close)
	change = append([]func(*sim.Options, *sim.App){func(_ *sim.Options, a *sim.App) { a.EventsURL = srv.URL }}, change...)
	return open(t, change...), got
}

func TestHTTPDeliveryIsSigned(t *testing.T) {
	t.Parallel()
	w, got := httpWorld(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusOK) })
	mark := w.Mark()
	ts := w.say("hi")
	d := <-got
	at := d.header.Get("X-Slack-Request-Timestamp")
	if want := sim.Sign("shh", at, []byte(d.body)); d.header.Get("X-Slack-Signature") != want || at != "1780000000" {
		t.Errorf("signature %q at %q, want %q", d.header.Get("X-Slack-Signature"), at, want)
	}
	if d.header.Get("Content-Type") != "application/json" || d.header.Get("X-Slack-Retry-Num") != "" {
		t.Errorf("header %v", d.header)
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(d.body), &body); err != nil || str(body, "event", "ts") != ts {
		t.Errorf("body %s (%v)", d.body, err)
	}
	w.await(mark, sim.Acked)
	// Clicks and commands come as forms, whose type is exactly this: the SDK refuses another.
	post := w.buttons()
	<-got
	if _, err := w.Click(sim.Click{From: anas, Channel: hall, TS: post, Action: "pick"}); err != nil {
		t.Fatal(err)
	}
	if d = <-got; d.header.Get("Content-Type") != "application/x-www-form-urlencoded" || !strings.HasPrefix(d.body, "payload=") {
		t.Errorf("click: %v %s", d.header, d.body)
	}
	if _, err := w.Slash(sim.Command{From: anas, Channel: hall, Command: "/bot"}); err != nil {
		t.Fatal(err)
	}
	if d = <-got; !strings.Contains(d.body, "command=%2Fbot") {
		t.Errorf("command: %s", d.body)
	}
}

// TestSignIsSlacks checks the signature against the worked example of Slack's own page
// (https://docs.slack.dev/authentication/verifying-requests-from-slack).
func TestSignIsSlacks(t *testing.T) {
	t.Parallel()
	const body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&" +
		"user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2F" +
		"T1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
	const want = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
	if got := sim.Sign("8f742231b10e8888abcd99yyyzzz85a5", "1531420618", []byte(body)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestHTTPRetries(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	defer close(hang)
	for reason, answer := range map[string]http.HandlerFunc{
		"http_error": func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusBadGateway) },
		"too_many_redirects": func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "/again", http.StatusTemporaryRedirect)
		},
		"connection_failed": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"http_timeout": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		},
	} {
		w, got := httpWorld(t, answer, func(o *sim.Options, _ *sim.App) {
			o.Times.Ack, o.Times.Retry = 10*time.Second, []time.Duration{0, 0, 0}
			if reason == "http_timeout" {
				o.Times.Ack = 50 * time.Millisecond
			}
		})
		mark := w.Mark()
		w.say("hi")
		w.await(mark, sim.GivenUp)
		var nums []string
		last := ""
		for range len(got) {
			d := <-got
			num := d.header.Get("X-Slack-Retry-Num")
			if num != last || len(nums) == 0 { // redirects come several times
				nums = append(nums, num)
			}
			last = num
			if num != "" && d.header.Get("X-Slack-Retry-Reason") != reason {
				t.Errorf("%s: reason %q", reason, d.header.Get("X-Slack-Retry-Reason"))
			}
		}
		if g := strings.Join(nums, ","); g != ",1,2,3" {
			t.Errorf("%s: tries %q", reason, g)
		}
	}
}

func TestNoRetryHeaderEndsTheRetries(t *testing.T) {
	t.Parallel()
	w, got := httpWorld(t, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("X-Slack-No-Retry", "1")
		rw.WriteHeader(http.StatusServiceUnavailable)
	}, func(o *sim.Options, _ *sim.App) { o.Times.Retry = []time.Duration{0, 0} })
	mark := w.Mark()
	w.say("hi")
	w.await(mark, sim.GivenUp)
	if len(got) != 1 {
		t.Errorf("%d tries, want 1", len(got))
	}
}

func TestURLVerification(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(challenge string) string
		ok     bool
	}{
		"JSON":  {func(s string) string { return `{"challenge":"` + s + `"}` }, true},
		"text":  {func(s string) string { return s }, true},
		"wrong": {func(string) string { return `{"challenge":"x"}` }, false},
	} {
		w := open(t)
		srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			var body struct{ Type, Challenge string }
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Type != "url_verification" {
				t.Errorf("%+v %v", body, err)
			}
			_, _ = rw.Write([]byte(c.answer(body.Challenge)))
		}))
		a := w.app
		a.EventsURL = srv.URL
		w.AddApp(a)
		if err := w.Verify(t.Context(), ""); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		srv.Close()
	}
}
