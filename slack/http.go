package slack

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	biggestBody = 1 << 20
	skew        = 5 * time.Minute // that a request's time may be off, both ways
	atOnce      = 64              // requests of Slack's that wait for an answer beside each other
	bodyTime    = 3 * time.Second // for a request to arrive; Slack's own are there at once
	answerTime  = 10 * time.Second
)

// Handler serves HTTP mode: events, clicks and commands, all at POST /slack/events. A request is answered with 2xx only
// once what it brings is stored. Slack: https://docs.slack.dev/apis/events-api/using-http-request-urls
func (s *Slack) Handler() http.Handler {
	room := make(chan struct{}, atOnce)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /slack/events", func(w http.ResponseWriter, r *http.Request) {
		kind, payload, ok := s.receive(w, r)
		if !ok {
			return
		}
		select { // only now: whoever cannot sign takes no room away from Slack
		case room <- struct{}{}:
			defer func() { <-room }()
			s.serve(w, r, kind, payload)
		default:
			http.Error(w, "busy", http.StatusServiceUnavailable)
		}
	})
	return mux
}

// receive reads a request and checks where it comes from. Where there is nothing to store, it answers and is not ok.
func (s *Slack) receive(w http.ResponseWriter, r *http.Request) (kind string, payload []byte, ok bool) {
	if s.o.SigningSecret == "" {
		http.Error(w, "no signing secret is configured", http.StatusNotFound)
		return "", nil, false
	}
	in := http.NewResponseController(w)
	_ = in.SetReadDeadline(time.Now().Add(bodyTime)) // where that cannot be set, the server's own limit must do
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, biggestBody))
	if err != nil { // the limit stays: the server itself waits for the rest of the body
		http.Error(w, "the body is too large or broke off", http.StatusRequestEntityTooLarge)
		return "", nil, false
	}
	_ = in.SetReadDeadline(time.Time{})
	kind, payload, err = unpack(r.Header.Get("Content-Type"), body)
	if kind == kindCheck {
		return "", nil, false // Slack looks whether the certificate is in order, unsigned; nothing follows from it
	}
	if !signed(s.o.SigningSecret, r.Header, body, s.o.Now()) {
		s.odd("request without Slack's signature")
		http.Error(w, "the signature does not fit", http.StatusUnauthorized)
		return "", nil, false
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return "", nil, false
	}
	var hello wrapper
	if kind == kindEvents && json.Unmarshal(payload, &hello) == nil && hello.Type == "url_verification" {
		answer(w, map[string]string{"challenge": hello.Challenge})
		return "", nil, false
	}
	return kind, payload, true
}

// serve takes what a request brings into the intake, as a socket does, and answers when it is stored. Slack hangs up after
// 3 s; what is half stored then is stored all the same, and need not be when it comes again.
func (s *Slack) serve(w http.ResponseWriter, r *http.Request, kind string, payload []byte) {
	type outcome struct {
		reply json.RawMessage
		err   error
	}
	done := make(chan outcome, 1)
	taken := s.intake.take(delivery{kind: kind, payload: payload, answer: func(reply json.RawMessage, err error) {
		done <- outcome{reply, err}
	}})
	if !taken {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	late := time.NewTimer(answerTime)
	defer late.Stop()
	select {
	case o := <-done:
		switch {
		case o.err != nil:
			http.Error(w, "not stored", http.StatusServiceUnavailable)
		case len(o.reply) > 0:
			answer(w, o.reply)
		default:
			w.WriteHeader(http.StatusOK)
		}
	case <-late.C:
		http.Error(w, "not stored yet", http.StatusServiceUnavailable)
	case <-r.Context().Done(): // nobody waits for the answer
	}
}

func answer(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what) // where nobody listens any more, Slack sends it again
}

const kindCheck = "ssl_check"

// unpack finds out what a body is: events are JSON, clicks a form with JSON in its field payload, commands a form.
func unpack(mediaType string, body []byte) (kind string, payload []byte, err error) {
	media, _, err := mime.ParseMediaType(mediaType)
	if err != nil {
		return "", nil, errors.New("the media type cannot be read")
	}
	switch media {
	case "application/json":
		return kindEvents, body, nil
	case "application/x-www-form-urlencoded":
	default:
		return "", nil, errors.New("the media type is none of Slack's")
	}
	form, err := url.ParseQuery(string(body))
	switch {
	case err != nil:
		return "", nil, errors.New("the form cannot be read")
	case form.Get("ssl_check") == "1":
		return kindCheck, nil, nil
	case form.Has("payload"):
		return kindInteractive, []byte(form.Get("payload")), nil
	case form.Has("command"):
		fields := map[string]string{}
		for name := range form {
			fields[name] = form.Get(name)
		}
		payload, err = json.Marshal(fields) // as Socket Mode brings it
		return kindSlash, payload, err
	}
	return "", nil, errors.New("the form is none of Slack's")
}

// signed says whether Slack has signed a request, just now. An old one may be somebody's copy, and one from the future was
// made to be used later. Slack: https://docs.slack.dev/authentication/verifying-requests-from-slack
func signed(secret string, h http.Header, body []byte, now time.Time) bool {
	stamp := h.Get("X-Slack-Request-Timestamp")
	sec, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return false
	}
	if off := now.Sub(time.Unix(sec, 0)); off > skew || off < -skew {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(mac, "v0:"+stamp+":")
	_, _ = mac.Write(body)
	want := "v0=" + hex.EncodeToString(mac.Sum(nil))
	return hmac.Equal([]byte(want), []byte(h.Get("X-Slack-Signature")))
}
