package turn_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"switchboard/chat"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/store"
	"switchboard/tools"
	"switchboard/turn"
)

func stop(key string, about string) chat.Stop {
	return chat.Stop{Key: "stop:T:C0FRONT:" + key, Thread: chat.Thread{Team: "T", Channel: "C0FRONT", Root: "1"}, Message: about, By: chat.Person{ID: "U0BOB"}}
}

func deleted(n int) chat.Stop {
	s := stop(fmt.Sprint("deleted-", n), message(n, "").Key)
	s.Deleted, s.ID = true, fmt.Sprint(n)
	return s
}

func (h *house) halt(s chat.Stop) {
	h.t.Helper()
	if err := h.engine.Halt(h.t.Context(), s); err != nil {
		h.t.Fatal(err)
	}
}

// idle waits until nothing is left in the queue.
func (h *house) idle() {
	h.t.Helper()
	for {
		n, err := h.store.Waiting(h.t.Context())
		if err != nil {
			h.t.Fatal(err)
		}
		if n == 0 {
			return
		}
		<-h.moved
	}
}

func ended(h *house) (began, ended int) {
	for _, p := range h.progress() {
		if p.Began {
			began++
		}
		if p.Ended {
			ended++
		}
	}
	return began, ended
}

// hang blocks the n-th call of a model until its context ends, and says that it has begun.
func (h *house) hang(at func(llm.Request) bool) <-chan struct{} {
	reached := make(chan struct{}, 1)
	h.think = func(ctx context.Context, r llm.Request) error {
		if !at(r) {
			return nil
		}
		reached <- struct{}{}
		<-ctx.Done()
		return fmt.Errorf("ask: %w", ctx.Err())
	}
	return reached
}

func TestL8_AStopCutsAModelCallShortAndSaysWhatWasDone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at    func(llm.Request) bool
		says  string
		steps int
	}{
		"the router":       {isRouter, "I stopped, as asked. Nothing was changed.", 1},
		"the first round":  {func(r llm.Request) bool { return !isRouter(r) && rounds(r) == 0 }, "I stopped, as asked. Nothing was changed.", 2},
		"after the effect": {func(r llm.Request) bool { return rounds(r) == 1 }, "I stopped, as asked. Done: rows.set(id=1).", 3},
		"the last call":    {func(r llm.Request) bool { return r.Choice == llm.None }, "I stopped, as asked. Done: rows.set(id=1); rows.set(id=2); rows.set(id=3).", 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.model = script("desk", wants("rows.set 1"), wants("rows.set 2"), wants("rows.set 3"), says("Done."))
			reached := h.hang(c.at)
			h.up()
			defer h.down()
			id := h.accept(message(1, "set the rows"))
			<-reached
			h.halt(stop("1", ""))
			f := <-h.ended
			if f.Outcome != turn.Stopped || f.Reply.Text != c.says || len(h.posted()) != 1 {
				t.Errorf("finished %+v, posts %d; want it stopped with %q", f, len(h.posted()), c.says)
			}
			rec := h.read(id)
			if rec.Ended == nil || rec.Ended.Outcome != turn.Stopped || rec.Ended.By != "U0BOB" || len(rec.Steps) != c.steps {
				t.Errorf("on record: %+v after %d model calls, want %d", rec.Ended, len(rec.Steps), c.steps)
			}
			if n, err := h.store.Waiting(t.Context()); n != 0 || err != nil {
				t.Errorf("%d items wait, %v", n, err)
			}
			if s := journal.Summarise(rec); s.Outcome != turn.Stopped || s.StoppedBy == nil || *s.StoppedBy != "U0BOB" {
				t.Errorf("summary %+v", s)
			}
		})
	}
}

// An effect under way is awaited; what its round asked for beside it is not begun, and every call has its result on record.
func TestL8_AnEffectUnderWayIsAwaitedAndTheRestIsNotBegun(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("desk", wants("rows.set 1", "rows.set 2", "rows.get 3"), says("never"))
	reached, release := make(chan struct{}), make(chan struct{})
	h.wait = func(ctx context.Context) error {
		reached <- struct{}{}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return &tools.Fault{Kind: tools.Network, Detail: "cut", Maybe: true, Err: context.Cause(ctx)}
		}
	}
	h.up()
	defer h.down()
	id := h.accept(message(1, "set the rows"))
	<-reached
	h.halt(deleted(1)) // that the question is gone does not hide what was done
	close(release)
	f := <-h.ended
	if f.Outcome != turn.Stopped || f.Reply.Text != "I stopped, as asked. Done: rows.set(id=1). Not done: rows.set(id=2)." {
		t.Errorf("finished %+v", f)
	}
	rec := h.read(id)
	for i, want := range []journal.Outcome{journal.OK, journal.NotRun, journal.NotRun} {
		if c := rec.Call(i); c == nil || c.Outcome() != want {
			t.Errorf("call %d ended %+v, want %s", i, c, want)
		}
	}
	if len(h.runs()) != 1 || len(h.requests()) != 2 {
		t.Errorf("ran %v, asked %d times", h.runs(), len(h.requests()))
	}
}

// A question that is deleted before anything was done leaves no trace in the channel.
func TestL8_ADeletedQuestionIsDropped(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(llm.Request) bool{
		"while it is routed":   isRouter,
		"while it is answered": func(r llm.Request) bool { return !isRouter(r) && rounds(r) == 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.model = script("desk", wants("rows.get 1"), says("never"))
			reached := h.hang(at)
			h.up()
			defer h.down()
			id := h.accept(message(1, "show row 1"))
			<-reached
			h.halt(deleted(1))
			f := <-h.ended
			began, over := ended(h)
			if f.Outcome != turn.Stopped || f.Reply.Text != "" || len(h.posted()) != 0 || began != 1 || over != 1 {
				t.Errorf("finished %+v with %d posts, began %d and ended %d times", f, len(h.posted()), began, over)
			}
			if rec := h.read(id); rec.Ended == nil || rec.Ended.Outcome != turn.Stopped {
				t.Errorf("on record: %+v", rec.Ended)
			}
		})
	}
}

// A stop for a message that still waits ends its turn before any model is asked, and touches no other.
func TestL8_AWaitingMessageIsStopped(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]chat.Stop{"the button": stop("2", message(2, "").Key), "deleted": deleted(2)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.letBobIn()
			h.model = script("read", says("Here."))
			reached, release := make(chan struct{}, 9), make(chan struct{})
			h.think = func(context.Context, llm.Request) error {
				reached <- struct{}{}
				<-release
				return nil
			}
			h.up()
			defer h.down()
			h.accept(message(1, "read 1"))
			<-reached
			second := h.accept(by("U0BOB", message(2, "read 2")))
			h.accept(by("U0BOB", message(3, "read 3")))
			h.halt(s)
			close(release)
			all := h.finished(3)
			first, f, third := all[message(1, "").Key], all[message(2, "").Key], all[message(3, "").Key]
			if first.Outcome != turn.Answered || third.Outcome != turn.Answered || len(h.requests()) != 4 {
				t.Errorf("the others: %+v, %+v after %d model calls; want them answered with 4", first, third, len(h.requests()))
			}
			posts := 3
			if s.Deleted {
				posts = 2
			}
			if f.Turn != second || f.Outcome != turn.Stopped || len(h.posted()) != posts {
				t.Errorf("the stopped one: %+v, %d posts, want %d", f, len(h.posted()), posts)
			}
			h.idle()
		})
	}
}

// A stop that comes too late, or for nobody, is taken off the queue and nothing is said.
func TestL8_AStopWithNothingToStopIsSilent(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("read", says("Here."))
	h.up()
	defer h.down()
	h.halt(stop("0", ""))
	h.idle()
	h.say(message(1, "read"))
	h.halt(stop("1", message(1, "").Key))
	h.halt(stop("1", message(1, "").Key)) // heard twice
	h.idle()
	h.halt(deleted(1))
	if f := h.say(message(2, "read on")); f.Outcome != turn.Answered || len(h.posted()) != 2 {
		t.Errorf("finished %+v after %d posts", f, len(h.posted()))
	}
	h.idle()
}

// A stop is as durable as a message: a process that comes after a kill finds it, ends the turn, and says what an earlier one did.
func TestL8_AStopSurvivesAKill(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("desk", wants("rows.set 1"), wants("rows.set 2"), says("never"))
	h.up()
	h.allowed.Store(4) // the second write's intent is the last thing that is written
	id := h.accept(message(1, "set the rows"))
	<-h.ended
	h.down()
	h.allowed.Store(-1)
	h.forget()
	asked := len(h.requests())
	h.upFor(func() { h.halt(stop("1", message(1, "").Key)) })
	defer h.down()
	f := <-h.ended
	if f.Outcome != turn.Stopped || !strings.Contains(f.Reply.Text, "Done: rows.set(id=1).") || !strings.Contains(f.Reply.Text, "Not known whether it took effect, so a person has to look: rows.set(id=2).") {
		t.Errorf("finished %+v", f)
	}
	if len(h.requests()) != asked || len(h.posted()) != 2 || h.posted()[1].Card == nil || h.read(id).Ended == nil { // the reply, and who is to look
		t.Errorf("asked %d times more, posted %d", len(h.requests())-asked, len(h.posted()))
	}
}

// A stop that names nothing and stands before the message that is taken up meanwhile is not about that.
func TestL8_AStopBeforeTheMessageIsNotAboutIt(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("read", says("Here."))
	var once sync.Once
	reached, release := make(chan struct{}), make(chan struct{})
	h.think = func(ctx context.Context, _ llm.Request) error {
		once.Do(func() { close(reached); <-release })
		return ctx.Err()
	}
	h.pushed = func(it store.Item) {
		if strings.HasPrefix(it.Key, "stop:") {
			h.accept(message(1, "read"))
			<-reached
		}
	}
	h.up()
	defer h.down()
	h.halt(stop("1", ""))
	close(release)
	if f := <-h.ended; f.Outcome != turn.Answered || strings.Contains(h.log(), "turn failed") {
		t.Errorf("finished %+v, log %s", f, h.log())
	}
	h.idle()
}

// The process dies at every point at which something is made durable while a stop comes in the middle of an effect.
func TestD3_AStoppedTurnKilledAnywhere(t *testing.T) {
	t.Parallel()
	for after := range int64(8) {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.model = func(r llm.Request) (llm.Reply, error) {
				if strings.HasSuffix(r.Turns[len(r.Turns)-1].Text, "and more") && !isRouter(r) {
					return says("That is all."), nil
				}
				return script("desk", wants("rows.set 1", "rows.set 2"), says("Done."))(r)
			}
			h.meanwhile(func() { h.accept(message(2, "and more")); h.halt(stop("1", "")) })
			h.up()
			h.allowed.Store(after)
			h.accept(message(1, "set"))
			<-h.ended
			h.down()
			h.allowed.Store(-1)
			h.wait = nil
			h.up()
			defer h.down()
			h.idle()
			belongs(t, h)
			seen := map[string]int{}
			for _, r := range h.runs() {
				if seen[r]++; seen[r] > 1 {
					t.Errorf("ran %v", h.runs())
				}
			}
		})
	}
}

// What somebody has deleted is told to no model any more: what they said to the bot, what was heard, what waits.
func TestL8_DeletedWordsAreForgotten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		heard  bool
		atOnce bool // the deletion waits in the queue when the next turn begins
	}{"said to the bot": {}, "said to the bot, and the stop waits": {atOnce: true}, "heard": {heard: true}, "heard, and the stop waits": {heard: true, atOnce: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.model = script("read", says("Here."))
			h.up()
			defer func() { h.down() }()
			h.say(message(1, "read"))
			m := message(2, "read with my password hunter2")
			m.ID = "2"
			if c.heard {
				hear(h, chat.Said{ID: "2", By: "Bob", Text: m.Text, At: m.At})
			} else {
				h.say(m)
			}
			if c.atOnce {
				h.down()
				h.upFor(func() {
					h.halt(deleted(2))
					h.accept(message(3, "read on"))
				})
				<-h.ended
			} else {
				h.halt(deleted(2))
				h.idle()
				h.say(message(3, "read on"))
			}
			h.idle()
			h.say(message(4, "read on"))
			for _, r := range h.requests() {
				last := r.Turns[len(r.Turns)-1].Text
				if strings.HasSuffix(last, "read on") && strings.Contains(fmt.Sprint(texts(r)), "hunter2") {
					t.Errorf("asked with %q", texts(r))
				}
			}
			for _, prefix := range []string{"thread/", "heard/"} {
				rows, err := h.store.ContentsUnder(t.Context(), prefix)
				if err != nil {
					t.Fatal(err)
				}
				for _, row := range rows {
					if strings.Contains(string(row.Value), "hunter2") {
						t.Errorf("%s still holds %s", row.Key, row.Value)
					}
				}
			}
		})
	}
}
