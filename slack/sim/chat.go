package sim

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// mostText is what is kept of a text. Slack: https://docs.slack.dev/changelog/2018-truncating-really-long-messages
	mostText = 40000
	// mostUpdate is what chat.update takes. Slack: https://docs.slack.dev/reference/methods/chat.update
	mostUpdate = 4000
	// mostMetadata is a guess in bytes: Slack names the error, metadata_too_large, and not the size.
	mostMetadata = 8000
	// mostAttachments of a message. Slack: https://docs.slack.dev/reference/methods/chat.postMessage
	mostAttachments = 100
)

// place finds the channel that an app wants to write in. user ids open the DM with the app's bot.
// Slack: https://docs.slack.dev/reference/methods/chat.postMessage
func (w *Workspace) place(a *app, id string) (*channel, error) {
	if p := w.people[id]; p != nil && p.Kind != Bot {
		return w.im(p, a), nil
	}
	c := w.channels[id]
	switch {
	case c == nil, c.Kind == IM && c.App != a.ID, c.private() && !c.has(a.User):
		return nil, fail("channel_not_found")
	case c.Archived:
		return nil, fail("is_archived")
	case !c.has(a.User) && !a.may("chat:write.public"):
		return nil, fail("not_in_channel")
	case c.Kind == IM && a.NoMessages:
		return nil, fail("messages_tab_disabled")
	}
	return c, nil
}

// content is what a message is made of.
type content struct {
	text        string
	blocks      []json.RawMessage
	attachments []json.RawMessage
	hasText     bool
	hasBlocks   bool
}

// content reads it. Slack: https://docs.slack.dev/reference/methods/chat.postMessage
func (w *Workspace) content(c *call) (content, error) {
	out := content{text: c.str("text"), hasText: c.has("text")}
	raw, err := c.raw("blocks")
	if err != nil {
		return out, fail("invalid_blocks_format")
	}
	out.hasBlocks = raw != nil
	if out.blocks, err = w.checkBlocks(raw, false); err != nil {
		return out, err
	}
	if raw, err = c.raw("attachments"); err != nil {
		return out, fail("invalid_attachments")
	}
	if out.attachments, err = list(raw); err != nil {
		return out, fail("invalid_attachments")
	}
	if len(out.attachments) > mostAttachments {
		return out, fail("too_many_attachments")
	}
	if md := c.str("markdown_text"); md != "" {
		if out.text != "" || out.hasBlocks {
			return out, fail("markdown_text_conflict")
		}
		if utf8.RuneCountInString(md) > mostMarkdown {
			return out, fail("msg_too_long")
		}
		raw := mustJSON([]any{map[string]any{"type": "markdown", "text": md}})
		if out.blocks, err = w.checkBlocks(raw, false); err != nil {
			return out, err
		}
		out.text, out.hasText, out.hasBlocks = md, true, true
	}
	return out, nil
}

// empty says whether there is nothing that could be shown.
func (c content) empty() bool {
	return strings.TrimSpace(c.text) == "" && len(c.blocks) == 0 && len(c.attachments) == 0
}

// cut keeps as much of a text as Slack does.
func (c *call) cut(text string) string {
	if utf8.RuneCountInString(text) <= mostText {
		return text
	}
	c.warn = append(c.warn, "message_truncated")
	return string([]rune(text)[:mostText])
}

// metadata reads a message's metadata; set says whether it was given, and nil then that it is to be cleared.
// Slack: https://docs.slack.dev/messaging/message-metadata
func (c *call) metadata() (m *Metadata, set bool, err error) {
	raw, err := c.raw("metadata")
	if err != nil || raw == nil {
		if err != nil {
			err = fail("invalid_metadata_format")
		}
		return nil, false, err
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return nil, false, fail("invalid_metadata_format")
	}
	if len(fields) == 0 {
		return nil, true, nil
	}
	m = &Metadata{Payload: fields["event_payload"]}
	var payload map[string]any
	if json.Unmarshal(fields["event_type"], &m.Type) != nil || m.Type == "" || json.Unmarshal(m.Payload, &payload) != nil || payload == nil {
		return nil, false, fail("invalid_metadata_schema")
	}
	if len(raw) > mostMetadata {
		return nil, false, fail("metadata_too_large")
	}
	return m, true, nil
}

// thread finds the thread that a message goes into. A first message that is gone makes the message land outside of any
// thread, without an error, as read in a client of Slack's.
func (w *Workspace) thread(ch *channel, ts string) (string, error) {
	if ts == "" {
		return "", nil
	}
	if !regexp.MustCompile(`^\d{1,12}\.\d{1,6}$`).MatchString(ts) {
		return "", fail("invalid_thread_ts")
	}
	root := ch.byTS[ts]
	switch {
	case root == nil:
		return "", nil
	case root.Thread != "":
		return "", fail("cannot_reply_to_message")
	}
	return ts, nil
}

// postMessage is chat.postMessage. Slack: https://docs.slack.dev/reference/methods/chat.postMessage
func (w *Workspace) postMessage(c *call) (map[string]any, error) {
	ch, err := w.place(c.app, c.str("channel"))
	if err != nil {
		return nil, err
	}
	body, err := w.content(c)
	if err != nil {
		return nil, err
	}
	if body.empty() {
		return nil, fail("no_text")
	}
	meta, _, err := c.metadata()
	if err != nil {
		return nil, err
	}
	thread, err := w.thread(ch, c.str("thread_ts"))
	if err != nil {
		return nil, err
	}
	m := &Message{
		Channel: ch.ID, TS: w.ts(), Thread: thread, User: c.app.User, App: c.app.ID, Bot: c.app.Bot, Text: c.cut(body.text),
		Blocks: body.blocks, Attachments: body.attachments, Metadata: meta,
		Unfurl: Unfurl{Links: c.truth("unfurl_links"), Media: c.truth("unfurl_media"), AppLinks: c.truth("unfurl_app_links")},
	}
	if c.yes("reply_broadcast") && thread != "" {
		m.Broadcast, m.Subtype = true, "thread_broadcast"
	}
	w.post1(ch, m)
	return map[string]any{"channel": ch.ID, "ts": m.TS, "message": w.wire(ch, m, true)}, nil
}

// post1 puts an app's message into its channel and tells everybody.
func (w *Workspace) post1(ch *channel, m *Message) {
	w.put(ch, m)
	w.noteMessage(Posted, m, Entry{})
	w.clearWords(ch.ID, m)
	w.messageEvents(ch, m)
	w.mentionEvents(ch, m)
	w.preview(ch, m)
}

// preview puts a preview under a message whose app did not say that it wants none: Slack's servers have fetched the first
// link by then. Slack: https://docs.slack.dev/messaging/unfurling-links-in-messages
func (w *Workspace) preview(ch *channel, m *Message) {
	if m.Unfurl.Links != nil && !*m.Unfurl.Links {
		return
	}
	link := regexp.MustCompile(`https?://[^\s|>)\]"]+`).FindString(m.Visible())
	if link == "" {
		return
	}
	before := *m
	m.Attachments = append(slices.Clone(m.Attachments), mustJSON(map[string]any{"id": 1, "from_url": link, "original_url": link, "title": "Preview of " + link, "fallback": link}))
	w.noteMessage(Updated, m, Entry{Method: "unfurl"})
	w.changedEvents(ch, m, &before)
}

// mine gives a message that the app may change. gone is the refusal where it is not there, other where it is not the app's.
func (w *Workspace) mine(c *call, other string) (*channel, *Message, error) {
	ch := w.channels[c.str("channel")]
	if ch == nil || ch.private() && !ch.has(c.app.User) {
		return nil, nil, fail("channel_not_found")
	}
	m := ch.byTS[c.str("ts")]
	switch {
	case m == nil, m.To != "":
		return nil, nil, fail("message_not_found")
	case m.App != c.app.ID:
		return nil, nil, fail(other)
	}
	w.expire(ch)
	return ch, m, nil
}

// updateMessage is chat.update. Slack: https://docs.slack.dev/reference/methods/chat.update
func (w *Workspace) updateMessage(c *call) (map[string]any, error) {
	ch, m, err := w.mine(c, "cant_update_message")
	if err != nil {
		return nil, err
	}
	if m.Streaming {
		return nil, fail("streaming_state_conflict")
	}
	if utf8.RuneCountInString(c.str("text")) > mostUpdate {
		return nil, fail("msg_too_long")
	}
	body, err := w.content(c)
	if err != nil {
		return nil, err
	}
	meta, set, err := c.metadata()
	if err != nil {
		return nil, err
	}
	if body.empty() && !set && (!body.hasBlocks || m.Text == "") {
		return nil, fail("no_text")
	}
	before := *m
	if body.hasText && body.text != "" {
		m.Text = body.text
	}
	switch {
	case body.hasBlocks:
		m.Blocks = body.blocks
	case body.hasText && body.text != "":
		m.Blocks = nil // a text alone takes the blocks away
	}
	if body.attachments != nil {
		m.Attachments = body.attachments
	}
	if set {
		m.Metadata = meta
	}
	m.Edited = &Edit{User: c.app.User, TS: w.ts()}
	w.noteMessage(Updated, m, Entry{Method: "chat.update"})
	w.changedEvents(ch, m, &before)
	return map[string]any{"channel": ch.ID, "ts": m.TS, "text": m.Text, "message": w.wire(ch, m, true)}, nil
}

// deleteMessage is chat.delete. Slack: https://docs.slack.dev/reference/methods/chat.delete
func (w *Workspace) deleteMessage(c *call) (map[string]any, error) {
	ch, m, err := w.mine(c, "cant_delete_message")
	if err != nil {
		return nil, err
	}
	w.remove(ch, m, Entry{Method: "chat.delete", Person: c.app.User})
	return map[string]any{"channel": ch.ID, "ts": m.TS}, nil
}

// postEphemeral is chat.postEphemeral. Slack: https://docs.slack.dev/reference/methods/chat.postEphemeral
func (w *Workspace) postEphemeral(c *call) (map[string]any, error) {
	ch, err := w.place(c.app, c.str("channel"))
	if err != nil {
		return nil, err
	}
	if !ch.has(c.str("user")) {
		return nil, fail("user_not_in_channel")
	}
	body, err := w.content(c)
	if err != nil {
		return nil, err
	}
	if body.empty() {
		return nil, fail("no_text")
	}
	thread, err := w.thread(ch, c.str("thread_ts"))
	if err != nil {
		return nil, err
	}
	m := w.whisper(ch, c.app, c.str("user"), thread, body)
	return map[string]any{"message_ts": m.TS}, nil
}

// whisper shows a message to one person. No app gets an event, and no method reads it back.
func (w *Workspace) whisper(ch *channel, a *app, to, thread string, body content) *Message {
	m := &Message{
		Channel: ch.ID, TS: w.ts(), Thread: thread, User: a.User, App: a.ID, Bot: a.Bot, To: to,
		Text: body.text, Blocks: body.blocks, Attachments: body.attachments,
	}
	ch.messages = append(ch.messages, m)
	ch.byTS[m.TS] = m
	w.noteMessage(Whispered, m, Entry{Person: to})
	return m
}

// getPermalink is chat.getPermalink. Slack: https://docs.slack.dev/reference/methods/chat.getPermalink
func (w *Workspace) getPermalink(c *call) (map[string]any, error) {
	ch := w.channels[c.str("channel")]
	if ch == nil || ch.private() && !ch.has(c.app.User) {
		return nil, fail("channel_not_found")
	}
	m := ch.byTS[c.str("message_ts")]
	if m == nil || m.To != "" {
		return nil, fail("message_not_found")
	}
	link := fmt.Sprintf("https://%s.slack.com/archives/%s/p%s", w.o.Domain, ch.ID, strings.Replace(m.TS, ".", "", 1))
	if m.Thread != "" {
		link += "?thread_ts=" + m.Thread + "&cid=" + ch.ID
	}
	return map[string]any{"channel": ch.ID, "permalink": link}, nil
}

// reactionsAdd is reactions.add. Slack: https://docs.slack.dev/reference/methods/reactions.add
func (w *Workspace) reactionsAdd(c *call) (map[string]any, error) {
	ch := w.channels[c.str("channel")]
	if ch == nil || ch.private() && !ch.has(c.app.User) {
		return nil, fail("channel_not_found")
	}
	m := ch.byTS[c.str("timestamp")]
	if m == nil || m.To != "" {
		return nil, fail("message_not_found")
	}
	if c.str("name") == "" {
		return nil, fail("invalid_name")
	}
	if !w.react(ch, m, c.app.User, strings.Trim(c.str("name"), ":")) {
		return nil, fail("already_reacted")
	}
	return nil, nil
}
