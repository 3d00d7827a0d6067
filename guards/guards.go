// Package guards holds the reasons to refuse, bound or hold a call, one file each. A guard is pure: it looks at values and
// returns a Verdict; the dispatcher asks and acts. Guards must not know the store, the network or any surface.
package guards

// Say is what a guard says of a call.
type Say string

// What guards say, mildest first.
const (
	Allow  Say = "allow"
	Record Say = "recorded" // answer it from the record of call From
	Refuse Say = "refuse"   // it would be useless: broken, repeated, or beyond a limit
	Deny   Say = "deny"     // it is not allowed
)

// Verdict is a guard's answer. Why is in words for the model and the record, and empty for Allow.
type Verdict struct {
	Say  Say
	Why  string
	From int    // Record: the number of the call that was answered before
	Ends bool   // the run makes no progress any more: its rounds are over
	Rule string // Deny: where the rule stands, file:line:col
}
