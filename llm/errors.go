package llm

import (
	"fmt"
	"time"
)

// Reason is why a model did not answer. Callers branch on it; people never see it raw.
type Reason string

// The reasons. RateLimited, Overloaded, Network, Empty and CutShort are transient and have been retried already.
const (
	RateLimited    Reason = "rate_limited" // Wait says how long, when the server did
	Overloaded     Reason = "overloaded"
	Network        Reason = "network"
	Empty          Reason = "empty"     // neither text nor a call
	CutShort       Reason = "cut_short" // the connection or the body ended too early
	Timeout        Reason = "timeout"   // the attempt's own limit, not the caller's context
	ContextTooLong Reason = "context_too_long"
	Auth           Reason = "auth"
	Quota          Reason = "quota" // the account has no money left: no retry helps
	BadRequest     Reason = "bad_request"
	Declined       Reason = "declined"  // the provider's policy refused to answer
	NoScript       Reason = "no_script" // offline: no rehearsal fits
)

// Error is a model call that failed for good: what could be retried has been.
type Error struct {
	Reason   Reason
	Model    string // provider/id
	Status   int    // HTTP status, 0 when there was none
	Detail   string // the provider's words, scrubbed of keys; for admins only
	Wait     time.Duration
	Attempts int
	Usage    Usage // of attempts that were paid for all the same
	Released bool  // the last attempt had given text to OnText already, so it was not made again
	Err      error
}

// Error says verb, noun, place; the detail is for logs.
func (e *Error) Error() string {
	s := fmt.Sprintf("ask model %s: %s", e.Model, e.Reason)
	if e.Status != 0 {
		s += fmt.Sprintf(" (HTTP %d)", e.Status)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }
