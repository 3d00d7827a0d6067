// Package sqlite keeps a bot's durable state in one SQLite file, for one working process and any number of commands that
// read beside it.
//
// One goroutine writes. Whatever waits while it syncs the disk goes into the next transaction together, so that many
// callers share one durable commit. Leases live in memory, because only one process can work on the file; a generation
// number in the file, raised at each Open, keeps epochs growing across restarts. Items that wait are held in memory as
// well, so the size of the backlog is bounded by memory.
//
// The package must not know what the bytes mean, and nothing outside it knows that there is SQL.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"switchboard/store"
)

// Options change how a store measures time. The zero value uses the wall clock.
type Options struct {
	// Now is the clock for leases, claims and retention. nil: time.Now.
	Now func() time.Time
	// AfterFunc runs f once d has passed on the same clock and never on the caller's goroutine before it has returned; stop
	// prevents it. nil: time.AfterFunc.
	AfterFunc func(d time.Duration, f func()) (stop func() bool)
}

// Store is the working process's store. It is safe for use by many goroutines at once.
type Store struct {
	*Reader
	lock   *lock
	queue  *queue
	writer *writer
	close  sync.Once
	closed error // what Close answers
}

var _ store.Store = (*Store)(nil)

// Open opens the store at path for work and creates the file, readable by its owner alone, if there is none. It takes the
// lock on PATH.lock, which the kernel frees when the process ends in any way; store.ErrInUse when another process has it.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.AfterFunc == nil {
		o.AfterFunc = func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
	}
	place, err := resolve(path)
	if err != nil {
		return nil, err
	}
	l, err := takeLock(place, path)
	if err != nil {
		return nil, err
	}
	s := &Store{lock: l}
	if err := s.open(ctx, place, path, o); err != nil {
		return nil, errors.Join(err, s.Close()) //nolint:contextcheck // a write is never interrupted
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, place, path string, o Options) error {
	if err := create(place); err != nil {
		return fmt.Errorf("create store %s: %w", path, err)
	}
	c, err := connect(ctx, place)
	if err != nil {
		return explain("open store", path, err)
	}
	s.writer = newWriter(c, path, o.Now)
	generation, err := migrate(c, path) //nolint:contextcheck // a write is never interrupted
	if err != nil {
		return err
	}
	s.queue = newQueue(generation, o)
	s.writer.queue = s.queue
	if err := s.writer.load(); err != nil { //nolint:contextcheck // the writer's connection knows no context
		return explain("open store", path, err)
	}
	s.Reader, err = newReader(ctx, place, path, o.Now)
	if err != nil {
		return err
	}
	s.writer.start() //nolint:contextcheck // it outlives Open, until Close
	return nil
}

// Push claims the item's key and appends the item, as store.Queue says.
func (s *Store) Push(ctx context.Context, it store.Item) (fresh bool, err error) {
	r := newRequest(store.Batch{Push: []store.Item{it}})
	if err := check(&r.batch); err != nil {
		return false, err
	}
	if err := s.writer.submit(ctx, r); err != nil {
		return false, err
	}
	return r.fresh > 0, nil
}

// Commit writes the batch, as store.Committer says.
func (s *Store) Commit(ctx context.Context, b store.Batch) error {
	if err := check(&b); err != nil {
		return err
	}
	return s.writer.submit(ctx, newRequest(b))
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

// Claim waits for a thread, as store.Queue says. It touches no disk.
func (s *Store) Claim(ctx context.Context, ttl time.Duration) (store.Lease, error) {
	return s.queue.claim(ctx, ttl)
}

// Items lists what waits in the leased thread, from memory.
func (s *Store) Items(ctx context.Context, l store.Lease) ([]store.Item, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.queue.list(l)
}

// Queued counts the items of one thread, from memory.
func (s *Store) Queued(ctx context.Context, thread string) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return s.queue.count(thread)
}

// Threads lists the threads in which something waits, the one with the oldest item first, from memory. Epoch is 0 for a
// thread that nobody has claimed since this process opened the store.
func (s *Store) Threads(ctx context.Context, limit int) ([]store.ThreadState, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.queue.states(limit)
}

// Stale counts the writes that were ever refused because their lease was lost, from memory. The file has the sum as of the
// last commit, so a kill forgets the refusals since then.
func (s *Store) Stale(ctx context.Context) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	n, closed := s.queue.refusals()
	if closed {
		return 0, fmt.Errorf("count stale writes: %w", store.ErrClosed)
	}
	return n, nil
}

// Renew extends the lease to ttl from now. It touches no disk.
func (s *Store) Renew(ctx context.Context, l store.Lease, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.queue.renew(l, ttl)
}

// Release gives the thread back. It touches no disk and works with an ended context too, so that a worker that is being
// stopped can still hand back what it holds.
func (s *Store) Release(_ context.Context, l store.Lease) error {
	return s.queue.release(l)
}

// Sweep deletes what is past its time, a few hundred rows a transaction, so that it never holds up the other writers.
func (s *Store) Sweep(ctx context.Context) (int, error) {
	total := 0
	for _, kind := range []statement{sweepContents, sweepCounters, sweepClaims} {
		for {
			r := newRequest(store.Batch{})
			r.sweep = kind
			if err := s.writer.submit(ctx, r); err != nil {
				return total, err
			}
			total += r.swept
			if r.swept < sweepAtOnce {
				break
			}
		}
	}
	return total, nil
}

// Commits says how many durable commits this process has made so far.
func (s *Store) Commits() int64 { return s.writer.commits.Load() }

// Batches says how many batches, pushes among them, those commits carried.
func (s *Store) Batches() int64 { return s.writer.batches.Load() }

// Close writes what was already handed in, wakes the waiting Claims with store.ErrClosed and frees the file. Calls that
// come later get store.ErrClosed. It may be called more than once.
func (s *Store) Close() error {
	s.close.Do(func() {
		var errs []error
		if s.queue != nil {
			s.queue.close()
		}
		if s.writer != nil {
			errs = append(errs, s.writer.stop())
		}
		if s.Reader != nil {
			errs = append(errs, s.Reader.Close())
		}
		if s.writer != nil {
			errs = append(errs, s.writer.conn.close())
		}
		s.closed = errors.Join(append(errs, s.lock.free())...)
	})
	return s.closed
}

// resolve gives the one absolute name of the file, so that two names for it share one lock.
func resolve(path string) (string, error) {
	place, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("open store %s: %w", path, err)
	}
	if info, err := os.Stat(place); err == nil && info.IsDir() {
		return "", fmt.Errorf("open store %s: that is a folder; name a file in it, e.g. bot.db", path)
	}
	if target, err := filepath.EvalSymlinks(place); err == nil {
		return target, nil
	}
	return place, nil // it does not exist yet
}
