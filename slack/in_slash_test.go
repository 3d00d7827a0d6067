package slack

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"switchboard/slack/sim"
)

// command gives the payload of a slash command.
func command(t *testing.T, channel, trigger, text string) []byte {
	t.Helper()
	payload, err := json.Marshal(map[string]string{
		"command": "/switchboard", "text": text, "user_id": ana, "channel_id": channel, "trigger_id": trigger,
	})
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// asks gives the questions that stand in the front channel.
func (h *house) asks() (found []sim.Message) {
	for _, m := range h.w.Messages(front) {
		if m.Metadata != nil && m.Metadata.Type == questionType {
			found = append(found, m)
		}
	}
	return found
}

// slashed has a command dealt with, and does what it leaves to do. It gives what the person is told at once.
func (h *house) slashed(t *testing.T, payload []byte) string {
	t.Helper()
	r, err := h.slack.deal(t.Context(), kindSlash, payload)
	if err != nil {
		t.Fatal(err)
	}
	var told struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(r.reply, &told)
	for _, c := range r.after {
		c.do(t.Context())
	}
	return told.Text
}

// A command waits for a call of Slack's. What else happens, in whichever channel, is acknowledged meanwhile.
func TestD2_CommandsHoldUpNobody(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	lift := h.w.Fail(sim.Fault{Method: "chat.postMessage", Do: sim.Hang})
	told := make(chan string, 2)
	give := func(name string, d delivery) {
		d.answer = func(_ json.RawMessage, err error) {
			if err != nil {
				name += ": " + err.Error()
			}
			told <- name
		}
		if !h.slack.intake.take(d) {
			t.Error("no room for", name)
		}
	}
	from := h.w.Mark()
	give("a command", delivery{kind: kindSlash, payload: command(t, front, "1.a", "slow one")})
	if _, err := h.w.Await(t.Context(), from, func(e sim.Entry) bool { return e.Method == "chat.postMessage" }); err != nil {
		t.Fatal(err)
	}
	h.say(t, sim.Say{From: ana, Channel: front, Text: "<@U0BOT> hello"})
	h.desk.until(t, "a message of the same channel is stored", func() bool { return len(h.desk.accepted) == 1 })
	give("another command", delivery{kind: kindSlash, payload: command(t, priv, "1.b", "quick one")})
	if got := <-told; got != "another command" {
		t.Errorf("first came %q", got)
	}
	lift()
	if got := <-told; got != "a command" {
		t.Errorf("then came %q", got)
	}
}

// There is room for so many commands at once, and no more; what finds none is not acknowledged.
func TestD2_RoomForCommands(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	defer h.w.Fail(sim.Fault{Method: "chat.postMessage", Do: sim.Hang, Times: -1})()
	d := delivery{kind: kindSlash, payload: command(t, front, "", "hello"), answer: func(json.RawMessage, error) {}}
	for n := range commands {
		if !h.slack.intake.take(d) {
			t.Fatalf("no room for command %d", n)
		}
	}
	if h.slack.intake.take(d) {
		t.Error("room without end")
	}
}

// The same command may come by two sockets, also while the first is dealt with.
func TestD1_ACommandIsOneQuestion(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	told := make(chan error, 3)
	for range cap(told) {
		h.slack.intake.take(delivery{kind: kindSlash, payload: command(t, front, "1.same", "hello"), answer: func(_ json.RawMessage, err error) { told <- err }})
	}
	for range cap(told) {
		if err := <-told; err != nil {
			t.Error(err)
		}
	}
	if posted, taken := len(h.asks()), len(h.take()); posted != 1 || taken != 1 {
		t.Errorf("one command: %d posts, %d questions", posted, taken)
	}
	h.slashed(t, command(t, front, "1.other", "hello"))
	if posted, taken := len(h.asks()), len(h.take()); posted != 2 || taken != 2 {
		t.Errorf("two commands: %d posts, %d questions", posted, taken)
	}
}

// A question that stands is answered, also where Slack did not confirm it; and nobody is told to ask again then.
func TestD3_TheQuestionOfACommandIsNotConfirmed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		faults []sim.Fault
		store  error // of the bot's store, at first
		stands bool
	}{
		{"the answer is lost", []sim.Fault{{Method: "chat.postMessage", Do: sim.LostReply}}, nil, true},
		{"a server's error behind it", []sim.Fault{{Method: "chat.postMessage", Do: sim.LostAs500}}, nil, true},
		{"and it cannot be stored at first", []sim.Fault{{Method: "chat.postMessage", Do: sim.LostReply}}, errors.New("the disk is full"), true},
		{"and it cannot be looked up at first", []sim.Fault{
			{Method: "chat.postMessage", Do: sim.LostReply}, {Method: "conversations.history", Do: sim.Refuse, Error: "internal_error"},
		}, nil, true},
		{"nothing was posted", []sim.Fault{{Method: "chat.postMessage", Do: sim.CutFirst}}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := build(t, plan{})
			for _, f := range c.faults {
				h.w.Fail(f)
			}
			h.desk.write(func() {
				h.desk.gate = func(context.Context) (err error) {
					h.desk.mu.Lock()
					defer h.desk.mu.Unlock()
					err, c.store = c.store, nil
					return err
				}
			})
			if got := h.slashed(t, command(t, front, "1.lost", "hello")); !strings.Contains(got, "slow") {
				t.Errorf("told %q", got)
			}
			whispers := 0
			for _, e := range h.w.Log() {
				if e.What == sim.Whispered && e.Person == ana && strings.Contains(e.Text, "try again") {
					whispers++
				}
			}
			asks, taken := h.asks(), h.take()
			if c.stands && (len(asks) != 1 || len(taken) != 1 || whispers != 0 || taken[0].ID != asks[0].TS) {
				t.Errorf("%d posts, %d whispers, accepted %+v", len(asks), whispers, taken)
			}
			if !c.stands && (len(asks) != 0 || len(taken) != 0 || whispers != 1) {
				t.Errorf("%d posts, %d whispers, accepted %+v", len(asks), whispers, taken)
			}
		})
	}
}

// A question that cannot be stored in the end does not stand there as if it would be answered.
func TestD3_AQuestionInVainIsTakenBack(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	h.desk.write(func() { h.desk.gate = failing })
	h.w.Fail(sim.Fault{Method: "chat.postMessage", Do: sim.LostReply})
	h.slashed(t, command(t, front, "1.vain", "hello"))
	if asks := h.asks(); len(asks) != 0 {
		t.Errorf("stands there: %q", asks[0].Text)
	}
}

// Who opens a form has 3 s; other work, however slow Slack is with it, is not in the way.
func TestM5_FormsDoNotWaitForOtherWork(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	held, begun := make(chan struct{}), make(chan struct{}, taskers+hasty)
	defer close(held)
	for range taskers + hasty {
		h.slack.intake.later(chore{name: "slow", do: func(context.Context) {
			begun <- struct{}{}
			<-held
		}})
	}
	for range taskers {
		<-begun
	}
	done := make(chan struct{})
	h.slack.intake.later(chore{name: "form", do: func(context.Context) { close(done) }, urgent: true})
	late := time.NewTimer(5 * time.Second)
	defer late.Stop()
	select {
	case <-done:
	case <-begun:
		t.Error("the hands for forms do other work")
	case <-late.C:
		t.Error("the form still waits")
	}
}

// A form that does not open is told to who asked for it.
func TestM5_AFormThatDoesNotOpen(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	about := h.say(t, sim.Say{From: mia, Channel: front, Text: "the list"})
	h.settled(t)
	h.w.Fail(sim.Fault{Method: "views.open", Do: sim.Refuse, Error: "expired_trigger_id"})
	if _, err := h.w.Shortcut(sim.Shortcut{From: ana, Callback: AskShortcut, Channel: front, TS: about}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errors.New("nobody was told"))
	defer cancel()
	e, err := h.w.Await(ctx, 0, func(e sim.Entry) bool { return e.What == sim.Whispered })
	if err != nil || e.Person != ana || e.Channel != front || !strings.Contains(e.Text, "did not open") {
		t.Error(err, e)
	}
}
