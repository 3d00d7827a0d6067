package slack

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchboard/chat"
	"switchboard/slack/sim"
)

// call calls a method of the Web API as the bot.
func (h *house) call(t *testing.T, method string, body map[string]any) map[string]any {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.server.URL+"/api/"+method, strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+h.app.BotToken)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var out map[string]any
	if err := json.NewDecoder(answer.Body).Decode(&out); err != nil || out["ok"] != true {
		t.Fatal(method, err, out)
	}
	return out
}

// card posts a reply of the bot with buttons.
func (h *house) card(t *testing.T, channel, thread string) string {
	t.Helper()
	button := func(action, text, value string) any {
		return map[string]any{"type": "button", "action_id": action, "value": value, "text": map[string]any{"type": "plain_text", "text": text}}
	}
	out := h.call(t, "chat.postMessage", map[string]any{
		"channel": channel, "thread_ts": thread, "text": "which?",
		"blocks": []any{
			map[string]any{"type": "section", "text": map[string]any{"type": "mrkdwn", "text": "which?"}},
			map[string]any{"type": "actions", "elements": []any{
				button(actionPick, "Rows", "t_1\ndesk"), button(actionTrace, "How I got this", "t_1"), button("old.action", "Old", "x"),
				button(actionPick+"x", "Odd", "no pair"),
			}},
			map[string]any{"type": "context_actions", "elements": []any{map[string]any{
				"type": "feedback_buttons", "action_id": actionFeedback,
				"positive_button": map[string]any{"text": map[string]any{"type": "plain_text", "text": "Good"}, "value": "t_1\ngood"},
				"negative_button": map[string]any{"text": map[string]any{"type": "plain_text", "text": "Bad"}, "value": "t_1\nbad"},
			}}},
		},
	})
	ts, _ := out["ts"].(string)
	return ts
}

func (h *house) click(t *testing.T, c sim.Click) {
	t.Helper()
	if _, err := h.w.Click(c); err != nil {
		t.Fatal(err)
	}
	h.settled(t)
}

func TestR4_Picks(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	root := h.say(t, sim.Say{From: ana, Channel: front, Text: "<@U0BOT> hm"})
	h.settled(t)
	ts := h.card(t, front, root)
	lift := h.w.Fail(sim.Fault{Method: "chat.update", Do: sim.Hang, Times: -1}) // the buttons stay for the while
	defer lift()
	for range 2 { // pressed twice
		h.click(t, sim.Click{From: mia, Channel: front, TS: ts, Action: actionPick, Value: "t_1\ndesk"})
	}
	h.click(t, sim.Click{From: ana, Channel: front, TS: ts, Action: actionPick, Value: "t_1\ndesk"})
	got := h.take()
	if len(got) != 3 {
		t.Fatalf("accepted %+v", got)
	}
	pick := got[1]
	if want := "click:t_1:U0MIA:" + pick.ID; pick.Key != want || !isTS(pick.ID) {
		t.Errorf("key %q, want %q", pick.Key, want)
	}
	pick.Key, pick.ID, pick.At = "", "", got[0].At
	want := chat.Message{
		Thread: chat.Thread{Team: "T0SIM", Channel: front, Root: root}, Channel: chat.Channel{ID: front, Visibility: chat.Shared},
		From: chat.Person{ID: mia, Kind: chat.External}, Text: "Rows", Pick: &chat.Pick{Card: "t_1", Value: "desk"}, At: got[0].At,
	}
	if d := cmp.Diff(want, pick); d != "" {
		t.Error(d)
	}
	if got[2].From.ID != ana {
		t.Errorf("another person's click: %+v", got[2])
	}
}

func TestPickInDirectMessage(t *testing.T) {
	t.Parallel()
	h := build(t, plan{app: func(a *sim.App) { a.AgentView = true }})
	d := h.dm(t, ana)
	h.click(t, sim.Click{From: ana, Channel: d, TS: h.card(t, d, ""), Action: actionPick, Value: "t_1\ndesk"})
	if got := h.take(); len(got) != 1 || got[0].Thread.Root != plainDM || got[0].Channel.Visibility != chat.DM {
		t.Errorf("accepted %+v", got)
	}
}

func TestFeedback(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	ts := h.card(t, front, "")
	h.click(t, sim.Click{From: ana, Channel: front, TS: ts, Action: actionFeedback, Value: "t_1\ngood"})
	h.click(t, sim.Click{From: ana, Channel: front, TS: ts, Action: actionFeedback, Value: "t_1\nbad"})
	want := []chat.Feedback{{Turn: "t_1", Person: ana, Good: true}, {Turn: "t_1", Person: ana}}
	if d := cmp.Diff(want, h.desk.rated); d != "" {
		t.Error(d)
	}
}

func TestTraceButton(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	h.click(t, sim.Click{From: ana, Channel: front, TS: h.card(t, front, ""), Action: actionTrace, Value: "t_1"})
	h.desk.until(t, "the trace is asked for", func() bool { return len(h.desk.traced) == 1 })
	want := chat.Person{ID: ana, Name: "Ana", Kind: chat.Member, Groups: []string{"S0FIN"}}
	if d := cmp.Diff(want, h.desk.traced[0]); d != "" {
		t.Error(d)
	}
}

// Every click gets an answer, and none is believed that does not stand in a message of the bot's.
func TestM5_ClicksThatLeadNowhere(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	ts := h.card(t, front, "")
	h.click(t, sim.Click{From: mia, Channel: front, TS: ts, Action: "old.action", Value: "x"})
	forged := func(change func(map[string]any)) {
		t.Helper()
		p := map[string]any{
			"type": "block_actions", "user": map[string]any{"id": mia}, "team": map[string]any{"id": "T0SIM"}, "channel": map[string]any{"id": front},
			"container": map[string]any{"type": "message", "message_ts": ts, "channel_id": front},
			"message":   map[string]any{"ts": ts, "user": "U0BOT", "bot_id": "B0BOT"},
			"actions":   []any{map[string]any{"action_id": actionPick, "value": "t_1\ndesk", "action_ts": "1700000000.000100"}},
		}
		change(p)
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		r, err := h.slack.deal(t.Context(), kindInteractive, data)
		if err != nil {
			t.Fatal(err)
		}
		h.slack.afterwards(r)
	}
	forged(func(p map[string]any) { p["message"] = map[string]any{"ts": ts, "user": "U0EVIL", "bot_id": "B0EVIL"} })
	forged(func(p map[string]any) { p["message"] = map[string]any{"ts": "1700000000.000300", "bot_id": "B0BOT"} })
	forged(func(p map[string]any) {
		p["container"] = map[string]any{"type": "message", "message_ts": ts, "channel_id": "C0ELSE"}
	})
	forged(func(p map[string]any) { delete(p, "message") })
	forged(func(p map[string]any) {
		p["actions"] = []any{map[string]any{"action_id": actionPick, "value": "no pair", "action_ts": "1700000000.000100"}}
	})
	forged(func(p map[string]any) {
		p["actions"] = []any{map[string]any{"action_id": actionFeedback, "value": "t_1\nmaybe", "action_ts": "1700000000.000100"}}
	})
	for i := range 7 {
		n := 0
		if _, err := h.w.Await(t.Context(), 0, func(e sim.Entry) bool {
			if e.What == sim.Whispered && e.Person == mia && strings.Contains(e.Text, "no longer in use") {
				n++
			}
			return n > i
		}); err != nil {
			t.Fatalf("%d answers: %v", i, err)
		}
	}
	if len(h.take()) != 0 || len(h.desk.rated) != 0 {
		t.Errorf("believed: %+v %+v", h.take(), h.desk.rated)
	}
	forged(func(map[string]any) {})
	if len(h.take()) != 1 {
		t.Error("what is whole is not believed either")
	}
}

func TestHomeAndPrompts(t *testing.T) {
	t.Parallel()
	h := build(t, plan{app: func(a *sim.App) { a.AgentView = true }})
	if err := h.w.OpenHome(sim.Visit{From: ana}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.w.Await(t.Context(), 0, func(e sim.Entry) bool { return e.Method == "views.publish" && e.What == sim.Called }); err != nil {
		t.Error(err)
	}
}

func TestSlashCommand(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	command := func(channel, text string) string {
		t.Helper()
		mark := h.w.Mark()
		if _, err := h.w.Slash(sim.Command{From: ana, Channel: channel, Command: "/switchboard", Text: text}); err != nil {
			t.Fatal(err)
		}
		e, err := h.w.Await(t.Context(), mark, func(e sim.Entry) bool { return e.Method == kindSlash && (e.What == sim.Acked || e.What == sim.GivenUp) })
		if err != nil || e.What != sim.Acked {
			t.Fatal(err, e)
		}
		var answer struct {
			Text string `json:"text"`
		}
		_ = json.Unmarshal(e.Body, &answer)
		return answer.Text
	}
	if got := command(front, "how do I &lt;!channel&gt; <@U0MIA>?"); got != "" {
		t.Errorf("answered %q", got)
	}
	posted := h.w.Messages(front)
	asked := posted[len(posted)-1]
	if asked.Metadata == nil || asked.Metadata.Type != questionType {
		t.Errorf("marked %+v", asked.Metadata)
	}
	if !strings.HasPrefix(asked.Text, "<@U0ANA> asks: how do I &lt;!channel&gt; @") || strings.Contains(asked.Text, "<!") {
		t.Errorf("posted %q", asked.Text)
	}
	got := h.take()
	if len(got) != 1 || got[0].ID != asked.TS || got[0].Thread.Root != asked.TS || got[0].From.ID != ana || got[0].Key != "msg:T0SIM:C0FRONT:"+asked.TS {
		t.Fatalf("accepted %+v", got)
	}
	if got := command(front, " "); !strings.Contains(got, "/switchboard") {
		t.Errorf("answered %q", got)
	}
	h.w.AddChannel(sim.Channel{ID: "C0OTHER", Name: "other", Members: []string{ana}})
	if got := command("C0OTHER", "hello?"); !strings.Contains(got, "Invite me") {
		t.Errorf("answered %q", got)
	}
	h.desk.write(func() { h.desk.gate = failing })
	if got := command(front, "and now?"); !strings.Contains(got, "try again") {
		t.Errorf("answered %q", got)
	}
	if _, err := h.w.Await(t.Context(), 0, func(e sim.Entry) bool { return e.What == sim.Removed }); err != nil {
		t.Error("the question in vain still stands there:", err)
	}
	if n := len(h.take()); n != 1 {
		t.Errorf("accepted %d", n)
	}
}

func failing(context.Context) error { return errors.New("the disk is full") }

func TestMessageShortcut(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	about := h.say(t, sim.Say{From: mia, Channel: front, Text: strings.Repeat("the \"list\" &amp; more ", 300)})
	h.settled(t)
	if _, err := h.w.Shortcut(sim.Shortcut{From: ana, Callback: AskShortcut, Channel: front, TS: about}); err != nil {
		t.Fatal(err)
	}
	e, err := h.w.Await(t.Context(), 0, func(e sim.Entry) bool { return e.What == sim.ViewOpened })
	if err != nil {
		t.Fatal(err)
	}
	submit := func(text string) {
		t.Helper()
		value, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.w.SubmitView(sim.Submit{From: ana, View: e.View.ID, Values: map[string]map[string]json.RawMessage{askBlock: {askBlock: value}}}); err != nil {
			t.Fatal(err)
		}
		h.settled(t)
	}
	submit("what does <this> mean?")
	got := h.take()
	if len(got) != 1 || got[0].Thread.Root != about || got[0].From.ID != ana ||
		!strings.HasPrefix(got[0].Text, "what does &lt;this&gt; mean?\n\n[The message that this is about, of <@U0MIA>]\n&gt; the \"list\"") {
		t.Fatalf("accepted %+v", got)
	}
	if _, err := h.w.Await(t.Context(), 0, func(e sim.Entry) bool {
		return e.What == sim.Posted && e.Thread == about && strings.Contains(e.Text, "asks: what does") &&
			e.Message.Metadata != nil && e.Message.Metadata.Type == questionType
	}); err != nil {
		t.Error(err)
	}
}
