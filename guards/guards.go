// Package guards holds the reasons to refuse, bound or hold a call, one file each. A guard is pure: it looks at values and
// returns a Verdict; the dispatcher asks and acts. Guards must not know the store, the network or any surface.
package guards

import "time"

// Say is what a guard says of a call.
type Say string

// What guards say, mildest first.
const (
	Allow  Say = "allow"
	Record Say = "recorded" // answer it from the record of call From
	Refuse Say = "refuse"   // it would be useless: broken, repeated, or beyond a limit
	Ask    Say = "ask"      // a person must decide; Needs says why and who
	Deny   Say = "deny"     // it is not allowed
)

// Verdict is a guard's answer. Why is in words for the model and the record, and empty for Allow.
type Verdict struct {
	Say  Say
	Why  string
	From int    // Record: the number of the call that was answered before
	Ends bool   // the run makes no progress any more: its rounds are over
	Rule string // Deny: where the rule stands, file:line:col
	// Needs are the reasons to ask, each with those who may decide. All must be met.
	Needs []Need
}

// Need is one reason why a person must decide.
type Need struct {
	Rule     string        // names what asks, wherever it stands: a decision holds for these names and no others
	At       string        // file:line:col of a rule; "" where the runtime itself asks
	Why      string        // in words
	By       []string      // names of the pack's people, ids, or config.Requester; never empty
	Within   time.Duration // then it counts as refused
	In       string        // channel that gets the card too; "": none
	FourEyes bool          // whoever asked for it may not decide
}
