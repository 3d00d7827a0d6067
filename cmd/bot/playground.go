package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"switchboard/chat"
	"switchboard/config"
	"switchboard/slack"
	"switchboard/slack/sim"
)

type playgroundFlags struct {
	addr          string
	live, offline bool
	local         bool
}

func playgroundCommand(s streams, env config.Environ) *cobra.Command {
	var f playgroundFlags
	cmd := &cobra.Command{
		Use:   "playground PACK",
		Short: "Try a pack in a simulated Slack workspace in the browser",
		Long: `Try a pack in a simulated Slack workspace in the browser, without any account.

The workspace, the bot and the pack's example server run in this one process. Several people and channels are there; switch
who you are in the page. Without a key for the pack's models the bot plays the conversations that the pack rehearses; with
one the real model answers. Nothing is kept when it ends, unless BOT_STORE names a SQLite store.`,
		Example: "bot playground examples/club",
		Args:    packArg(0, "the folder of one pack"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPlayground(cmd.Context(), args[0], f, s, env)
		},
	}
	cmd.Flags().StringVar(&f.addr, "addr", "", "where the page is served, on this machine (default: 127.0.0.1:8137, or any free port if that is taken)")
	cmd.Flags().BoolVar(&f.live, "live", false, "ask the real model, and do not start without its key")
	cmd.Flags().BoolVar(&f.offline, "offline", false, "play the pack's rehearsals, even if a key is set")
	localFlag(cmd, &f.local)
	return cmd
}

// The tokens of the playground's app; they open nothing else.
const (
	playgroundBot = "xoxb-playground"
	playgroundApp = "xapp-1-playground"
)

// botUser is the bot in simulated workspaces.
const botUser = "U0BOT"

func runPlayground(ctx context.Context, path string, f playgroundFlags, s streams, env config.Environ) (err error) {
	m, err := modeOf(f.live, f.offline)
	if err != nil {
		return err
	}
	settings, err := config.ReadSettings(env)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "playground-")
	if err != nil {
		return fmt.Errorf("start the playground: make a place for its store: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()

	pack, err := load(path, config.Options{})
	if err != nil {
		return err
	}
	workspace := sim.New(sim.Options{Team: "T0PLAY", Name: pack.Name, Domain: pack.Name, Keep: 20_000})
	populate(workspace, pack)
	server, err := openPage(ctx, workspace, f.addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()

	say := &aloud{out: s.out}
	refused := false // the files as they are; only the watcher looks at it
	st, err := newStation(ctx, stationOptions{
		app: AppOptions{
			Path: path, Env: ownStore(env, filepath.Join(scratch, "bot.db")), Mode: m, Pace: readable, Local: f.local,
			Log: logger(s.err, env, settings, zerolog.WarnLevel, true),
		},
		slack: slack.Options{BotToken: playgroundBot, AppToken: playgroundApp, APIURL: server.APIURL()},
		mend: func(changed bool, err error) {
			switch {
			case err != nil:
				refused = true
				say.print("The changed pack was not taken; the version before stays active:\n  %s\n", strings.Join(lines(errors.Unwrap(err)), "\n  "))
			case changed:
				refused = false
				say.print("The changed pack is active, for messages from now on.\n")
			case refused:
				refused = false
				say.print("The pack is as it was; the active version stays.\n")
			}
		},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.stop(ctx)) }()
	if err := st.start(ctx, "127.0.0.1:0"); err != nil {
		return err
	}
	say.print("The playground of %s is open: %s\n", pack.Name, server.URL())
	if !st.app.parts.live {
		say.print("(offline: no model key is set, so the bot plays the conversations that this pack rehearses)\n")
	}
	say.print("Change a file in %s and the next message gets it. Ctrl-C ends the playground.\n", path)
	return st.wait(ctx)
}

// aloud prints lines of several goroutines, one after the other.
type aloud struct {
	mu  sync.Mutex
	out io.Writer
}

func (a *aloud) print(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = fmt.Fprintf(a.out, format, args...) // a playground goes on where nobody reads along
}

// readable lets the words of a rehearsed answer come as they would from a model.
func readable(ctx context.Context) error { return wait(ctx, 50*time.Millisecond) }

// ownStore puts the store into a place of its own where the environment names none, or one that replicas share.
func ownStore(env config.Environ, path string) config.Environ {
	return func(name string) (string, bool) {
		v, ok := env(name)
		if name != "BOT_STORE" || strings.HasPrefix(strings.TrimSpace(v), "sqlite:") {
			return v, ok
		}
		return "sqlite:" + path, true
	}
}

// openPage serves the workspace. Nobody else's machine may reach it: it has no passwords.
func openPage(ctx context.Context, w *sim.Workspace, addr string) (*sim.Server, error) {
	if addr != "" {
		host, _, err := net.SplitHostPort(addr)
		if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return nil, usage("--addr takes an address of this machine, such as 127.0.0.1:8137; %q is none", addr)
		}
		return sim.Start(ctx, w, addr)
	}
	if server, err := sim.Start(ctx, w, "127.0.0.1:8137"); err == nil {
		return server, nil
	}
	return sim.Start(ctx, w, "127.0.0.1:0")
}

// populate brings the pack's people and channels into the workspace, and the bot.
func populate(w *sim.Workspace, p *config.Pack) {
	groups := map[string][]string{}
	for _, r := range p.Playground.People {
		who := chat.Person{ID: r.ID, Kind: r.Kind, Groups: r.Groups}
		w.AddPerson(sim.Person{ID: r.ID, Name: r.Name, Kind: kindInSim(r.Kind), Admin: isAdmin(p, who)})
		for _, g := range r.Groups {
			groups[g] = append(groups[g], r.ID)
		}
	}
	app := w.AddApp(sim.App{
		ID: "A0BOT", Name: p.Name, User: botUser, Bot: "B0BOT", BotToken: playgroundBot, AppToken: playgroundApp, AgentView: true,
		Shortcuts: []sim.MessageShortcut{{Name: "Ask Switchboard about this", Callback: slack.AskShortcut}},
	})
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		w.AddGroup(sim.Group{ID: id, Handle: strings.ToLower(strings.TrimPrefix(id, "S0")), Members: groups[id]})
	}
	for _, c := range p.Playground.Channels {
		members := slices.Clone(c.Members)
		if len(members) == 0 {
			for _, r := range p.Playground.People {
				if r.Kind == chat.Member {
					members = append(members, r.ID)
				}
			}
		}
		w.AddChannel(sim.Channel{ID: c.ID, Name: c.Name, Kind: visibilityInSim(c.Visibility), Members: append(members, app.User)})
	}
	w.Suggest(suggestions(p))
	w.SetLimits(true)
}

func kindInSim(k chat.Kind) sim.Kind {
	switch k {
	case chat.Guest:
		return sim.Guest
	case chat.External:
		return sim.External
	default:
		return sim.Member
	}
}

func visibilityInSim(v chat.Visibility) sim.ChannelKind {
	switch v {
	case chat.Private:
		return sim.Private
	case chat.Shared:
		return sim.Shared
	default:
		return sim.Public
	}
}

// mostSuggestions is how many conversations the page offers to somebody new.
const mostSuggestions = 4

// suggestions are the beginnings of rehearsals that the first person of the workspace can play, each for another assistant.
func suggestions(p *config.Pack) []sim.Suggestion {
	var out []sim.Suggestion
	seen := map[string]bool{}
	for _, r := range p.Rehearsals {
		who := ""
		for _, step := range r.Steps {
			if step.Route != nil {
				who = step.Route.Assistant
				break
			}
		}
		here := slices.ContainsFunc(p.Playground.Channels, func(c config.Room) bool { return c.ID == r.In })
		if len(out) == mostSuggestions || !here || seen[who] || r.As != "" && r.As != p.Playground.People[0].ID {
			continue
		}
		seen[who] = true
		out = append(out, sim.Suggestion{Channel: r.In, Text: "<@" + botUser + "> " + r.Steps[0].Say, Why: r.Name})
	}
	return out
}
