package config

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"
)

// mutant is a pack with one slip in one file.
type mutant struct {
	kind string // what was done
	file string
	path string // of the node, for messages
	text []byte
	line int    // where the slip is
	last int    // the last line of a text of several
	name string // the name that was lost, where the slip takes a definition away or changes it
	at   string // file:line, as messages cite it
}

// slips is how densely the tests try slips: 1 is every one.
type slips struct {
	dir   string
	every int
}

// TestC1_OneSlipGivesOneProblem makes keys and values of good packs wrong in every way, and wants exactly one problem for
// each slip that is refused: on its line, with a mend. it tries a part of them; the soak tries all.
func TestC1_OneSlipGivesOneProblem(t *testing.T) {
	t.Parallel()
	for _, s := range []slips{{"testdata/good", 11}, {"../examples/club", 113}} {
		t.Run(filepath.Base(s.dir), func(t *testing.T) {
			t.Parallel()
			s.try(t)
		})
	}
}

func (s slips) try(t *testing.T) {
	t.Helper()
	k, err := newKit()
	if err != nil {
		t.Fatal(err)
	}
	files := readPack(t, s.dir)
	for name, data := range files {
		if strings.HasSuffix(name, ".yaml") {
			files[name] = encode(t, parse(t, data)) // the form that mutants have
		}
	}
	if _, err := k.load(fsOf(files), Options{}); err != nil {
		t.Fatalf("the pack itself is refused:\n%v", err)
	}
	seen, ran, total, refused := 0, 0, 0, map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for maker := range mutants(t, name, files[name]) {
			if seen++; seen%s.every != 0 {
				continue
			}
			m, ok := maker()
			if !ok {
				continue
			}
			ran++
			if refuses(t, k, files, m) {
				refused[m.kind]++
				total++
			}
		}
	}
	t.Logf("%d mutants, %d refused: %v", ran, total, refused)
	if ran < 200 || total < ran/2 || len(refused) != len(kinds()) {
		t.Errorf("only %d mutants, %d refused: the generator is broken", ran, total)
	}
}

// refuses loads a mutant and judges the problems.
func refuses(t *testing.T, k *kit, files map[string][]byte, m mutant) bool {
	t.Helper()
	good := files[m.file]
	files[m.file] = m.text
	defer func() { files[m.file] = good }()
	_, err := k.load(fsOf(files), Options{})
	if err == nil {
		return false
	}
	var ps Problems
	if !asProblems(err, &ps) {
		t.Errorf("%s of %s %s: %v", m.kind, m.file, m.path, err)
		return true
	}
	for _, p := range ps {
		if p.Mend == "" {
			t.Errorf("%s of %s %s: no mend: %s", m.kind, m.file, m.path, p)
		}
	}
	if !fair(ps, m) {
		t.Errorf("%s of %s %s (line %d):\n%v\n%s", m.kind, m.file, m.path, m.line, err, around(m))
	}
	return true
}

// fair says whether the problems are what a person wants to read after this slip.
func fair(ps Problems, m mutant) bool {
	if len(ps) == 1 && ps[0].Place.File == m.file && ps[0].Place.Line >= m.line && ps[0].Place.Line <= m.last {
		return true
	}
	text := ps.Error()
	switch {
	case len(ps) == 1 && strings.Contains(text, m.at+":"): // e.g. two rehearsals that became alike
		return true
	case m.name == "":
		return false
	case m.kind == "removed":
		// A definition is gone: each use of its name is reported, and nothing else.
		for _, p := range ps {
			if !strings.Contains(p.String(), fmt.Sprintf("%q", m.name)) {
				return false
			}
		}
		return true
	default:
		// A definition is called otherwise: one problem, which names both or stands at its only use.
		return len(ps) == 1 && (strings.Contains(text, m.at) || strings.Contains(text, fmt.Sprintf("%q", m.name)))
	}
}

func around(m mutant) string {
	lines := strings.Split(string(m.text), "\n")
	return "    " + lines[min(m.line, len(lines))-1]
}

func asProblems(err error, ps *Problems) bool {
	p, ok := err.(Problems) //nolint:errorlint // Load returns it bare
	*ps = p
	return ok
}

func readPack(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	p, err := Load(os.DirFS(dir), Options{})
	if err != nil {
		t.Fatalf("load %s:\n%v", dir, err)
	}
	files := map[string][]byte{}
	for _, f := range p.Files {
		files[f.Name] = f.Data
	}
	return files
}

func fsOf(files map[string][]byte) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, data := range files {
		fsys[name] = &fstest.MapFile{Data: data}
	}
	return fsys
}

func parse(t *testing.T, data []byte) *yaml.Node {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Content[0]
}

func encode(t *testing.T, n *yaml.Node) []byte {
	t.Helper()
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// kinds are the slips.
func kinds() []string {
	return []string{"misspelt", "retyped to a list", "retyped to a number", "retyped to keys", "emptied", "duplicated", "named as another", "removed"}
}

// mutants yields a maker of each slip in one file. A slip is made on a fresh copy of the tree, written out, and its line
// looked up in what was written.
func mutants(t *testing.T, file string, data []byte) func(yield func(func() (mutant, bool)) bool) {
	t.Helper()
	return func(yield func(func() (mutant, bool)) bool) {
		for _, at := range walk(parse(t, data), nil) {
			for _, kind := range kinds() {
				if !yield(func() (mutant, bool) {
					m, ok := slip(t, data, at, kind)
					m.file, m.at = file, fmt.Sprintf("%s:%d", file, m.line)
					return m, ok
				}) {
					return
				}
			}
		}
	}
}

// walk lists the paths to every key (even index) and value (odd index) of mappings, and to every item of lists.
func walk(n *yaml.Node, at []int) [][]int {
	var out [][]int
	for i, c := range n.Content {
		p := append(slices.Clone(at), i)
		out = append(out, p)
		out = append(out, walk(c, p)...)
	}
	return out
}

func follow(n *yaml.Node, at []int) (parent, node *yaml.Node) {
	for _, i := range at {
		parent, n = n, n.Content[i]
	}
	return parent, n
}

// slip makes one slip; ok is false where the kind does not apply.
func slip(t *testing.T, data []byte, at []int, kind string) (m mutant, ok bool) {
	t.Helper()
	root := parse(t, data)
	parent, n := follow(root, at)
	last := at[len(at)-1]
	isKey := parent.Kind == yaml.MappingNode && last%2 == 0
	m = mutant{kind: kind, path: spelt(root, at)}
	where := at
	switch kind {
	case "misspelt":
		if n.Kind != yaml.ScalarNode || len(n.Value) < 2 {
			return m, false
		}
		m.name = n.Value
		n.Value = misspell(n.Value)
	case "retyped to a list":
		if isKey || n.Kind == yaml.SequenceNode {
			return m, false
		}
		m.name = nameIn(n)
		*n = yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: []*yaml.Node{{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}}}
	case "retyped to a number":
		if isKey {
			return m, false
		}
		m.name = nameIn(n)
		*n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: "987654321"}
	case "retyped to keys":
		if isKey || n.Kind == yaml.MappingNode {
			return m, false
		}
		m.name = nameIn(n)
		*n = yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, Content: []*yaml.Node{
			{Kind: yaml.ScalarNode, Value: "strange"}, {Kind: yaml.ScalarNode, Value: "thing"},
		}}
	case "emptied":
		if isKey {
			return m, false
		}
		m.name = nameIn(n)
		*n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	case "duplicated":
		if !isKey {
			return m, false
		}
		parent.Content = slices.Insert(parent.Content, last+2, parent.Content[last], parent.Content[last+1])
		where = append(slices.Clone(at[:len(at)-1]), last+2)
	case "named as another":
		if !isKey || last < 2 {
			return m, false
		}
		n.Value = parent.Content[last-2].Value
	case "removed":
		m.name = nameIn(n)
		where = at[:len(at)-1]
		if isKey {
			parent.Content = slices.Delete(parent.Content, last, last+2)
			m.name = n.Value
		} else if parent.Kind == yaml.SequenceNode {
			parent.Content = slices.Delete(parent.Content, last, last+1)
		} else {
			return m, false
		}
	}
	m.text = encode(t, root)
	_, n = follow(parse(t, m.text), where)
	m.line, m.last = n.Line, n.Line
	if n.Style == yaml.LiteralStyle {
		m.last += strings.Count(n.Value, "\n") + 1
	}
	return m, true
}

// nameIn is the name that is lost with a node: its own text, or the name that it defines.
func nameIn(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		if n.Content[i].Value == "name" {
			return n.Content[i+1].Value
		}
	}
	return ""
}

// misspell swaps two neighbouring letters that differ, in the middle of the text if possible.
func misspell(s string) string {
	r := []rune(s)
	for i := len(r) / 2; i > 0; i-- {
		if r[i] != r[i-1] {
			r[i], r[i-1] = r[i-1], r[i]
			return string(r)
		}
	}
	return s + "x"
}

func spelt(root *yaml.Node, at []int) string {
	var b strings.Builder
	n := root
	for _, i := range at {
		if n.Kind == yaml.MappingNode {
			b.WriteString("." + n.Content[i-i%2].Value)
			if i%2 == 0 && n.Content[i].Kind == yaml.ScalarNode {
				b.WriteString("(key)")
			}
		} else {
			fmt.Fprintf(&b, "[%d]", i)
		}
		n = n.Content[i]
	}
	return strings.ReplaceAll(b.String(), "(key).", ".")
}
