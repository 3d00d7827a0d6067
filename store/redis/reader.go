package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"switchboard/store"
)

// Reader reads a store, beside those who work on it. It sees every batch that was committed before the call. It is safe for
// use by many goroutines at once.
type Reader struct {
	reads   *pool
	keys    keyspace
	scripts *scripts
	gate    *gate
	clock   func() string // empty: the server's clock; tests put a standing one here
	promise string
	close   sync.Once
	closed  error // what Close answers
}

var _ store.Reader = (*Reader)(nil)

// OpenReader opens the store of o.Name for reading alone. It never writes, so a replica will do, and any durability.
func OpenReader(ctx context.Context, address string, o Options) (*Reader, error) {
	r, err := newReader(address, o)
	if err != nil {
		return nil, err
	}
	if err := r.open(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func newReader(address string, o Options) (*Reader, error) {
	keys, err := newKeyspace(o.Name)
	if err != nil {
		return nil, err
	}
	scripts, err := newScripts()
	if err != nil {
		return nil, err
	}
	p, err := newPool(address, o)
	if err != nil {
		return nil, err
	}
	return &Reader{reads: p, keys: keys, scripts: scripts, gate: newGate(), clock: func() string { return "" }}, nil
}

func (r *Reader) open(ctx context.Context) error {
	facts, err := r.inspect(ctx)
	if err != nil {
		return err
	}
	if err := facts.speak(r.reads.place); err != nil {
		return err
	}
	r.promise = facts.promise()
	version, err := r.version(ctx)
	if err == nil && version == 0 {
		err = fmt.Errorf("read store %s: there is none of this name; it comes into being when the bot first runs", r.reads.place)
	}
	return err
}

// Promise says in one sentence for operators what may be lost, as the server was set when the store was opened.
func (r *Reader) Promise() string { return r.promise }

// read makes calls that only read, as long as the store is open.
func (r *Reader) read(ctx context.Context, call func(context.Context, *goredis.Client) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !r.gate.enter() {
		return fmt.Errorf("read store %s: %w", r.reads.place, store.ErrClosed)
	}
	defer r.gate.leave()
	err := r.reads.try(ctx, false, call)
	if err != nil && !errors.Is(err, goredis.Nil) {
		return fmt.Errorf("read store %s: %w", r.reads.place, err)
	}
	return err
}

// look runs a script that only reads.
func (r *Reader) look(ctx context.Context, script *goredis.Script, keys []string, args ...any) (reply []any, err error) {
	args = append([]any{r.clock()}, args...)
	err = r.read(ctx, func(ctx context.Context, c *goredis.Client) (err error) {
		reply, err = script.RunRO(ctx, c, keys, args...).Slice()
		return err
	})
	if err == nil && len(reply) == 0 {
		err = fmt.Errorf("read store %s: the server's answer is empty", r.reads.place)
	}
	return reply, err
}

// Get reads a record; Version 0 when there is none.
func (r *Reader) Get(ctx context.Context, key string) (store.Record, error) {
	var held []byte
	err := r.read(ctx, func(ctx context.Context, c *goredis.Client) (err error) {
		held, err = c.HGet(ctx, r.keys.records(), key).Bytes()
		return err
	})
	if errors.Is(err, goredis.Nil) {
		return store.Record{}, nil
	}
	if err != nil {
		return store.Record{}, err
	}
	return r.record(key, held)
}

func (r *Reader) record(key string, held []byte) (store.Record, error) {
	version, value, err := r.cut("record "+key, held)
	return store.Record{Value: value, Version: version}, err
}

// cut takes the number off the front of a value.
func (r *Reader) cut(what string, held []byte) (n int64, rest []byte, err error) {
	front, rest, ok := bytes.Cut(held, []byte(":"))
	if n, err = strconv.ParseInt(string(front), 10, 64); !ok || err != nil {
		return 0, nil, fmt.Errorf("read store %s: %s is damaged; restore a backup", r.reads.place, what)
	}
	return n, rest, nil
}

// under lists a hash's fields with the prefix and the server's time.
func (r *Reader) under(ctx context.Context, hash, prefix string) (now time.Time, reply []any, err error) {
	low, high := "-", "+"
	if prefix != "" {
		low = "[" + prefix
	}
	if end := after(prefix); end != "" {
		high = "(" + end
	}
	reply, err = r.look(ctx, r.scripts.under, []string{r.keys.index(hash), hash}, low, high)
	return time.UnixMicro(number(reply, 0)), reply, err
}

// Under lists the records whose keys begin with the prefix, by key.
func (r *Reader) Under(ctx context.Context, prefix string) (out []store.Named, err error) {
	_, reply, err := r.under(ctx, r.keys.records(), prefix)
	for i := 1; i+1 < len(reply) && err == nil; i += 2 {
		n := store.Named{Key: text(reply, i)}
		n.Record, err = r.record(n.Key, []byte(text(reply, i+1)))
		out = append(out, n)
	}
	return out, err
}

// ContentsUnder lists the texts whose keys begin with the prefix, by key.
func (r *Reader) ContentsUnder(ctx context.Context, prefix string) (out []store.Content, err error) {
	now, reply, err := r.under(ctx, r.keys.contents(), prefix)
	for i := 1; i+1 < len(reply) && err == nil; i += 2 {
		var c store.Content
		if c, err = r.content(text(reply, i), text(reply, i+1)); c.Until.IsZero() || c.Until.After(now) {
			out = append(out, c)
		}
	}
	return out, err
}

func (r *Reader) content(key, held string) (store.Content, error) {
	until, value, err := r.cut("content "+key, []byte(held))
	c := store.Content{Key: key, Value: value}
	if until != 0 {
		c.Until = time.Unix(0, until).UTC()
	}
	return c, err
}

// Content reads a text, nil when there is none or it is past its time.
func (r *Reader) Content(ctx context.Context, key string) ([]byte, error) {
	reply, err := r.look(ctx, r.scripts.value, []string{r.keys.contents(), r.keys.contentEnds()}, key)
	if err != nil || number(reply, 3) == 0 {
		return nil, err
	}
	c, err := r.content(key, text(reply, 1))
	if err != nil || !c.Until.IsZero() && !c.Until.After(time.UnixMicro(number(reply, 0))) {
		return nil, err
	}
	return c.Value, nil
}

// Count reads a counter, 0 when there is none or it is past its time.
func (r *Reader) Count(ctx context.Context, key string) (int64, error) {
	reply, err := r.look(ctx, r.scripts.value, []string{r.keys.counters(), r.keys.counterEnds()}, key)
	if err != nil {
		return 0, err
	}
	if end := text(reply, 2); end != "" && number(reply, 2) <= number(reply, 0) {
		return 0, nil
	}
	return number(reply, 1), nil
}

// Events lists a stream in order.
func (r *Reader) Events(ctx context.Context, stream string) ([]store.Event, error) {
	var held []string
	err := r.read(ctx, func(ctx context.Context, c *goredis.Client) (err error) {
		held, err = c.LRange(ctx, r.keys.stream(stream), 0, -1).Result()
		return err
	})
	if err != nil {
		return nil, err
	}
	var out []store.Event
	for i, h := range held {
		e, err := r.event(stream, int64(i+1), h)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// event reads one line of a stream. Streams only grow, so its place is its number.
func (r *Reader) event(stream string, seq int64, held string) (store.Event, error) {
	e := store.Event{Stream: stream, Seq: seq}
	what := "stream " + stream
	at, rest, err := r.cut(what, []byte(held))
	if err != nil {
		return e, err
	}
	size, rest, err := r.cut(what, rest)
	if err != nil || size < 0 || size > int64(len(rest)) {
		return e, fmt.Errorf("read store %s: %s is damaged; restore a backup", r.reads.place, what)
	}
	e.At, e.Kind, e.Meta = time.Unix(0, at).UTC(), string(rest[:size]), rest[size:]
	return e, nil
}

// Streams lists the streams of a kind, newest first, at most limit.
func (r *Reader) Streams(ctx context.Context, kind string, limit int) (out []store.Event, err error) {
	if limit <= 0 {
		return nil, ctx.Err()
	}
	var names, firsts []string
	err = r.read(ctx, func(ctx context.Context, c *goredis.Client) (err error) {
		if names, err = c.LRange(ctx, r.keys.kind(kind), 0, int64(limit)-1).Result(); err != nil || len(names) == 0 {
			return err
		}
		commands, err := c.Pipelined(ctx, func(p goredis.Pipeliner) error {
			for _, name := range names {
				p.LIndex(ctx, r.keys.stream(name), 0)
			}
			return nil
		})
		firsts = nil
		for _, command := range commands {
			if first, ok := command.(*goredis.StringCmd); ok {
				firsts = append(firsts, first.Val())
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		e, err := r.event(name, 1, firsts[i])
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// Waiting counts the items that are not acked yet.
func (r *Reader) Waiting(ctx context.Context) (int, error) {
	var n int64
	err := r.read(ctx, func(ctx context.Context, c *goredis.Client) (err error) {
		n, err = c.HLen(ctx, r.keys.bodies()).Result()
		return err
	})
	return int(n), err
}

// Queued counts the items of one thread that are not acked yet.
func (r *Reader) Queued(ctx context.Context, thread string) (int, error) {
	var n int64
	err := r.read(ctx, func(ctx context.Context, c *goredis.Client) (err error) {
		n, err = c.ZCard(ctx, r.keys.thread(thread)).Result()
		return err
	})
	return int(n), err
}

// Threads lists the threads in which something waits, the one with the oldest item first.
func (r *Reader) Threads(ctx context.Context, limit int) ([]store.ThreadState, error) {
	if limit <= 0 {
		return nil, ctx.Err()
	}
	var names []string
	err := r.read(ctx, func(ctx context.Context, c *goredis.Client) (err error) {
		names, err = c.ZRange(ctx, r.keys.backlog(), 0, int64(limit)-1).Result()
		return err
	})
	if err != nil || len(names) == 0 {
		return nil, err
	}
	keys, args := []string{r.keys.epochs(), r.keys.leases()}, []any{}
	for _, name := range names {
		keys, args = append(keys, r.keys.thread(name)), append(args, name)
	}
	reply, err := r.look(ctx, r.scripts.threads, keys, args...)
	if err != nil {
		return nil, err
	}
	var out []store.ThreadState
	for i, name := range names {
		s := store.ThreadState{Thread: name, Waiting: int(number(reply, 3*i+1)), Epoch: number(reply, 3*i+2)}
		s.Leased = time.Duration(max(number(reply, 3*i+3)-number(reply, 0), 0)) * time.Microsecond
		if s.Waiting > 0 { // else it was emptied between the two questions
			out = append(out, s)
		}
	}
	return out, nil
}

// Stale counts the writes that were ever refused because their lease was lost, by all processes together.
func (r *Reader) Stale(ctx context.Context) (int64, error) {
	return r.field(ctx, "stale")
}

// version is that of the layout of the keys, 0 if there are none yet.
func (r *Reader) version(ctx context.Context) (int64, error) {
	v, err := r.field(ctx, "version")
	if err == nil && v > layout {
		err = fmt.Errorf("open store %s: its layout is version %d and this program knows up to %d; use the newer program",
			r.reads.place, v, layout)
	}
	return v, err
}

func (r *Reader) field(ctx context.Context, name string) (n int64, err error) {
	err = r.read(ctx, func(ctx context.Context, c *goredis.Client) (err error) {
		n, err = c.HGet(ctx, r.keys.meta(), name).Int64()
		return err
	})
	if errors.Is(err, goredis.Nil) {
		return 0, nil
	}
	return n, err
}

// Close ends the reading. It may be called more than once.
func (r *Reader) Close() error {
	r.close.Do(func() {
		quiet := r.gate.shut()
		r.closed = r.reads.close()
		<-quiet // without connections nobody stays long
	})
	return r.closed
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
