package slack

import (
	"context"
	"strconv"
	"time"

	slackgo "github.com/slack-go/slack"

	"switchboard/chat"
)

const (
	traceTime   = 20 * time.Second // for reading a trace
	mostViewing = 60               // blocks of a trace: Slack takes 100, and 250 kB, https://docs.slack.dev/reference/views/modal-views
)

// showTrace opens a form at once, since the click that asks for it is good for 3 s only, and then shows in it how the answer
// came about. Where the form does not open, whoever clicked is told so at the place of the click.
// Slack: https://docs.slack.dev/reference/methods/views.open
func (s *Slack) showTrace(ctx context.Context, triggerID, turn string, by chat.Person, at spot) {
	var opened *slackgo.ViewResponse
	err := s.call(ctx, saying, "views.open", "", func(ctx context.Context) (err error) {
		opened, err = s.api.OpenViewContext(ctx, triggerID, traceView(note("One moment…")))
		return err
	})
	if err != nil {
		s.o.Log.Debug().Err(err).Str("turn", turn).Msg("open a form for a trace")
		s.whisper(ctx, at.channel, at.root, by.ID, "The window did not open: Slack gives it only a moment after the click. Please click again.")
		return
	}
	blocks := s.trace(ctx, turn, by)
	err = s.call(ctx, saying, "views.update", "", func(ctx context.Context) error {
		_, err := s.api.UpdateViewContext(ctx, traceView(blocks...), "", "", opened.ID)
		return err
	})
	if c := code(err); c != "" && c != "not_found" { // not_found: closed meanwhile
		s.o.Log.Warn().Err(err).Str("turn", turn).Msg("show a trace")
		s.quietly(s.call(ctx, saying, "views.update", "", func(ctx context.Context) error {
			_, err := s.api.UpdateViewContext(ctx, traceView(note("Slack does not let me show this.")), "", "", opened.ID)
			return err
		}), "show that there is no trace")
	} else if err != nil && c == "" {
		s.o.Log.Warn().Err(err).Str("turn", turn).Msg("show a trace")
	}
}

// trace draws how an answer came about.
func (s *Slack) trace(ctx context.Context, turn string, by chat.Person) []slackgo.Block {
	within, cancel := context.WithTimeout(ctx, traceTime)
	defer cancel()
	text, ok, err := s.o.Desk.Trace(within, turn, by)
	switch {
	case err != nil:
		s.o.Log.Warn().Err(err).Str("turn", turn).Msg("read a trace")
		return []slackgo.Block{note("I cannot read how this came about just now. Please try again later.")}
	case !ok || blank(text):
		return []slackgo.Block{note("There is no trace for you here.")}
	}
	pieces := chunks(fenced(text), mostSection-20)
	out := make([]slackgo.Block, 0, min(len(pieces), mostViewing)+1)
	for i, piece := range pieces {
		if i == mostViewing {
			out = append(out, note("… and "+strconv.Itoa(len(pieces)-i)+" pages more, which do not fit here. Whoever looks after the bot finds them with bot trace "+turn+"."))
			break
		}
		out = append(out, slackgo.NewSectionBlock(slackgo.NewTextBlockObject(slackgo.MarkdownType, "```\n"+piece+"\n```", false, true), nil, nil))
	}
	return out
}

func note(text string) *slackgo.SectionBlock {
	return slackgo.NewSectionBlock(slackgo.NewTextBlockObject(slackgo.PlainTextType, text, false, false), nil, nil)
}

func traceView(blocks ...slackgo.Block) slackgo.ModalViewRequest {
	return slackgo.ModalViewRequest{
		Type:   slackgo.VTModal,
		Title:  slackgo.NewTextBlockObject(slackgo.PlainTextType, "How I got this", false, false),
		Close:  slackgo.NewTextBlockObject(slackgo.PlainTextType, "Close", false, false),
		Blocks: slackgo.Blocks{BlockSet: blocks},
	}
}

// moment is a time that Slack shows to everybody in their own zone.
// Slack: https://docs.slack.dev/messaging/formatting-message-text#date-formatting
func moment(t time.Time) string {
	if t.IsZero() {
		return "the beginning"
	}
	return "<!date^" + strconv.FormatInt(t.Unix(), 10) + "^{date_short_pretty} {time}|" + t.UTC().Format("2006-01-02 15:04") + " UTC>"
}
