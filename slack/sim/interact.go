package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Click is a press on a button or a choice in a menu, in a message or in a view.
type Click struct {
	From    string `json:"from"`
	Channel string `json:"channel,omitempty"`
	TS      string `json:"ts,omitempty"`
	View    string `json:"view,omitempty"` // id; instead of a message
	Action  string `json:"action"`         // action_id
	Value   string `json:"value,omitempty"`
}

// Click clicks and gives the id of the delivery, by which it is found in the log. Of several elements with the same
// action id the one with the value is clicked; in a menu the option with it.
// Slack: https://docs.slack.dev/reference/interaction-payloads/block_actions-payload
func (w *Workspace) Click(k Click) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, err := w.person(k.From)
	if err != nil {
		return "", err
	}
	if k.View != "" {
		return w.clickView(k, p)
	}
	c, m, err := w.readable(k.From, k.Channel, k.TS)
	if err != nil {
		return "", err
	}
	a := w.apps[m.App]
	if a == nil {
		return "", fmt.Errorf("click in message %s: no app posted it: %w", k.TS, errMay)
	}
	action := findAction(m.Blocks, k.Action, k.Value)
	if action == nil {
		return "", fmt.Errorf("find action %q with value %q in message %s: %w", k.Action, k.Value, k.TS, errAbsent)
	}
	action["action_ts"] = w.ts()
	body := w.interaction("block_actions", a, p)
	container := map[string]any{
		"type": "message", "message_ts": m.TS, "channel_id": c.ID, "is_ephemeral": m.To != "",
	}
	if m.Thread != "" {
		container["thread_ts"] = m.Thread
	}
	body["container"] = container
	body["channel"] = map[string]any{"id": c.ID, "name": c.wireName()}
	if m.To == "" {
		body["message"] = w.wire(c, m, true)
	}
	body["state"] = map[string]any{"values": map[string]any{}}
	body["response_url"] = w.answerURL(a, c.ID, m.TS, k.From, m.To != "")
	body["actions"] = []any{action}
	w.note(Entry{What: Clicked, Method: "block_actions", App: a.ID, Channel: c.ID, TS: m.TS, Thread: m.Thread, Person: p.ID, Body: mustJSON(action)})
	return w.interactive(a, body), nil
}

// readable gives a message that a person can see, ephemeral ones too.
func (w *Workspace) readable(from, ch, ts string) (*channel, *Message, error) {
	c, err := w.find(ch)
	if err != nil {
		return nil, nil, err
	}
	m := c.byTS[ts]
	if m == nil || m.To != "" && m.To != from {
		return nil, nil, fmt.Errorf("find message %s in %s: %w", ts, ch, errAbsent)
	}
	if !c.has(from) {
		return nil, nil, fmt.Errorf("read %s as %s, who is not in it: %w", ch, from, errMay)
	}
	return c, m, nil
}

// interaction begins a payload of an interactive request.
func (w *Workspace) interaction(kind string, a *app, p *Person) map[string]any {
	return map[string]any{
		"type": kind, "token": "verification-is-deprecated", "api_app_id": a.ID, "trigger_id": w.trigger(a, p.ID),
		"team":       map[string]any{"id": w.o.Team, "domain": w.o.Domain},
		"user":       map[string]any{"id": p.ID, "username": p.Name, "name": p.Name, "team_id": p.Team},
		"enterprise": nil, "is_enterprise_install": false,
	}
}

// interactive sends it.
func (w *Workspace) interactive(a *app, body map[string]any) string {
	return w.send(a, &delivery{kind: "interactive", body: mustJSON(body), answers: true})
}

// findAction looks for an element and gives its entry in actions, as Slack would fill it.
func findAction(blocks []json.RawMessage, id, value string) map[string]any {
	for n, raw := range blocks {
		var b map[string]any
		if json.Unmarshal(raw, &b) != nil {
			continue
		}
		block, _ := b["block_id"].(string)
		if block == "" {
			block = fmt.Sprintf("b%d", n)
		}
		elements, _ := b["elements"].([]any)
		for _, one := range append(elements, b["accessory"], b["element"]) {
			e, _ := one.(map[string]any)
			if e == nil || e["action_id"] != id {
				continue
			}
			if out := actionOf(e, value); out != nil {
				out["block_id"], out["action_id"], out["type"] = block, id, e["type"]
				return out
			}
		}
	}
	return nil
}

// actionOf gives what a click on an element says, or nil when the element has no such value.
func actionOf(e map[string]any, value string) map[string]any {
	text := func(v any) string {
		m, _ := v.(map[string]any)
		s, _ := m["value"].(string)
		return s
	}
	switch e["type"] {
	case "feedback_buttons":
		for _, side := range []string{"positive_button", "negative_button"} {
			if b, _ := e[side].(map[string]any); b != nil && text(b) == value {
				return map[string]any{"value": value, "text": b["text"]}
			}
		}
		return nil
	case "static_select", "radio_buttons", "overflow":
		options, _ := e["options"].([]any)
		for _, o := range options {
			if text(o) == value {
				return map[string]any{"selected_option": o}
			}
		}
		return nil
	case "users_select":
		return map[string]any{"selected_user": value}
	case "plain_text_input":
		return map[string]any{"value": value}
	default:
		own, _ := e["value"].(string)
		if value != "" && own != value {
			return nil
		}
		out := map[string]any{"text": e["text"]}
		if own != "" {
			out["value"] = own
		}
		return out
	}
}

// Visit is a look at an app's App Home.
type Visit struct {
	From    string `json:"from"`
	App     string `json:"app,omitempty"`     // "" is the first app
	Tab     string `json:"tab,omitempty"`     // home (also for "") | messages
	Looking string `json:"looking,omitempty"` // the channel that the person looks at beside it
}

// OpenHome opens App Home. The app gets app_home_opened, on every visit.
// Slack: https://docs.slack.dev/reference/events/app_home_opened
func (w *Workspace) OpenHome(v Visit) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, err := w.person(v.From)
	if err != nil {
		return err
	}
	a, err := w.app(v.App)
	if err != nil {
		return err
	}
	if v.Tab == "" {
		v.Tab = "home"
	}
	w.note(Entry{What: Clicked, Method: "app_home_opened", App: a.ID, Person: p.ID, Body: mustJSON(v)})
	e := map[string]any{"type": "app_home_opened", "user": p.ID, "channel": w.im(p, a).ID, "tab": v.Tab}
	if home := w.home(a, p.ID); home != nil && v.Tab == "home" {
		e["view"] = w.wireView(home)
	}
	if a.listens("app_context_changed") {
		e["context"] = w.looking(v.Looking)
	}
	w.emit(a, "app_home_opened", e, "")
	return nil
}

// looking is what app_context_changed and its likes say of what a person looks at; nothing is an empty object.
func (w *Workspace) looking(ch string) map[string]any {
	if ch == "" {
		return map[string]any{}
	}
	return map[string]any{"entities": []any{map[string]any{"type": "slack#/types/channel_id", "value": ch, "team_id": w.o.Team}}}
}

// Stop presses the stop button of a thread: streams in it end, and the app gets agent_session_stopped. The button is there
// only while the session is processing and the app listens to that event.
// Slack: https://docs.slack.dev/reference/events/agent_session_stopped
func (w *Workspace) Stop(from, ch, thread string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, p, err := w.inside(ch, from)
	if err != nil {
		return err
	}
	w.expire(c)
	s := w.session(ch, thread)
	if s == nil || !w.show(s).CanStop {
		return fmt.Errorf("stop thread %s in %s: there is no stop button: %w", thread, ch, errMay)
	}
	var halted []string
	for _, ts := range slices.Sorted(maps.Keys(c.streams)) {
		st := c.streams[ts]
		if st.open() && st.app == s.App && st.m.Thread == thread {
			st.end = "stopped_by_user"
			st.m.Streaming = false
			halted = append(halted, ts)
			w.noteMessage(Halted, st.m, Entry{Person: p.ID})
		}
	}
	w.note(Entry{What: Clicked, Method: "agent_session_stopped", App: s.App, Channel: ch, Thread: thread, Person: p.ID})
	w.emit(w.apps[s.App], "agent_session_stopped", map[string]any{
		"type": "agent_session_stopped", "channel": ch, "user": p.ID, "thread_ts": thread, "streaming_message_ts": orEmpty(halted),
	}, "")
	return nil
}

// orEmpty makes a list that is never null.
func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// Rename gives a session another title, as a person does. The app gets agent_session_title_changed.
func (w *Workspace) Rename(from, ch, thread, title string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.session(ch, thread)
	if s == nil {
		return fmt.Errorf("rename thread %s in %s: there is no session: %w", thread, ch, errAbsent)
	}
	s.Title = title
	w.noteSession(s, from)
	w.emit(w.apps[s.App], "agent_session_title_changed", map[string]any{
		"type": "agent_session_title_changed", "channel": ch, "user": from, "thread_ts": thread, "title": title,
	}, "")
	return nil
}

// Command is a slash command.
type Command struct {
	From    string `json:"from"`
	Channel string `json:"channel"`
	App     string `json:"app,omitempty"` // "" is the first app
	Command string `json:"command"`       // with its slash
	Text    string `json:"text,omitempty"`
}

// Slash writes a slash command and gives the id of the delivery. It works in channels without the bot, and not in threads.
// Slack: https://docs.slack.dev/interactivity/implementing-slash-commands
func (w *Workspace) Slash(k Command) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, p, err := w.inside(k.Channel, k.From)
	if err != nil {
		return "", err
	}
	a, err := w.app(k.App)
	if err != nil {
		return "", err
	}
	fields := map[string]any{
		"token": "verification-is-deprecated", "team_id": w.o.Team, "team_domain": w.o.Domain, "channel_id": c.ID,
		"channel_name": c.wireName(), "user_id": p.ID, "user_name": p.Name, "command": k.Command, "text": k.Text,
		"api_app_id": a.ID, "is_enterprise_install": "false", "response_url": w.answerURL(a, c.ID, "", p.ID, true),
		"trigger_id": w.trigger(a, p.ID),
	}
	w.note(Entry{What: Clicked, Method: "slash_command", App: a.ID, Channel: c.ID, Person: p.ID, Body: mustJSON(k)})
	return w.send(a, &delivery{kind: "slash_commands", body: mustJSON(fields), answers: true, channel: c.ID, person: p.ID}), nil
}

// Shortcut is a shortcut: on a message, or a global one where Channel is "".
type Shortcut struct {
	From     string `json:"from"`
	App      string `json:"app,omitempty"` // "" is the first app
	Callback string `json:"callback"`
	Channel  string `json:"channel,omitempty"`
	TS       string `json:"ts,omitempty"`
}

// Shortcut uses a shortcut and gives the id of the delivery.
// Slack: https://docs.slack.dev/reference/interaction-payloads/shortcuts-interaction-payload
func (w *Workspace) Shortcut(k Shortcut) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, err := w.person(k.From)
	if err != nil {
		return "", err
	}
	a, err := w.app(k.App)
	if err != nil {
		return "", err
	}
	body := w.interaction("shortcut", a, p)
	if k.Channel != "" {
		c, m, err := w.readable(k.From, k.Channel, k.TS)
		if err != nil {
			return "", err
		}
		body["type"] = "message_action"
		body["channel"] = map[string]any{"id": c.ID, "name": c.wireName()}
		body["message"] = w.wire(c, m, true)
		body["message_ts"] = m.TS
		body["response_url"] = w.answerURL(a, c.ID, m.TS, p.ID, true)
	}
	body["callback_id"] = k.Callback
	body["action_ts"] = w.ts()
	w.note(Entry{What: Clicked, Method: "shortcut", App: a.ID, Channel: k.Channel, TS: k.TS, Person: p.ID, Body: mustJSON(k)})
	return w.interactive(a, body), nil
}
