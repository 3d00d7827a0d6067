package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"switchboard/chat"

	"github.com/google/go-cmp/cmp"
)

func good(t *testing.T) *Pack {
	t.Helper()
	p, err := Load(os.DirFS("testdata/good"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLoadGivesWhatTheFilesSay(t *testing.T) {
	t.Parallel()
	p := good(t)
	m := p.Model("fast")
	if m == nil || m.Provider != "openai" || m.ID != "gpt-4o-mini" || m.Output != 900 || *m.Heat != 0.2 {
		t.Errorf("model: %+v", m)
	}
	if diff := cmp.Diff(&Price{Input: 150_000, Cached: 75_000, Output: 600_000}, m.Price); diff != "" {
		t.Errorf("price in picodollars a token (-want +got):\n%s", diff)
	}
	if spare := p.Model("spare"); spare.Price.Cached != spare.Price.Input {
		t.Errorf("without a price of its own, cached input costs %d, want the price of input", spare.Price.Cached)
	}
	if diff := cmp.Diff(Limits{Run: RunLimits{Tokens: 50_000, Money: 200_000_000_000, Time: 90 * time.Second, Calls: 30}, PersonDay: 2_500_000_000_000}, p.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(p.Limits.Run, p.Assistant("help").Limits); diff != "" {
		t.Errorf("an assistant without limits has the bot's (-want +got):\n%s", diff)
	}
	if got := p.Assistant("orders").Limits; got != (RunLimits{Tokens: 20_000, Money: 50_000_000_000, Time: time.Minute, Calls: 12}) {
		t.Errorf("an assistant's own limits: %+v", got)
	}
	refund, list, note := p.Tool("orders.refund"), p.Tool("orders.list"), p.Tool("orders.note")
	if refund.Attempts != 3 || list.Attempts != 2 || note.Attempts != 1 {
		t.Errorf("attempts: %d with a key, %d of a read, %d of an effect without a key", refund.Attempts, list.Attempts, note.Attempts)
	}
	if diff := cmp.Diff(map[string]string{"org": "org", "desk": "desk"}, refund.Bind); diff != "" {
		t.Errorf("bind (-want +got):\n%s", diff)
	}
	if h := refund.HTTP; h.Method != "POST" || h.Path != "/orders/{order}/refunds" || h.Base.Env != "SHOP_URL" || h.Bearer.Env != "SHOP_TOKEN" {
		t.Errorf("request: %+v", h)
	}
	if p.Assistant("nobody") != nil || p.Tool("no.tool") != nil || p.Model("none") != nil {
		t.Error("a name that does not exist gives something")
	}
	if p.Tool("docs.fetch") == nil || p.Tool("docs.fetch").HTTP != nil {
		t.Error("the built-in tools are missing")
	}
	if want := (Doc{Name: "help/waivers", Title: "Waivers", Text: "# Waivers\n\nNone yet.\n"}); !slices.Contains(p.Docs, want) {
		t.Errorf("documents: %+v", p.Docs)
	}
}

func TestRulesAreTypedForEachTool(t *testing.T) {
	t.Parallel()
	p := good(t)
	rule := p.Policy.Rules[2] // orders.refund and orders.note
	vars := map[string]any{
		"args": map[string]any{"order": "A-1", "text": "x"}, "tool": "orders.note", "effect": "write", "now": time.Unix(0, 0),
		"actor":   map[string]any{"id": "U1", "kind": "member", "groups": []string{"admins"}},
		"channel": map[string]any{"id": "C1", "visibility": "public"}, "scope": map[string]string{"org": "org_7"},
	}
	for _, c := range []struct {
		scope map[string]string
		want  bool
		fails bool
	}{{map[string]string{"org": "org_7"}, false, false}, {map[string]string{"org": "org_9"}, true, false}, {nil, false, true}} {
		vars["scope"] = c.scope
		got, err := rule.When.Holds(vars)
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("scope %v: %v, %v; want %v, failing: %v", c.scope, got, err, c.want, c.fails)
		}
	}
	why, err := p.Policy.Rules[1].Why.Text(map[string]any{"args": map[string]any{"order": "A-1", "amount": int64(6000)}})
	if err != nil || why != "Above 50 euros finance refunds; 6000 cents is more." {
		t.Errorf("why: %q, %v", why, err)
	}
	if p.Policy.Of(Write) != Deny || p.Policy.Of(NoEffect) != Allow {
		t.Errorf("defaults: %v", p.Policy.Default)
	}
}

func TestRehearsalsFlow(t *testing.T) {
	t.Parallel()
	r := good(t).Rehearsals[1]
	if r.As != "U0ANA" || r.In != "C0FRONT" || r.At.UTC().Hour() != 8 {
		t.Errorf("rehearsal: %+v", r)
	}
	vars := map[string]any{"calls": []any{map[string]any{
		"tool": "orders.get", "args": map[string]any{"order": "A-1001"}, "result": map[string]any{"paid": int64(8000)}, "outcome": "ok",
	}}}
	args, err := r.Steps[3].Calls[0].Args.Eval(vars)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any(map[string]any{"order": "A-1001", "amount": int64(8000)}), args); diff != "" {
		t.Errorf("whole expressions keep their type (-want +got):\n%s", diff)
	}
	text, err := r.Steps[3].Calls[1].Args.Eval(vars)
	if err != nil || text.(map[string]any)["text"] != "Refunded 8000 cents." {
		t.Errorf("text: %v, %v", text, err)
	}
	byModel := 0
	for _, s := range r.Steps {
		if s.ByModel() {
			byModel++
		}
	}
	if byModel != 4 {
		t.Errorf("%d answers of the model, want route, call, calls, reply", byModel)
	}
}

func TestScopeAndGroups(t *testing.T) {
	t.Parallel()
	p := good(t)
	for _, c := range []struct {
		channel, person string
		want            map[string]string
	}{
		{"C0FRONT", "U0BOB", map[string]string{"org": "org_7"}},
		{"C0NORTH", "U0ANA", map[string]string{"org": "org_9", "desk": "desk-1"}},
		{"D0ANA", "U0ANA", map[string]string{"org": "org_7", "desk": "desk-1"}},
		{"D0BOB", "U0BOB", map[string]string{}},
	} {
		if diff := cmp.Diff(c.want, p.ScopeOf(c.channel, c.person)); diff != "" {
			t.Errorf("%s in %s (-want +got):\n%s", c.person, c.channel, diff)
		}
	}
	for _, c := range []struct {
		person chat.Person
		want   []string
	}{
		{chat.Person{ID: "U0ANA"}, []string{"admins"}},
		{chat.Person{ID: "U0EVE", Groups: []string{"S0ADM"}}, []string{"admins"}},
		{chat.Person{ID: "U0EVE"}, nil},
	} {
		if diff := cmp.Diff(c.want, p.Groups(c.person)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.person, diff)
		}
	}
}

func TestD5_AStoredVersionLoadsAgain(t *testing.T) {
	t.Parallel()
	p := good(t)
	if err := fstest.TestFS(p.FS(), "bot.yaml", "docs/help/waivers.md"); err != nil {
		t.Fatal(err)
	}
	again, err := Load(p.FS(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if again.Digest != p.Digest || !strings.HasPrefix(p.Digest, "sha256:") {
		t.Errorf("digests %s and %s", p.Digest, again.Digest)
	}
	if digest([]File{{"ab", []byte("c")}}) == digest([]File{{"a", []byte("bc")}}) {
		t.Error("moving a border keeps the digest")
	}
}

func TestReferencesAreResolvedOrListed(t *testing.T) {
	t.Parallel()
	p := good(t)
	var names []string
	for _, r := range p.Refs() {
		names = append(names, r.String())
	}
	want := []string{"variable MODELS_URL", "file /run/secrets/models", "variable SHOP_URL", "variable SHOP_URL", "variable SHOP_TOKEN"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
	env := func(name string) (string, bool) { return "https://x", name == "SHOP_URL" }
	_, err := Load(fsOf(plainPack()), Options{Env: env})
	if err != nil {
		t.Errorf("all is there, and still: %v", err)
	}
	_, err = Load(os.DirFS("testdata/good"), Options{Env: env})
	var ps Problems
	if !errors.As(err, &ps) || len(ps) != 3 || ps[0].Place != (Place{"bot.yaml", 6, 11}) || ps[0].Mend == "" {
		t.Errorf("missing references: %v", err)
	}
}

func TestReadTheWholeFolderOrSaySo(t *testing.T) {
	t.Parallel()
	if _, err := Load(os.DirFS("testdata/nowhere"), Options{}); err == nil {
		t.Error("a folder that does not exist is accepted")
	}
	files := plainPack()
	files["docs/big.md"] = make([]byte, maxFile+1)
	if _, err := Load(fsOf(files), Options{}); err == nil || !strings.Contains(err.Error(), "docs/big.md:1:1: the file is larger than 1 MiB") {
		t.Errorf("a large file: %v", err)
	}
	files = plainPack()
	files["bot.yaml"] = append([]byte("name: \xff\n"), files["bot.yaml"]...)
	if _, err := Load(fsOf(files), Options{}); err == nil || !strings.HasPrefix(err.Error(), "bot.yaml:1:1: the line is not valid UTF-8") {
		t.Errorf("a file that is no UTF-8: %v", err)
	}
}

// TestDocumentsAreText refuses what a search could never find or a model never read, and says nothing else of it.
func TestDocumentsAreText(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		"":                "docs/a.md:1:1: the document is empty (write its text, or delete the file)",
		" \n\t\n":         "docs/a.md:1:1: the document is empty (write its text, or delete the file)",
		"\uFEFF\n":        "docs/a.md:1:1: the document is empty (write its text, or delete the file)",
		"# A\n\nb\xff\n":  "docs/a.md:1:1: the document is not valid UTF-8 (save it as UTF-8 text)",
		"# A\n\nb\x00c\n": "docs/a.md:1:1: the document holds a zero byte (save it as text)",
	} {
		files := plainPack()
		files["docs/a.md"] = []byte(data)
		files["assistants/orders.yaml"] = append(files["assistants/orders.yaml"], "docs: [a]\n"...)
		if _, err := Load(fsOf(files), Options{}); err == nil || err.Error() != want {
			t.Errorf("%q: %v", data, err)
		}
	}
	files := plainPack()
	files["docs/a.txt"] = []byte("\uFEFF# Hours\n")
	p, err := Load(fsOf(files), Options{})
	if err != nil || p.Docs[0] != (Doc{"a", "Hours", "# Hours\n"}) {
		t.Errorf("a document with a byte order mark: %+v, %v", p, err)
	}
}

func TestExampleServersAreThoseCompiledIn(t *testing.T) {
	t.Parallel()
	const at = "bot.yaml:7:10: unknown example server "
	for _, c := range []struct {
		name  string
		known []string
		want  string
	}{
		{"backofice", nil, ""},
		{"backoffice", []string{"backoffice"}, ""},
		{"backofice", []string{"till", "backoffice"}, at + `"backofice" (did you mean "backoffice"?)`},
		{"other", []string{"till", "backoffice"}, at + `"other" (known: backoffice, till)`},
		{"other", []string{}, at + `"other" (none is compiled in; leave the key out)`},
	} {
		files := plainPack()
		files["bot.yaml"] = append(files["bot.yaml"], "example: "+c.name+"\n"...)
		_, err := Load(fsOf(files), Options{Examples: c.known})
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && got != c.want {
			t.Errorf("%s of %q:\n got %v\nwant %s", c.name, c.known, err, c.want)
		}
	}
}

// TestC1_AFolderWithoutBotIsOneProblem is what happens when a command is given the wrong folder.
func TestC1_AFolderWithoutBotIsOneProblem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		files map[string]string
		mend  string
	}{
		{map[string]string{"x.json": "{}", "a/b.log": "x", "docs/a.md": "", "bot.yaml/x": "x"}, "a pack is a folder with a bot.yaml; give its path"},
		{map[string]string{"bot.yml": "pack: 1"}, "rename bot.yml to bot.yaml"},
		{map[string]string{"bto.yaml": "pack: 1"}, "rename bto.yaml to bot.yaml"},
	} {
		files := map[string][]byte{}
		for name, data := range c.files {
			files[name] = []byte(data)
		}
		_, err := Load(fsOf(files), Options{})
		if want := "bot.yaml:1:1: bot.yaml is missing (" + c.mend + ")"; err == nil || err.Error() != want {
			t.Errorf("%v:\n got %v\nwant %s", c.files, err, want)
		}
	}
	files := plainPack()
	files["bot.yaml"] = append(files["bot.yaml"], make([]byte, maxFile)...)
	if _, err := Load(fsOf(files), Options{}); err == nil || err.Error() != "bot.yaml:1:1: the file is larger than 1 MiB (split it)" {
		t.Errorf("a large bot.yaml: %v", err)
	}
}

func TestM2_InstructionsArePlainText(t *testing.T) {
	t.Parallel()
	files := plainPack()
	files["assistants/orders.yaml"] = []byte(strings.Replace(string(files["assistants/orders.yaml"]), "Look it up first.", "Write $${ order } and $$$${x}.", 1))
	p, err := Load(fsOf(files), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Assistant("orders").Instructions; got != "Write ${ order } and $$${x}." {
		t.Errorf("instructions: %q", got)
	}
}

func TestDocPatterns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"**", "a/b/c", true},
		{"a/**", "a/b/c", true},
		{"a/**", "b/a", false},
		{"a/*", "a/b", true},
		{"a/*", "a/b/c", false},
		{"*", "a", true},
		{"*", "a/b", false},
		{"a", "a", true},
	} {
		if got := DocMatches(c.pattern, c.name); got != c.want {
			t.Errorf("%s fits %s: %v", c.pattern, c.name, got)
		}
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{{"How do I export waivers?", "how  do i EXPORT, waivers"}, {"Öffnungszeiten?", "öffnungszeiten"}} {
		if Fold(same[0]) != Fold(same[1]) {
			t.Errorf("%q and %q are told apart", same[0], same[1])
		}
	}
	if Fold("a b") == Fold("ab") || Fold("?!") == Fold("!!") {
		t.Error("different texts fold to one")
	}
}

func TestCompileThat(t *testing.T) {
	t.Parallel()
	p, err := CompileThat(`run.usd < 0.5 && calls.all(c, c.outcome != "denied") && reply != ""`)
	if err != nil {
		t.Fatal(err)
	}
	holds, err := p.Holds(map[string]any{
		"run": map[string]any{"usd": 0.25}, "calls": []any{map[string]any{"outcome": "ok"}}, "reply": "yes",
	})
	if !holds || err != nil {
		t.Errorf("%v, %v", holds, err)
	}
	for _, wrong := range []string{"run.ruonds > 1", "run.rounds", "1 +", ""} {
		if _, err := CompileThat(wrong); err == nil {
			t.Errorf("%q compiles", wrong)
		}
	}
}

// manyAssistants is a pack of n assistants with three tools each, a rule and a rehearsal.
func manyAssistants(n int) map[string][]byte {
	files := plainPack()
	for i := range n {
		files[fmt.Sprintf("assistants/a%d.yaml", i)] = fmt.Appendf(nil, "about: Number %d.\nexamples:\n  - ask number %d\n  - another\nmodel: fast\nrounds: 4\ntools: [orders.get, orders.refund, docs.search]\nopen_to: [admins]\ninstructions: |\n  Look it up first.\n  Then answer.\n", i, i)
		files[fmt.Sprintf("rehearsals/r%d.yaml", i)] = fmt.Appendf(nil, "- name: case %d\n  script:\n    - say: ask number %d\n    - route: {assistant: a%d, confidence: 0.9}\n    - call: {tool: orders.get, args: {order: A-%d}, why: look, expects: an order}\n    - reply: It is ${ calls[0].result.status }, number %d.\n    - expect: {that: run.rounds <= %d}\n", i, i, i, i, i, i%4+1)
	}
	var rules strings.Builder
	rules.WriteString("rules:\n")
	for i := range n {
		fmt.Fprintf(&rules, "  - {tools: [orders.refund], when: args.amount > %d, verdict: deny, why: \"Above %d.\"}\n", 1000+i, 1000+i)
	}
	files["policy.yaml"] = []byte(rules.String())
	return files
}

func TestManyAssistantsAreGood(t *testing.T) {
	t.Parallel()
	files := manyAssistants(20)
	p, err := Load(fsOf(files), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Assistants) != 21 || len(p.Policy.Rules) != 20 || p.Policy.Rules[3].When == nil {
		t.Errorf("%d assistants, %d rules", len(p.Assistants), len(p.Policy.Rules))
	}
}

// BenchmarkCheck500 is `bot check` of 500 assistants, 500 rehearsals and 500 rules; it should take less than a second.
func BenchmarkCheck500(b *testing.B) {
	fsys := fsOf(manyAssistants(500))
	for b.Loop() {
		if _, err := Load(fsys, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzLoad wants of any file: no panic, and either a pack or problems with a place and a mend.
func FuzzLoad(f *testing.F) {
	for name, data := range plainPack() {
		f.Add(name, data)
	}
	f.Add("policy.yaml", []byte("rules:\n  - {tools: [orders.*], when: args.x, verdict: deny, why: \"${ a }\"}\n"))
	f.Add("policy.yaml", []byte("approve: {by: [admins], within: 1d}\nrules:\n  - {tools: [orders.*], when: 'done(\"orders.get\") && taint', verdict: ask, why: x}\n"))
	f.Add("tools/orders.yaml", append(plainPack()["tools/orders.yaml"], "    facts: {a: {call: orders.get, args: {order: \"${ args.order }\"}}}\n    lookup: {call: orders.get, that: result.amount > 1}\n"...))
	f.Add("rehearsals/a.yaml", []byte("- name: x\n  script: [{say: a}, {reply: \"${ calls[0] }\"}]\n"))
	k, err := newKit()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		files := plainPack()
		if _, ok := files[name]; !ok && name != "policy.yaml" && name != "rehearsals/a.yaml" {
			name = "bot.yaml"
		}
		files[name] = data
		_, err := k.load(fsOf(files), Options{})
		var ps Problems
		if err != nil && !errors.As(err, &ps) {
			t.Fatalf("no problems, but %v", err)
		}
		for _, p := range ps {
			if p.Mend == "" || p.Msg == "" || p.Place.Line < 1 || p.Place.Col < 1 {
				t.Errorf("a problem without place or mend: %+v", p)
			}
		}
	})
}
