package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"

	"switchboard/chat"
)

// click is a click on a button of a reply of ours.
type click struct {
	Channel string // where the reply stands
	TS      string // of the message with the button
	Thread  string // thread_ts of that message, "" where it stands alone
	Card    string // the turn whose reply offered the choice
	Value   string // of the choice
	Label   string // what the button said
	Person  string // who clicked
}

// interaction is the body of a click, a shortcut or a form.
// Slack: https://docs.slack.dev/reference/interaction-payloads/block_actions-payload
type interaction struct {
	Type       string `json:"type"`
	CallbackID string `json:"callback_id"`
	TriggerID  string `json:"trigger_id"`
	User       struct {
		ID string `json:"id"`
	} `json:"user"`
	Channel struct {
		ID string `json:"id"`
	} `json:"channel"`
	Container struct {
		ChannelID string `json:"channel_id"`
		MessageTS string `json:"message_ts"`
	} `json:"container"`
	Message *utterance `json:"message"`
	Actions []action   `json:"actions"`
	View    view       `json:"view"`
}

// action is one pressed element.
type action struct {
	ActionID string          `json:"action_id"`
	Value    string          `json:"value"`
	Text     json.RawMessage `json:"text"`
	ActionTS string          `json:"action_ts"`
}

const (
	twice   = 10 * time.Second // in which the same choice of a person is one click
	learnBy = time.Second      // for finding out who clicked; the form that is asked for must open within 3 s
)

// interaction deals with clicks, forms and shortcuts.
func (s *Slack) interaction(ctx context.Context, payload []byte) (result, error) {
	var i interaction
	var r result
	if json.Unmarshal(payload, &i) != nil || !idForm.MatchString(i.User.ID) {
		s.odd("unreadable interaction")
		return r, nil //nolint:nilerr // it would be no better the next time
	}
	switch i.Type {
	case "block_actions":
		for _, a := range i.Actions {
			if err := s.pressed(ctx, &i, a, &r); err != nil {
				return result{}, err
			}
		}
	case "message_action":
		s.shortcut(&i, &r)
	case "view_submission":
		return s.submitted(ctx, &i)
	case "view_closed", "block_suggestion":
	default:
		s.odd("interaction " + i.Type)
	}
	return r, nil
}

// pressed deals with one pressed button. A button's value comes from Slack, and its message may have been forwarded, so
// only one that stands in a message of the bot's own, where the payload says that it stands, is believed. That also keeps
// clicks away that belong to the app's bot in another workspace.
func (s *Slack) pressed(ctx context.Context, i *interaction, a action, r *result) error {
	if i.Message == nil || !s.own(i.Message) || i.Container.ChannelID != i.Channel.ID ||
		i.Container.MessageTS != i.Message.TS || !idForm.MatchString(i.Channel.ID) || !isTS(i.Message.TS) ||
		!isTS(a.ActionTS) {
		s.gone(i, r)
		return nil
	}
	person := chat.Person{ID: i.User.ID, Kind: chat.External} // who it is, Look finds out
	card, value, paired := strings.Cut(a.Value, "\n")
	switch actionOf(a.ActionID) {
	case actionPick:
		if !paired || card == "" {
			s.gone(i, r)
			return nil
		}
		return s.chosen(ctx, click{
			Channel: i.Channel.ID, TS: i.Message.TS, Thread: i.Message.ThreadTS,
			Card: card, Value: value, Label: label(a.Text), Person: person.ID,
		}, a.ActionTS, r)
	case actionFeedback:
		if !paired || value != "good" && value != "bad" {
			s.gone(i, r)
			return nil
		}
		if err := s.o.Bot.Rate(ctx, chat.Feedback{Turn: card, Person: person.ID, Good: value == "good"}); err != nil {
			return fmt.Errorf("keep the feedback: %w", err)
		}
	case actionCard:
		s.cardPressed(ctx, i, a, r)
	case actionTrace:
		r.soon("show how an answer came about", func(ctx context.Context) {
			s.showTrace(ctx, i.TriggerID, card, s.quickly(ctx, person), spot{channel: i.Channel.ID, root: i.Message.ThreadTS})
		})
	default:
		s.odd("action " + short(a.ActionID, 60))
		s.gone(i, r)
	}
	return nil
}

// chosen hands a choice to the bot. Pressing twice is one click: the second is silent.
func (s *Slack) chosen(ctx context.Context, c click, at string, r *result) error {
	who := c.Card + "\n" + c.Value + "\n" + c.Person
	if _, again := s.know.clicks.peek(who); again {
		return nil
	}
	m := utterance{TS: c.TS, ThreadTS: c.Thread}
	t := s.thread(c.Channel, "", &m)
	if c.Thread == "" && direct(c.Channel, "") {
		t.Root = plainDM // the question was not asked in a thread, so there is none
	}
	v := chat.Shared
	if direct(c.Channel, "") {
		v = chat.DM
	}
	_, fresh, err := s.o.Bot.Accept(ctx, chat.Message{
		Key:     fmt.Sprintf("click:%s:%s:%s", c.Card, c.Person, at),
		ID:      at,
		Thread:  t,
		Channel: chat.Channel{ID: c.Channel, Visibility: v},
		From:    chat.Person{ID: c.Person, Kind: chat.External},
		Text:    escape(c.Label),
		Pick:    &chat.Pick{Card: c.Card, Value: c.Value},
		At:      when(at),
	})
	if err != nil {
		return fmt.Errorf("store the click: %w", err)
	}
	s.know.clicks.put(who, true, twice)
	if fresh {
		r.then("show what was chosen", func(ctx context.Context) { s.picked(ctx, c) })
	}
	return nil
}

// gone tells somebody that a button leads nowhere any more. Every click gets an answer.
func (s *Slack) gone(i *interaction, r *result) {
	channel, user := i.Channel.ID, i.User.ID
	if !idForm.MatchString(channel) {
		return // in a form or a home there is no place for an answer, and no button of the bot's either
	}
	thread := ""
	if i.Message != nil {
		thread = i.Message.ThreadTS
	}
	r.then("answer a click", func(ctx context.Context) {
		s.whisper(ctx, channel, thread, user, "This button is no longer in use.")
	})
}

// whisper says something that only one person sees. It is best effort.
// Slack: https://docs.slack.dev/reference/methods/chat.postEphemeral
func (s *Slack) whisper(ctx context.Context, channel, thread, user, text string) {
	if err := s.ephemeral(ctx, channel, thread, user, text); err != nil {
		s.o.Log.Warn().Err(err).Str("channel", channel).Msg("a click got no answer")
	}
}

func (s *Slack) ephemeral(ctx context.Context, channel, thread, user, text string) error {
	return s.call(ctx, saying, "chat.postEphemeral", channel, func(ctx context.Context) error {
		options := []slackgo.MsgOption{slackgo.MsgOptionText(text, true)}
		if thread != "" {
			options = append(options, slackgo.MsgOptionTS(thread))
		}
		_, err := s.api.PostEphemeralContext(ctx, channel, user, options...)
		return err
	})
}

// quickly finds out who a person is, as far as that is fast; else they stay who may do least.
func (s *Slack) quickly(ctx context.Context, p chat.Person) chat.Person {
	ctx, cancel := context.WithTimeout(ctx, learnBy)
	defer cancel()
	if known, err := s.person(ctx, p.ID, false); err == nil {
		return known
	}
	return p
}

// label gives what a button said.
func label(raw json.RawMessage) string {
	var t struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(raw, &t)
	return inOneLine(t.Text)
}

// slashCommand is a command with its text. Slack: https://docs.slack.dev/interactivity/implementing-slash-commands
type slashCommand struct {
	Command   string `json:"command"`
	Text      string `json:"text"`
	UserID    string `json:"user_id"`
	ChannelID string `json:"channel_id"`
	TriggerID string `json:"trigger_id"` // names the command: the same one may come twice, by two sockets
}

// slashTime is for posting the question, which must stand before the command is acknowledged: Slack does not send a
// command again, and without the post the answer would have no place.
const slashTime = 2500 * time.Millisecond

// slash makes a message of a command: the bot posts the question where everybody who will see the answer can read it. One
// command is one question, however often it is delivered.
func (s *Slack) slash(ctx context.Context, payload []byte) (result, error) {
	var c slashCommand
	if json.Unmarshal(payload, &c) != nil || !idForm.MatchString(c.UserID) || !idForm.MatchString(c.ChannelID) {
		s.odd("unreadable command")
		return result{}, nil //nolint:nilerr // it would be no better the next time
	}
	if strings.TrimSpace(c.Text) == "" {
		return private("Write your question behind the command: " + c.Command + " how do I …?"), nil
	}
	if c.TriggerID == "" {
		return s.command(ctx, c), nil
	}
	var after []chore
	reply, err := s.know.commands.get(ctx, c.TriggerID, func(ctx context.Context) (json.RawMessage, time.Duration, error) {
		r := s.command(ctx, c)
		after = r.after
		return r.reply, known, nil
	})
	return result{reply: reply, after: after}, err
}

// command posts the question of a command, and takes it.
func (s *Slack) command(ctx context.Context, c slashCommand) result {
	soon, cancel := context.WithTimeout(ctx, slashTime)
	defer cancel()
	ts, doubt, err := s.ask(soon, question{channel: c.ChannelID, user: c.UserID, text: c.Text, mark: c.TriggerID})
	if doubt {
		s.o.Log.Warn().Err(err).Str("channel", c.ChannelID).Msg("Slack does not say whether it has posted the question of a command")
		r := private("Slack is slow just now. I will answer as soon as your question stands here.")
		r.then("look for the question of a command", func(ctx context.Context) { s.seek(ctx, c) })
		return r
	}
	if err != nil {
		s.o.Log.Warn().Err(err).Str("channel", c.ChannelID).Msg("the question of a command cannot be posted")
		refused, _ := errors.AsType[slackgo.SlackErrorResponse](err)
		switch refused.Err {
		case "not_in_channel", "channel_not_found", "is_archived", "restricted_action":
			return private("I cannot post here. Invite me into the channel, or write to me directly.")
		}
		return private("Slack did not let me post your question. Please try again.")
	}
	if err := s.commanded(ctx, c, ts); err != nil {
		s.o.Log.Error().Err(err).Msg("the question of a command is not stored")
		r := private("I could not take your question. Please try again.")
		r.then("take a question back", func(ctx context.Context) { s.unask(ctx, c.ChannelID, ts) })
		return r
	}
	return result{}
}

// commanded hands the question of a command to the bot, once it stands in the channel.
func (s *Slack) commanded(ctx context.Context, c slashCommand, ts string) error {
	m := utterance{TS: ts}
	_, _, err := s.o.Bot.Accept(ctx, chat.Message{
		Key:     s.key(c.ChannelID, ts),
		ID:      ts,
		Thread:  s.thread(c.ChannelID, "", &m),
		Channel: chat.Channel{ID: c.ChannelID, Visibility: chat.Shared},
		From:    chat.Person{ID: c.UserID, Kind: chat.External},
		Text:    c.Text,
		At:      when(ts),
	})
	return err
}

// seek finds out what became of the question of a command that Slack did not confirm, and has it answered if it stands. It
// looks more than once: what Slack was slow to confirm may also be slow to appear.
func (s *Slack) seek(ctx context.Context, c slashCommand) {
	ts := ""
	for _, pause := range []time.Duration{time.Second, 3 * time.Second, 8 * time.Second} {
		if s.o.Wait(ctx, pause) != nil {
			return
		}
		var err error
		if ts, err = s.standing(ctx, c); err == nil && ts != "" {
			if err = s.commanded(ctx, c, ts); err == nil {
				return
			}
		}
		if err != nil {
			s.o.Log.Warn().Err(err).Str("channel", c.ChannelID).Msg("the question of a command is not taken yet")
		}
	}
	if ts != "" {
		s.unask(ctx, c.ChannelID, ts)
	}
	s.whisper(ctx, c.ChannelID, "", c.UserID, "Your question did not get through. Please try again.")
}

// standing looks among a channel's newest messages for the question of a command, and gives its ts, "" where it is not
// there. Slack: https://docs.slack.dev/reference/methods/conversations.history
func (s *Slack) standing(ctx context.Context, c slashCommand) (string, error) {
	var newest *slackgo.GetConversationHistoryResponse
	err := s.learn(ctx, "conversations.history", true, func(ctx context.Context) (err error) {
		newest, err = s.api.GetConversationHistoryContext(ctx, &slackgo.GetConversationHistoryParameters{
			ChannelID: c.ChannelID, Limit: pastPage, IncludeAllMetadata: true,
		})
		return err
	})
	if err != nil {
		return "", err
	}
	for i := range newest.Messages {
		m := &newest.Messages[i]
		if m.BotID == s.me.Bot && m.Metadata.EventType == questionType && m.Metadata.EventPayload["by"] == c.TriggerID {
			return m.Timestamp, nil
		}
	}
	return "", nil
}

// private answers a command so that only who gave it sees it.
func private(text string) result {
	reply, err := json.Marshal(map[string]string{"response_type": "ephemeral", "text": text})
	if err != nil {
		return result{}
	}
	return result{reply: reply}
}

// question is what somebody asks by a command or a form, and the bot posts in their name.
type question struct {
	channel, thread string // thread is "" for a message of its own
	user, text      string // text is in Slack's notation
	mark            string // what it came by: the trigger of a command, the id of a form
}

// ask posts a question, as plain text: nothing in it calls anybody. It is marked, so that no reply is ever written over
// it. doubt says that it may stand there though there is an error.
func (s *Slack) ask(ctx context.Context, q question) (ts string, doubt bool, err error) {
	text := short(s.plain(ctx, q.text, nil), 2800)
	err = s.call(ctx, saying, "chat.postMessage", q.channel, func(ctx context.Context) (err error) {
		options := []slackgo.MsgOption{
			slackgo.MsgOptionText("<@"+q.user+"> asks: "+escape(text), false),
			slackgo.MsgOptionDisableLinkUnfurl(), slackgo.MsgOptionDisableMediaUnfurl(),
			slackgo.MsgOptionMetadata(slackgo.SlackMetadata{EventType: questionType, EventPayload: map[string]any{"by": q.mark}}),
		}
		if q.thread != "" {
			options = append(options, slackgo.MsgOptionTS(q.thread))
		}
		_, ts, err = s.api.PostMessageContext(ctx, q.channel, options...)
		_, limited := asksToWait(err)
		doubt = err != nil && !limited && refusal(err) == ""
		return err
	})
	return ts, doubt, err
}

// unask takes a question back that was posted in vain.
func (s *Slack) unask(ctx context.Context, channel, ts string) {
	err := s.call(ctx, saying, "chat.delete", channel, func(ctx context.Context) error {
		_, _, err := s.api.DeleteMessageContext(ctx, channel, ts)
		return err
	})
	if err != nil {
		s.o.Log.Warn().Err(err).Str("channel", channel).Msg("a question that nobody will answer still stands there")
	}
}
