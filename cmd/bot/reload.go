package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/rs/zerolog"

	"switchboard/config"
	"switchboard/rehearse"
	"switchboard/slack"
)

// Reload makes the files as they are now the active version, or says what is wrong with them and changes nothing. changed
// is false when they are what is active already.
func (a *App) Reload(ctx context.Context) (changed bool, err error) {
	a.reload.Lock()
	defer a.reload.Unlock()
	now := a.state.Load()
	pack, err := load(a.path, a.parts.options())
	switch {
	case err != nil:
	case pack.Digest == now.desk.Pack.Digest:
		a.state.Store(&standing{desk: now.desk, since: now.since}) // what was wrong has been taken back
		return false, nil
	case pack.Name != now.desk.Pack.Name:
		err = fmt.Errorf("the bot's name changed from %s to %s, and messages wait for %s: write the old name, or start the bot again", now.desk.Pack.Name, pack.Name, now.desk.Pack.Name)
	case pack.Reload.Rehearse:
		err = a.rehearsed(ctx, pack)
	}
	if err == nil {
		err = a.swap(ctx, pack)
	}
	if err != nil {
		a.state.Store(&standing{now.desk, now.since, &slack.Rejected{At: time.Now(), Errors: lines(err)}})
		return false, fmt.Errorf("reload the pack; the version before stays active: %w", err)
	}
	return true, nil
}

// swap builds everything of a version that can fail, and only then lets it take over (rule C2).
func (a *App) swap(ctx context.Context, pack *config.Pack) error {
	desk, err := a.parts.desk(ctx, pack)
	if err != nil {
		return err
	}
	if err := a.engine.Swap(ctx, desk); err != nil {
		return errors.Join(err, desk.Close())
	}
	a.state.Store(&standing{desk: desk, since: time.Now()})
	return nil
}

// rehearsed plays the rehearsals of a version before it may take over, offline and in front of an example server of their own.
func (a *App) rehearsed(ctx context.Context, pack *config.Pack) (err error) {
	p, err := gather(ctx, a.path, a.parts.outside, offline)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if p.pack.Digest != pack.Digest {
		return errors.New("the files changed while they were read; save once more")
	}
	var bad []error
	err = p.play(ctx, rehearse.Options{Log: zerolog.Nop()}, func(r rehearse.Result) error {
		for _, f := range r.Failures {
			bad = append(bad, fmt.Errorf("%s: rehearsal %q does not hold: %s", r.Place, r.Name, f))
		}
		return nil
	})
	return errors.Join(err, errors.Join(bad...))
}

// lines gives what is wrong, one thing a line.
func lines(err error) []string { return strings.Split(err.Error(), "\n") }

// settle is how long files must be left alone before they are read: an editor saves in several steps. Where they are never
// left alone, they are read all the same.
const (
	settle    = 150 * time.Millisecond
	unsettled = time.Second
)

// watcher reloads the pack when one of its files changes.
type watcher struct {
	app  *App
	tell func(changed bool, err error) // of every try
	w    *fsnotify.Watcher
}

// watch begins to look at the pack's folder, and at the one around it: the whole folder may be replaced.
func watch(app *App, tell func(changed bool, err error)) (*watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch pack %s: %w", app.path, err)
	}
	out := &watcher{app, tell, w}
	if err := errors.Join(w.Add(filepath.Dir(filepath.Clean(app.path))), out.add(app.path)); err != nil {
		return nil, errors.Join(fmt.Errorf("watch pack %s: %w", app.path, err), w.Close())
	}
	return out, nil
}

// add watches a folder and all below it.
func (w *watcher) add(folder string) error {
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return w.w.Add(path)
	})
}

// concerns says whether something of the pack changed: no editor's own files, and none beside the pack.
func (w *watcher) concerns(e fsnotify.Event) bool {
	within, err := filepath.Rel(w.app.path, e.Name)
	if err != nil || within == ".." || strings.HasPrefix(within, ".."+string(filepath.Separator)) || e.Op == fsnotify.Chmod {
		return false
	}
	return !config.Scratch(filepath.Base(e.Name))
}

// run reloads until the context ends. What changed before it began counts as a change.
func (w *watcher) run(ctx context.Context) {
	defer func() { _ = w.w.Close() }() // nothing is lost with it
	quiet := time.NewTimer(0)
	var first time.Time // of the changes that were not read yet
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.w.Events:
			if !ok {
				return
			}
			if !w.concerns(e) {
				continue
			}
			if e.Has(fsnotify.Create) {
				_ = w.add(e.Name) // a file, or gone again: then there is nothing to watch in it
			}
			if first.IsZero() {
				first = time.Now()
			}
			quiet.Reset(max(0, min(settle, unsettled-time.Since(first))))
		case err, ok := <-w.w.Errors:
			if !ok {
				return
			}
			w.app.log.Warn().Err(err).Msg("some changes of the pack's folder were not told; reading it")
			quiet.Reset(settle)
		case <-quiet.C:
			first = time.Time{}
			w.tell(w.app.Reload(ctx))
		}
	}
}
