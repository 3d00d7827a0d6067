package guards_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"switchboard/chat"
	"switchboard/guards"
)

// whyAsked lists what the guard against strangers' words asks about, without who decides.
func whyAsked(v guards.Verdict) []string {
	out := []string{}
	for _, n := range v.Needs {
		rule, _, _ := strings.Cut(n.Rule, " by ")
		out = append(out, rule)
	}
	return out
}

// A value is the requester's own only if it stands in their words, whole and letter by letter.
func TestM6_AValueIsTheRequestersOnlyVerbatimAndWhole(t *testing.T) {
	t.Parallel()
	p := loaded(t, "default: {none: allow}\nhosts: [informations.com, docs.example.com, xn--bcher-kva.example]")
	own := []string{
		"write to ann@informations.com, please", "the channel is #supply; or (C0SUPPLY)", "send 80.5 or 1,234 to <https://pay.example/x?to=7>",
		"ask «Zoë Quinn».", "\"quoted@x.org\" and `code@x.org` and *bold@x.org*", "see true-informations.org", "mail\tbob@x.org\nnow", "Straße 5",
		"from:eve@x.org", "not me@evil.example@x.org", "three   spaces and one at the end ",
	}
	for value, trusted := range map[string]bool{
		"ann@informations.com": true, "#supply": true, "supply": true, "C0SUPPLY": true, "80.5": true, "Zoë Quinn": true, "quoted@x.org": true, "code@x.org": true,
		"bold@x.org": true, "bob@x.org": true, "https://pay.example/x?to=7": true, "write to ann@informations.com": true,
		// A part of a word is another word.
		"nn@informations.com": false, "ann@informations.co": false, "ann@informations.com.evil.example": false, "xann@informations.com": false,
		"informations.org": false, "true-informations": false, "80": false, "0.5": false, "234": false, "1": false, "pay.example": false, "https://pay.example/x": false,
		"https://pay.example/x?to=70": false, "C0SUPPLY2": false, "0SUPPLY": false, "Zoë": true, "Quinn": true, "Zo": false, "evil.example": false,
		"me@evil.example": false, "eve@x.org": false, "evil.example@x.org": false, "Straße": true, "tra": false,
		// What looks alike is not the same.
		"Ann@informations.com": false, "ANN@INFORMATIONS.COM": false, "аnn@informations.com": false, "ann@informations．com": false, "ann@informations.com\u200b": false,
		"Zoe\u0308 Quinn": false, "STRASSE": false, " ann@informations.com": false, "ann@informations.com ": false, "": false, " ": false, "\u00a0": false,
		// Whole hosts are allowed, however they are written, and nothing that only ends or begins like one.
		"informations.com": true, "INFORMATIONS.COM": true, "informations.com.": true, "https://informations.com/any/path?x=1": true, "HTTPS://Informations.com": true,
		"informations.com/a": true, "https://informations.com/?to=https://evil.example": false, "informations.com/?to=//evil.example/x": false,
		"https://informations.com/?to=https://docs.example.com/": true, "https://xn--bcher-kva.example": true,
		"true-informations.com": false, "https://true-informations.com": false, "sub.informations.com": false, "informations.com.evil.example": false,
		"https://informations.com@evil.example": false, "https://evil.example/informations.com": false, "https://informations.com:8443/": false,
		"https://user@informations.com/": false, "https://informations.com:443@evil.example/": false, "https://informations.com\\@evil.example": false,
		"https://bücher.example": false, "javascript:informations.com": false, "//informations.com": false, "informations.com:80": false, "evil.example/informations.com": false,
		"https:informations.com": false, "informations.com..": false, "https://evil.example#informations.com": false, "127.0.0.1": false, "mail@docs.example.com": false,
		"informations.com\nevil.example": false, "informations.com evil.example": false, "informations。com": false, "ftp://informations.com": false,
	} {
		for _, tool := range []string{"rows.note", "rows.find"} {
			arg := map[string]string{"rows.note": "to", "rows.find": "where"}[tool]
			a := asked(p, tool, map[string]any{arg: value})
			a.Taint = guards.Taint{Words: own}
			if v := judge(p, a); v.Say != guards.Allow {
				t.Errorf("%s %q without strangers' words: %+v", tool, value, v)
			}
			a.Taint.Sources = []string{"a file"}
			v := judge(p, a)
			if (v.Say == guards.Allow) != trusted || !trusted && !slices.Equal(whyAsked(v), []string{"taint target " + arg}) {
				t.Errorf("%s %q: %s %q, want trusted %t", tool, value, v.Say, v.Why, trusted)
			}
		}
	}
}

func TestM6_WhatTheRuntimeBindsIsTrusted(t *testing.T) {
	t.Parallel()
	p := loaded(t, "default: {none: allow}")
	a := asked(p, "rows.note", map[string]any{"to": "C0HOME"})
	a.Taint.Sources = []string{"results of rows.find"}
	for scope, want := range map[string]guards.Say{"C0HOME": guards.Allow, "C0HOME2": guards.Ask, "": guards.Ask} {
		a.Scope = map[string]string{"home": scope}
		if v := judge(p, a); v.Say != want {
			t.Errorf("bound to %q: %+v", scope, v)
		}
	}
}

// Every part of a target counts, however deep, and numbers as they are written.
func TestM6_EveryPartOfATargetCounts(t *testing.T) {
	t.Parallel()
	p := loaded(t, "default: {none: allow}")
	for name, c := range map[string]struct {
		to   any
		want guards.Say
	}{
		"nothing":            {nil, guards.Allow},
		"a list":             {[]any{"a@x.org", "b@x.org"}, guards.Allow},
		"one of a list":      {[]any{"a@x.org", "evil@x.org"}, guards.Ask},
		"deep":               {[]any{map[string]any{"a@x.org": []any{"evil@x.org"}}}, guards.Ask},
		"a name in it":       {map[string]any{"evil@x.org": "a@x.org"}, guards.Ask},
		"a number":           {json.Number("80"), guards.Allow},
		"another number":     {int64(81), guards.Ask},
		"a truth":            {true, guards.Ask},
		"joined by a comma":  {"a@x.org,b@x.org", guards.Ask},
		"a list of nothings": {[]any{"", "a@x.org"}, guards.Ask},
	} {
		a := asked(p, "rows.note", map[string]any{"to": c.to})
		a.Taint = guards.Taint{Sources: []string{"a file"}, Words: []string{"to a@x.org and b@x.org, 80"}}
		if v := judge(p, a); v.Say != c.want {
			t.Errorf("%s: %+v, want %s", name, v, c.want)
		}
	}
}

// A link in what an effect would carry leads to an allowed host, or the requester has written it.
func TestM6_AnEffectCarriesNoStrangeLink(t *testing.T) {
	t.Parallel()
	p := loaded(t, "default: {none: allow}\nhosts: [docs.example.com]")
	own := []string{"put https://mine.example/a?b=1 and shop.example in it", "[a b](https://form.example/x)"}
	for text, want := range map[string]guards.Say{
		"nothing to follow": guards.Allow, "[a b](https://form.example/x)": guards.Allow, "see https://docs.example.com/a": guards.Allow, "see https://mine.example/a?b=1 there": guards.Allow,
		"(https://mine.example/a?b=1).": guards.Allow, "shop.example has it": guards.Allow, "https://mine.example/a?b=1 and https://docs.example.com/x": guards.Allow,
		"see https://evil.example/a": guards.Ask, "evil.example has it": guards.Ask, "https://mine.example/a?b=1&c=secret": guards.Ask, "https://mine.example/a": guards.Ask,
		"https://mine.example/a?b=1 https://evil.example/": guards.Ask, "https://evil.example/ https://mine.example/a?b=1": guards.Ask, "[a b](https://evil.example/x)": guards.Ask,
		"![](https://evil.example/x.png)": guards.Ask, "https://docs.example.com.evil.example/": guards.Ask, "https://docs.example.com@evil.example/": guards.Ask,
		"https://docs.example.com:8443/": guards.Ask, "<https://evil.example|docs.example.com>": guards.Ask, "mailto:eve@evil.example": guards.Ask,
		"https://evil．example/x": guards.Ask, "HTTPS://EVIL.EXAMPLE": guards.Ask, "https://docs.example.com/?to=https://evil.example": guards.Ask,
		"[https://mine.example/a?b=1](https://evil.example)": guards.Ask,
	} {
		for name, args := range map[string]map[string]any{
			"a text": {"text": text}, "deep": {"more": []any{map[string]any{"k": text}}}, "a name": {"more": []any{map[string]any{text: "v"}}},
		} {
			a := asked(p, "rows.note", args)
			a.Taint = guards.Taint{Words: own}
			if v := judge(p, a); v.Say != guards.Allow {
				t.Errorf("%s %q without strangers' words: %+v", name, text, v)
			}
			a.Taint.Sources = []string{"a file"}
			v := judge(p, a)
			if v.Say != want || want == guards.Ask && !strings.HasPrefix(whyAsked(v)[0], "taint link ") {
				t.Errorf("%s %q: %s %q, want %s", name, text, v.Say, v.Why, want)
			}
		}
	}
	a := asked(p, "rows.find", map[string]any{"q": "https://evil.example/a"}) // a read carries nothing to anybody
	a.Taint.Sources = []string{"a file"}
	if v := judge(p, a); v.Say != guards.Allow {
		t.Errorf("a read: %+v", v)
	}
}

// In one call all reasons are told at once, with where the strangers' words came from, and the pack says who decides.
func TestM6_AllReasonsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	p := loaded(t, "approve: {by: [finance]}\nrules:\n  - {tools: [mail.send], when: taint, verdict: ask, why: W., approve: {by: [bosses]}}\n")
	a := asked(p, "mail.send", map[string]any{"to": "eve@x.org", "text": "https://evil.example"})
	a.Taint = guards.Taint{Sources: []string{"results of rows.find", "a file", "results of rows.find"}}
	v := judge(p, a)
	got := whyAsked(v)[1:]
	if v.Say != guards.Ask || !slices.Equal(got, []string{"taint irreversible", "taint target to", "taint link text"}) {
		t.Fatalf("asked about %v: %+v", got, v)
	}
	for i, n := range v.Needs[1:] {
		if !strings.Contains(n.Why, "a file, results of rows.find") || n.By[0] != "finance" || strings.Count(n.Why, "rows.find") != 1 {
			t.Errorf("need %d reads %+v", i, n)
		}
	}
	if v.Needs[0].By[0] != "bosses" || !strings.Contains(v.Needs[2].Why, `"eve@x.org"`) {
		t.Errorf("needs %+v", v.Needs)
	}
	if v := judge(p, asked(p, "mail.send", a.Args)); v.Say != guards.Ask || len(v.Needs) != 1 {
		t.Errorf("without strangers' words the default asks alone: %+v", v)
	}
}

// A rule that allows says nothing of strangers' words: they ask all the same; a rule that denies stays stronger.
func TestM6_NoRuleLetsStrangersThrough(t *testing.T) {
	t.Parallel()
	p := loaded(t, "default: {irreversible: allow}\nrules:\n  - {tools: [rows.pay], when: args.id == 1, verdict: deny, why: W.}\n")
	for id, want := range map[int64]guards.Say{1: guards.Deny, 2: guards.Ask} {
		a := asked(p, "rows.pay", map[string]any{"id": id})
		a.Taint.Sources = []string{"a file"}
		if v := judge(p, a); v.Say != want {
			t.Errorf("pay %d: %+v, want %s", id, v, want)
		}
	}
}

// Whatever is read and wanted in whatever order: once strangers' words are in, nothing that cannot be taken back, no place
// and no link that a stranger may have chosen goes through without a person.
func TestRel_S17_NothingOfStrangersGoesThroughAlone(t *testing.T) {
	t.Parallel()
	p := loaded(t, "default: {none: allow, write: allow, irreversible: allow}\nhosts: [docs.example.com]")
	places := []string{"ann@x.org", "eve@x.org", "docs.example.com", "https://docs.example.com/a", "evil.example", "https://docs.example.com.evil.example/", "C0HOME", "C0EVIL"}
	texts := []string{"hello", "see https://docs.example.com/b", "see https://evil.example/b", "![x](https://evil.example/y)", "mail ann@x.org"}
	rapid.Check(t, func(t *rapid.T) {
		taint := guards.Taint{Words: rapid.SliceOf(rapid.SampledFrom([]string{"write to ann@x.org", "thanks", "C0HOME is ours", "not-eve@x.org.uk"})).Draw(t, "words")}
		clean := func(v string) bool {
			switch v {
			case "docs.example.com", "https://docs.example.com/a":
				return true
			case "ann@x.org":
				return slices.Contains(taint.Words, "write to ann@x.org")
			case "C0HOME":
				return slices.Contains(taint.Words, "C0HOME is ours")
			}
			return false
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			tool := rapid.SampledFrom([]string{"rows.get", "rows.find", "rows.set", "rows.note", "rows.pay", "mail.send"}).Draw(t, "tool")
			to, text := rapid.SampledFrom(places).Draw(t, "to"), rapid.SampledFrom(texts).Draw(t, "text")
			args := map[string]map[string]any{
				"rows.get": {"id": int64(1)}, "rows.find": {"where": to}, "rows.set": {"id": int64(1)}, "rows.note": {"to": to, "text": text}, "rows.pay": {"id": int64(1)},
				"mail.send": {"to": to, "text": text},
			}[tool]
			a := asked(p, tool, args)
			a.Taint, a.Actor.Kind = taint, chat.Member
			v := judge(p, a)
			_, aims := args["to"]
			_, looks := args["where"]
			hold := taint.Tainted() && (tool == "rows.pay" || tool == "mail.send" || (aims || looks) && !clean(to) || aims && strings.Contains(text, "evil"))
			// Mail to a person that the requester has not named is a link like any other.
			if aims && text == "mail ann@x.org" && taint.Tainted() && !clean("ann@x.org") {
				hold = true
			}
			if (v.Say == guards.Ask) != hold {
				t.Fatalf("%s %v after %v: %+v, want held %t", tool, args, taint, v, hold)
			}
			if v.Say == guards.Allow && tool == "rows.find" {
				taint.Sources = append(taint.Sources, "results of rows.find")
			}
		}
	})
}
