package rehearse_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"switchboard/config"
	"switchboard/llm"
	"switchboard/rehearse"
	"switchboard/store"
)

func TestThePackHolds(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	o := desk(t, s, "")
	results, err := all(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != len(o.Pack.Rehearsals) || len(results) == 0 {
		t.Fatalf("%d results of %d rehearsals", len(results), len(o.Pack.Rehearsals))
	}
	for _, r := range results {
		if len(r.Failures) > 0 || r.Place.File != "rehearsals/desk.yaml" || len(r.Turns) == 0 || r.Took <= 0 {
			t.Errorf("%q at %s, %d turns in %s:\n%s", r.Name, r.Place, len(r.Turns), r.Took, strings.Join(r.Failures, "\n"))
		}
	}
	if n := s.requests(); n != 1 {
		t.Errorf("the server was asked %d times, want once: the other calls are played or denied", n)
	}
}

// With a clock that stands still, all that a rehearsal's clock shows are the waits between attempts.
func TestWaitsBetweenAttemptsCountInFull(t *testing.T) {
	t.Parallel()
	o := desk(t, newShelf(t), strings.Replace(balls, "  script:", "  at: \"2020-05-04T10:00:00+02:00\"\n  tools: {stock.get: [{fail: timeout}, {fail: unavailable}, {item: ball, amount: 12}]}\n  script:", 1))
	still := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	o.Now = func() time.Time { return still }
	got := play(t, o)
	if len(got.Failures) != 0 {
		t.Fatalf("got %q", got.Failures)
	}
	// Two waits, of an eighth to a quarter and of a quarter to half a second; a hundredth of each passes on the real clock.
	if ms := got.Turns[0].Calls[0].MS; ms < 370 || ms > 750 || got.Took != 0 {
		t.Errorf("the call took %d ms and the rehearsal %s, want the two waits and nothing", ms, got.Took)
	}
}

const balls = `- name: balls
  as: U0ANA
  in: C0FRONT
  script:
    - say: how many balls are left?
    - route: {assistant: stock, confidence: 0.95}
    - call: {tool: stock.get, args: {item: ball}, why: count, expects: a number}
    - reply: There are ${ calls[0].result.amount }.
    - expect: {says: [there are 12]}
`

func TestAChangedRowChangesTheAnswer(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	if got := play(t, desk(t, s, balls)); len(got.Failures) != 0 {
		t.Fatalf("got %q", got.Failures)
	}
	s.set("ball", 13)
	got := play(t, desk(t, s, balls))
	if len(got.Failures) != 1 || !strings.HasPrefix(got.Failures[0], `rehearsals/own.yaml:9: expected a reply that says "there are 12"`) || !strings.Contains(got.Failures[0], "There are 13.") {
		t.Errorf("got %q", got.Failures)
	}
}

// Each case is a script that does not hold. The failures begin with the line, and say what was expected and what there was.
func TestFailuresNameLineExpectationAndFact(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		want   [][]string
	}{
		"every expectation": {`
    - route: {assistant: help, confidence: 0.9}
    - reply: Hello there.
    - expect:
        outcome: clarify
        assistant: stock
        refused: docs.fetch
        denied: docs.fetch
        says: [Hello, goodbye]
        that: run.rounds == 2
    - expect: {says: [hello THERE], that: run.rounds == 1}
`, [][]string{
			{":6: expected outcome clarify, it was answered", "there was: answered by help, 1 rounds", "“Hello there.”"},
			{":6: expected assistant stock, it was help"},
			{":6: expected a refused call of docs.fetch"},
			{":6: expected a denied call of docs.fetch"},
			{`:6: expected a reply that says "goodbye"`},
			{":6: expected run.rounds == 2, it does not hold"},
		}},
		"a condition that fails": {`
    - route: {assistant: help, confidence: 0.9}
    - reply: Hello.
    - expect: {that: "calls[3].outcome == 'ok'"}
`, [][]string{{":6: expected calls[3].outcome == 'ok', which cannot be evaluated"}}},
		"nobody": {`
    - route: {assistant: none, confidence: 0.9}
    - expect: {assistant: help}
`, [][]string{{":5: expected assistant help, it was none"}}},
		"an answer too many": {`
    - route: {assistant: help, confidence: 0.9}
    - reply: Hello.
    - reply: Hello again.
    - expect: {outcome: answered}
    - say: thanks
    - route: {assistant: none, confidence: 0.9}
`, [][]string{{":6: the script has 3 answers here, the run asked for 2"}}},
		"an answer too few": {`
    - route: {assistant: help, confidence: 0.9}
    - call: {tool: docs.search, args: {query: x}, why: look, expects: something}
    - say: thanks
    - route: {assistant: none, confidence: 0.9}
`, [][]string{{":3: the script has 2 answers to this message, the run asked for 3", "docs.search ok"}}},
		"the wrong kind of answer": {`
    - reply: Hello.
`, [][]string{{":3: the script does not fit the run: the answer at rehearsals/own.yaml:4 is a reply, but the router was asked"}}},
		"a step that cannot be filled in": {`
    - route: {assistant: help, confidence: 0.9}
    - call: {tool: docs.fetch, args: {name: nothing}, why: look, expects: something}
    - reply: It is ${ calls[0].result.title }.
    - expect: {says: [it is]}
`, [][]string{
			{`:7: expected a reply that says "it is"`, "docs.fetch failed: "},
			{":3: a step of the script could not be filled in", "own.yaml:6"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := play(t, desk(t, newShelf(t), "- name: it\n  script:\n    - say: hello"+c.script))
			if len(got.Failures) != len(c.want) {
				t.Fatalf("got %d failures, want %d:\n%s", len(got.Failures), len(c.want), strings.Join(got.Failures, "\n"))
			}
			for i, parts := range c.want {
				for _, p := range parts {
					if !strings.Contains(got.Failures[i], p) {
						t.Errorf("failure %d: %q does not say %q", i, got.Failures[i], p)
					}
				}
				if !strings.HasPrefix(got.Failures[i], "rehearsals/own.yaml:") {
					t.Errorf("failure %d: %q does not begin with its place", i, got.Failures[i])
				}
			}
		})
	}
}

func TestWhoSpeaksWhereTheScriptLeavesItOpen(t *testing.T) {
	t.Parallel()
	o := desk(t, newShelf(t), strings.NewReplacer("  as: U0ANA\n", "", "  in: C0FRONT\n", "").Replace(balls))
	if got := play(t, o); len(got.Failures) == 0 {
		t.Error("a stranger may use the stock assistant")
	}
	o.As, o.In = "U0ANA", "C0FRONT"
	if got := play(t, o); len(got.Failures) != 0 {
		t.Errorf("got %q", got.Failures)
	}
}

// live stands for real models: it answers the router and the assistant by what it is asked, not by a script.
type live struct {
	name string

	mu    *sync.Mutex
	asked *[]string
}

func (l live) Do(_ context.Context, req llm.Request) (llm.Reply, error) {
	l.mu.Lock()
	*l.asked = append(*l.asked, l.name)
	l.mu.Unlock()
	reply := llm.Reply{Text: "It says ball.", Finish: llm.Stop, Model: l.name, Attempts: 1, Usage: llm.Usage{Input: 10, Output: 5, Known: true}}
	if req.Schema != nil {
		reply.Text = `{"assistant":"stock","confidence":1,"question":null}`
	}
	return reply, nil
}

func TestLiveIgnoresTheScriptAndHoldsTheExpectations(t *testing.T) {
	t.Parallel()
	o := desk(t, newShelf(t), balls)
	var mu sync.Mutex
	var asked []string
	o.Live = func(m config.Model) (llm.Model, error) { return live{m.Name, &mu, &asked}, nil }
	got := play(t, o)
	if len(got.Failures) != 1 || !strings.Contains(got.Failures[0], "It says ball.") {
		t.Errorf("got %q, want the one expectation that does not hold", got.Failures)
	}
	if want := []string{"judge", "fast"}; fmt.Sprint(asked) != fmt.Sprint(want) {
		t.Errorf("asked %v, want the router's model and the assistant's: %v", asked, want)
	}
	asked = nil
	o.Model = "fast"
	got = play(t, o)
	if want := []string{"fast", "fast"}; fmt.Sprint(asked) != fmt.Sprint(want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
	for _, st := range got.Turns[0].Steps {
		if st.Model != "openai/gpt-4o-mini" {
			t.Errorf("a step is on record as of %s", st.Model)
		}
	}
	o.Model = "fats"
	if _, err := rehearse.Play(t.Context(), o.Pack.Rehearsals[0], o); err == nil || !strings.Contains(err.Error(), "choose one of fast, judge") {
		t.Errorf("got %v, want the models to choose from", err)
	}
}

// all plays every rehearsal of the pack, up to one that cannot be played.
func all(ctx context.Context, o rehearse.Options) ([]rehearse.Result, error) {
	var out []rehearse.Result
	for _, r := range o.Pack.Rehearsals {
		res, err := rehearse.Play(ctx, r, o)
		if err != nil {
			return out, err
		}
		out = append(out, res)
	}
	return out, nil
}

func TestWhatCannotBePlayedIsAnError(t *testing.T) {
	t.Parallel()
	o := desk(t, newShelf(t), balls)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := rehearse.Play(ctx, o.Pack.Rehearsals[0], o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
	none := errors.New("the disk is full")
	o.Store = func(context.Context) (store.Store, error) { return nil, none }
	if _, err := all(t.Context(), o); !errors.Is(err, none) || !strings.Contains(err.Error(), "rehearsals/own.yaml:1") {
		t.Errorf("no store: got %v", err)
	}
	o = desk(t, newShelf(t), balls)
	o.Env = func(string) (string, bool) { return "", false }
	if _, err := all(t.Context(), o); err == nil || !strings.Contains(err.Error(), "DESK_URL") {
		t.Errorf("no variable: got %v", err)
	}
}
