package guards_test

import (
	"testing"

	"switchboard/guards"
)

// What somebody has refused is not done in another way: nothing that cannot be taken back, and nothing about the same thing.
func TestM5_ARefusalIsNotGoneRound(t *testing.T) {
	t.Parallel()
	p := loaded(t, "default: {irreversible: allow}")
	note := func(to, text string) map[string]any { return map[string]any{"to": to, "text": text} }
	for name, c := range map[string]struct {
		tool string
		args map[string]any
		want guards.Say
	}{
		"the same once more":           {"mail.send", note("ann@x.org", "A-1001"), guards.Deny},
		"another one for ever":         {"rows.pay", map[string]any{"id": int64(3)}, guards.Deny},
		"a write about the same":       {"rows.note", note("A-1001", "hello"), guards.Deny},
		"a write to the same":          {"rows.note", note("ann@x.org", "hello"), guards.Deny},
		"a write deep in it":           {"rows.note", map[string]any{"more": []any{map[string]any{"k": "A-1001"}}}, guards.Deny},
		"a write about something else": {"rows.note", note("bob@x.org", "A-1002"), guards.Allow},
		"a write of a number":          {"rows.set", map[string]any{"id": int64(1001)}, guards.Allow},
		"a read":                       {"rows.find", map[string]any{"where": "A-1001"}, guards.Allow},
	} {
		var r guards.Refusal
		if v := r.Judge(p.Tool(c.tool), c.args); v.Say != guards.Allow {
			t.Errorf("%s, before: %+v", name, v)
		}
		r.Note("mail.send", note("ann@x.org", "A-1001"))
		r.Note("rows.note", note("zoe@x.org", "B-2002"))
		if v := r.Judge(p.Tool(c.tool), c.args); v.Say != c.want || (v.Why == "") != (c.want == guards.Allow) {
			t.Errorf("%s: %+v, want %s", name, v, c.want)
		}
		r.Lift()
		if v := r.Judge(p.Tool(c.tool), c.args); v.Say != guards.Allow {
			t.Errorf("%s, once lifted: %+v", name, v)
		}
	}
	if v := (&guards.Refusal{}).Judge(p.Tool("rows.pay"), nil); v.Say != guards.Allow {
		t.Errorf("nothing was refused: %+v", v)
	}
}

// Where a refused effect names nothing that could be compared, no write is let through.
func TestM5_ARefusalThatNamesNothingHoldsAllWrites(t *testing.T) {
	t.Parallel()
	p := loaded(t, "default: {irreversible: allow}")
	var r guards.Refusal
	r.Note("rows.pay", map[string]any{"id": int64(80)})
	for tool, want := range map[string]guards.Say{"rows.set": guards.Deny, "rows.note": guards.Deny, "rows.get": guards.Allow} {
		if v := r.Judge(p.Tool(tool), map[string]any{"text": "anything"}); v.Say != want {
			t.Errorf("%s: %+v, want %s", tool, v, want)
		}
	}
	var named guards.Refusal
	named.Note("rows.pay", map[string]any{"id": int64(800)})
	for id, want := range map[int64]guards.Say{800: guards.Deny, 801: guards.Allow} {
		if v := named.Judge(p.Tool("rows.set"), map[string]any{"id": id}); v.Say != want {
			t.Errorf("set %d: %+v, want %s", id, v, want)
		}
	}
}
