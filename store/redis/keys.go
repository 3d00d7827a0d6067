package redis

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"switchboard/store"
)

// keyspace names the keys of one bot. All have the same hash tag, so that the server sees that a script's keys belong
// together, and none is made up inside a script.
//
//	meta                   hash    counters of the store itself: item, epoch, ready (the last place in the line), stale, version
//	ready                  zset    threads that can be claimed, by the time since when
//	leases                 zset    threads that somebody has, by the end of the lease
//	epochs                 hash    of the last lease of each thread that has items or a lease
//	backlog                zset    threads with items, by their oldest item
//	bodies                 hash    of the items, by item key
//	claims                 zset    item keys, by the time of their push
//	records, recordkeys    hash    "version:value", and its keys in order
//	contents, contentkeys  hash    "until:value", and its keys in order
//	contentends            zset    content keys, by their end
//	counters, counterends  hash    and zset, by their end
//	thread:T               zset    item keys of one thread, in order
//	stream:S               list    "at:length of kind:kind meta" of each event
//	kind:K                 list    streams that began with this kind, the newest first
//	done:ID                string  the answer that a write had; the only keys that expire
//
// Times are microseconds since 1970, in values also nanoseconds.
type keyspace struct{ prefix string }

func newKeyspace(name string) (keyspace, error) {
	bad := func(r rune) bool { return r <= ' ' || r == '{' || r == '}' || r == 0x7f }
	if name == "" || len(name) > 100 || strings.ContainsFunc(name, bad) {
		return keyspace{}, fmt.Errorf("open store of bot %q: a name has 1 to 100 bytes without braces, spaces and control characters", name)
	}
	return keyspace{"{bot:" + name + "}:"}, nil
}

func (k keyspace) meta() string             { return k.prefix + "meta" }
func (k keyspace) leases() string           { return k.prefix + "leases" }
func (k keyspace) epochs() string           { return k.prefix + "epochs" }
func (k keyspace) backlog() string          { return k.prefix + "backlog" }
func (k keyspace) bodies() string           { return k.prefix + "bodies" }
func (k keyspace) records() string          { return k.prefix + "records" }
func (k keyspace) contents() string         { return k.prefix + "contents" }
func (k keyspace) contentEnds() string      { return k.prefix + "contentends" }
func (k keyspace) counters() string         { return k.prefix + "counters" }
func (k keyspace) counterEnds() string      { return k.prefix + "counterends" }
func (k keyspace) thread(t string) string   { return k.prefix + "thread:" + t }
func (k keyspace) stream(s string) string   { return k.prefix + "stream:" + s }
func (k keyspace) kind(kind string) string  { return k.prefix + "kind:" + kind }
func (k keyspace) index(hash string) string { return strings.TrimSuffix(hash, "s") + "keys" }

// fixed gives the keys that every script that writes has, in the order in which write.lua takes them.
func (k keyspace) fixed(id string) []string {
	return []string{
		k.prefix + "done:" + id, k.meta(), k.prefix + "ready", k.leases(), k.epochs(), k.backlog(), k.bodies(), k.prefix + "claims",
		k.records(), k.index(k.records()), k.contents(), k.index(k.contents()), k.contentEnds(), k.counters(), k.counterEnds(),
	}
}

// batch turns a batch into the keys that follow the fixed ones and the arguments, in the order in which commit.lua takes them.
func (k keyspace) batch(b *store.Batch) (keys []string, args []any) {
	before, places := len(k.fixed("")), map[string]int{}
	place := func(key string) int {
		if places[key] == 0 {
			keys = append(keys, key)
			places[key] = before + len(keys)
		}
		return places[key]
	}
	flag := map[bool]int{true: 1}
	if b.Lease != nil {
		args = append(args, 1, b.Lease.Thread, b.Lease.Epoch, place(k.thread(b.Lease.Thread)), flag[b.Release])
	} else {
		args = append(args, 0, "", 0, 0, 0)
	}
	args = append(args, len(b.Ack))
	for _, key := range b.Ack {
		args = append(args, key)
	}
	args = append(args, len(b.Puts))
	for _, p := range b.Puts {
		args = append(args, p.Key, p.Version, p.Version+1, p.Value)
	}
	args = append(args, len(b.Adds))
	for _, a := range b.Adds {
		args = append(args, a.Key, a.Delta, ends(a.Until))
	}
	args = append(args, len(b.Events))
	for _, e := range b.Events {
		rest := append(fmt.Appendf(nil, "%d:%s", len(e.Kind), e.Kind), e.Meta...)
		args = append(args, e.Stream, place(k.stream(e.Stream)), place(k.kind(e.Kind)), exact(e.At), rest)
	}
	args = append(args, len(b.Contents))
	for _, c := range b.Contents {
		args = append(args, c.Key, exact(c.Until), ends(c.Until), c.Value)
	}
	args = append(args, len(b.Push))
	for _, it := range b.Push {
		args = append(args, it.Key, it.Thread, place(k.thread(it.Thread)), it.Body)
	}
	return keys, args
}

// exact is a time in nanoseconds, 0 for none.
func exact(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// ends is the first microsecond at which the time has come, 0 for never.
func ends(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Add(time.Microsecond - 1).UnixMicro()
}

// micros is a length in microseconds, one at least.
func micros(d time.Duration) int64 { return max(d.Microseconds(), 1) }

// text gives a part of a script's answer.
func text(reply []any, i int) string {
	if i >= len(reply) {
		return ""
	}
	s, _ := reply[i].(string)
	return s
}

// number gives a part of a script's answer that is a number, as such or as text.
func number(reply []any, i int) int64 {
	if i >= len(reply) {
		return 0
	}
	if n, ok := reply[i].(int64); ok {
		return n
	}
	n, err := strconv.ParseInt(text(reply, i), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
