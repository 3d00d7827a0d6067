package sim_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"switchboard/slack/sim"
)

func TestControlActsAndState(t *testing.T) {
	t.Parallel()
	w := open(t)
	act := func(body args, want int) map[string]any {
		t.Helper()
		res, b := w.postJSON(w.s.URL()+"/sim/do", body)
		if res.StatusCode != want {
			t.Fatalf("%v: status %d: %s", body, res.StatusCode, b)
		}
		var out map[string]any
		if err := json.Unmarshal(b, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	ts := str(act(args{"act": "say", "from": anas, "channel": hall, "text": "a < b", "typed": true}, 200), "ts")
	act(args{"act": "edit", "from": anas, "channel": hall, "ts": ts, "text": "a > b"}, 200)
	act(args{"act": "say", "from": bobs, "channel": hall, "thread": ts, "text": "reply"}, 200)
	act(args{"act": "react", "from": bobs, "channel": hall, "ts": ts, "name": "eyes"}, 200)
	act(args{"act": "limits", "on": true}, 200)
	act(args{"act": "fault", "method": "chat.update", "do": "500"}, 200)
	act(args{"act": "fly"}, 422)
	act(args{"act": "say", "from": "U0NONE", "channel": hall, "text": "x"}, 422)
	act(args{"act": "say", "from": 3}, 422)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.s.URL()+"/sim/state", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, b, err := do(req)
	if err != nil {
		t.Fatal(err)
	}
	var s sim.State
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	if m := s.Messages[hall]; len(m) != 2 || m[0].Text != "a &gt; b" || m[0].Replies != 1 || m[0].Reactions[0].Name != "eyes" || m[1].Thread != ts {
		t.Errorf("messages %+v", m)
	}
	if !s.Limits || len(s.Faults) != 1 || s.Last != w.Mark() || len(s.Apps) != 1 || len(s.People) != 3 {
		t.Errorf("state %+v", s)
	}
	if strings.Contains(string(b), bot) || strings.Contains(string(b), "shh") {
		t.Error("the state tells secrets")
	}
}

func TestControlLogGoesOnAfterTheLastEventID(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.say("one")
	mark := w.Mark()
	w.say("two")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.s.URL()+"/sim/log?from=0", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Last-Event-ID", itoa(mark))
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewScanner(res.Body)
	next := func() sim.Entry {
		t.Helper()
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var e sim.Entry
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					t.Fatal(err)
				}
				if e.What == sim.Said {
					return e
				}
			}
		}
		t.Fatal("the log ended")
		return sim.Entry{}
	}
	if e := next(); e.Text != "two" {
		t.Errorf("first entry %+v", e)
	}
	w.say("three")
	if e := next(); e.Text != "three" {
		t.Errorf("next entry %+v", e)
	}
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

func TestForeignHostsAndOriginsAreRefused(t *testing.T) {
	t.Parallel()
	w := open(t, func(o *sim.Options, _ *sim.App) { o.Hosts = []string{"sim.internal"} })
	say := args{"act": "say", "from": anas, "channel": hall, "text": "x"}
	for _, c := range []struct {
		header []string
		want   int
	}{
		{nil, 200},
		{[]string{"Host", "evil.example"}, 421},
		{[]string{"Host", "127.0.0.1.evil.example:80"}, 421},
		{[]string{"Host", "sim.internal:80"}, 200},
		{[]string{"Host", "localhost:1"}, 200},
		{[]string{"Host", "[::1]:1"}, 200},
		{[]string{"Origin", "https://evil.example"}, 403},
		{[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		{[]string{"Sec-Fetch-Site", "same-origin"}, 200},
	} {
		if res, b := w.postJSON(w.s.URL()+"/sim/do", say, c.header...); res.StatusCode != c.want {
			t.Errorf("%v: status %d, want %d: %s", c.header, res.StatusCode, c.want, b)
		}
	}
}

func TestLogKeepsTheNewest(t *testing.T) {
	t.Parallel()
	w := open(t, func(o *sim.Options, _ *sim.App) { o.Keep = 20 })
	for range 100 {
		w.say("x")
	}
	all := w.Log()
	if len(all) > 50 || all[len(all)-1].N != w.Mark() || all[0].N != w.Mark()-len(all)+1 {
		t.Errorf("%d entries, from %d to %d; mark %d", len(all), all[0].N, all[len(all)-1].N, w.Mark())
	}
	if got := w.Since(w.Mark() - 3); len(got) != 3 {
		t.Errorf("%d entries since three ago", len(got))
	}
}
