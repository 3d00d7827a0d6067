package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"switchboard/store"
	"switchboard/store/sqlite"
	"switchboard/store/storetest"

	"go.uber.org/goleak"
)

// TestMain plays the second process where a test asks for one, else runs the tests.
func TestMain(m *testing.M) {
	if path := os.Getenv("SQLITE_TEST_CHILD"); path != "" {
		os.Exit(child(os.Args[1], path))
	}
	goleak.VerifyTestMain(m)
}

// start is the time on the clocks of the tests.
func start() time.Time { return time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC) }

// file is a Harness over one file.
type file struct {
	*storetest.Clock
	path  string
	store store.Store
}

func newFile(t *testing.T) storetest.Harness {
	t.Helper()
	f := &file{Clock: storetest.NewClock(start()), path: filepath.Join(t.TempDir(), "bot.db")}
	f.open(t)
	t.Cleanup(func() {
		if err := f.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *file) open(t *testing.T) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), f.path, sqlite.Options{Now: f.Now, AfterFunc: f.AfterFunc})
	if err != nil {
		t.Fatal(err)
	}
	f.store = s
}

func (f *file) Store() store.Store { return f.store }

func (f *file) Reopen(t *testing.T) store.Store {
	t.Helper()
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	f.open(t)
	return f.store
}

func TestExam(t *testing.T) {
	t.Parallel()
	storetest.Exam(t, newFile)
}
