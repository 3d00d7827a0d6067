package slack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"switchboard/chat"
	"switchboard/config"
)

// Report says what the tokens can and cannot do.
type Report struct {
	Lines []Line
}

// OK says whether nothing is missing that the bot needs.
func (r Report) OK() bool {
	return !slices.ContainsFunc(r.Lines, func(l Line) bool { return !l.OK && !l.Optional })
}

// Line is one thing that was looked at.
type Line struct {
	OK       bool
	Optional bool // the bot works without it
	What     string
	Next     string // what to do, where it is not OK
}

// scope is what a token may do, and what for.
type scope struct {
	name, why string
	optional  bool
}

// scopes gives the scopes of the bot token. Slack: https://docs.slack.dev/reference/scopes
func scopes() []scope {
	return []scope{
		{name: "app_mentions:read", why: "to hear when it is mentioned"},
		{name: "chat:write", why: "to answer"},
		{name: "channels:history", why: "to read threads in public channels"},
		{name: "channels:read", why: "to know who reads a public channel"},
		{name: "groups:history", why: "to read threads in private channels"},
		{name: "groups:read", why: "to know who reads a private channel"},
		{name: "im:history", why: "to hear direct messages"},
		{name: "im:read", why: "to recognise direct messages"},
		{name: "im:write", why: "to tell somebody directly what cannot be said in a channel"},
		{name: "users:read", why: "to know names, and who is a guest or from another organisation"},
		{name: "mpim:history", why: "to hear group direct messages", optional: true},
		{name: "mpim:read", why: "to recognise group direct messages", optional: true},
		{name: "assistant:write", why: "for the agent view: status, streamed text, suggested prompts", optional: true},
		{name: "files:read", why: "to read text files that people send", optional: true},
		{name: "files:write", why: "to show what is to be approved where it is too long for a message", optional: true},
		{name: "usergroups:read", why: "to let user groups use assistants", optional: true},
		{name: "commands", why: "for the slash command and the message shortcut", optional: true},
	}
}

// missingScopes gives those that are needed and not granted.
func missingScopes(granted []string) []string {
	var missing []string
	if len(granted) == 0 {
		return nil // not said
	}
	for _, s := range scopes() {
		if !s.optional && !slices.Contains(granted, s.name) {
			missing = append(missing, s.name)
		}
	}
	return missing
}

// Check asks Slack what the tokens can do, without letting anything in and without saying anything. Only Options about the
// tokens, the address and the clock are used. The error says that Slack could not be asked; what Slack refuses is in the
// report.
func Check(ctx context.Context, o Options) (Report, error) {
	var r Report
	o.Settings, o.Bot, o.Judge, o.Desk = noSettings, noBot{}, noJudge{}, noDesk{}
	s, err := New(o)
	if err != nil {
		r.add(false, "the tokens have the right form", err.Error())
		return r, nil
	}
	defer s.client.CloseIdleConnections()
	me, err := s.identify(ctx)
	if err = explain(err); err != nil {
		return r.refused("the bot token is valid", err)
	}
	r.add(true, fmt.Sprintf("the bot token is valid: it speaks as %s (%s) in the workspace %s, %s", me.Name, me.User, me.Team, me.URL), "")
	r.scopes(me.Scopes)
	if o.AppToken == "" {
		r.add(true, "HTTP mode: events must come to POST /slack/events, and only Slack can say whether they do",
			"")
		return r, nil
	}
	if _, err = s.ticket(ctx); err != nil {
		return r.refused("the app token opens a socket", explain(err))
	}
	r.add(true, "the app token opens a socket", "")
	return r, nil
}

func (r *Report) add(ok bool, what, next string) {
	r.Lines = append(r.Lines, Line{OK: ok, What: what, Next: next})
}

// refused notes what Slack said no to, or gives the error that kept it from being asked.
func (r *Report) refused(what string, err error) (Report, error) {
	if !errors.Is(err, ErrUnusable) && refusal(err) == "" {
		return *r, fmt.Errorf("ask Slack about the tokens: %w", err)
	}
	r.add(false, what, strings.TrimPrefix(err.Error(), ErrUnusable.Error()+": "))
	return *r, nil
}

// scopes notes which scopes are there.
func (r *Report) scopes(granted []string) {
	if len(granted) == 0 {
		r.Lines = append(r.Lines, Line{Optional: true, What: "Slack says what the bot token may do", Next: "compare the scopes on the app's page with the manifest"})
		return
	}
	for _, s := range scopes() {
		l := Line{OK: slices.Contains(granted, s.name), Optional: s.optional, What: "scope " + s.name + ", " + s.why}
		if !l.OK {
			l.Next = "add it on the app's page OAuth & Permissions, and install the app again"
		}
		r.Lines = append(r.Lines, l)
	}
}

// noBot, noJudge and noDesk stand where Check needs nobody: it never lets anything in.
type noBot struct{}

func (noBot) Accept(context.Context, chat.Message) (string, bool, error) { return "", false, errNobody }
func (noBot) Knows(context.Context, chat.Thread) (bool, error)           { return false, errNobody }
func (noBot) Hear(context.Context, chat.Thread, chat.Said) error         { return errNobody }
func (noBot) Halt(context.Context, chat.Stop) error                      { return errNobody }
func (noBot) Rate(context.Context, chat.Feedback) error                  { return errNobody }

type noJudge struct{}

func (noJudge) Decide(context.Context, chat.Decision) (chat.Ruling, error) {
	return chat.Ruling{}, errNobody
}

type noDesk struct{}

func (noDesk) Trace(context.Context, string, chat.Person) (string, bool, error) {
	return "", false, errNobody
}
func (noDesk) Home(context.Context, chat.Person) (Home, error) { return Home{}, errNobody }

var errNobody = errors.New("nobody is behind a check")

func noSettings() config.Slack { return config.Slack{} }
