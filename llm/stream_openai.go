package llm

import (
	"encoding/json"
	"slices"
	"strings"
)

// endOfStream is the last event of a stream of chat completions.
const endOfStream = "[DONE]"

// chatStream gathers a stream of chat completions. Servers that are compatible with the format differ in all of it; see
// https://platform.openai.com/docs/api-reference/chat-streaming for what it should be.
type chatStream struct {
	calls   []*chatCall
	at      map[[2]int]*chatCall // by choice and index: the call that deltas go to
	old     *chatCall            // by a server that knows function_call only
	refusal []byte
	finish  string
	usage   Usage
	said    bool // text came
	done    bool
}

// chatCall is a call of which more may come.
type chatCall struct {
	id   string
	name []byte
	args []byte
}

// chatChunk is one event. A server that does not really stream sends a message instead of a delta.
type chatChunk struct {
	Object  string `json:"object"`
	Choices []struct {
		Index   int        `json:"index"`
		Finish  string     `json:"finish_reason"`
		Delta   *chatDelta `json:"delta"`
		Message *chatDelta `json:"message"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type chatDelta struct {
	Content   json.RawMessage `json:"content"`
	Refusal   json.RawMessage `json:"refusal"`
	ToolCalls []chatCallDelta `json:"tool_calls"`
	Function  *rawFunction    `json:"function_call"`
}

type chatCallDelta struct {
	Index    *int        `json:"index"`
	ID       string      `json:"id"`
	Function rawFunction `json:"function"`
}

type rawFunction struct {
	Name json.RawMessage `json:"name"`
	Args json.RawMessage `json:"arguments"`
}

func (openaiWire) gather() gatherer { return &chatStream{at: map[[2]int]*chatCall{}} }

func (s *chatStream) take(name string, data []byte) (text string, done bool, err error) {
	if string(data) == endOfStream {
		s.done = true
		return "", true, nil
	}
	var c chatChunk
	if err := json.Unmarshal(data, &c); err != nil {
		if name == "error" {
			return "", false, readProblem(data)
		}
		return "", false, err
	}
	if isSet(c.Error) || c.Object == "error" || name == "error" {
		return "", false, readProblem(data)
	}
	if u := chatUsage(c.Usage); u.Known {
		s.usage = u
	}
	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.Finish == "error" {
			return "", false, serverError{code: "server_error", message: "the server ended the answer with an error"}
		}
		if choice.Finish != "" {
			s.finish = choice.Finish
		}
		d := choice.Delta
		if d == nil && !s.said && len(s.calls) == 0 {
			d = choice.Message
		}
		if d != nil {
			text += s.delta(choice.Index, d)
		}
	}
	return text, false, nil
}

// delta takes one piece of a choice and gives its text.
func (s *chatStream) delta(choice int, d *chatDelta) string {
	for _, c := range d.ToolCalls {
		s.call(choice, c).function(c.Function)
	}
	if d.Function != nil {
		if s.old == nil {
			s.old = &chatCall{}
		}
		s.old.function(*d.Function)
	}
	s.refusal = append(s.refusal, unquote(d.Refusal)...)
	text := unquote(d.Content)
	if len(d.Content) > 0 && d.Content[0] == '[' {
		var refused string
		text, refused = contentText(d.Content)
		s.refusal = append(s.refusal, refused...)
	}
	s.said = s.said || text != ""
	return text
}

// call finds the call that a delta belongs to. Deltas are told apart by their index; where there is none, or where all
// calls have the same one, by what they bring.
func (s *chatStream) call(choice int, d chatCallDelta) *chatCall {
	key, c := [2]int{choice, -1}, (*chatCall)(nil)
	if d.Index != nil {
		key[1] = *d.Index
		c = s.at[key]
	} else if n := len(s.calls); n > 0 {
		if i := slices.IndexFunc(s.calls, func(c *chatCall) bool { return c.id != "" && c.id == d.ID }); i >= 0 {
			return s.calls[i]
		}
		c = s.calls[n-1]
	}
	if c == nil || c.ends(d) {
		c = &chatCall{}
		s.calls = append(s.calls, c)
		s.at[key] = c
	}
	if c.id == "" {
		c.id = d.ID
	}
	return c
}

// ends says whether a delta in the place of a call is the beginning of another call.
func (c *chatCall) ends(d chatCallDelta) bool {
	if c.id != "" && d.ID != "" {
		return c.id != d.ID
	}
	return isSet(d.Function.Name) && len(unquote(d.Function.Name)) > 0 && argsPiece(d.Function.Args) != "" && json.Valid(c.args)
}

func (c *chatCall) function(f rawFunction) {
	// Some servers repeat the name in every delta, and some send it in pieces.
	if name := unquote(f.Name); name != string(c.name) && (len(c.name) == 0 || len(c.args) == 0) {
		c.name = append(c.name, name...)
	}
	if len(f.Args) > 0 && f.Args[0] == '{' {
		c.args = c.args[:0] // the object itself is all of it
	}
	c.args = append(c.args, argsPiece(f.Args)...)
}

// argsPiece reads a piece of the arguments: a part of their text, as it should be, or the whole object.
func argsPiece(raw json.RawMessage) string {
	if len(raw) > 0 && raw[0] == '{' {
		return string(raw)
	}
	return unquote(raw)
}

func (s *chatStream) end() (a answer, whole bool) {
	if s.old != nil && len(s.calls) == 0 {
		s.calls = []*chatCall{s.old}
	}
	for _, c := range s.calls {
		if len(c.name) == 0 && len(c.args) == 0 {
			continue // a delta that said nothing
		}
		a.calls = append(a.calls, ToolCall{ID: c.id, Name: mend(c.name), Args: mend(c.args)})
	}
	a.refusal, a.usage, a.finish = mend(s.refusal), s.usage, chatFinish(s.finish)
	return a, s.done || s.finish != ""
}

func chatFinish(word string) Finish {
	switch strings.ToLower(word) {
	case "length":
		return CutOff
	case "content_filter":
		return Refused
	default:
		return ""
	}
}
