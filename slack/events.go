package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"switchboard/chat"
	"switchboard/config"
)

// wrapper is what Slack puts around an event, the same in both modes.
// Slack: https://docs.slack.dev/apis/events-api#events-JSON
type wrapper struct {
	Type           string          `json:"type"`
	Challenge      string          `json:"challenge"`
	TeamID         string          `json:"team_id"`
	ContextTeamID  string          `json:"context_team_id"`
	Event          json.RawMessage `json:"event"`
	EventID        string          `json:"event_id"`
	Authorizations []struct {
		TeamID              string `json:"team_id"`
		IsEnterpriseInstall bool   `json:"is_enterprise_install"`
	} `json:"authorizations"`
	IsExtShared bool `json:"is_ext_shared_channel"`
}

// utterance is a message as it stands in events and in what look-ups return. Only what is used is decoded.
type utterance struct {
	Subtype     string          `json:"subtype"`
	User        string          `json:"user"`
	Text        string          `json:"text"`
	TS          string          `json:"ts"`
	ThreadTS    string          `json:"thread_ts"`
	BotID       string          `json:"bot_id"`
	AppID       string          `json:"app_id"`
	Username    string          `json:"username"`
	Blocks      json.RawMessage `json:"blocks"` // decoded apart: a form that is not known must not cost the message
	Attachments []attachment    `json:"attachments"`
	Files       []file          `json:"files"`
	ReplyCount  int             `json:"reply_count"`
	Edited      *struct {
		TS string `json:"ts"`
	} `json:"edited"`
	BotProfile *struct {
		Name  string `json:"name"`
		AppID string `json:"app_id"`
	} `json:"bot_profile"`
	Metadata *struct {
		EventType string          `json:"event_type"`
		Payload   json.RawMessage `json:"event_payload"` // as Blocks
	} `json:"metadata"`
}

// event is an event of any kind that is listened to.
type event struct {
	utterance
	Type            string          `json:"type"`
	Channel         string          `json:"channel"`
	ChannelType     string          `json:"channel_type"`
	EventTS         string          `json:"event_ts"`
	DeletedTS       string          `json:"deleted_ts"`
	Message         *utterance      `json:"message"`
	PreviousMessage *utterance      `json:"previous_message"`
	AppContext      json.RawMessage `json:"app_context"`
	Context         json.RawMessage `json:"context"`
	Tab             string          `json:"tab"`
	Tokens          struct {
		Bot []string `json:"bot"`
	} `json:"tokens"`
}

// result is what comes of a payload: what the acknowledgement carries, and what is done after it.
type result struct {
	reply json.RawMessage
	after []chore
}

func (r *result) then(name string, do func(context.Context)) {
	r.after = append(r.after, chore{name: name, do: do})
}

// soon is then, for what opens a form.
func (r *result) soon(name string, do func(context.Context)) {
	r.after = append(r.after, chore{name: name, do: do, urgent: true})
}

// Messages older than this are not taken up because of an edit: the claim that would show that they were dealt with lives
// seven days.
const editable = 6 * 24 * time.Hour

// The forms of the ids that keys are made of. Nothing else may get into a key.
var (
	idForm    = regexp.MustCompile(`^[A-Z][A-Z0-9]{1,20}$`)
	leading   = regexp.MustCompile(`^\s*<@([UW][A-Z0-9]+)[|>]`)
	addressed = regexp.MustCompile(`^\s*<@([UW][A-Z0-9]+)(?:\|[^>]*)?>\s*[:,]?\s*`)
)

// events deals with the body of an Events API delivery. An error means that it is not stored, and must come again; what
// cannot be read will be no better the next time and is counted.
func (s *Slack) events(ctx context.Context, payload []byte) (result, error) {
	var w wrapper
	if err := json.Unmarshal(payload, &w); err != nil {
		s.odd("unreadable event")
		return result{}, nil //nolint:nilerr // it would be no better the next time
	}
	if w.Type != "event_callback" {
		// app_rate_limited: Slack has left events out. https://docs.slack.dev/apis/events-api#rate-limiting
		s.odd("outer event " + w.Type)
		return result{}, nil
	}
	if !s.ours(w) {
		s.odd("event of another workspace, where the same app is installed too")
		return result{}, nil
	}
	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(w.Event, &kind); err != nil {
		s.odd("unreadable event")
		return result{}, nil //nolint:nilerr // it would be no better the next time
	}
	switch kind.Type {
	case "message", "app_mention", "app_home_opened", "app_context_changed", "agent_session_stopped", "app_uninstalled",
		"tokens_revoked":
	case "agent_session_title_changed", "member_joined_channel", "member_left_channel", "channel_archive", "channel_unarchive",
		"channel_rename", "channel_deleted", "group_archive", "group_rename", "file_shared", "reaction_added", "reaction_removed":
		return result{}, nil
	default:
		s.odd("event " + kind.Type)
		return result{}, nil
	}
	var e event
	if err := json.Unmarshal(w.Event, &e); err != nil {
		s.odd("unreadable " + kind.Type)
		return result{}, nil //nolint:nilerr // it would be no better the next time
	}
	if len(e.AppContext) > 0 {
		s.intake.agent.Store(true)
	}
	return s.event(ctx, w, &e)
}

// ours says whether an event was meant for the workspace that the token is for. The team of a message's sender says
// nothing about it, and of a channel that is shared with others Slack names only one of the installations.
func (s *Slack) ours(w wrapper) bool {
	if w.IsExtShared {
		return true
	}
	team := w.ContextTeamID
	if len(w.Authorizations) > 0 {
		if w.Authorizations[0].IsEnterpriseInstall {
			return true
		}
		if team == "" {
			team = w.Authorizations[0].TeamID
		}
	}
	if team == "" {
		team = w.TeamID
	}
	return team == s.me.Team
}

// event sends an event where it belongs.
func (s *Slack) event(ctx context.Context, w wrapper, e *event) (result, error) {
	var r result
	var err error
	switch e.Type {
	case "app_home_opened":
		s.opened(&r, e)
	case "app_context_changed": // a hint of what somebody looks at; all it tells is that the app has the agent view
		s.intake.agent.Store(true)
	case "agent_session_stopped":
		s.intake.agent.Store(true)
		err = s.stopped(ctx, e)
	case "app_uninstalled":
		s.health.fail(unusable("the app was removed from the workspace: install it again, and give the bot its new token"))
	case "tokens_revoked":
		if slices.Contains(e.Tokens.Bot, s.me.User) {
			s.health.fail(unusable("the bot token was revoked: install the app again, and give the bot its new token"))
		}
	default:
		err = s.said(ctx, w, e, &r)
	}
	return r, err
}

// opened: somebody looks at the app's home. Slack: https://docs.slack.dev/reference/events/app_home_opened
func (s *Slack) opened(r *result, e *event) {
	user, channel := e.User, e.Channel
	switch {
	case !idForm.MatchString(user):
		s.odd("unreadable app_home_opened")
	case e.Tab == "messages":
		if len(e.Context) > 0 {
			s.intake.agent.Store(true)
		}
		if s.agent() {
			r.then("suggest prompts", func(ctx context.Context) { s.suggest(ctx, channel, "") })
		}
	default:
		r.then("publish home", func(ctx context.Context) { s.publishHome(ctx, user) })
	}
}

// stopped: somebody pressed the stop button of a session.
func (s *Slack) stopped(ctx context.Context, e *event) error {
	if !idForm.MatchString(e.Channel) || !isTS(e.ThreadTS) {
		s.odd("unreadable agent_session_stopped")
		return nil
	}
	at := e.EventTS
	if !isTS(at) {
		at = e.ThreadTS // then the thread can be stopped once
	}
	return s.o.Bot.Halt(ctx, chat.Stop{
		Key:    fmt.Sprintf("stop:%s:%s:%s:%s", s.me.Team, e.Channel, e.ThreadTS, at),
		Thread: chat.Thread{Team: s.me.Team, Channel: e.Channel, Root: e.ThreadTS},
		By:     chat.Person{ID: e.User, Kind: chat.External},
	})
}

// said deals with everything that happens to messages: new ones, mentions, edits, deletions, and what Slack reports as
// messages though nobody said it. Slack: https://docs.slack.dev/reference/events/message
func (s *Slack) said(ctx context.Context, w wrapper, e *event, r *result) error {
	if !idForm.MatchString(e.Channel) {
		s.odd("unreadable " + e.Type)
		return nil
	}
	switch e.Subtype {
	case "", "file_share", "thread_broadcast", "me_message", "bot_message":
		if e.Type == "app_mention" && e.Edited != nil {
			return s.edited(ctx, w, e, &e.utterance, false)
		}
		return s.uttered(ctx, w, e, r)
	case "message_changed":
		if e.Message == nil {
			s.odd("unreadable message_changed")
			return nil
		}
		mentioned := e.PreviousMessage != nil && e.PreviousMessage.mentions(s.me.User)
		return s.edited(ctx, w, e, e.Message, mentioned)
	case "message_deleted":
		return s.deleted(ctx, e)
	case "message_replied", "channel_join", "channel_leave", "channel_topic", "channel_purpose", "channel_name",
		"channel_archive", "channel_unarchive", "channel_convert_to_private", "channel_posting_permissions", "group_join",
		"group_leave", "group_topic", "group_purpose", "group_name", "group_archive", "group_unarchive", "assistant_app_thread",
		"huddle_thread", "ekm_access_denied", "bot_add", "bot_remove", "pinned_item", "unpinned_item", "reminder_add",
		"tombstone", "reply_broadcast", "file_comment", "file_mention", "sh_room_created":
		return nil // nobody says anything with these
	}
	s.odd("message of the subtype " + e.Subtype)
	return nil
}

// uttered decides whether a message is for the bot, is to be remembered, or is none of its business.
func (s *Slack) uttered(ctx context.Context, w wrapper, e *event, r *result) error {
	m := &e.utterance
	switch {
	case s.own(m):
		return nil
	case !isTS(m.TS) || m.ThreadTS != "" && !isTS(m.ThreadTS):
		s.odd("unreadable " + e.Type)
		return nil
	case m.fromBot():
		return s.overhear(ctx, e, r)
	case !idForm.MatchString(m.User):
		s.odd("message of nobody")
		return nil
	case direct(e.Channel, e.ChannelType) || m.mentions(s.me.User):
		return s.accept(ctx, w, e, m, false)
	}
	other := false // it begins with the name of somebody else
	if to := leading.FindStringSubmatch(m.words()); to != nil {
		other = to[1] != s.me.User
	}
	listen, reply := s.o.Settings().In(e.Channel), m.ThreadTS != "" && m.ThreadTS != m.TS
	known := false
	if reply {
		var err error
		if known, err = s.o.Bot.Knows(ctx, s.thread(e.Channel, e.ChannelType, m)); err != nil {
			return fmt.Errorf("find out whether the thread is known: %w", err)
		}
	}
	switch {
	case known && (other || listen == config.Mentions):
		return s.hear(ctx, e, r)
	case known:
		return s.accept(ctx, w, e, m, false)
	case listen == config.All && !other:
		return s.accept(ctx, w, e, m, true)
	}
	return nil
}

// edited deals with a message whose text was changed. What was said once is not said again by mending it; only where the
// bot is addressed for the first time is the message taken, and the claim on its key sees to it that this is once.
func (s *Slack) edited(ctx context.Context, w wrapper, e *event, m *utterance, before bool) error {
	switch m.Subtype {
	case "", "file_share", "thread_broadcast", "me_message":
	default:
		return nil
	}
	// Without a mark of an edit it is a preview of a link, a count of replies, or the like.
	if before || m.Edited == nil || s.own(m) || m.fromBot() || direct(e.Channel, e.ChannelType) {
		return nil
	}
	if !isTS(m.TS) || !idForm.MatchString(m.User) || s.o.Now().Sub(when(m.TS)) > editable {
		return nil
	}
	if !m.mentions(s.me.User) {
		return nil
	}
	return s.accept(ctx, w, e, m, false)
}

// deleted: what was asked is gone, so nobody wants the answer any more.
func (s *Slack) deleted(ctx context.Context, e *event) error {
	if !isTS(e.DeletedTS) {
		s.odd("unreadable message_deleted")
		return nil
	}
	was := e.PreviousMessage
	if was == nil {
		was = &utterance{}
	}
	if s.own(was) || was.fromBot() {
		return nil
	}
	was.TS = e.DeletedTS
	t := s.thread(e.Channel, e.ChannelType, was)
	known, err := s.o.Bot.Knows(ctx, t)
	if err != nil {
		return fmt.Errorf("find out whether the thread is known: %w", err)
	}
	if !known {
		return nil // most deletions anywhere are none of the bot's business
	}
	return s.o.Bot.Halt(ctx, chat.Stop{
		Key:     fmt.Sprintf("stop:%s:%s:%s:deleted", s.me.Team, e.Channel, e.DeletedTS),
		Thread:  t,
		Message: s.key(e.Channel, e.DeletedTS),
		By:      chat.Person{ID: was.User, Kind: chat.External},
		Deleted: true,
		ID:      e.DeletedTS,
	})
}

// accept hands a message to the bot. Who the person is and who reads the channel is found out later, by Look; until then
// both are the ones that may do least.
func (s *Slack) accept(ctx context.Context, w wrapper, e *event, m *utterance, unasked bool) error {
	text := m.words()
	for {
		to := addressed.FindStringSubmatch(text)
		if to == nil || to[1] != s.me.User || len(to[0]) == len(text) && len(m.Files) == 0 {
			break // where nothing but the bot's name is said, that is the message
		}
		text = text[len(to[0]):]
	}
	if strings.TrimSpace(text) == "" && len(m.Files) == 0 {
		s.odd("message without words")
		return nil
	}
	_, _, err := s.o.Bot.Accept(ctx, chat.Message{
		Key:     s.key(e.Channel, m.TS),
		ID:      m.TS,
		Thread:  s.thread(e.Channel, e.ChannelType, m),
		Channel: chat.Channel{ID: e.Channel, Visibility: visibility(w, e)},
		From:    chat.Person{ID: m.User, Kind: chat.External},
		Text:    text,
		Files:   filesOf(m.Files),
		Unasked: unasked,
		At:      when(m.TS),
	})
	if err != nil {
		return fmt.Errorf("store the message: %w", err)
	}
	return nil
}

// overhear remembers what another bot says in a thread that the bot takes part in. A bot cannot ask for anything: two of
// them would keep each other going.
func (s *Slack) overhear(ctx context.Context, e *event, r *result) error {
	if e.ThreadTS == "" || e.ThreadTS == e.TS {
		return nil
	}
	known, err := s.o.Bot.Knows(ctx, s.thread(e.Channel, e.ChannelType, &e.utterance))
	if err != nil {
		return fmt.Errorf("find out whether the thread is known: %w", err)
	}
	if !known {
		return nil
	}
	return s.hear(ctx, e, r)
}

// hear keeps what was said beside the bot. Names are put in as far as they are at hand: Slack is not asked before the
// event is acknowledged, but afterwards, so that they are there the next time.
func (s *Slack) hear(ctx context.Context, e *event, r *result) error {
	m := &e.utterance
	text := s.whole(ctx, m, nil)
	if text == "" {
		return nil
	}
	err := s.o.Bot.Hear(ctx, s.thread(e.Channel, e.ChannelType, m),
		chat.Said{ID: m.TS, By: s.speaker(ctx, m, nil), Text: text, At: when(m.TS)})
	if err != nil {
		return fmt.Errorf("keep what was heard: %w", err)
	}
	user := m.User
	if _, ok := s.know.users.peek(user); !ok && idForm.MatchString(user) {
		r.then("learn a name", func(ctx context.Context) { _, _ = s.user(ctx, user, false) })
	}
	return nil
}

// thread says which conversation a message belongs to. In direct messages of an app with the agent view each message
// begins one; without it, what stands in no thread is one conversation, without end.
func (s *Slack) thread(channel, kind string, m *utterance) chat.Thread {
	t := chat.Thread{Team: s.me.Team, Channel: channel, Root: m.ThreadTS}
	switch {
	case t.Root != "":
	case direct(channel, kind) && !s.agent():
		t.Root = plainDM
	default:
		t.Root = m.TS
	}
	return t
}

// plainDM is the root of the one conversation of a direct message without threads.
const plainDM = "dm"

func (s *Slack) agent() bool { return s.me.Agent || s.intake.agent.Load() }

func (s *Slack) key(channel, ts string) string {
	return fmt.Sprintf("msg:%s:%s:%s", s.me.Team, channel, ts)
}

// own says whether the bot itself said it.
func (s *Slack) own(m *utterance) bool {
	return m.User != "" && m.User == s.me.User || m.BotID != "" && m.BotID == s.me.Bot ||
		m.AppID != "" && m.AppID == s.me.App || m.BotProfile != nil && s.me.App != "" && m.BotProfile.AppID == s.me.App
}

// fromBot says whether a program said it. Most of what bots say today has no subtype of its own.
func (m *utterance) fromBot() bool {
	return m.BotID != "" || m.BotProfile != nil || m.Subtype == "bot_message" || m.User == "USLACKBOT"
}

// direct says whether a channel is a direct message with the bot. Slack names the kind in messages but not in mentions,
// and of the ids only those of direct messages can be told by their first letter.
func direct(channel, kind string) bool {
	return kind == "im" || kind == "" && strings.HasPrefix(channel, "D")
}

// visibility is what an event tells about who can read a channel. It may know less than Look, never more.
func visibility(w wrapper, e *event) chat.Visibility {
	switch {
	case direct(e.Channel, e.ChannelType):
		return chat.DM
	case w.IsExtShared:
		return chat.Shared
	case e.ChannelType == "channel":
		return chat.Public
	case e.ChannelType == "group" || e.ChannelType == "mpim":
		return chat.Private
	}
	return chat.Shared
}

// when gives the time that a message's ts stands for.
func when(ts string) time.Time {
	sec, frac, _ := strings.Cut(ts, ".")
	n, err := strconv.ParseInt(sec, 10, 64)
	if err != nil {
		return time.Time{}
	}
	micro, _ := strconv.ParseInt((frac + "000000")[:6], 10, 64)
	return time.Unix(n, micro*1000).UTC()
}
