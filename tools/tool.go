// Package tools is the tool contract and the one door through which every call goes.
//
// A Tool does the work behind a contract of config; the Dispatcher checks, guards, records and bounds each call of it.
// It must not know models, assistants or surfaces: it gets a call and gives an outcome.
package tools

import (
	"context"
	"fmt"
	"time"
)

// MaxRead is how much of a result is read, in bytes after decompression. What is longer is cut.
const MaxRead = 1 << 20

// Tool does the work behind a contract. Run makes one attempt: retries, rate and timeouts belong to the Dispatcher.
//
// An error is a *Fault. When the caller cancelled the context it also wraps the context's own error. Tools are safe for
// use by many goroutines at once.
type Tool interface {
	Run(ctx context.Context, in Input) (Output, error)
}

// Input is what a tool is given to work on.
type Input struct {
	Args  map[string]any    // checked against the contract, without why, expects and bound names
	Bound map[string]string // values that the runtime binds, by argument name
	Key   string            // idempotency key; "" for none
}

// Output is what a tool gave.
type Output struct {
	Value  any  // a decoded JSON value (integers are int64), or a string
	Size   int  // bytes of the result that were read and kept
	Cut    bool // the body was longer than MaxRead; Value is then its beginning as a string
	Status int  // HTTP status, 0 for tools that have none
}

// FaultKind is why a call failed. Callers branch on it.
type FaultKind string

// The kinds of faults.
const (
	NotFound    FaultKind = "not_found"
	Rejected    FaultKind = "rejected" // the request was understood and refused (4xx, or a redirect)
	Conflict    FaultKind = "conflict"
	RateLimited FaultKind = "rate_limited" // Wait says how long, when the server did
	Unavailable FaultKind = "unavailable"
	Timeout     FaultKind = "timeout"
	Network     FaultKind = "network"
	BadResult   FaultKind = "bad_result" // the tool answered with something that cannot be read
	Panicked    FaultKind = "panicked"
	Internal    FaultKind = "internal" // ours: a call that should not have been made
)

// Fault is a call that failed.
//
// Detail is a sentence that the model and people may read: it holds no URL, no host, no secret and no bound value. Err
// is for errors.Is and errors.As and is not part of the message.
type Fault struct { //nolint:errname // a fault is first of all data for the model, and carries the contract's word
	Kind      FaultKind
	Detail    string
	Status    int           // HTTP status, 0 when there was none
	Maybe     bool          // an effect may have taken place
	Transient bool          // a retry may help
	Wait      time.Duration // how long the server asked us to wait; 0: it did not say
	Err       error
}

// Error gives the kind, the status and the detail, which are safe to log.
func (f *Fault) Error() string {
	if f.Status != 0 {
		return fmt.Sprintf("call failed, %s (HTTP %d): %s", f.Kind, f.Status, f.Detail)
	}
	return fmt.Sprintf("call failed, %s: %s", f.Kind, f.Detail)
}

// Unwrap gives the cause.
func (f *Fault) Unwrap() error { return f.Err }
