package llmtest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"switchboard/llm"
)

// dialect is one provider's wire format, from the provider's side.
type dialect interface {
	// problem says what a real provider would refuse in a request; "" when nothing.
	problem(body []byte) string
	answer(Step) []byte
	// stream gives the same answer in events; usage says whether the request asks for the figures.
	stream(st Step, usage bool) []frame
	failure(typ, code, message string) []byte
	// fails gives the provider's way to fail for a reason; status 0 means a 200 that refuses without words.
	fails(llm.Reason) (status int, typ, code, message string)
}

type (
	openaiWire    struct{}
	anthropicWire struct{}
	object        = map[string]any
)

var wireName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// WireName is how a tool's name looks on the wire, where dots are not allowed.
func WireName(name string) string { return strings.ReplaceAll(name, ".", "__") }

func itoa(n int) string { return strconv.Itoa(n) }

func id(c llm.ToolCall, i int, prefix string) string {
	if c.ID != "" {
		return c.ID
	}
	return fmt.Sprintf("%s%d", prefix, i+1)
}

func (openaiWire) answer(st Step) []byte {
	message := object{"role": "assistant", "content": st.Text, "refusal": nil}
	finish := "stop"
	var calls []object
	for i, c := range st.Calls {
		calls = append(calls, object{
			"id": id(c, i, "call_"), "type": "function",
			"function": object{"name": WireName(c.Name), "arguments": c.Args},
		})
	}
	if calls != nil {
		message["tool_calls"] = calls
		finish = "tool_calls"
		if st.Text == "" {
			message["content"] = nil
		}
	}
	switch {
	case st.Refuse && st.Text != "":
		message["content"], message["refusal"] = nil, st.Text
	case st.Refuse:
		finish = "content_filter"
	case st.Cut:
		finish = "length"
	}
	out := object{
		"id": "chatcmpl-1", "object": "chat.completion", "model": "fake",
		"choices": []object{{"index": 0, "message": message, "finish_reason": finish}},
	}
	if u := st.Usage; u != nil {
		out["usage"] = chatUsage(u)
	}
	return encode(out)
}

func chatUsage(u *llm.Usage) object {
	return object{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details": object{"cached_tokens": u.Cached},
	}
}

func (openaiWire) failure(typ, code, message string) []byte {
	return encode(object{"error": object{"message": message, "type": typ, "code": code, "param": nil}})
}

func (openaiWire) fails(r llm.Reason) (status int, typ, code, message string) {
	switch r {
	case llm.RateLimited:
		return 429, "requests", "rate_limit_exceeded", "Rate limit reached for gpt in organization org-abcdefgh123456"
	case llm.Overloaded:
		return 503, "server_error", "", "The server is overloaded"
	case llm.ContextTooLong:
		return 400, "invalid_request_error", "context_length_exceeded", "This model's maximum context length is 128000 tokens; 130429 were sent"
	case llm.Auth:
		return 401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided: sk-proj-********abcd."
	case llm.Quota:
		return 429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota"
	case llm.Declined:
		return 0, "", "", ""
	default:
		return 400, "invalid_request_error", "invalid_value", "Invalid value for 'messages'"
	}
}

type openaiMessage struct {
	Role      string
	Content   any
	CallID    string `json:"tool_call_id"`
	ToolCalls []struct {
		ID, Type string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

func (openaiWire) problem(body []byte) string {
	var r struct {
		Model    string
		Messages []openaiMessage
		Tools    []struct {
			Function struct {
				Name       string
				Parameters json.RawMessage
			}
		}
		Choice  any `json:"tool_choice"`
		Stream  bool
		Options any `json:"stream_options"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return "We could not parse the JSON body of your request: " + err.Error()
	}
	if r.Model == "" || len(r.Messages) == 0 {
		return "you must provide a model and messages"
	}
	for _, t := range r.Tools {
		if p := toolProblem(t.Function.Name, t.Function.Parameters); p != "" {
			return p
		}
	}
	if r.Choice != nil && len(r.Tools) == 0 {
		return "'tool_choice' is only allowed when 'tools' are specified"
	}
	if r.Options != nil && !r.Stream {
		return "the 'stream_options' parameter is only allowed when 'stream' is enabled"
	}
	return openaiOrder(r.Messages)
}

// openaiOrder says what is wrong with calls and their results.
func openaiOrder(messages []openaiMessage) string {
	open := map[string]bool{}
	for i, m := range messages {
		if m.Role == "tool" {
			if !open[m.CallID] {
				return fmt.Sprintf("messages[%d]: tool_call_id %q answers no call before it", i, m.CallID)
			}
			delete(open, m.CallID)
			continue
		}
		if len(open) > 0 {
			return fmt.Sprintf("messages[%d]: an assistant message with 'tool_calls' must be followed by tool messages for each", i)
		}
		if m.Content == nil && len(m.ToolCalls) == 0 {
			return fmt.Sprintf("messages[%d]: content is missing", i)
		}
		for _, c := range m.ToolCalls {
			if c.ID == "" || open[c.ID] || c.Type != "function" || !wireName.MatchString(c.Function.Name) {
				return fmt.Sprintf("messages[%d]: tool call %+v is not valid", i, c)
			}
			if p := objectProblem(c.Function.Arguments); p != "" {
				return fmt.Sprintf("messages[%d]: arguments: %s", i, p)
			}
			open[c.ID] = true
		}
	}
	if len(open) > 0 {
		return "the last calls have no results"
	}
	return ""
}

func toolProblem(name string, schema json.RawMessage) string {
	if !wireName.MatchString(name) {
		return fmt.Sprintf("tool name %q does not match %s", name, wireName)
	}
	var s struct{ Type string }
	if err := json.Unmarshal(schema, &s); err != nil || s.Type != "object" {
		return fmt.Sprintf("tool %s: the schema must be of type object: %s", name, schema)
	}
	return ""
}

func objectProblem(text string) string {
	var o map[string]any
	if err := json.Unmarshal([]byte(text), &o); err != nil || o == nil {
		return fmt.Sprintf("%q is no JSON object", text)
	}
	return ""
}

func (anthropicWire) answer(st Step) []byte {
	content := []object{}
	if st.Text != "" {
		content = append(content, object{"type": "text", "text": st.Text})
	}
	stop := "end_turn"
	for i, c := range st.Calls {
		content = append(content, object{"type": "tool_use", "id": id(c, i, "toolu_"), "name": WireName(c.Name), "input": json.RawMessage(c.Args)})
		stop = "tool_use"
	}
	switch {
	case st.Refuse:
		stop = "refusal"
	case st.Cut:
		stop = "max_tokens"
	}
	out := object{"id": "msg_1", "type": "message", "role": "assistant", "model": "fake", "content": content, "stop_reason": stop, "stop_sequence": nil}
	if u := st.Usage; u != nil {
		out["usage"] = messageUsage(u, u.Output)
	}
	return encode(out)
}

func messageUsage(u *llm.Usage, output int) object {
	return object{
		"input_tokens": u.Input - u.Cached, "output_tokens": output,
		"cache_read_input_tokens": u.Cached, "cache_creation_input_tokens": 0,
	}
}

func (anthropicWire) failure(typ, _, message string) []byte {
	return encode(object{"type": "error", "error": object{"type": typ, "message": message}})
}

func (anthropicWire) fails(r llm.Reason) (status int, typ, code, message string) {
	switch r {
	case llm.RateLimited:
		return 429, "rate_limit_error", "", "This request would exceed your organization's rate limit"
	case llm.Overloaded:
		return 529, "overloaded_error", "", "Overloaded"
	case llm.ContextTooLong:
		return 400, "invalid_request_error", "", "prompt is too long: 210429 tokens > 200000 maximum"
	case llm.Auth:
		return 401, "authentication_error", "", "invalid x-api-key"
	case llm.Quota:
		return 400, "invalid_request_error", "", "Your credit balance is too low to access the API"
	case llm.Declined:
		return 0, "", "", ""
	default:
		return 400, "invalid_request_error", "", "messages: unexpected value"
	}
}

type anthropicBlock struct {
	Type, Text, ID, Name string
	Input                json.RawMessage
	UseID                string `json:"tool_use_id"`
}

type anthropicMessage struct {
	Role    string
	Content []anthropicBlock
}

func (anthropicWire) problem(body []byte) string {
	var r struct {
		Model    string
		Max      int `json:"max_tokens"`
		Messages []anthropicMessage
		Tools    []struct {
			Name   string
			Schema json.RawMessage `json:"input_schema"`
		}
		Choice any `json:"tool_choice"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return "the body is not valid: " + err.Error()
	}
	if r.Model == "" || r.Max < 1 || len(r.Messages) == 0 {
		return "model, max_tokens and messages are required"
	}
	for _, t := range r.Tools {
		if p := toolProblem(t.Name, t.Schema); p != "" {
			return p
		}
	}
	if r.Choice != nil && len(r.Tools) == 0 {
		return "tool_choice may only be specified while providing tools"
	}
	return anthropicOrder(r.Messages, len(r.Tools) > 0)
}

// anthropicOrder says what is wrong with turns, calls and their results.
func anthropicOrder(messages []anthropicMessage, tools bool) string {
	open := map[string]bool{}
	for i, m := range messages {
		if want := []string{"user", "assistant"}[i%2]; m.Role != want {
			return fmt.Sprintf("messages.%d: roles must alternate: want %s, got %s", i, want, m.Role)
		}
		if len(m.Content) == 0 {
			return fmt.Sprintf("messages.%d: content must not be empty", i)
		}
		for _, b := range m.Content {
			if p := blockProblem(b, m.Role, open); p != "" {
				return fmt.Sprintf("messages.%d: %s", i, p)
			}
			if b.Type == "tool_use" && !tools {
				return "requests with tool_use blocks must define tools"
			}
		}
		if m.Role == "user" && len(open) > 0 {
			return fmt.Sprintf("messages.%d: tool_use ids were found without tool_result blocks immediately after", i)
		}
	}
	if len(open) > 0 {
		return "the last calls have no results"
	}
	return ""
}

func blockProblem(b anthropicBlock, role string, open map[string]bool) string {
	switch b.Type {
	case "text":
		if strings.TrimSpace(b.Text) == "" {
			return "text content blocks must be non-empty"
		}
		if role == "user" && len(open) > 0 {
			return "tool_result blocks must come before text"
		}
	case "tool_use":
		if role != "assistant" || b.ID == "" || open[b.ID] || !wireName.MatchString(b.Name) {
			return fmt.Sprintf("tool_use %+v is not valid", b)
		}
		if p := objectProblem(string(b.Input)); p != "" {
			return "input: " + p
		}
		open[b.ID] = true
	case "tool_result":
		if role != "user" || !open[b.UseID] {
			return fmt.Sprintf("unexpected tool_use_id %q in a tool_result block", b.UseID)
		}
		delete(open, b.UseID)
	default:
		return "unknown block type " + b.Type
	}
	return ""
}
