package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"switchboard/config"
	"switchboard/journal"
	"switchboard/rehearse"
	"switchboard/store"
	"switchboard/store/sqlite"
	"switchboard/tools"
)

// rehearsed is what bot rehearse says of one rehearsal, for programs.
type rehearsed struct {
	Name     string            `json:"name"`
	Place    string            `json:"place"`
	OK       bool              `json:"ok"`
	Failures []string          `json:"failures"`
	Turns    []journal.Summary `json:"turns"`
	MS       int64             `json:"ms"`
}

type rehearseFlags struct {
	live  bool
	model string
	json  bool
}

func rehearseCommand(s streams, env config.Environ) *cobra.Command {
	var f rehearseFlags
	cmd := &cobra.Command{
		Use:   "rehearse PACK",
		Short: "Play a pack's rehearsals through whole turns and say which do not hold",
		Long: `Play a pack's rehearsals through whole turns and say which do not hold.

Offline the scripted answers are played, so the outcome depends on the pack alone. With --live the real model answers, and
what a rehearsal expects becomes an evaluation of it.`,
		Example: "bot rehearse examples/club",
		Args:    packArg(0, "the folder of one pack"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runRehearse(cmd.Context(), args[0], f, s, env)
		},
	}
	cmd.Flags().BoolVar(&f.live, "live", false, "ask the real model instead of playing its scripted answers")
	cmd.Flags().StringVar(&f.model, "model", "", "with --live: the model of the pack that all assistants use")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object a line for every rehearsal")
	return cmd
}

func runRehearse(ctx context.Context, path string, f rehearseFlags, s streams, env config.Environ) (err error) {
	m := offline
	if f.live {
		m = live
	} else if f.model != "" {
		return usage("--model goes with --live")
	}
	p, err := gather(ctx, path, env, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }() // whichever server runs by then
	if f.model != "" && p.pack.Model(f.model) == nil {
		return usage("--model: pack %s has no model %q", p.pack.Name, f.model)
	}
	if len(p.pack.Rehearsals) == 0 {
		return fmt.Errorf("rehearse pack %s: it has no rehearsals; write one in %s", path, filepath.Join(path, "rehearsals"))
	}
	o := rehearse.Options{Model: f.model, Log: logger(s.err, env, p.settings, zerolog.Disabled, !f.json)}
	if f.live {
		o.Live = p.liveModel
	}
	bad := 0
	err = p.play(ctx, o, func(r rehearse.Result) error {
		if len(r.Failures) > 0 {
			bad++
		}
		return printRehearsed(s, path, r, f.json)
	})
	if err != nil {
		return err
	}
	if !f.json {
		if _, err := fmt.Fprintf(s.out, "%s played, %d not as expected\n", count(len(p.pack.Rehearsals), "rehearsal"), bad); err != nil {
			return err
		}
	}
	if bad > 0 {
		return no()
	}
	return nil
}

// play plays all rehearsals, each in front of an example server that nobody has used, and tells of each.
func (p *parts) play(ctx context.Context, o rehearse.Options, each func(rehearse.Result) error) (err error) {
	scratch, err := os.MkdirTemp("", "rehearse-")
	if err != nil {
		return fmt.Errorf("rehearse pack %s: make a place for its stores: %w", p.pack.Name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	n := 0
	o.Pack, o.Client, o.Now, o.As, o.In = p.pack, tools.NewClient(p.settings.ToolNets...), time.Now, person(p.pack, "").ID, channel(p.pack, "").ID
	o.Store = func(ctx context.Context) (store.Store, error) {
		n++
		return sqlite.Open(ctx, filepath.Join(scratch, fmt.Sprintf("%d.db", n)), sqlite.Options{})
	}
	for i, r := range p.pack.Rehearsals {
		if i > 0 { // what one rehearsal did to the example's world must not show in the next
			if err := p.anew(ctx); err != nil {
				return err
			}
		}
		o.Env = p.env
		result, err := rehearse.Play(ctx, r, o)
		if err != nil {
			return err
		}
		if err := each(result); err != nil {
			return err
		}
	}
	return nil
}

func printRehearsed(s streams, path string, r rehearse.Result, asJSON bool) error {
	place := filepath.Join(path, r.Place.String())
	if asJSON {
		return printJSON(s.out, rehearsed{r.Name, place, len(r.Failures) == 0, append([]string{}, r.Failures...), r.Turns, r.Took.Milliseconds()})
	}
	mark := "good"
	if len(r.Failures) > 0 {
		mark = "NOT GOOD"
	}
	if _, err := fmt.Fprintf(s.out, "%s  %s (%s, %d ms)\n", mark, r.Name, count(len(r.Turns), "turn"), r.Took.Milliseconds()); err != nil {
		return err
	}
	for _, f := range r.Failures {
		if _, err := fmt.Fprintf(s.out, "    %s\n", f); err != nil {
			return err
		}
	}
	return nil
}
