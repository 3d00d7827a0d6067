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
