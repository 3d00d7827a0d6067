package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"switchboard/store"
	"switchboard/store/sqlite"
)

// openFile opens a store and closes it at the end of the test.
func openFile(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// large is a batch that touches everything; its content has the given size.
func large(key string, size int) store.Batch {
	return store.Batch{
		Puts:     []store.Put{{Key: key, Value: []byte("v")}},
		Events:   []store.Event{{Stream: key, Kind: "x"}},
		Contents: []store.Content{{Key: key, Value: make([]byte, size)}},
		Adds:     []store.Add{{Key: key, Delta: 1}},
		Push:     []store.Item{{Key: key, Thread: key}},
	}
}

// written says whether all of large is there or nothing; what is in between fails the test.
func written(t *testing.T, s store.Store, key string) bool {
	t.Helper()
	r, err1 := s.Get(t.Context(), key)
	es, err2 := s.Events(t.Context(), key)
	c, err3 := s.Content(t.Context(), key)
	n, err4 := s.Count(t.Context(), key)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	some := r.Version > 0 || len(es) > 0 || c != nil || n > 0
	if some && (r.Version != 1 || len(es) != 1 || es[0].Seq != 1 || c == nil || n != 1) {
		t.Fatalf("batch %q is half there: %+v, %v, %d bytes, %d", key, r, es, len(c), n)
	}
	return some
}

func TestD1_FullDiskIsAnErrorAndNothingIsHalfWritten(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := openFile(t, filepath.Join(t.TempDir(), "bot.db"))
	if err := s.Pragma("max_page_count = 200"); err != nil {
		t.Fatal(err)
	}
	var full error
	good := 0
	for ; full == nil && good < 100; good++ {
		full = s.Commit(ctx, large(fmt.Sprint("k", good), 50_000))
	}
	good--
	if full == nil || !strings.Contains(full.Error(), "disk is full: free some space") {
		t.Fatalf("after %d batches: %v", good, full)
	}
	for i := range good + 1 {
		if written(t, s, fmt.Sprint("k", i)) != (i < good) {
			t.Errorf("batch %d of %d", i, good)
		}
	}
	if fresh, err := s.Push(ctx, store.Item{Key: "big", Thread: "t", Body: make([]byte, 900_000)}); err == nil || fresh {
		t.Fatalf("pushed to a full disk: %v, %v", fresh, err)
	}
	commits := s.Commits()
	if err := s.Pragma("max_page_count = 2000"); err != nil {
		t.Fatal(err)
	}
	// With space again all goes on, the refused keys included.
	if err := s.Commit(ctx, large(fmt.Sprint("k", good), 50_000)); err != nil {
		t.Fatal(err)
	}
	if fresh, err := s.Push(ctx, store.Item{Key: "big", Thread: "t"}); err != nil || !fresh {
		t.Fatalf("push with space again: %v, %v", fresh, err)
	}
	if n := s.Commits() - commits; n != 2 {
		t.Errorf("%d durable commits for two", n)
	}
	for range good + 2 {
		l, err := claim(t, s, 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if items, err := s.Items(ctx, l); err != nil || len(items) != 1 {
			t.Errorf("thread %q: %v, %v", l.Thread, items, err)
		}
	}
}

// One batch that does not fit must not take along those that share its commit; nor a refused one.
func TestGroupedBatchesDoNotHurtEachOther(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s := openFile(t, filepath.Join(t.TempDir(), "bot.db"))
	if err := s.Commit(ctx, large("taken", 1)); err != nil {
		t.Fatal(err)
	}
	l, err := claim(t, s, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	release := store.Batch{Lease: &l, Release: true}
	ack := large("ack", 1)
	ack.Lease, ack.Ack = &l, []string{"taken"}
	again := large("again", 1)
	again.Lease, again.Ack = &l, []string{"taken"}
	late := large("late", 1)
	late.Lease = &l
	conflict := large("conflict", 1)
	conflict.Puts = append(conflict.Puts, store.Put{Key: "taken", Value: []byte("w")})

	if err := s.Pragma("max_page_count = 200"); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 2_000_000} { // all in one commit; then one that does not fit, and each alone
		commits := s.Commits()
		tag := func(b store.Batch, key string) *sqlite.Request {
			b.Events, b.Contents, b.Adds, b.Push = large(key, 1).Events, large(key, 1).Contents, large(key, 1).Adds, nil
			b.Puts = append(large(key, 1).Puts, b.Puts[1:]...)
			return sqlite.NewRequest(b)
		}
		name := func(kind string) string { return fmt.Sprint(kind, size) }
		errs := s.GroupTogether(
			sqlite.NewRequest(large(name("first"), 1)), tag(conflict, name("conflict")), sqlite.NewRequest(large(name("big"), size)),
			tag(ack, name("ack")), tag(again, name("again")), sqlite.NewRequest(release), tag(late, name("late")),
			sqlite.NewRequest(large(name("last"), 1)))
		wants := []struct {
			key string
			ok  bool
			is  error
		}{
			{"first", true, nil},
			{"conflict", false, store.ErrConflict},
			{"big", size == 1, nil},
			{"ack", true, nil},
			{"again", false, nil},
			{"", true, nil},
			{"late", false, store.ErrStale},
			{"last", true, nil},
		}
		for i, want := range wants {
			if (errs[i] == nil) != want.ok || (want.is != nil && !errors.Is(errs[i], want.is)) {
				t.Errorf("size %d, batch %d %s: %v", size, i, want.key, errs[i])
			}
			if want.key != "" && written(t, s, name(want.key)) != want.ok {
				t.Errorf("size %d: batch %s written: %v", size, want.key, !want.ok)
			}
		}
		if n := s.Commits() - commits; (n == 1) != (size == 1) {
			t.Errorf("size %d took %d commits", size, n)
		}
		// The lease is gone and the acked item with it; the next round needs both anew.
		if _, err := s.Push(ctx, store.Item{Key: name("next"), Thread: "taken"}); err != nil {
			t.Fatal(err)
		}
		for l.Thread = ""; l.Thread != "taken"; {
			if l, err = claim(t, s, 20*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		items, err := s.Items(ctx, l)
		if err != nil || len(items) != 1 || items[0].Key != name("next") {
			t.Fatalf("items after the acks: %v, %v", items, err)
		}
		ack.Ack, again.Ack = []string{name("next")}, []string{name("next")}
	}
}

func TestReadOnlyFileIsAnError(t *testing.T) {
	t.Parallel()
	s := openFile(t, filepath.Join(t.TempDir(), "bot.db"))
	if err := s.Pragma("query_only = ON"); err != nil {
		t.Fatal(err)
	}
	err := s.Commit(t.Context(), large("k", 1))
	if err == nil || !strings.Contains(err.Error(), "read-only: make it writable") {
		t.Fatalf("commit to a read-only file: %v", err)
	}
	if written(t, s, "k") || s.Commits() != 0 || s.Batches() != 0 {
		t.Error("something was written or counted")
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database. ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	query := func(path, q string) string {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	foreign := query(filepath.Join(dir, "foreign.db"), "CREATE TABLE songs (name)")
	newer := filepath.Join(dir, "newer.db")
	if err := openFile(t, newer).Close(); err != nil {
		t.Fatal(err)
	}
	query(newer, "PRAGMA user_version = 99")
	before, err := fs.ReadFile(os.DirFS(dir), "foreign.db")
	if err != nil {
		t.Fatal(err)
	}
	for path, part := range map[string]string{
		text:                               "this is no store: name another file",
		foreign:                            "database of another program; name another file",
		newer:                              "schema is version 99 and this program knows up to 1; use the newer program",
		dir:                                "is a folder",
		filepath.Join(dir, "no", "bot.db"): "its folder must exist",
	} {
		for range 2 { // a failed Open leaves no lock behind
			if s, err := sqlite.Open(t.Context(), path, sqlite.Options{}); err == nil || !strings.Contains(err.Error(), part) ||
				!strings.Contains(err.Error(), path) {
				t.Errorf("open %s: %v, %v, want %q", path, s, err, part)
			}
		}
		if _, err := sqlite.OpenReader(t.Context(), path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("read %s: %v", path, err)
		}
	}
	after, err := fs.ReadFile(os.DirFS(dir), "foreign.db")
	if err != nil || string(after) != string(before) {
		t.Errorf("the foreign database was changed, %v", err)
	}
	missing := filepath.Join(dir, "missing.db")
	if _, err := sqlite.OpenReader(t.Context(), missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("read a missing file: %v", err)
	}
	if _, err := os.Stat(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a reader created the file: %v", err)
	}
}

func TestNamesAndRightsOfTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a bot?mode=ro&x#1%41.db")
	s := openFile(t, path)
	if err := s.Commit(t.Context(), large("k", 1)); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has rights %s", suffix, info.Mode())
		}
	}
	// A reader of the file at rest, when nobody else has it open.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := sqlite.OpenReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if rec, err := r.Get(t.Context(), "k"); err != nil || rec.Version != 1 {
		t.Errorf("read the file at rest: %+v, %v", rec, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// What was deleted must be gone from the file, not only from view.
func TestD6_DeletedWordsLeaveTheFile(t *testing.T) {
	t.Parallel()
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "bot.db")
	s := openFile(t, path)
	secret := "a-word-that-was-said"
	b := store.Batch{Push: []store.Item{{Key: "k", Thread: "t", Body: []byte(secret)}}}
	for i := range 20 {
		b.Contents = append(b.Contents, store.Content{
			Key: fmt.Sprint(i), Value: []byte(strings.Repeat(secret, 1+i*100)), Until: time.Now().Add(-time.Second),
		})
	}
	if err := s.Commit(ctx, b); err != nil {
		t.Fatal(err)
	}
	l, err := claim(t, s, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(ctx, store.Batch{Lease: &l, Ack: []string{"k"}}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Sweep(ctx); err != nil || n != 20 {
		t.Fatalf("sweep: %d, %v", n, err)
	}
	if err := s.Close(); err != nil { // folds the WAL in
		t.Fatal(err)
	}
	raw, err := fs.ReadFile(os.DirFS(filepath.Dir(path)), filepath.Base(path))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), secret) {
		t.Error("deleted words are still in the file")
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the WAL is still there: %v", err)
	}
}

func TestCommitsAreShared(t *testing.T) {
	t.Parallel()
	s := openFile(t, filepath.Join(t.TempDir(), "bot.db"))
	var batches []*sqlite.Request
	for i := range 50 {
		batches = append(batches, sqlite.NewRequest(large(fmt.Sprint("k", i), 10)))
	}
	if err := errors.Join(s.GroupTogether(batches...)...); err != nil {
		t.Fatal(err)
	}
	if s.Commits() != 1 || s.Batches() != 50 {
		t.Errorf("%d commits for %d batches", s.Commits(), s.Batches())
	}
	// What writes nothing costs no commit of the disk.
	l, err := claim(t, s, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(context.Background(), store.Batch{Lease: &l, Release: true}); err != nil {
		t.Fatal(err)
	}
	if s.Commits() != 1 {
		t.Errorf("a release alone took a commit")
	}
}
