package loop

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"switchboard/llm"
)

// sideBySide is how many reads of one round run at once.
const sideBySide = 8

// calls carries the calls of one reply and answers each exactly once, in their order. Reads run side by side; a call with
// an effect waits for all before it, and all after it wait for it. Where one waits for a person, those after it are held.
func calls(ctx context.Context, d Deps, first At, list []llm.ToolCall, offered bool) ([]Answer, error) {
	answers := make([]Answer, len(list))
	held := false
	for from := 0; from < len(list); {
		to := from + 1
		for !d.Effect(list[from].Name) && to < len(list) && !d.Effect(list[to].Name) && !among(list[to], list[from:to]) {
			to++
		}
		// The group has no context of its own: a call that cannot be recorded must not cut off its neighbours' outcomes.
		var g errgroup.Group
		g.SetLimit(sideBySide)
		for i := from; i < to; i++ {
			g.Go(func() (err error) {
				defer func() {
					if p := recover(); p != nil { // in a goroutine of its own it would end the process
						err = fmt.Errorf("call %s panicked: %v", list[i].Name, p)
					}
				}()
				answers[i], err = d.Call(ctx, At{first.Round, first.Seq + i, held}, list[i], offered)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		held = held || waits(answers[from:to])
		from = to
	}
	return answers, nil
}

// among says whether an equal call is in the list: the first of them must run first, so that the others find its record.
func among(c llm.ToolCall, list []llm.ToolCall) bool {
	return slices.ContainsFunc(list, func(o llm.ToolCall) bool { return o.Name == c.Name && o.Args == c.Args })
}

func results(answers []Answer) llm.Turn {
	t := llm.Turn{Role: llm.Results}
	for _, a := range answers {
		t.Results = append(t.Results, a.Result)
	}
	return t
}

func waits(answers []Answer) bool {
	return slices.ContainsFunc(answers, func(a Answer) bool { return a.Waits })
}

func ends(answers []Answer) bool {
	for _, a := range answers {
		if a.Ends {
			return true
		}
	}
	return false
}

// distinct gives every call of a reply an id of its own, whatever the model wrote: each result must find exactly one call.
func distinct(round int, list []llm.ToolCall) []llm.ToolCall {
	taken := map[string]int{"": 2}
	for _, c := range list {
		taken[c.ID]++
	}
	out := make([]llm.ToolCall, len(list))
	for i, c := range list {
		if taken[c.ID] > 1 {
			taken[c.ID]--
			c.ID = fmt.Sprintf("call_%d_%d", round, i)
			for taken[c.ID] > 0 {
				c.ID += "_"
			}
			taken[c.ID]++
		}
		out[i] = c
	}
	return out
}
