package slack

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	slackgo "github.com/slack-go/slack"
)

// Health is how the connection to Slack stands. Live is false only after Stop: a bot that Slack does not let in is not
// mended by starting it again. Ready is true while events can come in, and Slack takes the token with which they are
// answered.
type Health struct {
	Live, Ready bool
	Reason      string // why it is not ready, for admins; "" when it is
}

// health keeps the facts that Health tells.
type health struct {
	mu      sync.Mutex
	started bool
	stopped bool
	web     bool // events come by HTTP: nothing of ours has to be open for that
	lines   int  // sockets that have said hello and are read
	last    string
	refused string // why Slack does not take the bot token any more, "" while it does
	broken  error  // for good
	fatal   chan error
	dead    chan struct{} // closed when broken is set
	met     chan struct{} // closed when events could come in for the first time
	meeting sync.Once
}

// Health says how the connection stands, for /healthz and /readyz.
func (s *Slack) Health() Health {
	h := &s.health
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.stopped:
		return Health{Reason: "stopped"}
	case h.broken != nil:
		return Health{Live: true, Reason: h.broken.Error()}
	case !h.started:
		return Health{Live: true, Reason: "not started"}
	case h.refused != "":
		return Health{Live: true, Reason: h.refused}
	case h.web || h.lines > 0:
		return Health{Live: true, Ready: true}
	case h.last != "":
		return Health{Live: true, Reason: "not connected to Slack: " + h.last}
	}
	return Health{Live: true, Reason: "not connected to Slack yet"}
}

// Fatal tells, once, that Slack does not let the bot work and that trying again is no use. The error is an ErrUnusable, and
// its text says what an admin can do.
func (s *Slack) Fatal() <-chan error { return s.health.fatal }

// Connected is closed when events can come in for the first time.
func (s *Slack) Connected() <-chan struct{} { return s.health.met }

func (h *health) begin() {
	h.fatal = make(chan error, 1)
	h.met = make(chan struct{})
	h.dead = make(chan struct{})
}

// begun says whether it was started, or stopped.
func (h *health) begun() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.started || h.stopped
}

func (h *health) start(web bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started, h.web = true, web
	if web {
		h.meeting.Do(func() { close(h.met) })
	}
}

func (h *health) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
}

// up and down count the sockets that work.
func (h *health) up() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines++
	h.meeting.Do(func() { close(h.met) })
}

func (h *health) down(reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines--
	h.last = reason
}

// trouble keeps the latest reason why there is no connection.
func (h *health) trouble(reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = reason
}

// refusedToken takes note of a call with the bot token that Slack has refused. Only what Slack says of the token itself
// ends readiness: a scope that is missing keeps the bot from some calls, not from all.
func (h *health) refusedToken(err error) {
	refused, _ := errors.AsType[slackgo.SlackErrorResponse](err)
	switch refused.Err {
	case "invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive", "user_removed_from_team",
		"team_access_not_granted", "org_login_required", "ekm_access_denied":
	default:
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = explain(err).Error()
}

// tokenWorks takes note of a call with the bot token that Slack has taken.
func (h *health) tokenWorks() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = ""
}

// fail ends readiness for good. The first cause counts.
func (h *health) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken != nil {
		return
	}
	h.broken = err
	close(h.dead)
	h.fatal <- err // holds one, and only the first comes here
}

func (h *health) failed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.broken != nil
}

func unusable(sentence string) error { return fmt.Errorf("%w: %s", ErrUnusable, sentence) }

// explain turns a refusal that no repetition will change into an ErrUnusable with a sentence that an admin can act on.
// Other errors stay as they are. Slack's codes: https://docs.slack.dev/reference/methods/apps.connections.open
func explain(err error) error {
	if err == nil || errors.Is(err, ErrUnusable) {
		return err
	}
	if status, ok := errors.AsType[slackgo.StatusCodeError](err); ok && status.Code == http.StatusNotFound {
		return unusable("there is no Slack API at the configured address (status 404): mend the API address, or leave it out for Slack's own")
	}
	refused, ok := errors.AsType[slackgo.SlackErrorResponse](err)
	if !ok {
		return err
	}
	var sentence string
	switch refused.Err {
	case "invalid_auth", "not_authed", "token_revoked", "token_expired":
		sentence = "the token is not valid any more: copy it again from the app's page (bot token: OAuth & Permissions; app token: Basic Information)"
	case "account_inactive", "user_removed_from_team", "team_access_not_granted":
		sentence = "the bot's account is not active: install the app in the workspace again, and give the bot its new token"
	case "app_deleted", "invalid_app_id", "app_not_found", "bot_not_found", "team_not_found":
		sentence = "the app does not exist any more: create it again from the manifest, and give the bot its tokens"
	case "not_allowed_token_type":
		sentence = "the token is of the wrong kind: the bot token begins with xoxb-, the app token with xapp-"
	case "missing_scope", "no_permission":
		sentence = "a scope is missing"
		if refused.Needed != "" {
			sentence += " (" + refused.Needed + ")"
		}
		sentence += ": add it on the app's page and install the app again; the app token needs connections:write"
	case "link_disabled", "socket_mode_disabled", "socket_mode_not_enabled":
		sentence = socketModeOff
	case "access_denied", "org_login_required", "ekm_access_denied", "team_added_to_org":
		sentence = "the workspace does not let the app in (" + refused.Err + "): ask the workspace's admins to allow it"
	default:
		return err
	}
	return unusable(sentence + " [" + refused.Err + "]")
}

const socketModeOff = "Socket Mode is switched off for the app: on the app's page Socket Mode, switch it on, or give the bot a signing secret instead of an app token"

// scopesOf reads what a token may do. Slack: https://docs.slack.dev/authentication/installing-with-oauth
func scopesOf(h http.Header) []string {
	var scopes []string
	for scope := range strings.SplitSeq(h.Get("X-OAuth-Scopes"), ",") {
		if scope = strings.TrimSpace(scope); scope != "" {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}
