package scripted_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"switchboard/llm"
	"switchboard/llm/scripted"
)

// Whatever is asked, in whatever order: no panic, the same answer each time and by every model of the same pack, and
// either a reply with words or calls or a typed error.
func TestPureFunctionOfTheRequest(t *testing.T) {
	t.Parallel()
	p := load(t, waivers+several)
	one, two := scripted.New(p).Model(p.Models[0]), scripted.New(p).Model(p.Models[0])
	says := []string{"how do I export waivers?", "thanks", "hello", "what now?", "please fail", "what about ‹org›, or ‹org›?", "", "x"}
	texts := []string{
		"", "x", "null", "[]", `{"outcome":"ok","result":[{"name":"close"}]}`, `{"outcome":"ok","result":{"title":"T"}}`,
		`{"outcome":7}`, `{"outcome":"ok","result":`, `{"a":1,"a":2}`, "\xff",
	}
	call := rapid.Custom(func(t *rapid.T) llm.ToolCall {
		return llm.ToolCall{ID: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "id"), Name: rapid.String().Draw(t, "name"), Args: rapid.SampledFrom(texts).Draw(t, "args")}
	})
	result := rapid.Custom(func(t *rapid.T) llm.Result {
		return llm.Result{ID: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "id"), Text: rapid.SampledFrom(texts).Draw(t, "text"), Failed: rapid.Bool().Draw(t, "failed")}
	})
	turn := rapid.Custom(func(t *rapid.T) llm.Turn {
		return llm.Turn{
			Role: rapid.SampledFrom([]llm.Role{llm.User, llm.Assistant, llm.Results, "other"}).Draw(t, "role"),
			Text: rapid.String().Draw(t, "text"), Calls: rapid.SliceOfN(call, 0, 3).Draw(t, "calls"), Results: rapid.SliceOfN(result, 0, 3).Draw(t, "results"),
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		r := llm.Request{
			Turns:  rapid.SliceOfN(turn, 0, 6).Draw(rt, "turns"),
			Choice: rapid.SampledFrom([]llm.Choice{llm.Auto, llm.None}).Draw(rt, "choice"),
			Where: llm.Where{
				First: rapid.SampledFrom(says).Draw(rt, "first"), Last: rapid.SampledFrom(says).Draw(rt, "last"),
				Person: rapid.SampledFrom([]string{"", "U0ANA", "U0TOM"}).Draw(rt, "person"), Channel: rapid.SampledFrom([]string{"", "C0FRONT", "C0NORTH"}).Draw(rt, "channel"),
				Replies: rapid.IntRange(-2, 8).Draw(rt, "replies"),
			},
		}
		if rapid.Bool().Draw(rt, "router") {
			r = routed(r)
		}
		got, err := one.Do(t.Context(), r)
		again, errAgain := two.Do(t.Context(), r)
		if d := cmp.Diff(got, again); d != "" || fmt.Sprint(err) != fmt.Sprint(errAgain) {
			rt.Fatalf("two answers to one request: %v, %v\n%s", err, errAgain, d)
		}
		var failed *llm.Error
		switch {
		case err == nil && got.Text == "" && len(got.Calls) == 0:
			rt.Fatalf("an answer that says nothing: %+v", got)
		case err != nil && (!errors.As(err, &failed) || failed.Reason == "" || failed.Model == ""):
			rt.Fatalf("an untyped error: %v", err)
		}
	})
}
