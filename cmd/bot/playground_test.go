package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestPlayground is what somebody does who tries the program for the first time, in a real browser. The parts share one
// playground and one browser; each has a window of its own. The picture that the README shows is taken on the way:
//
//	go test -run TestPlayground -artifacts -outputdir DIR ./cmd/bot
func TestPlayground(t *testing.T) { //nolint:tparallel // the parts share one playground, one after the other
	t.Parallel()
	g := play(t)
	t.Logf("from the start to the printed address: %s", g.took.Round(time.Millisecond))
	if g.took > 5*time.Second {
		t.Errorf("the playground was ready after %s, want less than a second on an idle machine", g.took)
	}
	b := launch(t)
	for _, part := range []struct {
		name          string
		as, in        string // who opens the page, and where
		width, height int64
		do            func(*window, *playground)
	}{
		{"a question in a channel", ana, frontDesk, 1440, 900, askInChannel},
		{"a question in the bot's messages", ana, frontDesk, 1440, 900, askInMessages},
		{"a question back, answered by a click", ana, frontDesk, 1280, 800, askBack},
		{"the App Home of an admin", ana, frontDesk, 1280, 800, visitHome},
		{"a guest is told no", ana, frontDesk, 1280, 800, askAsGuest},
		{"by keyboard alone", ana, frontDesk, 1280, 800, askByKeyboard},
		{"in a narrow window", ana, frontDesk, 375, 700, askNarrow},
	} {
		t.Run(part.name, func(t *testing.T) {
			part.do(look(t, b, g.url+"#as="+part.as+"&in="+part.in, part.width, part.height), g)
		})
	}
}

// playground is a running playground of the club.
type playground struct {
	url  string
	pack string        // a copy of the club, which may be changed
	took time.Duration // from the start until the address was printed
	said chan string   // lines that it printed after the address
}

// await waits until the playground prints a line with some words.
func (g *playground) await(t *testing.T, words string) {
	t.Helper()
	var heard strings.Builder
	late := time.After(time.Minute)
	for {
		select {
		case line := <-g.said:
			if strings.Contains(line, words) {
				return
			}
			heard.WriteString(line + "\n")
		case <-late:
			t.Fatalf("the playground did not print %q, but\n%s", words, heard.String())
		}
	}
}

// play starts a playground as the command does, and ends it with the test.
func play(t *testing.T) *playground {
	t.Helper()
	g := &playground{pack: filepath.Join(t.TempDir(), "club"), said: make(chan string, 100)}
	if err := os.CopyFS(g.pack, os.DirFS("../../examples/club")); err != nil {
		t.Fatal(err)
	}
	bot := filepath.Join(g.pack, "bot.yaml")
	text, err := os.ReadFile(bot)
	if err != nil {
		t.Fatal(err)
	}
	quick := strings.Replace(string(text), "\nreload: {rehearse: true}\n", "\n", 1) // playing all of them at a change has tests of its own, and takes long
	if err := os.WriteFile(bot, []byte(quick), 0o600); err != nil {                 //nolint:gosec // in the test's own folder
		t.Fatal(err)
	}
	b := newBench(t)
	ctx, stop := context.WithCancel(context.Background())
	out, in := io.Pipe()
	errs := &lockedText{}
	ended := make(chan int, 1)
	began := time.Now()
	go func() {
		code := run(ctx, []string{"playground", g.pack, "--offline", "--addr", "127.0.0.1:0"}, streams{strings.NewReader(""), in, errs}, b.get)
		_ = in.Close() // never fails
		ended <- code
	}()
	address, read := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		form := regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+\S*`)
		for said := bufio.NewScanner(out); said.Scan(); {
			if s := form.FindString(said.Text()); s != "" {
				g.took = time.Since(began)
				address <- s
				continue
			}
			g.said <- said.Text()
		}
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != exitGood {
			t.Errorf("the playground ended with exit code %d, want %d", code, exitGood)
		}
		<-read
		for line := range strings.Lines(errs.String()) {
			if strings.Contains(line, " ERR ") && !strings.Contains(line, "the changed pack was not taken") { // which a part of the test brings about
				t.Errorf("the playground wrote to stderr: %s", line)
			}
		}
	})
	select {
	case g.url = <-address:
	case <-read:
		t.Fatalf("the playground printed no address\n%s", errs.String())
	}
	return g
}

// lockedText is a text that several goroutines write.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

const (
	ana, gil  = "U0ANA", "U0GIL"
	frontDesk = "C0FRONT"
	spring    = "how are we doing this spring?"

	composer  = `[data-testid="composer"]`
	inThread  = `[data-testid="thread"] `
	status    = `[data-testid="status"]`
	steps     = `[data-testid="task-card"]`
	howIGotIt = inThread + `[data-testid="button-switchboard.trace"]`
	thumbUp   = inThread + `[data-testid="button-switchboard.feedback"][data-value$="good"]`
	choices   = inThread + `[data-testid^="button-switchboard.pick"]`
	ofTheBot  = `[data-testid="channel-club"]`
	home      = `[data-testid="home"]`

	// Nothing is under way in the thread. Until then what stands above may still move.
	idle = `!document.querySelector('#thread [data-testid="status"]')`
)

func askInChannel(p *window, _ *playground) {
	p.note(map[string]string{
		"the question":       has(".message", spring),
		"that it works":      has(inThread+status, "club is working"),
		"the first call":     has(inThread+steps, "read the revenue of the first three months"),
		"the third call":     has(inThread+steps, "see who joined and left in the same months"),
		"a row of the table": has(inThread+"td", "January"),
		"the end":            has(inThread+".message", "busiest courts and hours"),
		"how it came about":  has(howIGotIt, ""),
	})
	p.addressed(spring)
	at := p.inOrder("the question", "that it works", "the first call", "the third call", "a row of the table", "the end", "how it came about")
	if gap := at["that it works"] - at["the question"]; gap > 1000 {
		p.t.Errorf("the bot was seen to work %.0f ms after the question, want at once", gap)
	}
	if n := eval[int](p, `document.querySelectorAll("#thread .message td").length`); n != 18 {
		p.t.Errorf("the table has %d cells, want 3 rows of 6", n)
	}
	p.until(idle)
	p.click(thumbUp)
	p.until(`document.querySelector(` + inQuotes(thumbUp) + `).getAttribute("aria-pressed") === "true"`)
	p.click(howIGotIt)
	p.until(`document.querySelector("#modal").open`)
	for _, words := range []string{spring, "routed   insights", "metrics.revenue(", "why      read the revenue of the first three months", "expects  three months", "-> ok, 3 rows", "feedback: 1 good"} {
		p.until(has("#modal", words))
	}
	p.keys(kb.Escape)
	p.until(`!document.querySelector("#modal").open`)
}

func askInMessages(p *window, _ *playground) {
	p.click(ofTheBot)
	p.click(`[data-testid="prompt"]`)
	p.until(has(inThread+".message", "There is no documentation about exporting waivers"))
	p.until(has(howIGotIt, ""))
	p.click("#thread .close")
	p.note(map[string]string{
		"that it works":        has(inThread+status, "club is working"),
		"the first call":       has(inThread+steps, "read the revenue of the first three months"),
		"a word and the caret": has(inThread+".streaming", "January to March 2026") + ` && ` + has(inThread+".streaming .caret", ""),
		"the last word":        has(inThread+".message", "busiest courts and hours"),
		"the end":              `!document.querySelector(".streaming") && ` + has(howIGotIt, ""),
	})
	p.click(composer)
	p.keys(spring + kb.Enter)
	at := p.inOrder("that it works", "the first call", "a word and the caret", "the last word", "the end")
	if ahead := at["the last word"] - at["a word and the caret"]; ahead < 1000 {
		p.t.Errorf("the first word was seen %.0f ms before the last, want a stream", ahead)
	}
	p.until(has(inThread+steps, "read the revenue of the first three months"))
	p.until(`document.querySelectorAll("#thread .message td").length === 18`)
	p.picture("playground.png")
}

func askBack(p *window, _ *playground) {
	p.addressed("I need to change next week")
	p.until(has(inThread+".message", "Shall I move a booking of next week") + ` && ` + has(choices, "bookings"))
	p.click(choices)
	p.until(has(inThread+".message", "@Ana Ruiz clicked bookings"))
	p.until(`!document.querySelector(` + inQuotes(choices) + `)`)
	p.until(has(inThread+".message", "Whose booking is it"))
}

func visitHome(p *window, g *playground) {
	look := func() {
		p.t.Helper()
		p.click(`[data-testid="tab-messages"]`)
		p.click(`[data-testid="tab-home"]`)
	}
	p.click(ofTheBot)
	look()
	p.until(has(home, "Active version"))
	version := func() string {
		p.t.Helper()
		return eval[string](p, `[...document.querySelectorAll(".home code")].map((e) => e.innerText).find((s) => /^[0-9a-f]{12}$/.test(s)) || ""`)
	}
	first := version()
	if first == "" {
		p.t.Errorf("the home names no version:\n%s", p.text())
	}
	path := filepath.Join(g.pack, "assistants", "help.yaml")
	good, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	save := func(text string) {
		p.t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil { //nolint:gosec // in the test's own folder
			p.t.Fatal(err)
		}
	}
	save(strings.Replace(string(good), "\nrounds: ", "\nruonds: ", 1))
	g.await(p.t, "was not taken")
	look()
	place := fmt.Sprintf("assistants/help.yaml:%d:1", strings.Count(string(good[:strings.Index(string(good), "\nrounds: ")]), "\n")+2)
	for _, words := range []string{"Refused", place, "ruonds"} {
		p.until(has(home, words))
	}
	if now := version(); now != first {
		p.t.Errorf("the active version is %q, want %q as before", now, first)
	}
	save(string(good) + "# mended\n")
	g.await(p.t, "is active")
	look()
	p.until(has(home, "Active version") + ` && !` + has(home, "Refused"))
	if now := version(); now == first || now == "" {
		p.t.Errorf("the active version is %q, want another than %q", now, first)
	}
}

func askAsGuest(p *window, _ *playground) {
	p.click(`[data-testid="person-switch"]`)
	p.click(`[data-testid="person-` + gil + `"]`)
	p.until(has(".who", "Gil Weber"))
	p.addressed("when do you open on Sunday 10 May?")
	p.until(has(inThread+".message", "none of the assistants here is open to you"))
	p.click(ofTheBot)
	p.click(`[data-testid="tab-home"]`)
	p.until(has(home, "There is no assistant that you may use"))
	if strings.Contains(p.text(), "Active version") {
		p.t.Error("a guest sees what is for admins")
	}
}

// askByKeyboard holds a conversation without a pointer: a question, the choice that the bot offers, an answer in words, and a
// look at how the last reply came about.
func askByKeyboard(p *window, _ *playground) {
	back := func(to string) {
		p.t.Helper()
		for range 20 {
			p.keys(kb.Tab, chromedp.ModifierShift)
			if eval[bool](p, `document.activeElement.matches(`+inQuotes(to)+`)`) {
				return
			}
		}
		p.t.Fatalf("Shift+Tab does not lead to %s; the focus is on %s", to, eval[string](p, `document.activeElement.outerHTML`))
	}
	p.keys(kb.Tab + kb.Enter) // the link to the box
	p.until(`document.activeElement.id === "composer"`)
	p.keys("@clu")
	p.until(has(".suggest [aria-selected=true]", "club"))
	p.keys(kb.Enter + "I need to change next week" + kb.Enter)
	p.until(has(choices, "bookings"))
	back(".replies")
	p.keys(kb.Enter)
	p.until(`document.activeElement.id === "thread-composer"`)
	back(choices + `[data-testid$=".0"]`)
	p.keys(kb.Enter)
	p.until(has(inThread+".message", "Whose booking is it"))
	if eval[bool](p, `document.activeElement === document.body`) {
		p.t.Error("the focus is lost after a choice")
	}
	for range 20 {
		if eval[string](p, `document.activeElement.id`) == "thread-composer" {
			break
		}
		p.keys(kb.Tab)
	}
	p.keys("Tom Becker's, from Tuesday 5 May to Thursday 7 May at 20:00" + kb.Enter)
	p.until(has(inThread+".message", "Moved: Tom Becker now plays on 2026-05-07 at 20:00"))
	p.until(`document.activeElement.id === "thread-composer" && ` + idle)
	back(`[data-testid="button-switchboard.trace"]`)
	p.keys(kb.Enter)
	p.until(has("#modal", "bookings.move("))
	p.keys(kb.Escape)
	p.until(`!document.querySelector("#modal").open && document.activeElement.dataset.testid === "button-switchboard.trace"`)
}

func askNarrow(p *window, _ *playground) {
	fits := func(where string) {
		p.t.Helper()
		wide := eval[[]string](p, `[...document.querySelectorAll("body *")].filter((e) => e.offsetParent && !e.closest(".table, pre, .unseen, .skip") && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.className || e.tagName)`)
		if n := eval[int](p, `document.documentElement.scrollWidth - innerWidth`); n > 0 || len(wide) > 0 {
			p.t.Errorf("%s reaches %d pixels over the edge: %v", where, n, wide)
		}
	}
	fits("the channel")
	p.addressed("revenue in March")
	p.until(has(".message:last-child", "revenue in March") + ` && ` + has(".message:last-child .replies", "last at")) // it is drawn anew until then
	p.click(".message:last-child .replies")
	p.until(has(inThread+".message", "from all sources") + ` && ` + has(howIGotIt, "") + ` && ` + idle)
	fits("the thread")
	p.click(howIGotIt)
	p.until(has("#modal", "metrics.revenue("))
	fits("the trace")
	p.click(`[data-testid="modal-close"]`)
	p.until(`!document.querySelector("#modal").open`)
	p.click("#thread .back")
	p.click("#talk .back")
	p.click(ofTheBot)
	p.until(has(composer, "") + ` && ` + has(`[data-testid="prompt"]`, ""))
	fits("the bot's messages")
	p.click(`[data-testid="tab-home"]`)
	p.until(has(home, "Active version"))
	fits("the home")
}
