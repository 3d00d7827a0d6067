package llmtest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"switchboard/llm"
)

// HandlerFunc answers one request by itself. body is what was sent.
type HandlerFunc func(w http.ResponseWriter, r *http.Request, body []byte)

// Sent is one request as it came in.
type Sent struct {
	Path   string
	Header http.Header
	Body   json.RawMessage
}

// Server is a provider on this machine. It speaks the OpenAI and the Anthropic format, plays its steps in order, and keeps
// what it was sent. A request without a step, or one that a real provider would refuse, gets an error; the first also
// fails the test.
type Server struct {
	// URL is the base address for both formats; it ends in /v1.
	URL string

	tb   testing.TB
	http *httptest.Server

	mu    sync.Mutex
	steps []Step
	sent  []Sent
}

// NewServer starts a Server that stops with the test.
func NewServer(tb testing.TB, steps ...Step) *Server {
	tb.Helper()
	running, stop := context.WithCancel(context.Background()) // every request's context ends with it: steps may hang or wait
	s := &Server{tb: tb, steps: steps}
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.http.Config.BaseContext = func(net.Listener) context.Context { return running }
	s.http.Start()
	s.URL = s.http.URL + "/v1"
	tb.Cleanup(func() {
		stop()
		s.http.Close()
	})
	return s
}

// Add puts steps at the end of the queue.
func (s *Server) Add(steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, steps...)
}

// Sent gives the requests so far, oldest first.
func (s *Server) Sent() []Sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// HTTP is a transport whose idle connections end with the server, so that no goroutine outlives the test.
func (s *Server) HTTP() http.RoundTripper { return s.http.Client().Transport }

// next notes the request and takes the step for it.
func (s *Server) next(r *http.Request, body []byte) (Step, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, Sent{r.URL.Path, r.Header.Clone(), body})
	if len(s.steps) == 0 {
		return Step{}, false
	}
	st := s.steps[0]
	if !st.Again {
		s.steps = s.steps[1:]
	}
	return st, true
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	if err != nil {
		return // the caller is gone
	}
	var d dialect
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/chat/completions"):
		d = openaiWire{}
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/messages"):
		d = anthropicWire{}
	default:
		http.NotFound(w, r)
		return
	}
	st, ok := s.next(r, body)
	switch {
	case !ok:
		s.tb.Errorf("the fake provider has no step for request %d: %s", len(s.Sent()), body)
		reply(w, 400, d.failure("invalid_request_error", "no_step", "no step is left for this request"))
	case st.HTTP != nil:
		st.HTTP(w, r, body)
	case st.Hang:
		<-r.Context().Done()
	default:
		if problem := d.problem(body); problem != "" {
			reply(w, 400, d.failure("invalid_request_error", "", problem))
			return
		}
		(play{d, body}).step(w, r, st)
	}
}

// play is what a step is played to: a request in a provider's format.
type play struct {
	dialect
	body []byte
}

// step answers with what the step says.
func (d play) step(w http.ResponseWriter, r *http.Request, st Step) {
	if st.Wait > 0 {
		w.Header().Set("Retry-After", itoa(int(st.Wait.Seconds())))
	}
	if wanted, usage := streamed(d.body); wanted {
		if events, ok := inEvents(st); ok {
			stream(r.Context(), w, d.stream(events, usage), events)
			return
		}
	}
	switch st.Fail {
	case "":
		reply(w, 200, d.answer(st))
	case llm.Network:
		hangUp(w)
	case llm.CutShort:
		whole := d.answer(Step{Text: "this will be cut in the middle of the answer"})
		w.Header().Set("Content-Length", itoa(len(whole)))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(whole[:len(whole)/2])
		_ = http.NewResponseController(w).Flush()
		hangUp(w)
	case llm.Empty:
		reply(w, 200, d.answer(Step{}))
	default:
		status, typ, code, message := d.fails(st.Fail)
		if status == 0 {
			reply(w, 200, d.answer(Step{Refuse: true}))
			return
		}
		reply(w, status, d.failure(typ, code, message))
	}
}

// inEvents gives the step that a stream plays; a failure that shows before any stream is none.
func inEvents(st Step) (Step, bool) {
	switch st.Fail {
	case "", llm.CutShort:
		return st, true
	case llm.Empty:
		return Step{}, true
	case llm.Declined:
		return Step{Refuse: true}, true
	default:
		return Step{}, false
	}
}

// hangUp ends the connection without another word.
func hangUp(w http.ResponseWriter) {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = c.Close()
	}
}

func reply(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// encode writes JSON as providers do: characters as they are.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // the values are made here, of plain types
	}
	return b.Bytes()
}
