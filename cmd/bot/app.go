package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"switchboard/assistants"
	"switchboard/chat"
	"switchboard/config"
	"switchboard/llm/scripted"
	"switchboard/slack"
	"switchboard/store"
	"switchboard/turn"
)

// App is a bot at work: one pack, one store, one surface.
type App struct {
	path   string // of the pack
	parts  *parts
	store  workshop
	engine *turn.Engine
	door   *door // nil: there is none, or it could not be opened
	local  bool  // the operator of this machine may decide
	log    zerolog.Logger

	reload sync.Mutex // one after the other, so that an older one cannot win
	state  atomic.Pointer[standing]
}

// standing is the active version, and the last one that was refused since.
type standing struct {
	desk     *assistants.Desk
	since    time.Time
	rejected *slack.Rejected
}

// pack is the active version of the pack.
func (a *App) pack() *config.Pack { return a.state.Load().desk.Pack }

// AppOptions say what a bot works with.
type AppOptions struct {
	Path string // of the pack
	Env  config.Environ
	Mode mode
	// Surface gives the surface. What it needs of the bot is there from Start on.
	Surface  func(a *App) (turn.Surface, error)
	Pace     scripted.Pace // of the words of an offline answer; nil: all at once
	Finished func(turn.Finished)
	Local    bool // --local-approvals: whoever can open the store's socket may decide (rule M5)
	Log      zerolog.Logger
	// Around puts something between the bot and the store that was opened; nil: nothing. Closing it closes the store.
	Around func(store.Store) store.Store
}

// grace is how long a stopping bot waits for turns to hand back.
const grace = 10 * time.Second

// NewApp builds everything that can fail. Nothing works yet.
func NewApp(ctx context.Context, o AppOptions) (_ *App, err error) {
	a := &App{path: o.Path, local: o.Local, log: o.Log}
	if a.parts, err = gather(ctx, o.Path, o.Env, o.Mode); err != nil {
		return nil, err
	}
	a.parts.pace = o.Pace
	if !a.parts.live {
		a.parts.begins = scripted.New(a.parts.pack).Begins
	}
	if err := outside(o.Path, a.parts.settings.StorePath()); err != nil {
		return nil, errors.Join(err, a.parts.stop())
	}
	desk, err := a.parts.desk(ctx, a.parts.pack)
	if err != nil {
		return nil, errors.Join(err, a.parts.stop())
	}
	if a.store, err = openStore(ctx, a.parts.settings, a.parts.pack.Name); err != nil {
		return nil, errors.Join(err, desk.Close(), a.parts.stop())
	}
	if o.Around != nil {
		a.store.Store = o.Around(a.store.Store)
	}
	a.state.Store(&standing{desk: desk, since: time.Now()})
	surface, err := o.Surface(a)
	if err != nil {
		return nil, errors.Join(err, a.store.Close(), desk.Close(), a.parts.stop())
	}
	a.engine = turn.New(desk, turn.Options{
		Store: a.store.Store, Surface: surface, Open: a.parts.stored, Now: time.Now, Wait: wait, Log: o.Log, Finished: o.Finished,
		Lease: a.store.lease,
	})
	return a, nil
}

// outside refuses a store within the pack: it is no part of it, and the pack would not load again. A path of "" is no file.
func outside(pack, path string) error {
	if path == "" {
		return nil
	}
	from, err := filepath.Abs(pack)
	if err != nil {
		return fmt.Errorf("look where pack %s is: %w", pack, err)
	}
	to, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("look where store %s is: %w", path, err)
	}
	if within, err := filepath.Rel(from, to); err == nil && filepath.IsLocal(within) {
		return fmt.Errorf("open store %s: it would lie in the pack; set BOT_STORE to a place outside, such as sqlite:%s", path, filepath.Join(filepath.Dir(from), "bot.db"))
	}
	return nil
}

// Start begins to work: what an earlier process left is taken up first. Then decisions of the operator are taken at the
// store's door, where there is one; without it the bot works all the same.
func (a *App) Start(ctx context.Context) error {
	if err := a.engine.Start(ctx); err != nil {
		return err
	}
	a.log.Info().Str("store", a.store.promise).Msg("what the store promises")
	path := a.parts.settings.StorePath()
	if path == "" {
		if a.local {
			a.log.Warn().Msg("--local-approvals opens nothing here: on Redis the operator decides with bot approvals, --local-approvals and --pack")
		}
		return nil
	}
	d, err := openDoor(ctx, doorOf(path), a)
	if err != nil {
		a.log.Warn().Err(err).Msg("bot approvals cannot reach this process")
		return nil
	}
	a.door = d
	return nil
}

// Decide implements slack.Judge.
func (a *App) Decide(ctx context.Context, d chat.Decision) (chat.Ruling, error) {
	return a.engine.Decide(ctx, d)
}

// Stop hands back what is under way and closes everything, in the opposite order of NewApp.
func (a *App) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), grace, fmt.Errorf("stop: not done within %s", grace))
	defer cancel()
	var errs []error
	if a.door != nil {
		errs = append(errs, a.door.close(ctx))
	}
	errs = append(errs, a.engine.Stop(ctx), a.store.Close())
	return errors.Join(append(errs, a.parts.stop())...)
}
