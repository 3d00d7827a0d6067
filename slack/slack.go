// Package slack is Slack as a surface: events become messages, replies become posts, edits and streams, clicks become
// decisions. It is the only importer of slack-go.
//
// It must not know how a message is answered: no router, no assistants, no loop, no tools, no store. What it needs of the
// bot are the interfaces Bot, Judge and Desk.
package slack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	slackgo "github.com/slack-go/slack"

	"switchboard/chat"
	"switchboard/config"
)

// Bot is what stands behind the surface.
type Bot interface {
	// Accept stores a message; only then is its event acknowledged (rule D1). fresh is false for one that was stored before.
	Accept(ctx context.Context, m chat.Message) (turn string, fresh bool, err error)
	// Knows says whether the bot takes part in a thread.
	Knows(ctx context.Context, t chat.Thread) (bool, error)
	// Hear keeps what was said in a thread that the bot takes part in, but not to the bot.
	Hear(ctx context.Context, t chat.Thread, s chat.Said) error
	// Halt stores the wish that a turn should end.
	Halt(ctx context.Context, s chat.Stop) error
	// Rate keeps what a person thinks of an answer.
	Rate(ctx context.Context, f chat.Feedback) error
}

// Judge takes what people say to cards.
type Judge interface {
	// Decide stores a decision, and says what to tell the one who made it, whether it counts or not. The same Key is the same
	// decision. An error says that it is not known to be stored; then whoever clicked is asked to click again.
	Decide(ctx context.Context, d chat.Decision) (chat.Ruling, error)
}

// Desk tells people about the bot.
type Desk interface {
	// Trace draws how an answer came about, for the person who asks for it; ok is false where there is none for them.
	Trace(ctx context.Context, turn string, by chat.Person) (text string, ok bool, err error)
	// Home is what a person finds in the bot's App Home.
	Home(ctx context.Context, by chat.Person) (Home, error)
}

// Home is what the bot can do for a person, and for its admins what it runs on.
type Home struct {
	Bot        string
	Assistants []Helper
	Admin      *Versions // nil for everybody else
}

// Helper is an assistant that a person may use.
type Helper struct {
	Name, About string
	Examples    []string
}

// Versions is the active version of the pack, and the last one that was refused.
type Versions struct {
	Active   string // its digest, short
	Since    time.Time
	Rejected *Rejected // nil: none was, since the active one began
}

// Rejected is a version of the pack that was not taken, and why.
type Rejected struct {
	At     time.Time
	Errors []string // each with file, line and column
}

// Options say which Slack, as whom, and for which bot.
type Options struct {
	BotToken      string // xoxb-…
	AppToken      string // xapp-…: Socket Mode
	SigningSecret string // HTTP mode, where there is no AppToken
	APIURL        string // of another Slack, ending in /api/; "" is Slack's own
	// Settings are the pack's words on Slack. They are asked for again for every event, since a pack may change.
	Settings func() config.Slack
	Bot      Bot
	Judge    Judge
	Desk     Desk
	Client   *http.Client // nil for a client of its own, with time limits
	Now      func() time.Time
	Wait     func(ctx context.Context, d time.Duration) error
	Log      zerolog.Logger
}

// Slack is the surface at work. It implements turn.Surface. New makes one, Start lets it in, Stop ends it.
type Slack struct {
	o      Options
	api    *slackgo.Client
	client *http.Client
	me     identity // written once by Start, before anything comes in
	health health
	intake intake
	know   knowledge
	pdfs   pdfs
	out    outbound
}

// identity is whom the token speaks as.
type identity struct {
	Team, User, Bot, App string // ids
	Name                 string // of the bot's user, for people
	URL                  string // of the workspace
	Scopes               []string
	Agent                bool // the app has the agent view: each message in its direct messages roots a thread
}

// urgency orders calls that wait for Slack's limits: what is said comes before what is merely shown.
type urgency int

const (
	saying  urgency = iota // replies, acknowledgements of clicks
	looking                // look-ups
	showing                // status, drafts; dropped rather than queued for long
)

// The action ids of the bot's own elements. A button's value is the turn's id, and for a pick a line break and the choice.
const (
	actionPick     = "switchboard.pick"
	actionFeedback = "switchboard.feedback" // value: turn id, line break, good or bad
	actionTrace    = "switchboard.trace"
	actionCard     = "switchboard.card" // a dot and what is said (chat.Saying) follow; value: the card's id
	// cardType marks a card. Payload: {"key": Post.Key, "card": its id, "also": [{"channel", "root", "ts"} of its other places]}.
	cardType     = "switchboard_card"
	metadataType = "switchboard_reply" // payload: {"key": Post.Key, "part": 0.., "parts": n}, of a piece of a part also {"piece": 0.., "more": bool}
)

// ErrUnusable says that Slack has refused what the surface needs to work at all, for good: trying again is no use before
// somebody has changed something. Its text says what.
var ErrUnusable = errors.New("slack does not let the bot work")

// New makes a surface that is not yet connected. It fails on options that cannot work, and says which to give.
func New(o Options) (*Slack, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Slack{o: o, client: o.Client}
	if s.client == nil {
		s.client = newClient()
	}
	options := []slackgo.Option{slackgo.OptionHTTPClient(s.client), slackgo.OptionAppLevelToken(o.AppToken)}
	if o.APIURL != "" {
		options = append(options, slackgo.OptionAPIURL(o.APIURL))
	}
	s.api = slackgo.New(o.BotToken, options...)
	s.health.begin()
	s.know.begin(o.Now)
	s.pdfs.begin()
	s.intake.begin()
	s.out.begin()
	return s, nil
}

// check says what is missing or of the wrong form, all at once. Slack's forms of tokens:
// https://docs.slack.dev/authentication/tokens
func (o *Options) check() error {
	var wrong []error
	if !strings.HasPrefix(o.BotToken, "xoxb-") && !strings.HasPrefix(o.BotToken, "xoxe.xoxb-") {
		wrong = append(wrong, errors.New("the bot token must begin with xoxb-: copy the Bot User OAuth Token of the app's page OAuth & Permissions"))
	}
	switch {
	case o.AppToken == "" && o.SigningSecret == "":
		wrong = append(wrong, errors.New("there is neither an app token (xapp-…, for Socket Mode) nor a signing secret (for HTTP): give one of them, both stand on the app's page Basic Information"))
	case o.AppToken != "" && !strings.HasPrefix(o.AppToken, "xapp-"):
		wrong = append(wrong, errors.New("the app token must begin with xapp-: make one with the scope connections:write on the app's page Basic Information"))
	case o.AppToken == "" && len(o.SigningSecret) < 16:
		wrong = append(wrong, errors.New("the signing secret is too short to be one: copy it from the app's page Basic Information"))
	}
	if u, err := url.Parse(o.APIURL); o.APIURL != "" && (err != nil || u.Host == "" || !strings.HasSuffix(o.APIURL, "/")) {
		wrong = append(wrong, fmt.Errorf("the API address %q must be a whole URL that ends in a slash, such as https://slack.com/api/", o.APIURL))
	}
	if o.Settings == nil || o.Bot == nil || o.Judge == nil || o.Desk == nil || o.Now == nil || o.Wait == nil {
		wrong = append(wrong, errors.New("settings, bot, judge, desk, now and wait must all be given"))
	}
	return errors.Join(wrong...)
}

// newClient gives a client whose every step has a time limit; the library's own has none.
func newClient() *http.Client {
	dial := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Client{
		Timeout: 30 * time.Second, // a call's own limit is shorter; this one is for what has none
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           dial.DialContext,
			TLSHandshakeTimeout:   5 * time.Second,
			ResponseHeaderTimeout: 20 * time.Second,
			IdleConnTimeout:       90 * time.Second,
			MaxIdleConnsPerHost:   16,
			ForceAttemptHTTP2:     true,
		},
	}
}

// Start finds out who the bot is, and then lets events in. What it starts lives until Stop; ctx bounds only the beginning.
// An error that is an ErrUnusable needs a change by an admin.
func (s *Slack) Start(ctx context.Context) error {
	if s.health.begun() {
		return errors.New("start slack: it was started before; make another one with New")
	}
	me, err := s.identify(ctx)
	if err != nil {
		return explain(fmt.Errorf("ask Slack who the bot is: %w", err))
	}
	s.me = me
	if missing := missingScopes(me.Scopes); len(missing) > 0 {
		s.o.Log.Warn().Strs("scopes", missing).Msg("the bot token lacks scopes; bot slack check says what each is for")
	}
	s.o.Log.Info().Str("team", me.Team).Str("bot", me.User).Bool("agent", me.Agent).Msg("slack knows the bot")
	s.intake.open(s) //nolint:contextcheck // what is begun here lives until Stop, not until ctx ends
	s.health.start(s.o.AppToken == "")
	if s.o.AppToken != "" {
		s.intake.keep(s) //nolint:contextcheck // as above
	}
	return nil
}

// Stop lets nothing more in, stores and acknowledges what has come in, ends what is being shown, and waits for all of it,
// at most until ctx ends; then it breaks off. It may be called without Start, and twice.
func (s *Slack) Stop(ctx context.Context) error {
	s.health.stop()
	err := errors.Join(s.intake.close(ctx), s.out.close(ctx))
	s.client.CloseIdleConnections()
	if err != nil {
		return fmt.Errorf("stop slack: %w", err)
	}
	return nil
}

// appForm finds the app's id in an app token; auth.test does not tell it.
var appForm = regexp.MustCompile(`^xapp-\d+-(A[A-Z0-9]+)-`)

// identify asks whom the bot token speaks as. Slack: https://docs.slack.dev/reference/methods/auth.test
func (s *Slack) identify(ctx context.Context) (identity, error) {
	var r *slackgo.AuthTestResponse
	err := s.call(ctx, looking, "auth.test", "", func(ctx context.Context) (err error) {
		r, err = s.api.AuthTestContext(ctx)
		return err
	})
	if err != nil {
		return identity{}, err
	}
	me := identity{Team: r.TeamID, User: r.UserID, Bot: r.BotID, Name: r.User, URL: r.URL, Scopes: scopesOf(r.Header)}
	if form := appForm.FindStringSubmatch(s.o.AppToken); form != nil {
		me.App = form[1]
	}
	me.Agent = slices.Contains(me.Scopes, "assistant:write") // Slack adds it to an app that has the agent view
	if me.Bot == "" {
		return identity{}, errors.New("the token is not a bot's: use the Bot User OAuth Token, which begins with xoxb-")
	}
	return me, nil
}
