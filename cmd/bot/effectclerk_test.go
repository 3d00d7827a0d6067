package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// clerk is a model behind a server that speaks OpenAI's format. It reads the order, pays back, tells the customer, and says
// what came of it. What it is to do stands in the message: "refund A-5001 8000 m17", or "payout", or "letter" with a length, or
// "look", which changes nothing.
type clerk struct {
	latency time.Duration
}

// ServeHTTP answers one request.
func (c clerk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req standInRequest
	if err := json.NewDecoder(io.LimitReader(r.Body, 8<<20)).Decode(&req); err != nil {
		http.Error(w, `{"error":{"message":"cannot read the request","type":"invalid_request_error"}}`, http.StatusBadRequest)
		return
	}
	if wait(r.Context(), c.latency) != nil {
		return
	}
	text, calls, finish := clerkSays(req)
	message := map[string]any{"role": "assistant", "content": text}
	if len(calls) > 0 {
		var list []any
		for i, call := range calls {
			args, err := json.Marshal(call.args)
			if err != nil {
				panic(err)
			}
			list = append(list, map[string]any{"index": i, "id": fmt.Sprintf("call_%d", i+1), "type": "function", "function": map[string]any{
				"name": call.name, "arguments": string(args),
			}})
		}
		message["content"], message["tool_calls"] = nil, list
	}
	if req.Stream {
		(&standIn{}).stream(r.Context(), w, message, finish)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{ // who asked has gone
		"id": "x", "object": "chat.completion", "model": "bench",
		"usage":   map[string]int{"prompt_tokens": 500, "completion_tokens": 20, "total_tokens": 520},
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finish}},
	})
}

// clerkCall is a call that the clerk asks for.
type clerkCall struct {
	name string
	args map[string]any
}

// wanted is what a message asks for.
var wanted = regexp.MustCompile(`(refund|payout|letter|look) (A-\d+) (\d+) (m\d+)`)

// isRouting says whether a request is the router's.
func isRouting(req standInRequest) bool { return len(req.Format) > 0 && string(req.Format) != "null" }

// clerkSays decides by what was said since the last answer.
func clerkSays(req standInRequest) (text string, calls []clerkCall, finish string) {
	if isRouting(req) {
		return `{"assistant":"refunds","confidence":0.95,"question":null}`, nil, "stop"
	}
	var results []string
	var asked, marks []string
	for _, msg := range req.Messages {
		switch {
		case msg.Role == "assistant" && len(msg.Calls) == 0:
			results, asked, marks = nil, nil, nil
		case msg.Role == "tool":
			results = append(results, outcomeOf(fmt.Sprint(msg.Content)))
		case msg.Role == "user":
			for _, m := range wanted.FindAllStringSubmatch(quote.ReplaceAllString(fmt.Sprint(msg.Content), ""), -1) {
				asked, marks = m, append(marks, m[4])
			}
		}
	}
	if asked == nil {
		return "I do not know what to do.", nil, "stop"
	}
	kind, order, m := asked[1], asked[2], asked[4]
	amount, err := strconv.Atoi(asked[3])
	if err != nil {
		amount = 1
	}
	call := func(name string, args map[string]any) (string, []clerkCall, string) {
		args["order"], args["why"], args["expects"] = order, "the clerk asked for it", "it is done"
		return "", []clerkCall{{name, args}}, "tool_calls"
	}
	switch done := len(results); {
	case done == 0:
		return call("orders__get", map[string]any{})
	case kind == "look":
		return fmt.Sprintf("This answers %s. There is %s", strings.Join(marks, " and "), whole), nil, "stop"
	case done == 1 && kind == "letter":
		return call("letters__send", map[string]any{"text": strings.Repeat("All of this counts. ", amount/20+1)[:amount]})
	case done == 1:
		return call("payments__"+kind, map[string]any{"amount": amount})
	case done == 2 && kind == "refund" && results[1] == "ok":
		return call("customers__notify", map[string]any{"text": "Your money is on its way."})
	}
	return fmt.Sprintf("This answers %s. The %s of %s: %s; there is %s", m, kind, order, strings.Join(results[1:], ", "), whole), nil, "stop"
}

// outcomeOf is how a call ended, as the model is told.
func outcomeOf(told string) string {
	var t struct{ Outcome string }
	if i := strings.IndexByte(told, '{'); i < 0 || json.NewDecoder(strings.NewReader(told[i:])).Decode(&t) != nil {
		return "unreadable"
	}
	return t.Outcome
}
