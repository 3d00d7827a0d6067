package llm

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// serverError is an error as a server words it.
type serverError struct {
	message, typ, code string
}

// Error gives the server's words.
func (p serverError) Error() string {
	words := make([]string, 0, 3)
	for _, w := range []string{p.typ, p.code, p.message} {
		if w != "" && (len(words) == 0 || words[len(words)-1] != w) {
			words = append(words, w)
		}
	}
	return strings.Join(words, ": ")
}

// readProblem reads the shapes that servers use: an object or a text under "error", a bare object, either in an array, or
// no JSON at all.
func readProblem(body []byte) serverError {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	type words struct {
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
		Type    json.RawMessage `json:"type"`
		Status  json.RawMessage `json:"status"`
		Code    json.RawMessage `json:"code"`
	}
	var outer struct {
		Error json.RawMessage `json:"error"`
		words
	}
	if json.Unmarshal(body, &outer) != nil {
		return serverError{message: strings.TrimSpace(string(body))}
	}
	w := outer.words
	if isSet(outer.Error) {
		var text string
		if json.Unmarshal(outer.Error, &text) == nil {
			return serverError{message: text, code: word(outer.Code)}
		}
		w = words{}
		if json.Unmarshal(outer.Error, &w) != nil {
			return serverError{message: string(outer.Error)}
		}
	}
	p := serverError{message: word(w.Message), typ: word(w.Type), code: word(w.Code)}
	if p.message == "" {
		p.message = word(w.Detail)
	}
	if p.typ == "" {
		p.typ = word(w.Status)
	}
	return p
}

// word gives a JSON text as it is, and anything else as its JSON.
func word(raw json.RawMessage) string {
	var s string
	if !isSet(raw) || json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// reason classifies by the server's code words, then its status, and reads the message only for the narrow cases that
// have no code of their own.
func (p serverError) reason(status int) Reason {
	code := strings.ToLower(p.typ + " " + p.code)
	text := strings.ToLower(p.message)
	if n, err := strconv.Atoi(p.code); status < 300 && err == nil && n >= 400 && n < 600 {
		status = n // a good status, and the real one inside
	}
	switch {
	case status == http.StatusPaymentRequired, has(code, "insufficient_quota", "billing", "insufficient_credits"),
		has(text, "credit balance is too low", "insufficient credits", "insufficient balance"):
		return Quota
	case status == http.StatusRequestEntityTooLarge, has(code, "context_length_exceeded", "request_too_large"),
		status != http.StatusTooManyRequests && has(text, "prompt is too long", "maximum context length", "context window",
			"context size", "context length", "input tokens exceed", "input is too long"):
		return ContextTooLong
	case has(code, "content_policy_violation", "content_filter", "responsibleaipolicyviolation"), has(text, "content management policy", "content filtering policy"):
		return Declined
	case status == http.StatusUnauthorized, status == http.StatusForbidden, has(code, "authentication_error", "permission_error", "invalid_api_key"):
		return Auth
	case status == http.StatusTooManyRequests, has(code, "rate_limit"):
		return RateLimited
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status >= 500,
		has(code, "overloaded", "server_error", "api_error", "timeout", "unavailable"):
		return Overloaded
	case status < 300 && !has(code, "invalid", "not_found", "bad_request"):
		return Overloaded // an error behind a good status: a gateway in trouble more often than a bad request
	default:
		return BadRequest
	}
}

// retryAfter reads how long a server asks to be left alone; 0: it does not say.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return span(ms / 1000)
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		return span(s)
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// span gives seconds as a duration, at most a day; what is no sensible number is 0.
func span(seconds float64) time.Duration {
	if !(seconds > 0) {
		return 0
	}
	return time.Duration(min(seconds, 86_400) * float64(time.Second))
}

// scrubber takes out of a text what must not be kept: the key, and what looks like one.
type scrubber struct{ key string }

var (
	secrets = regexp.MustCompile(`(?i)\b(?:sk|pk|rk|gsk|xai|org|proj|acct)[-_][a-z0-9_*.-]{6,}|\bAIza[a-z0-9_-]{20,}|\bbearer\s+\S+|[a-z0-9_-]*\*{3,}[a-z0-9_-]*`)
	spaces  = regexp.MustCompile(`\s+`)
)

// mostDetail is how much of a server's words is kept, in bytes.
const mostDetail = 500

func (s scrubber) text(t string) string {
	if len(t) > mostError {
		t = t[:mostError]
	}
	if len(s.key) >= 4 {
		t = strings.ReplaceAll(t, s.key, "‹key›")
	}
	t = secrets.ReplaceAllString(t, "‹key›")
	t = strings.TrimSpace(spaces.ReplaceAllString(strings.ToValidUTF8(t, "?"), " "))
	if len(t) <= mostDetail {
		return t
	}
	cut := mostDetail
	for cut > 0 && !utf8.RuneStart(t[cut]) {
		cut--
	}
	return t[:cut] + "…"
}
