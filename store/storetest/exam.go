package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"switchboard/store"

	"github.com/google/go-cmp/cmp"
)

// Harness is one store under examination, empty at first. Whoever opens it closes it at the end of the test.
type Harness interface {
	// Store is the store as it was opened last.
	Store() store.Store
	// Reopen ends the working process and begins another one on the same data.
	Reopen(t *testing.T) store.Store
	// Now is the time on the store's clock.
	Now() time.Time
	// Advance moves the store's clock; waiting Claims notice.
	Advance(d time.Duration)
}

// patience bounds what must happen at once. It is only ever used up by a store that fails.
const patience = 20 * time.Second

// ttl is the length of the exam's leases on the store's clock.
const ttl = 30 * time.Second

// Exam runs every check as a subtest, each on a store of its own from open.
func Exam(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	checks := []struct {
		name string
		run  func(*desk)
	}{
		{"D1_SameKeyBecomesOneItem", sameKey},
		{"D1_ClaimOutlivesAckAndReopen", claimOutlives},
		{"D1_AcceptedItemsSurviveReopen", itemsSurvive},
		{"D2_OrderWithinThread", order},
		{"D2_OneLeaseAThread", oneLease},
		{"D2_ThreadsInParallel", parallel},
		{"D2_LongestWaitingFirst", fairness},
		{"D2_StaleAfterExpiry", staleExpired},
		{"D2_StaleAfterReclaim", staleReclaimed},
		{"D2_StaleAfterRelease", staleReleased},
		{"D2_StaleAfterReopen", staleReopened},
		{"D2_NoForgedLease", staleForged},
		{"D2_WorkersUnderLoad", load},
		{"RenewExtends", renewExtends},
		{"ClaimWaitsForPush", claimPush},
		{"ClaimWaitsForRelease", claimRelease},
		{"ClaimWaitsForExpiry", claimExpiry},
		{"ClaimEndsWithContext", claimContext},
		{"ClaimNeedsLength", claimLength},
		{"PushBeforeReleaseIsClaimedAgain", pushBeforeRelease},
		{"WaitingCountsWhatIsNotAcked", backlog},
		{"ThreadsByOldestItem", threads},
		{"D2_StaleWritesAreCounted", staleCounted},
		{"RecordsByPrefix", recordsPrefix},
		{"BatchIsAllOrNothing", atomicity},
		{"BatchDoesEverything", everything},
		{"BatchPushes", batchPush},
		{"BatchReleases", batchRelease},
		{"BatchAcksOnlyItsThread", ackOther},
		{"BatchRefusesNonsense", nonsense},
		{"EndedContextWritesNothing", endedContext},
		{"CompareAndSet", compareAndSet},
		{"CompareAndSetRace", compareAndSetRace},
		{"EventsHaveNoGaps", eventsGapless},
		{"EventsKeepTheirValues", eventValues},
		{"StreamsNewestFirst", streams},
		{"ContentsByPrefix", contentsPrefix},
		{"D6_ContentsEndAtUntil", contentsUntil},
		{"Counters", counters},
		{"SweepClaims", sweepClaims},
		{"CloseWakesAndRefuses", closed},
		{"Model", model},
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := open(t)
			c.run(&desk{T: t, open: open, h: h, s: h.Store(), ctx: t.Context()})
		})
	}
}

// desk is where one check sits: the store and short ways to use it that fail the test.
type desk struct {
	*testing.T
	open func(t *testing.T) Harness
	h    Harness
	s    store.Store
	ctx  context.Context //nolint:containedctx // the test's own; a desk lives as long as it
}

func (d *desk) reopen() { d.s = d.h.Reopen(d.T) }

func (d *desk) push(thread, key string) bool {
	d.Helper()
	fresh, err := d.s.Push(d.ctx, store.Item{Key: key, Thread: thread, Body: []byte("body of " + key)})
	d.want(err, nil)
	return fresh
}

func (d *desk) claim() store.Lease {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.ctx, patience)
	defer cancel()
	l, err := d.s.Claim(ctx, ttl)
	if err != nil {
		d.Fatalf("claim: %v", err)
	}
	return l
}

// claimThread claims and says that it must be this thread.
func (d *desk) claimThread(thread string) store.Lease {
	d.Helper()
	l := d.claim()
	if l.Thread != thread {
		d.Fatalf("claimed thread %q, want %q", l.Thread, thread)
	}
	return l
}

// claiming starts a Claim and gives the channel on which its answer comes.
func (d *desk) claiming(ctx context.Context) <-chan answer {
	out := make(chan answer, 1)
	go func() {
		l, err := d.s.Claim(ctx, ttl)
		out <- answer{l, err}
	}()
	return out
}

type answer struct {
	lease store.Lease
	err   error
}

func (d *desk) await(c <-chan answer) answer {
	d.Helper()
	select {
	case a := <-c:
		return a
	case <-time.After(patience):
		d.Fatal("the Claim did not come back")
		return answer{}
	}
}

// nobody says that no thread can be claimed now. A store that would hand one out does it before the context ends, because
// the pushes are durable already.
func (d *desk) nobody() {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.ctx, 50*time.Millisecond)
	defer cancel()
	if l, err := d.s.Claim(ctx, ttl); !errors.Is(err, context.DeadlineExceeded) {
		d.Fatalf("claimed %+v, %v; nothing was to be had", l, err)
	}
}

func (d *desk) keys(l store.Lease) []string {
	d.Helper()
	items, err := d.s.Items(d.ctx, l)
	d.want(err, nil)
	var keys []string
	for _, it := range items {
		if it.Thread != l.Thread || string(it.Body) != "body of "+it.Key {
			d.Fatalf("item %+v in thread %q", it, l.Thread)
		}
		keys = append(keys, it.Key)
	}
	return keys
}

func (d *desk) commit(b store.Batch, want error) {
	d.Helper()
	d.want(d.s.Commit(d.ctx, b), want)
}

// errAny stands for an error that has no name.
var errAny = errors.New("any error")

func (d *desk) want(err, want error) {
	d.Helper()
	if !errors.Is(err, want) && (err == nil || want != errAny) { //nolint:errorlint // it is the very one
		d.Fatalf("got error %v, want %v", err, want)
	}
}

func (d *desk) same(got, want any) {
	d.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		d.Fatalf("(-want +got)\n%s", diff)
	}
}

func (d *desk) record(key string) store.Record {
	d.Helper()
	r, err := d.s.Get(d.ctx, key)
	d.want(err, nil)
	return r
}

func (d *desk) count(key string) int64 {
	d.Helper()
	n, err := d.s.Count(d.ctx, key)
	d.want(err, nil)
	return n
}

func (d *desk) content(key string) []byte {
	d.Helper()
	v, err := d.s.Content(d.ctx, key)
	d.want(err, nil)
	return v
}

func (d *desk) events(stream string) []store.Event {
	d.Helper()
	es, err := d.s.Events(d.ctx, stream)
	d.want(err, nil)
	return es
}

// together runs work n times at once and waits for all.
func (d *desk) together(n int, work func(i int)) {
	d.Helper()
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			work(i)
		})
	}
	close(start)
	wg.Wait()
	if d.Failed() {
		d.FailNow()
	}
}

func name(kind string, i int) string { return fmt.Sprintf("%s%03d", kind, i) }
