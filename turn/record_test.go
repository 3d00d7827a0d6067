package turn_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
		"a failed write":    {to: "desk", wants: []string{"rows.set 1"}, do: func(string, tools.Input) (tools.Output, error) { return tools.Output{}, rejected }, line: "Not done: rows.set(id=1)."},
		"a write in doubt":  {to: "desk", wants: []string{"rows.set 1"}, do: panicking, line: "Not known whether it took effect, so a person has to look: rows.set(id=1)."},
		"one of each":       {to: "desk", wants: []string{"rows.set 1", "rows.set 2"}, do: secondFails, line: "Done: rows.set(id=1). Not done: rows.set(id=2)."},
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
