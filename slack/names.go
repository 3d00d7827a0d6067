package slack

import (
	"context"
	"regexp"
	"strings"
	"time"
)

const (
	namesMost = 20 // unknown ids of a message that Slack is asked about; the others stay ids
	namesPast = 60 // of all that was said before it
	namesTime = 5 * time.Second
)

// token is one <…> of Slack's notation.
var token = regexp.MustCompile(`<([@#!][^<>\s][^<>]*|(?:https?|mailto|tel|slack):[^<>]*)>`)

// quota is how many names Slack may still be asked for. nil is none: then the names must do that are known.
type quota struct{ left int }

func (q *quota) take() bool {
	if q == nil || q.left <= 0 {
		return false
	}
	q.left--
	return true
}

// named is plain for a message, whoever it names: one that calls hundreds of people must not hold up all look-ups.
func (s *Slack) named(ctx context.Context, text string) string {
	soon, cancel := context.WithTimeout(ctx, namesTime)
	defer cancel()
	return s.plain(soon, text, &quota{namesMost})
}

// plain turns Slack's notation into what people read: names for ids, links with their addresses, and the characters that
// were escaped. Where it must not ask Slack, it uses the names that it has.
func (s *Slack) plain(ctx context.Context, text string, ask *quota) string {
	var b strings.Builder
	at := 0
	for _, m := range token.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(unescaper.Replace(text[at:m[0]]))
		b.WriteString(s.name(ctx, text[m[2]:m[3]], ask))
		at = m[1]
	}
	b.WriteString(unescaper.Replace(text[at:]))
	return b.String()
}

// name gives what stands for a token.
func (s *Slack) name(ctx context.Context, token string, ask *quota) string {
	what, shown, _ := strings.Cut(token, "|")
	shown = unescaper.Replace(shown)
	switch {
	case strings.HasPrefix(what, "@"):
		return "@" + s.userName(ctx, what[1:], shown, ask)
	case strings.HasPrefix(what, "#"):
		if shown == "" {
			shown = s.channelName(ctx, what[1:], ask)
		}
		return "#" + shown
	case strings.HasPrefix(what, "!subteam^"):
		if shown == "" {
			shown = s.groupName(ctx, what[len("!subteam^"):], ask)
		}
		return "@" + strings.TrimPrefix(shown, "@")
	case strings.HasPrefix(what, "!date^"):
		return shown
	case strings.HasPrefix(what, "!"):
		if shown != "" {
			return shown
		}
		word, _, _ := strings.Cut(what[1:], "^")
		return "@" + word
	}
	address := unescaper.Replace(what)
	bare := strings.TrimPrefix(strings.TrimPrefix(address, "mailto:"), "tel:")
	if shown == "" || shown == address || shown == bare {
		return bare
	}
	return shown + " (" + bare + ")"
}

func (s *Slack) userName(ctx context.Context, id, shown string, ask *quota) string {
	if id == s.me.User {
		return s.me.Name
	}
	u, ok := s.know.users.peek(id)
	if !ok && idForm.MatchString(id) && ask.take() {
		u, _ = s.user(ctx, id, false) // where Slack does not answer the id must do
	}
	switch {
	case u.Name != "":
		return u.Name
	case shown != "":
		return shown
	}
	return id
}

func (s *Slack) channelName(ctx context.Context, id string, ask *quota) string {
	c, ok := s.know.channels.peek(id)
	if !ok && idForm.MatchString(id) && ask.take() {
		c, _ = s.channel(ctx, id, false)
	}
	if c.Name != "" {
		return c.Name
	}
	return id
}

func (s *Slack) groupName(ctx context.Context, id string, ask *quota) string {
	g, ok := s.know.groups.peek("")
	if !ok && ask.take() {
		g, _ = s.membership(ctx, false)
	}
	if g.names[id] != "" {
		return g.names[id]
	}
	return id
}

// speaker gives the name of whoever said something.
func (s *Slack) speaker(ctx context.Context, m *utterance, ask *quota) string {
	switch {
	case s.own(m):
		return s.me.Name
	case m.BotProfile != nil && tidyName(m.BotProfile.Name) != "":
		return tidyName(m.BotProfile.Name)
	case tidyName(m.Username) != "":
		return tidyName(m.Username)
	case m.User != "":
		return s.userName(ctx, m.User, "", ask)
	}
	return m.BotID
}
