package sim

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Trouble is a way in which a call of the Web API can go wrong.
type Trouble string

// The troubles.
const (
	Limited     Trouble = "limited"      // 429 with Retry-After
	LimitedBare Trouble = "limited_bare" // 429 without it
	LimitedOK   Trouble = "limited_ok"   // 200, and the error ratelimited
	Refuse      Trouble = "refuse"       // 200, and the error that Fault.Error names
	ServerError Trouble = "500"          // before any effect
	HTML        Trouble = "html"         // 200 and a page, before any effect
	CutFirst    Trouble = "cut"          // the connection is cut before any effect
	LostReply   Trouble = "lost_reply"   // the effect happens, then the connection is cut
	LostAs500   Trouble = "lost_as_500"  // the effect happens, then the answer is 500
	Hang        Trouble = "hang"         // nothing happens until the fault is lifted; then the call goes on
	HangAfter   Trouble = "hang_after"   // the effect happens, the answer waits until the fault is lifted
	Slow        Trouble = "slow"         // the call goes on after Fault.Delay
)

// Fault is something that goes wrong, with the next calls of a method.
type Fault struct {
	Method string        `json:"method"` // "" is every method
	App    string        `json:"app,omitempty"`
	Do     Trouble       `json:"do"`
	Error  string        `json:"error,omitempty"` // for Refuse: Slack's name of the error
	Retry  int           `json:"retry,omitempty"` // seconds, for Limited; 0 is 1
	Delay  time.Duration `json:"delay,omitempty"` // for Slow
	After  int           `json:"after,omitempty"` // calls that still go well
	Times  int           `json:"times,omitempty"` // calls that go wrong; 0 is one, less is all until it is lifted
}

// fault is a Fault at work.
type fault struct {
	Fault
	once   sync.Once
	lifted chan struct{}
}

func (f *fault) release() { f.once.Do(func() { close(f.lifted) }) }

// Fail makes something go wrong. lift ends it, and lets the calls that hang go on.
func (w *Workspace) Fail(f Fault) (lift func()) {
	if f.Times == 0 {
		f.Times = 1
	}
	at := &fault{Fault: f, lifted: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, at)
	w.note(Entry{What: Changed, App: f.App, Method: "fault", Body: mustJSON(f)})
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.dropFault(at)
		at.release()
	}
}

// Heal ends all faults.
func (w *Workspace) Heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.faults {
		f.release()
	}
	w.faults = nil
	w.note(Entry{What: Changed, Method: "heal"})
}

// dropFault takes a fault off the list. Calls that hang in it keep hanging until it is released.
func (w *Workspace) dropFault(f *fault) {
	for i, o := range w.faults {
		if o == f {
			w.faults = append(w.faults[:i:i], w.faults[i+1:]...)
			return
		}
	}
}

// strike takes the fault that a call runs into, or nil.
func (w *Workspace) strike(method, app string) *fault {
	for _, f := range w.faults {
		if f.Method != "" && f.Method != method || f.App != "" && f.App != app {
			continue
		}
		if f.After > 0 {
			f.After--
			continue
		}
		if f.Times == 0 {
			continue // a hanging one that is used up, and is only kept so that it can be lifted
		}
		if f.Times > 0 {
			f.Times--
		}
		if f.Times == 0 && f.Do != Hang && f.Do != HangAfter {
			w.dropFault(f)
		}
		return f
	}
	return nil
}

// hang waits until the fault is lifted, the caller is gone or the workspace ends; it says whether the call goes on.
func (w *Workspace) hang(r *http.Request, f *fault) bool {
	select {
	case <-f.lifted:
		return true
	case <-r.Context().Done():
	case <-w.stop:
	}
	return false
}

// before does what a fault does before the effect, and says whether the call goes on.
func (w *Workspace) before(rw http.ResponseWriter, r *http.Request, f *fault) bool {
	switch f.Do {
	case Limited, LimitedBare:
		if f.Do == Limited {
			rw.Header().Set("Retry-After", strconv.Itoa(max(f.Retry, 1)))
		}
		answer(rw, http.StatusTooManyRequests, fail("ratelimited").body())
	case LimitedOK:
		answer(rw, http.StatusOK, fail("ratelimited").body())
	case Refuse:
		answer(rw, http.StatusOK, fail(f.Error).body())
	case ServerError:
		http.Error(rw, "upstream failure", http.StatusInternalServerError)
	case HTML:
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = rw.Write([]byte("<!DOCTYPE html><html><head><title>Slack</title></head><body>Server error</body></html>")) // the caller may be gone
	case CutFirst:
		panic(http.ErrAbortHandler)
	case Hang:
		return w.hang(r, f)
	case Slow:
		t := time.NewTimer(f.Delay)
		defer t.Stop()
		select {
		case <-t.C:
			return true
		case <-r.Context().Done():
		case <-w.stop:
		}
	case LostReply, LostAs500, HangAfter:
		return true
	}
	return false
}

// after does what a fault does once the effect is there, and says whether the answer is still sent.
func (w *Workspace) after(rw http.ResponseWriter, r *http.Request, f *fault) bool {
	switch f.Do {
	case LostReply:
		panic(http.ErrAbortHandler)
	case LostAs500:
		http.Error(rw, "upstream failure", http.StatusInternalServerError)
		return false
	case HangAfter:
		return w.hang(r, f)
	default:
		return true
	}
}
