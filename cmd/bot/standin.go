package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// standIn is a language model for measurements, behind a server that speaks OpenAI's format. It routes everything to one
// assistant, asks for one row, and then names the marks (m17) of the messages that it answers, so that a checker can tell
// which answer belongs to what.
type standIn struct {
	latency time.Duration // of every answer
	token   time.Duration // between the words of an answer that is streamed
	text    string        // what it answers, in place of the marks; set before the bot starts
	asked   atomic.Int64
	spoken  atomic.Int64 // when the last word of an answer was sent, in Unix microseconds

	server *http.Server
	url    string
}

// startStandIn serves on a free port of this machine. The rows are there, too.
func startStandIn(ctx context.Context, latency, token time.Duration) (*standIn, error) {
	m := &standIn{latency: latency, token: token}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the stand-in for models: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", m.complete)
	mux.HandleFunc("GET /rows", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"rows":[{"id":1,"kind":"first"}]}`) // who asked has gone
	})
	m.url = "http://" + l.Addr().String()
	m.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = m.server.Serve(l) }() // it ends with close, which waits
	return m, nil
}

func (m *standIn) close() error { return m.server.Close() }

type standInRequest struct {
	Stream   bool            `json:"stream"`
	Format   json.RawMessage `json:"response_format"`
	Messages []struct {
		Role    string            `json:"role"`
		Content any               `json:"content"`
		Calls   []json.RawMessage `json:"tool_calls"`
	} `json:"messages"`
}

var (
	mark  = regexp.MustCompile(`\bm[0-9]+\b`)
	quote = regexp.MustCompile(`(?m)^> .*$`) // what others said in the thread is no message to the bot
)

// complete answers one request.
func (m *standIn) complete(w http.ResponseWriter, r *http.Request) {
	m.asked.Add(1)
	var req standInRequest
	if err := json.NewDecoder(io.LimitReader(r.Body, 8<<20)).Decode(&req); err != nil {
		http.Error(w, `{"error":{"message":"cannot read the request","type":"invalid_request_error"}}`, http.StatusBadRequest)
		return
	}
	if wait(r.Context(), m.latency) != nil {
		return
	}
	text, call := m.answer(req)
	message := map[string]any{"role": "assistant", "content": text}
	finish := "stop"
	if call != nil {
		message["content"], message["tool_calls"], finish = nil, []any{call}, "tool_calls"
	}
	usage := map[string]int{"prompt_tokens": 500, "completion_tokens": 20, "total_tokens": 520}
	if req.Stream {
		m.stream(r.Context(), w, message, finish)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{ // who asked has gone
		"id": "x", "object": "chat.completion", "model": "bench", "usage": usage,
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finish}},
	})
}

// answer decides by what was said since the last answer.
func (m *standIn) answer(req standInRequest) (text string, call map[string]any) {
	if len(req.Format) > 0 && string(req.Format) != "null" {
		return `{"assistant":"rows","confidence":0.95,"question":null}`, nil
	}
	var marks []string
	asked := false
	for _, msg := range req.Messages {
		switch {
		case msg.Role == "assistant" && len(msg.Calls) == 0:
			marks, asked = nil, false
		case msg.Role == "tool":
			asked = true
		case msg.Role == "user":
			marks = append(marks, mark.FindAllString(quote.ReplaceAllString(fmt.Sprint(msg.Content), ""), -1)...)
		}
	}
	if !asked {
		return "", map[string]any{"index": 0, "id": "call_1", "type": "function", "function": map[string]any{
			"name": "rows__get", "arguments": `{"id":1,"why":"see the row","expects":"one row"}`,
		}}
	}
	if m.text != "" {
		return m.text, nil
	}
	return "This answers " + strings.Join(marks, " and ") + ". Row 1 is of the first kind, and there is nothing else to say of it.", nil
}

// token is how many characters of text are sent at once in a stream. It must not be the length of words or lines.
const token = 4

// stream sends the answer piece by piece.
func (m *standIn) stream(ctx context.Context, w http.ResponseWriter, message map[string]any, finish string) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	send := func(delta map[string]any, finish any) error {
		data, err := json.Marshal(map[string]any{
			"id": "x", "object": "chat.completion.chunk", "model": "bench",
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}},
		})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil {
			return err
		}
		return flush.Flush()
	}
	text, _ := message["content"].(string)
	var err error
	if calls, ok := message["tool_calls"]; ok {
		err = send(map[string]any{"role": "assistant", "tool_calls": calls}, nil)
	}
	for part := range slices.Chunk([]rune(text), token) {
		if err = errors.Join(err, send(map[string]any{"content": string(part)}, nil)); err != nil {
			return // who asked has gone
		}
		m.spoken.Store(time.Now().UnixMicro())
		if m.token > 0 && wait(ctx, m.token) != nil {
			return
		}
	}
	if send(map[string]any{}, finish) == nil {
		_, _ = io.WriteString(w, `data: {"id":"x","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":500,"completion_tokens":20,"total_tokens":520}}`+"\n\ndata: [DONE]\n\n")
	}
}
