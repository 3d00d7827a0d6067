package sqlite

import "switchboard/store"

// Pragma changes how the writer's connection behaves. The store must be idle.
func (s *Store) Pragma(text string) error { return s.writer.conn.run("PRAGMA " + text) }

// GroupTogether hands in batches as one group, whatever the timing, and gives their answers. The store must be idle.
func (s *Store) GroupTogether(rs ...*Request) []error {
	for _, r := range rs {
		r.way.Store(taken)
	}
	s.writer.answer(rs)
	var errs []error
	for _, r := range rs {
		<-r.done
		errs = append(errs, r.err)
	}
	return errs
}

// Request and NewRequest are what GroupTogether takes.
type Request = request

var NewRequest = newRequest

// LockFile is the descriptor that holds the lock.
func (s *Store) LockFile() int { return int(s.lock.file.Fd()) }

// Number asks the writer's connection. The store must be idle.
func (s *Store) Number(query string) (int64, error) { return s.writer.conn.number(query) }

// InLine says how many requests stand in the line.
func (s *Store) InLine() int {
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return len(s.writer.line)
}

// Hold does what the writer does to the queue while a batch is on its way to the disk; done is the disk's answer.
func (s *Store) Hold(b store.Batch) (done func(durable bool), err error) {
	g := &group{acked: map[int64]bool{}, released: map[*thread]bool{}}
	t, ids, err := s.queue.hold(&b, g)
	for _, id := range ids {
		g.acked[id] = true
	}
	if b.Release {
		g.released[t] = true
	}
	return func(durable bool) { s.queue.done(g, durable) }, err
}
