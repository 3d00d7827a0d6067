package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

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
		t.Skip("no chromium on the PATH: install it to test the playground")
	}
	alloc, stop := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(path), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("lang", "en-GB"), chromedp.UserDataDir(t.TempDir()))
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
	return &browser{ctx}
}

// soon is within which the page must show what a step brings about.
const soon = 20 * time.Second

// window is a window of the browser with the playground in it.
type window struct {
	t    *testing.T
	ctx  context.Context
	mu   sync.Mutex
	said []string // by the console
}

// look opens the page in a window of this size. What the page writes to the console fails the test.
func look(t *testing.T, b *browser, address string, width, height int64) *window {
	t.Helper()
	tab, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	ctx, stop := context.WithTimeoutCause(tab, time.Minute, errors.New("a part of the test took longer than a minute"))
	p := &window{t: t, ctx: ctx}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, height)); err != nil {
		t.Fatalf("open a window: %v", err)
	}
	console, read := chromedp.Console(ctx), make(chan struct{})
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
	if _, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.Navigate(address))
	p.until(`document.querySelector(".lamp.ok")`)
	return p
}

func (p *window) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, soon)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
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

func eval[T any](p *window, js string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](js))
	if err != nil {
		p.t.Fatalf("evaluate %s: %v", js, err)
	}
	return v
}

// until waits until an expression is true. It looks once a frame; chromedp.Poll cannot be used, since it makes functions
// from texts and the page's policy forbids that.
func (p *window) until(js string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, soon)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](
		`new Promise((done) => { const look = () => ((`+js+`) ? done(true) : requestAnimationFrame(look)); look(); })`, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("wait until %s: %v\nthe page shows:\n%s", js, err, p.text())
	}
}

// has is an expression: an element is shown, with some words in it.
func has(selector, words string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(%s)].some((e) => e.checkVisibility() && e.innerText.includes(%s))`, inQuotes(selector), inQuotes(words))
}

func inQuotes(s string) string {
	b, _ := json.Marshal(s) // a text can always be written
	return string(b)
}

func (p *window) click(selector string) {
	p.t.Helper()
	p.until(`document.querySelector(` + inQuotes(selector) + `)`)
	p.do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

func (p *window) keys(keys string, m ...chromedp.Modifier) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys, chromedp.KeyModifiers(m...)))
}

// note lets the page write down when each expression was true for the first time, so that what is shown for a moment only
// is not missed.
func (p *window) note(what map[string]string) {
	p.t.Helper()
	var rules strings.Builder
	for name, js := range what {
		fmt.Fprintf(&rules, "%s: () => %s,\n", inQuotes(name), js)
	}
	eval[any](p, `(() => {
		const rules = {`+rules.String()+`};
		window.noted = {};
		const look = () => {
			const now = performance.now();
			for (const k in rules) if (!(k in noted) && rules[k]()) noted[k] = now;
		};
		new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
	})()`)
}

// inOrder waits for the last of what was noted, and holds that all was seen, one not before the other.
func (p *window) inOrder(names ...string) map[string]float64 {
	p.t.Helper()
	p.until(inQuotes(names[len(names)-1]) + ` in noted`)
	at := eval[map[string]float64](p, `noted`)
	before := ""
	for _, n := range names {
		if at[n] == 0 {
			p.t.Errorf("%q was never seen; seen, in ms: %v", n, at)
		} else if before != "" && at[n] < at[before] {
			p.t.Errorf("%q was seen before %q, in ms: %v", n, before, at)
		}
		before = n
	}
	return at
}

// addressed types a message to the channel that mentions the bot, and sends it.
func (p *window) addressed(words string) {
	p.t.Helper()
	p.click(composer)
	p.keys("@clu")
	p.until(has(".suggest [aria-selected=true]", "club"))
	p.keys(kb.Enter)
	p.keys(words + kb.Enter)
}

// picture keeps what the window shows beside the results of the test.
func (p *window) picture(name string) {
	p.t.Helper()
	data, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatalf("take a picture: %v", err)
	}
	if err := os.WriteFile(filepath.Join(p.t.ArtifactDir(), name), data, 0o600); err != nil {
		p.t.Fatal(err)
	}
}
