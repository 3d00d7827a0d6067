package archtest

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// house is what ARCHITECTURE.md says of the packages.
type house struct {
	place  map[string]int      // package -> row, counted from the top
	unseen map[string][]string // package -> packages that it must not import although they stand lower
	fences []fence
}

// fence keeps an import to some packages. what is the beginning of a module's path, or of a package of ours.
type fence struct {
	what string
	only []string
}

// pkg is one package and what it imports. Paths of our own are within the module: cmd/bot.
type pkg struct {
	path  string
	ours  []string // our packages, imported by its code
	tests []string // our packages, imported by its tests
	other []string // everybody else's, imported by either
}

var (
	quoted    = regexp.MustCompile("`([^`]+)`")
	leftovers = regexp.MustCompile(`^(commons?|utils?|types?|models?|managers?|services?|helpers?|misc|shared)$`)
)

// readHouse finds the two tables in the text of ARCHITECTURE.md by their heads.
func readHouse(text string) (house, error) {
	h := house{place: map[string]int{}, unseen: map[string][]string{}}
	for i, row := range table(text, "package", "lives there", "must not know") {
		names := codes(row[0])
		if len(names) == 0 {
			return house{}, fmt.Errorf("read the map: row %d names no package in backquotes: %s", i+1, row[0])
		}
		for _, name := range names {
			if _, twice := h.place[name]; twice {
				return house{}, fmt.Errorf("read the map: %s stands in two rows", name)
			}
			h.place[name], h.unseen[name] = i, codes(row[2])
		}
	}
	for name, unseen := range h.unseen {
		for _, u := range unseen {
			if row, known := h.place[u]; !known || row <= h.place[name] {
				return house{}, fmt.Errorf("read the map: %s must not know %s, which is no package below it", name, u)
			}
		}
	}
	for _, row := range table(text, "import", "only in", "because") {
		for _, what := range codes(row[0]) {
			h.fences = append(h.fences, fence{what, codes(row[1])})
		}
	}
	if len(h.place) == 0 || len(h.fences) == 0 {
		return house{}, errors.New("read the map: the table of packages or the table of fences is missing or empty")
	}
	return h, nil
}

// table gives the rows of the Markdown table that has this head, without the head; nil when there is none.
func table(text string, head ...string) [][]string {
	var rows [][]string
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if inside {
				break
			}
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case !inside:
			inside = slices.Equal(cells, head)
		case strings.HasPrefix(cells[0], "---"):
		default:
			// A row with a cell too few or too many keeps the head's width, so that it cannot be overlooked.
			rows = append(rows, append(cells, make([]string, len(head))...)[:len(head)])
		}
	}
	return rows
}

// codes gives the words in backquotes.
func codes(cell string) []string {
	var words []string
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		words = append(words, m[1])
	}
	return words
}

// faults says what is wrong with these packages, a sentence each; none when they are as the map says.
func (h house) faults(pkgs []pkg) []string {
	var out []string
	found := map[string]bool{}
	for _, p := range pkgs {
		found[p.path] = true
		for part := range strings.SplitSeq(p.path, "/") {
			if leftovers.MatchString(part) {
				out = append(out, fmt.Sprintf("%s: %q says nothing of what lives there; name it after its purpose", p.path, part))
			}
		}
		if _, placed := h.place[p.path]; !placed && !isTest(p.path) && !isExample(p.path) {
			out = append(out, p.path+": stands in no row of ARCHITECTURE.md; add it, or put its code where it belongs")
			continue
		}
		for _, fault := range slices.Concat(h.orderFaults(p), h.fenceFaults(p)) {
			out = append(out, p.path+": "+fault)
		}
	}
	for name := range h.place {
		if !found[name] {
			out = append(out, name+": stands in ARCHITECTURE.md, but there is no such package")
		}
	}
	slices.Sort(out)
	return out
}

// orderFaults checks one package against the order of the rows and the last column.
func (h house) orderFaults(p pkg) []string {
	var out []string
	for _, to := range p.ours {
		switch {
		case isTest(to) && !isTest(p.path):
			out = append(out, fmt.Sprintf("imports %s, which is for tests only", to))
		case isExample(p.path) && !isExample(to):
			out = append(out, fmt.Sprintf("imports %s, but an example knows nothing of the house", to))
		case !h.below(p.path, to):
			out = append(out, fmt.Sprintf("imports %s, which does not stand below it", to))
		case slices.Contains(h.unseen[p.path], to):
			out = append(out, fmt.Sprintf("imports %s, which it must not know", to))
		}
	}
	for _, to := range p.tests {
		if !h.below(p.path, to) && !isTest(to) {
			out = append(out, fmt.Sprintf("its tests import %s, which does not stand below it", to))
		}
	}
	return out
}

// fenceFaults checks one package against the fences. Exams are free to use what is kept for the program, such as a real
// store, but not other people's modules.
func (h house) fenceFaults(p pkg) []string {
	imports := p.other
	if !isTest(p.path) {
		imports = slices.Concat(p.ours, p.other)
	}
	var out []string
	for _, f := range h.fences {
		inside := slices.ContainsFunc(append(f.only, f.what), func(room string) bool { return within(p.path, room) })
		for _, to := range imports {
			if !inside && within(to, f.what) {
				out = append(out, fmt.Sprintf("imports %s, which is kept to %s", to, strings.Join(f.only, ", ")))
			}
		}
	}
	return out
}

// below says whether the order lets one package import another. Whoever has no place, an exam at the root or an example,
// is bound by other rules; nothing is above an example.
func (h house) below(from, to string) bool {
	a, placed := h.row(from)
	b, known := h.row(to)
	return !placed || isExample(to) || (known && a <= b)
}

// row gives the place of a package; an exam has that of the package it is about.
func (h house) row(p string) (int, bool) {
	if isTest(p) {
		p = path.Dir(p)
	}
	row, ok := h.place[p]
	return row, ok
}

func isTest(p string) bool    { return strings.HasSuffix(p, "test") }
func isExample(p string) bool { return within(p, "examples") }

// within says whether a path is this folder or module, or lies in it.
func within(p, room string) bool { return p == room || strings.HasPrefix(p, room+"/") }
