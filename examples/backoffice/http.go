package backoffice

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// maxBody bounds a request's body, in bytes.
const maxBody = 64 << 10

// stamp is how times are written: RFC 3339 in whole seconds, UTC.
const stamp = "2006-01-02T15:04:05Z"

// route is one way to work with the rows: for exactly one tenant and inside one transaction.
type route struct {
	method string
	path   string   // {name} stands for one segment
	query  []string // the query names it takes besides the tenant's; only for GET and DELETE
	do     func(context.Context, *call) (any, error)
}

// side is one half of the house: whose rows its doors show, and how they treat keys.
type side struct {
	tenant  string // what a request calls it: org or shop
	known   string // a query that counts the tenants of a name
	unknown string // what is said where there is none
	strict  bool   // a write needs a key, and answers are kept as payment providers do
}

// door is a route on one side of the house.
type door struct {
	route
	side
}

// call is a checked request, on its way through a door.
type call struct {
	tx    *sql.Tx
	org   string // the tenant: an organisation or a shop
	path  map[string]string
	query map[string]string
	body  map[string]json.RawMessage
	key   key
	raw   string // the body as it came
	at    time.Time
	now   string // at as RFC 3339, UTC
}

// statusError is a failure that the client is told, with its HTTP status.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

func bad(format string, a ...any) error {
	return &statusError{http.StatusBadRequest, fmt.Sprintf(format, a...)}
}

func missing(format string, a ...any) error {
	return &statusError{http.StatusNotFound, fmt.Sprintf(format, a...)}
}

func conflict(format string, a ...any) error {
	return &statusError{http.StatusConflict, fmt.Sprintf(format, a...)}
}

// answer is what goes back, before it is written. Status 0 means that there is nobody left to answer.
type answer struct {
	status int
	header map[string]string
	body   []byte
}

func writes(method string) bool { return method != http.MethodGet }

// hasBody says where a request's values travel: in a JSON body, or else in the query.
func hasBody(method string) bool { return method != http.MethodGet && method != http.MethodDelete }

// serve is the way of one request: token, route, fault before, work, fault after, answer.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	entry := Request{Method: r.Method, Path: r.URL.Path, URI: r.RequestURI, Key: r.Header.Get("Idempotency-Key")}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || subtle.ConstantTimeCompare([]byte(given), []byte(s.token)) != 1 {
		s.finish(w, entry, problem(&statusError{http.StatusUnauthorized, "a bearer token is needed"}))
		return
	}
	body, err := readBody(w, r)
	if err != nil {
		s.finish(w, entry, problem(err))
		return
	}
	entry.Body = string(body)
	switch r.URL.Path {
	case "/_faults":
		s.finish(w, entry, s.serveFaults(r.Method, body))
		return
	case "/_reset":
		s.finish(w, entry, s.serveReset(r.Context(), r.Method))
		return
	}
	d, path, err := s.find(r)
	if err != nil {
		s.finish(w, entry, problem(err))
		return
	}
	fault := s.faults.take(r.Method, r.URL.Path, d.path)
	entry.Fault = fault.Kind
	if done := s.faultBefore(w, r, &entry, fault); done {
		return
	}
	at := s.now().UTC()
	c := &call{path: path, raw: entry.Body, at: at, now: at.Format(stamp)}
	if err := c.parse(r, d, body); err != nil {
		s.finish(w, entry, problem(err))
		return
	}
	entry.Org = c.org
	c.key = key{org: c.org, name: entry.Key, digest: fingerprint(r, body)}
	a, err := s.work(r, d, c, fault)
	if err != nil {
		a = problem(err)
	}
	_, entry.Replayed = a.header[replayed]
	s.faultAfter(w, r, entry, fault, a)
}

// readBody reads the whole body, so that the server notices when the client goes away later.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		return nil, &statusError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", maxBody)}
	case err != nil:
		return nil, bad("the body could not be read")
	case len(body) > 0 && !hasBody(r.Method):
		return nil, bad("%s takes no body", r.Method)
	}
	// The read timeout is for the request; left on, it would look like a client that goes away from a slow answer.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body, nil
}

// find gives the door of a request and the values of its path, taken apart while still escaped.
func (s *Server) find(r *http.Request) (door, map[string]string, error) {
	segments := strings.Split(r.URL.EscapedPath(), "/")
	known := false
	for _, d := range s.doors {
		values, ok := matchPath(strings.Split(d.path, "/"), segments)
		if !ok {
			continue
		}
		if d.method == r.Method {
			return d, values, nil
		}
		known = true
	}
	if known {
		return door{}, nil, &statusError{http.StatusMethodNotAllowed, "this path does not take " + r.Method}
	}
	return door{}, nil, missing("there is no such path")
}

func matchPath(pattern, segments []string) (map[string]string, bool) {
	if len(pattern) != len(segments) {
		return nil, false
	}
	values := map[string]string{}
	for i, p := range pattern {
		segment, err := url.PathUnescape(segments[i])
		if err != nil {
			return nil, false
		}
		name, isValue := strings.CutPrefix(p, "{")
		switch {
		case isValue && segment != "":
			values[strings.TrimSuffix(name, "}")] = segment
		case p != segment:
			return nil, false
		}
	}
	return values, true
}

// work goes through a door in one transaction. A slow or late fault keeps the request in progress, its key held.
func (s *Server) work(r *http.Request, d door, c *call, f Fault) (answer, error) {
	keyed := writes(r.Method) && c.key.name != ""
	if writes(r.Method) && d.strict && !keyed {
		return answer{}, bad("an Idempotency-Key is needed")
	}
	if keyed {
		if err := s.busy.hold(c.key); err != nil {
			return answer{}, err
		}
		defer s.busy.release(c.key)
	}
	switch {
	case f.Kind == FaultSlow && !pause(r.Context().Done(), f.Delay), f.Kind == FaultLate && !pause(s.stopping, f.Delay):
		return answer{}, nil
	case f.Kind == FaultBroken:
		d.do = breakDown
	}
	// A client that goes away must not leave half a transaction, nor take the only connection with it.
	ctx := context.WithoutCancel(r.Context())
	switch {
	case keyed && d.strict:
		return s.provide(ctx, d, c)
	case keyed:
		return s.once(ctx, d, c)
	}
	return s.transact(ctx, d, c, nil)
}

// transact goes through a door and, for a keyed write, keeps its answer in the same commit.
func (s *Server) transact(ctx context.Context, d door, c *call, keep func(context.Context, *sql.Tx, answer) error) (answer, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return answer{}, err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	c.tx = tx
	var found int
	if err := tx.QueryRowContext(ctx, d.known, c.org).Scan(&found); err != nil {
		return answer{}, err
	}
	if found == 0 {
		return answer{}, missing("%s", d.unknown)
	}
	v, err := d.do(ctx, c)
	if err != nil {
		return answer{}, err
	}
	a, err := encode(http.StatusOK, v)
	if err != nil {
		return answer{}, err
	}
	if keep != nil {
		if err := keep(ctx, tx, a); err != nil {
			return answer{}, err
		}
	}
	return a, tx.Commit()
}

// parse takes the tenant and the values from where this kind of request carries them, and refuses all else.
func (c *call) parse(r *http.Request, d door, body []byte) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return bad("the query is not well formed")
	}
	if hasBody(r.Method) {
		return c.parseBody(r, d.tenant, query, body)
	}
	c.query = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if name != d.tenant && !slices.Contains(d.query, name) {
			return bad("unknown query parameter %q; known: %s", name, strings.Join(d.query, ", "))
		}
		if len(query[name]) != 1 {
			return bad("query parameter %q is given more than once", name)
		}
		c.query[name] = query.Get(name)
	}
	c.org = c.query[d.tenant]
	delete(c.query, d.tenant)
	if c.org == "" {
		return bad("%s is needed in the query", d.tenant)
	}
	return nil
}

func (c *call) parseBody(r *http.Request, tenant string, query url.Values, body []byte) error {
	if len(query) > 0 {
		return bad("%s takes no query; put the values in the body", r.Method)
	}
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if strings.TrimSpace(kind) != "application/json" {
		return &statusError{http.StatusUnsupportedMediaType, "the body must be application/json"}
	}
	object, err := decodeObject(body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(object[tenant], &c.org); err != nil || c.org == "" {
		return bad("%s is needed in the body", tenant)
	}
	delete(object, tenant)
	c.body = object
	return nil
}

// decodeObject takes exactly one JSON object, without names given twice.
func decodeObject(body []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, bad("the body must be one JSON object")
	}
	object := map[string]json.RawMessage{}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, bad("the body is not well-formed JSON")
		}
		if _, twice := object[name]; twice {
			return nil, bad("field %q is given twice", name)
		}
		if name != strings.ToLower(name) { // the decoder would take Day for day
			return nil, bad("unknown field %q", name)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, bad("the body is not well-formed JSON")
		}
		object[name] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, bad("the body is not well-formed JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, bad("the body must be one JSON object")
	}
	return object, nil
}

// into decodes the fields of the body, all known and of the right type.
func (c *call) into(v any) error {
	whole, err := json.Marshal(c.body)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(whole))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return bad("field %q must be of type %s", strings.ToLower(wrong.Field), wrong.Type)
		}
		return bad("%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

func encode(status int, v any) (answer, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return answer{}, err
	}
	return answer{status: status, body: append(body, '\n')}, nil
}

// problem turns an error into words for the client; what is not meant for it stays inside.
func problem(err error) answer {
	e := &statusError{http.StatusInternalServerError, "the back office could not do this; nothing was changed"}
	errors.As(err, &e)
	a, _ := encode(e.status, map[string]string{"error": e.text}) // a map of strings always encodes
	return a
}

// finish writes the answer, the log entry first: who has read an answer finds it in the log.
func (s *Server) finish(w http.ResponseWriter, entry Request, a answer) {
	entry.Status = a.status
	s.log.add(entry)
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the client may have gone
}

// fingerprint tells one request from another that uses the same key.
func fingerprint(r *http.Request, body []byte) string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(r.Method), []byte(r.URL.EscapedPath()), []byte(r.URL.Query().Encode()), body} {
		_, _ = fmt.Fprintf(h, "%d:", len(part)) // a hash takes everything
		h.Write(part)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}
