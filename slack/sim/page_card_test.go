package sim_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"switchboard/slack/sim"
)

// upload sends a file as an app does and gives its id.
func (w *world) upload(name, content string) string {
	w.t.Helper()
	to := w.ok("files.getUploadURLExternal", args{"filename": name, "length": len(content)})
	if status := w.sendFile(str(to, "upload_url"), content); status != http.StatusOK {
		w.t.Fatalf("the file is refused with status %d", status)
	}
	return str(to, "file_id")
}

func (w *world) sendFile(to, content string) int {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, to, strings.NewReader(content))
	if err != nil {
		w.t.Fatal(err)
	}
	res, _, err := do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode
}

// testCard lets a person read a file, approve, and deny with a reason, without a pointer.
func testCard(t *testing.T, b *browser) {
	t.Helper()
	clicks := make(chan map[string]any, 4)
	w := open(t, scripted(t, map[string]func(map[string]any) any{
		"block_actions":   func(b map[string]any) any { clicks <- b; return nil },
		"view_submission": func(b map[string]any) any { clicks <- b; return nil },
	}))
	id := w.upload("card-1.json", `{"amount": "<b>8000</b>"}`)
	w.ok("files.completeUploadExternal", args{"files": []any{map[string]any{"id": id}}, "channel_id": hall})
	sure := map[string]any{"title": plain("Approve this?"), "text": plain("It will run."), "confirm": plain("Approve"), "deny": plain("Not yet")}
	ts := str(w.ok("chat.postMessage", args{"channel": hall, "text": "decide", "blocks": []any{
		map[string]any{"type": "header", "text": plain("Approval needed")},
		map[string]any{"type": "rich_text", "elements": []any{map[string]any{"type": "rich_text_preformatted", "elements": []any{map[string]any{"type": "text", "text": "*8000* ⟨U+202E⟩ <b>" + strings.Repeat(" far", 200)}}}}},
		map[string]any{"type": "actions", "elements": []any{
			map[string]any{"type": "button", "action_id": "approve", "value": "c_1", "text": plain("Approve"), "style": "primary", "confirm": sure},
			map[string]any{"type": "button", "action_id": "deny", "value": "c_1", "text": plain("Deny"), "style": "danger"},
		}},
	}}), "ts")
	p := look(t, b, w, hall)
	p.shows(".fence code", "*8000* ⟨U+202E⟩ <b>")
	if over := eval[bool](p, `[...document.querySelectorAll(".block-rich_text pre")].some((e) => e.scrollWidth > e.clientWidth)`); over {
		t.Error("the end of a value stands out of sight")
	}
	p.shows(testid("file"), "card-1.json")
	got := eval[string](p, `document.querySelector('`+testid("file")+`').href`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, got, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, body, err := do(req)
	if err != nil || string(body) != `{"amount": "<b>8000</b>"}` || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") || !strings.Contains(res.Header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("the file: %q %v %v", body, res, err)
	}
	if save := eval[string](p, `document.querySelector('`+testid("file-save")+`').download`); save != "card-1.json" {
		t.Errorf("it is saved as %q", save)
	}

	eval[any](p, `document.querySelector('`+testid("button-approve")+`').focus()`)
	p.keys(kb.Enter)
	p.until(`document.querySelector("#confirm").open && document.activeElement.innerText === "Not yet"`)
	p.keys(kb.Enter) // the safe answer has the focus
	p.until(`!document.querySelector("#confirm").open`)
	eval[any](p, `document.querySelector('`+testid("button-approve")+`').focus()`)
	p.keys(kb.Enter)
	p.until(`document.querySelector("#confirm").open`)
	p.keys(kb.Tab)
	p.until(`document.activeElement.innerText === "Approve"`)
	p.keys(kb.Enter)
	take := func() map[string]any {
		t.Helper()
		select {
		case c := <-clicks:
			return c
		case <-p.ctx.Done():
			t.Fatal("the app got no click")
		}
		return nil
	}
	c := take()
	pressed, _ := c["actions"].([]any)
	if len(pressed) != 1 || str(c, "user", "id") != anas || str(pressed[0].(map[string]any), "value") != "c_1" || len(clicks) != 0 {
		t.Errorf("clicked %v", pressed)
	}

	eval[any](p, `document.querySelector('`+testid("button-deny")+`').focus()`)
	p.keys(kb.Enter)
	w.ok("views.open", args{"trigger_id": str(take(), "trigger_id"), "view": map[string]any{
		"type": "modal", "title": plain("Deny"), "submit": plain("Deny"), "blocks": []any{map[string]any{
			"type": "input", "block_id": "why", "label": plain("Why not?"), "element": map[string]any{"type": "plain_text_input", "action_id": "text", "multiline": true},
		}},
	}})
	p.until(`document.querySelector("#modal").open && document.activeElement.tagName === "TEXTAREA"`)
	p.keys(kb.Enter, chromedp.ModifierCtrl) // what must be written is missing: it stays open
	p.keys("too late")
	p.keys(kb.Enter)
	p.keys("this month")
	p.keys(kb.Enter, chromedp.ModifierCtrl)
	if c := take(); str(c, "view", "state", "values", "why", "text", "value") != "too late\nthis month" {
		t.Errorf("sent %v", c["view"])
	}
	p.until(`!document.querySelector("#modal").open`)
	w.ok("chat.postEphemeral", args{"channel": hall, "user": anas, "text": "You have denied it."})
	p.shows(".whisper", "You have denied it.")
	w.ok("chat.update", args{"channel": hall, "ts": ts, "text": "decided", "blocks": []any{map[string]any{"type": "header", "text": plain("Denied by ana")}}})
	p.shows(testid("message"), "Denied by ana")
	p.gone(testid("button-approve"))
}

func TestFilesAreAnnouncedSentAndShared(t *testing.T) {
	t.Parallel()
	w := open(t)
	root := w.say("here?")
	id := w.upload("a b.json", "[1]")
	if n := len(w.Messages(hall)); n != 1 {
		t.Fatalf("%d messages before the file is shared", n)
	}
	if _, ok := w.Bytes(id); ok {
		t.Error("a file is there before it is complete")
	}
	done := args{"files": []any{map[string]any{"id": id, "title": "Arguments"}}, "channel_id": hall, "thread_ts": root, "initial_comment": "all of it"}
	w.ok("files.completeUploadExternal", done)
	m := w.Thread(hall, root)[1]
	if m.Subtype != "file_share" || len(m.Files) != 1 || m.Files[0].Name != "a b.json" || m.Files[0].Type != "application/json" || m.Text != "all of it" || m.App != w.app.ID {
		t.Errorf("shared %+v", m)
	}
	if got, ok := w.Bytes(id); !ok || string(got) != "[1]" {
		t.Errorf("it holds %q", got)
	}
	if title := str(w.ok("files.info", args{"file": id}), "file", "title"); title != "Arguments" {
		t.Errorf("title %q", title)
	}
	w.refused("file_not_found", "files.completeUploadExternal", done) // only once
}

func TestUploadsAreRefused(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.AddChannel(sim.Channel{ID: "C0AWAY", Name: "away", Members: []string{anas}})
	w.refused("invalid_arguments", "files.getUploadURLExternal", args{"length": 3})
	w.refused("invalid_arguments", "files.getUploadURLExternal", args{"filename": "x", "length": 0})
	w.refused("invalid_arguments", "files.completeUploadExternal", args{})
	w.refused("file_not_found", "files.completeUploadExternal", args{"files": []any{map[string]any{"id": "F0NONE"}}})
	to := w.ok("files.getUploadURLExternal", args{"filename": "x.txt", "length": 3})
	share := func(channel string) args {
		return args{"files": []any{map[string]any{"id": str(to, "file_id")}}, "channel_id": channel}
	}
	w.refused("file_not_found", "files.completeUploadExternal", share(hall)) // nothing was sent
	for n, content := range []string{"four", "abc", "abc"} {                 // longer than announced, right, twice
		if got := w.sendFile(str(to, "upload_url"), content); (got == http.StatusOK) != (n == 1) {
			t.Errorf("%d: status %d", n, got)
		}
	}
	if got := w.sendFile(w.s.URL()+"/upload/v1/guess", "abc"); got != http.StatusNotFound {
		t.Errorf("a guessed address: status %d", got)
	}
	w.refused("not_in_channel", "files.completeUploadExternal", share("C0AWAY"))
	w.refused("channel_not_found", "files.completeUploadExternal", share("C0NONE"))
	w.ok("files.completeUploadExternal", share(""))
	if n := len(w.Messages(hall)); n != 0 {
		t.Errorf("a file without a channel is shared: %d messages", n)
	}
	plain := open(t, func(_ *sim.Options, a *sim.App) { a.Scopes = []string{"chat:write", "files:read"} })
	plain.refused("missing_scope", "files.getUploadURLExternal", args{"filename": "x", "length": 3})
	plain.refused("missing_scope", "files.completeUploadExternal", args{})
}

func TestLastQuestionsAndRichTextHaveTheirLimits(t *testing.T) {
	t.Parallel()
	w := open(t)
	long := func(n int) string { return strings.Repeat("x", n) }
	ask := func(change func(map[string]any)) args {
		sure := map[string]any{"title": plain("Sure?"), "text": plain("It will run."), "confirm": plain("Yes"), "deny": plain("No")}
		change(sure)
		return args{"channel": hall, "text": "?", "blocks": []any{map[string]any{"type": "actions", "elements": []any{
			map[string]any{"type": "button", "action_id": "a", "text": plain("A"), "confirm": sure},
		}}}}
	}
	w.ok("chat.postMessage", ask(func(map[string]any) {}))
	for key, n := range map[string]int{"title": 101, "text": 301, "confirm": 31, "deny": 31} {
		w.refused("invalid_blocks", "chat.postMessage", ask(func(m map[string]any) { m[key] = plain(long(n)) }))
		w.refused("invalid_blocks", "chat.postMessage", ask(func(m map[string]any) { delete(m, key) }))
	}
	rich := func(kind, text string) args {
		return args{"channel": hall, "text": "?", "blocks": []any{map[string]any{"type": "rich_text", "elements": []any{
			map[string]any{"type": kind, "elements": []any{map[string]any{"type": "text", "text": text}}},
		}}}}
	}
	w.ok("chat.postMessage", rich("rich_text_preformatted", long(13000)))
	w.refused("msg_blocks_too_long", "chat.postMessage", rich("rich_text_preformatted", long(13001)))
	w.refused("invalid_blocks", "chat.postMessage", rich("section", "x"))
}
