package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"switchboard/assistants"
	"switchboard/llm"
	"switchboard/store"
	"switchboard/tools"
)

// Engine takes messages in and works them off: in order within a thread, side by side between threads.
type Engine struct {
	o     Options
	desks *versions
	rates tools.Rates

	stop context.CancelCauseFunc
	done sync.WaitGroup

	mu      sync.Mutex
	trouble map[string]trouble   // by message key, until its turn is over
	under   map[string]*underway // by thread: the turns that this process works on
	purses  map[string]llm.USD   // by spendKey: what turns under way have spent or may be spending, and is not on record yet
}

// New makes an engine that works with the desk until another is swapped in. The desk is the engine's from then on: it closes
// it when no turn uses it any more, or when it stops.
func New(desk *assistants.Desk, o Options) *Engine {
	if o.Workers == 0 {
		o.Workers = defaultWorkers
	}
	if o.Lease == 0 {
		o.Lease = defaultLease
	}
	return &Engine{o: o, desks: newVersions(desk, o), trouble: map[string]trouble{}, under: map[string]*underway{}, purses: map[string]llm.USD{}}
}

// errStopping is the cause of everything that ends because the engine does. Stopping is not failing: the work is handed back.
var errStopping = errors.New("the bot is stopping")

// Start keeps the active version's files, so that its runs can be resumed under it, and begins to work.
func (e *Engine) Start(ctx context.Context) error {
	if err := e.desks.keep(ctx, e.desks.desk().Pack); err != nil {
		return err
	}
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	e.stop = stop
	for range e.o.Workers {
		e.done.Go(func() { e.work(work) })
	}
	e.done.Go(func() { e.sweep(work) })
	e.done.Go(func() { e.watchTheClock(work) })
	return nil
}

// sweepEvery is how often words past their retention are deleted (rule D6).
const sweepEvery = time.Hour

func (e *Engine) sweep(ctx context.Context) {
	for {
		if n, err := e.o.Store.Sweep(ctx); err != nil && ctx.Err() == nil {
			e.o.Log.Error().Err(err).Msg("sweep the store")
		} else if n > 0 {
			e.o.Log.Info().Int("gone", n).Msg("swept the store")
		}
		if e.o.Wait(ctx, sweepEvery) != nil {
			return
		}
	}
}

// Stop hands back what is under way and waits for the workers, until ctx ends.
func (e *Engine) Stop(ctx context.Context) error {
	if e.stop == nil { // it never began
		return e.desks.close()
	}
	e.stop(errStopping)
	idle := make(chan struct{})
	go func() {
		e.done.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
		return fmt.Errorf("stop the bot: some turns did not hand back in time: %w", context.Cause(ctx))
	}
	return e.desks.close()
}

// Swap makes another version the active one, for turns that begin from now on, and takes it over unless it fails. Turns
// under way do not notice.
func (e *Engine) Swap(ctx context.Context, desk *assistants.Desk) error {
	return e.desks.swap(ctx, desk)
}

func (e *Engine) work(ctx context.Context) {
	for ctx.Err() == nil {
		lease, err := e.o.Store.Claim(ctx, e.o.Lease)
		if err != nil {
			if ctx.Err() == nil {
				e.o.Log.Error().Err(err).Msg("claim a thread")
				_ = e.o.Wait(ctx, time.Second) // it ends early only when the context does
			}
			continue
		}
		e.serve(ctx, lease)
	}
}

// serve works off the oldest message of a leased thread, and gives the thread back.
func (e *Engine) serve(ctx context.Context, l store.Lease) {
	hold := newGrip(e.o.Lease)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var renewing sync.WaitGroup
	defer renewing.Wait()
	defer cancel(nil)
	renewing.Go(func() { e.renew(ctx, l, hold, cancel) })

	items, err := e.o.Store.Items(ctx, l)
	first := e.firstMessage(items)
	switch {
	case err == nil && len(items) > 0 && first == len(items):
		if err = e.nothingToStop(ctx, l, items); err == nil {
			return
		}
	case err == nil && len(items) > 0:
		if err = e.try(ctx, l, line{items: items, hold: hold}, first); err == nil {
			e.forget(items[first].Key)
			return // the turn's last commit gave the thread back
		}
		if errors.Is(err, ErrOtherPack) {
			e.othersToo(items[first+1:])
			return // the lease is kept until it expires, so that the thread does not come back at once
		}
		if ctx.Err() == nil && !errors.Is(err, store.ErrStale) {
			// The lease runs on for the pause, so that nobody tries at once, and no worker has to wait for it.
			cancel(nil)
			renewing.Wait()
			if err = e.o.Store.Renew(context.WithoutCancel(ctx), l, e.pause(items[first].Key)); err == nil {
				return
			}
		}
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrStale) {
		e.o.Log.Error().Err(err).Str("thread", l.Thread).Msg("work off a thread's queue")
		_ = e.o.Wait(ctx, time.Second)
	}
	if err := e.o.Store.Release(context.WithoutCancel(ctx), l); err != nil && !errors.Is(err, store.ErrStale) {
		e.o.Log.Error().Err(err).Str("thread", l.Thread).Msg("give a thread back")
	}
}

// renew keeps the lease while the turn is under way. A lease that is lost ends the turn here: another worker has it.
func (e *Engine) renew(ctx context.Context, l store.Lease, hold *grip, lost context.CancelCauseFunc) {
	tick := time.NewTicker(e.o.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			began := time.Now()
			if err := e.o.Store.Renew(ctx, l, e.o.Lease); err != nil && ctx.Err() == nil {
				lost(fmt.Errorf("renew the lease of %s: %w", l.Thread, err))
				return
			}
			hold.from(began)
		}
	}
}

// grip is a worker's hold on a thread, as far as this process can know without asking: by the clock of this machine, which
// goes on where the process stands still.
type grip struct {
	ttl   time.Duration
	until atomic.Int64 // since the grip began
	began time.Time
}

func newGrip(ttl time.Duration) *grip {
	g := &grip{ttl: ttl, began: time.Now()}
	g.from(g.began)
	return g
}

// from says that the lease was extended by a call that began then. The last quarter of it is left for what is on its way.
func (g *grip) from(began time.Time) { g.until.Store(int64(began.Sub(g.began) + g.ttl*3/4)) }

func (g *grip) held() bool { return int64(time.Since(g.began)) < g.until.Load() }

// try handles one message; a panic is an error like any other, and the process lives on.
func (e *Engine) try(ctx context.Context, l store.Lease, in line, first int) (err error) {
	items := in.items
	it := items[first]
	var q queued
	if err := json.Unmarshal(it.Body, &q); err != nil {
		return fmt.Errorf("read queued message %s: %w", it.Key, err)
	}
	if q.Pack != e.desks.desk().Pack.Name {
		return e.notOurs(it.Key, q)
	}
	under, done := e.takeUp(l.Thread, it.Key)
	defer done()
	active, err := e.desks.use(ctx, "")
	if err != nil {
		return err
	}
	defer e.desks.leave(active)
	var s *story
	defer e.caught(q.Turn, &err) // what was to be said of the failure may panic as well
	defer func() {
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrStale) {
			err = e.failed(ctx, broken{l, it.Key, q, s, in.hold}, err)
		}
		if s != nil {
			s.quiet(ctx)
		}
	}()
	defer e.caught(q.Turn, &err)
	in.active = active.Desk
	if s, err = e.open(ctx, l, it.Key, q, in); err != nil {
		return err
	}
	defer e.desks.leave(s.pinned)
	defer s.settle()
	s.under, s.late = under, e.obsolete(items[:first], items[first:])
	if first > 0 {
		if err := e.stopWaiting(ctx, l, items[:first]); err != nil {
			return err
		}
	}
	return s.tell(ctx)
}

// caught makes a panic an error of the turn. It is deferred.
func (e *Engine) caught(turn string, err *error) {
	if p := recover(); p != nil {
		e.o.Log.Debug().Str("turn", turn).Bytes("stack", debug.Stack()).Msg("where the turn panicked")
		*err = errors.Join(*err, fmt.Errorf("turn %s panicked: %v", turn, p))
	}
}
