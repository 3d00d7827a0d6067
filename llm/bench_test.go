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

// BenchmarkText is an answer of 100 words: in one piece, and as a stream of 100 chunks; through the fake over loopback, and
// the seam alone.
func BenchmarkText(b *testing.B) {
	text := strings.Repeat("word ", 99) + "end"
	var chunks, deltas []string
	for w := range strings.SplitAfterSeq(text, " ") {
		chunks = append(chunks, delta(`{"content":"`+w+`"}`))
		deltas = append(deltas, w)
	}
	bodies := map[string]map[bool]string{
		"openai":    {false: chat(`{"content":"`+text+`"}`, "stop"), true: strings.Join(chunks, "") + finish("stop") + figures + done},
		"anthropic": {false: blocks(`[{"type":"text","text":"`+text+`"}]`, "end_turn"), true: begins + textBlock(0, deltas...) + stops("end_turn")},
	}
	for _, provider := range []string{"openai", "anthropic"} {
		for _, streamed := range []bool{false, true} {
			name, r := "/whole/", llmtest.Request()
			if streamed {
				name, r.OnText = "/stream/", func(string) {}
			}
			ask := func(b *testing.B, m llm.Model) {
				b.Helper()
				b.ReportAllocs()
				for b.Loop() {
					if got := do(b, m, r); got.Text != text {
						b.Fatalf("got %q", got.Text)
					}
				}
			}
			b.Run(provider+name+"fake", func(b *testing.B) {
				ask(b, model(b, llmtest.NewServer(b, llmtest.Step{Text: text, Again: true}), provider))
			})
			b.Run(provider+name+"seam", func(b *testing.B) {
				ask(b, model(b, llmtest.NewServer(b), provider, func(o *llm.Options) { o.HTTP = canned{bodies[provider][streamed]} }))
			})
		}
	}
}
