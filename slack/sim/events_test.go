package sim_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchboard/slack/sim"
)

// event is the inner event of a frame.
func event(f map[string]any) map[string]any {
	e, _ := dig(f, "payload", "event").(map[string]any)
	return e
}

// kind names an event by its type and subtype.
func kind(f map[string]any) string { return str(event(f), "type") + " " + str(event(f), "subtype") }

func TestMentionMakesTwoEventsWithDifferentIDs(t *testing.T) {
	t.Parallel()
	w := open(t)
	c := w.dial()
	for _, order := range []sim.Order{sim.MentionFirst, sim.MessageFirst} {
		w.SetOrder(order)
		ts := w.say("<@U0BOT> hi &amp; bye")
		a, b := c.take(), c.take()
		if order == sim.MessageFirst {
			a, b = b, a
		}
		if kind(a) != "app_mention " || kind(b) != "message " {
			t.Fatalf("%s: %s, %s", order, kind(a), kind(b))
		}
		if str(event(a), "ts") != ts || str(event(b), "ts") != ts || str(a, "payload", "event_id") == str(b, "payload", "event_id") {
			t.Errorf("%v\n%v", a, b)
		}
		if str(event(b), "channel_type") != "channel" || dig(event(a), "channel_type") != nil {
			t.Errorf("channel_type is for message only: %v %v", a, b)
		}
		if str(b, "payload", "authorizations") != "" || str(b, "payload", "context_team_id") != "T0SIM" || str(b, "payload", "api_app_id") != "A0BOT" {
			t.Errorf("wrapper %v", dig(b, "payload"))
		}
	}
	// In any order, both orders come.
	w.SetOrder(sim.AnyOrder)
	first := map[string]bool{}
	for range 20 {
		w.say("<@U0BOT> hi")
		first[kind(c.take())] = true
		c.take()
	}
	if len(first) != 2 {
		t.Errorf("only %v came first", first)
	}
}

func TestTextsComeWithRichText(t *testing.T) {
	t.Parallel()
	w := open(t)
	c := w.dial()
	w.SetOrder(sim.MessageFirst)
	w.say("<@U0BOT> see `<@U0BOT>` *bold* <https://x.y|label>\n&gt; quoted &lt;tag&gt;\n```code *no* ```")
	got, err := json.Marshal(dig(event(c.take()), "blocks").([]any)[0])
	if err != nil {
		t.Fatal(err)
	}
	text := func(s string) any { return args{"type": "text", "text": s} }
	styled := func(s, style string) any { return args{"type": "text", "text": s, "style": args{style: true}} }
	want, err := json.Marshal(args{"type": "rich_text", "elements": []any{
		args{"type": "rich_text_section", "elements": []any{
			args{"type": "user", "user_id": "U0BOT"},
			text(" see "), styled("<@U0BOT>", "code"), text(" "), styled("bold", "bold"), text(" "),
			args{"type": "link", "url": "https://x.y", "text": "label"},
		}},
		args{"type": "rich_text_quote", "elements": []any{text("quoted <tag>")}},
		args{"type": "rich_text_preformatted", "elements": []any{text("code *no* ")}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestEditsDeletesJoinsAndPreviewsAreTold(t *testing.T) {
	t.Parallel()
	w := open(t)
	c := w.dial()
	ts := w.say("hi")
	c.take()
	if err := w.Edit(anas, hall, ts, "hi <@U0BOT>"); err != nil {
		t.Fatal(err)
	}
	f := c.take()
	if kind(f) != "message message_changed" || str(event(f), "message", "text") != "hi <@U0BOT>" || str(event(f), "previous_message", "text") != "hi" ||
		dig(event(f), "hidden") != true || dig(event(f), "user") != nil || dig(event(f), "text") != nil {
		t.Errorf("edit: %v", event(f))
	}
	f = c.take()
	if kind(f) != "app_mention " || str(event(f), "edited", "user") != anas || str(event(f), "ts") != ts {
		t.Errorf("edited mention: %v", event(f))
	}
	if err := w.Unfurl(hall, ts, "https://x.y", "X"); err != nil {
		t.Fatal(err)
	}
	if f = c.take(); kind(f) != "message message_changed" {
		t.Errorf("preview: %v", event(f))
	}
	if err := w.Delete(anas, hall, ts); err != nil {
		t.Fatal(err)
	}
	if f = c.take(); kind(f) != "message message_deleted" || str(event(f), "deleted_ts") != ts {
		t.Errorf("delete: %v", event(f))
	}
	w.AddPerson(sim.Person{ID: "U0CAT", Name: "cat"})
	if err := w.Join(hall, "U0CAT"); err != nil {
		t.Fatal(err)
	}
	a, b := c.take(), c.take()
	if kind(a) != "member_joined_channel " || kind(b) != "message channel_join" {
		t.Errorf("join: %s, %s", kind(a), kind(b))
	}
	if err := w.Edit(bobs, hall, w.say("mine"), "x"); err == nil {
		t.Error("bob edited ana's message")
	}
}

func TestAppsSeeTheirOwnPostsAndUpdates(t *testing.T) {
	t.Parallel()
	w := open(t)
	c := w.dial()
	ts := w.post("hello <@U0BOT>")
	f := c.take()
	if kind(f) != "message " || str(event(f), "bot_id") != "B0BOT" || str(event(f), "user") != "U0BOT" || str(event(f), "app_id") != "A0BOT" {
		t.Errorf("own post: %v", event(f))
	}
	w.ok("chat.update", args{"channel": hall, "ts": ts, "text": "x"})
	if f = c.take(); kind(f) != "message message_changed" {
		t.Errorf("own update (and no app_mention of its own post): %v", event(f))
	}
}

func TestWhereEventsAreNotSent(t *testing.T) {
	t.Parallel()
	w := open(t, func(_ *sim.Options, a *sim.App) { a.Events = []string{"app_mention", "message.im"} })
	c := w.dial()
	w.AddChannel(sim.Channel{ID: "C0OUT", Name: "out", Members: []string{anas}})
	im, err := w.OpenIM(anas, "")
	if err != nil {
		t.Fatal(err)
	}
	w.say("no mention, and the app does not listen to channels")
	for ch, text := range map[string]string{"C0OUT": "<@U0BOT> not a member there"} {
		if _, err := w.Say(sim.Say{From: anas, Channel: ch, Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Say(sim.Say{From: anas, Channel: im, Text: "<@U0BOT> in a DM"}); err != nil {
		t.Fatal(err)
	}
	if f := c.take(); kind(f) != "message " || str(event(f), "channel_type") != "im" {
		t.Errorf("first event: %v", event(f))
	}
	w.say("<@U0BOT> last")
	if f := c.take(); kind(f) != "app_mention " || str(event(f), "text") != "<@U0BOT> last" {
		t.Errorf("a DM never makes app_mention; got %v", event(f))
	}
}

func TestForeignPeopleAndOtherBots(t *testing.T) {
	t.Parallel()
	w := open(t)
	c := w.dial()
	w.AddPerson(sim.Person{ID: "U0EXT", Name: "eve", Kind: sim.External})
	w.AddPerson(sim.Person{ID: "U0ALERT", Name: "alerts", Kind: sim.Bot})
	w.AddChannel(sim.Channel{ID: "C0SHARE", Name: "share", Kind: sim.Shared, Members: []string{"U0EXT", "U0BOT"}})
	if _, err := w.Say(sim.Say{From: "U0EXT", Channel: "C0SHARE", Text: "hi"}); err != nil {
		t.Fatal(err)
	}
	f := c.take()
	if dig(f, "payload", "is_ext_shared_channel") != true || str(event(f), "user_team") != "T0ELSEWHERE" || str(f, "payload", "context_team_id") != "T0SIM" {
		t.Errorf("external: %v", f)
	}
	w.SetOrder(sim.MentionFirst)
	if _, err := w.Say(sim.Say{From: "U0ALERT", Channel: hall, Text: "<@U0BOT> alarm"}); err != nil {
		t.Fatal(err)
	}
	if f = c.take(); kind(f) != "app_mention " || str(event(f), "bot_id") != "B0ALERT" || dig(event(f), "subtype") != nil {
		t.Errorf("other bot: %v", event(f))
	}
}

func TestDMEventsCarryWhatThePersonLooksAt(t *testing.T) {
	t.Parallel()
	w := open(t)
	c := w.dial()
	im, err := w.OpenIM(anas, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.OpenHome(sim.Visit{From: anas, Tab: "messages", Looking: hall}); err != nil {
		t.Fatal(err)
	}
	f := c.take()
	if kind(f) != "app_home_opened " || str(event(f), "tab") != "messages" || str(event(f), "channel") != im || dig(event(f), "context", "entities") == nil {
		t.Errorf("visit: %v", event(f))
	}
	if _, err := w.Say(sim.Say{From: anas, Channel: im, Text: "hi", Looking: hall}); err != nil {
		t.Fatal(err)
	}
	f = c.take()
	if e, _ := dig(event(f), "app_context", "entities").([]any); len(e) != 1 || str(e[0], "value") != hall {
		t.Errorf("message: %v", event(f))
	}
	if _, err := w.Say(sim.Say{From: anas, Channel: im, Text: "hi"}); err != nil {
		t.Fatal(err)
	}
	if got := dig(event(c.take()), "app_context"); got == nil || len(got.(map[string]any)) != 0 {
		t.Errorf("empty context: %v", got)
	}
}

func TestEventsComeMoreThanOnce(t *testing.T) {
	t.Parallel()
	w := open(t)
	c := w.dial()
	ts := w.say("hi")
	one := c.next()
	if n := w.Resend(hall, ts, sim.Repeat{Times: 1, SameEnvelope: true}); n != 1 {
		t.Errorf("%d events resent, want 1", n)
	}
	two := c.next()
	if str(one, "envelope_id") != str(two, "envelope_id") || str(one, "payload", "event_id") != str(two, "payload", "event_id") || two["retry_attempt"] != 0.0 {
		t.Errorf("same envelope: %v\n%v", one, two)
	}
	mark := w.Mark()
	c.ack(one, nil)
	c.ack(two, nil)
	w.await(w.await(mark, sim.Acked).N, sim.Acked)
	w.Resend(hall, ts, sim.Repeat{Times: 1, NewEvent: true})
	three := c.take()
	if str(three, "payload", "event_id") == str(one, "payload", "event_id") || str(event(three), "ts") != ts {
		t.Errorf("new event id: %v", three)
	}
	w.SetRepeat(sim.Repeat{Times: 2})
	ts = w.say("again")
	for range 3 {
		if f := c.take(); str(event(f), "ts") != ts {
			t.Errorf("event %v", event(f))
		}
	}
}

func TestChattyChangesTheFirstMessageWithEveryReply(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.SetChatty(true)
	c := w.dial()
	root := w.say("root")
	c.take()
	if _, err := w.Say(sim.Say{From: bobs, Channel: hall, Thread: root, Text: "reply"}); err != nil {
		t.Fatal(err)
	}
	if f := c.take(); kind(f) != "message message_changed" || dig(event(f), "message", "reply_count") != 1.0 {
		t.Errorf("event %v", event(f))
	}
	if f := c.take(); str(event(f), "thread_ts") != root || str(event(f), "parent_user_id") != anas {
		t.Errorf("reply %v", event(f))
	}
}

func TestEmitSendsAnything(t *testing.T) {
	t.Parallel()
	w := open(t)
	c := w.dial()
	if err := w.Emit("", json.RawMessage(`{"type":"message","subtype":"huddle_thread","channel":"C0HALL"}`)); err != nil {
		t.Fatal(err)
	}
	if f := c.take(); kind(f) != "message huddle_thread" {
		t.Errorf("event %v", event(f))
	}
}

func TestTimestampsAreUniqueAndGrow(t *testing.T) {
	t.Parallel()
	w := open(t)
	last := ""
	for range 100 { // the clock stands still
		ts := w.say("x")
		if ts <= last || !strings.HasPrefix(ts, "1780000000.") {
			t.Fatalf("%s after %s", ts, last)
		}
		last = ts
	}
}

func TestTypedTextIsEscaped(t *testing.T) {
	t.Parallel()
	w := open(t)
	if _, err := w.Say(sim.Say{From: anas, Channel: hall, Typed: true, Text: "<@U0BOT> a < b & c > d <script> https://x.y/?a=1&b=2"}); err != nil {
		t.Fatal(err)
	}
	want := "<@U0BOT> a &lt; b &amp; c &gt; d &lt;script&gt; <https://x.y/?a=1&amp;b=2>"
	if got := w.Messages(hall)[0].Text; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
