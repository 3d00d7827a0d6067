package expr

import (
	"slices"
	"strings"
)

// Near gives the candidate that a person most likely meant by a name, or "" when none is close. Letters that changed
// places count as one slip; at most one slip in three letters is forgiven.
func Near(name string, candidates []string) string {
	best, least := "", min(max(1, len(name)/3), 3)+1
	low := strings.ToLower(name)
	swapped := func(c string) bool { return len(c) == 2 && len(low) == 2 && c[0] == low[1] && c[1] == low[0] }
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if c == name || len(c)-len(name) >= least || len(name)-len(c) >= least {
			continue
		}
		if len(name) < 3 && !swapped(strings.ToLower(c)) && c != low { // one slip would be half of it
			continue
		}
		if d := slips(low, strings.ToLower(c)); d < least {
			best, least = c, d
		}
	}
	return best
}

// slips counts the letters to insert, delete, replace or swap with their neighbour to get from a to b.
func slips(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, row := make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		next := make([]int, len(y)+1)
		next[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+cost)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(y)]
}
