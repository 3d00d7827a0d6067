package tools_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"runtime"
	"strings"
	"testing"
	"time"

	"switchboard/config"
	"switchboard/tools"

	"github.com/google/go-cmp/cmp"
)

func TestRel_S42_NoKeyFollowsARedirect(t *testing.T) {
	t.Parallel()
	inside, asked := recorder(t, sends("application/json", `"inside"`))
	for _, code := range []int{301, 302, 303, 307, 308} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			base, got := recorder(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Set-Cookie", "session=canary")
				w.Header().Set("Location", inside+"/latest/meta-data")
				w.WriteHeader(code)
			})
			c := contract(method, "/x")
			c.HTTP.Header, c.HTTP.Value = "X-Api-Key", &config.Ref{Env: "KEY"}
			tool := build(t, c, base)
			for range 2 {
				_, err := tool.Run(t.Context(), tools.Input{})
				if f := faultOf(t, err); f.Kind != tools.Rejected || f.Status != code || f.Maybe != (method != "GET") || f.Transient || strings.Contains(f.Detail, "meta-data") {
					t.Errorf("%s %d: %+v", method, code, f)
				}
				if r := <-got; r.Header.Get("Cookie") != "" || r.Header.Get("Referer") != "" || r.Header.Get("X-Api-Key") == "" {
					t.Errorf("%s %d: %v", method, code, r.Header)
				}
			}
		}
	}
	if len(asked) > 0 {
		t.Errorf("the other server was asked: %+v", <-asked)
	}
}

func TestRel_X01_WhatDoesNotEndIsCut(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(http.ResponseWriter){
		"a byte at a time": func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "a")
			_ = http.NewResponseController(w).Flush()
		},
		"nothing":                 func(http.ResponseWriter) {},
		"hints without an answer": func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) },
	} {
		base, _ := recorder(t, func(w http.ResponseWriter, r *http.Request) {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					serve(w)
				case <-r.Context().Done():
					return
				}
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := build(t, contract("POST", "/x"), base).Run(ctx, tools.Input{})
		if f := faultOf(t, err); f.Kind != tools.Timeout || !f.Maybe {
			t.Errorf("%s: %+v", name, f)
		}
		cancel()
	}
}

func TestRel_X01_LongHeadersAreRefused(t *testing.T) {
	t.Parallel()
	for _, headers := range []http.Header{
		{"X-Long": {strings.Repeat("a", 80<<10)}},
		{"X-Many": strings.Split(strings.Repeat("aaaaaaaaaaaaaaa ", 6<<10), " ")},
	} {
		base, _ := recorder(t, func(w http.ResponseWriter, r *http.Request) {
			maps.Copy(w.Header(), headers)
			sends("application/json", "1")(w, r)
		})
		_, err := build(t, contract("POST", "/x"), base).Run(t.Context(), tools.Input{})
		if f := faultOf(t, err); f.Kind != tools.Network || !f.Maybe {
			t.Errorf("%+v", f)
		}
	}
}

// The bound is on what was decoded, and nothing beyond it is decoded at all. It counts what the whole process allocates,
// and so runs alone.
func TestRel_X02_ABombIsNotUnpacked(t *testing.T) { //nolint:paralleltest // as it says
	var one bytes.Buffer
	z := gzip.NewWriter(&one)
	if _, err := z.Write(bytes.Repeat([]byte{' '}, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	bomb := bytes.Repeat(one.Bytes(), 200) // what is packed one after another unpacks to one text
	twice := func(w http.ResponseWriter) { w.Header().Set("Content-Encoding", "gzip, gzip") }
	for name, c := range map[string]struct {
		status int
		coding func(http.ResponseWriter)
	}{
		"answer":         {200, func(w http.ResponseWriter) { w.Header().Set("Content-Encoding", "gzip") }},
		"refusal":        {400, func(w http.ResponseWriter) { w.Header().Set("Content-Encoding", "gzip") }},
		"packed twice":   {200, twice},
		"twice, refusal": {500, twice},
	} {
		base, _ := recorder(t, func(w http.ResponseWriter, _ *http.Request) {
			c.coding(w)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			_, _ = w.Write(bomb)
		})
		tool := build(t, contract("GET", "/x"), base)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, err := tool.Run(t.Context(), tools.Input{})
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
			t.Errorf("%s: %d MiB for %d KiB on the wire", name, used>>20, len(bomb)>>10)
		}
		if name == "answer" && (err != nil || !out.Cut || out.Size != tools.MaxRead) || name != "answer" && err == nil {
			t.Errorf("%s: size %d, cut %v, %v", name, out.Size, out.Cut, err)
		}
	}
}

func TestRel_X03_DeepJSONIsRefused(t *testing.T) {
	t.Parallel()
	for _, unit := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
		for depth, good := range map[int]bool{64: true, 65: false, 10_001: false, 100_000: false} {
			body := strings.Repeat(unit[0], depth) + "1" + strings.Repeat(unit[1], depth)
			base, _ := recorder(t, sends("application/json", body))
			out, err := build(t, contract("GET", "/x"), base).Run(t.Context(), tools.Input{})
			if good != (err == nil) || good != (out.Value != nil) {
				t.Errorf("%s %d deep: %v", unit[0], depth, err)
			}
			if !good && faultOf(t, err).Kind != tools.BadResult {
				t.Errorf("%s %d deep: %v", unit[0], depth, err)
			}
			base, _ = recorder(t, status(400, "application/json", body)) // the words of a refusal are JSON too
			_, err = build(t, contract("GET", "/x"), base).Run(t.Context(), tools.Input{})
			if f := faultOf(t, err); f.Kind != tools.Rejected {
				t.Errorf("refusal, %d deep: %v", depth, f)
			}
		}
	}
}

// What was prepared is what the server gets, at every attempt.
func TestRel_M2_TheServerGetsWhatWasPrepared(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		_, _ = io.WriteString(h, r.Method+" "+r.RequestURI+"\n") // the request line as it came
		if _, err := io.Copy(h, r.Body); err != nil {
			t.Errorf("read the request: %v", err)
		}
		got <- hex.EncodeToString(h.Sum(nil))
		sends("application/json", "1")(w, r)
	}))
	t.Cleanup(s.Close)
	inputs := []map[string]any{
		{"id": "a/b?c=d#e&f g", "q": "a&org=org_9#", "n": int64(9007199254740993), "f": 2.0, "l": []any{"u", nil, map[string]any{"k": "v"}}, "s": "<&>é\u2028"},
		{"id": "é%20;x", "none": nil},
		{"id": int64(7)},
		{"id": "x", "long": strings.Repeat("0123456789abcdef", 1280)},
	}
	digests := map[string]bool{}
	for _, method := range []string{"GET", "DELETE", "POST", "PUT", "PATCH"} {
		for _, prefix := range []string{"", "/v1%2Fa/é"} {
			c := contract(method, "/rows/{id}/notes")
			c.Effect, c.Idempotency = config.Write, &config.Idempotency{Header: "Idempotency-Key"}
			tool := build(t, c, s.URL+prefix)
			for _, args := range inputs {
				in := tools.Input{Args: args, Bound: map[string]string{"org": "org_7"}, Key: "k1"}
				p := prepare(t, tool, in)
				for range 2 {
					if _, err := tool.Run(t.Context(), in); err != nil {
						t.Fatal(err)
					}
					if d := <-got; d != p.Digest() {
						t.Errorf("the server got another request than %s %s", p.Method, p.Target)
					}
				}
				digests[p.Digest()] = true
			}
		}
	}
	if want := 5 * 2 * len(inputs); len(digests) != want {
		t.Errorf("%d digests of %d requests", len(digests), want)
	}
}

func prepare(t *testing.T, tool tools.Tool, in tools.Input) tools.Prepared {
	t.Helper()
	p, err := preparer(t, tool).Prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func preparer(t *testing.T, tool tools.Tool) tools.Preparer {
	t.Helper()
	p, ok := tool.(tools.Preparer)
	if !ok {
		t.Fatalf("a %T is no Preparer", tool)
	}
	return p
}

func TestRel_M2_WhatCannotBeSentIsNotPrepared(t *testing.T) {
	t.Parallel()
	base, asked := recorder(t, sends("application/json", "1"))
	c := contract("GET", "/rows/{id}")
	c.Bind = map[string]string{"org": "org"}
	tool := build(t, c, base)
	for _, in := range []tools.Input{
		{Args: map[string]any{"id": "x"}},
		{Args: map[string]any{"id": "x", "org": "org_9"}, Bound: map[string]string{"org": "org_7"}},
		{Args: map[string]any{"id": "../x"}, Bound: map[string]string{"org": "org_7"}},
	} {
		_, ran := tool.Run(t.Context(), in)
		_, err := preparer(t, tool).Prepare(in)
		if d := cmp.Diff(faultOf(t, ran), faultOf(t, err)); d != "" {
			t.Error(d)
		}
	}
	if len(asked) > 0 {
		t.Error("the server was asked")
	}
}

// FuzzRel_S44 looks for a value that leads a server, however carelessly it decodes, out of the value's place.
func FuzzRel_S44(f *testing.F) {
	for _, v := range append(strayValues(), "plain", "a b", "é", "#", "?x=1", "&org=org_9", "a;b=c", "x@evil", "//evil.example", "http://evil/", "\u2028", "...", ". .", "..%20", "\uff0e\uff0e", "a\tb", "%", "%zz", "+") {
		f.Add(v, v)
	}
	c := contract(http.MethodGet, "/rows/{id}/notes")
	tool, err := tools.NewHTTP(c, environ("https://api.example.com/v1"), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id, q string) {
		p, err := preparer(t, tool).Prepare(tools.Input{Args: map[string]any{"id": id, "q": q}, Bound: map[string]string{"org": "org_7"}})
		if err != nil {
			if fault := faultOf(t, err); fault.Kind != tools.Rejected || id != "" && len(id) > 3 && strings.Contains(fault.Detail, id) {
				t.Errorf("%q: %v", id, fault)
			}
			return
		}
		raw, query, _ := strings.Cut(p.Target, "?")
		if strings.ContainsFunc(p.Target, func(c rune) bool { return c <= ' ' || c > '~' || c == '#' || c == '\\' }) || p.Body != nil {
			t.Fatalf("%q: target %q, body %q", id, p.Target, p.Body)
		}
		if values, err := url.ParseQuery(query); err != nil || !cmp.Equal(values, url.Values{"q": {q}, "org": {"org_7"}}) {
			t.Fatalf("%q: query %q", q, query)
		}
		if parts := strings.Split(raw, "/"); len(parts) != 5 {
			t.Fatalf("%q: path %q", id, raw)
		}
		for range 6 {
			if read := careless(raw); !strings.HasPrefix(read, "/v1/rows/") || !strings.HasSuffix(read, "/notes") || read == "/v1/rows/notes" {
				t.Fatalf("%q: %q is read as %q", id, p.Target, read)
			}
			next, err := url.PathUnescape(raw)
			if err != nil {
				break
			}
			raw = next
		}
	})
}

// careless reads a path as servers do that know more than one kind of slash, drop parameters and tidy up.
func careless(p string) string {
	parts := strings.Split(strings.ReplaceAll(p, `\`, "/"), "/")
	for i, part := range parts {
		parts[i], _, _ = strings.Cut(part, ";")
	}
	return path.Clean(strings.Join(parts, "/"))
}
