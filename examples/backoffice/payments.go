package backoffice

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// The payment provider. It treats keys as the IETF's draft says and as payment providers do: a write without a key is refused
// (400); a key that was used for another request is refused (422); one whose first request is still running, too (409); and
// otherwise a key gives its first answer again, be it a refusal or a failure, until it is forgotten.
// Draft: https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
// Kept failures: https://docs.stripe.com/api/idempotent_requests

type refund struct {
	ID     string `json:"id"`
	Order  string `json:"order"`
	Amount int    `json:"amount"` // cents
	Status string `json:"status"` // done
	Key    string `json:"key"`    // the Idempotency-Key of the request that booked it
	At     string `json:"at"`
}

func (r *refund) dest() []any { return []any{&r.ID, &r.Order, &r.Amount, &r.Status, &r.Key, &r.At} }

// listRefunds gives all refunds of one order, in the order in which they were booked.
func listRefunds(ctx context.Context, c *call) (any, error) {
	o, err := findOrder(ctx, c, c.query["order"])
	if err != nil {
		return nil, err
	}
	all, err := rows(ctx, c, (*refund).dest, `SELECT refund, number, amount, status, key, at FROM refunds WHERE shop = ? AND number = ? ORDER BY rowid`, c.org, o.Order)
	return list[refund]{all}, err
}

// bookRefund pays back a part of what was paid for an order. It knows nothing of days or approvals: those are the
// business of whoever asks.
func bookRefund(ctx context.Context, c *call) (any, error) {
	var in struct {
		Order  string
		Amount int
	}
	if err := c.into(&in); err != nil {
		return nil, err
	}
	if in.Amount < 1 {
		return nil, bad("amount must be 1 cent or more")
	}
	o, err := findOrder(ctx, c, in.Order)
	if err != nil {
		return nil, err
	}
	if left := o.Paid - o.Refunded; in.Amount > left {
		return nil, &statusError{http.StatusUnprocessableEntity, fmt.Sprintf("only %d cents of order %s are left to refund", left, o.Order)}
	}
	id, err := nextOf(ctx, c, "r", "refunds")
	if err != nil {
		return nil, err
	}
	r := refund{ID: id, Order: o.Order, Amount: in.Amount, Status: "done", Key: c.key.name, At: c.now}
	if _, err := change(ctx, c, `INSERT INTO refunds (shop, refund, number, amount, status, key, at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		c.org, r.ID, r.Order, r.Amount, r.Status, r.Key, r.At); err != nil {
		return nil, err
	}
	return map[string]any{"id": r.ID, "order": r.Order, "amount": r.Amount, "status": r.Status}, record(ctx, c, Effect{Kind: "refund", ID: id, Order: o.Order, Amount: in.Amount})
}

// Effect is one line of the shops' ledger: something that a request did to the world.
type Effect struct {
	N      int    // counts from 1, over both shops
	Kind   string // refund | notice
	Shop   string
	ID     string // of the refund or the notice
	Order  string
	Amount int    // cents; 0 for a notice
	Key    string // the Idempotency-Key that came with it
	Body   string // the request's body, byte for byte
	At     string // RFC 3339
}

// record writes an effect down, in the transaction that does it.
func record(ctx context.Context, c *call, e Effect) error {
	_, err := change(ctx, c, `INSERT INTO ledger (kind, shop, id, number, amount, key, body, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		e.Kind, c.org, e.ID, e.Order, e.Amount, c.key.name, c.raw, c.now)
	return err
}

// Effects gives the shops' ledger, oldest first. It has what requests did since the rows were seeded, each once.
func (s *Server) Effects(ctx context.Context) ([]Effect, error) {
	r, err := s.db.QueryContext(ctx, `SELECT n, kind, shop, id, number, amount, key, body, at FROM ledger ORDER BY n`)
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	defer r.Close() //nolint:errcheck // Err below tells
	var all []Effect
	for r.Next() {
		var e Effect
		if err := r.Scan(&e.N, &e.Kind, &e.Shop, &e.ID, &e.Order, &e.Amount, &e.Key, &e.Body, &e.At); err != nil {
			return nil, fmt.Errorf("read the ledger: %w", err)
		}
		all = append(all, e)
	}
	return all, r.Err()
}

// provide runs a keyed write of a shop the first time, and gives its answer again afterwards, whatever it was. Requests that
// were never begun, because they were malformed or meant nothing that is there, leave no answer.
func (s *Server) provide(ctx context.Context, d door, c *call) (answer, error) {
	if _, err := s.db.ExecContext(ctx, `DELETE FROM kept WHERE at <= ?`, c.at.Add(-time.Duration(s.keep.Load())).UnixMilli()); err != nil {
		return answer{}, err
	}
	a, digest := answer{header: map[string]string{replayed: "true"}}, ""
	err := s.db.QueryRowContext(ctx, `SELECT digest, status, body FROM kept WHERE shop = ? AND name = ?`, c.org, c.key.name).Scan(&digest, &a.status, &a.body)
	switch {
	case err == nil && digest != c.key.digest:
		return answer{}, otherRequest()
	case err == nil:
		return a, nil
	case !errors.Is(err, sql.ErrNoRows):
		return answer{}, err
	}
	a, err = s.transact(ctx, d, c, func(ctx context.Context, tx *sql.Tx, a answer) error { return keep(ctx, tx, c, a) })
	if e, ok := errors.AsType[*statusError](err); ok && (e.status == http.StatusUnprocessableEntity || e.status >= 500) {
		a = problem(err)
		return a, keep(ctx, s.db, c, a)
	}
	return a, err
}

// keep remembers the answer to a key.
func keep(ctx context.Context, to interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, c *call, a answer,
) error {
	_, err := to.ExecContext(ctx, `INSERT INTO kept (shop, name, digest, status, body, at) VALUES (?, ?, ?, ?, ?, ?)`,
		c.org, c.key.name, c.key.digest, a.status, string(a.body), c.at.UnixMilli())
	return err
}

// KeepKeys changes for how long the shops remember keys from now on; see Options.
func (s *Server) KeepKeys(d time.Duration) { s.keep.Store(int64(d)) }
