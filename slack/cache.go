package slack

import (
	"context"
	"errors"
	"sync"
	"time"
)

// cache remembers answers for a while, and asks once for all that wait for the same one. It is bounded. Its zero value
// wants only a clock.
type cache[V any] struct {
	now  func() time.Time
	mu   sync.Mutex
	kept map[string]*answerOf[V]
}

// answerOf is an answer, or the wait for one.
type answerOf[V any] struct {
	done  chan struct{} // closed when there is an answer; nil for one that was put
	value V
	err   error
	left  bool // whoever asked gave up before there was an answer, or had no patience for Slack's limits
	until time.Time
}

// get gives the answer for a key, asking for it where there is none. ask says how long its answer may be believed; errors
// are not kept. Whoever asks first does so for the others too, and if their context ends somebody else takes over.
func (c *cache[V]) get(ctx context.Context, key string, ask func(context.Context) (V, time.Duration, error)) (V, error) {
	for {
		a, mine := c.join(key)
		if mine {
			return c.fill(ctx, key, a, ask)
		}
		if a.done != nil {
			select {
			case <-a.done:
			case <-ctx.Done():
				var none V
				return none, context.Cause(ctx)
			}
		}
		if a.left && ctx.Err() == nil {
			continue
		}
		return a.value, a.err
	}
}

// join gives the answer, or the wait for it; mine means that the caller must ask.
func (c *cache[V]) join(key string) (a *answerOf[V], mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a = c.kept[key]; a != nil && (a.waiting() || a.until.After(c.now())) {
		return a, false
	}
	a = &answerOf[V]{done: make(chan struct{})}
	c.room()
	c.kept[key] = a
	return a, true
}

func (c *cache[V]) fill(ctx context.Context, key string, a *answerOf[V], ask func(context.Context) (V, time.Duration, error)) (V, error) {
	finished := false
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !finished { // a panic on its way: nobody may wait for ever
			a.err = errors.New("the question broke off")
		}
		if a.err != nil && c.kept[key] == a {
			delete(c.kept, key)
		}
		close(a.done)
	}()
	value, keep, err := ask(ctx)
	a.value, a.err, a.until = value, err, c.now().Add(keep)
	a.left = err != nil && (ctx.Err() != nil || errors.Is(err, errBusy))
	finished = true
	return value, err
}

func (a *answerOf[V]) waiting() bool {
	if a.done == nil {
		return false
	}
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

// peek gives what is at hand, without asking.
func (c *cache[V]) peek(key string) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.kept[key]; a != nil && !a.waiting() && a.err == nil && a.until.After(c.now()) {
		return a.value, true
	}
	var none V
	return none, false
}

// put remembers something that nobody asked for.
func (c *cache[V]) put(key string, value V, keep time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room()
	c.kept[key] = &answerOf[V]{value: value, until: c.now().Add(keep)}
}

// room makes room for one more: first by what is out of date, then by whatever comes first.
func (c *cache[V]) room() {
	if c.kept == nil {
		c.kept = map[string]*answerOf[V]{}
	}
	if len(c.kept) < mostKnown {
		return
	}
	now := c.now()
	for k, a := range c.kept {
		if !a.waiting() && !a.until.After(now) {
			delete(c.kept, k)
		}
	}
	for k, a := range c.kept {
		if len(c.kept) < mostKnown*9/10 {
			return
		}
		if !a.waiting() {
			delete(c.kept, k)
		}
	}
}
