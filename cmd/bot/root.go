package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"switchboard/config"
)

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// The codes that the process ends with.
const (
	exitGood  = 0
	exitNo    = 1 // the answer is no: check, rehearse, runs --that
	exitUsage = 2 // the command was called wrongly
	exitRun   = 3 // it could not run
)

// coded is an error with the code that the process ends with. An empty message was said already.
type coded struct {
	code int
	err  error
}

func (c *coded) Error() string { return c.err.Error() }
func (c *coded) Unwrap() error { return c.err }

func usage(format string, args ...any) error {
	return &coded{exitUsage, fmt.Errorf(format, args...)}
}

// errSaid ends a command whose output has said already what is wrong.
var errSaid = errors.New("")

func no() error { return &coded{exitNo, errSaid} }

// run is the program apart from its process.
func run(ctx context.Context, args []string, s streams, env config.Environ) int {
	root := rootCommand(s, env) //nolint:contextcheck // cobra hands the context over inside the command
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitGood
	}
	code := exitRun
	if c, ok := errors.AsType[*coded](err); ok {
		code = c.code
	}
	if msg := err.Error(); msg != "" {
		_, _ = fmt.Fprintln(s.err, "bot: "+msg) // there is nobody left to tell
	}
	return code
}

func rootCommand(s streams, env config.Environ) *cobra.Command {
	root := &cobra.Command{
		Use:           "bot",
		Short:         "A bot that a team can trust: a router, narrow assistants, and every call on record.",
		Long:          "bot runs a pack: a folder of YAML that defines a router and several narrow assistants.\nBegin with: bot chat examples/club",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("there is no command %q; `bot help` lists them%s", args[0], didYouMean(cmd, args[0]))
			}
			return cmd.Help()
		},
	}
	root.SuggestionsMinimumDistance = 2
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		msg, _, _ := strings.Cut(err.Error(), ": strconv.") // what Go calls the mistake helps nobody
		return usage("%s; `%s --help` lists the flags", msg, cmd.CommandPath())
	})
	root.AddCommand(playgroundCommand(s, env), serveCommand(s, env), slackCommand(s, env), chatCommand(s, env), checkCommand(s, env), routeCommand(s, env), rehearseCommand(s, env),
		runsCommand(s, env), traceCommand(s, env), approvalsCommand(s, env), doctorCommand(s, env), benchCommand(s), versionCommand(s))
	strictHelp(root)
	return root
}

// strictHelp makes the commands that come with cobra say no to what they do not know, as all others do.
func strictHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.Args = cobra.ArbitraryArgs
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				if len(args) > 0 {
					return usage("there are no completions for %q; there are for bash, fish, powershell and zsh", args[0])
				}
				return cmd.Help()
			}
		case "help":
			help := cmd.Run
			cmd.Run = nil
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				if found, rest, err := cmd.Root().Find(args); err != nil || found == cmd.Root() && len(rest) > 0 {
					return usage("there is no command %q; `bot help` lists them%s", args[0], didYouMean(cmd.Root(), args[0]))
				}
				help(cmd, args)
				return nil
			}
		}
	}
}

// noArgs is the rule for commands that take none.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no more words, and %q is one; `%s --help` says what it takes", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return nil
}

func didYouMean(cmd *cobra.Command, name string) string {
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		return "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return ""
}

// packArg is the rule for commands that take one pack, and then more words.
func packArg(more int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1+more {
			return usage("%s takes %s; e.g. %s", cmd.CommandPath(), what, cmd.Example)
		}
		return nil
	}
}

// logger writes for admins to stderr. fallback is the level where BOT_LOG does not say one.
//
// forPeople writes lines instead of JSON: between the lines of a conversation.
func logger(w io.Writer, env config.Environ, s config.Settings, fallback zerolog.Level, forPeople bool) zerolog.Logger {
	level := fallback
	if v, ok := env("BOT_LOG"); ok && v != "" {
		level = map[string]zerolog.Level{
			"debug": zerolog.DebugLevel, "info": zerolog.InfoLevel, "warn": zerolog.WarnLevel, "error": zerolog.ErrorLevel, "off": zerolog.Disabled,
		}[s.Log]
	}
	if forPeople {
		w = zerolog.ConsoleWriter{Out: w, NoColor: true, TimeFormat: time.TimeOnly}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

// page prints, and remembers the first error.
type page struct {
	w   io.Writer
	err error
}

func (p *page) print(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}

// isFolder says whether a pack's folder is there, with a next step when it is not.
func isFolder(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("open pack %s: there is no such folder; name a folder that holds a bot.yaml, e.g. examples/club", path)
	case !info.IsDir():
		return fmt.Errorf("open pack %s: a pack is a folder; name the folder that holds bot.yaml", path)
	}
	return nil
}
