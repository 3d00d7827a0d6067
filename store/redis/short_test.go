//go:build !soak

package redis_test

import "time"

// How long the tests with kills and with random steps go on.
const (
	checks = "20"
	kills  = 3
	chaos  = 6 * time.Second
)
