package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"switchboard/examples/backoffice"
	"switchboard/journal"
)

// childVar makes the test binary be the program, so that a test can start it as a process of its own, and kill it.
const childVar = "SWITCHBOARD_TEST_CHILD"

func TestMain(m *testing.M) {
	bot := main
	if _, child := os.LookupEnv(childVar); child {
		bot()
	}
	if at, child := os.LookupEnv(seamedVar); child {
		os.Exit(seamed(at))
	}
	testscript.Main(m, map[string]func(){"bot": bot})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	club, err := filepath.Abs("../../examples/club")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("CLUB", club)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "column": column},
	})
}

// exits runs a command and holds its exit code: exits CODE COMMAND ARG….
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// column keeps a field of the first JSON line of the last output in a variable: column VARIABLE FIELD.
func column(ts *testscript.TestScript, _ bool, args []string) {
	first, _, _ := strings.Cut(ts.ReadFile("stdout"), "\n")
	var obj map[string]any
	ts.Check(json.Unmarshal([]byte(first), &obj))
	v, _ := obj[args[1]].(string)
	ts.Setenv(args[0], v)
}

// bench is the program in this process, with an environment and a store of its own.
type bench struct {
	t   *testing.T
	env map[string]string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return &bench{t, map[string]string{"BOT_STORE": "sqlite:" + filepath.Join(t.TempDir(), "bot.db")}}
}

// office starts a back office that outlives single calls of the program.
func (b *bench) office() *backoffice.Server {
	b.t.Helper()
	s, err := backoffice.Start(b.t.Context(), backoffice.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			b.t.Error(err)
		}
	})
	maps.Copy(b.env, s.Env())
	return s
}

func (b *bench) get(name string) (string, bool) {
	v, ok := b.env[name]
	return v, ok
}

// bot calls the program and gives what it printed.
func (b *bench) bot(code int, args ...string) string {
	b.t.Helper()
	var out, errs bytes.Buffer
	got := run(b.t.Context(), args, streams{strings.NewReader(""), &out, &errs}, b.get)
	if got != code {
		b.t.Fatalf("bot %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, out.String(), errs.String())
	}
	return out.String()
}

// chat says the messages in one call and gives a summary for each.
func (b *bench) chat(code int, say ...string) []journal.Summary {
	b.t.Helper()
	args := []string{"chat", "../../examples/club", "--json"}
	for _, s := range say {
		args = append(args, "-m", s)
	}
	return b.summaries(b.bot(code, args...))
}

func (b *bench) summaries(out string) []journal.Summary {
	b.t.Helper()
	var list []journal.Summary
	for line := range strings.Lines(out) {
		var s journal.Summary
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&s); err != nil {
			b.t.Fatalf("printed %q: %v", line, err)
		}
		list = append(list, s)
	}
	return list
}

// child starts the program as a process of its own.
func (b *bench) child(ctx context.Context, args ...string) (*exec.Cmd, *bytes.Buffer) {
	b.t.Helper()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), childVar+"=1")
	for k, v := range b.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	cmd.WaitDelay = 10 * time.Second
	return cmd, &out
}
