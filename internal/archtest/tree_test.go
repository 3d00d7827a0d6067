package archtest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// machine finds paths of one developer's machine. Addresses such as example.com/work/x are none.
var machine = regexp.MustCompile(`(^|[^\w.~}/-])/(work|root|tmp)/\S*`)

func TestNoPathsOfOneMachine(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, name := range files(t) {
		data, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // Another package's test has taken its file away since the walk.
		}
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(data, 0) >= 0 {
			continue
		}
		seen++
		for i, line := range strings.Split(string(data), "\n") {
			if m := machine.FindString(line); m != "" {
				t.Errorf("%s:%d: %q is a path of one machine", name, i+1, strings.TrimSpace(m))
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d files were looked at; the walk does not reach the tree", seen)
	}
}

func TestMachinePathsAreRecognised(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"/" + "work/main/x.go":         true,
		"see (/" + "root/go/bin)":      true,
		"sqlite:/" + "tmp/x.db":        true,
		"https://example.com/work/x":   false,
		"net/work/x, ./tmp/x, ~/work/": false,
		"${X}/work/ and a/root/b":      false,
	} {
		if got := machine.MatchString(text); got != want {
			t.Errorf("%q: path of one machine: %v, want %v", text, got, want)
		}
	}
}

// TestDependenciesHaveAReason holds the record of dependencies against go.mod: what is asked for directly has a reason
// there, and what has a reason is still asked for.
func TestDependenciesHaveAReason(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	record, err := os.ReadFile(filepath.Join(root, "docs", "decisions", "001-dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]bool{}
	for _, row := range slices.Concat(
		table(string(record), "module", "for", "why this one, and its limits"), table(string(record), "module", "for")) {
		for _, name := range codes(row[0]) {
			reasons[name] = true
		}
	}
	required := map[string]bool{}
	for line := range strings.Lines(string(mod)) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(fields) < 2 || !strings.HasPrefix(fields[1], "v") {
			continue
		}
		required[fields[0]] = true
		if !reasons[fields[0]] && !strings.Contains(line, "// indirect") {
			t.Errorf("go.mod requires %s, but docs/decisions/001-dependencies.md gives no reason for it", fields[0])
		}
	}
	for name := range reasons {
		if !required[name] {
			t.Errorf("docs/decisions/001-dependencies.md gives a reason for %s, which go.mod does not require", name)
		}
	}
}

// files lists what belongs to the project, by paths within it: no version control, nothing built, nothing installed.
func files(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if d.IsDir() && (slices.Contains([]string{".git", "node_modules", "rapid"}, d.Name()) || rel == "bin" || rel == ".bin") {
			return filepath.SkipDir
		}
		if d.Type().IsRegular() && !regexp.MustCompile(`\.(db|db-\w+|test|prof|out|lock)$`).MatchString(rel) {
			names = append(names, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
