package tools

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"switchboard/config"
)

// The bounds of what a server says when it refuses.
const (
	maxRefusal = 64 << 10 // bytes of the body that are read
	maxMessage = 300      // characters of its message that are passed on
	maxWait    = 24 * time.Hour
)

// broken tells why there is no whole answer. sent says whether the server may have seen the request.
func (r *request) broken(ctx context.Context, err error, sent bool) error {
	f := &Fault{Kind: Network, Detail: "The server could not be reached.", Maybe: sent && r.changes(), Transient: true, Err: inner(err)}
	if sent {
		f.Detail = "The connection broke before the whole answer had come."
	}
	var slow net.Error
	var cert *tls.CertificateVerificationError
	var stop astrayError
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		f.Detail, f.Transient = "The call was stopped.", false
		return fmt.Errorf("call %s: %w: %w", r.tool.Name, ctx.Err(), f)
	case errors.As(err, &stop):
		f.Detail, f.Transient = "The server's address is not one that this tool may reach; whoever runs the bot has to look.", false
	case ctx.Err() != nil || errors.As(err, &slow) && slow.Timeout():
		f.Kind, f.Detail = Timeout, "The server did not answer in time."
		if ctx.Err() != nil {
			f.Err = ctx.Err()
		}
	case errors.As(err, &cert):
		f.Detail, f.Transient = "The server's certificate is not trusted.", false
	}
	return f
}

// changes says whether the request may change something, by the contract and not by its method.
func (r *request) changes() bool { return r.tool.Effect != config.NoEffect }

// refused turns any status but 2xx into a fault. Where an effect went with a key, 409 and 422 may speak of the key:
// see Fresh.
func (r *request) refused(resp *http.Response, in Input) *Fault {
	f := statusFault(resp, r.changes())
	if f.Status < 400 {
		return finish(f, "") // a page that points elsewhere has no words for us
	}
	// The status says enough when the rest cannot be read.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	words := short(r.mask(message(body), in))
	fresh := finish(f, words)
	if !r.changes() || r.tool.Idempotency == nil || in.Key == "" {
		return fresh
	}
	switch f.Status {
	case http.StatusConflict:
		doubt := &Fault{
			Kind: Conflict, Status: f.Status, Maybe: true, Transient: true, Wait: f.Wait, Err: underKeyError{fresh},
			Detail: "An earlier attempt at this call may still be at work, or it conflicts with what is already there",
		}
		if doubt.Wait == 0 {
			doubt.Wait = busyWait
		}
		return finish(doubt, words)
	case http.StatusUnprocessableEntity:
		return finish(&Fault{
			Kind: Conflict, Status: f.Status, Maybe: true, Wait: f.Wait, Err: underKeyError{fresh},
			Detail: "An earlier attempt at this call may have been another request under the same key, or the request is refused for what it holds",
		}, words)
	}
	return fresh
}

// busyWait is how long a server that is still at work is left alone where it does not say.
const busyWait = time.Second

// underKeyError is a 409 or 422 that answered a request with a key: fresh is what it means when the key was new.
type underKeyError struct{ fresh *Fault }

func (underKeyError) Error() string { return "the answer may speak of the idempotency key" }

// Fresh gives what a fault means where no request with its key can have reached the server before.
//
// A server that knows idempotency keys answers 409 while the first request with a key is at work, and 422 to another
// request under a used key (https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/, section 2.7).
// The same statuses also say that a slot is taken or that a field is wrong, and nothing in the answer tells the two
// apart; only whoever counts the attempts can. So a tool reports such an answer as in doubt: an effect may exist under
// the key, a 409 may be asked again and a 422 never. On the first attempt of all that is more than it means: there the
// server has simply refused.
func Fresh(f *Fault) *Fault {
	if k, ok := errors.AsType[underKeyError](f); ok {
		return k.fresh
	}
	return f
}

// statusFault is what any status but 2xx means by itself.
func statusFault(resp *http.Response, changes bool) *Fault {
	code := resp.StatusCode
	f := &Fault{Status: code, Wait: retryAfter(resp.Header)}
	switch {
	case code == http.StatusNotFound:
		f.Kind, f.Detail = NotFound, "Not found"
	case code == http.StatusConflict:
		f.Kind, f.Detail = Conflict, "This conflicts with what is already there"
	case code == http.StatusTooManyRequests:
		f.Kind, f.Detail, f.Transient = RateLimited, "The server takes no more requests for now", true
	case code >= 500:
		// The server may have failed after the deed as well as before it.
		f.Kind, f.Detail, f.Maybe = Unavailable, "The server could not do it", changes
		// A server that keeps answers by key repeats a plain 500 for ever; and without keys it is no sign that a retry helps.
		f.Transient = code == http.StatusBadGateway || code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout
	case code < 400:
		f.Kind, f.Detail, f.Maybe = Rejected, "The server points elsewhere, and redirects are not followed", changes
	default:
		f.Kind, f.Detail, f.Transient = Rejected, "The server refused the request", code == http.StatusRequestTimeout
	}
	return f
}

// finish makes a sentence of a detail and the server's own words.
func finish(f *Fault, words string) *Fault {
	if words != "" {
		f.Detail += ": " + words
	}
	if !strings.HasSuffix(f.Detail, ".") {
		f.Detail += "."
	}
	return f
}

// message finds the server's words in {"error": "…"} or {"error": {"message": "…"}}. Anything else is not passed on.
func message(body []byte) string {
	v, err := config.DecodeJSON(body)
	if err != nil {
		return ""
	}
	object, _ := v.(map[string]any)
	switch e := object["error"].(type) {
	case string:
		return e
	case map[string]any:
		text, _ := e["message"].(string)
		return text
	}
	return ""
}

// short takes out what cannot be seen and cuts at maxMessage characters.
func short(text string) string {
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) {
			return -1
		}
		return c
	}, strings.Join(strings.Fields(text), " "))
	if utf8.RuneCountInString(text) > maxMessage {
		text = string([]rune(text)[:maxMessage-1]) + "…"
	}
	return text
}

// retryAfter reads how long the server wants to be left alone, at most maxWait; 0 when it does not say.
func retryAfter(h http.Header) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(time.Duration(n)*time.Second, maxWait)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	// Against the server's own clock: ours may differ.
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return min(max(at.Sub(now), 0), maxWait)
}

// read takes the body of a good answer, as far as MaxRead.
func (r *request) read(ctx context.Context, resp *http.Response) (Output, error) {
	bad := func(why string, err error) error {
		return &Fault{Kind: BadResult, Detail: "The server's answer " + why + ".", Status: resp.StatusCode, Maybe: r.changes(), Err: err}
	}
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return Output{}, bad("is compressed in a way that was not asked for", nil)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxRead+1))
	if err != nil {
		return Output{}, r.broken(ctx, err, true)
	}
	out := Output{Status: resp.StatusCode, Size: len(body)}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // what cannot be parsed is not JSON
	switch {
	case len(body) > MaxRead:
		out.Value, out.Cut = wholeRunes(body[:MaxRead]), true
		out.Size = len(out.Value.(string))
		if !utf8.ValidString(out.Value.(string)) {
			return Output{}, bad("is not text", nil)
		}
	case resp.StatusCode == http.StatusNoContent, resp.StatusCode == http.StatusResetContent, len(body) == 0 && !isJSON(kind):
		out.Value = nil
	case isJSON(kind):
		if out.Value, err = config.DecodeJSON(body); err != nil {
			return Output{}, bad("is not sound JSON", err)
		}
	case !utf8.Valid(body) || !isText(kind):
		return Output{}, bad("is not text", nil)
	default:
		out.Value = string(body)
	}
	return out, nil
}

// wholeRunes cuts off a character that is only begun.
func wholeRunes(b []byte) string {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				b = b[:len(b)-i]
			}
			break
		}
	}
	return string(b)
}

func isJSON(kind string) bool {
	return kind == "application/json" || kind == "text/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
}

// isText says whether a media type is text that a model can read. A server that names none is believed to send text.
func isText(kind string) bool {
	switch kind {
	case "", "application/xml", "application/yaml", "application/x-yaml", "application/x-ndjson", "application/toml":
		return true
	}
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+xml") || strings.HasSuffix(kind, "+yaml")
}
