package slack

import (
	"context"
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
	atOnce      = 64              // requests that are dealt with beside each other
	answerTime  = 10 * time.Second
)

// Handler serves HTTP mode: events, clicks and commands, all at POST /slack/events. A request is answered with 2xx only
// once what it brings is stored. Slack: https://docs.slack.dev/apis/events-api/using-http-request-urls
func (s *Slack) Handler() http.Handler {
	room := make(chan struct{}, atOnce)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /slack/events", func(w http.ResponseWriter, r *http.Request) {
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
			s.receive(w, r)
		default:
			http.Error(w, "busy", http.StatusServiceUnavailable)
		}
	})
	return mux
}

// receive checks where a request comes from, and deals with it.
func (s *Slack) receive(w http.ResponseWriter, r *http.Request) {
	if s.o.SigningSecret == "" {
		http.Error(w, "no signing secret is configured", http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, biggestBody))
	if err != nil {
		http.Error(w, "the body is too large or broke off", http.StatusRequestEntityTooLarge)
		return
	}
	kind, payload, err := unpack(r.Header.Get("Content-Type"), body)
	if kind == kindCheck {
		return // Slack looks whether the certificate is in order, unsigned; nothing follows from it
	}
	if !signed(s.o.SigningSecret, r.Header, body, s.o.Now()) {
		s.odd("request without Slack's signature")
		http.Error(w, "the signature does not fit", http.StatusUnauthorized)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var hello wrapper
	if kind == kindEvents && json.Unmarshal(payload, &hello) == nil && hello.Type == "url_verification" {
		answer(w, map[string]string{"challenge": hello.Challenge})
		return
	}
	if !s.intake.enter() {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	defer s.intake.pending.Done()
	// The request's own end must not undo what is half stored: Slack hangs up after 3 s, and what is stored by then need
	// not come again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), answerTime)
	defer cancel()
	stop := context.AfterFunc(s.intake.ctx, cancel) //nolint:contextcheck // as said above
	defer stop()
	result, err := s.dealSafely(ctx, kind, payload)
	if err != nil {
		s.o.Log.Error().Err(err).Str("kind", kind).Msg("a request of Slack is not stored, so it will come again")
		http.Error(w, "not stored", http.StatusServiceUnavailable)
		return
	}
	if len(result.reply) > 0 {
		answer(w, result.reply)
	} else {
		w.WriteHeader(http.StatusOK)
	}
	s.afterwards(result)
}

// dealSafely is deal, with a panic as an error.
func (s *Slack) dealSafely(ctx context.Context, kind string, payload []byte) (r result, err error) {
	finished := false
	defer func() {
		if !finished {
			err = errors.New("dealing with it broke off")
		}
	}()
	defer s.recovered("deal with a request")
	r, err = s.deal(ctx, kind, payload)
	finished = true
	return r, err
}

func answer(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what) // where nobody listens any more, Slack sends it again
}

// enter counts a request as under way, unless the bot is stopping.
func (in *intake) enter() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return false
	}
	in.pending.Add(1)
	return true
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
