package slack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	slackgo "github.com/slack-go/slack"

	"switchboard/chat"
	"switchboard/turn"
)

// errNoLook says that it cannot be found out what was said before.
var errNoLook = errors.New("look up what was said before: Slack does not allow it")

const (
	lookPages = 10 // of a thread that are looked through for the bot's own messages
	lookPage  = 200
)

// piece is a message that stands as a part of a reply. A part that Slack called too long stands as several of them.
type piece struct {
	of, part int  // of so many parts, which
	number   int  // of the piece in its part, from 0
	more     bool // it is not the last one of its part
	ts       string
}

// past is what stands of a reply from earlier tries.
type past struct {
	pieces  []piece
	orphans []shown // messages of the bot that are no reply: drafts, streams
}

// whole gives the parts that stand whole, of a reply of so many: the number of a part -> ts of its last message.
func (p past) whole(of int) map[int]string {
	whole := map[int]string{}
	for _, last := range p.pieces {
		all := last.of == of && !last.more
		for n := 0; all && n < last.number; n++ {
			all = slices.ContainsFunc(p.pieces, func(m piece) bool {
				return m.of == of && m.part == last.part && m.number == n && m.more
			})
		}
		if all {
			whole[last.part] = last.ts
		}
	}
	return whole
}

// match says which of so many parts are there, with the ts of their last messages, and which messages may become the others,
// oldest first: what was shown, and what stands of parts that are not whole or were cut in another way. An earlier try that is
// complete stays as it is, in whatever way it was cut.
func (p past) match(count int, targets []shown) ([]shown, map[int]string) {
	of, have := count, p.whole(count)
	for _, m := range p.pieces {
		if other := p.whole(m.of); len(have) < of && len(other) == m.of {
			of, have = m.of, other
		}
	}
	targets = slices.Clone(targets)
	for _, m := range p.pieces {
		at := slices.IndexFunc(targets, func(t shown) bool { return t.ts == m.ts })
		switch counts := m.of == of && have[m.part] != ""; {
		case counts && at >= 0:
			targets = slices.Delete(targets, at, at+1)
		case !counts && at < 0:
			targets = append(targets, shown{ts: m.ts})
		}
	}
	slices.SortFunc(targets, func(a, b shown) int { return compareTS(a.ts, b.ts) })
	if of != count {
		all := map[int]string{}
		for i := range count {
			all[i] = have[of-1]
		}
		have = all
	}
	return targets, have
}

// compareTS compares two ts of one channel by their time. They are strings of digits: as numbers they would lose their last
// ones.
func compareTS(a, b string) int {
	secA, fracA, _ := strings.Cut(a, ".")
	secB, fracB, _ := strings.Cut(b, ".")
	if len(secA) != len(secB) {
		return len(secA) - len(secB)
	}
	return cmp.Or(strings.Compare(secA, secB), strings.Compare(fracA, fracB))
}

// dated says whether a message has its id from Slack's clock, so that its answer stands after it. A form has none of its own.
func dated(m chat.Message) bool {
	return isTS(m.ID) && (strings.HasPrefix(m.Key, "msg:") || strings.HasPrefix(m.Key, "click:") && !strings.HasSuffix(m.Key, ":form"))
}

// lookUp finds what stands of a reply: the bot's own messages after the question. It waits for as long as Slack's limits
// ask for, since a reply that is said again is worse than a late one. An error that is errNoLook is final.
func (s *Slack) lookUp(ctx context.Context, at spot, p turn.Post) (past, error) {
	var found past
	cursor := ""
	for range lookPages {
		messages, next, err := s.lookPage(ctx, at, p.To, cursor)
		switch c := refusal(err); {
		case c == "thread_not_found" || c == "message_not_found":
			return found, nil
		case c != "":
			return found, errors.Join(errNoLook, err)
		case err != nil:
			return found, fmt.Errorf("look for the reply of turn %s: %w", p.Turn, err)
		}
		for _, m := range messages {
			found.see(m, s.me, at, p)
		}
		if cursor = next; cursor == "" {
			return found, nil
		}
	}
	return found, fmt.Errorf("%w: the thread is longer than %d messages", errNoLook, lookPages*lookPage)
}

// see takes in a message. What is not the bot's, or stands before the question, is nothing to this reply.
func (p *past) see(m slackgo.Message, me identity, at spot, q turn.Post) {
	own := m.User == me.User || m.BotID != "" && m.BotID == me.Bot
	if !own || m.Timestamp == at.root || dated(q.To) && compareTS(m.Timestamp, q.To.ID) <= 0 {
		return
	}
	switch payload := m.Metadata.EventPayload; m.Metadata.EventType {
	case metadataType:
		part, ok := payload["part"].(float64)
		of, also := payload["parts"].(float64)
		if ok && also && payload["key"] == q.Key {
			number, _ := payload["piece"].(float64) // neither stands in a message that is a whole part
			more, _ := payload["more"].(bool)
			p.pieces = append(p.pieces, piece{of: int(of), part: int(part), number: int(number), more: more, ts: m.Timestamp})
		}
	case draftType:
		if payload["turn"] == q.Turn {
			p.orphans = append(p.orphans, shown{ts: m.Timestamp})
		}
	case "": // a stream carries no mark before it ends; elsewhere it is something that was said beside this turn, or a card's file
		if streamable(at) && dated(q.To) && len(m.Files) == 0 {
			p.orphans = append(p.orphans, shown{ts: m.Timestamp})
		}
	}
}

// lookPage reads a page of the thread, or of a direct message without threads.
// Slack: https://docs.slack.dev/reference/methods/conversations.replies and …/conversations.history.
func (s *Slack) lookPage(ctx context.Context, at spot, question chat.Message, cursor string) (messages []slackgo.Message, next string, err error) {
	after := ""
	if dated(question) {
		after = question.ID
	}
	if at.root != "" {
		err = s.call(ctx, saying, "conversations.replies", "", func(ctx context.Context) (err error) {
			messages, _, next, err = s.api.GetConversationRepliesContext(ctx, &slackgo.GetConversationRepliesParameters{
				ChannelID: at.channel, Timestamp: at.root, Oldest: after, Cursor: cursor, Limit: lookPage, IncludeAllMetadata: true,
			})
			return err
		})
		return messages, next, err
	}
	err = s.call(ctx, saying, "conversations.history", "", func(ctx context.Context) error {
		r, err := s.api.GetConversationHistoryContext(ctx, &slackgo.GetConversationHistoryParameters{
			ChannelID: at.channel, Oldest: after, Cursor: cursor, Limit: lookPage, IncludeAllMetadata: true,
		})
		if err == nil {
			messages, next = r.Messages, r.ResponseMetaData.NextCursor
		}
		return err
	})
	return messages, next, err
}

// refusal gives Slack's word for a call that it refuses and will go on to refuse, "" for anything else.
func refusal(err error) string {
	if c := code(err); !unsure(c) {
		return c
	}
	return ""
}

// unsure says that a refusal passes, and that Slack itself may not know whether the call had an effect.
func unsure(c string) bool {
	switch c {
	case "internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org", "ratelimited", "rate_limited":
		return true
	}
	return false
}

// hopeless says that Slack lets the bot say nothing at all, in whatever form.
func hopeless(c string) bool {
	switch c {
	case "invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "missing_scope", "no_permission",
		"not_allowed_token_type", "access_denied", "org_login_required", "ekm_access_denied", "team_access_not_granted":
		return true
	}
	return false
}

// elsewhere says that the place is closed to the bot: what it has to say must go elsewhere.
func elsewhere(c string) bool {
	switch c {
	case "channel_not_found", "not_in_channel", "is_archived", "thread_not_found", "invalid_thread_ts", "thread_locked", "cannot_reply_to_message",
		"restricted_action", "restricted_action_read_only_channel", "restricted_action_thread_only_channel",
		"restricted_action_thread_locked", "restricted_action_non_threadable_channel", "restricted_action_mention_limit",
		"messages_tab_disabled", "channel_is_limited_access", "user_not_in_channel":
		return true
	}
	return false
}

func tooLong(c string) bool {
	switch c {
	case "msg_too_long", "msg_blocks_too_long", "msg_blocks_too_many", "too_many_blocks", "markdown_text_too_long":
		return true
	}
	return false
}

// aboutBlocks says that Slack does not take what a message is made of, whichever message it is.
func aboutBlocks(c string) bool {
	switch c {
	case "invalid_blocks", "invalid_blocks_format", "invalid_attachments", "invalid_arguments", "unsupported_block_type", "no_text":
		return true
	}
	return tooLong(c)
}
