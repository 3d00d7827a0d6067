package expr

import (
	"fmt"
	"slices"
	"strings"
)

// habit looks in an expression that cannot be read for what other languages write otherwise: = for ==, or for ||, and the
// like. It gives the first one.
func habit(src string) (Issue, bool) {
	rs := []rune(src)
	line, col := 1, 1
	for i := 0; i < len(rs); {
		next := i + 1
		if wrote, mend := foreign(rs, i); mend != "" {
			return Issue{Line: line, Col: col, Msg: fmt.Sprintf("the expression cannot be read: CEL has no %q here", wrote), Hint: mend}, true
		}
		switch r := rs[i]; {
		case r == '"' || r == '\'':
			if next = stringEnd(rs, i); next < 0 {
				return Issue{Line: line, Col: col, Msg: "the expression cannot be read: a quote is not closed", Hint: "close it with " + string(r)}, true
			}
		case starts(rs[i:], "//"):
			for next < len(rs) && rs[next] != '\n' {
				next++
			}
		case isWord(r):
			for next < len(rs) && isWord(rs[next]) {
				next++
			}
		case strings.ContainsRune("=<>!&|", r):
			for next < len(rs) && strings.ContainsRune("=<>!&|", rs[next]) {
				next++
			}
		}
		for ; i < next; i++ {
			if col++; rs[i] == '\n' {
				line, col = line+1, 1
			}
		}
	}
	return Issue{}, false
}

// foreign says what is written at a place and what CEL has for it; mend is "" where nothing is wrong.
func foreign(rs []rune, i int) (wrote, mend string) {
	run := func(in func(r rune) bool) string {
		end := i
		for end < len(rs) && in(rs[end]) {
			end++
		}
		return string(rs[i:end])
	}
	switch {
	case starts(rs[i:], "${"):
		return "${", "write the expression bare here, without ${ }"
	case slices.Contains([]rune("“”„‘’"), rs[i]):
		return string(rs[i]), `write straight quotes: "`
	case isWord(rs[i]):
		wrote = run(isWord)
		if i > 0 && rs[i-1] == '.' {
			return "", ""
		}
	default:
		wrote = run(func(r rune) bool { return strings.ContainsRune("=<>!&|", r) })
	}
	means := map[string]string{
		"=": "==", "===": "==", "!==": "!=", "<>": "!=", "=<": "<=", "=>": ">=", "&": "&&", "|": "||", "and": "&&", "or": "||", "not": "!",
	}[strings.ToLower(wrote)]
	if means == "" {
		return "", ""
	}
	return wrote, "did you mean " + means + " ?"
}
