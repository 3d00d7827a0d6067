package journal

import "slices"

// With gives a mask that also hides these values of a scope variable, which became known only now. m itself stays as it is,
// so that the values of one request are hidden in that request alone.
func (m Mask) With(name string, values ...string) Mask {
	out := Mask{pairs: slices.Clone(m.pairs)}
	for _, v := range values {
		out.add(v, "‹"+name+"›", false)
	}
	out.order()
	return out
}

// Hide makes the record hide what m hides, from now on: the mask of the turn once the values of its
// request are known. Call it before calls of the turn run beside each other.
func (r *Recorder) Hide(m Mask) { r.mask = m }
