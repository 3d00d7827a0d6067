package redis

import (
	"strconv"
	"time"
)

// SetClock puts a clock in the place of the server's. It must come right after Open.
func (s *Store) SetClock(now func() time.Time) {
	s.clock = func() string { return strconv.FormatInt(now().UnixMicro(), 10) }
}

// Wake has the waiting Claims look at the clock.
func (s *Store) Wake() { s.line.signal() }
