package backoffice

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"sync"
)

// replayed is the header that marks a recorded answer.
const replayed = "Idempotent-Replayed"

// key is a client's name for one write of one organisation, with a digest of the request that used it.
type key struct {
	org, name, digest string
}

// busyKeys are the keys whose first request has not been answered yet.
type busyKeys struct {
	mu   sync.Mutex
	held map[[2]string]bool
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
		return conflict("a request with this Idempotency-Key is in progress")
	}
	if b.held == nil {
		b.held = map[[2]string]bool{}
	}
	b.held[name] = true
	return nil
}

func (b *busyKeys) release(k key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, [2]string{k.org, k.name})
}

// once runs a keyed write the first time, and repeats its recorded answer to the same request afterwards. Only answers
// of writes that were committed are kept: a request that was refused changed nothing and is looked at anew.
func (s *Server) once(ctx context.Context, door route, c *call, k key) (answer, error) {
	var digest, body string
	err := s.db.QueryRowContext(ctx, `SELECT digest, body FROM answers WHERE org = ? AND name = ?`, k.org, k.name).Scan(&digest, &body)
	switch {
	case err == nil && digest != k.digest:
		return answer{}, &statusError{http.StatusUnprocessableEntity, "this Idempotency-Key was used for another request"}
	case err == nil:
		return answer{status: http.StatusOK, header: map[string]string{replayed: "true"}, body: []byte(body)}, nil
	case !errors.Is(err, sql.ErrNoRows):
		return answer{}, err
	}
	return s.transact(ctx, door, c, func(ctx context.Context, tx *sql.Tx, a answer) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO answers (org, name, digest, body, at) VALUES (?, ?, ?, ?, ?)`,
			k.org, k.name, k.digest, string(a.body), c.now)
		return err
	})
}
