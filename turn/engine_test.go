package turn_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"switchboard/journal"
	"switchboard/llm"
	"switchboard/tools"
	"switchboard/turn"
)

func TestAMessageIsRoutedAnsweredAndOnRecord(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("desk", wants("rows.get 1"), wants("rows.set 1"), says("Row 1 is set."))
	h.up()
	defer h.down()
	f := h.say(message(1, "set row 1"))
	if f.Outcome != turn.Answered || f.Reply.Text != "Row 1 is set.\n\nDone: rows.set(id=1)." {
		t.Errorf("finished %+v", f)
	}
	rec := h.read(f.Turn)
	s := journal.Summarise(rec)
	if s.Outcome != turn.Answered || *s.Assistant != "desk" || *s.Confidence != 0.9 || s.Rounds != 3 || len(s.Calls) != 2 || len(s.Steps) != 4 {
		t.Errorf("summary %+v", s)
	}
	if s.Usage.Input != 200 || s.Usage.Cached != 80 || s.Usage.Output != 20 {
		t.Errorf("usage %+v", s.Usage)
	}
	if n, err := h.store.Waiting(t.Context()); err != nil || n != 0 {
		t.Errorf("%d messages wait, %v", n, err)
	}
}

func TestD1_OneMessageManyDeliveriesOneTurn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("read", says("Here."))
	h.up()
	defer h.down()
	var wg sync.WaitGroup
	var fresh atomic.Int32
	for range 20 {
		wg.Go(func() {
			_, isFresh, err := h.engine.Accept(t.Context(), message(1, "read"))
			if err != nil {
				t.Error(err)
			}
			if isFresh {
				fresh.Add(1)
			}
		})
	}
	wg.Wait()
	<-h.ended
	if f := h.say(message(2, "read more")); f.Key != message(2, "").Key {
		t.Errorf("the next turn that ended is %s", f.Key)
	}
	if fresh.Load() != 1 || len(h.posted()) != 2 {
		t.Errorf("%d fresh, %d posts; want 1 and 2", fresh.Load(), len(h.posted()))
	}
}

func TestD2_AThreadKeepsItsOrder(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = func(r llm.Request) (llm.Reply, error) {
		if isRouter(r) {
			return routeTo("read", 0.9), nil
		}
		return says("re: " + r.Turns[len(r.Turns)-1].Text), nil
	}
	h.up()
	defer h.down()
	for n := range 10 {
		for thread := range 5 {
			m := message(n*10+thread, fmt.Sprint(n))
			m.Thread.Root = fmt.Sprint(thread)
			h.accept(m)
		}
	}
	for range 50 {
		<-h.ended
	}
	next := map[string]int{}
	for _, p := range h.posted() {
		if want := fmt.Sprint("re: ", next[p.To.Thread.Root]); p.Reply.Text != want {
			t.Fatalf("thread %s: %q, want %q", p.To.Thread.Root, p.Reply.Text, want)
		}
		next[p.To.Thread.Root]++
	}
}

// The process dies at every point at which something is made durable. Nothing accepted is lost, no effect is repeated, what
// is stored is not asked for again.
func TestD3_KilledAnywhereTheTurnIsFinishedOnce(t *testing.T) {
	t.Parallel()
	const most = 12
	for after := range int64(most) {
		t.Run(fmt.Sprintf("after %d commits", after), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.model = script("desk", wants("rows.get 1", "rows.set 1", "rows.set 2"), says("Both rows are set."))
			h.up()
			h.allowed.Store(after)
			id := h.accept(message(1, "set rows 1 and 2"))
			<-h.ended // the answer, or the apology of an engine that cannot write any more
			killed := h.allowed.Load() == 0
			h.down()
			before, first := len(h.requests()), h.posted()
			if !killed {
				if after != most-1 {
					t.Logf("a turn makes fewer commits than %d", after)
				}
				return
			}
			h.forget()
			h.allowed.Store(-1)
			h.up()
			defer h.down()
			var f turn.Finished
			if n, err := h.store.Waiting(t.Context()); err != nil {
				t.Fatal(err)
			} else if n > 0 || len(first) == 0 {
				f = <-h.ended
			}
			rec := h.read(id)
			if rec.Ended == nil || rec.Ended.Outcome != turn.Answered {
				t.Fatalf("the turn ended %+v, finished %+v", rec.Ended, f)
			}
			said, repeated := 0, false
			for _, p := range append(first, h.posted()...) {
				if p.Reply.Text == rec.Reply {
					said, repeated = said+1, p.Again
				}
			}
			if said == 0 || said > 1 && !repeated {
				t.Errorf("the reply was posted %d times, the last marked as repeated: %v", said, repeated)
			}
			count := map[string]int{}
			for _, r := range h.runs() {
				count[r]++
			}
			if count["rows.set 1"] > 1 || count["rows.set 2"] > 1 {
				t.Errorf("effects were repeated: %v", h.runs())
			}
			for _, c := range rec.Calls {
				if c.Changes() && c.Outcome() != journal.OK && c.Outcome() != journal.Unknown {
					t.Errorf("%s ended %s", journal.Spell(c), c.Outcome())
				}
				if c.Outcome() == journal.Unknown && !strings.Contains(rec.Reply, "Not known whether it took effect, so a person has to look: "+journal.Spell(c)) {
					t.Errorf("the reply does not say that %s is unknown: %s", journal.Spell(c), rec.Reply)
				}
			}
			stored := map[string]bool{}
			for _, r := range h.requests()[before:] {
				if isRouter(r) && before > 1 && after > 0 {
					t.Error("the routing decision was stored, and asked for again")
				}
				if rounds(r) == 0 && !isRouter(r) && after > 1 {
					t.Error("the first round was stored, and asked for again")
				}
				stored[fmt.Sprint(isRouter(r), rounds(r))] = true
			}
		})
	}
}

func TestM1_NothingRunsWhenTheStoreRefusesWrites(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("desk", wants("rows.set 1"), says("Set."))
	h.up()
	defer h.down()
	h.allowed.Store(1) // the routing decision, and nothing after it
	f := h.say(message(1, "set row 1"))
	if f.Outcome != turn.Failed || !strings.Contains(f.Reply.Text, f.Turn) || len(h.posted()) != 1 {
		t.Errorf("finished %+v with %d posts; want an apology with the turn's id", f, len(h.posted()))
	}
	if len(h.runs()) != 0 {
		t.Errorf("tools ran: %v", h.runs())
	}
}

func TestD4_StoppingHandsBackAndTheNextProcessFinishes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	reached := make(chan struct{})
	release := make(chan struct{})
	h.model = script("desk", wants("rows.get 1"), says("Done."))
	h.do = func(string, tools.Input) (tools.Output, error) {
		close(reached)
		<-release
		return tools.Output{Value: "a row"}, nil
	}
	h.up()
	id := h.accept(message(1, "rows"))
	<-reached
	stopped := make(chan struct{})
	go func() {
		h.down()
		close(stopped)
	}()
	close(release)
	<-stopped
	h.do = func(string, tools.Input) (tools.Output, error) { return tools.Output{Value: "a row"}, nil }
	h.up()
	defer h.down()
	<-h.ended // by whichever process
	if rec := h.read(id); rec.Ended == nil || rec.Ended.Outcome != turn.Answered || len(h.posted()) != 1 {
		t.Errorf("ended %+v with %d posts", rec.Ended, len(h.posted()))
	}
}

func TestD5_AResumedRunKeepsItsVersionAndTheStricterPolicy(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("desk", wants("rows.get 1"), wants("rows.set 2"), says("Done."))
	h.up()
	h.allowed.Store(2) // the decision, and the first call's intent
	id := h.accept(message(1, "rows"))
	<-h.ended
	h.down()
	h.allowed.Store(-1)
	h.pack = strings.Replace(h.pack, "instructions: Work with rows.", "instructions: Work with columns.", 1) +
		"\n-- policy.yaml --\nrules:\n  - {tools: [rows.set], verdict: deny, why: No writes today.}\n"
	h.up()
	defer h.down()
	<-h.ended
	rec := h.read(id)
	last := h.requests()[len(h.requests())-1]
	if !strings.Contains(last.System, "Work with rows.") {
		t.Errorf("the resumed run was told %q", last.System)
	}
	if c := rec.Call(1); c == nil || c.Outcome() != journal.Denied || !strings.Contains(c.Reason, "No writes today.") {
		t.Errorf("the write of the resumed run: %+v", c)
	}
	if f := h.say(message(2, "rows")); f.Outcome == turn.Failed || !strings.Contains(h.requests()[len(h.requests())-1].System, "Work with columns.") {
		t.Errorf("the next turn %+v does not run under the new version", f)
	}
}
