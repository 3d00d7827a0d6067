package llm_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchboard/llm"
	"switchboard/llm/llmtest"
)

func TestO7_Reasons(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, provider string
		status         int
		body           string
		want           llm.Reason
	}{
		{"tokens in the text are no status", "openai", 400, `{"error":{"message":"maximum context length is 128000 tokens, you asked for 130429","code":"context_length_exceeded"}}`, llm.ContextTooLong},
		{"context length by words alone", "openai", 400, `{"error":{"message":"This model's maximum context length is 8192 tokens."}}`, llm.ContextTooLong},
		{"llama.cpp", "openai", 400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, llm.ContextTooLong},
		{"prompt too long", "anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210429 tokens > 200000 maximum"}}`, llm.ContextTooLong},
		{"too large a request", "anthropic", 413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, llm.ContextTooLong},
		{"a token rate that speaks of context", "openai", 429, `{"error":{"message":"Request too large for the context window rate, tokens per min","code":"rate_limit_exceeded"}}`, llm.RateLimited},
		{"no money", "openai", 429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, llm.Quota},
		{"no credit", "anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}`, llm.Quota},
		{"payment required", "openai", 402, `{"error":{"message":"Insufficient credits","code":402}}`, llm.Quota},
		{"a quota per minute is a rate", "openai", 429, `[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan","status":"RESOURCE_EXHAUSTED"}}]`, llm.RateLimited},
		{"policy", "openai", 400, `{"error":{"message":"rejected","code":"content_policy_violation"}}`, llm.Declined},
		{"azure filter", "openai", 400, `{"error":{"message":"triggering Azure OpenAI's content management policy","code":"content_filter"}}`, llm.Declined},
		{"output filter", "anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}}`, llm.Declined},
		{"key", "openai", 401, `{"error":{"message":"Incorrect API key"}}`, llm.Auth},
		{"forbidden", "anthropic", 403, `{"type":"error","error":{"type":"permission_error","message":"no"}}`, llm.Auth},
		{"rate", "anthropic", 429, `{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`, llm.RateLimited},
		{"no body", "openai", 429, ``, llm.RateLimited},
		{"timeout", "openai", 408, ``, llm.Overloaded},
		{"conflict", "openai", 409, `{}`, llm.Overloaded},
		{"server", "openai", 500, `oops`, llm.Overloaded},
		{"gateway", "openai", 502, `<html>bad gateway</html>`, llm.Overloaded},
		{"overloaded", "anthropic", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, llm.Overloaded},
		{"no such model", "openai", 404, `{"error":{"message":"The model does not exist","code":"model_not_found"}}`, llm.BadRequest},
		{"unprocessable", "openai", 422, `{"detail":[{"loc":["body"],"msg":"extra fields not permitted"}]}`, llm.BadRequest},
		{"bad request", "anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"messages: wrong"}}`, llm.BadRequest},
	} {
		t.Run(c.provider+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			e := fails(t, model(t, llmtest.NewServer(t, again(says(c.status, c.body))), c.provider), llmtest.Request())
			if e.Reason != c.want || e.Status != c.status {
				t.Errorf("got %v, want %s", e, c.want)
			}
			if want := map[bool]int{true: 3, false: 1}[c.want == llm.RateLimited || c.want == llm.Overloaded]; e.Attempts != want {
				t.Errorf("%d attempts, want %d", e.Attempts, want)
			}
		})
	}
}

// The server's words stay readable in every shape that they come in.
func TestO7_WordsOfAnError(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"error":{"message":"m","type":"t","code":"c"}}`: "t: c: m",
		`{"error":{"message":"m","code":404}}`:            "404: m",
		`{"error":"m"}`:                                   "m",
		`[{"error":{"message":"m"}}]`:                     "m",
		`{"message":"m","code":"c"}`:                      "c: m",
		`{"detail":"m"}`:                                  "m",
		`{"detail":[{"msg":"m"}]}`:                        `[{"msg":"m"}]`,
		`{"error":{"message":{"inner":"m"}}}`:             `{"inner":"m"}`,
		`{"error":["m"]}`:                                 `["m"]`,
		"plain\n  words":                                  "plain words",
		strings.Repeat("é", 400):                          strings.Repeat("é", 250) + "…",
		"x" + strings.Repeat("\xff", 3) + "\x80":          "x?",
	} {
		e := fails(t, model(t, llmtest.NewServer(t, says(404, body)), "openai"), llmtest.Request())
		if e.Detail != want {
			t.Errorf("%.40q: got %q, want %q", body, e.Detail, want)
		}
	}
}

// A body of any size costs 64 KiB at most.
func TestO7_BoundOfAnErrorBody(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, llmtest.Step{HTTP: func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.WriteHeader(404)
		_, _ = w.Write([]byte(strings.Repeat("long ", 1<<20)))
	}})
	var seen counted
	m := model(t, s, "openai", func(o *llm.Options) { seen.next = o.HTTP; o.HTTP = &seen })
	e := fails(t, m, llmtest.Request())
	if seen.bytes != 64<<10 || len(e.Detail) > 510 {
		t.Errorf("%d bytes were read, %d kept", seen.bytes, len(e.Detail))
	}
}

// counted counts the bytes that are read of replies.
type counted struct {
	next  http.RoundTripper
	bytes int
	io.ReadCloser
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err == nil {
		c.ReadCloser, resp.Body = resp.Body, c
	}
	return resp, err
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.bytes += n
	return n, err
}

func TestM2_KeysLeaveErrors(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"error":{"message":"Incorrect API key provided: ` + key + `. See the docs."}}`,
		`{"error":{"message":"Bearer ` + key + ` is not valid in org-Abc123Def456"}}`,
		`{"error":"sk-pro*****************************cdef is not valid, nor AIzaSyA1234567890abcdefghij"}`,
		"key=" + key,
	} {
		e := fails(t, model(t, llmtest.NewServer(t, says(401, body)), "openai"), llmtest.Request())
		for _, secret := range []string{"canary", "cdef", "Abc123", "AIzaSy"} {
			if strings.Contains(e.Error()+e.Detail, secret) {
				t.Errorf("%s: %v", secret, e)
			}
		}
		if !strings.Contains(e.Detail, "‹key›") {
			t.Errorf("nothing was masked in %q", e.Detail)
		}
	}
}

func TestRetries(t *testing.T) {
	t.Parallel()
	limited := func(header ...string) llmtest.Step { return says(429, `{}`, header...) }
	fine := llmtest.Step{Text: "fine"}
	for _, c := range []struct {
		name  string
		steps []llmtest.Step
		want  []time.Duration
	}{
		{"doubling, with the dice at their highest", []llmtest.Step{says(500, ``), says(500, ``), fine}, []time.Duration{250 * time.Millisecond, 500 * time.Millisecond}},
		{"Retry-After in seconds", []llmtest.Step{limited("Retry-After", "7"), fine}, []time.Duration{7 * time.Second}},
		{"Retry-After with a fraction", []llmtest.Step{limited("Retry-After", "1.5"), fine}, []time.Duration{1500 * time.Millisecond}},
		{"Retry-After as a date", []llmtest.Step{limited("Retry-After", "Mon, 04 May 2026 10:00:09 GMT"), fine}, []time.Duration{9 * time.Second}},
		{"Retry-After as a date that has passed", []llmtest.Step{limited("Retry-After", "Mon, 04 May 2026 09:00:00 GMT"), fine}, []time.Duration{250 * time.Millisecond}},
		{"retry-after-ms first", []llmtest.Step{limited("Retry-After", "7", "Retry-After-Ms", "1200"), fine}, []time.Duration{1200 * time.Millisecond}},
		{"no longer than a minute", []llmtest.Step{limited("Retry-After", "3600"), fine}, []time.Duration{time.Minute}},
		{"no sense", []llmtest.Step{limited("Retry-After", "soon"), limited("Retry-After", "-3"), fine}, []time.Duration{250 * time.Millisecond, 500 * time.Millisecond}},
		{"endless", []llmtest.Step{limited("Retry-After", "NaN"), limited("Retry-After", "Inf"), fine}, []time.Duration{250 * time.Millisecond, time.Minute}},
		{"other statuses name a wait too", []llmtest.Step{says(503, ``, "Retry-After", "3"), fine}, []time.Duration{3 * time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, k := llmtest.NewServer(t, c.steps...), newClock()
			m := model(t, s, "openai", func(o *llm.Options) { o.Now, o.Sleep = k.Now, k.Sleep })
			got := do(t, m, llmtest.Request())
			if d := cmp.Diff(c.want, k.Waits()); d != "" || got.Attempts != len(c.steps) {
				t.Errorf("%d attempts, waits (-want +got):\n%s", got.Attempts, d)
			}
			var waited time.Duration
			for _, w := range c.want {
				waited += w
			}
			if got.Took != waited {
				t.Errorf("Took %v, want %v", got.Took, waited)
			}
			for _, q := range s.Sent()[1:] {
				if string(q.Body) != string(s.Sent()[0].Body) {
					t.Errorf("another body the second time: %s", q.Body)
				}
			}
		})
	}
}

func TestRetriesNeverPassTheDeadline(t *testing.T) {
	t.Parallel()
	for _, step := range []llmtest.Step{says(429, `{}`, "Retry-After", "20"), says(500, `{}`)} {
		k := newClock()
		k.now = time.Now()
		m := model(t, llmtest.NewServer(t, step), "openai", func(o *llm.Options) {
			o.Now, o.Sleep = func() time.Time { return k.now.Add(10*time.Second - 100*time.Millisecond) }, k.Sleep
		})
		ctx, cancel := context.WithDeadline(t.Context(), k.now.Add(10*time.Second))
		defer cancel()
		_, err := m.Do(ctx, llmtest.Request())
		var e *llm.Error
		if !errors.As(err, &e) || e.Attempts != 1 || len(k.Waits()) != 0 {
			t.Fatalf("got %v after waiting %v", err, k.Waits())
		}
		if (e.Reason == llm.RateLimited) != (e.Wait == 20*time.Second) {
			t.Errorf("Wait is %v for %v", e.Wait, e)
		}
	}
}

func TestUsageOfAllAttempts(t *testing.T) {
	t.Parallel()
	empty := says(200, `{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":10}}}`)
	one := llm.Usage{Input: 100, Cached: 10, Output: 1, Known: true}
	one.Cost = llmtest.Price().Cost(one)

	m := model(t, llmtest.NewServer(t, empty, says(503, ``), llmtest.Step{Text: "fine", Usage: &one}), "openai")
	if got := do(t, m, llmtest.Request()).Usage; got != one.Add(one) {
		t.Errorf("got %+v, want twice %+v", got, one)
	}
	m = model(t, llmtest.NewServer(t, empty, empty, empty), "openai")
	if got := fails(t, m, llmtest.Request()).Usage; got != one.Add(one).Add(one) {
		t.Errorf("got %+v, want three times %+v", got, one)
	}
	m = model(t, llmtest.NewServer(t, llmtest.Step{Fail: llm.CutShort}, llmtest.Step{Text: "fine", Usage: &one}), "openai")
	want := one
	want.Known = false // what the broken reply cost, nobody said
	if got := do(t, m, llmtest.Request()).Usage; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A context that ends is not a failure of the model; what was paid until then is still told.
func TestO2_EndOfTheContext(t *testing.T) {
	t.Parallel()
	stop := errors.New("the person pressed stop")
	for _, provider := range []string{"openai", "anthropic"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		s := llmtest.NewServer(t, llmtest.Step{Fail: llm.Empty}, llmtest.Step{HTTP: func(_ http.ResponseWriter, r *http.Request, _ []byte) {
			cancel(stop)
			<-r.Context().Done()
		}})
		_, err := model(t, s, provider).Do(ctx, llmtest.Request())
		var e *llm.Error
		if !errors.Is(err, context.Canceled) || !errors.Is(err, stop) || !errors.As(err, &e) || e.Reason != llm.Empty {
			t.Errorf("%s: got %v", provider, err)
		}

		ctx, cancel = context.WithCancelCause(t.Context())
		m := model(t, llmtest.NewServer(t, says(500, ``)), provider, func(o *llm.Options) {
			o.Sleep = func(ctx context.Context, _ time.Duration) error {
				cancel(stop)
				return ctx.Err()
			}
		})
		if _, err := m.Do(ctx, llmtest.Request()); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, while waiting: got %v", provider, err)
		}
	}
}

func TestAttemptHasItsOwnLimit(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"openai", "anthropic"} {
		s := llmtest.NewServer(t, llmtest.Step{Hang: true})
		e := fails(t, model(t, s, provider, func(o *llm.Options) { o.Timeout = 20 * time.Millisecond }), llmtest.Request())
		if e.Reason != llm.Timeout || e.Attempts != 1 {
			t.Errorf("%s: got %v after %d attempts", provider, e, e.Attempts)
		}
	}
}

type panics struct{}

func (panics) RoundTrip(*http.Request) (*http.Response, error) { panic("out of cheese, key " + key) }

func TestPanicIsAnError(t *testing.T) {
	t.Parallel()
	m := model(t, llmtest.NewServer(t), "openai", func(o *llm.Options) { o.HTTP = panics{} })
	e := fails(t, m, llmtest.Request())
	if e.Reason != llm.BadRequest || !strings.Contains(e.Detail, "out of cheese") || strings.Contains(e.Detail, key) {
		t.Errorf("got %v", e)
	}
}

// The default clock and transport work too.
func TestDefaults(t *testing.T) {
	t.Parallel()
	s, tr := llmtest.NewServer(t, says(500, ``), llmtest.Step{Text: "fine"}), llm.NewTransport()
	defer tr.CloseIdleConnections()
	m := model(t, s, "openai", func(o *llm.Options) { o.HTTP, o.Now, o.Sleep, o.Rand = tr, nil, nil, nil })
	if got := do(t, m, llmtest.Request()); got.Took < 125*time.Millisecond || got.Attempts != 2 {
		t.Errorf("took %v, %d attempts", got.Took, got.Attempts)
	}
	if n := len(s.Sent()); n != 2 {
		t.Errorf("%d requests", n)
	}
}
