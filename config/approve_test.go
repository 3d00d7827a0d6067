package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchboard/chat"
)

func TestM6_TargetsAndStrangersWordsAreRead(t *testing.T) {
	t.Parallel()
	p := good(t)
	void := p.Tool("orders.void")
	if diff := cmp.Diff([]string{"copies", "email"}, void.Targets); diff != "" || void.Effect != Irreversible {
		t.Errorf("effect %s, targets (-want +got):\n%s", void.Effect, diff)
	}
	if strings.Contains(string(void.Shown), "target") || strings.Contains(string(void.ArgsSchema()), "target") {
		t.Errorf("a model is told what a target is: %s", void.Shown)
	}
	if !p.Tool("inbox.list").Untrusted || p.Tool("inbox.count").Untrusted || void.Untrusted {
		t.Error("untrusted is not the file's, or not the tool's own")
	}
	if diff := cmp.Diff([]string{"docs.example.com", "shop.example.com"}, p.Policy.Hosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
}

func TestFactsAndLookupsAreReads(t *testing.T) {
	t.Parallel()
	void := good(t).Tool("orders.void")
	if len(void.Facts) != 2 || void.Facts[0].Name != "order" || void.Facts[1].Tool != "orders.list" || void.Facts[0].Place.Line == 0 {
		t.Fatalf("facts: %+v", void.Facts)
	}
	args, err := void.Facts[1].Args(map[string]any{"order": "A-7"})
	if diff := cmp.Diff(map[string]any{"status": "open", "tags": []any{"void", "A-7"}}, args); diff != "" || err != nil {
		t.Errorf("arguments of a fact: %v (-want +got):\n%s", err, diff)
	}
	if _, err := void.Facts[0].Args(map[string]any{}); err == nil {
		t.Error("a fact without what it is about is read")
	}
	look := void.Lookup
	if args, err = look.Args(map[string]any{"order": "A-7"}); err != nil || args["order"] != "A-7" || look.Tool != "orders.get" {
		t.Errorf("the look-up: %+v, %v", args, err)
	}
	since := time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		result any
		want   bool
		fails  bool
	}{
		{map[string]any{"paid": int64(0)}, true, false},
		{map[string]any{"paid": 0.0}, true, false},
		{map[string]any{"paid": int64(5)}, false, false},
		{map[string]any{}, false, true},
		{"text", false, true},
	} {
		got, err := look.Found(c.result, map[string]any{"order": "A-7"}, "k1", since)
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%v: %t, %v", c.result, got, err)
		}
	}
	if got, err := look.Found(map[string]any{"paid": int64(0)}, map[string]any{"order": "A-7"}, "", since); got || err != nil {
		t.Errorf("without a key: %t, %v", got, err)
	}
}

func TestRulesSeeFactsTaintAndWhatWasDone(t *testing.T) {
	t.Parallel()
	p := good(t)
	rules := p.Policy.Rules
	paid, look := rules[len(rules)-2], rules[len(rules)-1]
	vars := func(change func(map[string]any)) map[string]any {
		v := map[string]any{
			"tool": "orders.void", "effect": "irreversible", "args": map[string]any{"order": "A-7"}, "taint": true, "done_": []string{"orders.get"},
			"order":  map[string]any{"order": "A-7", "status": "paid", "customer": map[string]any{"id": "c1"}},
			"listed": map[string]any{"rows": []any{1, 2, 3, 4}},
		}
		change(v)
		return v
	}
	same := vars(func(map[string]any) {})
	if holds, err := paid.When.Holds(same); !holds || err != nil {
		t.Errorf("a fact: %t, %v", holds, err)
	}
	if why, err := paid.Why.Text(same); err != nil || why != "Order A-7 is paid; A-7 cannot be voided." {
		t.Errorf("why: %q, %v", why, err)
	}
	for name, change := range map[string]func(map[string]any){
		"all of it":   func(map[string]any) {},
		"not tainted": func(v map[string]any) { v["taint"] = false },
		"done":        func(v map[string]any) { v["done_"] = []string{"orders.get", "orders.refund"} },
		"few listed":  func(v map[string]any) { v["listed"] = map[string]any{"rows": []any{}} },
	} {
		if holds, err := look.When.Holds(vars(change)); holds != (name == "all of it") || err != nil {
			t.Errorf("%s: %t, %v", name, holds, err)
		}
	}
	if _, err := paid.When.Holds(vars(func(v map[string]any) { delete(v, "order") })); err == nil {
		t.Error("a condition over a fact that was not read gives an answer")
	}
}

func TestWhoDecides(t *testing.T) {
	t.Parallel()
	p := good(t)
	rules := p.Policy.Rules
	if diff := cmp.Diff(Approve{By: []string{"admins", Requester}, Within: 48 * time.Hour}, p.Policy.Approve); diff != "" {
		t.Errorf("for all (-want +got):\n%s", diff)
	}
	last := rules[len(rules)-1]
	want := &Approve{By: []string{"finance", "U0EVE", "S0FIN"}, Within: 4 * time.Hour, In: "C0FRONT", FourEyes: true}
	if diff := cmp.Diff(want, last.Approve); diff != "" || last.Verdict != Ask || rules[0].Approve != nil {
		t.Errorf("of a rule (-want +got):\n%s", diff)
	}
	for e, v := range map[Effect]Verdict{NoEffect: Allow, Write: Deny, Irreversible: Ask} {
		if got := p.Policy.Of(e); got != v {
			t.Errorf("%s: %s", e, got)
		}
	}
	unsaid, err := Load(fsOf(plainPack()), Options{})
	if err != nil || unsaid.Policy.Of(Irreversible) != Ask || unsaid.Policy.Of(Write) != Allow || (Policy{}).Of(Irreversible) != Ask {
		t.Errorf("without a policy: %v, %v", unsaid, err)
	}
	for tool, named := range map[string]bool{"orders.get": true, "orders.void": true, "order": false, "orders": false, "inbox.list": false} {
		if rules[0].Names(tool) != named {
			t.Errorf("orders.* names %s: %t", tool, !named)
		}
	}
}

// TestM5_ADigestNamesWhatARuleSays: a decision is void once a rule says something else, and stays when it only moves.
func TestM5_ADigestNamesWhatARuleSays(t *testing.T) {
	t.Parallel()
	const rule = "{tools: [orders.refund, orders.get], when: args.order > \"A\", verdict: ask, why: Big., approve: {by: [admins, U0BOB], within: 4h, in: C0FRONT, four_eyes: true}}"
	digest := func(text string) string {
		files := plainPack()
		files["policy.yaml"] = []byte("rules:\n" + text)
		p, err := Load(fsOf(files), Options{})
		if err != nil {
			t.Fatalf("%s:\n%v", text, err)
		}
		return p.Policy.Rules[len(p.Policy.Rules)-1].Digest
	}
	first := digest("  - " + rule)
	if len(first) != 64 {
		t.Errorf("the digest is %q", first)
	}
	for _, same := range []string{
		"\n\n  -  " + rule,
		"  - {tools: [orders.get], verdict: deny, when: args.order == \"\", why: No.}\n  - " + rule,
		"  - " + strings.NewReplacer("[orders.refund, orders.get]", "[orders.get, orders.refund]", "[admins, U0BOB]", "[U0BOB, admins]", "4h", "240m").Replace(rule),
	} {
		if got := digest(same); got != first {
			t.Errorf("the same rule has another digest:\n%s", same)
		}
	}
	seen := map[string]string{first: ""}
	for _, c := range [][2]string{
		{"orders.refund, ", ""},
		{`"A"`, `"B"`},
		{"Big.", "Huge."},
		{"admins, U0BOB", "admins"},
		{"4h", "5h"},
		{"C0FRONT", "C0BACK"},
		{", four_eyes: true", ""},
		{", approve: {by: [admins, U0BOB], within: 4h, in: C0FRONT, four_eyes: true}", ""},
		{"verdict: ask, why: Big., approve: {by: [admins, U0BOB], within: 4h, in: C0FRONT, four_eyes: true}", "verdict: deny, why: Big."},
		{`when: args.order > "A", `, ""},
	} {
		got := digest("  - " + strings.Replace(rule, c[0], c[1], 1))
		if before, dup := seen[got]; dup {
			t.Errorf("%q for %q has the digest of %q", c[1], c[0], before)
		}
		seen[got] = c[0]
	}
}

func TestAskPersonKnowsThePeopleOfThePack(t *testing.T) {
	t.Parallel()
	p := good(t)
	ask := p.Tool("ask.person")
	if ask == nil || ask.Effect != NoEffect || ask.HTTP != nil || !ask.Fresh {
		t.Fatalf("ask.person is %+v", ask)
	}
	args := func(to, question string) map[string]any {
		return map[string]any{"to": to, "question": question, "why": "a", "expects": "b"}
	}
	for _, to := range []string{Requester, "admins", "finance"} {
		if err := ask.CheckArgs(args(to, "Both?")); err != nil {
			t.Errorf("%s: %v", to, err)
		}
	}
	for _, wrong := range []map[string]any{args("everyone", "Both?"), args("U0ANA", "Both?"), args("admins", ""), args("admins", strings.Repeat("x", 501))} {
		if err := ask.CheckArgs(wrong); err == nil {
			t.Errorf("%.60v is taken", wrong)
		}
	}
	if err := ask.CheckResult(map[string]any{"answer": "Yes.", "by": "U0ANA"}); err != nil {
		t.Error(err)
	}
	for range 2 { // the people of one pack are not those of the next
		plain, err := Load(fsOf(plainPack()), Options{})
		if err != nil || plain.Tool("ask.person").CheckArgs(args("finance", "Both?")) == nil {
			t.Errorf("another pack knows finance: %v", err)
		}
	}
	files := plainPack()
	files["tools/ask.yaml"] = []byte("server: {base: {env: X}}\ntools:\n  - {name: ask.person, about: A., effect: none, get: /a}\n")
	_, err := Load(fsOf(files), Options{})
	if err == nil || err.Error() != "tools/ask.yaml:3:12: ask.person is the name of a built-in tool (choose another name)" {
		t.Errorf("a tool of that name: %v", err)
	}
}

func TestClicksAreRead(t *testing.T) {
	t.Parallel()
	var got []Click
	var waits Expect
	r := good(t).Rehearsals[3] // help.yaml has one, orders.yaml three
	for _, s := range r.Steps {
		if s.Click != nil {
			got = append(got, *s.Click)
			if s.ByModel() {
				t.Errorf("%s: a click is an answer of the model", s.Place)
			}
		}
		if s.Expect != nil && s.Expect.Waits != "" {
			waits = *s.Expect
		}
	}
	want := []Click{
		{Say: chat.Deny, Tool: "orders.void", As: "U0ANA", Words: "Not this one."},
		{Say: chat.Approve, Tool: "orders.void", As: "U0ANA"},
		{Tool: "orders.void"},
		{Say: chat.Happened, Tool: "orders.void", As: "U0ANA"},
		{Say: chat.NotDone, Tool: "orders.void", As: "U0ANA"},
		{Say: chat.Answer, As: "U0ANA", Words: "Yes."},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("clicks (-want +got):\n%s", diff)
	}
	if waits.Waits != "orders.void" || waits.Outcome != "waiting" || !cmp.Equal(waits.On, []string{"finance", "U0EVA", Requester}) {
		t.Errorf("expect: %+v", waits)
	}
}
