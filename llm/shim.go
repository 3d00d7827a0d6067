package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	mostReply = 8 << 20  // bytes of a reply
	mostError = 64 << 10 // bytes of an error's body
)

// errTold ends a round trip whose failure the exchange holds: the library replaces the errors that it is given.
var errTold = errors.New("the exchange holds the failure")

type exchangeKey struct{}

// exchange is one attempt seen from both ends. It travels in the request's context, because the library between the ends
// passes on neither what it does not know of a request nor what it does not know of a reply.
type exchange struct {
	wire  wire
	q     query
	scrub scrubber
	now   func() time.Time

	reached bool   // a reply came, and may have to be paid
	spent   Usage  // by it
	finish  Finish // why the model stopped
	err     *Error // what went wrong; nil: nothing did
	final   bool   // it will go wrong again
	said    string // the body of an error

	released bool // the caller has been given text
}

// fail notes the first thing that went wrong.
func (x *exchange) fail(e Error, final bool) {
	if x.err != nil {
		return
	}
	e.Detail = x.scrub.text(e.Detail)
	x.err, x.final = &e, final
}

// shim sits between the library and the network. It completes requests with what the library cannot say, and turns
// replies into a form in which the library can misread nothing. It is the only reader of replies: a stream is gathered here
// too, and the library never learns that it was one.
type shim struct {
	next    http.RoundTripper
	keyless bool
	idle    time.Duration
}

// RoundTrip carries one request of an exchange.
func (s shim) RoundTrip(req *http.Request) (*http.Response, error) {
	x, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return nil, errors.New("a request without an exchange")
	}
	// The reply is read to its end in here, so what ends with this context is no longer needed.
	ctx, giveUp := context.WithCancelCause(req.Context())
	defer giveUp(nil)
	out, err := s.complete(req.WithContext(ctx), x)
	if err != nil {
		x.fail(Error{Reason: BadRequest, Detail: err.Error()}, true)
		return nil, errTold
	}
	resp, err := s.next.RoundTrip(out)
	if err != nil {
		x.fail(Error{Reason: Network, Detail: err.Error(), Err: err}, false)
		return nil, errTold
	}
	defer func() { _ = resp.Body.Close() }()
	from := io.Reader(resp.Body)
	if x.q.streamed() {
		w := watch(resp.Body, s.idle, giveUp)
		defer w.timer.Stop()
		from = w
	}
	body, ok := x.receive(ctx, resp, bounded(from))
	if !ok {
		return nil, errTold
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       req,
	}, nil
}

// complete gives the request as it goes out.
func (s shim) complete(req *http.Request, x *exchange) (*http.Request, error) {
	raw, err := io.ReadAll(req.Body)
	_ = req.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	if err := x.wire.patch(x.q, body); err != nil {
		return nil, fmt.Errorf("complete the request: %w", err)
	}
	raw = join(body, len(raw))
	out := req.Clone(req.Context())
	out.Body = io.NopCloser(bytes.NewReader(raw))
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }
	out.ContentLength = int64(len(raw))
	out.Header.Set("User-Agent", "switchboard")
	if x.q.streamed() {
		out.Header.Set("Accept-Encoding", "identity") // what compresses a stream holds it back
	}
	if s.keyless {
		out.Header.Del("Authorization")
		out.Header.Del("X-Api-Key")
	}
	return out, nil
}

// join writes an object whose values are JSON already, without reading them once more. The order is always the same.
func join(body map[string]json.RawMessage, size int) []byte {
	keys := make([]string, 0, len(body))
	for k := range body {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out := make([]byte, 0, size+256)
	for i, k := range keys {
		sep := byte(',')
		if i == 0 {
			sep = '{'
		}
		out = append(out, sep, '"')
		out = append(out, k...) // the names of a request's fields need no escapes
		out = append(out, '"', ':')
		out = append(out, body[k]...)
	}
	return append(out, '}')
}

// receive reads a response and gives the body that the library is to see. It reports false when the exchange failed.
func (x *exchange) receive(ctx context.Context, resp *http.Response, in body) ([]byte, bool) {
	if resp.StatusCode >= http.StatusMultipleChoices || resp.StatusCode == http.StatusNoContent {
		// What of the body can be read is of use; that the rest cannot be is not news.
		said, _ := io.ReadAll(io.LimitReader(resp.Body, mostError))
		x.refused(resp, said)
		return nil, false
	}
	x.reached = true
	read := x.whole
	if x.q.streamed() && in.isStream() {
		read = x.gather
	}
	a, ok := read(ctx, resp, in)
	if !ok {
		return nil, false
	}
	x.spent = a.usage
	if e := a.settle(); e != nil {
		e.Status = resp.StatusCode
		x.fail(*e, a.finish == CutOff)
		return nil, false
	}
	if x.q.OnText != nil && !x.released {
		if strings.TrimSpace(a.text) == "" {
			a.text = "" // as in a stream, where white space alone is not passed on
		}
		x.release(a.text)
	}
	x.finish = a.finish
	return x.wire.write(a), true
}

// whole reads a reply that comes in one piece. It reports false when the exchange failed.
func (x *exchange) whole(ctx context.Context, resp *http.Response, in body) (answer, bool) {
	raw, err := io.ReadAll(in)
	if errors.Is(context.Cause(ctx), errIdle) {
		x.fail(Error{Reason: Network, Status: resp.StatusCode, Detail: "the reply stopped coming", Err: errIdle}, false)
		return answer{}, false
	}
	if err != nil {
		x.fail(Error{Reason: CutShort, Status: resp.StatusCode, Detail: "the reply broke off: " + err.Error(), Err: err}, false)
		return answer{}, false
	}
	if in.full() {
		x.fail(Error{Reason: CutShort, Status: resp.StatusCode, Detail: fmt.Sprintf("the reply is larger than %d MiB", mostReply>>20)}, true)
		return answer{}, false
	}
	if trimmed := bytes.TrimSpace(raw); len(trimmed) > 0 && trimmed[0] == '<' {
		x.reached = false // no model has answered
		x.fail(Error{Reason: Network, Status: resp.StatusCode, Detail: "a web page came instead of JSON: check the base URL"}, false)
		return answer{}, false
	}
	var p serverError
	a, err := x.wire.read(raw)
	switch {
	case errors.As(err, &p):
		x.reached = false
		x.said = string(raw[:min(len(raw), mostError)])
		x.fail(Error{Reason: p.reason(resp.StatusCode), Status: resp.StatusCode, Detail: p.Error(), Wait: retryAfter(resp.Header, x.now())}, false)
		return answer{}, false
	case err != nil:
		x.fail(Error{Reason: CutShort, Status: resp.StatusCode, Detail: "the reply cannot be read as the API's JSON: " + err.Error(), Err: err}, false)
		return answer{}, false
	}
	return a, true
}

// refused notes an answer that is an error by its status.
func (x *exchange) refused(resp *http.Response, said []byte) {
	x.said = string(said)
	p := readProblem(said)
	if resp.StatusCode < http.StatusBadRequest {
		p = serverError{message: "the server answered without a reply, or points to another address: check the base URL"}
	}
	x.fail(Error{
		Reason: p.reason(resp.StatusCode), Status: resp.StatusCode, Detail: p.Error(),
		Wait: retryAfter(resp.Header, x.now()),
	}, false)
}
