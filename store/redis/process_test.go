package redis_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"switchboard/store"
	"switchboard/store/redis"
	"switchboard/store/redistest"
)

// leaseOf is how long the leases of the children run.
const leaseOf = time.Second

// child is a second process: "work" works off items until it is killed, "zombie" holds a lease until it is told to write.
func child(args []string, url string) int {
	ctx := context.Background()
	s, err := redis.Open(ctx, url, redis.Options{Name: "test"})
	if err != nil {
		fmt.Println("failed", err)
		return 1
	}
	for {
		l, err := s.Claim(ctx, leaseOf)
		if err != nil {
			fmt.Println("failed", err)
			return 1
		}
		items, err := s.Items(ctx, l)
		if len(items) == 0 || err != nil {
			continue
		}
		b := store.Batch{
			Lease: &l, Ack: []string{items[0].Key}, Release: true, Adds: []store.Add{{Key: "done", Delta: 1}},
			Events: []store.Event{{Stream: l.Thread, Kind: "done", Meta: []byte(items[0].Key)}},
		}
		if args[0] == "zombie" {
			fmt.Println("claimed")
			_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // at the latest when the parent has gone
			err = s.Commit(ctx, b)
			if errors.Is(err, store.ErrStale) && errors.Is(s.Renew(ctx, l, leaseOf), store.ErrStale) {
				fmt.Println("refused")
			}
			return 0
		}
		<-time.After(5 * time.Millisecond) // so that a kill finds it between the look and the write
		_ = s.Commit(ctx, b)               // stale or in doubt: another worker finds out
	}
}

type process struct {
	*exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func spawn(t *testing.T, url, role string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], role)} //nolint:noctx,gosec // this very program; it is killed by hand
	p.Env = append(os.Environ(), "REDIS_TEST_CHILD="+url)
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	if err == nil {
		p.in, err = p.StdinPipe()
	}
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	t.Cleanup(p.kill)
	return p
}

// kill ends the process, if it still runs.
func (p *process) kill() {
	if p.ProcessState == nil {
		_ = p.Process.Kill()
		_ = p.Wait()
	}
}

// Workers and server are killed, workers stopped beyond their leases and woken again, while items come. Each item is done
// once, each thread in order.
func TestRel_R03_R15_ChaosKeepsOrderAndLosesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.URL(), redis.Options{})
	const threads = 8
	ctx, cancel := context.WithTimeout(t.Context(), chaos)
	defer cancel()
	var writers sync.WaitGroup
	var accepted [threads]int
	for w := range threads {
		writers.Go(func() {
			for ; ctx.Err() == nil; accepted[w]++ {
				//nolint:contextcheck // the end of the chaos must not cut off a push
				if _, err := s.Push(t.Context(), store.Item{Key: fmt.Sprintf("%d-%05d", w, accepted[w]), Thread: fmt.Sprint("t", w)}); err != nil {
					t.Error(err)
					return
				}
				<-time.After(20 * time.Millisecond)
			}
		})
	}
	dice := rand.New(rand.NewPCG(3, 3)) //nolint:gosec // a test that can be repeated
	workers := []*process{spawn(t, server.URL(), "work"), spawn(t, server.URL(), "work"), spawn(t, server.URL(), "work")}
	for round := 0; ctx.Err() == nil; round++ {
		<-time.After(400 * time.Millisecond)
		victim := dice.IntN(len(workers))
		switch round % 4 {
		case 3:
			server.Restart()
		case 1: // a zombie: it goes on two rounds of leases later, or is killed as it lies
			if err := workers[victim].Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			<-time.After(leaseOf + leaseOf/4)
			if err := workers[victim].Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		default:
			workers[victim].kill()
			workers[victim] = spawn(t, server.URL(), "work")
		}
	}
	writers.Wait()
	total := 0
	for w := range threads {
		total += accepted[w]
	}
	late := time.After(30 * time.Second)
	for n := -1; n != 0; {
		var err error
		if n, err = s.Waiting(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-late:
			t.Fatalf("%d of %d items still wait", n, total)
		case <-time.After(20 * time.Millisecond):
		}
	}
	for w := range threads {
		es, err := s.Events(t.Context(), fmt.Sprint("t", w))
		if err != nil || len(es) != accepted[w] {
			t.Errorf("thread %d: %d of %d items done, %v", w, len(es), accepted[w], err)
		}
		for i, e := range es {
			if want := fmt.Sprintf("%d-%05d", w, i); string(e.Meta) != want {
				t.Fatalf("thread %d, step %d: did %s, want %s", w, i, e.Meta, want)
			}
		}
	}
	if n, err := s.Count(t.Context(), "done"); err != nil || int(n) != total {
		t.Errorf("%d of %d items counted, %v", n, total, err)
	}
	stale, err := s.Stale(t.Context())
	t.Logf("%d items, %d stale writes refused, %v", total, stale, err)
}

// A worker that is stopped for longer than its lease and goes on as if nothing had happened is refused and counted.
func TestRel_R13_ZombieIsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.URL(), redis.Options{})
	push(t, s, "t", "k")
	zombie := spawn(t, server.URL(), "zombie")
	if !zombie.lines.Scan() || zombie.lines.Text() != "claimed" {
		t.Fatalf("the child said %q", zombie.lines.Text())
	}
	if err := zombie.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	l := claim(t, s, time.Minute) // once the zombie's lease is over
	if err := s.Commit(t.Context(), store.Batch{Lease: &l, Ack: []string{"k"}, Adds: []store.Add{{Key: "done", Delta: 1}}}); err != nil {
		t.Fatal(err)
	}
	if err := zombie.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(zombie.in, "write\n"); err != nil {
		t.Fatal(err)
	}
	if !zombie.lines.Scan() || zombie.lines.Text() != "refused" {
		t.Fatalf("the child said %q", zombie.lines.Text())
	}
	done, err1 := s.Count(t.Context(), "done")
	stale, err2 := s.Stale(t.Context())
	if err := errors.Join(err1, err2); err != nil || done != 1 || stale != 2 {
		t.Errorf("done %d times, %d stale writes, %v", done, stale, err)
	}
}
