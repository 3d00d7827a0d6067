package backoffice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// pay20 pays back 20 of the 89.90 euros of A-1001.
const pay20 = `{"order":"A-1001","amount":2000,"shop":"shop_eu"}`

func (c client) effects() []Effect {
	c.t.Helper()
	all, err := c.s.Effects(context.WithoutCancel(c.t.Context()))
	if err != nil {
		c.t.Fatal(err)
	}
	return all
}

func (c client) refunded(order string) float64 {
	c.t.Helper()
	return c.get("GET /orders/"+order+"?shop=shop_eu", "")["refunded"].(float64)
}

func TestOrdersAreDeliveredBeforeTheServersOwnNow(t *testing.T) {
	t.Parallel()
	now := time.Date(2033, 7, 9, 12, 0, 0, 0, time.UTC)
	c := start(t, Options{Now: func() time.Time { return now }})
	got := c.get("GET /orders/A-1001?shop=shop_eu", "")
	want := map[string]any{
		"order": "A-1001", "status": "delivered", "currency": "EUR", "paid": 8990.0, "refunded": 0.0, "delivered_at": "2033-07-06T12:00:00Z",
		"customer": map[string]any{"id": "c_1", "name": "Lena Vogt", "flagged": false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	for order, want := range map[string]string{
		"A-1003": "delivered 6500 0 2033-05-25T12:00:00Z false", "A-1004": "cancelled 0 0  false", "A-1005": "delivered 7900 5000 2033-06-29T12:00:00Z false",
		"A-1006": "paid 4500 0  false", "A-1007": "delivered 4200 0 2033-07-03T12:00:00Z true",
	} {
		o := c.get("GET /orders/"+order+"?shop=shop_eu", "")
		if got := fmt.Sprint(o["status"], " ", o["paid"], " ", o["refunded"], " ", o["delivered_at"], " ", o["customer"].(map[string]any)["flagged"]); got != want {
			t.Errorf("%s is %q, want %q", order, got, want)
		}
	}
}

func TestShopRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	k := []string{"Idempotency-Key: k1"}
	t.Cleanup(func() {
		if n := len(c.effects()); n != 0 {
			t.Errorf("%d effects of refused requests", n)
		}
		if n := c.count("kept", "name = 'k1'"); n != 0 {
			t.Error("a request that was never begun used its key up")
		}
	})
	for _, v := range []struct {
		name, line, body string
		header           []string
		status           int
		says             string
	}{
		{"no shop", "GET /orders/A-1001", "", nil, 400, "shop is needed"},
		{"an organisation is no shop", "GET /orders/A-1001?org=org_7", "", nil, 400, "org"},
		{"a shop is no organisation", "GET /courts?shop=shop_eu", "", nil, 400, "shop"},
		{"unknown shop", "GET /orders/A-1001?shop=org_7", "", nil, 404, "shop is not known"},
		{"order of the other shop", "GET /orders/A-1001?shop=shop_us", "", nil, 404, "no order"},
		{"refunds of the other shop", "GET /refunds?order=A-1001&shop=shop_us", "", nil, 404, "no order"},
		{"no order", "GET /refunds?shop=shop_eu", "", nil, 404, "no order"},
		{"refund in the other shop", "POST /refunds", strings.Replace(pay20, "_eu", "_us", 1), k, 404, "no order"},
		{"refund without a key", "POST /refunds", pay20, nil, 400, "Idempotency-Key"},
		{"notice without a key", "POST /orders/A-1001/notify", `{"shop":"shop_eu","text":"x"}`, nil, 400, "Idempotency-Key"},
		{"key too long", "POST /refunds", pay20, []string{"Idempotency-Key: " + strings.Repeat("k", 256)}, 400, "Idempotency-Key"},
		{"nothing", "POST /refunds", strings.Replace(pay20, "2000", "0", 1), k, 400, "1 cent"},
		{"less than nothing", "POST /refunds", strings.Replace(pay20, "2000", "-5", 1), k, 400, "1 cent"},
		{"amount is text", "POST /refunds", strings.Replace(pay20, "2000", `"2000"`, 1), k, 400, "amount"},
		{"unknown field", "POST /refunds", strings.Replace(pay20, "{", `{"to":"IBAN",`, 1), k, 400, "to"},
		{"more than was paid", "POST /refunds", strings.Replace(pay20, "2000", "8991", 1), []string{"Idempotency-Key: k2"}, 422, "only 8990 cents of order A-1001"},
		{"more than is left", "POST /refunds", `{"order":"A-1005","amount":2901,"shop":"shop_eu"}`, []string{"Idempotency-Key: k3"}, 422, "only 2900 cents"},
		{"cancelled order", "POST /refunds", `{"order":"A-1004","amount":1,"shop":"shop_eu"}`, []string{"Idempotency-Key: k4"}, 422, "only 0 cents"},
		{"empty notice", "POST /orders/A-1001/notify", `{"shop":"shop_eu","text":" "}`, k, 400, "text"},
		{"reset takes POST", "DELETE /_reset", "", nil, 405, "POST"},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			status, answer := c.do(v.line, v.body, v.header...)
			var e struct{ Error string }
			if err := json.Unmarshal([]byte(answer), &e); err != nil || status != v.status || !strings.Contains(e.Error, v.says) {
				t.Errorf("got %d %s, want %d and an error that says %q", status, answer, v.status, v.says)
			}
			if strings.Contains(answer, "shop_") {
				t.Errorf("the answer names a shop: %s", answer)
			}
		})
	}
}

func TestRefundIsBookedOnceAndSeen(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	got := c.get("POST /refunds", pay20, "Idempotency-Key: k1")
	if diff := cmp.Diff(map[string]any{"id": "r_2", "order": "A-1001", "amount": 2000.0, "status": "done"}, got); diff != "" {
		t.Errorf("refund (-want +got):\n%s", diff)
	}
	_, _, h, err := c.try(t.Context(), "POST /refunds", pay20, "Idempotency-Key: k1")
	if err != nil || h.Get(replayed) != "true" {
		t.Errorf("the second answer is not marked as a replay: %v %v", h, err)
	}
	if n := c.get("POST /orders/A-1001/notify", `{"text":"20 euros are on their way.","shop":"shop_eu"}`, "Idempotency-Key: k2"); n["to"] != "Lena Vogt" {
		t.Errorf("the notice went to %v", n)
	}
	rows := c.get("GET /refunds?order=A-1001&shop=shop_eu", "")["rows"]
	want := []any{map[string]any{"id": "r_2", "order": "A-1001", "amount": 2000.0, "status": "done", "key": "k1", "at": "2026-04-20T08:00:00Z"}}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("refunds (-want +got):\n%s", diff)
	}
	if n := c.refunded("A-1001"); n != 2000 {
		t.Errorf("the order says that %v cents were refunded", n)
	}
	ledger := []Effect{
		{N: 1, Kind: "refund", Shop: "shop_eu", ID: "r_2", Order: "A-1001", Amount: 2000, Key: "k1", Body: pay20, At: "2026-04-20T08:00:00Z"},
		{
			N: 2, Kind: "notice", Shop: "shop_eu", ID: "n_1", Order: "A-1001", Key: "k2",
			Body: `{"text":"20 euros are on their way.","shop":"shop_eu"}`, At: "2026-04-20T08:00:00Z",
		},
	}
	if diff := cmp.Diff(ledger, c.effects()); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
}

// TestRel_E05_KeysOfAPaymentProvider goes through the answers of the draft, and through what providers keep.
func TestRel_E05_KeysOfAPaymentProvider(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(time.Date(2026, 4, 20, 8, 0, 0, 0, time.UTC).UnixNano())
	c := start(t, Options{Now: func() time.Time { return time.Unix(0, now.Load()) }})
	again := func(key string, body string, status int, replay bool) string {
		t.Helper()
		got, answer, h, err := c.try(t.Context(), "POST /refunds", body, "Idempotency-Key: "+key)
		if err != nil || got != status || h.Get(replayed) == "true" != replay {
			t.Errorf("%s %s: %d %s (replayed: %q) %v, want %d", key, body, got, answer, h.Get(replayed), err, status)
		}
		return answer
	}
	first := again("done", pay20, 200, false)
	if second := again("done", pay20, 200, true); second != first {
		t.Errorf("the replay is %s, the first answer was %s", second, first)
	}
	again("done", strings.Replace(pay20, "2000", "2001", 1), 422, false)
	again("done", strings.Replace(pay20, ",", ", ", 1), 422, false) // other bytes, although they mean the same

	much := strings.Replace(pay20, "2000", "8000", 1)
	refusal := again("much", much, 422, false)
	if _, err := c.s.Exec(t.Context(), `UPDATE orders SET paid = 99000 WHERE number = 'A-1001'`); err != nil {
		t.Fatal(err)
	}
	if kept := again("much", much, 422, true); kept != refusal {
		t.Errorf("the refusal was kept as %s, it was %s", kept, refusal)
	}

	c.fault(Fault{Match: "POST /refunds", Kind: FaultBroken})
	failure := again("broken", pay20, 500, false)
	if kept := again("broken", pay20, 500, true); kept != failure {
		t.Errorf("the failure was kept as %s, it was %s", kept, failure)
	}
	if n := c.refunded("A-1001"); n != 2000 {
		t.Errorf("%v cents were refunded, want 2000", n)
	}

	now.Add(int64(24*time.Hour - time.Millisecond))
	again("done", pay20, 200, true)
	now.Add(int64(time.Millisecond))
	again("done", pay20, 200, false) // forgotten: a second refund
	if n := len(c.effects()); n != 2 {
		t.Errorf("%d effects, want 2", n)
	}
	c.s.KeepKeys(time.Minute)
	now.Add(int64(time.Minute))
	again("done", pay20, 200, false)
}

func TestKeysOfTwoShopsAreTwoKeys(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	c.get("POST /refunds", pay20, "Idempotency-Key: k1")
	c.get("POST /refunds", `{"order":"A-2001","amount":100,"shop":"shop_us"}`, "Idempotency-Key: k1")
	if n := len(c.effects()); n != 2 {
		t.Errorf("%d effects, want one for each shop", n)
	}
}

// TestRel_E06_FaultsOfTheProvider arms each kind of fault on a refund, and counts what was booked before and after a retry.
func TestRel_E06_FaultsOfTheProvider(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	for i, v := range []struct {
		kind   Kind
		status int // 0: the connection ends without an answer
		booked int // by the first request
		retry  int // status of the same request again
		after  int // booked by both
	}{
		{FaultTimeout, 0, 0, 200, 1},
		{FaultTimeoutAfter, 0, 1, 200, 1},
		{FaultReset, 0, 0, 200, 1},
		{FaultResetAfter, 0, 1, 200, 1},
		{FaultConflict, 409, 0, 200, 1},
		{FaultOtherRequest, 422, 0, 200, 1},
		{FaultTooMany, 429, 0, 200, 1},
		{FaultBroken, 500, 0, 500, 0},
		{FaultBadGateway, 502, 0, 200, 1},
		{FaultGatewayAfter, 502, 1, 200, 1},
		{FaultUnavailable, 503, 0, 200, 1},
		{FaultMalformed, 200, 1, 200, 1},
		{FaultHuge, 200, 1, 200, 1},
	} {
		order, k := fmt.Sprintf("A-50%02d", i), "k-"+string(v.kind)
		if err := c.s.AddOrders(t.Context(), "shop_eu", Order{order, 5000, aDay}); err != nil {
			t.Fatal(err)
		}
		body := strings.Replace(pay20, "A-1001", order, 1)
		booked := func() int { return c.count("ledger", "number = ?", order) }
		c.fault(Fault{Match: "POST /refunds", Kind: v.kind, Delay: time.Second})
		status := c.strike(body, k, v.kind)
		if n := booked(); status != v.status || n != v.booked {
			t.Errorf("%s: status %d with %d effects, want %d with %d", v.kind, status, n, v.status, v.booked)
		}
		if again, answer := c.do("POST /refunds", body, "Idempotency-Key: "+k); again != v.retry {
			t.Errorf("%s: the retry got %d %s, want %d", v.kind, again, answer, v.retry)
		}
		if n := booked(); n != v.after {
			t.Errorf("%s: %d effects after the retry, want %d", v.kind, n, v.after)
		}
		log := c.s.Requests()
		for _, r := range log[len(log)-2:] {
			if r.Method != "POST" || r.URI != "/refunds" || r.Body != body || r.Key != k {
				t.Errorf("%s: the log has %+v", v.kind, r)
			}
		}
	}
}

// strike sends a refund, and goes away once a fault has struck without an answer. It gives the answer's status, or 0.
func (c client) strike(body, k string, kind Kind) int {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	type outcome struct {
		status int
		err    error
	}
	got := make(chan outcome, 1)
	c.rt.CloseIdleConnections() // net/http itself repeats a request with this header when a used connection turns out to be reset
	go func() {
		status, _, _, err := c.try(ctx, "POST /refunds", body, "Idempotency-Key: "+k)
		got <- outcome{status, err}
	}()
	if _, err := c.s.Await(c.t.Context(), func(r Request) bool { return r.Fault == kind }); err != nil {
		c.t.Fatal(err)
	}
	if kind == FaultTimeout || kind == FaultTimeoutAfter {
		cancel()
	}
	o := <-got
	if o.err == nil {
		return o.status
	}
	if !errors.Is(o.err, context.Canceled) && !errors.Is(o.err, syscall.ECONNRESET) {
		c.t.Errorf("%s gave %v", kind, o.err)
	}
	return 0
}

func TestRel_E06_LateWorkIsDoneWithoutItsClient(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	const delay = 300 * time.Millisecond
	c.fault(Fault{Match: "POST /refunds", Kind: FaultLate, Delay: delay})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, _, _, err := c.try(ctx, "POST /refunds", pay20, "Idempotency-Key: k1")
		gone <- err
	}()
	if err := c.s.AwaitBusy(t.Context(), "k1"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatalf("the client got %v", err)
	}
	if status, answer := c.do("POST /refunds", pay20, "Idempotency-Key: k1"); status != 409 || !strings.Contains(answer, "in progress") {
		t.Errorf("a retry during the work got %d %s", status, answer)
	}
	if n := len(c.effects()); n != 0 {
		t.Errorf("%d effects before the delay is over", n)
	}
	if _, err := c.s.Await(t.Context(), func(r Request) bool { return r.Fault == FaultLate }); err != nil {
		t.Fatal(err)
	}
	if got := c.get("POST /refunds", pay20, "Idempotency-Key: k1"); got["id"] != "r_2" {
		t.Errorf("the retry after the work got %v", got)
	}
	if n := len(c.effects()); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

func TestLateWorkEndsWithTheServer(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	c.fault(Fault{Match: "POST /refunds", Kind: FaultLate, Delay: time.Minute})
	gone := make(chan error, 1)
	go func() {
		_, _, _, err := c.try(context.Background(), "POST /refunds", pay20, "Idempotency-Key: k1")
		gone <- err
	}()
	if err := c.s.AwaitBusy(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if err := c.s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-gone; err == nil {
		t.Error("work that was to be late was answered when the server closed")
	}
}

// TestRel_E10_OneKeyOneRefund sends the same refund many times at once, and many refunds that do not all fit.
func TestRel_E10_OneKeyOneRefund(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	var wg sync.WaitGroup
	for i := range 24 {
		key := "Idempotency-Key: same"
		if i%2 == 1 {
			key = fmt.Sprintf("Idempotency-Key: k%d", i)
		}
		wg.Go(func() {
			status, answer, _, err := c.try(t.Context(), "POST /refunds", pay20, key)
			if err != nil || status != 200 && status != 409 && status != 422 {
				t.Errorf("%d %s %v", status, answer, err)
			}
		})
	}
	wg.Wait()
	same := 0
	for _, e := range c.effects() {
		if e.Key == "same" {
			same++
		}
	}
	if n := len(c.effects()); n != 4 || same > 1 || c.refunded("A-1001") != 8000 {
		t.Errorf("%d refunds of 20.00, %d of them under the same key, %v cents; want 4, at most 1, 8000", n, same, c.refunded("A-1001"))
	}
}

// TestRel_E14_BooksBalance plays random refunds with random keys and faults, and compares orders, refunds, ledger and log.
func TestRel_E14_BooksBalance(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	kinds := []Kind{"", FaultConflict, FaultBroken, FaultBadGateway, FaultGatewayAfter, FaultReset, FaultResetAfter, FaultMalformed}
	rapid.Check(t, func(t *rapid.T) {
		if kind := rapid.SampledFrom(kinds).Draw(t, "fault"); kind != "" {
			if err := c.s.Fault(Fault{Match: "POST /refunds", Kind: kind}); err != nil {
				t.Fatal(err)
			}
		}
		order := rapid.SampledFrom([]string{"A-1001", "A-1002", "A-1005", "A-1008"}).Draw(t, "order")
		body := fmt.Sprintf(`{"order":%q,"amount":%d,"shop":"shop_eu"}`, order, rapid.IntRange(1, 900).Draw(t, "amount"))
		key := fmt.Sprintf("Idempotency-Key: k%d", rapid.IntRange(0, 40).Draw(t, "key"))
		for range rapid.IntRange(1, 3).Draw(t, "times") {
			_, _, _, _ = c.try(context.Background(), "POST /refunds", body, key)
		}
	})
	booked, keys, sent := map[string]float64{"A-1005": 5000}, map[string]bool{}, map[[2]string]bool{}
	for _, r := range c.s.Requests() {
		sent[[2]string{r.Key, r.Body}] = true
	}
	for _, e := range c.effects() {
		booked[e.Order] += float64(e.Amount)
		if keys[e.Key] || !sent[[2]string{e.Key, e.Body}] {
			t.Errorf("effect %+v is a second one of its key, or nobody asked for it", e)
		}
		keys[e.Key] = true
	}
	if len(keys) < 5 {
		t.Errorf("only %d refunds were booked", len(keys))
	}
	for order, want := range booked {
		if got := c.refunded(order); got != want {
			t.Errorf("%s: %v cents refunded, the ledger has %v", order, got, want)
		}
	}
}

// TestShopsCannotSeeEachOther asks for everything of one shop in the name of the other.
func TestShopsCannotSeeEachOther(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	before := c.count("refunds", "shop = 'shop_us'")
	for _, order := range []string{"A-2001", "A-2002", "A-2003", "A-2004", "A-2210"} {
		for _, line := range []string{"GET /orders/" + order + "?shop=shop_eu", "GET /refunds?order=" + order + "&shop=shop_eu"} {
			if status, answer := c.do(line, ""); status != 404 {
				t.Errorf("%s: %d %s", line, status, answer)
			}
		}
		body := fmt.Sprintf(`{"order":%q,"amount":1,"shop":"shop_eu"}`, order)
		if status, answer := c.do("POST /refunds", body, "Idempotency-Key: "+order); status != 404 {
			t.Errorf("%s: %d %s", body, status, answer)
		}
		if status, answer := c.do("POST /orders/"+order+"/notify", `{"text":"x","shop":"shop_eu"}`, "Idempotency-Key: n"+order); status != 404 {
			t.Errorf("notify %s: %d %s", order, status, answer)
		}
	}
	if after := c.count("refunds", "shop = 'shop_us'"); after != before || len(c.effects()) != 0 {
		t.Errorf("%d refunds of the other shop, want %d", after, before)
	}
}

func TestResetIsANewStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "office.db")
	c := start(t, Options{Path: path})
	fresh := start(t, Options{})
	c.get("POST /refunds", pay20, "Idempotency-Key: k1")
	c.get("DELETE /bookings/b_7001?org=org_7", "")
	c.fault(Fault{Match: "GET /courts", Kind: FaultUnavailable, Times: -1})
	c.get("POST /_reset", "")
	if n := len(c.s.Requests()); n != 1 {
		t.Errorf("%d requests in the log after the reset, want its own", n)
	}
	for _, line := range []string{"GET /courts?org=org_7", "GET /bookings/b_7001?org=org_7", "GET /orders/A-1001?shop=shop_eu", "GET /refunds?order=A-1005&shop=shop_eu"} {
		_, got := c.do(line, "")
		_, want := fresh.do(line, "")
		if got != want {
			t.Errorf("%s: %s after a reset, %s after a start", line, got, want)
		}
	}
	_, _, h, err := c.try(t.Context(), "POST /refunds", pay20, "Idempotency-Key: k1")
	if err != nil || h.Get(replayed) != "" {
		t.Errorf("the reset remembered a key: %v %v", h, err)
	}
	if e := c.effects(); len(e) != 1 || e[0].N != 1 || e[0].ID != "r_2" {
		t.Errorf("the ledger after a reset and a refund: %+v", e)
	}
}

func TestOrdersCanBeAdded(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	if err := c.s.AddOrders(t.Context(), "shop_eu", Order{"A-5001", 100, aDay}, Order{"A-5002", 200, 0}); err != nil {
		t.Fatal(err)
	}
	if o := c.get("GET /orders/A-5002?shop=shop_eu", ""); o["status"] != "paid" || o["paid"] != 200.0 {
		t.Errorf("unexpected order: %v", o)
	}
	if err := c.s.AddOrders(t.Context(), "shop_eu", Order{"A-5003", 1, 0}, Order{"A-5001", 1, 0}); err == nil {
		t.Error("an order was added twice")
	}
	if status, _ := c.do("GET /orders/A-5003?shop=shop_eu", ""); status != http.StatusNotFound {
		t.Errorf("half of the orders were added: status %d", status)
	}
}

func TestLogIsBoundedByItsBytes(t *testing.T) {
	t.Parallel()
	var l requestLog
	body := strings.Repeat("x", maxLogBytes/8)
	for range 20 {
		l.add(Request{Body: body})
	}
	entries, _ := l.look()
	if n := len(entries); n < 6 || n > 8 {
		t.Errorf("%d entries of an eighth of the bytes", n)
	}
}
