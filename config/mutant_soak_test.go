//go:build soak

package config

import (
	"path/filepath"
	"testing"
)

// TestSoakC1_OneSlipGivesOneProblem tries every slip in the small pack, and every second or third in the larger ones. It takes minutes.
func TestSoakC1_OneSlipGivesOneProblem(t *testing.T) {
	t.Parallel()
	for _, s := range []slips{{"testdata/good", 1}, {"../examples/refunds", 2}, {"../examples/club", 3}} {
		t.Run(filepath.Base(s.dir), func(t *testing.T) {
			t.Parallel()
			s.try(t)
		})
	}
}
