//go:build soak

package redis_test

import "time"

// How long the tests with kills and with random steps go on, under the build tag soak.
const (
	checks = "300"
	kills  = 25
	chaos  = 40 * time.Second
)
