// Package storetest is the exam that every store takes: it holds a backend against each promise in package store.
//
// It must not know any backend. A backend's own tests hand it a Harness and cover what is special there: files, servers,
// kills.
package storetest

import (
	"sync"
	"time"
)

// Clock is a clock that stands still until it is moved.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	alarms []*alarm
}

type alarm struct {
	at time.Time
	f  func()
}

// NewClock gives a clock that shows the given time.
func NewClock(now time.Time) *Clock { return &Clock{now: now} }

// Now is what the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc runs f in Advance once the clock has moved by d. One that is due already runs in the next Advance, even by 0.
func (c *Clock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &alarm{c.now.Add(d), f}
	c.alarms = append(c.alarms, a)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.remove(a)
	}
}

func (c *Clock) remove(a *alarm) bool {
	for i, b := range c.alarms {
		if a == b {
			c.alarms = append(c.alarms[:i], c.alarms[i+1:]...)
			return true
		}
	}
	return false
}

// Advance moves the clock and returns when every function that has become due has run.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	c.mu.Unlock()
	for a := c.due(); a != nil; a = c.due() {
		a.f()
	}
}

func (c *Clock) due() *alarm {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.alarms {
		if !a.at.After(c.now) {
			c.remove(a)
			return a
		}
	}
	return nil
}
