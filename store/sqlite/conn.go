package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// statement names one of the writer's prepared statements.
type statement int

const (
	begin statement = iota
	commit
	rollback
	savepoint
	undoSavepoint
	endSavepoint
	insertRecord
	updateRecord
	deleteRecord
	findRecord
	lastSeq
	insertEvent
	insertStream
	putContent
	addCounter
	insertClaim
	insertItem
	deleteItem
	sweepContents
	sweepCounters
	sweepClaims
	saveStale
	statements // how many there are
)

// sweepAtOnce is how many rows one transaction of a sweep deletes at most.
const sweepAtOnce = 500

// text is the statement's SQL.
func (s statement) text() string {
	return [statements]string{
		begin:         "BEGIN IMMEDIATE",
		commit:        "COMMIT",
		rollback:      "ROLLBACK",
		savepoint:     "SAVEPOINT batch",
		undoSavepoint: "ROLLBACK TO batch",
		endSavepoint:  "RELEASE batch",
		insertRecord:  "INSERT INTO records (key, version, value) VALUES (?, 1, ?) ON CONFLICT DO NOTHING",
		updateRecord:  "UPDATE records SET version = version + 1, value = ? WHERE key = ? AND version = ?",
		deleteRecord:  "DELETE FROM records WHERE key = ? AND version = ?",
		findRecord:    "SELECT count(*) FROM records WHERE key = ?",
		lastSeq:       "SELECT coalesce(max(seq), 0) FROM events WHERE stream = ?",
		insertEvent:   "INSERT INTO events (stream, seq, at, kind, meta) VALUES (?, ?, ?, ?, ?)",
		insertStream:  "INSERT INTO streams (kind, id, stream) VALUES (?, ?, ?)",
		putContent:    "INSERT INTO contents (key, until, value) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET until = ?2, value = ?3",
		addCounter: `INSERT INTO counters (key, until, value) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET until = ?2,
			value = CASE WHEN until > 0 AND until <= ?4 THEN ?3 ELSE value + ?3 END`,
		insertClaim:   "INSERT INTO claims (key, at) VALUES (?, ?) ON CONFLICT DO NOTHING",
		insertItem:    "INSERT INTO items (id, key, thread, body) VALUES (?, ?, ?, ?)",
		deleteItem:    "DELETE FROM items WHERE id = ?",
		sweepContents: "DELETE FROM contents WHERE key IN (SELECT key FROM contents WHERE until > 0 AND until <= ? LIMIT ?)",
		sweepCounters: "DELETE FROM counters WHERE key IN (SELECT key FROM counters WHERE until > 0 AND until <= ? LIMIT ?)",
		// A key whose item still waits stays claimed, else the item could be pushed a second time.
		sweepClaims: `DELETE FROM claims WHERE key IN
			(SELECT key FROM claims WHERE at <= ? AND key NOT IN (SELECT key FROM items) LIMIT ?)`,
		saveStale: "INSERT INTO meta (name, value) VALUES ('stale', ?1) ON CONFLICT DO UPDATE SET value = ?1",
	}[s]
}

// conn is the writer's own connection to the file, straight on the driver: it has one user at a time, so the pool of
// database/sql would only cost. A call is never interrupted: the writer always wants to know how it ended.
type conn struct {
	raw      driver.Conn
	prepared [statements]driver.Stmt
	args     []driver.NamedValue // used again for each call
}

// exec runs a prepared statement and says how many rows it changed.
func (c *conn) exec(s statement, args ...any) (int64, error) {
	stmt, err := c.prepare(s)
	if err != nil {
		return 0, err
	}
	e, ok := stmt.(driver.StmtExecContext)
	if !ok {
		return 0, errors.New("run statement: the driver cannot")
	}
	r, err := e.ExecContext(context.Background(), c.named(args))
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// count runs a prepared query whose answer is one number.
func (c *conn) count(s statement, args ...any) (int64, error) {
	stmt, err := c.prepare(s)
	if err != nil {
		return 0, err
	}
	return c.single(stmt, args)
}

func (c *conn) prepare(s statement) (driver.Stmt, error) {
	if c.prepared[s] == nil {
		stmt, err := c.raw.Prepare(s.text())
		if err != nil {
			return nil, err
		}
		c.prepared[s] = stmt
	}
	return c.prepared[s], nil
}

func (c *conn) named(args []any) []driver.NamedValue {
	c.args = c.args[:0]
	for i, a := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return c.args
}

// run executes a script without arguments.
func (c *conn) run(script string) error {
	stmt, err := c.raw.Prepare(script)
	if err != nil {
		return err
	}
	e, ok := stmt.(driver.StmtExecContext)
	if !ok {
		return errors.New("run script: the driver cannot")
	}
	_, err = e.ExecContext(context.Background(), nil)
	return errors.Join(err, stmt.Close())
}

// number runs a query without arguments whose answer is one number.
func (c *conn) number(query string) (int64, error) {
	stmt, err := c.raw.Prepare(query)
	if err != nil {
		return 0, err
	}
	n, err := c.single(stmt, nil)
	return n, errors.Join(err, stmt.Close())
}

func (c *conn) single(stmt driver.Stmt, args []any) (n int64, err error) {
	err = c.each(stmt, args, 1, func(row []driver.Value) error {
		var ok bool
		if n, ok = row[0].(int64); !ok {
			return fmt.Errorf("read number: got %T", row[0])
		}
		return nil
	})
	return n, err
}

// each calls use for every row of a query; the row is only good until use returns.
func (c *conn) each(stmt driver.Stmt, args []any, columns int, use func([]driver.Value) error) error {
	q, ok := stmt.(driver.StmtQueryContext)
	if !ok {
		return errors.New("run query: the driver cannot")
	}
	rows, err := q.QueryContext(context.Background(), c.named(args))
	if err != nil {
		return err
	}
	row := make([]driver.Value, columns)
	for {
		err := rows.Next(row)
		if err == nil {
			err = use(row)
		}
		if errors.Is(err, io.EOF) {
			return rows.Close()
		}
		if err != nil {
			return errors.Join(err, rows.Close())
		}
	}
}

// undo rolls back. Some errors, a full disk among them, end the transaction by themselves; then a new one can begin, and
// undo has nothing to say.
func (c *conn) undo() error {
	_, err := c.exec(rollback)
	if err == nil {
		return nil
	}
	if _, open := c.exec(begin); open != nil {
		return err
	}
	_, err = c.exec(rollback)
	return err
}

// close gives the connection back; SQLite folds the WAL into the file if no reader has it open.
func (c *conn) close() error {
	var errs []error
	for _, s := range c.prepared {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(append(errs, c.raw.Close())...)
}
