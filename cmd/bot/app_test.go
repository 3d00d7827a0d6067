package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"switchboard/chat"
	"switchboard/config"
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
	rest, err := filepath.Glob(filepath.Join(dir, "rehearsals", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range rest { // one file of them is enough to be played at every reload
		if filepath.Base(name) != "help.yaml" {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	bot, err := os.OpenFile(filepath.Join(dir, "bot.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bot.WriteString("reload: {rehearse: true}\n"); err != nil {
		t.Fatal(err)
	}
	if err := bot.Close(); err != nil {
		t.Fatal(err)
	}
	b.env["BOT_STORE"] = "sqlite:" + filepath.Join(t.TempDir(), "bot.db")
	term := &terminal{streams: streams{strings.NewReader(""), new(strings.Builder), new(strings.Builder)}}
	finished := make(chan turn.Finished, 10)
	app, err := NewApp(t.Context(), AppOptions{
		Path: dir, Env: b.get, Mode: offline, Log: zerolog.Nop(),
		Surface:  func(a *App) (turn.Surface, error) { term.record = a.store; return term, nil },
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

	edit("There is no documentation about exporting", "Sadly there is no documentation about exporting")
	edit("route: {assistant: help", "route: {asistant: help")
	_, err = app.Reload(t.Context())
	if problems, ok := errors.AsType[config.Problems](err); !ok || !strings.Contains(problems[0].Mend, "assistant") {
		t.Errorf("Reload of a broken pack = %v; want its problems", err)
	}
	if after := ask(); after != before {
		t.Errorf("after a refused version: %q, want what was said before: %q", after, before)
	}
	edit("route: {asistant: help", "route: {assistant: help")
	if _, err := app.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	good := ask()
	if !strings.HasPrefix(good, "Sadly there is no documentation") {
		t.Errorf("after a good version: %q", good)
	}
	// The pack wants its rehearsals played first, and one of them expects these words.
	edit("Sadly there is no documentation about", "I know nothing about")
	_, err = app.Reload(t.Context())
	if err == nil || !strings.Contains(err.Error(), "rehearsals/help.yaml") || !strings.Contains(err.Error(), "does not hold") {
		t.Errorf("Reload of a version whose rehearsal does not hold = %v", err)
	}
	if after := ask(); after != good {
		t.Errorf("after a version whose rehearsal does not hold: %q", after)
	}
	if home, err := app.Home(t.Context(), chat.Person{ID: "U0ANA", Kind: chat.Member}); err != nil || home.Admin == nil || home.Admin.Rejected == nil {
		t.Errorf("an admin's home = %+v, %v; want the refused version", home, err)
	}
}

// Files, command line and start-up have one validator: whoever loads a broken pack hears the same.
func TestC1_EveryDoorSaysTheSame(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../examples/club")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte("rulez: []\ndefault: {write: maybe}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.bot(exitNo, "check", dir)), "\n")
	lines = lines[:len(lines)-1] // the count
	if len(lines) != 2 {
		t.Fatalf("check says %q; want two problems", lines)
	}
	for _, args := range [][]string{{"chat", dir, "-m", "hi"}, {"route", dir, "hi"}, {"rehearse", dir}} {
		var out, errs strings.Builder
		if code := run(t.Context(), args, streams{strings.NewReader(""), &out, &errs}, b.get); code != exitRun {
			t.Errorf("bot %s: exit code %d", args[0], code)
		}
		for _, line := range lines {
			if !strings.Contains(errs.String(), line) {
				t.Errorf("bot %s says\n%s\nwithout %q", args[0], errs.String(), line)
			}
		}
	}
}
