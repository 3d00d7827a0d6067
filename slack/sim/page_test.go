package sim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"switchboard/slack/sim"
)

// TestPage drives the page in a real browser. All of it shares one browser; each part has a workspace and a window of its own.
func TestPage(t *testing.T) { //nolint:tparallel // the parts share one browser, one after the other
	t.Parallel()
	b := launch(t)
	for name, part := range map[string]func(*testing.T, *browser){
		"a question is asked, answered, stopped, edited and deleted": testConversation,
		"buttons, modals and the App Home":                           testViews,
		"a card is decided by keyboard":                              testCard,
		"what a small bot needs is there":                            testBlocks,
		"by keyboard alone":                                          testKeyboard,
		"in a narrow window":                                         testNarrow,
		"light and dark can be read":                                 testContrast,
		"texts of strangers stay texts":                              testHostile,
		"the inspector and its faults":                               testInspector,
		"the connection is lost and comes back":                      testReconnect,
		"a newcomer is greeted":                                      testGreeting,
		"the reader is not pulled away":                              testReading,
	} {
		t.Run(name, func(t *testing.T) { part(t, b) })
	}
}

// browser is a running Chromium.
type browser struct{ ctx context.Context }

// launch starts Chromium. Where there is none the test is skipped on a developer's machine, and fails in CI.
func launch(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no chromium on the PATH, and this is CI")
		}
		t.Skip("no chromium on the PATH: install it to test the page")
	}
	alloc, stop := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(path), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.UserDataDir(t.TempDir()))
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("end the browser: %v", err)
		}
		cancel()
		stop()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	return &browser{ctx: ctx}
}

// window is a window of the browser with the page in it.
type window struct {
	t    *testing.T
	ctx  context.Context
	mu   sync.Mutex
	said []string // by the console
}

// look opens the page as Ana, in a channel.
func look(t *testing.T, b *browser, w *world, in string) *window {
	t.Helper()
	return lookAt(t, b, w.s.URL()+"/#as="+anas+"&in="+in, 1280, 800)
}

func lookAt(t *testing.T, b *browser, address string, width, height int64) *window {
	t.Helper()
	tab, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	ctx, stop := context.WithTimeout(tab, 90*time.Second)
	p := &window{t: t, ctx: ctx}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, height)); err != nil {
		t.Fatalf("open a window: %v", err)
	}
	console := chromedp.Console(ctx)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for m, err := range console {
			if err != nil {
				return
			}
			p.mu.Lock()
			p.said = append(p.said, m.String())
			p.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		stop()
		cancel()
		<-read
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.said) > 0 {
			t.Errorf("the console says:\n%s", strings.Join(p.said, "\n"))
		}
	})
	_, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	if err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.Navigate(address))
	p.until(`document.querySelector(".lamp.ok")`)
	return p
}

func (p *window) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatalf("%v\nthe page shows:\n%s", err, p.text())
	}
}

// text is all that the page shows.
func (p *window) text() string {
	s, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](`document.body.innerText`))
	if err != nil {
		return err.Error()
	}
	return s
}

// until waits until an expression is true. It looks once a frame; chromedp.Poll cannot be used, since it makes functions
// from texts and the page's policy forbids that.
func (p *window) until(js string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 30*time.Second)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](
		`new Promise((done) => { const look = () => ((`+js+`) ? done(true) : requestAnimationFrame(look)); look(); })`, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("wait until %s: %v\nthe page shows:\n%s", js, err, p.text())
	}
}

// shows waits until an element holds some words.
func (p *window) shows(selector, words string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`[...document.querySelectorAll(%s)].some((e) => e.innerText.includes(%s))`, quote(selector), quote(words)))
}

func (p *window) gone(selector string) {
	p.t.Helper()
	p.until(`!document.querySelector(` + quote(selector) + `)`)
}

func (p *window) click(selector string) {
	p.t.Helper()
	p.until(`document.querySelector(` + quote(selector) + `)`)
	p.do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

func (p *window) keys(keys string, m ...chromedp.Modifier) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys, chromedp.KeyModifiers(m...)))
}

func eval[T any](p *window, js string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](js))
	if err != nil {
		p.t.Fatalf("evaluate %s: %v", js, err)
	}
	return v
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a text can always be written
	return string(b)
}

func testid(s string) string { return `[data-testid="` + s + `"]` }

func testConversation(t *testing.T, b *browser) {
	t.Helper()
	w := open(t)
	p := look(t, b, w, hall)
	from := w.Mark()
	p.click(testid("composer"))
	p.keys("@swi")
	p.shows(".suggest [aria-selected=true]", "switchboard")
	p.keys(kb.Enter)
	p.keys("how do I export <waivers>?" + kb.Enter)
	said := w.await(from, sim.Said)
	if want := "<@U0BOT> how do I export &lt;waivers&gt;?"; said.Message.Text != want {
		t.Errorf("the message is %q, want %q", said.Message.Text, want)
	}
	p.shows(testid("message"), "@switchboard how do I export <waivers>?")

	at := args{"channel_id": hall, "thread_ts": said.TS, "status": "is looking it up"}
	w.ok("assistant.threads.setStatus", at)
	p.shows(testid("thread")+" "+testid("status"), "switchboard is looking it up")
	p.until(`document.querySelector('` + testid("stop") + `')`)

	stream := func(method string, more args) map[string]any {
		more["channel"] = hall
		return w.ok(method, more)
	}
	task := func(state string) map[string]any {
		return map[string]any{"type": "task_update", "id": "1", "title": "Search the handbook", "status": state}
	}
	ts := str(stream("chat.startStream", args{
		"thread_ts": said.TS, "recipient_user_id": anas, "recipient_team_id": "T0SIM", "chunks": []any{task("in_progress")},
	}), "ts")
	p.until(`document.querySelector('` + testid("task-card") + `[data-status=in_progress]')`)
	stream("chat.appendStream", args{"ts": ts, "chunks": []any{task("complete"), map[string]any{"type": "markdown_text", "text": "Open **Members**, then"}}})
	p.shows(testid("thread")+" strong", "Members")
	p.until(`document.querySelector("#thread .caret") && document.querySelector('` + testid("task-card") + `[data-status=complete]')`)
	stream("chat.appendStream", args{"ts": ts, "chunks": []any{map[string]any{"type": "markdown_text", "text": " export.\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n- [x] done"}}})
	p.shows(testid("thread")+" td.side-end", "2")
	stream("chat.stopStream", args{"ts": ts, "blocks": []any{map[string]any{"type": "context_actions", "elements": []any{map[string]any{
		"type": "feedback_buttons", "action_id": "rate",
		"positive_button": map[string]any{"text": map[string]any{"type": "plain_text", "text": "Good"}, "value": "good"},
		"negative_button": map[string]any{"text": map[string]any{"type": "plain_text", "text": "Bad"}, "value": "bad"},
	}}}}})
	p.gone("#thread .caret")
	p.gone("#thread " + testid("status"))
	from = w.Mark()
	p.click(testid("button-rate") + `[data-value="good"]`)
	if e := w.await(from, sim.Clicked); str(decode(t, e.Body), "value") != "good" {
		t.Errorf("the click says %s, want good", e.Body)
	}
	p.until(`document.querySelector('` + testid("button-rate") + `[aria-pressed=true]')`)

	w.ok("assistant.threads.setStatus", at)
	from = w.Mark()
	p.click(testid("stop"))
	w.await(from, sim.Clicked, func(e sim.Entry) bool { return e.Method == "agent_session_stopped" && e.Thread == said.TS })

	p.click("#thread .close")
	p.until(`document.querySelector("#thread").hidden`)
	p.shows(testid("replies"), "1 reply")
	own := `.message[data-ts="` + said.TS + `"]`
	menu := func(item string) {
		p.do(chromedp.Focus(chromedp.CSS(own)))
		p.click(own + ` [aria-label="More"]`)
		p.until(`[...document.querySelectorAll(".menu-item")].find((e) => e.textContent === ` + quote(item) + `)`)
		eval[any](p, `[...document.querySelectorAll(".menu-item")].find((e) => e.textContent === `+quote(item)+`).click()`)
	}
	from = w.Mark()
	menu("Edit message")
	p.keys(" Today?" + kb.Enter)
	if e := w.await(from, sim.Updated); e.Message.Text != "<@U0BOT> how do I export &lt;waivers&gt;? Today?" {
		t.Errorf("the edited message is %q", e.Message.Text)
	}
	p.shows(own+" .edited", "edited")
	from = w.Mark()
	menu("Delete message")
	p.click("#confirm .danger")
	w.await(from, sim.Removed)
	p.gone(own)
}

func decode(t *testing.T, raw json.RawMessage) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return out
}

// scripted is an app in HTTP mode: what it answers to each kind of interaction. It gives the change that open takes.
func scripted(t *testing.T, answers map[string]func(payload map[string]any) any) func(*sim.Options, *sim.App) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if json.Unmarshal([]byte(r.FormValue("payload")), &body) != nil {
			return
		}
		f := answers[str(body, "type")]
		if f == nil {
			return
		}
		if out := f(body); out != nil {
			rw.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(rw).Encode(out) // the workspace may be closed by now
		}
	}))
	t.Cleanup(s.Close)
	return func(_ *sim.Options, a *sim.App) { a.AppToken, a.EventsURL = "", s.URL }
}

func plain(s string) map[string]any { return map[string]any{"type": "plain_text", "text": s} }

func testViews(t *testing.T, b *browser) {
	t.Helper()
	triggers := make(chan string, 4)
	w := open(t, scripted(t, map[string]func(map[string]any) any{
		"block_actions": func(b map[string]any) any { triggers <- str(b, "trigger_id"); return nil },
		"view_submission": func(b map[string]any) any {
			if str(b, "view", "state", "values", "why", "text", "value") == "no" {
				return map[string]any{"response_action": "errors", "errors": map[string]string{"why": "Say a little more."}}
			}
			return nil
		},
	}))
	w.ok("chat.postMessage", args{"channel": hall, "text": "?", "blocks": []any{
		map[string]any{"type": "section", "text": map[string]any{"type": "mrkdwn", "text": "*Really* <@U0ANA>? :tada:"}},
		map[string]any{"type": "actions", "elements": []any{map[string]any{"type": "button", "action_id": "open", "value": "1", "text": plain("Open the form")}}},
	}})
	p := look(t, b, w, hall)
	p.shows(testid("message")+" strong", "Really")
	pressed := func() string {
		t.Helper()
		p.click(testid("button-open"))
		select {
		case trigger := <-triggers:
			return trigger
		case <-p.ctx.Done():
			t.Fatal("the app got no click")
		}
		return ""
	}
	w.ok("views.open", args{"trigger_id": pressed(), "view": map[string]any{
		"type": "modal", "title": plain("A form"), "submit": plain("Send"), "blocks": []any{
			map[string]any{"type": "input", "block_id": "why", "label": plain("Why?"), "element": map[string]any{"type": "plain_text_input", "action_id": "text"}},
		},
	}})
	p.until(`document.querySelector("#modal").open`)
	p.keys("no" + kb.Enter)
	p.shows("#modal .input-error", "Say a little more.")
	p.do(chromedp.SetValue(chromedp.CSS("#modal input"), "because"))
	from := w.Mark()
	p.click(testid("modal-submit"))
	p.until(`!document.querySelector("#modal").open`)
	w.await(from, sim.ViewClosed)

	w.ok("views.open", args{"trigger_id": pressed(), "view": map[string]any{"type": "modal", "title": plain("A note"), "blocks": []any{}}})
	p.until(`document.querySelector("#modal").open`)
	eval[any](p, `(() => { const b = document.querySelector('`+testid("modal-close")+`'); for (let n = 0; n < 2; n++) b.click(); })()`) // the second is nothing more
	p.until(`!document.querySelector("#modal").open`)

	w.ok("chat.postEphemeral", args{"channel": hall, "user": anas, "text": "for your eyes"})
	w.ok("chat.postEphemeral", args{"channel": hall, "user": bobs, "text": "for other eyes"})
	p.shows(".whisper", "Only visible to you")
	if s := p.text(); strings.Contains(s, "for other eyes") {
		t.Error("somebody else's ephemeral message is shown")
	}

	from = w.Mark()
	p.click(testid("channel-switchboard"))
	w.await(from, sim.Clicked, func(e sim.Entry) bool { return e.Method == "app_home_opened" })
	p.click(testid("tab-home"))
	w.await(from, sim.Clicked, func(e sim.Entry) bool {
		return e.Method == "app_home_opened" && strings.Contains(string(e.Body), `"home"`)
	})
	p.shows(testid("home"), "has not published a Home")
	w.ok("views.publish", args{"user_id": anas, "view": map[string]any{"type": "home", "blocks": []any{map[string]any{"type": "header", "text": plain("What I can do")}}}})
	p.shows(testid("home")+" h3", "What I can do")

	p.click(testid("tab-messages"))
	dm, err := w.OpenIM(anas, "")
	if err != nil {
		t.Fatal(err)
	}
	w.ok("assistant.threads.setSuggestedPrompts", args{"channel_id": dm, "prompts": []any{map[string]any{"title": "Hours", "message": "When do we open?"}}})
	from = w.Mark()
	p.click(testid("prompt"))
	if e := w.await(from, sim.Said); e.Text != "When do we open?" || e.Channel != dm {
		t.Errorf("the prompt said %q in %s", e.Text, e.Channel)
	}

	p.click(testid("person-switch"))
	p.click(testid("person-" + bobs))
	p.shows(".who", "bob")
	p.until(`location.hash.includes("as=U0BOB")`)
}

func TestPageIsServedToBeReadOnly(t *testing.T) {
	t.Parallel()
	w := open(t)
	get := func(method, path string) *answered {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, w.s.URL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, body, err := do(req)
		if err != nil {
			t.Fatal(err)
		}
		if method == http.MethodGet && res.StatusCode == http.StatusOK && (strings.Contains(string(body), "http://") || strings.Contains(string(body), "https://")) && path == "/" {
			t.Errorf("the page names another host:\n%s", body)
		}
		return res
	}
	page := get(http.MethodGet, "/")
	policy := page.Header.Get("Content-Security-Policy")
	if page.StatusCode != http.StatusOK || !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "script-src 'self';") || strings.Contains(policy, "unsafe") {
		t.Errorf("GET / gives %d with the policy %q", page.StatusCode, policy)
	}
	if res := get(http.MethodGet, "/app.js"); !strings.Contains(res.Header.Get("Content-Type"), "javascript") {
		t.Errorf("app.js is served as %q", res.Header.Get("Content-Type"))
	}
	if res := get(http.MethodPost, "/"); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST / gives %d, want 405", res.StatusCode)
	}
	if res := get(http.MethodGet, "/nothing.js"); res.StatusCode != http.StatusNotFound {
		t.Errorf("a file that is not there gives %d, want 404", res.StatusCode)
	}
}
