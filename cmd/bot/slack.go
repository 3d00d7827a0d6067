package main

import (
	"context"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"switchboard/config"
	"switchboard/slack"
)

func slackCommand(s streams, env config.Environ) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "slack",
		Short: "Look at the connection to Slack",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var asJSON bool
	check := &cobra.Command{
		Use:   "check",
		Short: "Say what the tokens in the environment can and cannot do",
		Long: `Say what SLACK_BOT_TOKEN, SLACK_APP_TOKEN and SLACK_SIGNING_SECRET can and cannot do. Nothing is posted or changed.

Exit code 1: something that the bot needs is missing.`,
		Example: "bot slack check",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runSlackCheck(cmd.Context(), asJSON, s, env)
		},
	}
	check.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.AddCommand(check)
	return cmd
}

func runSlackCheck(ctx context.Context, asJSON bool, s streams, env config.Environ) error {
	settings, err := config.ReadSettings(env)
	if err != nil {
		return err
	}
	o, err := slackOptions(settings)
	if err != nil {
		return err
	}
	o.Now, o.Wait, o.Log = time.Now, wait, logger(s.err, env, settings, zerolog.ErrorLevel, !asJSON)
	report, err := slack.Check(ctx, o)
	if err != nil {
		return err
	}
	if asJSON {
		if err := printJSON(s.out, report); err != nil {
			return err
		}
	} else {
		out := page{w: s.out}
		for _, l := range report.Lines {
			mark := "good"
			if !l.OK {
				mark = "NOT GOOD"
			}
			out.print("%-8s  %s\n", mark, l.What)
			if l.Next != "" {
				out.print("          %s\n", l.Next)
			}
		}
		if out.err != nil {
			return out.err
		}
	}
	if !report.OK() {
		return no()
	}
	return nil
}
