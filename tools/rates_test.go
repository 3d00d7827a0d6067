package tools

import (
	"testing"
	"time"

	"switchboard/config"
)

// Two versions of a pack that are in use at once share what a tool may be called, whatever rate each of them says.
func TestRatesAreSharedByVersions(t *testing.T) {
	t.Parallel()
	var r Rates
	slow, faster := &config.Tool{Name: "rows.get", Rate: 0.001}, &config.Tool{Name: "rows.get", Rate: 0.002}
	if err := r.wait(t.Context(), slow, time.Second); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []*config.Tool{faster, slow, faster} {
		if r.wait(t.Context(), tool, time.Second) == nil { // it says so at once where the wait would be too long
			t.Errorf("at rate %g it may be called again, and the one call is used up", tool.Rate)
		}
	}
}
