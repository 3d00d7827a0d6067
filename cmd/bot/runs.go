package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"switchboard/config"
	"switchboard/config/expr"
	"switchboard/journal"
	"switchboard/store/sqlite"
)

// past opens the record for reading, beside a bot that may be at work.
func past(ctx context.Context, env config.Environ) (*sqlite.Reader, error) {
	settings, err := config.ReadSettings(env)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(settings.StorePath())
	if err == nil && info.IsDir() {
		return nil, fmt.Errorf("open store %s: that is a folder; BOT_STORE names a file, e.g. sqlite:bot.db", settings.StorePath())
	}
	if err != nil {
		return nil, fmt.Errorf("open store %s: there is no such file yet; talk to a bot first (bot chat PACK), or set BOT_STORE to where its store is", settings.StorePath())
	}
	return sqlite.OpenReader(ctx, settings.StorePath())
}

func runsCommand(s streams, env config.Environ) *cobra.Command {
	var (
		asJSON bool
		that   string
		limit  int
	)
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List what the bot has done, newest first, or check every stored run",
		Long: `List what the bot has done, newest first.

With --that, every stored run is held against an expression over run, calls and reply; those that violate it are listed,
and the exit code is 1 if there are any. run has id, assistant, outcome, rounds, calls, tokens, usd and ms; each call has
seq, tool, args, result, outcome, reason, why and expects.`,
		Example: `bot runs --that "run.rounds <= 8 && calls.all(c, c.outcome != 'unknown')"`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usage("--limit takes a number from 1")
			}
			if cmd.Flags().Changed("that") && strings.TrimSpace(that) == "" {
				return usage("--that is empty; write an expression, e.g. %s", cmd.Example)
			}
			var rule *expr.Program
			if that != "" {
				var err error
				if rule, err = config.CompileThat(that); err != nil {
					return usage("--that: %w", err)
				}
				if !cmd.Flags().Changed("limit") {
					limit = everyRun
				}
			}
			return runs(cmd.Context(), s, env, runsQuery{rule, limit, asJSON})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line for every run")
	cmd.Flags().StringVar(&that, "that", "", "an expression that must hold for every run; list those for which it does not")
	cmd.Flags().IntVar(&limit, "limit", 20, "how many runs to look at, newest first (with --that: all)")
	return cmd
}

const everyRun = 1 << 30

type runsQuery struct {
	that  *expr.Program
	limit int
	json  bool
}

func runs(ctx context.Context, s streams, env config.Environ, q runsQuery) (err error) {
	r, err := past(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	begun, err := r.Streams(ctx, journal.KindBegun, q.limit)
	if err != nil {
		return err
	}
	violated := 0
	for _, e := range begun {
		t, ok, err := journal.Read(ctx, r, e.Stream)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		sum := journal.Summarise(t)
		note := ""
		if q.that != nil {
			if sum.Outcome == "" { // still under way: nothing can be said of it yet
				continue
			}
			holds, err := q.that.Holds(sum.Vars(t))
			if err == nil && holds {
				continue
			}
			violated++
			if err != nil {
				note = "  (cannot be evaluated: " + err.Error() + ")"
			}
		}
		if q.json {
			err = printJSON(s.out, sum)
		} else {
			err = printRun(s, t, sum, note)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case violated > 0:
		return no()
	case q.that != nil && !q.json:
		_, err = fmt.Fprintf(s.out, "%s, and it holds for all\n", count(len(begun), "run"))
	case len(begun) == 0 && !q.json:
		_, err = fmt.Fprintln(s.out, "no runs yet")
	}
	return err
}

// spellCalls lists tools and how they ended; equal ones in a row are counted.
func spellCalls(calls []journal.CallSummary) []string {
	var out []string
	last, n := "", 0
	flush := func() {
		switch {
		case n == 1:
			out = append(out, last)
		case n > 1:
			out = append(out, fmt.Sprintf("%s x%d", last, n))
		}
	}
	for _, c := range calls {
		outcome := c.Outcome
		if outcome == "" {
			outcome = "under way"
		}
		if words := c.Tool + " " + string(outcome); words != last {
			flush()
			last, n = words, 0
		}
		n++
	}
	flush()
	return out
}

func printRun(s streams, t journal.Turn, sum journal.Summary, note string) error {
	id, who := t.Turn, "-"
	if sum.Run != nil {
		id, who = *sum.Run, *sum.Assistant
	}
	tools := spellCalls(sum.Calls)
	outcome := sum.Outcome
	if outcome == "" {
		outcome = "under way"
	}
	_, err := fmt.Fprintf(s.out, "%s  %s  %-14s %-9s %s%s\n", t.At.Format("2006-01-02 15:04:05"), id, who, outcome, strings.Join(tools, ", "), note)
	return err
}
