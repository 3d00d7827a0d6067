package sim

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Options say which workspace it is and how it keeps time. The zero value is a workspace of its own with Slack's times.
type Options struct {
	Team   string // its id; "" is T0SIM
	Name   string // "" is "Simulated"
	Domain string // "" is "simulated"
	// Now is the clock of timestamps and of all that expires. nil is the real one. It must never go back.
	Now func() time.Time
	// Seed makes ids and random choices the same in every run; 0 makes them different.
	Seed  uint64
	Times Times
	// Keep is how many entries the log holds at most, the oldest go first, and of how many messages the events can be sent
	// again; 0 keeps all.
	Keep int
	// Hosts are names, beside those of this machine itself, under which the workspace may be called.
	Hosts []string
}

// Times are how long the simulated Slack waits. What is 0 is Slack's own value. Ack, Retry, Ping and Cut pass on the real
// clock, the others on Options.Now.
type Times struct {
	// Ack is how long an event waits to be acknowledged: 3 s. Slack: https://docs.slack.dev/apis/events-api
	Ack time.Duration
	// Retry are the waits before the events that were not acknowledged are sent again: at once, 1 min, 5 min. Slack: as Ack.
	// nil is Slack's own; an empty list that is not nil means never.
	Retry []time.Duration
	// Ping is the time between two PINGs on a socket: 5 s. Clients give up after 30 s without one, as measured.
	Ping time.Duration
	// Cut is the time between the warning that a socket will be cut and the cut: 10 s.
	// Slack: https://docs.slack.dev/apis/events-api/using-socket-mode
	Cut time.Duration
	// Trigger is how long a trigger id can open a view: 3 s. Slack: https://docs.slack.dev/interactivity/handling-user-interaction
	Trigger time.Duration
	// Respond is how long a response URL lives: 30 min. Slack: as Trigger.
	Respond time.Duration
	// Stream is how long a stream lives from its start: 5 min, as reported.
	Stream time.Duration
	// Status is how long a status is shown: 2 min. Slack: https://docs.slack.dev/reference/methods/assistant.threads.setStatus
	Status time.Duration
	// Session is how long a session stays processing: 1 h. Slack: https://docs.slack.dev/reference/methods/agents.sessions.setStatus
	Session time.Duration
}

// withDefaults fills in Slack's own times.
func (t Times) withDefaults() Times {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&t.Ack, 3*time.Second)
	set(&t.Ping, 5*time.Second)
	set(&t.Cut, 10*time.Second)
	set(&t.Trigger, 3*time.Second)
	set(&t.Respond, 30*time.Minute)
	set(&t.Stream, 5*time.Minute)
	set(&t.Status, 2*time.Minute)
	set(&t.Session, time.Hour)
	if t.Retry == nil {
		t.Retry = []time.Duration{0, time.Minute, 5 * time.Minute}
	}
	return t
}

// Workspace is a simulated Slack workspace. All of its methods may be called from any goroutine. Close ends it.
type Workspace struct {
	o       Options
	handler http.Handler // with everything

	stop    chan struct{}                                                   // closed by Close
	over    func(*delivery) (answer json.RawMessage, final bool, err error) // sends a delivery over HTTP
	working sync.WaitGroup                                                  // deliveries and sockets

	mu       sync.Mutex
	closed   bool
	url      string // of the server, without a slash at the end
	seed     uint64
	lastTS   int64 // the newest timestamp that was given out, in microseconds
	people   map[string]*Person
	channels map[string]*channel
	groups   map[string]*Group
	apps     map[string]*app
	order    []string // ids of apps, in the order in which they were added
	files    map[string]*File
	uploads  map[string]*upload // by the secret of their addresses
	views    map[string]*view
	stacks   map[string][]*view // open modals by person
	homes    map[string]*view   // by app and person
	triggers map[string]*trigger
	answers  map[string]*answerURL
	sessions map[string]*session
	prompts  map[string]Prompts // by channel, and thread if there is one
	hints    []Suggestion
	sent     map[string][]sentEvent // by channel and ts
	sentOf   []string               // the keys of sent, oldest first
	faults   []*fault
	limits   limits
	mentions Order
	repeat   Repeat
	chatty   bool

	entries []Entry
	dropped int           // entries that the log no longer holds
	changed chan struct{} // closed and replaced with every entry
}

// New makes an empty workspace.
func New(o Options) *Workspace {
	def := func(s *string, to string) {
		if *s == "" {
			*s = to
		}
	}
	def(&o.Team, "T0SIM")
	def(&o.Name, "Simulated")
	def(&o.Domain, "simulated")
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Times = o.Times.withDefaults()
	seed := o.Seed
	if seed == 0 {
		seed = maphash.Bytes(maphash.MakeSeed(), nil)
	}
	w := &Workspace{
		o: o, seed: seed, stop: make(chan struct{}), changed: make(chan struct{}),
		people: map[string]*Person{}, channels: map[string]*channel{}, groups: map[string]*Group{}, apps: map[string]*app{},
		files: map[string]*File{}, uploads: map[string]*upload{}, views: map[string]*view{}, triggers: map[string]*trigger{}, answers: map[string]*answerURL{},
		sessions: map[string]*session{}, prompts: map[string]Prompts{}, sent: map[string][]sentEvent{}, stacks: map[string][]*view{}, homes: map[string]*view{},
	}
	w.over = w.post
	w.handler = w.routes()
	return w
}

// lifetime is a context that ends with the workspace: what happens in it is nobody's request.
type lifetime struct{ stop <-chan struct{} }

// Deadline says that there is none.
func (lifetime) Deadline() (at time.Time, ok bool) { return time.Time{}, false }

// Done is closed with the workspace.
func (l lifetime) Done() <-chan struct{} { return l.stop }

// Err says whether the workspace is closed.
func (l lifetime) Err() error {
	select {
	case <-l.stop:
		return context.Canceled
	default:
		return nil
	}
}

// Value has none.
func (lifetime) Value(any) any { return nil }

// Close cuts all sockets, gives up all deliveries and waits until both are over. The workspace can be read afterwards.
func (w *Workspace) Close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.stop)
		for _, f := range w.faults {
			f.release()
		}
	}
	w.mu.Unlock()
	w.Cut("")
	w.working.Wait()
}

// Handler serves everything: the Web API under /api/, sockets under /link/, files under /files/ and /upload/, response URLs under
// /respond/, the control API under /sim/ and the page at /.
func (w *Workspace) Handler() http.Handler { return w.handler }

// SetURL says under which address Handler is served, for the addresses that the workspace gives out. Start does it.
func (w *Workspace) SetURL(url string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.url = strings.TrimSuffix(url, "/")
}

// Order is the order of the two events of a message that mentions an app in a channel where it also reads messages. Slack
// keeps none, as reported.
type Order string

// The orders.
const (
	AnyOrder     Order = ""
	MentionFirst Order = "mention"
	MessageFirst Order = "message"
)

// SetOrder fixes the order of the two events of a mention from now on.
func (w *Workspace) SetOrder(o Order) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mentions = o
}

// SetChatty makes every reply in a thread also change its first message (its count of replies), which apps are told by a
// message_changed event, as reported. It is off in a new workspace.
func (w *Workspace) SetChatty(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.chatty = on
}

// random gives the next number of the workspace's own sequence (splitmix64): ids and choices need no secrecy, and a seed
// must give the same run again.
func (w *Workspace) random() uint64 {
	w.seed += 0x9e3779b97f4a7c15
	z := w.seed
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// id makes a new id of Slack's look: a letter or two and ten capitals and digits.
func (w *Workspace) id(prefix string) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	b := []byte(prefix + "0")
	n := w.random()
	for range 10 {
		b = append(b, digits[n%36])
		n /= 36
	}
	return string(b)
}

// uuid makes an id of the form that envelopes have.
func (w *Workspace) uuid() string {
	h := fmt.Sprintf("%016x%016x", w.random(), w.random())
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// secret makes a part of an address that cannot be guessed from the addresses before it.
func (w *Workspace) secret() string {
	var b [16]byte
	for i := range b {
		b[i] = byte(w.random() & 0xff)
	}
	return hex.EncodeToString(b[:])
}

// ts gives the next timestamp. They are unique and grow, across the whole workspace.
func (w *Workspace) ts() string {
	n := w.o.Now().UnixMicro()
	if n <= w.lastTS {
		n = w.lastTS + 1
	}
	w.lastTS = n
	return fmt.Sprintf("%d.%06d", n/1_000_000, n%1_000_000)
}

// mustJSON is for values that are made of maps, lists and texts only, which cannot fail.
func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage(`{"error":` + fmt.Sprintf("%q", err.Error()) + `}`)
	}
	return b
}
