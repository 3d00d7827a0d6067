package sim

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// mostStream is what one streamed message holds, in characters of text and bytes of cards, as reported: about 12,000. Once
// it is full it takes nothing more, not even its end.
const mostStream = 12000

// The content modes of a stream; the first payload fixes it, as reported.
const (
	textMode   = "text"
	chunksMode = "chunks"
)

// stream is a message that its app still writes. Slack: https://docs.slack.dev/reference/methods/chat.startStream
type stream struct {
	app   string
	m     *Message
	mode  string
	plan  bool // task_display_mode plan: all tasks in one block
	title string
	began time.Time
	end   string // the refusal that appending gets now; "" while it goes on
	full  bool
	size  int
	parts []*part
}

// part is a piece of a stream, in the order in which the pieces first came.
type part struct {
	text  string
	task  map[string]any
	block map[string]any
}

func (s *stream) open() bool { return s.end == "" }

const streamOver = "message_not_in_streaming_state"

// expire ends the streams of a channel that are older than Slack lets them get: about five minutes, as reported.
func (w *Workspace) expire(c *channel) {
	now := w.o.Now()
	for _, s := range c.streams {
		if s.open() && now.Sub(s.began) >= w.o.Times.Stream {
			s.end = streamOver
			s.m.Streaming = false
			w.noteMessage(Expired, s.m, Entry{})
		}
	}
}

// payload is what a call adds to a stream.
type payload struct {
	mode   string // "" is nothing
	chunks []map[string]any
}

// payload reads markdown_text or chunks.
func (w *Workspace) payload(c *call) (payload, error) {
	text := c.str("markdown_text")
	raw, err := c.raw("chunks")
	if err != nil {
		return payload{}, fail("invalid_chunks")
	}
	if text != "" && raw != nil {
		return payload{}, fail("cannot_provide_both_markdown_text_and_chunks")
	}
	if text != "" {
		if utf8.RuneCountInString(text) > mostMarkdown {
			return payload{}, fail("msg_too_long")
		}
		return payload{textMode, []map[string]any{{"type": "markdown_text", "text": text}}}, nil
	}
	if raw == nil {
		return payload{}, nil
	}
	var chunks []map[string]any
	if json.Unmarshal(raw, &chunks) != nil {
		return payload{}, fail("invalid_chunks")
	}
	if len(chunks) == 0 {
		return payload{}, nil
	}
	for _, k := range chunks {
		if err := w.checkChunk(c, k); err != nil {
			return payload{}, err
		}
	}
	return payload{chunksMode, chunks}, nil
}

// checkChunk looks at one chunk. Slack: https://docs.slack.dev/reference/methods/chat.appendStream
func (w *Workspace) checkChunk(c *call, k map[string]any) error {
	text := func(key string) string { s, _ := k[key].(string); return s }
	switch k["type"] {
	case "markdown_text":
		if text("text") == "" {
			return fail("invalid_chunks", "[ERROR] markdown_text: text is missing")
		}
		if utf8.RuneCountInString(text("text")) > mostMarkdown {
			return fail("msg_too_long")
		}
	case "task_update":
		if text("id") == "" || text("title") == "" || utf8.RuneCountInString(text("title")) > mostCard || !taskState(k["status"]) {
			return fail("invalid_chunks", "[ERROR] task_update: id, title or status")
		}
		for _, key := range []string{"details", "output"} {
			if _, ok := k[key].(string); k[key] != nil && !ok {
				return fail("invalid_chunks", "[ERROR] task_update: "+key+" must be a text")
			}
		}
	case "plan_update":
		if text("title") == "" || utf8.RuneCountInString(text("title")) > mostCard {
			return fail("invalid_chunks", "[ERROR] plan_update: title")
		}
	case "blocks":
		raw, err := list(mustJSON(k["blocks"]))
		if err != nil {
			return fail("invalid_chunks")
		}
		if len(raw) > mostBlocks {
			raw = raw[:mostBlocks]
			c.warn = append(c.warn, "blocks_truncated")
		}
		if raw, err = w.checkBlocks(mustJSON(raw), false); err != nil {
			return err
		}
		k["blocks"] = raw
	default:
		return fail("invalid_chunks", "[ERROR] unknown type of chunk")
	}
	return nil
}

// add appends a payload, or refuses it.
func (s *stream) add(p payload) error {
	switch {
	case s.end != "":
		return fail(s.end)
	case s.full:
		return fail("msg_too_long")
	case p.mode == "":
		return nil
	case s.mode != "" && s.mode != p.mode:
		return fail("streaming_mode_mismatch")
	}
	grows := 0
	for _, k := range p.chunks {
		grows += weight(k)
	}
	if s.size+grows > mostStream {
		s.full = true
		return fail("msg_too_long")
	}
	s.mode = p.mode
	s.size += grows
	for _, k := range p.chunks {
		s.chunk(k)
	}
	s.m.Blocks = s.blocks()
	s.m.Text = s.text()
	return nil
}

// weight is what a chunk adds to the size, as reported: text in characters, cards in bytes with the details twice.
func weight(k map[string]any) int {
	text := func(key string) string { s, _ := k[key].(string); return s }
	if k["type"] == "task_update" {
		return len(text("title")) + 2*len(text("details")) + len(text("output"))
	}
	return utf8.RuneCountInString(text("text"))
}

func (s *stream) chunk(k map[string]any) {
	switch k["type"] {
	case "markdown_text":
		text, _ := k["text"].(string)
		if n := len(s.parts); n > 0 && s.parts[n-1].task == nil && s.parts[n-1].block == nil {
			s.parts[n-1].text += text
			return
		}
		s.parts = append(s.parts, &part{text: text})
	case "task_update":
		card := taskCard(k)
		for _, p := range s.parts {
			if p.task != nil && p.task["task_id"] == k["id"] {
				maps.Copy(p.task, card)
				return
			}
		}
		s.parts = append(s.parts, &part{task: card})
	case "plan_update":
		s.title, _ = k["title"].(string)
		s.m.Plan = s.title
	case "blocks":
		raw, _ := k["blocks"].([]json.RawMessage)
		for _, r := range raw {
			var b map[string]any
			if json.Unmarshal(r, &b) == nil {
				s.parts = append(s.parts, &part{block: b})
			}
		}
	}
}

// taskCard makes the block of a task_update. Its texts are Markdown there and rich text here.
// Slack: https://docs.slack.dev/reference/block-kit/blocks/task-card-block
func taskCard(k map[string]any) map[string]any {
	out := map[string]any{"type": "task_card", "task_id": k["id"], "title": k["title"]}
	if out["status"] = k["status"]; k["status"] == nil {
		out["status"] = "pending"
	}
	for _, key := range []string{"details", "output"} {
		if s, ok := k[key].(string); ok && s != "" {
			out[key] = map[string]any{"type": "rich_text", "elements": []any{
				map[string]any{"type": "rich_text_section", "elements": []any{map[string]any{"type": "text", "text": s}}},
			}}
		}
	}
	for _, key := range []string{"sources", "icon", "hide_title"} {
		if k[key] != nil {
			out[key] = k[key]
		}
	}
	return out
}

// blocks draws the stream as it now stands.
func (s *stream) blocks() []json.RawMessage {
	var out []json.RawMessage
	var tasks []any
	at := -1
	for _, p := range s.parts {
		switch {
		case p.task != nil && s.plan:
			if at < 0 {
				at = len(out)
				out = append(out, nil)
			}
			tasks = append(tasks, p.task)
		case p.task != nil:
			out = append(out, mustJSON(p.task))
		case p.block != nil:
			out = append(out, mustJSON(p.block))
		default:
			out = append(out, mustJSON(map[string]any{"type": "markdown", "text": p.text}))
		}
	}
	if at >= 0 {
		title := s.title
		if title == "" {
			title = "Plan"
		}
		out[at] = mustJSON(map[string]any{"type": "plan", "title": title, "tasks": tasks})
	}
	return out
}

// text is the stream's text without its cards.
func (s *stream) text() string {
	var b strings.Builder
	for _, p := range s.parts {
		b.WriteString(p.text)
	}
	return b.String()
}

// startStream is chat.startStream. Slack: https://docs.slack.dev/reference/methods/chat.startStream
func (w *Workspace) startStream(c *call) (map[string]any, error) {
	ch, err := w.place(c.app, c.str("channel"))
	if err != nil {
		return nil, err
	}
	thread, err := w.thread(ch, c.str("thread_ts"))
	switch {
	case err != nil:
		return nil, err
	case thread == "": // missing, or its first message is gone
		return nil, fail("invalid_thread_ts")
	case ch.Kind != IM && c.str("recipient_user_id") == "":
		return nil, fail("missing_recipient_user_id")
	case ch.Kind != IM && c.str("recipient_team_id") == "":
		return nil, fail("missing_recipient_team_id")
	}
	switch c.str("task_display_mode") {
	case "", "timeline", "plan":
	default:
		return nil, fail("invalid_arguments", "[ERROR] task_display_mode")
	}
	p, err := w.payload(c)
	if err != nil {
		return nil, err
	}
	never := false
	m := &Message{
		Channel: ch.ID, TS: w.ts(), Thread: thread, User: c.app.User, App: c.app.ID, Bot: c.app.Bot, Streaming: true,
		Unfurl: Unfurl{Links: &never, Media: &never, AppLinks: &never}, // streamed messages are not unfurled
	}
	s := &stream{app: c.app.ID, m: m, plan: c.str("task_display_mode") == "plan", began: w.o.Now()}
	if err := s.add(p); err != nil {
		return nil, err
	}
	w.put(ch, m)
	ch.streams[m.TS] = s
	w.noteMessage(Began, m, Entry{})
	w.clearWords(ch.ID, m)
	w.beginSession(c.app, ch.ID, thread, "processing", "")
	w.messageEvents(ch, m)
	return map[string]any{"channel": ch.ID, "ts": m.TS}, nil
}

// streaming finds the stream that a call is about.
func (w *Workspace) streaming(c *call) (*channel, *stream, error) {
	ch := w.channels[c.str("channel")]
	if ch == nil || ch.private() && !ch.has(c.app.User) {
		return nil, nil, fail("channel_not_found")
	}
	w.expire(ch)
	m, s := ch.byTS[c.str("ts")], ch.streams[c.str("ts")]
	switch {
	case m == nil:
		return nil, nil, fail("message_not_found")
	case m.App != c.app.ID:
		return nil, nil, fail("message_not_owned_by_app")
	case s == nil:
		return nil, nil, fail(streamOver)
	}
	return ch, s, nil
}

// appendStream is chat.appendStream. Slack: https://docs.slack.dev/reference/methods/chat.appendStream
func (w *Workspace) appendStream(c *call) (map[string]any, error) {
	ch, s, err := w.streaming(c)
	if err != nil {
		return nil, err
	}
	p, err := w.payload(c)
	if err != nil {
		return nil, err
	}
	if p.mode == "" && s.open() {
		return nil, fail("no_text")
	}
	if err := s.add(p); err != nil {
		return nil, err
	}
	w.noteMessage(Appended, s.m, Entry{Body: mustJSON(p.chunks)})
	return map[string]any{"channel": ch.ID, "ts": s.m.TS}, nil
}

// stopStream is chat.stopStream. Slack: https://docs.slack.dev/reference/methods/chat.stopStream
func (w *Workspace) stopStream(c *call) (map[string]any, error) {
	ch, s, err := w.streaming(c)
	if err != nil {
		return nil, err
	}
	p, err := w.payload(c)
	if err != nil {
		return nil, err
	}
	raw, err := c.raw("blocks")
	if err != nil {
		return nil, fail("invalid_blocks_format")
	}
	blocks, err := w.checkBlocks(raw, false)
	if err != nil {
		return nil, err
	}
	meta, set, err := c.metadata()
	if err != nil {
		return nil, err
	}
	state := c.str("session_status")
	if state == "" {
		state = "active"
	}
	if !slices.Contains(sessionStates(), state) {
		return nil, fail("invalid_arguments", "[ERROR] session_status")
	}
	if s.open() && p.mode == "" && len(blocks) == 0 && len(s.parts) == 0 {
		return nil, fail("no_text")
	}
	before := *s.m
	if err := s.add(p); err != nil {
		return nil, err
	}
	s.m.Blocks = append(slices.Clone(s.m.Blocks), blocks...)
	if set {
		s.m.Metadata = meta
	}
	s.end, s.m.Streaming = streamOver, false
	w.noteMessage(Stopped, s.m, Entry{})
	if sess := w.sessions[ch.ID+"/"+s.m.Thread]; sess != nil {
		w.setSession(sess, state, c.app.User)
	}
	w.changedEvents(ch, s.m, &before)
	return map[string]any{"channel": ch.ID, "ts": s.m.TS, "message": w.wire(ch, s.m, true)}, nil
}
