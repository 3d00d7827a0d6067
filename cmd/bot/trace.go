package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"switchboard/config"
	"switchboard/journal"
)

// traced is what bot trace says, for programs: the summary with who asked what, where and when.
type traced struct {
	At      time.Time       `json:"at"`
	Person  string          `json:"person"`
	Channel string          `json:"channel"`
	Pack    string          `json:"pack"`
	Asked   string          `json:"asked"` // empty once the retention took it
	Routed  *journal.Routed `json:"routed"`
	journal.Summary
}

func traceCommand(s streams, env config.Environ) *cobra.Command {
	var (
		asJSON bool
		pack   string
	)
	cmd := &cobra.Command{
		Use:     "trace RUN",
		Short:   "Show what a run meant to do, was allowed to do and did",
		Example: "bot trace r_5f21c0ab12ef",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("%s takes the id of one run or turn; bot runs lists them", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			r, err := past(cmd.Context(), env, pack)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			defer r.Close() //nolint:errcheck // completion has nobody to tell
			begun, _ := r.Streams(cmd.Context(), journal.KindBegun, 50)
			var ids []cobra.Completion
			for _, e := range begun {
				ids = append(ids, journal.RunID(e.Stream))
			}
			return ids, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			id, ok := journal.TurnOf(args[0])
			if !ok {
				return usage("%q is no id of a run or turn; they look like r_5f21c0ab12ef, and bot runs lists them", args[0])
			}
			r, err := past(cmd.Context(), env, pack)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, r.Close()) }()
			t, ok, err := journal.Read(cmd.Context(), r, id)
			if err != nil {
				return err
			}
			if !ok {
				return fmt.Errorf("show trace: there is no run %s in this store; bot runs lists them, BOT_STORE names another store", args[0])
			}
			if asJSON {
				return printJSON(s.out, traced{t.At, t.Person, t.Channel, t.Pack, t.Message, t.Routed, standingOf(t)})
			}
			return journal.Draw(s.out, t)
		},
	}
	packFlag(cmd, &pack)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
