package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"switchboard/config"
	"switchboard/slack"
)

func serveCommand(s streams, env config.Environ) *cobra.Command {
	var forceOffline, local bool
	cmd := &cobra.Command{
		Use:   "serve PACK",
		Short: "Answer people in Slack",
		Long: `Answer people in Slack, until it is stopped.

It needs the keys of the pack's models (or --offline), SLACK_BOT_TOKEN, and SLACK_APP_TOKEN for Socket Mode or SLACK_SIGNING_SECRET for events over HTTP (they come to
/slack/events at BOT_ADDR). docs/slack.md says where they come from, and bot slack check what they can do. Health is told at
/healthz and /readyz of BOT_ADDR. A changed file of the pack takes effect for the next message; a version with mistakes does
not take over.`,
		Example: "bot serve examples/club",
		Args:    packArg(0, "the folder of one pack"),
		RunE: func(cmd *cobra.Command, args []string) error {
			m := live // a team must not meet a bot that plays its rehearsals because a key is missing
			if forceOffline {
				m = offline
			}
			return runServe(cmd.Context(), AppOptions{Path: args[0], Env: env, Mode: m, Local: local}, s)
		},
	}
	cmd.Flags().BoolVar(&forceOffline, "offline", false, "play the pack's rehearsals in place of asking a model")
	localFlag(cmd, &local)
	return cmd
}

func runServe(ctx context.Context, o AppOptions, s streams) (err error) {
	settings, err := config.ReadSettings(o.Env)
	if err != nil {
		return err
	}
	connect, err := slackOptions(settings)
	if err != nil {
		return err
	}
	o.Log = logger(s.err, o.Env, settings, zerolog.InfoLevel, false)
	log := o.Log
	st, err := newStation(ctx, stationOptions{app: o, slack: connect})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.stop(ctx)) }()
	if err := st.start(ctx, settings.Addr); err != nil {
		if ctx.Err() != nil { // it was stopped while it waited for Slack
			return nil
		}
		return err
	}
	log.Info().Str("pack", st.app.parts.pack.Name).Bool("live", st.app.parts.live).Str("addr", st.addr).Str("version", version).Msg("serving")
	if err := st.wait(ctx); err != nil {
		return fmt.Errorf("serve pack %s: %w", o.Path, err)
	}
	log.Info().Msg("stopping: what is under way is finished or handed back")
	return nil
}

// slackOptions takes the tokens over; the error names the variables that are missing.
func slackOptions(s config.Settings) (slack.Options, error) {
	var errs []error
	if s.SlackBot == "" {
		errs = append(errs, errors.New("SLACK_BOT_TOKEN is not set; docs/slack.md says where it comes from"))
	}
	if s.SlackApp == "" && s.SlackSecret == "" {
		errs = append(errs, errors.New("neither SLACK_APP_TOKEN (Socket Mode) nor SLACK_SIGNING_SECRET (events over HTTP) is set; docs/slack.md says which to choose"))
	}
	return slack.Options{BotToken: s.SlackBot, AppToken: s.SlackApp, SigningSecret: s.SlackSecret, APIURL: s.SlackAPI}, errors.Join(errs...)
}
