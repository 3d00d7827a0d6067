// Package journal is the durable record of what the bot meant to do, was allowed to do and did: turns, model calls, tool
// calls. Summaries, traces and the runtime's own sentences are drawn from it and from nothing else.
//
// Audit rows (events) hold metadata only and stay; words (messages, arguments, results) are contents stored apart, and go
// after the retention. It must not know how a call is judged or run, nor any surface.
package journal

import (
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"switchboard/chat"
	"switchboard/config"
	"switchboard/llm"
)

// Outcome is how a tool call ended.
type Outcome string

// The outcomes. A call without one was being attempted when the process ended.
const (
	OK       Outcome = "ok"
	Failed   Outcome = "failed"   // it ran, and did not do what it should
	Refused  Outcome = "refused"  // not run: unknown, broken, equal to one that failed, or beyond a limit
	Denied   Outcome = "denied"   // not run: the policy says no
	Recorded Outcome = "recorded" // not run again: answered from the record of an equal call
	Waiting  Outcome = "waiting"  // a person must decide first
	Unknown  Outcome = "unknown"  // an effect that may or may not have happened
	NotRun   Outcome = "not_run"  // the run ended before its turn came
)

// The kinds of events. Each Meta is the struct named beside it.
const (
	KindBegun   = "turn.begun"   // Begun
	KindStep    = "step"         // Step
	KindRouted  = "turn.routed"  // Routed
	KindFolded  = "turn.folded"  // Folded
	KindIntent  = "call.intent"  // Intent
	KindOutcome = "call.outcome" // Settled
	KindAttempt = "call.attempt" // Attempt
	KindDecided = "call.decided" // Decided
	KindWaits   = "turn.waits"   // Waits
	KindEnded   = "turn.ended"   // Ended
)

// Begun opens a turn's stream.
type Begun struct {
	Turn    string `json:"turn"`
	Thread  string `json:"thread"`
	Person  string `json:"person"`
	Channel string `json:"channel"`
	Pack    string `json:"pack"` // digest of the version that the turn is pinned to
}

// Routed says where a turn went. Assistant is empty when nobody took it.
type Routed struct {
	Kind       string   `json:"kind"` // chosen | addressed | picked | clarify | none | nobody | stale
	Assistant  string   `json:"assistant,omitempty"`
	Confidence *float64 `json:"confidence,omitempty"` // nil: no model was asked
	By         string   `json:"by,omitempty"`         // picked, stale: whose choice it was; the turn is its asker's all the same
}

// Folded says that another message became part of the turn, before the reply of that round.
type Folded struct {
	Key   string `json:"key"` // of the message
	Round int    `json:"round"`
	ID    string `json:"id,omitempty"` // of the message, in its thread
	Text  string `json:"-"`            // as the model read it; empty once retention took it
	Said  string `json:"-"`            // as it stays in the thread: without the texts of its files
}

// Step is one model call, the router's included.
type Step struct {
	Role     string  `json:"role"` // router | round | final
	Model    string  `json:"model"`
	Input    int     `json:"input"`
	Cached   int     `json:"cached"`
	Output   int     `json:"output"`
	Cost     llm.USD `json:"cost"`
	MS       int64   `json:"ms"`
	Attempts int     `json:"attempts"`
	Error    string  `json:"error,omitempty"`  // the reason, never the provider's words
	Status   int     `json:"status,omitempty"` // HTTP status of the error, where there was one
	// Estimated: the server gave no figures, so these are the most that the call can have used.
	Estimated bool `json:"estimated,omitempty"`
}

// Intent is written before a call runs, also when it then may not.
type Intent struct {
	Seq     int    `json:"seq"`
	Round   int    `json:"round"`
	Tool    string `json:"tool"` // as the model wrote it, masked and cut to 100 characters
	Effect  string `json:"effect,omitempty"`
	Digest  string `json:"digest"`
	Verdict string `json:"verdict"`           // allow | ask | deny | refuse | recorded
	Key     string `json:"key,omitempty"`     // idempotency key reserved for an effect
	RuleAt  string `json:"rule_at,omitempty"` // file:line:col of the rule that decided
	Card    string `json:"card,omitempty"`    // ask: of the decision that it waits for
	Rules   string `json:"rules,omitempty"`   // ask: names the rules that asked
	Request string `json:"request,omitempty"` // digest of the bytes that are to be sent
	// Taint says what made the run one that strangers may have spoken to, by the names of tools and sources.
	Taint []string `json:"taint,omitempty"`
}

// Attempt is written before an effect is begun, under the epoch of the worker that begins it. What has an attempt and no
// outcome may have happened.
type Attempt struct {
	Seq     int    `json:"seq"`
	Epoch   int64  `json:"epoch"`
	Key     string `json:"key,omitempty"`     // idempotency key that goes with it
	Request string `json:"request,omitempty"` // digest of the bytes that are sent; they are a content
}

// Decided says what a person decided about a call, or that their time was over.
type Decided struct {
	Seq    int           `json:"seq"`
	Card   string        `json:"card"`
	Kind   chat.CardKind `json:"kind"`
	Stand  Stand         `json:"stand"`
	By     string        `json:"by,omitempty"`     // empty: nobody, the time was over
	Signed []string      `json:"signed,omitempty"` // all who approved
	Words  string        `json:"-"`                // the reason or the answer; empty once retention took it
	At     time.Time     `json:"-"`
}

// Waits says that a run waits for people, and its turn goes on once they have decided.
type Waits struct {
	Cards []string `json:"cards"`
}

// Settled is how the call of that number ended.
type Settled struct {
	Seq      int     `json:"seq"`
	Outcome  Outcome `json:"outcome"`
	From     *int    `json:"from,omitempty"` // recorded: the call whose record answers
	Fault    string  `json:"fault,omitempty"`
	Status   int     `json:"status,omitempty"` // HTTP status of the fault, where there was one
	Ends     bool    `json:"ends,omitempty"`   // recorded once too often: no more tools are offered
	Attempts int     `json:"attempts,omitempty"`
	Bytes    int     `json:"bytes,omitempty"`
	MS       int64   `json:"ms"`
	Found    bool    `json:"found,omitempty"` // there was no clear answer, and a look-up has found that it took effect
}

// Ended closes a turn.
type Ended struct {
	Outcome string `json:"outcome"`
	MS      int64  `json:"ms"`
	By      string `json:"by,omitempty"` // who stopped it
}

// Words is the content of a call's intent: what the model wrote, with secrets and bound values masked.
type Words struct {
	ID      string          `json:"id"`
	Args    json.RawMessage `json:"args,omitempty"` // canonical, without why and expects
	Raw     string          `json:"raw,omitempty"`  // instead of Args where the JSON is broken
	Why     string          `json:"why,omitempty"`
	Expects string          `json:"expects,omitempty"`
	Facts   json.RawMessage `json:"facts,omitempty"` // what the runtime read for the rules, by name
}

// Answer is the content of a call's outcome: what the model was told, and why it was not more.
type Answer struct {
	Text   string `json:"text"`             // the data given to the model
	Reason string `json:"reason,omitempty"` // in words, for every outcome but ok
}

// Reply is the content of a round: what the model answered. Final: no tools were offered for it. Heard is what the messages
// said that were folded in before it, in the order of their events; Said, as it stays in the thread, "" where that is the same.
type Reply struct {
	llm.Reply
	Final bool     `json:"final,omitempty"`
	Heard []string `json:"heard,omitempty"`
	Said  []string `json:"said,omitempty"`
}

// Feedback is what the people who rated a turn think of it.
type Feedback struct {
	Good int `json:"good"`
	Bad  int `json:"bad"`
}

// Call is a tool call put together from its events and contents. Words and Answer are empty once retention took them.
type Call struct {
	Intent
	Words
	Answer
	Settled  *Settled  // nil: waiting, or attempting
	Attempts []Attempt // of an effect, in order
	Decided  *Decided  // what a person decided before it ran; nil: nothing yet, or nobody was asked
	Resolved *Decided  // what a person found out about an effect in doubt
	At       time.Time
	Begun    time.Time // of the first attempt
}

// Outcome of the call; empty while it is being attempted.
func (c Call) Outcome() Outcome {
	switch {
	case c.Settled != nil:
		return c.Settled.Outcome
	case c.Card != "" && len(c.Attempts) == 0:
		return Waiting
	}
	return ""
}

// State is where an effect stands in the ledger.
type State string

// The states of an effect, in their order. Planned: it waits for a person, or nothing of it was begun.
const (
	Planned    State = "planned"
	Granted    State = "approved"
	Attempting State = "attempting"
	Done       State = "done"
	Undone     State = "failed" // it surely did not take place
	InDoubt    State = "unknown"
)

// State of an effect in the ledger.
func (c Call) State() State {
	switch o := c.Outcome(); {
	case c.Resolved != nil && c.Resolved.Stand == Happened, o == OK, o == Recorded:
		return Done
	case c.Resolved != nil, o != "" && o != Unknown && o != Waiting:
		return Undone
	case o == Unknown:
		return InDoubt
	case len(c.Attempts) > 0:
		return Attempting
	case c.Decided != nil && c.Decided.Stand == Approved:
		return Granted
	}
	return Planned
}

// Changes says whether the call is one that changes the world.
func (c Call) Changes() bool { return c.Effect != "" && c.Effect != string(config.NoEffect) }

// Turn streams and run ids share their tail, so that either names both.
const (
	turnPrefix = "t_"
	runPrefix  = "r_"
)

// TurnID gives the id of the turn that answers the message of this tail.
func TurnID(tail string) string { return turnPrefix + tail }

// RunID gives the id of the run in a turn.
func RunID(turn string) string { return runPrefix + turn[len(turnPrefix):] }

// TurnOf gives the turn of a turn's or a run's id, and false for anything else.
func TurnOf(id string) (string, bool) {
	if len(id) <= len(turnPrefix) || (id[:len(turnPrefix)] != turnPrefix && id[:len(runPrefix)] != runPrefix) {
		return "", false
	}
	return turnPrefix + id[len(turnPrefix):], true
}

// Content keys. Everything of a turn lies under its id, so that one prefix reads it whole.
func wordsKey(turn string, seq int) string  { return fmt.Sprintf("%s/call/%05d/words", turn, seq) }
func answerKey(turn string, seq int) string { return fmt.Sprintf("%s/call/%05d/answer", turn, seq) }
func requestKey(turn string, seq int) string {
	return fmt.Sprintf("%s/call/%05d/request", turn, seq)
}
func scopeKey(turn string) string         { return turn + "/scope" }
func talkKey(turn string) string          { return turn + "/talk" }
func fullKey(turn string, seq int) string { return fmt.Sprintf("%s/full/%05d", turn, seq) }
func roundKey(turn string, n int) string  { return fmt.Sprintf("%s/round/%03d", turn, n) }
func messageKey(turn string) string       { return turn + "/message" }
func replyKey(turn string) string         { return turn + "/reply" }
func seenKey(turn string) string          { return turn + "/seen" }
func feedbackKey(turn, person string) string {
	return turn + "/" + feedbackName + url.PathEscape(person)
}

const feedbackName = "feedback/"
