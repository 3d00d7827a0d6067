package rehearse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"switchboard/chat"
	"switchboard/config"
	"switchboard/llm"
	"switchboard/turn"
)

// Person is who somebody is that a pack lets speak: kind, groups and name stand in its playground; whom that does not name is
// a member of the workspace.
func Person(p *config.Pack, id string) chat.Person {
	if r, ok := p.Resident(id); ok {
		return chat.Person{ID: id, Name: r.Name, Kind: r.Kind, Groups: slices.Clone(r.Groups)}
	}
	return chat.Person{ID: id, Kind: chat.Member}
}

// Channel is where people of a pack talk: who reads along stands in its playground; one that it does not name is public, or
// a direct message by its id.
func Channel(p *config.Pack, id string) chat.Channel {
	c := chat.Channel{ID: id, Visibility: chat.Public}
	if strings.HasPrefix(id, "D") {
		c.Visibility = chat.DM
	}
	if r, ok := p.Room(id); ok {
		c.Visibility = r.Visibility
	}
	return c
}

// message is the n-th thing that is said. A rehearsal is one thread.
func (s *stage) message(n int, text string) chat.Message {
	person := cmp.Or(s.rehearsal.As, s.o.As, somebody)
	channel := cmp.Or(s.rehearsal.In, s.o.In, somewhere)
	const team = "rehearsal"
	return chat.Message{
		Key:     fmt.Sprintf("msg:%s:%s:%d", team, channel, n+1),
		Thread:  chat.Thread{Team: team, Channel: channel, Root: "1"},
		Channel: Channel(s.pack, channel),
		From:    Person(s.pack, person),
		Text:    text,
		At:      s.clock.now(),
	}
}

// surface is where the people of a rehearsal read. It keeps what was posted.
type surface struct {
	mu    sync.Mutex
	posts []turn.Post
}

// Show implements turn.Surface: nobody looks on.
func (s *surface) Show(context.Context, turn.Progress) {}

// Post implements turn.Surface.
func (s *surface) Post(_ context.Context, p turn.Post) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posts = append(s.posts, p)
	return nil
}

// Look implements turn.Surface: a rehearsal says all there is to know.
func (s *surface) Look(_ context.Context, m chat.Message, _ bool) (turn.Seen, error) {
	return turn.Seen{Message: m}, nil
}

// of lists the replies that a turn posted. A card is none, whatever is said beside it.
func (s *surface) of(id string) []turn.Post {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []turn.Post
	for _, p := range s.posts {
		if p.Turn == id && p.Card == nil {
			out = append(out, p)
		}
	}
	return out
}

// clock starts where the rehearsal says and moves with real time. Pauses pass a hundred times as fast, and count in full:
// who rehearses does not want to sit through the waits between attempts. The engine's own rounds, on which it sweeps and
// looks for decisions whose time is over, are no pauses of the conversation: they take real time.
type clock struct {
	base func() time.Time

	mu    sync.Mutex
	ahead time.Duration
}

const haste = 100

func newClock(at time.Time, base func() time.Time) *clock {
	if at.IsZero() {
		return &clock{base: base}
	}
	return &clock{base: func() time.Time { return base().In(at.Location()) }, ahead: at.Sub(base())}
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.base().Add(c.ahead)
}

func (c *clock) wait(ctx context.Context, d time.Duration) error {
	if ofTheHouse(ctx, d) {
		return pass(ctx, d)
	}
	if err := pass(ctx, d/haste); err != nil {
		return err
	}
	c.advance(d - d/haste)
	return nil
}

// advance moves the clock on at once.
func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// ofTheHouse tells the engine's rounds from pauses of a run: they come every so many whole tens of seconds, and nothing
// bounds them. A run's pauses are bounded by its time, or are what is left of a tool's.
func ofTheHouse(ctx context.Context, d time.Duration) bool {
	_, bounded := ctx.Deadline()
	return !bounded && d%(10*time.Second) == 0
}

func pass(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// listener passes on what a scripted model answers, and keeps what it could not.
type listener struct {
	llm.Model
	heard *heard
}

// Do implements llm.Model.
func (l *listener) Do(ctx context.Context, r llm.Request) (llm.Reply, error) {
	reply, err := l.Model.Do(ctx, r)
	if failed, ok := errors.AsType[*llm.Error](err); ok && failed.Err != nil {
		l.heard.note(failed)
	}
	return reply, err
}

// heard is what scripted models could not answer in one turn, and why.
type heard struct {
	mu   sync.Mutex
	miss []string
	fill []string
}

func (h *heard) note(e *llm.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Reason == llm.NoScript {
		h.miss = append(h.miss, e.Err.Error())
	} else {
		h.fill = append(h.fill, e.Detail)
	}
}

func (h *heard) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.miss, h.fill = nil, nil
}

// misses says where no step could be played.
func (h *heard) misses() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.miss)
}

// unfilled says which steps lacked the results that they build on.
func (h *heard) unfilled() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.fill)
}
