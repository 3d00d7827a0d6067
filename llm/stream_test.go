package llm_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"switchboard/llm"
	"switchboard/llm/llmtest"
)

// heard is the exam's question, streamed, and the pieces that came.
type heard struct {
	llm.Request
	pieces *[]string
}

func listen() heard {
	h := heard{llmtest.Request(), &[]string{}}
	h.OnText = func(text string) { *h.pieces = append(*h.pieces, text) }
	return h
}

func (h heard) text() string { return strings.Join(*h.pieces, "") }

// event is one event of a stream around its data.
func event(data ...string) string {
	return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n"
}

// delta is a chunk of a chat completion.
func delta(d string) string { return event(`{"choices":[{"index":0,"delta":` + d + `}]}`) }

// callDelta is a chunk with one piece of a call.
func callDelta(d string) string { return delta(`{"tool_calls":[` + d + `]}`) }

func finish(word string) string {
	return event(`{"choices":[{"index":0,"delta":{},"finish_reason":"` + word + `"}]}`)
}

const (
	figures = `data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":5}}` + "\n\n"
	done    = "data: [DONE]\n\n"
	begins  = `event: message_start` + "\n" + `data: {"type":"message_start","message":{"content":[],"usage":{"input_tokens":20,"output_tokens":1}}}` + "\n\n"
	ends    = `event: message_stop` + "\n" + `data: {"type":"message_stop"}` + "\n\n"
)

// block is the start of a block of a message, its deltas, and its end.
func block(index int, first string, deltas ...string) string {
	out := event(fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, index, first))
	for _, d := range deltas {
		out += blockDelta(index, d)
	}
	return out + event(fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index))
}

func blockDelta(index int, d string) string {
	return event(fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":%s}`, index, d))
}

func textBlock(index int, words ...string) string {
	var deltas []string
	for _, w := range words {
		deltas = append(deltas, `{"type":"text_delta","text":"`+w+`"}`)
	}
	return block(index, `{"type":"text","text":""}`, deltas...)
}

func stops(reason string) string {
	return event(`{"type":"message_delta","delta":{"stop_reason":"`+reason+`"},"usage":{"output_tokens":5}}`) + ends
}

// Streams that bring no answer: before a text they are asked for again, after one they are not.
func TestM7_BrokenStreams(t *testing.T) {
	t.Parallel()
	web := "<!doctype html><title>Welcome</title>"
	for _, c := range []struct {
		name, provider, stream string
		want                   llm.Reason
		attempts               int // as long as nothing was released
		words                  string
	}{
		{"O3 an error", "openai", event(`{"error":{"message":"upstream is gone","code":502}}`), llm.Overloaded, 3, "upstream is gone"},
		{"O3 a bad request", "openai", event(`{"error":{"message":"no","type":"invalid_request_error"}}`), llm.BadRequest, 1, "no"},
		{"O3 a named error", "openai", "event: error\ndata: out of memory\n\n", llm.Overloaded, 3, "out of memory"},
		{"O3 an error without a frame", "openai", `{"error":{"message":"boom","code":500}}` + "\n", llm.Overloaded, 3, "boom"},
		{"O3 an error in another shape", "openai", event(`{"object":"error","message":"boom","code":500}`), llm.Overloaded, 3, "boom"},
		{"O3 an error as the finish", "openai", finish("error"), llm.Overloaded, 3, "error"},
		{"O3 a broken event", "openai", event(`{"choices":[{"del`), llm.CutShort, 3, "cannot be read"},
		{"O3 another shape", "openai", event(`{"choices":"none"}`), llm.CutShort, 3, "cannot be read"},
		{"O3 no end", "openai", delta(`{"content":""}`), llm.CutShort, 3, "ended before"},
		{"O3 nothing", "openai", "", llm.CutShort, 3, ""},
		{"O3 only comments", "openai", ": ping\n\n: ping\n\n", llm.CutShort, 3, "ended before"},
		{"O3 half a line", "openai", `data: {"choices"`, llm.CutShort, 3, ""},
		{"O8 an empty end", "openai", done, llm.Empty, 3, "neither"},
		{"O8 filtered without words", "openai", finish("content_filter") + done, llm.Declined, 1, "policy"},
		{"A3 an error", "anthropic", "event: error\n" + event(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), llm.Overloaded, 3, "Overloaded"},
		{"A3 an error without type", "anthropic", event(`{"error":{"type":"api_error","message":"boom"}}`), llm.Overloaded, 3, "boom"},
		{"A3 a named error", "anthropic", "event: error\ndata: out of memory\n\n", llm.Overloaded, 3, "out of memory"},
		{"A4 no end", "anthropic", begins, llm.CutShort, 3, "ended before"},
		{"A4 an empty end", "anthropic", begins + stops("end_turn"), llm.Empty, 3, "neither"},
		{"A6 a broken event", "anthropic", event(`{"type":"content_blo`), llm.CutShort, 3, "cannot be read"},
		{"A11 refused without words", "anthropic", begins + stops("refusal"), llm.Declined, 1, "policy"},
	} {
		t.Run(c.provider+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			s := llmtest.NewServer(t, again(llmtest.Step{HTTP: llmtest.Events(nil, c.stream)}))
			r := listen()
			e := fails(t, model(t, s, c.provider), r.Request)
			if e.Reason != c.want || e.Attempts != c.attempts || len(s.Sent()) != c.attempts || !strings.Contains(e.Detail, c.words) || e.Released || r.text() != "" {
				t.Errorf("got %v after %d attempts (%d sent), released %q; want %s after %d", e, e.Attempts, len(s.Sent()), *r.pieces, c.want, c.attempts)
			}
			if c.want == llm.Empty || c.want == llm.Declined {
				return // no text, by their nature
			}
			first := delta(`{"content":"So far"}`)
			if c.provider == "anthropic" {
				first = begins + event(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"So far"}}`)
			}
			s = llmtest.NewServer(t, again(llmtest.Step{HTTP: llmtest.Events(nil, first+c.stream)}))
			e = fails(t, model(t, s, c.provider), r.Request)
			if e.Reason != c.want || e.Attempts != 1 || len(s.Sent()) != 1 || !e.Released || r.text() != "So far" {
				t.Errorf("after text: got %v after %d attempts, Released %v, released %q; want %s after one", e, e.Attempts, e.Released, *r.pieces, c.want)
			}
		})
	}
	for _, provider := range []string{"openai", "anthropic"} {
		r, s := listen(), llmtest.NewServer(t, again(says(200, web, "Content-Type", "text/html")))
		if e := fails(t, model(t, s, provider), r.Request); e.Reason != llm.Network || e.Attempts != 3 || r.text() != "" {
			t.Errorf("O3 %s, a web page: got %v", provider, e)
		}
		r, s = listen(), llmtest.NewServer(t, again(says(200, `{malformed`, "Content-Type", "text/event-stream")))
		if e := fails(t, model(t, s, provider), r.Request); e.Reason != llm.CutShort || e.Attempts != 3 || r.text() != "" {
			t.Errorf("O3 %s, no JSON: got %v", provider, e)
		}
	}
}

func TestO6_BoundOfAStream(t *testing.T) {
	t.Parallel()
	piece := delta(`{"content":"` + strings.Repeat("x", 1<<20) + `"}`)
	for name, first := range map[string]string{"many events": "", "one line": `data: {"choices":"` + strings.Repeat("y", 9<<20)} {
		texts := append([]string{first}, strings.Split(strings.Repeat(piece, 9), "\x00")...)
		s := llmtest.NewServer(t, llmtest.Step{HTTP: llmtest.Events(nil, texts...)})
		r := listen()
		e := fails(t, model(t, s, "openai"), r.Request)
		if e.Reason != llm.CutShort || e.Attempts != 1 || !strings.Contains(e.Detail, "8 MiB") || len(r.text()) > 8<<20 {
			t.Errorf("%s: got %v, released %d bytes", name, e, len(r.text()))
		}
	}
}

func TestStreamFallsSilent(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for _, c := range []struct {
		name, provider string
		texts          []string
		attempts       int
	}{
		{"before a text", "openai", []string{": ping\n\n", done}, 3},
		{"before a text", "anthropic", []string{begins, ends}, 3},
		{"after a text", "openai", []string{delta(`{"content":"hello"}`), done}, 1},
		{"after a text", "anthropic", []string{begins + textBlock(0, "hello"), ends}, 1},
		{"in a plain reply", "openai", []string{`{"choices":[`, `]}`}, 3},
	} {
		t.Run(c.provider+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			s := llmtest.NewServer(t, again(llmtest.Step{HTTP: llmtest.Events(hang, c.texts...)}))
			r := listen()
			e := fails(t, model(t, s, c.provider, func(o *llm.Options) { o.Idle = 30 * time.Millisecond }), r.Request)
			if e.Reason != llm.Network || e.Attempts != c.attempts || e.Released != (c.attempts == 1) || !strings.Contains(e.Detail, "silent") && !strings.Contains(e.Detail, "stopped") {
				t.Errorf("got %v after %d attempts, released %q", e, e.Attempts, *r.pieces)
			}
		})
	}
	// One whose answer is complete is not given up for being left open, and not waited for.
	s := llmtest.NewServer(t, llmtest.Step{HTTP: llmtest.Events(hang, delta(`{"content":"hello"}`)+finish("stop")+done, "x")})
	r := listen()
	if got := do(t, model(t, s, "openai"), r.Request); got.Text != "hello" {
		t.Errorf("got %+v", got)
	}
	s = llmtest.NewServer(t, llmtest.Step{HTTP: llmtest.Events(hang, delta(`{"content":"hello"}`)+finish("stop"), "x")})
	if got := do(t, model(t, s, "openai", func(o *llm.Options) { o.Idle = 30 * time.Millisecond }), r.Request); got.Text != "hello" {
		t.Errorf("got %+v", got)
	}
}

func TestStreamHasTheAttemptsLimit(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"openai", "anthropic"} {
		s := llmtest.NewServer(t, again(llmtest.Step{Text: "one two three", Pace: waitsAt(2)}))
		r := listen()
		e := fails(t, model(t, s, provider, func(o *llm.Options) { o.Timeout = 50 * time.Millisecond }), r.Request)
		if e.Reason != llm.Timeout || e.Attempts != 1 || r.text() != "one " || !e.Released {
			t.Errorf("%s: got %v after %d attempts, released %q", provider, e, e.Attempts, r.text())
		}
	}
}

// waitsAt is a pace that lets the words before the n-th go and then waits for the end.
func waitsAt(n int) func(context.Context) error {
	var mu sync.Mutex
	said := 0
	return func(ctx context.Context) error {
		mu.Lock()
		said++
		wait := said >= n
		mu.Unlock()
		if wait {
			<-ctx.Done()
		}
		return ctx.Err()
	}
}

// The library ends such streams without an error about every other time.
func TestO1_CancelWithinAStream(t *testing.T) {
	t.Parallel()
	stop := errors.New("the person pressed stop")
	for _, provider := range []string{"openai", "anthropic"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			m := model(t, llmtest.NewServer(t, again(llmtest.Step{Text: strings.Repeat("word ", 40)})), provider)
			for i := range 100 {
				ctx, cancel := context.WithCancelCause(t.Context())
				r, n := llmtest.Request(), 0
				r.OnText = func(string) {
					if n++; n == 1+i%20 {
						cancel(stop)
					}
				}
				got, err := m.Do(ctx, r)
				var e *llm.Error
				if !errors.Is(err, context.Canceled) || !errors.Is(err, stop) || !errors.As(err, &e) || !e.Released {
					t.Fatalf("run %d: got %+v, %v", i, got, err)
				}
				if n != 1+i%20 {
					t.Fatalf("run %d: %d pieces, although it was stopped after %d", i, n, 1+i%20)
				}
			}
		})
	}
}

// A stream that ends with an error leaves nothing behind; the package's TestMain looks for goroutines.
func TestA3_FiftyErrorEvents(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, again(llmtest.Step{HTTP: llmtest.Events(nil, begins+textBlock(0, "x")+event(`{"type":"error","error":{"type":"overloaded_error","message":"no"}}`))}))
	m := model(t, s, "anthropic")
	for range 50 {
		if e := fails(t, m, listen().Request); e.Reason != llm.Overloaded {
			t.Fatal(e)
		}
	}
}

// What a stream cost is told as far as it is known.
func TestStreamUsage(t *testing.T) {
	t.Parallel()
	hello := delta(`{"content":"hello"}`)
	for _, c := range []struct {
		name, provider, stream string
		want                   llm.Usage
	}{
		{"none sent", "openai", hello + finish("stop") + done, llm.Usage{}},
		{"the last counts", "openai", event(`{"choices":[{"delta":{"content":"hello"}}],"usage":{"prompt_tokens":20,"completion_tokens":1}}`) + finish("stop") + figures + done, llm.Usage{Input: 20, Output: 5, Known: true}},
		{"null in between", "openai", event(`{"choices":[{"delta":{"content":"hello"}}],"usage":null}`) + finish("stop") + figures + done, llm.Usage{Input: 20, Output: 5, Known: true}},
		{"message_delta without usage", "anthropic", begins + textBlock(0, "hello") + event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`) + ends, llm.Usage{Input: 20, Output: 1}},
		{"all in message_delta", "anthropic", textBlock(0, "hello") + event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":20,"cache_read_input_tokens":30,"output_tokens":5}}`) + ends, llm.Usage{Input: 50, Cached: 30, Output: 5, Known: true}},
		{"zeros in message_delta", "anthropic", begins + textBlock(0, "hello") + event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":0,"output_tokens":5}}`) + ends, llm.Usage{Input: 20, Output: 5, Known: true}},
		{"no figures", "anthropic", textBlock(0, "hello") + event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":"many"}`) + ends, llm.Usage{}},
	} {
		t.Run(c.provider+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			got := do(t, model(t, llmtest.NewServer(t, llmtest.Step{HTTP: llmtest.Events(nil, c.stream)}), c.provider), listen().Request).Usage
			if c.want.Known {
				c.want.Cost = llmtest.Price().Cost(c.want)
			}
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	e := fails(t, model(t, llmtest.NewServer(t, llmtest.Step{HTTP: llmtest.Events(nil, begins+textBlock(0, "hello"))}), "anthropic"), listen().Request)
	if want := (llm.Usage{Input: 20, Output: 1}); e.Usage != want {
		t.Errorf("a stream that broke off: got %+v, want %+v", e.Usage, want)
	}
}

// What servers refuse of streaming is learnt once for each model.
func TestStreamHabits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, provider, refusal string
		status                  int
		streams, options        bool
	}{
		{"no options", "openai", `{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`, 400, true, false},
		{"no options, in a list", "openai", `{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}`, 422, true, false},
		{"no streams", "openai", `{"error":{"message":"Your organization must be verified to stream this model.","param":"stream","code":"unsupported_value"}}`, 400, false, false},
		{"no streams", "anthropic", `{"type":"error","error":{"type":"invalid_request_error","message":"this model does not support streaming"}}`, 400, false, false},
	} {
		t.Run(c.provider+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			s := llmtest.NewServer(t, says(c.status, c.refusal), llmtest.Step{Text: "hello you"}, llmtest.Step{Text: "again"})
			m, r := model(t, s, c.provider), listen()
			if got := do(t, m, r.Request); got.Text != "hello you" || r.text() != got.Text || (len(*r.pieces) == 2) != c.streams {
				t.Errorf("got %q in %q", got.Text, *r.pieces)
			}
			do(t, m, r.Request)
			all := s.Sent()
			if len(all) != 3 {
				t.Fatalf("%d requests, want 3", len(all))
			}
			if first := read(t, all[0].Body); first["stream"] != true || (first["stream_options"] != nil) != (c.provider == "openai") {
				t.Errorf("the first asks %s", all[0].Body)
			}
			for _, later := range all[1:] {
				if v := read(t, later.Body); (v["stream"] == true) != c.streams || (v["stream_options"] != nil) != c.options {
					t.Errorf("later it asks %s", later.Body)
				}
			}
		})
	}
	s := llmtest.NewServer(t, llmtest.Step{Text: "hello"})
	do(t, model(t, s, "openai"), llmtest.Request())
	if v := sent(t, s); v["stream"] != nil || v["stream_options"] != nil {
		t.Errorf("asked for a stream without OnText: %s", s.Sent()[0].Body)
	}
}

// Streams do not cost a connection each.
func TestStreamsShareAConnection(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"openai", "anthropic"} {
		var from []string
		step := llmtest.Step{HTTP: func(w http.ResponseWriter, r *http.Request, body []byte) {
			from = append(from, r.RemoteAddr)
			text := delta(`{"content":"hello"}`) + finish("stop") + done
			if provider == "anthropic" {
				text = begins + textBlock(0, "hello") + stops("end_turn")
			}
			llmtest.Events(nil, text)(w, r, body)
		}}
		m := model(t, llmtest.NewServer(t, again(step)), provider)
		for range 3 {
			do(t, m, listen().Request)
		}
		if from[0] != from[1] || from[1] != from[2] {
			t.Errorf("%s: three streams over %q", provider, from)
		}
	}
}

// However a text is cut into events, and however those are cut on their way, it comes out whole, and only in whole
// characters.
func TestPiecesMakeTheText(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t)
	m := model(t, s, "openai")
	rapid.Check(t, func(rt *rapid.T) {
		want := "a" + rapid.StringOf(rapid.RuneFrom([]rune("a \n\"\\é€🙂👩‍👧\u2028<&"))).Draw(rt, "text")
		units := utf16Of(want)
		var stream strings.Builder
		for len(units) > 0 {
			n := rapid.IntRange(1, len(units)).Draw(rt, "units")
			stream.WriteString(delta(`{"content":"` + strings.Join(units[:n], "") + `"}`))
			units = units[n:]
		}
		text := stream.String() + finish("stop") + done
		var chunks []string
		for len(text) > 0 && len(chunks) < 20 {
			n := rapid.IntRange(1, len(text)).Draw(rt, "bytes")
			chunks = append(chunks, text[:n])
			text = text[n:]
		}
		s.Add(llmtest.Step{HTTP: llmtest.Events(nil, append(chunks, text)...)})
		r := listen()
		got, err := m.Do(t.Context(), r.Request)
		if err != nil || got.Text != want || r.text() != want {
			rt.Fatalf("got %q in %q, %v; want %q", got.Text, *r.pieces, err, want)
		}
		for _, p := range *r.pieces {
			if p == "" || strings.Contains(p, "\ufffd") {
				rt.Fatalf("a piece is %q", p)
			}
		}
	})
}

// utf16Of writes a text as JSON escapes, one for each unit, as a program in JavaScript cuts it.
func utf16Of(text string) (out []string) {
	for _, r := range text {
		if r > 0xffff {
			r -= 0x10000
			out = append(out, fmt.Sprintf(`\u%04x`, 0xd800+r>>10), fmt.Sprintf(`\u%04X`, 0xdc00+r&0x3ff))
			continue
		}
		out = append(out, fmt.Sprintf(`\u%04x`, r))
	}
	return out
}

// Whatever a server streams, the answer is a reply whose text was released, or an *llm.Error, and never a panic.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		delta(`{"content":"a","tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":"{}"}}]}`) + finish("stop") + done,
		begins + textBlock(0, "a") + block(1, `{"type":"tool_use","id":"c","name":"n","input":null}`, `{"type":"input_json_delta","partial_json":"{"}`) + stops("tool_use"),
		"data: null\n\ndata: []\n\ndata: 1\n\n", "data:{\"choices\":[null]}\n\n", "event: error\n\ndata\n\n:\r\n\r\n", "data: \"\\ud83d\n\n", `data: {"choices":[{"delta":{"content":"\ud83d"}}]}` + "\n" + done,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		for _, provider := range []string{"openai", "anthropic"} {
			m, err := llm.Open(llm.Options{Provider: provider, ID: "m", HTTP: canned{stream}, Sleep: newClock().Sleep})
			if err != nil {
				t.Fatal(err)
			}
			r := listen()
			reply, err := m.Do(t.Context(), r.Request)
			if err == nil && (reply.Text != r.text() || strings.TrimSpace(reply.Text) == "" && len(reply.Calls) == 0) {
				t.Errorf("%s: %q became %+v, released %q", provider, stream, reply, *r.pieces)
			}
			if err == nil {
				continue
			}
			var e *llm.Error
			if !errors.As(err, &e) || strings.Contains(e.Detail, "gave up") || e.Released != (r.text() != "") {
				t.Errorf("%s: %q: %v", provider, stream, err)
			}
		}
	})
}
