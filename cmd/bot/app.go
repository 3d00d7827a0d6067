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
	"switchboard/config"
	"switchboard/llm/scripted"
	"switchboard/slack"
	"switchboard/store"
	"switchboard/store/sqlite"
	"switchboard/turn"
)

// App is a bot at work: one pack, one store, one surface.
type App struct {
	path   string // of the pack
	parts  *parts
	store  store.Store
	engine *turn.Engine
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
	Log      zerolog.Logger
}

// grace is how long a stopping bot waits for turns to hand back.
const grace = 10 * time.Second

// NewApp builds everything that can fail. Nothing works yet.
func NewApp(ctx context.Context, o AppOptions) (_ *App, err error) {
	a := &App{path: o.Path, log: o.Log}
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
	if a.store, err = sqlite.Open(ctx, a.parts.settings.StorePath(), sqlite.Options{}); err != nil {
		return nil, errors.Join(err, desk.Close(), a.parts.stop())
	}
	a.state.Store(&standing{desk: desk, since: time.Now()})
	surface, err := o.Surface(a)
	if err != nil {
		return nil, errors.Join(err, a.store.Close(), desk.Close(), a.parts.stop())
	}
	a.engine = turn.New(desk, turn.Options{
		Store: a.store, Surface: surface, Open: a.parts.stored, Now: time.Now, Wait: wait, Log: o.Log, Finished: o.Finished,
	})
	return a, nil
}

// outside refuses a store within the pack: it is no part of it, and the pack would not load again.
func outside(pack, path string) error {
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

// Start begins to work: what an earlier process left is taken up first.
func (a *App) Start(ctx context.Context) error { return a.engine.Start(ctx) }

// Stop hands back what is under way and closes everything, in the opposite order of NewApp.
func (a *App) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), grace, fmt.Errorf("stop: not done within %s", grace))
	defer cancel()
	errs := []error{a.engine.Stop(ctx), a.store.Close()}
	return errors.Join(append(errs, a.parts.stop())...)
}
