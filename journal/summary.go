package journal

import (
	"encoding/json"
	"time"
)

// Summary is a turn as programs read it (bot chat --json, bot runs --json): every key but the last five is always there,
// null when absent.
type Summary struct {
	Turn       string        `json:"turn"`
	Run        *string       `json:"run"`
	Assistant  *string       `json:"assistant"`
	Confidence *float64      `json:"confidence"`
	Outcome    Word          `json:"outcome"` // empty, and null, while the turn is under way
	Question   *string       `json:"question"`
	Rounds     int           `json:"rounds"` // model replies with tools offered
	Calls      []CallSummary `json:"calls"`
	Steps      []StepSummary `json:"steps"`
	Reply      *string       `json:"reply"`
	Usage      UsageSummary  `json:"usage"`
	MS         int64         `json:"ms"`

	// What few turns have is left out by all others.
	PickedBy  *string       `json:"picked_by,omitempty"`  // whose answer to the router's question it took up
	StoppedBy *string       `json:"stopped_by,omitempty"` // who wanted it to end
	Folded    []string      `json:"folded,omitempty"`     // what was said meanwhile and answered with it; empty texts once retention took them
	Feedback  Feedback      `json:"feedback,omitzero"`
	Waits     []WaitSummary `json:"waits,omitempty"` // what people have to decide before it goes on
}

// WaitSummary is a decision that a run waits for.
type WaitSummary struct {
	Card     string    `json:"card"`
	Tool     string    `json:"tool"`
	Digest   string    `json:"digest,omitempty"` // of the request that would be sent
	Until    time.Time `json:"until,omitzero"`
	Deciders []string  `json:"deciders"`
}

// OutcomeWaiting is what stands for the outcome of a turn that waits for people.
const OutcomeWaiting = "waiting"

// CallSummary is one tool call. Args is a JSON value, or the text that the model wrote where that was no JSON object.
type CallSummary struct {
	Seq     int     `json:"seq"`
	Tool    string  `json:"tool"`
	Args    any     `json:"args"`
	Why     *string `json:"why"`
	Expects *string `json:"expects"`
	Outcome Word    `json:"outcome"` // empty, and null, while it is being attempted
	Reason  *string `json:"reason"`
	MS      int64   `json:"ms"`
}

// Word is a text that is null in JSON when it is empty.
type Word string

// MarshalJSON writes the word, or null.
func (w Word) MarshalJSON() ([]byte, error) {
	if w == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(w))
}

// StepSummary is one model call.
type StepSummary struct {
	Model    string  `json:"model"`
	Input    int     `json:"input"`
	Cached   int     `json:"cached"`
	Output   int     `json:"output"`
	CostUSD  float64 `json:"cost_usd"`
	MS       int64   `json:"ms"`
	Attempts int     `json:"attempts"`
}

// UsageSummary is what a turn's model calls used together. Input includes Cached.
type UsageSummary struct {
	Input   int     `json:"input"`
	Cached  int     `json:"cached"`
	Output  int     `json:"output"`
	CostUSD float64 `json:"cost_usd"`
}

// OutcomeClarify is the outcome of a turn that ended in a question by the router.
const OutcomeClarify = "clarify"

// Summarise draws the summary of a turn.
func Summarise(t Turn) Summary {
	s := Summary{
		Turn: t.Turn, Rounds: t.OfferedRounds(), Calls: []CallSummary{}, Steps: []StepSummary{}, Reply: text(t.Reply), Feedback: t.Rated,
	}
	for _, f := range t.Folded {
		s.Folded = append(s.Folded, f.Text)
	}
	if t.Routed != nil {
		s.Confidence, s.PickedBy = t.Routed.Confidence, text(t.Routed.By)
		if t.Routed.Assistant != "" && t.Routed.Kind != OutcomeClarify {
			run := RunID(t.Turn)
			s.Run, s.Assistant = &run, &t.Routed.Assistant
		}
	}
	if t.Ended != nil {
		s.Outcome, s.MS, s.StoppedBy = Word(t.Ended.Outcome), t.Ended.MS, text(t.Ended.By)
	}
	if s.Outcome == OutcomeClarify {
		s.Question = s.Reply
	}
	for _, c := range t.Calls {
		s.Calls = append(s.Calls, summariseCall(c))
		if t.Ended == nil && c.Outcome() == Waiting && c.Decided == nil {
			s.Outcome = OutcomeWaiting
			s.Waits = append(s.Waits, t.wait(c))
		}
	}
	for _, st := range t.Steps {
		s.Steps = append(s.Steps, StepSummary{st.Model, st.Input, st.Cached, st.Output, st.Cost.Dollars(), st.MS, st.Attempts})
	}
	u := t.Usage()
	s.Usage = UsageSummary{u.Input, u.Cached, u.Output, u.Cost.Dollars()}
	return s
}

// wait tells of a decision that a call waits for.
func (t Turn) wait(c Call) WaitSummary {
	w := WaitSummary{Card: c.Card, Tool: c.Tool, Digest: c.Request, Deciders: []string{}}
	for _, card := range t.Cards {
		if card.ID == c.Card {
			w.Until = card.Until
			w.Deciders = append(w.Deciders, card.Deciders...)
		}
	}
	return w
}

func summariseCall(c Call) CallSummary {
	s := CallSummary{Seq: c.Seq, Tool: c.Tool, Why: text(c.Why), Expects: text(c.Expects), Outcome: Word(c.Outcome()), Reason: text(c.Reason)}
	switch {
	case c.Args != nil:
		s.Args = c.Args
	case c.Raw != "":
		s.Args = c.Raw
	}
	if c.Settled != nil {
		s.MS = c.Settled.MS
	}
	return s
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Vars gives the turn as expressions see it (rehearsals' that, bot runs --that): run, calls, reply.
func (s Summary) Vars(full Turn) map[string]any {
	calls := make([]any, 0, len(full.Calls))
	for _, c := range full.Calls {
		calls = append(calls, map[string]any{
			"seq": int64(c.Seq), "tool": c.Tool, "args": decoded(c.Args), "result": c.Result(), "outcome": string(c.Outcome()),
			"reason": c.Reason, "why": c.Why, "expects": c.Expects,
		})
	}
	return map[string]any{
		"run": map[string]any{
			"id": deref(s.Run), "assistant": deref(s.Assistant), "outcome": string(s.Outcome), "rounds": int64(s.Rounds), "calls": int64(len(s.Calls)),
			"tokens": int64(s.Usage.Input + s.Usage.Output), "usd": s.Usage.CostUSD, "ms": s.MS,
		},
		"calls": calls,
		"reply": deref(s.Reply),
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Result gives what the model was shown of the call's result, decoded, or nil.
func (c Call) Result() any {
	var told Told
	if json.Unmarshal([]byte(c.Text), &told) != nil {
		return nil
	}
	return decoded(told.Result)
}
