package config

import (
	"cmp"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a pack: where it stands, what it is, and how to mend it.
type Problem struct {
	Place Place  `json:"place"`
	Msg   string `json:"msg"`
	Mend  string `json:"mend"`
}

// String gives file:line:col: message (mend).
func (p Problem) String() string { return p.Place.String() + ": " + p.Msg + " (" + p.Mend + ")" }

// Problems is everything that is wrong with a pack, in the order of its files, lines and columns.
type Problems []Problem //nolint:errname // it is a list of problems, and an error only because Load gives it as one

// Error prints one problem a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// sorted puts the problems in order and leaves out exact repeats.
func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(comparePlaces(a.Place, b.Place), cmp.Compare(a.Msg, b.Msg))
	})
	return slices.Compact(ps)
}

func comparePlaces(a, b Place) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
}
