package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"switchboard/chat"
	"switchboard/config"
	"switchboard/journal"
	"switchboard/store"
	"switchboard/turn"
)

// cardID is the form of a card's id.
var cardID = regexp.MustCompile(`^a_[0-9a-f]{20}$`)

type approvalsFlags struct {
	pack, reason string
	json, local  bool
}

func approvalsCommand(s streams, env config.Environ) *cobra.Command {
	var f approvalsFlags
	cmd := &cobra.Command{
		Use:   "approvals [PACK]",
		Short: "List what waits for a person's decision, and decide it",
		Long: `List what waits for a person's decision, the oldest first: calls that a rule wants approved, questions, and effects that
nobody knows the outcome of.

A decision goes to the bot that is at work on the store, over a socket beside the store's file that only its owner can open.
It counts where the bot was started with --local-approvals, and is on record as local:USER. Where no bot is at work, and
always with a Redis store, --local-approvals --pack FOLDER records it here and now; the bot goes on with it.`,
		Example: "bot approvals",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("%s takes the folder of one pack, or nothing; `%s --help` says what there is to decide with", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.pack = args[0]
			}
			return listApprovals(cmd.Context(), f, s, env)
		},
	}
	packFlag(cmd, &f.pack)
	cmd.PersistentFlags().BoolVar(&f.json, "json", false, "print JSON, one object a line")
	cmd.AddCommand(showCommand(s, env, &f))
	for _, d := range []verb{
		{"approve ID", "Let a call run", chat.Approve},
		{"deny ID", "Refuse a call; --reason says why", chat.Deny},
		{"answer ID TEXT", "Answer a question", chat.Answer},
		{"happened ID", "Say that an effect took place", chat.Happened},
		{"not-done ID", "Say that an effect did not take place", chat.NotDone},
	} {
		cmd.AddCommand(decideCommand(s, env, &f, d))
	}
	return cmd
}

func showCommand(s streams, env config.Environ, f *approvalsFlags) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show all of what is to be decided, or how it was decided", Example: "bot approvals show a_0123456789abcdef0123",
		Args: idArg(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			return showApproval(cmd.Context(), args[0], *f, s, env)
		},
	}
}

// verb is a command that decides.
type verb struct {
	use, short string
	say        chat.Saying
}

func decideCommand(s streams, env config.Environ, f *approvalsFlags, v verb) *cobra.Command {
	name, _, _ := strings.Cut(v.use, " ")
	more := 0
	if v.say == chat.Answer {
		more = 1
	}
	cmd := &cobra.Command{
		Use: v.use, Short: v.short, Example: "bot approvals " + name + " a_0123456789abcdef0123" + strings.Repeat(` "Yes, both of them."`, more),
		Args: idArg(more),
		RunE: func(cmd *cobra.Command, args []string) error {
			words := f.reason
			if more == 1 {
				words = args[1]
			}
			return decideFromOutside(cmd.Context(), newSpoken(args[0], v.say, words), *f, s, env)
		},
	}
	cmd.Flags().BoolVar(&f.local, "local-approvals", false, "decide here and now as the operator of this machine, if no bot is at work or the store is Redis; needs --pack")
	if v.say == chat.Approve || v.say == chat.Deny {
		cmd.Flags().StringVar(&f.reason, "reason", "", "why, for whoever asked and for the record")
	}
	return cmd
}

// idArg is the rule for commands that take the id of a card, and then more words.
func idArg(more int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1+more {
			return usage("%s takes the id of a card%s; e.g. %s", cmd.CommandPath(), strings.Repeat(" and a text", more), cmd.Example)
		}
		if !cardID.MatchString(args[0]) {
			return usage("%q is no id of a card; they look like a_0123456789abcdef0123, and bot approvals lists them", args[0])
		}
		return nil
	}
}

// waiting is an open decision, for programs.
type waiting struct {
	Card      string        `json:"card"`
	Kind      chat.CardKind `json:"kind"`
	Tool      string        `json:"tool"`
	Args      []chat.Field  `json:"args"`
	Question  *string       `json:"question"`
	Requester string        `json:"requester"`
	Deciders  []string      `json:"deciders"`
	Digest    *string       `json:"digest"` // of the request that will be sent
	Asked     time.Time     `json:"asked"`
	Until     *time.Time    `json:"until"` // null: it waits for ever
	Turn      string        `json:"turn"`
	Thread    string        `json:"thread"`
	Pack      string        `json:"pack"`
}

func newWaiting(a journal.Approval, card *chat.Card) waiting {
	w := waiting{
		Card: a.ID, Kind: a.Kind, Tool: a.Tool, Args: []chat.Field{}, Requester: a.Requester, Deciders: []string{}, Digest: orNull(a.Request), Asked: a.Asked,
		Turn: a.Turn, Thread: a.Thread, Pack: a.Pack,
	}
	if !a.Until.IsZero() {
		w.Until = &a.Until
	}
	if card != nil { // else retention took what it shows
		w.Args, w.Deciders = append(w.Args, card.Args...), append(w.Deciders, card.Deciders...)
		w.Question = orNull(card.Question)
		return w
	}
	for _, n := range a.Needs {
		w.Deciders = append(w.Deciders, n.By...)
	}
	return w
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// mostArg is how much of an argument a list shows, in characters. All of it stands in the card.
const mostArg = 60

// line spells the decision in one line.
func (w waiting) line() string {
	var args []string
	for _, f := range w.Args {
		args = append(args, spelled(f.Name)+"="+inShort(f.Value))
	}
	if w.Question != nil && w.Kind == chat.CardAsk {
		args = []string{inShort(*w.Question)}
	}
	return fmt.Sprintf("%s(%s)", spelled(w.Tool), strings.Join(args, ", "))
}

func inShort(text string) string {
	text = spelled(strings.ReplaceAll(text, "\n", " "))
	if runes := []rune(text); len(runes) > mostArg {
		return string(runes[:mostArg]) + "…"
	}
	return text
}

// openDecisions reads what waits, the oldest first.
func openDecisions(ctx context.Context, r journal.Approvals) ([]waiting, error) {
	open, err := journal.OpenApprovals(ctx, r, "")
	if err != nil {
		return nil, err
	}
	out := make([]waiting, 0, len(open))
	for _, a := range open {
		_, card, err := journal.FindApproval(ctx, r, a.ID)
		if err != nil {
			return nil, err
		}
		out = append(out, newWaiting(a, card))
	}
	return out, nil
}

func listApprovals(ctx context.Context, f approvalsFlags, s streams, env config.Environ) (err error) {
	r, err := past(ctx, env, f.pack)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	open, err := openDecisions(ctx, r)
	if err != nil {
		return err
	}
	out := page{w: s.out}
	for _, w := range open {
		if f.json {
			if err := printJSON(s.out, w); err != nil {
				return err
			}
			continue
		}
		printWaiting(&out, w)
	}
	switch {
	case f.json:
	case len(open) == 0:
		out.print("nothing waits for a person\n")
	default:
		out.print("bot approvals show ID shows all of one; approve, deny, answer, happened and not-done decide it\n")
	}
	return out.err
}

func printWaiting(p *page, w waiting) {
	p.print("%s  %s\n", w.Card, w.line())
	until := ""
	if w.Until != nil {
		until = ", until " + moment(*w.Until)
	}
	p.print("    %s; asked %s for %s, run %s%s; for: %s\n", kindWords(w.Kind), moment(w.Asked), w.Requester, journal.RunID(w.Turn), until, spelled(strings.Join(w.Deciders, ", ")))
}

func kindWords(k chat.CardKind) string {
	switch k {
	case chat.CardApprove:
		return "to approve or deny"
	case chat.CardAsk:
		return "a question to answer"
	case chat.CardUnknown:
		return "nobody knows whether it happened: happened or not-done"
	}
	return string(k)
}

func showApproval(ctx context.Context, id string, f approvalsFlags, s streams, env config.Environ) (err error) {
	r, err := past(ctx, env, f.pack)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	a, card, err := journal.FindApproval(ctx, r, id)
	if errors.Is(err, journal.ErrNoApproval) {
		return fmt.Errorf("show approval %s: there is none of this id in this store; bot approvals lists what waits, BOT_STORE names another store", id)
	}
	if err != nil {
		return err
	}
	if f.json {
		return printJSON(s.out, struct {
			journal.Approval
			Shown *chat.Card `json:"shown"` // null once the retention took it
		}{a, card})
	}
	out := page{w: s.out}
	if card == nil {
		out.print("%s  %s: what it was about is no longer kept\n", a.ID, a.Tool)
	} else {
		printCard(&out, *card)
	}
	out.print("%s; run %s, thread %s\n", strings.ReplaceAll(string(a.Stand), "_", " "), journal.RunID(a.Turn), a.Thread)
	for _, n := range a.Needs {
		if n.Signed != nil {
			out.print("signed by %s at %s for: %s\n", n.Signed.ID, moment(n.SignedAt), strings.Join(n.By, ", "))
		}
	}
	return out.err
}

// decideFromOutside brings a decision to the bot that is at work, or records it itself.
func decideFromOutside(ctx context.Context, sp spoken, f approvalsFlags, s streams, env config.Environ) error {
	settings, err := config.ReadSettings(env)
	if err != nil {
		return err
	}
	why := "replicas on a Redis server take decisions only where they are authenticated"
	if _, shared := settings.Redis(); !shared {
		h, err := decideThere(ctx, sp, settings, env)
		if err == nil {
			return tellHeard(h, f, s)
		}
		if !errors.Is(err, errNobodyThere) {
			return err
		}
		why = err.Error() + " " + settings.StorePath() + "; start one with --local-approvals and decide again"
	}
	if !f.local || f.pack == "" {
		return fmt.Errorf("decide card %s: %s, or record the decision here and now with --local-approvals --pack FOLDER", sp.Card, why)
	}
	h, err := decideHere(ctx, sp, f, s, env)
	if err != nil {
		return err
	}
	return tellHeard(h, f, s)
}

// decideThere brings a decision to the bot that is at work.
func decideThere(ctx context.Context, sp spoken, settings config.Settings, env config.Environ) (heard, error) {
	r, err := past(ctx, env, "") // is there such a store at all?
	if err != nil {
		return heard{}, err
	}
	if err := r.Close(); err != nil {
		return heard{}, err
	}
	return knock(ctx, doorOf(settings.StorePath()), sp)
}

// tellHeard says how a decision was taken. The exit code says no where it does not count.
func tellHeard(h heard, f approvalsFlags, s streams) error {
	var err error
	if f.json {
		err = printJSON(s.out, h)
	} else {
		_, err = fmt.Fprintln(s.out, spelled(h.Words))
	}
	if err == nil && !h.Taken {
		return no()
	}
	return err
}

// decideHere records a decision in the store without any work on what follows from it: a bot does that.
func decideHere(ctx context.Context, sp spoken, f approvalsFlags, s streams, env config.Environ) (_ heard, err error) {
	settings, err := config.ReadSettings(env)
	if err != nil {
		return heard{}, err
	}
	app, err := NewApp(ctx, AppOptions{
		Path: f.pack, Env: env, Mode: offline, Local: true, Log: logger(s.err, env, settings, zerolog.ErrorLevel, !f.json),
		Surface: func(*App) (turn.Surface, error) { return nowhere{}, nil },
	})
	if errors.Is(err, store.ErrInUse) {
		return heard{}, fmt.Errorf("decide card %s: %w; that process has no open socket beside the store, so decide on the card where it was posted", sp.Card, err)
	}
	if err != nil {
		return heard{}, err
	}
	defer func() { err = errors.Join(err, app.Stop(ctx)) }()
	ruling, err := app.Decide(ctx, sp.decision(time.Now()))
	return heard{ruling.Taken, ruling.Words}, err
}

// nowhere is the surface of a process that tells nobody anything. It is never started, so nothing is to be told.
type nowhere struct{}

func (nowhere) Look(_ context.Context, m chat.Message, _ bool) (turn.Seen, error) {
	return turn.Seen{Message: m}, nil
}
func (nowhere) Show(context.Context, turn.Progress)   {}
func (nowhere) Post(context.Context, turn.Post) error { return turn.ErrUndeliverable }

// fitsCard says whether a saying is one for this kind of card.
func fitsCard(k chat.CardKind, say chat.Saying) bool {
	return slices.Contains(map[chat.CardKind][]chat.Saying{
		chat.CardApprove: {chat.Approve, chat.Deny}, chat.CardAsk: {chat.Answer}, chat.CardUnknown: {chat.Happened, chat.NotDone},
	}[k], say)
}
