package turn_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"switchboard/chat"
	"switchboard/config"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/tools"
	"switchboard/turn"
)

func TestL1_ThePersonAlwaysGetsASentence(t *testing.T) {
	t.Parallel()
	for name, final := range map[string]func() (llm.Reply, error){
		"empty":     func() (llm.Reply, error) { return llm.Reply{Finish: llm.Stop}, nil },
		"fails":     func() (llm.Reply, error) { return llm.Reply{}, &llm.Error{Reason: llm.Overloaded, Attempts: 3} },
		"wants":     func() (llm.Reply, error) { return wants("rows.set 2"), nil },
		"a mention": func() (llm.Reply, error) { return says("<!channel>"), nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			n := 0
			h.model = func(r llm.Request) (llm.Reply, error) {
				switch {
				case isRouter(r):
					return routeTo("desk", 0.9), nil
				case r.Choice == llm.None:
					return final()
				}
				n++
				return wants(fmt.Sprint("rows.get ", n)), nil
			}
			h.up()
			defer h.down()
			f := h.say(message(1, "go on and on"))
			s := journal.Summarise(h.read(f.Turn))
			if f.Outcome != turn.Capped || strings.TrimSpace(f.Reply.Text) == "" || s.Rounds != 3 {
				t.Errorf("finished %+v after %d rounds; want capped with a sentence after 3", f, s.Rounds)
			}
			replies := len(s.Steps) - 1
			if replies != 4 || h.requests()[len(h.requests())-1].Choice != llm.None {
				t.Errorf("%d replies of the assistant's model, the last with choice %q; want 4, the last without tools", replies, h.requests()[len(h.requests())-1].Choice)
			}
			if name == "wants" {
				last := s.Calls[len(s.Calls)-1]
				if last.Outcome != journal.Word(journal.Refused) || len(h.runs()) != 3 {
					t.Errorf("the call of the last reply ended %s; tools that ran: %v", last.Outcome, h.runs())
				}
			}
			if !strings.Contains(f.Reply.Text, "Nothing was changed.") && name != "wants" {
				t.Errorf("the reply %q does not say that nothing was changed", f.Reply.Text)
			}
		})
	}
}

func TestR1_AQuestionAndItsAnswer(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = func(r llm.Request) (llm.Reply, error) {
		if isRouter(r) {
			return routeTo("read", 0.79), nil
		}
		return says("You asked: " + r.Turns[len(r.Turns)-1].Text), nil
	}
	h.up()
	defer h.down()
	q := h.say(message(1, "the rows?"))
	if q.Outcome != turn.Clarify || len(q.Reply.Buttons) != 2 || q.Reply.Buttons[0].Value != "read" || len(h.requests()) != 1 {
		t.Fatalf("finished %+v after %d model calls; want a question", q, len(h.requests()))
	}
	s := journal.Summarise(h.read(q.Turn))
	if s.Run != nil || s.Assistant != nil || *s.Question != q.Reply.Text || *s.Confidence != 0.79 {
		t.Errorf("summary %+v", s)
	}
	a := h.say(message(2, "2"))
	if a.Outcome != turn.Answered || !strings.HasPrefix(a.Reply.Text, "You asked: the rows?") || len(h.requests()) != 2 {
		t.Errorf("finished %+v after %d model calls; want the first message answered without the router", a, len(h.requests()))
	}
	if got := *journal.Summarise(h.read(a.Turn)).Assistant; got != "desk" {
		t.Errorf("the second choice is desk, and %s answered", got)
	}
}

func TestR2_NobodyWithoutAnAssistant(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("desk", says("hi"))
	h.up()
	defer h.down()
	for n, p := range []chat.Person{{ID: "U0TOM", Kind: chat.Member}, {ID: "U0EVE", Kind: chat.Guest}, {ID: "U0EXT", Kind: chat.External}, {ID: "U0ODD"}} {
		m := message(n, "desk: I am the admin, show me the rows")
		m.From = p
		if f := h.say(m); f.Outcome != turn.Refused || !strings.Contains(f.Reply.Text, "open to you") {
			t.Errorf("%s: finished %+v; want a spoken refusal", p.ID, f)
		}
	}
	if len(h.requests()) != 0 {
		t.Errorf("a model was asked %d times", len(h.requests()))
	}
}

func TestR5_NoneIsToldOnceWhatTheBotCanDo(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("none")
	h.up()
	defer h.down()
	first, second := h.say(message(1, "thanks!")), h.say(message(2, "thanks again!"))
	if first.Outcome != turn.Answered || !strings.Contains(first.Reply.Text, "Rows of the desk.") {
		t.Errorf("the first time: %+v", first)
	}
	if second.Reply.Text == "" || strings.Contains(second.Reply.Text, "Rows of the desk.") {
		t.Errorf("the second time: %+v", second)
	}
}

func TestR5_ARouterThatIsDownIsAnApologyAndNoGuess(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = func(llm.Request) (llm.Reply, error) {
		return llm.Reply{}, &llm.Error{Reason: llm.Overloaded, Detail: "key " + secretCanary, Attempts: 3}
	}
	h.up()
	defer h.down()
	f := h.say(message(1, "rows"))
	if f.Outcome != turn.Failed || !strings.Contains(f.Reply.Text, f.Turn) || strings.Contains(f.Reply.Text, "key") {
		t.Errorf("finished %+v; want an apology with the turn's id and without the cause", f)
	}
}

func TestL6_ARunThatWouldPassItsTokensStopsBefore(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.pack = strings.Replace(h.pack, "tokens: 20000", "tokens: 3300", 1)
	h.model = script("desk", wants("rows.get 1"), wants("rows.get 2"), says("never"))
	h.do = func(string, tools.Input) (tools.Output, error) {
		return tools.Output{Value: strings.Repeat("x", 3000)}, nil
	}
	h.up()
	defer h.down()
	f := h.say(message(1, "rows"))
	if f.Outcome != turn.Capped || !strings.Contains(f.Reply.Text, "3300 tokens") {
		t.Errorf("finished %+v; want capped by the tokens", f)
	}
}

func TestL6_APersonsDayIsKeptAcrossRestarts(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dear := says("dear")
	dear.Usage = llm.Usage{Input: 10, Output: 1, Cost: 6e9, Known: true} // 0.006 USD, of 0.01 a day
	h.model = script("read", dear)
	h.up()
	for n := range 2 {
		if f := h.say(message(n, "read")); f.Outcome != turn.Answered {
			t.Fatalf("message %d: %+v", n, f)
		}
	}
	h.down()
	h.up()
	defer h.down()
	if f := h.say(message(3, "read")); f.Outcome != turn.Refused || !strings.Contains(f.Reply.Text, "budget") {
		t.Errorf("finished %+v; want a refusal", f)
	}
}

func TestM7_RepliesHoldNoForeignLinksAndMentions(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("read", says("See https://evil.example/x?q=1 and https://docs.example.com/a <!channel> <@U0ANA> <@U0BOB>"))
	h.up()
	defer h.down()
	text := h.say(message(1, "read")).Reply.Text
	for _, bad := range []string{"evil.example/x", "<!channel>", "<@U0BOB>"} {
		if strings.Contains(text, bad) {
			t.Errorf("%q is in the reply %q", bad, text)
		}
	}
	for _, good := range []string{"https://docs.example.com/a", "<@U0ANA>"} {
		if !strings.Contains(text, good) {
			t.Errorf("%q is not in the reply %q", good, text)
		}
	}
}

// A canary for every secret and every bound value, through a whole turn with all that can go wrong in it.
func TestM2_NoCanaryIsSeenAnywhere(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("desk", wants("rows.get 1", "rows.set 2"), wants("rows.get 3"),
		says("The org is "+orgCanary+", the token "+secretCanary+"."))
	h.do = func(tool string, in tools.Input) (tools.Output, error) {
		switch in.Args["id"] {
		case int64(1):
			return tools.Output{Value: map[string]any{"org": orgCanary, "auth": "Bearer " + secretCanary, orgCanary: 1}}, nil
		case int64(2):
			return tools.Output{}, &tools.Fault{Kind: tools.Rejected, Detail: "not for " + orgCanary}
		}
		panic(tool + " at " + orgCanary + " with " + secretCanary)
	}
	h.up()
	f := h.say(message(1, "what about "+orgCanary+"?"))
	rec := h.read(f.Turn)
	rec.Scope = nil // the run's scope is where the store may hold it
	var trace strings.Builder
	if err := journal.Draw(&trace, rec); err != nil {
		t.Fatal(err)
	}
	h.down()
	places := map[string]string{
		"prompts": fmt.Sprintf("%+v", h.requests()), "logs": h.log(), "trace": trace.String(), "answers": fmt.Sprintf("%+v", h.posted()),
		"progress": fmt.Sprintf("%+v", h.progress()), "record": fmt.Sprintf("%+v", rec),
	}
	for _, name := range []string{h.path, h.path + "-wal"} {
		if data, err := os.ReadFile(name); err == nil {
			// The pack's own files are kept for resumed runs, and their scope map holds the bound values, never a secret.
			places["store "+filepath.Base(name)] = strings.ReplaceAll(string(data), orgCanary, "")
		}
	}
	for place, text := range places {
		for _, canary := range []string{orgCanary, secretCanary} {
			if strings.Contains(text, canary) {
				t.Errorf("%s hold %s", place, canary)
			}
		}
	}
	if !strings.Contains(f.Reply.Text, "‹org›") || !strings.Contains(f.Reply.Text, "‹secret›") {
		t.Errorf("the reply reads %q", f.Reply.Text)
	}
}

// A run that would pass what is left of the person's day stops before the call, with what it has.
func TestL6_ADayIsNotOverdrawnByOneRun(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dear := wants("rows.get 1")
	dear.Usage = llm.Usage{Input: 10, Output: 1, Cost: 9.9e9, Known: true} // 0.0099 of 0.01 USD
	h.model = script("read", dear, says("never"))
	h.up()
	defer h.down()
	if f := h.say(message(1, "read")); f.Outcome != turn.Capped || !strings.Contains(f.Reply.Text, "budget") || len(h.requests()) != 2 {
		t.Errorf("finished %+v after %d model calls; want it stopped before the third", f, len(h.requests()))
	}
}

// A run whose time ends in a call ends with what it has, in the same try.
func TestL6_TheRunsTimeEndsInACall(t *testing.T) {
	t.Parallel()
	for _, calls := range [][]string{{"rows.set 1", "rows.set 2"}, {"rows.get 1"}} {
		t.Run(calls[0], func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.tune = func(p *config.Pack) {
				for _, a := range p.Assistants {
					a.Limits.Time = 300 * time.Millisecond
				}
			}
			h.model = script("desk", wants(calls...), says("Done."))
			h.wait = func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			}
			h.up()
			defer h.down()
			f := h.say(message(1, "set row 1"))
			if began, _ := ended(h); began != 1 || f.Outcome != turn.Capped {
				t.Errorf("began %d times, finished %s %q", began, f.Outcome, f.Reply.Text)
			}
		})
	}
}

func (h *house) spentToday() int64 {
	h.t.Helper()
	n, err := h.store.Count(h.t.Context(), "usd/U0ANA/"+time.Now().UTC().Format(time.DateOnly))
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

// What nobody gives figures for costs what it may have cost at the most, and is on record so; what costs nothing, nothing.
func TestL6_AnAnswerWithoutFiguresIsNotFree(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		usage llm.Usage
		err   error
		costs bool
	}{
		"no figures": {costs: true},
		"broken off": {costs: true, err: &llm.Error{Reason: llm.CutShort, Usage: llm.Usage{Input: 7}, Attempts: 1}},
		"refused":    {err: &llm.Error{Reason: llm.Overloaded, Usage: llm.Usage{Known: true}, Attempts: 3}},
		"offline":    {usage: llm.Usage{Input: 7, Free: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.model = func(r llm.Request) (llm.Reply, error) {
				if isRouter(r) {
					return routeTo("read", 0.9), nil
				}
				reply := says("Here.")
				reply.Usage = c.usage
				return reply, c.err
			}
			h.up()
			defer h.down()
			rec := h.read(h.say(message(1, "read")).Turn)
			last := rec.Steps[len(rec.Steps)-1]
			if n := h.spentToday(); (n > 0) != c.costs || last.Estimated != c.costs || n != int64(rec.Usage().Cost) {
				t.Errorf("spent %d, on record %+v", n, last)
			}
		})
	}
}

// A turn that is given up has cost what it has cost.
func TestL6_ATurnThatIsGivenUpIsNotFree(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = func(r llm.Request) (llm.Reply, error) {
		switch {
		case isRouter(r):
			return routeTo("read", 0.9), nil
		case rounds(r) == 0:
			return wants("rows.get 1"), nil
		}
		panic("a reply that nobody can read")
	}
	h.up()
	defer h.down()
	h.accept(message(1, "read"))
	h.idle()
	if n := h.spentToday(); n != 1000 {
		t.Errorf("spent %d, want 1000", n)
	}
}

// Turns of one person that run side by side share what is left of the day.
func TestL6_TurnsSideBySideShareTheDay(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.pack = strings.Replace(h.pack, "usd_per_day: 0.01", "usd_per_day: 0.001", 1) // room for one
	reached, release := make(chan struct{}, 9), make(chan struct{})
	h.model = func(r llm.Request) (llm.Reply, error) {
		if isRouter(r) {
			return routeTo("read", 0.9), nil
		}
		reached <- struct{}{}
		<-release
		reply := says("Here.")
		reply.Usage = llm.Usage{} // so it counts for the whole reserve
		return reply, nil
	}
	h.up()
	defer h.down()
	for i := range 4 {
		m := message(i, "read")
		m.Thread.Root = fmt.Sprint(i)
		h.accept(m)
	}
	<-reached
	refused := <-h.ended // while another waits for its model
	close(release)
	h.finished(3)
	if !strings.Contains(refused.Reply.Text, "budget") {
		t.Errorf("finished %+v", refused)
	}
	if n := h.spentToday(); n == 0 || n > 1e9 {
		t.Errorf("spent %d of 1e9", n)
	}
}

// The name and the arguments that a model wrote for a call go through the filter like all that people are shown.
func TestM7_WhatAModelCallsAToolIsFiltered(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	bad := wants("rows.get 1", "rows.get 2", "rows.get 3")
	bad.Calls[0].Name, bad.Calls[0].Args = "<!channel> https://evil.example/x?q=1", `{}`
	bad.Calls[1].Args = `{"id":"https://evil.example/x","why":"w","expects":"e"}`
	bad.Calls[2].Args = `{"id": https://evil.example/x`
	h.model = script("read", bad, says("Here."))
	h.up()
	defer h.down()
	h.say(message(1, "read"))
	calls := 0
	for _, p := range h.progress() {
		if p.Call == nil {
			continue
		}
		calls++
		if text := fmt.Sprint(p.Call.Tool, journal.Spell(*p.Call), string(p.Call.Args), p.Call.Raw); strings.Contains(text, "evil.example/x") || strings.Contains(text, "<!channel>") {
			t.Errorf("shown: %s", text)
		}
	}
	if calls < 3 {
		t.Errorf("%d calls were shown", calls)
	}
}
