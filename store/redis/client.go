package redis

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"switchboard/store"
)

//go:embed lua
var lua embed.FS

// scripts are the server's part of this package.
type scripts struct {
	commit, claim, renew, release, sweep *goredis.Script
	under, value, items, threads         *goredis.Script
}

func newScripts() (*scripts, error) {
	s := &scripts{}
	for name, to := range map[string]**goredis.Script{
		"write commit": &s.commit, "write claim": &s.claim, "write renew": &s.renew, "write release": &s.release,
		"write sweep": &s.sweep, "read under": &s.under, "read value": &s.value, "read items": &s.items,
		"read threads": &s.threads,
	} {
		var source strings.Builder
		for part := range strings.FieldsSeq(name) {
			b, err := lua.ReadFile("lua/" + part + ".lua")
			if err != nil {
				return nil, err
			}
			source.Write(b)
		}
		*to = goredis.NewScript(source.String())
	}
	return s, nil
}

const (
	// answerWithin is how long a connection may be silent before it is given up, and all others of its pool with it.
	answerWithin = 2 * time.Second
	// certainty is how long after the end of its context a write still asks what became of it.
	certainty = time.Second
)

// pool is a client that is replaced when one of its connections falls silent: the others are as old, and each would cost a
// caller the same wait.
type pool struct {
	options  func() *goredis.Options // makes a set of its own each time: a client keeps and changes what it gets
	place    string                  // the server, for messages, without the password
	patience time.Duration

	mu     sync.Mutex
	client *goredis.Client
	closed bool
}

func newPool(address string, o Options) (*pool, error) {
	if _, err := goredis.ParseURL(address); err != nil { // the error may quote the password
		return nil, errors.New("open store: the address of the Redis server is not valid; write redis://host:port/db, " +
			"with user:password@ before the host if it wants them, rediss:// for TLS")
	}
	// The library would write to the process's standard error in a form of its own. All that it has to say comes back as
	// errors too.
	goredis.SetLogger(&logging.VoidLogger{})
	if o.Connections <= 0 {
		o.Connections = 32
	}
	if o.Patience <= 0 {
		o.Patience = 15 * time.Second
	}
	o.Patience = min(o.Patience, markLife/2)
	options := func() *goredis.Options {
		c, err := goredis.ParseURL(address)
		if err != nil {
			return &goredis.Options{} // it was valid before
		}
		c.Protocol = 2
		c.MaxRetries = -1 // only this package knows what may be sent again
		c.DialerRetries = 1
		c.DialTimeout, c.ReadTimeout, c.WriteTimeout = answerWithin, answerWithin, answerWithin
		c.PoolTimeout = answerWithin
		c.PoolSize, c.PipelinePoolSize = o.Connections, -1
		c.MaxActiveConns = 0
		c.ContextTimeoutEnabled = true
		c.DisableIdentity = true
		c.ClientName = "switchboard"
		c.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		return c
	}
	first := options()
	p := &pool{options: options, place: fmt.Sprintf("%s/%d", first.Addr, first.DB), patience: o.Patience}
	p.client = goredis.NewClient(first)
	return p, nil
}

// sibling gives another pool for the same server.
func (p *pool) sibling() *pool {
	return &pool{options: p.options, place: p.place, patience: p.patience, client: goredis.NewClient(p.options())}
}

func (p *pool) current() *goredis.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	return p.client
}

// replace ends a client that fell silent, unless another caller did.
func (p *pool) replace(old *goredis.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client == old && !p.closed {
		p.client = goredis.NewClient(p.options())
		_ = old.Close() // calls under way on it fail now, and are sent again
	}
}

func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	return p.client.Close()
}

// try makes a call that may safely be made again, until it is answered. A call that must know its end goes on for a moment
// after the context has ended, and says ErrInDoubt where it has learned nothing.
func (p *pool) try(ctx context.Context, certain bool, call func(context.Context, *goredis.Client) error) error {
	base, stop := ctx, time.Now().Add(p.patience)
	if certain {
		base = context.WithoutCancel(ctx)
		if d, ok := ctx.Deadline(); ok && d.Add(certainty).Before(stop) {
			stop = d.Add(certainty)
		}
	}
	var ended time.Time // when the context was first seen to have ended
	doubt := false
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		client := p.current()
		if client == nil {
			return p.unanswered(store.ErrClosed, doubt && certain)
		}
		began := time.Now()
		attempt, cancel := context.WithDeadline(base, stop)
		err := call(attempt, client)
		cancel()
		fate := judge(err)
		if fate == answered {
			return explain(p.place, err)
		}
		doubt = doubt || fate == unknown
		if fate == unknown && time.Since(began) >= answerWithin {
			p.replace(client)
		}
		if ctx.Err() != nil {
			if !certain || !doubt {
				return fmt.Errorf("%w, while the store did not answer: %w", ctx.Err(), explain(p.place, err))
			}
			if ended.IsZero() {
				ended = time.Now()
			}
			if over := ended.Add(certainty); over.Before(stop) {
				stop = over
			}
		}
		pause := time.NewTimer(wait)
		if done := ctx.Done(); ended.IsZero() {
			select {
			case <-pause.C:
			case <-done:
			}
		} else {
			<-pause.C
		}
		pause.Stop()
		if !time.Now().Before(stop) {
			return p.unanswered(explain(p.place, err), doubt && certain)
		}
	}
}

func (p *pool) unanswered(err error, doubt bool) error {
	if doubt {
		return fmt.Errorf("%w: %w", ErrInDoubt, err)
	}
	return err
}

// fate is what is known of a call.
type fate int

const (
	answered fate = iota // by the server: well, or with an error that asking again does not change
	unsent               // surely not run, and worth another try
	unknown              // it may have run
)

// judge says what an error means for its call.
func judge(err error) fate {
	if err == nil {
		return answered
	}
	if reply, ok := errors.AsType[goredis.Error](err); ok {
		for _, passing := range []string{
			"LOADING ", "MASTERDOWN ", "CLUSTERDOWN ", "TRYAGAIN ", "BUSY ", "NOSCRIPT ", "ERR max number of clients",
		} {
			if strings.HasPrefix(reply.Error(), passing) {
				return unsent
			}
		}
		return answered
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return unsent
	}
	if errors.Is(err, goredis.ErrPoolTimeout) || errors.Is(err, goredis.ErrPoolExhausted) || errors.Is(err, goredis.ErrClosed) {
		return unsent
	}
	return unknown
}

// explain adds what to do to an error of the server or of the way to it.
func explain(place string, err error) error {
	if err == nil || errors.Is(err, goredis.Nil) {
		return err
	}
	next := "; is it running, and is the address right?"
	if reply, ok := errors.AsType[goredis.Error](err); ok {
		next = ""
		word, _, _ := strings.Cut(reply.Error(), " ")
		switch word {
		case "LOADING":
			next = "; it still reads its data: wait until it has"
		case "READONLY":
			next = "; this is a replica: name the primary"
		case "MISCONF":
			next = "; it cannot write to its disk: see its log, free some space"
		case "BUSY":
			next = "; a script of somebody holds it up: SCRIPT KILL ends that one"
		case "OOM":
			next = "; its memory is full: raise maxmemory"
		case "NOAUTH", "WRONGPASS", "NOPERM":
			next = "; check the user, the password and the user's rights"
		case "NOREPLICAS":
			next = "; it wants more replicas than it has: start them or lower min-replicas-to-write"
		}
	}
	return fmt.Errorf("redis at %s: %w%s", place, err, next)
}

// mutate runs a script that writes, as long as the store is open. The first keys and arguments are the same for all.
func (s *Store) mutate(ctx context.Context, script *goredis.Script, keys []string, args []any) ([]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !s.gate.enter() {
		return nil, store.ErrClosed
	}
	defer s.gate.leave()
	return s.run(ctx, script, keys, args)
}

func (s *Store) run(ctx context.Context, script *goredis.Script, keys []string, args []any) (reply []any, err error) {
	keys = append(s.keys.fixed(rand.Text()), keys...)
	args = append([]any{s.clock(), markLife.Milliseconds()}, args...)
	err = s.writes.try(ctx, true, func(ctx context.Context, c *goredis.Client) (err error) {
		reply, err = script.Run(ctx, c, keys, args...).Slice()
		return err
	})
	if err == nil && len(reply) == 0 {
		err = errors.New("the server's answer is empty")
	}
	return reply, err
}

// severing makes connections that end with a context: a read on them ends with it too.
func severing(life context.Context, dial func(context.Context, string, string) (net.Conn, error),
) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &severed{c, context.AfterFunc(life, func() { _ = c.Close() })}, nil
	}
}

type severed struct {
	net.Conn
	stop func() bool
}

func (c *severed) Close() error {
	c.stop()
	return c.Conn.Close()
}

// gate lets calls in until it is shut.
type gate struct {
	mu     sync.Mutex
	shutUp bool
	inside int
	empty  chan struct{} // closed when it is shut and nobody is inside
}

func newGate() *gate { return &gate{empty: make(chan struct{})} }

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shutUp {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.shutUp && g.inside == 0 {
		close(g.empty)
	}
}

// shut lets nobody in any more; the channel closes when the last one has left.
func (g *gate) shut() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shutUp {
		g.shutUp = true
		if g.inside == 0 {
			close(g.empty)
		}
	}
	return g.empty
}
