package journal

import (
	"cmp"
	"slices"
)

// With gives a mask that also hides these values of a scope variable, which became known only now. m itself stays as it is,
// so that the values of one request are hidden in that request alone.
func (m Mask) With(name string, values ...string) Mask {
	out := Mask{pairs: slices.Clone(m.pairs)}
	for _, v := range values {
		out.add(v, "‹"+name+"›", false)
	}
	// As NewMask orders them: the longest first, so that a value inside another one does not leave half of it.
	slices.SortStableFunc(out.pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(len(b.value), len(a.value)), cmp.Compare(a.value+a.shown, b.value+b.shown))
	})
	return out
}

// Hide makes the record hide what m hides, from now on: the mask of the turn once the values of its
// request are known. Call it before calls of the turn run beside each other.
func (r *Recorder) Hide(m Mask) { r.mask = m }
