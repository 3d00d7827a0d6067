package sim_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchboard/slack/sim"
)

// text is a chunk of text.
func text(s string) []any { return []any{args{"type": "markdown_text", "text": s}} }

func task(id, status, title string) []any {
	return []any{args{"type": "task_update", "id": id, "status": status, "title": title}}
}

// begin starts a stream in the hall.
func (w *world) begin(more args) (ts string) {
	w.t.Helper()
	a := args{"channel": hall, "thread_ts": w.say("question"), "recipient_user_id": anas, "recipient_team_id": "T0SIM"}
	maps.Copy(a, more)
	return str(w.ok("chat.startStream", a), "ts")
}

func TestStreamIsShownAsItGrows(t *testing.T) {
	t.Parallel()
	w := open(t)
	mark := w.Mark()
	ts := w.begin(args{"chunks": task("1", "in_progress", "look up")})
	for _, chunk := range [][]any{text("Hel"), task("1", "complete", "look up"), text("lo **you**")} {
		w.ok("chat.appendStream", args{"channel": hall, "ts": ts, "chunks": chunk})
	}
	out := w.ok("chat.stopStream", args{
		"channel": hall, "ts": ts, "blocks": []any{args{"type": "context", "elements": []any{args{"type": "mrkdwn", "text": "foot"}}}},
		"metadata": args{"event_type": "m", "event_payload": args{"k": "v"}},
	})
	var shown []string
	for _, e := range w.Since(mark) {
		if e.What == sim.Began || e.What == sim.Appended || e.What == sim.Stopped {
			shown = append(shown, string(e.What)+" "+e.Text)
			if e.Message.Streaming != (e.What != sim.Stopped) {
				t.Errorf("%s: streaming %v", e.What, e.Message.Streaming)
			}
		}
	}
	want := []string{
		"began look up", "appended look up\nHel", "appended look up\nHel", "appended look up\nHello **you**", "stopped look up\nHello **you**\nfoot",
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Error(diff)
	}
	if str(out, "message", "text") != "Hello **you**" || str(out, "message", "metadata", "event_type") != "m" {
		t.Errorf("answer %v", out)
	}
	w.refused("message_not_in_streaming_state", "chat.appendStream", args{"channel": hall, "ts": ts, "chunks": text("x")})
	w.refused("message_not_in_streaming_state", "chat.stopStream", args{"channel": hall, "ts": ts})
	w.ok("chat.update", args{"channel": hall, "ts": ts, "text": "edited"})
}

func TestStreamRefusals(t *testing.T) {
	t.Parallel()
	w := open(t)
	root := w.say("question")
	full := func(more args) args {
		a := args{"channel": hall, "thread_ts": root, "recipient_user_id": anas, "recipient_team_id": "T0SIM"}
		maps.Copy(a, more)
		return a
	}
	for _, c := range []struct {
		want string
		args args
	}{
		{"invalid_thread_ts", full(args{"thread_ts": ""})},
		{"missing_recipient_user_id", full(args{"recipient_user_id": ""})},
		{"missing_recipient_team_id", full(args{"recipient_team_id": ""})},
		{"invalid_arguments", full(args{"task_display_mode": "dense"})},
		{"cannot_provide_both_markdown_text_and_chunks", full(args{"markdown_text": "x", "chunks": text("x")})},
		{"msg_too_long", full(args{"markdown_text": repeat("x", 12001)})},
		{"invalid_chunks", full(args{"chunks": []any{args{"type": "song"}}})},
		{"invalid_chunks", full(args{"chunks": "x"})},
		{"invalid_chunks", full(args{"chunks": task("1", "done", "x")})},
		{"invalid_chunks", full(args{"chunks": task("1", "complete", repeat("x", 257))})},
		{"invalid_blocks", full(args{"chunks": []any{args{"type": "blocks", "blocks": []any{args{"type": "song"}}}}})},
		{"channel_not_found", full(args{"channel": "C0NONE"})},
	} {
		w.refused(c.want, "chat.startStream", c.args)
	}
	if got := len(w.Messages(hall)); got != 1 {
		t.Errorf("refused calls left messages: %d", got)
	}
	// The recipient is needed outside of DMs only.
	im, err := w.OpenIM(anas, "")
	if err != nil {
		t.Fatal(err)
	}
	ask, err := w.Say(sim.Say{From: anas, Channel: im, Text: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	w.ok("chat.startStream", args{"channel": im, "thread_ts": ask, "chunks": text("x")})

	ts := w.begin(args{"markdown_text": "a"})
	w.refused("streaming_mode_mismatch", "chat.appendStream", args{"channel": hall, "ts": ts, "chunks": text("b")})
	w.refused("streaming_mode_mismatch", "chat.stopStream", args{"channel": hall, "ts": ts, "chunks": text("b")})
	w.refused("streaming_state_conflict", "chat.update", args{"channel": hall, "ts": ts, "text": "b"})
	w.refused("no_text", "chat.appendStream", args{"channel": hall, "ts": ts})
	w.refused("message_not_found", "chat.appendStream", args{"channel": hall, "ts": "1.000001", "markdown_text": "b"})
	w.refused("message_not_owned_by_app", "chat.appendStream", args{"channel": hall, "ts": root, "markdown_text": "b"})
	w.refused("message_not_in_streaming_state", "chat.appendStream", args{"channel": hall, "ts": w.post("plain"), "markdown_text": "b"})
	w.refused("invalid_arguments", "chat.stopStream", args{"channel": hall, "ts": ts, "session_status": "done"})
	empty := w.begin(nil)
	w.refused("no_text", "chat.stopStream", args{"channel": hall, "ts": empty})
	other := w.AddApp(sim.App{ID: "A0TWO", Name: "two"})
	if out := w.callAs("chat.appendStream", other.BotToken, args{"channel": hall, "ts": ts, "markdown_text": "b"}); out["error"] != "message_not_owned_by_app" {
		t.Errorf("another app's stream: %v", out)
	}
}

func TestStreamHolds12000AndThenNothingMore(t *testing.T) {
	t.Parallel()
	w := open(t)
	ts := w.begin(args{"chunks": text(repeat("é", 6000))})
	w.ok("chat.appendStream", args{"channel": hall, "ts": ts, "chunks": text(repeat("é", 6000))})
	w.refused("msg_too_long", "chat.appendStream", args{"channel": hall, "ts": ts, "chunks": text("x")})
	w.refused("msg_too_long", "chat.stopStream", args{"channel": hall, "ts": ts})
	if got := len([]rune(w.Thread(hall, w.Messages(hall)[0].TS)[1].Visible())); got != 12000 {
		t.Errorf("%d characters are shown, want 12000", got)
	}
	// Cards count, their details twice.
	ts = w.begin(args{"chunks": []any{args{"type": "task_update", "id": "1", "title": "x", "details": repeat("d", 5999)}}})
	w.refused("msg_too_long", "chat.appendStream", args{"channel": hall, "ts": ts, "chunks": text("xx")})
}

func TestStreamExpiresAfterFiveMinutes(t *testing.T) {
	t.Parallel()
	w := open(t)
	ts := w.begin(args{"chunks": text("a")})
	w.clock.move(5*time.Minute - time.Second)
	w.ok("chat.appendStream", args{"channel": hall, "ts": ts, "chunks": text("b")})
	mark := w.Mark()
	w.clock.move(time.Second)
	w.refused("message_not_in_streaming_state", "chat.appendStream", args{"channel": hall, "ts": ts, "chunks": text("c")})
	w.refused("message_not_in_streaming_state", "chat.stopStream", args{"channel": hall, "ts": ts})
	if e := w.await(mark, sim.Expired); e.Text != "ab" || e.Message.Streaming {
		t.Errorf("entry %+v", e)
	}
	w.ok("chat.update", args{"channel": hall, "ts": ts, "text": "recovered"})
}

func TestPlanGathersTasksInOneBlock(t *testing.T) {
	t.Parallel()
	w := open(t)
	ts := w.begin(args{"task_display_mode": "plan", "chunks": append(append(task("1", "complete", "one"), args{"type": "plan_update", "title": "The plan"}), text("text")...)})
	w.ok("chat.appendStream", args{"channel": hall, "ts": ts, "chunks": task("2", "pending", "two")})
	for _, m := range w.Messages(hall) {
		if m.TS == ts && (len(m.Blocks) != 2 || m.Visible() != "The plan\none\ntwo\ntext") {
			t.Errorf("%d blocks: %q", len(m.Blocks), m.Visible())
		}
	}
}

func TestStopButton(t *testing.T) {
	t.Parallel()
	w := open(t)
	c := w.dial()
	root := w.say("question")
	c.take()
	if err := w.Stop(anas, hall, root); err == nil {
		t.Error("a stop button without a session")
	}
	ts := str(w.ok("chat.startStream", args{"channel": hall, "thread_ts": root, "recipient_user_id": anas, "recipient_team_id": "T0SIM", "chunks": text("a")}), "ts")
	c.take()
	if s, ok := w.SessionOf(hall, root); !ok || s.State != "processing" || !s.CanStop {
		t.Errorf("a stream begins a session: %+v", s)
	}
	if err := w.Stop(anas, hall, root); err != nil {
		t.Fatal(err)
	}
	e := dig(c.take(), "payload", "event")
	if str(e, "type") != "agent_session_stopped" || str(e, "thread_ts") != root || str(e, "user") != anas || str(e, "channel") != hall {
		t.Errorf("event %v", e)
	}
	if diff := cmp.Diff([]any{ts}, dig(e, "streaming_message_ts")); diff != "" {
		t.Error(diff)
	}
	w.refused("stopped_by_user", "chat.appendStream", args{"channel": hall, "ts": ts, "chunks": text("b")})
	w.refused("stopped_by_user", "chat.stopStream", args{"channel": hall, "ts": ts})
	w.ok("agents.sessions.setStatus", args{"channel_id": hall, "thread_ts": root, "status": "active"})
	if err := w.Stop(anas, hall, root); err == nil {
		t.Error("the stop button is still there")
	}
}

func TestStatusVanishes(t *testing.T) {
	t.Parallel()
	w := open(t)
	root := w.say("question")
	set := func(status string) {
		t.Helper()
		w.ok("assistant.threads.setStatus", args{"channel_id": hall, "thread_ts": root, "status": status, "loading_messages": []string{"one", "two"}})
	}
	set("is thinking")
	if s, _ := w.SessionOf(hall, root); s.Words != "is thinking" || s.State != "processing" || len(s.Loading) != 2 {
		t.Errorf("session %+v", s)
	}
	w.clock.move(2 * time.Minute)
	if got := w.StatusOf(hall, root); got != "" {
		t.Errorf("status after two minutes: %q", got)
	}
	set("is thinking")
	w.ok("chat.postMessage", args{"channel": hall, "thread_ts": root, "text": "done"})
	if got := w.StatusOf(hall, root); got != "" {
		t.Errorf("status after a post: %q", got)
	}
	set("is thinking")
	set("")
	if s, _ := w.SessionOf(hall, root); s.Words != "" || s.State != "active" {
		t.Errorf("session after clearing %+v", s)
	}
	out := w.ok("assistant.threads.setStatus", args{"channel_id": hall, "thread_ts": root, "status": "x", "loading_messages": "a,b"})
	if s, _ := w.SessionOf(hall, root); len(s.Loading) != 2 {
		t.Errorf("loading messages with commas: %+v %v", s, out)
	}
	w.refused("invalid_thread_ts", "assistant.threads.setStatus", args{"channel_id": hall, "status": "x"})
	w.refused("invalid_arguments", "assistant.threads.setStatus", args{"channel_id": hall, "thread_ts": root, "status": "x", "loading_messages": texts(11, "x")})
	w.clock.move(time.Hour)
	if s, _ := w.SessionOf(hall, root); s.State != "active" {
		t.Errorf("after an hour: %+v", s)
	}
}

func TestSessionsAreForAgents(t *testing.T) {
	t.Parallel()
	w := open(t, func(_ *sim.Options, a *sim.App) { a.AgentView = false })
	root := w.say("question")
	w.refused("not_allowed", "agents.sessions.setStatus", args{"channel_id": hall, "thread_ts": root, "status": "active"})
	w = open(t, func(_ *sim.Options, a *sim.App) { a.Events = []string{"app_mention"} })
	root = w.say("question")
	out := w.ok("agents.sessions.setStatus", args{"channel_id": hall, "thread_ts": root, "status": "processing", "title": "T"})
	if str(out, "warning") != "missing_agent_session_stopped_event_subscription" {
		t.Errorf("answer %v", out)
	}
	w.refused("invalid_arguments", "agents.sessions.setStatus", args{"channel_id": hall, "thread_ts": root, "status": "busy"})
	w.refused("invalid_arguments", "agents.sessions.rename", args{"channel_id": hall, "thread_ts": root, "title": repeat("x", 201)})
	w.ok("agents.sessions.rename", args{"channel_id": hall, "thread_ts": root, "title": "Other"})
	if s, _ := w.SessionOf(hall, root); s.Title != "Other" {
		t.Errorf("session %+v", s)
	}
}

func TestSuggestedPrompts(t *testing.T) {
	t.Parallel()
	w := open(t)
	im, err := w.OpenIM(anas, "")
	if err != nil {
		t.Fatal(err)
	}
	p := args{"title": "t", "message": "m"}
	w.ok("assistant.threads.setSuggestedPrompts", args{"channel_id": im, "prompts": []any{p}, "title": "Try"})
	if got := w.PromptsOf(im, ""); got.Title != "Try" || len(got.Prompts) != 1 {
		t.Errorf("prompts %+v", got)
	}
	w.refused("invalid_arguments", "assistant.threads.setSuggestedPrompts", args{"channel_id": im, "prompts": texts(5, p)})
	w.refused("channel_not_found", "assistant.threads.setSuggestedPrompts", args{"channel_id": hall, "prompts": []any{p}})
}

func TestNoEntryOfTheLogEverHoldsLessThanTheOneBefore(t *testing.T) {
	t.Parallel()
	w := open(t)
	ts := w.begin(args{"chunks": text("0 ")})
	for s := range strings.FieldsSeq("1 2 3 4 5 6 7 8 9") {
		w.ok("chat.appendStream", args{"channel": hall, "ts": ts, "chunks": text(s + " ")})
	}
	last := ""
	for _, e := range w.Log() {
		if e.TS == ts && (e.What == sim.Began || e.What == sim.Appended) {
			if !strings.HasPrefix(e.Text, last) || len(e.Text) != len(last)+2 {
				t.Errorf("%q after %q", e.Text, last)
			}
			last = e.Text
		}
	}
}
