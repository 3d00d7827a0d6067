// Package redistest runs real Redis servers for tests, each a process of its own on a port from the kernel, and a proxy that
// fails as networks do.
//
// It must not know what is kept in them.
package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// startWithin bounds a start; it is only ever used up by a server that fails.
const startWithin = 20 * time.Second

// Server is a redis-server with a folder of its own that keeps its data over Kill and Restart.
type Server struct {
	t    testing.TB
	dir  string
	args []string
	port int

	process *exec.Cmd
	ended   chan string  // takes what Wait said
	log     *lockedBytes // what the server said
}

// Start runs a server until the end of the test. args are settings that come after, and so override, its own: an append-only
// file that is synced each second, no snapshots. Without redis-server the test is skipped, and fails under CI.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" { //nolint:forbidigo // it asks for the machine's purpose, not for a setting
			tb.Fatal("there is no redis-server: install it, these tests must not be left out")
		}
		tb.Skip("there is no redis-server: install it to run this test")
	}
	s := &Server{t: tb, dir: tb.TempDir(), args: args, log: &lockedBytes{}}
	tb.Cleanup(s.end)
	for range 5 { // the port is free for a moment, and may be taken in that moment
		s.port = freePort(tb)
		err := s.start()
		if err == nil {
			return s
		}
		tb.Logf("start redis-server on port %d: %v; another port", s.port, err)
	}
	tb.Fatalf("redis-server does not start: %s", s.log)
	return nil
}

func freePort(tb testing.TB) int {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	a, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		tb.Fatalf("listened on %s", l.Addr())
	}
	return a.Port
}

// start runs the process and returns when it answers.
func (s *Server) start() error {
	args := append([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--daemonize", "no", "--loglevel", "warning",
		"--appendonly", "yes", "--appendfsync", "always", "--save", "",
	}, s.args...)
	s.process = exec.Command("redis-server", args...) //nolint:gosec,noctx // settings of the test; end sees to its end
	s.process.Stdout, s.process.Stderr = s.log, s.log
	s.process.SysProcAttr = dieWithParent()
	if err := s.process.Start(); err != nil {
		return err
	}
	s.ended = make(chan string, 1)
	go func(p *exec.Cmd, ended chan<- string) { ended <- fmt.Sprint(p.Wait()) }(s.process, s.ended)

	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	c := s.client()
	defer func() { _ = c.Close() }()
	for {
		answer := c.Ping(ctx).Err()
		if answer == nil || isAuth(answer) {
			return nil
		}
		select {
		case how := <-s.ended:
			s.process = nil
			return fmt.Errorf("it ended: %s, %w, %s", how, answer, s.log)
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", answer)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// isAuth says whether the server runs but wants a password.
func isAuth(err error) bool {
	reply, ok := errors.AsType[goredis.Error](err)
	return ok && bytes.HasPrefix([]byte(reply.Error()), []byte("NOAUTH"))
}

func (s *Server) client() *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: s.Addr(), Protocol: 2, DisableIdentity: true, ContextTimeoutEnabled: true})
}

// Addr is the server's host and port.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// URL is the server's address, of database 0.
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0" }

// Client gives a plain client of the server, for a look behind the store; it is closed at the end of the test.
func (s *Server) Client(tb testing.TB) *goredis.Client {
	tb.Helper()
	c := s.client()
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Dir is the folder with the server's files.
func (s *Server) Dir() string { return s.dir }

// Kill ends the server as kill -9 does.
func (s *Server) Kill() {
	s.t.Helper()
	if s.process == nil {
		return
	}
	s.signal(syscall.SIGKILL)
	<-s.ended
	s.process = nil
}

// Restart starts a server that was killed, or kills it first, and returns when it answers. It has its port and its files.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	if err := s.start(); err != nil {
		s.t.Fatalf("restart redis-server: %v", err)
	}
}

// Pause stops the process where it is: its connections stay open and nobody answers.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(what syscall.Signal) {
	s.t.Helper()
	if s.process == nil {
		s.t.Fatal("the server does not run")
	}
	if err := s.process.Process.Signal(what); err != nil {
		s.t.Fatalf("signal redis-server: %v", err)
	}
}

func (s *Server) end() {
	if s.process != nil {
		_ = s.process.Process.Kill() // it may be gone
		<-s.ended
		s.process = nil
	}
}

// lockedBytes is a buffer that a process writes while a test reads.
type lockedBytes struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBytes) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBytes) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
