package redis_test

import (
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"switchboard/store"
	"switchboard/store/redis"
	"switchboard/store/redistest"
	"switchboard/store/storetest"
)

// TestMain plays another process where a test asks for one, else runs the tests.
func TestMain(m *testing.M) {
	if url := os.Getenv("REDIS_TEST_CHILD"); url != "" {
		os.Exit(child(os.Args[1:], url))
	}
	if err := flag.Set("rapid.checks", checks); err != nil { // the command line may say otherwise
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// start is the time on the clocks of the tests.
func start() time.Time { return time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC) }

// bot is a Harness over one bot's keys on a server that others use too.
type bot struct {
	*storetest.Clock
	url, name string
	store     *redis.Store
}

// bots gives harnesses on one server, each a bot of its own.
func bots(url string) func(t *testing.T) storetest.Harness {
	var n atomic.Int64
	return func(t *testing.T) storetest.Harness {
		t.Helper()
		b := &bot{Clock: storetest.NewClock(start()), url: url, name: fmt.Sprint("bot-", n.Add(1))}
		b.open(t)
		t.Cleanup(func() {
			if err := b.store.Close(); err != nil {
				t.Error(err)
			}
		})
		return b
	}
}

func (b *bot) open(t *testing.T) {
	t.Helper()
	s, err := redis.Open(t.Context(), b.url, redis.Options{Name: b.name})
	if err != nil {
		t.Fatal(err)
	}
	s.SetClock(b.Now)
	b.store = s
}

func (b *bot) Store() store.Store { return b.store }

func (b *bot) Advance(d time.Duration) {
	b.Clock.Advance(d)
	b.store.Wake()
}

func (b *bot) Reopen(t *testing.T) store.Store {
	t.Helper()
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	b.open(t)
	return b.store
}

func TestExam(t *testing.T) {
	t.Parallel()
	storetest.Exam(t, bots(redistest.Start(t).URL()))
}

// The same while one answer in twenty is lost after the server has done what it was asked.
func TestRel_R08_ExamWithLostReplies(t *testing.T) {
	t.Parallel()
	p := redistest.Through(t, redistest.Start(t).Addr())
	p.DropAtRandom(4, 0.05)
	t.Cleanup(func() {
		if p.Lost() < 50 {
			t.Errorf("only %d answers were lost", p.Lost())
		}
	})
	storetest.Exam(t, bots(p.URL()))
}
