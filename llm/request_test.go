package llm_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchboard/llm"
	"switchboard/llm/llmtest"
)

// past is a conversation with a round of calls in it.
func past() []llm.Turn {
	return []llm.Turn{
		{Role: llm.Assistant, Text: "Looking.", Calls: []llm.ToolCall{
			{ID: "c1", Name: "docs.search", Args: `{"query":"a"}`}, {ID: "c2", Name: "members_count", Args: ""},
		}},
		{Role: llm.Results, Results: []llm.Result{
			{ID: "c1", Name: "docs.search", Text: "rows"}, {ID: "c2", Name: "members_count", Text: "no such member", Failed: true},
		}},
		{Role: llm.User, Text: "and now?"},
	}
}

// The gaps of the library on the way out. Each is named after its number in the notes on the library: O for the OpenAI
// format, A for the Anthropic one, W for what both send.
func TestRequestGaps(t *testing.T) {
	t.Parallel()
	half := 0.5
	schema := &llm.Schema{Name: "decision", JSON: json.RawMessage(`{"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a"],"additionalProperties":false}`)}
	for _, c := range []struct {
		name     string
		provider string
		options  func(*llm.Options)
		request  func(*llm.Request)
		path     []any
		want     string // JSON; "" for absent
	}{
		{"W1 temperature is left out unless set", "openai", nil, nil, []any{"temperature"}, ""},
		{"W1 temperature is left out unless set", "anthropic", nil, nil, []any{"temperature"}, ""},
		{"W1 temperature when set", "openai", func(o *llm.Options) { o.Temperature = &half }, nil, []any{"temperature"}, "0.5"},
		{"W1 temperature when set, for a model the library thinks has none", "openai", func(o *llm.Options) { o.Temperature, o.ID = &half, "gpt-5-mini" }, nil, []any{"temperature"}, "0.5"},
		{"W1 temperature when set", "anthropic", func(o *llm.Options) { o.Temperature = &half }, nil, []any{"temperature"}, "0.5"},
		{"W2 no output limit of the library's own", "openai", nil, nil, []any{"max_tokens"}, ""},
		{"W2 the old name of the limit for compatible servers", "openai", func(o *llm.Options) { o.Output = 77 }, nil, []any{"max_tokens"}, "77"},
		{"W2 one name of the limit only", "openai", func(o *llm.Options) { o.Output = 77 }, nil, []any{"max_completion_tokens"}, ""},
		{"W2 the format's necessary limit", "anthropic", nil, nil, []any{"max_tokens"}, "4096"},
		{"W2 the request's limit before the model's", "anthropic", func(o *llm.Options) { o.Output = 77 }, func(r *llm.Request) { r.MaxOutput = 33 }, []any{"max_tokens"}, "33"},
		{"W3 names without dots", "openai", nil, nil, []any{"tools", 0, "function", "name"}, `"docs__search"`},
		{"W3 names without dots", "anthropic", nil, nil, []any{"tools", 0, "name"}, `"docs__search"`},
		{"W4 schemas verbatim", "openai", nil, nil, []any{"tools", 1, "function", "parameters"}, string(llmtest.Tools()[1].Schema)},
		{"W4 schemas verbatim", "anthropic", nil, nil, []any{"tools", 1, "input_schema"}, string(llmtest.Tools()[1].Schema)},
		{"W4 a tool without a schema", "openai", nil, func(r *llm.Request) { r.Tools = []llm.Tool{{Name: "now"}} }, []any{"tools", 0, "function", "parameters"}, `{"type":"object","properties":{}}`},
		{"W5 one system text", "openai", nil, nil, []any{"messages", 0}, `{"role":"system","content":"You help at the front desk."}`},
		{"W6 Where is nobody's business", "openai", nil, func(r *llm.Request) { r.Where.First = "elsewhere" }, []any{"where"}, ""},
		{"A2 no tool choice unless needed", "anthropic", nil, nil, []any{"tool_choice"}, ""},
		{"A2 tools stay with choice none", "anthropic", nil, func(r *llm.Request) { r.Choice = llm.None }, []any{"tool_choice"}, `{"type":"none"}`},
		{"A2 tools stay with choice none", "anthropic", nil, func(r *llm.Request) { r.Choice = llm.None }, []any{"tools", 1, "name"}, `"members_count"`},
		{"A2 no choice without tools", "anthropic", nil, func(r *llm.Request) { r.Choice, r.Tools, r.Turns = llm.None, nil, r.Turns[:1] }, []any{"tool_choice"}, ""},
		{"O10 choice none leaves the tools out", "openai", nil, func(r *llm.Request) { r.Choice = llm.None }, []any{"tools"}, ""},
		{"O10 choice none leaves the choice out too", "openai", nil, func(r *llm.Request) { r.Choice = llm.None }, []any{"tool_choice"}, ""},
		{"O11 a schema as it is", "openai", nil, func(r *llm.Request) { r.Schema = schema }, []any{"response_format"}, `{"type":"json_schema","json_schema":{"name":"decision","strict":true,"schema":` + string(schema.JSON) + `}}`},
		{"O11 no format unless asked", "openai", nil, nil, []any{"response_format"}, ""},
		{"A2 a schema in the prompt, apart from the system text", "anthropic", nil, func(r *llm.Request) { r.Schema = schema }, []any{"system"}, string(mustJSON("You help at the front desk.\n\nAnswer with one JSON object and nothing else: no other text, no code fence. It fits this JSON Schema:\n" + string(schema.JSON)))},
		{"O12 text and calls in one turn, empty arguments as an object", "openai", nil, nil, []any{"messages", 2}, `{"role":"assistant","content":"Looking.","tool_calls":[{"id":"c1","type":"function","function":{"name":"docs__search","arguments":"{\"query\":\"a\"}"}},{"id":"c2","type":"function","function":{"name":"members_count","arguments":"{}"}}]}`},
		{"O12 one message for each result", "openai", nil, nil, []any{"messages", 4}, `{"role":"tool","tool_call_id":"c2","content":"no such member"}`},
		{"A1 text and calls in one turn, empty arguments as an object", "anthropic", nil, nil, []any{"messages", 1}, `{"role":"assistant","content":[{"type":"text","text":"Looking."},{"type":"tool_use","id":"c1","name":"docs__search","input":{"query":"a"}},{"type":"tool_use","id":"c2","name":"members_count","input":{}}]}`},
		{"A1 results and text in one turn, failure marked", "anthropic", nil, nil, []any{"messages", 2}, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"rows"},{"type":"tool_result","tool_use_id":"c2","content":"no such member","is_error":true},{"type":"text","text":"and now?"}]}`},
	} {
		t.Run(c.provider+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			s := llmtest.NewServer(t, llmtest.Step{Text: "fine"})
			change := func(*llm.Options) {}
			if c.options != nil {
				change = c.options
			}
			r := llmtest.Request(past()...)
			if c.request != nil {
				c.request(&r)
			}
			do(t, model(t, s, c.provider, change), r)
			var want any
			if c.want != "" {
				if err := json.Unmarshal([]byte(c.want), &want); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(want, at(sent(t, s), c.path...)); d != "" {
				t.Errorf("%v (-want +got):\n%s\n%s", c.path, d, s.Sent()[0].Body)
			}
		})
	}
}

func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// What a model once wrote must pass as history, whatever it was.
func TestW7_PastCallsAlwaysPass(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"openai", "anthropic"} {
		for _, c := range []struct{ name, args, want string }{
			{"docs.search", ``, `{}`},
			{"docs.search", " \n", `{}`},
			{"docs.search", ` {"a": 1} `, `{"a":1}`},
			{"docs.search", `{"id": 9007199254740993}`, `{"id":9007199254740993}`},
			{"docs.search", `{"a":`, `{"_unparsed":"{\"a\":"}`},
			{"docs.search", `[1]`, `{"_unparsed":"[1]"}`},
			{"docs.search", `null`, `{"_unparsed":"null"}`},
			{"docs.search", "{\"a\":\"\xff\"}", "{\"a\":\"\ufffd\"}"},
			{"no such tool!", `{}`, `{}`},
			{"", `{}`, `{}`},
			{strings.Repeat("long.", 40), `{}`, `{}`},
		} {
			t.Run(fmt.Sprintf("%s/%.12s/%s", provider, c.name, c.args), func(t *testing.T) {
				t.Parallel()
				s := llmtest.NewServer(t, llmtest.Step{Text: "fine"})
				do(t, model(t, s, provider), llmtest.Request(
					llm.Turn{Role: llm.Assistant, Calls: []llm.ToolCall{{ID: "c1", Name: c.name, Args: c.args}}},
					llm.Turn{Role: llm.Results, Results: []llm.Result{{ID: "c1", Name: c.name, Text: "no"}}},
				))
				var got string
				if provider == "openai" {
					got, _ = at(sent(t, s), "messages", 2, "tool_calls", 0, "function", "arguments").(string)
				} else {
					// Not through any: the numbers must be looked at as they were sent.
					var b struct {
						Messages []struct {
							Content []struct{ Input json.RawMessage }
						}
					}
					if err := json.Unmarshal(s.Sent()[0].Body, &b); err != nil {
						t.Fatal(err)
					}
					got = string(b.Messages[1].Content[0].Input)
				}
				if strings.ReplaceAll(got, `": `, `":`) != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			})
		}
	}
}

func TestW3_ToolNames(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"docs.search": true, "a.b.c": true, "a_b": true, "A-1": true, strings.Repeat("x", 64): true,
		"a__b": false, "a_.b": false, "a._b": true, "": false, "a b": false, "é": false, strings.Repeat("x", 65): false, strings.Repeat("x.", 22): false,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := llmtest.NewServer(t)
			r := llmtest.Request()
			r.Tools = []llm.Tool{{Name: name, Schema: json.RawMessage(`{"type":"object"}`)}}
			if good {
				s.Add(llmtest.Step{Calls: []llm.ToolCall{{Name: name, Args: `{}`}}})
				if got := do(t, model(t, s, "openai"), r).Calls[0].Name; got != name {
					t.Errorf("came back as %q", got)
				}
				return
			}
			e := fails(t, model(t, s, "openai"), r)
			if e.Reason != llm.BadRequest || len(s.Sent()) != 0 || !strings.Contains(e.Detail, fmt.Sprintf("%q", name)) {
				t.Errorf("got %v after %d requests", e, len(s.Sent()))
			}
		})
	}
}

func TestW8_NoTurns(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"openai", "anthropic"} {
		s := llmtest.NewServer(t)
		for _, turns := range [][]llm.Turn{nil, {{Role: llm.User}}, {{Role: llm.Assistant}}} {
			if e := fails(t, model(t, s, provider), llm.Request{System: "x", Turns: turns}); e.Reason != llm.BadRequest {
				t.Errorf("%s: got %v", provider, e)
			}
		}
	}
}

// A blank text is refused by the Anthropic format, and says nothing in either.
func TestA10_BlankTextsAreLeftOut(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, llmtest.Step{Text: "fine"})
	turns := past()
	turns[0].Text = " \n"
	do(t, model(t, s, "anthropic"), llmtest.Request(turns...))
	if got := at(sent(t, s), "messages", 1, "content", 0, "type"); got != "tool_use" {
		t.Errorf("first block is %v", got)
	}
}

// refuses400 answers as a server that does not know a field.
func refuses400(words string) llmtest.Step {
	return says(400, string(mustJSON(map[string]any{"error": map[string]any{"message": words, "type": "invalid_request_error"}})))
}

func TestO11_FallsBackWhereASchemaIsNotKnown(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(
		t, refuses400("response_format.type: json_schema is not available"), llmtest.Step{Text: `{}`}, // once
		llmtest.Step{Text: `{}`}, // remembered
		refuses400("response_format is not supported"), llmtest.Step{Text: `{}`},
		refuses400("response_format is not supported, whatever you send"),
	)
	m := model(t, s, "openai")
	r := llmtest.Request()
	r.Schema = &llm.Schema{Name: "d", JSON: json.RawMessage(`{"type":"object"}`)}
	if got := do(t, m, r).Attempts; got != 2 {
		t.Errorf("%d attempts, want 2", got)
	}
	if got := do(t, m, r).Attempts; got != 1 {
		t.Errorf("%d attempts with the fall-back remembered, want 1", got)
	}
	do(t, m, r)
	if e := fails(t, m, r); e.Reason != llm.BadRequest || e.Attempts != 1 {
		t.Errorf("nothing is left to fall back to: %v after %d attempts", e, e.Attempts)
	}
	var formats []any
	for _, q := range s.Sent() {
		b := read(t, q.Body)
		formats = append(formats, at(b, "response_format", "type"))
		system, _ := at(b, "messages", 0, "content").(string)
		if inPrompt := strings.Contains(system, `{"type":"object"}`); inPrompt != (at(b, "response_format", "type") != "json_schema") {
			t.Errorf("schema in the prompt: %v with %v", inPrompt, b["response_format"])
		}
	}
	if d := cmp.Diff([]any{"json_schema", "json_object", "json_object", "json_object", nil, nil}, formats); d != "" {
		t.Error(d)
	}
}

func TestW2_FallsBackToTheOtherNameOfTheLimit(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, refuses400("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."),
		llmtest.Step{Text: "a"}, llmtest.Step{Text: "b"},
		refuses400("max_completion_tokens is too large: 77. This model takes at most 10."))
	m := model(t, s, "openai", func(o *llm.Options) { o.Output = 77 })
	do(t, m, llmtest.Request())
	do(t, m, llmtest.Request())
	if e := fails(t, m, llmtest.Request()); e.Attempts != 1 {
		t.Error("a limit that is too large was taken for a matter of its name")
	}
	for i, q := range s.Sent() {
		b := read(t, q.Body)
		if (b["max_tokens"] != nil) != (i == 0) || (b["max_completion_tokens"] != nil) != (i > 0) {
			t.Errorf("request %d: %s", i, q.Body)
		}
	}
}

// The provider's own address takes the new name of the limit from the start.
func TestW2_OfficialName(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, llmtest.Step{Text: "a"})
	m := model(t, s, "openai", func(o *llm.Options) {
		o.BaseURL, o.Output = "", 77
		o.HTTP = redirected{o.HTTP, strings.TrimPrefix(strings.TrimSuffix(s.URL, "/v1"), "http://")}
	})
	do(t, m, llmtest.Request())
	if b := sent(t, s); b["max_completion_tokens"] != 77.0 || b["max_tokens"] != nil {
		t.Errorf("%v", b)
	}
}

// redirected sends every request to a host on this machine.
type redirected struct {
	next http.RoundTripper
	host string
}

func (r redirected) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.URL.Scheme, out.URL.Host = "http", r.host
	return r.next.RoundTrip(out)
}
