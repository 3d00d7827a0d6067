package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"

	"switchboard/chat"
)

const (
	// decideBy is for a decision, from the click to its being stored: Slack wants to hear within 3 s that it has arrived.
	// Slack: https://docs.slack.dev/interactivity/handling-user-interaction#acknowledgment_response
	decideBy = 2500 * time.Millisecond

	cardCallback = actionCard + ".form" // callback_id of the form in which somebody says why, or answers
	cardBlock    = "words"
	mostReason   = 1000 // characters
	mostReply    = 3000
)

// What people are told where nothing was decided. Each asks them to do it again.
const (
	notOpened = "The window did not open: Slack gives it only a moment after the click. Please click again."
	notKnown  = "Slack does not tell me just now who you are, so I have not taken this. Please click again."
	notStored = "I could not store this, so it may not count. Please click again."
)

// cardForm is what the id of a card may look like. Of a click's value nothing else is taken.
var cardForm = regexp.MustCompile(`^[!-~]{1,200}$`)

// cardPressed deals with a button of a card, in a message that is the bot's own. What is said stands in the button's action
// and which card it is about in its value; who says it, Slack tells. Everything else the judge knows better.
func (s *Slack) cardPressed(ctx context.Context, i *interaction, a action, r *result) {
	m, card := i.Message, a.Value
	if !cardForm.MatchString(card) || m.Metadata != nil && !m.shows(card) {
		s.odd("forged click on a card")
		s.gone(i, r)
		return
	}
	at := place{spot: spot{channel: i.Channel.ID, root: m.ThreadTS}, ts: m.TS}
	switch say := chat.Saying(strings.TrimPrefix(a.ActionID, actionCard+".")); say {
	case chat.Deny, chat.Answer:
		user, trigger := i.User.ID, i.TriggerID
		r.soon("open the form of a card", func(ctx context.Context) {
			if err := s.openCardForm(ctx, trigger, cardAbout{Card: card, Say: say, Channel: at.channel, Root: at.root, TS: at.ts}); err != nil {
				s.o.Log.Debug().Err(err).Str("card", card).Msg("open the form of a card")
				s.tellPrivately(ctx, at.spot, user, notOpened)
			}
		})
	case chat.Approve, chat.Happened, chat.NotDone:
		d := chat.Decision{
			Key: fmt.Sprintf("click:%s:%s:%s", card, i.User.ID, a.ActionTS), Card: card, By: chat.Person{ID: i.User.ID}, Say: say, At: when(a.ActionTS),
		}
		if told := s.decide(ctx, d, at, r); told != "" {
			r.then("answer a click", func(ctx context.Context) { s.tellPrivately(ctx, at.spot, d.By.ID, told) })
		}
	default:
		s.odd("action " + short(a.ActionID, 60))
		s.gone(i, r)
	}
}

// shows says whether a message is marked as showing a card.
func (m *utterance) shows(card string) bool {
	var p struct {
		Card string `json:"card"`
	}
	return m.Metadata.EventType == cardType && json.Unmarshal(m.Metadata.Payload, &p) == nil && p.Card == card
}

// decide hands a decision on, complete with who makes it, and leaves in r what is to be told to them, and shown. problem is
// what to tell them where it was not taken. The same decision that comes again is not answered again.
func (s *Slack) decide(ctx context.Context, d chat.Decision, at place, r *result) (problem string) {
	ctx, cancel := context.WithTimeout(ctx, decideBy)
	defer cancel()
	mine := false
	ruling, err := s.know.rulings.get(ctx, d.Key, func(ctx context.Context) (chat.Ruling, time.Duration, error) {
		mine = true
		by, err := s.decider(ctx, d.By.ID)
		if err != nil {
			problem = notKnown
			return chat.Ruling{}, 0, err
		}
		d.By = by
		ruling, err := s.o.Judge.Decide(ctx, d)
		if err != nil {
			problem = notStored
		}
		return ruling, known, err
	})
	switch {
	case !mine:
		return ""
	case err != nil:
		s.o.Log.Error().Err(err).Str("card", d.Card).Str("person", d.By.ID).Msg("a decision is not taken; whoever made it is asked to click again")
		return problem
	}
	r.then("answer a decision", func(ctx context.Context) { s.tellPrivately(ctx, at.spot, d.By.ID, rulingWords(ruling)) })
	if c := ruling.Card; c != nil && c.ID == d.Card && c.Decided != "" {
		s.redraw(c, whereabouts{clicked: &at})
	}
	return ""
}

// rulingWords are never none: every click gets an answer.
func rulingWords(r chat.Ruling) string {
	switch {
	case !blank(r.Words):
		return r.Words
	case r.Taken:
		return "That counts. Thank you."
	}
	return "That does not count."
}

// tellPrivately says something to one person: at the card, or where Slack does not let it be said there, in their direct
// messages.
func (s *Slack) tellPrivately(ctx context.Context, at spot, user, text string) {
	err := s.ephemeral(ctx, at.channel, at.root, user, text)
	if refusal(err) != "" {
		var dm spot
		if dm, err = s.openDM(ctx, user); err == nil {
			_, err = s.post(ctx, saying, dm, slackgo.MsgOptionText(text, true))
		}
	}
	if err != nil {
		s.o.Log.Warn().Err(err).Str("channel", at.channel).Msg("a click got no answer")
	}
}

// cardAbout is what a form is about, kept in it. Only Slack and the bot see it.
type cardAbout struct {
	Card    string      `json:"d"`
	Say     chat.Saying `json:"s"`
	Channel string      `json:"c"`
	Root    string      `json:"r,omitempty"`
	TS      string      `json:"t"`
}

// valid says whether the bot can have written it.
func (a *cardAbout) valid() bool {
	return cardForm.MatchString(a.Card) && (a.Say == chat.Deny || a.Say == chat.Answer) && idForm.MatchString(a.Channel) &&
		isTS(a.TS) && (a.Root == "" || isTS(a.Root))
}

// openCardForm asks for the words that go with a decision. Slack: https://docs.slack.dev/reference/methods/views.open
func (s *Slack) openCardForm(ctx context.Context, trigger string, a cardAbout) error {
	private, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("write the form of card %s: %w", a.Card, err)
	}
	field := slackgo.NewPlainTextInputBlockElement(nil, cardBlock)
	field.Multiline, field.MaxLength = true, mostReply
	input := slackgo.NewInputBlock(cardBlock, plainText("Your answer"), nil, field)
	view := slackgo.ModalViewRequest{
		Type: slackgo.VTModal, CallbackID: cardCallback, PrivateMetadata: string(private), Title: plainText("Answer"),
		Submit: plainText("Answer"), Close: plainText("Cancel"),
	}
	if a.Say == chat.Deny {
		field.MaxLength = mostReason
		input.Label, input.Optional = plainText("Why not?"), true
		input.Hint = plainText("The assistant and whoever asked are told.")
		view.Title, view.Submit = plainText("Deny"), plainText("Deny")
	}
	view.Blocks.BlockSet = []slackgo.Block{input}
	return s.call(ctx, saying, "views.open", "", func(ctx context.Context) error {
		_, err := s.api.OpenViewContext(ctx, trigger, view)
		return err
	})
}

// cardSubmitted takes the words of a form. Where they are not taken the form stays open and says so, with what was written.
func (s *Slack) cardSubmitted(ctx context.Context, i *interaction) (result, error) {
	var r result
	var a cardAbout
	if json.Unmarshal([]byte(i.View.Private), &a) != nil || !a.valid() || !idForm.MatchString(i.View.ID) {
		s.odd("form " + cardCallback)
		return stay("This form is no longer in use. Please close it.")
	}
	text := strings.TrimSpace(i.View.State.Values[cardBlock][cardBlock].Value)
	if a.Say == chat.Answer && blank(text) {
		return stay("Please write an answer.")
	}
	at := place{spot: spot{channel: a.Channel, root: a.Root}, ts: a.TS}
	d := chat.Decision{
		Key: fmt.Sprintf("click:%s:%s:%s", a.Card, i.User.ID, i.View.ID), Card: a.Card, By: chat.Person{ID: i.User.ID}, Say: a.Say, Words: text,
		At: s.o.Now().UTC(),
	}
	if problem := s.decide(ctx, d, at, &r); problem != "" {
		return stay(strings.Replace(problem, "click again", "send it again", 1))
	}
	return r, nil
}

// stay keeps a form open.
func stay(why string) (result, error) {
	reply, err := json.Marshal(map[string]any{"response_action": "errors", "errors": map[string]string{cardBlock: why}})
	return result{reply: reply}, err
}
