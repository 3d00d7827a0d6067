package llm_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchboard/llm"
	"switchboard/llm/llmtest"
)

// Streams that are odd and still bring an answer. The numbers are those of the notes on the library.
func TestStreamGaps(t *testing.T) {
	t.Parallel()
	search := func(args ...string) (out []llm.ToolCall) {
		for _, a := range args {
			out = append(out, llm.ToolCall{Name: "docs.search", Args: a})
		}
		return out
	}
	name := `"name":"docs__search"`
	call := func(args ...string) string {
		return `{"index":0,"id":"c","type":"function","function":{` + name + `,"arguments":"` + strings.Join(args, "") + `"}}`
	}
	hello := delta(`{"content":"hel"}`) + delta(`{"content":"lo"}`)
	long := strings.Repeat("é", 100_000)
	for _, c := range []struct {
		name, provider, stream string
		want                   llm.Reply
	}{
		{"O3 no [DONE]", "openai", hello + finish("stop") + figures, llm.Reply{Text: "hello", Finish: llm.Stop}},
		{"O3 no finish", "openai", hello + figures + done, llm.Reply{Text: "hello", Finish: llm.Stop}},
		{"O3 cut behind the finish", "openai", hello + finish("length") + figures + `data: [DO`, llm.Reply{Text: "hello", Finish: llm.CutOff}},
		{
			"O4 pieces", "openai", callDelta(call()) + callDelta(`{"index":0,"function":{"arguments":"{\"a\""}}`) + callDelta(`{"index":0,"function":{"arguments":":1}"}}`) + finish("tool_calls") + figures + done,
			llm.Reply{Calls: search(`{"a":1}`), Finish: llm.Called},
		},
		{
			"O4 interleaved", "openai", callDelta(call()) + callDelta(`{"index":1,"id":"d","type":"function","function":{`+name+`}}`) + callDelta(`{"index":0,"function":{"arguments":"{\"a\""}}`) +
				callDelta(`{"index":1,"function":{"arguments":"{\"b\""}}`) + callDelta(`{"index":0,"function":{"arguments":":1}"}},{"index":1,"function":{"arguments":":2}"}}`) + finish("tool_calls") + figures + done,
			llm.Reply{Calls: search(`{"a":1}`, `{"b":2}`), Finish: llm.Called},
		},
		{
			"O4 type and name in every delta", "openai", callDelta(call(`{\"a\"`)) + callDelta(call(`:1}`)) + callDelta(call("")) + finish("tool_calls") + figures + done,
			llm.Reply{Calls: search(`{"a":1}`), Finish: llm.Called},
		},
		{
			"O4 no type", "openai", callDelta(`{"index":0,"id":"c","function":{`+name+`,"arguments":"{}"}}`) + finish("tool_calls") + figures + done,
			llm.Reply{Calls: search(`{}`), Finish: llm.Called},
		},
		{
			"O4 empty deltas", "openai", callDelta(call(`{}`)) + callDelta(`{"index":0,"function":{"arguments":""}}`) + callDelta(`{"index":0,"function":{"arguments":null}}`) + callDelta(`{"index":0}`) + callDelta(`{"index":7}`) + finish("tool_calls") + figures + done,
			llm.Reply{Calls: search(`{}`), Finish: llm.Called},
		},
		{
			"O4 arguments as an object", "openai", callDelta(`{"index":0,"id":"c","function":{`+name+`,"arguments":{"n": 9007199254740993}}}`) + finish("tool_calls") + figures + done,
			llm.Reply{Calls: search(`{"n": 9007199254740993}`), Finish: llm.Called},
		},
		{
			"O4 a new id on a used index", "openai", callDelta(call(`{\"a\":1}`)) + callDelta(`{"index":0,"id":"d","function":{`+name+`,"arguments":"{\"b\""}}`) + callDelta(`{"index":0,"function":{"arguments":":2}"}}`) + finish("tool_calls") + figures + done,
			llm.Reply{Calls: search(`{"a":1}`, `{"b":2}`), Finish: llm.Called},
		},
		{
			"O4 neither ids nor indexes", "openai", callDelta(`{"function":{`+name+`,"arguments":"{\"a\":1}"}}`) + callDelta(`{"function":{`+name+`,"arguments":"{\"b\":2}"}}`) + finish("tool_calls") + figures + done,
			llm.Reply{Calls: search(`{"a":1}`, `{"b":2}`), Finish: llm.Called},
		},
		{
			"O4 ids without indexes", "openai", callDelta(`{"id":"c","function":{`+name+`,"arguments":"{\"a\""}}`) + callDelta(`{"function":{"arguments":":1}"}}`) + callDelta(`{"id":"d","function":{`+name+`,"arguments":""}}`) + callDelta(`{"id":"d","function":{"arguments":"{}"}}`) + finish("tool_calls") + figures + done,
			llm.Reply{Calls: search(`{"a":1}`, `{}`), Finish: llm.Called},
		},
		{
			"O4 the name in pieces, the id late", "openai", callDelta(`{"index":0,"function":{"name":"docs__"}}`) + callDelta(`{"index":0,"id":"c","function":{"name":"search"}}`) + callDelta(`{"index":0,"function":{"arguments":"{}"}}`) + finish("tool_calls") + figures + done,
			llm.Reply{Calls: search(`{}`), Finish: llm.Called},
		},
		{
			"O4 an old server's function_call", "openai", delta(`{"function_call":{`+name+`,"arguments":""}}`) + delta(`{"function_call":{"arguments":"{}"}}`) + finish("function_call") + figures + done,
			llm.Reply{Calls: search(`{}`), Finish: llm.Called},
		},
		{
			"O4 cut arguments, handed on as written", "openai", callDelta(call(`{\"a\":\"\ud83d`)) + finish("length") + figures + done,
			llm.Reply{Calls: search("{\"a\":\"\ufffd"), Finish: llm.CutOff},
		},
		{
			"O4 half a character of the arguments in each delta", "openai", callDelta(call(`\"\ud83d`)) + callDelta(`{"index":0,"function":{"arguments":"\ude42\""}}`) + finish("tool_calls") + figures + done,
			llm.Reply{Calls: search(`"🙂"`), Finish: llm.Called},
		},
		{
			"O5 text beside calls and thoughts", "openai", delta(`{"role":"assistant","content":"","reasoning_content":"hm"}`) + hello + delta(`{"content":null,"reasoning":"so"}`) + callDelta(call(`{}`)) + finish("tool_calls") + figures + done,
			llm.Reply{Text: "hello", Calls: search(`{}`), Finish: llm.Called},
		},
		{"O5 content as parts", "openai", delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"x"}]},{"type":"text","text":"hello"}]}`) + finish("stop") + figures + done, llm.Reply{Text: "hello", Finish: llm.Stop}},
		{"O6 the finish comes early", "openai", delta(`{"content":"hello"},"finish_reason":"length"`) + event(`{"choices":[{"delta":{},"finish_reason":null}]}`) + event(`{"choices":[{"delta":{},"finish_reason":""}]}`) + figures + done, llm.Reply{Text: "hello", Finish: llm.CutOff}},
		{"O6 a line of 200 KB", "openai", delta(`{"content":"`+long+`"}`) + finish("stop") + figures + done, llm.Reply{Text: long, Finish: llm.Stop}},
		{"O6 comments, retries, ids, other fields", "openai", ": ping\n\nretry: 10\nid: 7\nnonsense\n\n:\n" + hello + ": OPENROUTER PROCESSING\n\n" + finish("stop") + figures + done, llm.Reply{Text: "hello", Finish: llm.Stop}},
		{"O6 CRLF", "openai", strings.ReplaceAll(hello+finish("stop")+figures+done, "\n", "\r\n"), llm.Reply{Text: "hello", Finish: llm.Stop}},
		{"O6 no space behind data:", "openai", strings.ReplaceAll(hello+finish("stop")+figures+done, "data: ", "data:"), llm.Reply{Text: "hello", Finish: llm.Stop}},
		{"O6 no blank lines", "openai", strings.ReplaceAll(hello+finish("stop")+figures+done, "\n\n", "\n"), llm.Reply{Text: "hello", Finish: llm.Stop}},
		{"O6 a mark at the beginning", "openai", "\ufeff\n" + hello + finish("stop") + figures + done, llm.Reply{Text: "hello", Finish: llm.Stop}},
		{"O6 an event over several lines", "openai", "data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"hello\"}}]}\n\n" + finish("stop") + figures + done, llm.Reply{Text: "hello", Finish: llm.Stop}},
		{"O8 refused in its own words", "openai", delta(`{"content":" "}`) + delta(`{"refusal":"I will "}`) + delta(`{"refusal":"not."}`) + finish("stop") + figures + done, llm.Reply{Text: "I will not.", Finish: llm.Refused}},
		{"O8 filtered in the middle", "openai", hello + callDelta(call(`{`)) + finish("content_filter") + figures + done, llm.Reply{Text: "hello", Finish: llm.Refused}},
		{"O8 half a character in each piece", "openai", delta(`{"content":"a\ud83d"}`) + delta(`{"content":"\ude42b\ud83d"}`) + delta(`{"content":"c"}`) + finish("stop") + figures + done, llm.Reply{Text: "a🙂b\ufffdc", Finish: llm.Stop}},
		{"O8 bytes of one character in two pieces", "openai", delta("{\"content\":\"a\xe2\x82\"}") + delta("{\"content\":\"\xacb\xff\"}") + finish("stop") + figures + done, llm.Reply{Text: "a€b\ufffd", Finish: llm.Stop}},
		{"O8 escapes", "openai", delta(`{"content":"\"\\\/\b\f\n\r\t\u00e9\u20AC\uD83D\uDE42"}`) + finish("stop") + figures + done, llm.Reply{Text: "\"\\/\b\f\n\r\té€🙂", Finish: llm.Stop}},
		{"O8 a whole reply as the only event", "openai", event(chat(`{"content":"hello"}`, "stop")), llm.Reply{Text: "hello", Finish: llm.Stop}},
		{"O8 a whole message behind its deltas", "openai", hello + event(chat(`{"content":"hello"}`, "stop")) + done, llm.Reply{Text: "hello", Finish: llm.Stop}},
		{"O8 plain JSON instead of a stream", "openai", chat(`{"content":"hello"}`, "stop"), llm.Reply{Text: "hello", Finish: llm.Stop}},
		{"O8 blank text beside a call", "openai", delta(`{"content":"\n\n"}`) + callDelta(call(`{}`)) + finish("tool_calls") + figures + done, llm.Reply{Calls: search(`{}`), Finish: llm.Called}},
		{"A4 no message_stop", "anthropic", begins + textBlock(0, "hel", "lo") + strings.TrimSuffix(stops("end_turn"), ends), llm.Reply{Text: "hello", Finish: llm.Stop}},
		{"A4 cut behind the reason", "anthropic", begins + textBlock(0, "hello") + strings.TrimSuffix(stops("max_tokens"), ends) + `data: {"type":"mess`, llm.Reply{Text: "hello", Finish: llm.CutOff}},
		{
			"A5 blocks of all kinds", "anthropic", begins + block(0, `{"type":"thinking","thinking":""}`, `{"type":"thinking_delta","thinking":"hm"}`, `{"type":"signature_delta","signature":"s"}`) +
				block(1, `{"type":"redacted_thinking","data":"x"}`) + textBlock(2, "a") + textBlock(3, "b", "") +
				block(4, `{"type":"server_tool_use","id":"s","name":"web_search","input":{}}`, `{"type":"input_json_delta","partial_json":"{\"q\":1}"}`) +
				block(5, `{"type":"web_search_tool_result","content":[]}`) + textBlock(6, "", "c") + block(7, `{"type":"text","text":"d"}`, `{"type":"citations_delta","citation":{}}`) +
				block(8, `{"type":"tool_use","id":"c","name":"docs__search","input":{}}`, `{"type":"input_json_delta","partial_json":""}`, `{"type":"input_json_delta","partial_json":"{\"a\""}`, `{"type":"input_json_delta","partial_json":":1}"}`) +
				stops("tool_use"),
			llm.Reply{Text: "ab\n\ncd", Calls: search(`{"a":1}`), Finish: llm.Called},
		},
		{"A5 unknown events and deltas", "anthropic", begins + event(`{"type":"ping"}`, `{"type":"news","delta":{"type":"text_delta","text":"x"}}`) + textBlock(0, "hello") + blockDelta(0, `{"type":"other","text":"x"}`) + blockDelta(9, `{"type":"input_json_delta","partial_json":"x"}`) + stops("end_turn"), llm.Reply{Text: "hello", Finish: llm.Stop}},
		{"A5 no block starts", "anthropic", begins + blockDelta(0, `{"type":"text_delta","text":"hello"}`) + stops("end_turn"), llm.Reply{Text: "hello", Finish: llm.Stop}},
		{"A6 no space behind data:", "anthropic", strings.ReplaceAll(begins+textBlock(0, "hello")+stops("end_turn"), ": {", ":{"), llm.Reply{Text: "hello", Finish: llm.Stop}},
		{"A6 CRLF", "anthropic", strings.ReplaceAll(begins+textBlock(0, "hello")+stops("end_turn"), "\n", "\r\n"), llm.Reply{Text: "hello", Finish: llm.Stop}},
		{"A6 no blank lines", "anthropic", strings.ReplaceAll(begins+textBlock(0, "hello")+stops("end_turn"), "\n\n", "\n"), llm.Reply{Text: "hello", Finish: llm.Stop}},
		{"A6 a line of 200 KB", "anthropic", begins + textBlock(0, long) + stops("end_turn"), llm.Reply{Text: long, Finish: llm.Stop}},
		{
			"A6 arguments cut by the limit", "anthropic", begins + block(0, `{"type":"tool_use","id":"c","name":"docs__search","input":{}}`, `{"type":"input_json_delta","partial_json":"{\"a\": \"b"}`) + stops("max_tokens"),
			llm.Reply{Calls: search(`{"a": "b`), Finish: llm.CutOff},
		},
		{
			"A6 arguments in the start, or none", "anthropic", begins + block(0, `{"type":"tool_use","id":"c","name":"docs__search","input":{"id": 9007199254740993}}`) + block(1, `{"type":"tool_use","id":"d","name":"docs__search","input":{}}`) + stops("tool_use"),
			llm.Reply{Calls: search(`{"id": 9007199254740993}`, `{}`), Finish: llm.Called},
		},
		{
			"A6 interleaved blocks", "anthropic", begins + event(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"docs__search"}}`, `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"d","name":"docs__search"}}`) +
				blockDelta(0, `{"type":"input_json_delta","partial_json":"{\"a\""}`) + blockDelta(1, `{"type":"input_json_delta","partial_json":"{}"}`) + blockDelta(0, `{"type":"input_json_delta","partial_json":":1}"}`) + stops("tool_use"),
			llm.Reply{Calls: search(`{"a":1}`, `{}`), Finish: llm.Called},
		},
		{"A11 refusal with words", "anthropic", begins + textBlock(0, "I will not.") + stops("refusal"), llm.Reply{Text: "I will not.", Finish: llm.Refused}},
		{"A8 half a character in each piece", "anthropic", begins + textBlock(0, `a\ud83d`, `\ude42`) + stops("end_turn"), llm.Reply{Text: "a🙂", Finish: llm.Stop}},
		{"A8 plain JSON instead of a stream", "anthropic", blocks(`[{"type":"text","text":"hello"}]`, "end_turn"), llm.Reply{Text: "hello", Finish: llm.Stop}},
	} {
		t.Run(c.provider+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			// Once as it is, and once with every byte on its own.
			for _, texts := range [][]string{{c.stream}, apart(c.stream)} {
				r := listen()
				got := do(t, model(t, llmtest.NewServer(t, llmtest.Step{HTTP: llmtest.Events(nil, texts...)}), c.provider), r.Request)
				want := c.want
				want.Model, want.Attempts = c.provider+"/m-1", 1
				want.Usage = llm.Usage{Input: 20, Output: 5, Known: true}
				want.Usage.Cost = llmtest.Price().Cost(want.Usage)
				if d := cmp.Diff(want, got, cmpopts.IgnoreFields(llm.ToolCall{}, "ID"), cmpopts.IgnoreFields(llm.Reply{}, "Took")); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
				if r.text() != got.Text {
					t.Errorf("released %q of %q", *r.pieces, got.Text)
				}
			}
		})
	}
}

// apart cuts a short text into its bytes, and a long one into chunks that end anywhere.
func apart(text string) (out []string) {
	n := len(text)/1500 + 1
	for len(text) > n {
		out = append(out, text[:n])
		text = text[n:]
	}
	return append(out, text)
}
