package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// delivery is an event, a click or a command on its way to an app.
type delivery struct {
	app      *app
	kind     string // events_api | interactive | slash_commands
	body     json.RawMessage
	event    string // event_id
	envelope string // id of the newest try
	answers  bool   // the acknowledgement may carry a payload, and it is not sent again
	attempt  int
	reason   string // why the try before failed

	channel, person, view string // whom an answer is for

	socket *socket // of the newest try
	got    bool    // its acknowledgement came
	acked  chan json.RawMessage
	again  chan struct{} // asks for the next try at once
}

// Repeat says how often, and how, events are sent once more than they should be. Slack may do so at any time, as reported.
type Repeat struct {
	Times        int  `json:"times"`
	NewEvent     bool `json:"new_event,omitempty"`     // with another event_id
	SameEnvelope bool `json:"same_envelope,omitempty"` // with the envelope_id of the first
}

// SetRepeat makes every event from now on be sent more than once. The zero value ends it.
func (w *Workspace) SetRepeat(r Repeat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.repeat = r
}

// Resend sends all events again that a message has made so far, and says how many.
func (w *Workspace) Resend(ch, ts string, r Repeat) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for range r.Times {
		for _, s := range w.sent[ch+"/"+ts] {
			w.again(s, r)
			n++
		}
	}
	return n
}

// again sends an event once more.
func (w *Workspace) again(s sentEvent, r Repeat) {
	d := &delivery{kind: "events_api", body: s.raw, event: s.id}
	if r.NewEvent {
		var body map[string]any
		if json.Unmarshal(s.raw, &body) == nil {
			d.event = w.id("Ev")
			body["event_id"] = d.event
			d.body = mustJSON(body)
		}
	}
	if r.SameEnvelope {
		// The envelope that the event last went out with, where that is still known.
		for o := range s.app.waiting {
			if o.event == d.event {
				d.envelope = o.envelope
			}
		}
	}
	w.send(s.app, d)
}

// Unacked says how many deliveries are under way or wait to be sent again, and how many were given up.
func (w *Workspace) Unacked() (waiting, lost int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.apps {
		waiting += len(a.waiting)
		lost += len(a.lost)
	}
	return waiting, lost
}

// Redeliver sends everything now that was not acknowledged and waits to be sent again, and what was given up.
func (w *Workspace) Redeliver() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.each("") {
		for d := range a.waiting {
			select {
			case d.again <- struct{}{}:
			default: // it is asked for already
			}
		}
		lost := a.lost
		a.lost = nil
		for _, d := range lost {
			d.attempt, d.envelope = 0, ""
			w.send(a, d)
		}
	}
}

// send begins a delivery and gives its id. The first try is made at once, so that an app with one socket gets events in
// their order; Slack promises none.
func (w *Workspace) send(a *app, d *delivery) string {
	if w.closed {
		return ""
	}
	d.app = a
	d.acked, d.again = make(chan json.RawMessage, 1), make(chan struct{}, 1)
	if a.waiting == nil {
		a.waiting = map[*delivery]bool{}
	}
	a.waiting[d] = true
	if d.envelope == "" {
		d.envelope = w.uuid()
	}
	id := d.envelope
	err := w.try(d)
	w.working.Go(func() { w.carry(d, err) })
	return id
}

// try sends a delivery to one of the app's sockets; HTTP goes out in carry.
func (w *Workspace) try(d *delivery) error {
	w.note(Entry{
		What: Sent, App: d.app.ID, Method: d.kind, Event: d.event, Delivery: d.envelope, Attempt: d.attempt, Body: d.body,
		Channel: d.channel, Person: d.person,
	})
	d.socket, d.got = nil, false
	if d.app.EventsURL != "" {
		return nil
	}
	s := w.pick(d.app)
	if s == nil {
		return errors.New("the app has no socket open")
	}
	d.socket = s
	d.app.pending[d.envelope] = append(d.app.pending[d.envelope], d)
	// Slack: https://docs.slack.dev/apis/events-api/using-socket-mode
	frame := map[string]any{"envelope_id": d.envelope, "type": d.kind, "payload": d.body, "accepts_response_payload": d.answers}
	if d.kind == "events_api" {
		frame["retry_attempt"], frame["retry_reason"] = d.attempt, d.reason
	}
	s.push(mustJSON(frame))
	return nil
}

// carry sees a delivery through: its first try was made, with err.
func (w *Workspace) carry(d *delivery, err error) {
	for {
		var answer json.RawMessage
		final := d.answers // what people wait for is not sent again
		if err == nil {
			answer, final, err = w.outcome(d)
			final = final || d.answers
		}
		again, wait := w.settle(d, answer, err, final)
		if !again || !w.pause(d, wait) {
			return
		}
		w.mu.Lock()
		d.attempt++
		d.envelope = w.uuid()
		err = w.try(d)
		w.mu.Unlock()
	}
}

// outcome waits for what comes of a try. final means that the app wants no other.
func (w *Workspace) outcome(d *delivery) (answer json.RawMessage, final bool, err error) {
	if d.app.EventsURL != "" {
		return w.over(d)
	}
	t := time.NewTimer(w.o.Times.Ack)
	defer t.Stop()
	select {
	case answer = <-d.acked:
		return answer, false, nil
	default:
	}
	select {
	case answer = <-d.acked:
		return answer, false, nil
	case <-t.C:
		return nil, false, errors.New("timeout")
	case <-d.socket.gone:
		if len(d.acked) > 0 {
			return <-d.acked, false, nil // it came with the last words
		}
		return nil, false, errors.New("the socket was closed")
	case <-w.stop:
		return nil, true, errors.New("the workspace is closed")
	}
}

// settle writes down what came of a try, and says whether and when there is another.
func (w *Workspace) settle(d *delivery, answer json.RawMessage, err error, final bool) (again bool, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(d)
	e := Entry{
		What: Acked, App: d.app.ID, Method: d.kind, Event: d.event, Delivery: d.envelope, Attempt: d.attempt, Body: answer,
		Channel: d.channel, Person: d.person,
	}
	if d.socket != nil {
		e.Socket = d.socket.n
	}
	if err == nil {
		delete(d.app.waiting, d)
		w.note(e)
		if d.answers {
			w.acted(d, answer)
		}
		return false, 0
	}
	e.What, e.Error = Missed, err.Error()
	w.note(e)
	d.reason = "timeout"
	if h, ok := errors.AsType[*deliveryError](err); ok {
		d.reason = h.reason
	}
	if !final && d.attempt < len(w.o.Times.Retry) {
		return true, w.o.Times.Retry[d.attempt]
	}
	delete(d.app.waiting, d)
	if !d.answers {
		d.app.lost = append(d.app.lost, d)
	}
	e.What, e.Error = GivenUp, fmt.Sprintf("after %d tries: %v", d.attempt+1, err)
	w.note(e)
	return false, 0
}

// forget makes acknowledgements of the newest try come too late.
func (w *Workspace) forget(d *delivery) {
	same := d.app.pending[d.envelope]
	for i, o := range same {
		if o == d {
			same = append(same[:i:i], same[i+1:]...)
			break
		}
	}
	if len(same) == 0 {
		delete(d.app.pending, d.envelope)
		return
	}
	d.app.pending[d.envelope] = same
}

// pause waits for the next try, and says whether there is one.
func (w *Workspace) pause(d *delivery, wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-d.again:
		return true
	case <-w.stop:
		return false
	}
}

// ack takes an acknowledgement that came over a socket. Only the socket that an envelope went to can acknowledge it; what
// Slack does with others is not known.
func (w *Workspace) ack(s *socket, envelope string, payload json.RawMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range s.app.pending[envelope] {
		if d.socket == s && !d.got {
			d.got = true
			if !d.answers {
				payload = nil // Slack looks at it only where accepts_response_payload was true
			}
			d.acked <- payload
			return
		}
	}
	w.note(Entry{What: Ignored, App: s.app.ID, Socket: s.n, Delivery: envelope, Error: "no such envelope waits on this socket"})
}
