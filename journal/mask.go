package journal

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"switchboard/config"
)

// Mask hides values that nobody may see: values bound by the runtime become ‹org›, secrets become ‹secret›. A value is
// hidden wherever it stands, but not where digits go on beside it: org_7 is not hidden in org_77. The zero Mask hides nothing.
type Mask struct{ pairs []pair }

type pair struct {
	value, shown string
	anywhere     bool // also beside digits: a secret
}

// ShortSecret is the length below which a secret cannot be hidden, in bytes: "none" or "x" would tear holes into everything
// that is said. Local servers take such keys, and nobody keeps them secret.
const ShortSecret = 8

// NewMask hides the values of bound (name -> values) and the secrets that are not too short for it.
func NewMask(bound map[string][]string, secrets []string) Mask {
	var m Mask
	for name, values := range bound {
		for _, v := range values {
			m.add(v, "‹"+name+"›", false)
		}
	}
	for _, v := range secrets {
		if len(v) < ShortSecret {
			continue
		}
		m.add(v, "‹secret›", true)
	}
	m.order()
	return m
}

// order puts the longest first, so that a value inside another one does not leave half of it; then by text, so that the
// result does not depend on the order of a map.
func (m *Mask) order() {
	slices.SortStableFunc(m.pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(len(b.value), len(a.value)), cmp.Compare(a.value+a.shown, b.value+b.shown))
	})
}

func (m *Mask) add(value, shown string, anywhere bool) {
	if value == "" {
		return
	}
	m.pairs = append(m.pairs, pair{value, shown, anywhere})
	// The same value inside a JSON string may be spelled with escapes.
	if quoted, err := json.Marshal(value); err == nil {
		if inner := string(quoted[1 : len(quoted)-1]); inner != value {
			m.pairs = append(m.pairs, pair{inner, shown, anywhere})
		}
	}
}

// Text hides the values in s.
func (m Mask) Text(s string) string {
	for _, p := range m.pairs {
		s = p.hide(s)
	}
	return s
}

func (p pair) hide(s string) string {
	if !strings.Contains(s, p.value) {
		return s
	}
	var b strings.Builder
	rest := s
	for {
		i := strings.Index(rest, p.value)
		if i < 0 {
			break
		}
		end := i + len(p.value)
		before, _ := utf8.DecodeLastRuneInString(s[:len(s)-len(rest)+i])
		after, _ := utf8.DecodeRuneInString(rest[end:])
		b.WriteString(rest[:i])
		if !p.anywhere && (digits(before, first(p.value)) || digits(last(p.value), after)) {
			b.WriteString(p.value)
		} else {
			b.WriteString(p.shown)
		}
		rest = rest[end:]
	}
	b.WriteString(rest)
	return b.String()
}

// Open says how many bytes at the end of a text that goes on have to wait, so that what comes before them can be hidden on
// its own: they may be the beginning of a hidden value, a whole one that the next digit would make another, or digits that
// a value may follow which is none beside them. Hiding a text piece by piece, each without its open end, which is put
// before the next piece, comes to the same as hiding all of it.
func (m Mask) Open(text string) int {
	if len(m.pairs) == 0 {
		return 0
	}
	cut := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ { // half a character says nothing yet
		if c := text[len(text)-i]; utf8.RuneStart(c) {
			if !utf8.FullRuneInString(text[len(text)-i:]) {
				cut -= i
			}
			break
		}
	}
	whole := text[:cut]
	for _, p := range m.pairs {
		cut = min(cut, p.open(whole))
	}
	// A whole value that begins before the cut goes with what is held back, and so do digits that belong together.
	for moved := true; moved; {
		moved = false
		if cut > 0 && cut < len(text) && digits(last(text[:cut]), first(text[cut:])) {
			cut, moved = len(strings.TrimRightFunc(text[:cut], unicode.IsDigit)), true
		}
		for _, p := range m.pairs {
			from, to := max(0, cut-len(p.value)+1), min(len(text), cut+len(p.value)-1)
			if i := strings.Index(text[from:to], p.value); i >= 0 {
				cut, moved = from+i, true
			}
		}
	}
	return len(text) - cut
}

// open gives the place from which on a text may be the beginning of the value.
func (p pair) open(text string) int {
	end := len(text)
	if !p.anywhere && unicode.IsDigit(first(p.value)) {
		end = len(strings.TrimRightFunc(text, unicode.IsDigit))
	}
	most := len(p.value) - 1
	if !p.anywhere && unicode.IsDigit(last(p.value)) {
		most++
	}
	for n := min(most, len(text)); n > len(text)-end; n-- {
		if at := len(text) - n; strings.HasPrefix(p.value, text[at:]) {
			before, _ := utf8.DecodeLastRuneInString(text[:at])
			if p.anywhere || !digits(before, first(p.value)) {
				return at
			}
		}
	}
	return end
}

func digits(a, b rune) bool { return unicode.IsDigit(a) && unicode.IsDigit(b) }

func first(s string) rune { r, _ := utf8.DecodeRuneInString(s); return r }
func last(s string) rune  { r, _ := utf8.DecodeLastRuneInString(s); return r }

// JSON hides the values in a JSON text, and leaves it one: a number that is hidden becomes a string. What is no JSON is
// taken as text.
func (m Mask) JSON(raw string) string {
	if m.Text(raw) == raw { // by far the most
		return raw
	}
	v, err := config.DecodeJSON([]byte(raw))
	if err != nil {
		return m.Text(raw)
	}
	return string(config.Canonical(m.Value(v)))
}

// Value hides the values in a decoded JSON value: in strings, in keys, and where a number is one of them.
func (m Mask) Value(v any) any {
	switch v := v.(type) {
	case string:
		return m.Text(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = m.Value(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[m.Text(k)] = m.Value(v[k])
		}
		return out
	case int64, float64:
		if text := string(config.Canonical(v)); m.Text(text) != text {
			return m.Text(text)
		}
	}
	return v
}
