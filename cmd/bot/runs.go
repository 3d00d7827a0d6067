package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"switchboard/config"
	"switchboard/config/expr"
	"switchboard/journal"
	"switchboard/turn"
)

func runsCommand(s streams, env config.Environ) *cobra.Command {
	var (
		asJSON     bool
		that, pack string
		limit      int
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
			return runs(cmd.Context(), s, env, runsQuery{rule, limit, asJSON, pack})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line for every run")
	cmd.Flags().StringVar(&that, "that", "", "an expression that must hold for every run; list those for which it does not")
	packFlag(cmd, &pack)
	cmd.Flags().IntVar(&limit, "limit", 20, "how many runs to look at, newest first (with --that: all)")
	return cmd
}

// packFlag says whose record is meant, where several bots keep theirs on one server.
func packFlag(cmd *cobra.Command, pack *string) {
	cmd.PersistentFlags().StringVar(pack, "pack", "", "the folder of the pack; needed where BOT_STORE names a Redis server")
}

const everyRun = 1 << 30

type runsQuery struct {
	that  *expr.Program
	limit int
	json  bool
	pack  string
}

func runs(ctx context.Context, s streams, env config.Environ, q runsQuery) (err error) {
	r, err := past(ctx, env, q.pack)
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
		sum := standingOf(t)
		note := ""
		if q.that != nil {
			if t.Ended == nil { // still under way: nothing can be said of it yet
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
		outcome := cmp.Or(c.Outcome, "under way")
		if words := c.Tool + " " + string(outcome); words != last {
			flush()
			last, n = words, 0
		}
		n++
	}
	flush()
	return out
}

// standingOf is the summary of a turn as it stands. One that waits for people says so.
func standingOf(t journal.Turn) journal.Summary {
	sum := journal.Summarise(t)
	if sum.Outcome == "" && waits(t) {
		sum.Outcome = turn.Waiting
	}
	return sum
}

// waits says whether a turn goes on only once a person has decided.
func waits(t journal.Turn) bool {
	return t.Ended == nil && slices.ContainsFunc(t.Calls, func(c journal.Call) bool { return c.Outcome() == journal.Waiting && c.Decided == nil })
}

func printRun(s streams, t journal.Turn, sum journal.Summary, note string) error {
	id, who := t.Turn, "-"
	if sum.Run != nil {
		id, who = *sum.Run, *sum.Assistant
	}
	tools := spellCalls(sum.Calls)
	outcome := cmp.Or(sum.Outcome, "under way")
	_, err := fmt.Fprintf(s.out, "%s  %s  %-14s %-9s %s%s\n", t.At.Format("2006-01-02 15:04:05"), id, who, outcome, strings.Join(tools, ", "), note)
	return err
}
