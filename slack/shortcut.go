package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	slackgo "github.com/slack-go/slack"

	"switchboard/chat"
)

// The message shortcut "Ask … about this": a form with one field, and what is written there becomes a message in the
// thread of the message that it is about. Slack: https://docs.slack.dev/interactivity/implementing-shortcuts
const (
	// AskShortcut is the callback_id of the shortcut, as the manifest has it, and of its form.
	AskShortcut = "ask_message"

	askBlock = "question"
	askMost  = 3000 // characters of a question
	// questionType marks what the bot posts in somebody's name. Payload: {"by": trigger of the command or id of the form}.
	questionType = "switchboard_question"

	quoteMost = 2000 // characters of the message that it is about; a form carries 3,000 in private
)

// view is a form as it comes back.
type view struct {
	ID         string `json:"id"`
	CallbackID string `json:"callback_id"`
	Private    string `json:"private_metadata"`
	State      struct {
		Values map[string]map[string]struct {
			Value string `json:"value"`
		} `json:"values"`
	} `json:"state"`
}

// about is the message that a question is about, kept in the form. Only Slack and the bot see it.
type about struct {
	Channel string `json:"c"`
	Root    string `json:"r"`
	By      string `json:"b"`
	Text    string `json:"t"`
}

// shortcut opens the form.
func (s *Slack) shortcut(i *interaction, r *result) {
	if i.CallbackID != AskShortcut || i.Message == nil || !idForm.MatchString(i.Channel.ID) ||
		!isTS(i.Message.TS) {
		s.odd("shortcut " + short(i.CallbackID, 60))
		return
	}
	m := i.Message
	a := about{Channel: i.Channel.ID, Root: m.ThreadTS, By: m.User, Text: m.words()}
	if a.Root == "" {
		a.Root = m.TS
	}
	r.soon("open the form of a shortcut", func(ctx context.Context) { s.askAbout(ctx, i, a) })
}

func (s *Slack) askAbout(ctx context.Context, i *interaction, a about) {
	private, err := json.Marshal(a)
	for most := quoteMost; err == nil && len([]rune(string(private))) > 2900 && most > 0; most -= 200 {
		a.Text = short(a.Text, most)
		private, err = json.Marshal(a)
	}
	if err == nil {
		err = s.call(ctx, saying, "views.open", "", func(ctx context.Context) error {
			_, err := s.api.OpenViewContext(ctx, i.TriggerID, askForm(string(private)))
			return err
		})
	}
	if err != nil {
		s.o.Log.Warn().Err(err).Msg("the form of a shortcut did not open")
		s.whisper(ctx, i.Channel.ID, i.Message.ThreadTS, i.User.ID, "The form did not open. Please try again.")
	}
}

// askForm is the form. Slack: https://docs.slack.dev/reference/views/modal-views
func askForm(private string) slackgo.ModalViewRequest {
	text := func(t string) *slackgo.TextBlockObject {
		return slackgo.NewTextBlockObject(slackgo.PlainTextType, t, false, false)
	}
	field := slackgo.NewPlainTextInputBlockElement(text("What do you want to know?"), askBlock)
	field.Multiline, field.MaxLength = true, askMost
	return slackgo.ModalViewRequest{
		Type: slackgo.VTModal, CallbackID: AskShortcut, PrivateMetadata: private,
		Title: text("Ask about this"), Submit: text("Ask"), Close: text("Cancel"),
		Blocks: slackgo.Blocks{BlockSet: []slackgo.Block{slackgo.NewInputBlock(askBlock, text("Your question"), nil, field)}},
	}
}

// submitted takes the question of a form. The question is shown in the thread, so that the answer has one to stand under.
func (s *Slack) submitted(ctx context.Context, i *interaction) (result, error) {
	var r result
	var a about
	if i.View.CallbackID == cardCallback {
		return s.cardSubmitted(ctx, i)
	}
	if i.View.CallbackID != AskShortcut || json.Unmarshal([]byte(i.View.Private), &a) != nil ||
		!idForm.MatchString(a.Channel) || !isTS(a.Root) || !idForm.MatchString(i.View.ID) {
		s.odd("form " + short(i.View.CallbackID, 60))
		return r, nil //nolint:nilerr // it would be no better the next time
	}
	text := strings.TrimSpace(i.View.State.Values[askBlock][askBlock].Value)
	if text == "" {
		reply, err := json.Marshal(map[string]any{
			"response_action": "errors", "errors": map[string]string{askBlock: "Please write a question."},
		})
		return result{reply: reply}, err
	}
	now := s.o.Now().UTC()
	whole := escape(text)
	if a.Text != "" {
		by := "[The message that this is about]"
		if idForm.MatchString(a.By) {
			by = "[The message that this is about, of <@" + a.By + ">]"
		}
		whole += "\n\n" + by + "\n" + quote(a.Text)
	}
	_, fresh, err := s.o.Bot.Accept(ctx, chat.Message{
		Key:     fmt.Sprintf("click:%s:%s:form", i.View.ID, i.User.ID), // a form is sent once
		ID:      fmt.Sprintf("%d.%06d", now.Unix(), now.Nanosecond()/1000),
		Thread:  chat.Thread{Team: s.me.Team, Channel: a.Channel, Root: a.Root},
		Channel: chat.Channel{ID: a.Channel, Visibility: chat.Shared},
		From:    chat.Person{ID: i.User.ID, Kind: chat.External},
		Text:    whole,
		At:      now,
	})
	if err != nil {
		return r, fmt.Errorf("store the question of a form: %w", err)
	}
	if fresh {
		r.then("show the question of a form", func(ctx context.Context) {
			q := question{channel: a.Channel, thread: a.Root, user: i.User.ID, text: escape(text), mark: i.View.ID}
			if _, _, err := s.ask(ctx, q); err != nil {
				s.o.Log.Warn().Err(err).Str("channel", a.Channel).Msg("the question of a form is not shown")
			}
		})
	}
	return r, nil
}
