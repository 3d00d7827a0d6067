// Package llm speaks with language models: one small Model interface, typed errors, usage in one shape.
//
// It is the only importer of langchaingo, whose gaps it closes with one RoundTripper and a thin wrapper. It must not know
// assistants, tools, runs or the store: it takes a request and gives a reply or an *Error.
package llm

import (
	"context"
	"encoding/json"
	"time"

	"switchboard/config"
)

// Model answers requests. Implementations are safe for use by many goroutines at once.
//
// An error is always an *Error, or wraps the context's own error when the context ended.
type Model interface {
	Do(ctx context.Context, r Request) (Reply, error)
}

// Request is one question to a model. Tools may be empty; with Choice None they must not be used.
type Request struct {
	System string
	Turns  []Turn
	Tools  []Tool
	Choice Choice
	// Schema asks for one JSON object of this shape as the whole answer. The answer may still break it.
	Schema *Schema
	// MaxOutput bounds the answer, in tokens. 0 means the model's own setting.
	MaxOutput int
	// Where is never sent to a provider; the scripted model finds its place by it.
	Where Where
	// OnText asks for a stream, and is given each piece of the answer's text as it comes: whole characters, never an empty
	// piece, and nothing of calls or of what the model thinks. All pieces together are the reply's Text, if Do succeeds; if
	// it fails after a piece, the *Error says so by Released. It is called by one goroutine at a time, and never after Do
	// has returned. It must not block, since the model is not listened to meanwhile. nil: the answer comes in one piece.
	OnText func(text string) `json:"-"`
}

// Size is how many bytes of text the request holds, tools included.
func (r Request) Size() int {
	n := len(r.System)
	for _, t := range r.Turns {
		n += len(t.Text) + size(t.Calls)
		for _, res := range t.Results {
			n += len(res.Text)
		}
	}
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.About) + len(t.Schema)
	}
	return n
}

// Size is how many bytes of text the reply holds, calls included.
func (r Reply) Size() int { return len(r.Text) + size(r.Calls) }

func size(calls []ToolCall) int {
	n := 0
	for _, c := range calls {
		n += len(c.Name) + len(c.Args)
	}
	return n
}

// Choice says whether the model may ask for tools.
type Choice string

// The choices. The zero value is Auto.
const (
	Auto Choice = ""
	None Choice = "none"
)

// Where says whose conversation a request belongs to, and how far it has got.
type Where struct {
	First   string // the thread's first message, as it was said
	Last    string // the message that this turn answers
	Person  string // id
	Channel string // id
	Replies int    // model replies (failed ones too) that the thread has had so far
}

// Role says who speaks in a Turn.
type Role string

// The roles. Results of tools are in turns of role User or Tool alike; the dialect decides how they are sent.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	Results   Role = "tool"
)

// Turn is one contribution to the conversation: text, and for an Assistant the calls, for Results one result for each.
type Turn struct {
	Role    Role       `json:"role"`
	Text    string     `json:"text,omitempty"`
	Calls   []ToolCall `json:"calls,omitempty"`
	Results []Result   `json:"results,omitempty"`
}

// Tool is what a model is told of a tool. Schema is a JSON Schema of type object, passed on verbatim.
type Tool struct {
	Name   string          `json:"name"`
	About  string          `json:"about"`
	Schema json.RawMessage `json:"schema"`
}

// ToolCall is a model's wish. Args is the text it wrote: it may be empty, cut or no JSON at all.
type ToolCall struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Args string `json:"args"`
}

// Result answers the ToolCall of the same id.
type Result struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
}

// Schema asks for a JSON answer.
type Schema struct {
	Name string
	JSON json.RawMessage
}

// Finish says why a model stopped.
type Finish string

// The reasons. A provider's unknown word becomes Stop when there is text or a call, else an Empty error.
const (
	Stop    Finish = "stop"
	Called  Finish = "tool_calls"
	CutOff  Finish = "length" // the output limit was hit; the text or the last call's arguments may be cut
	Refused Finish = "refused"
)

// Reply is a model's whole answer.
type Reply struct {
	Text     string        `json:"text,omitempty"`
	Calls    []ToolCall    `json:"calls,omitempty"`
	Finish   Finish        `json:"finish"`
	Usage    Usage         `json:"usage"` // of all attempts together
	Model    string        `json:"model"` // provider/id, e.g. openai/gpt-4o-mini
	Attempts int           `json:"attempts"`
	Took     time.Duration `json:"took"`
}

// Usage counts tokens in one shape for every provider: Input includes Cached. Known is false when a server sent no figures.
type Usage struct {
	Input  int  `json:"input"`
	Cached int  `json:"cached"`
	Output int  `json:"output"`
	Cost   USD  `json:"cost"`
	Known  bool `json:"known"`
	Free   bool `json:"free,omitempty"` // nobody is to be paid for it: no server was asked
}

// Add sums two usages; the sum is known when both are, and free when both are.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Cached + v.Cached, u.Output + v.Output, u.Cost + v.Cost, u.Known && v.Known, u.Free && v.Free}
}

// USD is an amount of money in picodollars, so that a price per million tokens stays a whole number per token.
type USD int64

// Dollars gives the amount for people and for JSON.
func (u USD) Dollars() float64 { return float64(u) / 1e12 }

// Price is what a model costs, in picodollars a token (USD per million tokens times 1e6).
type Price struct{ Input, Cached, Output USD }

// PriceOf takes a price over from a pack; nil stays nil.
func PriceOf(p *config.Price) *Price {
	if p == nil {
		return nil
	}
	return &Price{Input: USD(p.Input), Cached: USD(p.Cached), Output: USD(p.Output)}
}

// Cost prices a usage: cached input at its own price, the rest of the input in full.
func (p Price) Cost(u Usage) USD {
	return USD(u.Input-u.Cached)*p.Input + USD(u.Cached)*p.Cached + USD(u.Output)*p.Output
}
