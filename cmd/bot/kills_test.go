package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"switchboard/slack/sim"
)

// kills is a story of messages that keep arriving while the bot is killed and started again, its sockets are cut and its
// envelopes are sent twice.
type kills struct {
	seed                  uint64
	threads, each, deaths int
}

// said is a message of the story, with what the workspace's log tells of it.
type said struct {
	mark          string
	thread, ts    string
	n             int       // its number in its thread
	sent, acked   time.Time // the first try to deliver it, and the first acknowledgement
	answers       []string  // ts of the bot's messages that answer it
	texts         []string  // what they say
	answered      int       // number of the log entry from which on it was answered
	answersThread string
}

// play tells the story and gives the log's view of it, which is all that the checker knows.
func (k kills) play(t *testing.T) []*said {
	t.Helper()
	ctx := t.Context()
	r, err := newRig(ctx, rigOptions{
		channels: 100, people: 20, latency: 30 * time.Millisecond, env: []string{childVar + "=1"},
		retry: []time.Duration{0, 200 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	if err := r.start(ctx); err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(k.seed, 1)) //nolint:gosec // a test that can be played again
	total := k.threads * k.each
	when := map[int]bool{}
	for len(when) < k.deaths {
		when[rnd.IntN(total-1)+1] = true
	}
	roots := make([]string, k.threads)
	var dying sync.WaitGroup
	for n := range total {
		if when[n] {
			dying.Wait()
			after := rnd.IntN(60) + 1
			dying.Go(func() { k.die(t, r, after) })
		}
		switch rnd.IntN(25) {
		case 0:
			r.ws.Cut("")
		case 1:
			r.ws.SetRepeat(sim.Repeat{Times: rnd.IntN(3), NewEvent: rnd.IntN(2) == 0, SameEnvelope: rnd.IntN(2) == 0})
		}
		th := n % k.threads
		if n >= k.threads {
			th = rnd.IntN(k.threads)
		}
		who := personOf(th % r.o.people)
		if rnd.IntN(4) == 0 {
			who = personOf(rnd.IntN(r.o.people))
		}
		ts, err := r.ws.Say(sim.Say{From: who, Channel: channelOf(th % r.o.channels), Thread: roots[th], Text: fmt.Sprintf("<@%s> m%d", botUser, n)})
		if err != nil {
			t.Fatal(err)
		}
		if roots[th] == "" {
			roots[th] = ts
		}
		if err := wait(ctx, time.Duration(rnd.IntN(20))*time.Millisecond); err != nil { // people take their time
			t.Fatal(err)
		}
	}
	dying.Wait()
	lost, err := r.answered(ctx, 0, total)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if lost > 0 {
		log := r.ws.Log()
		for _, e := range log[max(0, len(log)-40):] {
			t.Logf("%d %s %s %s %s %s", e.N, e.At.Format("05.000"), e.What, e.Method, e.Error, e.Text)
		}
		t.Errorf("%d of %d messages have no answer; the bot said:\n%s", lost, total, r.output)
	}
	return k.read(r.ws.Log())
}

// die kills the bot once the log has grown by so many entries, and starts it again.
func (k kills) die(t *testing.T, r *rig, after int) {
	t.Helper()
	from, left := r.ws.Mark(), after
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	e, err := r.ws.Await(ctx, from, func(sim.Entry) bool { left--; return left <= 0 })
	cancel()
	if err != nil {
		e.What = "nothing more"
	}
	if err := r.kill(); err != nil {
		t.Error(err)
		return
	}
	t.Logf("killed after entry %d (%s %s)", e.N, e.What, e.Method)
	if err := r.start(t.Context()); err != nil {
		t.Error(err)
	}
}

// read takes the story out of the log alone.
func (k kills) read(log []sim.Entry) []*said {
	byMark, byTS := map[string]*said{}, map[string]*said{}
	var list []*said
	texts := map[string]sim.Entry{} // the newest of each of the bot's messages
	count, carried := map[string]int{}, map[string]*said{}
	for _, e := range log {
		switch {
		case e.What == sim.Said:
			root := e.Thread
			if root == "" {
				root = e.TS
			}
			s := &said{mark: mark.FindString(e.Text), thread: root, ts: e.TS, n: count[root]}
			count[root]++
			byMark[s.mark], byTS[e.TS] = s, s
			list = append(list, s)
		case e.What == sim.Sent:
			var body struct{ Event struct{ TS string } }
			if json.Unmarshal(e.Body, &body) == nil && byTS[body.Event.TS] != nil {
				s := byTS[body.Event.TS]
				carried[e.Delivery] = s
				if s.sent.IsZero() {
					s.sent = e.At
				}
			}
		case e.What == sim.Acked:
			if s := carried[e.Delivery]; s != nil && s.acked.IsZero() {
				s.acked = e.At
			}
		case e.What == sim.Removed:
			delete(texts, e.TS)
		case e.App != "" && e.Message != nil && e.Person == botUser:
			texts[e.TS] = e
		}
	}
	for ts, e := range texts {
		if !strings.Contains(e.Text, whole) {
			continue
		}
		for _, m := range mark.FindAllString(e.Text, -1) {
			if s := byMark[m]; s != nil {
				s.answers = append(s.answers, ts)
				s.texts = append(s.texts, e.Text)
				s.answersThread = e.Thread
				s.answered = e.N
			}
		}
	}
	return list
}

// hold says what is wrong with the story: every message is answered once, in its thread, in order.
func hold(t *testing.T, list []*said) {
	t.Helper()
	threads := map[string][]*said{}
	for _, s := range list {
		if len(s.answers) != 1 {
			t.Errorf("%s (%s, acknowledged at %s) has %d answers, %v:\n%s", s.mark, s.ts, s.acked, len(s.answers), s.answers, strings.Join(s.texts, "\n---\n"))
			continue
		}
		if s.answersThread != s.thread {
			t.Errorf("%s was answered in thread %q, not in %s", s.mark, s.answersThread, s.thread)
		}
		threads[s.thread] = append(threads[s.thread], s)
	}
	for _, in := range threads {
		slices.SortFunc(in, func(a, b *said) int { return a.n - b.n })
		for i, a := range in {
			for _, b := range in[i+1:] {
				// Order is that of arrival: what was acknowledged before the other was first sent came first.
				if a.acked.Before(b.sent) && !a.acked.IsZero() && a.answers[0] > b.answers[0] {
					t.Errorf("%s came before %s in one thread and was answered after it", a.mark, b.mark)
				}
			}
		}
	}
}

// A sample of what make soak plays at length.
func TestD3_KilledWhileMessagesArrive(t *testing.T) {
	t.Parallel()
	list := kills{seed: 7, threads: 5, each: 10, deaths: 2}.play(t)
	hold(t, list)
}
