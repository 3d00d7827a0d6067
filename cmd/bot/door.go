package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"switchboard/chat"
)

// door is a unix socket beside the store's file: there the operator of this machine decides in a working process, by bot
// approvals. Whoever may open it is the operator, so its file is theirs alone. It takes decisions and nothing else.
type door struct {
	path string
	http *http.Server
	work sync.WaitGroup
}

// judge is what the door needs of the bot behind it.
type judge interface {
	// ByHand says whether decisions at the door count.
	ByHand() bool
	Decide(ctx context.Context, d chat.Decision) (chat.Ruling, error)
}

// ByHand implements judge.
func (a *App) ByHand() bool { return a.local }

// doorOf is where the socket of a store's file lies. Names that lead to one file have one door.
func doorOf(store string) string {
	if target, err := filepath.EvalSymlinks(store); err == nil {
		store = target
	}
	return store + ".sock"
}

// mostSocket is how long the path of a unix socket may be on every system that we know, in bytes.
// unix(7): 108 with the zero at its end; it is 104 on the BSDs.
const mostSocket = 103

const (
	mostSaid     = 64 << 10 // bytes of a request
	answerWithin = 10 * time.Second
)

// openDoor opens the socket. The process has the store's lock, so what lies there is of an earlier one, and is replaced. The
// socket is made in a folder that nobody else can enter and gets its place when only its owner can open it.
func openDoor(ctx context.Context, path string, j judge) (_ *door, err error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("open socket %s: something else lies there; move it away and start again", path)
	}
	scratch, err := os.MkdirTemp(filepath.Dir(path), "s")
	if err != nil {
		return nil, fmt.Errorf("open socket %s: %w; the store's folder must be writable", path, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	made := filepath.Join(scratch, "s")
	if most := max(len(made), len(path)); most > mostSocket {
		return nil, fmt.Errorf("open socket %s: its path is too long for one (%d bytes, %d are allowed); put the store into a folder with a shorter name", path, most, mostSocket)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", made)
	if err != nil {
		return nil, fmt.Errorf("open socket %s: %w", path, err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // it has another name by then
	if err := errors.Join(os.Chmod(made, 0o600), os.Rename(made, path)); err != nil {
		return nil, errors.Join(fmt.Errorf("open socket %s: %w", path, err), l.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /decide", func(w http.ResponseWriter, r *http.Request) { answer(w, r, j) })
	d := &door{path: path, http: &http.Server{
		Handler: mux, ReadHeaderTimeout: 2 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: answerWithin + 5*time.Second,
		IdleTimeout: time.Second, MaxHeaderBytes: 8 << 10,
	}}
	d.work.Go(func() { _ = d.http.Serve(l) }) // it ends with close
	return d, nil
}

// close ends the door and takes its file away. What is being answered gets a moment.
func (d *door) close(ctx context.Context) error {
	err := os.Remove(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if d.http.Shutdown(ctx) != nil {
		err = errors.Join(err, d.http.Close())
	}
	d.work.Wait()
	return err
}

// spoken is a decision on its way through the door. Who it is by the process behind it says together with local:.
type spoken struct {
	Key   string      `json:"key"`
	Card  string      `json:"card"`
	Say   chat.Saying `json:"say"`
	Words string      `json:"words,omitempty"`
	User  string      `json:"user"`
}

// heard is the answer. Words are for whoever decided.
type heard struct {
	Taken bool   `json:"taken"`
	Words string `json:"words"`
}

// answer takes a decision.
func answer(w http.ResponseWriter, r *http.Request, j judge) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), answerWithin, errors.New("the decision was not stored in time"))
	defer cancel()
	status, h := http.StatusOK, heard{}
	switch d, err := readSpoken(w, r); {
	case err != nil:
		status, h.Words = http.StatusBadRequest, err.Error()
	case !j.ByHand():
		status, h.Words = http.StatusForbidden, notByHand
	default:
		ruling, err := j.Decide(ctx, d.decision(time.Now()))
		if err != nil {
			status, h.Words = http.StatusServiceUnavailable, "The decision could not be stored, so it may not count; decide again. ("+err.Error()+")"
			break
		}
		h = heard{ruling.Taken, ruling.Words}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(h) // who asked has gone
}

// notByHand is what a process says that was started without leave.
const notByHand = "This bot was started without --local-approvals, so nobody can decide here. Decide on the card where it was posted, or start the bot with --local-approvals."

func readSpoken(w http.ResponseWriter, r *http.Request) (spoken, error) {
	var s spoken
	in := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostSaid))
	in.DisallowUnknownFields()
	if err := in.Decode(&s); err != nil {
		return spoken{}, fmt.Errorf("read a decision: %w", err)
	}
	if s.Key == "" || s.Card == "" || s.Say == "" || s.User == "" {
		return spoken{}, errors.New("read a decision: key, card, say and user must be given")
	}
	return s, nil
}

func (s spoken) decision(now time.Time) chat.Decision {
	return chat.Decision{Key: s.Key, Card: s.Card, By: operator(s.User), Say: s.Say, Words: s.Words, Local: true, At: now}
}
