package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"switchboard/chat"
	"switchboard/examples/backoffice"
	"switchboard/store/redistest"
)

const refunds = "../../examples/refunds"

// printout is what a command prints, to be waited for.
type printout struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{} // closed when something comes
}

func (p *printout) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.more != nil {
		close(p.more)
		p.more = nil
	}
	return p.text.Write(b)
}

func (p *printout) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// await waits until the text is printed.
func (p *printout) await(t *testing.T, text string) {
	t.Helper()
	for {
		p.mu.Lock()
		found := strings.Contains(p.text.String(), text)
		if p.more == nil {
			p.more = make(chan struct{})
		}
		more := p.more
		p.mu.Unlock()
		if found {
			return
		}
		select {
		case <-more:
		case <-t.Context().Done():
			t.Fatalf("%q was not printed:\n%s", text, p)
		}
	}
}

// talk is a bot chat at work, whose lines a test types.
type talk struct {
	t     *testing.T
	out   *printout
	errs  *printout
	lines *io.PipeWriter
	ended chan int
}

// open starts a bot chat and waits until it listens.
func (b *bench) open(args ...string) *talk {
	b.t.Helper()
	in, lines := io.Pipe()
	c := &talk{b.t, &printout{}, &printout{}, lines, make(chan int, 1)}
	go func() {
		c.ended <- run(b.t.Context(), append([]string{"chat"}, args...), streams{in, c.out, c.errs}, b.get)
	}()
	c.out.await(b.t, "you> ")
	return c
}

func (c *talk) enter(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.lines, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *talk) close() {
	c.t.Helper()
	if err := c.lines.Close(); err != nil {
		c.t.Fatal(err)
	}
	if code := <-c.ended; code != exitGood {
		c.t.Errorf("bot chat: exit code %d\n%s%s", code, c.out, c.errs)
	}
}

// open decisions, as bot approvals lists them.
func (b *bench) waiting() []waiting {
	b.t.Helper()
	var out []waiting
	for line := range strings.Lines(b.bot(exitGood, "approvals", "--json")) {
		var w waiting
		if err := json.Unmarshal([]byte(line), &w); err != nil {
			b.t.Fatalf("printed %q: %v", line, err)
		}
		out = append(out, w)
	}
	return out
}

// says calls the program and gives what it printed to either side.
func (b *bench) says(code int, args ...string) string {
	b.t.Helper()
	var out, errs strings.Builder
	if got := run(b.t.Context(), args, streams{strings.NewReader(""), &out, &errs}, b.get); got != code {
		b.t.Fatalf("bot %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, out.String(), errs.String())
	}
	return out.String() + errs.String()
}

const (
	eighty = "refund order A-1001, 80 euros"
	ninety = "refund 90 euros of A-1008, he changed his mind"
)

// The operator decides in a bot that is at work, over a socket that only its owner can open. Nobody else can: not without the
// flag, and not by saying so in the conversation.
func TestM5_TheOperatorDecidesAtTheDoor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := strings.TrimPrefix(b.env["BOT_STORE"], "sqlite:") + ".sock"

	c := b.open(refunds, "--as", "U0SUE", "--in", "C0SUPPORT")
	c.enter(ninety)
	c.out.await(t, "this waits for a person")
	id := b.waiting()[0].Card
	if said := b.says(exitNo, "approvals", "approve", id); !strings.Contains(said, "started without --local-approvals") {
		t.Errorf("a bot without the flag says %q", said)
	}
	c.enter("/approve " + id)
	c.out.await(t, "Start it again with that flag")
	c.close()
	if w := b.waiting(); len(w) != 1 || w[0].Card != id {
		t.Fatalf("waiting: %+v, want the one card still", w)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there after the end: %v", err)
	}

	c = b.open(refunds, "--as", "U0SUE", "--in", "C0SUPPORT", "--local-approvals")
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the socket is %v, %v; want one for its owner alone", info, err)
	}
	if said := b.says(exitNo, "approvals", "answer", id, "yes"); !strings.Contains(said, "no answer to this card") {
		t.Errorf("an answer to an approval: %q", said)
	}
	if said := b.says(exitGood, "approvals", "deny", id, "--reason", "Tents that were used are not taken back."); !strings.Contains(said, "refused by local:") {
		t.Errorf("a denial: %q", said)
	}
	c.out.await(t, "Finance said no.")
	if said := b.says(exitNo, "approvals", "approve", id); !strings.Contains(said, "decided before") {
		t.Errorf("a second decision: %q", said)
	}
	if show := b.bot(exitGood, "approvals", "show", id); !strings.Contains(show, "not taken back") || !strings.Contains(show, "refused by local:") {
		t.Errorf("the card, decided:\n%s", show)
	}
	c.close()
	if w := b.waiting(); len(w) != 0 {
		t.Errorf("waiting: %+v", w)
	}
}

// The process that asked is gone; what is decided meanwhile, and who decides, another one goes on with.
func TestD3_ARestartBetweenAskAndDecision(t *testing.T) {
	t.Parallel()
	for name, decide := range map[string]func(b *bench, id string) string{
		"decided in the next process": func(b *bench, _ string) string {
			c := b.open(refunds, "--local-approvals")
			c.enter("/approve")
			c.out.await(b.t, "are paid back")
			c.close()
			return c.out.String()
		},
		"decided while nobody is at work": func(b *bench, id string) string {
			if said := b.says(exitRun, "approvals", "approve", id); !strings.Contains(said, "no bot is at work") || !strings.Contains(said, "--pack FOLDER") {
				b.t.Errorf("nobody at work: %q", said)
			}
			if said := b.says(exitGood, "approvals", "approve", id, "--local-approvals", "--pack", refunds); !strings.Contains(said, "approved by local:") {
				b.t.Errorf("decided at once: %q", said)
			}
			return b.bot(exitGood, "chat", refunds, "--json")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			office := b.office()
			line := b.bot(exitGood, "chat", refunds, "--json", "--as", "U0SUE", "--in", "C0SUPPORT", "-m", eighty)
			var s waitingTurn
			if err := json.Unmarshal([]byte(line), &s); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			w := b.waiting()
			if s.Outcome != "waiting" || len(s.Waits) != 1 || len(w) != 1 || s.Waits[0].Card != w[0].Card || s.Waits[0].Digest == nil || s.Waits[0].Until == nil {
				t.Fatalf("the turn that waits: %s\nlisted: %+v", line, w)
			}
			if n := paid(t, office); n != 0 {
				t.Fatalf("%d requests to pay before anybody decided", n)
			}
			if said := decide(b, w[0].Card); !strings.Contains(said, "80.00 euros of A-1001 are paid back") {
				t.Errorf("the next process says\n%s", said)
			}
			if n := paid(t, office); n != 1 {
				t.Errorf("paid %d times, want once", n)
			}
			if runs := b.bot(exitGood, "runs"); !strings.Contains(runs, "answered") || strings.Contains(runs, "waiting") {
				t.Errorf("runs:\n%s", runs)
			}
		})
	}
}

// paid counts the requests to pay something back that were answered well.
func paid(t *testing.T, office *backoffice.Server) (n int) {
	t.Helper()
	for _, r := range office.Requests() {
		if r.Method == http.MethodPost && r.Path == "/refunds" && r.Status < 300 {
			n++
		}
	}
	return n
}

// An effect that nobody knows the outcome of needs a person: the doctor says so until somebody has looked.
func TestTheDoctorSendsForAPerson(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	office := b.office()
	if said := b.says(exitRun, "doctor"); !strings.Contains(said, "talk to a bot first") {
		t.Errorf("no store: %q", said)
	}
	for _, f := range []backoffice.Fault{{Match: "POST /refunds", Kind: backoffice.FaultResetAfter, Times: -1}, {Match: "GET /refunds", Kind: backoffice.FaultUnavailable, Times: -1}} {
		if err := office.Fault(f); err != nil {
			t.Fatal(err)
		}
	}
	say := []string{"chat", refunds, "--json", "--as", "U0SUE", "--in", "C0SUPPORT", "-m", "refund 25 euros of A-1002, one pole was bent"}
	if s := b.summaries(b.bot(exitGood, say...)); len(s) != 1 || s[0].Calls[0].Outcome != "unknown" {
		t.Fatalf("the turn: %+v", s)
	}
	var d diagnosis
	if err := json.Unmarshal([]byte(b.bot(exitNo, "doctor", "--json")), &d); err != nil {
		t.Fatal(err)
	}
	if d.OK || d.Store != "sqlite" || d.Promise == "" || len(d.Unknown) != 1 || len(d.Waiting) != 0 || len(d.Needs) != 1 || d.Queued != 0 {
		t.Errorf("diagnosis %+v", d)
	}
	id := d.Unknown[0].Card
	if said := b.bot(exitNo, "doctor"); !strings.Contains(said, "NEEDED   "+id) {
		t.Errorf("for people:\n%s", said)
	}
	b.bot(exitGood, "approvals", "happened", id, "--local-approvals", "--pack", refunds)
	if said := b.bot(exitGood, "chat", refunds); !strings.Contains(said, "For the record") || !strings.Contains(said, "it took effect, says local:") {
		t.Errorf("the thread is told\n%s", said)
	}
	if said := b.bot(exitGood, "doctor"); !strings.Contains(said, "nothing needs a person") {
		t.Errorf("afterwards:\n%s", said)
	}
}

// bench of one door: what lies in its place, and where it may not be.
type hand struct{ by bool }

func (h hand) ByHand() bool { return h.by }
func (h hand) Decide(_ context.Context, d chat.Decision) (chat.Ruling, error) {
	return chat.Ruling{Taken: d.Local && d.By.ID == "local:me", Words: string(d.Say) + " " + d.Words}, nil
}

func TestM5_WhatLiesInTheDoorsPlace(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "bot.db.sock")
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil { // as a killed process leaves it
		t.Fatal(err)
	}
	say := spoken{Key: "k", Card: "a_1", Say: chat.Deny, Words: "no", User: "me"}
	if _, err := knock(ctx, path, say); !errors.Is(err, errNobodyThere) {
		t.Errorf("a stale socket: %v", err)
	}
	d, err := openDoor(ctx, path, hand{true})
	if err != nil {
		t.Fatal(err)
	}
	if h, err := knock(ctx, path, say); err != nil || !h.Taken || h.Words != "deny no" {
		t.Errorf("a decision: %+v, %v", h, err)
	}
	if h, err := knock(ctx, path, spoken{Card: "a_1"}); err != nil || h.Taken || !strings.Contains(h.Words, "must be given") {
		t.Errorf("half a decision: %+v, %v", h, err)
	}
	if h, err := knock(ctx, path, spoken{Key: "k", Card: "a_1", Say: chat.Deny, User: "me", Words: strings.Repeat("x", mostSaid)}); err == nil && h.Taken {
		t.Error("a decision longer than the door takes was taken")
	}
	if err := d.close(ctx); err != nil {
		t.Error(err)
	}
	if _, err := knock(ctx, path, say); !errors.Is(err, errNobodyThere) {
		t.Errorf("a closed door: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}

	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openDoor(ctx, path, hand{true}); err == nil || !strings.Contains(err.Error(), "something else lies there") {
		t.Errorf("a file in its place: %v", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "mine" {
		t.Errorf("the file is %q, %v", data, err)
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 90), "bot.db.sock")
	if err := os.Mkdir(filepath.Dir(long), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := openDoor(ctx, long, hand{true}); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a long path: %v", err)
	}
}

// On Redis whoever reads names the pack, decisions are recorded at once, and a terminal is no replica.
func TestCommandsOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	b := newBench(t)
	b.env["BOT_STORE"] = server.URL()
	if said := b.says(exitRun, "chat", refunds, "-m", eighty); !strings.Contains(said, "BOT_STORE=sqlite:chat.db") {
		t.Errorf("bot chat: %q", said)
	}
	for _, args := range [][]string{{"runs"}, {"trace", "r_0123456789abcdef"}, {"approvals"}, {"doctor"}} {
		if said := b.says(exitUsage, args...); !strings.Contains(said, "--pack") {
			t.Errorf("bot %s: %q", args[0], said)
		}
	}
	if said := b.says(exitRun, "runs", "--pack", refunds); !strings.Contains(said, "none of this name") {
		t.Errorf("no store: %q", said)
	}
	id := "a_0123456789abcdef0123"
	if said := b.says(exitRun, "approvals", "approve", id); !strings.Contains(said, "--local-approvals --pack FOLDER") {
		t.Errorf("bot approvals approve: %q", said)
	}
	if said := b.says(exitNo, "approvals", "approve", id, "--local-approvals", "--pack", refunds); !strings.Contains(said, "I know nothing of this decision") {
		t.Errorf("a card that there is not: %q", said)
	}
	if said := b.says(exitGood, "doctor", refunds); !strings.Contains(said, "Redis 7") || !strings.Contains(said, "nothing needs a person") {
		t.Errorf("bot doctor: %q", said)
	}
	b.env["BOT_STORE"] = "redis://somebody:canary-secret@127.0.0.1:1/0"
	if said := b.says(exitRun, "doctor", refunds); strings.Contains(said, "canary-secret") {
		t.Errorf("a password is printed: %q", said)
	}
}
