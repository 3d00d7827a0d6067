package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchboard/journal"
	"switchboard/llm"
	"switchboard/tools"
)

// Whatever a model or a tool does wrong ends as data to the model, with the right outcome on record.
func TestL3_FailuresAreData(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		call    llm.ToolCall
		do      func(string, tools.Input) (tools.Output, error)
		outcome journal.Outcome
		says    string
		runs    int
	}{
		"cut arguments":     {call: call("rows.get", `{"id":1,"why":"to s`), outcome: journal.Refused, says: "JSON"},
		"a list":            {call: call("rows.get", `[]`), outcome: journal.Refused, says: "object"},
		"null":              {call: call("rows.get", `null`), outcome: journal.Refused, says: "object"},
		"two objects":       {call: call("rows.get", good(1)+good(2)), outcome: journal.Refused, says: "JSON"},
		"duplicate keys":    {call: call("rows.get", `{"id":1,"id":2,"why":"a","expects":"b"}`), outcome: journal.Refused, says: "id"},
		"nothing":           {call: call("rows.get", ``), outcome: journal.Refused, says: "id"},
		"unknown tool":      {call: call("rows.drop", good(1)), outcome: journal.Refused, says: "rows.get"},
		"unknown argument":  {call: call("rows.get", `{"id":1,"limit":5,"why":"a","expects":"b"}`), outcome: journal.Refused, says: "limit"},
		"an org":            {call: call("rows.get", `{"id":1,"org":"org_9","why":"a","expects":"b"}`), outcome: journal.Refused, says: "org"},
		"missing argument":  {call: call("rows.get", `{"why":"a","expects":"b"}`), outcome: journal.Refused, says: "id"},
		"wrong type":        {call: call("rows.get", `{"id":"1","why":"a","expects":"b"}`), outcome: journal.Refused, says: "id"},
		"why missing":       {call: call("rows.get", `{"id":1,"expects":"b"}`), outcome: journal.Refused, says: "why"},
		"why blank":         {call: call("rows.get", `{"id":1,"why":"  ","expects":"b"}`), outcome: journal.Refused, says: "why"},
		"expects missing":   {call: call("rows.get", `{"id":1,"why":"a"}`), outcome: journal.Refused, says: "expects"},
		"denied":            {call: call("rows.set", good(13)), outcome: journal.Denied, says: "Row 13 is not to be touched."},
		"a panicking read":  {call: call("rows.get", good(1)), do: panics, outcome: journal.Failed, says: "broke down", runs: 1},
		"a panicking write": {call: call("rows.set", good(1)), do: panics, outcome: journal.Unknown, says: "broke down", runs: 1},
		"broken result": {
			call: call("rows.get", good(1)), do: gives(map[string]any{"rows": "none"}), outcome: journal.Failed, says: "form", runs: 1,
		},
		"broken result of a write": {
			call: call("rows.set", good(1)), do: gives(map[string]any{"ok": "yes"}), outcome: journal.Unknown, says: "form", runs: 1,
		},
		"text that means failure": {call: call("rows.text", good(1)), do: gives("Error: no such row"), outcome: journal.Failed, says: "no such row", runs: 1},
		"not found": {
			call: call("rows.get", good(1)), do: faults(tools.Fault{Kind: tools.NotFound, Detail: "there is no row 1"}),
			outcome: journal.Failed, says: "there is no row 1", runs: 1,
		},
		"unavailable": {
			call: call("rows.get", good(1)), do: faults(tools.Fault{Kind: tools.Unavailable, Detail: "down", Transient: true}),
			outcome: journal.Failed, says: "down", runs: 3,
		},
		"a write that may have happened": {
			call: call("rows.set", good(1)), do: faults(tools.Fault{Kind: tools.Timeout, Detail: "no answer", Maybe: true, Transient: true}),
			outcome: journal.Unknown, says: "no answer", runs: 1,
		},
		"a write that did not leave": {
			call: call("rows.set", good(1)), do: faults(tools.Fault{Kind: tools.Network, Detail: "refused", Transient: true}),
			outcome: journal.Failed, says: "refused", runs: 1,
		},
		"no fault of ours": {
			call: call("rows.get", good(1)), do: func(string, tools.Input) (tools.Output, error) {
				return tools.Output{}, errors.New("dial 10.0.0.7:5432")
			},
			outcome: journal.Failed, says: "failed", runs: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if c.do != nil {
				b.do = c.do
			}
			got := b.call(b.open("a"), 0, c.call)
			if got.Outcome != c.outcome || !strings.Contains(got.Error, c.says) {
				t.Errorf("the model was told %+v; want %s with %q", got, c.outcome, c.says)
			}
			if strings.Contains(got.Error, "10.0.0.7") {
				t.Errorf("an address reached the model: %s", got.Error)
			}
			if b.attempts() != c.runs {
				t.Errorf("the tool ran %d times, want %d", b.attempts(), c.runs)
			}
			if rec := b.stored(); rec.Outcome() != c.outcome || !strings.Contains(rec.Reason, c.says) {
				t.Errorf("on record: %s, %q", rec.Outcome(), rec.Reason)
			}
		})
	}
}

func panics(string, tools.Input) (tools.Output, error) { panic("index out of range") }

func gives(v any) func(string, tools.Input) (tools.Output, error) {
	return func(string, tools.Input) (tools.Output, error) { return tools.Output{Value: v}, nil }
}

func faults(f tools.Fault) func(string, tools.Input) (tools.Output, error) {
	return func(string, tools.Input) (tools.Output, error) {
		fault := f
		return tools.Output{}, &fault
	}
}

func TestL4_TheSecondIdenticalFailureNeverReachesTheTool(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.do = faults(tools.Fault{Kind: tools.NotFound, Detail: "there is no row 1"})
	d := b.open("a")
	b.call(d, 0, call("rows.text", `{"id":1,"why":"a","expects":"b"}`))
	got := b.call(d, 1, call("rows.text", `{ "expects":"something else", "why":"try again", "id":1 }`))
	if got.Outcome != journal.Refused || !strings.Contains(got.Error, "there is no row 1") || b.attempts() != 1 {
		t.Errorf("told %+v after %d runs; want a refusal that quotes the failure, after 1", got, b.attempts())
	}
	for seq, broken := range []string{`{"id":`, `{"id":`} { // where the JSON is broken, its bytes are compared
		got = b.call(d, 2+seq, call("rows.text", broken))
	}
	if !strings.Contains(got.Error, "already failed") {
		t.Errorf("the same broken JSON again: told %+v", got)
	}
	// A call that lacked why may be made once it has one.
	b.do = gives("fine")
	b.call(d, 4, call("rows.now", `{"id":5,"expects":"b"}`))
	if got = b.call(d, 5, call("rows.now", good(5))); got.Outcome != journal.OK {
		t.Errorf("the mended call: told %+v", got)
	}
}

func TestL4_AReadIsAnsweredFromTheRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d := b.open("a")
	first := b.call(d, 0, call("rows.get", good(1)))
	again := b.call(d, 1, call("rows.get", good(1)))
	if again.Outcome != journal.Recorded || again.Note == "" || !cmp.Equal(again.Result, first.Result) || b.attempts() != 1 {
		t.Errorf("told %+v after %d runs; want the first result, marked, after 1", again, b.attempts())
	}
	a, err := d.Call(t.Context(), tools.At{Round: 2, Seq: 2}, call("rows.get", good(1)))
	if err != nil || !a.Ends {
		t.Errorf("the third time: %+v, %v; want the end of the rounds", a, err)
	}
	b.call(d, 3, call("rows.set", good(1)))
	if got := b.call(d, 4, call("rows.get", good(1))); got.Outcome != journal.OK || b.attempts() != 3 {
		t.Errorf("after an effect: told %+v after %d runs; want it read anew", got, b.attempts())
	}
	for seq := range 3 {
		if got := b.call(d, 5+seq, call("rows.now", good(1))); got.Outcome != journal.OK {
			t.Errorf("a fresh tool, time %d: told %+v", seq, got)
		}
	}
}

func TestL5_TwoEqualCallsAtOnceRunOnce(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"rows.get", "rows.set"} {
		b := newBench(t)
		d := b.open("a")
		var wg sync.WaitGroup
		outcomes := make([]journal.Outcome, 8)
		for i := range outcomes {
			wg.Go(func() {
				a, err := d.Call(t.Context(), tools.At{Round: 0, Seq: i}, call(tool, good(1)))
				if err != nil {
					t.Error(err)
					return
				}
				var out journal.Told
				if err := json.Unmarshal([]byte(a.Result.Text), &out); err != nil {
					t.Error(err)
				}
				outcomes[i] = out.Outcome
			})
		}
		wg.Wait()
		n := map[journal.Outcome]int{}
		for _, o := range outcomes {
			n[o]++
		}
		if n[journal.OK] != 1 || n[journal.Recorded] != 7 || b.attempts() != 1 {
			t.Errorf("%s: %v after %d runs; want one ok and seven from the record", tool, n, b.attempts())
		}
	}
}

func TestL7_ALongResultIsShownInPartAndReadOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var long strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&long, "ligne %d é org_7canary ", i)
	}
	b.do = gives(long.String())
	d := b.open("a")
	if names := offered(d); strings.Contains(names, "result.read") {
		t.Errorf("offered before anything was cut: %s", names)
	}
	got := b.call(d, 0, call("rows.text", good(1)))
	var text string
	if err := json.Unmarshal(got.Result, &text); err != nil {
		t.Fatal(err)
	}
	if len(text) > 8<<10 || len(text) < 8<<10-4 || got.Handle == "" || got.Next != len(text) {
		t.Fatalf("%d bytes shown, handle %q, next %d", len(text), got.Handle, got.Next)
	}
	if names := offered(d); !strings.Contains(names, "result.read") {
		t.Errorf("not offered after a cut: %s", names)
	}
	whole := text
	for seq, next := 1, got.Next; next > 0; seq++ {
		part := b.call(d, seq, call("result.read", fmt.Sprintf(`{"handle":%q,"from":%d,"why":"read on","expects":"more"}`, got.Handle, next)))
		var r struct {
			Text string
			Next *int
		}
		if err := json.Unmarshal(part.Result, &r); err != nil || part.Outcome != journal.OK || part.Handle != "" {
			t.Fatalf("read on from %d: %+v, %v", next, part, err)
		}
		whole += r.Text
		next = 0
		if r.Next != nil {
			next = *r.Next
		}
	}
	if want := strings.ReplaceAll(long.String(), "org_7canary", "‹org›"); whole != want {
		t.Errorf("read %d bytes in all, want %d, the same text", len(whole), len(want))
	}
	if got := b.call(d, 19, call("result.read", `{"handle":"call_77","from":0,"why":"a","expects":"b"}`)); got.Outcome != journal.Failed {
		t.Errorf("an unknown handle: told %+v", got)
	}
}

func offered(d *tools.Dispatcher) string {
	var names []string
	for _, t := range d.Offered() {
		names = append(names, t.Name)
	}
	return strings.Join(names, " ")
}

func TestL7_AResultBeyondAMegabyteCannotBeChecked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.do = func(string, tools.Input) (tools.Output, error) {
		return tools.Output{Value: strings.Repeat("x", tools.MaxRead), Size: tools.MaxRead, Cut: true}, nil
	}
	d := b.open("a")
	if got := b.call(d, 0, call("rows.get", good(1))); got.Outcome != journal.Failed || !strings.Contains(got.Error, "larger") {
		t.Errorf("with a schema: told outcome %s, error %q", got.Outcome, got.Error)
	}
	if got := b.call(d, 1, call("rows.text", good(1))); got.Outcome != journal.OK || got.Handle == "" || got.Total != tools.MaxRead {
		t.Errorf("without a schema: told outcome %s, handle %q, total %d", got.Outcome, got.Handle, got.Total)
	}
}

func TestM1_WithoutARecordNoToolIsCalled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d := b.open("a")
	b.fails.Store(true)
	for _, c := range []llm.ToolCall{call("rows.get", good(1)), call("rows.set", good(1)), call("rows.set", good(13)), call("rows.get", `{`)} {
		if _, err := d.Call(t.Context(), tools.At{Round: 0, Seq: 0}, c); err == nil {
			t.Errorf("%s %s: no error", c.Name, c.Args)
		}
	}
	if b.attempts() != 0 {
		t.Errorf("tools ran %d times", b.attempts())
	}
}

func TestM1_TheIntentIsDurableBeforeTheToolRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.do = func(string, tools.Input) (tools.Output, error) {
		rec := b.stored()
		if rec.Outcome() != "" || rec.Why != "to see" || rec.Expects != "a row" || string(rec.Args) != `{"id":1}` || rec.Verdict != "allow" {
			t.Errorf("while the tool runs the record says %+v", rec)
		}
		return tools.Output{Value: map[string]any{"ok": true}}, nil
	}
	b.call(b.open("a"), 0, call("rows.set", good(1)))
}

func TestM2_BoundValuesReachTheToolAndNobodyElse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d := b.open("a")
	got := b.call(d, 0, call("rows.get", good(1)))
	if b.inputs[0].Bound["org"] != "org_7canary" || b.inputs[0].Args["org"] != nil || b.inputs[0].Args["why"] != nil {
		t.Errorf("the tool got %+v", b.inputs[0])
	}
	if !strings.Contains(string(got.Result), "‹org›") {
		t.Errorf("the model was told %s; want the value masked", got.Result)
	}
	b.call(d, 1, call("rows.get", `{"id":2,"why":"for org_7canary","expects":"b"}`))
	b.call(d, 2, call("org_7canary", good(1)))
	b.call(d, 3, call("rows.get", `{"org":"org_7canary"`))
	turn, _, err := journal.Read(t.Context(), b.store, "t_a")
	if err != nil {
		t.Fatal(err)
	}
	var trace strings.Builder
	if err := journal.Draw(&trace, turn); err != nil {
		t.Fatal(err)
	}
	schemas, err := json.Marshal(d.Offered())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"trace": trace.String(), "log": b.logged.String(), "record": fmt.Sprintf("%+v", turn)} {
		if strings.Contains(text, "7canary") {
			t.Errorf("the %s holds the bound value:\n%s", name, text)
		}
	}
	if strings.Contains(string(schemas), `"org"`) {
		t.Errorf("a schema shows the bound name: %s", schemas)
	}
}

func TestM3_OnlySafeCallsAreRetriedWithTheSameKey(t *testing.T) {
	t.Parallel()
	busy := tools.Fault{Kind: tools.RateLimited, Detail: "busy", Transient: true, Maybe: true, Wait: 2 * time.Second}
	for tool, runs := range map[string]int{"rows.get": 3, "rows.set": 1, "rows.keyed": 3} {
		b := newBench(t)
		b.do = faults(busy)
		b.call(b.open("a"), 0, call(tool, good(1)))
		if b.attempts() != runs {
			t.Errorf("%s ran %d times, want %d", tool, b.attempts(), runs)
		}
		for i, in := range b.inputs {
			if in.Key != b.inputs[0].Key || (in.Key != "") != (tool == "rows.keyed") {
				t.Errorf("%s, attempt %d: key %q", tool, i, in.Key)
			}
		}
		for _, d := range b.waits {
			if d != 2*time.Second {
				t.Errorf("%s waited %s, want what the server asked", tool, d)
			}
		}
	}
}

func TestM3_KeysNameRunToolArgumentsAndBoundValues(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d, other := b.open("a"), b.open("b")
	b.call(d, 0, call("rows.keyed", good(1)))
	b.call(d, 1, call("rows.keyed", good(2)))
	b.call(d, 2, call("rows.keyed", `{"expects":"y","id":1,"why":"x"}`)) // the same effect: from the record
	b.call(d, 3, call("rows.again", good(1)))
	b.call(d, 4, call("rows.again", good(1)))
	b.call(other, 0, call("rows.keyed", good(1)))
	keys := map[string]bool{}
	for _, in := range b.inputs {
		keys[in.Key] = true
	}
	if len(b.inputs) != 5 || len(keys) != 5 {
		t.Errorf("%d runs with %d keys; want 5 with 5", len(b.inputs), len(keys))
	}
}

func TestM4_AnInterruptedEffectIsUnknownAndWhatIsSafeIsAskedAgain(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]journal.Outcome{"rows.get": journal.OK, "rows.set": journal.Unknown, "rows.keyed": journal.OK} {
		b := newBench(t)
		d := b.open("a")
		healthy := b.do
		b.do = func(name string, in tools.Input) (tools.Output, error) {
			b.fails.Store(true) // the process dies before the outcome is on record
			return healthy(name, in)
		}
		if _, err := d.Call(t.Context(), tools.At{Round: 0, Seq: 0}, call(tool, good(1))); err == nil {
			t.Fatalf("%s: the outcome was recorded", tool)
		}
		b.fails.Store(false)
		b.do = healthy
		again := b.open("a")
		got := b.call(again, 0, call(tool, good(1)))
		if got.Outcome != want || b.stored().Outcome() != want {
			t.Errorf("%s: told %+v, on record %s; want %s", tool, got, b.stored().Outcome(), want)
		}
		if runs := b.attempts(); (runs == 2) != (want == journal.OK) {
			t.Errorf("%s ran %d times", tool, runs)
		}
		if second := b.call(again, 1, call(tool, good(1))); want == journal.Unknown && second.Outcome != journal.Refused {
			t.Errorf("%s once more: told %+v, want a refusal", tool, second)
		}
		if told := b.call(b.open("a"), 0, call(tool, good(1))); told.Outcome != want {
			t.Errorf("%s, resumed once more: told %+v", tool, told)
		}
	}
}

func TestL6_CallsBeyondTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d := b.open("a")
	if got := b.call(d, 19, call("rows.get", good(19))); got.Outcome != journal.OK {
		t.Errorf("the last call within the limit: told %+v", got)
	}
	if got := b.call(d, 20, call("rows.get", good(20))); got.Outcome != journal.Refused || !strings.Contains(got.Error, "20 calls") {
		t.Errorf("the first call beyond the limit: told %+v", got)
	}
}

func TestCallsAfterTheRunsTimeAreNotRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d := b.open("a")
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	a, err := d.Call(late, tools.At{Round: 0, Seq: 0}, call("rows.set", good(1)))
	if err != nil || told(t, a).Outcome != journal.NotRun || b.attempts() != 0 {
		t.Errorf("Call = %+v, %v after %d runs; want not_run", a, err, b.attempts())
	}
	stopped, stop := context.WithCancelCause(t.Context())
	stop(errors.New("the bot is stopping"))
	if _, err := d.Call(stopped, tools.At{Round: 0, Seq: 1}, call("rows.set", good(1))); err == nil || b.attempts() != 0 {
		t.Errorf("Call = %v after %d runs; want it handed back", err, b.attempts())
	}
}

func TestM3_AServerThatAsksForTooLongAWaitIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.do = faults(tools.Fault{Kind: tools.RateLimited, Detail: "busy", Transient: true, Wait: time.Hour})
	if got := b.call(b.open("a"), 0, call("rows.get", good(1))); got.Outcome != journal.Failed || b.attempts() != 1 || b.waits != nil {
		t.Errorf("told %+v after %d runs and waits of %v; want a failure at once", got, b.attempts(), b.waits)
	}
}

// What the person says meanwhile lifts what was refused before, once, and at the same place when the run is taken up again.
func TestL4_ANewMessageLiftsRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.do = faults(tools.Fault{Kind: tools.NotFound, Detail: "there is no row 1"})
	same := call("rows.text", good(1))
	d := b.open("a")
	b.call(d, 0, same)
	if got := b.call(d, 1, same); got.Outcome != journal.Refused {
		t.Errorf("the second time: %+v", got)
	}
	d.Heard(nil, false)
	if got := b.call(d, 2, same); got.Outcome != journal.Failed || b.attempts() != 2 {
		t.Errorf("after a new message: %+v", got)
	}
	if got := b.call(d, 3, same); got.Outcome != journal.Refused {
		t.Errorf("once more: %+v", got)
	}
	b.heard = []int{0} // it came before all of these
	if got := b.call(b.open("a"), 4, same); got.Outcome != journal.Refused {
		t.Errorf("resumed, heard before: %+v", got)
	}
	b.heard = []int{1} // it came after them
	if got := b.call(b.open("a"), 5, same); got.Outcome != journal.Failed || b.attempts() != 3 {
		t.Errorf("resumed, heard after: %+v", got)
	}
}

// A call of a run that ends is on record as one that was not made; what was under way when a process ended stays in doubt.
func TestL8_SkippedCallsAreOnRecord(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]journal.Outcome{"rows.text": journal.NotRun, "rows.set": journal.Unknown} {
		b := newBench(t)
		b.do = func(string, tools.Input) (tools.Output, error) {
			b.fails.Store(true) // the process dies while it runs
			return tools.Output{Value: "x"}, nil
		}
		d := b.open("a")
		if _, err := d.Call(t.Context(), tools.At{Round: 0, Seq: 0}, call(tool, good(1))); err == nil {
			t.Fatal("the outcome was written")
		}
		b.fails.Store(false)
		d = b.open("a")
		for seq, want := range []journal.Outcome{want, journal.NotRun} {
			for range 2 { // the second time from the record
				a, err := d.Skip(t.Context(), 0, seq, call(tool, good(1)), "the run was stopped")
				if err != nil || told(t, a).Outcome != want || b.attempts() != 1 {
					t.Errorf("%s %d: %+v, %v after %d attempts, want %s", tool, seq, told(t, a), err, b.attempts(), want)
				}
			}
		}
		if c := b.stored(); c.Outcome() != want {
			t.Errorf("on record: %s, want %s", c.Outcome(), want)
		}
	}
}
