package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"switchboard/slack/sim"
	"switchboard/store/redistest"
)

// storm is a story of many people who ask for refunds and talk with the bot, while bots are killed at any moment.
type storm struct {
	w       *effectWorld
	seed    uint64
	clerks  int // errands at once
	threads int // in which people talk, beside
	deaths  int
	stop    chan struct{}

	mu      sync.Mutex
	errands []*errand
	errs    []error
}

// patience is for what is under way when the storm is over: leases of the dead, and Slack's retries.
const patience = 90 * time.Second

// blow begins the storm. What it gives ends it, and waits until everybody has an answer.
func (s *storm) blow(ctx context.Context) (end func()) {
	s.stop = make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	var people sync.WaitGroup
	for n := range s.clerks {
		people.Go(func() { s.clerk(ctx, rand.New(rand.NewPCG(s.seed, uint64(n)))) }) //nolint:gosec // a test that can be played again
	}
	for n := range s.threads {
		people.Go(func() { s.talk(ctx, n, rand.New(rand.NewPCG(s.seed, uint64(1000+n)))) }) //nolint:gosec // as above
	}
	return func() {
		close(s.stop)
		late := time.AfterFunc(patience, cancel)
		people.Wait()
		late.Stop()
		cancel()
	}
}

func (s *storm) over() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// clerk asks for one refund after the other.
func (s *storm) clerk(ctx context.Context, rnd *rand.Rand) {
	for !s.over() {
		kind := "refund"
		if rnd.IntN(4) == 0 {
			kind = "payout"
		}
		e, err := s.w.newErrand(ctx, kind)
		if err == nil {
			if rnd.IntN(4) == 0 {
				e.cents = 2000 // nobody has to approve it
			}
			s.mu.Lock()
			s.errands = append(s.errands, e)
			s.mu.Unlock()
			err = e.storm(ctx, rnd)
		}
		if err != nil {
			s.fail(err)
			return
		}
	}
}

func (s *storm) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, err)
}

// storm is play while bots die.
func (e *errand) storm(ctx context.Context, rnd *rand.Rand) error {
	if err := e.say(); err != nil {
		return err
	}
	if e.cents > 5000 {
		card, err := e.card(ctx, e.channel)
		if err != nil {
			return err
		}
		who := []string{"U0BOB", "U0FAY"}[rnd.IntN(2)]
		if err := wait(ctx, time.Duration(rnd.IntN(300))*time.Millisecond); err != nil {
			return err
		}
		if err := e.approve(ctx, who, card); err != nil {
			return err
		}
	}
	return e.answered(ctx)
}

// talk says one thing after the other, thirty in a thread, and waits at its end until everything is answered.
func (s *storm) talk(ctx context.Context, n int, rnd *rand.Rand) {
	ws := s.w.ws
	channel := ws.AddChannel(sim.Channel{ID: fmt.Sprintf("C0T%d", n), Name: fmt.Sprintf("talk-%d", n), Members: s.w.people}).ID
	from, root := ws.Mark(), ""
	for i := 0; i < 999 && !s.over(); i++ {
		if i%30 == 0 {
			root = "" // another thread
		}
		ts, err := ws.Say(sim.Say{From: "U0SUE", Channel: channel, Thread: root, Text: fmt.Sprintf("<@%s> look A-1001 0 m%d", botUser, 100_000+1000*n+i)})
		if err != nil {
			s.fail(err)
			return
		}
		if i%30 == 0 {
			root = ts
		}
		if i%3 == 2 {
			err = s.heard(ctx, from, 100_000+1000*n+i)
		} else {
			err = wait(ctx, time.Duration(rnd.IntN(700))*time.Millisecond)
		}
		if err != nil {
			s.fail(err)
			return
		}
	}
	// The last one tells that all before it in its thread are answered.
	if _, err := ws.Say(sim.Say{From: "U0SUE", Channel: channel, Thread: root, Text: fmt.Sprintf("<@%s> look A-1001 0 m%d", botUser, 100_000+1000*n+999)}); err != nil {
		s.fail(err)
		return
	}
	if err := s.heard(ctx, from, 100_000+1000*n+999); err != nil {
		s.fail(err)
	}
}

// heard waits for the answer to a message.
func (s *storm) heard(ctx context.Context, from, n int) error {
	want := fmt.Sprintf("m%d", n)
	_, err := s.w.ws.Await(ctx, from, func(l sim.Entry) bool {
		if l.App == "" || l.Message == nil {
			return false
		}
		return slices.Contains(mark.FindAllString(l.Text, -1), want)
	})
	if err != nil {
		return fmt.Errorf("await the answer to %s: %w", want, err)
	}
	return nil
}

// hold says what is wrong, as Slack's log and the payment provider's ledger show it. Only then the bot's own books are
// compared with theirs.
func (s *storm) hold(t *testing.T) {
	t.Helper()
	for _, err := range s.errs {
		t.Error(err)
	}
	list := kills{}.read(s.w.ws.Log())
	hold(t, list)
	for _, m := range list {
		if len(m.answers) == 0 {
			t.Logf("%s has no answer; acknowledged at %s", m.mark, m.acked.Format("05.000"))
		}
	}
	refunds, doubts := 0, 0
	for _, e := range s.errands {
		e.judge(t)
		refunds += len(e.refunds)
		doubts += len(e.doubts)
	}
	t.Logf("%d messages, each answered once and in order; %d errands, %d payments, %d left to a person", len(list), len(s.errands), refunds, doubts)
	if err := s.w.books(t.Context()); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		for _, b := range s.w.bots {
			t.Logf("a bot said:\n%s", b.out)
		}
	}
}

// judge holds an errand of a storm.
func (e *errand) judge(t *testing.T) {
	t.Helper()
	if err := e.see(); err != nil {
		t.Error(err)
		return
	}
	cards := 0
	if e.cents > 5000 {
		cards = 1
	}
	// Where a bot dies between the two cards and the first is decided meanwhile, the second is of no use any more.
	if len(e.replies) != 1 || len(e.cards) != cards || len(e.inFinance) > cards || len(e.others) != 0 {
		t.Errorf("%s: %d replies, %d cards, %d in finance and %d other messages, want 1, %d, %d and 0", e.order, len(e.replies), len(e.cards), len(e.inFinance), len(e.others), cards, cards)
	}
	if e.kind == "refund" && (len(e.refunds) != 1 || len(e.notices) != 1 || len(e.doubts) != 0) {
		t.Errorf("%s: %d refunds, %d notices and %d doubts, want 1, 1 and 0", e.order, len(e.refunds), len(e.notices), len(e.doubts))
	}
	if e.kind == "payout" && (len(e.refunds) > 1 || len(e.refunds) == 0 && len(e.doubts) != 1 || len(e.doubts) > 1) {
		t.Errorf("%s: %d payouts and %d doubts", e.order, len(e.refunds), len(e.doubts))
	}
}

// kill kills the only bot at any moment, again and again.
func (s *storm) kill(t *testing.T, b *effectBot) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(s.seed, 99)) //nolint:gosec // a test that can be played again
	for range s.deaths {
		if err := wait(t.Context(), time.Duration(rnd.IntN(600))*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		b.kill()
		if err := b.start(); err != nil {
			t.Fatal(err)
		}
	}
}

// killed plays a storm with one bot at a time.
func killed(t *testing.T, s *storm, o effectOptions) {
	t.Helper()
	o.plain, o.latency = true, 20*time.Millisecond
	s.w = newEffectWorld(t, o)
	b := s.w.start()
	end := s.blow(t.Context())
	s.kill(t, b)
	s.w.ws.Redeliver() // Slack may have given up a message that it found nobody for
	end()
	if err := s.taken(t.Context()); err != nil {
		t.Error(err)
	}
	if err := b.idle(t.Context()); err != nil {
		t.Error(err)
	}
	b.stop()
	s.hold(t)
}

// taken waits until Slack has got every message off its hands: it tries again where a bot died before it had acknowledged.
func (s *storm) taken(ctx context.Context) error {
	for {
		open := 0
		for _, said := range (kills{}).read(s.w.ws.Log()) {
			if said.acked.IsZero() {
				open++
			}
		}
		if open == 0 {
			return nil
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("wait until every message is taken in: %w (%d are not)", err, open)
		}
	}
}

// Samples of what make soak plays at length.
func TestRel_R02_KilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	killed(t, &storm{seed: 1, clerks: 4, threads: 2, deaths: 10}, effectOptions{})
}

func TestRel_R02_KilledAtAnyMomentOnRedis(t *testing.T) {
	t.Parallel()
	killed(t, &storm{seed: 2, clerks: 4, threads: 2, deaths: 5}, effectOptions{store: redistest.Start(t).URL()})
}
