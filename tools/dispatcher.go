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

	"switchboard/chat"
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
	Tools     map[string]Bound // of the assistant, for this person and place
	Asked     guards.Asked     // who asks, where; Tool, Args and Now are filled in for every call
	Policy    guards.Policy
	Calls     int // most calls of the run; 0 is no limit
	Record    *journal.Recorder
	Past      []journal.Call   // what an earlier process wrote of this run
	Heard     []int            // rounds of Past before which the person said something more
	Read      *config.Tool     // the contract of result.read
	Reads     map[string]Bound // every read of the pack, for facts and look-ups
	Origin    Origin           // for whom people are asked
	Approvals journal.Approvals
	Results   store.Contents // where result.read finds the rest of a long result
	Rates     *Rates
	Now       func() time.Time
	Wait      func(ctx context.Context, d time.Duration) error // between attempts
	Log       zerolog.Logger
	// Watch is told of every call before it runs (no outcome yet) and after. It must not block. May be nil.
	Watch func(journal.Call)
}

// Answer is the data that the model gets for a call.
type Answer struct {
	Result llm.Result
	Ends   bool // the run makes no progress: offer no more tools
	Waits  bool // a person must decide first, about it or about a call before it; there is no Result yet
}

// Dispatcher is the one door through which every call of a run goes. Safe for the concurrent calls of a round.
type Dispatcher struct {
	o     Options
	tools map[string]Bound // the assistant's, and result.read
	past  map[int]journal.Call

	mu      sync.Mutex
	repeat  guards.Repeat
	refusal guards.Refusal
	tainted []string               // tools that brought strangers' words
	done    []string               // tools that were done
	equal   map[string]*sync.Mutex // equal calls go one after the other, so that the second finds the first's record
	cut     bool                   // a result was longer than what is shown: result.read is offered

	asking sync.Mutex // held while a person is asked
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
			d.lift()
			heard = heard[1:]
		}
		d.past[c.Seq] = c
		if c.Settled != nil {
			d.note(c)
		}
	}
	if len(heard) > 0 {
		d.lift()
	}
	return d
}

// lift lets the person ask again for what was refused.
func (d *Dispatcher) lift() {
	d.repeat.Lift()
	d.refusal.Lift()
}

// Heard says that the person said something more, and maybe sent a file: what was refused or remembered before may be asked
// again (rule L4), and the words count as theirs.
func (d *Dispatcher) Heard(words []string, file bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lift()
	d.o.Asked.Taint.Words = append(slices.Clip(d.o.Asked.Taint.Words), words...)
	if file {
		d.tainted = append(d.tainted, "a file")
	}
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

// Effect says whether a call of the tool is a barrier: it changes the world, or asks a person. An unknown tool is none: it
// never runs.
func (d *Dispatcher) Effect(tool string) bool {
	b, ok := d.tools[tool]
	return ok && (b.Contract.Effect != config.NoEffect || tool == AskPerson)
}

// At numbers a call in its run, from 0. Held: an earlier call of its round waits for a person, and an effect must not
// overtake another. A held call is only asked about, if it must be, and runs later.
type At struct {
	Round, Seq int
	Held       bool
}

// Call carries one call from the model's wish to the data that the model gets back, whatever happens in between. A call of
// that number that is on record already is answered from there.
//
// An error means that the record cannot be written, or that the process is stopping: then nothing was dispatched.
func (d *Dispatcher) Call(ctx context.Context, at At, c llm.ToolCall) (Answer, error) {
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Answer{}, fmt.Errorf("call %s: %w", c.Name, context.Cause(ctx))
	}
	past, written := d.prior(at.Seq)
	if written && past.Settled != nil {
		return answer(c, past), nil
	}
	w := d.understand(at.Round, at.Seq, c) // 1 known, 2 JSON, 3 schema, 4 bound
	defer d.alone(w.call.Digest)()
	switch {
	case written && len(past.Attempts) == 0 && past.Card != "": // 7: it has waited for a person
		return d.decided(ctx, w, past, at.Held)
	case written: // the intent is written, the outcome is not
		return d.resume(ctx, w, past)
	case d.waitsAlready(w.call.Digest): // an equal call waits: this one is answered from its record
		return Answer{Waits: true}, nil
	}
	switch v := d.judge(ctx, &w); { // 0 repeated, 3 as understood, 5 guards
	case v.Say == guards.Ask:
		return d.ask(ctx, w, v)
	case at.Held:
		return Answer{Waits: true}, nil
	case v.Say != guards.Allow:
		return d.notRun(ctx, w, v)
	}
	w.call.Verdict = string(guards.Allow)
	if w.bound.Contract.Effect != config.NoEffect {
		return d.begin(ctx, w, nil) // 6 to 11
	}
	if err := d.o.Record.Intend(ctx, w.call); err != nil { // 6: if this fails, no call
		return Answer{}, err
	}
	return d.run(ctx, w) // 8 to 11
}

// waitsAlready says whether an equal call waits for a person.
func (d *Dispatcher) waitsAlready(digest string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.past {
		if c.Outcome() == journal.Waiting && c.Digest == digest {
			return true
		}
	}
	return false
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
	case past.Changes() && past.Outcome() != journal.Waiting:
		w.call = past
		return d.settle(ctx, w, d.unknown(w, why))
	}
	w.call = past
	return d.settle(ctx, w, d.failed(w, journal.NotRun, "", why))
}

// judge asks the guards in their order: the cheap and certain ones first, the policy last.
func (d *Dispatcher) judge(ctx context.Context, w *wish) guards.Verdict {
	if at, ok := ctx.Deadline(); ctx.Err() != nil || ok && !time.Now().Before(at) { // a context hears of its own end a little late
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
	if v := d.goneRound(w); v.Say != guards.Allow {
		return v
	}
	v := d.factsAndRules(ctx, w)
	if v.Say == guards.Deny || v.Say == guards.Refuse {
		return v
	}
	if w.bound.Contract.Name == AskPerson {
		to, _ := w.input.Args["to"].(string)
		if to == config.Requester && d.o.Asked.Actor.Kind != chat.Member { // no card is theirs to answer
			return guards.Verdict{Say: guards.Refuse, Why: "the requester is no member of the workspace and cannot be asked this way; put the question into your reply"}
		}
		v = guards.Verdict{Say: guards.Ask, Needs: []guards.Need{{Rule: "question", Why: "the run asks", By: []string{to}, Within: config.DefaultWithin}}}
	}
	if v.Say == guards.Ask || w.bound.Contract.Effect != config.NoEffect {
		if err := w.prepare(); err != nil {
			return guards.Verdict{Say: guards.Refuse, Why: d.mask(detail(err))}
		}
	}
	return v
}

// detail is what may be told of an error.
func detail(err error) string {
	if fault, ok := errors.AsType[*Fault](err); ok {
		return fault.Detail
	}
	return "the call could not be made ready"
}

// goneRound says whether the call would do what a person has refused, in another way.
func (d *Dispatcher) goneRound(w *wish) guards.Verdict {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refusal.Judge(w.bound.Contract, w.input.Args)
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
	if end.settled.Outcome == journal.Unknown {
		found, err := d.find(ctx, w, end.reason)
		if err != nil {
			return Answer{}, err
		}
		found.settled.Fault, found.settled.Status = end.settled.Fault, end.settled.Status
		end = found
	} else {
		end = d.seconded(ctx, w, fault, end)
	}
	end.settled.Attempts, end.settled.MS = attempts, d.o.Now().Sub(started).Milliseconds()
	return d.settle(ctx, w, end)
}

// settle makes the outcome durable and gives the model its data. The outcome of what has run is written even when the
// run's time is over.
func (d *Dispatcher) settle(ctx context.Context, w wish, end ending) (Answer, error) {
	c := w.call
	c.Settled, c.Answer = &end.settled, journal.Answer{Text: end.told.Encode(), Reason: end.reason}
	if end.settled.Outcome == journal.Unknown {
		d.o.Record.Doubt(d.doubtful(c, end.reason))
	}
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

// keep remembers a call that waits.
func (d *Dispatcher) keep(c journal.Call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.past[c.Seq] = c
}

// note tells the guards how a call ended.
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
	if said := c.Decided; said != nil && (said.Stand == journal.Rejected || said.Stand == journal.Expired) {
		args, _ := config.DecodeJSON(c.Args)
		obj, _ := args.(map[string]any)
		d.refusal.Note(c.Tool, obj)
	}
	d.taint(c)
	switch c.Settled.Outcome {
	case journal.OK:
		p.Ended = guards.Well
		d.done = append(d.done, c.Tool)
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

// taint notes where a call brings strangers' words into the run: with a result, with what its server says of a failure, with
// what somebody else than the requester says to a card.
func (d *Dispatcher) taint(c journal.Call) {
	b := d.tools[c.Tool]
	ran := c.Settled.Outcome == journal.OK || c.Settled.Outcome == journal.Failed || c.Settled.Outcome == journal.Unknown
	switch said := c.Decided; {
	case ran && b.Contract != nil && b.Contract.Untrusted:
		d.tainted = append(d.tainted, "results of "+c.Tool)
	case c.Settled.Outcome == journal.OK && b.Contract != nil && b.Contract.Lookup != nil && c.Settled.Found:
		if l := d.o.Reads[b.Contract.Lookup.Tool]; l.Contract != nil && l.Contract.Untrusted {
			d.tainted = append(d.tainted, "results of "+l.Contract.Name)
		}
	case said != nil && (said.Stand == journal.Answered || said.Stand == journal.Rejected) && said.Words != "" && said.By != d.o.Origin.Requester.ID:
		d.tainted = append(d.tainted, "an answer of "+said.By)
	}
}

// Tainted says whether strangers' words are in the run by now.
func (d *Dispatcher) Tainted() bool {
	_, t := d.soFar()
	return t.Tainted()
}

func (d *Dispatcher) prior(seq int) (journal.Call, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, ok := d.past[seq]
	return c, ok
}

// Calls lists the calls that are on record, by number: those that wait too.
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
