package backoffice

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Kind says how a request goes wrong.
type Kind string

// The kinds of faults. Unless it says otherwise, the request's work is not done.
const (
	FaultTimeout      Kind = "timeout"       // no answer until the client goes away
	FaultTimeoutAfter Kind = "timeout_after" // the work is committed, then no answer
	FaultConflict     Kind = "409"           // as if the key's first request were still in progress
	FaultOtherRequest Kind = "422"           // as if the key had been used for another request
	FaultBroken       Kind = "500"           // the work fails half-way and is rolled back; a shop keeps this answer under its key
	FaultBadGateway   Kind = "502"
	FaultGatewayAfter Kind = "502_after" // the work is committed, then the answer is lost on the way
	FaultUnavailable  Kind = "503"
	FaultTooMany      Kind = "429"         // Retry-After is Delay, in whole seconds rounded up
	FaultSlow         Kind = "slow"        // the work is done after Delay, unless the client has gone by then
	FaultLate         Kind = "late"        // the work is done after Delay, even when the client has gone; until then the key is in progress
	FaultMalformed    Kind = "malformed"   // the work is done, half of the answer's JSON is sent
	FaultHuge         Kind = "huge"        // the work is done, the answer has some 2 MB of padding more
	FaultReset        Kind = "reset"       // the connection is reset
	FaultResetAfter   Kind = "reset_after" // the work is committed, then the connection is reset
)

const (
	maxFaultDelay = time.Minute
	hugePadding   = 2 << 20
)

// Fault is something that is to go wrong.
type Fault struct {
	Match string        // METHOD /path: the path of a request or of a route ("GET /bookings/{booking}"), or a prefix that ends in *
	Kind  Kind          // one of the kinds above
	Times int           // how many matching requests it meets; 0 means one, below 0 all until ClearFaults
	Delay time.Duration // for slow, late and 429; a minute at most
}

// Fault arms a fault; faults that match the same request are met in the order in which they were armed.
func (s *Server) Fault(f Fault) error {
	kinds := []Kind{
		FaultTimeout, FaultTimeoutAfter, FaultConflict, FaultOtherRequest, FaultBroken, FaultBadGateway, FaultGatewayAfter, FaultUnavailable,
		FaultTooMany, FaultSlow, FaultLate, FaultMalformed, FaultHuge, FaultReset, FaultResetAfter,
	}
	method, path, ok := strings.Cut(f.Match, " ")
	switch {
	case !ok || method == "" || !strings.HasPrefix(path, "/"):
		return fmt.Errorf("arm fault: match %q is not of the form METHOD /path", f.Match)
	case !slices.Contains(kinds, f.Kind):
		return fmt.Errorf("arm fault: unknown kind %q; the kinds are %v", f.Kind, kinds)
	case f.Delay < 0 || f.Delay > maxFaultDelay:
		return fmt.Errorf("arm fault: delay %s is not between 0 and %s", f.Delay, maxFaultDelay)
	}
	if f.Times == 0 {
		f.Times = 1
	}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.armed = append(s.faults.armed, f)
	return nil
}

// ClearFaults disarms every fault.
func (s *Server) ClearFaults() {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.armed = nil
}

type faultList struct {
	mu    sync.Mutex
	armed []Fault
}

// take gives the first armed fault that a request meets, or a Fault without a kind.
func (l *faultList) take(method, path, pattern string) Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, f := range l.armed {
		m, p, _ := strings.Cut(f.Match, " ")
		prefix, open := strings.CutSuffix(p, "*")
		if m != method || p != path && p != pattern && (!open || !strings.HasPrefix(path, prefix)) {
			continue
		}
		if f.Times > 0 {
			l.armed[i].Times--
		}
		if l.armed[i].Times == 0 {
			l.armed = slices.Delete(l.armed, i, i+1)
		}
		return f
	}
	return Fault{}
}

// serveFaults arms a fault over HTTP (POST with match, kind, times, delay_ms), or disarms all (DELETE).
func (s *Server) serveFaults(method string, body []byte) answer {
	switch method {
	case http.MethodDelete:
		s.ClearFaults()
	case http.MethodPost:
		var in struct {
			Match   string `json:"match"`
			Kind    Kind   `json:"kind"`
			Times   int    `json:"times"`
			DelayMS int    `json:"delay_ms"`
		}
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		if err := d.Decode(&in); err != nil {
			return problem(bad("a fault is {match, kind, times, delay_ms}: %s", strings.TrimPrefix(err.Error(), "json: ")))
		}
		if err := s.Fault(Fault{in.Match, in.Kind, in.Times, time.Duration(in.DelayMS) * time.Millisecond}); err != nil {
			return problem(bad("%s", err))
		}
	default:
		return problem(&statusError{http.StatusMethodNotAllowed, "faults take POST and DELETE"})
	}
	return answer{status: http.StatusOK, body: []byte("{\"ok\":true}\n")}
}

// faultBefore plays a fault that strikes before the work; true means that the request is over.
func (s *Server) faultBefore(w http.ResponseWriter, r *http.Request, entry *Request, f Fault) (done bool) {
	switch f.Kind {
	case FaultTimeout:
		s.log.add(*entry)
		<-r.Context().Done()
		reset(w) // an empty handler would still send a status
	case FaultConflict:
		s.finish(w, *entry, problem(inProgress()))
	case FaultOtherRequest:
		s.finish(w, *entry, problem(otherRequest()))
	case FaultBadGateway:
		s.finish(w, *entry, problem(unreachable(http.StatusBadGateway)))
	case FaultUnavailable:
		s.finish(w, *entry, problem(unreachable(http.StatusServiceUnavailable)))
	case FaultTooMany:
		a := problem(&statusError{http.StatusTooManyRequests, "too many requests"})
		a.header = map[string]string{"Retry-After": strconv.Itoa(int((f.Delay + time.Second - 1) / time.Second))}
		s.finish(w, *entry, a)
	case FaultReset:
		s.log.add(*entry)
		reset(w)
	default:
		return false
	}
	return true
}

// faultAfter plays a fault that strikes after the work, and answers.
func (s *Server) faultAfter(w http.ResponseWriter, r *http.Request, entry Request, f Fault, a answer) {
	switch {
	case a.status == 0 || f.Kind == FaultResetAfter:
		s.log.add(entry)
		reset(w)
		return
	case f.Kind == FaultTimeoutAfter:
		s.log.add(entry)
		<-r.Context().Done()
		reset(w)
		return
	case f.Kind == FaultGatewayAfter:
		a = problem(unreachable(http.StatusBadGateway))
	case f.Kind == FaultMalformed:
		a.body = a.body[:len(a.body)/2]
	case f.Kind == FaultHuge:
		if open, isObject := bytes.CutSuffix(bytes.TrimSpace(a.body), []byte("}")); isObject {
			a.body = fmt.Appendf(nil, "%s,\"padding\":%q}\n", open, bytes.Repeat([]byte("x"), hugePadding))
		}
	}
	s.finish(w, entry, a)
}

func unreachable(status int) error {
	return &statusError{status, "the back office is not reachable right now"}
}

// breakDown is the work of a door that fails half-way.
func breakDown(context.Context, *call) (any, error) {
	return nil, &statusError{http.StatusInternalServerError, "something went wrong here"}
}

// pause waits for a fault's delay; false means that whoever waits for it has gone, or the server stops.
func pause(gone <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-gone:
		return false
	}
}

// reset ends the connection without an answer, as a crashed server's kernel would.
func reset(w http.ResponseWriter) {
	h, ok := w.(http.Hijacker)
	if !ok {
		return
	}
	c, _, err := h.Hijack()
	if err != nil {
		return
	}
	if tcp, isTCP := c.(*net.TCPConn); isTCP {
		_ = tcp.SetLinger(0) // makes the close a reset
	}
	_ = c.Close()
}
