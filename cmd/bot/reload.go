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

	"switchboard/config"
	"switchboard/rehearse"
	"switchboard/slack"
)

// Reload makes the files as they are now the active version, or says what is wrong with them and changes nothing. changed
// is false when they are what is active already.
func (a *App) Reload(ctx context.Context) (changed bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pack, err := load(a.path, a.parts.options())
	if err == nil && pack.Digest == a.active.Load().Pack.Digest {
		a.rejected.Store(nil) // what was wrong has been taken back
		return false, nil
	}
	if err == nil && pack.Reload.Rehearse {
		err = a.rehearsed(ctx, pack)
	}
	if err == nil {
		err = a.swap(ctx, pack)
	}
	if err != nil {
		a.rejected.Store(&slack.Rejected{At: time.Now(), Errors: lines(err)})
		return false, fmt.Errorf("reload the pack; the version before stays active: %w", err)
	}
	a.rejected.Store(nil)
	return true, nil
}

// swap builds everything of a version that can fail, and only then lets it take over (rule C2).
func (a *App) swap(ctx context.Context, pack *config.Pack) error {
	desk, err := a.parts.desk(ctx, pack)
	if err != nil {
		return err
	}
	if _, err := a.engine.Swap(ctx, desk); err != nil {
		return errors.Join(err, desk.Close())
	}
	a.old = append(a.old, desk)
	a.active.Store(desk)
	a.since = time.Now()
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
	err = p.play(ctx, rehearse.Options{Log: a.log}, func(r rehearse.Result) error {
		for _, f := range r.Failures {
			bad = append(bad, fmt.Errorf("%s: rehearsal %q does not hold: %s", r.Place, r.Name, f))
		}
		return nil
	})
	return errors.Join(err, errors.Join(bad...))
}

// lines gives what is wrong, one thing a line.
func lines(err error) []string { return strings.Split(err.Error(), "\n") }

// settle is how long files must be left alone before they are read: an editor saves in several steps.
const settle = 150 * time.Millisecond

// watcher reloads the pack when one of its files changes.
type watcher struct {
	app  *App
	tell func(changed bool, err error) // of every try
	w    *fsnotify.Watcher
}

// watch begins to look at the pack's folder.
func watch(app *App, tell func(changed bool, err error)) (*watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch pack %s: %w", app.path, err)
	}
	out := &watcher{app, tell, w}
	if err := out.add(app.path); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return out, nil
}

// add watches a folder and all below it.
func (w *watcher) add(folder string) error {
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return w.w.Add(path)
	})
	if err != nil {
		return fmt.Errorf("watch pack %s: %w", w.app.path, err)
	}
	return nil
}

// run reloads until the context ends.
func (w *watcher) run(ctx context.Context) {
	defer func() { _ = w.w.Close() }() // nothing is lost with it
	quiet := time.NewTimer(time.Hour)
	quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.w.Events:
			if !ok {
				return
			}
			if e.Has(fsnotify.Create) {
				_ = w.add(e.Name) // a file, or gone again: then there is nothing to watch in it
			}
			if !e.Has(fsnotify.Chmod) || e.Op != fsnotify.Chmod {
				quiet.Reset(settle)
			}
		case err, ok := <-w.w.Errors:
			if !ok {
				return
			}
			w.app.log.Error().Err(err).Msg("watch the pack's folder")
		case <-quiet.C:
			w.tell(w.app.Reload(ctx))
		}
	}
}
