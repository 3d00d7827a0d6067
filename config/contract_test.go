package config

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestM2_BoundArgumentsAreNeitherShownNorTaken(t *testing.T) {
	t.Parallel()
	tool := good(t).Tool("orders.refund")
	for _, bound := range []string{"org", "desk"} {
		if strings.Contains(string(tool.Shown), `"`+bound+`"`) {
			t.Errorf("%s is shown: %s", bound, tool.Shown)
		}
		if !strings.Contains(string(tool.ArgsSchema()), `"`+bound+`"`) {
			t.Errorf("%s is missing in the schema of all arguments: %s", bound, tool.ArgsSchema())
		}
		err := tool.CheckArgs(map[string]any{"order": "A-1", "amount": int64(5), bound: "x", "why": "a", "expects": "b"})
		if err == nil || !strings.Contains(err.Error(), "unknown argument") {
			t.Errorf("%s from the model: %v", bound, err)
		}
	}
}

func TestL3_ArgumentErrorsAreSentences(t *testing.T) {
	t.Parallel()
	tool := good(t).Tool("orders.refund")
	full := func(change func(map[string]any)) map[string]any {
		m := map[string]any{"order": "A-1", "amount": int64(10), "why": "a", "expects": "b"}
		change(m)
		return m
	}
	if err := tool.CheckArgs(full(func(map[string]any) {})); err != nil {
		t.Fatal(err)
	}
	if err := tool.CheckArgs(full(func(m map[string]any) { m["amount"] = 10.0 })); err != nil {
		t.Errorf("10.0 is a whole number: %v", err)
	}
	for _, c := range []struct {
		args map[string]any
		want string
	}{
		{nil, "the arguments must be one JSON object"},
		{full(func(m map[string]any) { m["amuont"] = 1 }), `unknown argument "amuont", did you mean "amount"? Allowed: amount, day, order, why, expects`},
		{full(func(m map[string]any) { m["zzz"] = 1 }), `unknown argument "zzz"; allowed: amount, day, order, why, expects`},
		{full(func(m map[string]any) { delete(m, "order") }), "arguments: order is missing"},
		{full(func(m map[string]any) { delete(m, "why") }), "arguments: why is missing"},
		{full(func(m map[string]any) { m["why"] = "  " }), "argument why: expected a sentence, found blanks"},
		{full(func(m map[string]any) { m["amount"] = "SECRET" }), "argument amount: expected integer, found string"},
		{full(func(m map[string]any) { m["amount"] = int64(0) }), "argument amount: must be at least 1"},
		{full(func(m map[string]any) { m["day"] = "SECRET" }), "argument day: expected text of the form date"},
	} {
		err := tool.CheckArgs(c.args)
		if err == nil || err.Error() != c.want {
			t.Errorf("%v:\n got %v\nwant %s", c.args, err, c.want)
		}
	}
	long := full(func(m map[string]any) { m[strings.Repeat("x", 5000)] = 1 })
	if err := tool.CheckArgs(long); err == nil || len([]rune(err.Error())) > mostMessage {
		t.Errorf("a long name: %v", err)
	}
	nested := map[string]any{"tags": []any{"a", int64(7)}, "why": "a", "expects": "b"}
	if err := good(t).Tool("orders.list").CheckArgs(nested); err == nil || err.Error() != "argument tags[1]: expected string, found number" {
		t.Errorf("a nested value: %v", err)
	}
}

func TestResultsAreTakenAndChecked(t *testing.T) {
	t.Parallel()
	p := good(t)
	list, get := p.Tool("orders.list"), p.Tool("orders.get")
	body := map[string]any{"data": []any{map[string]any{"order": "A-1", "paid": int64(3), "extra": true}}}
	v, err := list.Project(body, 206)
	if err != nil {
		t.Fatal(err)
	}
	if err := list.CheckResult(v); err != nil {
		t.Errorf("a good result: %v", err)
	}
	if got := string(Canonical(v)); got != `{"more":true,"rows":[{"extra":true,"order":"A-1","paid":3}]}` {
		t.Errorf("taken: %s", got)
	}
	if _, err := list.Project(map[string]any{}, 200); err == nil {
		t.Error("a body without data gives a result")
	}
	if v, err := get.Project("as it is", 200); v != "as it is" || err != nil {
		t.Errorf("without take: %v, %v", v, err)
	}
	err = list.CheckResult(map[string]any{"rows": []any{map[string]any{"order": "SECRET"}}})
	if err == nil || err.Error() != "at rows[0]: paid is missing" {
		t.Errorf("a result that breaks its contract: %v", err)
	}
	if err := list.CheckResult("SECRET"); err == nil || err.Error() != "expected object, found string" {
		t.Errorf("a result of another type: %v", err)
	}
	if note := p.Tool("orders.note"); note.CheckResult("anything") != nil || note.ResultSchema() != nil {
		t.Error("a contract without result checks something")
	}
}

func TestL4_FailureIsATypedOutcome(t *testing.T) {
	t.Parallel()
	p := good(t)
	get, list, note := p.Tool("orders.get"), p.Tool("orders.list"), p.Tool("orders.note")
	for _, c := range []struct {
		tool   *Tool
		result any
		want   bool
	}{
		{get, map[string]any{"status": "cancelled", "paid": int64(5)}, true},
		{get, map[string]any{"status": "cancelled", "paid": 5.0}, true},
		{get, map[string]any{"status": "paid", "paid": int64(5)}, false},
		{list, "ERR 7", true},
		{list, "Error: not for this contract", false},
		{note, "Error: closed", true},
		{note, "error: closed", true},
		{note, "Document not found", true},
		{note, "This is Not Implemented.", true},
		{note, "There was an error: none of note", false},
		{note, map[string]any{"text": "Error: x"}, false},
	} {
		got, err := c.tool.Fails(c.result)
		if got != c.want || err != nil {
			t.Errorf("%s, %v: %v, %v", c.tool.Name, c.result, got, err)
		}
	}
	if _, err := get.Fails(map[string]any{"status": "cancelled"}); err == nil {
		t.Error("a condition that cannot be evaluated is no error")
	}
}

func TestBuiltinsAreStrictContracts(t *testing.T) {
	t.Parallel()
	results := map[string]any{
		"docs.search": []any{map[string]any{"name": "a", "title": "A", "snippet": "…"}},
		"docs.fetch":  map[string]any{"name": "a", "title": "A", "text": "t"},
		"time.now":    map[string]any{"now": "2026-05-04T10:00:00Z", "weekday": "Monday", "zone": "UTC"},
		"result.read": map[string]any{"text": "t", "from": int64(0), "next": nil, "total": int64(1)},
	}
	args := map[string]map[string]any{
		"docs.search": {"query": "a"}, "docs.fetch": {"name": "a"}, "time.now": {}, "result.read": {"handle": "h", "from": int64(0)},
	}
	for _, b := range Builtins() {
		a := args[b.Name]
		a["why"], a["expects"] = "x", "y"
		if err := b.CheckArgs(a); err != nil {
			t.Errorf("%s: %v", b.Name, err)
		}
		a["more"] = 1
		if err := b.CheckArgs(a); err == nil {
			t.Errorf("%s takes unknown arguments", b.Name)
		}
		if err := b.CheckResult(results[b.Name]); err != nil {
			t.Errorf("%s: %v", b.Name, err)
		}
		if err := b.CheckResult("text"); err == nil {
			t.Errorf("%s: any result is good", b.Name)
		}
		if !json.Valid(b.Shown) || b.Effect != NoEffect || b.HTTP != nil {
			t.Errorf("%s: %+v", b.Name, b)
		}
	}
}
