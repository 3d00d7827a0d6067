package loop_test

import (
	"context"
	"testing"

	"switchboard/llm"
	"switchboard/loop"
)

// The loop alone, per call: eight rounds of one call each and the final reply, with a model and a door that take no time.
func BenchmarkRun(b *testing.B) {
	asks, says := wants("get"), llm.Reply{Text: "done"}
	d := loop.Deps{
		Ask: func(_ context.Context, _ []llm.Turn, tools bool) (llm.Reply, error) {
			if tools {
				return asks, nil
			}
			return says, nil
		},
		Call: func(_ context.Context, _ loop.At, c llm.ToolCall, _ bool) (loop.Answer, error) {
			return loop.Answer{Result: llm.Result{ID: c.ID, Name: c.Name, Text: "ok"}}, nil
		},
		Save:   func(context.Context, *loop.State) error { return nil },
		Effect: func(string) bool { return false },
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := loop.Run(context.Background(), state(8), d); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/8, "ns/call")
}
