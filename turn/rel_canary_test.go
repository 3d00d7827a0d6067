package turn_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"switchboard/chat"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/tools"
	"switchboard/turn"
)

// A canary for every secret and every bound value through a run that asks, waits, is decided and is in doubt.
func TestM2_NoCanaryIsSeenOfARunThatWaits(t *testing.T) {
	t.Parallel()
	h := payHouse(t)
	h.pack = strings.Replace(h.pack, "idempotency: {header", "facts: {row: {call: rows.get, args: {id: \"${ args.id }\"}}}, idempotency: {header", 1)
	h.pack = strings.Replace(h.pack, "why: Above 50.,", "why: \"Above 50, see ${ row }.\",", 1)
	h.do = func(tool string, _ tools.Input) (tools.Output, error) {
		if tool == "rows.payout" {
			return tools.Output{}, &tools.Fault{Kind: tools.Timeout, Detail: "no answer at " + orgCanary, Maybe: true}
		}
		return tools.Output{Value: orgCanary + " and " + secretCanary}, nil
	}
	ask := wants("rows.payout 80", "ask.person 1")
	both := orgCanary + " " + secretCanary
	ask.Calls[0].Args = fmt.Sprintf(`{"id":80,"why":"for %s","expects":"%s"}`, both, both)
	ask.Calls[1].Args = fmt.Sprintf(`{"to":"finance","question":"Is it %s?","why":"%s","expects":"%s"}`, both, both, both)
	h.model = script("desk", ask, says("It was "+both+"."))
	h.up()
	h.card(h.say(message(1, "pay 80 of "+both)))
	var rulings []chat.Ruling
	cards := h.cards()
	rulings = append(rulings, h.decide(cards[0].ID, chat.Person{ID: "U0BOB", Name: "Bob", Kind: chat.Member}, chat.Approve, "for "+both))
	<-h.ended
	rulings = append(rulings, h.decide(cards[1].ID, bob(), chat.Answer, "the answer is "+both))
	end := <-h.ended
	doubt := h.cards()[len(h.cards())-1]
	rulings = append(rulings, h.decide(doubt.ID, chat.Person{ID: "U0ANA", Kind: chat.Member}, chat.Happened, "seen at "+both))
	<-h.ended
	if doubt.Kind != chat.CardUnknown || len(h.openCards()) != 0 {
		t.Fatalf("finished %+v with %+v", end, h.cards())
	}
	rec := h.read(end.Turn)
	rec.Scope = nil // where the store may hold what is bound
	var trace strings.Builder
	if err := journal.Draw(&trace, rec); err != nil {
		t.Fatal(err)
	}
	contents, err := h.store.ContentsUnder(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	places := map[string]string{
		"prompts": fmt.Sprintf("%+v", h.requests()), "logs": h.log(), "trace": trace.String(), "posts": fmt.Sprintf("%+v", h.posted()), "progress": fmt.Sprintf("%+v", h.progress()),
		"record": fmt.Sprintf("%+v", rec), "rulings": fmt.Sprintf("%+v", rulings),
	}
	for i, r := range rulings {
		places[fmt.Sprint("card of ruling ", i)] = fmt.Sprintf("%+v", r.Card)
	}
	for _, c := range cards {
		places["card "+c.ID] = fmt.Sprintf("%+v", *c)
	}
	seen := 0
	for _, c := range contents {
		if strings.HasPrefix(c.Key, "pack/") || strings.HasSuffix(c.Key, "/scope") || strings.HasSuffix(c.Key, "/request") {
			seen++
			continue
		}
		places["content "+c.Key] = string(c.Value)
	}
	if seen < 2 {
		t.Errorf("%d contents may hold bound values, of %d", seen, len(contents))
	}
	h.down()
	for _, name := range []string{h.path, h.path + "-wal"} {
		if data, err := os.ReadFile(name); err == nil {
			places["store "+filepath.Base(name)] = strings.ReplaceAll(string(data), orgCanary, "")
		}
	}
	for place, text := range places {
		for _, canary := range []string{orgCanary, secretCanary} {
			if strings.Contains(text, canary) {
				t.Errorf("%s hold %s", place, canary)
			}
		}
	}
}

// A turn that is given up takes its cards back, and what a person finds out about its effects is still told.
func TestRel_R18_ATurnThatIsGivenUpLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	h := payHouse(t)
	h.do = func(string, tools.Input) (tools.Output, error) {
		return tools.Output{}, &tools.Fault{Kind: tools.Timeout, Detail: "no answer", Maybe: true}
	}
	h.model = func(r llm.Request) (llm.Reply, error) {
		switch {
		case isRouter(r):
			return routeTo("desk", 0.9), nil
		case rounds(r) == 0:
			return wants("rows.other 1", "rows.payout 80"), nil
		}
		panic("a reply that nobody can read")
	}
	h.up()
	defer h.down()
	h.card(h.say(message(1, "pay")))
	h.with(func() { // the next try cannot even look
		h.look = func(chat.Message, bool) (turn.Seen, error) { panic("no surface") }
	})
	approve := h.cards()[0]
	if r := h.decide(approve.ID, bob(), chat.Deny, ""); !r.Taken {
		t.Fatalf("Bob was told %+v", r)
	}
	end := <-h.ended
	if end.Outcome != turn.Failed || !strings.Contains(end.Reply.Text, "Not known whether it took effect") || !strings.Contains(end.Reply.Text, "rows.other(id=1)") {
		t.Fatalf("finished %+v", end)
	}
	h.idle()
	doubt := h.cards()[len(h.cards())-1]
	if open := h.openCards(); len(open) != 1 || open[0].Kind != chat.CardUnknown || doubt.ID != open[0].ID {
		t.Fatalf("open: %+v, posted %+v", open, doubt)
	}
	h.with(func() { h.look = nil })
	if r := h.decide(doubt.ID, chat.Person{ID: "U0ANA", Kind: chat.Member}, chat.NotDone, ""); !r.Taken {
		t.Fatalf("Ana was told %+v", r)
	}
	if f := <-h.ended; !strings.Contains(f.Reply.Text, "it did not take effect, says U0ANA") {
		t.Errorf("told %+v", f)
	}
}
