// Package rehearse plays a pack's rehearsals through whole turns and says what did not come out as expected: offline with
// the scripted model, or live with real ones.
//
// The engine, the dispatcher and the store are the real ones; only people, and the tools that a rehearsal plays, are not.
// It must not know the terminal.
package rehearse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"switchboard/assistants"
	"switchboard/config"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/llm/scripted"
	"switchboard/store"
	"switchboard/turn"
)

// Options say what rehearsals are played with.
type Options struct {
	Pack   *config.Pack
	Env    config.Environ
	Client *http.Client // for the tools that a rehearsal does not play; nil: the tools' own
	// Store opens an empty store. Each rehearsal gets one for itself and closes it.
	Store func(ctx context.Context) (store.Store, error)
	// Live opens a real model of the pack. nil: offline, the script answers.
	Live  func(config.Model) (llm.Model, error)
	Model string // live: the name of the pack's model that all assistants and the router use; "": each its own
	As    string // who speaks where a rehearsal leaves it open; "" means U0REHEARSE, whom no pack knows
	In    string // and in which channel; "" means C0REHEARSE
	Now   func() time.Time
	Log   zerolog.Logger
}

// Result is how one rehearsal went. It went well if there are no Failures; each names what was expected, what there was,
// and the line of the script.
type Result struct {
	Name     string            `json:"name"`
	Place    config.Place      `json:"place"`
	Failures []string          `json:"failures"`
	Turns    []journal.Summary `json:"turns"`
	Took     time.Duration     `json:"took"`
}

const (
	somebody  = "U0REHEARSE"
	somewhere = "C0REHEARSE"
	// stopTime is how long a rehearsal's engine may take to hand back. It has nothing to do any more.
	stopTime = 10 * time.Second
)

// Play plays one rehearsal. What does not hold is in the result; an error means that it could not be played.
func Play(ctx context.Context, r *config.Rehearsal, o Options) (res Result, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	began := o.Now()
	res = Result{Name: r.Name, Place: r.Place, Failures: []string{}, Turns: []journal.Summary{}}
	pack, err := staged(r, o)
	if err != nil {
		return res, fmt.Errorf("play rehearsal %q at %s: %w", r.Name, r.Place, err)
	}
	st, err := o.Store(ctx)
	if err != nil {
		return res, fmt.Errorf("play rehearsal %q at %s: open its store: %w", r.Name, r.Place, err)
	}
	s := &stage{o: o, pack: pack, rehearsal: r, store: st, clock: newClock(r.At, o.Now), surface: &surface{}, done: make(chan turn.Finished, 8), result: &res}
	err = errors.Join(s.play(ctx), st.Close())
	res.Took = o.Now().Sub(began)
	if err != nil {
		return res, fmt.Errorf("play rehearsal %q at %s: %w", r.Name, r.Place, err)
	}
	return res, nil
}

// staged is the pack as a rehearsal sees it: itself the only rehearsal, one model for all if that is asked for, and words
// kept long enough where the rehearsal plays in the past.
func staged(r *config.Rehearsal, o Options) (*config.Pack, error) {
	p := *o.Pack
	p.Rehearsals = []*config.Rehearsal{r}
	if !r.At.IsZero() {
		p.Retention += max(0, o.Now().Sub(r.At))
	}
	if o.Live == nil || o.Model == "" {
		return &p, nil
	}
	if p.Model(o.Model) == nil {
		var names []string
		for _, m := range p.Models {
			names = append(names, m.Name)
		}
		return nil, fmt.Errorf("the pack has no model %q; choose one of %s", o.Model, strings.Join(names, ", "))
	}
	p.Router.Model = o.Model
	p.Assistants = nil
	for _, a := range o.Pack.Assistants {
		b := *a
		b.Model = o.Model
		p.Assistants = append(p.Assistants, &b)
	}
	return &p, nil
}

// stage is one rehearsal while it is played.
type stage struct {
	o         Options
	pack      *config.Pack
	rehearsal *config.Rehearsal
	store     store.Store
	clock     *clock
	surface   *surface
	heard     heard
	done      chan turn.Finished
	result    *Result
}

func (s *stage) play(ctx context.Context) (err error) {
	world := World(s.rehearsal)
	desk, err := assistants.Open(ctx, s.pack, assistants.Options{
		Env: s.o.Env, Model: s.model(), World: world, Client: s.o.Client, Now: s.clock.now,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, desk.Close()) }()
	engine := turn.New(desk, turn.Options{
		Store: s.store, Surface: s.surface, Open: onlyVersion, Now: s.clock.now, Wait: s.clock.wait, Log: s.o.Log, Finished: s.finished, Workers: 1,
	})
	if err := engine.Start(ctx); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), stopTime, errors.New("stop after a rehearsal"))
		defer cancel()
		err = errors.Join(err, engine.Stop(ctx))
	}()
	for i, part := range parts(s.rehearsal.Steps) {
		play := s.say
		if part.by.Click != nil {
			play = s.click
		}
		if goOn, err := play(ctx, engine, i, part); err != nil || !goOn {
			return err
		}
	}
	return nil
}

// onlyVersion is asked for a version that an earlier run is pinned to.
func onlyVersion(context.Context, []config.File) (*assistants.Desk, error) {
	return nil, errors.New("the store of a rehearsal was not empty: a run in it is pinned to another version; give each rehearsal a store of its own")
}

// model opens the models: the script's, or real ones.
func (s *stage) model() func(config.Model) (llm.Model, error) {
	if s.o.Live != nil {
		return s.o.Live
	}
	script := scripted.New(s.pack)
	return func(m config.Model) (llm.Model, error) { return &listener{script.Model(m), &s.heard}, nil }
}

// finished passes on how a turn ended. It must not block: a turn that fails again and again is told of often enough.
func (s *stage) finished(f turn.Finished) {
	select {
	case s.done <- f:
	default:
	}
}

// part is what a person says, or decides, with all that follows until the next such step.
type part struct {
	by      config.Step   // a say or a click
	answers []config.Step // the models'
	expects []config.Step
}

func parts(steps []config.Step) []part {
	var out []part
	for _, st := range steps {
		if st.Say != "" || st.Click != nil && len(out) > 0 {
			out = append(out, part{by: st})
			continue
		}
		if len(out) == 0 { // Load refuses it
			continue
		}
		p := &out[len(out)-1]
		if st.ByModel() {
			p.answers = append(p.answers, st)
		} else {
			p.expects = append(p.expects, st)
		}
	}
	return out
}

// say plays one message until its turn ends or waits, and checks what is expected of it. goOn is false where the script and
// the conversation have parted, so that what follows would mean nothing.
func (s *stage) say(ctx context.Context, e *turn.Engine, n int, p part) (goOn bool, err error) {
	s.heard.reset()
	id, _, err := e.Accept(ctx, s.message(n, p.by.Say))
	if err != nil {
		return false, err
	}
	if err := s.await(ctx, id); err != nil {
		return false, err
	}
	return s.judge(ctx, p, before{turn: id})
}

// before is how far a turn had got when a part of the script began.
type before struct {
	turn  string
	steps int // of its model
	posts int // replies of it
	over  bool
}

// judge holds a turn, as it stands after a part of the script, against what the script has and expects.
func (s *stage) judge(ctx context.Context, p part, was before) (goOn bool, err error) {
	o, err := s.outcome(ctx, was.turn)
	if err != nil {
		return false, fmt.Errorf("look at the turn of %s: %w", line(p.by.Place), err)
	}
	s.note(o.sum)
	apart := s.o.Live == nil && s.partedAt(p, o, was.steps)
	want := "one reply"
	if o.waits() || was.over {
		want = "no reply"
	}
	if n := len(o.posts) - was.posts; want == "one reply" && n != 1 || want == "no reply" && n > 1 || n == 1 && o.waits() {
		s.fail(p.by.Place, "expected %s, there were %d", want, n)
	}
	failed := len(s.result.Failures)
	for _, st := range p.expects {
		s.check(ctx, st, o)
	}
	if notes := s.heard.unfilled(); len(notes) > 0 && len(s.result.Failures) > failed {
		s.fail(p.by.Place, "a step of the script could not be filled in, so the runtime spoke: %s", strings.Join(notes, "; "))
	}
	return !apart, nil
}

// note keeps the summary of a turn, in place of an earlier one.
func (s *stage) note(sum journal.Summary) {
	for i, old := range s.result.Turns {
		if old.Turn == sum.Turn {
			s.result.Turns[i] = sum
			return
		}
	}
	s.result.Turns = append(s.result.Turns, sum)
}

// await waits until a turn has ended, or waits for people. A turn that broke is no rehearsal.
func (s *stage) await(ctx context.Context, id string) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case f := <-s.done:
			if f.Turn != id {
				continue
			}
			if f.Err != nil {
				return fmt.Errorf("turn %s broke: %w", id, f.Err)
			}
			return nil
		}
	}
}

// partedAt says whether the run asked the model for something else than the script has, and writes it down. Before the part
// of the script the model had answered so many times.
func (s *stage) partedAt(p part, o outcome, answered int) bool {
	misses := s.heard.misses()
	asked := len(o.full.Steps) - answered + len(misses) // what the script could not answer is no step of the turn
	switch {
	case asked < len(p.answers):
		s.fail(p.answers[asked].Place, "the script has %s here, the run asked for %d; this one was not asked for (%s)", answers(len(p.answers)), asked, o.story())
	case asked > len(p.answers):
		s.fail(p.by.Place, "the script has %s to this "+p.what()+", the run asked for %d (%s)", answers(len(p.answers)), asked, o.story())
	case len(misses) > 0:
		s.fail(p.by.Place, "the script does not fit the run: %s (%s)", strings.Join(slices.Compact(misses), "; "), o.story())
	default:
		return false
	}
	return true
}

func (p part) what() string {
	if p.by.Click != nil {
		return "click"
	}
	return "message"
}

func answers(n int) string {
	if n == 1 {
		return "1 answer"
	}
	return fmt.Sprintf("%d answers", n)
}

func (s *stage) fail(at config.Place, format string, args ...any) {
	s.result.Failures = append(s.result.Failures, line(at)+": "+fmt.Sprintf(format, args...))
}

func line(p config.Place) string { return fmt.Sprintf("%s:%d", p.File, p.Line) }
