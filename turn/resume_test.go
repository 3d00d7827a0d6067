package turn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchboard/chat"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/tools"
	"switchboard/turn"
)

// A bound value that looks like a number is hidden like any other, and what holds it stays JSON.
func TestM2_ABoundNumberIsHiddenAndTheResultStaysWhole(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.pack = strings.Replace(h.pack, "C0FRONT: org_canary_7", `C0FRONT: "4711"`, 1)
	h.model = func(r llm.Request) (llm.Reply, error) {
		switch {
		case isRouter(r):
			return routeTo("read", 0.9), nil
		case rounds(r) == 0:
			return wants("rows.get 1"), nil
		}
		return says(r.Turns[len(r.Turns)-1].Results[0].Text), nil
	}
	h.do = func(string, tools.Input) (tools.Output, error) {
		return tools.Output{Value: map[string]any{"org_id": int64(4711), "n": int64(47110)}}, nil
	}
	h.up()
	defer h.down()
	f := h.say(message(1, "rows of 4711, please"))
	if f.Outcome != turn.Answered || strings.Contains(f.Reply.Text, "4711,") || strings.Contains(fmt.Sprintf("%+v", h.requests()), "4711,") {
		t.Errorf("finished %+v after %+v", f, h.requests())
	}
	rec := h.read(f.Turn)
	want := map[string]any{"org_id": "‹org›", "n": int64(47110)}
	if c := rec.Call(0); c == nil || c.Outcome() != journal.OK || !cmp.Equal(c.Result(), any(want)) {
		t.Errorf("on record: %+v; want the result %v", c, want)
	}
}

// Hidden characters and entities do not carry a value past the mask.
func TestM2_WhatTheFilterLaysBareIsHiddenToo(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("read", says("org_can\u200bary_7 and token-can&#97;ry-9"))
	h.up()
	defer h.down()
	if text := h.say(message(1, "read")).Reply.Text; strings.Contains(text, orgCanary) || strings.Contains(text, secretCanary) {
		t.Errorf("the reply reads %q", text)
	}
}

// Stopping lets a call end that has begun: a deploy leaves no effect in doubt and fails no read.
func TestD4_StoppingLetsACallEnd(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"rows.get 1", "rows.set 1"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.model = script("desk", wants(call), says("Done."))
			reached, release := make(chan struct{}), make(chan struct{})
			h.wait = func(ctx context.Context) error {
				close(reached)
				select {
				case <-release:
					return nil
				case <-ctx.Done():
					return &tools.Fault{Kind: tools.Network, Detail: "The call was stopped.", Maybe: true, Err: context.Cause(ctx)}
				}
			}
			h.up()
			id := h.accept(message(1, "rows"))
			<-reached
			late, cancel := context.WithCancel(t.Context())
			cancel()
			if err := h.engine.Stop(late); err == nil { // it has told its workers, and does not wait for them
				t.Error("Stop waited, though it was told not to")
			}
			close(release)
			h.down()
			h.wait = nil
			h.up()
			defer h.down()
			<-h.ended
			rec := h.read(id)
			if c := rec.Call(0); c.Outcome() != journal.OK || len(h.runs()) != 1 {
				t.Errorf("%s ended %s after %d runs", call, c.Outcome(), len(h.runs()))
			}
		})
	}
}

// A resumed run is held to the people of the active version too, and what it did before is said when it may not go on.
func TestD5_PeopleAndOpenToOfTheActiveVersionCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to string
		outcome  string
		says     []string
	}{
		"no longer among the writers": {
			"people: {admins: [U0ANA]}", "people: {admins: [U0ANA], writers: [U0BOB]}", turn.Answered, []string{"Not done: rows.set(id=2) (Only writers)."},
		},
		"no longer open": {
			"people: {admins: [U0ANA]}", "people: {admins: [U0BOB]}", turn.Refused, []string{"open to you", "Not known whether it took effect, so a person has to look: rows.set(id=2)."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			rules := "\n-- policy.yaml --\nrules:\n  - {tools: [rows.set], when: \"args.id == 2 && !('writers' in actor.groups)\", verdict: deny, why: Only writers.}\n"
			h.pack = strings.Replace(h.pack, c.from, "people: {admins: [U0ANA], writers: [U0ANA]}", 1) + rules
			h.model = script("desk", wants("rows.get 1"), wants("rows.set 2"), says("Done."))
			h.up()
			h.allowed.Store(map[string]int64{turn.Answered: 2, turn.Refused: 4}[c.outcome]) // killed at the read, or at the write
			h.accept(message(1, "rows"))
			<-h.ended
			h.down()
			h.allowed.Store(-1)
			h.pack = strings.Replace(h.pack, "people: {admins: [U0ANA], writers: [U0ANA]}", c.to, 1)
			if !strings.Contains(c.to, "writers") {
				h.pack = strings.Replace(h.pack, rules, "", 1)
			}
			h.up()
			defer h.down()
			f := <-h.ended
			for _, part := range c.says {
				if f.Outcome != c.outcome || !strings.Contains(f.Reply.Text, part) {
					t.Errorf("finished %s, %q; want %s with %q", f.Outcome, f.Reply.Text, c.outcome, part)
				}
			}
		})
	}
}

// While the surface is down nothing is given up: the reply itself goes out once it is back.
func TestD3_AReplyWaitsForItsSurface(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("desk", wants("rows.set 1"), says("Row 1 is set."))
	n := 0
	h.postErr = func(turn.Post) error {
		if n++; n <= 3 {
			return errors.New("the surface is down")
		}
		return nil
	}
	h.up()
	defer h.down()
	h.accept(message(1, "set row 1"))
	if f := <-h.ended; f.Outcome != turn.Failed || f.Err == nil {
		t.Errorf("while it is down: %+v", f)
	}
	if f := <-h.ended; f.Outcome != turn.Answered {
		t.Errorf("once it is back: %+v", f)
	}
	for _, p := range h.posted() {
		if p.Reply.Text != "Row 1 is set.\n\nDone: rows.set(id=1)." {
			t.Errorf("posted %q", p.Reply.Text)
		}
	}
}

// A surface that is down for every try, and for the apology, leaves the message where it is: its person hears of it later.
func TestD3_AnApologyWaitsForItsSurface(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("read", says("Here."))
	looks, posts, arrived := 0, 0, 0
	h.look = func(m chat.Message, _ bool) (turn.Seen, error) {
		if looks++; looks <= 3 {
			return turn.Seen{}, errors.New("the surface is down")
		}
		return turn.Seen{Message: m}, nil
	}
	h.postErr = func(turn.Post) error {
		if posts++; posts <= 1 {
			return errors.New("the surface is down")
		}
		arrived++
		return nil
	}
	h.up()
	defer h.down()
	h.accept(message(1, "read"))
	h.idle()
	if arrived != 1 {
		t.Errorf("the message is off its queue, and %d replies have arrived", arrived)
	}
}

// A final text that became durable in the last try is not taken back by an apology.
func TestD3_AFinalTextIsNotGivenUp(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("desk", wants("rows.set 1"), says("Row 1 is set."))
	looks, posts := 0, 0
	h.look = func(m chat.Message, _ bool) (turn.Seen, error) {
		if looks++; looks <= 2 {
			return turn.Seen{}, errors.New("down")
		}
		return turn.Seen{Message: m}, nil
	}
	h.postErr = func(turn.Post) error {
		if posts++; posts == 1 {
			return errors.New("no answer: it may have arrived")
		}
		return nil
	}
	h.up()
	defer h.down()
	h.accept(message(1, "set row 1"))
	h.idle()
	for _, p := range h.posted() {
		if strings.HasSuffix(p.Key, "/sorry") {
			t.Errorf("posted %q after %q", p.Reply.Text, h.posted()[0].Reply.Text)
		}
	}
}

// Whatever panics, the apology included, the process lives on and the next thread is served.
func TestD2_APanicInTheApologyEndsNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("read", says("Here."))
	broken := func(m chat.Message) {
		if m.Key == message(1, "").Key {
			panic("a name that nobody can read")
		}
	}
	h.look = func(m chat.Message, _ bool) (turn.Seen, error) {
		broken(m)
		return turn.Seen{Message: m}, nil
	}
	h.postErr = func(p turn.Post) error {
		broken(p.To)
		return nil
	}
	h.up()
	defer h.down()
	h.accept(message(1, "read"))
	if f := <-h.ended; f.Outcome != turn.Failed {
		t.Errorf("finished %+v", f)
	}
	other := message(2, "read")
	other.Thread.Root = "2"
	if f := h.say(other); f.Outcome != turn.Answered {
		t.Errorf("another thread: %+v", f)
	}
}

// While an old version of the pack is opened for a turn that goes on, other threads are served.
func TestD5_OpeningAnOldVersionHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("read", wants("rows.get 1"), says("Here."))
	h.up()
	h.allowed.Store(1)
	h.accept(message(1, "read"))
	<-h.ended
	h.down()
	h.allowed.Store(-1)
	h.pack = strings.Replace(h.pack, "Read rows.", "Read rows well.", 1)
	opening, open := make(chan struct{}), make(chan struct{})
	h.opening = func() { close(opening); <-open }
	h.up()
	defer h.down()
	<-opening
	m := message(2, "read")
	m.Thread.Root = "2"
	if f := h.say(m); f.Key != m.Key || f.Outcome != turn.Answered {
		t.Errorf("the other thread: %+v", f)
	}
	close(open)
	<-h.ended
}
