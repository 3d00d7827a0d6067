package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"switchboard/examples/backoffice"
	"switchboard/journal"
	"switchboard/slack/sim"
)

// effectBot is a bot's process. It is started again when it was killed, until it is to end.
type effectBot struct {
	w       *effectWorld
	env     []string
	mu      sync.Mutex
	cmd     *exec.Cmd
	out     *tail
	ended   chan struct{} // closed when the process has ended
	err     error         // of its end
	running bool
	deaths  int
}

// start starts one more bot and waits until it serves and is connected.
func (w *effectWorld) start() *effectBot {
	w.t.Helper()
	b := &effectBot{w: w}
	w.mu.Lock()
	b.env = append(slices.Clone(w.env), childVar+"=1")
	if w.passages != "" {
		b.env = append(slices.Clone(w.env), fmt.Sprintf("%s=%s?bot=%d", seamedVar, w.passages, len(w.bots)))
	}
	w.bots = append(w.bots, b)
	w.mu.Unlock()
	if err := b.start(); err != nil {
		w.t.Fatal(err)
	}
	return b
}

// bot gives the bot of a number.
func (w *effectWorld) bot(number string) *effectBot {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := strconv.Atoi(number)
	if err != nil {
		n = 0
	}
	return w.bots[n]
}

// start starts the process. That it is killed meanwhile is no error.
func (b *effectBot) start() error {
	ctx, from := b.w.t.Context(), b.w.ws.Mark()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "serve", filepath.Join(b.w.dir, "pack")) //nolint:noctx // this very program; the world sees to its end
	cmd.Env = b.env
	out := &tail{serving: make(chan struct{})}
	cmd.Stderr = out
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	b.mu.Lock()
	b.cmd, b.out, b.ended, b.running = cmd, out, ended, true
	b.mu.Unlock()
	go func() {
		err := cmd.Wait()
		b.mu.Lock()
		b.err, b.running = err, false
		b.mu.Unlock()
		close(ended)
	}()
	select {
	case <-out.serving:
	case <-ended:
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.killed() {
			return fmt.Errorf("the bot ended at its start: %w\n%s", b.err, out)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the bot does not serve: %w\n%s", context.Cause(ctx), out)
	}
	_, err = b.w.ws.Await(ctx, from, func(e sim.Entry) bool { return e.What == sim.Opened })
	return err
}

// killed says whether the process that has ended was killed; b.mu is held.
func (b *effectBot) killed() bool {
	exit, ok := errors.AsType[*exec.ExitError](b.err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// kill ends the bot as a power cut would, and waits for its end.
func (b *effectBot) kill() {
	b.mu.Lock()
	p, ended := b.cmd.Process, b.ended
	b.deaths++
	b.mu.Unlock()
	_ = p.Kill() // it may have ended
	<-ended
}

// stop ends the bot as an operator would.
func (b *effectBot) stop() {
	t := b.w.t
	t.Helper()
	b.mu.Lock()
	p, ended := b.cmd.Process, b.ended
	b.mu.Unlock()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("stop the bot: %v\n%s", err, b.out)
	}
	<-ended
	if b.err != nil {
		t.Errorf("the bot did not stop well: %v\n%s", b.err, b.out)
	}
}

// end ends whatever runs.
func (b *effectBot) end() {
	b.mu.Lock()
	running, p, ended := b.running, b.cmd.Process, b.ended
	b.mu.Unlock()
	if running {
		_ = p.Signal(syscall.SIGCONT)
		_ = p.Kill()
		<-ended
	}
}

type effectHealth struct{ Waiting int }

// health is what the bot says of itself, once it serves.
func (b *effectBot) health(ctx context.Context) (h effectHealth, err error) {
	b.mu.Lock()
	out := b.out
	b.mu.Unlock()
	select {
	case <-out.serving:
	default:
		return h, errors.New("the bot does not serve yet")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+out.addr+"/healthz", nil)
	if err != nil {
		return h, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return h, err
	}
	if err := errors.Join(json.NewDecoder(resp.Body).Decode(&h), resp.Body.Close()); err != nil {
		return h, err
	}
	if resp.StatusCode != http.StatusOK {
		return h, fmt.Errorf("the bot's health is %s", resp.Status)
	}
	return h, nil
}

// turns reads all turns from the store.
func (w *effectWorld) turns(ctx context.Context) (out []journal.Turn, err error) {
	env := func(name string) (string, bool) {
		if name == "BOT_STORE" {
			return w.o.store, true
		}
		return "", false
	}
	r, err := past(ctx, env, filepath.Join(w.dir, "pack"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	begun, err := r.Streams(ctx, journal.KindBegun, 1<<20)
	if err != nil {
		return nil, err
	}
	for _, b := range begun {
		t, _, err := journal.Read(ctx, r, b.Stream)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// books compares the bot's ledger with the payment provider's: each effect out there has one row, and each row that says that
// it was done has one effect. What the row leaves in doubt may have an effect or not.
func (w *effectWorld) books(ctx context.Context) error {
	turns, err := w.turns(ctx)
	if err != nil {
		return err
	}
	effects, err := w.office.Effects(ctx)
	if err != nil {
		return err
	}
	kinds := map[string]string{"payments.refund": "refund", "payments.payout": "refund", "customers.notify": "notice"}
	var errs []error
	for _, t := range turns {
		for _, c := range t.Calls {
			kind, ok := kinds[c.Tool]
			if !ok {
				continue
			}
			var args struct{ Order string }
			if err := json.Unmarshal(c.Args, &args); err != nil {
				return fmt.Errorf("read the arguments of %s in turn %s: %w", c.Tool, t.Turn, err)
			}
			i := slices.IndexFunc(effects, func(e backoffice.Effect) bool {
				return e.Kind == kind && e.Order == args.Order && (c.Tool == "payments.payout" || len(c.Attempts) > 0 && e.Key == c.Attempts[0].Key)
			})
			if found := i >= 0; found {
				effects = slices.Delete(effects, i, i+1)
			} else if c.State() == journal.Done {
				errs = append(errs, fmt.Errorf("turn %s says that %s of %s is done, and the provider knows nothing of it", t.Turn, c.Tool, args.Order))
			}
			if s := c.State(); i >= 0 && s != journal.Done && s != journal.InDoubt {
				errs = append(errs, fmt.Errorf("turn %s says that %s of %s is %s, and it took effect", t.Turn, c.Tool, args.Order, s))
			}
		}
	}
	for _, e := range effects {
		errs = append(errs, fmt.Errorf("%s %s of %s stands in no row of the ledger", e.Kind, e.ID, e.Order))
	}
	return errors.Join(errs...)
}

// idle waits until nothing waits in any queue, as the bot itself says.
func (b *effectBot) idle(ctx context.Context) error {
	for {
		body, err := b.health(ctx)
		if err == nil && body.Waiting == 0 {
			return nil
		}
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("wait for the bot to be idle: %w (%d wait)", err, body.Waiting)
		}
	}
}
