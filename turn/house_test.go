package turn_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"switchboard/assistants"
	"switchboard/chat"
	"switchboard/config"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/store"
	"switchboard/store/sqlite"
	"switchboard/tools"
	"switchboard/turn"
)

func TestMain(m *testing.M) {
	if _, child := os.LookupEnv(providerVar); child {
		provide()
	}
	goleak.VerifyTestMain(m)
}

const (
	orgCanary    = "org_canary_7"
	secretCanary = "token-canary-9"
)

const packFiles = `
-- bot.yaml --
pack: 1
name: desk
models: {fast: {use: openai/gpt-4o-mini, price: {input: 0.15, cached: 0.075, output: 0.60}}}
router: {model: fast}
scope: {org: {from: channel, map: {C0FRONT: org_canary_7}}}
people: {admins: [U0ANA]}
limits: {run: {tokens: 20000, time: 30s}, person: {usd_per_day: 0.01}}
links: [docs.example.com]
-- assistants/desk.yaml --
about: Rows of the desk.
examples: [show me the rows]
model: fast
rounds: 3
tools: [rows.get, rows.set]
open_to: [admins]
instructions: Work with rows.
-- assistants/read.yaml --
about: Reading only.
examples: [read]
model: fast
rounds: 3
tools: [rows.get]
open_to: [admins]
instructions: Read rows.
-- tools/rows.yaml --
server: {base: {env: ROWS_URL}, auth: {bearer: {env: ROWS_TOKEN}}}
defaults: {bind: {org: scope.org}, timeout: 5s}
tools:
  - {name: rows.get, about: Read., effect: none, get: /rows, args: {id: {type: integer}}}
  - {name: rows.set, about: Write., effect: write, post: /rows, args: {id: {type: integer}}}
`

func files(text string) fstest.MapFS {
	out := fstest.MapFS{}
	for _, part := range strings.Split("\n"+text, "\n-- ")[1:] {
		name, body, _ := strings.Cut(part, " --\n")
		out[name] = &fstest.MapFile{Data: []byte(body + "\n")}
	}
	return out
}

// house is an engine in its surroundings: a real store, a model and tools that do what the test says, a surface that
// remembers. It can be taken down as by a kill and put up again on the same file.
type house struct {
	t    *testing.T
	path string
	pack string // the files

	store   *sqlite.Store
	engine  *turn.Engine
	desk    *assistants.Desk
	allowed atomic.Int64  // how many more commits the store takes; below 0: any number
	moved   chan struct{} // something was written, or could not be
	ended   chan turn.Finished
	opening func()             // before a stored version is opened
	pushed  func(store.Item)   // after an item was stored
	tune    func(*config.Pack) // what no pack may say

	order sync.Mutex // held while a message is accepted and noted

	mu      sync.Mutex
	model   func(r llm.Request) (llm.Reply, error)
	asked   []llm.Request
	do      func(tool string, in tools.Input) (tools.Output, error)
	ran     []string // "rows.set 1", in order
	posts   []turn.Post
	shown   []turn.Progress
	postErr func(turn.Post) error
	wait    func(context.Context) error              // what every tool does first
	think   func(context.Context, llm.Request) error // what every model does first
	look    func(m chat.Message, past bool) (turn.Seen, error)
	looked  []bool // for every look, whether the past was asked for
	now     func() time.Time
	said    []string          // keys of what was accepted, in order
	turns   map[string]string // by turn
	logged  strings.Builder
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, path: filepath.Join(t.TempDir(), "bot.db"), pack: packFiles, ended: make(chan turn.Finished, 100), moved: make(chan struct{}, 1), now: time.Now, turns: map[string]string{}}
	h.allowed.Store(-1)
	h.do = func(string, tools.Input) (tools.Output, error) {
		return tools.Output{Value: map[string]any{"of": orgCanary}}, nil
	}
	return h
}

func (h *house) env(name string) (string, bool) {
	v, ok := map[string]string{"ROWS_URL": "http://127.0.0.1:1", "ROWS_TOKEN": secretCanary}[name]
	return v, ok
}

// Do is the model.
func (h *house) Do(ctx context.Context, r llm.Request) (llm.Reply, error) {
	if err := ctx.Err(); err != nil {
		return llm.Reply{}, fmt.Errorf("ask: %w", err)
	}
	h.mu.Lock()
	h.asked = append(h.asked, r)
	model, think := h.model, h.think
	h.mu.Unlock()
	if think != nil {
		if err := think(ctx, r); err != nil {
			return llm.Reply{}, err
		}
	}
	return model(r)
}

type played struct {
	h    *house
	name string
}

func (p played) Run(ctx context.Context, in tools.Input) (tools.Output, error) {
	p.h.mu.Lock()
	p.h.ran = append(p.h.ran, fmt.Sprint(p.name, " ", in.Args["id"]))
	do, wait := p.h.do, p.h.wait
	p.h.mu.Unlock()
	if wait != nil {
		if err := wait(ctx); err != nil {
			return tools.Output{}, err
		}
	}
	return do(p.name, in)
}

// Show, Post and Look make the house a surface.
func (h *house) Show(_ context.Context, p turn.Progress) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shown = append(h.shown, p)
}

func (h *house) Post(_ context.Context, p turn.Post) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.posts = append(h.posts, p)
	if h.postErr != nil {
		return h.postErr(p)
	}
	return nil
}

// Look adds nothing, unless the test says what.
func (h *house) Look(_ context.Context, m chat.Message, past bool) (turn.Seen, error) {
	h.mu.Lock()
	h.looked = append(h.looked, past)
	look := h.look
	h.mu.Unlock()
	if look != nil {
		return look(m, past)
	}
	return turn.Seen{Message: m}, nil
}

// Write log lines.
func (h *house) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.logged.Write(b)
}

// counted is the store, which takes as many commits as it is allowed.
type counted struct {
	store.Store
	h *house
}

var errKilled = errors.New("killed")

func (c counted) Commit(ctx context.Context, b store.Batch) error {
	defer func() {
		select {
		case c.h.moved <- struct{}{}:
		default:
		}
	}()
	switch n := c.h.allowed.Load(); {
	case n == 0:
		return errKilled
	case n > 0:
		c.h.allowed.Add(-1)
	}
	return c.Store.Commit(ctx, b)
}

// Renew shortens the pauses between tries; a lease that is kept is not shortened.
func (c counted) Renew(ctx context.Context, l store.Lease, ttl time.Duration) error {
	if ttl < 30*time.Second {
		ttl /= 20
	}
	return c.Store.Renew(ctx, l, ttl)
}

func (c counted) Push(ctx context.Context, it store.Item) (bool, error) {
	fresh, err := c.Store.Push(ctx, it)
	if c.h.pushed != nil {
		c.h.pushed(it)
	}
	return fresh, err
}

func (h *house) open(ctx context.Context, pack *config.Pack) (*assistants.Desk, error) {
	if h.tune != nil {
		h.tune(pack)
	}
	return assistants.Open(ctx, pack, assistants.Options{
		Env: h.env, Now: h.now,
		Model: func(config.Model) (llm.Model, error) { return h, nil },
		World: func(t *config.Tool) tools.Tool {
			if t.HTTP == nil {
				return nil
			}
			return played{h, t.Name}
		},
	})
}

func (h *house) load(files fstest.MapFS) *assistants.Desk {
	h.t.Helper()
	pack, err := config.Load(files, config.Options{Env: h.env})
	if err != nil {
		h.t.Fatal(err)
	}
	d, err := h.open(h.t.Context(), pack)
	if err != nil {
		h.t.Fatal(err)
	}
	return d
}

// up starts the engine on the file.
func (h *house) up() { h.upFor(func() {}) }

// upFor puts the engine up, and lets something happen before it begins to work.
func (h *house) upFor(first func()) {
	h.t.Helper()
	var err error
	if h.store, err = sqlite.Open(h.t.Context(), h.path, sqlite.Options{Now: h.now}); err != nil {
		h.t.Fatal(err)
	}
	h.desk = h.load(files(h.pack))
	h.engine = turn.New(h.desk, turn.Options{
		Store: counted{h.store, h}, Surface: h, Now: h.now, Log: zerolog.New(h), Workers: 4,
		Finished: func(f turn.Finished) { h.ended <- f },
		Wait: func(ctx context.Context, d time.Duration) error {
			if d >= time.Minute {
				<-ctx.Done() // the sweeper
			}
			return context.Cause(ctx)
		},
		Open: func(ctx context.Context, stored []config.File) (*assistants.Desk, error) {
			if h.opening != nil {
				h.opening()
			}
			pack, err := config.Load(config.FromFiles(stored), config.Options{Env: h.env})
			if err != nil {
				return nil, err
			}
			return h.open(ctx, pack)
		},
	})
	first()
	if err := h.engine.Start(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// down stops the engine and closes the file. After a kill (no more commits allowed) nothing more has been written.
func (h *house) down() {
	h.t.Helper()
	if err := errors.Join(h.engine.Stop(context.Background()), h.store.Close(), h.desk.Close()); err != nil {
		h.t.Error(err)
	}
}

// What the surroundings have seen so far.

func (h *house) posted() []turn.Post       { return copied(h, &h.posts) }
func (h *house) requests() []llm.Request   { return copied(h, &h.asked) }
func (h *house) runs() []string            { return copied(h, &h.ran) }
func (h *house) progress() []turn.Progress { return copied(h, &h.shown) }

func copied[T any](h *house, list *[]T) []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(*list)
}

// with sets what the surroundings do, while the engine is at work.
func (h *house) with(set func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	set()
}

func (h *house) log() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.logged.String()
}

func (h *house) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.posts = nil
}

func message(n int, text string) chat.Message {
	return chat.Message{
		Key: fmt.Sprintf("msg:T:C0FRONT:%d", n), Thread: chat.Thread{Team: "T", Channel: "C0FRONT", Root: "1"},
		Channel: chat.Channel{ID: "C0FRONT", Visibility: chat.Public}, From: chat.Person{ID: "U0ANA", Kind: chat.Member}, Text: text, At: time.Now(),
	}
}

// by is a message of somebody else than Ana.
func by(person string, m chat.Message) chat.Message {
	m.From = chat.Person{ID: person, Name: strings.TrimPrefix(person, "U0"), Kind: chat.Member}
	return m
}

// letBobIn lets Bob use the desk as well.
func (h *house) letBobIn() {
	h.pack = strings.Replace(h.pack, "admins: [U0ANA]", "admins: [U0ANA, U0BOB]", 1)
}

func (h *house) accept(m chat.Message) string {
	h.t.Helper()
	h.order.Lock() // its turn may begin, and hear of the next message, before this goroutine goes on
	defer h.order.Unlock()
	id, _, err := h.engine.Accept(h.t.Context(), m)
	if err != nil {
		h.t.Error(err)
	}
	h.with(func() { h.said, h.turns[id] = append(h.said, m.Key), m.Key })
	return id
}

// say accepts a message and waits for the end of its turn.
func (h *house) say(m chat.Message) turn.Finished {
	h.t.Helper()
	h.accept(m)
	return <-h.ended
}

// finished waits for the ends of n turns, by message: which of two is told of first is left open.
func (h *house) finished(n int) map[string]turn.Finished {
	out := map[string]turn.Finished{}
	for range n {
		f := <-h.ended
		out[f.Key] = f
	}
	return out
}

func (h *house) read(id string) journal.Turn {
	h.t.Helper()
	t, ok, err := journal.Read(h.t.Context(), h.store, id)
	if err != nil || !ok {
		h.t.Fatalf("turn %s is not on record: %v", id, err)
	}
	return t
}

func isRouter(r llm.Request) bool { return r.Schema != nil }

func routeTo(name string, confidence float64) llm.Reply {
	return llm.Reply{Text: fmt.Sprintf(`{"assistant":%q,"confidence":%g,"question":null}`, name, confidence), Finish: llm.Stop, Usage: llm.Usage{Known: true}}
}

func wants(list ...string) llm.Reply {
	r := llm.Reply{Finish: llm.Called, Attempts: 1, Usage: llm.Usage{Input: 100, Cached: 40, Output: 10, Cost: 1000, Known: true}}
	for i, s := range list {
		tool, id, _ := strings.Cut(s, " ")
		r.Calls = append(r.Calls, llm.ToolCall{ID: fmt.Sprint("c", i), Name: tool, Args: fmt.Sprintf(`{"id":%s,"why":"to see","expects":"a row"}`, id)})
	}
	return r
}

// rounds counts the assistant's own replies in the request's transcript of this run.
func rounds(r llm.Request) int {
	n := 0
	for i := len(r.Turns) - 1; i >= 0 && r.Turns[i].Role != llm.User; i-- {
		if r.Turns[i].Role == llm.Assistant {
			n++
		}
	}
	return n
}

// script routes to an assistant and then plays the replies, by position in the transcript.
func script(to string, replies ...llm.Reply) func(llm.Request) (llm.Reply, error) {
	return func(r llm.Request) (llm.Reply, error) {
		if isRouter(r) {
			return routeTo(to, 0.9), nil
		}
		return replies[min(rounds(r), len(replies)-1)], nil
	}
}

func says(text string) llm.Reply {
	return llm.Reply{Text: text, Finish: llm.Stop, Attempts: 1, Usage: llm.Usage{Known: true}}
}
