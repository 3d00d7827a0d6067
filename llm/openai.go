package llm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/openai"
)

// openaiWire is the chat completions format, which most servers speak.
type openaiWire struct{}

// open gives every option, because the library reads the environment for those that it is not given.
func (openaiWire) open(o Options, key string, c *http.Client) (llms.Model, error) {
	return openai.New(
		openai.WithToken(key), openai.WithModel(o.ID), openai.WithBaseURL(o.BaseURL), openai.WithOrganization(""),
		openai.WithAPIType(openai.APITypeOpenAI), openai.WithAPIVersion(""), openai.WithEmbeddingModel(""),
		openai.WithHTTPClient(c), openai.WithCallback(nil), openai.WithResponseFormat(nil),
	)
}

func (openaiWire) messages(q query) []llms.MessageContent {
	out := make([]llms.MessageContent, 0, len(q.Turns)+2)
	if system := schemaPrompt(q, q.habits&(jsonObject|plainText) == 0); system != "" {
		out = append(out, llms.TextParts(llms.ChatMessageTypeSystem, system))
	}
	for _, t := range q.Turns {
		for _, r := range t.Results {
			out = append(out, toolResult(r))
		}
		var parts []llms.ContentPart
		if t.Text != "" {
			parts = append(parts, llms.TextPart(t.Text))
		}
		role := llms.ChatMessageTypeHuman
		if t.Role == Assistant {
			role = llms.ChatMessageTypeAI
			for _, c := range t.Calls {
				parts = append(parts, toolCall(c, pastArgs(c.Args)))
			}
		}
		if len(parts) > 0 {
			out = append(out, llms.MessageContent{Role: role, Parts: parts})
		}
	}
	return out
}

func toolCall(c ToolCall, args string) llms.ToolCall {
	return llms.ToolCall{ID: c.ID, Type: "function", FunctionCall: &llms.FunctionCall{Name: pastName(c.Name), Arguments: args}}
}

func toolResult(r Result) llms.MessageContent {
	return llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
		llms.ToolCallResponse{ToolCallID: r.ID, Name: pastName(r.Name), Content: r.Text},
	}}
}

// limitField is the name that this server wants for the limit of the answer. Compatible servers know the old one.
func limitField(q query) string {
	if q.p.official != (q.habits&otherLimit != 0) {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

func (openaiWire) patch(q query, body map[string]json.RawMessage) error {
	delete(body, "temperature")
	if q.temperature != nil {
		body["temperature"] = encode(*q.temperature)
	}
	delete(body, "max_completion_tokens")
	if q.output > 0 {
		body[limitField(q)] = encode(q.output)
	}
	if q.streamed() {
		body["stream"] = json.RawMessage("true")
		if q.habits&bareStream == 0 {
			body["stream_options"] = json.RawMessage(`{"include_usage":true}`)
		}
	}
	switch {
	case q.Schema == nil || q.habits&plainText != 0:
	case q.habits&jsonObject != 0:
		body["response_format"] = json.RawMessage(`{"type":"json_object"}`)
	default:
		raw, err := json.Marshal(map[string]any{"type": "json_schema", "json_schema": map[string]any{
			"name": pastName(q.Schema.Name), "strict": true, "schema": q.Schema.JSON,
		}})
		if err != nil {
			return fmt.Errorf("schema %s: %w", q.Schema.Name, err)
		}
		body["response_format"] = raw
	}
	return nil
}

// chatReply is what is looked at of a reply. Raw fields come in more than one shape.
type chatReply struct {
	Choices []struct {
		Finish  string `json:"finish_reason"`
		Message struct {
			Content   json.RawMessage `json:"content"`
			Refusal   string          `json:"refusal"`
			ToolCalls []struct {
				ID       string       `json:"id"`
				Function chatFunction `json:"function"`
			} `json:"tool_calls"`
			Function *chatFunction `json:"function_call"` // of old servers
		} `json:"message"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type chatFunction struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"arguments"`
}

func (openaiWire) read(body []byte) (answer, error) {
	var r chatReply
	if err := json.Unmarshal(body, &r); err != nil {
		return answer{}, err
	}
	if isSet(r.Error) {
		return answer{}, readProblem(body)
	}
	a := answer{usage: chatUsage(r.Usage)}
	var text strings.Builder
	for _, c := range r.Choices {
		content, refusal := contentText(c.Message.Content)
		text.WriteString(content)
		a.refusal += refusal + c.Message.Refusal
		for _, t := range c.Message.ToolCalls {
			a.calls = append(a.calls, ToolCall{ID: t.ID, Name: t.Function.Name, Args: argsText(t.Function.Args)})
		}
		if f := c.Message.Function; f != nil && f.Name != "" && len(c.Message.ToolCalls) == 0 {
			a.calls = append(a.calls, ToolCall{Name: f.Name, Args: argsText(f.Args)})
		}
		if f := chatFinish(c.Finish); f != "" {
			a.finish = f
		}
	}
	a.text = text.String()
	return a, nil
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// contentText reads a content that is a text, or an array of parts.
func contentText(raw json.RawMessage) (text, refusal string) {
	if json.Unmarshal(raw, &text) == nil {
		return text, ""
	}
	var parts []struct{ Type, Text, Refusal string }
	if json.Unmarshal(raw, &parts) != nil {
		return "", ""
	}
	for _, p := range parts {
		if p.Type == "text" || p.Type == "output_text" {
			text += p.Text
		}
		refusal += p.Refusal
	}
	return text, refusal
}

// argsText reads arguments that are a text, as they should be, or the object itself.
func argsText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s // also of null
	}
	return string(raw)
}

func chatUsage(raw json.RawMessage) Usage {
	var u struct {
		Prompt     *int `json:"prompt_tokens"`
		Completion int  `json:"completion_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		CacheHit int `json:"prompt_cache_hit_tokens"` // DeepSeek
	}
	if json.Unmarshal(raw, &u) != nil || u.Prompt == nil {
		return Usage{}
	}
	return sensible(Usage{Input: *u.Prompt, Cached: max(u.Details.Cached, u.CacheHit), Output: u.Completion, Known: true})
}

// sensible keeps figures that cannot be true from reaching a bill.
func sensible(u Usage) Usage {
	if u.Input < 0 || u.Output < 0 {
		return Usage{}
	}
	u.Cached = min(max(u.Cached, 0), u.Input)
	return u
}

func (openaiWire) write(a answer) []byte {
	type function struct {
		Name string `json:"name"`
		Args string `json:"arguments"`
	}
	type call struct {
		ID       string   `json:"id"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	calls := make([]call, len(a.calls))
	for i, c := range a.calls {
		calls[i] = call{c.ID, "function", function{c.Name, c.Args}}
	}
	return encode(map[string]any{"choices": []any{map[string]any{
		"message":       map[string]any{"role": "assistant", "content": a.text, "tool_calls": calls},
		"finish_reason": "stop",
	}}})
}

func (openaiWire) args(text string) string { return text }
