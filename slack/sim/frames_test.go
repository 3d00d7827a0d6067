package sim

import (
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestFramesAreFollowedHoweverTheyArrive draws messages in one or several frames, with control frames between them, cuts
// the bytes anywhere, and wants to be told which messages came in parts.
func TestFramesAreFollowedHoweverTheyArrive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var wire []byte
		var want []bool
		frame := func(first byte, size int) {
			wire = append(wire, first)
			switch {
			case size < 126:
				wire = append(wire, 0x80|byte(size&0x7f))
			case size <= 65535:
				wire = binary.BigEndian.AppendUint16(append(wire, 0x80|126), uint16(size&0xffff))
			default:
				wire = binary.BigEndian.AppendUint64(append(wire, 0x80|127), uint64(size))
			}
			wire = append(wire, make([]byte, 4+size)...)
		}
		size := rapid.OneOf(rapid.IntRange(0, 130), rapid.SampledFrom([]int{125, 126, 65535, 65536, 70000}))
		for range rapid.IntRange(0, 6).Draw(t, "messages") {
			parts := rapid.IntRange(1, 3).Draw(t, "parts")
			for i := range parts {
				if rapid.Bool().Draw(t, "ping") {
					frame(0x89, rapid.IntRange(0, 125).Draw(t, "ping size"))
				}
				first := byte(0)
				if i == 0 {
					first = 1
				}
				if i == parts-1 {
					first |= 0x80
				}
				frame(first, size.Draw(t, "size"))
			}
			want = append(want, parts > 1)
		}
		f := &frames{}
		for rest := wire; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "bytes")
			f.watch(rest[:n])
			rest = rest[n:]
		}
		var got []bool
		for range want {
			got = append(got, f.inParts())
		}
		if !slices.Equal(got, want) || len(f.done) != 0 || f.payload != 0 || len(f.head) != 0 {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}
