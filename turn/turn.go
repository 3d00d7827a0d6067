// Package turn is the story of one message: admit it, route it, let an assistant answer it, deliver the answer. It keeps the
// order within a thread, and goes on after a crash from what is on record.
//
// It must not know any surface: a Surface is what it needs of one.
package turn

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"switchboard/assistants"
	"switchboard/chat"
	"switchboard/config"
	"switchboard/journal"
	"switchboard/store"
)

// Surface is where people talk.
type Surface interface {
	// Show tells people what is going on. It is best effort and must not block for long.
	Show(ctx context.Context, p Progress)
	// Post delivers a reply. An error means that it is not known to have arrived.
	Post(ctx context.Context, p Post) error
	// Posted looks a delivery up by its key; ErrCannotTell where the surface has no way to know.
	Posted(ctx context.Context, t chat.Thread, key string) (bool, error)
}

// ErrCannotTell is a surface's answer when it cannot look a delivery up.
var ErrCannotTell = errors.New("this surface cannot look a post up")

// Post is a reply on its way out, once.
type Post struct {
	Key    string // the same for every attempt
	Turn   string
	Thread chat.Thread
	Reply  chat.Reply
	// Outcome and Took are how the turn ends with this post.
	Outcome string
	Took    time.Duration
	// Repeated: the reply may have been delivered before, and nobody can tell. A doubled answer is better than silence.
	Repeated bool
}

// Progress is a sign of life.
type Progress struct {
	Thread    chat.Thread
	Turn      string
	Assistant string
	Status    string        // what the model said beside its calls
	Call      *journal.Call // a call that is about to run, or has ended
}

// Finished says how a turn ended. Err is for admins.
type Finished struct {
	Turn    string
	Key     string // of the message
	Outcome string
	Reply   chat.Reply
	Err     error
}

// The outcomes of a turn.
const (
	Answered = "answered"
	Clarify  = journal.OutcomeClarify
	Capped   = "capped"  // a limit was over before the assistant was done
	Refused  = "refused" // the bot does not do this for this person, or cannot now
	Failed   = "failed"  // something broke; the person got an apology with the turn's id
)

// Options say what an Engine works with.
type Options struct {
	Store   store.Store
	Surface Surface
	// Open makes a stored version of the pack ready, for runs that are pinned to it.
	Open func(ctx context.Context, files []config.File) (*assistants.Desk, error)
	Now  func() time.Time
	Wait func(ctx context.Context, d time.Duration) error
	Log  zerolog.Logger
	// Finished is told of every turn that ended; may be nil. It must not block.
	Finished func(Finished)
	Workers  int           // turns at once; 0 means 16
	Lease    time.Duration // how long a worker may be silent; 0 means 30 s
}

const (
	defaultWorkers = 16
	defaultLease   = 30 * time.Second
	routerTime     = 30 * time.Second
)
