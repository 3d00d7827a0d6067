package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"switchboard/config"
	"switchboard/store"
	"switchboard/turn"
)

// A version that is wrong is refused with its problems, and the one before it goes on; a good one takes over for the next
// message.
func TestC2_ABadVersionNeverReplacesAGoodOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../examples/club")); err != nil {
		t.Fatal(err)
	}
	b.env["BOT_STORE"] = "sqlite:" + filepath.Join(t.TempDir(), "bot.db")
	term := &terminal{streams: streams{strings.NewReader(""), new(strings.Builder), new(strings.Builder)}}
	finished := make(chan turn.Finished, 10)
	app, err := NewApp(t.Context(), AppOptions{
		Path: dir, Env: b.get, Mode: offline, Log: zerolog.Nop(),
		Surface:  func(s store.Store) turn.Surface { term.record = s; return term },
		Finished: func(f turn.Finished) { finished <- f },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := app.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask := func() string {
		t.Helper()
		c := &conversation{app: app, terminal: term, finished: make(chan turn.Finished, 1), person: person(app.parts.pack, ""), channel: channel(app.parts.pack, "")}
		answer := make(chan string, 1)
		go func() {
			f := <-finished
			answer <- f.Reply.Text
			c.finished <- f
		}()
		if err := c.say(t.Context(), waivers); err != nil {
			t.Fatal(err)
		}
		return <-answer
	}
	edit := func(from, to string) {
		t.Helper()
		name := filepath.Join(dir, "rehearsals", "help.yaml")
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		//nolint:gosec // the folder is the test's own
		if err := os.WriteFile(name, []byte(strings.ReplaceAll(string(data), from, to)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := ask()

	edit("There is no documentation about", "There is not one document about")
	edit("route: {assistant: help", "route: {asistant: help")
	err = app.Reload(t.Context())
	if problems, ok := errors.AsType[config.Problems](err); !ok || !strings.Contains(problems[0].Mend, "assistant") {
		t.Errorf("Reload of a broken pack = %v; want its problems", err)
	}
	if after := ask(); after != before {
		t.Errorf("after a refused version: %q, want what was said before: %q", after, before)
	}
	edit("route: {asistant: help", "route: {assistant: help")
	if err := app.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := ask(); !strings.HasPrefix(after, "There is not one document about") {
		t.Errorf("after a good version: %q", after)
	}
}
