package sqlite

import (
	"bytes"
	"fmt"
	"time"

	"switchboard/store"
)

// batch writes one batch into the open transaction. A refused batch has written nothing; a failed one fails the group.
// What can be refused comes first: the lease and the acks, then the records. What follows cannot be.
func (w *writer) batch(r *request, g *group) (refused, failed error) {
	b := &r.batch
	var t *thread
	var acks []int64
	if b.Lease != nil {
		if t, acks, refused = w.queue.hold(b, g); refused != nil {
			return refused, nil
		}
	}
	if refused, failed = w.puts(b.Puts); refused != nil || failed != nil {
		return refused, failed
	}
	if failed = w.events(b.Events); failed != nil {
		return nil, failed
	}
	for _, c := range b.Contents {
		if _, failed = w.conn.exec(putContent, c.Key, stamp(c.Until), blob(c.Value)); failed != nil {
			return nil, failed
		}
	}
	for _, a := range b.Adds {
		if _, failed = w.conn.exec(addCounter, a.Key, stamp(a.Until), a.Delta, w.now().UnixNano()); failed != nil {
			return nil, failed
		}
	}
	for _, id := range acks {
		if _, failed = w.conn.exec(deleteItem, id); failed != nil {
			return nil, failed
		}
		g.acked[id] = true
	}
	r.fresh = 0 // a group that failed may have counted before
	for _, it := range b.Push {
		fresh, err := w.push(it, g)
		if err != nil {
			return nil, err
		}
		if fresh {
			r.fresh++
		}
	}
	if b.Release {
		g.released[t] = true
	}
	if r.fresh+len(acks)+len(b.Puts)+len(b.Events)+len(b.Contents)+len(b.Adds) > 0 {
		g.wrote++
	}
	return nil, nil
}

// puts writes all records or, when one has changed since it was read, none.
func (w *writer) puts(ps []store.Put) (refused, failed error) {
	if len(ps) > 1 {
		if _, failed = w.conn.exec(savepoint); failed != nil {
			return nil, failed
		}
	}
	for _, p := range ps {
		ok, err := w.put(p)
		if err != nil {
			return nil, err
		}
		if !ok {
			refused = fmt.Errorf("put record %q at version %d: %w", p.Key, p.Version, store.ErrConflict)
			break
		}
	}
	if len(ps) > 1 {
		if refused != nil {
			if _, failed = w.conn.exec(undoSavepoint); failed != nil {
				return nil, failed
			}
		}
		_, failed = w.conn.exec(endSavepoint)
	}
	return refused, failed
}

func (w *writer) put(p store.Put) (ok bool, err error) {
	var n int64
	switch {
	case len(p.Value) > 0 && p.Version > 0:
		n, err = w.conn.exec(updateRecord, p.Value, p.Key, p.Version)
	case len(p.Value) > 0:
		n, err = w.conn.exec(insertRecord, p.Key, p.Value)
	case p.Version > 0:
		n, err = w.conn.exec(deleteRecord, p.Key, p.Version)
	default: // delete what must not be there: nothing to do, if that is so
		n, err = w.conn.count(findRecord, p.Key)
		n = 1 - n
	}
	return n == 1, err
}

func (w *writer) events(es []store.Event) error {
	for _, e := range es {
		seq, known := w.seqs[e.Stream]
		if !known {
			var err error
			if seq, err = w.conn.count(lastSeq, e.Stream); err != nil {
				return err
			}
		}
		seq++
		at := e.At
		if at.IsZero() {
			at = w.now()
		}
		if _, err := w.conn.exec(insertEvent, e.Stream, seq, at.UnixNano(), e.Kind, blob(e.Meta)); err != nil {
			return err
		}
		if seq == 1 {
			w.streams++
			if _, err := w.conn.exec(insertStream, e.Kind, w.streams, e.Stream); err != nil {
				return err
			}
		}
		w.seqs[e.Stream] = seq
	}
	return nil
}

func (w *writer) push(it store.Item, g *group) (fresh bool, err error) {
	n, err := w.conn.exec(insertClaim, it.Key, w.now().UnixNano())
	if err != nil || n == 0 {
		return false, err
	}
	w.items++
	if _, err := w.conn.exec(insertItem, w.items, it.Key, it.Thread, blob(it.Body)); err != nil {
		return false, err
	}
	it.Body = bytes.Clone(it.Body)
	g.pushed = append(g.pushed, item{it, w.items})
	return true, nil
}

// stamp is a time as the file has it: nanoseconds, and 0 for never.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// blob keeps empty bytes from becoming NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
