package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"switchboard/config"
	"switchboard/slack"
	"switchboard/store"
	"switchboard/turn"
)

// station is a bot in front of Slack, with the address where its health is told.
type station struct {
	app   *App
	slack *slack.Slack
	http  *http.Server
	addr  string // where it listens
	log   zerolog.Logger
	mend  func(changed bool, err error) // told of every reload, in place of the log; may be nil
	ended chan error                    // why the station cannot go on
	quit  context.CancelCauseFunc
	work  sync.WaitGroup
}

// stationOptions say what stands at a station.
type stationOptions struct {
	app   AppOptions
	slack slack.Options                 // tokens and address; the rest is filled in
	mend  func(changed bool, err error) // told of every reload, in place of the log; may be nil
}

// newStation builds everything that can fail without Slack. Nothing works yet.
func newStation(ctx context.Context, o stationOptions) (*station, error) {
	st := &station{log: o.app.Log, mend: o.mend, ended: make(chan error, 2)}
	o.app.Surface = func(a *App) (turn.Surface, error) {
		o.slack.Settings = func() config.Slack { return a.pack().Slack }
		o.slack.Bot, o.slack.Judge, o.slack.Desk = a, a, a
		o.slack.Now, o.slack.Wait, o.slack.Log = time.Now, wait, o.app.Log
		var err error
		st.slack, err = slack.New(o.slack)
		return st.slack, err
	}
	var err error
	if st.app, err = NewApp(ctx, o.app); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", st.health)
	mux.HandleFunc("GET /readyz", st.ready)
	mux.Handle("POST /slack/events", st.slack.Handler())
	st.http = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	return st, nil
}

// start begins to listen, meets Slack, and then works. Messages that Slack sends from here on are kept, whatever comes.
func (st *station) start(ctx context.Context, addr string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w; set BOT_ADDR to a free address", addr, err)
	}
	st.addr = l.Addr().String()
	run, quit := context.WithCancelCause(context.WithoutCancel(ctx))
	st.quit = quit
	st.work.Go(func() {
		if err := st.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			st.ended <- fmt.Errorf("serve on %s: %w", st.addr, err)
		}
	})
	if err := st.meet(ctx); err != nil {
		return err
	}
	if err := st.app.Start(ctx); err != nil {
		return err
	}
	w, err := watch(st.app, st.reloaded)
	if err != nil {
		return err
	}
	st.work.Go(func() { w.run(run) })
	return st.connected(ctx)
}

// connected waits a while until events can come in: who reads that the bot serves may write to it. Where it takes longer, it
// goes on without.
func (st *station) connected(ctx context.Context) error {
	const patience = 10 * time.Second
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-st.slack.Connected():
	case err := <-st.slack.Fatal():
		return err
	case <-late.C:
		st.log.Warn().Str("reason", st.slack.Health().Reason).Msg("not connected to Slack yet")
	case <-ctx.Done():
	}
	return nil
}

// The pauses between attempts to reach Slack at the start.
const (
	firstMeet = time.Second
	mostMeet  = time.Minute
)

// meet waits for Slack to know the bot. Where Slack cannot be reached, or wants no more calls for now, it goes on trying until
// ctx ends; what trying again cannot mend is an error at once.
func (st *station) meet(ctx context.Context) error {
	for pause := firstMeet; ; pause = min(2*pause, mostMeet) {
		err := st.slack.Start(ctx)
		if err == nil || errors.Is(err, slack.ErrUnusable) || ctx.Err() != nil {
			return err
		}
		st.log.Warn().Err(err).Dur("pause", pause).Msg("slack cannot be reached yet")
		if err := wait(ctx, pause); err != nil {
			return err
		}
	}
}

// reloaded writes down how a reload went.
func (st *station) reloaded(changed bool, err error) {
	if st.mend != nil { // it is told to people
		st.mend(changed, err)
		return
	}
	switch {
	case err != nil:
		st.log.Error().Strs("problems", lines(errors.Unwrap(err))).Msg("the changed pack was not taken")
	case changed:
		st.log.Info().Str("version", short(st.app.pack().Digest)).Msg("the changed pack is active, for messages from now on")
	}
}

// wait gives the reason why the bot cannot go on, or nil once the context ends.
func (st *station) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-st.slack.Fatal():
		return err
	case err := <-st.ended:
		return err
	}
}

// stop takes nothing in any more, hands back what is under way, and closes everything. Requests that do not end by themselves
// are cut, so that a stranger cannot hold up the rest.
func (st *station) stop(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if st.quit != nil {
		st.quit(errors.New("the bot is stopping"))
	}
	errs := []error{within(ctx, 2*time.Second, "answer the last requests", func(ctx context.Context) error {
		if st.http.Shutdown(ctx) == nil {
			return nil
		}
		return st.http.Close()
	})}
	errs = append(errs,
		within(ctx, grace, "hand back what is under way", st.app.engine.Stop),
		within(ctx, grace, "leave Slack", st.slack.Stop))
	st.work.Wait()
	return errors.Join(append(errs, st.app.Stop(ctx))...)
}

// within gives a part of the stopping its own time.
func within(ctx context.Context, d time.Duration, what string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("stop: %s: not done within %s", what, d))
	defer cancel()
	return do(ctx)
}

// health says whether the process can do anything at all: its store answers.
func (st *station) health(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), 2*time.Second, errors.New("the store did not answer within 2 s"))
	defer cancel()
	waiting, err := st.app.store.Waiting(ctx)
	if err == nil { // a store that only answers, and takes nothing, is of no use
		err = st.app.store.Commit(ctx, store.Batch{Adds: []store.Add{{Key: "health", Delta: 1, Until: time.Now().Add(time.Hour)}}})
	}
	if err != nil {
		answerHealth(w, http.StatusServiceUnavailable, map[string]any{"ok": false, "reason": "the store does not work: " + err.Error()})
		return
	}
	answerHealth(w, http.StatusOK, map[string]any{"ok": true, "waiting": waiting, "goroutines": runtime.NumGoroutine(), "version": version})
}

// ready says whether messages can come in and answers go out, and if not, why.
func (st *station) ready(w http.ResponseWriter, _ *http.Request) {
	h := st.slack.Health()
	status := http.StatusOK
	if !h.Ready {
		status = http.StatusServiceUnavailable
	}
	answerHealth(w, status, map[string]any{"ok": h.Ready, "reason": h.Reason, "pack": short(st.app.pack().Digest)})
}

func answerHealth(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // who asked has gone
}

// short is enough of a digest to tell versions apart.
func short(digest string) string {
	const prefix = len("sha256:")
	if len(digest) < prefix+12 {
		return digest
	}
	return digest[prefix : prefix+12]
}
