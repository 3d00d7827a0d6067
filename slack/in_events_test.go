package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"switchboard/chat"
	"switchboard/config"
	"switchboard/slack/sim"
)

func TestD1_OneMessageTwentyDeliveries(t *testing.T) {
	t.Parallel()
	for _, order := range []sim.Order{sim.MentionFirst, sim.MessageFirst} {
		for _, web := range []bool{false, true} {
			t.Run(fmt.Sprint(order, web), func(t *testing.T) {
				t.Parallel()
				h := build(t, plan{web: web, sim: sim.Options{Times: sim.Times{Ack: time.Second}}})
				h.w.SetOrder(order)
				ts := h.say(t, sim.Say{From: ana, Channel: front, Text: "<@U0BOT> how do I export waivers?"})
				h.w.Resend(front, ts, sim.Repeat{Times: 5, NewEvent: true})
				h.w.Resend(front, ts, sim.Repeat{Times: 4, SameEnvelope: true})
				h.settled(t)
				want := []chat.Message{{
					Key: "msg:T0SIM:C0FRONT:" + ts, ID: ts, Thread: chat.Thread{Team: "T0SIM", Channel: front, Root: ts},
					From: chat.Person{ID: ana, Kind: chat.External}, Text: "how do I export waivers?", At: when(ts),
				}}
				got := h.take()
				if len(got) == 1 { // which of the two kinds of event came first decides what is known of the channel
					if v := got[0].Channel; v.ID != front || v.Visibility != chat.Public && v.Visibility != chat.Shared {
						t.Errorf("channel %+v", v)
					}
					got[0].Channel = chat.Channel{}
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Error(d)
				}
				if h.desk.again < 19 { // more where an acknowledgement came late
					t.Errorf("%d deliveries reached the bot again, want 19", h.desk.again)
				}
			})
		}
	}
}

func TestWhichMessages(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	root := h.say(t, sim.Say{From: ana, Channel: front, Text: "<@U0BOT> hello"})
	h.settled(t)
	other := h.say(t, sim.Say{From: ana, Channel: front, Text: "lunch?"})
	h.w.AddPerson(sim.Person{ID: "U0OTHER", Name: "alerts", Kind: sim.Bot})
	for _, c := range []struct {
		name   string
		listen config.Listen
		say    sim.Say
		want   string // taken | unasked | heard | nothing
	}{
		{"plain words in a channel", config.Threads, sim.Say{From: mia, Text: "good morning"}, "nothing"},
		{"mention", config.Mentions, sim.Say{From: mia, Text: "hey <@U0BOT>, you there?"}, "taken"},
		{"mention in a list", config.Mentions, sim.Say{From: mia, Text: "x", Blocks: blocks(`{"type":"rich_text","elements":[{"type":"rich_text_list","style":"bullet","elements":[{"type":"rich_text_section","elements":[{"type":"user","user_id":"U0BOT"},{"type":"text","text":" do it"}]}]}]}`)}, "taken"},
		{"mention in code", config.Mentions, sim.Say{From: mia, Text: "write `<@U0BOT>` there"}, "nothing"},
		{"mention in a fence", config.Mentions, sim.Say{From: mia, Text: "```<@U0BOT> run```"}, "nothing"},
		{"mention in a quotation", config.Mentions, sim.Say{From: mia, Text: "&gt; <@U0BOT> do this\nfunny"}, "nothing"},
		{"mention in something forwarded", config.Mentions, sim.Say{From: mia, Text: "look", Attachments: json.RawMessage(`[{"is_share":true,"text":"<@U0BOT> help"}]`)}, "nothing"},
		{"reply in a known thread", config.Threads, sim.Say{From: mia, Thread: root, Text: "and mine?"}, "taken"},
		{"reply in a known thread, mentions only", config.Mentions, sim.Say{From: mia, Thread: root, Text: "and mine?"}, "heard"},
		{"reply to somebody else", config.Threads, sim.Say{From: mia, Thread: root, Text: "<@U0ANA> did that help?"}, "heard"},
		{"reply to both", config.Threads, sim.Say{From: mia, Thread: root, Text: "<@U0ANA> <@U0BOT> what now?"}, "taken"},
		{"reply in another thread", config.Threads, sim.Say{From: mia, Thread: other, Text: "yes"}, "nothing"},
		{"everything is read", config.All, sim.Say{From: mia, Text: "the door is stuck"}, "unasked"},
		{"everything is read, to somebody else", config.All, sim.Say{From: mia, Text: "<@U0ANA> lunch?"}, "nothing"},
		{"everything is read, known thread", config.All, sim.Say{From: mia, Thread: root, Text: "the door"}, "taken"},
		{"everything is read, unknown thread", config.All, sim.Say{From: mia, Thread: other, Text: "the door"}, "unasked"},
		{"a bot", config.All, sim.Say{From: "U0OTHER", Text: "<@U0BOT> disk is full"}, "nothing"},
		{"a bot in a known thread", config.Threads, sim.Say{From: "U0OTHER", Thread: root, Text: "<@U0BOT> disk is full"}, "heard"},
		{"a reply that is shown in the channel too", config.Threads, sim.Say{From: mia, Thread: root, Text: "all: see", Broadcast: true}, "taken"},
		{"me", config.Mentions, sim.Say{From: mia, Subtype: "me_message", Text: "waves at <@U0BOT>"}, "taken"},
		{"somebody joined", config.All, sim.Say{From: mia, Subtype: "channel_join", Text: "<@U0BOT> has joined"}, "nothing"},
		{"nobody knows what", config.All, sim.Say{From: mia, Subtype: "brand_new", Text: "<@U0BOT> x"}, "nothing"},
	} {
		if c.say.Channel == "" {
			c.say.Channel = front
		}
		h.listen(c.listen)
		h.desk.write(func() {
			h.desk.accepted, h.desk.heard = nil, nil
			h.desk.known = map[chat.Thread]bool{{Team: "T0SIM", Channel: front, Root: root}: true}
		})
		ts := h.say(t, c.say)
		h.settled(t)
		got := "nothing"
		switch a := h.take(); {
		case len(a) == 1 && a[0].ID == ts && a[0].Unasked:
			got = "unasked"
		case len(a) == 1 && a[0].ID == ts:
			got = "taken"
		case len(a) > 0:
			got = fmt.Sprint(a)
		case len(h.desk.heard) == 1 && h.desk.heard[0].ID == ts:
			got = "heard"
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if h.slack.Odd()["message of the subtype brand_new"] == 0 {
		t.Error("an unknown subtype is not counted:", h.slack.Odd())
	}
}

func blocks(list string) json.RawMessage { return json.RawMessage("[" + list + "]") }

func TestThreadsOfDirectMessages(t *testing.T) {
	t.Parallel()
	h := build(t, plan{app: func(a *sim.App) {
		a.Scopes = strings.Fields("chat:write im:history im:read im:write users:read channels:history channels:read app_mentions:read")
		a.Events = []string{"message.im", "message.channels", "app_mention"}
	}})
	d := h.dm(t, ana)
	first := h.say(t, sim.Say{From: ana, Channel: d, Text: "hello"})
	h.say(t, sim.Say{From: ana, Channel: d, Text: "in a thread", Thread: first})
	h.settled(t)
	got := h.take()
	if len(got) != 2 || got[0].Thread.Root != "dm" || got[1].Thread.Root != first || got[0].Channel.Visibility != chat.DM {
		t.Errorf("without the agent view: %+v", got)
	}

	h = build(t, plan{app: func(a *sim.App) { a.AgentView = true }})
	d = h.dm(t, ana)
	first = h.say(t, sim.Say{From: ana, Channel: d, Text: "hello"})
	h.settled(t)
	if got := h.take(); len(got) != 1 || got[0].Thread.Root != first {
		t.Errorf("with the agent view: %+v", got)
	}
}

func TestEdits(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	plain := h.say(t, sim.Say{From: ana, Channel: front, Text: "how do I export?"})
	edit := func(ts, text string) {
		t.Helper()
		if err := h.w.Edit(ana, front, ts, text); err != nil {
			t.Fatal(err)
		}
		h.settled(t)
	}
	edit(plain, "how do I export all?")
	if got := h.take(); len(got) != 0 {
		t.Errorf("an edit without a mention was taken: %+v", got)
	}
	edit(plain, "<@U0BOT> how do I export all?")
	edit(plain, "<@U0BOT> how do I export everything?")
	got := h.take()
	if len(got) != 1 || got[0].Text != "how do I export all?" || got[0].ID != plain {
		t.Fatalf("the mention that was put in is to be taken once: %+v", got)
	}
	asked := h.say(t, sim.Say{From: ana, Channel: front, Text: "<@U0BOT> one"})
	edit(asked, "<@U0BOT> two")
	edit(asked, "<@U0BOT> three")
	if got := h.take(); len(got) != 2 || got[1].Text != "one" {
		t.Errorf("what was said once was said again: %+v", got)
	}
	if err := h.w.Unfurl(front, plain, "https://example.com", "<@U0BOT> Example"); err != nil {
		t.Fatal(err)
	}
	old := h.say(t, sim.Say{From: ana, Channel: front, Text: "long ago"})
	h.settled(t)
	h.clock.forward(7 * 24 * time.Hour)
	edit(old, "<@U0BOT> long ago")
	if got := h.take(); len(got) != 2 {
		t.Errorf("a preview or an old message was taken: %+v", got)
	}
}

func TestL8_DeletedQuestion(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	ts := h.say(t, sim.Say{From: ana, Channel: front, Text: "<@U0BOT> delete the page"})
	other := h.say(t, sim.Say{From: ana, Channel: front, Text: "nothing for bots"})
	h.settled(t)
	for _, one := range []string{ts, other} {
		if err := h.w.Delete(ana, front, one); err != nil {
			t.Fatal(err)
		}
	}
	h.settled(t)
	want := []chat.Stop{{
		Key: "stop:T0SIM:C0FRONT:" + ts + ":deleted", Thread: chat.Thread{Team: "T0SIM", Channel: front, Root: ts},
		Message: "msg:T0SIM:C0FRONT:" + ts, By: chat.Person{ID: ana, Kind: chat.External}, Deleted: true, ID: ts,
	}}
	if d := cmp.Diff(want, h.desk.halted); d != "" {
		t.Error(d)
	}
}

func TestL8_StopButton(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	err := h.w.Emit("", json.RawMessage(`{"type":"agent_session_stopped","channel":"D0X","user":"U0ANA","thread_ts":"1700000000.000100","streaming_message_ts":[],"event_ts":"1700000009.000100"}`))
	if err != nil {
		t.Fatal(err)
	}
	h.settled(t)
	want := []chat.Stop{{
		Key: "stop:T0SIM:D0X:1700000000.000100:1700000009.000100", By: chat.Person{ID: ana, Kind: chat.External},
		Thread: chat.Thread{Team: "T0SIM", Channel: "D0X", Root: "1700000000.000100"},
	}}
	if d := cmp.Diff(want, h.desk.halted); d != "" {
		t.Error(d)
	}
}

// Every event that Slack names, and some that it does not, gets a decision and an acknowledgement.
func TestOddEvents(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	for _, e := range []string{
		`{"type":"channel_rename","channel":{"id":"C0FRONT","name":"x"}}`, `{"type":"member_joined_channel","user":"U0BOT","channel":"C0FRONT"}`,
		`{"type":"team_join","user":{"id":"U9"}}`, `{"type":"brand_new","channel":[1,2]}`, `{"type":"message"}`,
		`{"type":"message","channel":"C0FRONT","ts":12.5,"user":"U0ANA","text":"<@U0BOT> x"}`,
		`{"type":"message","channel":"C0FRONT","ts":"../../x","user":"U0ANA","text":"<@U0BOT> x"}`,
		`{"type":"message","channel":"C0:FRONT","ts":"1700000000.000100","user":"U0ANA","text":"<@U0BOT> x"}`,
		`{"type":"message","subtype":"message_changed","channel":"C0FRONT","ts":"1700000000.000100","message":{"type":"message","subtype":"tombstone","ts":"1600000000.000100"}}`,
		`{"type":"message","subtype":"message_changed","channel":"C0FRONT","ts":"1700000000.000100"}`,
		`{"type":"message","subtype":"message_deleted","channel":"C0FRONT","ts":"1700000000.000100"}`,
		`{"type":"message","channel":"C0FRONT","channel_type":"channel","ts":"1700000000.000100","user":"U0ANA","text":"","blocks":[{"type":"rich_text","elements":"what"}]}`,
		`{"type":"app_mention","channel":"C0FRONT","ts":"1700000000.000200","user":"U0ANA","text":"<@U0BOT> odd blocks","blocks":{"type":"odd"}}`,
	} {
		if err := h.w.Emit("", json.RawMessage(e)); err != nil {
			t.Fatal(e, err)
		}
	}
	h.settled(t)
	if _, lost := h.w.Unacked(); lost != 0 {
		t.Errorf("%d events were not acknowledged", lost)
	}
	got := h.take()
	if len(got) != 1 || got[0].Text != "odd blocks" {
		t.Errorf("accepted %+v", got)
	}
}

// The same app may be installed in another workspace, whose events come by the same socket.
func TestEventsOfAnotherWorkspace(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	body := func(context, auth, team string, shared, org bool) []byte {
		b, err := json.Marshal(map[string]any{
			"type": "event_callback", "team_id": team, "context_team_id": context, "is_ext_shared_channel": shared,
			"authorizations": []any{map[string]any{"team_id": auth, "is_enterprise_install": org}},
			"event":          map[string]any{"type": "app_mention", "channel": front, "user": ana, "text": "<@U0BOT> x", "ts": "1700000000.000100"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, c := range []struct {
		name    string
		payload []byte
		want    int
	}{
		{"ours", body("T0SIM", "T0SIM", "T0SIM", false, false), 1},
		{"the sender's team is another one", body("T0SIM", "T0SIM", "T0ELSE", false, false), 1},
		{"another workspace", body("T0ELSE", "T0ELSE", "T0ELSE", false, false), 0},
		{"another workspace, by its authorization", body("", "T0ELSE", "T0SIM", false, false), 0},
		{"a shared channel", body("T0ELSE", "T0ELSE", "T0ELSE", true, false), 1},
		{"the whole organisation", body("T0ELSE", "E0ORG", "T0ELSE", false, true), 1},
	} {
		h.desk.write(func() { h.desk.accepted = nil })
		if _, err := h.slack.deal(t.Context(), kindEvents, c.payload); err != nil {
			t.Error(c.name, err)
		}
		if got := h.take(); len(got) != c.want {
			t.Errorf("%s: accepted %d, want %d", c.name, len(got), c.want)
		} else if c.want == 1 && got[0].Key != "msg:T0SIM:C0FRONT:1700000000.000100" {
			t.Errorf("%s: key %s", c.name, got[0].Key)
		}
	}
}

func TestOnlyTheBotsName(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	h.say(t, sim.Say{From: ana, Channel: front, Text: "<@U0BOT>"})
	h.say(t, sim.Say{From: ana, Channel: front, Text: "<@U0BOT>: desk: rows &amp; <https://a.example|more>"})
	h.settled(t)
	got := h.take()
	if len(got) != 2 || got[0].Text != "<@U0BOT>" || got[1].Text != "desk: rows &amp; <https://a.example|more>" {
		t.Errorf("texts: %+v", got)
	}
}

// Whatever comes, there is no panic, and a key is made of ids only.
func TestAnyPayload(t *testing.T) {
	t.Parallel()
	h := build(t, plan{web: true})
	values := []any{
		nil, true, 7, 1.5, "", "x", "U0ANA", "U0BOT", "B0BOT", front, "D0X", "1700000000.000100", "message", "message_changed", "message_deleted",
		"<@U0BOT> do", "file_share", "im", "channel",
		[]any{},
		[]any{map[string]any{"type": "rich_text"}},
		map[string]any{},
		actionPick,
		map[string]any{"user": ana, "ts": "1700000000.000100", "text": "<@U0BOT> y", "edited": map[string]any{"ts": "1700000001.000100"}},
		map[string]any{"id": front},
		map[string]any{"id": ana},
		"ask_message",
		[]any{map[string]any{"action_id": actionPick, "value": "a\nb", "action_ts": "1.1"}},
	}
	fields := []string{
		"subtype", "user", "text", "ts", "thread_ts", "bot_id", "app_id", "blocks", "attachments", "files", "edited", "channel", "channel_type",
		"event_ts", "deleted_ts", "message", "previous_message", "app_context", "tab", "tokens", "container", "actions", "view", "callback_id",
	}
	rapid.Check(t, func(t *rapid.T) {
		one := map[string]any{"type": rapid.SampledFrom([]string{"message", "app_mention", "agent_session_stopped", "app_home_opened", "block_actions", "view_submission", "message_action", "odd"}).Draw(t, "type")}
		maps.Copy(one, map[string]any{"user": ana, "text": "<@U0BOT> do", "ts": "1700000000.000100", "channel": front})
		for _, f := range fields {
			if rapid.IntRange(0, 9).Draw(t, f+"?") == 9 {
				one[f] = rapid.SampledFrom(values).Draw(t, f)
			}
		}
		kind, body := kindEvents, any(map[string]any{"type": "event_callback", "team_id": "T0SIM", "event": one})
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			kind, body = kindInteractive, one
		case 1:
			body = one
		}
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.slack.deal(context.Background(), kind, data); err != nil {
			t.Fatal(err)
		}
	})
	key := regexp.MustCompile(`^(msg:T0SIM:[A-Z0-9]+:[0-9.]+|click:.+:U[A-Z0-9]+:([0-9.]+|form))$`)
	for _, m := range h.take() {
		if !key.MatchString(m.Key) {
			t.Errorf("key %q", m.Key)
		}
	}
	if len(h.take()) == 0 {
		t.Error("no payload was a message")
	}
}
