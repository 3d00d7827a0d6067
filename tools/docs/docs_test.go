package docs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"switchboard/config"
	"switchboard/tools/docs"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func library() []config.Doc {
	return []config.Doc{
		{Name: "help/waivers", Title: "Waivers", Text: "# Waivers\n\nMembers sign waivers before their first class. Ask the desk."},
		{Name: "help/exporting", Title: "Exporting waivers", Text: "Open Reports and choose\n\nExport. The file holds every waiver of the month."},
		{Name: "help/hours", Title: "Opening hours", Text: "Change the opening hours under Settings, Club, Hours."},
		{Name: "help/deep/cafe", Title: "Café", Text: "The café sells espresso. The word waivers stands here once, and exports never."},
		{Name: "admin/secrets", Title: "Waivers for admins", Text: "Export waivers with the admin key."},
	}
}

func open(t *testing.T, documents []config.Doc) *docs.Index {
	t.Helper()
	x, err := docs.New(t.Context(), documents)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

func names(t *testing.T, v *docs.View, query string, limit int) []string {
	t.Helper()
	hits, err := v.Search(t.Context(), query, limit)
	if err != nil {
		t.Fatalf("search %q: %v", query, err)
	}
	var list []string
	for _, h := range hits {
		list = append(list, h.Name)
	}
	return list
}

func TestSearchRanks(t *testing.T) {
	t.Parallel()
	v := open(t, library()).View([]string{"help/**"})
	for query, want := range map[string][]string{
		"how do I export waivers?": {"help/exporting", "help/waivers", "help/deep/cafe"}, // stems; a title weighs more
		"export waiver":            {"help/exporting", "help/deep/cafe", "help/waivers"}, // all words before some
		"hour":                     {"help/hours"},
		"open":                     {"help/hours", "help/exporting"},
		"espr":                     {"help/deep/cafe"}, // the last word may be begun only
		"espr sells":               {"help/deep/cafe"},
		"CAFE":                     {"help/deep/cafe"},
		"e":                        nil, // one letter is no beginning
		"xyzzy":                    nil,
		"":                         nil,
		"?!* -- \"":                nil,
		"admin key":                nil, // not visible
	} {
		if d := cmp.Diff(want, names(t, v, query, 10)); d != "" {
			t.Errorf("%q: %s", query, d)
		}
	}
	if got := names(t, v, "export waivers", 1); len(got) != 1 {
		t.Errorf("limit 1: %v", got)
	}
	for _, limit := range []int{0, -1} {
		if got := names(t, v, "waivers", limit); got != nil {
			t.Errorf("limit %d: %v", limit, got)
		}
	}
}

func TestSearchSnippet(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("nothing here\n\n", 200) + "the kiln is fired on Fridays " + strings.Repeat("nothing more ", 200)
	v := open(t, []config.Doc{{Name: "kiln", Title: "Pottery", Text: long}}).View([]string{"**"})
	hits, err := v.Search(t.Context(), "kiln Friday", 5)
	if err != nil || len(hits) != 1 {
		t.Fatal(hits, err)
	}
	if s := hits[0].Snippet; !strings.Contains(s, "kiln is fired on Fridays") || strings.Contains(s, "\n") || len(s) > 400 {
		t.Errorf("snippet: %q", s)
	}
}

func TestSearchTakesAnyText(t *testing.T) {
	t.Parallel()
	v := open(t, library()).View([]string{"**"})
	for _, q := range []string{
		`" OR 1=1 --`, `waivers" AND "`, `NEAR(a b, 2)`, `title:waivers`, `-waivers`, `waivers*`, `^waivers`, `{name title}: x`, `AND`, `OR NOT`, "a\x00b",
		"\xff\xfe", strings.Repeat("word ", 5000), strings.Repeat("é", 4000), "'; DROP TABLE doc; --", "\u0301", "日本語", "👍", "१२३",
	} {
		names(t, v, q, 5)
	}
	rapid.Check(t, func(r *rapid.T) {
		q := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zA-Z"'*:^(){}+\-~ .]{0,40}`)).Draw(r, "q")
		if _, err := v.Search(context.Background(), q, 5); err != nil {
			r.Fatalf("%q: %v", q, err)
		}
	})
	if got := names(t, v, "waivers", 5); len(got) == 0 {
		t.Error("the index was harmed")
	}
}

func TestViewPatterns(t *testing.T) {
	t.Parallel()
	x := open(t, library())
	for pattern, want := range map[string]int{
		"**": 5, "help/**": 4, "help/*": 3, "*": 0, "*/*": 4, "**/cafe": 1, "help/**/cafe": 1, "help/hours": 1, "Help/hours": 0, "help/[": 0, "": 0, "help": 0, "**/**": 5,
	} {
		v := x.View([]string{pattern, pattern})
		got := 0
		for _, d := range library() {
			if _, ok := v.Fetch(d.Name); ok {
				got++
			}
		}
		if got != want {
			t.Errorf("%q shows %d, want %d", pattern, got, want)
		}
	}
	hidden := x.View([]string{"help/*"})
	for _, name := range []string{"admin/secrets", "Waivers for admins", "ADMIN/SECRETS"} {
		if _, ok := hidden.Fetch(name); ok {
			t.Errorf("%s is visible", name)
		}
	}
	if got := hidden.Near("admin/secret", 5); len(got) != 0 {
		t.Errorf("near names show %v", got)
	}
	for _, empty := range []*docs.View{nil, x.View(nil)} {
		if _, ok := empty.Fetch("help/hours"); ok || names(t, empty, "hours", 5) != nil || empty.Near("help/hours", 5) != nil {
			t.Error("an empty view shows something")
		}
	}
}

func TestFetch(t *testing.T) {
	t.Parallel()
	v := open(t, append(library(), config.Doc{Name: "waivers", Title: "Help/Hours", Text: "x"}, config.Doc{Name: "WAIVERS", Title: "loud", Text: "y"})).View([]string{"**"})
	for ask, want := range map[string]string{
		"help/waivers": "help/waivers", "Help/Waivers ": "help/waivers", "waivers": "waivers", "WAIVERS": "WAIVERS", "Waivers": "WAIVERS",
		"exporting WAIVERS": "help/exporting", "help/hours": "help/hours", "HELP/HOURS": "help/hours", "nope": "", "": "", "help/*": "", "../admin": "",
	} {
		d, ok := v.Fetch(ask)
		if d.Name != want || ok != (want != "") {
			t.Errorf("%q: %q %v", ask, d.Name, ok)
		}
	}
}

func TestNear(t *testing.T) {
	t.Parallel()
	v := open(t, library()).View([]string{"**"})
	for ask, want := range map[string][]string{
		"export-waivers": {"admin/secrets", "help/waivers", "help/exporting"},
		"help/huors":     {"help/hours", "help/waivers", "help/deep/cafe", "help/exporting"},
		"waiver":         {"help/waivers"},
		"zzzzzz":         nil,
		"":               nil,
	} {
		got := v.Near(ask, 5)
		seen := map[string]bool{}
		for _, g := range got {
			seen[g] = true
		}
		for _, w := range want {
			if !seen[w] {
				t.Errorf("%q: %s is missing in %v", ask, w, got)
			}
		}
		if want == nil && got != nil {
			t.Errorf("%q: %v", ask, got)
		}
	}
	if got := v.Near("help", 2); len(got) != 2 {
		t.Errorf("at most two: %v", got)
	}
}

func TestIndexSurvivesCancelledSearches(t *testing.T) {
	t.Parallel()
	v := open(t, library()).View([]string{"**"})
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(cancel)
		if hits, err := v.Search(ctx, "waivers", 5); err != nil && !errors.Is(err, context.Canceled) && ctx.Err() == nil {
			t.Errorf("%v %v", hits, err)
		}
		wg.Wait()
		if len(names(t, v, "waivers", 5)) != 4 {
			t.Fatal("the index has lost documents")
		}
	}
}

func TestSearchFromManyGoroutines(t *testing.T) {
	t.Parallel()
	x := open(t, library())
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			v := x.View([]string{"help/**"})
			for range 20 {
				hits, err := v.Search(t.Context(), fmt.Sprint("waivers ", i), 5)
				if err != nil || len(hits) != 3 {
					t.Error(hits, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestNewAndClose(t *testing.T) {
	t.Parallel()
	if _, err := docs.New(t.Context(), []config.Doc{{Name: "a"}, {Name: "b"}, {Name: "a"}}); err == nil || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("two of a name: %v", err)
	}
	for _, used := range []bool{false, true} {
		x, err := docs.New(t.Context(), library())
		if err != nil {
			t.Fatal(err)
		}
		v := x.View([]string{"**"})
		if used {
			names(t, v, "waivers", 1)
		}
		for range 2 {
			if err := x.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := v.Search(t.Context(), "waivers", 1); !errors.Is(err, docs.ErrClosed) {
			t.Errorf("search after close: %v", err)
		}
		if _, ok := v.Fetch("help/hours"); !ok {
			t.Error("fetching needs no index")
		}
	}
	empty, err := docs.New(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, empty.View([]string{"**"}), "waivers", 5); got != nil {
		t.Error(got)
	}
}
