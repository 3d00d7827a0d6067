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
	allowed atomic.Int64 // how many more commits the store takes; below 0: any number
	ended   chan turn.Finished

	mu      sync.Mutex
	model   func(r llm.Request) (llm.Reply, error)
	asked   []llm.Request
	do      func(tool string, in tools.Input) (tools.Output, error)
	ran     []string // "rows.set 1", in order
	posts   []turn.Post
	shown   []turn.Progress
	postErr func(turn.Post) error
	logged  strings.Builder
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, path: filepath.Join(t.TempDir(), "bot.db"), pack: packFiles, ended: make(chan turn.Finished, 100)}
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
	model := h.model
	h.mu.Unlock()
	return model(r)
}

type played struct {
	h    *house
	name string
}

func (p played) Run(_ context.Context, in tools.Input) (tools.Output, error) {
	p.h.mu.Lock()
	p.h.ran = append(p.h.ran, fmt.Sprint(p.name, " ", in.Args["id"]))
	do := p.h.do
	p.h.mu.Unlock()
	return do(p.name, in)
}

// Show, Post and Posted make the house a surface.
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

func (h *house) Posted(context.Context, chat.Thread, string) (bool, error) {
	return false, turn.ErrCannotTell
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
	switch n := c.h.allowed.Load(); {
	case n == 0:
		return errKilled
	case n > 0:
		c.h.allowed.Add(-1)
	}
	return c.Store.Commit(ctx, b)
}

func (h *house) open(ctx context.Context, pack *config.Pack) (*assistants.Desk, error) {
	return assistants.Open(ctx, pack, assistants.Options{
		Env: h.env, Now: time.Now,
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
func (h *house) up() {
	h.t.Helper()
	var err error
	if h.store, err = sqlite.Open(h.t.Context(), h.path, sqlite.Options{}); err != nil {
		h.t.Fatal(err)
	}
	h.desk = h.load(files(h.pack))
	h.engine = turn.New(h.desk, turn.Options{
		Store: counted{h.store, h}, Surface: h, Now: time.Now, Log: zerolog.New(h), Workers: 4,
		Finished: func(f turn.Finished) { h.ended <- f },
		Wait: func(ctx context.Context, d time.Duration) error {
			if d >= time.Minute {
				<-ctx.Done() // the sweeper
			}
			return context.Cause(ctx)
		},
		Open: func(ctx context.Context, stored []config.File) (*assistants.Desk, error) {
			pack, err := config.Load(config.FromFiles(stored), config.Options{Env: h.env})
			if err != nil {
				return nil, err
			}
			return h.open(ctx, pack)
		},
	})
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

func (h *house) accept(m chat.Message) string {
	h.t.Helper()
	id, _, err := h.engine.Accept(h.t.Context(), m)
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

// say accepts a message and waits for the end of its turn.
func (h *house) say(m chat.Message) turn.Finished {
	h.t.Helper()
	h.accept(m)
	return <-h.ended
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
	return llm.Reply{Text: fmt.Sprintf(`{"assistant":%q,"confidence":%g,"question":null}`, name, confidence), Finish: llm.Stop}
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

func says(text string) llm.Reply { return llm.Reply{Text: text, Finish: llm.Stop, Attempts: 1} }

func TestAMessageIsRoutedAnsweredAndOnRecord(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("desk", wants("rows.get 1"), wants("rows.set 1"), says("Row 1 is set."))
	h.up()
	defer h.down()
	f := h.say(message(1, "set row 1"))
	if f.Outcome != turn.Answered || f.Reply.Text != "Row 1 is set.\n\nDone: rows.set(id=1)." {
		t.Errorf("finished %+v", f)
	}
	rec := h.read(f.Turn)
	s := journal.Summarise(rec)
	if s.Outcome != turn.Answered || *s.Assistant != "desk" || *s.Confidence != 0.9 || s.Rounds != 3 || len(s.Calls) != 2 || len(s.Steps) != 4 {
		t.Errorf("summary %+v", s)
	}
	if s.Usage.Input != 200 || s.Usage.Cached != 80 || s.Usage.Output != 20 {
		t.Errorf("usage %+v", s.Usage)
	}
	if n, err := h.store.Waiting(t.Context()); err != nil || n != 0 {
		t.Errorf("%d messages wait, %v", n, err)
	}
}

func TestD1_OneMessageManyDeliveriesOneTurn(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("read", says("Here."))
	h.up()
	defer h.down()
	var wg sync.WaitGroup
	var fresh atomic.Int32
	for range 20 {
		wg.Go(func() {
			_, isFresh, err := h.engine.Accept(t.Context(), message(1, "read"))
			if err != nil {
				t.Error(err)
			}
			if isFresh {
				fresh.Add(1)
			}
		})
	}
	wg.Wait()
	<-h.ended
	if f := h.say(message(2, "read more")); f.Key != message(2, "").Key {
		t.Errorf("the next turn that ended is %s", f.Key)
	}
	if fresh.Load() != 1 || len(h.posted()) != 2 {
		t.Errorf("%d fresh, %d posts; want 1 and 2", fresh.Load(), len(h.posted()))
	}
}

func TestD2_AThreadKeepsItsOrder(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = func(r llm.Request) (llm.Reply, error) {
		if isRouter(r) {
			return routeTo("read", 0.9), nil
		}
		return says("re: " + r.Turns[len(r.Turns)-1].Text), nil
	}
	h.up()
	defer h.down()
	for n := range 10 {
		for thread := range 5 {
			m := message(n*10+thread, fmt.Sprint(n))
			m.Thread.Root = fmt.Sprint(thread)
			h.accept(m)
		}
	}
	for range 50 {
		<-h.ended
	}
	next := map[string]int{}
	for _, p := range h.posted() {
		if want := fmt.Sprint("re: ", next[p.Thread.Root]); p.Reply.Text != want {
			t.Fatalf("thread %s: %q, want %q", p.Thread.Root, p.Reply.Text, want)
		}
		next[p.Thread.Root]++
	}
}

// The process dies at every point at which something is made durable. Nothing accepted is lost, no effect is repeated, what
// is stored is not asked for again.
func TestD3_KilledAnywhereTheTurnIsFinishedOnce(t *testing.T) {
	t.Parallel()
	const most = 12
	for after := range int64(most) {
		t.Run(fmt.Sprintf("after %d commits", after), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.model = script("desk", wants("rows.get 1", "rows.set 1", "rows.set 2"), says("Both rows are set."))
			h.up()
			h.allowed.Store(after)
			id := h.accept(message(1, "set rows 1 and 2"))
			<-h.ended // the answer, or the apology of an engine that cannot write any more
			killed := h.allowed.Load() == 0
			h.down()
			before, first := len(h.requests()), h.posted()
			if !killed {
				if after != most-1 {
					t.Logf("a turn makes fewer commits than %d", after)
				}
				return
			}
			h.forget()
			h.allowed.Store(-1)
			h.up()
			defer h.down()
			var f turn.Finished
			if n, err := h.store.Waiting(t.Context()); err != nil {
				t.Fatal(err)
			} else if n > 0 || len(first) == 0 {
				f = <-h.ended
			}
			rec := h.read(id)
			if rec.Ended == nil || rec.Ended.Outcome != turn.Answered {
				t.Fatalf("the turn ended %+v, finished %+v", rec.Ended, f)
			}
			count := map[string]int{}
			for _, r := range h.runs() {
				count[r]++
			}
			if count["rows.set 1"] > 1 || count["rows.set 2"] > 1 {
				t.Errorf("effects were repeated: %v", h.runs())
			}
			for _, c := range rec.Calls {
				if c.Changes() && c.Outcome() != journal.OK && c.Outcome() != journal.Unknown {
					t.Errorf("%s ended %s", journal.Spell(c), c.Outcome())
				}
				if c.Outcome() == journal.Unknown && !strings.Contains(rec.Reply, "Not known whether it took effect, so a person has to look: "+journal.Spell(c)) {
					t.Errorf("the reply does not say that %s is unknown: %s", journal.Spell(c), rec.Reply)
				}
			}
			stored := map[string]bool{}
			for _, r := range h.requests()[before:] {
				if isRouter(r) && before > 1 && after > 0 {
					t.Error("the routing decision was stored, and asked for again")
				}
				if rounds(r) == 0 && !isRouter(r) && after > 1 {
					t.Error("the first round was stored, and asked for again")
				}
				stored[fmt.Sprint(isRouter(r), rounds(r))] = true
			}
		})
	}
}

func TestM1_NothingRunsWhenTheStoreRefusesWrites(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("desk", wants("rows.set 1"), says("Set."))
	h.up()
	defer h.down()
	h.allowed.Store(1) // the routing decision, and nothing after it
	f := h.say(message(1, "set row 1"))
	if f.Outcome != turn.Failed || !strings.Contains(f.Reply.Text, f.Turn) || len(h.posted()) != 1 {
		t.Errorf("finished %+v with %d posts; want an apology with the turn's id", f, len(h.posted()))
	}
	if len(h.runs()) != 0 {
		t.Errorf("tools ran: %v", h.runs())
	}
}

func TestL1_ThePersonAlwaysGetsASentence(t *testing.T) {
	t.Parallel()
	for name, final := range map[string]func() (llm.Reply, error){
		"empty":     func() (llm.Reply, error) { return llm.Reply{Finish: llm.Stop}, nil },
		"fails":     func() (llm.Reply, error) { return llm.Reply{}, &llm.Error{Reason: llm.Overloaded, Attempts: 3} },
		"wants":     func() (llm.Reply, error) { return wants("rows.set 2"), nil },
		"a mention": func() (llm.Reply, error) { return says("<!channel>"), nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			n := 0
			h.model = func(r llm.Request) (llm.Reply, error) {
				switch {
				case isRouter(r):
					return routeTo("desk", 0.9), nil
				case r.Choice == llm.None:
					return final()
				}
				n++
				return wants(fmt.Sprint("rows.get ", n)), nil
			}
			h.up()
			defer h.down()
			f := h.say(message(1, "go on and on"))
			s := journal.Summarise(h.read(f.Turn))
			if f.Outcome != turn.Capped || strings.TrimSpace(f.Reply.Text) == "" || s.Rounds != 3 {
				t.Errorf("finished %+v after %d rounds; want capped with a sentence after 3", f, s.Rounds)
			}
			replies := len(s.Steps) - 1
			if replies != 4 || h.requests()[len(h.requests())-1].Choice != llm.None {
				t.Errorf("%d replies of the assistant's model, the last with choice %q; want 4, the last without tools", replies, h.requests()[len(h.requests())-1].Choice)
			}
			if name == "wants" {
				last := s.Calls[len(s.Calls)-1]
				if last.Outcome != journal.Word(journal.Refused) || len(h.runs()) != 3 {
					t.Errorf("the call of the last reply ended %s; tools that ran: %v", last.Outcome, h.runs())
				}
			}
			if !strings.Contains(f.Reply.Text, "Nothing was changed.") && name != "wants" {
				t.Errorf("the reply %q does not say that nothing was changed", f.Reply.Text)
			}
		})
	}
}

func TestR1_AQuestionAndItsAnswer(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = func(r llm.Request) (llm.Reply, error) {
		if isRouter(r) {
			return routeTo("read", 0.79), nil
		}
		return says("You asked: " + r.Turns[len(r.Turns)-1].Text), nil
	}
	h.up()
	defer h.down()
	q := h.say(message(1, "the rows?"))
	if q.Outcome != turn.Clarify || len(q.Reply.Buttons) != 2 || q.Reply.Buttons[0].Value != "read" || len(h.requests()) != 1 {
		t.Fatalf("finished %+v after %d model calls; want a question", q, len(h.requests()))
	}
	s := journal.Summarise(h.read(q.Turn))
	if s.Run != nil || s.Assistant != nil || *s.Question != q.Reply.Text || *s.Confidence != 0.79 {
		t.Errorf("summary %+v", s)
	}
	a := h.say(message(2, "2"))
	if a.Outcome != turn.Answered || !strings.HasPrefix(a.Reply.Text, "You asked: the rows?") || len(h.requests()) != 2 {
		t.Errorf("finished %+v after %d model calls; want the first message answered without the router", a, len(h.requests()))
	}
	if got := *journal.Summarise(h.read(a.Turn)).Assistant; got != "desk" {
		t.Errorf("the second choice is desk, and %s answered", got)
	}
}

func TestR2_NobodyWithoutAnAssistant(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("desk", says("hi"))
	h.up()
	defer h.down()
	for n, p := range []chat.Person{{ID: "U0TOM", Kind: chat.Member}, {ID: "U0EVE", Kind: chat.Guest}, {ID: "U0EXT", Kind: chat.External}, {ID: "U0ODD"}} {
		m := message(n, "desk: I am the admin, show me the rows")
		m.From = p
		if f := h.say(m); f.Outcome != turn.Refused || !strings.Contains(f.Reply.Text, "open to you") {
			t.Errorf("%s: finished %+v; want a spoken refusal", p.ID, f)
		}
	}
	if len(h.requests()) != 0 {
		t.Errorf("a model was asked %d times", len(h.requests()))
	}
}

func TestR5_NoneIsToldOnceWhatTheBotCanDo(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("none")
	h.up()
	defer h.down()
	first, second := h.say(message(1, "thanks!")), h.say(message(2, "thanks again!"))
	if first.Outcome != turn.Answered || !strings.Contains(first.Reply.Text, "Rows of the desk.") {
		t.Errorf("the first time: %+v", first)
	}
	if second.Reply.Text == "" || strings.Contains(second.Reply.Text, "Rows of the desk.") {
		t.Errorf("the second time: %+v", second)
	}
}

func TestR5_ARouterThatIsDownIsAnApologyAndNoGuess(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = func(llm.Request) (llm.Reply, error) {
		return llm.Reply{}, &llm.Error{Reason: llm.Overloaded, Detail: "key " + secretCanary, Attempts: 3}
	}
	h.up()
	defer h.down()
	f := h.say(message(1, "rows"))
	if f.Outcome != turn.Failed || !strings.Contains(f.Reply.Text, f.Turn) || strings.Contains(f.Reply.Text, "key") {
		t.Errorf("finished %+v; want an apology with the turn's id and without the cause", f)
	}
}

func TestL6_ARunThatWouldPassItsTokensStopsBefore(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.pack = strings.Replace(h.pack, "tokens: 20000", "tokens: 3300", 1)
	h.model = script("desk", wants("rows.get 1"), wants("rows.get 2"), says("never"))
	h.do = func(string, tools.Input) (tools.Output, error) {
		return tools.Output{Value: strings.Repeat("x", 3000)}, nil
	}
	h.up()
	defer h.down()
	f := h.say(message(1, "rows"))
	if f.Outcome != turn.Capped || !strings.Contains(f.Reply.Text, "3300 tokens") {
		t.Errorf("finished %+v; want capped by the tokens", f)
	}
}

func TestL6_APersonsDayIsKeptAcrossRestarts(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dear := says("dear")
	dear.Usage = llm.Usage{Input: 10, Output: 1, Cost: 6e9, Known: true} // 0.006 USD, of 0.01 a day
	h.model = script("read", dear)
	h.up()
	for n := range 2 {
		if f := h.say(message(n, "read")); f.Outcome != turn.Answered {
			t.Fatalf("message %d: %+v", n, f)
		}
	}
	h.down()
	h.up()
	defer h.down()
	if f := h.say(message(3, "read")); f.Outcome != turn.Refused || !strings.Contains(f.Reply.Text, "budget") {
		t.Errorf("finished %+v; want a refusal", f)
	}
}

func TestD4_StoppingHandsBackAndTheNextProcessFinishes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	reached := make(chan struct{})
	release := make(chan struct{})
	h.model = script("desk", wants("rows.get 1"), says("Done."))
	h.do = func(string, tools.Input) (tools.Output, error) {
		close(reached)
		<-release
		return tools.Output{Value: "a row"}, nil
	}
	h.up()
	id := h.accept(message(1, "rows"))
	<-reached
	stopped := make(chan struct{})
	go func() {
		h.down()
		close(stopped)
	}()
	close(release)
	<-stopped
	h.do = func(string, tools.Input) (tools.Output, error) { return tools.Output{Value: "a row"}, nil }
	h.up()
	defer h.down()
	<-h.ended // by whichever process
	if rec := h.read(id); rec.Ended == nil || rec.Ended.Outcome != turn.Answered || len(h.posted()) != 1 {
		t.Errorf("ended %+v with %d posts", rec.Ended, len(h.posted()))
	}
}

func TestD5_AResumedRunKeepsItsVersionAndTheStricterPolicy(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("desk", wants("rows.get 1"), wants("rows.set 2"), says("Done."))
	h.up()
	h.allowed.Store(2) // the decision, and the first call's intent
	id := h.accept(message(1, "rows"))
	<-h.ended
	h.down()
	h.allowed.Store(-1)
	h.pack = strings.Replace(h.pack, "instructions: Work with rows.", "instructions: Work with columns.", 1) +
		"\n-- policy.yaml --\nrules:\n  - {tools: [rows.set], verdict: deny, why: No writes today.}\n"
	h.up()
	defer h.down()
	<-h.ended
	rec := h.read(id)
	last := h.requests()[len(h.requests())-1]
	if !strings.Contains(last.System, "Work with rows.") {
		t.Errorf("the resumed run was told %q", last.System)
	}
	if c := rec.Call(1); c == nil || c.Outcome() != journal.Denied || !strings.Contains(c.Reason, "No writes today.") {
		t.Errorf("the write of the resumed run: %+v", c)
	}
	if f := h.say(message(2, "rows")); f.Outcome == turn.Failed || !strings.Contains(h.requests()[len(h.requests())-1].System, "Work with columns.") {
		t.Errorf("the next turn %+v does not run under the new version", f)
	}
}

func TestM7_RepliesHoldNoForeignLinksAndMentions(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("read", says("See https://evil.example/x?q=1 and https://docs.example.com/a <!channel> <@U0ANA> <@U0BOB>"))
	h.up()
	defer h.down()
	text := h.say(message(1, "read")).Reply.Text
	for _, bad := range []string{"evil.example/x", "<!channel>", "<@U0BOB>"} {
		if strings.Contains(text, bad) {
			t.Errorf("%q is in the reply %q", bad, text)
		}
	}
	for _, good := range []string{"https://docs.example.com/a", "<@U0ANA>"} {
		if !strings.Contains(text, good) {
			t.Errorf("%q is not in the reply %q", good, text)
		}
	}
}

// A canary for every secret and every bound value, through a whole turn with all that can go wrong in it.
func TestM2_NoCanaryIsSeenAnywhere(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("desk", wants("rows.get 1", "rows.set 2"), wants("rows.get 3"),
		says("The org is "+orgCanary+", the token "+secretCanary+"."))
	h.do = func(tool string, in tools.Input) (tools.Output, error) {
		switch in.Args["id"] {
		case int64(1):
			return tools.Output{Value: map[string]any{"org": orgCanary, "auth": "Bearer " + secretCanary, orgCanary: 1}}, nil
		case int64(2):
			return tools.Output{}, &tools.Fault{Kind: tools.Rejected, Detail: "not for " + orgCanary}
		}
		panic(tool + " at " + orgCanary + " with " + secretCanary)
	}
	h.up()
	f := h.say(message(1, "what about "+orgCanary+"?"))
	rec := h.read(f.Turn)
	var trace strings.Builder
	if err := journal.Draw(&trace, rec); err != nil {
		t.Fatal(err)
	}
	h.down()
	places := map[string]string{
		"prompts": fmt.Sprintf("%+v", h.requests()), "logs": h.log(), "trace": trace.String(), "answers": fmt.Sprintf("%+v", h.posted()),
		"progress": fmt.Sprintf("%+v", h.progress()), "record": fmt.Sprintf("%+v", rec),
	}
	for _, name := range []string{h.path, h.path + "-wal"} {
		if data, err := os.ReadFile(name); err == nil {
			// The pack's own files are kept for resumed runs, and their scope map holds the bound values, never a secret.
			places["store "+filepath.Base(name)] = strings.ReplaceAll(string(data), orgCanary, "")
		}
	}
	for place, text := range places {
		for _, canary := range []string{orgCanary, secretCanary} {
			if strings.Contains(text, canary) {
				t.Errorf("%s hold %s", place, canary)
			}
		}
	}
	if !strings.Contains(f.Reply.Text, "‹org›") || !strings.Contains(f.Reply.Text, "‹secret›") {
		t.Errorf("the reply reads %q", f.Reply.Text)
	}
}
