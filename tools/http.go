package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"

	"switchboard/config"
)

// request is an http tool: everything that does not change from call to call.
type request struct {
	tool   *config.Tool
	base   *url.URL // scheme, host and the path prefix, without a slash at its end
	server server   // where base leads
	path   []piece
	header string // name of the header that carries secret; "" for none
	secret string
	client *http.Client
}

// piece is a literal part of the path, already escaped, or the name of an argument.
type piece struct{ literal, name string }

// NewHTTP makes the tool of an http contract, which is a Preparer. It resolves the server's address and key once, and
// gives an error when one is missing, when the address is not plain http or https, or when the path cannot be built.
//
// A nil client is NewClient's. Of any other a copy is used that follows no redirects and keeps no cookies; the addresses
// of connections are checked only by a client that NewClient made.
func NewHTTP(t *config.Tool, env config.Environ, client *http.Client) (Tool, error) {
	if t.HTTP == nil {
		return nil, fmt.Errorf("build tool %s: it is no http tool", t.Name)
	}
	base, err := resolveBase(t.HTTP.Base, env)
	if err != nil {
		return nil, fmt.Errorf("build tool %s: %w", t.Name, err)
	}
	path, err := splitPath(t.HTTP.Path)
	if err != nil {
		return nil, fmt.Errorf("build tool %s: path %q: %w", t.Name, t.HTTP.Path, err)
	}
	to, err := serverOf(base)
	if err != nil {
		return nil, fmt.Errorf("build tool %s: the address in %s %w", t.Name, t.HTTP.Base, err)
	}
	r := &request{tool: t, base: base, server: to, path: path, client: client}
	if err := r.resolveAuth(env); err != nil {
		return nil, fmt.Errorf("build tool %s: %w", t.Name, err)
	}
	if client == nil {
		r.client = NewClient()
	} else {
		own := *client
		own.CheckRedirect, own.Jar = stay, nil
		r.client = &own
	}
	return r, nil
}

// resolveBase reads the server's address. Its errors do not repeat it: it may hold a password by mistake.
func resolveBase(ref config.Ref, env config.Environ) (*url.URL, error) {
	text, err := ref.Resolve(env)
	if err != nil {
		return nil, fmt.Errorf("read the server's address: %w", err)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the address in %s is no URL; give one like https://api.example.com/v1", ref)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the address in %s must begin with http:// or https://", ref)
	case u.Hostname() == "" || u.Opaque != "":
		return nil, fmt.Errorf("the address in %s names no host", ref)
	case u.User != nil:
		return nil, fmt.Errorf("the address in %s holds a user name or password; use auth for keys", ref)
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return nil, fmt.Errorf("the address in %s must end with the path: no ? and no #", ref)
	}
	prefix := strings.TrimRight(u.EscapedPath(), "/")
	if err := plainPath(prefix); err != nil {
		return nil, fmt.Errorf("the path of the address in %s: %w", ref, err)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/"), RawPath: prefix}, nil
}

func (r *request) resolveAuth(env config.Environ) error {
	ref := r.tool.HTTP.Value
	r.header = r.tool.HTTP.Header
	if r.tool.HTTP.Bearer != nil {
		ref, r.header = r.tool.HTTP.Bearer, "Authorization"
	}
	if ref == nil {
		r.header = ""
		return nil
	}
	secret, err := ref.Resolve(env)
	if err != nil {
		return fmt.Errorf("read the server's key: %w", err)
	}
	if secret == "" || strings.ContainsFunc(secret, func(c rune) bool { return c < ' ' || c > '~' }) {
		return fmt.Errorf("the key in %s is empty or holds characters that no header can carry (a line end?)", ref)
	}
	r.secret = secret
	return nil
}

// splitPath takes a path like /bookings/{id}/notes apart.
func splitPath(path string) ([]piece, error) {
	var pieces []piece
	rest := path
	for rest != "" {
		open := strings.IndexByte(rest, '{')
		if open < 0 {
			open = len(rest)
		}
		if open > 0 {
			pieces = append(pieces, piece{literal: rest[:open]})
		}
		if rest = rest[open:]; rest == "" {
			break
		}
		end := strings.IndexByte(rest, '}')
		if end < 2 {
			return nil, errors.New("a { without a name and a } after it")
		}
		pieces = append(pieces, piece{name: rest[1:end]})
		rest = rest[end+1:]
	}
	var sample strings.Builder
	for _, p := range pieces {
		sample.WriteString(p.literal)
		if p.name != "" {
			sample.WriteByte('x')
		}
	}
	if !strings.HasPrefix(sample.String(), "/") {
		return nil, errors.New("must begin with /")
	}
	return pieces, plainPath(sample.String())
}

// plainPath refuses a path that is more than a path, or that a server could read as another one.
func plainPath(path string) error {
	if strings.ContainsAny(path, "?#\\}") || strings.Contains(path, "//") {
		return errors.New(`must hold no ?, #, \, } or //`)
	}
	plain, err := url.PathUnescape(path)
	if err != nil {
		return errors.New("holds a broken % escape")
	}
	for part := range strings.SplitSeq(plain, "/") {
		if part == "." || part == ".." {
			return errors.New("must hold no . or .. part")
		}
	}
	return nil
}

// Run makes one request. Nothing that an argument holds can leave its part of it.
func (r *request) Run(ctx context.Context, in Input) (Output, error) {
	p, err := r.Prepare(in)
	if err != nil {
		return Output{}, err
	}
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	ctx = context.WithValue(ctx, serverKey{}, r.server)
	req, err := r.build(httptrace.WithClientTrace(ctx, trace), p, in.Key)
	if err != nil {
		return Output{}, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return Output{}, r.broken(ctx, err, sent.Load())
	}
	// What is left unread is not drained: closing then drops the connection, which ends an endless body.
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return Output{}, r.refused(resp, in)
	}
	return r.read(ctx, resp)
}

// Prepare gives the request that Run makes of an input.
func (r *request) Prepare(in Input) (Prepared, error) {
	values := make(map[string]any, len(in.Args)+len(in.Bound))
	for name := range r.tool.Bind {
		if _, ok := in.Bound[name]; !ok {
			return Prepared{}, &Fault{Kind: Internal, Detail: fmt.Sprintf("The value of %q is set by the runtime and is missing here.", name)}
		}
	}
	for name, v := range in.Args {
		if _, bound := in.Bound[name]; bound {
			return Prepared{}, &Fault{Kind: Internal, Detail: fmt.Sprintf("The argument %q is set by the runtime and cannot be given.", name)}
		}
		values[name] = v
	}
	for name, v := range in.Bound {
		values[name] = v
	}
	p := Prepared{Method: r.tool.HTTP.Method}
	var err error
	if p.Target, err = r.target(values); err != nil {
		return Prepared{}, err
	}
	if r.hasBody() {
		// Canonical bytes, so that a repeated attempt sends the same ones under its key.
		p.Body = config.Canonical(values)
	} else if q := query(values); q != "" {
		p.Target += "?" + q
	}
	return p, nil
}

// build makes the request of what was prepared, and adds what is not for anybody's eyes.
func (r *request) build(ctx context.Context, p Prepared, key string) (*http.Request, error) {
	var body io.Reader
	if p.Body != nil {
		body = bytes.NewReader(p.Body)
	}
	req, err := http.NewRequestWithContext(ctx, p.Method, r.base.Scheme+"://"+r.base.Host+p.Target, body)
	if err != nil {
		return nil, &Fault{Kind: Internal, Detail: "The request could not be built.", Err: inner(err)}
	}
	if req.URL.Host != r.base.Host || req.URL.User != nil || req.URL.RequestURI() != p.Target {
		return nil, &Fault{Kind: Internal, Detail: "The request would be another one than was prepared."}
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "switchboard")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.tool.HTTP.Bearer != nil {
		req.Header.Set("Authorization", "Bearer "+r.secret)
	} else if r.header != "" {
		req.Header.Set(r.header, r.secret)
	}
	if r.tool.Idempotency != nil && key != "" {
		req.Header.Set(r.tool.Idempotency.Header, key)
	}
	if r.changes() && (p.Method == http.MethodGet || r.tool.Idempotency != nil) {
		// The transport sends such a request again by itself when a kept connection breaks under it, unless it holds a
		// body that cannot be had twice. An attempt that nobody counted would make the next answer mean something else.
		req.GetBody = nil
		if req.Body == nil {
			req.Body = io.NopCloser(strings.NewReader("")) // found empty before anything is sent
		}
	}
	return req, nil
}

func (r *request) hasBody() bool {
	return slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, r.tool.HTTP.Method)
}

// target fills the path's places and takes what it used out of values.
func (r *request) target(values map[string]any) (string, error) {
	var filled strings.Builder
	filled.WriteString(r.base.RawPath)
	var used []string
	for _, p := range r.path {
		if p.name == "" {
			filled.WriteString(p.literal)
			continue
		}
		v, ok := values[p.name]
		if !ok {
			return "", &Fault{Kind: Rejected, Detail: fmt.Sprintf("The argument %q is missing; this call cannot be made without it.", p.name)}
		}
		text, ok := scalar(v)
		if !ok || strays(text) {
			return "", &Fault{Kind: Rejected, Detail: fmt.Sprintf("The argument %q cannot stand in an address: it must be a plain, non-empty value.", p.name)}
		}
		filled.WriteString(url.PathEscape(text))
		used = append(used, p.name)
	}
	for _, name := range used {
		delete(values, name)
	}
	escaped := filled.String()
	for part := range strings.SplitSeq(escaped, "/") { // a literal and a value may only together read as a dot part
		if part != "" && strays(part) {
			return "", &Fault{Kind: Rejected, Detail: "An argument would change the address of the call."}
		}
	}
	return escaped, nil
}

// strays says whether a text, decoded as often as a careless server might, could name another place than one part of a
// path: an empty part or a dot part anywhere in it, or a control character.
func strays(text string) bool {
	for range 5 {
		if strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return true
		}
		for part := range strings.SplitSeq(strings.ReplaceAll(text, `\`, "/"), "/") {
			part, _, _ = strings.Cut(part, ";")      // some servers drop what follows it
			if strings.TrimRight(part, ". ") == "" { // and others dots and spaces at its end
				return true
			}
		}
		next, err := url.PathUnescape(text)
		if err != nil || next == text {
			return false
		}
		text = next
	}
	return true // still not decoded to its end: nobody writes this in good faith
}

// query writes the arguments as a query, sorted by name: a list of scalars repeats its name, anything deeper is JSON, a
// null is left out.
func query(values map[string]any) string {
	q := url.Values{}
	for name, v := range values {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, one := range list {
			if one == nil {
				continue
			}
			text, ok := scalar(one)
			if !ok {
				text = string(config.Canonical(one))
			}
			q.Add(name, text)
		}
	}
	return q.Encode()
}

// scalar writes a string, a number or a boolean as text.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int64, int, float64, json.Number:
		return string(config.Canonical(v)), true
	}
	return "", false
}

// mask takes out of a server's words what the model must not see: bound values, keys, addresses.
func (r *request) mask(text string, in Input) string {
	type pair struct{ old, new string }
	pairs := []pair{{r.secret, "‹key›"}, {in.Key, "‹key›"}, {r.base.Host, "‹server›"}}
	for name, v := range in.Bound {
		shown := "‹" + name + "›"
		pairs = append(pairs, pair{v, shown}, pair{url.QueryEscape(v), shown}, pair{url.PathEscape(v), shown})
	}
	if host := r.base.Hostname(); strings.ContainsAny(host, ".:") || host == "localhost" {
		pairs = append(pairs, pair{host, "‹server›"})
	}
	sort.SliceStable(pairs, func(i, j int) bool { return len(pairs[i].old) > len(pairs[j].old) })
	var args []string
	for _, p := range pairs {
		if p.old != "" {
			args = append(args, p.old, p.new)
		}
	}
	text = strings.NewReplacer(args...).Replace(text)
	words := strings.Fields(text)
	for i, w := range words {
		if strings.Contains(w, "://") {
			words[i] = "‹address›"
		}
	}
	return strings.Join(words, " ")
}

// inner takes the request's address out of an error: url.Error repeats it, with bound values in it.
func inner(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
