package config

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestDecodeJSON(t *testing.T) {
	t.Parallel()
	got, err := DecodeJSON([]byte(` {"a": [1, -2.5, 9007199254740993, 1e2, 12345678901234567890.0, 1e20, 9223372036854775807, -9223372036854775808], "b": null, "c": {"d": "é\n"}} `))
	want := map[string]any{"a": []any{int64(1), -2.5, int64(9007199254740993), 100.0, 12345678901234567890.0, 1e20, int64(math.MaxInt64), int64(math.MinInt64)}, "b": nil, "c": map[string]any{"d": "é\n"}}
	if diff := cmp.Diff(any(want), got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, wrong := range []string{
		"", " ", "{", "[1", `{"a"`, `{"a":`, `{"a":1,}`, "[1 2]", "1 2", "{} {}", "{}x", `{"a":1,"a":2}`, `{"x":{"a":1,"\u0061":2}}`, "nul", "01", "1e999",
		"\"\xff\"", strings.Repeat("[", 65) + strings.Repeat("]", 65),
	} {
		if v, err := DecodeJSON([]byte(wrong)); err == nil {
			t.Errorf("%q is read as %v", wrong, v)
		}
	}
	for _, long := range []string{"9223372036854775808", "-9223372036854775809", `{"id": [12345678901234567890]}`} {
		if v, err := DecodeJSON([]byte(long)); err == nil || err.Error() != "decode JSON: a number has more digits than can be kept exactly" {
			t.Errorf("%s: %v, %v", long, v, err)
		}
	}
	if _, err := DecodeJSON([]byte(strings.Repeat("[", 64) + strings.Repeat("]", 64))); err != nil {
		t.Errorf("64 levels: %v", err)
	}
}

// values generates what JSON can hold.
func values() *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.Int64(), func(n int64) any { return n }),
		rapid.Map(rapid.Float64Range(-9e15, 9e15), func(f float64) any { return f }),
		rapid.Map(rapid.String(), func(s string) any { return s }),
	)
	var deep func(depth int) *rapid.Generator[any]
	deep = func(depth int) *rapid.Generator[any] {
		if depth == 0 {
			return scalar
		}
		return rapid.OneOf(scalar,
			rapid.Map(rapid.SliceOfN(deep(depth-1), 0, 4), func(l []any) any { return append([]any{}, l...) }),
			rapid.Map(rapid.MapOfN(rapid.String(), deep(depth-1), 0, 4), func(m map[string]any) any { return m }))
	}
	return deep(3)
}

func TestCanonicalIsOneForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := values().Draw(t, "value")
		text := Canonical(v)
		back, err := DecodeJSON(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if string(Canonical(back)) != string(text) {
			t.Fatalf("%s becomes %s", text, Canonical(back))
		}
		loose, err := json.MarshalIndent(v, " ", "\t") // another writing of the same value
		if err != nil {
			t.Fatal(err)
		}
		if other, err := DecodeJSON(loose); err != nil || string(Canonical(other)) != string(text) {
			t.Fatalf("%s is written %s from %s (%v)", text, Canonical(other), loose, err)
		}
	})
	for want, v := range map[string]any{
		`{"a":"<&>","b":2}`: map[string]any{"b": 2.0, "a": "<&>"}, `0`: math.Copysign(0, -1), `9007199254740993`: int64(9007199254740993),
		`1e+300`: 1e300, `36028797018963968`: 36028797018963968.0, `[1e+20]`: []float64{1e20},
		`{"x":["y"]}`: map[string][]string{"x": {"y"}}, `null`: make(chan int),
	} {
		if got := string(Canonical(v)); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

func FuzzDecodeJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,null]}`, `"x"`, `[[[]]]`, `{"a":1,"a":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := DecodeJSON(data)
		if err != nil {
			return
		}
		if !json.Valid(data) {
			t.Errorf("%q is no JSON and is read as %v", data, v)
		}
		if _, err := DecodeJSON(Canonical(v)); err != nil {
			t.Errorf("the canonical form of %q: %v", data, err)
		}
	})
}
