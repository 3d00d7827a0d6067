package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchboard/store"
	"switchboard/store/sqlite"
)

// child is the second process. It says on stdout what it has done and goes on until it is killed or its stdin ends.
func child(mode, path string) int {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		fmt.Println(err) // the parent reads it
		return 1
	}
	var mu sync.Mutex
	say := func(word string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(word)
	}
	say("open")
	if mode == "write" {
		for i := range 8 {
			go write(ctx, s, i, say)
		}
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return 1
	}
	return 0
}

// write pushes and commits without end. It names each key once the store has said that it is durable.
func write(ctx context.Context, s *sqlite.Store, writer int, say func(string)) {
	for i := 0; ; i++ {
		key := fmt.Sprintf("%d.%d.%d", os.Getpid(), writer, i)
		if _, err := s.Push(ctx, store.Item{Key: key, Thread: strconv.Itoa(writer), Body: []byte(key)}); err != nil {
			say("failed " + err.Error())
			return
		}
		say("pushed " + key)
		err := s.Commit(ctx, store.Batch{
			Puts:     []store.Put{{Key: key, Value: []byte(key)}},
			Events:   []store.Event{{Stream: strconv.Itoa(writer), Kind: "x", Meta: []byte(key)}},
			Contents: []store.Content{{Key: key, Value: []byte(strings.Repeat(key, 500))}},
			Adds:     []store.Add{{Key: "n", Delta: 1}},
		})
		if err != nil {
			say("failed " + err.Error())
			return
		}
		say("wrote " + key)
	}
}

// spawn starts a child and waits until it has the store open.
func spawn(t *testing.T, mode, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], mode) //nolint:gosec // this test binary
	c.Env = append(os.Environ(), "SQLITE_TEST_CHILD="+path)
	if _, err := c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "open" {
		t.Fatalf("the child says %q", lines.Text())
	}
	return c, lines
}

// kill ends a child with SIGKILL and gives what it had still said.
func kill(t *testing.T, c *exec.Cmd, lines *bufio.Scanner) (rest []string) {
	t.Helper()
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		rest = append(rest, lines.Text())
	}
	var e *exec.ExitError
	if err := c.Wait(); !errors.As(err, &e) || !e.Sys().(syscall.WaitStatus).Signaled() { //nolint:forcetypeassert // on Linux
		t.Fatalf("the child ended with %v", err)
	}
	return rest
}

func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bot.db")
	c, lines := spawn(t, "hold", path)
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if !errors.Is(err, store.ErrInUse) {
		t.Fatalf("open beside a working process: %v, %v", s, err)
	}
	for _, part := range []string{path, fmt.Sprintf("(pid %d)", c.Process.Pid), "bot runs", "bot trace"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %s", err, part)
		}
	}
	kill(t, c, lines)
	s, err = sqlite.Open(t.Context(), path, sqlite.Options{}) // the kernel has freed the lock
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); !errors.Is(err, store.ErrInUse) {
		t.Fatalf("open twice in one process: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), link, sqlite.Options{}); !errors.Is(err, store.ErrInUse) {
		t.Fatalf("open through a link: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestD3_KillLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bot.db")
	pushed, wrote := map[string]bool{}, map[string]bool{}
	for round := range 5 {
		c, lines := spawn(t, "write", path)
		var said []string
		for range 1 + 20*round { // the first kill comes before some of the writers have begun
			if !lines.Scan() {
				t.Fatal("the child stopped")
			}
			said = append(said, lines.Text())
		}
		for _, line := range append(said, kill(t, c, lines)...) {
			switch verb, key, _ := strings.Cut(line, " "); verb {
			case "pushed":
				pushed[key] = true
			case "wrote":
				wrote[key] = true
			default:
				t.Fatalf("the child said %q", line)
			}
		}
		examine(t, path, pushed, wrote)
	}
}

// examine holds the file against what was acknowledged, and every batch against all or nothing.
func examine(t *testing.T, path string, pushed, wrote map[string]bool) {
	t.Helper()
	ctx := t.Context()
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	waits := map[string]bool{}
	total, err := s.Waiting(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for len(waits) < total {
		l, err := claim(t, s, 20*time.Second)
		if err != nil {
			t.Fatalf("claim after %d of %d items: %v", len(waits), total, err)
		}
		items, err := s.Items(ctx, l)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			if waits[it.Key] || string(it.Body) != it.Key {
				t.Errorf("item %q twice or damaged", it.Key)
			}
			waits[it.Key] = true
		}
	}
	for key := range pushed {
		if !waits[key] {
			t.Errorf("push %q was acknowledged and is lost", key)
		}
	}
	contents, err := s.ContentsUnder(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]bool{}
	for _, c := range contents {
		kept[c.Key] = true
		if r, err := s.Get(ctx, c.Key); err != nil || string(r.Value) != c.Key {
			t.Errorf("batch %q is half there: %+v, %v", c.Key, r, err)
		}
	}
	for key := range wrote {
		if !kept[key] {
			t.Errorf("batch %q was acknowledged and is lost", key)
		}
	}
	events := 0
	for i := range 8 {
		es, err := s.Events(ctx, strconv.Itoa(i))
		if err != nil {
			t.Fatal(err)
		}
		events += len(es)
		for _, e := range es {
			if !kept[string(e.Meta)] {
				t.Errorf("event of batch %q without its content", e.Meta)
			}
		}
	}
	if n, err := s.Count(ctx, "n"); err != nil || int(n) != len(kept) || events != len(kept) {
		t.Errorf("%d batches, %d events, counter %d, %v", len(kept), events, n, err)
	}
}

func TestReaderBesideAWriter(t *testing.T) {
	t.Parallel()
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "bot.db")
	c, lines := spawn(t, "write", path)
	r, err := sqlite.OpenReader(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for seen < 60 && lines.Scan() {
		key, wrote := strings.CutPrefix(lines.Text(), "wrote ")
		if !wrote {
			continue
		}
		seen++
		if rec, err := r.Get(ctx, key); err != nil || string(rec.Value) != key {
			t.Fatalf("read %q beside the writer: %+v, %v", key, rec, err)
		}
		if v, err := r.Content(ctx, key); err != nil || len(v) != 500*len(key) {
			t.Fatalf("read content %q beside the writer: %d bytes, %v", key, len(v), err)
		}
	}
	if es, err := r.Streams(ctx, "x", 100); err != nil || len(es) == 0 {
		t.Fatalf("streams beside the writer: %v, %v", es, err)
	}
	kill(t, c, lines)
	n, err := r.Count(ctx, "n")
	if err != nil || int(n) < seen {
		t.Fatalf("count after the writer's death: %d, %v", n, err)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Get(ctx, "k"); !errors.Is(err, store.ErrClosed) {
		t.Fatalf("read after Close: %v", err)
	}
}

// A child that is being forked has every open file until its exec; a second descriptor is the same to the kernel.
func TestCloseFreesTheLockForGood(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bot.db")
	s := openFile(t, path)
	shared, err := syscall.Dup(s.LockFile())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Close(shared); err != nil {
			t.Error(err)
		}
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	openFile(t, path)
}

// A command beside the working process sees what waits and what was refused, as far as the file has it.
func TestReaderSeesTheBacklog(t *testing.T) {
	t.Parallel()
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "bot.db")
	s := openFile(t, path)
	push := func(thread, key string) {
		t.Helper()
		if _, err := s.Push(ctx, store.Item{Key: key, Thread: thread}); err != nil {
			t.Fatal(err)
		}
	}
	push("b", "b1")
	push("a", "a1")
	push("b", "b2")
	r, err := sqlite.OpenReader(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	look := func(stale int64, want ...store.ThreadState) {
		t.Helper()
		got, err := r.Threads(ctx, 10)
		n, err2 := r.Stale(ctx)
		if diff := cmp.Diff(want, got); diff != "" || n != stale || errors.Join(err, err2) != nil {
			t.Errorf("%d stale writes, %v, %v (-want +got)\n%s", n, err, err2, diff)
		}
	}
	look(0, store.ThreadState{Thread: "b", Waiting: 2}, store.ThreadState{Thread: "a", Waiting: 1})
	l, err := claim(t, s, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(ctx, store.Batch{Lease: &l, Ack: []string{"b1"}, Release: true}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Renew(ctx, l, time.Minute); !errors.Is(err, store.ErrStale) {
			t.Fatal(err)
		}
	}
	commits := s.Commits()
	if err := s.Commit(ctx, store.Batch{Lease: &l, Ack: []string{"b2"}}); !errors.Is(err, store.ErrStale) || s.Commits() != commits {
		t.Errorf("a refusal took the disk: %v", err)
	}
	look(0, store.ThreadState{Thread: "a", Waiting: 1}, store.ThreadState{Thread: "b", Waiting: 1})
	push("c", "c1") // the next commit takes the sum along
	look(3, store.ThreadState{Thread: "a", Waiting: 1}, store.ThreadState{Thread: "b", Waiting: 1}, store.ThreadState{Thread: "c", Waiting: 1})
	if err := errors.Join(s.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	s = openFile(t, path)
	if n, err := s.Stale(ctx); n != 3 || err != nil {
		t.Errorf("%d stale writes after a start, %v", n, err)
	}
}
