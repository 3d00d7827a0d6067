// Package redis keeps a bot's durable state in one Redis server, for any number of processes that work side by side.
//
// Every write is one script, which the server runs alone and whole. It carries an id of its own: a script that has run leaves
// its answer behind under that id for a while, so that a call whose reply was lost is sent again and is told what it was told
// the first time. Leases are fenced by epochs that are checked in the same script as the write, and all times are the
// server's. What is written is as durable as the server's append-only file is set to make it; Promise says how much that is.
//
// The package must not know what the bytes mean, and nothing outside it knows that there are scripts.
package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"switchboard/store"
)

// ErrInDoubt says that the server took a write and did not tell how it ended, for as long as the call was willing to ask. It
// may or may not have been written. Every other error of a write means that it was not.
var ErrInDoubt = errors.New("the server did not say whether it was written")

// Options say whose store it is and how much patience its callers have.
type Options struct {
	// Name is the bot's, at most 100 bytes, without braces, spaces and control characters. Processes with one name share one
	// store; names keep bots apart on one server.
	Name string
	// AllowLoss opens a server without an append-only file all the same. When it ends, all since its last snapshot is lost.
	AllowLoss bool
	// Connections is how many may be open for writes, and how many for reads. 0: 32.
	Connections int
	// Patience is how long a call asks a server that is away, loading or silent, if its context lets it. 0: 15 s. At most one
	// minute, well under the two for which the server remembers answers.
	Patience time.Duration
}

// Store is a working process's store. It is safe for use by many goroutines at once.
type Store struct {
	*Reader
	writes *pool
	line   *line
	wakes  *listener

	mu   sync.Mutex
	held map[string]store.Lease // what this process holds, by thread, to give back at Close

	close  sync.Once
	closed error // what Close answers
}

var _ store.Store = (*Store)(nil)

// markLife is how long the server remembers the answer to a write.
const markLife = 2 * time.Minute

// Open opens the store of o.Name on the server at address, "redis://[user:password@]host:port/db" or rediss:// for TLS, for
// work. It refuses servers older than 7.0, clusters, replicas, servers that evict keys, and such without an append-only file
// unless o.AllowLoss says otherwise. Other processes may work on the same store.
func Open(ctx context.Context, address string, o Options) (*Store, error) {
	r, err := newReader(address, o)
	if err != nil {
		return nil, err
	}
	s := &Store{Reader: r, held: map[string]store.Lease{}}
	s.writes = r.reads.sibling()
	s.line = newLine()
	s.wakes = newListener(r.reads, r.keys.meta(), s.line.signal)
	if err := s.open(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close()) //nolint:contextcheck // it closes although the context may have ended
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, o Options) error {
	facts, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	if err := facts.fit(s.reads.place, o.AllowLoss); err != nil {
		return err
	}
	s.promise = facts.promise()
	if err := s.adopt(ctx); err != nil {
		return err
	}
	// Both live until Close.
	s.wakes.start()
	s.line.start(s.serve)
	return nil
}

// Push claims the item's key and appends the item, as store.Queue says.
func (s *Store) Push(ctx context.Context, it store.Item) (fresh bool, err error) {
	n, err := s.write(ctx, store.Batch{Push: []store.Item{it}})
	return n > 0, err
}

// Commit writes the batch, as store.Committer says, or answers ErrInDoubt. Once the batch is under way an ended context does
// not stop it at once: the call first finds out how it ended, for a second at most.
func (s *Store) Commit(ctx context.Context, b store.Batch) error {
	_, err := s.write(ctx, b)
	return err
}

// write runs a batch and says how many of its items were new.
func (s *Store) write(ctx context.Context, b store.Batch) (fresh int64, err error) {
	if err := check(&b); err != nil {
		return 0, err
	}
	keys, args := s.keys.batch(&b)
	reply, err := s.mutate(ctx, s.scripts.commit, keys, args)
	if err != nil {
		return 0, fmt.Errorf("write store %s: %w", s.reads.place, err)
	}
	switch verdict, key := text(reply, 0), text(reply, 1); verdict {
	case "ok":
		if b.Release {
			s.forget(*b.Lease)
		}
		fresh, _ = reply[1].(int64)
		if fresh > 0 || b.Release {
			s.line.signal()
		}
		return fresh, nil
	case "stale":
		s.forget(*b.Lease)
		return 0, lost("commit batch for", *b.Lease)
	case "ack":
		return 0, fmt.Errorf("ack item %q: it does not wait in thread %q", key, b.Lease.Thread)
	case "conflict":
		return 0, fmt.Errorf("put record %q at version %s: %w", key, text(reply, 2), store.ErrConflict)
	case "overflow":
		return 0, fmt.Errorf("add to counter %q: the sum does not fit into 64 bits; begin another counter", key)
	default:
		return 0, fmt.Errorf("write store %s: unknown answer %q", s.reads.place, verdict)
	}
}

// check refuses batches that no state of the store could make right.
func check(b *store.Batch) error {
	if b.Lease == nil && (len(b.Ack) > 0 || b.Release) {
		return errors.New("commit batch: it acks or releases without a lease; name the lease of the thread")
	}
	for _, p := range b.Puts {
		if p.Key == "" || p.Version < 0 {
			return fmt.Errorf("put record %q at version %d: a record needs a key and a version that is not negative", p.Key, p.Version)
		}
	}
	for _, e := range b.Events {
		if e.Stream == "" || e.Kind == "" {
			return fmt.Errorf("append event %q to stream %q: an event needs a stream and a kind", e.Kind, e.Stream)
		}
	}
	for _, c := range b.Contents {
		if c.Key == "" {
			return errors.New("store content: it needs a key")
		}
	}
	for _, a := range b.Adds {
		if a.Key == "" {
			return errors.New("add to counter: it needs a key")
		}
	}
	for _, it := range b.Push {
		if it.Key == "" || it.Thread == "" {
			return fmt.Errorf("push item %q to thread %q: an item needs a key and a thread", it.Key, it.Thread)
		}
	}
	return nil
}

// Items lists what waits in the leased thread, oldest first; store.ErrStale when the lease is lost.
func (s *Store) Items(ctx context.Context, l store.Lease) ([]store.Item, error) {
	reply, err := s.look(ctx, s.scripts.items,
		[]string{s.keys.leases(), s.keys.epochs(), s.keys.thread(l.Thread), s.keys.bodies()}, l.Thread, l.Epoch)
	if err != nil {
		return nil, err
	}
	if text(reply, 0) == "stale" {
		return nil, lost("list items of", l)
	}
	out := make([]store.Item, 0, len(reply)/2)
	for i := 1; i+1 < len(reply); i += 2 {
		out = append(out, store.Item{Key: text(reply, i), Thread: l.Thread, Body: []byte(text(reply, i+1))})
	}
	return out, nil
}

// Renew extends the lease to ttl from now, by the server's clock.
func (s *Store) Renew(ctx context.Context, l store.Lease, ttl time.Duration) error {
	if ttl <= 0 {
		return fmt.Errorf("renew lease on thread %q for %s: the lease must last longer than nothing", l.Thread, ttl)
	}
	reply, err := s.mutate(ctx, s.scripts.renew, nil, []any{l.Thread, l.Epoch, micros(ttl)})
	if err != nil {
		return fmt.Errorf("renew lease on thread %q at %s: %w", l.Thread, s.reads.place, err)
	}
	if text(reply, 0) == "stale" {
		s.forget(l)
		return lost("renew lease on", l)
	}
	return nil
}

// releaseWithin bounds a Release while the server is away: the lease will expire as well.
const releaseWithin = 3 * time.Second

// Release gives the thread back. It works with an ended context too, so that a worker that is being stopped can still hand
// back what it holds.
func (s *Store) Release(ctx context.Context, l store.Lease) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
	defer cancel()
	reply, err := s.mutate(ctx, s.scripts.release, nil, []any{1, 1, l.Thread, l.Epoch, ""})
	if err != nil {
		return fmt.Errorf("release thread %q at %s: %w", l.Thread, s.reads.place, err)
	}
	s.forget(l)
	if text(reply, 0) == "stale" {
		return lost("release", l)
	}
	s.line.signal()
	return nil
}

// sweepAtOnce is how many entries one script of a sweep looks at: the server does nothing else meanwhile.
const sweepAtOnce = 500

// Sweep deletes what is past its time, a few hundred entries a script. Processes may sweep at the same time.
func (s *Store) Sweep(ctx context.Context) (int, error) {
	total := 0
	for _, kind := range []string{"contents", "counters", "claims"} {
		for skip := int64(0); ; {
			reply, err := s.mutate(ctx, s.scripts.sweep, nil, []any{kind, sweepAtOnce, skip, micros(store.ClaimLife)})
			if err != nil {
				return total, fmt.Errorf("sweep store %s: %w", s.reads.place, err)
			}
			went, stayed := number(reply, 0), number(reply, 1)
			total += int(went)
			skip += stayed
			if went+stayed < sweepAtOnce {
				break
			}
		}
	}
	return total, nil
}

// grace is how long Close waits for what is under way, and again for its own last word.
const grace = 400 * time.Millisecond

// Close waits a moment for what is under way, gives back the threads that this process holds, wakes the waiting Claims with
// store.ErrClosed and ends every connection, all within a second, whether the server answers or not. Calls that come later get
// store.ErrClosed. It may be called more than once.
func (s *Store) Close() error {
	s.close.Do(func() {
		quiet, served := s.gate.shut(), s.line.stop()
		s.wakes.stop()
		late := time.NewTimer(grace)
		defer late.Stop()
		answers := true
		for _, done := range []<-chan struct{}{quiet, served} {
			select {
			case <-done:
			case <-late.C:
				answers = false
				late.Reset(0) // for the next one too
			}
		}
		if answers {
			s.giveUp()
		}
		s.closed = errors.Join(s.writes.close(), s.Reader.Close())
		<-served
		<-quiet
	})
	return s.closed
}

// giveUp gives back all that is held. Where it does not succeed, the leases expire.
func (s *Store) giveUp() {
	s.mu.Lock()
	args := []any{0, len(s.held)}
	for _, l := range s.held {
		args = append(args, l.Thread, l.Epoch, "")
	}
	s.mu.Unlock()
	if args[1] == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	_, _ = s.run(ctx, s.scripts.release, nil, args)
}

func (s *Store) hold(l store.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[l.Thread] = l
}

func (s *Store) forget(l store.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[l.Thread] == l {
		delete(s.held, l.Thread)
	}
}

func lost(verb string, l store.Lease) error {
	return fmt.Errorf("%s thread %q, epoch %d: %w", verb, l.Thread, l.Epoch, store.ErrStale)
}
