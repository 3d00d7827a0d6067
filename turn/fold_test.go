package turn_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"switchboard/chat"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/tools"
	"switchboard/turn"
)

// assistantRounds counts the assistant's replies since the request that begins with first.
func assistantRounds(r llm.Request, first string) int {
	n := 0
	for _, t := range slices.Backward(r.Turns) {
		if t.Role == llm.Assistant {
			n++
		}
		if t.Role == llm.User && strings.Contains(t.Text, first) {
			return n
		}
	}
	return n
}

func texts(r llm.Request) []string {
	var out []string
	for _, t := range r.Turns {
		out = append(out, fmt.Sprintf("%s: %s", t.Role, t.Text))
	}
	return out
}

// meanwhile lets something happen while the first call of a tool runs.
func (h *house) meanwhile(do func()) {
	once := false
	h.wait = func(context.Context) error {
		if !once {
			once = true
			do()
		}
		return nil
	}
}

// What the same person says during a run is part of it from the next round on: one turn, one answer.
func TestFolding_TheSamePersonsNextWordsJoinTheRun(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = func(r llm.Request) (llm.Reply, error) {
		if isRouter(r) {
			return routeTo("desk", 0.9), nil
		}
		return []llm.Reply{wants("rows.get 1"), wants("rows.get 1"), says("Both.")}[assistantRounds(r, "row 1")], nil
	}
	h.meanwhile(func() {
		h.accept(message(2, "and row 2"))
		h.accept(message(3, "and row 3"))
	})
	h.up()
	defer h.down()
	f := h.say(message(1, "row 1"))
	if f.Outcome != turn.Answered || len(h.posted()) != 1 {
		t.Errorf("finished %+v with %d posts", f, len(h.posted()))
	}
	last := h.requests()[3]
	want := []string{"user: row 1", "assistant: ", "tool: ", "user: and row 2", "user: and row 3", "assistant: ", "tool: "}
	if diff := cmp.Diff(want, texts(last)); diff != "" {
		t.Errorf("the last request (-want +got):\n%s", diff)
	}
	if len(h.runs()) != 2 {
		t.Errorf("ran %v; a new message lets the same read be made again", h.runs())
	}
	h.idle()
	rec := h.read(f.Turn)
	if s := journal.Summarise(rec); !slices.Equal(s.Folded, []string{"and row 2", "and row 3"}) || rec.Folded[0].Key != message(2, "").Key {
		t.Errorf("on record: %v, %+v", s.Folded, rec.Folded)
	}
	var trace strings.Builder
	if err := journal.Draw(&trace, rec); err != nil || !strings.Contains(trace.String(), "folded: and row 2\n") {
		t.Errorf("the trace reads\n%s", trace.String())
	}
	h.say(message(4, "thanks"))
	history := texts(h.requests()[4])
	if !slices.Contains(history, "user: and row 3") || !slices.Contains(history, "assistant: Both.\n\nNothing was changed.") {
		t.Errorf("the thread's history is %q", history)
	}
}

// A message that only the final text has heard is answered by it: on record together, so that a kill before the post and a
// turn that is given up leave no second answer to it.
func TestFolding_TheFinalTextAnswersWhatItHasHeard(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after   int64 // commits until the process dies; 0: it does not
		breaks  bool
		outcome string
	}{
		"in one go":             {outcome: turn.Answered},
		"killed before the end": {after: 4, outcome: turn.Answered},
		"given up":              {breaks: true, outcome: turn.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.model = func(r llm.Request) (llm.Reply, error) {
				switch n := assistantRounds(r, "row 1"); {
				case isRouter(r):
					return routeTo("desk", 0.9), nil
				case n == 0:
					return wants("rows.get 1"), nil
				case n == 1 && c.breaks:
					return wants("rows.set 2"), nil
				case c.breaks:
					panic("a reply that nobody can read")
				}
				return says("Both."), nil
			}
			h.meanwhile(func() { h.accept(message(2, "and set row 2")) })
			h.up()
			if c.after > 0 {
				h.allowed.Store(c.after)
			}
			h.accept(message(1, "row 1"))
			f := <-h.ended
			if c.after > 0 {
				h.down()
				h.allowed.Store(-1)
				h.up()
				f = <-h.ended
			}
			defer h.down()
			h.idle()
			if f.Outcome != c.outcome || len(h.ended) != 0 {
				t.Errorf("finished %+v, and %d more turns", f, len(h.ended))
			}
			belongs(t, h)
			if rec := h.read(f.Turn); len(rec.Folded) != 1 || c.breaks != (len(h.runs()) == 2) {
				t.Errorf("folded %v, ran %v", rec.Folded, h.runs())
			}
		})
	}
}

// A message that is deleted while it waits does not join; a stop that names one that has joined ends the whole turn.
func TestL8_StopsAndFolding(t *testing.T) {
	t.Parallel()
	for name, joined := range map[string]bool{"deleted while it waits": false, "deleted once it has joined": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.model = func(r llm.Request) (llm.Reply, error) {
				if isRouter(r) {
					return routeTo("desk", 0.9), nil
				}
				return []llm.Reply{wants("rows.get 1"), wants("rows.get 2"), says("Done.")}[assistantRounds(r, "row 1")], nil
			}
			calls := 0
			first, later := func() { h.accept(message(2, "and row 2")) }, func() { h.halt(deleted(2)) }
			h.wait = func(context.Context) error {
				if calls++; calls == 1 {
					first()
				}
				if joined == (calls == 2) {
					later()
				}
				return nil
			}
			h.up()
			defer h.down()
			id := h.accept(message(1, "row 1"))
			h.idle()
			rec := h.read(id)
			if joined {
				f := <-h.ended
				if f.Outcome != turn.Stopped || f.Reply.Text == "" || len(rec.Folded) != 1 || len(h.ended) != 0 {
					t.Errorf("finished %+v with %d folded", f, len(rec.Folded))
				}
				return
			}
			all := h.finished(2)
			if f, second := all[message(1, "").Key], all[message(2, "").Key]; f.Outcome != turn.Answered || len(rec.Folded) != 0 || second.Outcome != turn.Stopped || len(h.posted()) != 1 {
				t.Errorf("finished %+v and %+v with %d posts", f, second, len(h.posted()))
			}
		})
	}
}

// What does not join becomes a turn of its own, in its order: somebody else's words and what comes behind them, a click, words
// to another assistant, and whatever comes once the last call has begun.
func TestFolding_WhatDoesNotJoin(t *testing.T) {
	t.Parallel()
	click := message(2, "")
	click.Pick = &chat.Pick{Card: "t_0", Value: "read"}
	for name, c := range map[string]struct {
		first chat.Message
		last  bool
	}{
		"somebody else":     {first: by("U0BOB", message(2, "row 2"))},
		"a click":           {first: click},
		"another assistant": {first: message(2, "read: row 2")},
		"too late":          {first: message(2, "row 2"), last: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.letBobIn()
			said := false
			h.model = func(r llm.Request) (llm.Reply, error) {
				if isRouter(r) {
					return routeTo("desk", 0.9), nil
				}
				if c.last && r.Choice == llm.None && !said {
					said = true
					h.accept(c.first)
				}
				if strings.Contains(r.Turns[len(r.Turns)-1].Text, "row 1") || c.last && r.Choice != llm.None && !said {
					return wants("rows.get " + fmt.Sprint(len(h.requests()))), nil
				}
				return says("re " + r.Turns[len(r.Turns)-1].Text), nil
			}
			if !c.last {
				h.meanwhile(func() {
					h.accept(c.first)
					h.accept(message(3, "row 3"))
				})
			}
			h.up()
			defer h.down()
			first := h.accept(message(1, "row 1"))
			want := []string{message(1, "").Key, message(2, "").Key}
			if !c.last {
				want = append(want, message(3, "").Key)
			}
			var got []string
			h.finished(len(want))
			for _, p := range h.posted() {
				got = append(got, p.To.Key)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("turns in order (-want +got):\n%s", diff)
			}
			if rec := h.read(first); len(rec.Folded) != 0 {
				t.Errorf("folded: %+v", rec.Folded[0])
			}
		})
	}
}

// The process dies at every point at which something is made durable. The folded message is answered once, and what it
// asked for is done once.
func TestD3_AFoldedMessageSurvivesAKill(t *testing.T) {
	t.Parallel()
	for after := range int64(12) {
		t.Run(fmt.Sprintf("after %d commits", after), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.model = func(r llm.Request) (llm.Reply, error) {
				if isRouter(r) {
					return routeTo("desk", 0.9), nil
				}
				heard := slices.ContainsFunc(r.Turns, func(t llm.Turn) bool { return t.Role == llm.User && t.Text == "and set row 2" })
				switch n := rounds(r); {
				case heard && !slices.ContainsFunc(r.Turns, func(t llm.Turn) bool {
					return slices.ContainsFunc(t.Calls, func(c llm.ToolCall) bool { return c.Name == "rows.set" })
				}):
					return wants("rows.set 2"), nil
				case !heard && n == 0:
					return wants("rows.get 1"), nil
				}
				return says("That is all."), nil
			}
			h.meanwhile(func() { h.accept(message(2, "and set row 2")) })
			h.up()
			h.allowed.Store(after)
			h.accept(message(1, "get row 1"))
			<-h.ended
			killed := h.allowed.Load() == 0
			h.down()
			h.allowed.Store(-1)
			first := h.posted()
			h.forget()
			h.wait = nil
			if !killed {
				return
			}
			h.up()
			defer h.down()
			h.idle()
			count := map[string]int{}
			for _, r := range h.runs() {
				count[r]++
			}
			if count["rows.set 2"] > 1 {
				t.Errorf("the effect was repeated: %v", h.runs())
			}
			belongs(t, h)
			for _, p := range append(first, h.posted()...) {
				if p.Outcome == turn.Failed && !strings.HasSuffix(p.Key, "/sorry") {
					t.Errorf("posted %+v", p)
				}
			}
		})
	}
}

// belongs says that each message that was accepted belongs to exactly one finished turn, in their order.
func belongs(t interface{ Errorf(string, ...any) }, h *house) {
	begun, err := h.store.Streams(context.Background(), journal.KindBegun, 1000)
	if err != nil {
		t.Errorf("%v", err)
	}
	var got []string
	for _, e := range slices.Backward(begun) {
		rec, _, err := journal.Read(context.Background(), h.store, e.Stream)
		if err != nil || rec.Ended == nil {
			t.Errorf("turn %s ended %+v, %v", e.Stream, rec.Ended, err)
		}
		got = append(got, h.turns[rec.Turn])
		for _, f := range rec.Folded {
			got = append(got, f.Key)
		}
	}
	if diff := cmp.Diff(h.said, got); diff != "" {
		t.Errorf("messages by turns (-want +got):\n%s", diff)
	}
}

// Whoever says what when, and whenever the process dies: every message belongs to exactly one finished turn, in order.
func TestFolding_EveryMessageBelongsToOneTurn(t *testing.T) {
	t.Parallel()
	games := 0
	rapid.Check(t, func(rt *rapid.T) {
		if games++; games > 6 { // each is a store of its own
			return
		}
		h := newHouse(t)
		h.letBobIn()
		people := rapid.SliceOfN(rapid.SampledFrom([]string{"U0ANA", "U0ANA", "U0BOB"}), 1, 7).Draw(rt, "people")
		arrive := rapid.SliceOfN(rapid.IntRange(0, 2), 40, 40).Draw(rt, "arrivals") // step by step
		calls := rapid.SliceOfN(rapid.Bool(), 40, 40).Draw(rt, "calls")
		lives := rapid.SliceOfN(rapid.Int64Range(1, 12), 0, 3).Draw(rt, "lives")
		var mu sync.Mutex
		said, steps := 0, 0
		some := func(most int) {
			mu.Lock()
			defer mu.Unlock()
			for range min(most, len(people)-said) {
				said++
				h.accept(by(people[said-1], message(said, fmt.Sprint("word ", said))))
			}
		}
		step := func() int {
			mu.Lock()
			steps++
			n := steps % 40
			mu.Unlock()
			some(arrive[n])
			return n
		}
		h.model = func(r llm.Request) (llm.Reply, error) {
			n := step()
			if isRouter(r) {
				return routeTo("desk", 0.9), nil
			}
			if r.Choice != llm.None && calls[n] {
				return wants(fmt.Sprint("rows.get ", n)), nil
			}
			return says("ok"), nil
		}
		h.do = func(string, tools.Input) (tools.Output, error) {
			step()
			return tools.Output{Value: "row"}, nil
		}
		for _, life := range lives {
			h.up()
			h.allowed.Store(life)
			some(1)
			h.settle()
			h.down()
			h.allowed.Store(-1)
		}
		h.up()
		some(len(people))
		h.idle()
		h.down()
		h.upFor(func() { belongs(rt, h) })
		h.down()
	})
}

// settle waits until the engine is through with what waits, or cannot write any more.
func (h *house) settle() {
	for h.allowed.Load() != 0 {
		if n, err := h.store.Waiting(context.Background()); err != nil || n == 0 {
			return
		}
		<-h.moved
	}
}
