package backoffice

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

const bookMia = `{"org":"org_7","member":"m_7101","court":2,"day":"2026-05-05","start":"18:00"}`

const miasRow = "org = 'org_7' AND day = '2026-05-05' AND court = 2 AND start = 1080"

func (c client) fault(f Fault) {
	c.t.Helper()
	if err := c.s.Fault(f); err != nil {
		c.t.Fatal(err)
	}
}

// abandon sends a booking, waits until the fault has struck, and goes away.
func abandon(t *testing.T, c client, kind Kind) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, _, _, err := c.try(ctx, "POST /bookings", bookMia, "Idempotency-Key: k1")
		gone <- err
	}()
	if _, err := c.s.Await(t.Context(), func(r Request) bool { return r.Fault == kind && r.Status == 0 }); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-gone:
		t.Fatalf("there was an answer: %v", err)
	default:
	}
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the client got %v", err)
	}
}

func TestTimeoutDoesNothing(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	c.fault(Fault{Match: "POST /bookings", Kind: FaultTimeout})
	abandon(t, c, FaultTimeout)
	if n := c.count("bookings", miasRow); n != 0 {
		t.Errorf("%d bookings after a timeout before the work", n)
	}
}

func TestTimeoutAfterCommitsAndTheKeyFindsIt(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	c.fault(Fault{Match: "POST /bookings", Kind: FaultTimeoutAfter})
	abandon(t, c, FaultTimeoutAfter)
	if n := c.count("bookings", miasRow); n != 1 {
		t.Fatalf("%d bookings after a timeout after the work", n)
	}
	if got := c.get("POST /bookings", bookMia, "Idempotency-Key: k1"); got["name"] != "Mia Torres" {
		t.Errorf("the retry got %v", got)
	}
	if n := c.count("bookings", miasRow); n != 1 {
		t.Errorf("%d bookings after the retry", n)
	}
	log := c.s.Requests()
	last := log[len(log)-1]
	want := Request{Method: "POST", Path: "/bookings", URI: "/bookings", Body: bookMia, Org: "org_7", Key: "k1", Status: 200, Replayed: true}
	if last != want {
		t.Errorf("the log ends with %+v, want %+v", last, want)
	}
}

func TestHangingRequestsEndWithTheServer(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	c.fault(Fault{Match: "GET /courts", Kind: FaultTimeout})
	gone := make(chan error, 1)
	go func() {
		_, _, _, err := c.try(context.Background(), "GET /courts?org=org_7", "")
		gone <- err
	}()
	if _, err := c.s.Await(t.Context(), func(r Request) bool { return r.Fault == FaultTimeout }); err != nil {
		t.Fatal(err)
	}
	if err := c.s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-gone; err == nil {
		t.Error("a request that must never be answered was answered when the server closed")
	}
}

func TestStatusFaultsDoNothingAndStopAfterTheirTimes(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	c.fault(Fault{Match: "POST /bookings", Kind: FaultBadGateway, Times: 2})
	c.fault(Fault{Match: "POST /book*", Kind: FaultTooMany, Delay: 1100 * time.Millisecond})
	c.fault(Fault{Match: "POST /bookings", Kind: FaultUnavailable})
	for _, want := range []int{502, 502, 429, 503} {
		status, answer, h, err := c.try(t.Context(), "POST /bookings", bookMia)
		if err != nil || status != want || !strings.HasPrefix(answer, `{"error":`) {
			t.Errorf("got %d %s %v, want %d", status, answer, err, want)
		}
		if want == 429 && h.Get("Retry-After") != "2" {
			t.Errorf("Retry-After is %q, want 2", h.Get("Retry-After"))
		}
	}
	if n := c.count("bookings", miasRow); n != 0 {
		t.Errorf("%d bookings after faults before the work", n)
	}
	c.get("POST /bookings", bookMia)
}

func TestFaultsOfTheAnswer(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	c.fault(Fault{Match: "POST /bookings/{booking}/move", Kind: FaultMalformed})
	_, answer := c.do("POST /bookings/b_7001/move", `{"org":"org_7","day":"2026-05-05","start":"19:30","court":2}`)
	if json.Valid([]byte(answer)) || c.count("bookings", "booking = 'b_7001' AND court = 2") != 1 {
		t.Errorf("malformed must do the work and cut the answer: %s", answer)
	}
	c.fault(Fault{Match: "GET /courts", Kind: FaultHuge})
	_, answer = c.do("GET /courts?org=org_7", "")
	if !json.Valid([]byte(answer)) || len(answer) < hugePadding {
		t.Errorf("huge must be well formed and large, it has %d bytes", len(answer))
	}
	c.fault(Fault{Match: "POST /bookings", Kind: FaultReset})
	if _, _, _, err := c.try(t.Context(), "POST /bookings", bookMia); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reset gave %v", err)
	}
	if n := c.count("bookings", miasRow); n != 0 {
		t.Errorf("%d bookings after a reset", n)
	}
}

func TestSlowHoldsTheKeyUntilTheClientGoes(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	const delay = 20 * time.Millisecond
	c.fault(Fault{Match: "GET /courts", Kind: FaultSlow, Delay: delay})
	began := time.Now()
	c.get("GET /courts?org=org_7", "")
	if took := time.Since(began); took < delay {
		t.Errorf("a slow answer took %s, less than %s", took, delay)
	}
	ctx, cancel := context.WithTimeout(t.Context(), delay)
	defer cancel()
	c.fault(Fault{Match: "POST /bookings", Kind: FaultSlow, Delay: time.Minute})
	if _, _, _, err := c.try(ctx, "POST /bookings", bookMia, "Idempotency-Key: k1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the client got %v", err)
	}
	if _, err := c.s.Await(t.Context(), func(r Request) bool { return r.Fault == FaultSlow && r.Method == http.MethodPost }); err != nil {
		t.Fatal(err)
	}
	c.get("GET /courts?org=org_7", "")
	if n := c.count("bookings", miasRow); n != 0 {
		t.Errorf("%d bookings of a client that went away", n)
	}
}

func TestFaultsAreArmedOverHTTP(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	c.get("POST /_faults", `{"match":"GET /courts","kind":"503","times":-1}`)
	for range 3 {
		if status, _ := c.do("GET /courts?org=org_7", ""); status != 503 {
			t.Errorf("status %d, want 503", status)
		}
	}
	c.get("DELETE /_faults", "")
	c.get("GET /courts?org=org_7", "")
	for _, body := range []string{
		`{"match":"GET /courts","kind":"flood"}`, `{"match":"/courts","kind":"503"}`, `{"match":"GET /courts","kind":"slow","delay_ms":-1}`,
		`{"match":"GET /courts","kind":"slow","delay_ms":3600000}`, `{"matches":"GET /courts"}`, `[]`,
	} {
		if status, answer := c.do("POST /_faults", body); status != 400 {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.s.Await(ctx, func(Request) bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("Await gave %v", err)
	}
}
