package tools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"
)

// Look asks a read for the runtime itself, outside of any run: it finds a value that is to be bound to a request. Like a
// call of a run it must fit its contract, is tried again where that may help, and is bounded: by the contract's timeout, all
// attempts and the wait for its rate together.
//
// It gives the result as the contract takes it. An error is a *Fault; its text holds no value.
func Look(ctx context.Context, b Bound, in Input, r *Rates) (any, error) {
	t := b.Contract
	args := map[string]any{whyArg: "the runtime looks it up", expectsArg: "a value"}
	maps.Copy(args, in.Args)
	if err := t.CheckArgs(args); err != nil {
		return nil, &Fault{Kind: Internal, Detail: err.Error()}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.Timeout, fmt.Errorf("look up by %s: no answer within %s", t.Name, t.Timeout))
	defer cancel()
	for n := 1; ; n++ {
		if err := r.wait(ctx, t, t.Timeout); err != nil {
			return nil, &Fault{Kind: RateLimited, Detail: t.Name + " is being called too often", Err: err}
		}
		out, fault := look(ctx, b, in)
		if fault == nil {
			return b.result(out)
		}
		if n >= t.Attempts || !fault.Transient || fault.Wait > longestWait || rest(ctx, pause(n, fault.Wait)) != nil {
			return nil, fault
		}
	}
}

// look makes one attempt, and turns whatever goes wrong into a Fault.
func look(ctx context.Context, b Bound, in Input) (out Output, fault *Fault) {
	defer func() {
		if p := recover(); p != nil {
			fault = &Fault{Kind: Panicked, Detail: "the tool broke down"}
		}
	}()
	out, err := b.Do.Run(ctx, in)
	switch {
	case err == nil:
		return out, nil
	case errors.As(err, &fault):
		return Output{}, fault
	case ctx.Err() != nil:
		return Output{}, &Fault{Kind: Timeout, Detail: "no answer in time", Err: err}
	}
	return Output{}, &Fault{Kind: Internal, Detail: "the tool failed", Err: err}
}

// result takes the result out of what the tool gave, as the contract says.
func (b Bound) result(out Output) (any, error) {
	t := b.Contract
	if out.Cut {
		return nil, &Fault{Kind: BadResult, Detail: fmt.Sprintf("the result is larger than %d bytes", MaxRead)}
	}
	v, err := t.Project(out.Value, out.Status)
	if err != nil {
		return nil, &Fault{Kind: BadResult, Detail: "the result does not have the promised form", Err: err}
	}
	fails, err := t.Fails(v)
	switch {
	case err != nil:
		return nil, &Fault{Kind: BadResult, Detail: "the result could not be judged", Err: err}
	case fails:
		return nil, &Fault{Kind: Rejected, Detail: "the tool reports failure", Status: out.Status}
	}
	if err := t.CheckResult(v); err != nil {
		return nil, &Fault{Kind: BadResult, Detail: "the result does not have the promised form: " + err.Error(), Err: err}
	}
	return v, nil
}

// rest waits between attempts.
func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
