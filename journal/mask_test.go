package journal_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"switchboard/journal"
)

func mask() journal.Mask {
	return journal.NewMask(map[string][]string{"org": {"org_7", "org_77", "4711"}, "odd": {`a"b\c`}}, []string{"s3cr3t-k", "none"})
}

func TestM2_MaskHidesBoundValuesAndSecrets(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"org_7":                         "‹org›",
		"the org_7.":                    "the ‹org›.",
		`{"org":"org_7","n":4711}`:      `{"org":"‹org›","n":‹org›}`,
		"line\\norg_7":                  "line\\n‹org›",
		"org_77":                        "‹org›",
		"org_771":                       "org_771", // another value, that nobody bound
		"47110":                         "47110",
		"14711":                         "14711",
		"Bearer s3cr3t-kX":              "Bearer ‹secret›X",
		"none of them":                  "none of them",
		`quoted a"b\c`:                  `quoted ‹odd›`,
		`{"v":"a\"b\\c"}`:               `{"v":"‹odd›"}`,
		"/orgs/org_7/rows?org=org_7#x7": "/orgs/‹org›/rows?org=‹org›#x7",
		"nothing":                       "nothing",
		"":                              "",
	} {
		if got := mask().Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestM2_NothingHiddenRemains(t *testing.T) {
	t.Parallel()
	m := mask()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.OneOf(rapid.SampledFrom([]string{"org_7", "s3cr3t-k", `a"b\c`, "s3", "cr3t-k", " "}), rapid.String())).Draw(t, "parts")
		out := m.Text(strings.Join(parts, ""))
		if strings.Contains(out, "s3cr3t-k") {
			t.Fatalf("a secret remains in %q", out)
		}
		if again := m.Text(out); again != out {
			t.Fatalf("masked twice: %q, then %q", out, again)
		}
	})
}

func TestM2_MaskOpen(t *testing.T) {
	t.Parallel()
	m := journal.NewMask(map[string][]string{"org": {"org_7", "org_77", "4711"}, "club": {"Club del Mar", "Mar y Sol"}}, []string{"s3cr3t-k"})
	for in, want := range map[string]string{
		"": "", "nothing": "", "the org": "org", "the org_": "org_", "the org_7": "org_7", "the org_77": "org_77", "the org_771": "org_771", "the org_7.": "",
		"o": "o", "at the Club ": "Club ", "Club del Mar": "Club del Mar", "Club del Mar.": "", "Club del Mar y ": "Club del Mar y ", "Mar": "Mar",
		"x4": "4", "34": "34", "4711": "4711", "47110": "47110", "4711 ": "", "7": "7", "s3cr3t-": "s3cr3t-", "s3cr3t-k": "", "S3CR": "",
	} {
		if n := m.Open(in); n < 0 || n > len(in) || in[len(in)-n:] != want {
			t.Errorf("Open(%q) = %d, want %d for %q", in, n, len(want), want)
		}
	}
	if n := (journal.Mask{}).Open("anything 4711"); n != 0 {
		t.Errorf("a mask that hides nothing holds %d", n)
	}
}

func TestM2_MaskedPieceByPiece(t *testing.T) {
	t.Parallel()
	values := []string{"org_7", "org_77", "4711", "47", "Club del Mar", "Mar y Sol", `a"b\c`, "é7", "7é", "aab", "aba"}
	m := journal.NewMask(map[string][]string{"org": values}, []string{"s3cr3t-k", "cr3t-k-9999", "12345678"})
	part := rapid.OneOf(rapid.SampledFrom(append([]string{"org", "_", "7", "1", "0", " ", "Club ", "del ", "Mar", " y ", "Sol", "s3", "cr3t", "-k", "é", "a", "b", `\"`, `\\`, "1234", "5678"}, values...)), rapid.StringN(0, 2, 4))
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(part, 0, 14).Draw(t, "parts"), "")
		var out strings.Builder
		pending, rest := "", in
		for rest != "" {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			pending, rest = pending+rest[:n], rest[n:]
			cut := len(pending) - m.Open(pending)
			out.WriteString(m.Text(pending[:cut]))
			pending = pending[cut:]
		}
		out.WriteString(m.Text(pending))
		if want := m.Text(in); out.String() != want {
			t.Fatalf("of %q\n all at once %q\n by pieces   %q", in, want, out.String())
		}
	})
}
