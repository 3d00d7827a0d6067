package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"switchboard/chat"
	"switchboard/config"
	"switchboard/rehearse"
	"switchboard/turn"
)

type chatFlags struct {
	say           []string
	as, in        string
	json          bool
	live, offline bool
	local         bool
}

func chatCommand(s streams, env config.Environ) *cobra.Command {
	var f chatFlags
	cmd := &cobra.Command{
		Use:   "chat PACK",
		Short: "Talk to a pack's bot in the terminal",
		Long: `Talk to a pack's bot in the terminal, as a person in a channel.

Without -m it reads a message a line until the input ends. All messages of one call share one thread. Turns that an
earlier process left unfinished are taken up and printed first. State is kept in the store that BOT_STORE names
(sqlite:bot.db in this folder unless set).

What a rule wants a person to decide is printed as a card. With --local-approvals you decide it here, by a line that is no
message: /approve ID, /deny ID REASON, /answer ID TEXT, /happened ID or /notdone ID; the ID may be left out where one is open.

Without a key for the pack's models the bot is offline: it plays the conversations that the pack rehearses.`,
		Example: `bot chat examples/club -m "how do I export waivers?"`,
		Args:    packArg(0, "the folder of one pack"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runChat(cmd.Context(), args[0], f, s, env)
		},
	}
	cmd.Flags().StringArrayVarP(&f.say, "message", "m", nil, "say this and end; may be given more than once")
	cmd.Flags().StringVar(&f.as, "as", "", "the person who talks, by id (default: the pack's first admin)")
	cmd.Flags().StringVar(&f.in, "in", "", "the channel, by id (default: the first channel that the pack binds)")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object a line for every message")
	cmd.Flags().BoolVar(&f.live, "live", false, "ask the real model")
	cmd.Flags().BoolVar(&f.offline, "offline", false, "play the pack's rehearsals, even if a key is set")
	localFlag(cmd, &f.local)
	return cmd
}

// localFlag lets the operator of this machine decide what waits for people (rule M5).
func localFlag(cmd *cobra.Command, local *bool) {
	cmd.Flags().BoolVar(local, "local-approvals", false, "who runs this bot may decide what waits for people, as local:USER")
}

func runChat(ctx context.Context, path string, f chatFlags, s streams, env config.Environ) (err error) {
	m, err := f.check()
	if err != nil {
		return err
	}
	settings, err := config.ReadSettings(env)
	if err != nil {
		return err
	}
	if _, shared := settings.Redis(); shared {
		return errors.New("chat: BOT_STORE names a Redis server, whose messages any replica takes, and a terminal could not say their answers; " +
			"set BOT_STORE=sqlite:chat.db for a conversation here")
	}
	t := &terminal{streams: s, json: f.json, local: f.local}
	finished := make(chan turn.Finished, 64)
	app, err := NewApp(ctx, AppOptions{
		Path: path, Env: env, Mode: m, Local: f.local, Log: logger(s.err, env, settings, zerolog.ErrorLevel, !f.json),
		Surface:  func(a *App) (turn.Surface, error) { t.record = a.store; return t, nil },
		Finished: func(done turn.Finished) { finished <- done },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, app.Stop(ctx)) }()
	c := &conversation{app: app, terminal: t, finished: finished, person: person(app.parts.pack, f.as), channel: channel(app.parts.pack, f.in)}
	if err := c.begin(ctx); err != nil {
		return err
	}
	if len(f.say) > 0 {
		for _, text := range f.say {
			if err := c.say(ctx, text); err != nil {
				return err
			}
		}
	} else if err := c.converse(ctx); err != nil {
		return err
	}
	if c.failed {
		return errSaid
	}
	return nil
}

// check says what is wrong with how the command was called, and which model answers.
func (f chatFlags) check() (mode, error) {
	if f.as != "" && !personID.MatchString(f.as) {
		return "", usage("--as takes the id of a person, such as U0ANA; %q is none", f.as)
	}
	if f.in != "" && !channelID.MatchString(f.in) {
		return "", usage("--in takes the id of a channel, such as C0FRONT, or of a direct message, such as D0ANA; %q is none", f.in)
	}
	for _, text := range f.say {
		if err := sayable(text); err != nil {
			return "", usage("-m: %w", err)
		}
		if _, _, ok := readOrder(text); ok {
			return "", usage("-m says messages, and %q decides something; use bot approvals for that", text)
		}
	}
	return modeOf(f.live, f.offline)
}

// sayable says why a message cannot be said.
func sayable(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return errors.New("the message is empty; write what you want to say")
	case len(text) > maxLine:
		return fmt.Errorf("the message is longer than %d bytes; say it in several", maxLine)
	}
	return nil
}

// person is who talks, as the pack's playground has them. Without an id it is the pack's first admin, else the first person named.
func person(p *config.Pack, id string) chat.Person {
	if id == "" {
		for _, g := range p.People {
			for _, m := range g.Members {
				if strings.HasPrefix(m, "U") && (id == "" || g.Name == "admins") {
					id = m
					if g.Name == "admins" {
						return rehearse.Person(p, id)
					}
				}
			}
		}
	}
	if id == "" {
		id = "U0LOCAL"
	}
	return rehearse.Person(p, id)
}

// channel is where they talk. Without an id it is the first channel that the pack binds a value to.
func channel(p *config.Pack, id string) chat.Channel {
	if id == "" {
		id = p.FirstChannel()
	}
	if id == "" {
		id = "C0LOCAL"
	}
	return rehearse.Channel(p, id)
}

// conversation is one call of bot chat: one person in one thread.
type conversation struct {
	app      *App
	terminal *terminal
	finished chan turn.Finished
	person   chat.Person
	channel  chat.Channel
	root     string
	last     int64 // the newest message's time, so that no two share one
	failed   bool
}

// begin starts the bot and waits for what an earlier process left.
func (c *conversation) begin(ctx context.Context) error {
	waiting, err := c.app.store.Waiting(ctx)
	if err != nil {
		return err
	}
	if err := c.app.Start(ctx); err != nil {
		return err
	}
	if waiting > 0 {
		c.terminal.note("(taking up %d unfinished message(s) of an earlier run)\n", waiting)
	}
	if err := c.takeUp(ctx, waiting); err != nil {
		return err
	}
	if !c.app.parts.live {
		c.terminal.note("(offline: no model key is set, so I play the conversations that this pack rehearses)\n")
	}
	c.terminal.note("(you are %s in %s)\n", c.person.ID, c.channel.ID)
	return nil
}

// takeUp waits until nothing is left of an earlier process, or so many turns have been told of: some items end without a word,
// and some messages wait on, for a bot of another name.
func (c *conversation) takeUp(ctx context.Context, items int) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for told, empty := 0, 0; told < items; {
		select {
		case done := <-c.finished:
			told, empty = told+1, 0
			if err := c.told(ctx, done); err != nil {
				return err
			}
		case <-look.C:
			left, err := c.app.store.Waiting(ctx)
			if err != nil {
				return err
			}
			if left > 0 {
				empty = 0
			} else if empty++; empty > 1 { // what has just ended is told of by now
				return nil
			}
		case <-ctx.Done():
			return errStopped
		}
	}
	return nil
}

const lookEvery = 50 * time.Millisecond

// say accepts one message and waits until its turn is over, or waits for people.
func (c *conversation) say(ctx context.Context, text string) error {
	now := time.Now()
	c.last = max(c.last+1, now.UnixMicro())
	ts := fmt.Sprintf("%d.%06d", c.last/1e6, c.last%1e6)
	if c.root == "" {
		c.root = ts
	}
	m := chat.Message{
		Key:    fmt.Sprintf("msg:%s:%s:%s", localTeam, c.channel.ID, ts),
		Thread: chat.Thread{Team: localTeam, Channel: c.channel.ID, Root: c.root}, Channel: c.channel, From: c.person, Text: text, At: now,
	}
	if _, _, err := c.app.engine.Accept(ctx, m); err != nil {
		return err
	}
	return c.await(ctx, func(f turn.Finished) bool { return f.Key == m.Key })
}

// The forms of ids, as Slack has them.
var (
	personID  = regexp.MustCompile(`^[UW][A-Z0-9]+$`)
	channelID = regexp.MustCompile(`^[CDG][A-Z0-9]+$`)
)

// localTeam is the team of the terminal.
const localTeam = "TLOCAL"

// errStopped ends a conversation in the middle of a turn.
var errStopped = errors.New("stopped; what was accepted is kept, and the next bot chat takes it up")

// await waits until a turn is told of that is the one.
func (c *conversation) await(ctx context.Context, is func(turn.Finished) bool) error {
	for {
		select {
		case done := <-c.finished:
			if err := c.told(ctx, done); err != nil {
				return err
			}
			if is(done) {
				return nil
			}
		case <-ctx.Done():
			return errStopped
		}
	}
}

// told takes note of how a turn ended, or that it waits.
func (c *conversation) told(ctx context.Context, done turn.Finished) error {
	c.failed = c.failed || done.Outcome == turn.Failed
	if errors.Is(done.Err, turn.ErrOtherPack) {
		c.terminal.note("(%s)\n", done.Err)
	}
	if done.Outcome == turn.Waiting {
		return c.terminal.waits(ctx, done.Turn)
	}
	return nil
}

// converse reads a message a line until the input ends.
func (c *conversation) converse(ctx context.Context) error {
	lines := make(chan string)
	broken := make(chan error, 1)
	go func() { // it ends with the input, or with the process: a read of a terminal cannot be cut short
		defer close(lines)
		in := bufio.NewReader(c.terminal.in)
		for {
			line, err := in.ReadString('\n')
			if strings.TrimSpace(line) != "" {
				select {
				case lines <- line:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					broken <- fmt.Errorf("read a message: %w", err)
				}
				return
			}
		}
	}()
	for {
		c.terminal.note("you> ")
		select {
		case text, ok := <-lines:
			if !ok {
				c.terminal.note("(goodbye)\n")
				select {
				case err := <-broken:
					return err
				default:
					return nil
				}
			}
			if err := c.hear(ctx, strings.TrimSpace(text)); err != nil {
				return err
			}
		case <-ctx.Done():
			c.terminal.note("(goodbye)\n")
			return nil
		}
	}
}

// hear takes a line as the next message, or as a decision. Offline, a message that begins a rehearsal begins a new conversation.
func (c *conversation) hear(ctx context.Context, text string) error {
	if err := sayable(text); err != nil {
		c.terminal.note("(%s)\n", err)
		return nil
	}
	switch o, near, ok := readOrder(text); {
	case ok:
		return c.obey(ctx, o)
	case near != "":
		c.terminal.tell("There is no " + strings.Fields(text)[0] + "; did you mean " + near + "? Nothing was sent.")
		return nil
	}
	if b := c.app.parts.begins; b != nil && c.root != "" && b(text, c.person.ID, c.channel.ID) {
		c.terminal.note("(a new conversation)\n")
		c.root = ""
	}
	return c.say(ctx, text)
}

// maxLine is how long a message may be, in bytes: as long as the longest that Slack takes.
const maxLine = 40_000
