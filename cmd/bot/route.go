package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"switchboard/config"
	"switchboard/llm"
	"switchboard/router"
)

// routed is what bot route says, for programs.
type routed struct {
	Kind       string   `json:"kind"`
	Assistant  *string  `json:"assistant"`
	Confidence *float64 `json:"confidence"`
	Question   *string  `json:"question"`
	Likely     []string `json:"likely"`
}

func routeCommand(s streams, env config.Environ) *cobra.Command {
	var f chatFlags
	cmd := &cobra.Command{
		Use:     "route PACK TEXT",
		Short:   "Say which assistant would take a message, and how sure that is",
		Example: `bot route examples/club "revenue in March"`,
		Args:    packArg(1, "the folder of a pack and one message"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := route(cmd.Context(), args[0], args[1], f, env)
			if err != nil {
				return err
			}
			if f.json {
				return printJSON(s.out, r)
			}
			return r.print(s)
		},
	}
	cmd.Flags().StringVar(&f.as, "as", "", "the person who talks, by id (default: the pack's first admin)")
	cmd.Flags().StringVar(&f.in, "in", "", "the channel, by id (default: the first channel that the pack binds)")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&f.live, "live", false, "ask the real model")
	cmd.Flags().BoolVar(&f.offline, "offline", false, "play the pack's rehearsals, even if a key is set")
	return cmd
}

func route(ctx context.Context, path, text string, f chatFlags, env config.Environ) (_ routed, err error) {
	if err := sayable(text); err != nil {
		return routed{}, usage("%w", err)
	}
	m, err := f.check()
	if err != nil {
		return routed{}, err
	}
	p, err := gather(ctx, path, env, m)
	if err != nil {
		return routed{}, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	desk, err := p.desk(ctx, p.pack)
	if err != nil {
		return routed{}, err
	}
	defer func() { err = errors.Join(err, desk.Close()) }()

	who, where := person(p.pack, f.as), channel(p.pack, f.in)
	in := router.Input{Text: desk.Mask().Text(text), Threshold: p.pack.Router.Threshold}
	for _, a := range desk.OpenTo(who) {
		in.Candidates = append(in.Candidates, router.Candidate{Name: a.Name, About: a.About, Examples: a.Examples})
	}
	if len(in.Candidates) == 0 {
		return routed{Kind: "nobody", Likely: []string{}}, nil
	}
	asked := 0
	d, err := router.Decide(ctx, in, func(ctx context.Context, r llm.Request) (llm.Reply, error) {
		r.Where = llm.Where{First: in.Text, Last: in.Text, Person: who.ID, Channel: where.ID, Replies: asked}
		asked++
		return desk.Router.Do(ctx, r)
	})
	if failed, ok := errors.AsType[*llm.Error](err); ok && failed.Reason == llm.NoScript {
		return routed{}, errors.New(failed.Detail)
	}
	if err != nil {
		return routed{}, errors.New(desk.Mask().Text(err.Error()))
	}
	r := routed{Kind: string(d.Kind), Confidence: d.Confidence, Likely: append([]string{}, d.Likely...)}
	if d.Assistant != "" {
		r.Assistant = &d.Assistant
	}
	if d.Question != "" {
		r.Question = &d.Question
	}
	return r, nil
}

func (r routed) print(s streams) error {
	sure := ""
	if r.Confidence != nil {
		sure = fmt.Sprintf(" (confidence %.2f)", *r.Confidence)
	}
	var err error
	switch {
	case r.Assistant != nil:
		_, err = fmt.Fprintf(s.out, "%s%s\n", *r.Assistant, sure)
	case r.Question != nil:
		_, err = fmt.Fprintf(s.out, "would ask%s: %s\n", sure, *r.Question)
	case r.Kind == string(router.Nothing):
		_, err = fmt.Fprintf(s.out, "nobody%s: no assistant is meant\n", sure)
	default:
		_, err = fmt.Fprintln(s.out, "nobody: no assistant is open to this person")
	}
	return err
}
