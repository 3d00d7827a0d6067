package llm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/anthropic"
)

// anthropicWire is the messages format.
type anthropicWire struct{}

// carried wraps the text of a call's arguments, which the library would otherwise read into a map: numbers above 2^53
// would be rounded.
type carried struct {
	Text string `json:"_text"`
}

func (anthropicWire) open(o Options, key string, c *http.Client) (llms.Model, error) {
	return anthropic.New(
		anthropic.WithToken(key), anthropic.WithModel(o.ID), anthropic.WithBaseURL(o.BaseURL),
		anthropic.WithHTTPClient(c), anthropic.WithAnthropicBetaHeader(""),
	)
}

// messages gives one message for each text, call and result: the library sends only the first part of each. The patch
// puts together what belongs together.
func (anthropicWire) messages(q query) []llms.MessageContent {
	out := make([]llms.MessageContent, 0, 2*len(q.Turns)+1)
	if system := schemaPrompt(q, false); system != "" {
		out = append(out, llms.TextParts(llms.ChatMessageTypeSystem, system))
	}
	for _, t := range q.Turns {
		for _, r := range t.Results {
			out = append(out, toolResult(r))
		}
		role := llms.ChatMessageTypeHuman
		if t.Role == Assistant {
			role = llms.ChatMessageTypeAI
		}
		if strings.TrimSpace(t.Text) != "" { // a blank block is refused
			out = append(out, llms.TextParts(role, t.Text))
		}
		if t.Role == Assistant {
			for _, c := range t.Calls {
				out = append(out, llms.MessageContent{Role: role, Parts: []llms.ContentPart{
					toolCall(c, string(encode(carried{pastArgs(c.Args)}))),
				}})
			}
		}
	}
	return out
}

func (anthropicWire) patch(q query, body map[string]json.RawMessage) error {
	delete(body, "temperature")
	if q.temperature != nil {
		body["temperature"] = encode(*q.temperature)
	}
	if q.streamed() {
		body["stream"] = json.RawMessage("true")
	}
	if q.Choice == None && len(q.Tools) > 0 {
		body["tool_choice"] = json.RawMessage(`{"type":"none"}`)
	}
	var messages []message
	if err := json.Unmarshal(body["messages"], &messages); err != nil {
		return fmt.Errorf("read the messages: %w", err)
	}
	failed := map[string]bool{}
	for _, t := range q.Turns {
		for _, r := range t.Results {
			failed[r.ID] = r.Failed
		}
	}
	merged, err := merge(messages, failed)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(merged)
	if err != nil {
		return fmt.Errorf("write the messages: %w", err)
	}
	body["messages"] = raw
	return nil
}

type message struct {
	Role    string            `json:"role"`
	Content []json.RawMessage `json:"content"`
}

// merge makes one message of consecutive ones of the same role, puts the arguments back, and marks failed results.
func merge(messages []message, failed map[string]bool) ([]message, error) {
	out := make([]message, 0, len(messages))
	for _, m := range messages {
		for i, raw := range m.Content {
			block, err := finishBlock(raw, failed)
			if err != nil {
				return nil, err
			}
			m.Content[i] = block
		}
		if n := len(out); n > 0 && out[n-1].Role == m.Role {
			out[n-1].Content = append(out[n-1].Content, m.Content...)
			continue
		}
		out = append(out, m)
	}
	return out, nil
}

func finishBlock(raw json.RawMessage, failed map[string]bool) (json.RawMessage, error) {
	var b struct {
		Type    string
		ID      string
		Name    string
		Input   carried
		UseID   string `json:"tool_use_id"`
		Content string
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		return nil, fmt.Errorf("read a block: %w", err)
	}
	switch {
	case b.Type == "tool_use":
		return encode(map[string]any{"type": b.Type, "id": b.ID, "name": b.Name, "input": json.RawMessage(b.Input.Text)}), nil
	case b.Type == "tool_result" && failed[b.UseID]:
		return encode(map[string]any{"type": b.Type, "tool_use_id": b.UseID, "content": b.Content, "is_error": true}), nil
	default:
		return raw, nil
	}
}

func (anthropicWire) read(body []byte) (answer, error) {
	var r struct {
		Type    string
		Content []struct {
			Type, Text, ID, Name string
			Input                json.RawMessage
		}
		Stop  string `json:"stop_reason"`
		Usage json.RawMessage
		Error json.RawMessage
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return answer{}, err
	}
	if r.Type == "error" || isSet(r.Error) {
		return answer{}, readProblem(body)
	}
	a := answer{usage: messageUsage(r.Usage)}
	var text strings.Builder
	apart := false // another block stood between this text and the one before
	for _, b := range r.Content {
		switch b.Type {
		case "text":
			if apart && text.Len() > 0 {
				text.WriteString("\n\n")
			}
			text.WriteString(b.Text)
			apart = false
			continue
		case "tool_use":
			a.calls = append(a.calls, ToolCall{ID: b.ID, Name: b.Name, Args: string(b.Input)})
		}
		apart = true // other blocks are the provider's own business: thinking, searches on its side
	}
	a.text = text.String()
	a.finish = messageFinish(r.Stop)
	return a, nil
}

// messageUsage counts the cached part of the prompt in, as the others do.
func messageUsage(raw json.RawMessage) Usage {
	var u struct {
		Input  *int `json:"input_tokens"`
		Output int  `json:"output_tokens"`
		Read   int  `json:"cache_read_input_tokens"`
		Wrote  int  `json:"cache_creation_input_tokens"`
	}
	if json.Unmarshal(raw, &u) != nil || u.Input == nil {
		return Usage{}
	}
	return sensible(Usage{Input: *u.Input + max(u.Read, 0) + max(u.Wrote, 0), Cached: u.Read, Output: u.Output, Known: true})
}

func (anthropicWire) write(a answer) []byte {
	var content []any
	if a.text != "" {
		content = append(content, map[string]any{"type": "text", "text": a.text})
	}
	for _, c := range a.calls {
		content = append(content, map[string]any{"type": "tool_use", "id": c.ID, "name": c.Name, "input": carried{c.Args}})
	}
	return encode(map[string]any{"type": "message", "role": "assistant", "content": content, "stop_reason": "end_turn"})
}

func (anthropicWire) args(text string) string {
	var c carried
	if json.Unmarshal([]byte(text), &c) != nil {
		return text
	}
	return c.Text
}
