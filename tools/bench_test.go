package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rs/zerolog"

	"switchboard/chat"
	"switchboard/config"
	"switchboard/guards"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/store"
	"switchboard/store/sqlite"
	"switchboard/tools"
)

const packFiles = `
-- bot.yaml --
pack: 1
name: desk
models: {fast: {use: openai/gpt-4o-mini}}
router: {model: fast}
scope: {org: {from: channel, map: {C0FRONT: org_7canary}}}
people: {admins: [U0ANA]}
-- assistants/desk.yaml --
about: The desk.
examples: [a thing]
model: fast
rounds: 4
tools: [rows.get, rows.text, rows.now, rows.set, rows.keyed, rows.again]
open_to: [admins]
instructions: Work.
-- tools/rows.yaml --
server: {base: {env: ROWS_URL}, auth: {bearer: {env: ROWS_TOKEN}}}
defaults: {bind: {org: scope.org}, timeout: 5s}
tools:
  - {name: rows.get, about: Read., effect: none, get: /rows, args: {id: {type: integer, minimum: 1}}, result: {rows: {type: array, items: {type: object}}}, retry: {attempts: 3}}
  - {name: rows.text, about: Read text., effect: none, get: /text, args: {id: {type: integer}}, retry: {attempts: 1}}
  - {name: rows.now, about: Read the moment., effect: none, get: /now, args: {id: {type: integer}}, fresh: true}
  - {name: rows.set, about: Write., effect: write, post: /rows, args: {id: {type: integer}}, result: {ok: {type: boolean}}}
  - {name: rows.keyed, about: Write once., effect: write, post: /keyed, args: {id: {type: integer}}, idempotency: {header: Idempotency-Key, provider_keeps: 24h}, retry: {attempts: 3}}
  - {name: rows.again, about: Write every time., effect: write, post: /again, args: {id: {type: integer}}, repeatable: true, idempotency: {header: Idempotency-Key, provider_keeps: 24h}}
-- policy.yaml --
rules:
  - {tools: [rows.set], when: args.id == 13, verdict: deny, why: "Row ${ args.id } is not to be touched."}
`

// files reads the simple form above: "-- name --" and then the file.
func files(text string) fstest.MapFS {
	out := fstest.MapFS{}
	for _, part := range strings.Split("\n"+text, "\n-- ")[1:] {
		name, body, _ := strings.Cut(part, " --\n")
		out[name] = &fstest.MapFile{Data: []byte(body + "\n")}
	}
	return out
}

// bench is a dispatcher with tools that do what the test says, on a real store.
type bench struct {
	t     testing.TB
	store *sqlite.Store
	pack  *config.Pack
	now   func() time.Time
	lease store.Lease // of the run opened last
	calls int         // the run's limit
	heard []int       // rounds before which the person said more

	mu     sync.Mutex
	inputs []tools.Input // of every attempt, in order
	do     func(name string, in tools.Input) (tools.Output, error)
	fails  atomic.Bool // the store refuses writes
	waits  []time.Duration
	logged strings.Builder
}

func newBench(tb testing.TB) *bench {
	tb.Helper()
	pack, err := config.Load(files(packFiles), config.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	st, err := sqlite.Open(tb.Context(), filepath.Join(tb.TempDir(), "bot.db"), sqlite.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := st.Close(); err != nil {
			tb.Error(err)
		}
	})
	b := &bench{t: tb, store: st, pack: pack, now: time.Now, calls: 20}
	b.do = func(name string, _ tools.Input) (tools.Output, error) {
		if strings.HasPrefix(name, "rows.set") {
			return tools.Output{Value: map[string]any{"ok": true}}, nil
		}
		return tools.Output{Value: map[string]any{"rows": []any{map[string]any{"of": "org_7canary"}}}}, nil
	}
	return b
}

// Commit fails when the test says so.
func (b *bench) Commit(ctx context.Context, batch store.Batch) error {
	if b.fails.Load() {
		return errors.New("disk full")
	}
	return b.store.Commit(ctx, batch)
}

type played struct {
	b    *bench
	name string
}

func (p played) Run(_ context.Context, in tools.Input) (tools.Output, error) {
	p.b.mu.Lock()
	p.b.inputs = append(p.b.inputs, in)
	do := p.b.do
	p.b.mu.Unlock()
	return do(p.name, in)
}

func (b *bench) attempts() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.inputs)
}

// open takes a lease and opens the door of a run, with what is on record of it.
func (b *bench) open(id string) *tools.Dispatcher {
	b.t.Helper()
	ctx := b.t.Context()
	if b.lease.Thread == id { // the process before this one is gone
		if err := b.store.Release(ctx, b.lease); err != nil {
			b.t.Fatal(err)
		}
	}
	if _, err := b.store.Push(ctx, store.Item{Key: "k" + id, Thread: id, Body: []byte("x")}); err != nil {
		b.t.Fatal(err)
	}
	lease, err := b.store.Claim(ctx, time.Minute)
	if err != nil {
		b.t.Fatal(err)
	}
	b.lease = lease
	past, _, err := journal.Read(ctx, b.store, "t_"+id)
	if err != nil {
		b.t.Fatal(err)
	}
	bound := map[string]tools.Bound{}
	for _, t := range b.pack.Tools {
		if t.HTTP == nil {
			continue
		}
		bound[t.Name] = tools.Bound{Contract: t, Do: played{b, t.Name}}
	}
	return tools.NewDispatcher(tools.Options{
		Tools: bound, Calls: b.calls, Past: past.Calls, Heard: b.heard, Read: b.pack.Tool(tools.ResultRead), Results: b.store, Rates: &tools.Rates{}, Now: b.now,
		Asked:  guards.Asked{Actor: chat.Person{ID: "U0ANA"}, Scope: map[string]string{"org": "org_7canary"}},
		Policy: guards.Policy{{Rules: b.pack.Policy}},
		Wait: func(_ context.Context, d time.Duration) error {
			b.waits = append(b.waits, d)
			return nil
		},
		Log: zerolog.New(&b.logged),
		Record: journal.NewRecorder(journal.RecorderOptions{
			Store: b, Lease: lease, Turn: "t_" + id, Now: b.now, Retention: time.Hour,
			Mask: journal.NewMask(map[string][]string{"org": {"org_7canary"}}, nil),
		}),
	})
}

func call(tool, args string) llm.ToolCall {
	return llm.ToolCall{ID: fmt.Sprint("c", len(tool)), Name: tool, Args: args}
}

func good(id int) string { return fmt.Sprintf(`{"id":%d,"why":"to see","expects":"a row"}`, id) }

// told decodes what the model was given.
func told(tb testing.TB, a tools.Answer) journal.Told {
	tb.Helper()
	var out journal.Told
	if err := json.Unmarshal([]byte(a.Result.Text), &out); err != nil {
		tb.Fatalf("the model was given %q: %v", a.Result.Text, err)
	}
	return out
}

func (b *bench) call(d *tools.Dispatcher, seq int, c llm.ToolCall) journal.Told {
	b.t.Helper()
	a, err := d.Call(b.t.Context(), tools.At{Round: 0, Seq: seq}, c)
	if err != nil {
		b.t.Fatal(err)
	}
	if a.Result.ID != c.ID {
		b.t.Errorf("the result answers %q, not %q", a.Result.ID, c.ID)
	}
	return told(b.t, a)
}

// stored reads the record of the first call of run a back.
func (b *bench) stored() journal.Call {
	b.t.Helper()
	turn, ok, err := journal.Read(b.t.Context(), b.store, "t_a")
	if err != nil || !ok || turn.Call(0) == nil {
		b.t.Fatalf("the call is not on record: %v", err)
	}
	return *turn.Call(0)
}

// One call through the door, with its two commits, and a tool that takes no time.
func BenchmarkDispatcher(b *testing.B) {
	bench := newBench(b)
	bench.calls = 0
	d := bench.open("a")
	before := bench.store.Commits()
	b.ReportAllocs()
	seq := 0
	for b.Loop() {
		if _, err := d.Call(b.Context(), tools.At{Round: 0, Seq: seq}, call("rows.now", good(seq))); err != nil {
			b.Fatal(err)
		}
		seq++
	}
	b.ReportMetric(float64(bench.store.Commits()-before)/float64(b.N), "commits/op")
}
