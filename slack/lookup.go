package slack

import (
	"context"
	"errors"
	"fmt"
	"slices"

	slackgo "github.com/slack-go/slack"

	"switchboard/turn"
)

// errNoLook says that it cannot be found out what was said before.
var errNoLook = errors.New("look up what was said before: Slack does not allow it")

const (
	lookPages = 10 // of a thread that are looked through for the bot's own messages
	lookPage  = 200
)

// past is what stands of a reply from an earlier try.
type past struct {
	parts   map[int]string // number of the part -> ts
	of      int            // how many parts the earlier try had
	orphans []shown        // messages of the bot that are no reply: drafts, streams
}

// match says which of so many parts are there. Parts of a reply that was cut in another way are no parts of this one: they
// are taken for drafts and become it. An earlier try that is complete stays as it is.
func (p past) match(count int, targets []shown) ([]shown, map[int]bool) {
	have := map[int]bool{}
	if len(p.parts) > 0 && p.of != count {
		if len(p.parts) == p.of {
			for i := range count {
				have[i] = true
			}
			return targets, have
		}
		old := make([]shown, 0, len(p.parts))
		for _, ts := range p.parts {
			old = append(old, shown{ts: ts})
		}
		slices.SortFunc(old, func(a, b shown) int { return compareTS(a.ts, b.ts) })
		return append(old, targets...), have
	}
	for i, ts := range p.parts {
		have[i] = true
		targets = slices.DeleteFunc(targets, func(m shown) bool { return m.ts == ts })
	}
	return targets, have
}

func compareTS(a, b string) int {
	switch {
	case len(a) != len(b):
		return len(a) - len(b)
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// lookUp finds what stands of a reply: the bot's own messages after the question. An error that is errNoLook is final.
func (s *Slack) lookUp(ctx context.Context, at spot, p turn.Post) (past, error) {
	found := past{parts: map[int]string{}}
	cursor := ""
	for range lookPages {
		messages, next, err := s.lookPage(ctx, at, p.To.ID, cursor)
		switch c := code(err); {
		case c == "thread_not_found" || c == "message_not_found":
			return found, nil
		case c != "" && !unsure(c) || errors.Is(err, errBusy):
			return found, errors.Join(errNoLook, err)
		case err != nil:
			return found, fmt.Errorf("look for the reply of turn %s: %w", p.Turn, err)
		}
		for _, m := range messages {
			found.see(m, s.me, at, p)
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	slices.SortFunc(found.orphans, func(a, b shown) int { return compareTS(a.ts, b.ts) })
	return found, nil
}

// see takes in a message. What is not the bot's, or stands before the question, is nothing to this reply.
func (p *past) see(m slackgo.Message, me identity, at spot, q turn.Post) {
	own := m.User == me.User || m.BotID != "" && m.BotID == me.Bot
	if !own || m.Timestamp == at.root || isTS(q.To.ID) && compareTS(m.Timestamp, q.To.ID) <= 0 {
		return
	}
	switch payload := m.Metadata.EventPayload; {
	case m.Metadata.EventType == draftType && payload["turn"] != q.Turn:
	case m.Metadata.EventType == metadataType && payload["key"] == q.Key:
		part, ok := payload["part"].(float64)
		of, also := payload["parts"].(float64)
		if ok && also {
			p.parts[int(part)], p.of = m.Timestamp, int(of)
		}
	case m.Metadata.EventType == metadataType: // another reply
	case m.Metadata.EventType == "" && at.root == "": // in a direct message without threads it may be anything
	default:
		p.orphans = append(p.orphans, shown{ts: m.Timestamp})
	}
}

// lookPage reads a page of the thread, or of a direct message without threads.
// Slack: https://docs.slack.dev/reference/methods/conversations.replies and …/conversations.history.
func (s *Slack) lookPage(ctx context.Context, at spot, after, cursor string) (messages []slackgo.Message, next string, err error) {
	if !isTS(after) {
		after = ""
	}
	if at.root != "" {
		err = s.call(ctx, looking, "conversations.replies", "", func(ctx context.Context) (err error) {
			messages, _, next, err = s.api.GetConversationRepliesContext(ctx, &slackgo.GetConversationRepliesParameters{
				ChannelID: at.channel, Timestamp: at.root, Oldest: after, Cursor: cursor, Limit: lookPage, IncludeAllMetadata: true,
			})
			return err
		})
		return messages, next, err
	}
	err = s.call(ctx, looking, "conversations.history", "", func(ctx context.Context) error {
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

// unsure says that Slack itself does not know whether a call had an effect.
func unsure(c string) bool {
	return c == "internal_error" || c == "fatal_error" || c == "service_unavailable" || c == "request_timeout"
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
