package turn_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"switchboard/chat"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/store/sqlite"
	"switchboard/tools"
	"switchboard/turn"
)

// What a model says was done is its own business; what was done is said by the runtime, from the record.
func TestM8_TheLastLineComesFromTheRecord(t *testing.T) {
	t.Parallel()
	rejected := &tools.Fault{Kind: tools.Rejected, Detail: "row 1 is locked"}
	for name, c := range map[string]struct {
		to    string
		wants []string
		do    func(string, tools.Input) (tools.Output, error)
		line  string
	}{
		"no call at all":    {to: "desk", line: "Nothing was changed."},
		"only a read":       {to: "desk", wants: []string{"rows.get 1"}, line: "Nothing was changed."},
		"a write":           {to: "desk", wants: []string{"rows.set 1"}, line: "Done: rows.set(id=1)."},
		"a write, twice":    {to: "desk", wants: []string{"rows.set 1", "rows.set 1"}, line: "Done: rows.set(id=1)."},
		"a failed write":    {to: "desk", wants: []string{"rows.set 1"}, do: func(string, tools.Input) (tools.Output, error) { return tools.Output{}, rejected }, line: "Not done: rows.set(id=1) (row 1 is locked)."},
		"a write in doubt":  {to: "desk", wants: []string{"rows.set 1"}, do: panicking, line: "Not known whether it took effect, so a person has to look: rows.set(id=1)."},
		"one of each":       {to: "desk", wants: []string{"rows.set 1", "rows.set 2"}, do: secondFails, line: "Done: rows.set(id=1). Not done: rows.set(id=2) (there is no row 2)."},
		"a reader's answer": {to: "read", wants: []string{"rows.get 1"}, line: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			replies := []llm.Reply{says("I have changed everything.")}
			if c.wants != nil {
				replies = append([]llm.Reply{wants(c.wants...)}, replies...)
			}
			h.model = script(c.to, replies...)
			if c.do != nil {
				h.do = c.do
			}
			h.up()
			defer h.down()
			want := strings.TrimSpace("I have changed everything.\n\n" + c.line)
			if got := h.say(message(1, "change everything")).Reply.Text; got != want {
				t.Errorf("the reply is\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func panicking(string, tools.Input) (tools.Output, error) { panic("no") }

func secondFails(_ string, in tools.Input) (tools.Output, error) {
	if in.Args["id"] == int64(2) {
		return tools.Output{}, &tools.Fault{Kind: tools.NotFound, Detail: "there is no row 2"}
	}
	return tools.Output{Value: "set"}, nil
}

// Words go with the retention; what was called when, and how it ended, stays.
func TestD6_WordsGoAndTheAuditRowsStay(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("desk", wants("rows.set 1"), says("Set, as you asked."))
	h.up()
	id := h.say(message(1, "set row 1, please")).Turn
	h.down()
	later, err := sqlite.Open(t.Context(), h.path, sqlite.Options{Now: func() time.Time { return time.Now().Add(31 * 24 * time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := later.Close(); err != nil {
			t.Error(err)
		}
	}()
	if n, err := later.Sweep(t.Context()); err != nil || n == 0 {
		t.Fatalf("Sweep = %d, %v; want something gone", n, err)
	}
	rec, ok, err := journal.Read(t.Context(), later, id)
	if err != nil || !ok {
		t.Fatalf("the turn is not on record any more: %v", err)
	}
	c := rec.Call(0)
	if c == nil || c.Tool != "rows.set" || c.Outcome() != journal.OK || rec.Ended.Outcome != turn.Answered || len(rec.Steps) != 3 {
		t.Errorf("the audit rows: %+v", rec)
	}
	if c.Args != nil || c.Why != "" || c.Text != "" || rec.Message != "" || rec.Reply != "" || rec.Rounds != nil {
		t.Errorf("words are left: %+v", rec)
	}
	var trace strings.Builder
	if err := journal.Draw(&trace, rec); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(trace.String(), "rows.set(") || strings.Contains(fmt.Sprint(trace.String()), "please") {
		t.Errorf("the trace reads\n%s", trace.String())
	}
}

// A run that goes on without the model that it began with still says what it did.
func TestM8_ARunThatLosesItsModelSaysWhatWasDone(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = func(r llm.Request) (llm.Reply, error) {
		switch {
		case isRouter(r):
			return routeTo("desk", 0.9), nil
		case rounds(r) == 0:
			return wants("rows.set 1"), nil
		}
		return llm.Reply{}, &llm.Error{Reason: llm.NoScript, Detail: "No language model is connected."}
	}
	h.up()
	defer h.down()
	f := h.say(message(1, "set row 1"))
	if f.Outcome != turn.Failed || f.Reply.Text != "No language model is connected.\n\nDone: rows.set(id=1)." {
		t.Errorf("finished %+v", f)
	}
}

// A message that was said to another bot stays in the store for it, and nobody apologises for it.
func TestD1_AMessageToAnotherBotStaysWhereItIs(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("read", says("Here."))
	h.up()
	h.allowed.Store(0)
	h.accept(message(1, "read"))
	<-h.ended
	h.down()
	h.allowed.Store(-1)
	h.forget()
	own := h.pack
	h.pack = strings.Replace(own, "name: desk", "name: other", 1)
	h.up()
	if f := <-h.ended; !errors.Is(f.Err, turn.ErrOtherPack) || !strings.Contains(f.Err.Error(), "desk") {
		t.Errorf("the other bot says %+v", f)
	}
	if n, err := h.store.Waiting(t.Context()); err != nil || n != 1 || len(h.posted()) != 0 {
		t.Errorf("%d messages wait, %v, and %d posts; want one and none", n, err, len(h.posted()))
	}
	h.down()
	h.pack = own
	h.up()
	defer h.down()
	if f := <-h.ended; f.Outcome != turn.Answered || len(h.posted()) != 1 {
		t.Errorf("its own bot says %+v in %d posts", f, len(h.posted()))
	}
}

// A message whose turn breaks every time is apologised for once, with what it did, and the thread goes on.
func TestD2_ABrokenMessageDoesNotHoldUpItsThread(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.pack = strings.Replace(h.pack, "admins: [U0ANA]", "admins: [U0ANA, U0BOB]", 1)
	h.model = func(r llm.Request) (llm.Reply, error) {
		switch {
		case isRouter(r):
			return routeTo("desk", 0.9), nil
		case strings.HasSuffix(r.Turns[len(r.Turns)-1].Text, "the next"):
			return says("Here."), nil
		case rounds(r) == 0:
			return wants("rows.set 1"), nil
		}
		panic("a reply that nobody can read")
	}
	h.up()
	defer h.down()
	h.accept(message(1, "the broken"))
	next := message(2, "the next") // by somebody else, so that it does not join the first
	next.From = chat.Person{ID: "U0BOB", Kind: chat.Member}
	h.accept(next)
	first, second := <-h.ended, <-h.ended
	if first.Outcome != turn.Failed || first.Err == nil || !strings.Contains(first.Reply.Text, first.Turn) || !strings.HasSuffix(first.Reply.Text, "Done: rows.set(id=1).") {
		t.Errorf("the broken one: %+v", first)
	}
	if second.Outcome != turn.Answered || len(h.posted()) != 2 || len(h.runs()) != 1 {
		t.Errorf("the next one: %+v, after %d posts and the tools %v", second, len(h.posted()), h.runs())
	}
	if n, err := h.store.Waiting(t.Context()); err != nil || n != 0 {
		t.Errorf("%d messages wait, %v", n, err)
	}
	if rec := h.read(first.Turn); rec.Ended == nil || rec.Ended.Outcome != turn.Failed || rec.Reply != first.Reply.Text {
		t.Errorf("on record: %+v, %q", rec.Ended, rec.Reply)
	}
}

// A reply that is out is not said again because its record cannot be written at once.
func TestD3_AReplyThatIsOutIsNotRepeatedByTheSameProcess(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = script("read", says("Here."))
	h.postErr = func(turn.Post) error {
		h.allowed.Store(0) // from here on nothing can be recorded
		return nil
	}
	h.up()
	id := h.accept(message(1, "read"))
	if f := <-h.ended; f.Err == nil || len(h.posted()) != 1 {
		t.Errorf("finished %+v after %d posts; want one", f, len(h.posted()))
	}
	h.allowed.Store(-1)
	if f := <-h.ended; f.Outcome != turn.Answered || len(h.posted()) != 1 || h.read(id).Ended == nil {
		t.Errorf("once it can be recorded: %+v after %d posts", f, len(h.posted()))
	}
	h.down()
}
