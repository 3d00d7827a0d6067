package llm

import "encoding/json"

// messageStream gathers a stream of a message; see https://docs.claude.com/en/docs/build-with-claude/streaming. Events are
// told apart by the type in their data, which every server sends; the name of the event is for errors without data.
type messageStream struct {
	calls  []*messageBlock
	blocks map[int]*messageBlock
	usage  messageFigures
	billed bool // the figures are those of the whole answer
	stop   string
	said   bool // text came
	apart  bool // another block came after it
	done   bool
}

// messageBlock is a block of which more may come. Of the provider's own blocks (thinking, searches on its side) only the
// type is kept.
type messageBlock struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Text  json.RawMessage `json:"text"`
	Input json.RawMessage `json:"input"`
	args  []byte
}

// messageFigures are what the events say of the usage. Each event repeats what it knows, so the greatest counts.
type messageFigures struct {
	Input  *int `json:"input_tokens,omitempty"`
	Output *int `json:"output_tokens,omitempty"`
	Read   *int `json:"cache_read_input_tokens,omitempty"`
	Wrote  *int `json:"cache_creation_input_tokens,omitempty"`
}

type messageEvent struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		Usage json.RawMessage `json:"usage"`
	} `json:"message"`
	Block *messageBlock `json:"content_block"`
	Delta struct {
		Type string          `json:"type"`
		Text json.RawMessage `json:"text"`
		Args json.RawMessage `json:"partial_json"`
		Stop string          `json:"stop_reason"`
	} `json:"delta"`
	Usage json.RawMessage `json:"usage"`
	Error json.RawMessage `json:"error"`
}

func (anthropicWire) gather() gatherer { return &messageStream{blocks: map[int]*messageBlock{}} }

func (s *messageStream) take(name string, data []byte) (text string, done bool, err error) {
	var e messageEvent
	if err := json.Unmarshal(data, &e); err != nil {
		if name == "error" {
			return "", false, readProblem(data)
		}
		return "", false, err
	}
	if e.Type == "" {
		e.Type = name
	}
	if e.Type == "error" || isSet(e.Error) {
		return "", false, readProblem(data)
	}
	switch e.Type {
	case "message_start":
		s.usage.add(e.Message.Usage)
	case "content_block_start":
		if e.Block != nil {
			text = s.begin(e.Index, e.Block)
		}
	case "content_block_delta":
		text = s.delta(&e)
	case "message_delta":
		s.billed = s.usage.add(e.Usage) || s.billed
		if e.Delta.Stop != "" {
			s.stop = e.Delta.Stop
		}
	case "message_stop":
		s.done = true
	}
	return text, s.done, nil
}

// begin starts a block and gives its first text.
func (s *messageStream) begin(index int, b *messageBlock) string {
	s.blocks[index] = b
	if b.Type == "text" {
		return s.text(b.Text)
	}
	s.apart = true
	if b.Type == "tool_use" {
		s.calls = append(s.calls, b)
	}
	return ""
}

func (s *messageStream) delta(e *messageEvent) string {
	b := s.blocks[e.Index]
	switch e.Delta.Type {
	case "text_delta":
		if b == nil || b.Type == "text" {
			return s.text(e.Delta.Text)
		}
	case "input_json_delta":
		if b != nil {
			b.args = append(b.args, unquote(e.Delta.Args)...)
		}
	}
	return ""
}

// text gives a piece of text; texts with another block between them are paragraphs of their own.
func (s *messageStream) text(raw json.RawMessage) string {
	text := unquote(raw)
	if text == "" {
		return ""
	}
	if s.said && s.apart {
		text = "\n\n" + text
	}
	s.said, s.apart = true, false
	return text
}

func (s *messageStream) end() (a answer, whole bool) {
	for _, b := range s.calls {
		args := string(b.Input)
		if len(b.args) > 0 {
			args = mend(b.args)
		}
		a.calls = append(a.calls, ToolCall{ID: b.ID, Name: b.Name, Args: args})
	}
	a.usage, a.finish = messageUsage(encode(s.usage)), messageFinish(s.stop)
	if !s.billed {
		a.usage = partly(a.usage)
	}
	return a, s.done || s.stop != ""
}

// add takes over what an event says, and reports whether it says how long the answer is.
func (f *messageFigures) add(raw json.RawMessage) bool {
	var g messageFigures
	if !isSet(raw) || json.Unmarshal(raw, &g) != nil {
		return false
	}
	for _, p := range []struct {
		to   **int
		from *int
	}{{&f.Input, g.Input}, {&f.Output, g.Output}, {&f.Read, g.Read}, {&f.Wrote, g.Wrote}} {
		if p.from != nil && (*p.to == nil || *p.from > **p.to) {
			*p.to = p.from
		}
	}
	return g.Output != nil
}

func messageFinish(word string) Finish {
	switch word {
	case "max_tokens", "model_context_window_exceeded":
		return CutOff
	case "refusal":
		return Refused
	default:
		return ""
	}
}
