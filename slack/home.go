package slack

import (
	"context"
	"fmt"
	"strings"

	slackgo "github.com/slack-go/slack"

	"switchboard/chat"
)

const (
	mostHelpers  = 30 // assistants that a home shows; a view has at most 100 blocks, https://docs.slack.dev/reference/views/home-tab-views
	mostExamples = 5
	mostErrors   = 20 // of a refused pack
	mostPrompts  = 4  // https://docs.slack.dev/reference/methods/assistant.threads.setSuggestedPrompts
)

// publishHome draws the bot's App Home for a person who looks at it.
// Slack: https://docs.slack.dev/reference/methods/views.publish
func (s *Slack) publishHome(ctx context.Context, user string) {
	home, err := s.o.Desk.Home(ctx, s.quickly(ctx, chat.Person{ID: user, Kind: chat.External}))
	if err != nil {
		s.o.Log.Warn().Err(err).Str("person", user).Msg("find out what stands in the home")
		return
	}
	view := slackgo.HomeTabViewRequest{Type: slackgo.VTHomeTab, Blocks: slackgo.Blocks{BlockSet: homeBlocks(home)}}
	err = s.call(ctx, saying, "views.publish", "", func(ctx context.Context) error {
		_, err := s.api.PublishViewContext(ctx, slackgo.PublishViewContextRequest{UserID: user, View: view})
		return err
	})
	if err != nil {
		s.o.Log.Warn().Err(err).Str("person", user).Msg("publish the home")
	}
}

func homeBlocks(h Home) []slackgo.Block {
	var out []slackgo.Block
	say := func(markup string) {
		for _, piece := range chunks(markup, mostSection) {
			out = append(out, slackgo.NewSectionBlock(slackgo.NewTextBlockObject(slackgo.MarkdownType, piece, false, true), nil, nil))
		}
	}
	title := "What I can do for you"
	if !blank(h.Bot) {
		title = oneLine("What "+h.Bot+" can do for you", 140)
	}
	out = append(out, slackgo.NewHeaderBlock(slackgo.NewTextBlockObject(slackgo.PlainTextType, title, false, false)))
	if len(h.Assistants) == 0 {
		say("There is no assistant that you may use. Ask whoever looks after this bot.")
	}
	for _, a := range h.Assistants[:min(len(h.Assistants), mostHelpers)] {
		lines := []string{"*" + escape(oneLine(a.Name, 100)) + "*", escape(oneLine(a.About, 600))}
		for _, e := range a.Examples[:min(len(a.Examples), mostExamples)] {
			lines = append(lines, "•  _"+escape(oneLine(strings.ReplaceAll(e, "_", " "), 200))+"_")
		}
		say(strings.Join(lines, "\n"))
	}
	if n := len(h.Assistants) - mostHelpers; n > 0 {
		say(fmt.Sprintf("and %d more", n))
	}
	if h.Admin == nil {
		return out
	}
	out = append(out, slackgo.NewDividerBlock(), slackgo.NewHeaderBlock(slackgo.NewTextBlockObject(slackgo.PlainTextType, "For admins", false, false)))
	say("*Active version* `" + escape(oneLine(h.Admin.Active, 80)) + "`, since " + moment(h.Admin.Since))
	if r := h.Admin.Rejected; r != nil {
		say("*Refused* " + moment(r.At) + ". The active version stays until this is mended:")
		for _, e := range r.Errors[:min(len(r.Errors), mostErrors)] {
			say("```\n" + fenced(short(e, 1000)) + "\n```")
		}
		if n := len(r.Errors) - mostErrors; n > 0 {
			say(fmt.Sprintf("and %d more; `bot check` lists all of them", n))
		}
	}
	return out[:min(len(out), 100)]
}

// fenced makes a text fit to stand in a fence of Slack's markup.
func fenced(s string) string { return escape(strings.ReplaceAll(s, "```", "`\u200b`\u200b`")) }

// suggest puts the pack's prompts above an empty conversation.
// Slack: https://docs.slack.dev/reference/methods/assistant.threads.setSuggestedPrompts
func (s *Slack) suggest(ctx context.Context, channel, thread string) {
	prompts := s.o.Settings().Prompts
	if len(prompts) == 0 {
		return
	}
	p := slackgo.AssistantThreadsSetSuggestedPromptsParameters{ChannelID: channel, ThreadTS: thread}
	for _, prompt := range prompts[:min(len(prompts), mostPrompts)] {
		p.AddPrompt(prompt.Title, prompt.Message)
	}
	err := s.call(ctx, saying, "assistant.threads.setSuggestedPrompts", channel, func(ctx context.Context) error {
		return s.api.SetAssistantThreadsSuggestedPromptsContext(ctx, p)
	})
	if err != nil {
		s.o.Log.Debug().Err(err).Str("channel", channel).Msg("suggest prompts")
	}
}

// picked takes the choices off a question that has been answered, and says who clicked what. What else stands there is left
// as Slack has it.
func (s *Slack) picked(ctx context.Context, c click) {
	if err := s.closeQuestion(ctx, c); err != nil {
		s.o.Log.Debug().Err(err).Str("turn", c.Card).Msg("take the choices off a question")
	}
}

func (s *Slack) closeQuestion(ctx context.Context, c click) error {
	at := spot{channel: c.Channel, root: c.Thread}
	m, err := s.message(ctx, at, c.TS)
	if err != nil {
		return err
	}
	var blocks []slackgo.Block
	for _, b := range m.Blocks.BlockSet {
		if !choices(b) {
			blocks = append(blocks, b)
		}
	}
	line := remark("→ " + c.Label)
	if idForm.MatchString(c.Person) {
		line = slackgo.NewContextBlock("", slackgo.NewTextBlockObject(slackgo.MarkdownType, "→ <@"+c.Person+"> clicked *"+escape(oneLine(c.Label, 100))+"*", false, true))
	}
	return s.update(ctx, saying, at, c.TS, slackgo.MsgOptionCompose(slackgo.MsgOptionText(m.Text, false), slackgo.MsgOptionBlocks(append(blocks, line)...)))
}

// choices says whether a block holds the choices of a question.
func choices(b slackgo.Block) bool {
	row, ok := b.(*slackgo.ActionBlock)
	if !ok || row.Elements == nil {
		return false
	}
	for _, e := range row.Elements.ElementSet {
		if press, ok := e.(*slackgo.ButtonBlockElement); ok && actionOf(press.ActionID) == actionPick {
			return true
		}
	}
	return false
}
