package tools_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"switchboard/config"
	"switchboard/tools"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// seen is what a server got.
type seen struct {
	Method, Host, Path, Query, Body string
	Header                          http.Header
}

// recorder is a server that keeps what it got and answers with what it is told.
func recorder(t *testing.T, answer http.HandlerFunc) (string, chan seen) {
	t.Helper()
	got := make(chan seen, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read the request: %v", err)
		}
		got <- seen{r.Method, r.Host, r.URL.EscapedPath(), r.URL.RawQuery, string(body), r.Header.Clone()}
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, got
}

func sends(contentType, body string) http.HandlerFunc {
	return status(http.StatusOK, contentType, body)
}

func status(code int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body) //nolint:gosec // a test's own words
	}
}

func environ(base string) config.Environ {
	return func(name string) (string, bool) {
		v, ok := map[string]string{"BASE": base, "KEY": "s3cret-key-canary", "BAD_KEY": "a\nb"}[name]
		return v, ok
	}
}

func contract(method, path string) *config.Tool {
	effect := config.Write
	if method == http.MethodGet {
		effect = config.NoEffect
	}
	return &config.Tool{
		Effect: effect,
		Name:   "test.tool",
		HTTP:   &config.HTTP{Method: method, Path: path, Base: config.Ref{Env: "BASE"}},
	}
}

func build(t *testing.T, c *config.Tool, base string) tools.Tool {
	t.Helper()
	client := tools.NewClient()
	t.Cleanup(client.CloseIdleConnections)
	tool, err := tools.NewHTTP(c, environ(base), client)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func faultOf(t *testing.T, err error) *tools.Fault {
	t.Helper()
	f, ok := errors.AsType[*tools.Fault](err)
	if !ok {
		t.Fatalf("want a Fault, got %T: %v", err, err)
	}
	return f
}

func TestHTTPBuildsRequestsFromParts(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, method, path, prefix string
		in                         tools.Input
		wantPath, wantQuery        string
		wantBody                   string
	}{
		{
			"rest and bound in the query", "GET", "/bookings/{id}/notes", "/v1",
			tools.Input{Args: map[string]any{"id": "a/b?c=d#e&f g", "q": "a&org=org_9#", "n": int64(3), "x": []any{"u", "v"}, "none": nil}, Bound: map[string]string{"org": "org_7"}},
			"/v1/bookings/a%2Fb%3Fc=d%23e&f%20g/notes", "n=3&org=org_7&q=a%26org%3Dorg_9%23&x=u&x=v", "",
		},
		{
			"typed body", "POST", "/bookings", "",
			tools.Input{Args: map[string]any{"n": int64(9007199254740993), "f": 1.5, "b": true, "l": []any{int64(1)}, "o": map[string]any{"k": nil}, "s": "<&>"}, Bound: map[string]string{"org": "org_7"}},
			"/bookings", "", `{"b":true,"f":1.5,"l":[1],"n":9007199254740993,"o":{"k":null},"org":"org_7","s":"<&>"}`,
		},
		{
			"bound value in the path", "DELETE", "/orgs/{org}/rows/{n}.json", "/",
			tools.Input{Args: map[string]any{"n": int64(7)}, Bound: map[string]string{"org": "org_7"}},
			"/orgs/org_7/rows/7.json", "", "",
		},
		{"nothing left for the body", "PUT", "/x/{id}", "", tools.Input{Args: map[string]any{"id": "é"}}, "/x/%C3%A9", "", "{}"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			base, got := recorder(t, sends("application/json", `{}`))
			if _, err := build(t, contract(c.method, c.path), base+c.prefix).Run(t.Context(), c.in); err != nil {
				t.Fatal(err)
			}
			r := <-got
			if r.Method != c.method || r.Path != c.wantPath || r.Query != c.wantQuery || r.Body != c.wantBody {
				t.Errorf("got %s %s ? %s\n%s", r.Method, r.Path, r.Query, r.Body)
			}
			if r.Header.Get("Accept") != "application/json" || (c.wantBody != "") != (r.Header.Get("Content-Type") == "application/json") {
				t.Errorf("headers: %v", r.Header)
			}
		})
	}
}

func TestHTTPCarriesKeys(t *testing.T) {
	t.Parallel()
	base, got := recorder(t, sends("application/json", `1`))
	c := contract("POST", "/p")
	c.HTTP.Bearer = &config.Ref{Env: "KEY"}
	c.Idempotency = &config.Idempotency{Header: "Idempotency-Key"}
	if _, err := build(t, c, base).Run(t.Context(), tools.Input{Key: "k1"}); err != nil {
		t.Fatal(err)
	}
	r := <-got
	if r.Header.Get("Authorization") != "Bearer s3cret-key-canary" || r.Header.Get("Idempotency-Key") != "k1" {
		t.Errorf("headers: %v", r.Header)
	}
	c = contract("GET", "/p")
	c.HTTP.Header, c.HTTP.Value = "X-Api-Key", &config.Ref{Env: "KEY"}
	if _, err := build(t, c, base).Run(t.Context(), tools.Input{Key: "unused"}); err != nil {
		t.Fatal(err)
	}
	if r = <-got; r.Header.Get("X-Api-Key") != "s3cret-key-canary" || r.Header.Get("Authorization") != "" || r.Header.Get("Idempotency-Key") != "" {
		t.Errorf("headers: %v", r.Header)
	}
}

// strayValues are what would name another place than one part of a path.
func strayValues() []string {
	return []string{
		"", ".", "..", "../admin", "a/../../b", `..\admin`, "%2e%2e", "%2E", "%252e%252e", "..%2fadmin", "%2e%2e%5cx",
		"..;x", "..;/x", "/etc", "a//b", "a/", "a\r\nHost: evil", "a\x00", "a%00", "%0d%0aX: y", "%25252525252525252e",
	}
}

func TestS44_ArgumentsCannotLeaveTheirPart(t *testing.T) {
	t.Parallel()
	base, got := recorder(t, sends("application/json", `1`))
	tool := build(t, contract("GET", "/rows/{id}/x"), base)
	for _, v := range strayValues() {
		_, err := tool.Run(t.Context(), tools.Input{Args: map[string]any{"id": v}})
		if f := faultOf(t, err); f.Kind != tools.Rejected || f.Maybe {
			t.Errorf("%q: %v", v, f)
		}
	}
	tool = build(t, contract("GET", "/rows/.{id}"), base)
	if _, err := tool.Run(t.Context(), tools.Input{Args: map[string]any{"id": "x"}}); err != nil {
		t.Error(err)
	}
	<-got
	for _, v := range []any{".", map[string]any{}, []any{"a"}, nil} {
		if _, err := tool.Run(t.Context(), tools.Input{Args: map[string]any{"id": v}}); err == nil {
			t.Errorf("%v was sent", v)
		}
	}
	if _, err := tool.Run(t.Context(), tools.Input{}); err == nil {
		t.Error("a missing path argument was sent")
	}
	if len(got) > 0 {
		t.Errorf("the server was asked: %+v", <-got)
	}
}

func TestS44_AnyValueStaysInItsPart(t *testing.T) {
	t.Parallel()
	base, got := recorder(t, sends("application/json", `1`))
	tool := build(t, contract("GET", "/v1/{a}/rows/{b}"), base)
	host := strings.TrimPrefix(base, "http://")
	value := rapid.OneOf(rapid.String(), rapid.StringMatching(`[./\\%;#?&=a-f0-9 \r\n@:]{0,12}`))
	rapid.Check(t, func(t *rapid.T) {
		a, b, q := value.Draw(t, "a"), value.Draw(t, "b"), value.Draw(t, "q")
		_, err := tool.Run(context.Background(), tools.Input{Args: map[string]any{"a": a, "b": b, "q": q}, Bound: map[string]string{"org": "org_7"}})
		if err != nil {
			if f, ok := errors.AsType[*tools.Fault](err); !ok || f.Kind != tools.Rejected {
				t.Fatal(err)
			}
			return
		}
		r := <-got
		parts := strings.Split(r.Path, "/")
		if r.Host != host || len(parts) != 5 || parts[1] != "v1" || parts[3] != "rows" {
			t.Fatalf("left its part: %+v", r)
		}
		gotA, errA := url.PathUnescape(parts[2])
		gotB, errB := url.PathUnescape(parts[4])
		query, errQ := url.ParseQuery(r.Query)
		want := url.Values{"q": {q}, "org": {"org_7"}}
		if errors.Join(errA, errB, errQ) != nil || gotA != a || gotB != b || !cmp.Equal(query, want) {
			t.Fatalf("changed on the way: %+v", r)
		}
	})
}

func TestM2_BoundNamesCannotBeGivenNorForgotten(t *testing.T) {
	t.Parallel()
	base, got := recorder(t, sends("application/json", `1`))
	c := contract("GET", "/x")
	c.Bind = map[string]string{"org": "org"}
	tool := build(t, c, base)
	for _, in := range []tools.Input{
		{Args: map[string]any{"org": "org_9"}, Bound: map[string]string{"org": "org_7"}},
		{Args: map[string]any{}},
	} {
		_, err := tool.Run(t.Context(), in)
		if f := faultOf(t, err); f.Kind != tools.Internal || strings.Contains(f.Error(), "org_") {
			t.Error(f)
		}
	}
	if len(got) > 0 {
		t.Error("the server was asked")
	}
}

func TestM2_BoundValuesNeverShown(t *testing.T) {
	t.Parallel()
	for _, code := range []int{400, 404, 409, 422, 429, 500, 503} {
		base, _ := recorder(t, func(w http.ResponseWriter, r *http.Request) {
			status(code, "application/json", fmt.Sprintf(`{"error":"no row of org seven/7 %s at http://%s%s with %s"}`,
				r.URL.Query().Encode(), r.Host, r.URL, r.Header.Get("Authorization")))(w, r)
		})
		c := contract("GET", "/rows")
		c.HTTP.Bearer = &config.Ref{Env: "KEY"}
		_, err := build(t, c, base).Run(t.Context(), tools.Input{Args: map[string]any{"id": "12"}, Bound: map[string]string{"org": "org seven/7"}})
		f := faultOf(t, err)
		for _, canary := range []string{"seven", "s3cret", "127.0.0.1", "http"} {
			if strings.Contains(f.Detail, canary) || strings.Contains(f.Error(), canary) && canary != "http" {
				t.Errorf("%d shows %q: %s", code, canary, f.Error())
			}
		}
		if !strings.Contains(f.Detail, "no row of ‹org›") {
			t.Errorf("the server's words are gone: %s", f.Detail)
		}
	}
}

func TestM4_OnlyWhatWasSentIsInDoubt(t *testing.T) {
	t.Parallel()
	hung := make(chan struct{})
	t.Cleanup(func() { close(hung) })
	cases := []struct {
		name  string
		kind  tools.FaultKind
		maybe bool
		serve http.HandlerFunc
	}{
		{"reset before the answer", tools.Network, true, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"reset within the answer", tools.Network, true, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "ab")
		}},
		{"no answer", tools.Timeout, true, func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-hung:
			case <-r.Context().Done():
			}
		}},
		{"slow body", tools.Timeout, true, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "a")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-hung:
			case <-r.Context().Done():
			}
		}},
		{"refused connection", tools.Network, false, nil},
	}
	for _, c := range cases {
		for _, method := range []string{"GET", "POST"} {
			t.Run(c.name+" "+method, func(t *testing.T) {
				t.Parallel()
				base := closedPort(t)
				if c.serve != nil {
					base, _ = recorder(t, c.serve)
				}
				limit := time.Minute
				if c.kind == tools.Timeout {
					limit = 150 * time.Millisecond
				}
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				_, err := build(t, contract(method, "/x"), base).Run(ctx, tools.Input{Bound: map[string]string{"org": "org_7"}})
				f := faultOf(t, err)
				if f.Kind != c.kind || !f.Transient || f.Maybe != (c.maybe && method == "POST") {
					t.Errorf("%+v", f)
				}
				if text := fmt.Sprintf("%v %v", f, f.Err); strings.Contains(text, "org_7") || strings.Contains(f.Detail, "127.0.0.1") {
					t.Errorf("shows too much: %s", text)
				}
			})
		}
	}
}

// closedPort gives an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return "http://" + l.Addr().String()
}

func TestHTTPCallerCancels(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	base, _ := recorder(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	_, err := build(t, contract("POST", "/x"), base).Run(ctx, tools.Input{})
	if f := faultOf(t, err); !errors.Is(err, context.Canceled) || !f.Maybe || f.Transient {
		t.Errorf("%v %+v", err, f)
	}
}

func TestS42_RedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	inside, asked := recorder(t, sends("application/json", `"inside"`))
	for _, client := range []*http.Client{nil, {}} {
		base, _ := recorder(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, inside+"/secret", http.StatusFound) })
		c := contract("GET", "/x")
		c.HTTP.Header, c.HTTP.Value = "X-Api-Key", &config.Ref{Env: "KEY"}
		tool, err := tools.NewHTTP(c, environ(base), client)
		if err != nil {
			t.Fatal(err)
		}
		_, err = tool.Run(t.Context(), tools.Input{})
		if f := faultOf(t, err); f.Kind != tools.Rejected || f.Status != http.StatusFound || strings.Contains(f.Detail, "secret") {
			t.Errorf("%+v", f)
		}
	}
	if len(asked) > 0 {
		t.Error("the redirect was followed")
	}
}

func TestHTTPRefusesUnfitContracts(t *testing.T) {
	t.Parallel()
	for _, base := range []string{
		"", "ftp://h", "file:///etc/passwd", "//h/x", "h:80", "http://", "http:///x", "http://u:topsecret@h/", "http://u@h",
		"http://h/?q=1", "http://h?", "http://h/#f", "http://h#", "http://h/../x", "http://h/a%2e%2e/%2e%2e/x", "http://h:b", "javascript:alert(1)", "http:h",
	} {
		_, err := tools.NewHTTP(contract("GET", "/x"), environ(base), nil)
		if err == nil || strings.Contains(err.Error(), "topsecret") || !strings.Contains(err.Error(), "test.tool") {
			t.Errorf("base %q: %v", base, err)
		}
	}
	for _, path := range []string{"", "x", "/x?y=1", "/x#y", "/../x", "/%2e%2e/x", "//evil.com/x", "/{", "/{}", "/a}b", "/a{b", `/a\b`, "/%zz", "/a/./b"} {
		if _, err := tools.NewHTTP(contract("GET", path), environ("http://h"), nil); err == nil {
			t.Errorf("path %q was taken", path)
		}
	}
	bad := contract("GET", "/x")
	bad.HTTP.Bearer = &config.Ref{Env: "MISSING"}
	if _, err := tools.NewHTTP(bad, environ("http://h"), nil); err == nil || !strings.Contains(err.Error(), "MISSING") {
		t.Errorf("missing key: %v", err)
	}
	bad.HTTP.Bearer = &config.Ref{Env: "BAD_KEY"}
	if _, err := tools.NewHTTP(bad, environ("http://h"), nil); err == nil || strings.Contains(err.Error(), "a\n") {
		t.Errorf("unfit key: %v", err)
	}
	if _, err := tools.NewHTTP(&config.Tool{Name: "time.now"}, environ("http://h"), nil); err == nil {
		t.Error("a built-in was taken for an http tool")
	}
}
