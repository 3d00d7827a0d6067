package journal

import (
	"bytes"
	"encoding/json"
	"strings"

	"switchboard/config"
)

// Told is what a model is told of a call, as one JSON object: always the outcome, then the result or what went wrong.
type Told struct {
	Outcome Outcome         `json:"outcome"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   string          `json:"error,omitempty"`
	Note    string          `json:"note,omitempty"`
	// Where only the beginning of a result is shown: its handle for result.read, where to read on, and its whole size in bytes.
	Handle string `json:"handle,omitempty"`
	Next   int    `json:"next,omitempty"`
	Total  int    `json:"total,omitempty"`
}

// Encode gives the text for the model.
func (t Told) Encode() string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // a model reads <b> better than \u003cb\u003e
	if err := enc.Encode(t); err != nil {
		panic("encode a call's result: " + err.Error()) // Result is made by config.Canonical
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func decoded(raw json.RawMessage) any {
	if raw == nil {
		return nil
	}
	v, err := config.DecodeJSON(raw)
	if err != nil {
		return nil
	}
	return v
}
