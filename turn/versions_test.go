package turn

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rs/zerolog"

	"switchboard/assistants"
	"switchboard/config"
	"switchboard/llm"
	"switchboard/store/sqlite"
)

// deskOf opens a version of a small pack; n tells versions apart.
func deskOf(t *testing.T, n int) *assistants.Desk {
	t.Helper()
	pack, err := config.Load(fstest.MapFS{
		"bot.yaml": {Data: []byte("pack: 1\nname: desk\nmodels: {fast: {use: openai/m}}\nrouter: {model: fast}\n")},
		"assistants/help.yaml": {Data: fmt.Appendf(nil,
			"about: Version %d.\nexamples: [hello]\nmodel: fast\nrounds: 2\ntools: [docs.search]\nopen_to: [everyone]\ninstructions: Help.\n", n)},
		"docs/a.md": {Data: []byte("# A\nwords\n")},
	}, config.Options{Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	d, err := assistants.Open(t.Context(), pack, assistants.Options{Now: time.Now, Model: func(config.Model) (llm.Model, error) { return nil, nil }}) //nolint:nilnil // nobody asks it
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Saving a pack again and again leaves only those versions open that turns are pinned to, and the active one.
func TestD5_AVersionLivesAsLongAsATurnIsPinnedToIt(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "bot.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	first := deskOf(t, 0)
	v := newVersions(first, Options{Store: st, Log: zerolog.Nop()})
	if err := v.keep(t.Context(), first.Pack); err != nil {
		t.Fatal(err)
	}
	pinned, err := v.use(t.Context(), "")
	if err != nil || pinned.Desk != first {
		t.Fatalf("the active version is %v, %v", pinned, err)
	}
	for n := range 5 {
		if err := v.swap(t.Context(), deskOf(t, n+1)); err != nil {
			t.Fatal(err)
		}
	}
	if len(v.held) != 2 {
		t.Errorf("%d versions are open while one turn is pinned, want 2", len(v.held))
	}
	again, err := v.use(t.Context(), first.Pack.Digest)
	if err != nil || again != pinned {
		t.Errorf("a second turn of that version got %p, %v; want %p", again, err, pinned)
	}
	v.leave(again)
	if len(v.held) != 2 {
		t.Error("a version was closed while a turn used it")
	}
	// The files of the pinned version come back: it is the same version, and active again.
	back := deskOf(t, 0)
	if err := v.swap(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	if v.desk() != first || len(v.held) != 1 {
		t.Errorf("after going back %d versions are open, and the active one is not the one that was pinned", len(v.held))
	}
	v.leave(pinned)
	if err := v.swap(t.Context(), deskOf(t, 9)); err != nil {
		t.Fatal(err)
	}
	if len(v.held) != 1 || v.desk() == first {
		t.Errorf("%d versions are open at the end, want the active one", len(v.held))
	}
	renamed := deskOf(t, 10)
	renamed.Pack.Name = "another"
	if err := v.swap(t.Context(), renamed); err == nil || v.desk() == renamed {
		t.Errorf("a version of another bot was taken up: %v", err)
	}
	if err := renamed.Close(); err != nil {
		t.Error(err)
	}
	if err := v.close(); err != nil {
		t.Error(err)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}
