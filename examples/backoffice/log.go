package backoffice

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// maxLog and maxLogBytes bound the request log, by its entries and by the bytes of their bodies; the oldest go first.
const (
	maxLog      = 10_000
	maxLogBytes = 64 << 20
)

// Request is one entry of the request log: what reached the server, as it came.
type Request struct {
	Method   string
	Path     string // without escapes and query
	URI      string // the request target, byte for byte
	Body     string // byte for byte; "" when the token was wrong or the body too large
	Org      string // the organisation or the shop; "" when the request was refused before it was known
	Key      string // the Idempotency-Key
	Status   int    // 0 when it was never answered
	Fault    Kind   // "" when nothing went wrong on purpose
	Replayed bool   // the recorded answer to the same key was given again
}

type requestLog struct {
	mu      sync.Mutex
	entries []Request
	bytes   int           // of all bodies
	grown   chan struct{} // closed at the next entry; nil while nobody waits
}

func (l *requestLog) add(r Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes += len(r.Body)
	for len(l.entries) > 0 && (len(l.entries) >= maxLog || l.bytes > maxLogBytes) {
		old := l.entries[:(len(l.entries)+9)/10]
		for _, e := range old {
			l.bytes -= len(e.Body)
		}
		l.entries = slices.Delete(l.entries, 0, len(old))
	}
	l.entries = append(l.entries, r)
	if l.grown != nil {
		close(l.grown)
		l.grown = nil
	}
}

// look gives a copy of the entries and a channel that is closed when there is another one.
func (l *requestLog) look() ([]Request, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grown == nil {
		l.grown = make(chan struct{})
	}
	return slices.Clone(l.entries), l.grown
}

// clear forgets all entries.
func (l *requestLog) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries, l.bytes = nil, 0
}

// Requests gives the request log, oldest first: the last 9,000 to 10,000 requests, fewer when they were large. An entry stands there before its answer is sent, and
// for a write that is never answered, after its commit.
func (s *Server) Requests() []Request {
	entries, _ := s.log.look()
	return entries
}

// Await waits until a request satisfies the condition, and gives it. It also finds requests of before the call.
func (s *Server) Await(ctx context.Context, is func(Request) bool) (Request, error) {
	for {
		entries, grown := s.log.look()
		if i := slices.IndexFunc(entries, is); i >= 0 {
			return entries[i], nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return Request{}, fmt.Errorf("await a request among %d: %w", len(entries), context.Cause(ctx))
		}
	}
}
