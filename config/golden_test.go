package config

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write what the tests found as what they want")

// plainPack is a small good pack; a golden case replaces some of its files.
func plainPack() map[string][]byte {
	return map[string][]byte{
		"bot.yaml": []byte(`pack: 1
name: shop
models: {fast: {use: openai/gpt-4o-mini}}
router: {model: fast}
scope: {org: {from: channel, map: {C0FRONT: org_7}}}
people: {admins: [U0ANA]}
`),
		"assistants/orders.yaml": []byte(`about: Orders.
examples: [refund order A-1]
model: fast
rounds: 3
tools: [orders.get, orders.refund]
open_to: [admins]
instructions: Look it up first.
`),
		"tools/orders.yaml": []byte(`server: {base: {env: SHOP_URL}}
defaults: {bind: {org: scope.org}}
tools:
  - name: orders.get
    about: Read one order.
    effect: none
    get: /orders/{order}
    args: {order: {type: string}}
    result: {status: {enum: [open, paid]}, amount: {type: integer}}
  - name: orders.refund
    about: Refund one order.
    effect: write
    post: /refunds
    args: {order: {type: string}, amount: {type: integer, minimum: 1}, reason: {enum: [broken, late]}}
    optional: [reason]
`),
	}
}

// TestGolden holds the problems of wrong packs, word for word. Each case is a set of files over the plain pack; a file that
// holds the word "removed" alone is taken out.
func TestGolden(t *testing.T) {
	t.Parallel()
	cases, err := filepath.Glob("testdata/golden/*.txtar")
	if err != nil || len(cases) < 40 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, name := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files, want := plainPack(), ""
			for _, f := range a.Files {
				switch {
				case f.Name == "want":
					want = string(f.Data)
				case strings.TrimSpace(string(f.Data)) == "removed":
					delete(files, f.Name)
				default:
					files[f.Name] = f.Data
				}
			}
			got := "no problem\n"
			if _, err := Load(fsOf(files), Options{}); err != nil {
				got = err.Error() + "\n"
			}
			if *update {
				rewrite(t, name, a, got)
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s(-want +got):\n%s", a.Comment, diff)
			}
		})
	}
}

func rewrite(t *testing.T, name string, a *txtar.Archive, got string) {
	t.Helper()
	kept := a.Files[:0]
	for _, f := range a.Files {
		if f.Name != "want" {
			kept = append(kept, f)
		}
	}
	a.Files = append(kept, txtar.File{Name: "want", Data: []byte(got)})
	if err := os.WriteFile(name, txtar.Format(a), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestPlainPackIsGood keeps the golden cases honest: what they report comes from what they change.
func TestPlainPackIsGood(t *testing.T) {
	t.Parallel()
	if _, err := Load(fsOf(plainPack()), Options{}); err != nil {
		t.Fatal(err)
	}
}

// TestReference compares docs/pack.md with the tables; -update writes it.
func TestReference(t *testing.T) {
	t.Parallel()
	const name = "../docs/pack.md"
	got := Reference()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil { //nolint:gosec // a document of the repository
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("docs/pack.md is old, write it with -update (-want +got):\n%s", diff)
	}
}

// TestReferenceNamesEveryKey walks the good pack, which uses every key, and looks each up.
func TestReferenceNamesEveryKey(t *testing.T) {
	t.Parallel()
	text := Reference()
	for _, tab := range allTables() {
		for _, k := range tab.keys {
			if k.about == "" || k.example == "" || k.value.words() == "" {
				t.Errorf("%s, key %s: meaning, example or type is missing", tab.what, k.name)
			}
			if !strings.Contains(text, "| `"+k.name+"` |") {
				t.Errorf("docs/pack.md does not have the key %s of %s", k.name, tab.what)
			}
		}
	}
}

// allTables lists every table that the parser reads by.
func allTables() []*table {
	l := newLoader(&kit{builtins: Builtins()})
	seen := map[string]*table{}
	var visit func(t *table)
	visit = func(t *table) {
		if t == nil || seen[t.what] != nil {
			return
		}
		seen[t.what] = t
		for _, k := range t.keys {
			visit(k.value.sub)
		}
	}
	for _, t := range []*table{l.botTable(), l.assistantTable(&Assistant{}), l.toolFileTable(&toolFile{}), l.policyTable(&policyFile{}), l.playgroundTable(), l.rehearsalTable(&Rehearsal{})} {
		visit(t)
	}
	var out []*table
	for _, t := range seen {
		out = append(out, t)
	}
	return out
}

// TestGoodPackUsesEveryKey makes sure that the slips reach every key that a pack can have.
func TestGoodPackUsesEveryKey(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, data := range readPack(t, "testdata/good") {
		for _, line := range strings.FieldsFunc(string(data), func(r rune) bool { return strings.ContainsRune("{},\n", r) }) {
			key, _, _ := strings.Cut(strings.TrimLeft(line, "- "), ":")
			used[strings.TrimSpace(key)] = true
		}
	}
	except := map[string]bool{"ipv4": true, "minimum": false, "patch": true, "delete": true, "header": false, "value": true, "exclusiveMaximum": true}
	missing := map[string]bool{}
	for _, tab := range allTables() {
		for _, k := range tab.keys {
			if !used[k.name] && !except[k.name] {
				missing[k.name] = true
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("testdata/good does not use %v", sortedKeysOf(missing))
	}
}

func sortedKeysOf(m map[string]bool) []string {
	plain := map[string]any{}
	for k := range maps.Keys(m) {
		plain[k] = nil
	}
	return sortedKeys(plain)
}
