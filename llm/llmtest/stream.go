package llmtest

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"switchboard/llm"
)

// frame is one event of a stream.
type frame struct {
	name  string // "": only the data are sent, as in chat completions
	data  []byte
	paced bool // a word of the answer, before which the step's Pace is asked
}

// streamed says whether a request asks for a stream, and for the usage in it.
func streamed(body []byte) (wanted, usage bool) {
	var r struct {
		Stream  bool
		Options struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	_ = json.Unmarshal(body, &r) // a request that cannot be read asks for nothing
	return r.Stream, r.Options.Usage
}

// stream answers with events, each of them sent at once. A step that fails with CutShort breaks off behind its text.
func stream(ctx context.Context, w http.ResponseWriter, frames []frame, st Step) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	for _, f := range frames {
		if f.paced && st.Pace != nil && st.Pace(ctx) != nil {
			hangUp(w)
			return
		}
		text := "data: " + strings.TrimSpace(string(f.data)) + "\n\n"
		if f.name != "" {
			text = "event: " + f.name + "\n" + text
		}
		if _, err := w.Write([]byte(text)); err != nil {
			return // the caller is gone
		}
		_ = http.NewResponseController(w).Flush()
	}
	if st.Fail == llm.CutShort {
		hangUp(w)
	}
}

// Events is a handler that streams the given texts as they are, each sent at once. Between two of them, wait may hold it
// up; its error ends the connection without another word. A nil wait waits for nothing.
func Events(wait func(ctx context.Context) error, texts ...string) HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		for i, text := range texts {
			if i > 0 && wait != nil && wait(r.Context()) != nil {
				hangUp(w)
				return
			}
			if _, err := w.Write([]byte(text)); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// pieces cuts a text behind every n-th character, and words behind every space.
func pieces(text string, n int) (out []string) {
	runes := []rune(text)
	for len(runes) > n {
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return append(out, string(runes))
}

func words(text string) []string {
	if text == "" {
		return nil
	}
	return strings.SplitAfter(text, " ")
}

func (openaiWire) stream(st Step, usage bool) (out []frame) {
	chunk := func(delta object, finish any) []byte {
		return encode(object{
			"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "fake",
			"choices": []object{{"index": 0, "delta": delta, "finish_reason": finish}},
		})
	}
	out = append(out, frame{data: chunk(object{"role": "assistant", "content": "", "refusal": nil}, nil)})
	field := "content"
	if st.Refuse {
		field = "refusal"
	}
	for _, word := range words(st.Text) {
		out = append(out, frame{data: chunk(object{field: word}, nil), paced: true})
	}
	if st.Fail == llm.CutShort {
		return out
	}
	for i, c := range st.Calls {
		out = append(out, frame{data: chunk(object{"tool_calls": []object{{
			"index": i, "id": id(c, i, "call_"), "type": "function", "function": object{"name": WireName(c.Name), "arguments": ""},
		}}}, nil)})
		for _, p := range pieces(c.Args, 7) {
			out = append(out, frame{data: chunk(object{"tool_calls": []object{{"index": i, "function": object{"arguments": p}}}}, nil)})
		}
	}
	finish := "stop"
	switch {
	case st.Refuse && st.Text == "":
		finish = "content_filter"
	case st.Cut:
		finish = "length"
	case len(st.Calls) > 0:
		finish = "tool_calls"
	}
	out = append(out, frame{data: chunk(object{}, finish)})
	if u := st.Usage; u != nil && usage {
		out = append(out, frame{data: encode(object{
			"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "fake", "choices": []object{}, "usage": chatUsage(u),
		})})
	}
	return append(out, frame{data: []byte("[DONE]")})
}

func (anthropicWire) stream(st Step, _ bool) (out []frame) {
	add := func(paced bool, v object) {
		name, _ := v["type"].(string)
		out = append(out, frame{name, encode(v), paced})
	}
	start := object{"id": "msg_1", "type": "message", "role": "assistant", "model": "fake", "content": []object{}, "stop_reason": nil, "stop_sequence": nil}
	if st.Usage != nil {
		start["usage"] = messageUsage(st.Usage, 1)
	}
	add(false, object{"type": "message_start", "message": start})
	add(false, object{"type": "ping"})
	index := 0
	block := func(first object, field string, deltas []string, typ string) {
		add(false, object{"type": "content_block_start", "index": index, "content_block": first})
		for _, d := range deltas {
			add(typ == "text_delta", object{"type": "content_block_delta", "index": index, "delta": object{"type": typ, field: d}})
		}
		add(false, object{"type": "content_block_stop", "index": index})
		index++
	}
	if st.Text != "" {
		block(object{"type": "text", "text": ""}, "text", words(st.Text), "text_delta")
	}
	if st.Fail == llm.CutShort {
		return out
	}
	stop := "end_turn"
	for i, c := range st.Calls {
		first := object{"type": "tool_use", "id": id(c, i, "toolu_"), "name": WireName(c.Name), "input": object{}}
		block(first, "partial_json", append([]string{""}, pieces(c.Args, 7)...), "input_json_delta")
		stop = "tool_use"
	}
	switch {
	case st.Refuse:
		stop = "refusal"
	case st.Cut:
		stop = "max_tokens"
	}
	end := object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}}
	if u := st.Usage; u != nil {
		end["usage"] = object{"output_tokens": u.Output}
	}
	add(false, end)
	add(false, object{"type": "message_stop"})
	return out
}
