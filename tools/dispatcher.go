package tools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"switchboard/config"
	"switchboard/guards"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/store"
)

// Bound is a contract with what does its work.
type Bound struct {
	Contract *config.Tool
	Do       Tool
}

// Options say whose calls a Dispatcher carries, and what bounds them.
type Options struct {
	Tools   map[string]Bound // of the assistant, for this person and place
	Asked   guards.Asked     // who asks, where; Tool, Args and Now are filled in for every call
	Policy  guards.Policy
	Calls   int // most calls of the run; 0 is no limit
	Record  *journal.Recorder
	Past    []journal.Call // what an earlier process wrote of this run
	Heard   []int          // rounds of Past before which the person said something more
	Read    *config.Tool   // the contract of result.read
	Results store.Contents // where result.read finds the rest of a long result
	Rates   *Rates
	Now     func() time.Time
	Wait    func(ctx context.Context, d time.Duration) error // between attempts
	Log     zerolog.Logger
	// Watch is told of every call before it runs (no outcome yet) and after. It must not block. May be nil.
	Watch func(journal.Call)
}

// Answer is the data that the model gets for a call.
type Answer struct {
	Result llm.Result
	Ends   bool // the run makes no progress: offer no more tools
}

// Dispatcher is the one door through which every call of a run goes. Safe for the concurrent calls of a round.
type Dispatcher struct {
	o     Options
	tools map[string]Bound // the assistant's, and result.read
	past  map[int]journal.Call

	mu     sync.Mutex
	repeat guards.Repeat
	equal  map[string]*sync.Mutex // equal calls go one after the other, so that the second finds the first's record
	cut    bool                   // a result was longer than what is shown: result.read is offered
}

// NewDispatcher opens the door of one run. What Past holds counts as having happened.
func NewDispatcher(o Options) *Dispatcher {
	d := &Dispatcher{o: o, tools: maps.Clone(o.Tools), past: map[int]journal.Call{}, equal: map[string]*sync.Mutex{}}
	_, d.cut = d.tools[ResultRead] // a pack may offer it from the start
	read, _ := Builtin(ResultRead, Deps{Results: d.result})
	d.tools[ResultRead] = Bound{Contract: o.Read, Do: read}
	heard := slices.Sorted(slices.Values(o.Heard))
	for _, c := range slices.SortedFunc(slices.Values(o.Past), byEnd) {
		for len(heard) > 0 && heard[0] <= c.Round { // in its place, as it was
			d.repeat.Lift()
			heard = heard[1:]
		}
		d.past[c.Seq] = c
		if c.Settled != nil {
			d.note(c)
		}
	}
	if len(heard) > 0 {
		d.repeat.Lift()
	}
	return d
}

// Heard says that the person said something more: what was refused or remembered before may be asked again (rule L4).
func (d *Dispatcher) Heard() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.repeat.Lift()
}

// byEnd orders calls as they must have ended: an answer from the record comes after the call that it repeats, although that
// may have the higher number.
func byEnd(a, b journal.Call) int {
	at := func(c journal.Call) int {
		if c.Settled != nil && c.Settled.From != nil {
			return max(2*c.Seq, 2**c.Settled.From+1)
		}
		return 2 * c.Seq
	}
	return at(a) - at(b)
}

// Offered lists what the model may ask for, by name. result.read is among them once a result was too long to show.
func (d *Dispatcher) Offered() []llm.Tool {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []llm.Tool
	for name, b := range d.tools {
		if name == ResultRead && !d.cut {
			continue
		}
		list = append(list, llm.Tool{Name: name, About: d.mask(b.Contract.About), Schema: []byte(d.o.Record.Mask().JSON(string(b.Contract.Shown)))})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

// Effect says whether a tool changes the world. An unknown tool does not: it never runs.
func (d *Dispatcher) Effect(tool string) bool {
	b, ok := d.tools[tool]
	return ok && b.Contract.Effect != config.NoEffect
}

// Call carries one call from the model's wish to the data that the model gets back, whatever happens in between. round and
// seq number it in its run; a call of that number that is on record already is answered from there.
//
// An error means that the record cannot be written, or that the process is stopping: then nothing was dispatched.
func (d *Dispatcher) Call(ctx context.Context, round, seq int, c llm.ToolCall) (Answer, error) {
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Answer{}, fmt.Errorf("call %s: %w", c.Name, context.Cause(ctx))
	}
	past, written := d.prior(seq)
	if written && past.Settled != nil {
		return answer(c, past), nil
	}
	w := d.understand(round, seq, c) // 1 known, 2 JSON, 3 schema, 4 bound
	defer d.alone(w.call.Digest)()
	if written { // the intent is written, the outcome is not
		return d.resume(ctx, w, past)
	}
	if v := d.judge(ctx, w); v.Say != guards.Allow { // 0 repeated, 3 as understood, 5 guards
		return d.notRun(ctx, w, v)
	}
	w.call.Verdict = string(guards.Allow)
	if err := d.o.Record.Intend(ctx, w.call); err != nil { // 6: if this fails, no call
		return Answer{}, err
	}
	return d.run(ctx, w) // 8 to 11
}

// Refuse answers a call that came when no tools were offered any more. It is on record like every other.
func (d *Dispatcher) Refuse(ctx context.Context, round, seq int, c llm.ToolCall, why string) (Answer, error) {
	if past, written := d.prior(seq); written && past.Settled != nil {
		return answer(c, past), nil
	}
	return d.notRun(ctx, d.understand(round, seq, c), guards.Verdict{Say: guards.Refuse, Why: why})
}

// Skip answers a call that does not run because its run ends. One that was under way when an earlier process ended is no
// longer waited for: an effect is in doubt then.
func (d *Dispatcher) Skip(ctx context.Context, round, seq int, c llm.ToolCall, why string) (Answer, error) {
	past, written := d.prior(seq)
	if written && past.Settled != nil {
		return answer(c, past), nil
	}
	w := d.understand(round, seq, c)
	switch {
	case !written:
		return d.notRun(ctx, w, guards.Verdict{Say: notRunSay, Why: why})
	case past.Changes():
		w.call = past
		return d.settle(ctx, w, d.unknown(w, why))
	}
	w.call = past
	return d.settle(ctx, w, d.failed(w, journal.NotRun, "", why))
}

// judge asks the guards in their order: the cheap and certain ones first, the policy last.
func (d *Dispatcher) judge(ctx context.Context, w wish) guards.Verdict {
	if ctx.Err() != nil {
		return guards.Verdict{Say: notRunSay, Why: "the run's time is over"}
	}
	if v := d.repeated(w.written, false); v.Say != guards.Allow {
		return v
	}
	if w.wrong != "" {
		return guards.Verdict{Say: guards.Refuse, Why: w.wrong}
	}
	if v := d.repeated(w.call.Digest, w.bound.Contract.Repeatable); v.Say != guards.Allow {
		return v
	}
	if v := (guards.Budget{Calls: d.o.Calls}).Call(guards.Spent{Calls: w.call.Seq}); v.Say != guards.Allow {
		return v
	}
	return d.allowed(w)
}

func (d *Dispatcher) allowed(w wish) guards.Verdict {
	asked := d.o.Asked
	asked.Tool, asked.Args, asked.Now = w.bound.Contract, w.input.Args, d.o.Now()
	return d.o.Policy.Judge(asked)
}

func (d *Dispatcher) repeated(same string, repeatable bool) guards.Verdict {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.repeat.Judge(same, repeatable)
}

// run executes a call whose intent is durable.
func (d *Dispatcher) run(ctx context.Context, w wish) (Answer, error) {
	d.watch(w.call)
	started := d.o.Now()
	value, attempts, fault := d.execute(ctx, w)
	end := d.conclude(w, value, fault)
	end.settled.Attempts, end.settled.MS = attempts, d.o.Now().Sub(started).Milliseconds()
	return d.settle(ctx, w, end)
}

// settle makes the outcome durable and gives the model its data. The outcome of what has run is written even when the
// run's time is over.
func (d *Dispatcher) settle(ctx context.Context, w wish, end ending) (Answer, error) {
	c := w.call
	c.Settled, c.Answer = &end.settled, journal.Answer{Text: end.told.Encode(), Reason: end.reason}
	if err := d.o.Record.Settle(context.WithoutCancel(ctx), c, end.full); err != nil {
		return Answer{}, err
	}
	d.note(c)
	d.watch(c)
	return answer(w.asked, c), nil
}

// notRun answers a call that a guard holds back: intent, verdict and outcome are one write.
func (d *Dispatcher) notRun(ctx context.Context, w wish, v guards.Verdict) (Answer, error) {
	c := w.call
	c.Verdict, c.RuleAt = string(v.Say), v.Rule
	s := journal.Settled{Seq: c.Seq, Ends: v.Ends}
	told := journal.Told{Error: d.mask(v.Why)}
	switch v.Say {
	case guards.Record:
		s.Outcome, s.From = journal.Recorded, &v.From
		told = d.recorded(v.From)
		told.Note = v.Why
	case guards.Deny:
		s.Outcome = journal.Denied
	case notRunSay:
		s.Outcome = journal.NotRun
	default:
		s.Outcome = journal.Refused
	}
	told.Outcome = s.Outcome
	c.Settled, c.Answer = &s, journal.Answer{Text: told.Encode(), Reason: d.mask(v.Why)}
	if w.wrong != "" && v.Say == guards.Refuse { // what was refused as it was written is remembered as it was written
		c.Digest = w.written
	}
	if err := d.o.Record.Intend(context.WithoutCancel(ctx), c); err != nil {
		return Answer{}, err
	}
	d.note(c)
	d.watch(c)
	return answer(w.asked, c), nil
}

// notRunSay is the verdict on a call whose turn never came.
const notRunSay guards.Say = "not_run"

// resume ends a call that was being attempted when an earlier process ended. A read is asked again; an effect may have
// happened, and is never guessed at (rule M4).
func (d *Dispatcher) resume(ctx context.Context, w wish, past journal.Call) (Answer, error) {
	w.call = past
	if past.Changes() {
		return d.settle(ctx, w, d.unknown(w, "the process ended while this was under way"))
	}
	if w.wrong != "" {
		return d.settle(ctx, w, d.failed(w, journal.Refused, "", w.wrong))
	}
	if v := d.allowed(w); v.Say != guards.Allow {
		return d.settle(ctx, w, d.failed(w, journal.Denied, "", v.Why))
	}
	return d.run(ctx, w)
}

// note tells the repeat guard how a call ended.
func (d *Dispatcher) note(c journal.Call) {
	p := guards.Past{Seq: c.Seq, Same: c.Digest, Tool: c.Tool, Told: c.Reason, Effect: c.Changes()}
	if b, ok := d.tools[c.Tool]; ok {
		p.Fresh, p.Repeatable = b.Contract.Fresh, b.Contract.Repeatable
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.past[c.Seq] = c
	if c.Settled.Bytes > shown {
		d.cut = true
	}
	switch c.Settled.Outcome {
	case journal.OK:
		p.Ended = guards.Well
	case journal.Unknown:
		p.Ended = guards.InDoubt
	case journal.Recorded:
		p.Ended = guards.Answered
	case journal.Failed, journal.Refused, journal.Denied:
		p.Ended = guards.Badly
	default:
		return
	}
	d.repeat.Note(p)
}

func (d *Dispatcher) prior(seq int) (journal.Call, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, ok := d.past[seq]
	return c, ok
}

// Calls lists the calls that have ended, by number.
func (d *Dispatcher) Calls() []journal.Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.SortedFunc(maps.Values(d.past), func(a, b journal.Call) int { return a.Seq - b.Seq })
}

// recorded gives the data of an earlier call again.
func (d *Dispatcher) recorded(seq int) journal.Told {
	d.mu.Lock()
	defer d.mu.Unlock()
	return toldBy(d.past[seq])
}

// result finds the whole of a result whose beginning was shown, by its handle.
func (d *Dispatcher) result(ctx context.Context, name string) (string, bool, error) {
	var seq int
	if n, err := fmt.Sscanf(name, handle+"%d", &seq); err != nil || n != 1 {
		return "", false, nil //nolint:nilerr // no handle of ours: there is no such result
	}
	return journal.Full(ctx, d.o.Results, d.o.Record.Turn(), seq)
}

// handle and the number of a call name its result.
const handle = "call_"

// alone lets equal calls pass one at a time; the returned function opens the way for the next.
func (d *Dispatcher) alone(digest string) func() {
	d.mu.Lock()
	m, ok := d.equal[digest]
	if !ok {
		m = &sync.Mutex{}
		d.equal[digest] = m
	}
	d.mu.Unlock()
	m.Lock()
	return m.Unlock
}

func (d *Dispatcher) watch(c journal.Call) {
	if d.o.Watch != nil {
		d.o.Watch(c)
	}
}

func (d *Dispatcher) mask(s string) string { return d.o.Record.Mask().Text(s) }

func answer(asked llm.ToolCall, c journal.Call) Answer {
	failed := c.Settled.Outcome != journal.OK && c.Settled.Outcome != journal.Recorded
	return Answer{Result: llm.Result{ID: asked.ID, Name: asked.Name, Text: c.Text, Failed: failed}, Ends: c.Settled.Ends}
}
