package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// Socket Mode, by a client of our own. The library's closes a socket before it has opened the next one, hides why Slack
// closes it, redials without a pause while Slack sends it away, and acknowledges on whichever socket is there.
// Slack: https://docs.slack.dev/apis/events-api/using-socket-mode
const (
	quiet      = 30 * time.Second // Slack pings more often; a socket that is silent for longer is dead
	helloTime  = 30 * time.Second
	writeTime  = 5 * time.Second
	partTime   = time.Second      // for the other side's goodbye
	oldTime    = 15 * time.Second // how long a replaced socket is read on; Slack closes it some 10 s after its warning
	sound      = 10 * time.Second // a connection that lasted so long was a good one, and its successor may come at once
	firstPause = time.Second
	mostPause  = 2 * time.Minute
	crowdPause = 30 * time.Second // at least, after too_many_websockets: redialling at once prolongs it
	crowdMost  = 10 * time.Minute
	biggestAck = 20_000 // bytes; Slack silently ignores frames of 20,480 and more, as measured by slack-go
	biggestIn  = 16 << 20

	crowded = "too_many_websockets"
)

// frame is anything that comes over the socket.
type frame struct {
	Type           string          `json:"type"`
	Reason         string          `json:"reason"`
	EnvelopeID     string          `json:"envelope_id"`
	Payload        json.RawMessage `json:"payload"`
	AcceptsPayload bool            `json:"accepts_response_payload"`
	NumConnections int             `json:"num_connections"`
}

// wire is one socket.
type wire struct {
	ws    *websocket.Conn
	write sync.Mutex
	hello chan struct{} // closed when Slack has greeted
	leave chan string   // the first reason for which Slack wants it to be left
	gone  chan struct{} // closed when nothing is read any more
	why   error         // why that is; to be read after gone
	since time.Time     // of the greeting
}

// keeper is the one that opens and closes sockets. There is one socket, and while it is being replaced two.
type keeper struct {
	s      *Slack
	pause  time.Duration // before the next attempt
	now    *wire
	old    *wire       // was replaced, and is still read until Slack closes it
	strays atomic.Bool // somebody else's sockets were warned about
}

// run keeps the app connected until ctx ends, or Slack says that it does not want to be asked again.
func (k *keeper) run(ctx context.Context) {
	defer func() { k.part(k.now); k.part(k.old) }()
	for ctx.Err() == nil && !k.s.health.failed() {
		if k.pause > 0 && k.s.o.Wait(ctx, k.pause) != nil {
			return
		}
		k.part(k.old) // never more than two
		k.old = nil
		next, err := k.open(ctx)
		if err != nil {
			if !k.refused(ctx, err) {
				return
			}
			continue
		}
		k.old, k.now = k.now, next
		reason := k.watch(ctx)
		k.slow(reason)
	}
}

// refused takes note of an attempt that failed, and says whether there is to be another one.
func (k *keeper) refused(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	err = explain(err)
	k.s.health.trouble(err.Error())
	if errors.Is(err, ErrUnusable) {
		k.s.o.Log.Error().Err(err).Msg("no more attempts to connect to Slack")
		k.s.health.fail(err)
		return false
	}
	if away, ok := errors.AsType[*sentAwayError](err); ok && away.reason == crowded {
		k.grow(crowdPause, crowdMost)
	} else {
		k.grow(firstPause, mostPause)
	}
	k.s.o.Log.Warn().Err(err).Dur("pause", k.pause).Msg("no connection to Slack")
	return true
}

// slow decides how long to wait before the current socket gets a successor.
func (k *keeper) slow(reason string) {
	if k.s.o.Now().Sub(k.now.since) >= sound {
		k.pause = 0
		if reason != crowded {
			return
		}
	}
	if reason == crowded {
		k.grow(crowdPause, crowdMost)
		return
	}
	k.grow(firstPause, mostPause)
}

func (k *keeper) grow(first, most time.Duration) { k.pause = min(max(2*k.pause, first), most) }

// watch waits until the current socket has to be replaced, and says why. Slack: warning comes some 10 s before the socket
// is closed, refresh_requested when a fresh one is wanted, link_disabled when Socket Mode is switched off;
// too_many_websockets is not documented.
func (k *keeper) watch(ctx context.Context) string {
	enough := time.NewTimer(oldTime)
	defer enough.Stop()
	for {
		var oldGone chan struct{}
		if k.old != nil {
			oldGone = k.old.gone
		}
		select {
		case <-ctx.Done():
			return "stopping"
		case <-k.s.health.dead:
			return "not wanted any more"
		case <-oldGone:
			k.part(k.old)
			k.old = nil
		case <-enough.C:
			k.part(k.old)
			k.old = nil
		case <-k.now.gone:
			why := k.now.why
			k.part(k.now)
			select {
			case reason := <-k.now.leave: // it was said why
				k.left(k.now, reason)
				return reason
			default:
			}
			k.s.o.Log.Info().Err(why).Msg("Slack's socket is gone")
			return "gone"
		case reason := <-k.now.leave:
			k.left(k.now, reason)
			return reason
		}
	}
}

// left takes note of why Slack wants a socket to be left.
func (k *keeper) left(l *wire, reason string) {
	k.s.o.Log.Info().Str("reason", reason).Msg("Slack asks for another socket")
	switch reason {
	case "link_disabled":
		k.s.health.fail(unusable(socketModeOff))
		k.s.o.Log.Error().Msg("no more attempts to connect to Slack: " + socketModeOff)
	case crowded: // it will not be served, and counts as one of them
		k.part(l)
		k.s.health.trouble("the app has more than ten open sockets: stop the other programs that use its tokens")
	}
}

// open asks for an address, which is good for one socket only, and opens that socket.
func (k *keeper) open(ctx context.Context) (*wire, error) {
	address, err := k.s.ticket(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask Slack for a socket: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, helloTime)
	defer cancel()
	dialer := websocket.Dialer{
		Proxy:            http.ProxyFromEnvironment,
		NetDialContext:   (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		HandshakeTimeout: 15 * time.Second,
		WriteBufferSize:  32 << 10, // an acknowledgement must fit into one frame: Slack ignores fragments
	}
	ws, answer, err := dialer.DialContext(ctx, address, nil)
	if answer != nil && answer.Body != nil {
		_ = answer.Body.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("open Slack's socket: %w", withoutAddress(err))
	}
	l := &wire{ws: ws, hello: make(chan struct{}), leave: make(chan string, 1), gone: make(chan struct{})}
	k.s.intake.sockets.Go(func() { l.read(k) })
	select {
	case <-l.hello:
		return l, nil
	case <-l.gone:
		err = l.why
	case <-ctx.Done():
		err = errors.New("no greeting came")
	}
	select {
	case reason := <-l.leave: // it was sent away instead
		err = &sentAwayError{reason}
		k.left(l, reason)
	default:
	}
	k.part(l)
	return nil, fmt.Errorf("wait for Slack's greeting: %w", err)
}

// ticket asks for the address of a socket.
func (s *Slack) ticket(ctx context.Context) (string, error) {
	address := ""
	err := s.call(ctx, looking, "apps.connections.open", "", func(ctx context.Context) (err error) {
		_, address, err = s.api.StartSocketModeContext(ctx)
		return err
	})
	if err == nil && address == "" {
		err = errors.New("the answer holds no address")
	}
	return address, err
}

// sentAwayError is Slack's reason not to serve a socket.
type sentAwayError struct{ reason string }

func (e *sentAwayError) Error() string { return "slack says " + e.reason }

// withoutAddress keeps addresses out of logs: a socket's lets anybody in, a file's holds its name.
func withoutAddress(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// read takes frames off the socket until it ends. It waits for nobody: what is to be stored goes into a lane.
func (l *wire) read(k *keeper) {
	defer close(l.gone)
	greeted := false
	defer func() {
		if greeted {
			k.s.health.down(fmt.Sprint(l.why))
		}
	}()
	defer k.s.recovered("read Slack's socket")
	l.why = errors.New("reading broke off")
	l.ws.SetReadLimit(biggestIn)
	alive := func() { _ = l.ws.SetReadDeadline(time.Now().Add(k.s.intake.quiet)) }
	l.ws.SetPingHandler(func(data string) error {
		alive()
		err := l.ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(writeTime))
		if errors.Is(err, websocket.ErrCloseSent) {
			return nil
		}
		return err
	})
	for {
		alive()
		kind, data, err := l.ws.ReadMessage()
		if err != nil {
			l.why = err
			l.last()
			return
		}
		var f frame
		if kind != websocket.TextMessage || json.Unmarshal(data, &f) != nil {
			k.s.odd("unreadable frame")
			continue
		}
		switch f.Type {
		case "hello":
			if !greeted {
				greeted = true
				l.since = k.s.o.Now()
				k.s.health.up()
				close(l.hello)
				k.strangers(f.NumConnections)
			}
		case "disconnect":
			select {
			case l.leave <- f.Reason:
			default: // there is one on its way; a second one changes nothing
			}
		default:
			l.envelope(k.s, f)
		}
	}
}

// last waits, after the goodbyes, for the other side to close the connection first: only then has Slack let go of it too.
func (l *wire) last() {
	if err := l.ws.NetConn().SetReadDeadline(time.Now().Add(partTime)); err == nil {
		_, _ = io.Copy(io.Discard, l.ws.NetConn())
	}
}

// strangers warns, once, that somebody else reads the app's events too: each event goes to one socket only.
func (k *keeper) strangers(sockets int) {
	if sockets > 2 && !k.strays.Swap(true) {
		k.s.o.Log.Warn().Int("sockets", sockets).
			Msg("other programs use this app's tokens too and take some of its events: use one app for each")
	}
}

// envelope puts a payload into its lane. It is acknowledged on the socket that it came by, or not at all.
func (l *wire) envelope(s *Slack, f frame) {
	if f.EnvelopeID == "" {
		s.odd("frame of the type " + f.Type)
		return
	}
	d := delivery{kind: f.Type, payload: f.Payload, answer: func(reply json.RawMessage, err error) {
		if err != nil {
			return
		}
		if !f.AcceptsPayload {
			reply = nil
		}
		if err := l.ack(f.EnvelopeID, reply); err != nil {
			s.o.Log.Debug().Err(err).Str("envelope", f.EnvelopeID).Msg("no acknowledgement got out; the delivery will come again")
		}
	}}
	if !s.intake.take(d) {
		s.o.Log.Warn().Str("envelope", f.EnvelopeID).Msg("no room for a delivery of Slack, so it is not acknowledged and will come again")
	}
}

func (l *wire) ack(envelope string, reply json.RawMessage) error {
	data, err := json.Marshal(struct {
		ID      string          `json:"envelope_id"`
		Payload json.RawMessage `json:"payload,omitempty"`
	}{envelope, reply})
	if err != nil {
		return err
	}
	if len(data) > biggestAck {
		return fmt.Errorf("an acknowledgement of %d bytes would be ignored", len(data))
	}
	l.write.Lock()
	defer l.write.Unlock()
	_ = l.ws.SetWriteDeadline(time.Now().Add(writeTime))
	return l.ws.WriteMessage(websocket.TextMessage, data)
}

// part says goodbye and closes a socket, and waits until it is not read any more.
func (k *keeper) part(l *wire) {
	if l == nil {
		return
	}
	bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	if l.ws.WriteControl(websocket.CloseMessage, bye, time.Now().Add(partTime)) == nil {
		timer := time.NewTimer(partTime)
		select {
		case <-l.gone:
		case <-timer.C:
		}
		timer.Stop()
	}
	_ = l.ws.Close()
	<-l.gone
}
