package sim

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// app is an App with its sockets and what is on the way to it.
type app struct {
	App
	tickets map[string]bool // one-shot addresses of sockets that were given out
	sockets []*socket
	next    int // number of the newest socket
	most    int // sockets that were open at once
	refuse  int // sockets still to be refused
	silent  bool
	off     bool                   // Socket Mode is switched off
	pending map[string][]*delivery // by envelope id
	waiting map[*delivery]bool     // sent or about to be sent again
	lost    []*delivery            // given up
}

// sentEvent is an event that a message made, to send it again.
type sentEvent struct {
	app *app
	id  string // its event_id
	raw json.RawMessage
}

// listens says whether the app subscribed to an event.
func (a *app) listens(event string) bool { return a.Events == nil || slices.Contains(a.Events, event) }

// may says whether the app has a scope.
func (a *app) may(scope string) bool { return slices.Contains(a.Scopes, scope) }

// history is the scope for reading a kind of channel, and the name of its message events. On the wire they are all called
// message. Slack: https://docs.slack.dev/reference/events/message
func (k ChannelKind) history() (scope, event string) {
	switch k {
	case IM:
		return "im:history", "message.im"
	case MPIM:
		return "mpim:history", "message.mpim"
	case Private:
		return "groups:history", "message.groups"
	default:
		return "channels:history", "message.channels"
	}
}

// reads says whether the app gets the messages of a channel.
func (a *app) reads(c *channel) bool {
	scope, event := c.Kind.history()
	return c.has(a.User) && a.may(scope) && a.listens(event)
}

// wireType is how events name the channel's kind.
func (k ChannelKind) wireType() string {
	switch k {
	case IM:
		return "im"
	case MPIM:
		return "mpim"
	case Private:
		return "group"
	default:
		return "channel"
	}
}

// wireName is the channel's name in payloads of interactions.
func (c *channel) wireName() string {
	switch c.Kind {
	case IM:
		return "directmessage"
	case Private:
		return "privategroup"
	default:
		return c.Name
	}
}

// wire is a message as Slack gives it out. Metadata is only for those who ask for it.
// Slack: https://docs.slack.dev/reference/objects/message-object
func (w *Workspace) wire(c *channel, m *Message, metadata bool) map[string]any {
	out := map[string]any{"type": "message", "user": m.User, "text": m.Text, "ts": m.TS}
	set := func(key string, v any, ok bool) {
		if ok {
			out[key] = v
		}
	}
	p := w.people[m.User]
	if p != nil {
		out["team"] = p.Team
	}
	set("subtype", m.Subtype, m.Subtype != "")
	set("client_msg_id", m.clientID, m.clientID != "" && m.Bot == "")
	if m.Bot != "" {
		out["bot_id"] = m.Bot
		name := ""
		if p != nil {
			name = p.Name
		}
		set("app_id", m.App, m.App != "")
		out["bot_profile"] = map[string]any{"id": m.Bot, "app_id": m.App, "name": name, "team_id": w.o.Team, "deleted": false}
	}
	set("blocks", spread(m.Blocks), len(m.Blocks) > 0)
	set("attachments", m.Attachments, len(m.Attachments) > 0)
	if len(m.Files) > 0 {
		var files []any
		for _, f := range m.Files {
			files = append(files, w.wireFile(f))
		}
		out["files"], out["upload"] = files, false
	}
	set("edited", m.Edited, m.Edited != nil)
	if metadata && m.Metadata != nil {
		out["metadata"] = m.Metadata
	}
	if m.Thread != "" {
		out["thread_ts"] = m.Thread
		if root := c.byTS[m.Thread]; root != nil {
			out["parent_user_id"] = root.User
		}
	} else if replies := c.threads[m.TS]; len(replies) > 0 {
		out["thread_ts"] = m.TS
		out["reply_count"] = len(replies)
		out["latest_reply"] = replies[len(replies)-1].TS
		var users []string
		for _, r := range replies {
			if !slices.Contains(users, r.User) {
				users = append(users, r.User)
			}
		}
		out["reply_users"], out["reply_users_count"] = users, len(users)
	}
	if len(m.Reactions) > 0 {
		var rs []any
		for _, r := range m.Reactions {
			rs = append(rs, map[string]any{"name": r.Name, "users": r.Users, "count": len(r.Users)})
		}
		out["reactions"] = rs
	}
	return out
}

// saidEvents tells the apps of a person's message: two events with different ids where it mentions an app that also reads
// the channel, in no fixed order, as reported.
func (w *Workspace) saidEvents(c *channel, m *Message, looking string) {
	mention := func() { w.mentionEvents(c, m) }
	message := func() { w.messageEventsWith(c, m, looking) }
	first := w.mentions
	if first == AnyOrder {
		first = []Order{MentionFirst, MessageFirst}[w.random()%2]
	}
	if first == MentionFirst {
		mention()
		message()
		return
	}
	message()
	mention()
}

// event is what events about a message have in common.
func (w *Workspace) event(c *channel, m *Message) map[string]any {
	e := w.wire(c, m, true)
	e["channel"], e["event_ts"] = c.ID, m.TS
	// What only later readers see.
	for _, key := range []string{"reply_count", "latest_reply", "reply_users", "reply_users_count"} {
		delete(e, key)
	}
	if m.Thread == "" {
		delete(e, "thread_ts")
	}
	if p := w.people[m.User]; p != nil && c.Kind == Shared {
		// In shared channels the sender's team is told. Slack: https://docs.slack.dev/apis/slack-connect
		e["user_team"], e["source_team"] = p.Team, p.Team
		if p.Team != w.o.Team {
			e["user_profile"] = map[string]any{"name": p.Name, "display_name": p.Name, "real_name": p.Name, "team": p.Team, "is_restricted": false, "is_ultra_restricted": false}
		}
	}
	return e
}

func (w *Workspace) messageEvents(c *channel, m *Message) { w.messageEventsWith(c, m, "") }

// messageEventsWith tells the apps that read the channel, its author's own app too. Slack: https://docs.slack.dev/reference/events/message
func (w *Workspace) messageEventsWith(c *channel, m *Message, looking string) {
	for _, a := range w.each("") {
		if !a.reads(c) {
			continue
		}
		e := w.event(c, m)
		e["channel_type"] = c.Kind.wireType()
		if c.Kind == IM && a.listens("app_context_changed") && a.ID == c.App && m.App == "" {
			e["app_context"] = w.looking(looking) // Slack: https://docs.slack.dev/reference/events/app_context_changed
		}
		w.emit(a, "message", e, c.ID+"/"+m.TS)
	}
}

// mentionEvents tells the apps that a message mentions: only in channels that their bot is in, never in DMs and never of
// what they posted themselves. Slack looks for the mention in the text, whatever stands around it, as reported.
// Slack: https://docs.slack.dev/reference/events/app_mention
func (w *Workspace) mentionEvents(c *channel, m *Message) {
	if c.Kind == IM {
		return
	}
	for _, a := range w.each("") {
		if !strings.Contains(m.Text, "<@"+a.User+">") && !strings.Contains(m.Text, "<@"+a.User+"|") {
			continue
		}
		if m.App == a.ID || !c.has(a.User) || !a.may("app_mentions:read") || !a.listens("app_mention") {
			continue
		}
		e := w.event(c, m)
		e["type"] = "app_mention"
		if m.Edited != nil {
			e["event_ts"] = m.Edited.TS
		}
		w.emit(a, "app_mention", e, c.ID+"/"+m.TS)
	}
}

// changedEvents tells of a change to a message: an edit, a preview, a bot's update, its own too, as reported.
func (w *Workspace) changedEvents(c *channel, m, before *Message) {
	w.tellMessage(c, map[string]any{
		"type": "message", "subtype": "message_changed", "hidden": true,
		"message": w.wire(c, m, true), "previous_message": w.wire(c, before, true),
	}, m.TS)
}

// tellMessage sends an event about a message to the apps that read its channel.
func (w *Workspace) tellMessage(c *channel, e map[string]any, ts string) {
	now := w.ts()
	for _, a := range w.each("") {
		if a.reads(c) {
			e := maps.Clone(e)
			e["channel"], e["channel_type"], e["ts"], e["event_ts"] = c.ID, c.Kind.wireType(), now, now
			w.emit(a, "message", e, c.ID+"/"+ts)
		}
	}
}

// tell sends an event about a channel to the apps that are in it.
func (w *Workspace) tell(c *channel, name string, e map[string]any) {
	for _, a := range w.each("") {
		if c.has(a.User) {
			w.emit(a, name, maps.Clone(e), "")
		}
	}
}

// emit sends an event to an app that listens to it. about is the channel and the ts of the message that made it, or "".
// Slack: https://docs.slack.dev/apis/events-api
func (w *Workspace) emit(a *app, name string, e map[string]any, about string) {
	if a == nil || name != "message" && !a.listens(name) {
		return
	}
	if e["event_ts"] == nil {
		e["event_ts"] = w.ts()
	}
	ch, _ := e["channel"].(string)
	c := w.channels[ch]
	body := map[string]any{
		"token": "verification-is-deprecated", "team_id": w.o.Team, "context_team_id": w.o.Team, "context_enterprise_id": nil,
		"api_app_id": a.ID, "event": e, "type": "event_callback", "event_id": w.id("Ev"), "event_time": w.o.Now().Unix(),
		"authorizations":        []any{map[string]any{"enterprise_id": nil, "team_id": w.o.Team, "user_id": a.User, "is_bot": true, "is_enterprise_install": false}},
		"is_ext_shared_channel": c != nil && c.Kind == Shared,
		"event_context":         "4-" + base64.RawURLEncoding.EncodeToString([]byte(w.uuid())),
	}
	id, _ := body["event_id"].(string)
	s := sentEvent{a, id, mustJSON(body)}
	if about != "" {
		w.keepSent(about, s)
	}
	w.send(a, &delivery{kind: "events_api", body: s.raw, event: s.id})
	for range w.repeat.Times {
		w.again(s, w.repeat)
	}
}

// keepSent keeps an event so that it can be sent again; where the log is bounded, only those of as many messages.
func (w *Workspace) keepSent(about string, s sentEvent) {
	if w.sent[about] == nil {
		w.sentOf = append(w.sentOf, about)
	}
	w.sent[about] = append(w.sent[about], s)
	if k := w.o.Keep; k > 0 && len(w.sentOf) > k {
		delete(w.sent, w.sentOf[0])
		w.sentOf = w.sentOf[1:]
	}
}

// Emit sends an app ("" is the first) any event, for instance one that this workspace has no other way to make. It is sent
// whatever the app listens to.
func (w *Workspace) Emit(appID string, event json.RawMessage) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, err := w.app(appID)
	if err != nil {
		return err
	}
	var e map[string]any
	if err := json.Unmarshal(event, &e); err != nil {
		return err
	}
	w.emit(a, "message", e, "")
	return nil
}
