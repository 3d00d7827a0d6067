package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"switchboard/store"
)

// Connections that read at the same time.
const readersAtMost = 4

// Reader reads a store, beside whoever works on it. It sees every batch that was committed before the call. It is safe
// for use by many goroutines at once.
type Reader struct {
	db     *sql.DB
	path   string
	now    func() time.Time
	closed atomic.Bool

	record, events, streams, content, contents, allContents, counter, waiting, queued,
	under, allRecords, threads, stale *sql.Stmt
}

var _ store.Reader = (*Reader)(nil)

// OpenReader opens the store at path for reading alone. It takes no lock and never creates or changes the store.
func OpenReader(ctx context.Context, path string) (*Reader, error) {
	place, err := resolve(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(place); err != nil {
		return nil, fmt.Errorf("read store %s: %w; it comes into being when the bot first runs", path, err)
	}
	return newReader(ctx, place, path, time.Now)
}

func newReader(ctx context.Context, place, path string, now func() time.Time) (*Reader, error) {
	db, err := sql.Open("sqlite", address(place, "mode=ro&_busy_timeout=5000&_query_only=1"))
	if err != nil {
		return nil, explain("read store", path, err)
	}
	db.SetMaxOpenConns(readersAtMost)
	db.SetMaxIdleConns(readersAtMost)
	r := &Reader{db: db, path: path, now: now}
	if err := r.prepare(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return r, nil
}

func (r *Reader) prepare(ctx context.Context) error {
	var version, id, tables int64
	for query, to := range map[string]*int64{
		"PRAGMA user_version": &version, "PRAGMA application_id": &id, "SELECT count(*) FROM sqlite_schema": &tables,
	} {
		if err := r.db.QueryRowContext(ctx, query).Scan(to); err != nil {
			return explain("read store", r.path, err)
		}
	}
	if err := fits(r.path, version, id, tables); err != nil {
		return err
	}
	if version < int64(len(migrations())) {
		return fmt.Errorf("read store %s: its schema is version %d; start the bot once, it brings the file to version %d",
			r.path, version, len(migrations()))
	}
	for to, query := range map[**sql.Stmt]string{
		&r.record: "SELECT value, version FROM records WHERE key = ?",
		&r.events: "SELECT seq, at, kind, meta FROM events WHERE stream = ? ORDER BY seq",
		&r.streams: `SELECT e.stream, e.seq, e.at, e.kind, e.meta FROM streams s JOIN events e ON e.stream = s.stream AND e.seq = 1
			WHERE s.kind = ? ORDER BY s.id DESC LIMIT ?`,
		&r.content: "SELECT value FROM contents WHERE key = ? AND (until = 0 OR until > ?)",
		&r.contents: `SELECT key, value, until FROM contents WHERE key >= ? AND key < ? AND (until = 0 OR until > ?)
			ORDER BY key`,
		&r.allContents: "SELECT key, value, until FROM contents WHERE key >= ? AND (until = 0 OR until > ?) ORDER BY key",
		&r.under:       "SELECT key, value, version FROM records WHERE key >= ? AND key < ? ORDER BY key",
		&r.allRecords:  "SELECT key, value, version FROM records WHERE key >= ? ORDER BY key",
		&r.threads:     "SELECT thread, count(*) FROM items GROUP BY thread ORDER BY min(id) LIMIT ?",
		&r.stale:       "SELECT coalesce(max(value), 0) FROM meta WHERE name = 'stale'",
		&r.waiting:     "SELECT count(*) FROM items",
		&r.queued:      "SELECT count(*) FROM items WHERE thread = ?", // no index: few items wait, and every push would pay for it
		&r.counter:     "SELECT value FROM counters WHERE key = ? AND (until = 0 OR until > ?)",
	} {
		stmt, err := r.db.PrepareContext(ctx, query)
		if err != nil {
			return explain("read store", r.path, err)
		}
		*to = stmt
	}
	return nil
}

// begin says whether a read may start, and gives it a context that does not end: a read is short, and to watch a context
// costs the driver a goroutine.
func (r *Reader) begin(ctx context.Context) (context.Context, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.closed.Load() {
		return nil, fmt.Errorf("read store %s: %w", r.path, store.ErrClosed)
	}
	return context.WithoutCancel(ctx), nil
}

// fail explains an error, in one form for reads that were caught by Close.
func (r *Reader) fail(err error) error {
	if err != nil && r.closed.Load() {
		return fmt.Errorf("read store %s: %w", r.path, store.ErrClosed)
	}
	return explain("read store", r.path, err)
}

// Get reads a record; Version 0 when there is none.
func (r *Reader) Get(ctx context.Context, key string) (store.Record, error) {
	ctx, err := r.begin(ctx)
	if err != nil {
		return store.Record{}, err
	}
	var rec store.Record
	err = r.record.QueryRowContext(ctx, key).Scan(&rec.Value, &rec.Version)
	if errors.Is(err, sql.ErrNoRows) {
		return store.Record{}, nil
	}
	return rec, r.fail(err)
}

// Under lists the records whose keys begin with the prefix, by key.
func (r *Reader) Under(ctx context.Context, prefix string) ([]store.Named, error) {
	stmt, args := r.allRecords, []any{prefix}
	if end := after(prefix); end != "" {
		stmt, args = r.under, []any{prefix, end}
	}
	return gather(ctx, r, stmt, args, func(rows *sql.Rows) (store.Named, error) {
		var n store.Named
		err := rows.Scan(&n.Key, &n.Value, &n.Version)
		return n, err
	})
}

// Events lists a stream in order.
func (r *Reader) Events(ctx context.Context, stream string) ([]store.Event, error) {
	return gather(ctx, r, r.events, []any{stream}, func(rows *sql.Rows) (store.Event, error) {
		e := store.Event{Stream: stream}
		var at int64
		err := rows.Scan(&e.Seq, &at, &e.Kind, &e.Meta)
		e.At = time.Unix(0, at).UTC()
		return e, err
	})
}

// Streams lists the streams of a kind, newest first, at most limit.
func (r *Reader) Streams(ctx context.Context, kind string, limit int) ([]store.Event, error) {
	return gather(ctx, r, r.streams, []any{kind, max(limit, 0)}, func(rows *sql.Rows) (store.Event, error) {
		var e store.Event
		var at int64
		err := rows.Scan(&e.Stream, &e.Seq, &at, &e.Kind, &e.Meta)
		e.At = time.Unix(0, at).UTC()
		return e, err
	})
}

// Content reads a text, nil when there is none or it is past its time.
func (r *Reader) Content(ctx context.Context, key string) ([]byte, error) {
	ctx, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	var value []byte
	err = r.content.QueryRowContext(ctx, key, r.now().UnixNano()).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return blob(value), r.fail(err)
}

// ContentsUnder lists the texts whose keys begin with the prefix, by key.
func (r *Reader) ContentsUnder(ctx context.Context, prefix string) ([]store.Content, error) {
	stmt, args := r.allContents, []any{prefix, r.now().UnixNano()}
	if end := after(prefix); end != "" {
		stmt, args = r.contents, []any{prefix, end, r.now().UnixNano()}
	}
	return gather(ctx, r, stmt, args, func(rows *sql.Rows) (store.Content, error) {
		var c store.Content
		var until int64
		err := rows.Scan(&c.Key, &c.Value, &until)
		if until != 0 {
			c.Until = time.Unix(0, until).UTC()
		}
		c.Value = blob(c.Value)
		return c, err
	})
}

// Count reads a counter, 0 when there is none or it is past its time.
func (r *Reader) Count(ctx context.Context, key string) (int64, error) {
	ctx, err := r.begin(ctx)
	if err != nil {
		return 0, err
	}
	var n int64
	err = r.counter.QueryRowContext(ctx, key, r.now().UnixNano()).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return n, r.fail(err)
}

// Waiting counts the items that are not acked yet.
func (r *Reader) Waiting(ctx context.Context) (int, error) {
	ctx, err := r.begin(ctx)
	if err != nil {
		return 0, err
	}
	var n int
	err = r.waiting.QueryRowContext(ctx).Scan(&n)
	return n, r.fail(err)
}

// Queued counts the items of one thread that are not acked yet.
func (r *Reader) Queued(ctx context.Context, thread string) (int, error) {
	ctx, err := r.begin(ctx)
	if err != nil {
		return 0, err
	}
	var n int
	err = r.queued.QueryRowContext(ctx, thread).Scan(&n)
	return n, r.fail(err)
}

// Threads lists the threads in which something waits, the one with the oldest item first. Leases live in the memory of the
// process that works on the file, so Epoch and Leased are 0 here.
func (r *Reader) Threads(ctx context.Context, limit int) ([]store.ThreadState, error) {
	return gather(ctx, r, r.threads, []any{max(limit, 0)}, func(rows *sql.Rows) (store.ThreadState, error) {
		var s store.ThreadState
		err := rows.Scan(&s.Thread, &s.Waiting)
		return s, err
	})
}

// Stale counts the writes that were refused because their lease was lost, as of the last commit.
func (r *Reader) Stale(ctx context.Context) (int64, error) {
	ctx, err := r.begin(ctx)
	if err != nil {
		return 0, err
	}
	var n int64
	err = r.stale.QueryRowContext(ctx).Scan(&n)
	return n, r.fail(err)
}

// Close ends the reading. It may be called more than once.
func (r *Reader) Close() error {
	r.closed.Store(true)
	return r.db.Close()
}

// gather runs a query and gathers its rows.
func gather[T any](ctx context.Context, r *Reader, s *sql.Stmt, args []any, scan func(*sql.Rows) (T, error)) (out []T, err error) {
	if ctx, err = r.begin(ctx); err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(ctx, args...)
	if err != nil {
		return nil, r.fail(err)
	}
	defer func() { err = r.fail(errors.Join(err, rows.Err(), rows.Close())) }()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// after is the smallest string that is larger than all those with the prefix; empty when there is none.
func after(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return ""
}
