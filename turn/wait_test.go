package turn_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"switchboard/chat"
	"switchboard/journal"
	"switchboard/tools"
	"switchboard/turn"
)

// payFiles is a pack whose desk can pay: above 50 finance decides, and never who asked.
const payFiles = `
-- bot.yaml --
pack: 1
name: desk
models: {fast: {use: openai/gpt-4o-mini}}
router: {model: fast}
scope: {org: {from: channel, map: {C0FRONT: org_canary_7}}}
people: {admins: [U0ANA, U0BOB], finance: [U0BOB, S0FIN]}
-- assistants/desk.yaml --
about: Pays.
examples: [pay it]
model: fast
rounds: 4
tools: [rows.get, rows.payout, rows.other, rows.set, ask.person]
open_to: [admins]
instructions: Pay.
-- tools/rows.yaml --
server: {base: {env: ROWS_URL}, auth: {bearer: {env: ROWS_TOKEN}}}
defaults: {bind: {org: scope.org}, timeout: 1s}
tools:
  - {name: rows.get, about: Read., effect: none, get: /rows, args: {id: {type: integer}}}
  - {name: rows.set, about: Write., effect: write, post: /rows, args: {id: {type: integer}}}
  - {name: rows.payout, about: Pay., effect: irreversible, post: /pay, args: {id: {type: integer}}, idempotency: {header: Idempotency-Key}, retry: {attempts: 1}}
  - {name: rows.other, about: Pay in another way., effect: irreversible, post: /other, args: {id: {type: integer}}}
-- policy.yaml --
rules:
  - {tools: [rows.payout], when: args.id > 50, verdict: ask, why: Above 50., approve: {by: [finance], within: 4h, in: C0FINANCE, four_eyes: true}}
  - {tools: [rows.payout, rows.other], verdict: allow}
`

func payHouse(t *testing.T) *house {
	t.Helper()
	h := newHouse(t)
	h.pack = payFiles
	return h
}

func bob() chat.Person { return chat.Person{ID: "U0BOB", Name: "Bob", Kind: chat.Member} }

// card waits for a turn to wait, and gives the card that was posted for it.
func (h *house) card(f turn.Finished) *chat.Card {
	h.t.Helper()
	if f.Outcome != turn.Waiting {
		h.t.Fatalf("finished %+v, want a wait\n%s", f, h.log())
	}
	var last *chat.Card
	for _, p := range h.posted() {
		if p.Card != nil {
			last = p.Card
		}
	}
	if last == nil {
		h.t.Fatal("no card was posted")
	}
	return last
}

func (h *house) decide(card string, by chat.Person, say chat.Saying, words string) chat.Ruling {
	h.t.Helper()
	r, err := h.engine.Decide(h.t.Context(), chat.Decision{
		Key: fmt.Sprintf("click:%s:%s:%d", card, by.ID, time.Now().UnixNano()), Card: card, By: by, Say: say, Words: words, Local: strings.HasPrefix(by.ID, "local:"), At: time.Now(),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

func TestM5_AnEffectWaitsForItsPersonAndThenRunsOnce(t *testing.T) {
	t.Parallel()
	h := payHouse(t)
	h.model = script("desk", wants("rows.payout 80", "rows.get 1"), says("Paid."))
	h.up()
	defer h.down()
	f := h.say(message(1, "pay 80"))
	card := h.card(f)
	if len(h.runs()) != 0 {
		t.Fatalf("ran %v before anybody decided", h.runs())
	}
	posts := h.posted()
	if len(posts) != 2 || posts[0].Place != nil || posts[1].Place == nil || posts[1].Place.ID != "C0FINANCE" || posts[0].Key == posts[1].Key {
		t.Errorf("posted %+v", posts)
	}
	if card.Tool != "rows.payout" || len(card.Args) != 2 || card.Args[0].Value != "80" || !strings.HasPrefix(card.Args[1].Value, "‹org›") || card.Why == "" || len(card.Rules) != 1 ||
		!strings.Contains(card.Rules[0], "Above 50.") || card.Asker.ID != "U0ANA" || len(card.Digest) == 0 || card.Until.IsZero() || card.Deciders[0] != "finance" {
		t.Errorf("the card reads %+v", card)
	}
	if n, err := h.store.Waiting(t.Context()); err != nil || n != 0 {
		t.Errorf("%d messages wait while people decide, %v", n, err)
	}
	for who, p := range map[string]chat.Person{
		"the one who asked": {ID: "U0ANA", Kind: chat.Member}, "a stranger": {ID: "U0TOM", Kind: chat.Member},
		"a guest of finance": {ID: "U0GIL", Kind: chat.Guest, Groups: []string{"S0FIN"}}, "somebody from outside": {ID: "U0BOB", Kind: chat.External},
	} {
		if r := h.decide(card.ID, p, chat.Approve, ""); r.Taken || r.Words == "" {
			t.Errorf("%s was told %+v", who, r)
		}
	}
	if r := h.decide(card.ID, bob(), chat.Approve, ""); !r.Taken || r.Card == nil || !strings.Contains(r.Card.Decided, "approved by Bob (U0BOB)") {
		t.Fatalf("Bob was told %+v", r)
	}
	if r := h.decide(card.ID, chat.Person{ID: "U0FAY", Kind: chat.Member, Groups: []string{"S0FIN"}}, chat.Deny, "too late"); r.Taken || !strings.Contains(r.Words, "Bob") {
		t.Errorf("the second one was told %+v", r)
	}
	end := <-h.ended
	if end.Turn != f.Turn || end.Outcome != turn.Answered || end.Reply.Text != "Paid.\n\nDone: rows.payout(id=80)." {
		t.Errorf("finished %+v\n%s", end, h.log())
	}
	if got := fmt.Sprint(h.runs()); got != "[rows.payout 80 rows.get 1]" {
		t.Errorf("ran %s", got)
	}
	rec := h.read(f.Turn)
	if c := rec.Call(0); c.State() != journal.Done || len(c.Attempts) != 1 || c.Attempts[0].Key == "" || c.Decided.By != "U0BOB" {
		t.Errorf("the ledger says %+v", c)
	}
}

func TestM5_ARefusalIsToldAndNotGoneRound(t *testing.T) {
	t.Parallel()
	h := payHouse(t)
	h.model = script("desk", wants("rows.payout 80"), wants("rows.other 80"), says("It was refused."))
	h.up()
	defer h.down()
	card := h.card(h.say(message(1, "pay 80")))
	if r := h.decide(card.ID, bob(), chat.Deny, "not this month"); !r.Taken {
		t.Fatalf("Bob was told %+v", r)
	}
	end := <-h.ended
	if end.Outcome != turn.Answered || len(h.runs()) != 0 || !strings.Contains(end.Reply.Text, "Not done: rows.payout(id=80) (a person refused this: not this month); rows.other(id=80)") {
		t.Errorf("finished %+v after %v", end, h.runs())
	}
	last := h.requests()[len(h.requests())-1]
	if told := fmt.Sprintf("%+v", last.Turns); !strings.Contains(told, "not this month") {
		t.Errorf("the model was told %s", told)
	}
}

func TestM5_TimeThatRunsOutIsARefusal(t *testing.T) {
	t.Parallel()
	h := payHouse(t)
	start := time.Now()
	var ahead time.Duration
	h.now = func() time.Time {
		h.mu.Lock()
		defer h.mu.Unlock()
		return start.Add(ahead)
	}
	h.model = script("desk", wants("rows.payout 80"), says("Nobody decided."))
	h.up()
	defer h.down()
	card := h.card(h.say(message(1, "pay 80")))
	if err := h.engine.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.with(func() { ahead = 4*time.Hour + time.Second })
	if r := h.decide(card.ID, bob(), chat.Approve, ""); r.Taken || !strings.Contains(r.Words, "too late") {
		t.Errorf("Bob was told %+v", r)
	}
	if end := <-h.ended; end.Outcome != turn.Answered || len(h.runs()) != 0 || !strings.Contains(end.Reply.Text, "nobody decided this in time") {
		t.Errorf("finished %+v after %v", end, h.runs())
	}
	if err := h.engine.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestM5_AQuestionIsAnsweredByAPersonInWords(t *testing.T) {
	t.Parallel()
	h := payHouse(t)
	ask := wants("ask.person 1")
	ask.Calls[0].Args = `{"to":"finance","question":"Which account?","why":"it is not clear","expects":"a name"}`
	h.model = script("desk", ask, says("Thanks."))
	h.up()
	defer h.down()
	card := h.card(h.say(message(1, "pay it")))
	if card.Kind != chat.CardAsk || card.Question != "Which account?" {
		t.Errorf("the card reads %+v", card)
	}
	if r := h.decide(card.ID, bob(), chat.Answer, " "); r.Taken {
		t.Errorf("an empty answer was taken: %+v", r)
	}
	if r := h.decide(card.ID, bob(), chat.Answer, "the second one"); !r.Taken {
		t.Errorf("Bob was told %+v", r)
	}
	if end := <-h.ended; end.Outcome != turn.Answered {
		t.Errorf("finished %+v\n%s", end, h.log())
	}
	last := h.requests()[len(h.requests())-1]
	if told := fmt.Sprintf("%+v", last.Turns); !strings.Contains(told, "the second one") {
		t.Errorf("the model was told %s", told)
	}
}

// The thread goes on while a run waits: other messages are answered, and the run knows nothing of them.
func TestM5_TheThreadGoesOnMeanwhile(t *testing.T) {
	t.Parallel()
	h := payHouse(t)
	h.model = script("desk", wants("rows.payout 80"), says("Paid."))
	h.up()
	defer h.down()
	card := h.card(h.say(message(1, "pay 80")))
	h.with(func() { h.model = script("desk", says("It is noon.")) })
	if f := h.say(message(2, "what time is it?")); f.Reply.Text != "It is noon.\n\nNothing was changed." {
		t.Errorf("finished %+v", f)
	}
	h.with(func() { h.model = script("desk", wants("rows.payout 80"), says("Paid.")) })
	h.decide(card.ID, bob(), chat.Approve, "")
	if end := <-h.ended; !strings.HasPrefix(end.Reply.Text, "Paid.") {
		t.Errorf("finished %+v\n%s", end, h.log())
	}
	last := h.requests()[len(h.requests())-1]
	if told := fmt.Sprintf("%+v", last.Turns); strings.Contains(told, "noon") {
		t.Errorf("the run was told of what came later: %s", told)
	}
}

// A kill at any commit of a turn that waits, and of the one that goes on, loses and doubles nothing.
func TestRel_R02_AWaitSurvivesAKillAnywhere(t *testing.T) {
	t.Parallel()
	for after := range int64(14) {
		t.Run(fmt.Sprintf("after %d commits", after), func(t *testing.T) {
			t.Parallel()
			h := payHouse(t)
			h.do = func(string, tools.Input) (tools.Output, error) { return tools.Output{Value: map[string]any{}}, nil }
			h.model = script("desk", wants("rows.payout 80"), says("Paid."))
			h.up()
			h.allowed.Store(after)
			id := h.accept(message(1, "pay 80"))
			again := func() {
				h.down()
				h.allowed.Store(-1)
				h.up()
			}
			f := <-h.ended
			if h.allowed.Load() == 0 && h.read2(id) == nil || f.Outcome != turn.Waiting {
				again()
				f = <-h.ended
			}
			card := h.card(f)
			r, err := h.engine.Decide(t.Context(), chat.Decision{Key: "click:1", Card: card.ID, By: bob(), Say: chat.Approve, At: time.Now()})
			if err != nil { // the store takes nothing any more: the click is made again
				again()
				if r, err = h.engine.Decide(t.Context(), chat.Decision{Key: "click:1", Card: card.ID, By: bob(), Say: chat.Approve, At: time.Now()}); err != nil {
					t.Fatal(err)
				}
			}
			if !r.Taken {
				t.Fatalf("Bob was told %+v", r)
			}
			end := <-h.ended
			if end.Outcome != turn.Answered {
				again()
				end = <-h.ended
			}
			h.down()
			if end.Outcome != turn.Answered || !strings.HasPrefix(end.Reply.Text, "Paid.") {
				t.Errorf("finished %+v\n%s", end, h.log())
			}
			keys := map[string]bool{}
			for _, run := range h.runs() {
				keys[run] = true
			}
			if len(keys) != 1 {
				t.Errorf("ran %v", h.runs())
			}
		})
	}
}

// read2 reads a turn where there is one on record.
func (h *house) read2(id string) *journal.Turn {
	h.t.Helper()
	t, ok, err := journal.Read(h.t.Context(), h.store, id)
	if err != nil {
		h.t.Fatal(err)
	}
	if !ok {
		return nil
	}
	return &t
}
