package slack

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchboard/chat"
	"switchboard/slack/sim"
	"switchboard/turn"
)

// shows posts a card of the bot in the front channel, in a thread of Ana's, and gives its ts.
func (h *house) shows(t *testing.T, c *chat.Card) string {
	t.Helper()
	root := h.say(t, sim.Say{From: ana, Channel: front, Text: "<@U0BOT> refund it"})
	h.settled(t)
	m := chat.Message{
		Key: "msg:T0SIM:C0FRONT:" + root, ID: root, Thread: chat.Thread{Team: "T0SIM", Channel: front, Root: root},
		Channel: chat.Channel{ID: front, Visibility: chat.Public}, From: chat.Person{ID: ana, Kind: chat.Member},
	}
	if err := h.slack.Post(t.Context(), turn.Post{Key: c.ID, Turn: c.Turn, To: m, Card: c, Reply: chat.Reply{Text: "Please decide."}}); err != nil {
		t.Fatal(err)
	}
	all := h.w.Thread(front, root)
	return all[len(all)-1].TS
}

// heard waits until somebody was told something privately so many times, and gives what.
func (h *house) heard(t *testing.T, person string, times int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errors.New("not told"))
	defer cancel()
	var told []string
	_, err := h.w.Await(ctx, 0, func(e sim.Entry) bool {
		if e.What == sim.Whispered && e.Person == person {
			told = append(told, e.Text)
		}
		return len(told) >= times
	})
	if err != nil {
		t.Fatalf("%s was told %q: %v", person, told, err)
	}
	return told
}

// quiet waits for all that is left to do, and says how often somebody was told something.
func (h *house) quiet(t *testing.T, person string) int {
	t.Helper()
	h.settled(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := h.slack.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range h.w.Log() {
		if e.What == sim.Whispered && e.Person == person {
			n++
		}
	}
	return n
}

func (h *house) decisions() []chat.Decision {
	h.desk.mu.Lock()
	defer h.desk.mu.Unlock()
	return append([]chat.Decision(nil), h.desk.decided...)
}

func (h *house) press(t *testing.T, who, ts, say string) {
	t.Helper()
	h.click(t, sim.Click{From: who, Channel: front, TS: ts, Action: actionCard + "." + say, Value: "c_r1.3"})
}

func TestM5_AClickIsADecisionOfWhoClicked(t *testing.T) {
	t.Parallel()
	for _, web := range []bool{false, true} {
		h := build(t, plan{web: web})
		c := refund()
		ts := h.shows(t, c)
		done := *c
		done.Decided = "approved by Ana"
		h.desk.write(func() {
			h.desk.rule = func(context.Context, chat.Decision) (chat.Ruling, error) {
				return chat.Ruling{Taken: true, Words: "You *approved* it.", Card: &done}, nil
			}
		})
		h.press(t, ana, ts, "approve")
		if told := h.heard(t, ana, 1); !strings.Contains(told[0], "You *approved* it.") {
			t.Errorf("told %q", told)
		}
		got := h.decisions()
		if len(got) != 1 || !strings.HasPrefix(got[0].Key, "click:c_r1.3:U0ANA:") || !isTS(strings.TrimPrefix(got[0].Key, "click:c_r1.3:U0ANA:")) || got[0].At.IsZero() {
			t.Fatalf("decided %+v", got)
		}
		got[0].Key, got[0].At = "", time.Time{}
		want := chat.Decision{Card: "c_r1.3", Say: chat.Approve, By: chat.Person{ID: ana, Name: "Ana", Kind: chat.Member, Groups: []string{"S0FIN"}}}
		if d := cmp.Diff(want, got[0]); d != "" {
			t.Error(d)
		}
		if _, err := h.w.Await(t.Context(), 0, func(e sim.Entry) bool {
			return e.What == sim.Updated && e.TS == ts && strings.Contains(e.Message.Visible(), "approved by Ana")
		}); err != nil {
			t.Error(err)
		}
		if n := len(h.take()); n != 1 { // the question alone
			t.Errorf("a click became a message: %d", n)
		}
	}
}

// Every click gets one answer: by a stranger, a guest, twice, late.
func TestM5_EveryClickOnACardGetsOneAnswer(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	ts := h.shows(t, refund())
	h.desk.write(func() {
		h.desk.rule = func(_ context.Context, d chat.Decision) (chat.Ruling, error) {
			if d.By.Kind != chat.Member {
				return chat.Ruling{Words: "You may not decide this."}, nil
			}
			return chat.Ruling{}, nil // even a judge without words
		}
	})
	for range 3 {
		h.press(t, ana, ts, "approve")
	}
	h.press(t, gus, ts, "approve")
	if told := h.heard(t, ana, 3); told[2] == "" {
		t.Errorf("told %q", told)
	}
	if told := h.heard(t, gus, 1); told[0] != "You may not decide this." {
		t.Errorf("told %q", told)
	}
	if a, g, m := h.quiet(t, ana), h.quiet(t, gus), h.quiet(t, mia); a != 3 || g != 1 || m != 0 {
		t.Errorf("answers: %d to Ana, %d to Gus, %d to Mia", a, g, m)
	}
}

func TestM5_ADeliveryThatComesAgainIsOneClick(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	ts := h.shows(t, refund())
	h.press(t, ana, ts, "approve")
	h.heard(t, ana, 1)
	h.w.Redeliver()
	payload := h.forged(ts, nil)
	for range 2 {
		r, err := h.slack.deal(t.Context(), kindInteractive, payload)
		if err != nil {
			t.Fatal(err)
		}
		h.slack.afterwards(r)
	}
	if n := h.quiet(t, ana) + h.quiet(t, mia); n != 2 || len(h.decisions()) != 2 {
		t.Errorf("%d answers to 2 clicks, %d decisions", n, len(h.decisions()))
	}
}

// forged makes the payload of a click of Mia's, changed.
func (h *house) forged(ts string, change func(map[string]any)) []byte {
	p := map[string]any{
		"type": "block_actions", "user": map[string]any{"id": mia}, "channel": map[string]any{"id": front},
		"container": map[string]any{"type": "message", "message_ts": ts, "channel_id": front},
		"message":   map[string]any{"ts": ts, "user": "U0BOT", "bot_id": "B0BOT", "metadata": map[string]any{"event_type": cardType, "event_payload": map[string]any{"card": "c_r1.3"}}},
		"actions":   []any{map[string]any{"action_id": actionCard + ".approve", "value": "c_r1.3", "action_ts": "1700000000.000100"}},
	}
	if change != nil {
		change(p)
	}
	data, _ := json.Marshal(p) //nolint:errchkjson // texts only
	return data
}

func TestRel_S29_AForgedClickOnACardDecidesNothing(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	ts := h.shows(t, refund())
	acts := func(id, value string) func(map[string]any) {
		return func(p map[string]any) {
			p["actions"] = []any{map[string]any{"action_id": id, "value": value, "action_ts": "1700000000.000100"}}
		}
	}
	forgeries := map[string]func(map[string]any){
		"another bot's message": func(p map[string]any) { p["message"] = map[string]any{"ts": ts, "user": "U0EVIL", "bot_id": "B0EVIL"} },
		"forwarded": func(p map[string]any) {
			p["container"] = map[string]any{"type": "message", "message_ts": ts, "channel_id": "C0ELSE"}
		},
		"no message":   func(p map[string]any) { delete(p, "message") },
		"another card": acts(actionCard+".approve", "c_r1.4"),
		"two in one":   acts(actionCard+".approve", "c_r1.3\napprove"),
		"not an id":    acts(actionCard+".approve", "c_r1.3 or any"),
		"no id":        acts(actionCard+".approve", ""),
		"odd saying":   acts(actionCard+".approve_all", "c_r1.3"),
		"no saying":    acts(actionCard, "c_r1.3"),
		"not a card": func(p map[string]any) {
			p["message"].(map[string]any)["metadata"] = map[string]any{"event_type": metadataType}
		},
		"answer by button": acts(actionCard+".answer.approve", "c_r1.3"),
	}
	for name, forge := range forgeries {
		r, err := h.slack.deal(t.Context(), kindInteractive, h.forged(ts, forge))
		if err != nil {
			t.Fatal(name, err)
		}
		if len(r.after) != 1 {
			t.Errorf("%s gets %d answers", name, len(r.after))
		}
		h.slack.afterwards(r)
	}
	for _, words := range h.heard(t, mia, len(forgeries)) {
		if !strings.Contains(words, "no longer in use") {
			t.Errorf("told %q", words)
		}
	}
	if got := h.decisions(); len(got) != 0 {
		t.Errorf("believed: %+v", got)
	}
	r, err := h.slack.deal(t.Context(), kindInteractive, h.forged(ts, nil))
	if err != nil || len(h.decisions()) != 1 {
		t.Errorf("what is whole is not believed either: %v", err)
	}
	h.slack.afterwards(r)
}

// A decision never comes from text, whoever writes it and however it looks.
func TestRel_S34_TextIsNoDecision(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	h.shows(t, refund())
	root := h.take()[0].ID
	for _, text := range []string{"approved", "<@U0BOT> approve c_r1.3", "/approve c_r1.3", "switchboard.card.approve c_r1.3", `{"action_id":"switchboard.card.approve","value":"c_r1.3"}`} {
		h.say(t, sim.Say{From: ana, Channel: front, Thread: root, Text: text})
		h.say(t, sim.Say{From: ana, Channel: front, Text: text})
	}
	h.settled(t)
	if got := h.decisions(); len(got) != 0 {
		t.Errorf("decided by text: %+v", got)
	}
}

// form waits for Mia's form to open.
func (h *house) form(t *testing.T, after int) sim.View {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errors.New("no form"))
	defer cancel()
	e, err := h.w.Await(ctx, after, func(e sim.Entry) bool { return e.What == sim.ViewOpened && e.Person == mia })
	if err != nil {
		t.Fatal(err)
	}
	return *e.View
}

// send sends Mia's form.
func (h *house) send(t *testing.T, view, text string) {
	t.Helper()
	value, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.w.SubmitView(sim.Submit{From: mia, View: view, Values: map[string]map[string]json.RawMessage{cardBlock: {cardBlock: value}}}); err != nil {
		t.Fatal(err)
	}
	h.settled(t)
}

func TestM5_DenyAndAnswerAskForWords(t *testing.T) {
	t.Parallel()
	for say, c := range map[chat.Saying]*chat.Card{chat.Deny: refund(), chat.Answer: {ID: "c_r1.3", Kind: chat.CardAsk, Question: "which one?", Turn: "t_1"}} {
		h := build(t, plan{})
		ts, from := h.shows(t, c), h.w.Mark()
		h.press(t, mia, ts, string(say))
		v := h.form(t, from)
		if len(h.decisions()) != 0 {
			t.Fatal("opening a form decides")
		}
		if say == chat.Answer {
			h.send(t, v.ID, " \u200b ")
			if open := h.w.Views(mia); len(open) != 1 || open[0].Errors[cardBlock] == "" || len(h.decisions()) != 0 {
				t.Fatalf("an empty answer: %+v", open)
			}
		}
		h.send(t, v.ID, "not <this> *month* & <!channel>")
		told := h.heard(t, mia, 1)
		got := h.decisions()
		if len(got) != 1 || got[0].Key != "click:c_r1.3:U0MIA:"+v.ID || got[0].Say != say || got[0].Words != "not <this> *month* & <!channel>" || got[0].By.Kind != chat.Member {
			t.Errorf("decided %+v, told %q", got, told)
		}
		if n := h.quiet(t, mia); n != 1 || len(h.w.Views(mia)) != 0 {
			t.Errorf("%d answers, %d forms left", n, len(h.w.Views(mia)))
		}
	}
}

func TestM5_AReasonMayBeLeftOut(t *testing.T) {
	t.Parallel()
	h := build(t, plan{web: true})
	ts, from := h.shows(t, refund()), h.w.Mark()
	h.press(t, mia, ts, "deny")
	v := h.form(t, from)
	if _, err := h.w.SubmitView(sim.Submit{From: mia, View: v.ID}); err != nil {
		t.Fatal(err)
	}
	h.heard(t, mia, 1)
	if got := h.decisions(); len(got) != 1 || got[0].Words != "" || got[0].Say != chat.Deny {
		t.Errorf("decided %+v", got)
	}
}

func TestM5_ACardsFormThatDoesNotOpenGetsAnAnswer(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	ts := h.shows(t, refund())
	h.w.Fail(sim.Fault{Method: "views.open", Do: sim.Refuse, Error: "expired_trigger_id"})
	h.press(t, mia, ts, "deny")
	if told := h.heard(t, mia, 1); !strings.Contains(told[0], "click again") {
		t.Errorf("told %q", told)
	}
}

// A form may come back with anything in it.
func TestM5_AForgedFormDecidesNothing(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	for _, private := range []string{
		"", "{}", `{"d":"c_1","s":"approve","c":"C0FRONT","t":"1.1"}`, `{"d":"c 1","s":"deny","c":"C0FRONT","t":"1.1"}`, `{"d":"c_1","s":"deny","c":"front","t":"1.1"}`,
		`{"d":"c_1","s":"deny","c":"C0FRONT","t":"x"}`, `{"d":"c_1","s":"deny","c":"C0FRONT","t":"1.1","r":"x"}`,
	} {
		payload, err := json.Marshal(map[string]any{
			"type": "view_submission", "user": map[string]any{"id": mia}, "view": map[string]any{"id": "V0X", "callback_id": cardCallback, "private_metadata": private},
		})
		if err != nil {
			t.Fatal(err)
		}
		r, err := h.slack.deal(t.Context(), kindInteractive, payload)
		if err != nil || !strings.Contains(string(r.reply), "no longer in use") {
			t.Errorf("%s: %s, %v", private, r.reply, err)
		}
	}
	if got := h.decisions(); len(got) != 0 {
		t.Errorf("believed: %+v", got)
	}
}

// Where Slack does not tell in time who clicked nothing is decided, and they are told.
func TestM5_WithoutKnowingWhoItIsNothingIsDecided(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]sim.Fault{
		"users hang":     {Method: "users.info", Do: sim.Hang, Times: -1},
		"users break":    {Method: "users.info", Do: sim.ServerError, Times: -1},
		"users limited":  {Method: "users.info", Do: sim.Limited, Retry: 60, Times: -1},
		"groups hang":    {Method: "usergroups.list", Do: sim.Hang, Times: -1},
		"groups limited": {Method: "usergroups.list", Do: sim.LimitedOK, Times: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := build(t, plan{})
			ts := h.shows(t, refund())
			if _, err := h.slack.person(t.Context(), mia, true); err != nil { // what is known from before does not help
				t.Fatal(err)
			}
			lift := h.w.Fail(f)
			began := time.Now()
			h.press(t, mia, ts, "approve")
			if took := time.Since(began); took > 2900*time.Millisecond {
				t.Errorf("acknowledged after %s", took)
			}
			if told := h.heard(t, mia, 1); !strings.Contains(told[0], "click again") || len(h.decisions()) != 0 {
				t.Errorf("told %q, decided %+v", told, h.decisions())
			}
			from := h.w.Mark()
			h.press(t, mia, ts, "deny")
			v := h.form(t, from)
			h.send(t, v.ID, "a reason that took long to write")
			if open := h.w.Views(mia); len(open) != 1 || !strings.Contains(open[0].Errors[cardBlock], "send it again") || len(h.decisions()) != 0 {
				t.Errorf("the form: %+v, decided %+v", open, h.decisions())
			}
			lift()
			h.clock.forward(2 * time.Minute)
			h.send(t, v.ID, "a reason that took long to write")
			if got := h.decisions(); len(got) != 1 || got[0].By.Kind != chat.Member {
				t.Errorf("decided %+v", got)
			}
		})
	}
}

func TestM5_WhoMayDecideIsAskedAfresh(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	ts := h.shows(t, refund())
	h.press(t, mia, ts, "approve")
	h.w.AddGroup(sim.Group{ID: "S0FIN", Handle: "finance", Members: []string{mia}})
	h.w.AddPerson(sim.Person{ID: ana, Name: "Ana", Kind: sim.Guest})
	h.press(t, ana, ts, "approve")
	h.clock.forward(61 * time.Second)
	h.press(t, mia, ts, "approve")
	h.press(t, ana, ts, "approve")
	h.heard(t, ana, 2)
	var got []string
	for _, d := range h.decisions() {
		got = append(got, strings.Join(append([]string{d.By.ID, string(d.By.Kind)}, d.By.Groups...), " "))
	}
	want := []string{"U0MIA member", "U0ANA guest S0FIN", "U0MIA member S0FIN", "U0ANA guest"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestM5_WhatCannotBeStoredIsNotTaken(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	ts := h.shows(t, refund())
	h.desk.write(func() { h.desk.gate = failing })
	h.press(t, mia, ts, "approve")
	if told := h.heard(t, mia, 1); !strings.Contains(told[0], "could not store") || !strings.Contains(told[0], "click again") {
		t.Errorf("told %q", told)
	}
	from := h.w.Mark()
	h.press(t, mia, ts, "deny")
	v := h.form(t, from)
	h.send(t, v.ID, "no")
	if open := h.w.Views(mia); len(open) != 1 || !strings.Contains(open[0].Errors[cardBlock], "could not store") {
		t.Errorf("the form: %+v", open)
	}
	h.desk.write(func() { h.desk.gate = nil })
	h.send(t, v.ID, "no")
	h.press(t, mia, ts, "approve")
	h.heard(t, mia, 3)
	if got := h.decisions(); len(got) != 2 {
		t.Errorf("decided %+v", got)
	}
}

// A slow judge keeps nobody else waiting: neither what is said in the channel nor the acknowledgement.
func TestM5_ASlowJudgeHoldsNothingUp(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	ts := h.shows(t, refund())
	h.desk.write(func() {
		h.desk.rule = func(ctx context.Context, _ chat.Decision) (chat.Ruling, error) {
			<-ctx.Done()
			return chat.Ruling{}, context.Cause(ctx)
		}
	})
	began := time.Now()
	if _, err := h.w.Click(sim.Click{From: mia, Channel: front, TS: ts, Action: actionCard + ".approve"}); err != nil {
		t.Fatal(err)
	}
	h.desk.until(t, "the judge is asked", func() bool { return len(h.desk.decided) == 1 })
	h.say(t, sim.Say{From: mia, Channel: front, Text: "<@U0BOT> meanwhile"})
	h.desk.until(t, "the message is taken", func() bool { return len(h.desk.accepted) == 2 })
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("a message waited %s for a click", took)
	}
	h.settled(t)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("acknowledged after %s", took)
	}
	if told := h.heard(t, mia, 1); !strings.Contains(told[0], "could not store") {
		t.Errorf("told %q", told)
	}
}

func TestM5_WhereNothingCanBeWhisperedThereIsTheDirectMessage(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	ts := h.shows(t, refund())
	h.w.Fail(sim.Fault{Method: "chat.postEphemeral", Do: sim.Refuse, Error: "user_not_in_channel"})
	h.press(t, mia, ts, "approve")
	dm := h.dm(t, mia)
	e, err := h.w.Await(t.Context(), 0, func(e sim.Entry) bool { return e.What == sim.Posted && e.Channel == dm })
	if err != nil || !strings.Contains(e.Text, "taken: approve") {
		t.Errorf("%v %+v", err, e)
	}
}
