package guards_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"switchboard/chat"
	"switchboard/config"
	"switchboard/guards"
)

// rulesPack is a pack with one tool of each effect; POLICY stands for the policy's own lines.
const rulesPack = `
-- bot.yaml --
pack: 1
name: desk
models: {fast: {use: openai/gpt-4o-mini}}
router: {model: fast}
people: {admins: [U0ANA], finance: [U0BOB], bosses: [U0CEO]}
-- assistants/desk.yaml --
about: The desk.
examples: [a thing]
model: fast
rounds: 4
tools: [rows.get, rows.find, rows.set, rows.note, rows.pay, mail.send]
open_to: [admins]
instructions: Work.
-- tools/rows.yaml --
server: {base: {env: ROWS_URL}}
tools:
  - {name: rows.get, about: Read., effect: none, get: /rows, args: {id: {type: integer}}}
  - {name: rows.find, about: Search., effect: none, untrusted: true, get: /find, args: {where: {type: string, target: true}, q: {type: string}}, optional: [q]}
  - {name: rows.set, about: Write., effect: write, post: /rows, args: {id: {type: integer}}}
  - {name: rows.note, about: Note., effect: write, post: /note, args: {to: {type: string, target: true}, text: {type: string}, more: {type: array, items: {type: object, properties: {k: {type: string}}}}}, optional: [to, text, more]}
  - {name: rows.pay, about: Pay., effect: irreversible, post: /pay, args: {id: {type: integer}}}
-- tools/mail.yaml --
server: {base: {env: ROWS_URL}}
tools:
  - {name: mail.send, about: Send., effect: irreversible, post: /send, args: {to: {type: string, target: true}, text: {type: string}}}
-- policy.yaml --
POLICY
`

func loaded(tb testing.TB, policy string) *config.Pack {
	tb.Helper()
	files := fstest.MapFS{}
	for _, part := range strings.Split("\n"+strings.Replace(rulesPack, "POLICY", policy, 1), "\n-- ")[1:] {
		name, body, _ := strings.Cut(part, " --\n")
		files[name] = &fstest.MapFile{Data: []byte(body + "\n")}
	}
	pack, err := config.Load(files, config.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return pack
}

// asked is a call of a tool by Ana in the first pack.
func asked(p *config.Pack, tool string, args map[string]any) guards.Asked {
	return guards.Asked{
		Tool: p.Tool(tool), Args: args, Actor: chat.Person{ID: "U0ANA", Kind: chat.Member}, Channel: chat.Channel{ID: "C0FRONT", Visibility: chat.Public},
		Scope: map[string]string{}, Now: time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC),
	}
}

func judge(p *config.Pack, a guards.Asked) guards.Verdict {
	return guards.Policy{{Rules: p.Policy, Groups: p.Groups(a.Actor)}}.Judge(a)
}

func deciders(v guards.Verdict) []string {
	var out []string
	for _, n := range v.Needs {
		out = append(out, strings.Join(n.By, "+"))
	}
	slices.Sort(out)
	return out
}

// The strictest of all rules that match wins, and a call that several rules ask about is one decision that names them all.
func TestM1_TheStrictestRuleWins(t *testing.T) {
	t.Parallel()
	const rules = `rules:
  - {tools: [rows.pay], verdict: allow}
  - {tools: [rows.pay], when: args.id > 50, verdict: ask, why: Above 50., approve: {by: [finance], within: 4h}}
  - {tools: [rows.*], when: args.id > 70, verdict: ask, why: Above 70., approve: {by: [bosses], within: 2h}}
  - {tools: [rows.pay], when: args.id > 90, verdict: deny, why: "${ args.id } is too much."}
`
	p := loaded(t, strings.Replace(rules, "[rows.*]", "[rows.pay, rows.set]", 1))
	for id, want := range map[int64]string{50: "allow ", 51: "ask finance", 70: "ask finance", 71: "ask bosses finance", 90: "ask bosses finance", 91: "deny "} {
		v := judge(p, asked(p, "rows.pay", map[string]any{"id": id}))
		if got := string(v.Say) + " " + strings.Join(deciders(v), " "); got != want {
			t.Errorf("pay %d: %s, want %s", id, got, want)
		}
		if v.Say == guards.Deny && (v.Why != "91 is too much." || !strings.HasPrefix(v.Rule, "policy.yaml:")) {
			t.Errorf("pay %d: denied with %q by %q", id, v.Why, v.Rule)
		}
		if v.Say == guards.Ask && (!strings.HasPrefix(v.Rule, "policy.yaml:") || v.Why == "" || v.Needs[0].Within != 4*time.Hour) {
			t.Errorf("pay %d: asked with %+v", id, v)
		}
	}
	for tool, want := range map[string]guards.Say{"rows.get": guards.Allow, "rows.set": guards.Allow, "mail.send": guards.Ask} {
		v := judge(p, asked(p, tool, map[string]any{"id": int64(1), "to": "x", "text": "y"}))
		if v.Say != want || want == guards.Ask && (deciders(v)[0] != config.Requester || v.Needs[0].Within != config.DefaultWithin) {
			t.Errorf("%s, which no rule names: %+v, want %s", tool, v, want)
		}
	}
}

func TestM1_DefaultsHoldWhereNoRuleMatches(t *testing.T) {
	t.Parallel()
	p := loaded(t, "default: {none: deny, write: ask, irreversible: deny}\napprove: {by: [finance], within: 8h, in: C0FINANCE, four_eyes: true}\nrules:\n"+
		"  - {tools: [rows.get, rows.pay], when: args.id == 1, verdict: allow}\n")
	for call, want := range map[string]guards.Say{"rows.get 1": guards.Allow, "rows.get 2": guards.Deny, "rows.pay 1": guards.Allow, "rows.pay 2": guards.Deny, "rows.set 1": guards.Ask} {
		tool, id, _ := strings.Cut(call, " ")
		v := judge(p, asked(p, tool, map[string]any{"id": int64(id[0] - '0')}))
		if v.Say != want {
			t.Errorf("%s: %+v, want %s", call, v, want)
		}
		if want == guards.Deny && !strings.Contains(v.Why, tool) {
			t.Errorf("%s: denied with %q", call, v.Why)
		}
		if n := v.Needs; want == guards.Ask && (len(n) != 1 || n[0].By[0] != "finance" || n[0].Within != 8*time.Hour || n[0].In != "C0FINANCE" || !n[0].FourEyes) {
			t.Errorf("%s: asks %+v", call, n)
		}
	}
}

// What a rule says of those who decide goes before what the policy says, one by one.
func TestM5_ARulesOwnDecidersGoBeforeThePolicys(t *testing.T) {
	t.Parallel()
	p := loaded(t, `approve: {by: [finance], within: 8h, in: C0FINANCE, four_eyes: true}
rules:
  - {tools: [rows.pay], when: args.id == 1, verdict: ask, why: W., approve: {by: [bosses]}}
  - {tools: [rows.pay], when: args.id == 2, verdict: ask, why: W., approve: {within: 1h}}
  - {tools: [rows.pay], when: args.id == 3, verdict: ask, why: W., approve: {in: C0BOSSES, four_eyes: false}}
  - {tools: [rows.pay], when: args.id == 4, verdict: ask, why: W.}
`)
	type want struct {
		by     string
		within time.Duration
		in     string
		four   bool
	}
	for id, w := range map[int64]want{
		1: {"bosses", 8 * time.Hour, "C0FINANCE", false}, 2: {"finance", time.Hour, "C0FINANCE", true},
		3: {"finance", 8 * time.Hour, "C0BOSSES", true}, 4: {"finance", 8 * time.Hour, "C0FINANCE", true},
	} {
		v := judge(p, asked(p, "rows.pay", map[string]any{"id": id}))
		if n := v.Needs[0]; len(v.Needs) != 1 || (want{n.By[0], n.Within, n.In, n.FourEyes}) != w {
			t.Errorf("pay %d: %+v, want %+v", id, n, w)
		}
	}
}

// A rule may ask for four eyes where the policy names who decides.
func TestM5_ARuleAsksForFourEyesOfThePolicysDeciders(t *testing.T) {
	t.Parallel()
	p := loaded(t, "approve: {by: [finance]}\nrules:\n  - {tools: [rows.pay], verdict: ask, why: W., approve: {four_eyes: true}}\n")
	v := judge(p, asked(p, "rows.pay", map[string]any{"id": int64(1)}))
	if n := v.Needs; len(n) != 1 || !n[0].FourEyes || n[0].By[0] != "finance" {
		t.Errorf("needs %+v", n)
	}
}

// A rule that cannot be evaluated holds back and never lets through.
func TestM1_ABrokenRuleNeverLetsThrough(t *testing.T) {
	t.Parallel()
	args := map[string]any{"more": []any{}}
	for verdict, want := range map[string]guards.Say{"allow": guards.Ask, "ask": guards.Ask, "deny": guards.Deny} {
		p := loaded(t, "default: {write: ask}\nrules:\n  - {tools: [rows.note], when: 'args.more[3].k == \"x\"', verdict: "+verdict+map[bool]string{true: "", false: ", why: W."}[verdict == "allow"]+"}\n")
		v := judge(p, asked(p, "rows.note", args))
		if v.Say != want || verdict != "allow" && !strings.Contains(v.Why, "could not be evaluated") {
			t.Errorf("%s: %+v, want %s", verdict, v, want)
		}
		if byDefault := verdict == "allow"; byDefault != strings.HasPrefix(v.Why, "No rule allows") {
			t.Errorf("%s: because %q", verdict, v.Why)
		}
	}
}

// Of the version that a run is pinned to and the active one, the stricter wins, and every reason of both must be met.
func TestD5_TheStricterVersionWins(t *testing.T) {
	t.Parallel()
	allow := "rules:\n  - {tools: [rows.pay], verdict: allow}\n"
	ask := "rules:\n  - {tools: [rows.pay], verdict: ask, why: W., approve: {by: [finance]}}\n"
	other := "rules:\n  - {tools: [rows.pay], verdict: ask, why: W., approve: {by: [bosses]}}\n"
	deny := "rules:\n  - {tools: [rows.pay], verdict: deny, why: Not any more.}\n"
	for name, c := range map[string]struct {
		pinned, active string
		want           string
	}{
		"both allow":                {allow, allow, "allow "},
		"tightened to deny":         {allow, deny, "deny "},
		"pinned denies":             {deny, allow, "deny "},
		"tightened to ask":          {allow, ask, "ask finance"},
		"loosened":                  {ask, allow, "ask finance"},
		"the same":                  {ask, ask, "ask finance"},
		"others decide":             {ask, other, "ask bosses finance"},
		"the default's deciders":    {"approve: {by: [requester]}\n", "approve: {by: [finance]}\n", "ask finance requester"},
		"the default's, four eyes":  {"approve: {by: [finance]}\n", "approve: {by: [finance], four_eyes: true}\n", "ask " + strings.Repeat(" finance", 2)[1:]},
		"the same in another order": {"approve: {by: [finance, bosses]}\n", "approve: {by: [bosses, finance]}\n", "ask finance+bosses"},
	} {
		a, b := loaded(t, c.pinned), loaded(t, c.active)
		v := guards.Policy{{Rules: a.Policy}, {Rules: b.Policy}}.Judge(asked(a, "rows.pay", map[string]any{"id": int64(1)}))
		if got := string(v.Say) + " " + strings.Join(deciders(v), " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A rule knows the person by the groups of its own version.
func TestD5_GroupsAreThoseOfTheRulesVersion(t *testing.T) {
	t.Parallel()
	p := loaded(t, "rules:\n  - {tools: [rows.set], when: '\"bosses\" in actor.groups', verdict: deny, why: Not for bosses.}\n")
	a := asked(p, "rows.set", map[string]any{"id": int64(1)})
	for name, c := range map[string]struct {
		policy guards.Policy
		want   guards.Say
	}{
		"nowhere": {guards.Policy{{Rules: p.Policy}, {Rules: p.Policy, Groups: []string{"finance"}}}, guards.Allow},
		"pinned":  {guards.Policy{{Rules: p.Policy, Groups: []string{"bosses"}}, {Rules: p.Policy}}, guards.Deny},
		"active":  {guards.Policy{{Rules: p.Policy}, {Rules: p.Policy, Groups: []string{"bosses"}}}, guards.Deny},
	} {
		if v := c.policy.Judge(a); v.Say != c.want {
			t.Errorf("%s: %+v, want %s", name, v, c.want)
		}
	}
}

// A guest cannot be the one who decides, so where nobody else is named nothing waits in vain.
func TestM5_NobodyWaitsForAGuestsOwnWord(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]guards.Say{"default: {none: allow}\n": guards.Deny, "approve: {by: [finance]}\n": guards.Ask, "approve: {by: [requester, finance]}\n": guards.Ask} {
		p := loaded(t, policy)
		for _, kind := range []chat.Kind{chat.Member, chat.Guest, chat.External, ""} {
			a := asked(p, "rows.pay", map[string]any{"id": int64(1)})
			a.Actor.Kind = kind
			should := want
			if kind == chat.Member {
				should = guards.Ask
			}
			if v := judge(p, a); v.Say != should {
				t.Errorf("%q by %q: %+v, want %s", policy, kind, v, should)
			}
		}
	}
}

// What rules may look at is what the runtime knows, and nothing of it is missing.
func TestM1_RulesSeeWhatTheRuntimeKnows(t *testing.T) {
	t.Parallel()
	for when, change := range map[string]func(*guards.Asked){
		`actor.id == "U0TOM"`:                     func(a *guards.Asked) { a.Actor.ID = "U0TOM" },
		`actor.kind == "guest"`:                   func(a *guards.Asked) { a.Actor.Kind = chat.Guest },
		`channel.id == "C0SIDE"`:                  func(a *guards.Asked) { a.Channel.ID = "C0SIDE" },
		`channel.visibility == "private"`:         func(a *guards.Asked) { a.Channel.Visibility = chat.Private },
		`now > timestamp("2026-05-05T00:00:00Z")`: func(a *guards.Asked) { a.Now = a.Now.AddDate(0, 0, 2) },
		`taint`:            func(a *guards.Asked) { a.Taint.Sources = []string{"a file"} },
		`done("rows.get")`: func(a *guards.Asked) { a.Done = []string{"rows.get"} },
		`args.id == 7`:     func(a *guards.Asked) { a.Args["id"] = int64(7) },
	} {
		p := loaded(t, "rules:\n  - {tools: [rows.set], when: '"+when+"', verdict: deny, why: W.}\n")
		a := asked(p, "rows.set", map[string]any{"id": int64(1)})
		if v := judge(p, a); v.Say != guards.Allow {
			t.Errorf("%s does not hold yet: %+v", when, v)
		}
		change(&a)
		if v := judge(p, a); v.Say != guards.Deny || v.Why != "W." {
			t.Errorf("%s holds: %+v", when, v)
		}
	}
}
