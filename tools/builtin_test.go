package tools_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"switchboard/config"
	"switchboard/tools"
	"switchboard/tools/docs"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func deps(t *testing.T, results map[string]string) tools.Deps {
	t.Helper()
	x, err := docs.New(t.Context(), []config.Doc{
		{Name: "help/export-waivers", Title: "Exporting waivers", Text: "Open Reports, then Export."},
		{Name: "help/hours", Title: "Opening hours", Text: "Change them under Settings."},
		{Name: "secret/keys", Title: "Keys", Text: "Export waivers with this key."},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return tools.Deps{
		Docs: x.View([]string{"help/*"}),
		Now:  func() time.Time { return time.Date(2026, 3, 8, 7, 30, 0, 0, time.UTC) },
		Results: func(_ context.Context, handle string) (string, bool, error) {
			if handle == "broken" {
				return "", false, errors.New("disk canary")
			}
			text, ok := results[handle]
			return text, ok, nil
		},
	}
}

func use(t *testing.T, d tools.Deps, name string, args map[string]any) (any, error) {
	t.Helper()
	tool, ok := tools.Builtin(name, d)
	if !ok {
		t.Fatalf("there is no %s", name)
	}
	out, err := tool.Run(t.Context(), tools.Input{Args: args})
	return out.Value, err
}

func TestBuiltinResultsFitTheirContracts(t *testing.T) {
	t.Parallel()
	d := deps(t, map[string]string{"h": "abc"})
	calls := map[string]map[string]any{
		"docs.search": {"query": "export waivers"},
		"docs.fetch":  {"name": "help/hours"},
		"time.now":    {"zone": "Europe/Madrid"},
		"result.read": {"handle": "h", "from": int64(1)},
	}
	var named []string
	for _, c := range config.Builtins() {
		named = append(named, c.Name)
		v, err := use(t, d, c.Name, calls[c.Name])
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		if err := c.CheckResult(v); err != nil {
			t.Errorf("%s gave %v: %v", c.Name, v, err)
		}
	}
	slices.Sort(named)
	if d := cmp.Diff([]string{"docs.fetch", "docs.search", "result.read", "time.now"}, named); d != "" {
		t.Error("contracts and tools differ: " + d)
	}
	if _, ok := tools.Builtin("docs.delete", d); ok {
		t.Error("a tool that does not exist was given")
	}
}

func TestDocsSearchAndFetch(t *testing.T) {
	t.Parallel()
	d := deps(t, nil)
	v, err := use(t, d, "docs.search", map[string]any{"query": "export"})
	want := []any{map[string]any{"name": "help/export-waivers", "title": "Exporting waivers", "snippet": "Open Reports, then Export."}}
	if diff := cmp.Diff(want, v); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if v, err = use(t, d, "docs.search", map[string]any{"query": "…"}); err != nil || !cmp.Equal(v, []any{}) {
		t.Errorf("no hits are an empty list: %v %v", v, err)
	}
	v, err = use(t, d, "docs.fetch", map[string]any{"name": "Opening Hours"})
	if diff := cmp.Diff(map[string]any{"name": "help/hours", "title": "Opening hours", "text": "Change them under Settings."}, v); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for ask, detail := range map[string]string{ //nolint:gosec // names of documents, no keys
		"waivers":     "Document not found: waivers. Documents with names like it: help/export-waivers.",
		"secret/keys": "Document not found: secret/keys",
	} {
		_, err = use(t, d, "docs.fetch", map[string]any{"name": ask})
		if f := faultOf(t, err); f.Kind != tools.NotFound || f.Detail != detail {
			t.Errorf("%+v", f)
		}
	}
	if _, err = use(t, tools.Deps{}, "docs.fetch", map[string]any{"name": "help/hours"}); faultOf(t, err).Kind != tools.NotFound {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tool, _ := tools.Builtin("docs.search", d)
	if _, err = tool.Run(ctx, tools.Input{Args: map[string]any{"query": "export"}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestTimeNow(t *testing.T) {
	t.Parallel()
	d := deps(t, nil)
	for zone, want := range map[any]map[string]any{
		nil:                {"now": "2026-03-08T07:30:00Z", "weekday": "Sunday", "zone": "UTC"},
		"Europe/Madrid":    {"now": "2026-03-08T08:30:00+01:00", "weekday": "Sunday", "zone": "Europe/Madrid"},
		"America/New_York": {"now": "2026-03-08T03:30:00-04:00", "weekday": "Sunday", "zone": "America/New_York"},
		"Pacific/Honolulu": {"now": "2026-03-07T21:30:00-10:00", "weekday": "Saturday", "zone": "Pacific/Honolulu"},
	} {
		v, err := use(t, d, "time.now", map[string]any{"zone": zone})
		if diff := cmp.Diff(want, v); err != nil || diff != "" {
			t.Error(zone, err, diff)
		}
	}
	for _, zone := range []string{"Mars/Base", "../../etc/passwd", "Local", "local", "Europe/Madrid\x00"} {
		if _, err := use(t, d, "time.now", map[string]any{"zone": zone}); faultOf(t, err).Kind != tools.Rejected {
			t.Errorf("%q: %v", zone, err)
		}
	}
	before := time.Now().Add(-time.Second)
	v, err := use(t, tools.Deps{}, "time.now", nil)
	if err != nil {
		t.Fatal(err)
	}
	if at, err := time.Parse(time.RFC3339, v.(map[string]any)["now"].(string)); err != nil || at.Before(before.Truncate(time.Second)) {
		t.Errorf("without a clock of its own it reads the system's: %v %v", at, err)
	}
}

func TestL7_ResultReadGivesTheWholeInWindows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		unit := rapid.SampledFrom([]string{"a", "é", "日", "👍", "\"", "\n", "\x01", "ab\"é\n", "\u2028"}).Draw(r, "unit")
		text := strings.Repeat(unit, rapid.IntRange(0, 30000/len(unit)).Draw(r, "times"))
		tool, _ := tools.Builtin("result.read", tools.Deps{Results: func(context.Context, string) (string, bool, error) { return text, true, nil }})
		var whole strings.Builder
		from := int64(0)
		for {
			out, err := tool.Run(context.Background(), tools.Input{Args: map[string]any{"handle": "h", "from": from}})
			if err != nil {
				r.Fatal(err)
			}
			v := out.Value.(map[string]any)
			part := v["text"].(string)
			if size := len(config.Canonical(v)); size > tools.Window {
				r.Fatalf("the answer has %d bytes", size)
			}
			if !utf8.ValidString(part) || v["from"] != from || v["total"] != int64(len(text)) {
				r.Fatalf("from %d: %v", from, v)
			}
			whole.WriteString(part)
			if v["next"] == nil {
				break
			}
			if from = v["next"].(int64); int(from) != whole.Len() || part == "" {
				r.Fatalf("no progress at %d", from)
			}
		}
		if whole.String() != text {
			r.Fatal("the parts are not the whole")
		}
	})
}

func TestResultRead(t *testing.T) {
	t.Parallel()
	d := deps(t, map[string]string{"h": "aéb"})
	v, err := use(t, d, "result.read", map[string]any{"handle": "h", "from": int64(2)}) // within é
	if diff := cmp.Diff(map[string]any{"text": "éb", "from": int64(1), "next": nil, "total": int64(4)}, v); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, c := range []struct {
		handle string
		from   any
		kind   tools.FaultKind
	}{
		{"nope", int64(0), tools.NotFound},
		{"h", int64(5), tools.Rejected},
		{"h", int64(-1), tools.Rejected},
		{"h", 0.5, tools.Rejected},
		{"h", "0", tools.Rejected},
		{"broken", int64(0), tools.Internal},
	} {
		_, err := use(t, d, "result.read", map[string]any{"handle": c.handle, "from": c.from})
		if f := faultOf(t, err); f.Kind != c.kind || strings.Contains(f.Error(), "canary") {
			t.Errorf("%v: %+v", c, f)
		}
	}
	if v, err := use(t, d, "result.read", map[string]any{"handle": "h", "from": int64(4)}); err != nil || v.(map[string]any)["text"] != "" {
		t.Errorf("at the end: %v %v", v, err)
	}
	if _, err := use(t, tools.Deps{}, "result.read", map[string]any{"handle": "h"}); faultOf(t, err).Kind != tools.NotFound {
		t.Error(err)
	}
}
