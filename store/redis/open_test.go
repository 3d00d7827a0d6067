package redis_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"switchboard/store"
	"switchboard/store/redis"
	"switchboard/store/redistest"
)

func TestRel_R05_OpenRefusesServersThatLose(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args    []string
		o       redis.Options
		refused string // a part of the error
		promise string // a part of the promise where it opens
	}{
		"everysec":    {args: []string{"--appendfsync", "everysec"}, promise: "may lose up to the last two seconds (appendfsync everysec;"},
		"always":      {args: []string{"--appendfsync", "always"}, promise: "nothing acknowledged is lost"},
		"no fsync":    {args: []string{"--appendfsync", "no"}, promise: "half a minute"},
		"rewrite":     {args: []string{"--no-appendfsync-on-rewrite", "yes"}, promise: "more while it rewrites"},
		"no aof":      {args: []string{"--appendonly", "no", "--save", "60 1"}, refused: "set appendonly yes"},
		"loss":        {args: []string{"--appendonly", "no", "--save", "60 1"}, o: redis.Options{AllowLoss: true}, promise: "since its last snapshot is lost (save 60 1)"},
		"all loss":    {args: []string{"--appendonly", "no"}, o: redis.Options{AllowLoss: true}, promise: "everything is lost"},
		"evicting":    {args: []string{"--maxmemory-policy", "allkeys-lru"}, o: redis.Options{AllowLoss: true}, refused: "set maxmemory-policy noeviction"},
		"volatile":    {args: []string{"--maxmemory-policy", "volatile-ttl"}, refused: "set maxmemory-policy noeviction"},
		"cluster":     {args: []string{"--cluster-enabled", "yes"}, refused: "cluster-enabled no"},
		"replica":     {args: []string{"--replicaof", "127.0.0.1 1"}, refused: "name the primary"},
		"no CONFIG":   {args: []string{"--rename-command", "CONFIG", ""}, promise: "CONFIG is forbidden"},
		"empty name":  {o: redis.Options{Name: " "}, refused: "braces, spaces"},
		"name braces": {o: redis.Options{Name: "a}b"}, refused: "braces, spaces"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, c.args...)
			if c.o.Name == "" {
				c.o.Name = "test"
			}
			s, err := redis.Open(t.Context(), server.URL(), c.o)
			if err != nil {
				if c.refused == "" || !strings.Contains(err.Error(), c.refused) {
					t.Fatalf("refused: %v, want %q", err, c.refused)
				}
				return
			}
			if c.refused != "" || !strings.Contains(s.Promise(), c.promise) || strings.Count(s.Promise(), "\n") > 0 {
				t.Errorf("opened, want refusal %q; promises %q, want %q", c.refused, s.Promise(), c.promise)
			}
			push(t, s, "t", "k")
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "secret-of-the-server")
	gone := redistest.Start(t)
	gone.Kill()
	for url, part := range map[string]string{ //nolint:gosec // passwords of this test
		"http://user:secret@host/":        "write redis://host:port/db",
		"redis://:wrong@" + server.Addr(): "check the user, the password",
		server.URL():                      "check the user, the password",
		gone.URL():                        "is it running",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := redis.Open(ctx, url, redis.Options{Name: "test", Patience: 300 * time.Millisecond})
		cancel()
		if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "secret") {
			t.Errorf("open %s: %v, want %q", url, err, part)
		}
	}
	open(t, "redis://:secret-of-the-server@"+server.Addr(), redis.Options{})
}

// A command that reads needs no right to write, and finds what the process beside it wrote.
func TestReaderOnlyReads(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ctx, c := t.Context(), server.Client(t)
	err := c.Do(ctx, "ACL", "SETUSER", "looker", "on", ">pw", "~*", "+@read", "+@connection", "+info", "+eval_ro", "+evalsha_ro", "+time").Err()
	if err != nil {
		t.Fatal(err)
	}
	url := "redis://looker:pw@" + server.Addr()
	if _, err := redis.OpenReader(ctx, url, redis.Options{Name: "test"}); err == nil || !strings.Contains(err.Error(), "when the bot first runs") {
		t.Errorf("read a store that is not there: %v", err)
	}
	s := open(t, server.URL(), redis.Options{})
	push(t, s, "t", "k")
	l := claim(t, s, time.Minute)
	if err := s.Commit(ctx, store.Batch{
		Puts: []store.Put{{Key: "r", Value: []byte("v")}}, Events: []store.Event{{Stream: "s", Kind: "x", Meta: []byte("{}")}},
		Contents: []store.Content{{Key: "c", Value: []byte("w")}}, Adds: []store.Add{{Key: "n", Delta: 7}},
	}); err != nil {
		t.Fatal(err)
	}
	r, err := redis.OpenReader(ctx, url, redis.Options{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	rec, err1 := r.Get(ctx, "r")
	under, err2 := r.Under(ctx, "")
	es, err3 := r.Streams(ctx, "x", 5)
	content, err4 := r.Content(ctx, "c")
	n, err5 := r.Count(ctx, "n")
	threads, err6 := r.Threads(ctx, 5)
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil || rec.Version != 1 || len(under) != 1 || len(es) != 1 ||
		string(content) != "w" || n != 7 || len(threads) != 1 || threads[0].Epoch != l.Epoch || threads[0].Leased < 30*time.Second {
		t.Errorf("read %+v, %v, %v, %q, %d, %+v, %v", rec, under, es, content, n, threads, err)
	}
	if !strings.Contains(r.Promise(), "CONFIG is forbidden") {
		t.Errorf("promises %q", r.Promise())
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Error(err)
	}
	if _, err := r.Get(ctx, "r"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("read after Close: %v", err)
	}
}

func TestNewerLayoutIsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	if err := server.Client(t).HSet(t.Context(), "{bot:test}:meta", "version", 99).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := redis.Open(t.Context(), server.URL(), redis.Options{Name: "test"}); err == nil || !strings.Contains(err.Error(), "use the newer program") {
		t.Errorf("opened: %v", err)
	}
}
