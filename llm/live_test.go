package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"switchboard/llm"
	"switchboard/llm/llmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-canary-0123456789abcdef"

// clock is a clock that only moves when somebody waits on it.
type clock struct {
	mu    sync.Mutex
	now   time.Time
	waits []time.Duration
}

func newClock() *clock { return &clock{now: time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.waits = append(c.waits, d)
	return ctx.Err()
}

func (c *clock) Waits() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.waits)
}

// model is a live model against the fake, with a clock of its own unless changed.
func model(tb testing.TB, s *llmtest.Server, provider string, change ...func(*llm.Options)) llm.Model {
	tb.Helper()
	c, price := newClock(), llmtest.Price()
	o := llm.Options{
		Provider: provider, ID: "m-1", BaseURL: s.URL, Key: key, Price: &price, HTTP: s.HTTP(),
		Now: c.Now, Sleep: c.Sleep, Rand: func() float64 { return 1 },
	}
	for _, f := range change {
		f(&o)
	}
	m, err := llm.Open(o)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// do asks and expects a reply.
func do(tb testing.TB, m llm.Model, r llm.Request) llm.Reply {
	tb.Helper()
	reply, err := m.Do(tb.Context(), r)
	if err != nil {
		tb.Fatalf("Do: %v", err)
	}
	return reply
}

// fails asks and expects an *llm.Error.
func fails(tb testing.TB, m llm.Model, r llm.Request) *llm.Error {
	tb.Helper()
	reply, err := m.Do(tb.Context(), r)
	var e *llm.Error
	if !errors.As(err, &e) {
		tb.Fatalf("got %+v, %v; want an *llm.Error", reply, err)
	}
	return e
}

// says is a step that answers with a status and a body, as they are.
func says(status int, body string, header ...string) llmtest.Step {
	return llmtest.Step{HTTP: func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}}
}

func again(s llmtest.Step) llmtest.Step {
	s.Again = true
	return s
}

// sent is the body of the only request, read.
func sent(tb testing.TB, s *llmtest.Server) map[string]any {
	tb.Helper()
	all := s.Sent()
	if len(all) != 1 {
		tb.Fatalf("%d requests, want 1", len(all))
	}
	return read(tb, all[0].Body)
}

func read(tb testing.TB, raw []byte) map[string]any {
	tb.Helper()
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		tb.Fatalf("%s: %v", raw, err)
	}
	return v
}

// at walks into a JSON value: names, and indexes from 0.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			a, _ := v.([]any)
			if p >= len(a) {
				return nil
			}
			v = a[p]
		}
	}
	return v
}

func TestExam(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"openai", "anthropic"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			llmtest.Exam(t, func(t *testing.T, script []llmtest.Step) llm.Model {
				t.Helper()
				return model(t, llmtest.NewServer(t, script...), provider)
			})
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		o    llm.Options
		want string
	}{
		{"an unknown provider", llm.Options{Provider: "opnai", ID: "x"}, "unknown provider"},
		{"no id", llm.Options{Provider: "openai"}, "id is missing"},
		{"a relative address", llm.Options{Provider: "openai", ID: "x", BaseURL: "localhost:80/v1"}, "base URL"},
		{"another scheme", llm.Options{Provider: "openai", ID: "x", BaseURL: "file:///v1"}, "base URL"},
		{"a key in the address", llm.Options{Provider: "openai", ID: "x", BaseURL: "https://u:" + key + "@h/v1"}, "base URL"},
		{"a query in the address", llm.Options{Provider: "openai", ID: "x", BaseURL: "https://h/v1?key=" + key}, "base URL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := llm.Open(c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), key) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The library reads the environment for every option that it is not given.
func TestEnvironmentIsNotRead(t *testing.T) {
	for _, name := range []string{
		"OPENAI_API_KEY", "OPENAI_MODEL", "OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_ORGANIZATION", "ANTHROPIC_API_KEY",
	} {
		t.Setenv(name, "http://127.0.0.1:1/from-the-environment")
	}
	for _, provider := range []string{"openai", "anthropic"} {
		s := llmtest.NewServer(t, llmtest.Step{Text: "hello"})
		do(t, model(t, s, provider, func(o *llm.Options) { o.Key = "" }), llmtest.Request())
		for name, values := range s.Sent()[0].Header {
			if strings.Contains(strings.Join(values, " "), "environment") || name == "Authorization" || name == "X-Api-Key" {
				t.Errorf("%s: header %s: %s", provider, name, values)
			}
		}
		if got := sent(t, s)["model"]; got != "m-1" {
			t.Errorf("%s: model %v", provider, got)
		}
	}
}

func TestAnthropicAddressWithAndWithoutVersion(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, llmtest.Step{Text: "a"}, llmtest.Step{Text: "b"}, llmtest.Step{Text: "c"})
	for _, base := range []string{s.URL, s.URL + "/", strings.TrimSuffix(s.URL, "/v1")} {
		do(t, model(t, s, "anthropic", func(o *llm.Options) { o.BaseURL = base }), llmtest.Request())
	}
	for _, r := range s.Sent() {
		if r.Path != "/v1/messages" || r.Header.Get("X-Api-Key") != key {
			t.Errorf("%s with key %q", r.Path, r.Header.Get("X-Api-Key"))
		}
	}
}
