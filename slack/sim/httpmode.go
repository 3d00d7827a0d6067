package sim

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// deliveryError is why a delivery over HTTP failed, with Slack's word for it in x-slack-retry-reason.
// Slack: https://docs.slack.dev/apis/events-api
type deliveryError struct {
	reason string
	err    error
}

func (h *deliveryError) Error() string { return h.reason + ": " + h.err.Error() }
func (h *deliveryError) Unwrap() error { return h.err }

// mostRedirects are followed. Slack: as deliveryError.
const mostRedirects = 2

var errRedirects = errors.New("too many redirects")

// post sends a delivery to the app's address, signed.
func (w *Workspace) post(d *delivery) (answer json.RawMessage, final bool, err error) {
	body, kind := []byte(d.body), "application/json"
	switch d.kind {
	case "interactive":
		body, kind = []byte(url.Values{"payload": {string(d.body)}}.Encode()), "application/x-www-form-urlencoded"
	case "slash_commands":
		body, kind = []byte(slashForm(d.body).Encode()), "application/x-www-form-urlencoded"
	}
	ctx, cancel := context.WithTimeout(lifetime{w.stop}, w.o.Times.Ack)
	defer cancel()
	req, err := w.signed(ctx, d.app, body, kind)
	if err != nil {
		return nil, true, err
	}
	if d.attempt > 0 {
		req.Header.Set("X-Slack-Retry-Num", strconv.Itoa(d.attempt))
		req.Header.Set("X-Slack-Retry-Reason", d.reason)
	}
	return send(req)
}

// signed makes a request with Slack's signature. Slack: https://docs.slack.dev/authentication/verifying-requests-from-slack
func (w *Workspace) signed(ctx context.Context, a *app, body []byte, kind string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.EventsURL, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("call app %s: %w", a.ID, err)
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("User-Agent", "Slackbot 1.0 (simulated)")
	at := strconv.FormatInt(w.o.Now().Unix(), 10)
	req.Header.Set("X-Slack-Request-Timestamp", at)
	req.Header.Set("X-Slack-Signature", Sign(a.SigningSecret, at, body))
	return req, nil
}

// Sign gives the signature of a request body that is sent at a time, in seconds since 1970.
func Sign(secret, at string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("v0:" + at + ":"))
	mac.Write(body)
	return "v0=" + hex.EncodeToString(mac.Sum(nil))
}

// slashForm writes a command's fields as a form.
func slashForm(body json.RawMessage) url.Values {
	var fields map[string]string
	form := url.Values{}
	if json.Unmarshal(body, &fields) == nil {
		for k, v := range fields {
			form.Set(k, v)
		}
	}
	return form
}

// send carries a request out and reads the answer.
func send(req *http.Request) (answer json.RawMessage, final bool, err error) {
	client := &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true}, // a closed server must be seen as one
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) > mostRedirects {
				return errRedirects
			}
			return nil
		},
	}
	res, err := client.Do(req)
	if err != nil {
		reason := "connection_failed"
		switch {
		case errors.Is(err, errRedirects):
			reason = "too_many_redirects"
		case errors.Is(err, context.DeadlineExceeded):
			reason = "http_timeout"
		}
		return nil, false, &deliveryError{reason, err}
	}
	defer func() { _ = res.Body.Close() }() // it was read
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return nil, false, &deliveryError{"http_timeout", err}
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, res.Header.Get("X-Slack-No-Retry") == "1", &deliveryError{"http_error", fmt.Errorf("status %d", res.StatusCode)}
	}
	if len(b) == 0 {
		return nil, false, nil
	}
	if json.Valid(b) {
		return b, false, nil
	}
	return mustJSON(string(b)), false, nil // a command may be answered in plain text
}

// Verify sends url_verification to the address of an app in HTTP mode ("" is the first app), as Slack does when an admin
// saves it, and says what is wrong with the answer. Slack: https://docs.slack.dev/reference/events/url_verification
func (w *Workspace) Verify(ctx context.Context, appID string) error {
	w.mu.Lock()
	a, err := w.app(appID)
	challenge := w.secret()
	w.mu.Unlock()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	body := mustJSON(map[string]any{"type": "url_verification", "token": "verification-is-deprecated", "challenge": challenge})
	req, err := w.signed(ctx, a, body, "application/json")
	if err != nil {
		return err
	}
	got, _, err := send(req)
	if err != nil {
		return fmt.Errorf("verify the address of app %s: %w", a.ID, err)
	}
	var text string
	var object struct {
		Challenge string `json:"challenge"`
	}
	_ = json.Unmarshal(got, &text)   // the answer may be plain text
	_ = json.Unmarshal(got, &object) // or an object
	if text != challenge && object.Challenge != challenge {
		return fmt.Errorf("verify the address of app %s: answered %.100q instead of the challenge", a.ID, got)
	}
	return nil
}
