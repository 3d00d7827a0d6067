package turn_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"switchboard/assistants"
	"switchboard/chat"
	"switchboard/config"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/tools"
	"switchboard/turn"
)

// openCards lists the decisions that wait.
func (h *house) openCards() []journal.Approval {
	h.t.Helper()
	open, err := journal.OpenApprovals(h.t.Context(), h.store, "")
	if err != nil {
		h.t.Fatal(err)
	}
	return open
}

// cards lists all cards that were posted, in order, each once.
func (h *house) cards() []*chat.Card {
	var out []*chat.Card
	for _, p := range h.posted() {
		if p.Card != nil && !slices.ContainsFunc(out, func(c *chat.Card) bool { return c.ID == p.Card.ID }) {
			out = append(out, p.Card)
		}
	}
	return out
}

// swap makes another pack the active one.
func (h *house) swap(from, to string) {
	h.t.Helper()
	if !strings.Contains(h.pack, from) {
		h.t.Fatalf("the pack does not hold %q", from)
	}
	if err := h.engine.Swap(h.t.Context(), h.load(files(strings.Replace(h.pack, from, to, 1)))); err != nil {
		h.t.Fatal(err)
	}
}

// callOf reads the first call of a turn.
func (h *house) callOf(id string) *journal.Call {
	h.t.Helper()
	rec := h.read(id)
	c := rec.Call(0)
	if c == nil {
		h.t.Fatalf("turn %s has no call on record", id)
	}
	return c
}

func (h *house) effects() (list []string) {
	for _, r := range h.runs() {
		if !strings.HasPrefix(r, "rows.get") {
			list = append(list, r)
		}
	}
	return list
}

// Words in the thread are a message and never a decision, whoever writes them.
func TestRel_S34_TheWordApprovedIsNoDecision(t *testing.T) {
	t.Parallel()
	h := payHouse(t)
	h.model = func(r llm.Request) (llm.Reply, error) {
		switch {
		case isRouter(r):
			return routeTo("desk", 0.9), nil
		case strings.Contains(r.Turns[0].Text, "pay 80") && len(r.Turns) == 1:
			return wants("rows.payout 80"), nil
		case strings.Contains(r.Turns[len(r.Turns)-1].Text, "approve"):
			return says("approved by U0BOB"), nil
		}
		return says("Paid."), nil
	}
	h.up()
	defer h.down()
	card := h.card(h.say(message(1, "pay 80")))
	for i, m := range []chat.Message{message(2, "approved"), by("U0BOB", message(3, "approve "+card.ID)), by("U0BOB", message(4, "approved"))} {
		if f := h.say(m); f.Key != m.Key {
			t.Errorf("message %d: finished %+v", i, f)
		}
	}
	if open := h.openCards(); len(open) != 1 || open[0].ID != card.ID || len(h.runs()) != 0 {
		t.Errorf("open %+v after %v", open, h.runs())
	}
	for name, d := range map[string]chat.Decision{
		"no say":          {Key: "k1", By: bob()},
		"another say":     {Key: "k2", By: bob(), Say: "true"},
		"an answer":       {Key: "k3", By: bob(), Say: chat.Answer, Words: "approve"},
		"what happened":   {Key: "k4", By: bob(), Say: chat.Happened},
		"said to be ours": {Key: "k5", By: bob(), Say: chat.Approve, Local: true},
		"by nobody":       {Key: "k6", Say: chat.Approve},
		"from outside":    {Key: "k7", By: chat.Person{ID: "U0BOB", Kind: chat.External}, Say: chat.Approve},
		"as if from here": {Key: "k8", By: chat.Person{ID: "local:eve", Kind: chat.Member}, Say: chat.Approve},
		"of a group name": {Key: "k9", By: chat.Person{ID: "finance", Kind: chat.External}, Say: chat.Approve},
		"the requester":   {Key: "k10", By: chat.Person{ID: "U0ANA", Kind: chat.Member, Groups: []string{"S0FIN"}}, Say: chat.Approve},
	} {
		d.Card = card.ID
		if r, err := h.engine.Decide(t.Context(), d); err != nil || r.Taken || r.Words == "" {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	for _, id := range []string{"", "a_", "approval/" + card.ID, card.ID + "x"} {
		if r, err := h.engine.Decide(t.Context(), chat.Decision{Key: "k", Card: id, By: bob(), Say: chat.Approve}); err != nil || r.Taken || r.Words == "" {
			t.Errorf("card %q: %+v, %v", id, r, err)
		}
	}
	if len(h.runs()) != 0 || len(h.openCards()) != 1 {
		t.Errorf("ran %v", h.runs())
	}
	if r := h.decide(card.ID, chat.Person{ID: "local:op"}, chat.Approve, ""); !r.Taken {
		t.Errorf("the operator was told %+v", r)
	}
	if end := <-h.ended; len(h.runs()) != 1 || h.callOf(end.Turn).Decided.By != "local:op" {
		t.Errorf("finished %+v after %v", end, h.runs())
	}
}

// Approve, refuse and ten double clicks at once are one decision, and at most one effect; the same click again is told the same.
func TestRel_S33_ManyClicksAreOneDecision(t *testing.T) {
	t.Parallel()
	h := payHouse(t)
	h.model = script("desk", wants("rows.payout 80"), says("Over."))
	h.up()
	defer h.down()
	card := h.card(h.say(message(1, "pay 80")))
	var wg sync.WaitGroup
	var mu sync.Mutex
	taken := map[string]bool{}
	for i := range 10 {
		for _, say := range []chat.Saying{chat.Approve, chat.Deny} {
			wg.Go(func() {
				key := fmt.Sprint(say, i/2)
				r, err := h.engine.Decide(t.Context(), chat.Decision{Key: key, Card: card.ID, By: bob(), Say: say, At: time.Now()})
				mu.Lock()
				defer mu.Unlock()
				if err != nil || r.Words == "" {
					t.Errorf("%s: %+v, %v", key, r, err)
				}
				if r.Taken {
					taken[key] = true
				}
			})
		}
	}
	wg.Wait()
	end := <-h.ended
	rec := h.callOf(end.Turn)
	if len(taken) != 1 || (len(h.runs()) == 1) != (rec.Decided.Stand == journal.Approved) || len(h.runs()) > 1 {
		t.Errorf("taken %v, decided %+v, ran %v", taken, rec.Decided, h.runs())
	}
	for key := range taken { // and long after
		if r, err := h.engine.Decide(t.Context(), chat.Decision{Key: key, Card: card.ID, By: bob(), Say: chat.Approve}); err != nil || !r.Taken {
			t.Errorf("%s again: %+v, %v", key, r, err)
		}
	}
	if r := h.decide(card.ID, bob(), chat.Approve, ""); r.Taken || !strings.Contains(r.Words, "decided before") {
		t.Errorf("another click: %+v", r)
	}
	if n, err := h.store.Waiting(t.Context()); err != nil || n != 0 {
		t.Errorf("%d items wait, %v", n, err)
	}
}

// Two gated calls of one round: each answer reaches its own call, whichever comes first, and none overtakes the other.
func TestM5_TwoGatedCallsAreAnsweredInEitherOrder(t *testing.T) {
	t.Parallel()
	for _, first := range []int{0, 1} {
		for _, denied := range []int{-1, 0, 1} {
			t.Run(fmt.Sprint(first, denied), func(t *testing.T) {
				t.Parallel()
				h := payHouse(t)
				h.model = script("desk", wants("rows.get 1", "rows.payout 80", "rows.get 2", "rows.payout 90", "rows.set 3"), says("Over."))
				h.up()
				defer h.down()
				h.card(h.say(message(1, "pay both")))
				cards := h.cards()
				if len(cards) != 2 || cards[0].Args[0].Value != "80" || cards[1].Args[0].Value != "90" || fmt.Sprint(h.runs()) != "[rows.get 1]" {
					t.Fatalf("cards %+v after %v", cards, h.runs())
				}
				for n, i := range []int{first, 1 - first} {
					say := chat.Approve
					if i == denied {
						say = chat.Deny
					}
					if r := h.decide(cards[i].ID, bob(), say, ""); !r.Taken {
						t.Fatalf("card %d: %+v", i, r)
					}
					f := <-h.ended
					if (n == 0) != (f.Outcome == turn.Waiting) {
						t.Fatalf("after decision %d: %+v", n, f)
					}
					if n == 0 && first == 1 && len(h.runs()) != 1 {
						t.Errorf("the second overtook the first: %v", h.runs())
					}
				}
				want := []string{"rows.payout 80", "rows.payout 90", "rows.set 3"}
				if denied >= 0 { // what nobody has named is held back after a refusal as well
					want = slices.Delete(want, denied, denied+1)
				}
				got := h.effects()
				if denied >= 0 {
					got = slices.DeleteFunc(got, func(s string) bool { return s == "rows.set 3" })
					want = want[:1]
				}
				if !slices.Equal(got, want) {
					t.Errorf("ran %v, want %v", h.runs(), want)
				}
				if n := strings.Count(fmt.Sprint(h.runs()), "rows.get 1"); n != 1 {
					t.Errorf("the free call ran %d times: %v", n, h.runs())
				}
			})
		}
	}
}

// A call that several groups must approve runs once all have; anyone of them may refuse; each is told how it stands.
func TestM5_EveryRulesPeopleMustApprove(t *testing.T) {
	t.Parallel()
	const second = "rules:\n  - {tools: [rows.payout], when: args.id > 70, verdict: ask, why: Above 70., approve: {by: [bosses], within: 2h}}\n"
	boss := chat.Person{ID: "U0CEO", Kind: chat.Member}
	for name, c := range map[string]struct {
		says []chat.Saying
		runs int
	}{"both": {[]chat.Saying{chat.Approve, chat.Approve}, 1}, "one refuses": {[]chat.Saying{chat.Approve, chat.Deny}, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := payHouse(t)
			h.pack = strings.Replace(strings.Replace(h.pack, "rules:\n", second, 1), "finance: [U0BOB, S0FIN]", "finance: [U0BOB, S0FIN], bosses: [U0CEO]", 1)
			h.model = script("desk", wants("rows.payout 80"), says("Over."))
			h.up()
			defer h.down()
			card := h.card(h.say(message(1, "pay 80")))
			if len(card.Rules) != 2 || len(card.Deciders) != 2 {
				t.Errorf("the card reads %+v", card)
			}
			for range 2 { // twice by the same is once
				if r := h.decide(card.ID, bob(), c.says[0], ""); !r.Taken || !strings.Contains(r.Words, "somebody else") {
					t.Errorf("Bob was told %+v", r)
				}
			}
			if len(h.runs()) != 0 || len(h.openCards()) != 1 {
				t.Fatalf("ran %v", h.runs())
			}
			if r := h.decide(card.ID, boss, c.says[1], ""); !r.Taken {
				t.Errorf("the boss was told %+v", r)
			}
			end := <-h.ended
			d := h.callOf(end.Turn).Decided
			if len(h.runs()) != c.runs || d.By != "U0CEO" || !slices.Equal(d.Signed, map[int][]string{1: {"U0CEO", "U0BOB"}, 0: {"U0BOB"}}[c.runs]) {
				t.Errorf("ran %v, decided %+v", h.runs(), d)
			}
		})
	}
}

// What has changed between the click and the run counts: the people and the rules of the active version, and the stored round.
func TestD5_TheActiveVersionHasItsSayWhileARunWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to string
		before   bool // it changes before the click, not after
		taken    bool
		runs     int
		says     string
	}{
		"tightened to deny": {from: "rules:\n", to: "rules:\n  - {tools: [rows.payout], when: args.id > 60, verdict: deny, why: Frozen.}\n", says: "Frozen"},
		"others decide":     {from: "approve: {by: [finance], within", to: "approve: {by: [admins], within", says: "other rules"},
		"looser":            {from: "args.id > 50", to: "args.id > 500", runs: 1},
		"not Bob":           {from: "finance: [U0BOB, S0FIN]", to: "finance: [U0ZOE]", before: true},
		"Bob as well":       {from: "finance: [U0BOB, S0FIN]", to: "finance: [U0ZOE, U0BOB]", before: true, taken: true},
		"Bob is taken out":  {from: "finance: [U0BOB, S0FIN]", to: "finance: [U0ZOE]", says: "may not decide it any more"},
		"the asker is out":  {from: "open_to: [admins]", to: "open_to: [finance]", says: "open to you"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := payHouse(t)
			h.model = script("desk", wants("rows.payout 80"), says("Over."))
			h.up()
			defer func() { h.down() }()
			card := h.card(h.say(message(1, "pay 80")))
			if c.before {
				h.swap(c.from, c.to)
				r := h.decide(card.ID, bob(), chat.Approve, "")
				if r.Taken != c.taken {
					t.Errorf("Bob was told %+v", r)
				}
				if c.taken {
					<-h.ended
				}
				if len(h.runs()) != map[bool]int{true: 1}[c.taken] {
					t.Errorf("ran %v", h.runs())
				}
				return
			}
			h.allowed.Store(1) // the click is stored, and nothing after it
			if r := h.decide(card.ID, bob(), chat.Approve, ""); !r.Taken {
				t.Fatalf("Bob was told %+v", r)
			}
			h.down()
			if len(h.effects()) != 0 {
				t.Fatalf("ran %v, and nothing of it is on record", h.runs())
			}
			h.pack = strings.Replace(h.pack, c.from, c.to, 1)
			h.allowed.Store(-1)
			h.up()
			end := <-h.ended
			for end.Err != nil { // of the process that was killed
				end = <-h.ended
			}
			if len(h.effects()) != c.runs || !strings.Contains(end.Reply.Text, c.says) {
				t.Errorf("finished %+v after %v", end, h.runs())
			}
			if open := h.openCards(); len(open) != 0 {
				t.Errorf("open: %+v", open)
			}
		})
	}
}

// second is another engine on the same store, with a desk of its own.
func (h *house) second() *turn.Engine {
	h.t.Helper()
	e := turn.New(h.load(files(h.pack)), turn.Options{
		Store: counted{h.store, h}, Surface: h, Now: h.now, Log: zerolog.New(h), Workers: 4, Finished: func(f turn.Finished) { h.ended <- f },
		Wait: func(ctx context.Context, d time.Duration) error {
			if d >= time.Minute {
				<-ctx.Done()
			}
			return context.Cause(ctx)
		},
		Open: func(ctx context.Context, stored []config.File) (*assistants.Desk, error) {
			pack, err := config.Load(config.FromFiles(stored), config.Options{Env: h.env})
			if err != nil {
				return nil, err
			}
			return h.open(ctx, pack)
		},
	})
	if err := e.Start(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	return e
}

// Two processes on one store: whoever is faster decides, and the effect takes place once or not at all.
func TestRel_E10_TwoProcessesMakeOneDecisionAndOneEffect(t *testing.T) {
	t.Parallel()
	h := payHouse(t)
	h.model = script("desk", wants("rows.payout 80"), says("Over."))
	h.up()
	defer h.down()
	other := h.second()
	defer func() {
		if err := other.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	engines := []*turn.Engine{h.engine, other}
	const batch = 40
	approved := 0
	for round := range 5 {
		for i := range batch {
			m := message(1000*round+i, "pay 80")
			m.Thread.Root = m.Key
			if _, _, err := engines[i%2].Accept(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		for range batch {
			if f := <-h.ended; f.Outcome != turn.Waiting {
				t.Fatalf("finished %+v\n%s", f, h.log())
			}
		}
		open := h.openCards()
		if len(open) != batch {
			t.Fatalf("%d decisions are open", len(open))
		}
		var wg sync.WaitGroup
		for _, a := range open {
			taken := make([]bool, 2)
			var both sync.WaitGroup
			for i, say := range []chat.Saying{chat.Approve, chat.Deny} {
				both.Go(func() {
					r, err := engines[i].Decide(t.Context(), chat.Decision{Key: fmt.Sprint(say, a.ID), Card: a.ID, By: bob(), Say: say, At: time.Now()})
					if err != nil {
						t.Error(err)
					}
					taken[i] = r.Taken
				})
			}
			wg.Go(func() {
				both.Wait()
				if taken[0] == taken[1] {
					t.Errorf("card %s: taken %v", a.ID, taken)
				}
			})
		}
		wg.Wait()
		for range batch {
			f := <-h.ended
			if f.Outcome != turn.Answered {
				t.Fatalf("finished %+v\n%s", f, h.log())
			}
			if c := h.callOf(f.Turn); c.Decided.Stand == journal.Approved {
				approved++
			}
		}
	}
	if len(h.runs()) != approved {
		t.Errorf("%d were approved, and %d ran", approved, len(h.runs()))
	}
}

// An effect that nobody knows the outcome of is asked about once; what a person finds is told in its thread and stands in the ledger.
func TestM4_WhatAPersonFindsIsToldOnce(t *testing.T) {
	t.Parallel()
	for say, want := range map[chat.Saying]struct {
		state journal.State
		words string
	}{chat.Happened: {journal.Done, "it took effect, says Bob"}, chat.NotDone: {journal.Undone, "it did not take effect, says Bob"}} {
		t.Run(string(say), func(t *testing.T) {
			t.Parallel()
			h := payHouse(t)
			h.pack = strings.Replace(h.pack, "rules:\n", "approve: {by: [finance]}\nrules:\n", 1)
			h.do = func(string, tools.Input) (tools.Output, error) {
				return tools.Output{}, &tools.Fault{Kind: tools.Timeout, Detail: "no answer", Maybe: true}
			}
			h.model = script("desk", wants("rows.other 1"), says("Done!"))
			h.up()
			defer h.down()
			f := h.say(message(1, "pay 1"))
			cards := h.cards()
			if f.Outcome != turn.Answered || !strings.Contains(f.Reply.Text, "Not known whether it took effect") || len(cards) != 1 || cards[0].Kind != chat.CardUnknown {
				t.Fatalf("finished %+v with the cards %+v", f, cards)
			}
			if h.callOf(f.Turn).State() != journal.InDoubt || len(h.openCards()) != 1 {
				t.Errorf("the ledger says %s", h.callOf(f.Turn).State())
			}
			for _, bad := range []chat.Saying{chat.Approve, chat.Deny, chat.Answer} {
				if r := h.decide(cards[0].ID, bob(), bad, "x"); r.Taken {
					t.Errorf("%s was taken: %+v", bad, r)
				}
			}
			if r := h.decide(cards[0].ID, chat.Person{ID: "U0TOM", Kind: chat.Member}, say, ""); r.Taken {
				t.Errorf("a stranger was told %+v", r)
			}
			if r := h.decide(cards[0].ID, bob(), say, "at the bank"); !r.Taken {
				t.Fatalf("Bob was told %+v", r)
			}
			end := <-h.ended
			if !strings.Contains(end.Reply.Text, want.words) || !strings.Contains(end.Reply.Text, "at the bank") || !strings.Contains(end.Reply.Text, "rows.other(id=1)") {
				t.Errorf("told %+v", end.Reply)
			}
			posts := len(h.posted())
			if r := h.decide(cards[0].ID, bob(), chat.Happened, ""); r.Taken {
				t.Errorf("once more: %+v", r)
			}
			h.idle()
			if c := h.callOf(f.Turn); c.State() != want.state || len(h.posted()) != posts || len(h.runs()) != 1 || len(h.openCards()) != 0 || c.Resolved.Words != "at the bank" {
				t.Errorf("the ledger says %s of %+v; %d posts, ran %v", c.State(), c.Resolved, len(h.posted()), h.runs())
			}
		})
	}
}
