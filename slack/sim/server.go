package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Server serves a workspace.
type Server struct {
	w    *Workspace
	http *http.Server
	url  string
	stop func() bool // ends the watch over Start's context
	done chan struct{}
	err  error // why serving ended; read it after done
}

// Start serves a workspace at addr until ctx ends or Close is called; "" is a free port of 127.0.0.1. The workspace learns
// its address. It ends with its server.
func Start(ctx context.Context, w *Workspace, addr string) (*Server, error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the simulated workspace at %s: %w", addr, err)
	}
	s := &Server{w: w, url: "http://" + reachable(l.Addr().String()), done: make(chan struct{})}
	s.http = &http.Server{Handler: w.Handler(), ReadHeaderTimeout: 10 * time.Second}
	w.SetURL(s.url)
	go func() {
		defer close(s.done)
		s.err = s.http.Serve(l)
	}()
	s.stop = context.AfterFunc(ctx, func() {
		w.Close()
		_ = s.http.Close() // there is nobody to tell
	})
	return s, nil
}

// reachable names this machine where a listener takes connections to all of its addresses.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

// URL is where the page is, without a slash at the end.
func (s *Server) URL() string { return s.url }

// APIURL is where the Web API is, with a slash at the end, as clients want it.
func (s *Server) APIURL() string { return s.url + "/api/" }

// Close ends the server and the workspace, and waits for both.
func (s *Server) Close() error {
	s.stop()
	s.w.Close()
	err := s.http.Close()
	<-s.done
	if err == nil && !errors.Is(s.err, http.ErrServerClosed) {
		err = s.err
	}
	if err != nil {
		return fmt.Errorf("close the simulated workspace at %s: %w", s.url, err)
	}
	return nil
}
