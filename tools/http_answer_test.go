package tools_test

import (
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"switchboard/tools"

	"github.com/google/go-cmp/cmp"
)

func TestHTTPFaults(t *testing.T) {
	t.Parallel()
	cases := []struct {
		code      int
		kind      tools.FaultKind
		transient bool
		maybe     bool // of a POST; a GET changes nothing
	}{
		{301, tools.Rejected, false, true},
		{303, tools.Rejected, false, true},
		{400, tools.Rejected, false, false},
		{401, tools.Rejected, false, false},
		{404, tools.NotFound, false, false},
		{408, tools.Rejected, true, false},
		{409, tools.Conflict, false, false},
		{422, tools.Rejected, false, false},
		{429, tools.RateLimited, true, false},
		{500, tools.Unavailable, false, true},
		{502, tools.Unavailable, true, true},
		{503, tools.Unavailable, true, true},
		{504, tools.Unavailable, true, true},
	}
	for _, c := range cases {
		for _, method := range []string{"GET", "POST"} {
			base, got := recorder(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.Header().Set("Retry-After", "7")
				status(c.code, "application/json", `{"error":"no\tbooking\u0007 12\u202e`+strings.Repeat("x", 400)+`","private":"canary"}`)(w, r)
			})
			_, err := build(t, contract(method, "/x"), base).Run(t.Context(), tools.Input{})
			f := faultOf(t, err)
			if f.Kind != c.kind || f.Transient != c.transient || f.Status != c.code || f.Maybe != (c.maybe && method != "GET") || f.Wait != 7*time.Second {
				t.Errorf("%s %d: %+v", method, c.code, f)
			}
			if c.code >= 400 && !strings.Contains(f.Detail, "no booking 12xxx") || strings.Contains(f.Detail, "canary") || len([]rune(f.Detail)) > 400 || strings.ContainsAny(f.Detail, "\t\a\u202e") {
				t.Errorf("%s %d: detail %q", method, c.code, f.Detail)
			}
			if len(got) != 1 {
				t.Errorf("%s %d: asked %d times", method, c.code, len(got))
			}
		}
	}
}

func TestHTTPReadsTheServersWords(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"error":"No such page."}`:               "Not found: No such page.",
		`{"error":{"message":"gone","code":"x"}}`: "Not found: gone.",
		`{"message":"private"}`:                   "Not found.",
		`<html>private</html>`:                    "Not found.",
		`["private"]`:                             "Not found.",
		``:                                        "Not found.",
	} {
		base, _ := recorder(t, status(404, "application/json", body))
		_, err := build(t, contract("GET", "/x"), base).Run(t.Context(), tools.Input{})
		if f := faultOf(t, err); f.Detail != want {
			t.Errorf("%s: %q", body, f.Detail)
		}
	}
}

func TestHTTPRetryAfterAsDate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	for after, want := range map[string]time.Duration{
		now.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second,
		now.Add(-time.Hour).Format(http.TimeFormat):       0,
		"99999999": 24 * time.Hour,
		"-5":       0,
		"soon":     0,
	} {
		base, _ := recorder(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", now.Format(http.TimeFormat))
			w.Header().Set("Retry-After", after)
			status(429, "text/plain", "")(w, r)
		})
		_, err := build(t, contract("GET", "/x"), base).Run(t.Context(), tools.Input{})
		if f := faultOf(t, err); f.Wait != want {
			t.Errorf("%s: %s", after, f.Wait)
		}
	}
}

func TestHTTPResults(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	cases := []struct {
		name string
		h    http.HandlerFunc
		want any
		bad  bool
	}{
		{"object", sends("application/json; charset=utf-8", `{"n":9007199254740993,"f":1.5}`), map[string]any{"n": int64(9007199254740993), "f": 1.5}, false},
		{"problem type", sends("application/problem+json", `[1]`), []any{int64(1)}, false},
		{"text", sends("text/plain", "hello"), "hello", false},
		{"json as text", sends("text/plain", `{"a":1}`), `{"a":1}`, false},
		{"no content", status(204, "application/json", ""), nil, false},
		{"empty text", sends("text/plain", ""), nil, false},
		{"empty JSON", sends("application/json", ""), nil, true},
		{"cut JSON", sends("application/json", `{"a":`), nil, true},
		{"two values", sends("application/json", `1 2`), nil, true},
		{"duplicate key", sends("application/json", `{"a":1,"a":2}`), nil, true},
		{"too deep", sends("application/json", deep(65)), nil, true},
		{"deep enough", sends("application/json", deep(2)), []any{[]any{}}, false},
		{"broken UTF-8", sends("text/plain", "a\xff"), nil, true},
		{"broken UTF-8 in JSON", sends("application/json", "\"a\xff\""), nil, true},
		{"binary", sends("image/png", "abc"), nil, true},
		{"unknown coding", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			sends("text/plain", "abc")(w, r)
		}, nil, true},
	}
	for _, c := range cases {
		for _, method := range []string{"GET", "POST"} {
			base, _ := recorder(t, c.h)
			out, err := build(t, contract(method, "/x"), base).Run(t.Context(), tools.Input{})
			if c.bad {
				if f := faultOf(t, err); f.Kind != tools.BadResult || f.Transient || f.Maybe != (method == "POST") {
					t.Errorf("%s: %+v", c.name, f)
				}
				continue
			}
			if err != nil || out.Cut || out.Status < 200 {
				t.Errorf("%s: %+v %v", c.name, out, err)
			}
			if d := cmp.Diff(c.want, out.Value); d != "" {
				t.Errorf("%s: %s", c.name, d)
			}
		}
	}
}

func TestL7_AtMostOneMiBIsRead(t *testing.T) {
	t.Parallel()
	endless := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		chunk := []byte(strings.Repeat("é", 4096))
		_, err := w.Write([]byte(`"`)) // so that the cut falls inside a character
		for err == nil {
			_, err = w.Write(chunk)
		}
	}
	bomb := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		var err error
		for range 3000 {
			if _, err = z.Write([]byte(strings.Repeat(" ", 4096))); err != nil {
				return // the reader has had enough
			}
		}
		if err := z.Close(); err != nil {
			t.Log(err)
		}
	}
	for name, h := range map[string]http.HandlerFunc{"endless": endless, "gzip bomb": bomb} {
		base, _ := recorder(t, h)
		out, err := build(t, contract("GET", "/x"), base).Run(t.Context(), tools.Input{})
		text, ok := out.Value.(string)
		if err != nil || !ok || !out.Cut || len(text) != out.Size || out.Size > tools.MaxRead || out.Size < tools.MaxRead-3 {
			t.Errorf("%s: size %d, cut %v, %v", name, out.Size, out.Cut, err)
		}
	}
	whole, err := json.Marshal(strings.Repeat("a", tools.MaxRead-2))
	if err != nil {
		t.Fatal(err)
	}
	base, _ := recorder(t, sends("application/json", string(whole)))
	if out, err := build(t, contract("GET", "/x"), base).Run(t.Context(), tools.Input{}); err != nil || out.Cut || out.Size != tools.MaxRead {
		t.Errorf("exactly 1 MiB: size %d, cut %v, %v", out.Size, out.Cut, err)
	}
}
