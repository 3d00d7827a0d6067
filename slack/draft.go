package slack

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"
)

// draftType marks messages that are not yet a reply. Payload: {"turn": id}.
const draftType = "switchboard_draft"

// refreshDraft shows a turn as messages that are edited: those that it has to show are held against those that stand.
func (s *Slack) refreshDraft(ctx context.Context, sh *show) time.Duration {
	l, at, now := &sh.live, sh.at, s.o.Now()
	if l.since.IsZero() && len(l.messages) == 0 {
		if at.root != "" && !s.forbidden("words", sh) {
			return 0 // the line beside the bot's name says it
		}
		l.since = now.Add(-gather)
	}
	pace := editPace
	if l.edits < earlyEdits {
		pace = earlyPace
	}
	wait := l.edited.Add(pace).Sub(now)
	if len(l.messages) == 0 && len(l.tasks) == 0 {
		wait = max(wait, l.since.Add(gather).Sub(now))
	}
	switch {
	case !l.changed:
		return 0
	case wait > 0:
		return wait
	}
	drawn := s.draw(sh)
	for i, d := range drawn {
		if i < len(l.messages) && l.messages[i].seen == d.key {
			continue
		}
		if !s.putDraft(ctx, sh, i, d) {
			break
		}
	}
	for len(l.messages) > len(drawn) && !l.frozen {
		last := l.messages[len(l.messages)-1]
		err := s.remove(ctx, looking, at, last)
		s.quietly(err, "delete a draft")
		if err != nil && code(err) == "" {
			break // another time
		}
		l.messages = l.messages[:len(l.messages)-1]
	}
	l.edited = s.o.Now() // after the answer, so that Slack too sees the pace kept
	l.edits++
	l.changed = !l.frozen && !l.upToDate(drawn)
	if l.changed { // Slack had no room for it, or does not take cards
		return earlyPace
	}
	return 0
}

// drawing is a draft's message as it should stand.
type drawing struct {
	blocks   []slackgo.Block
	fallback string
	key      string // equal for equal drawings
}

func (l *live) upToDate(drawn []drawing) bool {
	if len(l.messages) != len(drawn) {
		return false
	}
	for i, d := range drawn {
		if l.messages[i].seen != d.key {
			return false
		}
	}
	return true
}

// draw gives a turn as it should stand: its calls, its text, and a line that says that there is more to come.
func (s *Slack) draw(sh *show) []drawing {
	l := &sh.live
	pieces := parts(l.text, usual())
	if len(pieces) == 0 {
		pieces = []part{{}}
	}
	out := make([]drawing, len(pieces))
	for i, p := range pieces {
		d := drawing{fallback: plain(p.text)}
		if i == 0 {
			d.blocks = s.drawTasks(sh)
		}
		if p.text != "" {
			d.blocks = append(d.blocks, slackgo.NewMarkdownBlock("", p.text))
		}
		if i == len(pieces)-1 {
			line := "Working on it…"
			if words := l.saying(); words != working {
				line = strings.ToUpper(words[3:4]) + words[4:] // without "is "
			}
			d.blocks = append(d.blocks, remark(line))
			if d.fallback == "" {
				d.fallback = escape(line)
			}
		}
		raw, err := json.Marshal(d.blocks)
		if err != nil { // cannot be: they are strings
			s.o.Log.Error().Err(err).Msg("draw a draft")
		}
		d.key = string(raw)
		out[i] = d
	}
	return out
}

// drawTasks gives the newest calls as cards, or as lines where Slack does not take cards in a message.
func (s *Slack) drawTasks(sh *show) []slackgo.Block {
	tasks := sh.live.tasks
	tasks = tasks[max(0, len(tasks)-mostTasks):]
	out := make([]slackgo.Block, 0, len(tasks)+2)
	if s.forbidden("cards", sh) {
		mark := map[slackgo.TaskCardStatus]string{slackgo.TaskCardStatusComplete: "✓ ", slackgo.TaskCardStatusError: "✗ "}
		for _, t := range tasks {
			lead := mark[t.status]
			if lead == "" {
				lead = "… "
			}
			out = append(out, remark(lead+t.title))
		}
		return out
	}
	for _, t := range tasks {
		card := slackgo.NewTaskCardBlock(t.id, t.title)
		card.Status = t.status
		out = append(out, card)
	}
	return out
}

// putDraft posts or edits one message of a draft, and says whether it stands now.
func (s *Slack) putDraft(ctx context.Context, sh *show, i int, d drawing) bool {
	l, at := &sh.live, sh.at
	var err error
	if i < len(l.messages) {
		m := &l.messages[i]
		if m.streaming { // what it was, and Slack has ended; an edit may come before Slack knows
			s.quietly(s.stopStream(ctx, looking, at, m.ts), "end a stream")
			m.streaming = false
		}
		err = s.update(ctx, showing, at, m.ts, slackgo.MsgOptionCompose(
			slackgo.MsgOptionText(d.fallback, false), slackgo.MsgOptionBlocks(d.blocks...)))
		if err == nil {
			m.seen = d.key
			return true
		}
	} else {
		// A draft must become the reply by an edit, so one is only begun while there is room for that.
		if !s.out.gate.spare("chat.update", s.o.Now()) {
			return false
		}
		var ts string
		ts, err = s.post(ctx, showing, at, slackgo.MsgOptionCompose(slackgo.MsgOptionText(d.fallback, false), slackgo.MsgOptionBlocks(d.blocks...),
			slackgo.MsgOptionMetadata(slackgo.SlackMetadata{EventType: draftType, EventPayload: map[string]any{"turn": sh.turn}})))
		if err == nil {
			l.messages = append(l.messages, shown{ts: ts, seen: d.key})
			return true
		}
		l.doubt = l.doubt || lost(err)
	}
	switch c := code(err); {
	case c == "": // dropped or lost: another time
		l.frozen = l.frozen || i >= len(l.messages) && lost(err)
	case aboutBlocks(c) && len(l.tasks) > 0 && !s.forbidden("cards", sh):
		s.forbid("cards", c, sh)
	default:
		s.o.Log.Debug().Str("turn", sh.turn).Str("error", c).Msg("slack does not take a draft")
		l.frozen = true
	}
	return false
}
