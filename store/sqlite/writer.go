package sqlite

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"switchboard/store"
)

// The most batches in one transaction. It bounds how long the first of them waits for the last.
const groupAtMost = 256

// Streams whose last number the writer remembers. When there are more it forgets them all and reads again.
const seqsAtMost = 4096

// The ways of a request. Only the writer moves it to taken, only its caller to withdrawn.
const (
	waiting int32 = iota
	taken
	withdrawn
)

// request is a batch, or one step of a sweep, on its way through the writer.
type request struct {
	batch store.Batch
	sweep statement // one of the sweep statements, or zero

	way   atomic.Int32
	done  chan struct{} // closed when the fields below are set
	fresh int           // how many of batch.Push were new
	swept int
	err   error
}

func newRequest(b store.Batch) *request { return &request{batch: b, done: make(chan struct{})} }

// group is what one transaction has done so far to the queue's state; queue.done makes it true or forgets it.
type group struct {
	held     []*thread
	acked    map[int64]bool // by row
	released map[*thread]bool
	pushed   []item
	wrote    int64 // batches that changed something
}

// writer is the only one who writes to the file.
type writer struct {
	conn  *conn
	path  string
	now   func() time.Time
	queue *queue

	commits atomic.Int64
	batches atomic.Int64

	mu     sync.Mutex
	line   []*request
	closed bool
	wake   chan struct{} // holds one token when there is something to do
	ended  chan struct{} // closed when the goroutine has ended; nil when it never began

	// Only for the goroutine.
	items   int64            // the last item's row
	streams int64            // the last stream's number
	saved   int64            // the sum of refusals that the file has
	seqs    map[string]int64 // the last seq of streams written lately, true inside the open transaction
}

func newWriter(c *conn, path string, now func() time.Time) *writer {
	return &writer{conn: c, path: path, now: now, wake: make(chan struct{}, 1), seqs: map[string]int64{}}
}

// load brings the state that is kept in memory up to the file.
func (w *writer) load() error {
	stmt, err := w.conn.raw.Prepare("SELECT id, key, thread, body FROM items ORDER BY id")
	if err != nil {
		return err
	}
	var items []item
	err = w.conn.each(stmt, nil, 4, func(row []driver.Value) error {
		id, ok1 := row[0].(int64)
		key, ok2 := row[1].(string)
		thread, ok3 := row[2].(string)
		body, ok4 := row[3].([]byte)
		if !ok1 || !ok2 || !ok3 || !ok4 && row[3] != nil {
			return fmt.Errorf("load item %v: a column is of the wrong kind", row[0])
		}
		items = append(items, item{store.Item{Key: key, Thread: thread, Body: bytes.Clone(body)}, id})
		w.items = id
		return nil
	})
	if err = errors.Join(err, stmt.Close()); err != nil {
		return err
	}
	w.queue.restore(items)
	if w.streams, err = w.conn.number("SELECT coalesce(max(id), 0) FROM streams"); err != nil {
		return err
	}
	w.saved, err = w.conn.number("SELECT coalesce(max(value), 0) FROM meta WHERE name = 'stale'")
	w.queue.stale = w.saved
	return err
}

func (w *writer) start() {
	w.ended = make(chan struct{})
	go w.work()
}

// stop refuses new requests and returns when those in the line are done and the refusals are saved.
func (w *writer) stop() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.signal()
	if w.ended == nil {
		return nil
	}
	<-w.ended
	if n, _ := w.queue.refusals(); n != w.saved {
		if _, err := w.conn.exec(saveStale, n); err != nil {
			return explain("write store", w.path, err)
		}
	}
	return nil
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// submit hands a request in and waits until it is durable or refused. When the context ends first the request is withdrawn,
// if the writer has not taken it; if it has, the answer is a disk's moment away and is waited for, so that a caller always
// knows whether its batch was written.
func (w *writer) submit(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return fmt.Errorf("write store %s: %w", w.path, store.ErrClosed)
	}
	w.line = append(w.line, r)
	w.mu.Unlock()
	w.signal()
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.way.CompareAndSwap(waiting, withdrawn) {
			return ctx.Err()
		}
		<-r.done
	}
	return r.err
}

func (w *writer) work() {
	defer close(w.ended)
	for range w.wake {
		for {
			rs, last := w.take()
			if len(rs) > 0 {
				w.answer(rs)
				continue
			}
			if last {
				return
			}
			break
		}
	}
}

// take gives the requests that wait, as many as a group holds, and says whether none will come any more.
func (w *writer) take() (rs []*request, last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.line) > 0 && len(rs) < groupAtMost {
		if r := w.line[0]; r.way.CompareAndSwap(waiting, taken) {
			rs = append(rs, r)
		}
		w.line[0] = nil
		w.line = w.line[1:]
	}
	return rs, w.closed && len(w.line) == 0
}

// answer writes the requests in one transaction. If the disk refuses that, each gets its own, so that one that is too
// large does not take the others with it.
func (w *writer) answer(rs []*request) {
	err := w.write(rs)
	if err != nil && len(rs) > 1 {
		for _, r := range rs {
			w.answer([]*request{r})
		}
		return
	}
	for _, r := range rs {
		if err != nil {
			r.err = explain("write store", w.path, err)
		}
		w.queue.refused(r.err)
		close(r.done)
	}
}

// write makes one durable step of all requests but those that are refused; these have their err set. An error means that
// nothing was written.
func (w *writer) write(rs []*request) error {
	g := &group{acked: map[int64]bool{}, released: map[*thread]bool{}}
	if len(w.seqs) > seqsAtMost {
		clear(w.seqs)
	}
	if _, err := w.conn.exec(begin); err != nil {
		return err
	}
	refusals, err := w.transact(rs, g)
	if err != nil {
		clear(w.seqs)
		w.queue.done(g, false)
		return errors.Join(err, w.conn.undo())
	}
	w.saved = refusals
	if g.wrote > 0 {
		w.commits.Add(1)
		w.batches.Add(g.wrote)
	}
	w.queue.done(g, true)
	return nil
}

// transact fills the open transaction and commits it. refusals is the sum that the file has then.
func (w *writer) transact(rs []*request, g *group) (refusals int64, err error) {
	for _, r := range rs {
		var err error
		if r.sweep != 0 {
			err = w.sweep(r, g)
		} else {
			r.err, err = w.batch(r, g)
		}
		if err != nil {
			return 0, err
		}
	}
	refusals = w.saved
	if n, _ := w.queue.refusals(); g.wrote > 0 && n != w.saved { // on its own it is not worth a sync of the disk
		refusals = n
		if _, err := w.conn.exec(saveStale, n); err != nil {
			return 0, err
		}
	}
	_, err = w.conn.exec(commit)
	return refusals, err
}

func (w *writer) sweep(r *request, g *group) error {
	before := w.now()
	if r.sweep == sweepClaims {
		before = before.Add(-store.ClaimLife)
	}
	n, err := w.conn.exec(r.sweep, before.UnixNano(), int64(sweepAtOnce))
	r.swept = int(n)
	if n > 0 {
		g.wrote++
	}
	return err
}
