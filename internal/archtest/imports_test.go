package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// root is the folder of the module, seen from here.
const root = "../.."

func TestPackagesStandWhereTheMapSays(t *testing.T) {
	t.Parallel()
	h := readMap(t)
	for _, fault := range h.faults(listPackages(t)) {
		t.Error(fault)
	}
}

func TestMapFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	const text = `
| package | lives there | must not know |
| --- | --- | --- |
| ¬cmd/bot¬ | x | y |
| ¬turn¬ | x | y |
| ¬loop¬ | x | no ¬store¬ |
| ¬store¬, ¬store/sqlite¬ | x | y |
| ¬chat¬ | x | y |

| import | only in | because |
| --- | --- | --- |
| ¬example.com/db¬ | ¬store/sqlite¬ | z |
| ¬store/sqlite¬ | ¬cmd/bot¬ | z |
| ¬examples¬ | ¬cmd/bot¬ | z |
`
	h, err := readHouse(strings.ReplaceAll(text, "¬", "`"))
	if err != nil {
		t.Fatal(err)
	}
	sound := func() []pkg {
		return []pkg{
			{path: "cmd/bot", ours: []string{"turn", "store/sqlite", "examples/shop"}},
			{path: "turn", ours: []string{"loop", "store", "chat"}, tests: []string{"turn", "store/sqlite", "store/storetest", "examples/shop"}},
			{path: "loop", ours: []string{"chat"}},
			{path: "store"},
			{path: "store/sqlite", ours: []string{"store"}, other: []string{"example.com/db/v2"}, tests: []string{"store/storetest"}},
			{path: "store/storetest", ours: []string{"store"}, other: []string{"testing"}},
			{path: "chat"},
			{path: "examples/shop", tests: []string{"turn"}},
			{path: "internal/archtest", tests: []string{"chat"}},
		}
	}
	if diff := cmp.Diff([]string(nil), h.faults(sound())); diff != "" {
		t.Fatalf("a sound house has faults (-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		name string
		at   string
		bend func(*pkg)
		want string
	}{
		{"up", "chat", func(p *pkg) { p.ours = []string{"store"} }, "chat: imports store, which does not stand below it"},
		{"up in a test", "loop", func(p *pkg) { p.tests = []string{"turn"} }, "loop: its tests import turn, which does not stand below it"},
		{"up in an exam", "store/storetest", func(p *pkg) { p.ours = []string{"turn"} }, "store/storetest: imports turn, which does not stand below it"},
		{"must not know", "loop", func(p *pkg) { p.ours = []string{"store"} }, "loop: imports store, which it must not know"},
		{"a test package in code", "turn", func(p *pkg) { p.ours = []string{"store/storetest"} }, "turn: imports store/storetest, which is for tests only"},
		{"fenced module", "turn", func(p *pkg) { p.other = []string{"example.com/db"} }, "turn: imports example.com/db, which is kept to store/sqlite"},
		{"fenced package", "turn", func(p *pkg) { p.ours = []string{"store/sqlite"} }, "turn: imports store/sqlite, which is kept to cmd/bot"},
		{"example in code", "turn", func(p *pkg) { p.ours = []string{"examples/shop"} }, "turn: imports examples/shop, which is kept to cmd/bot"},
		{"example that knows us", "examples/shop", func(p *pkg) { p.ours = []string{"chat"} }, "examples/shop: imports chat, but an example knows nothing of the house"},
		{"no such package", "loop", func(p *pkg) { p.path = "loops/looptest" }, "loop: stands in ARCHITECTURE.md, but there is no such package"},
		{"not on the map", "internal/archtest", func(p *pkg) { p.path = "plans" }, "plans: stands in no row of ARCHITECTURE.md; add it, or put its code where it belongs"},
		{"leftovers", "store/storetest", func(p *pkg) { p.path = "store/utils/storetest" }, `store/utils/storetest: "utils" says nothing of what lives there; name it after its purpose`},
		{"nothing like an exam's name", "store", func(p *pkg) { p.ours = []string{"store/sqlite/atest"} }, "store: imports store/sqlite/atest, which is for tests only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pkgs := sound()
			at := slices.IndexFunc(pkgs, func(p pkg) bool { return p.path == c.at })
			c.bend(&pkgs[at])
			if got := h.faults(pkgs); !slices.Contains(got, c.want) {
				t.Errorf("want the fault %q, got %q", c.want, got)
			}
		})
	}
}

func TestBrokenMapsAreRefused(t *testing.T) {
	t.Parallel()
	good, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"no packages":         {"| package | lives there |", "| packages | lives there |"},
		"no fences":           {"| import | only in |", "| import | place |"},
		"a row without names": {"| `loop` |", "| loop |"},
		"a name twice":        {"| `loop` |", "| `loop`, `chat` |"},
		"must not know above": {"no `store`", "no `cmd/bot`"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := strings.Replace(string(good), change[0], change[1], 1)
			if bad == string(good) {
				t.Fatalf("the map holds no %q to break", change[0])
			}
			if _, err := readHouse(bad); err == nil {
				t.Error("the map was read without complaint")
			}
		})
	}
}

// TestLintHoldsTheFences keeps the lint's copy of the fences complete, so that an editor complains before this test does.
func TestLintHoldsTheFences(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range readMap(t).fences {
		if strings.Contains(f.what, ".") && !bytes.Contains(rules, []byte("{pkg: "+f.what)) {
			t.Errorf("%s is fenced in ARCHITECTURE.md, but no depguard rule of .golangci.yml denies it", f.what)
		}
	}
}

func readMap(t *testing.T) house {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := readHouse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// listPackages asks the go command for the module's packages, those that only a soak run builds included.
func listPackages(t *testing.T) []pkg {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", "list", "-tags", "soak",
		"-json=ImportPath,Imports,TestImports,XTestImports,Module", "./...")
	cmd.Dir, cmd.Stderr = root, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the packages: %v\n%s", err, stderr.String())
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var l struct {
			ImportPath                         string
			Imports, TestImports, XTestImports []string
			Module                             struct{ Path string }
		}
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("read the list of packages: %v", err)
		}
		inside := func(s string) (string, bool) { return strings.CutPrefix(s, l.Module.Path+"/") }
		p := pkg{}
		p.path, _ = inside(l.ImportPath)
		for _, to := range l.Imports {
			if ours, ok := inside(to); ok {
				p.ours = append(p.ours, ours)
			} else {
				p.other = append(p.other, to)
			}
		}
		for _, to := range slices.Concat(l.TestImports, l.XTestImports) {
			if ours, ok := inside(to); ok {
				p.tests = append(p.tests, ours)
			} else {
				p.other = append(p.other, to)
			}
		}
		pkgs = append(pkgs, p)
	}
	if len(pkgs) == 0 {
		t.Fatal("the go command lists no package")
	}
	return pkgs
}
