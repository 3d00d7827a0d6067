package redis

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"switchboard/store"
)

const (
	// claimsAtOnce is how many leases one script hands out at most.
	claimsAtOnce = 64
	// pollAtLeast is how often a process with waiting Claims asks, whatever it hears: wake-ups may be lost, polls may not.
	pollAtLeast = time.Second
)

// waiter is a Claim that found nothing yet.
type waiter struct {
	ttl   time.Duration
	lease chan grant // takes one, or is closed with the line
}

// grant is a lease and the thread's former place among the ready ones.
type grant struct {
	store.Lease
	place string
}

// line is where the Claims of this process wait. One goroutine asks the server for all of them.
type line struct {
	wake  chan struct{}   // holds one token when there may be something to do
	life  context.Context //nolint:containedctx // the goroutine's own, ended by stop
	end   context.CancelFunc
	ended chan struct{} // closed when the goroutine has ended; nil when it never began

	mu      sync.Mutex
	waiting list.List // of *waiter, oldest first
	back    []grant   // leases whose Claims had gone when they came
	closed  bool
}

func newLine() *line {
	l := &line{wake: make(chan struct{}, 1)}
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

func (l *line) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// start begins the goroutine. serve does one round and says when the next is due, if nothing is heard before.
func (l *line) start(serve func(context.Context) time.Duration) {
	l.ended = make(chan struct{})
	go func() {
		defer close(l.ended)
		next := time.NewTimer(pollAtLeast)
		defer next.Stop()
		for {
			select {
			case <-l.wake:
			case <-next.C:
			case <-l.life.Done():
				return
			}
			next.Reset(serve(l.life))
		}
	}()
}

// stop wakes every waiter with nothing; the channel closes when the goroutine has ended.
func (l *line) stop() <-chan struct{} {
	l.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for l.waiting.Len() > 0 {
		w, _ := l.waiting.Remove(l.waiting.Front()).(*waiter)
		close(w.lease)
	}
	if l.ended == nil {
		never := make(chan struct{})
		close(never)
		return never
	}
	return l.ended
}

// enter puts a Claim at the end; nil when the line is closed.
func (l *line) enter(w *waiter) *list.Element {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	return l.waiting.PushBack(w)
}

// leave takes a Claim out. A lease that came in the same moment goes back.
func (l *line) leave(place *list.Element, w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case g, ok := <-w.lease:
		if ok {
			l.back = append(l.back, g)
			l.signal()
		}
	default:
		l.waiting.Remove(place)
	}
}

// lengths gives what the oldest waiters want, and what is to go back.
func (l *line) lengths() (ttls []any, back []grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := l.waiting.Front(); e != nil && len(ttls) < claimsAtOnce; e = e.Next() {
		if w, ok := e.Value.(*waiter); ok {
			ttls = append(ttls, micros(w.ttl))
		}
	}
	back, l.back = l.back, nil
	return ttls, back
}

// deal hands leases out, each to the first Claim that wants its length; what finds nobody goes back.
func (l *line) deal(gs []grant, ttls []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, g := range gs {
		want, _ := ttls[i].(int64)
		var taker *list.Element
		for e := l.waiting.Front(); e != nil; e = e.Next() {
			if w, ok := e.Value.(*waiter); ok && micros(w.ttl) == want {
				taker = e
				break
			}
		}
		if taker == nil {
			l.back = append(l.back, g)
			l.signal()
			continue
		}
		w, _ := l.waiting.Remove(taker).(*waiter)
		w.lease <- g
	}
}

// Claim waits for a thread, as store.Queue says. While the server is away it waits on.
func (s *Store) Claim(ctx context.Context, ttl time.Duration) (store.Lease, error) {
	if ttl <= 0 {
		return store.Lease{}, fmt.Errorf("claim thread for %s: the lease must last longer than nothing", ttl)
	}
	if err := ctx.Err(); err != nil {
		return store.Lease{}, err
	}
	w := &waiter{ttl, make(chan grant, 1)}
	place := s.line.enter(w)
	if place == nil {
		return store.Lease{}, fmt.Errorf("claim thread: %w", store.ErrClosed)
	}
	s.line.signal()
	select {
	case g, ok := <-w.lease:
		if !ok {
			return store.Lease{}, fmt.Errorf("claim thread: %w", store.ErrClosed)
		}
		return g.Lease, nil
	case <-ctx.Done():
		s.line.leave(place, w)
		return store.Lease{}, ctx.Err()
	}
}

// serve gives back what nobody wants, claims for those who wait, and says when to look again.
func (s *Store) serve(ctx context.Context) time.Duration {
	for {
		ttls, back := s.line.lengths()
		if len(back) > 0 {
			s.giveBack(ctx, back)
		}
		if len(ttls) == 0 {
			return pollAtLeast
		}
		reply, err := s.run(ctx, s.scripts.claim, nil, append([]any{len(ttls)}, ttls...))
		if err != nil {
			return pollAtLeast // it has had its patience; other calls say what is wrong
		}
		var gs []grant
		for i := 1; i+2 < len(reply); i += 3 {
			epoch, err := strconv.ParseInt(text(reply, i+1), 10, 64)
			if err != nil {
				return pollAtLeast
			}
			g := grant{store.Lease{Thread: text(reply, i), Epoch: epoch}, text(reply, i+2)}
			s.hold(g.Lease)
			gs = append(gs, g)
		}
		s.line.deal(gs, ttls)
		if len(gs) == len(ttls) {
			continue // there may be more threads, and more waiters
		}
		runs, err := strconv.ParseInt(text(reply, 0), 10, 64)
		if err != nil || runs < 0 {
			return pollAtLeast
		}
		return min(pollAtLeast, time.Duration(runs)*time.Microsecond+time.Millisecond)
	}
}

// giveBack returns leases to their former places. Where it does not succeed, they expire.
func (s *Store) giveBack(ctx context.Context, gs []grant) {
	args := []any{0, len(gs)}
	for _, g := range gs {
		args = append(args, g.Thread, g.Epoch, g.place)
		s.forget(g.Lease)
	}
	_, _ = s.run(ctx, s.scripts.release, nil, args)
}

// listener hears of threads that have become ready, on a connection of its own.
type listener struct {
	client  *goredis.Client
	channel string
	heard   func()
	life    context.Context //nolint:containedctx // the goroutine's own, ended by stop
	end     context.CancelFunc
	ended   chan struct{} // closed when the goroutine has ended; nil when it never began
}

func newListener(p *pool, channel string, heard func()) *listener {
	l := &listener{channel: channel, heard: heard}
	l.life, l.end = context.WithCancel(context.Background())
	o := p.options()
	dial := goredis.NewDialer(o)
	o.Dialer = severing(l.life, dial)
	o.PoolSize = 1
	l.client = goredis.NewClient(o)
	return l
}

func (l *listener) start() {
	l.ended = make(chan struct{})
	go func() {
		defer close(l.ended)
		for l.life.Err() == nil {
			l.listen()
			l.heard() // what was said meanwhile is lost: look
			select {
			case <-time.After(pollAtLeast / 4):
			case <-l.life.Done():
			}
		}
	}()
}

// silence is how long nothing may be heard before the connection is tried; as long again, and it is given up.
const silence = 5 * time.Second

// listen subscribes and hears until the connection fails.
func (l *listener) listen() {
	sub := l.client.Subscribe(l.life, l.channel)
	defer func() { _ = sub.Close() }() // it fails only if the connection is gone already
	tried := false
	for {
		message, err := sub.ReceiveTimeout(l.life, silence)
		switch {
		case l.life.Err() != nil:
			return
		case err == nil:
			tried = false
			if _, pong := message.(*goredis.Pong); !pong {
				l.heard()
			}
		case timedOut(err) && !tried && sub.Ping(l.life) == nil:
			tried = true
		default:
			return
		}
	}
}

// stop ends the listening at once, whatever the server does.
func (l *listener) stop() {
	l.end()
	if l.ended != nil {
		<-l.ended
	}
	_ = l.client.Close() // its connections are gone already
}

func timedOut(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && t.Timeout()
}
