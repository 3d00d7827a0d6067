// Package docs is the full-text index over a pack's documents, and what one assistant may see of it.
//
// The index is SQLite FTS5 in memory, built at the first search. It must not know assistants, tools or packs: it takes
// documents and patterns, and gives hits and documents.
package docs

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"switchboard/config"

	_ "modernc.org/sqlite" // the driver "sqlite", with FTS5
)

// The bounds of a search. A query may be any text; what is beyond the bounds is not looked at.
const (
	MaxHits  = 50
	maxWords = 32
	maxQuery = 2000 // bytes
)

// ErrClosed is what a search gives after Close.
var ErrClosed = errors.New("the document index is closed")

// Index holds documents. It is safe for use by many goroutines at once; searches take turns.
type Index struct {
	docs []config.Doc // sorted by name; a document's rowid in the index is its position plus one

	turn   chan struct{} // holds the one token that a search needs
	db     *sql.DB       // nil until the first search
	conn   *sql.Conn     // the one connection: a memory database lives as long as it does
	closed bool
}

// New takes the documents. It costs next to nothing: the index is built by the first search.
func New(ctx context.Context, documents []config.Doc) (*Index, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("index documents: %w", err)
	}
	x := &Index{docs: append([]config.Doc(nil), documents...), turn: make(chan struct{}, 1)}
	sort.SliceStable(x.docs, func(i, j int) bool { return x.docs[i].Name < x.docs[j].Name })
	for i := 1; i < len(x.docs); i++ {
		if x.docs[i].Name == x.docs[i-1].Name {
			return nil, fmt.Errorf("index documents: two are named %q; rename one", x.docs[i].Name)
		}
	}
	x.turn <- struct{}{}
	return x, nil
}

// Close frees the index. Searches after it give ErrClosed; fetching goes on working.
func (x *Index) Close() error {
	<-x.turn
	defer func() { x.turn <- struct{}{} }()
	x.closed = true
	return x.drop()
}

// drop closes what open opened. The caller holds the turn.
func (x *Index) drop() error {
	if x.db == nil {
		return nil
	}
	// The connection may be gone already, broken by a cancelled search; closing the database settles both.
	_ = x.conn.Close()
	err := x.db.Close()
	x.db, x.conn = nil, nil
	return err
}

// open builds the index if there is none. The caller holds the turn.
func (x *Index) open(ctx context.Context) error {
	if x.closed {
		return ErrClosed
	}
	if x.db != nil {
		return nil
	}
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return fmt.Errorf("open the document index: %w", err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("open the document index: %w", err), db.Close())
	}
	if err := fill(ctx, conn, x.docs); err != nil {
		return errors.Join(fmt.Errorf("build the document index: %w", err), conn.Close(), db.Close())
	}
	x.db, x.conn = db, conn
	return nil
}

// fill writes all documents into a fresh full-text table.
func fill(ctx context.Context, conn *sql.Conn, documents []config.Doc) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	_, err = tx.ExecContext(ctx, `CREATE VIRTUAL TABLE doc USING fts5(name, title, body, tokenize = 'porter unicode61')`)
	if err != nil {
		return err
	}
	insert, err := tx.PrepareContext(ctx, `INSERT INTO doc(rowid, name, title, body) VALUES (?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer func() { _ = insert.Close() }() // the transaction's end closes it anyway
	for i, d := range documents {
		if _, err := insert.ExecContext(ctx, i+1, d.Name, d.Title, d.Text); err != nil {
			return fmt.Errorf("document %q: %w", d.Name, err)
		}
	}
	return tx.Commit()
}

// Hit is one document found.
type Hit struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Snippet string `json:"snippet"` // the passage with most of the words, on one line, at most some 30 words
}

// View is the part of an index that patterns make visible. A nil View is empty.
type View struct {
	index *Index
	seen  []int  // positions in index.docs, in order
	rows  string // the same as rowids, as a JSON list for SQL
}

// View gives the documents whose names match any of the patterns. A pattern is matched part by part as path.Match does;
// the part ** stands for any number of parts, so ** alone is everything. A malformed pattern matches nothing.
func (x *Index) View(patterns []string) *View {
	v := &View{index: x}
	rows := []int{}
	for i, d := range x.docs {
		for _, p := range patterns {
			if matches(strings.Split(p, "/"), strings.Split(d.Name, "/")) {
				v.seen = append(v.seen, i)
				rows = append(rows, i+1)
				break
			}
		}
	}
	text, err := json.Marshal(rows)
	if err != nil { // a list of ints always encodes; an empty view is the safe side all the same
		return &View{index: x}
	}
	v.rows = string(text)
	return v
}

// matches compares name with pattern part by part.
func matches(pattern, name []string) bool {
	if len(pattern) == 0 {
		return len(name) == 0
	}
	if pattern[0] == "**" {
		return matches(pattern[1:], name) || (len(name) > 0 && matches(pattern, name[1:]))
	}
	if len(name) == 0 {
		return false
	}
	ok, err := path.Match(pattern[0], name[0])
	return err == nil && ok && matches(pattern[1:], name[1:])
}

// Search gives at most limit documents (and never more than MaxHits), best first: those with all the words before those
// with some. The query may be any text; without a letter or digit in it there are no hits. The last word also matches
// as the beginning of longer ones.
func (v *View) Search(ctx context.Context, query string, limit int) ([]Hit, error) {
	words := terms(query)
	limit = min(limit, MaxHits)
	if v == nil || len(v.seen) == 0 || len(words) == 0 || limit <= 0 {
		return nil, nil
	}
	x := v.index
	select {
	case <-x.turn:
	case <-ctx.Done():
		return nil, fmt.Errorf("search the documents: %w", ctx.Err())
	}
	defer func() { x.turn <- struct{}{} }()
	if err := x.open(ctx); err != nil {
		return nil, err
	}
	hits, err := v.find(ctx, words, limit)
	if err != nil {
		// A search that was cut off may have cost the connection and the memory database with it: build anew next time.
		return nil, errors.Join(fmt.Errorf("search the documents: %w", err), x.drop())
	}
	return hits, nil
}

// find asks for all words first, then fills up with documents that have some. The caller holds the turn.
func (v *View) find(ctx context.Context, words []string, limit int) ([]Hit, error) {
	hits, err := v.match(ctx, strings.Join(words, " AND "), limit)
	if err != nil || len(hits) == limit || len(words) == 1 {
		return hits, err
	}
	found := make(map[string]bool, len(hits))
	for _, h := range hits {
		found[h.Name] = true
	}
	more, err := v.match(ctx, strings.Join(words, " OR "), limit+len(hits))
	if err != nil {
		return nil, err
	}
	for _, h := range more {
		if len(hits) < limit && !found[h.Name] {
			hits = append(hits, h)
		}
	}
	return hits, nil
}

// match runs one full-text query. A word in the title weighs ten times one in the text, in the name five times.
func (v *View) match(ctx context.Context, query string, limit int) (hits []Hit, err error) {
	rows, err := v.index.conn.QueryContext(ctx, `
		SELECT name, title, snippet(doc, 2, '', '', '…', 30) FROM doc
		WHERE doc MATCH ? AND rowid IN (SELECT value FROM json_each(?))
		ORDER BY bm25(doc, 5.0, 10.0, 1.0), rowid LIMIT ?`, query, v.rows, limit)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var h Hit
		if err := rows.Scan(&h.Name, &h.Title, &h.Snippet); err != nil {
			return nil, err
		}
		h.Snippet = strings.Join(strings.Fields(h.Snippet), " ")
		hits = append(hits, h)
	}
	return hits, rows.Err()
}

// terms gives the query's words as full-text terms: each quoted, so that none is taken for an operator.
func terms(query string) []string {
	var out []string
	seen := map[string]bool{}
	for _, w := range split(query) {
		if !seen[w] && len(out) < maxWords {
			seen[w] = true
			out = append(out, `"`+w+`"`)
		}
	}
	if n := len(out); n > 0 && utf8.RuneCountInString(out[n-1]) > 3 { // two letters or more between the quotes
		out[n-1] += "*"
	}
	return out
}

// split gives the lower-case words of a text: runs of letters, digits and marks that hold a letter or a digit.
func split(text string) []string {
	if len(text) > maxQuery {
		text = text[:maxQuery]
	}
	words := strings.FieldsFunc(strings.ToLower(strings.ToValidUTF8(text, " ")), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
	kept := words[:0]
	for _, w := range words {
		if strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			kept = append(kept, w)
		}
	}
	return kept
}
