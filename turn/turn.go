// Package turn is the story of one message: admit it, route it, let an assistant answer it, deliver the answer. It keeps the
// order within a thread, and goes on after a crash from what is on record.
//
// It must not know any surface: a Surface is what it needs of one.
package turn

import (
	"context"
	"errors"
	"fmt"
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
	// Look completes a message with what the surface could not know when it took it in: who the person is, who reads the
	// channel, names for ids, the texts of files. With past it also brings what was said in the thread before the message.
	Look(ctx context.Context, m chat.Message, past bool) (Seen, error)
	// Show tells people what is going on. It is best effort and must not block.
	Show(ctx context.Context, p Progress)
	// Post delivers a reply, whole. An error means that it is not known to have arrived; ErrUndeliverable, that it never
	// will.
	Post(ctx context.Context, p Post) error
}

// ErrUndeliverable says that there is no place any more where the reply could be said: no use to try again.
var ErrUndeliverable = errors.New("the reply cannot be delivered")

// ErrTakenOver says that another process has the thread by now, and says what there is to say.
var ErrTakenOver = fmt.Errorf("the thread was taken over: %w", store.ErrStale)

// Seen is a message on a closer look.
type Seen struct {
	Message chat.Message
	Past    []chat.Said // the thread's first message and then the newest before this one, oldest first
	Left    int         // how many between the first and the others are left out
}

// Post is a reply on its way out, once.
type Post struct {
	Key   string // the same for every attempt
	Turn  string
	To    chat.Message // what it answers; its thread is where it goes
	Reply chat.Reply
	// Card is a decision that somebody has to make. It is said in a message of its own, whose text is the Reply's; Key is then
	// the card's id, with what tells its places apart. Place is where it goes beside the thread: the root of a channel.
	Card  *chat.Card
	Place *chat.Channel
	// Outcome and Took are how the turn ends with this post.
	Outcome string
	Took    time.Duration
	// Resumed: an earlier try of this turn may have begun to show its text. Whatever of it is left becomes this reply.
	Resumed bool
	// Again: an earlier try may have delivered it, whole or in part. The surface looks, and delivers what is missing; where
	// it cannot look it says that the reply may be a repetition. A doubled answer is better than silence.
	Again bool
	// Held says whether this process still has the thread. A surface asks right before it says something: one that has stood
	// still, and was taken over meanwhile, must not say it a second time. It then gives ErrTakenOver. nil means always.
	Held func() bool
}

// Progress is a sign of life. What is said of a turn comes in order.
type Progress struct {
	Turn      string
	To        chat.Message // the message that is worked on
	Assistant string
	Began     bool          // a try of the turn begins; what an earlier one has shown of the text is void
	Status    string        // what the model said beside its calls
	Call      *journal.Call // a call that is about to run, or has ended
	Text      string        // more of the reply, filtered, as it is being written
	Void      bool          // the text shown so far was not the reply
	// Held is as in Post: one that was taken over must not touch what the other shows.
	Held  func() bool
	Card  *chat.Card // a card that was posted for this turn has changed: it is to be drawn again wherever it stands
	Ended bool       // the try is over without a Post: nothing is going on any more
	// Resumed: another process may have begun to show an earlier try of this turn, so that there may be messages and a status
	// that this one knows nothing of. Where the turn is Ended, the surface looks for them and takes them back.
	Resumed bool
}

// Finished says how a turn ended. Err is for admins. It comes once the end is durable; by then the thread's next turn may be
// under way, and may even be told of first.
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
	Capped   = "capped"               // a limit was over before the assistant was done
	Refused  = "refused"              // the bot does not do this for this person, or cannot now
	Failed   = "failed"               // something broke; the person got an apology with the turn's id
	Stopped  = "stopped"              // somebody wanted it to end
	Waiting  = journal.OutcomeWaiting // it goes on once people have decided
	Ignored  = "ignored"              // nobody had asked the bot, and it has nothing to say
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
	Workers  int           // turns at once; 0 means 512: most of a turn is waiting for models
	Lease    time.Duration // how long a worker may be silent; 0 means 30 s
}

const (
	defaultWorkers = 512
	defaultLease   = 30 * time.Second
	routerTime     = 30 * time.Second
)
