package llm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// wire is a provider's format on both sides of the library: what the library is given, what it sends, what it gets back.
type wire interface {
	open(o Options, key string, c *http.Client) (llms.Model, error)
	messages(q query) []llms.MessageContent
	// patch completes the top level of a request.
	patch(q query, body map[string]json.RawMessage) error
	replies
}

// replies is the side of a wire that answers come in by.
type replies interface {
	// read understands a reply; a serverError is the error of a server that says so with a good status.
	read(body []byte) (answer, error)
	// gather begins to understand a reply that comes as a stream.
	gather() gatherer
	// write gives an answer in the plainest form that the library reads.
	write(a answer) []byte
	// args undoes what write did to a call's arguments.
	args(text string) string
}

func dialectOf(provider string) (profile, wire, bool) {
	switch provider {
	case "openai":
		return profile{base: "https://api.openai.com/v1", format: true}, openaiWire{}, true
	case "anthropic":
		return profile{base: "https://api.anthropic.com/v1", suffix: "/v1", output: 4096, keepTools: true}, anthropicWire{}, true
	default:
		return profile{}, nil, false
	}
}

// answer is a reply as it was read, with the names that the wire uses.
type answer struct {
	text    string
	calls   []ToolCall
	refusal string // the model's own words for declining
	finish  Finish
	usage   Usage
}

// settle decides what an answer amounts to. The error is set when it is of no use.
func (a *answer) settle() *Error {
	blank := strings.TrimSpace(a.text) == ""
	if a.refusal != "" {
		a.finish = Refused
		if blank {
			a.text, blank = a.refusal, false
		}
	}
	switch {
	case a.finish == Refused && blank:
		return &Error{Reason: Declined, Detail: "the provider's policy stopped the answer"}
	case a.finish == Refused:
		a.calls = nil // a filter may have cut them
	case len(a.calls) > 0 && a.finish != CutOff:
		a.finish = Called
	case len(a.calls) > 0:
	case blank && a.finish == CutOff:
		return &Error{Reason: Empty, Detail: "the output limit was used up before any text: raise it"}
	case blank:
		return &Error{Reason: Empty, Detail: "the reply holds neither text nor a call"}
	case a.finish != CutOff:
		a.finish = Stop
	}
	return nil
}

// schemaPrompt is the system text, followed by the wanted shape where the server is not told of it in another way.
func schemaPrompt(q query, told bool) string {
	if q.Schema == nil || told {
		return q.System
	}
	ask := "Answer with one JSON object and nothing else: no other text, no code fence. It fits this JSON Schema:\n" + string(q.Schema.JSON)
	if q.System == "" {
		return ask
	}
	return q.System + "\n\n" + ask
}

// wireTools gives the tools as the library wants them. The error names a tool that no provider would accept.
func wireTools(tools []Tool) ([]llms.Tool, error) {
	if len(tools) == 0 {
		return nil, nil
	}
	out := make([]llms.Tool, len(tools))
	for i, t := range tools {
		name := strings.ReplaceAll(t.Name, ".", "__")
		if !wireName.MatchString(name) || ourName(name) != t.Name {
			return nil, fmt.Errorf("offer tool %q: a name has 1 to 64 letters, digits, dots, dashes and single underscores (a dot counts twice and has no underscore before it)", t.Name)
		}
		schema := t.Schema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		out[i] = llms.Tool{Type: "function", Function: &llms.FunctionDefinition{Name: name, Description: t.About, Parameters: schema}}
	}
	return out, nil
}

var (
	wireName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	notName  = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)
)

// ourName gives a name from the wire back its dots. A model that writes the dots itself is understood too.
func ourName(name string) string { return strings.ReplaceAll(name, "__", ".") }

// pastName gives a name for a call in the history, where also what a model made up has to pass.
func pastName(name string) string {
	name = notName.ReplaceAllString(strings.ReplaceAll(name, ".", "__"), "_")
	if name == "" {
		return "unknown"
	}
	return name[:min(len(name), 64)]
}

// pastArgs gives a call's arguments as the JSON object that a history must hold. Broken text is kept as a value.
func pastArgs(text string) string {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return "{}"
	}
	if trimmed[0] == '{' && json.Valid([]byte(trimmed)) {
		return trimmed
	}
	return string(encode(map[string]string{"_unparsed": text}))
}

// encode is for values of plain types, which always have a JSON form.
func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return raw
}
