package rehearse_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchboard/chat"
	"switchboard/config"
	"switchboard/rehearse"
	"switchboard/tools"
)

func canned(answers ...config.CannedAnswer) *config.Rehearsal {
	return &config.Rehearsal{Tools: map[string]*config.Canned{"a.b": {Answers: answers}}}
}

func contract(effect config.Effect, method string) *config.Tool {
	return &config.Tool{Name: "a.b", Effect: effect, HTTP: &config.HTTP{Method: method}}
}

func TestWorldPlaysItsAnswersInOrderAndTheLastOneStays(t *testing.T) {
	t.Parallel()
	world := rehearse.World(canned(config.CannedAnswer{Result: 1}, config.CannedAnswer{Result: map[string]any{"n": 2, "f": 2.5}}, config.CannedAnswer{Result: "end"}))
	if got := world(&config.Tool{Name: "a.c"}); got != nil {
		t.Errorf("got %v for a tool that is left out, want nil", got)
	}
	first, second := world(contract(config.NoEffect, "GET")), world(contract(config.NoEffect, "GET"))
	want := []any{int64(1), map[string]any{"n": int64(2), "f": 2.5}, "end", "end"}
	for i, w := range want {
		tool := first
		if i%2 == 1 {
			tool = second // another assistant's, of the same name
		}
		got, err := tool.Run(t.Context(), tools.Input{})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(w, got.Value); d != "" || got.Status != 200 || got.Size == 0 {
			t.Errorf("answer %d, status %d (-want +got):\n%s", i, got.Status, d)
		}
	}
}

func TestWorldFailsAsAServerWould(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fail             string
		kind             tools.FaultKind
		maybe, transient bool
	}{
		{"timeout", tools.Timeout, true, true},
		{"not_found", tools.NotFound, false, false},
		{"refused", tools.Rejected, false, false},
		{"unavailable", tools.Unavailable, true, true},
		{"broken", tools.BadResult, true, false},
	} {
		for _, effect := range []config.Effect{config.NoEffect, config.Write} {
			method := map[config.Effect]string{config.NoEffect: "GET", config.Write: "POST"}[effect]
			_, err := rehearse.World(canned(config.CannedAnswer{Fail: c.fail}))(contract(effect, method)).Run(t.Context(), tools.Input{})
			var got *tools.Fault
			if !errors.As(err, &got) {
				t.Fatalf("%s: got %v, want a fault", c.fail, err)
			}
			if maybe := c.maybe && effect == config.Write; got.Kind != c.kind || got.Maybe != maybe || got.Transient != c.transient || got.Detail == "" {
				t.Errorf("%s of effect %s: got %+v, want kind %s, maybe %t, transient %t", c.fail, effect, got, c.kind, maybe, c.transient)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := rehearse.World(canned(config.CannedAnswer{Result: 1}))(contract(config.NoEffect, "GET")).Run(ctx, tools.Input{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestWorldAnswersEachCallOnce(t *testing.T) {
	t.Parallel()
	const n = 50
	answers := make([]config.CannedAnswer, n+1)
	for i := range answers {
		answers[i].Result = i
	}
	tool := rehearse.World(canned(answers...))(contract(config.NoEffect, "GET"))
	seen := make([]int, n)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			out, err := tool.Run(t.Context(), tools.Input{})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			seen[out.Value.(int64)]++
		})
	}
	wg.Wait()
	for i, times := range seen {
		if times != 1 {
			t.Errorf("answer %d was given %d times", i, times)
		}
	}
}

// Who a person of the playground is decides what exists for them, in a rehearsal as in the workspace.
func TestPeopleAreThoseOfThePlayground(t *testing.T) {
	t.Parallel()
	p := &config.Pack{Playground: config.Playground{People: []config.Resident{{ID: "U0EVE", Name: "Eve", Kind: chat.Guest, Groups: []string{"S0FIN"}}}}}
	if diff := cmp.Diff(chat.Person{ID: "U0EVE", Name: "Eve", Kind: chat.Guest, Groups: []string{"S0FIN"}}, rehearse.Person(p, "U0EVE")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := rehearse.Person(p, "U0ANA"); got.Kind != chat.Member {
		t.Errorf("somebody else is %+v, want a member", got)
	}
	r := &config.Rehearsal{Name: "a guest", As: "U0EVE", Steps: []config.Step{
		{Say: "hello"}, {Expect: &config.Expect{Outcome: "refused"}},
	}}
	o := desk(t, newShelf(t), "")
	pack := *o.Pack
	pack.Playground = p.Playground
	o.Pack = &pack
	res, err := rehearse.Play(t.Context(), r, o)
	if err != nil || len(res.Failures) != 0 {
		t.Errorf("the rehearsal as a guest: %+v, %v", res, err)
	}
}
