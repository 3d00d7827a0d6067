package turn_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"switchboard/chat"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/turn"
)

// unsure routes every message below the threshold, and lets the assistants repeat what they are asked.
func unsure(r llm.Request) (llm.Reply, error) {
	if isRouter(r) {
		return routeTo("read", 0.5), nil
	}
	return says(r.Where.Person + " asks: " + r.Turns[len(r.Turns)-1].Text), nil
}

func click(n int, person, card, value string) chat.Message {
	m := by(person, message(n, ""))
	m.Key = "click:" + card + ":" + person + ":" + value
	m.Pick = &chat.Pick{Card: card, Value: value}
	return m
}

// Whoever answers the router's question, by a click or in words, only picks: the run is the asker's, about the asker's message.
// It holds a day later and after a restart.
func TestR4_AnAnswerBySomebodyElseOnlyPicks(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(card string) chat.Message{
		"a click by somebody else":      func(card string) chat.Message { return click(2, "U0TOM", card, "desk") },
		"a click by the asker":          func(card string) chat.Message { return click(2, "U0ANA", card, "desk") },
		"a number by somebody else":     func(string) chat.Message { return by("U0TOM", message(2, "2")) },
		"a number by the asker":         func(string) chat.Message { return message(2, "2") },
		"a name by somebody else, loud": func(string) chat.Message { return by("U0TOM", message(2, "DESK!")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.model = unsure
			h.up()
			q := h.say(by("U0ANA", message(1, "the rows?")))
			if q.Outcome != turn.Clarify || q.Reply.Buttons[1] != (chat.Button{Label: "desk", Value: "desk"}) || h.posted()[0].Key != q.Turn {
				t.Fatalf("the question: %+v", q)
			}
			h.down()
			h.now = func() time.Time { return time.Now().Add(24 * time.Hour) }
			h.up()
			defer h.down()
			m := answer(q.Turn)
			f := h.say(m)
			if f.Outcome != turn.Answered || !strings.HasPrefix(f.Reply.Text, "U0ANA asks: ") || !strings.Contains(f.Reply.Text, "the rows?") || len(h.requests()) != 2 {
				t.Errorf("finished %+v after %d model calls", f, len(h.requests()))
			}
			rec := h.read(f.Turn)
			if rec.Person != "U0ANA" || rec.Routed.By != m.From.ID || rec.Routed.Kind != "picked" || rec.Routed.Assistant != "desk" {
				t.Errorf("on record: %s, %+v", rec.Person, rec.Routed)
			}
			var trace strings.Builder
			if err := journal.Draw(&trace, rec); err != nil || !strings.Contains(trace.String(), "desk (picked by "+m.From.ID+")") {
				t.Errorf("the trace reads\n%s", trace.String())
			}
			late := h.say(click(3, "U0BOB", q.Turn, "read"))
			if late.Outcome != turn.Answered || !strings.Contains(late.Reply.Text, "question is over") || len(h.requests()) != 2 {
				t.Errorf("a click on a question that was answered: %+v after %d model calls", late, len(h.requests()))
			}
		})
	}
}

// Other words of somebody else are their own message, and the question stays open; the asker's own make it void.
func TestR4_OtherWordsLeaveTheQuestionToItsAsker(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.letBobIn()
	confidence := 0.5
	h.model = func(r llm.Request) (llm.Reply, error) {
		if isRouter(r) {
			return routeTo("read", confidence), nil
		}
		return unsure(r)
	}
	h.up()
	defer h.down()
	q := h.say(message(1, "the rows?"))
	h.with(func() { confidence = 0.9 })
	if f := h.say(by("U0BOB", message(2, "what is row 7?"))); !strings.HasPrefix(f.Reply.Text, "U0BOB asks:") {
		t.Errorf("somebody else's own message: %+v", f)
	}
	if f := h.say(click(3, "U0BOB", "t_00000000", "read")); !strings.Contains(f.Reply.Text, "question is over") {
		t.Errorf("a click on another card: %+v", f)
	}
	if f := h.say(click(4, "U0BOB", q.Turn, "router")); !strings.Contains(f.Reply.Text, "question is over") {
		t.Errorf("a choice that was not offered: %+v", f)
	}
	if f := h.say(click(5, "U0BOB", q.Turn, "read")); !strings.HasPrefix(f.Reply.Text, "U0ANA asks:") || !strings.Contains(f.Reply.Text, "the rows?") {
		t.Errorf("the question was not open any more: %+v", f)
	}
	h.with(func() { confidence = 0.5 })
	q = h.say(message(6, "the rows, again?"))
	h.with(func() { confidence = 0.9 })
	h.say(message(7, "never mind, what is row 1?"))
	if f := h.say(click(8, "U0BOB", q.Turn, "read")); !strings.Contains(f.Reply.Text, "question is over") {
		t.Errorf("after the asker has gone on: %+v", f)
	}
}

// What the asker may not use any more is not theirs because somebody else picks it.
func TestR4_APickIsHeldToWhatTheAskerMayUse(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.letBobIn()
	h.model = unsure
	h.up()
	q := h.say(by("U0BOB", message(1, "the rows?")))
	h.down()
	h.pack = strings.Replace(h.pack, "admins: [U0ANA, U0BOB]", "admins: [U0ANA]", 1)
	h.up()
	defer h.down()
	asked := len(h.requests())
	if f := h.say(click(2, "U0ANA", q.Turn, "desk")); !strings.Contains(f.Reply.Text, "question is over") || len(h.requests()) != asked {
		t.Errorf("finished %+v after %d more model calls", f, len(h.requests())-asked)
	}
}

// A click that is killed on its way is still the asker's when it is taken up again.
func TestR4_APickSurvivesAKill(t *testing.T) {
	t.Parallel()
	for after := range int64(6) {
		t.Run(fmt.Sprintf("after %d commits", after), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.model = func(r llm.Request) (llm.Reply, error) {
				if !isRouter(r) && rounds(r) == 0 {
					return wants("rows.get 1"), nil
				}
				return unsure(r)
			}
			h.up()
			q := h.say(message(1, "the rows?"))
			h.allowed.Store(after)
			id := h.accept(click(2, "U0TOM", q.Turn, "desk"))
			<-h.ended
			h.down()
			h.allowed.Store(-1)
			h.up()
			h.idle()
			rec := h.read(id)
			if rec.Ended == nil || rec.Ended.Outcome != turn.Answered || rec.Person != "U0ANA" || rec.Routed.By != "U0TOM" || rec.Call(0).Outcome() != journal.OK {
				t.Errorf("%+v, %+v, %+v", rec.Begun, rec.Routed, rec.Ended)
			}
			h.down()
		})
	}
}
