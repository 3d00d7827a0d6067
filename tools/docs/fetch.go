package docs

import (
	"sort"
	"strings"

	"switchboard/config"

	"github.com/agnivade/levenshtein"
)

// Fetch gives the visible document of this name: the exact name first, then a name and then a title that differs only in
// case and outer space.
func (v *View) Fetch(name string) (config.Doc, bool) {
	if v == nil {
		return config.Doc{}, false
	}
	want := strings.TrimSpace(name)
	for _, same := range []func(config.Doc) bool{
		func(d config.Doc) bool { return d.Name == name },
		func(d config.Doc) bool { return strings.EqualFold(d.Name, want) },
		func(d config.Doc) bool { return strings.EqualFold(strings.TrimSpace(d.Title), want) },
	} {
		for _, i := range v.seen {
			if d := v.index.docs[i]; same(d) {
				return d, true
			}
		}
	}
	return config.Doc{}, false
}

// Near gives the names of at most n visible documents that somebody who asked for name may have meant, likeliest first.
func (v *View) Near(name string, n int) []string {
	if v == nil {
		return nil
	}
	want := split(name)
	folded := strings.Join(want, " ")
	type candidate struct {
		name             string
		shared, distance int
	}
	var found []candidate
	for _, i := range v.seen {
		d := v.index.docs[i]
		c := candidate{name: d.Name, distance: len(folded) + 1}
		words := map[string]bool{}
		for _, w := range split(d.Name + " " + d.Title) {
			words[w] = true
		}
		for _, w := range want {
			if len(w) > 2 && words[w] {
				c.shared++
			}
		}
		last := d.Name[strings.LastIndex(d.Name, "/")+1:]
		for _, form := range []string{d.Name, last, d.Title} {
			c.distance = min(c.distance, levenshtein.ComputeDistance(folded, strings.Join(split(form), " ")))
		}
		if c.shared > 0 || 3*c.distance <= len(folded) {
			found = append(found, c)
		}
	}
	sort.SliceStable(found, func(i, j int) bool {
		if found[i].shared != found[j].shared {
			return found[i].shared > found[j].shared
		}
		return found[i].distance < found[j].distance
	})
	var names []string
	for _, c := range found[:min(max(n, 0), len(found))] {
		names = append(names, c.name)
	}
	return names
}
