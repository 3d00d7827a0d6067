package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"switchboard/slack/sim"
)

// rig is a bot as a process of its own, between a simulated Slack and a stand-in for models, all on this machine. What
// the bot is worth is measured on it, and it can be killed.
type rig struct {
	o     rigOptions
	dir   string
	ws    *sim.Workspace
	slack *sim.Server
	model *standIn

	bot    *exec.Cmd
	output *tail
	ended  chan error // the bot's end
}

// rigOptions say what the world around the bot is like.
type rigOptions struct {
	channels, people int
	latency, token   time.Duration // of the model's answers, and between their words
	limits           bool          // Slack's
	retry            []time.Duration
	env              []string // more for the bot's process
}

// rigPack is the pack that the rig's bot runs: one assistant with one tool.
func rigPack() map[string]string {
	return map[string]string{
		"bot.yaml": `pack: 1
name: bench
models: {fast: {use: openai/bench}}
router: {model: fast}
links: [docs.example.com]
`,
		"assistants/rows.yaml": `about: Rows of the desk.
examples: [show me the rows]
model: fast
rounds: 4
tools: [rows.get]
open_to: [everyone]
instructions: Look the row up, then answer.
`,
		"tools/rows.yaml": `server: {base: {env: ROWS_URL}}
tools:
  - {name: rows.get, about: Read one row., effect: none, get: /rows, args: {id: {type: integer}}}
`,
	}
}

const (
	rigBotToken = "xoxb-bench"   //nolint:gosec // it opens the rig's own workspace and nothing else
	rigAppToken = "xapp-1-bench" //nolint:gosec // as above
)

// newRig builds the world. The bot is not started yet.
func newRig(ctx context.Context, o rigOptions) (_ *rig, err error) {
	r := &rig{o: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if r.dir, err = os.MkdirTemp("", "rig-"); err != nil {
		return nil, fmt.Errorf("build a rig: %w", err)
	}
	for name, text := range rigPack() {
		path := filepath.Join(r.dir, "pack", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, fmt.Errorf("build a rig: %w", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("build a rig: %w", err)
		}
	}
	r.ws = sim.New(sim.Options{Team: "T0BENCH", Times: sim.Times{Retry: o.retry}})
	r.ws.AddApp(sim.App{ID: "A0BOT", Name: "bench", User: botUser, Bot: "B0BOT", BotToken: rigBotToken, AppToken: rigAppToken})
	members := []string{botUser}
	for i := range o.people {
		members = append(members, r.ws.AddPerson(sim.Person{ID: personOf(i), Name: fmt.Sprintf("person-%d", i)}).ID)
	}
	for i := range o.channels {
		r.ws.AddChannel(sim.Channel{ID: channelOf(i), Name: fmt.Sprintf("bench-%d", i), Members: members})
	}
	r.ws.SetLimits(o.limits)
	if r.slack, err = sim.Start(ctx, r.ws, "127.0.0.1:0"); err != nil {
		return nil, err
	}
	if r.model, err = startStandIn(ctx, o.latency, o.token); err != nil {
		return nil, err
	}
	return r, nil
}

func personOf(i int) string  { return fmt.Sprintf("U0P%d", i) }
func channelOf(i int) string { return fmt.Sprintf("C0B%d", i) }

// start starts the bot and waits until it serves and is connected.
func (r *rig) start(ctx context.Context) error {
	from := r.ws.Mark()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start the bot: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, "serve", filepath.Join(r.dir, "pack")) //nolint:gosec // this very program
	cmd.Env = append([]string{
		"BOT_STORE=sqlite:" + filepath.Join(r.dir, "bot.db"), "BOT_ADDR=127.0.0.1:0", "BOT_LOG=info",
		"SLACK_BOT_TOKEN=" + rigBotToken, "SLACK_APP_TOKEN=" + rigAppToken, "SLACK_API_URL=" + r.slack.APIURL(),
		"OPENAI_API_KEY=bench", "OPENAI_BASE_URL=" + r.model.url + "/v1", "ROWS_URL=" + r.model.url,
	}, r.o.env...)
	out := &tail{serving: make(chan struct{})}
	cmd.Stderr = out
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the bot: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // it ends with the process, for which stop and kill wait
	r.bot, r.output, r.ended = cmd, out, ended
	select {
	case <-out.serving:
		if _, err := r.ws.Await(ctx, from, func(e sim.Entry) bool { return e.What == sim.Opened }); err != nil {
			return errors.Join(fmt.Errorf("start the bot: it does not connect: %w\n%s", err, out), r.kill())
		}
		return nil
	case err := <-ended:
		return fmt.Errorf("start the bot: it ended: %w\n%s", err, out)
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("start the bot: it does not serve: %w\n%s", context.Cause(ctx), out), r.kill())
	}
}

// kill ends the bot as a power cut would.
func (r *rig) kill() error {
	if err := r.bot.Process.Kill(); err != nil {
		return fmt.Errorf("kill the bot: %w\n%s", err, r.output)
	}
	if err := <-r.ended; err == nil {
		return fmt.Errorf("kill the bot: it had ended by itself\n%s", r.output)
	}
	return nil
}

// stop ends the bot as an operator would.
func (r *rig) stop() error {
	if err := r.bot.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the bot: %w\n%s", err, r.output)
	}
	if err := <-r.ended; err != nil {
		return fmt.Errorf("stop the bot: %w\n%s", err, r.output)
	}
	return nil
}

// close takes the world down. The bot must have ended.
func (r *rig) close() error {
	var errs []error
	if r.model != nil {
		errs = append(errs, r.model.close())
	}
	if r.slack != nil {
		errs = append(errs, r.slack.Close())
	}
	if r.ws != nil {
		r.ws.Close()
	}
	if r.dir != "" {
		errs = append(errs, os.RemoveAll(r.dir))
	}
	return errors.Join(errs...)
}

// memory is the most that the bot's process has held, in bytes; now is what it holds.
func (r *rig) memory() (most, now int64, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.bot.Process.Pid))
	if err != nil {
		return 0, 0, fmt.Errorf("read the bot's memory: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		var kb int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kb); err == nil {
			most = kb << 10
		}
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kb); err == nil {
			now = kb << 10
		}
	}
	return most, now, nil
}

// tail keeps the last of what the bot logs, and notices when it serves.
type tail struct {
	serving chan struct{}
	addr    string // where it serves; to be read after serving

	mu    sync.Mutex
	lines []string
}

const mostLines = 200

// Write takes in whole lines, as the log writes them; exec calls it from one goroutine.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	in := bufio.NewScanner(bytes.NewReader(b))
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var line struct{ Message, Addr string }
		if json.Unmarshal(in.Bytes(), &line) == nil && line.Message == "serving" {
			t.addr = line.Addr
			close(t.serving)
		}
		t.lines = append(t.lines, in.Text())
	}
	if len(t.lines) > mostLines {
		t.lines = t.lines[len(t.lines)-mostLines:]
	}
	return len(b), nil
}

// String gives the last lines.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}
