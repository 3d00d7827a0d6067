//go:build soak

package main

import "testing"

// A thousand messages over a hundred threads, and twenty deaths.
func TestSoakKills(t *testing.T) {
	list := kills{seed: 2026, threads: 100, each: 10, deaths: 20}.play(t)
	hold(t, list)
	t.Logf("%d messages, each answered once and in order", len(list))
}
