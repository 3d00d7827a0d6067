package guards_test

import (
	"strings"
	"testing"

	"switchboard/guards"
)

func failed(seq int, same string) guards.Past {
	return guards.Past{Seq: seq, Same: same, Tool: "docs.fetch", Ended: guards.Badly, Told: "Document not found: waivers"}
}

func read(seq int, same string) guards.Past {
	return guards.Past{Seq: seq, Same: same, Tool: "docs.search", Ended: guards.Well}
}

func effect(seq int, same string) guards.Past {
	return guards.Past{Seq: seq, Same: same, Tool: "bookings.create", Ended: guards.Well, Effect: true}
}

func TestL4_AFailedCallIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	var r guards.Repeat
	r.Note(failed(0, "A"))
	r.Note(read(1, "B")) // another call in between does not help: A, B, A
	v := r.Judge("A", false)
	if v.Say != guards.Refuse {
		t.Fatalf("Judge = %+v, want a refusal", v)
	}
	for _, part := range []string{"Document not found: waivers", "call 0", "Tell the user"} {
		if !strings.Contains(v.Why, part) {
			t.Errorf("the refusal %q lacks %q", v.Why, part)
		}
	}
	if v := r.Judge("C", false); v.Say != guards.Allow {
		t.Errorf("a call never made before: %+v", v)
	}
}

func TestL4_AReadIsAnsweredFromTheRecordAndTheThirdTimeEnds(t *testing.T) {
	t.Parallel()
	var r guards.Repeat
	r.Note(read(4, "A"))
	v := r.Judge("A", false)
	if v.Say != guards.Record || v.From != 4 || v.Ends {
		t.Fatalf("second time: %+v, want the record of call 4", v)
	}
	r.Note(guards.Past{Seq: 5, Same: "A", Ended: guards.Answered})
	if v = r.Judge("A", false); v.Say != guards.Record || !v.Ends {
		t.Fatalf("third time: %+v, want the record and the end of the rounds", v)
	}
}

func TestL4_AnEffectLiftsRefusalsAndForgetsReads(t *testing.T) {
	t.Parallel()
	var r guards.Repeat
	r.Note(failed(0, "A"))
	r.Note(read(1, "B"))
	r.Note(effect(2, "E"))
	for _, same := range []string{"A", "B"} {
		if v := r.Judge(same, false); v.Say != guards.Allow {
			t.Errorf("%s after an effect: %+v, want it allowed", same, v)
		}
	}
	r.Note(failed(3, "A"))
	if v := r.Judge("A", false); v.Say != guards.Refuse {
		t.Errorf("A failed again after the effect: %+v, want a refusal", v)
	}
}

func TestL4_FreshToolsAreAlwaysAsked(t *testing.T) {
	t.Parallel()
	var r guards.Repeat
	for seq := range 4 {
		p := read(seq, "now")
		p.Fresh = true
		r.Note(p)
		if v := r.Judge("now", false); v.Say != guards.Allow {
			t.Fatalf("time %d: %+v", seq, v)
		}
	}
}

func TestM3_AnEqualEffectIsDoneOnce(t *testing.T) {
	t.Parallel()
	var r guards.Repeat
	r.Note(effect(0, "E"))
	r.Note(effect(1, "F")) // another effect does not make the first one forgotten
	if v := r.Judge("E", false); v.Say != guards.Record || v.From != 0 {
		t.Errorf("an equal effect: %+v, want the record of call 0", v)
	}
	if v := r.Judge("E", true); v.Say != guards.Allow {
		t.Errorf("an equal effect of a repeatable tool: %+v, want it allowed", v)
	}
}

func TestM4_AnEffectInDoubtIsNeverMadeAgain(t *testing.T) {
	t.Parallel()
	var r guards.Repeat
	r.Note(guards.Past{Seq: 0, Same: "E", Tool: "bookings.create", Effect: true, Ended: guards.InDoubt})
	r.Note(effect(1, "F"))
	r.Lift()
	for _, repeatable := range []bool{false, true} {
		if v := r.Judge("E", repeatable); v.Say != guards.Refuse || !strings.Contains(v.Why, "person") {
			t.Errorf("repeatable %v: %+v, want a refusal that sends for a person", repeatable, v)
		}
	}
}
