package main

import (
	"context"
	"strings"
	"sync"
	"testing"

	"switchboard/slack/sim"
	"switchboard/store/redistest"
)

// twoClicks lets two approvers click at the same time, in two places, on whichever replica Slack sends it to.
func twoClicks(t *testing.T, rounds int) {
	t.Helper()
	w := newEffectWorld(t, effectOptions{store: redistest.Start(t).URL(), plain: true})
	w.start()
	w.start()
	late := 0
	for range rounds {
		ctx, cancel := context.WithTimeout(t.Context(), errandTime)
		e, err := w.newErrand(ctx, "refund")
		if err != nil {
			t.Fatal(err)
		}
		late += e.race(ctx, t)
		cancel()
		if t.Failed() {
			w.dump(e.from)
			break
		}
	}
	t.Logf("%d rounds; in %d of them the second click was told that the decision had been made", rounds, late)
	if late != rounds {
		t.Errorf("in %d of %d rounds one click was told that it came second, want all", late, rounds)
	}
	for _, b := range w.bots {
		b.stop()
	}
	if err := w.books(t.Context()); err != nil {
		t.Error(err)
	}
}

// race plays an errand that two people approve at once. It gives how many of them were told that the other was faster.
func (e *errand) race(ctx context.Context, t *testing.T) (late int) {
	t.Helper()
	if err := e.say(); err != nil {
		t.Fatal(err)
	}
	finance, err := e.card(ctx, "C0FINANCE")
	if err != nil {
		t.Fatal(err)
	}
	thread, err := e.card(ctx, e.channel)
	if err != nil {
		t.Fatal(err)
	}
	from := e.w.ws.Mark()
	var clicking sync.WaitGroup
	for who, card := range map[string]*sim.Message{"U0BOB": finance, "U0FAY": thread} {
		clicking.Go(func() {
			if err := e.approve(ctx, who, card); err != nil {
				t.Error(err)
			}
		})
	}
	clicking.Wait()
	if err := e.answered(ctx); err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	_, err = e.w.ws.Await(ctx, from, func(l sim.Entry) bool {
		if l.What == sim.Whispered {
			told[l.Person] = l.Text
		}
		return len(told) == 2
	})
	if err != nil {
		t.Fatalf("only %v were told something: %v", told, err)
	}
	names := map[string]string{"U0BOB": "approved by Bob (U0BOB)", "U0FAY": "approved by Fay (U0FAY)"}
	for who, text := range told {
		other := names[map[string]string{"U0BOB": "U0FAY", "U0FAY": "U0BOB"}[who]]
		switch {
		case strings.HasPrefix(text, "This was decided before: "+other):
			late++
		case !strings.HasPrefix(text, "Recorded: "+names[who]):
			t.Errorf("%s was told %q", who, text)
		}
	}
	e.kind = "refund"
	if err := e.see(); err != nil { //nolint:contextcheck // it reads what is there
		t.Fatal(err)
	}
	if len(e.refunds) != 1 || len(e.notices) != 1 || len(e.replies) != 1 {
		t.Errorf("%s: %d refunds, %d notices, %d replies, want one each", e.order, len(e.refunds), len(e.notices), len(e.replies))
	}
	return late
}

func TestM5_TwoClicksOnTwoReplicasAreOneDecision(t *testing.T) {
	t.Parallel()
	twoClicks(t, 10)
}
