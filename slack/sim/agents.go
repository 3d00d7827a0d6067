package sim

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// session is a Session at work.
type session struct {
	Session
	since time.Time // in its state
	told  time.Time // when its words were set
}

const (
	mostTitle   = 200 // Slack: https://docs.slack.dev/reference/methods/agents.sessions.rename
	mostLoading = 10  // Slack: https://docs.slack.dev/reference/methods/assistant.threads.setStatus
	mostPrompts = 4   // as the manifest's; Slack: https://docs.slack.dev/reference/app-manifest
	processing  = "processing"
)

func sessionStates() []string { return []string{"active", processing, "suspended", "closed"} }

// session gives the session of a thread, or nil.
func (w *Workspace) session(ch, thread string) *session { return w.sessions[ch+"/"+thread] }

// show is a session as people see it now: words vanish after two minutes, and processing ends after an hour.
func (w *Workspace) show(s *session) Session {
	now := w.o.Now()
	if s.Words != "" && now.Sub(s.told) >= w.o.Times.Status {
		s.Words, s.Loading = "", nil
	}
	if s.State == processing && now.Sub(s.since) >= w.o.Times.Session {
		s.State, s.since = "active", now
	}
	a := w.apps[s.App]
	s.CanStop = s.State == processing && a != nil && a.AgentView && a.listens("agent_session_stopped")
	return s.Session
}

// noteSession writes down how a session now looks.
func (w *Workspace) noteSession(s *session, by string) {
	now := w.show(s)
	now.Loading = slices.Clone(now.Loading)
	w.note(Entry{What: Status, App: s.App, Channel: s.Channel, Thread: s.Thread, Person: by, Text: now.Words, Session: &now})
}

// SessionOf gives the session of a thread; ok is false where there is none.
func (w *Workspace) SessionOf(ch, thread string) (s Session, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.session(ch, thread)
	if at == nil {
		return Session{}, false
	}
	return w.show(at), true
}

// StatusOf gives the words that an app shows under a thread, or "".
func (w *Workspace) StatusOf(ch, thread string) string {
	s, _ := w.SessionOf(ch, thread)
	return s.Words
}

// PromptsOf gives what an app suggests in a conversation; thread may be "".
func (w *Workspace) PromptsOf(ch, thread string) Prompts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.prompts[ch+"/"+thread]
}

// beginSession finds or makes a session and puts it into a state.
func (w *Workspace) beginSession(a *app, ch, thread, state, title string) *session {
	s := w.session(ch, thread)
	if s == nil {
		s = &session{Session: Session{App: a.ID, Channel: ch, Thread: thread, Title: title}}
		w.sessions[ch+"/"+thread] = s
	}
	w.setSession(s, state, a.User)
	return s
}

func (w *Workspace) setSession(s *session, state, by string) {
	s.State, s.since = state, w.o.Now()
	if state != processing {
		s.Words, s.Loading = "", nil
	}
	w.noteSession(s, by)
}

// clearWords takes an app's words away when it posts. Slack: https://docs.slack.dev/reference/methods/assistant.threads.setStatus
func (w *Workspace) clearWords(ch string, m *Message) {
	s := w.session(ch, m.Thread)
	if s == nil || s.App != m.App || s.Words == "" {
		return
	}
	s.Words, s.Loading = "", nil
	w.noteSession(s, m.User)
}

// threadOf finds the channel and the thread that a call about a session names.
func (w *Workspace) threadOf(c *call) (*channel, string, error) {
	ch := w.channels[c.str("channel_id")]
	switch {
	case ch == nil, ch.Kind == IM && ch.App != c.app.ID, ch.private() && !ch.has(c.app.User):
		return nil, "", fail("channel_not_found")
	case !ch.has(c.app.User):
		return nil, "", fail("not_in_channel")
	}
	ts := c.str("thread_ts")
	if m := ch.byTS[ts]; m == nil || m.Thread != "" {
		return nil, "", fail("invalid_thread_ts")
	}
	return ch, ts, nil
}

// sessionStatus is agents.sessions.setStatus. Slack: https://docs.slack.dev/reference/methods/agents.sessions.setStatus
func (w *Workspace) sessionStatus(c *call) (map[string]any, error) {
	if !c.app.AgentView {
		return nil, fail("not_allowed", "[ERROR] the app is no agent") // the name is a guess
	}
	if !slices.Contains(sessionStates(), c.str("status")) {
		return nil, fail("invalid_arguments", "[ERROR] status")
	}
	if utf8.RuneCountInString(c.str("title")) > mostTitle {
		return nil, fail("invalid_arguments", "[ERROR] title")
	}
	ch, thread, err := w.threadOf(c)
	if err != nil {
		return nil, err
	}
	s := w.beginSession(c.app, ch.ID, thread, c.str("status"), c.str("title"))
	if s.State == processing && !c.app.listens("agent_session_stopped") {
		c.warn = append(c.warn, "missing_agent_session_stopped_event_subscription")
	}
	return map[string]any{"status": s.State, "agent_status": s.State, "title": s.Title}, nil
}

// sessionRename is agents.sessions.rename. Slack: https://docs.slack.dev/reference/methods/agents.sessions.rename
func (w *Workspace) sessionRename(c *call) (map[string]any, error) {
	title := c.str("title")
	if n := utf8.RuneCountInString(title); n < 1 || n > mostTitle {
		return nil, fail("invalid_arguments", "[ERROR] title")
	}
	ch, thread, err := w.threadOf(c)
	if err != nil {
		return nil, err
	}
	s := w.session(ch.ID, thread)
	if s == nil {
		return nil, fail("session_not_found") // the name is a guess
	}
	s.Title = title
	w.noteSession(s, c.app.User)
	return map[string]any{"title": title}, nil
}

// threadStatus is assistant.threads.setStatus, which works in DMs and in channels' threads.
// Slack: https://docs.slack.dev/reference/methods/assistant.threads.setStatus
func (w *Workspace) threadStatus(c *call) (map[string]any, error) {
	ch, thread, err := w.threadOf(c)
	if err != nil {
		return nil, err
	}
	if !c.has("status") {
		return nil, fail("invalid_arguments", "[ERROR] missing required field: status")
	}
	loading := c.texts("loading_messages")
	if len(loading) > mostLoading {
		return nil, fail("invalid_arguments", "[ERROR] no more than 10 loading_messages")
	}
	state := "active"
	if c.str("status") != "" {
		state = processing
	}
	s := w.session(ch.ID, thread)
	if s == nil {
		s = &session{Session: Session{App: c.app.ID, Channel: ch.ID, Thread: thread}}
		w.sessions[ch.ID+"/"+thread] = s
	}
	s.Words, s.Loading, s.told = c.str("status"), loading, w.o.Now()
	w.setSession(s, state, c.app.User)
	return nil, nil
}

// texts reads a list of texts: as JSON, as clients in Go send it with commas, or one alone.
func (c *call) texts(name string) []string {
	raw, err := c.raw(name)
	var out []string
	if err == nil && json.Unmarshal(raw, &out) == nil {
		return out
	}
	if s := c.str(name); s != "" {
		return strings.Split(s, ",")
	}
	return nil
}

// threadTitle is assistant.threads.setTitle. Slack: https://docs.slack.dev/reference/methods/assistant.threads.setTitle
func (w *Workspace) threadTitle(c *call) (map[string]any, error) {
	ch, thread, err := w.threadOf(c)
	if err != nil {
		return nil, err
	}
	s := w.session(ch.ID, thread)
	if s == nil {
		s = w.beginSession(c.app, ch.ID, thread, "active", "")
	}
	s.Title = c.str("title")
	w.noteSession(s, c.app.User)
	return nil, nil
}

// threadPrompts is assistant.threads.setSuggestedPrompts.
// Slack: https://docs.slack.dev/reference/methods/assistant.threads.setSuggestedPrompts
func (w *Workspace) threadPrompts(c *call) (map[string]any, error) {
	ch := w.channels[c.str("channel_id")]
	if ch == nil || ch.App != c.app.ID {
		return nil, fail("channel_not_found")
	}
	thread := c.str("thread_ts")
	if thread == "" && !c.app.AgentView || thread != "" && ch.byTS[thread] == nil {
		return nil, fail("invalid_thread_ts")
	}
	raw, err := c.raw("prompts")
	if err != nil {
		return nil, err
	}
	p := Prompts{Title: c.str("title")}
	if json.Unmarshal(raw, &p.Prompts) != nil || len(p.Prompts) == 0 || len(p.Prompts) > mostPrompts {
		return nil, fail("invalid_arguments", "[ERROR] prompts")
	}
	for _, one := range p.Prompts {
		if one.Title == "" || one.Message == "" {
			return nil, fail("invalid_arguments", "[ERROR] prompts: title and message are needed")
		}
	}
	w.prompts[ch.ID+"/"+thread] = p
	w.note(Entry{What: Suggested, App: c.app.ID, Channel: ch.ID, Thread: thread, Body: mustJSON(p)})
	return nil, nil
}
