//go:build soak

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"switchboard/store/redistest"
)

// A thousand messages over a hundred threads, and twenty deaths.
func TestSoakKills(t *testing.T) {
	list := kills{seed: 2026, threads: 100, each: 10, deaths: 20}.play(t)
	hold(t, list)
	t.Logf("%d messages, each answered once and in order", len(list))
}

// Ten minutes of 25 events a second, while the sockets are cut again and again: every event is acknowledged in time, every
// message is answered, and neither memory nor goroutines grow.
func TestSoakSteady(t *testing.T) {
	const (
		minutes = 10
		every   = 2 * time.Second / 25 // a mention makes two events
	)
	r, err := newRig(t.Context(), rigOptions{
		channels: 200, people: 50, latency: 300 * time.Millisecond, env: []string{childVar + "=1"},
		retry: []time.Duration{0, time.Second, 5 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	if err := r.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var memory, goroutines []int64
	total := int(minutes * time.Minute / every)
	for n := range total {
		<-tick.C
		if err := r.say(n, n); err != nil {
			t.Fatal(err)
		}
		const perHalfMinute = int(30 * time.Second / every)
		switch n % perHalfMinute {
		case perHalfMinute / 2: // between two looks
			r.ws.Cut("")
		case perHalfMinute - 1:
			m, g, err := r.vital(t)
			if err != nil {
				t.Fatal(err)
			}
			memory, goroutines = append(memory, m), append(goroutines, g)
			t.Logf("after %s: %d MB, %d goroutines", time.Duration(n+1)*every, m>>20, g)
		}
	}
	lost, err := r.answered(t.Context(), 0, total)
	if err != nil || lost > 0 {
		t.Errorf("%d of %d messages have no answer: %v\n%s", lost, total, err, r.output)
	}
	waits := acks(r.ws.Log())
	m := measured{Name: "acknowledge"}.of(waits, lost)
	t.Logf("%d events acknowledged, p50 %.1f ms, p99 %.1f ms, max %.1f ms", m.N, m.P50, m.P99, m.Max)
	if m.P99 > 100 || m.Max > 3000 {
		t.Errorf("acknowledgements took %.1f ms in the 99th of a hundred and %.1f ms at most; want 100 and 3000", m.P99, m.Max)
	}
	for what, v := range map[string][]int64{"memory": memory, "goroutines": goroutines} {
		half := len(v) / 2
		early, late := slices.Sorted(slices.Values(v[half/2:half])), slices.Sorted(slices.Values(v[half:]))
		if a, b := early[len(early)/2], late[len(late)/2]; float64(b) > 1.25*float64(a)+20 {
			t.Errorf("%s grew from %d to %d", what, a, b)
		}
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

// vital gives the bot's memory and goroutines now.
func (r *rig) vital(t *testing.T) (memory, goroutines int64, err error) {
	t.Helper()
	_, memory, err = r.memory()
	if err != nil {
		return 0, 0, err
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.output.addr+"/healthz", nil)
	if err != nil {
		return 0, 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, 0, err
	}
	var body struct{ Goroutines int64 }
	err = errors.Join(json.NewDecoder(resp.Body).Decode(&body), resp.Body.Close())
	if resp.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("the bot's health is %s", resp.Status))
	}
	return memory, body.Goroutines, err
}

// A thousand deaths at any moment, while people ask for refunds and talk: half of them on SQLite, half on Redis.
func TestSoakEffectKills(t *testing.T) {
	t.Parallel()
	for n := range uint64(4) {
		t.Run(fmt.Sprintf("world %d", n), func(t *testing.T) {
			t.Parallel()
			var o effectOptions
			if n%2 == 1 {
				o.store = redistest.Start(t).URL()
			}
			killed(t, &storm{seed: 2026 + n, clerks: 6, threads: 4, deaths: 250}, o)
		})
	}
}

// A death at every point of a turn with an effect, on Redis.
func TestSoakEffectPointsOnRedis(t *testing.T) {
	server := redistest.Start(t)
	killAt(t, 8, effectOptions{store: server.URL()}, "refund", pointsOf(errandSteps()))
	killAt(t, 8, effectOptions{store: server.URL()}, "payout", pointsOf(payoutSteps()))
}

// Forty seconds of deaths of replicas and of their Redis, stand-stills beyond the lease, and lost answers.
func TestSoakReplicas(t *testing.T) {
	chaos{seed: 2026, length: 40 * time.Second}.play(t)
}

// Two approvers click at the same time, on two replicas, two hundred times.
func TestSoakTwoClicks(t *testing.T) {
	twoClicks(t, 200)
}
