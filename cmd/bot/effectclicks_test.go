package main

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"switchboard/examples/backoffice"
	"switchboard/slack/sim"
)

// press clicks once and gives what whoever clicked is told privately.
func (e *errand) press(t *testing.T, who string, m *sim.Message) string {
	t.Helper()
	from := e.w.ws.Mark()
	if _, err := e.w.ws.Click(sim.Click{From: who, Channel: m.Channel, TS: m.TS, Action: "switchboard.card.approve"}); err != nil {
		t.Fatal(err)
	}
	l, err := e.w.ws.Await(t.Context(), from, func(l sim.Entry) bool { return l.What == sim.Whispered && l.Person == who })
	if err != nil {
		t.Fatalf("%s is told nothing: %v", who, err)
	}
	return l.Text
}

// asks begins an errand and waits for its card in its thread.
func (w *effectWorld) asks(t *testing.T, asker, kind string, n int) (*errand, *sim.Message) {
	t.Helper()
	e, err := w.newErrand(t.Context(), kind)
	if err != nil {
		t.Fatal(err)
	}
	e.b, e.asker, e.cents = w.bots[0], asker, n
	if err := e.say(); err != nil {
		t.Fatal(err)
	}
	card, err := e.card(t.Context(), e.channel)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.b.idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e, card
}

// ends waits for the answer, and holds how much was paid back.
func (e *errand) ends(t *testing.T, refunds int, says string) {
	t.Helper()
	if err := e.answered(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.b.idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.see(); err != nil {
		t.Fatal(err)
	}
	if len(e.refunds) != refunds || len(e.replies) != 1 {
		t.Fatalf("%d refunds and %d replies, want %d and 1", len(e.refunds), len(e.replies), refunds)
	}
	if text := e.replies[0].Visible(); !strings.Contains(text, says) {
		t.Errorf("the reply says %q, want %q in it", text, says)
	}
}

// Whoever may not decide is told so, privately, and nothing of it counts: strangers to the matter, guests, the one who asked,
// and somebody who has left the group since. Then the right person clicks, after a restart of the bot.
func TestM5_OnlyWhoMayDecideDecides(t *testing.T) {
	t.Parallel()
	w := newEffectWorld(t, effectOptions{})
	b := w.start()
	e, card := w.asks(t, "U0BOB", "refund", errandCents)
	w.ws.AddGroup(sim.Group{ID: "S0FIN", Handle: "fin", Members: []string{"U0STR"}}) // Fay has left it
	for who, want := range map[string]string{
		"U0SUE": "You may not decide this. Nothing was recorded.",
		"U0GIL": "You may not decide this. Nothing was recorded.",
		"U0FAY": "You may not decide this. Nothing was recorded.",
		"U0BOB": "You asked for this yourself, so somebody else has to decide it. Nothing was recorded.",
	} {
		if told := e.press(t, who, card); !strings.HasPrefix(told, want) {
			t.Errorf("%s is told %q, want %q", who, told, want)
		}
	}
	b.stop()
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
	if told := e.press(t, "U0STR", card); !strings.HasPrefix(told, "Recorded: approved by") {
		t.Errorf("an approver is told %q", told)
	}
	e.ends(t, 1, ": ok, ok;")
	b.stop()
	if err := w.books(t.Context()); err != nil {
		t.Error(err)
	}
}

// The policy becomes stricter while a decision waits: it is approved, and nothing is paid.
func TestM5_AStricterPolicyHoldsForWhatWaits(t *testing.T) {
	t.Parallel()
	w := newEffectWorld(t, effectOptions{})
	b := w.start()
	e, card := w.asks(t, "U0SUE", "refund", errandCents)
	w.write("policy.yaml", effectPack()["policy.yaml"]+`  - {tools: [payments.refund], when: args.amount > 7000, verdict: deny, why: Not this week.}
`)
	for !strings.Contains(b.out.String(), "the changed pack is active") {
		if err := wait(t.Context(), 50*time.Millisecond); err != nil {
			t.Fatalf("the changed pack is not taken: %v\n%s", err, b.out)
		}
	}
	e.press(t, "U0FAY", card)
	e.ends(t, 0, ": denied;")
	b.stop()
	if err := w.books(t.Context()); err != nil {
		t.Error(err)
	}
}

var sha = regexp.MustCompile(`[0-9a-f]{64}`)

// digestOf is the digest of a request as it reached a server.
func digestOf(method, uri, body string) string {
	sum := sha256.Sum256([]byte(method + " " + uri + "\n" + body))
	return hex.EncodeToString(sum[:])
}

// What the card shows the digest of is, byte for byte, what the payment provider gets.
func TestM5_TheCardIsAboutTheBytesThatAreSent(t *testing.T) {
	t.Parallel()
	w := newEffectWorld(t, effectOptions{})
	b := w.start()
	e, card := w.asks(t, "U0SUE", "refund", errandCents)
	shown := sha.FindAllString(card.Visible(), -1)
	e.press(t, "U0BOB", card)
	e.ends(t, 1, ": ok, ok;")
	i := slices.IndexFunc(w.office.Requests(), func(r backoffice.Request) bool { return r.Method == "POST" && r.Path == "/refunds" })
	if i < 0 {
		t.Fatal("the provider has no such request")
	}
	r := w.office.Requests()[i]
	if got := digestOf(r.Method, r.URI, r.Body); len(shown) != 1 || shown[0] != got {
		t.Errorf("the card shows %v, and the provider got %s: %s %s %s", shown, got, r.Method, r.URI, r.Body)
	}
	b.stop()
}

// Twenty kilobytes of arguments do not fit into a message: all of them stand in a file beside the card, whose digest the card
// names; and these bytes are sent.
func TestM5_LongArgumentsStandInAFile(t *testing.T) {
	t.Parallel()
	const size = 20 << 10
	w := newEffectWorld(t, effectOptions{})
	b := w.start()
	e, card := w.asks(t, "U0SUE", "letter", size)
	shown := sha.FindAllString(card.Visible(), -1)
	if len(shown) != 2 || !strings.Contains(card.Visible(), "Not all of it fits") {
		t.Fatalf("the card names the digests %v, want that of the file and that of the request:\n%s", shown, card.Visible())
	}
	file := w.fileIn(t, e)
	if sum := sha256.Sum256([]byte(file)); hex.EncodeToString(sum[:]) != shown[0] {
		t.Errorf("the file has another digest than the card says")
	}
	e.press(t, "U0BOB", card)
	e.ends(t, 0, ": ok;")
	b.stop()
	w.letters.mu.Lock()
	defer w.letters.mu.Unlock()
	if len(w.letters.sent) != 1 {
		t.Fatalf("%d letters were sent, want 1", len(w.letters.sent))
	}
	l := w.letters.sent[0]
	if got := digestOf(l.method, l.uri, l.body); got != shown[1] || !strings.Contains(file, got) {
		t.Errorf("the card shows %s, and what was sent has %s", shown[1], got)
	}
	if text := strings.Repeat("All of this counts. ", size/20+1)[:size]; !strings.Contains(file, text) || !strings.Contains(l.body, text) {
		t.Errorf("the text of %d characters is not whole in the file (%d bytes) or in the letter (%d bytes)", size, len(file), len(l.body))
	}
}

// fileIn gives the content of the file in an errand's thread.
func (w *effectWorld) fileIn(t *testing.T, e *errand) string {
	t.Helper()
	for _, m := range w.ws.Messages(e.channel) {
		for _, f := range m.Files {
			if content, ok := w.ws.Bytes(f.ID); ok && m.Thread == e.root {
				return string(content)
			}
		}
	}
	t.Fatal("there is no file in the thread")
	return ""
}
