package sim

import (
	"math"
	"time"
)

// limits are Slack's rate limits, as buckets that fill up with time.
// Slack: https://docs.slack.dev/apis/web-api/rate-limits
type limits struct {
	on      bool
	buckets map[string]*bucket
}

type bucket struct {
	left float64
	at   time.Time
}

// SetLimits switches the rate limits on or off. They are off in a new workspace.
func (w *Workspace) SetLimits(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limits = limits{on: on, buckets: map[string]*bucket{}}
	w.note(Entry{What: Changed, Method: "limits", Body: mustJSON(map[string]bool{"on": on})})
}

// The tiers: calls a minute, of one method, one app and one workspace.
const (
	tier1          = 1
	tier2          = 20
	tier3          = 50
	tier4          = 100
	severalHundred = 600 // "several hundred" for chat.postMessage; 600 for assistant.threads.setStatus
	perPost        = 60  // messages a minute in one channel
	postSize       = 5   // "bursts are tolerated" does not say how many
)

// admit takes a call from its buckets. When one is empty it gives the whole seconds until there is room again.
func (w *Workspace) admit(app, method string, m method, channel string) (wait int) {
	if !w.limits.on {
		return 0
	}
	now := w.o.Now()
	// A tier's burst is its minute's worth; the tiers are "at least so many a minute".
	first := w.limits.of(app+" "+method, now, float64(m.tier), float64(m.tier))
	if first.left < 1 {
		return seconds((1 - first.left) / float64(m.tier) * 60)
	}
	if m.post && channel != "" {
		b := w.limits.of(app+" in "+channel, now, perPost, postSize)
		if b.left < 1 {
			return seconds((1 - b.left) / perPost * 60)
		}
		b.left--
	}
	first.left--
	return 0
}

func seconds(s float64) int { return max(1, int(math.Ceil(s))) }

// of gives a bucket as full as it is by now.
func (l *limits) of(key string, now time.Time, perMinute, size float64) *bucket {
	b := l.buckets[key]
	if b == nil {
		b = &bucket{left: size, at: now}
		l.buckets[key] = b
	}
	b.left = min(size, b.left+now.Sub(b.at).Minutes()*perMinute)
	b.at = now
	return b
}
