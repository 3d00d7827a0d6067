package main

import (
	"context"
	"slices"
	"strings"

	"switchboard/chat"
	"switchboard/config"
	"switchboard/journal"
	"switchboard/slack"
)

// An App is what a surface needs of the bot behind it. The engine takes things in; the desk tells about them.
var (
	_ slack.Bot   = (*App)(nil)
	_ slack.Judge = (*App)(nil)
	_ slack.Desk  = (*App)(nil)
)

// Accept implements slack.Bot.
func (a *App) Accept(ctx context.Context, m chat.Message) (string, bool, error) {
	return a.engine.Accept(ctx, m)
}

// Knows implements slack.Bot.
func (a *App) Knows(ctx context.Context, t chat.Thread) (bool, error) { return a.engine.Knows(ctx, t) }

// Hear implements slack.Bot.
func (a *App) Hear(ctx context.Context, t chat.Thread, s chat.Said) error {
	return a.engine.Hear(ctx, t, s)
}

// Halt implements slack.Bot.
func (a *App) Halt(ctx context.Context, s chat.Stop) error { return a.engine.Halt(ctx, s) }

// Rate implements slack.Bot.
func (a *App) Rate(ctx context.Context, f chat.Feedback) error { return a.engine.Rate(ctx, f) }

// Trace implements slack.Desk. The trace of an answer is for members of the workspace; guests and people of other organisations
// see only their own. That a person can read the channel, Slack has seen to: who cannot, has no button to click.
func (a *App) Trace(ctx context.Context, turn string, by chat.Person) (string, bool, error) {
	t, ok, err := journal.Read(ctx, a.store, turn)
	if err != nil || !ok {
		return "", false, err
	}
	if t.Person != by.ID && by.Kind != chat.Member {
		return "", false, nil
	}
	var b strings.Builder
	if err := journal.Draw(&b, t); err != nil {
		return "", false, err
	}
	return b.String(), true, nil
}

// Home implements slack.Desk.
func (a *App) Home(_ context.Context, by chat.Person) (slack.Home, error) {
	now := a.state.Load()
	pack := now.desk.Pack
	h := slack.Home{Bot: pack.Name}
	for _, c := range now.desk.OpenTo(by) {
		h.Assistants = append(h.Assistants, slack.Helper{Name: c.Name, About: c.About, Examples: c.Examples})
	}
	if isAdmin(pack, by) {
		h.Admin = &slack.Versions{Active: short(pack.Digest), Since: now.since, Rejected: now.rejected}
	}
	return h, nil
}

// adminGroup is the name of the people who see what the bot runs on.
const adminGroup = "admins"

func isAdmin(p *config.Pack, by chat.Person) bool { return slices.Contains(p.Groups(by), adminGroup) }
