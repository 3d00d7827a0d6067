package tools

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"switchboard/config"
	"switchboard/guards"
	"switchboard/journal"
)

// mostBegun is how often a run may begin one effect, over all processes that have worked on it.
const mostBegun = 5

// begin makes durable that an effect is begun, and runs it. by is the decision that allows it, where one was needed. If the
// write fails, nothing is sent.
func (d *Dispatcher) begin(ctx context.Context, w wish, by *journal.Approval) (Answer, error) {
	at := journal.Attempt{Seq: w.call.Seq, Epoch: d.o.Record.Epoch(), Key: w.input.Key, Request: w.call.Request}
	if err := d.o.Record.Attempt(ctx, w.call, at, by, w.request); err != nil {
		return Answer{}, err
	}
	if len(w.call.Attempts) == 0 {
		w.call.Begun = d.o.Now()
	}
	w.call.Attempts = append(w.call.Attempts, at)
	return d.run(ctx, w)
}

// resume ends a call that was being attempted when an earlier process ended. A read is asked again. An effect may have
// happened: its server is asked again under the same key with the same bytes, as long as it knows the key; else it is looked
// up; else a person is asked. It is never guessed at (rules M3, M4).
func (d *Dispatcher) resume(ctx context.Context, w wish, past journal.Call) (Answer, error) {
	if !past.Changes() {
		fresh := w
		w.call = past
		if w.wrong != "" {
			return d.settle(ctx, w, d.failed(w, journal.Refused, "", w.wrong))
		}
		v := d.factsAndRules(ctx, &fresh)
		begun := v.Say == guards.Ask && len(past.Attempts) > 0 // a person has approved it
		if v.Say != guards.Allow && !begun {
			return d.settle(ctx, w, d.failed(w, journal.Denied, "", v.Why))
		}
		return d.run(ctx, w)
	}
	const why = "the process ended while this was under way"
	if len(past.Attempts) == 0 { // its intent stands, and nothing of it was begun: a record of an older version
		return d.settle(ctx, w.as(past), d.unknown(w.as(past), why))
	}
	w.ready()
	same := w.wrong == "" && w.call.Digest == past.Digest && w.call.Request == past.Attempts[0].Request
	if same && d.known(w.bound.Contract, past) && len(past.Attempts) < mostBegun {
		// What was begun is finished, but not against the rules, and not where what they need to know cannot be read.
		if v := d.factsAndRules(ctx, &w); v.Say == guards.Allow || v.Say == guards.Ask {
			return d.begin(ctx, w.as(past), nil)
		}
	}
	end, err := d.find(ctx, w.as(past), why)
	if err != nil {
		return Answer{}, err
	}
	return d.settle(ctx, w.as(past), end)
}

// known says whether the effect's server still knows the key that went with it.
func (d *Dispatcher) known(t *config.Tool, past journal.Call) bool {
	return t != nil && t.Idempotency != nil && past.Attempts[0].Key != "" && d.o.Now().Sub(past.Begun) < t.Idempotency.ProviderKeeps
}

// find finds out what became of an effect that may have happened, if its contract says how.
//
// That it is found settles it. That it is not found settles nothing: how long a slow server may still take, nobody here knows.
// It is looked for once more when the call's own time is over, and then a person is asked.
func (d *Dispatcher) find(ctx context.Context, w wish, why string) (ending, error) {
	t := w.bound.Contract
	if t == nil || t.Lookup == nil || w.wrong != "" {
		return d.unknown(w, why), nil
	}
	why = strings.TrimRight(why, ".")
	waiting, done := untilStopped(ctx)
	defer done()
	for {
		rest := t.Timeout - d.o.Now().Sub(w.call.Begun)
		value, found, err := d.lookUp(ctx, w)
		switch {
		case err != nil:
			d.o.Log.Warn().Str("turn", d.o.Record.Turn()).Str("tool", t.Name).Str("error", d.mask(err.Error())).Msg("look up an effect")
			return d.unknown(w, why+"; it could not be looked up"), nil
		case found:
			return d.found(w, value), nil
		case rest <= 0:
			return d.unknown(w, why+"; a look-up does not find it, which says nothing of what may still come"), nil
		}
		if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return ending{}, fmt.Errorf("look up call %s: %w", t.Name, context.Cause(ctx))
		}
		if err := d.o.Wait(waiting, min(rest, longestWait)); err != nil {
			return ending{}, fmt.Errorf("look up call %s: %w", t.Name, err)
		}
	}
}

// untilStopped ends when the process stops. That a run's time is over does not end it.
func untilStopped(ctx context.Context) (context.Context, func()) {
	waiting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel(context.Cause(ctx))
		}
	})
	return waiting, func() {
		stop()
		cancel(nil)
	}
}

// found is an effect that a look-up has shown.
func (d *Dispatcher) found(w wish, value any) ending {
	end := d.ok(w, value, Output{})
	end.settled.Found = true
	end.told.Note = "there was no clear answer; that it took effect was looked up with " + w.bound.Contract.Lookup.Tool
	return end
}

// seconded looks once for an effect that its server refuses under a key: something between here and there may have sent the
// request before.
func (d *Dispatcher) seconded(ctx context.Context, w wish, fault *Fault, end ending) ending {
	t := w.bound.Contract
	if fault == nil || w.input.Key == "" || t.Lookup == nil || fault.Status != http.StatusConflict && fault.Status != http.StatusUnprocessableEntity {
		return end
	}
	if value, found, err := d.lookUp(ctx, w); err == nil && found {
		return d.found(w, value)
	}
	return end
}

func (d *Dispatcher) lookUp(ctx context.Context, w wish) (value any, found bool, err error) {
	l := w.bound.Contract.Lookup
	if value, err = d.read(ctx, l.Read, w.input.Args); err != nil {
		return nil, false, err
	}
	key := ""
	if len(w.call.Attempts) > 0 {
		key = w.call.Attempts[0].Key
	}
	found, err = l.Found(value, w.input.Args, key, w.call.Begun)
	return value, found, err
}

// read makes a read of the runtime's own, under the scope of the run.
func (d *Dispatcher) read(ctx context.Context, r config.Read, args map[string]any) (any, error) {
	b, ok := d.o.Reads[r.Tool]
	if !ok {
		return nil, fmt.Errorf("there is no tool %s", r.Tool)
	}
	filled, err := r.Args(args)
	if err != nil {
		return nil, err
	}
	bound := d.bind(b.Contract)
	for arg, v := range bound {
		if v == "" {
			return nil, fmt.Errorf("there is no value for %s here", arg)
		}
	}
	return Look(context.WithoutCancel(ctx), b, Input{Args: filled, Bound: bound}, d.o.Rates)
}

// factsAndRules reads what the rules of the call need to know, and asks them. A fact that cannot be read holds the call back.
func (d *Dispatcher) factsAndRules(ctx context.Context, w *wish) guards.Verdict {
	t := w.bound.Contract
	w.facts = map[string]any{}
	for _, f := range t.Facts {
		v, err := d.read(ctx, f.Read, w.input.Args)
		if err != nil {
			if fault, ok := errors.AsType[*Fault](err); ok {
				return guards.Verdict{Say: guards.Refuse, Why: fmt.Sprintf("%s, which the rules of %s need to know, cannot be read: %s", f.Name, t.Name, fault.Detail)}
			}
			d.o.Log.Warn().Str("turn", d.o.Record.Turn()).Str("tool", t.Name).Str("error", d.mask(err.Error())).Msg("read a fact")
			return guards.Verdict{Say: guards.Refuse, Why: fmt.Sprintf("%s, which the rules of %s need to know, cannot be read", f.Name, t.Name)}
		}
		w.facts[f.Name] = v
	}
	if len(w.facts) > 0 {
		w.call.Facts = []byte(d.o.Record.Mask().JSON(string(config.Canonical(w.facts))))
	}
	asked := d.o.Asked
	asked.Tool, asked.Args, asked.Facts, asked.Now = t, w.input.Args, w.facts, d.o.Now()
	asked.Done, asked.Taint = d.soFar()
	w.call.Taint = asked.Taint.Sources
	return d.o.Policy.Judge(asked)
}

// soFar says what was done in the run, and who has spoken to it.
func (d *Dispatcher) soFar() (done []string, t guards.Taint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t = d.o.Asked.Taint
	t.Sources = append(append([]string(nil), t.Sources...), d.tainted...)
	return append([]string(nil), d.done...), t
}

// ready prepares a call that was asked for before; where it cannot be made any more, that is what is wrong with it.
func (w *wish) ready() {
	if w.wrong != "" {
		return
	}
	if err := w.prepare(); err != nil {
		w.wrong = detail(err)
	}
}

// prepare notes the bytes that will be sent, so that what is approved and what is recorded is what runs.
func (w *wish) prepare() error {
	p, ok := w.bound.Do.(Preparer)
	if !ok {
		w.call.Request = w.call.Digest
		return nil
	}
	req, err := p.Prepare(w.input)
	if err != nil {
		return err
	}
	w.request = append([]byte(req.Method+" "+req.Target+"\n"), req.Body...)
	w.call.Request = req.Digest()
	return nil
}
