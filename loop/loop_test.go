package loop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"switchboard/llm"
	"switchboard/loop"
)

// world is everything outside the loop: a model that says what the test wants, and tools that remember.
type world struct {
	mu      sync.Mutex
	model   func(n int, tools bool) (llm.Reply, error)
	asked   []bool // for every model call, whether tools were offered
	called  []string
	refused []string
	fail    map[string]error
	stuck   int // the call of this number makes no progress; 0 is none
	running atomic.Int32
	most    atomic.Int32
	arrived chan struct{} // where set: a call reports here,
	pass    chan struct{} // and waits here
}

func (w *world) deps() loop.Deps {
	return loop.Deps{
		Ask: func(_ context.Context, _ []llm.Turn, tools bool) (llm.Reply, error) {
			w.asked = append(w.asked, tools)
			return w.model(len(w.asked)-1, tools)
		},
		Call: func(_ context.Context, at loop.At, c llm.ToolCall, offered bool) (loop.Answer, error) {
			if n := w.running.Add(1); n > w.most.Load() {
				w.most.Store(n)
			}
			if w.arrived != nil {
				w.arrived <- struct{}{}
				<-w.pass
			}
			w.running.Add(-1)
			w.mu.Lock()
			defer w.mu.Unlock()
			if !offered {
				w.refused = append(w.refused, c.ID)
			} else {
				w.called = append(w.called, fmt.Sprintf("%d:%s", at.Seq, c.Name))
			}
			return loop.Answer{Result: llm.Result{ID: c.ID, Name: c.Name, Text: "ok"}, Ends: w.stuck != 0 && at.Seq == w.stuck}, w.fail[c.Name]
		},
		Save:   func(context.Context, *loop.State) error { return nil },
		Effect: func(tool string) bool { return strings.HasPrefix(tool, "set") },
	}
}

func state(limit int) *loop.State {
	return &loop.State{Turns: []llm.Turn{{Role: llm.User, Text: "hello"}}, Limit: limit}
}

func wants(names ...string) llm.Reply {
	r := llm.Reply{Finish: llm.Called}
	for i, n := range names {
		r.Calls = append(r.Calls, llm.ToolCall{ID: fmt.Sprintf("c%d", i), Name: n, Args: "{}"})
	}
	return r
}

func TestL1_AModelThatAlwaysWantsToolsGetsRoundsAndOneMore(t *testing.T) {
	t.Parallel()
	for name, final := range map[string]struct {
		reply llm.Reply
		err   error
		text  string
		asks  int // calls that were refused
	}{
		"says something":        {reply: llm.Reply{Text: "sorry", Finish: llm.Stop}, text: "sorry"},
		"says nothing":          {reply: llm.Reply{Finish: llm.Stop}},
		"fails":                 {err: &llm.Error{Reason: llm.Overloaded}},
		"asks for tools again":  {reply: wants("get", "set"), asks: 2},
		"speaks and asks again": {reply: llm.Reply{Text: "one more", Calls: wants("get").Calls}, text: "one more", asks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{model: func(_ int, tools bool) (llm.Reply, error) {
				if tools {
					return wants("get"), nil
				}
				return final.reply, final.err
			}}
			end, err := loop.Run(t.Context(), state(6), w.deps())
			if err != nil {
				t.Fatal(err)
			}
			want := []bool{true, true, true, true, true, true, false}
			if diff := cmp.Diff(want, w.asked); diff != "" {
				t.Errorf("model calls with tools offered (-want +got):\n%s", diff)
			}
			if !end.Capped || end.Text != final.text || !errors.Is(end.Err, final.err) {
				t.Errorf("end = %+v, want capped with text %q and error %v", end, final.text, final.err)
			}
			if len(w.refused) != final.asks || len(w.called) != 6 {
				t.Errorf("%d calls refused and %d made, want %d and 6", len(w.refused), len(w.called), final.asks)
			}
		})
	}
}

func TestL1_AnEmptyReplyGetsOneMoreChance(t *testing.T) {
	t.Parallel()
	w := &world{model: func(n int, _ bool) (llm.Reply, error) {
		return []llm.Reply{{Finish: llm.Stop}, {Text: "here it is", Finish: llm.Stop}}[n], nil
	}}
	end, err := loop.Run(t.Context(), state(6), w.deps())
	if err != nil || end.Text != "here it is" || end.Capped {
		t.Errorf("Run = %+v, %v; want the second reply, not capped", end, err)
	}
	if diff := cmp.Diff([]bool{true, false}, w.asked); diff != "" {
		t.Errorf("model calls (-want +got):\n%s", diff)
	}
}

// Whatever a model writes, every id that the history holds has exactly one result, in call order.
func TestL2_EveryCallHasExactlyOneResult(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 4).Draw(t, "limit")
		ids := rapid.SampledFrom([]string{"", "a", "b", "call_0_0", "call_1_1"})
		names := rapid.SampledFrom([]string{"get", "set", "set2", "nonsense"})
		var seen [][]llm.Turn
		w := &world{}
		w.model = func(int, bool) (llm.Reply, error) {
			n := rapid.IntRange(0, 4).Draw(t, "calls")
			r := llm.Reply{Text: rapid.SampledFrom([]string{"", "hm"}).Draw(t, "text")}
			for range n {
				r.Calls = append(r.Calls, llm.ToolCall{ID: ids.Draw(t, "id"), Name: names.Draw(t, "name")})
			}
			return r, nil
		}
		d := w.deps()
		ask := d.Ask
		d.Ask = func(ctx context.Context, turns []llm.Turn, tools bool) (llm.Reply, error) {
			seen = append(seen, turns)
			return ask(ctx, turns, tools)
		}
		if _, err := loop.Run(context.Background(), state(limit), d); err != nil {
			t.Fatal(err)
		}
		for _, turns := range seen {
			for i, turn := range turns {
				if turn.Role != llm.Assistant {
					continue
				}
				results := turns[i+1].Results
				if len(results) != len(turn.Calls) {
					t.Fatalf("%d calls, %d results", len(turn.Calls), len(results))
				}
				once := map[string]bool{}
				for j, c := range turn.Calls {
					if c.ID == "" || once[c.ID] || results[j].ID != c.ID {
						t.Fatalf("call %d has id %q, its result %q", j, c.ID, results[j].ID)
					}
					once[c.ID] = true
				}
			}
		}
	})
}

func TestL4_NoProgressEndsTheRounds(t *testing.T) {
	t.Parallel()
	w := &world{stuck: 2, model: func(_ int, tools bool) (llm.Reply, error) {
		if tools {
			return wants("get"), nil
		}
		return llm.Reply{Text: "that is all"}, nil
	}}
	end, err := loop.Run(t.Context(), state(8), w.deps())
	if err != nil || end.Text != "that is all" || len(w.asked) != 4 {
		t.Errorf("Run = %+v, %v after %d model calls; want the final reply after 3 rounds", end, err, len(w.asked))
	}
}

func TestL5_ReadsRunSideBySideAndAnEffectIsABarrier(t *testing.T) {
	t.Parallel()
	w := &world{arrived: make(chan struct{}), pass: make(chan struct{}), model: func(n int, _ bool) (llm.Reply, error) {
		if n == 0 {
			return wants("get1", "get2", "set", "get3", "get4", "get3"), nil
		}
		return llm.Reply{Text: "done"}, nil
	}}
	finished := make(chan error, 1)
	go func() {
		_, err := loop.Run(t.Context(), state(3), w.deps())
		finished <- err
	}()
	for _, together := range []int{2, 1, 2, 1} { // two reads together, the effect alone, two reads, and one that is equal to another
		for range together {
			<-w.arrived
		}
		for range together {
			w.pass <- struct{}{}
		}
	}
	if err := <-finished; err != nil {
		t.Fatal(err)
	}
	if w.most.Load() != 2 {
		t.Errorf("%d calls ran at once, want 2", w.most.Load())
	}
	if w.called[2] != "2:set" {
		t.Errorf("calls ended in the order %v; the effect must come third", w.called)
	}
}

func TestL6_ASpentLimitLeadsToTheFinalCall(t *testing.T) {
	t.Parallel()
	w := &world{model: func(n int, tools bool) (llm.Reply, error) {
		switch {
		case n == 0:
			return wants("get"), nil
		case tools:
			return llm.Reply{}, fmt.Errorf("no: %w", loop.ErrSpent)
		}
		return llm.Reply{Text: "what I have"}, nil
	}}
	end, err := loop.Run(t.Context(), state(8), w.deps())
	if err != nil || end.Text != "what I have" || !end.Capped {
		t.Errorf("Run = %+v, %v; want the final reply, capped", end, err)
	}
}

// A run that is cut off at any point and goes on from its state asks the model for nothing that is stored.
func TestD3_AResumedRunAsksForNothingTwice(t *testing.T) {
	t.Parallel()
	script := []llm.Reply{wants("get"), wants("set", "get"), wants("get"), {Text: "done"}}
	for stored := 0; stored <= len(script); stored++ {
		t.Run(fmt.Sprintf("%d replies stored", stored), func(t *testing.T) {
			t.Parallel()
			s := state(3)
			for i, r := range script[:stored] {
				s.Rounds = append(s.Rounds, loop.Round{Reply: r, Final: i == 3})
			}
			w := &world{model: func(n int, _ bool) (llm.Reply, error) { return script[stored+n], nil }}
			end, err := loop.Run(t.Context(), s, w.deps())
			if err != nil || end.Text != "done" || !end.Capped {
				t.Fatalf("Run = %+v, %v", end, err)
			}
			if len(w.asked) != len(script)-stored {
				t.Errorf("the model was asked %d times, want %d", len(w.asked), len(script)-stored)
			}
			if len(w.called) != 4 {
				t.Errorf("calls went through the door: %v; want all four, which answers from the record", w.called)
			}
		})
	}
}

func TestRunStopsWhereACallCannotBeRecorded(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk full")
	w := &world{fail: map[string]error{"set": broken}, model: func(int, bool) (llm.Reply, error) { return wants("get", "set", "get"), nil }}
	_, err := loop.Run(t.Context(), state(3), w.deps())
	if !errors.Is(err, broken) {
		t.Errorf("Run = %v, want the record's error", err)
	}
	if len(w.called) != 2 || len(w.asked) != 1 {
		t.Errorf("after the error: calls %v, model calls %d; want nothing more", w.called, len(w.asked))
	}
}

// What the person says meanwhile stands before the next round, never before the first and never before the last call; the
// reply that has heard it carries it, so that a resumed run tells the model the same.
func TestFolding_NewWordsStandBeforeTheNextRound(t *testing.T) {
	t.Parallel()
	for stored := range 4 {
		t.Run(fmt.Sprintf("%d replies stored", stored), func(t *testing.T) {
			t.Parallel()
			said := func(round int) []llm.Turn { return []llm.Turn{{Role: llm.User, Text: fmt.Sprint("word ", round)}} }
			script := []llm.Reply{wants("get"), wants("get"), wants("get"), {Text: "done"}}
			s := state(3)
			for i, r := range script[:stored] {
				round := loop.Round{Reply: r}
				if i > 0 {
					round.Before = said(i)
				}
				s.Rounds = append(s.Rounds, round)
			}
			w := &world{model: func(n int, _ bool) (llm.Reply, error) { return script[stored+n], nil }}
			d := w.deps()
			asked := 0
			d.More = func(context.Context) ([]llm.Turn, error) {
				asked++
				return said(len(s.Rounds)), nil
			}
			var last []string
			ask := d.Ask
			d.Ask = func(ctx context.Context, turns []llm.Turn, tools bool) (llm.Reply, error) {
				last = nil
				for _, turn := range turns {
					last = append(last, string(turn.Role)+" "+turn.Text)
				}
				return ask(ctx, turns, tools)
			}
			if _, err := loop.Run(t.Context(), s, d); err != nil {
				t.Fatal(err)
			}
			want := []string{"user hello", "assistant ", "tool ", "user word 1", "assistant ", "tool ", "user word 2", "assistant ", "tool "}
			if diff := cmp.Diff(want, last); diff != "" {
				t.Errorf("the last call was told (-want +got):\n%s", diff)
			}
			if want := max(0, 3-max(stored, 1)); asked != want {
				t.Errorf("asked %d times for more, want %d", asked, want)
			}
			for i, r := range s.Rounds {
				if heard := i == 1 || i == 2; heard != (len(r.Before) == 1) {
					t.Errorf("round %d has heard %v", i, r.Before)
				}
			}
		})
	}
}

// A run that is stopped ends with that error wherever its model call stands, the last one included.
func TestL8_AStopIsPassedOn(t *testing.T) {
	t.Parallel()
	for at := range 4 {
		w := &world{model: func(n int, _ bool) (llm.Reply, error) {
			if n == at {
				return llm.Reply{}, fmt.Errorf("asked: %w", loop.ErrStopped)
			}
			return wants("get"), nil
		}}
		if _, err := loop.Run(t.Context(), state(3), w.deps()); !errors.Is(err, loop.ErrStopped) || len(w.asked) != at+1 {
			t.Errorf("stopped at call %d: %v after %d", at, err, len(w.asked))
		}
	}
}
