package sim_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchboard/slack/sim"
)

func button(id, value string) any {
	return args{"type": "button", "action_id": id, "value": value, "text": args{"type": "plain_text", "text": value}}
}

// buttons posts two of them.
func (w *world) buttons() string {
	w.t.Helper()
	return str(w.ok("chat.postMessage", args{"channel": hall, "text": "choose", "blocks": []any{
		args{"type": "actions", "block_id": "row", "elements": []any{button("pick", "a"), button("pick2", "b")}},
		args{"type": "context_actions", "elements": []any{args{
			"type": "feedback_buttons", "action_id": "fb",
			"positive_button": args{"text": args{"type": "plain_text", "text": "good"}, "value": "+"},
			"negative_button": args{"text": args{"type": "plain_text", "text": "bad"}, "value": "-"},
		}}},
	}}), "ts")
}

// press clicks and gives the payload; the app's own post was told before.
func (w *world) press(c *client, k sim.Click) map[string]any {
	w.t.Helper()
	if _, err := w.Click(k); err != nil {
		w.t.Fatal(err)
	}
	f := c.take()
	if f["type"] != "interactive" || f["accepts_response_payload"] != true {
		w.t.Fatalf("frame %v", f)
	}
	return dig(f, "payload").(map[string]any)
}

func TestClickTellsEverything(t *testing.T) {
	t.Parallel()
	w := open(t)
	c := w.dial()
	ts := w.buttons()
	c.take()
	p := w.press(c, sim.Click{From: anas, Channel: hall, TS: ts, Action: "pick2", Value: "b"})
	action := dig(p, "actions").([]any)[0]
	if str(p, "type") != "block_actions" || str(action, "action_id") != "pick2" || str(action, "value") != "b" || str(action, "block_id") != "row" ||
		str(p, "user", "id") != anas || str(p, "channel", "id") != hall || str(p, "container", "message_ts") != ts || str(p, "message", "ts") != ts ||
		str(p, "trigger_id") == "" || str(p, "response_url") == "" || str(action, "action_ts") == "" {
		t.Errorf("payload %v", p)
	}
	p = w.press(c, sim.Click{From: bobs, Channel: hall, TS: ts, Action: "fb", Value: "-"})
	if action = dig(p, "actions").([]any)[0]; str(action, "type") != "feedback_buttons" || str(action, "value") != "-" {
		t.Errorf("feedback %v", action)
	}
	w.AddPerson(sim.Person{ID: "U0CAT", Name: "cat"})
	for _, k := range []sim.Click{
		{From: anas, Channel: hall, TS: ts, Action: "none"},
		{From: anas, Channel: hall, TS: ts, Action: "pick", Value: "forged"},
		{From: "U0CAT", Channel: hall, TS: ts, Action: "pick"},
		{From: "U0NONE", Channel: hall, TS: ts, Action: "pick"},
	} {
		if _, err := w.Click(k); err == nil {
			t.Errorf("%+v went through", k)
		}
	}
}

func TestClicksAreNotSentAgain(t *testing.T) {
	t.Parallel()
	w := open(t, func(o *sim.Options, _ *sim.App) {
		o.Times.Ack, o.Times.Retry = 20*time.Millisecond, []time.Duration{0, 0}
	})
	ts := w.buttons()
	c := w.dial()
	mark := w.Mark()
	if _, err := w.Click(sim.Click{From: anas, Channel: hall, TS: ts, Action: "pick"}); err != nil {
		t.Fatal(err)
	}
	c.next()
	w.await(mark, sim.GivenUp, func(e sim.Entry) bool { return e.Method == "interactive" })
}

// modal makes one with an input.
func modal(title string, more args) args {
	out := args{
		"type": "modal", "title": args{"type": "plain_text", "text": title}, "submit": args{"type": "plain_text", "text": "Go"},
		"blocks": []any{args{
			"type": "input", "block_id": "name", "label": args{"type": "plain_text", "text": "Name"},
			"element": args{"type": "plain_text_input", "action_id": "it"},
		}},
	}
	maps.Copy(out, more)
	return out
}

func TestTriggerOpensOneViewWithinThreeSeconds(t *testing.T) {
	t.Parallel()
	w := open(t)
	c := w.dial()
	ts := w.buttons()
	c.take()
	trigger := func() string {
		t.Helper()
		return str(w.press(c, sim.Click{From: anas, Channel: hall, TS: ts, Action: "pick"}), "trigger_id")
	}
	id := trigger()
	out := w.ok("views.open", args{"trigger_id": id, "view": modal("One", nil)})
	if v := w.Views(anas); len(v) != 1 || v[0].ID != str(out, "view", "id") || str(out, "view", "hash") == "" {
		t.Errorf("views %+v", v)
	}
	w.refused("exchanged_trigger_id", "views.open", args{"trigger_id": id, "view": modal("One", nil)})
	id = trigger()
	w.clock.move(3*time.Second + time.Millisecond)
	w.refused("expired_trigger_id", "views.open", args{"trigger_id": id, "view": modal("One", nil)})
	w.refused("invalid_trigger_id", "views.open", args{"trigger_id": "1.2.3", "view": modal("One", nil)})
	for range 2 {
		w.ok("views.push", args{"trigger_id": trigger(), "view": modal("More", nil)})
	}
	w.refused("push_limit_reached", "views.push", args{"trigger_id": trigger(), "view": modal("More", nil)})
	if v := w.Views(anas); len(v) != 3 {
		t.Errorf("%d views, want 3", len(v))
	}
}

func TestViewRefusals(t *testing.T) {
	t.Parallel()
	w := open(t)
	c := w.dial()
	ts := w.buttons()
	c.take()
	id := str(w.press(c, sim.Click{From: anas, Channel: hall, TS: ts, Action: "pick"}), "trigger_id")
	label := func(n int) args { return args{"type": "plain_text", "text": repeat("x", n)} }
	for _, v := range []any{
		nil, modal("One", args{"type": "home"}), modal(repeat("t", 25), nil), modal("One", args{"submit": label(25)}), modal("One", args{"close": label(25)}),
		modal("One", args{"submit": nil}), modal("One", args{"private_metadata": repeat("p", 3001)}), modal("One", args{"callback_id": repeat("c", 256)}),
		modal("One", args{"blocks": texts(101, args{"type": "divider"})}), modal("One", args{"blocks": nil}),
		modal("One", args{"blocks": []any{args{"type": "markdown", "text": "x"}}}),
	} {
		w.refused("invalid_arguments", "views.open", args{"trigger_id": id, "view": v})
	}
	big := texts(90, args{"type": "section", "text": args{"type": "mrkdwn", "text": repeat("x", 2990)}})
	w.refused("view_too_large", "views.open", args{"trigger_id": id, "view": modal("One", args{"blocks": big})})
	// A view that was refused does not use the trigger up.
	v := w.ok("views.open", args{"trigger_id": id, "view": modal("One", args{"external_id": "e1", "private_metadata": repeat("p", 3000)})})
	id = str(w.press(c, sim.Click{From: anas, Channel: hall, TS: ts, Action: "pick"}), "trigger_id")
	w.refused("duplicate_external_id", "views.push", args{"trigger_id": id, "view": modal("Two", args{"external_id": "e1"})})
	w.refused("not_found", "views.update", args{"view_id": "V0NONE", "view": modal("Two", nil)})
	w.refused("hash_conflict", "views.update", args{"external_id": "e1", "hash": "old", "view": modal("Two", nil)})
	w.ok("views.update", args{"view_id": str(v, "view", "id"), "hash": str(v, "view", "hash"), "view": modal("Two", nil)})
	w.refused("hash_conflict", "views.update", args{"view_id": str(v, "view", "id"), "hash": str(v, "view", "hash"), "view": modal("Three", nil)})
}

func TestSubmissionAnswers(t *testing.T) {
	t.Parallel()
	w := open(t)
	c := w.dial()
	ts := w.buttons()
	c.take()
	openView := func(more args) string {
		t.Helper()
		id := str(w.press(c, sim.Click{From: anas, Channel: hall, TS: ts, Action: "pick"}), "trigger_id")
		return str(w.ok("views.open", args{"trigger_id": id, "view": modal("One", more)}), "view", "id")
	}
	submit := func(view string, answer any) map[string]any {
		t.Helper()
		mark := w.Mark()
		if _, err := w.SubmitView(sim.Submit{From: anas, View: view, Values: map[string]map[string]json.RawMessage{"name": {"it": json.RawMessage(`"Ana"`)}}}); err != nil {
			t.Fatal(err)
		}
		f := c.next()
		c.ack(f, answer)
		w.await(mark, sim.Acked)
		return dig(f, "payload").(map[string]any)
	}
	v := openView(args{"callback_id": "cb", "private_metadata": "pm"})
	p := submit(v, map[string]any{"response_action": "errors", "errors": map[string]string{"name": "too short"}})
	if str(p, "type") != "view_submission" || str(p, "view", "callback_id") != "cb" || str(p, "view", "private_metadata") != "pm" ||
		str(p, "view", "state", "values", "name", "it", "value") != "Ana" {
		t.Errorf("submission %v", p)
	}
	if got := w.Views(anas); len(got) != 1 || got[0].Errors["name"] != "too short" {
		t.Errorf("after errors: %+v", got)
	}
	mark := w.Mark()
	submit(v, map[string]any{"response_action": "errors", "errors": map[string]string{"other": "x"}})
	w.await(mark, sim.Ignored)
	submit(v, map[string]any{"response_action": "update", "view": modal("Two", nil)})
	if got := w.Views(anas); len(got) != 1 || got[0].ID != v || got[0].Errors != nil {
		t.Errorf("after update: %+v", got)
	}
	submit(v, map[string]any{"response_action": "push", "view": modal("Three", nil)})
	if got := w.Views(anas); len(got) != 2 {
		t.Fatalf("after push: %+v", got)
	}
	if _, err := w.SubmitView(sim.Submit{From: anas, View: v}); err == nil {
		t.Error("a view that is not on top was submitted")
	}
	submit(w.Views(anas)[1].ID, nil)
	if got := w.Views(anas); len(got) != 1 {
		t.Errorf("an empty answer closes this view: %+v", got)
	}
	submit(v, map[string]any{"response_action": "clear"})
	if got := w.Views(anas); len(got) != 0 {
		t.Errorf("after clear: %+v", got)
	}
	v = openView(args{"notify_on_close": true})
	if err := w.CloseView(anas, v); err != nil {
		t.Fatal(err)
	}
	if f := c.take(); str(f, "payload", "type") != "view_closed" || str(f, "payload", "view", "id") != v {
		t.Errorf("closing: %v", f)
	}
}

func TestHomeIsPublishedPerPerson(t *testing.T) {
	t.Parallel()
	w := open(t)
	home := args{"type": "home", "blocks": []any{args{"type": "section", "text": args{"type": "mrkdwn", "text": "welcome"}}}}
	one := w.ok("views.publish", args{"user_id": anas, "view": home})
	two := w.ok("views.publish", args{"user_id": anas, "view": home, "hash": str(one, "view", "hash")})
	if str(one, "view", "id") != str(two, "view", "id") {
		t.Errorf("%v\n%v", one, two)
	}
	w.refused("hash_conflict", "views.publish", args{"user_id": anas, "view": home, "hash": str(one, "view", "hash")})
	w.refused("user_not_found", "views.publish", args{"user_id": "U0NONE", "view": home})
	if _, ok := w.Home("", bobs); ok {
		t.Error("bob has a home that is ana's")
	}
	c := w.dial()
	if err := w.OpenHome(sim.Visit{From: anas}); err != nil {
		t.Fatal(err)
	}
	if f := c.take(); str(event(f), "tab") != "home" || str(event(f), "view", "id") != str(one, "view", "id") {
		t.Errorf("visit %v", event(f))
	}
	off := open(t, func(_ *sim.Options, a *sim.App) { a.NoHome = true })
	off.refused("not_enabled", "views.publish", args{"user_id": anas, "view": home})
}

func TestResponseURLLastsFiveUsesAndHalfAnHour(t *testing.T) {
	t.Parallel()
	w := open(t)
	c := w.dial()
	ts := w.buttons()
	c.take()
	link := func() string {
		t.Helper()
		return str(w.press(c, sim.Click{From: anas, Channel: hall, TS: ts, Action: "pick"}), "response_url")
	}
	url := link()
	status := func(url string, body args) int {
		t.Helper()
		res, _ := w.postJSON(url, body)
		return res.StatusCode
	}
	mark := w.Mark()
	status(url, args{"text": "only you"})
	if e := w.await(mark, sim.Whispered); e.Person != anas || e.Text != "only you" {
		t.Errorf("entry %+v", e)
	}
	status(url, args{"text": "for all", "response_type": "in_channel"})
	if f := c.take(); str(event(f), "text") != "for all" {
		t.Errorf("event %v", event(f))
	}
	status(url, args{"text": "replaced", "replace_original": true})
	if m := w.Messages(hall)[0]; m.Text != "replaced" || len(m.Blocks) != 0 {
		t.Errorf("message %+v", m)
	}
	c.take()
	status(url, args{"text": "4"})
	if got := status(url, args{"text": "5"}); got != http.StatusOK {
		t.Errorf("fifth use: %d", got)
	}
	if got := status(url, args{"text": "6"}); got != http.StatusNotFound {
		t.Errorf("sixth use: %d", got)
	}
	ts = w.buttons()
	c.take()
	url = link()
	w.clock.move(30*time.Minute + time.Second)
	if got := status(url, args{"text": "late"}); got != http.StatusNotFound {
		t.Errorf("after half an hour: %d", got)
	}
	url = link()
	if got := status(url, args{"delete_original": true}); got != http.StatusOK {
		t.Errorf("delete: %d", got)
	}
	for _, m := range w.Messages(hall) {
		if m.TS == ts {
			t.Errorf("still there: %+v", m)
		}
	}
}

func TestShortcutsAndCommands(t *testing.T) {
	t.Parallel()
	w := open(t)
	c := w.dial()
	ts := w.say("what about this?")
	c.take()
	if _, err := w.Shortcut(sim.Shortcut{From: bobs, Callback: "ask", Channel: hall, TS: ts}); err != nil {
		t.Fatal(err)
	}
	p := dig(c.take(), "payload")
	if str(p, "type") != "message_action" || str(p, "callback_id") != "ask" || str(p, "message", "text") != "what about this?" || str(p, "message_ts") != ts {
		t.Errorf("message shortcut %v", p)
	}
	if _, err := w.Shortcut(sim.Shortcut{From: bobs, Callback: "ask"}); err != nil {
		t.Fatal(err)
	}
	if p = dig(c.take(), "payload"); str(p, "type") != "shortcut" || dig(p, "channel") != nil || dig(p, "response_url") != nil {
		t.Errorf("global shortcut %v", p)
	}
	if _, err := w.Slash(sim.Command{From: bobs, Channel: hall, Command: "/bot", Text: "hi"}); err != nil {
		t.Fatal(err)
	}
	p = dig(c.take(), "payload")
	want := args{"command": "/bot", "text": "hi", "user_id": bobs, "channel_id": hall, "is_enterprise_install": "false"}
	for k, v := range want {
		if diff := cmp.Diff(v, dig(p, k)); diff != "" {
			t.Errorf("%s: %s", k, diff)
		}
	}
	if dig(p, "thread_ts") != nil {
		t.Errorf("a command knows no thread: %v", p)
	}
}
