package sim

import (
	"context"
	"encoding/json"
	"time"
)

// What says what an entry of the log is about.
type What string

// The kinds of entries. An entry whose kind is about a message holds the message as it stands after the change.
const (
	Sent       What = "sent"       // an event, a click or a command went out to an app; Attempt counts from 0
	Acked      What = "acked"      // it was acknowledged; Body is what the answer carried
	Missed     What = "missed"     // a try to deliver it failed; Error says why
	GivenUp    What = "given_up"   // and there will be no other
	Ignored    What = "ignored"    // a frame from an app that Slack would not look at; Error says why
	Opened     What = "opened"     // a socket
	Closed     What = "closed"     // a socket; Error says why
	Called     What = "called"     // a method of the Web API was called, and went well
	Refused    What = "refused"    // a method of the Web API was called and refused; Error is Slack's name for it
	Broken     What = "broken"     // a fault that was asked for struck a call; Error says which
	Said       What = "said"       // a person's message
	Posted     What = "posted"     // an app's message
	Updated    What = "updated"    // a message was changed
	Removed    What = "removed"    // a message was deleted; Text is "" and Message as it last was
	Whispered  What = "whispered"  // an ephemeral message to Person
	Began      What = "began"      // a stream, with its first text
	Appended   What = "appended"   // to a stream
	Stopped    What = "stopped"    // a stream, by its app
	Halted     What = "halted"     // a stream, by a person
	Expired    What = "expired"    // a stream, by itself
	Status     What = "status"     // of a session changed
	Suggested  What = "suggested"  // prompts were set
	ViewOpened What = "view_open"  // a view was opened, pushed, updated or published; View is it
	ViewClosed What = "view_close" // by its person or its app
	Clicked    What = "clicked"    // a person did something: click, command, shortcut, submission, visit
	Joined     What = "joined"     // a person or a bot came into a channel
	Left       What = "left"       // a person or a bot is no longer in a channel
	Changed    What = "changed"    // people, channels, groups, apps, limits or faults were changed
)

// Entry is one line of the log. Empty fields do not apply.
type Entry struct {
	N        int             `json:"n"` // counts from 1
	At       time.Time       `json:"at"`
	What     What            `json:"what"`
	App      string          `json:"app,omitempty"`
	Method   string          `json:"method,omitempty"` // of the Web API, or the kind of event or of act
	Channel  string          `json:"channel,omitempty"`
	TS       string          `json:"ts,omitempty"`
	Thread   string          `json:"thread,omitempty"`
	Person   string          `json:"person,omitempty"` // who did it or whom it is for
	Text     string          `json:"text,omitempty"`   // all that people can read in the message after it
	Delivery string          `json:"delivery,omitempty"`
	Event    string          `json:"event,omitempty"` // its event_id
	Attempt  int             `json:"attempt,omitempty"`
	Socket   int             `json:"socket,omitempty"` // its number
	Error    string          `json:"error,omitempty"`
	Message  *Message        `json:"message,omitempty"`
	View     *View           `json:"view,omitempty"`
	Session  *Session        `json:"session,omitempty"`
	Body     json.RawMessage `json:"body,omitempty"` // what was sent, without tokens
}

// note writes an entry.
func (w *Workspace) note(e Entry) {
	e.N = w.dropped + len(w.entries) + 1
	e.At = w.o.Now()
	w.entries = append(w.entries, e)
	// Dropped in larger steps, so that it costs nothing per entry.
	if k := w.o.Keep; k > 0 && len(w.entries) > k+k/4+16 {
		cut := len(w.entries) - k
		w.entries = append([]Entry(nil), w.entries[cut:]...)
		w.dropped += cut
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// noteMessage writes an entry about a message as it now stands.
func (w *Workspace) noteMessage(what What, m *Message, e Entry) {
	c := *m
	e.What, e.Channel, e.TS, e.Thread, e.Message = what, m.Channel, m.TS, m.Thread, &c
	if e.App == "" {
		e.App = m.App
	}
	if e.Person == "" {
		e.Person = m.User
	}
	if what != Removed {
		e.Text = c.Visible()
	}
	w.note(e)
}

// Log gives everything that happened, oldest first.
func (w *Workspace) Log() []Entry { return w.Since(0) }

// Since gives the entries after the one with number n.
func (w *Workspace) Since(n int) []Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	out, _ := w.since(n)
	return out
}

// since also gives the channel that is closed when there is more.
func (w *Workspace) since(n int) ([]Entry, <-chan struct{}) {
	from := min(max(n-w.dropped, 0), len(w.entries))
	return append([]Entry(nil), w.entries[from:]...), w.changed
}

// Mark gives the number of the newest entry, to look or wait from there.
func (w *Workspace) Mark() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped + len(w.entries)
}

// Await gives the first entry after number from for which ok is true, and waits for it. An entry may be looked at only
// once; ok is called from the caller's goroutine, without a lock.
func (w *Workspace) Await(ctx context.Context, from int, ok func(Entry) bool) (Entry, error) {
	for {
		w.mu.Lock()
		entries, changed := w.since(from)
		w.mu.Unlock()
		for _, e := range entries {
			if ok(e) {
				return e, nil
			}
			from = e.N
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Entry{}, context.Cause(ctx)
		}
	}
}
