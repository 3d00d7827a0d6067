package turn_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"switchboard/chat"
	"switchboard/llm"
	"switchboard/tools"
	"switchboard/turn"
)

func limited(most int, model func(llm.Request) (llm.Reply, error)) func(llm.Request) (llm.Reply, error) {
	return func(r llm.Request) (llm.Reply, error) {
		if (llm.Request{Turns: r.Turns}).Size() > most {
			return llm.Reply{}, &llm.Error{Reason: llm.ContextTooLong, Attempts: 1}
		}
		return model(r)
	}
}

// A conversation that is too long for the model is made shorter once, and the answer says so.
func TestL7_TooLongAConversationIsCompactedOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.pack = strings.Replace(h.pack, "tokens: 20000", "tokens: 200000", 1)
	h.do = func(string, tools.Input) (tools.Output, error) {
		return tools.Output{Value: strings.Repeat("row ", 1000)}, nil
	}
	talk := script("read", wants("rows.get 1"), wants("rows.get 2"), says("Here."))
	h.model = talk
	h.up()
	defer h.down()
	h.say(message(0, "the beginning"))
	for n := range 6 {
		hear(h, chat.Said{ID: fmt.Sprint(n), By: "Tom", Text: strings.Repeat("talk ", 300), At: time.Now()})
	}
	h.with(func() { h.model = limited(9000, talk) })
	before := len(h.requests())
	f := h.say(message(1, "and now?"))
	if f.Outcome != turn.Answered || f.Reply.Text != "Here.\n\n(I left out older parts of this conversation: it has grown too long for the language model.)" {
		t.Errorf("finished %+v", f)
	}
	refused := 0
	for _, r := range h.requests()[before:] {
		if (llm.Request{Turns: r.Turns}).Size() > 9000 {
			refused++
		}
	}
	if refused != 2 { // the router's, and the run's
		t.Errorf("%d requests were too long, want 2", refused)
	}
	last := shown(h)
	if got := texts(last); !strings.Contains(got[0], "the beginning") || !strings.Contains(got[1], "left out") {
		t.Errorf("the last request begins with %.200q", got[:2])
	}
}

// What cannot be made short enough is said honestly.
func TestL7_WhatStaysTooLongIsSaid(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = func(r llm.Request) (llm.Reply, error) {
		if isRouter(r) {
			return routeTo("read", 0.9), nil
		}
		return llm.Reply{}, &llm.Error{Reason: llm.ContextTooLong, Attempts: 1}
	}
	h.up()
	defer h.down()
	if f := h.say(message(1, "read")); f.Outcome != turn.Failed || !strings.Contains(f.Reply.Text, "grown too long") || len(h.requests()) != 3 {
		t.Errorf("finished %+v after %d model calls", f, len(h.requests()))
	}
}

// Where nothing could be left out, nothing is said to be.
func TestL7_NothingLeftOutIsNotSaid(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	n := 0
	h.model = func(r llm.Request) (llm.Reply, error) {
		if isRouter(r) {
			return routeTo("read", 0.9), nil
		}
		if n++; n == 1 {
			return llm.Reply{}, &llm.Error{Reason: llm.ContextTooLong, Attempts: 1}
		}
		return says("Here."), nil
	}
	h.up()
	defer h.down()
	if f := h.say(message(1, "read")); f.Reply.Text != "Here." {
		t.Errorf("finished %+v", f)
	}
}

// Whatever the conversation: calls keep their results, in order; the first message, the request and the newest round stay whole.
func TestL7_CompactionSplitsNoPair(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Custom(func(t *rapid.T) string { return strings.Repeat("ü", rapid.IntRange(0, 900).Draw(t, "length")) })
		var turns []llm.Turn
		history := rapid.IntRange(0, 8).Draw(t, "history")
		for range history {
			turns = append(turns, llm.Turn{Role: llm.User, Text: text.Draw(t, "said")})
		}
		turns = append(turns, llm.Turn{Role: llm.User, Text: "the request"})
		for n := range rapid.IntRange(0, 5).Draw(t, "rounds") {
			a, r := llm.Turn{Role: llm.Assistant}, llm.Turn{Role: llm.Results}
			for i := range rapid.IntRange(1, 3).Draw(t, "calls") {
				id := fmt.Sprint(n, "-", i)
				a.Calls = append(a.Calls, llm.ToolCall{ID: id, Name: "get"})
				r.Results = append(r.Results, llm.Result{ID: id, Name: "get", Text: text.Draw(t, "result")})
			}
			turns = append(turns, a, r)
			if rapid.Bool().Draw(t, "heard") {
				turns = append(turns, llm.Turn{Role: llm.User, Text: "and this"})
			}
		}
		whole := fmt.Sprint(turns)
		got := turn.Compact(turns, history)
		if fmt.Sprint(turns) != whole {
			t.Fatal("what was given was changed")
		}
		request := -1
		for i, g := range got {
			if g.Text == "the request" {
				request = i
			}
		}
		if request < 0 || history > 0 && got[0].Text != turns[0].Text {
			t.Fatal("the request or the first message is gone")
		}
		own, kept := turns[history:], got[request:]
		if len(own) != len(kept) {
			t.Fatalf("%d turns of the run became %d", len(own), len(kept))
		}
		newest := 0
		for i := range own {
			if own[i].Role == llm.Results {
				newest = i
			}
		}
		for i := range own {
			if len(own[i].Results) != len(kept[i].Results) || fmt.Sprint(own[i].Calls) != fmt.Sprint(kept[i].Calls) {
				t.Fatalf("round turn %d became %+v", i, kept[i])
			}
			for j, r := range own[i].Results {
				k := kept[i].Results[j]
				head, _, cut := strings.Cut(k.Text, " … (the rest")
				if k.ID != r.ID || !strings.HasPrefix(r.Text, head) || cut && i == newest || !cut && k.Text != r.Text {
					t.Fatalf("result %d of turn %d became %q", j, i, k.Text)
				}
			}
		}
	})
}

// A model that says nothing in the middle of a run is asked once more, without tools.
func TestL1_AnEmptyAnswerInMidRunGetsTheLastCall(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = func(r llm.Request) (llm.Reply, error) {
		switch {
		case isRouter(r):
			return routeTo("read", 0.9), nil
		case rounds(r) == 0:
			return wants("rows.get 1"), nil
		case r.Choice == llm.None:
			return says("What I have."), nil
		}
		return llm.Reply{}, &llm.Error{Reason: llm.Empty, Attempts: 3}
	}
	h.up()
	defer h.down()
	if f := h.say(message(1, "read")); f.Outcome != turn.Answered || f.Reply.Text != "What I have." || len(h.requests()) != 4 {
		t.Errorf("finished %+v after %d model calls", f, len(h.requests()))
	}
}
