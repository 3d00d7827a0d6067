package tools_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"switchboard/chat"
	"switchboard/config"
	"switchboard/guards"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/store"
	"switchboard/tools"
)

// dies lets the process end in the run's first call: its outcome is never written.
func (g *gate) dies(d *tools.Dispatcher, c llm.ToolCall) {
	g.t.Helper()
	do := g.do
	g.do = func(name string, in tools.Input) (tools.Output, error) {
		if name == c.Name {
			g.fails.Store(true)
		}
		return do(name, in)
	}
	if a, err := d.Call(g.t.Context(), tools.At{}, c); err == nil {
		g.t.Fatalf("%s did not die: %+v", c.Name, a)
	}
	g.fails.Store(false)
	g.do = do
}

// ran counts how often a tool has run from now on.
func (g *gate) ran(name string, do func(string, tools.Input) (tools.Output, error)) func() int {
	n := 0
	g.do = func(tool string, in tools.Input) (tools.Output, error) {
		if tool == name {
			n++
		}
		return do(tool, in)
	}
	return func() int { return n }
}

// After a crash a keyed effect is asked for again with the same key and the same bytes, as long as its server knows the key,
// at most five times; what cannot be asked again is for a person, and is never made twice.
func TestRel_E07_AKeyIsUsedOnlyAsLongAsItsServerKnowsIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tool   string
		change func(*gate)
		want   journal.Outcome
		runs   int // all in all
	}{
		"at once":                    {"rows.set", func(*gate) {}, journal.OK, 2},
		"while the key is known":     {"rows.set", func(g *gate) { g.later(24*time.Hour - time.Second) }, journal.OK, 2},
		"once it is forgotten":       {"rows.set", func(g *gate) { g.later(24 * time.Hour) }, journal.Unknown, 1},
		"without a key":              {"rows.plain", func(*gate) {}, journal.Unknown, 1},
		"the bytes are others":       {"rows.set", func(g *gate) { g.bytes = "x" }, journal.Unknown, 1},
		"the scope is another":       {"rows.set", func(g *gate) { g.scope = map[string]string{"org": "org_9"} }, journal.Unknown, 1},
		"the tool is gone":           {"rows.set", func(g *gate) { g.pack.Tools = g.pack.Tools[:0:0] }, journal.Unknown, 1},
		"the rules deny it now":      {"rows.set", func(g *gate) { g.policy[0].Rules.Default["write"] = "deny" }, journal.Unknown, 1},
		"the rules ask by now":       {"rows.set", func(g *gate) { g.policy[0].Rules.Default["write"] = "ask" }, journal.OK, 2},
		"strangers spoke meanwhile":  {"rows.set", func(g *gate) { g.taint.Sources = []string{"a file"} }, journal.OK, 2},
		"the server cannot be found": {"rows.set", func(g *gate) { g.do = faults(tools.Fault{Kind: tools.Network, Detail: "unreachable", Transient: true}) }, journal.Unknown, 2},
		"the server refuses it":      {"rows.set", func(g *gate) { g.do = faults(tools.Fault{Kind: tools.Rejected, Status: 400, Detail: "refused"}) }, journal.Unknown, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate(t)
			d := g.door()
			g.dies(d, call(c.tool, good(1)))
			first := g.inputs[0]
			c.change(g)
			got := g.call(g.door(), 0, call(c.tool, good(1)))
			if got.Outcome != c.want || len(g.inputs) != c.runs {
				t.Fatalf("told %+v after %d runs; want %s after %d", got, len(g.inputs), c.want, c.runs)
			}
			for _, in := range g.inputs[1:] {
				if in.Key != first.Key || fmt.Sprint(in.Args, in.Bound) != fmt.Sprint(first.Args, first.Bound) {
					t.Errorf("the first request was %+v, the next %+v", first, in)
				}
			}
			rec := g.rec(0)
			if len(rec.Attempts) != c.runs || rec.Attempts[0].Request == "" || c.runs == 2 && rec.Attempts[1].Request != rec.Attempts[0].Request {
				t.Errorf("on record: %+v", rec.Attempts)
			}
			a, card, err := journal.FindApproval(t.Context(), g.store, journal.CardID("t_a", 0, chat.CardUnknown))
			if (err == nil) != (c.want == journal.Unknown) {
				t.Fatalf("the question what became of it: %+v, %v", a, err)
			}
			if err == nil && (a.Stand != journal.Open || !a.Until.IsZero() || !strings.Contains(card.Question, "took effect") || card.Args[0].Value != "1" || card.Deciders[0] != "U0ANA") {
				t.Errorf("the card reads %+v of %+v", card, a)
			}
			if again := g.call(g.door(), 0, call(c.tool, good(1))); again.Outcome != c.want || len(g.inputs) != c.runs {
				t.Errorf("once more: told %+v after %d runs", again, len(g.inputs))
			}
		})
	}
}

func TestRel_E08_AnEffectIsBegunFiveTimesAtMost(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	for range 5 {
		g.dies(g.door(), call("rows.set", good(1)))
	}
	got := g.call(g.door(), 0, call("rows.set", good(1)))
	if rec := g.rec(0); got.Outcome != journal.Unknown || len(rec.Attempts) != 5 || len(g.inputs) != 5 || rec.State() != journal.InDoubt {
		t.Errorf("told %+v after %d runs; on record %+v", got, len(g.inputs), rec)
	}
	epochs := map[int64]bool{}
	for _, a := range g.rec(0).Attempts {
		epochs[a.Epoch] = true
	}
	if len(epochs) != 5 {
		t.Errorf("begun under the epochs %v", epochs)
	}
}

// A look-up settles an effect in doubt when it is found; that it is not found, or cannot be looked up, leaves it to a person:
// nobody knows how long a slow server may still take.
func TestM4_AnEffectInDoubtIsLookedUp(t *testing.T) {
	t.Parallel()
	timeout := tools.Fault{Kind: tools.Timeout, Detail: "no answer", Maybe: true}
	for name, c := range map[string]struct {
		crash  bool
		fault  tools.Fault
		paid   func(reads int) int64
		broken bool
		want   journal.Outcome
		found  bool
		waits  bool
	}{
		"found at once":            {fault: timeout, paid: func(int) int64 { return 5 }, want: journal.OK, found: true},
		"found in the end":         {fault: timeout, paid: func(reads int) int64 { return map[bool]int64{true: 5}[reads > 1] }, want: journal.OK, found: true, waits: true},
		"never found":              {fault: timeout, paid: func(int) int64 { return 0 }, want: journal.Unknown, waits: true},
		"broken":                   {fault: timeout, broken: true, want: journal.Unknown},
		"crash, found":             {crash: true, paid: func(int) int64 { return 5 }, want: journal.OK, found: true},
		"crash, never found":       {crash: true, paid: func(int) int64 { return 0 }, want: journal.Unknown, waits: true},
		"crash, broken":            {crash: true, broken: true, want: journal.Unknown},
		"it surely did not happen": {fault: tools.Fault{Kind: tools.Rejected, Detail: "no"}, paid: func(int) int64 { panic("nothing to look up") }, want: journal.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate(t)
			reads := 0
			runs := g.ran("rows.kept", func(name string, _ tools.Input) (tools.Output, error) {
				switch {
				case name == "rows.kept" && c.crash:
					return tools.Output{Value: "fine"}, nil
				case name == "rows.kept":
					return tools.Output{}, &c.fault
				case c.broken:
					return tools.Output{}, &tools.Fault{Kind: tools.Unavailable, Detail: "down at org_7canary"}
				}
				reads++
				return tools.Output{Value: map[string]any{"paid": c.paid(reads)}}, nil
			})
			d := g.door()
			if c.crash {
				g.dies(d, call("rows.kept", good(5)))
				d = g.door()
			}
			got := g.call(d, 0, call("rows.kept", good(5)))
			rec := g.rec(0)
			if got.Outcome != c.want || rec.Outcome() != c.want || runs() != 1 || rec.Settled.Found != c.found || (len(g.waited) > 0) != c.waits {
				t.Fatalf("told %+v after %d runs and waits of %v; on record %+v", got, runs(), g.waited, rec.Settled)
			}
			var over time.Duration
			for _, w := range g.waited {
				over += w
			}
			if name == "never found" && over < 4*time.Second {
				t.Errorf("that it did not happen was said after %s of 5 s", over)
			}
			if c.want == journal.OK && !strings.Contains(got.Note, "rows.get") {
				t.Errorf("told %+v", got)
			}
			_, _, err := journal.FindApproval(t.Context(), g.store, journal.CardID("t_a", 0, chat.CardUnknown))
			if (err == nil) != (c.want == journal.Unknown) {
				t.Errorf("the question what became of it: %v", err)
			}
			if again := g.call(g.door(), 0, call("rows.kept", good(5))); again.Outcome != c.want || runs() != 1 {
				t.Errorf("once more: told %+v after %d runs", again, runs())
			}
			if strings.Contains(g.logged.String(), "org_7canary") {
				t.Errorf("logged %s", g.logged.String())
			}
		})
	}
}

// A process that stops does not wait for a look-up: the next one goes on with it. A run whose time is over does.
func TestM4_AWaitForALookUpEndsWithTheProcess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		with func(context.Context) (context.Context, context.CancelFunc)
		want journal.Outcome
	}{
		"stopping": {func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) }, ""},
		"out of time": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 20*time.Millisecond)
		}, journal.Unknown},
	} {
		g := newGate(t)
		g.paid = 0
		ctx, cancel := c.with(t.Context())
		g.do = func(name string, in tools.Input) (tools.Output, error) {
			if name == "rows.kept" {
				if c.want == "" {
					cancel()
				}
				<-ctx.Done()
				return tools.Output{}, &tools.Fault{Kind: tools.Timeout, Detail: "no answer", Maybe: true}
			}
			return g.world(name, in)
		}
		_, err := g.door().Call(ctx, tools.At{}, call("rows.kept", good(5)))
		cancel()
		if rec := g.rec(0); (err != nil) != (c.want == "") || rec.Outcome() != c.want || c.want == "" && rec.State() != journal.Attempting {
			t.Errorf("%s: %v, on record %+v", name, err, rec)
		}
		if got := g.call(g.door(), 0, call("rows.kept", good(5))); got.Outcome != journal.Unknown {
			t.Errorf("%s: then told %+v", name, got)
		}
	}
}

// An approved effect whose process dies is begun again only where that is safe, and its decision is used up by then.
func TestRel_E08_AnApprovedEffectIsNotMadeTwice(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]journal.Outcome{"rows.plain": journal.Unknown, "rows.set": journal.OK, "rows.get": journal.OK} {
		g := newGate(t)
		id := 95
		if tool == "rows.plain" {
			g.taint.Sources = []string{"a file"}
		}
		g.waits(g.door(), tools.At{}, call(tool, good(id)))
		g.decide(0, journal.Approved, "")
		g.dies(g.door(), call(tool, good(id)))
		if a, _ := g.approval(0); !a.Used {
			t.Errorf("%s: the decision is not used up: %+v", tool, a)
		}
		before := len(g.inputs)
		got := g.call(g.door(), 0, call(tool, good(id)))
		if runs := len(g.inputs) - before; got.Outcome != want || (runs == 1) != (want == journal.OK) {
			t.Errorf("%s: told %+v after %d more runs, want %s", tool, got, runs, want)
		}
	}
}

// Nothing is sent unless it is on record that it is begun, and the decision is used up in the same write.
func TestRel_E09_NothingIsSentThatIsNotOnRecord(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"rows.set", "rows.plain", "rows.get"} {
		g := newGate(t)
		d := g.door()
		g.fails.Store(true)
		if a, err := d.Call(t.Context(), tools.At{}, call(tool, good(1))); err == nil || len(g.inputs) != 0 {
			t.Errorf("%s: %+v after %d runs", tool, a, len(g.inputs))
		}
		g.fails.Store(false)
		if got := g.call(g.door(), 0, call(tool, good(1))); got.Outcome != journal.OK || len(g.inputs) != 1 {
			t.Errorf("%s, once it can be written: told %+v", tool, got)
		}
	}
	g := newGate(t)
	g.waits(g.door(), tools.At{}, call("rows.set", good(60)))
	g.decide(0, journal.Approved, "")
	d := g.door()
	g.fails.Store(true)
	if _, err := d.Call(t.Context(), tools.At{}, call("rows.set", good(60))); err == nil || len(g.inputs) != 0 {
		t.Errorf("%d runs of an approved call that cannot be recorded, %v", len(g.inputs), err)
	}
	g.fails.Store(false)
	if a, _ := g.approval(0); a.Used {
		t.Error("the decision is used up, and nothing ran")
	}
	if got := g.call(g.door(), 0, call("rows.set", good(60))); got.Outcome != journal.OK || len(g.inputs) != 1 {
		t.Errorf("then told %+v", got)
	}
}

// A worker that has lost its thread begins nothing any more, though a person has approved it.
func TestD2_AStaleWorkerBeginsNothing(t *testing.T) {
	t.Parallel()
	for _, approved := range []bool{false, true} {
		g := newGate(t)
		id := 6
		if approved {
			id = 60
			g.waits(g.door(), tools.At{}, call("rows.set", good(id)))
			g.decide(0, journal.Approved, "")
		}
		stale := g.door()
		fresh := g.door() // another worker has the thread by now
		if a, err := stale.Call(t.Context(), tools.At{}, call("rows.set", good(id))); !errors.Is(err, store.ErrStale) || len(g.inputs) != 0 {
			t.Errorf("approved %t: the stale worker got %+v, %v after %d runs", approved, a, err, len(g.inputs))
		}
		if got := g.call(fresh, 0, call("rows.set", good(id))); got.Outcome != journal.OK || len(g.inputs) != 1 {
			t.Errorf("approved %t: the other was told %+v", approved, got)
		}
	}
}

// An effect that times out is asked for again under its key, and what the server says of the key then decides.
func TestRel_E06_WhatTheServerSaysOfAKey(t *testing.T) {
	t.Parallel()
	// As an HTTP tool gives them: in doubt, since a request under the key may be at work.
	busy := tools.Fault{Kind: tools.Conflict, Status: 409, Detail: "at work", Maybe: true, Transient: true, Wait: time.Second}
	other := tools.Fault{Kind: tools.Conflict, Status: 422, Detail: "another request", Maybe: true}
	for name, c := range map[string]struct {
		says []tools.Fault // after the crash; then it is done
		want journal.Outcome
		runs int
	}{
		"at work, then done": {[]tools.Fault{busy}, journal.OK, 3},
		"at work for long":   {[]tools.Fault{busy, busy, busy, busy}, journal.Unknown, 4},
		"another request":    {[]tools.Fault{other}, journal.Unknown, 2},
	} {
		g := newGate(t)
		g.pack.Tool("rows.set").Attempts = 3
		g.dies(g.door(), call("rows.set", good(1)))
		n := 0
		g.do = func(name string, in tools.Input) (tools.Output, error) {
			if n++; n <= len(c.says) {
				f := c.says[n-1]
				return tools.Output{}, &f
			}
			return g.world(name, in)
		}
		got := g.call(g.door(), 0, call("rows.set", good(1)))
		if got.Outcome != c.want || len(g.inputs) != c.runs {
			t.Errorf("%s: told %+v after %d runs; want %s after %d", name, got, len(g.inputs), c.want, c.runs)
		}
	}
}

// What is skipped when a run ends is settled: what waits did not run, what was begun is in doubt.
func TestM8_ASkippedCallThatWaitsDidNotRun(t *testing.T) {
	t.Parallel()
	for _, decided := range []bool{false, true} {
		g := newGate(t)
		g.waits(g.door(), tools.At{}, call("rows.pay", good(80)))
		if decided {
			g.decide(0, journal.Approved, "")
		}
		a, err := g.door().Skip(t.Context(), 0, 0, call("rows.pay", good(80)), "the run was stopped")
		if err != nil || told(t, a).Outcome != journal.NotRun || len(g.effects()) != 0 {
			t.Errorf("decided %t: %+v, %v", decided, a, err)
		}
		if rec := g.rec(0); rec.State() != journal.Undone {
			t.Errorf("decided %t: the ledger says %s", decided, rec.State())
		}
	}
}

// The words of a decision about the call and of one about its outcome do not get into each other's place.
func TestM8_WhatWasFoundIsNotWhatWasApproved(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.taint.Sources = []string{"a file"}
	g.waits(g.door(), tools.At{}, call("rows.plain", good(1)))
	g.decide(0, journal.Approved, "go on")
	g.dies(g.door(), call("rows.plain", good(1)))
	if got := g.call(g.door(), 0, call("rows.plain", good(1))); got.Outcome != journal.Unknown {
		t.Fatalf("told %+v", got)
	}
	if rec := g.rec(0); rec.State() != journal.InDoubt {
		t.Errorf("the ledger says %s", rec.State())
	}
	for stand, want := range map[journal.Stand]journal.State{journal.Happened: journal.Done} {
		a, _, err := journal.FindApproval(t.Context(), g.store, journal.CardID("t_a", 0, chat.CardUnknown))
		if err != nil {
			t.Fatal(err)
		}
		a.Stand, a.At = stand, g.now()
		b := store.Batch{}
		a.Close(&b, "it is there", g.now().Add(time.Hour))
		if err := g.store.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		rec := g.rec(0)
		if rec.State() != want || rec.Decided.Words != "go on" || rec.Resolved.Words != "it is there" || rec.Decided.Stand != journal.Approved {
			t.Errorf("the ledger says %s of %+v, %+v", rec.State(), rec.Decided, rec.Resolved)
		}
	}
}

// An effect that was in doubt is not made again in this run, whatever the model wants.
func TestM4_AnEffectInDoubtIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.do = faults(tools.Fault{Kind: tools.Timeout, Detail: "no answer", Maybe: true})
	d := g.door()
	g.call(d, 0, call("rows.plain", good(1)))
	for range 2 {
		if got := g.call(d, 1, call("rows.plain", good(1))); got.Outcome != journal.Refused || len(g.inputs) != 1 {
			t.Errorf("told %+v after %d runs", got, len(g.inputs))
		}
		d = g.door()
	}
}

// What was begun and then cut off is not begun again where what its rules need to know cannot be read.
func TestM4_NothingIsMadeAgainAgainstRulesThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.paid = 0 // nothing to ask about
	g.dies(g.door(), call("rows.pay", good(5)))
	before := g.attempts()
	g.broken["rows.get"] = true
	got := g.call(g.door(), 0, call("rows.pay", good(5)))
	if sent := g.effects(); got.Outcome != journal.Unknown || len(sent) != 1 || g.rec(0).State() != journal.InDoubt {
		t.Errorf("told %+v after %d more runs, sent %d times", got, g.attempts()-before, len(sent))
	}
}

// A refusal that names a conflict is looked up once where that can be: something on the way may have sent the request twice.
func TestRel_E06_AConflictIsLookedUp(t *testing.T) {
	t.Parallel()
	pack := strings.Replace(gatePack, "    args: {id: {type: integer}}\n    lookup:", "    args: {id: {type: integer}}\n    idempotency: {header: Idempotency-Key}\n    lookup:", 1)
	for paid, want := range map[int64]journal.Outcome{5: journal.OK, 0: journal.Failed} {
		g := newGate(t)
		p, err := config.Load(files(pack), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		g.pack, g.policy, g.paid = p, guards.Policy{{Rules: p.Policy}}, paid
		g.do = func(name string, in tools.Input) (tools.Output, error) {
			if name == "rows.kept" {
				return tools.Output{}, &tools.Fault{Kind: tools.Conflict, Detail: "taken", Status: 409}
			}
			return g.world(name, in)
		}
		if got := g.call(g.door(), 0, call("rows.kept", good(5))); got.Outcome != want {
			t.Errorf("paid %d: told %+v, want %s", paid, got, want)
		}
	}
}
