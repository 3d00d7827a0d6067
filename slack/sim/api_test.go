package sim_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchboard/slack/sim"
)

func TestTokenComesInHeaderFormJSONOrMultipart(t *testing.T) {
	t.Parallel()
	w := open(t)
	if out := w.callAs("auth.test", "", args{"token": bot}); str(out, "user_id") != "U0BOT" || str(out, "bot_id") != "B0BOT" {
		t.Errorf("token in the form: %v", out)
	}
	res, b, err := w.request("auth.test", bot, nil)
	if err != nil || !strings.Contains(res.Header.Get("X-OAuth-Scopes"), "chat:write") {
		t.Errorf("scopes in the header: %q (%s, %v)", res.Header.Get("X-OAuth-Scopes"), b, err)
	}
	if _, b := w.postJSON(w.s.APIURL()+"chat.postMessage", args{"channel": hall, "text": "a", "blocks": []any{args{"type": "divider"}}}, "Authorization", "Bearer "+bot); !bytes.Contains(b, []byte(`"ok":true`)) {
		t.Errorf("JSON body: %s", b)
	}
	var body bytes.Buffer
	mw := multipart.NewWriter(&body)
	for k, v := range map[string]string{"token": bot, "channel": hall, "text": "b"} {
		if err := mw.WriteField(k, v); err != nil {
			t.Fatal(err)
		}
	}
	_ = mw.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.s.APIURL()+"chat.postMessage", &body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", mw.FormDataContentType())
	if _, b, err := do(req); err != nil || !bytes.Contains(b, []byte(`"ok":true`)) {
		t.Errorf("multipart: %s %v", b, err)
	}
	if got := len(w.Messages(hall)); got != 2 {
		t.Errorf("%d messages, want 2", got)
	}
	for _, e := range w.Log() {
		if strings.Contains(string(e.Body), bot) || strings.Contains(string(e.Body), app) {
			t.Errorf("a token stands in the log: %s", e.Body)
		}
	}
}

func TestRefusalsOfTokensScopesAndMethods(t *testing.T) {
	t.Parallel()
	w := open(t, func(_ *sim.Options, a *sim.App) { a.Scopes = []string{"chat:write"} })
	for _, c := range []struct{ method, token, want string }{
		{"chat.postMessage", "", "not_authed"},
		{"chat.postMessage", "xoxb-other", "invalid_auth"},
		{"chat.postMessage", app, "not_allowed_token_type"},
		{"apps.connections.open", bot, "not_allowed_token_type"},
		{"users.info", bot, "missing_scope"},
		{"chat.inventedMethod", bot, "unknown_method"},
	} {
		if out := w.callAs(c.method, c.token, args{"channel": hall}); out["error"] != c.want {
			t.Errorf("%s with %q: %v, want %s", c.method, c.token, out, c.want)
		}
	}
	// The app-level token is not taken from the body.
	if out := w.callAs("apps.connections.open", "", args{"token": app}); out["ok"] == true {
		t.Errorf("app-level token in the body was taken: %v", out)
	}
	out := w.call("users.info", args{"user": anas})
	if str(out, "needed") != "users:read" || str(out, "provided") != "chat:write" {
		t.Errorf("missing_scope says %v", out)
	}
}

func TestPostRefusals(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.AddChannel(sim.Channel{ID: "C0OUT", Name: "out", Members: []string{anas}})
	w.AddChannel(sim.Channel{ID: "C0SECRET", Name: "secret", Kind: sim.Private, Members: []string{anas}})
	w.AddChannel(sim.Channel{ID: "C0OLD", Name: "old", Members: []string{anas, "U0BOT"}})
	w.AddChannel(sim.Channel{ID: "D0TWO", Kind: sim.IM, Members: []string{anas, bobs}})
	if err := w.Archive("C0OLD"); err != nil {
		t.Fatal(err)
	}
	section := func(n int) args {
		return args{"type": "section", "text": args{"type": "mrkdwn", "text": repeat("я", n)}}
	}
	markdown := func(n int) args { return args{"type": "markdown", "text": repeat("m", n)} }
	button := func(label, value int) args {
		return args{"type": "actions", "elements": []any{args{
			"type": "button", "action_id": "x", "text": args{"type": "plain_text", "text": repeat("b", label)}, "value": repeat("v", value),
		}}}
	}
	row := texts(20, args{"type": "raw_text", "text": "x"})
	for _, c := range []struct {
		want string
		args args
	}{
		{"channel_not_found", args{"channel": "C0NONE", "text": "a"}},
		{"channel_not_found", args{"channel": "C0SECRET", "text": "a"}},
		{"channel_not_found", args{"channel": "D0TWO", "text": "a"}},
		{"not_in_channel", args{"channel": "C0OUT", "text": "a"}},
		{"is_archived", args{"channel": "C0OLD", "text": "a"}},
		{"no_text", args{"channel": hall}},
		{"no_text", args{"channel": hall, "text": "  "}},
		{"invalid_thread_ts", args{"channel": hall, "text": "a", "thread_ts": "soon"}},
		{"markdown_text_conflict", args{"channel": hall, "text": "a", "markdown_text": "b"}},
		{"markdown_text_conflict", args{"channel": hall, "blocks": []any{section(1)}, "markdown_text": "b"}},
		{"msg_too_long", args{"channel": hall, "markdown_text": repeat("x", 12001)}},
		{"msg_too_long", args{"channel": hall, "blocks": []any{markdown(6001), markdown(6000)}}},
		{"invalid_blocks", args{"channel": hall, "blocks": texts(51, args{"type": "divider"})}},
		{"invalid_blocks", args{"channel": hall, "markdown_text": repeat("# h\n\n", 60)}},
		{"invalid_blocks", args{"channel": hall, "blocks": []any{section(3001)}}},
		{"invalid_blocks", args{"channel": hall, "blocks": []any{section(0)}}},
		{"invalid_blocks", args{"channel": hall, "blocks": []any{args{"type": "header", "text": args{"type": "plain_text", "text": repeat("h", 151)}}}}},
		{"invalid_blocks", args{"channel": hall, "blocks": []any{args{"type": "context", "elements": texts(11, args{"type": "mrkdwn", "text": "x"})}}}},
		{"invalid_blocks", args{"channel": hall, "blocks": []any{args{"type": "actions", "elements": texts(26, args{"type": "button", "text": args{"type": "plain_text", "text": "x"}})}}}},
		{"invalid_blocks", args{"channel": hall, "blocks": []any{button(76, 1)}}},
		{"invalid_blocks", args{"channel": hall, "blocks": []any{button(1, 2001)}}},
		{"invalid_blocks", args{"channel": hall, "blocks": []any{args{"type": "alert", "text": "x"}}}},
		{"invalid_blocks", args{"channel": hall, "blocks": []any{args{"type": "table", "rows": texts(101, row[:1])}}}},
		{"invalid_blocks", args{"channel": hall, "blocks": []any{args{"type": "table", "rows": []any{append(row, row[0])}}}}},
		{"invalid_blocks", args{"channel": hall, "blocks": []any{args{"type": "table", "rows": []any{[]any{args{"type": "raw_text", "text": repeat("x", 10001)}}}}}}},
		{"invalid_blocks", args{"channel": hall, "blocks": texts(2, args{"type": "table", "rows": []any{row}})}},
		{"invalid_blocks", args{"channel": hall, "blocks": []any{args{"type": "divider", "block_id": repeat("i", 256)}}}},
		{"invalid_blocks_format", args{"channel": hall, "blocks": "{"}},
		{"invalid_metadata_format", args{"channel": hall, "text": "a", "metadata": "{"}},
		{"invalid_metadata_schema", args{"channel": hall, "text": "a", "metadata": args{"event_type": "x"}}},
		{"metadata_too_large", args{"channel": hall, "text": "a", "metadata": args{"event_type": "x", "event_payload": args{"k": repeat("x", 9000)}}}},
	} {
		w.refused(c.want, "chat.postMessage", c.args)
	}
	if got := w.Messages(hall); len(got) != 0 {
		t.Errorf("a refused call left %d messages", len(got))
	}
	// At the limits all is well; characters are counted, not bytes.
	for _, a := range []args{
		{"blocks": []any{section(3000)}},
		{"blocks": []any{markdown(6000), markdown(6000)}},
		{"blocks": []any{button(75, 2000)}},
		{"blocks": texts(50, args{"type": "divider"})},
		{"blocks": []any{args{"type": "table", "rows": texts(100, row[:1])}}},
		{"markdown_text": repeat("# h\n\n", 50)},
	} {
		a["channel"] = hall
		w.ok("chat.postMessage", a)
	}
}

func TestLongTextIsCutAt40000(t *testing.T) {
	t.Parallel()
	w := open(t)
	out := w.ok("chat.postMessage", args{"channel": hall, "text": repeat("é", 40001)})
	if n := len([]rune(str(out, "message", "text"))); n != 40000 {
		t.Errorf("%d characters are kept, want 40000", n)
	}
	if str(out, "warning") != "message_truncated" {
		t.Errorf("warning %q", out["warning"])
	}
}

func TestReplyToDeletedParentLandsOutsideOfTheThread(t *testing.T) {
	t.Parallel()
	w := open(t)
	root := w.say("hello")
	out := w.ok("chat.postMessage", args{"channel": hall, "text": "in", "thread_ts": root})
	if str(out, "message", "thread_ts") != root {
		t.Errorf("reply: %v", out)
	}
	w.refused("cannot_reply_to_message", "chat.postMessage", args{"channel": hall, "text": "x", "thread_ts": str(out, "ts")})
	gone := w.say("soon gone")
	if err := w.Delete(anas, hall, gone); err != nil {
		t.Fatal(err)
	}
	out = w.ok("chat.postMessage", args{"channel": hall, "text": "stray", "thread_ts": gone})
	if got := dig(out, "message", "thread_ts"); got != nil {
		t.Errorf("thread_ts %v, want none", got)
	}
}

func TestUpdateAndDelete(t *testing.T) {
	t.Parallel()
	w := open(t)
	theirs := w.say("mine")
	ts := str(w.ok("chat.postMessage", args{
		"channel": hall, "text": "one", "blocks": []any{args{"type": "divider"}}, "metadata": args{"event_type": "m", "event_payload": args{"k": "v"}},
	}), "ts")
	w.refused("cant_update_message", "chat.update", args{"channel": hall, "ts": theirs, "text": "x"})
	w.refused("cant_delete_message", "chat.delete", args{"channel": hall, "ts": theirs})
	w.refused("message_not_found", "chat.update", args{"channel": hall, "ts": "1.000001", "text": "x"})
	w.refused("channel_not_found", "chat.update", args{"channel": "hall", "ts": ts, "text": "x"})
	w.refused("msg_too_long", "chat.update", args{"channel": hall, "ts": ts, "text": repeat("x", 4001)})
	w.refused("no_text", "chat.update", args{"channel": hall, "ts": ts})

	w.ok("chat.update", args{"channel": hall, "ts": ts, "blocks": []any{args{"type": "divider"}, args{"type": "divider"}}})
	m := w.Messages(hall)[1]
	if m.Text != "one" || len(m.Blocks) != 2 || m.Metadata == nil {
		t.Errorf("blocks alone keep text and metadata: %+v", m)
	}
	w.ok("chat.update", args{"channel": hall, "ts": ts, "text": repeat("x", 4000)})
	if m = w.Messages(hall)[1]; len(m.Blocks) != 0 || m.Metadata == nil || m.Edited == nil {
		t.Errorf("text alone takes the blocks away and keeps metadata: %+v", m)
	}
	w.ok("chat.update", args{"channel": hall, "ts": ts, "text": "x", "metadata": "{}"})
	if m = w.Messages(hall)[1]; m.Metadata != nil {
		t.Errorf("empty metadata clears it: %+v", m)
	}
	w.ok("chat.delete", args{"channel": hall, "ts": ts})
	w.refused("message_not_found", "chat.delete", args{"channel": hall, "ts": ts})
	if got := len(w.Messages(hall)); got != 1 {
		t.Errorf("%d messages, want 1", got)
	}
}

func TestEphemeralIsForOnePersonOnly(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.AddPerson(sim.Person{ID: "U0CAT", Name: "cat"})
	w.refused("user_not_in_channel", "chat.postEphemeral", args{"channel": hall, "user": "U0CAT", "text": "x"})
	ts := str(w.ok("chat.postEphemeral", args{"channel": hall, "user": anas, "text": "psst"}), "message_ts")
	if m := w.Messages(hall); len(m) != 1 || m[0].To != anas || m[0].TS != ts {
		t.Errorf("messages %+v", m)
	}
	w.refused("message_not_found", "chat.update", args{"channel": hall, "ts": ts, "text": "x"})
	if out := w.ok("conversations.history", args{"channel": hall}); len(dig(out, "messages").([]any)) != 0 {
		t.Errorf("history tells of an ephemeral message: %v", out)
	}
}

func TestLinksUnfurlUnlessTheAppSaysNo(t *testing.T) {
	t.Parallel()
	w := open(t)
	leak := w.post("see https://evil.example/?d=secret")
	quiet := str(w.ok("chat.postMessage", args{"channel": hall, "text": "see https://example.com", "unfurl_links": "false", "unfurl_media": "false"}), "ts")
	for _, m := range w.Messages(hall) {
		switch m.TS {
		case leak:
			if len(m.Attachments) != 1 {
				t.Errorf("no preview: %+v", m)
			}
		case quiet:
			if len(m.Attachments) != 0 || m.Unfurl.Links == nil || *m.Unfurl.Links || *m.Unfurl.Media {
				t.Errorf("a preview that was not wanted: %+v", m)
			}
		}
	}
}

func TestHistoryAndReplies(t *testing.T) {
	t.Parallel()
	w := open(t)
	root := w.say("root")
	var all []string
	for range 5 {
		all = append(all, str(w.ok("chat.postMessage", args{"channel": hall, "text": "r", "thread_ts": root, "metadata": args{"event_type": "m", "event_payload": args{"n": 1}}}), "ts"))
	}
	tss := func(out map[string]any) []string {
		var got []string
		for _, m := range dig(out, "messages").([]any) {
			got = append(got, str(m, "ts"))
		}
		return got
	}
	out := w.ok("conversations.replies", args{"channel": hall, "ts": all[2], "limit": "3"})
	if diff := cmp.Diff([]string{root, all[0], all[1]}, tss(out)); diff != "" || out["has_more"] != true {
		t.Errorf("first page (a reply names its thread, too): %s %v", diff, out["has_more"])
	}
	if m := dig(out, "messages").([]any)[1]; dig(m, "metadata") != nil {
		t.Errorf("metadata without asking: %v", m)
	}
	out = w.ok("conversations.replies", args{"channel": hall, "ts": root, "limit": "9", "cursor": str(out, "response_metadata", "next_cursor"), "include_all_metadata": "true"})
	if diff := cmp.Diff(all[2:], tss(out)); diff != "" || out["has_more"] != false {
		t.Errorf("second page: %s", diff)
	}
	if m := dig(out, "messages").([]any)[0]; str(m, "metadata", "event_type") != "m" || str(m, "thread_ts") != root || str(m, "parent_user_id") != anas {
		t.Errorf("reply: %v", m)
	}
	out = w.ok("conversations.replies", args{"channel": hall, "ts": root, "oldest": all[2]})
	if diff := cmp.Diff([]string{root, all[3], all[4]}, tss(out)); diff != "" {
		t.Errorf("oldest excludes itself, and the first message always comes: %s", diff)
	}
	second := w.say("second")
	out = w.ok("conversations.history", args{"channel": hall})
	if diff := cmp.Diff([]string{second, root}, tss(out)); diff != "" {
		t.Errorf("history, newest first and without replies: %s", diff)
	}
	out = w.ok("conversations.history", args{"channel": hall, "latest": second, "oldest": root, "inclusive": "true", "limit": "1"})
	if diff := cmp.Diff([]string{second}, tss(out)); diff != "" {
		t.Errorf("inclusive: %s", diff)
	}
	w.refused("thread_not_found", "conversations.replies", args{"channel": hall, "ts": "1.000001"})
	w.refused("invalid_cursor", "conversations.history", args{"channel": hall, "cursor": "x"})
}

func TestPeopleAndChannelsAreToldAsSlackTellsThem(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.AddPerson(sim.Person{ID: "U0GST", Name: "gus", Kind: sim.SingleGuest})
	w.AddPerson(sim.Person{ID: "U0EXT", Name: "eve", Kind: sim.Stranger})
	w.AddGroup(sim.Group{ID: "S0FIN", Handle: "finance", Members: []string{anas}})
	w.AddChannel(sim.Channel{ID: "C0SHARE", Name: "share", Kind: sim.Shared, Members: []string{anas, "U0EXT", "U0BOT"}})
	u := w.ok("users.info", args{"user": "U0GST"})
	if dig(u, "user", "is_restricted") != true || dig(u, "user", "is_ultra_restricted") != true {
		t.Errorf("guest: %v", u)
	}
	u = w.ok("users.info", args{"user": "U0EXT"})
	if dig(u, "user", "is_stranger") != true || str(u, "user", "team_id") == "T0SIM" {
		t.Errorf("stranger: %v", u)
	}
	w.refused("user_not_found", "users.info", args{"user": "U0NONE"})
	if c := w.ok("conversations.info", args{"channel": "C0SHARE"}); dig(c, "channel", "is_ext_shared") != true {
		t.Errorf("shared channel: %v", c)
	}
	if g := w.ok("usergroups.users.list", args{"usergroup": "S0FIN"}); len(dig(g, "users").([]any)) != 1 {
		t.Errorf("group: %v", g)
	}
	im := w.ok("conversations.open", args{"users": anas})
	if want, err := w.OpenIM(anas, ""); err != nil || str(im, "channel", "id") != want {
		t.Errorf("DM %v, want %s (%v)", im, want, err)
	}
	if out := w.ok("chat.postMessage", args{"channel": anas, "text": "hi"}); str(out, "channel") != str(im, "channel", "id") {
		t.Errorf("a person's id as channel opens the DM: %v", out)
	}
	list := w.ok("conversations.list", args{"types": "public_channel,im", "limit": "1"})
	if len(dig(list, "channels").([]any)) != 1 || str(list, "response_metadata", "next_cursor") == "" {
		t.Errorf("list: %v", list)
	}
	link := w.ok("chat.getPermalink", args{"channel": hall, "message_ts": w.post("x")})
	if !strings.HasPrefix(str(link, "permalink"), "https://simulated.slack.com/archives/C0HALL/p1780000000") {
		t.Errorf("permalink: %v", link)
	}
	w.ok("reactions.add", args{"channel": hall, "timestamp": w.Messages(hall)[0].TS, "name": "eyes"})
	w.refused("already_reacted", "reactions.add", args{"channel": hall, "timestamp": w.Messages(hall)[0].TS, "name": "eyes"})
}

func TestFilesAreForTokensWithTheScopeOnly(t *testing.T) {
	t.Parallel()
	for _, scope := range []bool{true, false} {
		w := open(t, func(_ *sim.Options, a *sim.App) {
			if !scope {
				a.Scopes = []string{"chat:write"}
			}
		})
		if _, err := w.Say(sim.Say{From: anas, Channel: hall, Text: "look", Files: []sim.Upload{{Name: "a b.txt", Type: "text/plain", Content: []byte("inside")}}}); err != nil {
			t.Fatal(err)
		}
		m := w.Messages(hall)[0]
		if m.Subtype != "file_share" || len(m.Files) != 1 {
			t.Fatalf("message %+v", m)
		}
		for _, token := range []string{bot, "", "xoxb-other"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.Files[0].URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+token)
			res, b, err := do(req)
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("status %v, %v", res, err)
			}
			want := scope && token == bot
			if got := string(b) == "inside"; got != want {
				t.Errorf("scope %v, token %q: got %q", scope, token, b)
			}
			if html := strings.HasPrefix(res.Header.Get("Content-Type"), "text/html"); html == want {
				t.Errorf("scope %v, token %q: type %s", scope, token, res.Header.Get("Content-Type"))
			}
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	w := open(t)
	fail := func(f sim.Fault) { f.Method = "chat.postMessage"; w.Fail(f) }
	post := func() (*answered, []byte, error) {
		return w.request("chat.postMessage", bot, args{"channel": hall, "text": "x"})
	}
	count := func() int { return len(w.Messages(hall)) }

	fail(sim.Fault{Do: sim.Limited, Retry: 30})
	if res, b, err := post(); err != nil || res.StatusCode != 429 || res.Header.Get("Retry-After") != "30" || !bytes.Contains(b, []byte("ratelimited")) {
		t.Errorf("limited: %v %s %v", res, b, err)
	}
	fail(sim.Fault{Do: sim.LimitedBare})
	if res, _, err := post(); err != nil || res.StatusCode != 429 || res.Header.Get("Retry-After") != "" {
		t.Errorf("limited_bare: %v %v", res, err)
	}
	fail(sim.Fault{Do: sim.LimitedOK})
	w.refused("ratelimited", "chat.postMessage", args{"channel": hall, "text": "x"})
	fail(sim.Fault{Do: sim.Refuse, Error: "restricted_action"})
	w.refused("restricted_action", "chat.postMessage", args{"channel": hall, "text": "x"})
	fail(sim.Fault{Do: sim.ServerError})
	if res, _, err := post(); err != nil || res.StatusCode != 500 {
		t.Errorf("500: %v %v", res, err)
	}
	fail(sim.Fault{Do: sim.HTML})
	if res, b, err := post(); err != nil || !bytes.HasPrefix(b, []byte("<!DOCTYPE")) {
		t.Errorf("html: %v %v", res, err)
	}
	fail(sim.Fault{Do: sim.CutFirst})
	if _, _, err := post(); err == nil {
		t.Error("cut: no error")
	}
	if count() != 0 {
		t.Fatalf("%d messages before any call that has an effect", count())
	}
	fail(sim.Fault{Do: sim.LostReply})
	if _, _, err := post(); err == nil || count() != 1 {
		t.Errorf("lost_reply: %v, %d messages", err, count())
	}
	fail(sim.Fault{Do: sim.LostAs500})
	if res, _, err := post(); err != nil || res.StatusCode != 500 || count() != 2 {
		t.Errorf("lost_as_500: %v %v, %d messages", res, err, count())
	}
	// After and Times.
	fail(sim.Fault{Do: sim.ServerError, After: 1, Times: 2})
	for i, want := range []int{200, 500, 500, 200} {
		if res, _, err := post(); err != nil || res.StatusCode != want {
			t.Errorf("call %d: %v %v, want %d", i, res, err, want)
		}
	}
	fail(sim.Fault{Do: sim.ServerError, Times: -1})
	w.Heal()
	w.post("healed")
	fail(sim.Fault{Do: sim.Slow, Delay: time.Millisecond})
	w.post("slow")
}

func TestHangingCallGoesOnWhenTheFaultIsLifted(t *testing.T) {
	t.Parallel()
	w := open(t)
	for _, do := range []sim.Trouble{sim.Hang, sim.HangAfter} {
		before := len(w.Messages(hall))
		mark := w.Mark()
		lift := w.Fail(sim.Fault{Method: "chat.postMessage", Do: do})
		done := make(chan int, 1)
		go func() {
			res, _, err := w.request("chat.postMessage", bot, args{"channel": hall, "text": "x"})
			if err != nil {
				done <- 0
				return
			}
			done <- res.StatusCode
		}()
		w.await(mark, sim.Broken)
		if do == sim.HangAfter {
			w.await(mark, sim.Posted)
		}
		w.post("another call is not hanging")
		select {
		case <-done:
			t.Errorf("%s: the call did not hang", do)
		default:
		}
		lift()
		if got := <-done; got != 200 {
			t.Errorf("%s: status %d", do, got)
		}
		if got := len(w.Messages(hall)) - before; got != 2 {
			t.Errorf("%s: %d new messages, want 2", do, got)
		}
	}
}

func TestLimitsPerMethodAndPerChannel(t *testing.T) {
	t.Parallel()
	w := open(t)
	for range 30 {
		w.post("no limits at first")
	}
	w.SetLimits(true)
	status := func(method string, a args) (int, string) {
		t.Helper()
		res, _, err := w.request(method, bot, a)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, res.Header.Get("Retry-After")
	}
	posting := args{"channel": hall, "text": "x"}
	for range 5 {
		if s, _ := status("chat.postMessage", posting); s != 200 {
			t.Fatalf("status %d within the burst", s)
		}
	}
	if s, after := status("chat.postMessage", posting); s != 429 || after != "1" {
		t.Errorf("sixth in a channel: %d, Retry-After %q", s, after)
	}
	if s, _ := status("chat.postMessage", args{"channel": anas, "text": "x"}); s != 200 {
		t.Errorf("another channel has its own limit: %d", s)
	}
	w.clock.move(time.Second)
	if s, _ := status("chat.postMessage", posting); s != 200 {
		t.Errorf("a second later: %d", s)
	}
	n := 0
	for {
		if s, after := status("users.list", nil); s == 429 {
			if after != "3" {
				t.Errorf("Retry-After %q, want 3 at 20 a minute", after)
			}
			break
		}
		n++
	}
	if n != 20 {
		t.Errorf("%d calls of a method of tier 2, want 20", n)
	}
	w.SetLimits(false)
	if s, _ := status("users.list", nil); s != 200 {
		t.Errorf("limits off: %d", s)
	}
}
