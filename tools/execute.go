package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"switchboard/config"
	"switchboard/journal"
)

// shown is how much of a result the model sees, in bytes (rule L7). The rest it reads with result.read.
const shown = 8 << 10

// execute makes the attempts that the contract allows: a retry only for what is transient and safe to repeat, that is a
// read or an effect that its server recognises by its key (rule M3). It says how many attempts were made.
func (d *Dispatcher) execute(ctx context.Context, w wish) (Output, int, *Fault) {
	t := w.bound.Contract
	safe := t.Effect == config.NoEffect || w.input.Key != ""
	first := d.o.Now()
	// What an earlier process has begun may have been done, whatever the server says, or does not say, by now.
	maybe := t.Effect != config.NoEffect && len(w.call.Attempts) > 1
	for n := 1; ; n++ {
		out, fault := d.attempt(ctx, w)
		if fault == nil {
			return out, n, nil
		}
		if !maybe && len(w.call.Attempts) <= 1 { // no request with this key can have reached the server before
			fault = Fresh(fault)
		}
		maybe = maybe || fault.Maybe
		last := n >= t.Attempts || !safe || !fault.Transient || fault.Wait > longestWait || ctx.Err() != nil
		if !last && t.Idempotency != nil && t.Effect != config.NoEffect && d.o.Now().Sub(first) >= t.Idempotency.ProviderKeeps {
			last = true // the server may have forgotten the key
		}
		if !last && d.o.Wait(ctx, pause(n, fault.Wait)) != nil {
			last = true
		}
		if last {
			fault.Maybe = maybe // an earlier attempt may have done it, whatever the last one says
			return Output{}, n, fault
		}
	}
}

// longestWait is how long a server may ask a run to wait; where it asks for more, the call has failed.
const longestWait = 30 * time.Second

// pause doubles from a quarter of a second, with jitter; a server's own wish wins.
func pause(attempt int, asked time.Duration) time.Duration {
	if asked > 0 {
		return asked
	}
	base := 250 * time.Millisecond << min(attempt-1, 6)
	return base/2 + rand.N(base/2+1) //nolint:gosec // jitter, not a secret
}

// attempt runs the tool once, within its rate and its time, and turns whatever goes wrong into a Fault.
//
// A process that stops lets an attempt end that has begun, within its own timeout; only the run's time cuts it short. An
// effect would otherwise be in doubt at every restart.
func (d *Dispatcher) attempt(ctx context.Context, w wish) (out Output, fault *Fault) {
	t := w.bound.Contract
	ctx, cancelRun := untilDeadline(ctx)
	defer cancelRun()
	if err := d.o.Rates.wait(ctx, t, t.Timeout); err != nil {
		return Output{}, &Fault{Kind: RateLimited, Detail: fmt.Sprintf("%s is being called too often; try later", t.Name), Err: err}
	}
	timed, cancel := context.WithTimeoutCause(ctx, t.Timeout, fmt.Errorf("call %s: no answer within %s", t.Name, t.Timeout))
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			d.o.Log.Error().Str("turn", d.o.Record.Turn()).Str("tool", t.Name).Int("call", w.call.Seq).
				Str("panic", d.mask(fmt.Sprint(p))).Msg("tool panicked")
			d.o.Log.Debug().Str("turn", d.o.Record.Turn()).Bytes("stack", debug.Stack()).Msg("where the tool panicked")
			out, fault = Output{}, &Fault{Kind: Panicked, Detail: "the tool broke down", Maybe: true}
		}
	}()
	out, err := w.bound.Do.Run(timed, w.input)
	if err == nil {
		return out, nil
	}
	d.o.Log.Debug().Str("turn", d.o.Record.Turn()).Str("tool", t.Name).Int("call", w.call.Seq).Str("error", d.mask(err.Error())).Msg("call failed")
	if errors.As(err, &fault) {
		return Output{}, fault
	}
	if timed.Err() != nil { // the tool gave the context's error back: by then an effect may be under way
		return Output{}, &Fault{Kind: Timeout, Detail: fmt.Sprintf("no answer within %s", t.Timeout), Maybe: true, Transient: ctx.Err() == nil, Err: err}
	}
	return Output{}, &Fault{Kind: Internal, Detail: "the tool failed", Maybe: true, Err: err}
}

// untilDeadline keeps the deadline of ctx, and nothing else that could end it.
func untilDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	at, ok := ctx.Deadline()
	if !ok {
		return context.WithoutCancel(ctx), func() {}
	}
	return context.WithDeadlineCause(context.WithoutCancel(ctx), at, errors.New("the run's time is over"))
}

// ending is how a call ended, before it is written.
type ending struct {
	settled journal.Settled
	told    journal.Told
	reason  string
	full    string // the whole result where only its beginning is told
}

// conclude turns what a tool gave into an outcome and the data for the model: checked against the contract, masked, cut.
func (d *Dispatcher) conclude(w wish, out Output, fault *Fault) ending {
	t := w.bound.Contract
	effect := t.Effect != config.NoEffect
	if fault != nil {
		end := d.failed(w, journal.Failed, fault.Kind, fault.Detail)
		if effect && fault.Maybe {
			end = d.unknown(w, fault.Detail)
		}
		end.settled.Fault, end.settled.Status = string(fault.Kind), fault.Status
		return end
	}
	if out.Cut && t.ResultSchema() != nil {
		return d.broken(w, fmt.Sprintf("the result is larger than %d bytes and cannot be checked; ask for less", MaxRead))
	}
	value := out.Value
	if !out.Cut {
		var err error
		if value, err = t.Project(value, out.Status); err != nil {
			return d.broken(w, "the result does not have the promised form: "+err.Error())
		}
		if fails, err := t.Fails(value); err != nil {
			return d.broken(w, "the result could not be judged: "+err.Error())
		} else if fails {
			return d.failed(w, journal.Failed, Rejected, saying(value))
		}
		if err := t.CheckResult(value); err != nil {
			return d.broken(w, "the result does not have the promised form: "+err.Error())
		}
	}
	return d.ok(w, value, out)
}

// broken is a result that breaks its contract. An effect has been answered, but by what nobody can tell.
func (d *Dispatcher) broken(w wish, why string) ending {
	if w.bound.Contract.Effect != config.NoEffect {
		return d.unknown(w, why)
	}
	return d.failed(w, journal.Failed, BadResult, why)
}

func (d *Dispatcher) failed(w wish, o journal.Outcome, kind FaultKind, why string) ending {
	why = clip(d.mask(why), maxRaw)
	return ending{journal.Settled{Seq: w.call.Seq, Outcome: o, Fault: string(kind)}, journal.Told{Outcome: o, Error: why}, why, ""}
}

func (d *Dispatcher) unknown(w wish, why string) ending {
	why = clip(d.mask(why), maxRaw)
	told := journal.Told{
		Outcome: journal.Unknown, Error: why,
		Note: "it is not known whether this took effect; it will not be made again. Say so, and that a person has to look",
	}
	return ending{journal.Settled{Seq: w.call.Seq, Outcome: journal.Unknown}, told, why, ""}
}

func (d *Dispatcher) ok(w wish, value any, out Output) ending {
	value = d.o.Record.Mask().Value(value)
	text := string(config.Canonical(value))
	s := journal.Settled{Seq: w.call.Seq, Outcome: journal.OK, Bytes: len(text)}
	if len(text) <= shown && !out.Cut {
		return ending{s, journal.Told{Outcome: journal.OK, Result: json.RawMessage(text)}, "", ""}
	}
	if str, isText := value.(string); isText { // a text is read on as it is, not as JSON
		text = str
	}
	s.Bytes = max(len(text), shown+1)
	head := clip(text, shown)
	told := journal.Told{
		Outcome: journal.OK, Result: config.Canonical(head), Handle: fmt.Sprint(handle, w.call.Seq), Next: len(head), Total: len(text),
		Note: "only the beginning is shown; read on with " + ResultRead,
	}
	if out.Cut {
		told.Note += fmt.Sprintf(", as far as it was read (%d bytes)", MaxRead)
	}
	return ending{s, told, "", text}
}

// saying gives the words of a result that means failure.
func saying(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return "the tool reports failure: " + string(config.Canonical(v))
}

func toldBy(c journal.Call) journal.Told {
	var t journal.Told
	if json.Unmarshal([]byte(c.Text), &t) != nil {
		return journal.Told{Error: "the record of this call is no longer kept"}
	}
	return t
}

// Rates bound how often each tool is called, over all runs of the process. The zero value is ready.
type Rates struct {
	mu sync.Mutex
	by map[string]*rate.Limiter
}

// wait waits for the tool's rate, at most as long as bound.
func (r *Rates) wait(ctx context.Context, t *config.Tool, bound time.Duration) error {
	if t.Rate <= 0 {
		return nil
	}
	r.mu.Lock()
	if r.by == nil {
		r.by = map[string]*rate.Limiter{}
	}
	l, ok := r.by[t.Name]
	switch burst := max(1, int(t.Rate)); {
	case !ok:
		l = rate.NewLimiter(rate.Limit(t.Rate), burst)
		r.by[t.Name] = l
	case float64(l.Limit()) != t.Rate: // another version of the pack; what the old one has used stays used
		l.SetLimit(rate.Limit(t.Rate))
		l.SetBurst(burst)
	}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("wait for the rate of %s", t.Name))
	defer cancel()
	return l.Wait(ctx)
}
