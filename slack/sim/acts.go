package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// errMay is wrapped where a person tries what Slack would not offer them.
var errMay = errors.New("not something that Slack lets people do")

// Say is a message that a person, or another app's bot, writes.
type Say struct {
	From    string `json:"from"`
	Channel string `json:"channel"`
	Thread  string `json:"thread,omitempty"` // ts of the first message
	// Text is in Slack's form: & < > escaped, mentions as <@U0ANA>. With Typed it is what a person types, and only <@U…>,
	// <#C…> and <!…> in it are taken as Slack's form.
	Text  string `json:"text"`
	Typed bool   `json:"typed,omitempty"`
	// Blocks are a JSON list; nil makes rich_text of the text, as Slack's own clients do.
	Blocks      json.RawMessage `json:"blocks,omitempty"`
	Attachments json.RawMessage `json:"attachments,omitempty"`
	Files       []Upload        `json:"files,omitempty"`
	Broadcast   bool            `json:"broadcast,omitempty"` // show the reply in the channel too
	Subtype     string          `json:"subtype,omitempty"`   // "" is what follows from the rest
	Looking     string          `json:"looking,omitempty"`   // in the DM with an app: the channel that the person looks at
}

// Upload is a file that comes with a message.
type Upload struct {
	Name      string `json:"name"`
	Type      string `json:"type"` // media type
	Content   []byte `json:"content"`
	Elsewhere string `json:"-"` // see File.Elsewhere
}

// Say writes a message and gives its ts. A bot need not be in the channel, a person must be.
func (w *Workspace) Say(s Say) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, p, err := w.inside(s.Channel, s.From)
	if err != nil {
		return "", err
	}
	if c.Archived {
		return "", fmt.Errorf("say something in %s: it is archived: %w", c.ID, errMay)
	}
	if s.Typed {
		s.Text = typed(s.Text)
	}
	m := &Message{
		Channel: c.ID, TS: w.ts(), Thread: s.Thread, User: p.ID, Bot: p.Bot, Subtype: s.Subtype, Text: s.Text,
		Broadcast: s.Broadcast, clientID: w.uuid(),
	}
	// A thread whose first message is gone goes on as long as it has replies.
	if root := c.byTS[s.Thread]; s.Thread != "" && root == nil && len(c.threads[s.Thread]) == 0 {
		return "", fmt.Errorf("reply to %s in %s: %w", s.Thread, c.ID, errAbsent)
	} else if root != nil && root.Thread != "" {
		m.Thread = root.Thread // clients only offer whole threads
	}
	if m.Blocks, err = list(s.Blocks); err != nil {
		return "", fmt.Errorf("say something in %s: blocks: %w", c.ID, err)
	}
	if m.Attachments, err = list(s.Attachments); err != nil {
		return "", fmt.Errorf("say something in %s: attachments: %w", c.ID, err)
	}
	if m.Blocks == nil && s.Text != "" && p.Kind != Bot {
		m.Blocks = []json.RawMessage{richText(s.Text)}
	}
	for _, u := range s.Files {
		m.Files = append(m.Files, w.addFile(u, p.ID))
	}
	switch {
	case m.Subtype != "":
	case len(m.Files) > 0:
		m.Subtype = "file_share"
	case m.Broadcast:
		m.Subtype = "thread_broadcast"
	}
	w.put(c, m)
	w.noteMessage(Said, m, Entry{})
	w.saidEvents(c, m, s.Looking)
	return m.TS, nil
}

// inside gives a channel and somebody who may write there.
func (w *Workspace) inside(ch, user string) (*channel, *Person, error) {
	c, err := w.find(ch)
	if err != nil {
		return nil, nil, err
	}
	p, err := w.person(user)
	if err != nil {
		return nil, nil, err
	}
	if p.Kind != Bot && !c.has(user) {
		return nil, nil, fmt.Errorf("write in %s as %s, who is not in it: %w", ch, user, errMay)
	}
	return c, p, nil
}

// list splits a JSON list; nothing is an empty one.
func list(raw json.RawMessage) ([]json.RawMessage, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var out []json.RawMessage
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, err
	}
	return out, nil
}

// put adds a message to its channel and counts it in its thread.
func (w *Workspace) put(c *channel, m *Message) {
	c.messages = append(c.messages, m)
	c.byTS[m.TS] = m
	if m.Thread == "" {
		return
	}
	c.threads[m.Thread] = append(c.threads[m.Thread], m)
	root := c.byTS[m.Thread]
	if root == nil {
		return
	}
	before := *root
	root.Replies++
	if w.chatty {
		w.changedEvents(c, root, &before)
	}
}

// own gives a message that a person wrote, to change it.
func (w *Workspace) own(from, ch, ts string) (*channel, *Message, error) {
	c, _, err := w.inside(ch, from)
	if err != nil {
		return nil, nil, err
	}
	m := c.byTS[ts]
	if m == nil {
		return nil, nil, fmt.Errorf("find message %s in %s: %w", ts, ch, errAbsent)
	}
	if m.User != from {
		return nil, nil, fmt.Errorf("change message %s of %s as %s: %w", ts, m.User, from, errMay)
	}
	return c, m, nil
}

// Edit changes a message of a person. Apps get message_changed; one that the new text mentions gets another app_mention
// with a new event id, and edited in it, as reported.
func (w *Workspace) Edit(from, ch, ts, text string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, m, err := w.own(from, ch, ts)
	if err != nil {
		return err
	}
	before := *m
	m.Text = text
	m.Blocks = []json.RawMessage{richText(text)}
	m.Edited = &Edit{User: from, TS: w.ts()}
	w.noteMessage(Updated, m, Entry{})
	w.changedEvents(c, m, &before)
	w.mentionEvents(c, m)
	return nil
}

// Delete removes a message of a person. Replies in its thread stay.
func (w *Workspace) Delete(from, ch, ts string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, m, err := w.own(from, ch, ts)
	if err != nil {
		return err
	}
	w.remove(c, m, Entry{Person: from})
	return nil
}

// remove takes a message away and tells the apps.
func (w *Workspace) remove(c *channel, m *Message, e Entry) {
	same := func(o *Message) bool { return o == m }
	c.messages = slices.DeleteFunc(c.messages, same)
	delete(c.byTS, m.TS)
	if s := c.streams[m.TS]; s != nil && s.open() {
		s.end = "message_not_found"
	}
	if m.Thread != "" {
		c.threads[m.Thread] = slices.DeleteFunc(c.threads[m.Thread], same)
		if root := c.byTS[m.Thread]; root != nil {
			root.Replies--
		}
	}
	m.Deleted, m.Streaming = true, false
	w.noteMessage(Removed, m, e)
	w.tellMessage(c, map[string]any{
		"type": "message", "subtype": "message_deleted", "hidden": true, "deleted_ts": m.TS,
		"previous_message": w.wire(c, m, false),
	}, m.TS)
}

// Unfurl lets Slack put a preview under a message, which apps see as message_changed without edited.
func (w *Workspace) Unfurl(ch, ts, link, title string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, err := w.find(ch)
	if err != nil {
		return err
	}
	m := c.byTS[ts]
	if m == nil {
		return fmt.Errorf("find message %s in %s: %w", ts, ch, errAbsent)
	}
	before := *m
	m.Attachments = append(slices.Clone(m.Attachments), mustJSON(map[string]any{
		"id": len(m.Attachments) + 1, "from_url": link, "original_url": link, "title": title, "title_link": link, "fallback": title,
	}))
	w.noteMessage(Updated, m, Entry{Method: "unfurl"})
	w.changedEvents(c, m, &before)
	return nil
}

// React adds an emoji to a message. Apps there get reaction_added.
func (w *Workspace) React(from, ch, ts, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, _, err := w.inside(ch, from)
	if err != nil {
		return err
	}
	m := c.byTS[ts]
	if m == nil {
		return fmt.Errorf("find message %s in %s: %w", ts, ch, errAbsent)
	}
	w.react(c, m, from, name)
	return nil
}

// react says whether the reaction is new.
func (w *Workspace) react(c *channel, m *Message, user, name string) bool {
	next := slices.Clone(m.Reactions)
	i := slices.IndexFunc(next, func(r Reaction) bool { return r.Name == name })
	switch {
	case i < 0:
		next = append(next, Reaction{Name: name, Users: []string{user}})
	case slices.Contains(next[i].Users, user):
		return false
	default:
		next[i].Users = append(slices.Clone(next[i].Users), user)
	}
	m.Reactions = next
	w.noteMessage(Updated, m, Entry{Method: "reaction", Person: user})
	w.tell(c, "reaction_added", map[string]any{
		"type": "reaction_added", "user": user, "reaction": name, "item_user": m.User,
		"item": map[string]any{"type": "message", "channel": c.ID, "ts": m.TS},
	})
	return true
}

// Messages gives what stands in a channel, replies in threads too, oldest first.
func (w *Workspace) Messages(ch string) []Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.channels[ch]
	if c == nil {
		return nil
	}
	w.expire(c)
	return copies(c.messages)
}

// Thread gives the first message of a thread, if it is still there, and the replies.
func (w *Workspace) Thread(ch, root string) []Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.channels[ch]
	if c == nil {
		return nil
	}
	w.expire(c)
	return copies(c.thread(root))
}

// thread gives a thread's messages, oldest first.
func (c *channel) thread(root string) []*Message {
	var out []*Message
	if m := c.byTS[root]; m != nil {
		out = append(out, m)
	}
	return append(out, c.threads[root]...)
}

func copies(in []*Message) []Message {
	out := make([]Message, len(in))
	for i, m := range in {
		out[i] = *m
	}
	return out
}

// Suggest says what people who have just come may try; the page shows it.
func (w *Workspace) Suggest(s []Suggestion) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hints = slices.Clone(s)
}
