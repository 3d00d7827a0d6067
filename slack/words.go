package slack

import (
	"context"
	"slices"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"
)

const (
	wordsPace = time.Second
	wordsLast = 90 * time.Second // Slack lets a status vanish after 2 min, https://docs.slack.dev/reference/methods/assistant.threads.setStatus
	working   = "is working on it…"
	refusedBy = time.Hour // that a refusal in the whole workspace is believed: an admin may have changed something
)

// refreshWords keeps the line that says what the bot is doing, as long as no message of the turn says it. It also makes the
// thread's session a busy one, with a stop button; where Slack has no such line any more the session is set by itself.
// Slack: https://docs.slack.dev/reference/methods/assistant.threads.setStatus, …/agents.sessions.setStatus.
func (s *Slack) refreshWords(ctx context.Context, sh *show) time.Duration {
	l, at := &sh.live, sh.at
	if at.root == "" || len(l.messages) > 0 {
		return 0
	}
	words, now := l.saying(), s.o.Now()
	age := now.Sub(l.worded)
	switch {
	case s.forbidden("words", sh):
	case words == l.words && age < wordsLast:
		return wordsLast - age
	case age < wordsPace:
		return wordsPace - age
	default:
		l.worded = now
		if s.try(ctx, "words", "assistant.threads.setStatus", sh, s.setWords(at, words)) {
			l.words = words
			return wordsLast
		}
		if !s.forbidden("words", sh) {
			return wordsPace
		}
	}
	if !l.session && !s.forbidden("session", sh) {
		l.session = s.try(ctx, "session", "agents.sessions.setStatus", sh, s.setSession(at, "processing"))
	}
	return 0
}

func (s *Slack) setSession(at spot, status string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := s.api.SetAgentSessionStatusContext(ctx, slackgo.AgentSessionSetStatusParameters{Status: status, ChannelID: at.channel, ThreadTS: at.root})
		return err
	}
}

// setWords sets the line beside the bot's name; "" takes it away. The library joins messages with commas, so that they may
// have none.
func (s *Slack) setWords(at spot, words string) func(context.Context) error {
	return func(ctx context.Context) error {
		p := slackgo.AssistantThreadsSetStatusParameters{ChannelID: at.channel, ThreadTS: at.root, Status: words}
		if words != "" {
			p.LoadingMessages = []string{strings.ReplaceAll(words, ",", ";")}
		}
		return s.api.SetAssistantThreadsStatusContext(ctx, p)
	}
}

// saying is what the bot is doing, as it stands after its name.
func (l *live) saying() string {
	for _, t := range slices.Backward(l.tasks) {
		if t.status == slackgo.TaskCardStatusInProgress {
			return oneLine("is working: "+t.title, 120)
		}
	}
	if l.status != "" {
		return oneLine("is working: "+l.status, 120)
	}
	return working
}

// try makes a call that says that the bot is busy, and remembers a refusal that will not change.
func (s *Slack) try(ctx context.Context, what, method string, sh *show, do func(context.Context) error) bool {
	err := s.call(ctx, showing, method, sh.at.channel, do)
	if err == nil {
		return true
	}
	sh.live.busy = sh.live.busy || lost(err)
	if c := code(err); c != "" {
		s.o.Log.Debug().Str("method", method).Str("error", c).Msg("slack does not let the bot show this")
		s.forbid(what, c, sh)
	}
	return false
}

// calm takes the line away that says that the bot is busy, and the stop button with it.
func (s *Slack) calm(ctx context.Context, at spot, l *live) {
	busy := at.root != "" && (l.session || l.busy)
	if at.root != "" && (l.words != "" || l.busy) {
		err := s.call(ctx, looking, "assistant.threads.setStatus", at.channel, s.setWords(at, ""))
		s.quietly(err, "clear the status")
		busy = busy || err != nil
	}
	if busy {
		s.quietly(s.call(ctx, looking, "agents.sessions.setStatus", at.channel, s.setSession(at, "active")), "clear the session's status")
	}
	l.words, l.session, l.busy = "", false, false
}

// forbid remembers what Slack does not let the bot do: for this turn, and where the cause is the workspace's, for a while in
// all direct messages or all channels.
func (s *Slack) forbid(what, cause string, sh *show) {
	if sh.live.refused == nil {
		sh.live.refused = map[string]bool{}
	}
	sh.live.refused[what] = true
	if !general(cause) {
		return
	}
	o := &s.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refused[what+kindOf(sh.at)] = s.o.Now().Add(refusedBy)
}

// general says that Slack refuses a method for what the app or the workspace is, not for what it was called with.
func general(cause string) bool {
	switch cause {
	case "unknown_method", "missing_scope", "no_permission", "not_allowed_token_type", "access_denied", "method_deprecated",
		"deprecated_endpoint", "feature_not_enabled", "paid_teams_only", "unsupported_block_type":
		return true
	}
	return false
}

func (s *Slack) forbidden(what string, sh *show) bool {
	o := &s.out
	o.mu.Lock()
	defer o.mu.Unlock()
	return sh.live.refused[what] || s.o.Now().Before(o.refused[what+kindOf(sh.at)])
}

func kindOf(at spot) string {
	if at.dm {
		return " in a direct message"
	}
	return " in a channel"
}
