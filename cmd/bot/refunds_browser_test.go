package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"switchboard/examples/backoffice"
)

// TestPlaygroundRefunds tells the story of a refund above 50 in the playground, in a real browser: who asks, who decides, what
// the payment provider got, and what the thread says of it. The parts share one playground, one back office and one browser.
// The picture of a card that the documentation shows is taken on the way:
//
//	go test -run TestPlaygroundRefunds -artifacts -outputdir DIR ./cmd/bot
func TestPlaygroundRefunds(t *testing.T) { //nolint:tparallel // the parts share one playground, one after the other
	t.Parallel()
	b := newBench(t)
	s := &refundStory{office: b.office(), url: playRefunds(t, b), browser: launch(t)}
	for _, part := range []struct {
		name string
		do   func(*testing.T, *refundStory)
	}{
		{"neither the clerk nor a guest decides, and finance says no", refuseRefund},
		{"finance says yes, by keyboard alone, and the provider's answer is lost", approveRefund},
		{"nobody knows, until a person looks", doubtRefund},
	} {
		t.Run(part.name, func(t *testing.T) { part.do(t, s) })
	}
}

// refundStory is a running playground of the refunds, and the back office that it pays with.
type refundStory struct {
	office  *backoffice.Server
	url     string
	browser *browser
}

const (
	sue, pia, bob, fay   = "U0SUE", "U0PIA", "U0BOB", "U0FAY" // two clerks, and two of finance
	supportRoom, payRoom = "C0SUPPORT", "C0FINANCE"

	inRoom       = `#talk `
	approveThis  = `[data-testid="button-switchboard.card.approve"]`
	denyThis     = `[data-testid="button-switchboard.card.deny"]`
	itHappened   = `[data-testid="button-switchboard.card.happened"]`
	cardButtons  = `[data-testid^="button-switchboard.card"]`
	privateWords = ".whisper"
)

// as opens a window of its own for a person.
func (s *refundStory) as(t *testing.T, who, channel string) *window {
	t.Helper()
	return look(t, s.browser, s.url+"#as="+who+"&in="+channel, 1280, 800)
}

// refunds gives the requests for a refund that reached the provider from a mark on, and what it booked.
func (s *refundStory) refunds(t *testing.T, since refundMark) (asked []backoffice.Request, booked []backoffice.Effect) {
	t.Helper()
	for _, r := range s.office.Requests()[since.requests:] {
		if r.Method == http.MethodPost && r.Path == "/refunds" {
			asked = append(asked, r)
		}
	}
	all, err := s.office.Effects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all[since.effects:] {
		if e.Kind == "refund" {
			booked = append(booked, e)
		}
	}
	return asked, booked
}

// refundMark is a point in the back office's records.
type refundMark struct{ requests, effects int }

func (s *refundStory) mark(t *testing.T) refundMark {
	t.Helper()
	effects, err := s.office.Effects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return refundMark{len(s.office.Requests()), len(effects)}
}

func (s *refundStory) fault(t *testing.T, match string, kind backoffice.Kind, times int) {
	t.Helper()
	if err := s.office.Fault(backoffice.Fault{Match: match, Kind: kind, Times: times}); err != nil {
		t.Fatal(err)
	}
}

// says writes into the channel on the screen, in which the bot is not mentioned first.
func (p *window) says(words string) {
	p.t.Helper()
	p.click(composer)
	p.keys(words + kb.Enter)
}

// openThread opens the thread of the message with these words.
func (p *window) openThread(words string) {
	p.t.Helper()
	p.until(has(inRoom+".message", words) + ` && ` + has(inRoom+".message .replies", "last at"))
	ts := eval[string](p, `[...document.querySelectorAll("#talk .message")].find((e) => e.innerText.includes(`+inQuotes(words)+`)).dataset.ts`)
	p.click(inRoom + `[data-testid="replies"][data-ts="` + ts + `"]`)
}

// card waits for an open card that says all this, and gives the digest on it.
func (p *window) card(where string, say ...string) (digest string) {
	p.t.Helper()
	it := `[...document.querySelectorAll(` + inQuotes(where+".message") + `)].find((e) => e.querySelector(` + inQuotes(cardButtons) + `)`
	for _, words := range say {
		it += ` && e.innerText.includes(` + inQuotes(words) + `)`
	}
	it += `)`
	p.until(it)
	text := eval[string](p, it+`.innerText`)
	if digest = regexp.MustCompile(`\b[0-9a-f]{64}\b`).FindString(text); digest == "" {
		p.t.Errorf("the card has no digest:\n%s", text)
	}
	return digest
}

// pictureOfCard keeps the thread with its open card beside the results of the test, in a window in which all of it can be seen.
func (p *window) pictureOfCard(name string) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(1440, 1640))
	p.until(`innerHeight === 1640`)
	data, err := chromedp.Run(p.ctx, chromedp.Screenshot(chromedp.CSS("#thread")))
	if err != nil {
		p.t.Fatalf("take a picture: %v", err)
	}
	if err := os.WriteFile(filepath.Join(p.t.ArtifactDir(), name), data, 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.do(chromedp.EmulateViewport(1280, 800))
	p.until(`innerHeight === 800`)
}

// decided waits until a card stands there as decided, without a button, and says all this.
func (p *window) decided(where string, say ...string) {
	p.t.Helper()
	for _, words := range say {
		p.until(`[...document.querySelectorAll(` + inQuotes(where+".message") + `)].some((e) => e.innerText.includes("(decided)") && e.innerText.includes(` + inQuotes(words) + `) && !e.querySelector(` + inQuotes(cardButtons) + `))`)
	}
	p.until(`!document.querySelector(` + inQuotes(where+cardButtons) + `)`)
}

// approve presses the button of the one open card and says yes to the last question, which names the tool.
func (p *window) approve(where string) {
	p.t.Helper()
	p.click(where + approveThis)
	p.until(`document.querySelector("#confirm").open && ` + has("#confirm", "payments.refund will run with exactly the arguments"))
	p.click("#confirm .primary")
	p.until(`!document.querySelector("#confirm").open`)
}

// tabTo goes from element to element until the focus is on one of these.
func (p *window) tabTo(selector string, m ...chromedp.Modifier) {
	p.t.Helper()
	for range 60 {
		p.keys(kb.Tab, m...)
		if eval[bool](p, `document.activeElement.matches(`+inQuotes(selector)+`)`) {
			return
		}
	}
	p.t.Fatalf("Tab does not lead to %s; the focus is on %s", selector, eval[string](p, `document.activeElement.outerHTML`))
}

// playRefunds starts the playground as the command does, gives the address of its page, and ends it with the test.
func playRefunds(t *testing.T, b *bench) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	out, errs, ended := &announcement{address: make(chan string, 1)}, &lockedText{}, make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"playground", "../../examples/refunds", "--offline", "--addr", "127.0.0.1:0"}, streams{strings.NewReader(""), out, errs}, b.get)
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != exitGood {
			t.Errorf("the playground ended with exit code %d, want %d", code, exitGood)
		}
		for line := range strings.Lines(errs.String()) {
			if strings.Contains(line, " ERR ") {
				t.Errorf("the playground wrote to stderr: %s", line)
			}
		}
	})
	select {
	case address := <-out.address:
		return address
	case code := <-ended:
		ended <- code
		t.Fatalf("the playground ended before it was open\n%s", errs.String())
	}
	return ""
}

// announcement is what the playground prints, of which the address is passed on.
type announcement struct {
	lockedText

	found   sync.Once
	address chan string
}

func (a *announcement) Write(b []byte) (int, error) {
	n, err := a.lockedText.Write(b)
	if s := regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+\S*`).FindString(a.String()); s != "" {
		a.found.Do(func() { a.address <- s })
	}
	return n, err
}

// refuseRefund: a clerk asks, her own yes does not count, and finance says no with a reason. Nothing is paid, whatever the model
// tries afterwards.
func refuseRefund(t *testing.T, s *refundStory) {
	t.Helper()
	from := s.mark(t)
	clerk := s.as(t, sue, supportRoom)
	const request = "refund 90 euros of A-1008, he changed his mind"
	clerk.says(request)
	facts := []string{
		"Approval needed", "payments.refund", "On request of @Sue Adler", "order-refunds",
		"order", "A-1008", "amount", "9000", "order.paid", "24900", "pay back what the clerk named",
		"More than 50.00 EUR of one order", "Who may decide", "After that it counts as refused",
	}
	digest := clerk.card(inThread, facts...)
	finance := s.as(t, bob, payRoom)
	if there := finance.card(inRoom, facts...); there != digest {
		t.Errorf("the digest is %s in the thread and %s in finance's channel", digest, there)
	}

	clerk.approve(inThread)
	clerk.until(has(inThread+privateWords, "You asked for this yourself"))
	if strings.Contains(finance.text(), "You asked for this yourself") {
		t.Error("others see what the clerk was told privately")
	}
	refundAsGuest(t, s, request)

	finance.click(inRoom + denyThis)
	finance.until(`document.querySelector("#modal").open && document.activeElement.tagName === "TEXTAREA"`)
	finance.keys("A tent that was used is not taken back.")
	finance.click(`[data-testid="modal-submit"]`)
	finance.until(has(inRoom+privateWords, "Recorded: refused by Bob Keane"))
	finance.decided(inRoom, "refused by Bob Keane", "A tent that was used is not taken back.")
	clerk.decided(inThread, "refused by Bob Keane", "A tent that was used is not taken back.")
	clerk.until(has(inThread+".message", "Finance said no. Nothing of A-1008 was paid back."))
	clerk.until(has(inThread+".message", "Not done: ") + ` && ` + idle)
	if asked, booked := s.refunds(t, from); len(asked) > 0 || len(booked) > 0 {
		t.Errorf("the provider got %+v and booked %+v, want nothing", asked, booked)
	}
}

// refundAsGuest: a guest gets no assistant, sees no room of finance's, and their word about a card does not count.
func refundAsGuest(t *testing.T, s *refundStory, card string) {
	t.Helper()
	guest := s.as(t, gil, supportRoom)
	if eval[bool](guest, `Boolean(document.querySelector('[data-testid="channel-finance"]'))`) {
		t.Error("a guest sees the channel of finance")
	}
	guest.click(composer)
	guest.keys("@ref") // where the bot is not mentioned it does not even say no
	guest.until(has(".suggest [aria-selected=true]", "refunds"))
	guest.keys(kb.Enter)
	guest.keys("refund order A-1001, 80 euros" + kb.Enter)
	guest.until(has(inThread+".message", "none of the assistants here is open to you"))
	guest.click("#thread .close")
	guest.openThread(card)
	guest.approve(inThread)
	guest.until(has(inThread+privateWords, "You may not decide this. Nothing was recorded."))
}

// approveRefund: finance says yes without a pointer, the provider pays and its answer is lost. It is paid once, the request is the
// one that was shown, and whoever comes late is told who decided.
func approveRefund(t *testing.T, s *refundStory) {
	t.Helper()
	from := s.mark(t)
	s.fault(t, "POST /refunds", backoffice.FaultTimeoutAfter, 1)
	clerk := s.as(t, sue, supportRoom)
	clerk.says("refund order A-1001, 80 euros")
	digest := clerk.card(inThread, "A-1001", "8000")
	clerk.pictureOfCard("approval.png")
	finance, late := s.as(t, bob, payRoom), s.as(t, fay, payRoom)
	if there := finance.card(inRoom, "A-1001", "8000"); there != digest {
		t.Errorf("the digest is %s in the thread and %s in finance's channel", digest, there)
	}
	late.click(inRoom + denyThis)
	late.until(`document.querySelector("#modal").open && document.activeElement.tagName === "TEXTAREA"`)

	finance.keys(kb.Tab + kb.Enter) // the link to the box
	finance.until(`document.activeElement.id === "composer"`)
	finance.tabTo(approveThis, chromedp.ModifierShift)
	finance.keys(kb.Enter)
	finance.until(`document.querySelector("#confirm").open && document.activeElement.innerText === "Not yet"`)
	finance.tabTo("#confirm .primary")
	finance.keys(kb.Enter)
	finance.until(has(inRoom+privateWords, "Recorded: approved by Bob Keane"))
	finance.decided(inRoom, "approved by Bob Keane")
	clerk.decided(inThread, "approved by Bob Keane")

	late.keys("Not without the parcel.")
	late.click(`[data-testid="modal-submit"]`)
	late.until(has(inRoom+privateWords, "This was decided before: approved by Bob Keane"))

	clerk.until(has(inThread+".message", "80.00 euros of A-1001 are paid back, and the customer knows."))
	clerk.until(has(inThread+".message", "Done: ") + ` && ` + idle)
	asked, booked := s.refunds(t, from)
	if len(asked) != 2 || asked[0].Fault != backoffice.FaultTimeoutAfter || asked[0].Key == "" || asked[0].Key != asked[1].Key {
		t.Errorf("the provider got %+v, want the same key twice", asked)
	}
	if len(booked) != 1 || booked[0].Order != "A-1001" || booked[0].Amount != 8000 {
		t.Errorf("the provider booked %+v, want 80.00 of A-1001 once", booked)
	}
	for _, r := range asked {
		if sum := sha256.Sum256([]byte(r.Method + " " + r.URI + "\n" + r.Body)); hex.EncodeToString(sum[:]) != digest {
			t.Errorf("the card's digest is %s, but the provider got %+v", digest, r)
		}
	}
}

// doubtRefund: the provider pays, its answers are lost, and it cannot be asked. The thread says that nobody knows, until somebody
// has looked.
func doubtRefund(t *testing.T, s *refundStory) {
	t.Helper()
	from := s.mark(t)
	s.fault(t, "POST /refunds", backoffice.FaultTimeoutAfter, 1)
	s.fault(t, "POST /refunds", backoffice.FaultBadGateway, -1)
	s.fault(t, "GET /refunds", backoffice.FaultBadGateway, -1)
	defer s.office.ClearFaults()
	clerk := s.as(t, sue, supportRoom)
	clerk.says("refund 25 euros of A-1002, one pole was bent")
	clerk.until(has(inThread+".message", "Not known whether it took effect"))
	digest := clerk.card(inThread, "Did this take place?", "What is known", "A-1002", "2500")
	other := s.as(t, pia, supportRoom)
	other.openThread("refund 25 euros of A-1002")
	other.click(inThread + itHappened)
	other.until(has(inThread+privateWords, "it took effect, says Pia Lund"))
	for _, p := range []*window{other, clerk} {
		p.decided(inThread, "it took effect, says Pia Lund")
		p.until(has(inThread+".message", "For the record, ") + ` && ` + has(inThread+".message", "it took effect, says Pia Lund"))
	}
	asked, booked := s.refunds(t, from)
	if len(booked) != 1 || len(asked) < 1 || slices.ContainsFunc(asked, func(r backoffice.Request) bool { return r.Key != booked[0].Key || r.Body != booked[0].Body }) {
		t.Errorf("the provider got %+v and booked %+v, want one refund, and its request only", asked, booked)
	}
	if sum := sha256.Sum256([]byte("POST /refunds\n" + booked[0].Body)); hex.EncodeToString(sum[:]) != digest {
		t.Errorf("the card's digest is %s, but %q was booked", digest, booked[0].Body)
	}
}
