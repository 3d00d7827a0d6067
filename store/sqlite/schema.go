package sqlite

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// applicationID marks a file as ours in SQLite's own header, so that no foreign database is taken for an empty store.
const applicationID = 0x53574244 // "SWBD"

// migrations are the steps from one schema version to the next; the file's user_version counts those it has had. A step
// that was ever released must not change.
//
// Keys are spread at random. Tables with large rows keep a rowid all the same: rows of one commit then share pages at the
// table's end, and only the small index entries are spread. Measured, that halves the cost of a commit.
func migrations() []string {
	return []string{`
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('generation', 0);
CREATE TABLE items (id INTEGER PRIMARY KEY, key TEXT NOT NULL, thread TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE claims (key TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX claims_at ON claims (at);
CREATE TABLE records (key TEXT PRIMARY KEY, version INTEGER NOT NULL, value BLOB NOT NULL);
CREATE TABLE events (stream TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, kind TEXT NOT NULL, meta BLOB NOT NULL,
	PRIMARY KEY (stream, seq));
CREATE TABLE streams (kind TEXT NOT NULL, id INTEGER NOT NULL, stream TEXT NOT NULL, PRIMARY KEY (kind, id)) WITHOUT ROWID;
CREATE TABLE contents (key TEXT PRIMARY KEY, until INTEGER NOT NULL, value BLOB NOT NULL);
CREATE INDEX contents_until ON contents (until) WHERE until > 0;
CREATE TABLE counters (key TEXT PRIMARY KEY, until INTEGER NOT NULL, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX counters_until ON counters (until) WHERE until > 0;
`}
}

// create makes an empty file that only its owner can read; SQLite gives the files beside it the same rights.
func create(place string) error {
	f, err := os.OpenFile(place, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the operator chose the path
	if err != nil {
		return err
	}
	return f.Close()
}

// address is the file's name for the driver, with SQLite's own parameters.
func address(place, parameters string) string {
	return "file:" + (&url.URL{Path: place}).EscapedPath() + "?" + parameters
}

// connect opens the writer's connection. Nothing is changed in the file yet.
func connect(ctx context.Context, place string) (*conn, error) {
	connector, err := driver.NewConnector(address(place, "_busy_timeout=5000"))
	if err != nil {
		return nil, err
	}
	c, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{raw: c}, nil
}

// migrate brings the file to this program's schema and begins a new generation of epochs.
func migrate(c *conn, path string) (generation int64, err error) {
	version, err := c.number("PRAGMA user_version")
	if err != nil {
		return 0, explain("open store", path, err)
	}
	id, err := c.number("PRAGMA application_id")
	if err != nil {
		return 0, explain("open store", path, err)
	}
	tables, err := c.number("SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return 0, explain("open store", path, err)
	}
	if err := fits(path, version, id, tables); err != nil {
		return 0, err
	}
	// Deleted words must not survive in free pages, hence secure_delete. The WAL is folded into the file at 16 MiB and cut
	// back to 64 MiB after a long reader; 16 MiB of pages are cached.
	for _, pragma := range []string{
		"journal_mode = WAL", "synchronous = FULL", "secure_delete = ON", "journal_size_limit = 67108864",
		"cache_size = -16000", "wal_autocheckpoint = 4000",
	} {
		if err := c.run("PRAGMA " + pragma); err != nil {
			return 0, explain("open store", path, err)
		}
	}
	for i, step := range migrations()[version:] {
		err := c.run(fmt.Sprintf("BEGIN IMMEDIATE; %s; PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT",
			step, applicationID, int(version)+i+1))
		if err != nil {
			return 0, explain("migrate store", path, errors.Join(err, c.undo()))
		}
	}
	if err := c.run("UPDATE meta SET value = value + 1 WHERE name = 'generation'"); err != nil {
		return 0, explain("open store", path, err)
	}
	if generation, err = c.number("SELECT value FROM meta WHERE name = 'generation'"); err != nil {
		return 0, explain("open store", path, err)
	}
	return generation, nil
}

// fits refuses files that are not ours and files of a newer program.
func fits(path string, version, id, tables int64) error {
	if id != applicationID && (id != 0 || version != 0 || tables != 0) {
		return fmt.Errorf("open store %s: this is a database of another program; name another file", path)
	}
	if newest := int64(len(migrations())); version > newest {
		return fmt.Errorf("open store %s: its schema is version %d and this program knows up to %d; use the newer program",
			path, version, newest)
	}
	return nil
}

// explain adds what to do to an error of SQLite.
func explain(doing, path string, err error) error {
	if err == nil {
		return nil
	}
	next := ""
	if e, ok := errors.AsType[*driver.Error](err); ok {
		switch e.Code() & 0xff { // the rest of the code is detail
		case codes.SQLITE_FULL:
			next = "; the disk is full: free some space"
		case codes.SQLITE_READONLY:
			next = "; the file or its disk is read-only: make it writable or name another file"
		case codes.SQLITE_CANTOPEN:
			next = "; the file and its folder must exist and be accessible"
		case codes.SQLITE_NOTADB:
			next = "; this is no store: name another file"
		case codes.SQLITE_CORRUPT:
			next = "; the file is damaged: restore a backup"
		case codes.SQLITE_BUSY, codes.SQLITE_LOCKED:
			next = "; another program holds the file: close it"
		case codes.SQLITE_IOERR:
			next = "; the disk failed: look at the system's log"
		}
	}
	return fmt.Errorf("%s %s: %w%s", doing, path, err, next)
}
