package sim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// mostSockets may be open per app. Slack: https://docs.slack.dev/apis/events-api/using-socket-mode
	mostSockets = 10
	// mostReply is the size in bytes from which on Slack ignores a frame, as measured.
	mostReply = 20480
	// writeTime bounds a write to a client that does not read.
	writeTime = 10 * time.Second
	// debugLife is how long a socket lives whose address carries debug_reconnects=true. Slack: as mostSockets.
	debugLife = 360 * time.Second
	life      = 18060 * time.Second
)

// Reason is why Slack asks a client to leave a socket.
type Reason string

// The reasons. Slack documents the first three: https://docs.slack.dev/apis/events-api/using-socket-mode; the fourth is as
// reported.
const (
	Warning      Reason = "warning"           // it will be cut in about 10 s
	Refresh      Reason = "refresh_requested" // go now
	LinkDisabled Reason = "link_disabled"     // Socket Mode was switched off
	TooMany      Reason = "too_many_websockets"
)

// socket is a client's connection.
type socket struct {
	n    int
	app  *app
	conn *websocket.Conn

	mu     sync.Mutex
	queue  [][]byte
	more   chan struct{}
	cut    chan time.Duration // asks the writer to close the socket after a while
	gone   chan struct{}
	closed sync.Once
	why    string
}

// push puts a frame in the queue. The queue has no end: Slack's own buffers are not known.
func (s *socket) push(frame []byte) {
	s.mu.Lock()
	s.queue = append(s.queue, frame)
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

func (s *socket) take() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue
	s.queue = nil
	return q
}

// end cuts the connection without a word.
func (s *socket) end(why string) {
	s.closed.Do(func() {
		s.mu.Lock()
		s.why = why
		s.mu.Unlock()
		close(s.gone)
		_ = s.conn.Close() // it is given up anyway
	})
}

// leave asks the client to go, and closes the socket after a while.
func (s *socket) leave(r Reason, after time.Duration) {
	s.push(mustJSON(map[string]any{"type": "disconnect", "reason": r, "debug_info": map[string]any{"host": "sim"}}))
	select {
	case s.cut <- after:
	default: // it is on its way out already
	}
}

// pick chooses one of an app's sockets; nobody can tell which. Slack: as mostSockets.
func (w *Workspace) pick(a *app) *socket {
	live := a.live()
	if len(live) == 0 {
		return nil
	}
	return live[w.random()%uint64(len(live))]
}

// live are the app's sockets that are not cut.
func (a *app) live() []*socket {
	return slices.DeleteFunc(slices.Clone(a.sockets), func(s *socket) bool {
		select {
		case <-s.gone:
			return true
		default:
			return false
		}
	})
}

// SocketCount says how many sockets an app has and had.
type SocketCount struct {
	Open int `json:"open"`
	Most int `json:"most"` // at once
	Ever int `json:"ever"`
}

func (a *app) count() SocketCount {
	return SocketCount{Open: len(a.live()), Most: a.most, Ever: a.next}
}

// Sockets counts the sockets of an app; "" is the first one.
func (w *Workspace) Sockets(appID string) SocketCount {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, err := w.app(appID)
	if err != nil {
		return SocketCount{}
	}
	return a.count()
}

// Disconnect asks all clients of an app ("" is all apps) to leave their sockets. Slack closes them Times.Cut later. With
// LinkDisabled Socket Mode is off for the app until SetSocketMode: whoever comes is sent away with the same reason.
func (w *Workspace) Disconnect(appID string, r Reason) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.each(appID) {
		if r == LinkDisabled {
			a.off = true
		}
		for _, s := range a.sockets {
			s.leave(r, w.o.Times.Cut)
		}
	}
	w.note(Entry{What: Changed, Method: "disconnect", App: appID, Error: string(r)})
}

// SetSocketMode switches Socket Mode on or off, as on the app's page of settings.
func (w *Workspace) SetSocketMode(appID string, on bool) {
	if !on {
		w.Disconnect(appID, LinkDisabled)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.each(appID) {
		a.off = false
	}
}

// Cut ends all sockets of an app ("" is all apps) without a word.
func (w *Workspace) Cut(appID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.each(appID) {
		for _, s := range a.sockets {
			s.end("cut")
		}
	}
}

// CutOne ends one of an app's sockets without a word, the oldest; it says whether there was one.
func (w *Workspace) CutOne(appID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.each(appID) {
		if live := a.live(); len(live) > 0 {
			live[0].end("cut")
			return true
		}
	}
	return false
}

// RefuseSockets makes the next n attempts to open a socket fail with a 503.
func (w *Workspace) RefuseSockets(appID string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.each(appID) {
		a.refuse = n
	}
}

// SilencePings stops the PINGs on an app's sockets, or starts them again.
func (w *Workspace) SilencePings(appID string, silent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.each(appID) {
		a.silent = silent
	}
}

// connectionsOpen is apps.connections.open: a one-shot address, on the host that the caller has reached. Slack: https://docs.slack.dev/reference/methods/apps.connections.open
func (w *Workspace) connectionsOpen(c *call) (map[string]any, error) {
	ticket := w.secret()
	c.app.tickets[ticket] = true
	return map[string]any{"url": fmt.Sprintf("ws://%s/link/?ticket=%s&app_id=%s", c.r.Host, ticket, c.app.ID)}, nil
}

// hijacker hands the upgrader a connection whose frames are watched.
type hijacker struct {
	http.ResponseWriter
	watched *frames
}

func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.watched = &frames{Conn: conn}
	return h.watched, rw, nil
}

// link is the other end of a socket.
func (w *Workspace) link(rw http.ResponseWriter, r *http.Request) {
	a, status := w.ticket(r)
	if a == nil {
		http.Error(rw, http.StatusText(status), status)
		return
	}
	defer w.working.Done()
	// Clients send Slack's own origin; the ticket is what lets them in. Sizes are set so that the watched connection is read.
	up := websocket.Upgrader{ReadBufferSize: 4096, WriteBufferSize: 65536, CheckOrigin: func(*http.Request) bool { return true }}
	h := &hijacker{ResponseWriter: rw}
	conn, err := up.Upgrade(h, r, nil)
	if err != nil {
		return // the upgrader has answered
	}
	s := &socket{app: a, conn: conn, more: make(chan struct{}, 1), cut: make(chan time.Duration, 1), gone: make(chan struct{})}
	lives := life
	if r.URL.Query().Get("debug_reconnects") == "true" {
		lives = debugLife
	}
	w.enter(s, lives)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.write(s, lives)
	}()
	w.read(s, h.watched)
	<-done
	w.exit(s)
}

// ticket takes the ticket of a socket's address. Where it is good the workspace waits for the socket's end from now on.
func (w *Workspace) ticket(r *http.Request) (*app, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.apps[r.URL.Query().Get("app_id")]
	if a == nil || w.closed {
		return nil, http.StatusNotFound
	}
	t := r.URL.Query().Get("ticket")
	if !a.tickets[t] {
		return nil, http.StatusForbidden
	}
	delete(a.tickets, t)
	if a.refuse > 0 {
		a.refuse--
		return nil, http.StatusServiceUnavailable
	}
	w.working.Add(1)
	return a, 0
}

// enter greets a socket, or sends it away.
func (w *Workspace) enter(s *socket, lives time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := s.app
	a.next++
	s.n = a.next
	w.note(Entry{What: Opened, App: a.ID, Socket: s.n})
	switch {
	case w.closed:
		s.end("the workspace is closed")
		return
	case a.off:
		s.leave(LinkDisabled, 0)
		return
	case len(a.live()) >= mostSockets:
		s.leave(TooMany, 0)
		return
	}
	a.sockets = append(a.sockets, s)
	open := len(a.live())
	a.most = max(a.most, open)
	s.push(mustJSON(map[string]any{
		"type": "hello", "num_connections": open, "connection_info": map[string]any{"app_id": a.ID},
		"debug_info": map[string]any{
			"host": "sim", "started": w.o.Now().UTC().Format(time.DateTime), "build_number": 1,
			"approximate_connection_time": int(lives.Seconds()),
		},
	}))
}

// exit forgets a socket.
func (w *Workspace) exit(s *socket) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.app.sockets = slices.DeleteFunc(s.app.sockets, func(o *socket) bool { return o == s })
	w.note(Entry{What: Closed, App: s.app.ID, Socket: s.n, Error: s.why})
}

// write sends what is queued, and PINGs.
func (w *Workspace) write(s *socket, lives time.Duration) {
	ping := time.NewTicker(w.o.Times.Ping)
	defer ping.Stop()
	old := time.NewTimer(lives)
	defer old.Stop()
	closing := time.NewTimer(time.Hour)
	closing.Stop()
	defer closing.Stop()
	for {
		select {
		case <-s.more:
			for _, f := range s.take() {
				_ = s.conn.SetWriteDeadline(time.Now().Add(writeTime)) // never fails
				if err := s.conn.WriteMessage(websocket.TextMessage, f); err != nil {
					s.end("the client does not read: " + err.Error())
					return
				}
			}
		case <-ping.C:
			w.mu.Lock()
			silent := s.app.silent
			w.mu.Unlock()
			if !silent {
				_ = s.conn.WriteControl(websocket.PingMessage, []byte("Ping from the workspace"), time.Now().Add(writeTime)) // reading notices
			}
		case <-old.C:
			s.leave(Refresh, w.o.Times.Cut)
		case d := <-s.cut:
			closing.Reset(d)
		case <-closing.C:
			for _, f := range s.take() {
				_ = s.conn.WriteMessage(websocket.TextMessage, f) // it is closed anyway
			}
			_ = s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(writeTime)) // as above
			s.end("closed by the workspace")
			return
		case <-s.gone:
			return
		}
	}
}

// read takes acknowledgements until the socket ends. The library answers PINGs and the client's close frame.
func (w *Workspace) read(s *socket, f *frames) {
	for {
		kind, b, err := s.conn.ReadMessage()
		if err != nil {
			s.end(closedBy(err))
			return
		}
		parts := f.inParts()
		var frame struct {
			Envelope string          `json:"envelope_id"`
			Payload  json.RawMessage `json:"payload"`
		}
		why := ""
		switch {
		case kind != websocket.TextMessage:
			why = "it is not text"
		case parts:
			why = "it came in several frames"
		case len(b) >= mostReply:
			why = fmt.Sprintf("%d bytes, and Slack looks at less than %d", len(b), mostReply)
		case json.Unmarshal(b, &frame) != nil || frame.Envelope == "":
			why = "it is no acknowledgement"
		}
		if why != "" {
			w.mu.Lock()
			w.note(Entry{What: Ignored, App: s.app.ID, Socket: s.n, Error: why})
			w.mu.Unlock()
			continue
		}
		w.ack(s, frame.Envelope, frame.Payload)
	}
}

func closedBy(err error) string {
	var c *websocket.CloseError
	if errors.As(err, &c) && c.Code != websocket.CloseAbnormalClosure {
		return fmt.Sprintf("closed by the client: %d", c.Code)
	}
	return "gone: " + err.Error()
}
