// Package backoffice is one small real server that the example packs talk to, on SQLite: a sports club's back office, with
// bookings, members, messages, figures, settings and documents of two organisations; and two shops, with orders and a
// payment provider that pays back. Faults come on demand.
//
// It stands for the old, tested doors that assistants are put in front of. So it must not know bots, packs, tools or
// models: it checks a token, takes the organisation or the shop from the request, and never answers with another one's rows.
package backoffice

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the database/sql driver "sqlite"
)

// Options say where the server listens and keeps its rows. The zero value is a fresh server in memory on a free port.
type Options struct {
	Addr string // "" means a free port of 127.0.0.1
	Path string // a SQLite file, seeded when it is new; "" keeps all rows in memory
	// Now stamps rows, dates the orders of the shops when they are seeded, and ages the shops' keys. The club's rows and
	// figures do not depend on it. nil means time.Now.
	Now func() time.Time
	// KeepKeys is how long a shop remembers an Idempotency-Key and its answer; 0 means 24 hours. Then it forgets both, and a
	// request with that key is a new one.
	KeepKeys time.Duration
}

// Server is a running back office. Its methods are safe for use by many goroutines at once.
type Server struct {
	db     *sql.DB
	now    func() time.Time
	keep   atomic.Int64 // nanoseconds
	token  string
	url    string
	http   *http.Server
	doors  []door
	busy   busyKeys
	faults faultList
	log    requestLog

	stop     context.CancelFunc // ends every request that hangs on purpose
	stopping <-chan struct{}    // closed by stop
	served   chan error         // gets the one result of Serve
	closing  sync.Once
	closed   error
}

// Start opens and seeds the rows, listens and serves until Close. ctx bounds the start only.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.KeepKeys == 0 {
		o.KeepKeys = 24 * time.Hour
	}
	db, err := open(ctx, o.Path, o.Now())
	if err != nil {
		return nil, err
	}
	addr := o.Addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for the back office on %s: %w", addr, err), db.Close())
	}
	secret := make([]byte, 24)
	_, _ = rand.Read(secret) // never fails
	s := &Server{
		db: db, now: o.Now, token: "bo_" + hex.EncodeToString(secret), url: "http://" + l.Addr().String(),
		doors: doors(), served: make(chan error, 1),
	}
	s.KeepKeys(o.KeepKeys)
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop, s.stopping = stop, base.Done()
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      2 * time.Minute, // longer than any fault's delay
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // the request log is the record
	}
	go func() { s.served <- s.http.Serve(l) }()
	return s, nil
}

// URL is the address of the server, without a trailing slash.
func (s *Server) URL() string { return s.url }

// Token is what every request must carry as a bearer token. It is new at each start.
func (s *Server) Token() string { return s.token }

// Env gives the variables by which a pack finds the server.
func (s *Server) Env() map[string]string {
	return map[string]string{"BACKOFFICE_URL": s.url, "BACKOFFICE_TOKEN": s.token}
}

// Close lets hanging requests go, waits for the others until ctx ends (two seconds at most), and closes the rows. It may
// be called twice.
func (s *Server) Close(ctx context.Context) error {
	s.closing.Do(func() {
		s.stop()
		wait, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if err := s.http.Shutdown(wait); err != nil {
			_ = s.http.Close() // a connection that was opened and never used would hold the shutdown up
		}
		err := <-s.served
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		if err = errors.Join(err, s.db.Close()); err != nil {
			s.closed = fmt.Errorf("close the back office: %w", err)
		}
	})
	return s.closed
}

// Exec runs a statement on the rows, for tests that change the world behind the tools' back. It gives the rows affected.
func (s *Server) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	r, err := s.db.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, fmt.Errorf("change the back office by %q: %w", statement, err)
	}
	return r.RowsAffected()
}

// Count gives the number of rows of a table that satisfy an SQL condition; "" counts all.
func (s *Server) Count(ctx context.Context, table, where string, args ...any) (int, error) {
	if !regexp.MustCompile(`^[a-z_]+$`).MatchString(table) {
		return 0, fmt.Errorf("count rows of %q: not a table's name", table)
	}
	if where == "" {
		where = "1"
	}
	var n int
	err := s.db.QueryRowContext(ctx, "SELECT count(*) FROM "+table+" WHERE "+where, args...).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count rows of %s: %w", table, err)
	}
	return n, nil
}

// Reset makes everything as it was at the start of a new server, in one transaction: the rows, and nothing armed,
// remembered or logged. What requests that are under way write afterwards stays.
func (s *Server) Reset(ctx context.Context) error {
	s.ClearFaults()
	if err := seed(ctx, s.db, s.now(), true); err != nil {
		return fmt.Errorf("reset the back office: %w", err)
	}
	s.log.clear()
	return nil
}

// serveReset resets over HTTP (POST).
func (s *Server) serveReset(ctx context.Context, method string) answer {
	if method != http.MethodPost {
		return problem(&statusError{http.StatusMethodNotAllowed, "a reset takes POST"})
	}
	if err := s.Reset(context.WithoutCancel(ctx)); err != nil {
		return problem(err)
	}
	return answer{status: http.StatusOK, body: []byte("{\"ok\":true}\n")}
}

// open gives a database with the schema and, where it is new, the seed. One connection: writes are in order anyway, and
// rows in memory live as long as their connection.
func open(ctx context.Context, path string, now time.Time) (*sql.DB, error) {
	dsn := ":memory:"
	if path != "" {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("open back office file %s: %w", path, err)
		}
		dsn = (&url.URL{Scheme: "file", Path: filepath.ToSlash(abs), RawQuery: "_pragma=busy_timeout(5000)"}).String()
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("open back office file %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	if err := seed(ctx, db, now, false); err != nil {
		return nil, errors.Join(fmt.Errorf("seed the back office: %w", err), db.Close())
	}
	return db, nil
}
