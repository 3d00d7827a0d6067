package turn_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"switchboard/assistants"
	"switchboard/chat"
	"switchboard/config"
	"switchboard/llm"
	"switchboard/store/sqlite"
	"switchboard/tools"
	"switchboard/turn"
)

// providerVar makes the test binary be the provider and the tool's server, so that their work is not counted as ours.
const providerVar = "SWITCHBOARD_BENCH_PROVIDER"

// provide serves a model that routes, asks for one row and answers, and the row, until its input ends.
func provide() {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		message := `{"role":"assistant","content":"Row 1 is of the first kind."}`
		switch {
		case bytes.Contains(body, []byte(`"response_format"`)):
			message = `{"role":"assistant","content":"{\"assistant\":\"read\",\"confidence\":0.95,\"question\":null}"}`
		case !bytes.Contains(body, []byte(`"role":"tool"`)):
			message = `{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"rows__get","arguments":"{\"id\":1,\"why\":\"see the row\",\"expects\":\"one row\"}"}}]}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":%s,"finish_reason":"stop"}],"usage":{"prompt_tokens":500,"completion_tokens":20,"total_tokens":520}}`, message)
	})
	mux.HandleFunc("GET /rows", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"rows":[{"id":1,"kind":"first"}]}`)
	})
	s := httptest.NewServer(mux)
	fmt.Println(s.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// provider starts provide as a process of its own.
func provider(b *testing.B) string {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), self)
	cmd.Env = append(os.Environ(), providerVar+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(url)
}

// One whole turn: router, one tool, reply; that is three model calls and one call of a tool over HTTP. The bare programs do
// the same calls and keep, check and record nothing. cpu-us/turn is this process's own CPU.
func BenchmarkTurn(b *testing.B) {
	url := provider(b)
	asked := requests(b, url)
	for _, at := range []int{1, 32} {
		b.Run(fmt.Sprintf("engine-%d", at), func(b *testing.B) { benchEngine(b, url, at) })
		b.Run(fmt.Sprintf("bare-llm-%d", at), func(b *testing.B) { benchBare(b, url, at, bareSeam(b, url, asked)) })
		b.Run(fmt.Sprintf("bare-http-%d", at), func(b *testing.B) { benchBare(b, url, at, bareHTTP(b, url, asked)) })
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func openLive(b *testing.B, url string) llm.Model {
	b.Helper()
	m, err := llm.Open(llm.Options{
		Provider: "openai", ID: "gpt-4o-mini", BaseURL: url + "/v1", Key: "k", Output: 1024, HTTP: sharedTransport(b),
		Price: &llm.Price{Input: 150_000, Cached: 75_000, Output: 600_000},
	})
	if err != nil {
		b.Fatal(err)
	}
	return m
}

func sharedTransport(b *testing.B) *http.Transport {
	b.Helper()
	t := llm.NewTransport()
	b.Cleanup(t.CloseIdleConnections)
	return t
}

// quiet is where replies end.
type quiet struct{}

func (quiet) Show(context.Context, turn.Progress)   {}
func (quiet) Post(context.Context, turn.Post) error { return nil }
func (quiet) Look(_ context.Context, m chat.Message, _ bool) (turn.Seen, error) {
	return turn.Seen{Message: m}, nil
}

// engineBench is the engine with everything on, and a surface that is quiet.
type engineBench struct {
	b      *testing.B
	engine *turn.Engine
	store  *sqlite.Store
	ended  chan turn.Finished
	said   int
	close  func()
}

func openBench(b *testing.B, url string, model llm.Model, at int) *engineBench {
	b.Helper()
	env := func(name string) (string, bool) {
		v, ok := map[string]string{"ROWS_URL": url, "ROWS_TOKEN": "token-of-the-rows"}[name]
		return v, ok
	}
	pack, err := config.Load(files(strings.Replace(packFiles, "usd_per_day: 0.01", "usd_per_day: 100000", 1)), config.Options{Env: env})
	if err != nil {
		b.Fatal(err)
	}
	client := tools.NewClient()
	desk, err := assistants.Open(b.Context(), pack, assistants.Options{
		Env: env, Client: client, Now: time.Now, Model: func(config.Model) (llm.Model, error) { return model, nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	st, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "bot.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	e := &engineBench{b: b, store: st, ended: make(chan turn.Finished, at)}
	e.engine = turn.New(desk, turn.Options{
		Store: st, Surface: quiet{}, Now: time.Now, Log: zerolog.Nop(), Workers: at, Finished: func(f turn.Finished) { e.ended <- f },
		Wait: func(ctx context.Context, _ time.Duration) error {
			<-ctx.Done()
			return context.Cause(ctx)
		},
	})
	if err := e.engine.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	e.close = func() {
		if err := errors.Join(e.engine.Stop(context.Background()), st.Close(), desk.Close()); err != nil {
			b.Error(err)
		}
		client.CloseIdleConnections()
	}
	return e
}

// say accepts one more message, in a thread of its own.
func (e *engineBench) say() {
	e.said++
	m := message(e.said, "read row 1")
	m.Thread.Root = fmt.Sprint(e.said)
	if _, _, err := e.engine.Accept(e.b.Context(), m); err != nil {
		e.b.Error(err)
	}
}

func benchEngine(b *testing.B, url string, at int) {
	b.Helper()
	e := openBench(b, url, openLive(b, url), at)
	defer e.close()
	b.ReportAllocs()
	before, spent := e.store.Commits(), cpu()
	b.ResetTimer()
	for range min(at, b.N) {
		e.say()
	}
	for range b.N {
		if f := <-e.ended; f.Outcome != turn.Answered {
			b.Errorf("a turn ended %s: %v", f.Outcome, f.Err)
		}
		if e.said < b.N {
			e.say()
		}
	}
	b.StopTimer()
	b.ReportMetric(float64((cpu()-spent).Microseconds())/float64(b.N), "cpu-us/turn")
	b.ReportMetric(float64(e.store.Commits()-before)/float64(b.N), "commits/turn")
}

// requests records what the engine asks its model for one turn, so that the bare programs ask for exactly the same.
func requests(b *testing.B, url string) []llm.Request {
	b.Helper()
	rec := &recording{Model: openLive(b, url)}
	bench := openBench(b, url, rec, 1)
	bench.say()
	if f := <-bench.ended; f.Outcome != turn.Answered {
		b.Fatalf("the recorded turn ended %s: %v", f.Outcome, f.Err)
	}
	bench.close()
	if len(rec.asked) != 3 {
		b.Fatalf("a turn makes %d model calls, want 3", len(rec.asked))
	}
	return rec.asked
}

type recording struct {
	llm.Model
	asked []llm.Request
}

func (r *recording) Do(ctx context.Context, q llm.Request) (llm.Reply, error) {
	kept := q
	if q.OnText != nil { // the bare programs read a stream as well, and show it to nobody
		kept.OnText = func(string) {}
	}
	r.asked = append(r.asked, kept)
	return r.Model.Do(ctx, q)
}

// bareSeam is the bare program on our own model seam.
func bareSeam(b *testing.B, url string, asked []llm.Request) func(n int) error {
	b.Helper()
	m := openLive(b, url)
	return func(n int) error {
		_, err := m.Do(context.Background(), asked[n])
		return err
	}
}

// bareHTTP is the bare program on net/http and encoding/json alone.
func bareHTTP(b *testing.B, url string, asked []llm.Request) func(n int) error {
	b.Helper()
	client := &http.Client{Transport: sharedTransport(b)}
	return func(n int) error {
		data, err := json.Marshal(wire(asked[n]))
		if err != nil {
			return err
		}
		return fetch(client, http.MethodPost, url+"/v1/chat/completions", data)
	}
}

// wire writes a request as the provider wants it.
func wire(r llm.Request) map[string]any {
	messages := []any{map[string]any{"role": "system", "content": r.System}}
	for _, t := range r.Turns {
		m := map[string]any{"role": string(t.Role), "content": t.Text}
		for _, c := range t.Calls {
			m["tool_calls"] = []any{map[string]any{"id": c.ID, "type": "function", "function": map[string]any{"name": "rows__get", "arguments": c.Args}}}
		}
		for _, res := range t.Results {
			m["content"], m["tool_call_id"] = res.Text, res.ID
		}
		messages = append(messages, m)
	}
	body := map[string]any{"model": "m", "messages": messages}
	if r.Schema != nil {
		body["response_format"] = map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "route", "schema": r.Schema.JSON}}
	}
	var list []any
	for _, t := range r.Tools {
		list = append(list, map[string]any{"type": "function", "function": map[string]any{"name": "rows__get", "description": t.About, "parameters": t.Schema}})
	}
	if list != nil {
		body["tools"] = list
	}
	return body
}

// benchBare makes the three model calls and the tool's call of a turn, and nothing else.
func benchBare(b *testing.B, url string, at int, ask func(n int) error) {
	b.Helper()
	client := &http.Client{Transport: sharedTransport(b)}
	one := func() error {
		return errors.Join(ask(0), ask(1), fetch(client, http.MethodGet, url+"/rows?id=1&org=org_canary_7", nil), ask(2))
	}
	b.ReportAllocs()
	spent := cpu()
	b.ResetTimer()
	var wg sync.WaitGroup
	work := make(chan struct{}, b.N)
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	for range at {
		wg.Go(func() {
			for range work {
				if err := one(); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpu()-spent).Microseconds())/float64(b.N), "cpu-us/turn")
}

// fetch makes a request and decodes its answer.
func fetch(client *http.Client, method, url string, body []byte) (err error) {
	req, err := http.NewRequestWithContext(context.Background(), method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	var v map[string]any
	return errors.Join(json.NewDecoder(resp.Body).Decode(&v), resp.Body.Close())
}
