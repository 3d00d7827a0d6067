package llm_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"switchboard/llm"
	"switchboard/llm/llmtest"
)

// canned answers without a network, so that the seam alone is measured.
type canned struct{ body string }

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(c.body)), Request: r}, nil
}

// BenchmarkDo is one model call with one tool, which the model calls: through the fake over loopback, and the seam alone.
func BenchmarkDo(b *testing.B) {
	r := llmtest.Request(past()...)
	r.Tools = r.Tools[:1]
	step := llmtest.Step{Calls: []llm.ToolCall{{Name: "docs.search", Args: `{"query":"waivers"}`}}, Again: true}
	bodies := map[string]string{
		"openai":    chat(`{"content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"docs__search","arguments":"{\"query\":\"waivers\"}"}}]}`, "tool_calls"),
		"anthropic": blocks(`[{"type":"tool_use","id":"c","name":"docs__search","input":{"query":"waivers"}}]`, "tool_use"),
	}
	for _, provider := range []string{"openai", "anthropic"} {
		b.Run(provider+"/fake", func(b *testing.B) {
			m := model(b, llmtest.NewServer(b, step), provider)
			b.ReportAllocs()
			for b.Loop() {
				do(b, m, r)
			}
		})
		b.Run(provider+"/seam", func(b *testing.B) {
			m := model(b, llmtest.NewServer(b), provider, func(o *llm.Options) { o.HTTP = canned{bodies[provider]} })
			b.ReportAllocs()
			for b.Loop() {
				do(b, m, r)
			}
		})
	}
}
