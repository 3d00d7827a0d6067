package llm_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchboard/llm"
	"switchboard/llm/llmtest"
)

const aimockDir = "testdata/aimock"

// startAimock starts the stand-in on a port of the kernel's choice and gives its address. It ends with the test.
func startAimock(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(aimockDir, "node_modules", "@copilotkit", "aimock", "dist", "cli.js")
	if _, err := os.Stat(bin); err != nil {
		t.Fatalf("the stand-in for the providers is not installed (%v): run `make deps`, or leave it out with -short", err)
	}
	first := filepath.Join(t.TempDir(), "first.json")
	if err := os.WriteFile(first, []byte(`{"fixtures":[{"match":{"model":"nobody"},"response":{"content":"x"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", bin, "--port", "0", "--host", "127.0.0.1", "--fixtures", first, "--strict", "--log-level", "info")
	out, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the stand-in: %v: it needs node 20 or later", err)
	}
	ended := make(chan struct{})
	address := make(chan string, 1)
	go func() {
		defer close(ended)
		defer close(address)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if _, a, ok := strings.Cut(lines.Text(), "listening on "); ok {
				address <- strings.TrimSpace(a)
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		_ = w.Close()
		<-ended
	})
	select {
	case a := <-address:
		return a
	case <-time.After(30 * time.Second):
		t.Fatal("the stand-in does not come up")
		return ""
	}
}

// fixture is one answer in the stand-in's own words, for one model at one place of the conversation.
func fixture(t *testing.T, id string, place int, st llmtest.Step) map[string]any {
	t.Helper()
	match := map[string]any{"model": id}
	if !st.Again {
		match["turnIndex"] = place
	}
	response := map[string]any{}
	if st.Text != "" {
		response["content"] = st.Text
	}
	var calls []any
	for _, c := range st.Calls {
		call := map[string]any{"name": llmtest.WireName(c.Name), "arguments": c.Args}
		if c.ID != "" {
			call["id"] = c.ID
		}
		calls = append(calls, call)
	}
	if calls != nil {
		response["toolCalls"] = calls
	}
	if st.Cut {
		response["finishReason"] = "length"
	}
	if u := st.Usage; u != nil {
		response["usage"] = map[string]any{"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output}
	}
	f := map[string]any{"match": match, "response": response}
	if st.Fail != "" {
		fail(t, f, st)
	}
	if st.Hang {
		response["content"] = "too late"
		f["chaos"] = map[string]any{"latencyMs": 30_000}
	}
	return f
}

// fail turns a fixture into a failure as the providers word it.
func fail(t *testing.T, f map[string]any, st llmtest.Step) {
	t.Helper()
	say := func(status int, message, typ, code string) {
		f["response"] = map[string]any{"error": map[string]any{"message": message, "type": typ, "code": code}, "status": status, "retryAfter": int(st.Wait.Seconds())}
	}
	switch st.Fail {
	case llm.RateLimited:
		say(429, "slow down", "rate_limit_error", "rate_limit_exceeded")
	case llm.Overloaded:
		say(503, "overloaded", "overloaded_error", "")
	case llm.ContextTooLong:
		say(400, "prompt is too long: 300000 tokens > 200000 maximum", "invalid_request_error", "context_length_exceeded")
	case llm.Auth:
		say(401, "no", "authentication_error", "invalid_api_key")
	case llm.Quota:
		say(400, "Your credit balance is too low", "invalid_request_error", "insufficient_quota")
	case llm.BadRequest:
		say(400, "no", "invalid_request_error", "")
	case llm.Declined:
		say(400, "Output blocked by content filtering policy", "invalid_request_error", "content_policy_violation")
	case llm.Network:
		f["response"], f["chaos"] = map[string]any{"content": "x"}, map[string]any{"disconnectRate": 1}
	case llm.CutShort:
		f["response"], f["chaos"] = map[string]any{"content": "x"}, map[string]any{"malformedRate": 1}
	case llm.Empty:
		f["response"] = map[string]any{"content": " "}
	default:
		t.Fatalf("the stand-in has no way to fail with %s", st.Fail)
	}
}

// The exam against somebody else's idea of both wire formats.
func TestExamAgainstAimock(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: the stand-in is a process of its own")
	}
	address := startAimock(t)
	tr := llm.NewTransport()
	t.Cleanup(tr.CloseIdleConnections)
	var n atomic.Int64
	for _, provider := range []string{"openai", "anthropic"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			llmtest.Exam(t, func(t *testing.T, script []llmtest.Step) llm.Model {
				t.Helper()
				id := fmt.Sprintf("exam-%d", n.Add(1))
				var fixtures []any
				for i, st := range script {
					fixtures = append(fixtures, fixture(t, id, i, st))
				}
				post(t, tr, address+"/__aimock/fixtures", map[string]any{"fixtures": fixtures})
				c, price := newClock(), llmtest.Price()
				m, err := llm.Open(llm.Options{
					Provider: provider, ID: id, BaseURL: address + "/v1", Key: key, Price: &price, HTTP: tr, Now: c.Now, Sleep: c.Sleep,
				})
				if err != nil {
					t.Fatal(err)
				}
				return m
			}, llmtest.Caching, llmtest.Refusing, llmtest.Pacing, llmtest.Breaking)
		})
	}
}

func post(t *testing.T, tr http.RoundTripper, url string, v any) {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if said, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", resp.Status, said)
	}
}
