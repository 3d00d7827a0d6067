package rehearse_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"switchboard/config"
	"switchboard/rehearse"
	"switchboard/store"
	"switchboard/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shelf is the server behind the pack in testdata/desk.
type shelf struct {
	*httptest.Server

	mu    sync.Mutex
	items map[string]int
	asked int
	auth  string // the bearer token that it wants
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{items: map[string]int{"ball": 12}, auth: "for " + t.Name()}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *shelf) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	item := strings.TrimPrefix(r.URL.Path, "/items/")
	body := struct {
		Org    string
		Amount int
	}{Org: r.URL.Query().Get("org")}
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, "no JSON", http.StatusBadRequest)
			return
		}
		s.items[item] = body.Amount
	}
	if body.Org != "org_7" || r.Header.Get("Authorization") != "Bearer "+s.auth {
		http.Error(w, "who are you?", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"item": item, "amount": s.items[item]})
}

func (s *shelf) set(item string, amount int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items[item] = amount
}

func (s *shelf) count(item string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items[item]
}

func (s *shelf) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// options play the pack in dir with its server, each rehearsal on a store in a file of its own.
func options(t *testing.T, pack *config.Pack, env map[string]string, client *http.Client) rehearse.Options {
	t.Helper()
	return rehearse.Options{
		Pack:   pack,
		Env:    func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Client: client,
		Store: func(ctx context.Context) (store.Store, error) {
			return sqlite.Open(ctx, filepath.Join(t.TempDir(), "bot.db"), sqlite.Options{})
		},
		Now: time.Now,
		Log: zerolog.Nop(),
	}
}

// desk is the pack in testdata/desk, or with other rehearsals instead of its own, and with other files in place of some.
func desk(t *testing.T, s *shelf, rehearsals string, others ...map[string]string) rehearse.Options {
	t.Helper()
	files := fstest.MapFS{}
	dir := os.DirFS("testdata/desk")
	err := fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || rehearsals != "" && strings.HasPrefix(name, "rehearsals/") {
			return err
		}
		data, err := fs.ReadFile(dir, name)
		files[name] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if rehearsals != "" {
		files["rehearsals/own.yaml"] = &fstest.MapFile{Data: []byte(rehearsals)}
	}
	for _, m := range others {
		for name, text := range m {
			files[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	pack, err := config.Load(files, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return options(t, pack, map[string]string{"DESK_URL": s.URL, "DESK_TOKEN": s.auth}, s.Client())
}

// play plays the only rehearsal.
func play(t *testing.T, o rehearse.Options) rehearse.Result {
	t.Helper()
	if len(o.Pack.Rehearsals) != 1 {
		t.Fatalf("%d rehearsals, want 1", len(o.Pack.Rehearsals))
	}
	got, err := rehearse.Play(t.Context(), o.Pack.Rehearsals[0], o)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
