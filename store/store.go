// Package store is where everything that must outlive the process is kept, behind small interfaces: a queue for each
// thread, records with compare-and-set, an append-only log with its content apart, counters.
//
// It must not know what the bytes mean: no turns, no runs, no calls. store/sqlite serves one process, store/redis several;
// both pass the exam in store/storetest.
package store

import (
	"context"
	"errors"
	"time"
)

// What a store may answer instead of doing as told. Callers branch on them with errors.Is.
var (
	// ErrConflict: a record was not at the version that the writer had read. Nothing of the batch was written.
	ErrConflict = errors.New("the record has changed since it was read")
	// ErrStale: the lease has expired or another worker holds the thread now. Nothing of the batch was written.
	ErrStale = errors.New("the lease on this thread is lost")
	// ErrInUse: another process works on the same store.
	ErrInUse = errors.New("another process is working on this store")
	// ErrClosed: the store was closed in this process. Nothing was written.
	ErrClosed = errors.New("the store is closed")
)

// ClaimLife is how long the key of an item stays claimed after its push. The key of an item that still waits stays longer.
const ClaimLife = 7 * 24 * time.Hour

// Item is one message waiting in a thread's queue. Key is unique for ever (claims live seven days).
type Item struct {
	Key    string
	Thread string
	Body   []byte
}

// Lease is a worker's right to one thread until it expires. Every write for the thread carries it, and is refused once
// another epoch has begun.
type Lease struct {
	Thread string
	Epoch  int64
}

// Queue keeps messages in order within a thread and hands each thread to one worker at a time.
type Queue interface {
	// Push claims the item's key and appends the item to its thread, in one durable step. fresh is false, and nothing is
	// appended, when the key was claimed before.
	Push(ctx context.Context, it Item) (fresh bool, err error)
	// Claim waits for a thread that has items and no live lease, the longest waiting first, and leases it for ttl. A thread
	// that is given back, or whose lease expires, goes to the end of the line. The error is the context's or ErrClosed.
	Claim(ctx context.Context, ttl time.Duration) (Lease, error)
	// Items lists what waits in the leased thread, oldest first; ErrStale when the lease is lost. The items stay until a Batch
	// acks them.
	Items(ctx context.Context, l Lease) ([]Item, error)
	// Renew extends the lease; ErrStale when it is lost.
	Renew(ctx context.Context, l Lease, ttl time.Duration) error
	// Release gives the thread back; items that were not acked are claimed again, by this worker or another. ErrStale when
	// the lease is lost.
	Release(ctx context.Context, l Lease) error
}

// Record is a value with the version it was read at. Version 0 means that there is none.
type Record struct {
	Value   []byte
	Version int64
}

// Records reads what Batches put.
type Records interface {
	Get(ctx context.Context, key string) (Record, error)
	// Under lists every record whose key begins with the prefix, by key. It is for few: what is open, not what ever was.
	Under(ctx context.Context, prefix string) ([]Named, error)
}

// Named is a record with its key.
type Named struct {
	Key string
	Record
}

// Event is one line of the log: metadata only, kept for ever. Stream is a run's or a turn's id.
type Event struct {
	Stream string
	Seq    int64     // given by the store, from 1, without gaps in a stream
	At     time.Time // given by the writer; the store puts its own time where it is zero
	Kind   string
	Meta   []byte // JSON, small: ids, names, outcomes, figures; never words of people or models
}

// Log reads what Batches appended.
type Log interface {
	// Events lists a stream in order.
	Events(ctx context.Context, stream string) ([]Event, error)
	// Streams lists the streams whose first event is of this kind, the one that was begun last first: at most limit, each
	// with that first event.
	Streams(ctx context.Context, kind string, limit int) ([]Event, error)
}

// Contents reads the words that belong to records and events, as long as they are kept.
type Contents interface {
	// Content gives nil, without an error, when the key is unknown or its content was deleted by retention.
	Content(ctx context.Context, key string) ([]byte, error)
	// ContentsUnder lists every content whose key begins with the prefix, by key.
	ContentsUnder(ctx context.Context, prefix string) ([]Content, error)
}

// Content is a text kept apart from the log, until Until at the longest. The zero Until keeps it for ever.
type Content struct {
	Key   string
	Value []byte
	Until time.Time
}

// Counters reads what Batches added.
type Counters interface {
	Count(ctx context.Context, key string) (int64, error)
}

// Put writes a record if it still is at Version (0: if there is none yet) and leaves it at Version+1. An empty Value deletes
// it; a key that is used again begins at 1 again.
type Put struct {
	Key     string
	Value   []byte
	Version int64
}

// Add changes a counter; it vanishes at Until, the one of the last Add. The zero Until keeps it for ever.
type Add struct {
	Key   string
	Delta int64
	Until time.Time
}

// Batch is one durable step: all of it is written, or nothing.
type Batch struct {
	Lease    *Lease // nil: the write belongs to no thread
	Puts     []Put
	Events   []Event
	Contents []Content // replaces what the key held
	Adds     []Add
	Push     []Item   // appended as Push does; a key claimed before is left out silently
	Ack      []string // item keys of the leased thread that are finished; one that does not wait there fails the batch
	Release  bool     // give the thread back in the same step
}

// Committer writes batches. Waiting batches of many callers share one commit of the disk.
type Committer interface {
	// Commit returns once the batch is durable. ErrStale, ErrConflict or the context's error: nothing of it was written.
	// The caller must leave the batch alone until Commit has returned.
	Commit(ctx context.Context, b Batch) error
}

// Store is everything that a working process needs. Commands that only read need Reader.
type Store interface {
	Queue
	Committer
	Reader
	// Sweep deletes contents and counters past their Until and claims past their seven days, and says how many went.
	Sweep(ctx context.Context) (int, error)
	Close() error
}

// Backlog says what is still to be done.
type Backlog interface {
	// Waiting counts the items that are not acked yet, in all threads.
	Waiting(ctx context.Context) (int, error)
	// Queued counts the items of one thread that are not acked yet.
	Queued(ctx context.Context, thread string) (int, error)
	// Threads lists the threads in which something waits, the longest waiting first: at most limit.
	Threads(ctx context.Context, limit int) ([]ThreadState, error)
	// Stale counts the writes that were ever refused because their lease was lost.
	Stale(ctx context.Context) (int64, error)
}

// ThreadState is a thread in which something waits.
type ThreadState struct {
	Thread  string
	Waiting int           // items
	Epoch   int64         // of its last lease
	Leased  time.Duration // how long the lease still runs, by the store's clock; 0: nobody has it
}

// Reader is what commands beside a working process use.
type Reader interface {
	Records
	Log
	Contents
	Counters
	Backlog
}
