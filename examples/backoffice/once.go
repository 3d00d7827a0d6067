package backoffice

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"sync"
)

// replayed is the header that marks a recorded answer.
const replayed = "Idempotent-Replayed"

// key is a client's name for one write of one tenant, with a digest of the request that used it.
type key struct {
	org, name, digest string
}

func inProgress() error { return conflict("a request with this Idempotency-Key is in progress") }

func otherRequest() error {
	return &statusError{http.StatusUnprocessableEntity, "this Idempotency-Key was used for another request"}
}

// busyKeys are the keys whose first request has not been answered yet.
type busyKeys struct {
	mu    sync.Mutex
	held  map[[2]string]bool
	grown chan struct{} // closed when the next key is held; nil while nobody waits
}

// hold takes a key, which must be fit to be kept and not held by another request.
func (b *busyKeys) hold(k key) error {
	if len(k.name) > 255 {
		return bad("Idempotency-Key is longer than 255 characters")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	name := [2]string{k.org, k.name}
	if b.held[name] {
		return inProgress()
	}
	if b.held == nil {
		b.held = map[[2]string]bool{}
	}
	b.held[name] = true
	if b.grown != nil {
		close(b.grown)
		b.grown = nil
	}
	return nil
}

// look says whether a request with a key is in progress, and gives a channel that is closed when another one is.
func (b *busyKeys) look(name string) (bool, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.grown == nil {
		b.grown = make(chan struct{})
	}
	for k := range b.held {
		if name == "" || k[1] == name {
			return true, b.grown
		}
	}
	return false, b.grown
}

// AwaitBusy waits until a request with an Idempotency-Key is in progress, as a slow or a late one is for a while. "" is any key.
func (s *Server) AwaitBusy(ctx context.Context, name string) error {
	for {
		busy, grown := s.busy.look(name)
		if busy {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return fmt.Errorf("await a request with key %q: %w", name, context.Cause(ctx))
		}
	}
}

func (b *busyKeys) release(k key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, [2]string{k.org, k.name})
}

// once runs a keyed write the first time, and repeats its recorded answer to the same request afterwards. Only answers
// of writes that were committed are kept: a request that was refused changed nothing and is looked at anew.
func (s *Server) once(ctx context.Context, d door, c *call) (answer, error) {
	k := c.key
	var digest, body string
	err := s.db.QueryRowContext(ctx, `SELECT digest, body FROM answers WHERE org = ? AND name = ?`, k.org, k.name).Scan(&digest, &body)
	switch {
	case err == nil && digest != k.digest:
		return answer{}, otherRequest()
	case err == nil:
		return answer{status: http.StatusOK, header: map[string]string{replayed: "true"}, body: []byte(body)}, nil
	case !errors.Is(err, sql.ErrNoRows):
		return answer{}, err
	}
	return s.transact(ctx, d, c, func(ctx context.Context, tx *sql.Tx, a answer) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO answers (org, name, digest, body, at) VALUES (?, ?, ?, ?, ?)`,
			k.org, k.name, k.digest, string(a.body), c.now)
		return err
	})
}
