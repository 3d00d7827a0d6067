package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"switchboard/config/expr"

	"go.yaml.in/yaml/v3"
)

// table describes the keys that one mapping of a pack takes. The parser and docs/pack.md are both driven by it.
type table struct {
	what  string // the mapping, in an error: "an assistant"
	about string // one sentence for docs/pack.md
	keys  []key
	later map[string]string // keys that a later version brings, with what they are
	hints map[string]string // keys that people try, with what to write instead
}

// key is one line of a table: its name, what may stand there, where it goes, and what docs/pack.md says of it.
type key struct {
	name    string
	value   value
	need    string // required, or what holds without the key; "" is nothing
	about   string
	example string
}

// required marks a key that must be there.
const required = "required"

// value is what may stand at a place: in words, as a reader, and as the table of the mapping that stands there.
type value struct {
	words func() string                      // built only where it is shown
	read  func(d *source, n *yaml.Node) bool // false: there was a problem, and it is reported
	sub   *table
}

// says is a text that needs no building.
func says(s string) func() string { return func() string { return s } }

// got says which keys a mapping had, and which of them could not be read.
type got struct {
	nodes  map[string]*yaml.Node
	broken map[string]bool
	// A key of a later version was there, so that the mapping is of a kind that this version does not know; or one stood twice
	// and most likely should be another: nothing is said to be missing.
	other *bool
}

// has says whether the key was there, well or not.
func (g got) has(name string) bool { return g.nodes[name] != nil }

// lacks says whether the key may be missing because another one has its place.
func (g got) lacks(name string) bool { return !g.has(name) && *g.other }

// good says whether the key was there and could be read.
func (g got) good(name string) bool { return g.has(name) && !g.broken[name] }

// keysOf reads a mapping by its table: unknown and repeated keys, missing ones, then each value. A key that is misspelt is
// read all the same, so that one slip gives one problem. ok is false when anything in it was wrong.
func (d *source) keysOf(n *yaml.Node, t *table) (g got, ok bool) {
	g = got{nodes: map[string]*yaml.Node{}, broken: map[string]bool{}, other: new(bool)}
	if d.spoiled[n] {
		return g, false
	}
	if n.Kind != yaml.MappingNode {
		want := t.what
		if strings.HasSuffix(want, ".yaml") {
			want = "the keys of " + want
		}
		return g, d.expected(n, want, "write keys and values: "+strings.Join(t.names(), ", "))
	}
	ok = d.sortKeys(n, t, g)
	for _, k := range t.keys {
		v := g.nodes[k.name]
		switch {
		case v != nil && !k.value.read(d, v):
			g.broken[k.name], ok = true, false
		case v == nil && k.need == required && !*g.other:
			ok = false
			d.l.report(d.at(n), fmt.Sprintf("%s is missing in %s", k.name, t.what), "add "+k.name+": "+k.example)
		}
	}
	return g, ok
}

// sortKeys finds the value of each key and reports the keys that have no business here.
func (d *source) sortKeys(n *yaml.Node, t *table, g got) (ok bool) {
	ok = true
	names := t.names()
	var unknown []*yaml.Node // alternating with its value
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch {
		case d.spoiled[k]:
			ok = false
		case k.Kind != yaml.ScalarNode:
			ok = d.bad(k, "a key must be a plain word", "keys here: "+strings.Join(names, ", "))
		case g.nodes[k.Value] != nil:
			*g.other = true
			ok = d.twice(k)
		case t.later[k.Value] != "":
			*g.other = true
			ok = d.bad(k, fmt.Sprintf("%s (%s) comes with a later version; this one does not run it", k.Value, t.later[k.Value]), "leave it out")
		case slices.Contains(names, k.Value):
			g.nodes[k.Value] = v
		default:
			unknown = append(unknown, k, v)
		}
	}
	for i := 0; i < len(unknown); i += 2 {
		k, v := unknown[i], unknown[i+1]
		near := t.meant(k.Value, g)
		mend := "keys here: " + strings.Join(names, ", ")
		if near != "" {
			mend = fmt.Sprintf("did you mean %q?", near)
		}
		if t.hints[k.Value] != "" {
			near, mend = "", t.hints[k.Value]
		}
		ok = d.bad(k, fmt.Sprintf("unknown key %q", k.Value), mend)
		if near != "" && g.nodes[near] == nil {
			g.nodes[near] = v
		}
	}
	return ok
}

// meant gives the key that a misspelt one most likely is: one that is missing and must be there, before one that may be
// left out, before one that is there already.
func (t *table) meant(misspelt string, g got) string {
	var needed, absent []string
	for _, k := range t.keys {
		if !g.has(k.name) {
			absent = append(absent, k.name)
			if k.need == required {
				needed = append(needed, k.name)
			}
		}
	}
	for _, names := range [][]string{needed, absent, t.names()} {
		if near := expr.Near(misspelt, names); near != "" {
			return near
		}
	}
	return ""
}

func (d *source) twice(k *yaml.Node) bool {
	return d.bad(k, fmt.Sprintf("the key %q stands twice", k.Value), "leave one of them out")
}

func (t *table) names() []string {
	out := make([]string, len(t.keys))
	for i, k := range t.keys {
		out[i] = k.name
	}
	return out
}

// object is a mapping with the keys of a table; then, if set, runs when all of it was good.
func object(t *table, then func(d *source, n *yaml.Node, g got) bool) value {
	return value{words: says("keys and values"), sub: t, read: func(d *source, n *yaml.Node) bool {
		g, ok := d.keysOf(n, t)
		return ok && (then == nil || then(d, n, g))
	}}
}

// entries is a mapping whose keys are names that the pack chooses.
func entries(words string, sub *table, each func(d *source, k, v *yaml.Node) bool) value {
	return value{words: says(words), sub: sub, read: func(d *source, n *yaml.Node) bool {
		if d.spoiled[n] {
			return false
		}
		if n.Kind != yaml.MappingNode {
			return d.expected(n, words, "write NAME: value, one a line")
		}
		ok, seen := true, map[string]bool{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			switch {
			case d.spoiled[k]:
				ok = false
			case k.Kind != yaml.ScalarNode:
				ok = d.bad(k, "a key must be a plain word", "write NAME: value, one a line")
			case seen[k.Value]:
				ok = d.twice(k)
			default:
				seen[k.Value] = true
				ok = each(d, k, v) && ok
			}
		}
		return ok
	}}
}

// listOf is a list of at least lo and at most hi things.
func listOf(words string, lo, hi int, sub *table, each func(d *source, n *yaml.Node) bool) value {
	return value{words: says(words), sub: sub, read: func(d *source, n *yaml.Node) bool {
		if d.spoiled[n] {
			return false
		}
		if n.Kind != yaml.SequenceNode {
			mend := "write a list: [a, b], or one item a line with a dash"
			if n.Kind == yaml.ScalarNode && n.Value != "" && !strings.Contains(n.Value, "\n") {
				mend = "write a list: [" + n.Value + "]"
			}
			want := words
			if strings.HasPrefix(words, "list ") {
				want = "a " + words
			}
			return d.expected(n, want, mend)
		}
		ok := true
		for _, c := range n.Content {
			ok = each(d, c) && ok
		}
		switch {
		case !ok:
			return false
		case len(n.Content) < lo:
			return d.bad(n, fmt.Sprintf("the list has %d items, it needs at least %d", len(n.Content), lo), "write at least one: "+strings.TrimPrefix(words, "list of "))
		case len(n.Content) > hi:
			return d.bad(n, fmt.Sprintf("the list has %d items, at most %d are allowed", len(n.Content), hi), "leave some out, or split it")
		}
		return true
	}}
}

// texts is a list of texts, none twice. check may be nil; it reports what is wrong with one.
func texts(p *[]string, words string, lo, hi int, check func(d *source, n *yaml.Node, s string) bool) value {
	return listOf(words, lo, hi, nil, func(d *source, n *yaml.Node) bool {
		s, ok := d.text(n)
		if !ok {
			return false
		}
		if slices.Contains(*p, s) {
			return d.bad(n, strconv.Quote(s)+" stands twice in the list", "leave one of them out")
		}
		*p = append(*p, s)
		return check == nil || check(d, n, s)
	})
}
