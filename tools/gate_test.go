package tools_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"switchboard/chat"
	"switchboard/config"
	"switchboard/guards"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/store"
	"switchboard/tools"
)

const gatePack = `
-- bot.yaml --
pack: 1
name: desk
models: {fast: {use: openai/gpt-4o-mini}}
router: {model: fast}
scope: {org: {from: channel, map: {C0FRONT: org_7canary}}}
people: {admins: [U0ANA], finance: [U0BOB]}
-- assistants/desk.yaml --
about: The desk.
examples: [a thing]
model: fast
rounds: 4
tools: [rows.get, rows.web, rows.set, rows.pay, rows.plain, rows.kept, rows.text, ask.person]
open_to: [admins]
instructions: Work.
-- tools/rows.yaml --
server: {base: {env: ROWS_URL}, auth: {bearer: {env: ROWS_TOKEN}}}
defaults: {bind: {org: scope.org}, timeout: 5s, retry: {attempts: 1}}
tools:
  - {name: rows.get, about: Read., effect: none, get: /rows, args: {id: {type: integer}}, result: {paid: {type: integer}}}
  - {name: rows.web, about: Read what strangers write., effect: none, get: /web, args: {id: {type: integer}}, untrusted: true}
  - {name: rows.text, about: Note., effect: write, post: /text, args: {id: {type: integer}, text: {type: string}}}
  - {name: rows.set, about: Write., effect: write, post: /rows, args: {id: {type: integer}}, idempotency: {header: Idempotency-Key, provider_keeps: 24h}}
  - {name: rows.plain, about: Pay without a key., effect: irreversible, post: /plain, args: {id: {type: integer}}}
  - name: rows.kept
    about: Pay and look.
    effect: irreversible
    post: /kept
    args: {id: {type: integer}}
    lookup: {call: rows.get, args: {id: "${ args.id }"}, that: result.paid == args.id}
  - name: rows.pay
    about: Pay.
    effect: irreversible
    post: /pay
    args: {id: {type: integer}}
    facts: {row: {call: rows.get, args: {id: "${ args.id }"}}}
    idempotency: {header: Idempotency-Key, provider_keeps: 24h}
-- policy.yaml --
rules:
  - {tools: [rows.pay], when: row.paid > 0, verdict: ask, why: "Paid ${ row.paid } before.", approve: {by: [finance], within: 4h}}
  - {tools: [rows.pay], when: row.paid > 90, verdict: deny, why: Paid enough.}
  - {tools: [rows.get], when: args.id > 90, verdict: ask, why: A secret row., approve: {by: [finance]}}
  - {tools: [rows.pay, rows.plain, rows.kept], verdict: allow}
  - {tools: [rows.set], when: args.id > 50, verdict: ask, why: Above 50., approve: {by: [finance]}}
`

// gate is a bench whose runs may ask people.
type gate struct {
	*bench
	policy guards.Policy
	taint  guards.Taint
	actor  chat.Person
	scope  map[string]string
	ahead  time.Duration
	may    func(journal.Need, chat.Person) bool
	paid   int64           // what rows.get says
	broken map[string]bool // reads that fail
	bytes  string          // what is put into the requests beside the arguments
	waited []time.Duration
}

func newGate(tb testing.TB) *gate {
	tb.Helper()
	b := newBench(tb)
	pack, err := config.Load(files(gatePack), config.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	b.pack = pack
	g := &gate{
		bench: b, policy: guards.Policy{{Rules: pack.Policy}}, actor: chat.Person{ID: "U0ANA", Kind: chat.Member}, scope: map[string]string{"org": "org_7canary"},
		may: func(journal.Need, chat.Person) bool { return true }, paid: 7, broken: map[string]bool{},
	}
	start := time.Now()
	b.now = func() time.Time {
		b.mu.Lock()
		defer b.mu.Unlock()
		return start.Add(g.ahead)
	}
	b.do = g.world
	return g
}

// world answers reads; whatever else works.
func (g *gate) world(name string, _ tools.Input) (tools.Output, error) {
	if g.broken[name] {
		return tools.Output{}, &tools.Fault{Kind: tools.Unavailable, Detail: "down"}
	}
	if name == "rows.get" {
		return tools.Output{Value: map[string]any{"paid": g.paid}}, nil
	}
	return tools.Output{Value: "fine"}, nil
}

func (g *gate) later(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ahead += d
}

// sent is a tool that can show what it would send.
type sent struct {
	played
	g *gate
}

func (s sent) Prepare(in tools.Input) (tools.Prepared, error) {
	return tools.Prepared{Method: "POST", Target: "/" + s.name, Body: fmt.Appendf(nil, "%v %v %s", in.Args, in.Bound, s.g.bytes)}, nil
}

// door opens the run, as a process does that has just started.
func (g *gate) door() *tools.Dispatcher {
	g.t.Helper()
	g.open("a") // takes the lease
	past, _, err := journal.Read(g.t.Context(), g.store, "t_a")
	if err != nil {
		g.t.Fatal(err)
	}
	bound := map[string]tools.Bound{}
	for _, t := range g.pack.Tools {
		switch {
		case t.Name == tools.AskPerson:
			do, _ := tools.Builtin(t.Name, tools.Deps{})
			bound[t.Name] = tools.Bound{Contract: t, Do: do}
		case t.HTTP != nil && t.Effect != config.NoEffect && t.Name != "rows.text":
			bound[t.Name] = tools.Bound{Contract: t, Do: sent{played{g.bench, t.Name}, g}}
		case t.HTTP != nil:
			bound[t.Name] = tools.Bound{Contract: t, Do: played{g.bench, t.Name}}
		}
	}
	return tools.NewDispatcher(tools.Options{
		Tools: bound, Calls: g.calls, Past: past.Calls, Heard: g.heard, Read: g.pack.Tool(tools.ResultRead), Results: g.store, Rates: &tools.Rates{}, Now: g.now,
		Asked: guards.Asked{Actor: g.actor, Scope: g.scope, Taint: g.taint}, Policy: g.policy, Reads: bound, Approvals: g.store,
		Origin: tools.Origin{
			Pack: "desk", Version: "v1", Thread: "a", Assistant: "desk", Requester: g.actor,
			Open: func(ctx context.Context) (int, error) {
				open, err := journal.OpenApprovals(ctx, g.store, "a")
				return len(open), err
			},
			May: func(n journal.Need, by chat.Person) bool { return g.may(n, by) },
		},
		Wait: func(ctx context.Context, d time.Duration) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			g.waited = append(g.waited, d)
			g.later(d)
			return nil
		},
		Log: zerolog.New(&g.logged),
		Record: journal.NewRecorder(journal.RecorderOptions{
			Store: g, Lease: g.lease, Turn: "t_a", Now: g.now, Retention: time.Hour,
			Mask: journal.NewMask(map[string][]string{"org": {"org_7canary"}}, nil),
		}),
	})
}

// waits makes a call that has to wait.
func (g *gate) waits(d *tools.Dispatcher, at tools.At, c llm.ToolCall) {
	g.t.Helper()
	if a, err := d.Call(g.t.Context(), at, c); err != nil || !a.Waits || a.Result.Text != "" {
		g.t.Fatalf("%s %s: %+v, %v; want a wait", c.Name, c.Args, a, err)
	}
}

func (g *gate) approval(seq int) (journal.Approval, *chat.Card) {
	g.t.Helper()
	kind := chat.CardApprove
	if _, _, err := journal.FindApproval(g.t.Context(), g.store, journal.CardID("t_a", seq, kind)); err != nil {
		kind = chat.CardAsk
	}
	a, card, err := journal.FindApproval(g.t.Context(), g.store, journal.CardID("t_a", seq, kind))
	if err != nil {
		g.t.Fatal(err)
	}
	return a, card
}

// decide closes a decision as the engine does.
func (g *gate) decide(seq int, stand journal.Stand, words string) {
	g.t.Helper()
	a, _ := g.approval(seq)
	bob := chat.Person{ID: "U0BOB", Kind: chat.Member}
	a.Stand, a.By, a.At = stand, &bob, g.now()
	for i := range a.Needs {
		a.Needs[i].Signed = &bob
	}
	b := store.Batch{}
	a.Close(&b, words, g.now().Add(time.Hour))
	if err := g.store.Commit(g.t.Context(), b); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gate) rec(seq int) journal.Call {
	g.t.Helper()
	turn, _, err := journal.Read(g.t.Context(), g.store, "t_a")
	if err != nil || turn.Call(seq) == nil {
		g.t.Fatalf("call %d is not on record: %v", seq, err)
	}
	return *turn.Call(seq)
}

// keys lists the idempotency keys of the effects that ran.
func (g *gate) effects() (list []tools.Input) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, in := range g.inputs {
		if in.Key != "" {
			list = append(list, in)
		}
	}
	return list
}
