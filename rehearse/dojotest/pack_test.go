package dojotest

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"switchboard/config"
)

// files is a pack by the names of its files.
type files map[string]string

// edit changes a pack, as somebody would who leaves a marking out.
type edit func(t *testing.T, f files)

// packFiles reads the pack of the fixtures and writes it for the cast.
func packFiles(t *testing.T, c cast, edits ...edit) files {
	t.Helper()
	f := files{}
	root := os.DirFS("testdata/pack")
	err := fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, name)
		f[name] = c.recast(string(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range edits {
		e(t, f)
	}
	return f
}

func (f files) load(t *testing.T, env config.Environ) *config.Pack {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range f {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	p, err := config.Load(fsys, config.Options{Env: env})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// swap writes one text for another in every file of the tools, and fails where there was nothing to change.
func swap(old, with string) edit {
	return func(t *testing.T, f files) {
		t.Helper()
		changed := false
		for name, text := range f {
			if !strings.HasPrefix(name, "tools/") {
				continue
			}
			f[name] = strings.ReplaceAll(text, old, with)
			changed = changed || f[name] != text
		}
		if !changed {
			t.Fatalf("the pack has no %q to leave out", old)
		}
	}
}

// The rules, each left out.

func noIrreversible() edit { return swap("effect: irreversible", "effect: write") }
func noTargets() edit      { return swap("target: true", "target: false") }
func noTaint() edit        { return swap("untrusted: true", "untrusted: false") }

// hosts puts others on the list of hosts; none: there is no list.
func hosts(list ...string) edit {
	return func(t *testing.T, f files) {
		t.Helper()
		head, _, ok := strings.Cut(f["policy.yaml"], "hosts:\n")
		if !ok {
			t.Fatal("the policy has no list of hosts to replace")
		}
		if f["policy.yaml"] = head; len(list) > 0 {
			f["policy.yaml"] += "hosts: [" + strings.Join(list, ", ") + "]\n"
		}
	}
}

// attackersToo allows the attacker's hosts beside the team's.
func attackersToo(c cast) edit {
	list := []string{c.bait, c.drop, c.lookalike()}
	for _, h := range c.allowed() {
		list = append(list, *h)
	}
	return hosts(list...)
}

// lenient lets pass what cannot be taken back, as far as the policy has a say.
func lenient() edit {
	return func(t *testing.T, f files) {
		t.Helper()
		before := f["policy.yaml"]
		if f["policy.yaml"] = strings.Replace(before, "irreversible: ask", "irreversible: allow", 1); f["policy.yaml"] == before {
			t.Fatal("the policy says nothing of irreversible tools")
		}
	}
}

// policy adds rules to the pack's.
func policy(rules string) edit {
	return func(_ *testing.T, f files) { f["policy.yaml"] += rules }
}

// narrow gives every task an assistant of its own, with the tools that its solution uses and no others.
func narrow(needs [][]string) edit {
	return func(t *testing.T, f files) {
		t.Helper()
		head, _, _ := strings.Cut(f["assistants/slack-desk.yaml"], "tools:")
		_, tail, ok := strings.Cut(f["assistants/slack-desk.yaml"], "open_to:")
		if !ok {
			t.Fatal("the assistant is not written as it was")
		}
		delete(f, "assistants/slack-desk.yaml")
		used := map[string]bool{}
		for i, tools := range needs {
			f["assistants/"+narrowName(i)+".yaml"] = fmt.Sprintf("%stools: [%s]\nopen_to:%s", head, strings.Join(tools, ", "), tail)
			for _, name := range tools {
				used[name] = true
			}
		}
		var spare []string // a tool that nobody has would be a mistake in a pack
		for _, name := range toolNames() {
			if !used[name] {
				spare = append(spare, name)
			}
		}
		if len(spare) > 0 {
			f["assistants/spare.yaml"] = fmt.Sprintf("%stools: [%s]\nopen_to:%s", head, strings.Join(spare, ", "), tail)
		}
	}
}

func narrowName(task int) string { return fmt.Sprintf("desk-%d", task) }

func TestThePackNamesNobodyButSixHosts(t *testing.T) {
	t.Parallel()
	for _, c := range []cast{firstCast(), firstCast().shuffled(1)} {
		f := packFiles(t, c)
		var all strings.Builder
		for _, text := range f {
			all.WriteString(strings.ToLower(text) + "\n")
		}
		var allowed []string
		for _, h := range c.allowed() {
			allowed = append(allowed, *h)
			if n := strings.Count(all.String(), *h); n != 1 {
				t.Errorf("the pack names %s %d times, want once", *h, n)
			}
		}
		words := strings.FieldsFunc(all.String(), func(r rune) bool { return r != '-' && r != '.' && (r < 'a' || r > 'z') && (r < '0' || r > '9') })
		for _, name := range c.names() {
			if slices.Contains(words, strings.ToLower(name)) && !slices.Contains(allowed, name) {
				t.Errorf("the pack names %s", name)
			}
		}
	}
}
