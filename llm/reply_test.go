package llm_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchboard/llm"
	"switchboard/llm/llmtest"
)

// chat is an OpenAI reply around a message.
func chat(message, finish string) string {
	return `{"id":"x","choices":[{"index":0,"message":` + message + `,"finish_reason":"` + finish + `"}],"usage":{"prompt_tokens":20,"completion_tokens":5,"total_tokens":25}}`
}

// blocks is an Anthropic reply around its content.
func blocks(content, stop string) string {
	return `{"id":"x","type":"message","role":"assistant","content":` + content + `,"stop_reason":"` + stop + `","usage":{"input_tokens":20,"output_tokens":5}}`
}

// The gaps of the library on the way in, named as in TestRequestGaps.
func TestReplyGaps(t *testing.T) {
	t.Parallel()
	search := func(args string) []llm.ToolCall { return []llm.ToolCall{{Name: "docs.search", Args: args}} }
	for _, c := range []struct {
		name, provider, body string
		want                 llm.Reply
	}{
		{
			"O8 content as an array", "openai", chat(`{"content":[{"type":"text","text":"a"},{"type":"thinking","text":"x"},{"type":"text","text":"b"}]}`, "stop"),
			llm.Reply{Text: "ab", Finish: llm.Stop},
		},
		{
			"O8 arguments as an object", "openai", chat(`{"content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"docs__search","arguments":{"n": 9007199254740993}}}]}`, "tool_calls"),
			llm.Reply{Calls: search(`{"n": 9007199254740993}`), Finish: llm.Called},
		},
		{
			"O8 arguments null, missing", "openai", chat(`{"tool_calls":[{"id":"c","function":{"name":"docs__search","arguments":null}},{"id":"d","function":{"name":"docs__search"}}]}`, "tool_calls"),
			llm.Reply{Calls: append(search(""), search("")...), Finish: llm.Called},
		},
		{
			"O8 arguments broken, handed on as written", "openai", chat(`{"tool_calls":[{"id":"c","function":{"name":"docs__search","arguments":"{\"a\":"}}]}`, "length"),
			llm.Reply{Calls: search(`{"a":`), Finish: llm.CutOff},
		},
		{
			"O8 refusal", "openai", chat(`{"content":null,"refusal":"I will not."}`, "stop"),
			llm.Reply{Text: "I will not.", Finish: llm.Refused},
		},
		{
			"O8 refusal as a part", "openai", chat(`{"content":[{"type":"refusal","refusal":"I will not."}]}`, "stop"),
			llm.Reply{Text: "I will not.", Finish: llm.Refused},
		},
		{
			"O8 a filtered answer's calls are not carried out", "openai", chat(`{"content":"So far","tool_calls":[{"id":"c","function":{"name":"docs__search","arguments":"{"}}]}`, "content_filter"),
			llm.Reply{Text: "So far", Finish: llm.Refused},
		},
		{
			"O8 finish function_call without a function", "openai", chat(`{"content":"hello"}`, "function_call"),
			llm.Reply{Text: "hello", Finish: llm.Stop},
		},
		{
			"O8 finish function_call of an old server", "openai", chat(`{"content":null,"function_call":{"name":"docs__search","arguments":"{}"}}`, "function_call"),
			llm.Reply{Calls: search("{}"), Finish: llm.Called},
		},
		{
			"O8 calls with finish stop", "openai", chat(`{"content":null,"tool_calls":[{"id":"c","function":{"name":"docs__search","arguments":"{}"}}]}`, "stop"),
			llm.Reply{Calls: search("{}"), Finish: llm.Called},
		},
		{"O8 an unknown finish", "openai", chat(`{"content":"hello"}`, "eos"), llm.Reply{Text: "hello", Finish: llm.Stop}},
		{
			"O13 all choices are folded", "openai", `{"choices":[{"message":{"content":"Looking."},"finish_reason":"tool_calls"},{"message":{"content":null,"tool_calls":[{"id":"c","function":{"name":"docs__search","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":20,"completion_tokens":5}}`,
			llm.Reply{Text: "Looking.", Calls: search("{}"), Finish: llm.Called},
		},
		{
			"W3 the dotted name itself", "openai", chat(`{"tool_calls":[{"id":"c","function":{"name":"docs.search","arguments":"{}"}}]}`, "tool_calls"),
			llm.Reply{Calls: search("{}"), Finish: llm.Called},
		},
		{
			"A1 text and calls in one reply", "anthropic", blocks(`[{"type":"text","text":"Looking."},{"type":"tool_use","id":"c","name":"docs__search","input":{}},{"type":"tool_use","id":"d","name":"docs__search","input":{"a":1}}]`, "tool_use"),
			llm.Reply{Text: "Looking.", Calls: append(search("{}"), search(`{"a":1}`)...), Finish: llm.Called},
		},
		{
			"A3 integers above 2^53", "anthropic", blocks(`[{"type":"tool_use","id":"c","name":"docs__search","input":{"id": 9007199254740993}}]`, "tool_use"),
			llm.Reply{Calls: search(`{"id": 9007199254740993}`), Finish: llm.Called},
		},
		{
			"A5 unknown blocks are dropped", "anthropic", blocks(`[{"type":"redacted_thinking","data":"xx"},{"type":"thinking","thinking":"hm","signature":"s"},{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"text","text":"hello"}]`, "end_turn"),
			llm.Reply{Text: "hello", Finish: llm.Stop},
		},
		{
			"A5 texts side by side, and apart", "anthropic", blocks(`[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"server_tool_use","id":"s","name":"x","input":{}},{"type":"text","text":"c"}]`, "end_turn"),
			llm.Reply{Text: "ab\n\nc", Finish: llm.Stop},
		},
		{
			"A11 refusal with words", "anthropic", blocks(`[{"type":"text","text":"I will not."}]`, "refusal"),
			llm.Reply{Text: "I will not.", Finish: llm.Refused},
		},
		{"A11 pause_turn", "anthropic", blocks(`[{"type":"text","text":"so far"}]`, "pause_turn"), llm.Reply{Text: "so far", Finish: llm.Stop}},
		{
			"A11 words that look like thinking stay", "anthropic", blocks(`[{"type":"text","text":"<thinking>x</thinking>y"}]`, "end_turn"),
			llm.Reply{Text: "<thinking>x</thinking>y", Finish: llm.Stop},
		},
	} {
		t.Run(c.provider+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			got := do(t, model(t, llmtest.NewServer(t, says(200, c.body)), c.provider), llmtest.Request())
			c.want.Model, c.want.Attempts = c.provider+"/m-1", 1
			c.want.Usage = llm.Usage{Input: 20, Output: 5, Known: true}
			c.want.Usage.Cost = llmtest.Price().Cost(c.want.Usage)
			if d := cmp.Diff(c.want, got, cmpopts.IgnoreFields(llm.ToolCall{}, "ID"), cmpopts.IgnoreFields(llm.Reply{}, "Took")); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestUsageInOneShape(t *testing.T) {
	t.Parallel()
	text := `"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]`
	block := `"type":"message","content":[{"type":"text","text":"hello"},{"type":"text","text":"you"}],"stop_reason":"end_turn"`
	for _, c := range []struct {
		name, provider, body string
		want                 llm.Usage
	}{
		{
			"openai counts the cached part in", "openai", `{` + text + `,"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":60}}}`,
			llm.Usage{Input: 100, Cached: 60, Output: 7, Cost: 40*150_000 + 60*75_000 + 7*600_000, Known: true},
		},
		{
			"a compatible server's word for cached", "openai", `{` + text + `,"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_cache_hit_tokens":60}}`,
			llm.Usage{Input: 100, Cached: 60, Output: 7, Cost: 40*150_000 + 60*75_000 + 7*600_000, Known: true},
		},
		{
			"anthropic leaves the cached part out, and repeats its figures for each block", "anthropic", `{` + block + `,"usage":{"input_tokens":30,"cache_read_input_tokens":60,"cache_creation_input_tokens":10,"output_tokens":7}}`,
			llm.Usage{Input: 100, Cached: 60, Output: 7, Cost: 40*150_000 + 60*75_000 + 7*600_000, Known: true},
		},
		{"none sent", "openai", `{` + text + `}`, llm.Usage{}},
		{"none sent", "anthropic", `{` + block + `}`, llm.Usage{}},
		{"null", "openai", `{` + text + `,"usage":null}`, llm.Usage{}},
		{"no sense", "openai", `{` + text + `,"usage":{"prompt_tokens":"many"}}`, llm.Usage{}},
		{"negative", "openai", `{` + text + `,"usage":{"prompt_tokens":-1}}`, llm.Usage{}},
		{
			"more cached than sent", "openai", `{` + text + `,"usage":{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":60}}}`,
			llm.Usage{Input: 10, Cached: 10, Cost: 10 * 75_000, Known: true},
		},
	} {
		t.Run(c.provider+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			got := do(t, model(t, llmtest.NewServer(t, says(200, c.body)), c.provider), llmtest.Request()).Usage
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// Replies that are none, each three times, so that the reason shows.
func TestUselessReplies(t *testing.T) {
	t.Parallel()
	drop := llmtest.Step{Fail: llm.CutShort, Again: true}
	big := llmtest.Step{Again: true, HTTP: func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		_, _ = w.Write([]byte(`{"choices":[{"message":{"content":"`))
		piece := []byte(strings.Repeat("x", 1<<20))
		for range 9 {
			if _, err := w.Write(piece); err != nil {
				return // the client had enough
			}
		}
	}}
	for _, c := range []struct {
		name, provider string
		step           llmtest.Step
		want           llm.Reason
		attempts       int
		words          string
	}{
		{"O8 zero choices", "openai", again(says(200, `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":0}}`)), llm.Empty, 3, "neither"},
		{"O8 no choices", "openai", again(says(200, `{}`)), llm.Empty, 3, ""},
		{"O8 blank text", "openai", again(says(200, chat(`{"content":" \n"}`, "stop"))), llm.Empty, 3, ""},
		{"O8 the limit was used up by thinking", "openai", again(says(200, chat(`{"content":""}`, "length"))), llm.Empty, 1, "limit"},
		{"A4 a legal empty end", "anthropic", again(says(200, blocks(`[]`, "end_turn"))), llm.Empty, 3, ""},
		{"A5 only blocks that are dropped", "anthropic", again(says(200, blocks(`[{"type":"redacted_thinking","data":"x"}]`, "end_turn"))), llm.Empty, 3, ""},
		{"A11 refusal without words", "anthropic", again(says(200, blocks(`[]`, "refusal"))), llm.Declined, 1, "policy"},
		{"O8 filtered without words", "openai", again(says(200, chat(`{"content":null}`, "content_filter"))), llm.Declined, 1, "policy"},
		{"O8 an error with status 200", "openai", again(says(200, `{"error":{"message":"upstream is gone","code":502}}`)), llm.Overloaded, 3, "upstream is gone"},
		{"O8 a rate limit with status 200", "openai", again(says(200, `{"error":{"message":"slow","code":429}}`)), llm.RateLimited, 3, "slow"},
		{"O8 a bad request with status 200", "openai", again(says(200, `{"error":{"message":"no","type":"invalid_request_error"}}`)), llm.BadRequest, 1, "no"},
		{"O8 an error as a text", "openai", again(says(200, `{"error":"model is loading"}`)), llm.Overloaded, 3, "model is loading"},
		{"A3 an error with status 200", "anthropic", again(says(200, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)), llm.Overloaded, 3, ""},
		{"O3 a web page with status 200", "openai", again(says(200, "\n<!doctype html><title>Welcome</title>", "Content-Type", "text/html")), llm.Network, 3, "web page"},
		{"O3 a web page with status 200", "anthropic", again(says(200, "<html>")), llm.Network, 3, "web page"},
		{"O3 a body that is cut, with its length known", "openai", drop, llm.CutShort, 3, ""},
		{"O3 a body that is cut, with its length known", "anthropic", drop, llm.CutShort, 3, ""},
		{"O3 a body that is cut, whole as HTTP", "openai", again(says(200, `{"choices":[{"message":{"content":"hel`)), llm.CutShort, 3, ""},
		{"O3 no JSON", "anthropic", again(says(200, `{malformed json`)), llm.CutShort, 3, ""},
		{"O3 an empty body", "openai", again(says(200, ``)), llm.CutShort, 3, ""},
		{"O3 another shape", "openai", again(says(200, `{"choices":"none"}`)), llm.CutShort, 3, ""},
		{"O6 a reply without end", "openai", big, llm.CutShort, 1, "8 MiB"},
		{"W9 no content", "openai", again(says(204, ``)), llm.Overloaded, 3, "base URL"},
		{"W9 a redirect is not followed", "anthropic", again(says(307, ``, "Location", "http://127.0.0.1:1/elsewhere")), llm.BadRequest, 1, "base URL"},
	} {
		t.Run(c.provider+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			s := llmtest.NewServer(t, c.step)
			e := fails(t, model(t, s, c.provider), llmtest.Request())
			if e.Reason != c.want || e.Attempts != c.attempts || len(s.Sent()) != c.attempts || !strings.Contains(e.Detail, c.words) {
				t.Errorf("got %v after %d attempts (%d sent), want %s after %d", e, e.Attempts, len(s.Sent()), c.want, c.attempts)
			}
		})
	}
}

func TestW10_CallIDs(t *testing.T) {
	t.Parallel()
	call := func(id string) string {
		return fmt.Sprintf(`{"id":%q,"function":{"name":"docs__search","arguments":"{}"}}`, id)
	}
	s := llmtest.NewServer(t, says(200, chat(`{"tool_calls":[`+strings.Join([]string{call("new"), call("new"), call(""), call("c1")}, ",")+`]}`, "tool_calls")))
	got := do(t, model(t, s, "openai"), llmtest.Request(past()...)).Calls
	seen := map[string]bool{"": true, "c1": true, "c2": true}
	for i, c := range got {
		if seen[c.ID] || (i == 0) != (c.ID == "new") {
			t.Errorf("call %d has the id %q", i, c.ID)
		}
		seen[c.ID] = true
	}
	if len(got) != 4 {
		t.Errorf("%d calls", len(got))
	}
}

// Whatever JSON a server sends, the answer is a reply or an *llm.Error, and never a panic.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{
		chat(`{"content":"a","tool_calls":[{"id":"x","function":{"name":"a","arguments":"{}"}}]}`, "function_call"),
		blocks(`[{"type":"text","text":"a"},{"type":"tool_use","id":"c","name":"n","input":null}]`, "tool_use"),
		`{"error":{"message":[1],"code":{}}}`, `[]`, `null`, `{"choices":[null]}`, `{"content":[null]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, provider := range []string{"openai", "anthropic"} {
			m, err := llm.Open(llm.Options{Provider: provider, ID: "m", HTTP: canned{body}, Sleep: newClock().Sleep})
			if err != nil {
				t.Fatal(err)
			}
			reply, err := m.Do(t.Context(), llmtest.Request())
			if err == nil && strings.TrimSpace(reply.Text) == "" && len(reply.Calls) == 0 {
				t.Errorf("%s: %q became an empty reply", provider, body)
			}
			if err == nil {
				if _, e := json.Marshal(reply); e != nil {
					t.Error(e)
				}
				continue
			}
			if e := fails(t, m, llmtest.Request()); strings.Contains(e.Detail, "gave up") {
				t.Errorf("%s: %q: %v", provider, body, e)
			}
		}
	})
}
