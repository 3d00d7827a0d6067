package slack

import (
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"switchboard/chat"
	"switchboard/config"
	"switchboard/slack/sim"
	"switchboard/turn"
)

var _ turn.Surface = (*Slack)(nil)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// desk is a bot that writes down what it is told.
type desk struct {
	mu       sync.Mutex
	changed  chan struct{}
	accepted []chat.Message // fresh ones
	again    int            // accepted ones that were not fresh
	heard    []chat.Said
	halted   []chat.Stop
	rated    []chat.Feedback
	known    map[chat.Thread]bool
	gate     func(context.Context) error // before anything is stored
	traced   []chat.Person
	decided  []chat.Decision
	rule     func(context.Context, chat.Decision) (chat.Ruling, error) // nil: everything counts
}

func newDesk() *desk { return &desk{changed: make(chan struct{}), known: map[chat.Thread]bool{}} }

func (d *desk) enter(ctx context.Context) error {
	d.mu.Lock()
	gate := d.gate
	d.mu.Unlock()
	if gate != nil {
		return gate(ctx)
	}
	return nil
}

// write changes the desk and wakes those who wait for it.
func (d *desk) write(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do()
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *desk) Accept(ctx context.Context, m chat.Message) (turn string, fresh bool, err error) {
	if err := d.enter(ctx); err != nil {
		return "", false, err
	}
	fresh = true
	d.write(func() {
		for _, a := range d.accepted {
			if a.Key == m.Key {
				fresh = false
				d.again++
				return
			}
		}
		d.accepted = append(d.accepted, m)
		d.known[m.Thread] = true
	})
	return "t_" + m.Key, fresh, nil
}

func (d *desk) Knows(ctx context.Context, t chat.Thread) (bool, error) {
	if err := d.enter(ctx); err != nil {
		return false, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[t], nil
}

func (d *desk) Hear(ctx context.Context, _ chat.Thread, s chat.Said) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	d.write(func() {
		if !slices.ContainsFunc(d.heard, func(h chat.Said) bool { return h.ID == s.ID }) {
			d.heard = append(d.heard, s)
		}
	})
	return nil
}

func (d *desk) Halt(ctx context.Context, s chat.Stop) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	d.write(func() { d.halted = append(d.halted, s) })
	return nil
}

func (d *desk) Rate(ctx context.Context, f chat.Feedback) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	d.write(func() { d.rated = append(d.rated, f) })
	return nil
}

func (d *desk) Trace(_ context.Context, _ string, by chat.Person) (string, bool, error) {
	d.write(func() { d.traced = append(d.traced, by) })
	return "trace", true, nil
}

func (d *desk) Home(context.Context, chat.Person) (Home, error) { return Home{Bot: "desk"}, nil }

// Decide takes a decision once.
func (d *desk) Decide(ctx context.Context, what chat.Decision) (chat.Ruling, error) {
	if err := d.enter(ctx); err != nil {
		return chat.Ruling{}, err
	}
	d.write(func() { d.decided = append(d.decided, what) })
	d.mu.Lock()
	rule := d.rule
	d.mu.Unlock()
	if rule != nil {
		return rule(ctx, what)
	}
	return chat.Ruling{Taken: true, Words: "taken: " + string(what.Say)}, nil
}

// until waits for something to hold of the desk.
func (d *desk) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	late := time.NewTimer(10 * time.Second)
	defer late.Stop()
	for {
		d.mu.Lock()
		changed, done := d.changed, ok()
		d.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// house is a simulated workspace, a desk, and the surface between them.
type house struct {
	w      *sim.Workspace
	app    sim.App
	desk   *desk
	slack  *Slack
	server *httptest.Server
	clock  *clock

	mu       sync.Mutex
	settings config.Slack
}

// clock gives the real time, moved by hand, and waits at once.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
	waits []time.Duration
	block chan struct{} // waits stay until it is closed; nil: they are over at once
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

func (c *clock) wait(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	c.waits = append(c.waits, d)
	block := c.block
	c.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
		}
	}
	c.forward(d) // the time that was waited has gone by
	return ctx.Err()
}

func (c *clock) waited() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]time.Duration(nil), c.waits...)
}

// plan changes how a house is built.
type plan struct {
	sim   sim.Options
	app   func(*sim.App)
	web   bool // HTTP mode
	quiet time.Duration
	slack func(*Options)
	idle  bool // not started
}

const (
	ana, mia, gus, exa = "U0ANA", "U0MIA", "U0GUS", "U0EXA"
	front, priv, ext   = "C0FRONT", "C0PRIV", "C0EXT"
)

func build(t *testing.T, p plan) *house {
	t.Helper()
	if p.sim.Seed == 0 {
		p.sim.Seed = 7
	}
	h := &house{w: sim.New(p.sim), desk: newDesk(), clock: &clock{}, settings: config.Slack{Listen: config.Threads}}
	h.server = httptest.NewServer(h.w.Handler())
	h.w.SetURL(h.server.URL)
	h.w.AddPerson(sim.Person{ID: ana, Name: "Ana"})
	h.w.AddPerson(sim.Person{ID: mia, Name: "Mia"})
	h.w.AddPerson(sim.Person{ID: gus, Name: "Gus", Kind: sim.Guest})
	h.w.AddPerson(sim.Person{ID: exa, Name: "Exa", Kind: sim.External})
	h.w.AddGroup(sim.Group{ID: "S0FIN", Handle: "finance", Members: []string{ana}})
	app := sim.App{ID: "A0DESK", Name: "desk", User: "U0BOT", Bot: "B0BOT", BotToken: "xoxb-desk", SigningSecret: "a-secret-that-signs-it"}
	if !p.web {
		app.AppToken = "xapp-1-A0DESK-1-abc"
	}
	if p.app != nil {
		p.app(&app)
	}
	o := Options{
		BotToken: app.BotToken, AppToken: app.AppToken, APIURL: h.server.URL + "/api/",
		Settings: func() config.Slack { h.mu.Lock(); defer h.mu.Unlock(); return h.settings },
		Bot:      h.desk, Judge: h.desk, Desk: h.desk, Now: h.clock.now, Wait: h.clock.wait, Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel),
	}
	if p.web {
		o.AppToken, o.SigningSecret = "", app.SigningSecret
	}
	if p.slack != nil {
		p.slack(&o)
	}
	var err error
	h.slack, err = New(o)
	if err != nil {
		t.Fatal(err)
	}
	if p.quiet > 0 {
		h.slack.intake.quiet = p.quiet
	}
	if p.web {
		front := httptest.NewServer(h.slack.Handler())
		t.Cleanup(front.Close)
		app.EventsURL = front.URL + "/slack/events"
	}
	h.app = h.w.AddApp(app)
	h.w.AddChannel(sim.Channel{ID: front, Name: "front-desk", Members: []string{ana, mia, gus, "U0BOT"}})
	h.w.AddChannel(sim.Channel{ID: priv, Name: "secret", Kind: sim.Private, Members: []string{ana, "U0BOT"}})
	h.w.AddChannel(sim.Channel{ID: ext, Name: "partners", Kind: sim.Shared, Members: []string{ana, exa, "U0BOT"}})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := h.slack.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		h.w.Close()
		h.server.Close()
	})
	if !p.idle {
		if err := h.slack.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.ready(t)
	}
	return h
}

// ready waits until events can come in.
func (h *house) ready(t *testing.T) {
	t.Helper()
	if h.slack.o.AppToken == "" {
		return
	}
	h.untilOpen(t, 1)
}

// untilOpen waits until so many sockets were opened, all in all, and the last one is served.
func (h *house) untilOpen(t *testing.T, ever int) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errors.New("no socket"))
	defer cancel()
	seen := 0
	_, err := h.w.Await(ctx, 0, func(e sim.Entry) bool {
		if e.What == sim.Opened {
			seen++
		}
		return seen >= ever
	})
	if err != nil {
		t.Fatalf("wait for socket %d: %v", ever, err)
	}
}

func (h *house) listen(l config.Listen) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settings.Listen = l
}

func (h *house) say(t *testing.T, s sim.Say) string {
	t.Helper()
	ts, err := h.w.Say(s)
	if err != nil {
		t.Fatal(err)
	}
	return ts
}

// settled waits until everything that was sent so far is acknowledged.
func (h *house) settled(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errors.New("not acknowledged"))
	defer cancel()
	for {
		last := h.w.Mark()
		waiting, _ := h.w.Unacked()
		if waiting == 0 {
			return
		}
		if _, err := h.w.Await(ctx, last, func(sim.Entry) bool { return true }); err != nil {
			t.Fatalf("wait for acknowledgements: %v (%d open)", err, waiting)
		}
	}
}

// take gives what was accepted so far.
func (h *house) take() []chat.Message {
	h.desk.mu.Lock()
	defer h.desk.mu.Unlock()
	return append([]chat.Message(nil), h.desk.accepted...)
}

// dm opens the direct message of somebody with the app.
func (h *house) dm(t *testing.T, person string) string {
	t.Helper()
	id, err := h.w.OpenIM(person, "")
	if err != nil {
		t.Fatal(err)
	}
	return id
}
