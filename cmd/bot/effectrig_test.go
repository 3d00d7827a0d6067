package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"switchboard/config"
	"switchboard/examples/backoffice"
	"switchboard/slack/sim"
	"switchboard/store"
)

// seamedVar makes the test binary be a bot whose store tells the test, at the address that it holds, what passes.
const seamedVar = "SWITCHBOARD_TEST_SEAMED"

// seamed is bot serve with something between the bot and its store.
func seamed(at string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := serveSeamed(ctx, at); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serveSeamed(ctx context.Context, at string) (err error) {
	env := config.OS()
	settings, err := config.ReadSettings(env)
	if err != nil {
		return err
	}
	connect, err := slackOptions(settings)
	if err != nil {
		return err
	}
	log := logger(os.Stderr, env, settings, zerolog.InfoLevel, false)
	st, err := newStation(ctx, stationOptions{
		app: AppOptions{
			Path: os.Args[2], Env: env, Mode: live, Log: log,
			Around: func(s store.Store) store.Store { return &seam{s, at} },
		},
		slack: connect,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.stop(ctx)) }()
	if err := st.start(ctx, settings.Addr); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	log.Info().Str("addr", st.addr).Msg("serving")
	return st.wait(ctx)
}

// seam is a store that tells of every step before it is taken and after.
type seam struct {
	store.Store
	at string
}

// pass tells where the bot is, and returns once it may go on. Where it is to die, it does not return.
func (s *seam) pass(name string) {
	resp, err := http.Post(s.at+"&"+url.Values{"name": {name}}.Encode(), "", nil) //nolint:noctx // the test's own address; it is a debugger's stop, which no context ends
	if err != nil {
		return // the test is over
	}
	_ = resp.Body.Close()
}

func (s *seam) Push(ctx context.Context, it store.Item) (bool, error) {
	s.pass("push.before")
	fresh, err := s.Store.Push(ctx, it)
	s.pass("push.after")
	return fresh, err
}

func (s *seam) Claim(ctx context.Context, ttl time.Duration) (store.Lease, error) {
	l, err := s.Store.Claim(ctx, ttl)
	if err == nil {
		s.pass("claim.after")
	}
	return l, err
}

func (s *seam) Release(ctx context.Context, l store.Lease) error {
	s.pass("release.before")
	err := s.Store.Release(ctx, l)
	s.pass("release.after")
	return err
}

func (s *seam) Commit(ctx context.Context, b store.Batch) error {
	name := batchName(b)
	if name == "" { // of no turn: whether the store works, for the bot's health
		return s.Store.Commit(ctx, b)
	}
	name = "commit(" + name + ")"
	s.pass(name + ".before")
	err := s.Store.Commit(ctx, b)
	s.pass(name + ".after")
	return err
}

// batchName names a batch by what it says.
func batchName(b store.Batch) string {
	var parts []string
	kindOf := func(key string) string {
		kind, _, _ := strings.Cut(key, "/")
		if strings.HasPrefix(kind, "t_") {
			return "turn"
		}
		return kind
	}
	add := func(part string) {
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	for _, e := range b.Events {
		add(e.Kind)
	}
	for _, p := range b.Puts {
		if kind := kindOf(p.Key); kind == "approval" || kind == "waiting" {
			add(kind)
		}
	}
	if len(parts) == 0 {
		for _, p := range b.Puts {
			add(kindOf(p.Key))
		}
		for _, c := range b.Contents {
			add("words of " + kindOf(c.Key))
		}
	}
	if len(b.Push) > 0 {
		add("push")
	}
	if len(b.Ack) > 0 {
		add("ack")
	}
	return strings.Join(parts, ",")
}

// passage is where the bots of a world tell what they are about to do and have done, and where one of them can be made to die.
type passage struct {
	mu     sync.Mutex
	names  []string         // in order
	counts map[string]int   // how often each was passed
	deadly string           // name#n
	died   chan struct{}    // closed when it was passed
	strike func(bot string) // what happens there to the bot of that number; "" is the only one
}

// begin forgets what has passed. deadly, name#n, is where the bot is to die; "" is nowhere.
func (p *passage) begin(deadly string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names, p.counts, p.deadly, p.died = nil, map[string]int{}, deadly, make(chan struct{})
}

// pass takes a name in; true says that the bot was struck there.
func (p *passage) pass(bot, name string) bool {
	p.mu.Lock()
	p.counts[name]++
	name = fmt.Sprintf("%s#%d", name, p.counts[name])
	p.names = append(p.names, name)
	die := name == p.deadly
	if die {
		p.deadly = ""
	}
	died := p.died
	p.mu.Unlock()
	if die {
		p.strike(bot)
		close(died)
	}
	return die
}

// passed gives the names so far.
func (p *passage) passed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.names)
}

// door lets requests through, and tells of each before it has any effect and before its answer goes out. name gives ""
// for what is of no interest.
func (p *passage) door(name func(r *http.Request, body []byte) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		n := name(r, body)
		if n == "" {
			next.ServeHTTP(w, r)
			return
		}
		if p.pass("", n+".before") {
			panic(http.ErrAbortHandler)
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		if p.pass("", n+".after") {
			panic(http.ErrAbortHandler)
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()) // who asked may have gone
	})
}

// slackCall names a call of Slack's API that changes something, and gives "" for those that only ask.
func slackCall(r *http.Request, body []byte) string {
	method := strings.TrimPrefix(r.URL.Path, "/api/")
	if method == r.URL.Path {
		return ""
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return ""
	}
	what := "(draft)"
	switch about := form.Get("metadata"); {
	case strings.Contains(about, "switchboard_card") && form.Get("channel") == "C0FINANCE":
		what = "(card in finance)"
	case strings.Contains(about, "switchboard_card"):
		what = "(card)"
	case strings.Contains(about, "switchboard_reply"):
		return "slack says the reply" // it may be a message of its own, or the draft becomes it
	}
	switch method {
	case "chat.postMessage", "chat.update":
		return "slack " + method + what
	case "chat.delete", "chat.postEphemeral":
		return "slack " + method
	}
	return ""
}

// toolCall names a request to the back office.
func toolCall(r *http.Request, _ []byte) string {
	path := regexp.MustCompile(`A-\d+`).ReplaceAllString(r.URL.Path, "{order}")
	return "tool " + r.Method + " " + path
}

// modelCall names a request to the model by what it is to say.
func modelCall(_ *http.Request, body []byte) string {
	var req standInRequest
	if json.Unmarshal(body, &req) != nil {
		return ""
	}
	_, calls, _ := clerkSays(req)
	if len(calls) > 0 {
		return "model asks for " + calls[0].name
	}
	if isRouting(req) {
		return "model routes"
	}
	return "model replies"
}

// effectWorld is all that outlives a bot: Slack, the shop and its payment provider, the model, the store. Bots come and go.
type effectWorld struct {
	t        *testing.T
	o        effectOptions
	dir      string
	name     string // of the bot
	ws       *sim.Workspace
	office   *backoffice.Server
	points   passage
	letters  letters
	env      []string
	passages string   // where bots tell what passes; "" where they do not
	people   []string // in every channel, with the bot
	orders   int

	mu   sync.Mutex
	bots []*effectBot
}

// effectOptions say what a world is like.
type effectOptions struct {
	store   string            // BOT_STORE; "": a SQLite file of its own
	people  int               // more of them, who may all ask for refunds
	files   map[string]string // more of the pack, or other
	ack     time.Duration     // how long Slack waits
	plain   bool              // bots as they are, which do not tell of their store
	latency time.Duration     // of the model
}

// effectPack is a pack with one assistant that pays back. Above 50 finance has to approve. payments.payout is the same as
// payments.refund, but for a provider that knows no keys and cannot be asked.
func effectPack() map[string]string {
	return map[string]string{
		"bot.yaml": `pack: 1
name: NAME
models: {fast: {use: openai/bench}}
router: {model: fast}
scope: {shop: {from: [person], map: {U0SUE: shop_eu, U0BOB: shop_eu}}}
people: {finance: [U0BOB, S0FIN]}
`,
		"assistants/refunds.yaml": `about: Refunds of single orders.
examples: [refund order A-1001]
model: fast
rounds: 6
limits: {time: 5m}
tools: [orders.get, payments.refund, payments.payout, customers.notify, letters.send]
open_to: [everyone]
instructions: Read the order, then pay back what the clerk names, then tell the customer.
`,
		"tools/shop.yaml": `server: {base: {env: BACKOFFICE_URL}, auth: {bearer: {env: BACKOFFICE_TOKEN}}}
defaults: {bind: {shop: scope.shop}, timeout: 5s, retry: {attempts: 3}}
tools:
  - name: orders.get
    about: Read one order of the shop.
    effect: none
    get: /orders/{order}
    args: {order: {type: string, pattern: "^A-[0-9]{4,6}$"}}
    take: '{"order": body.order, "paid": body.paid, "refunded": body.refunded}'
    fresh: true
    result: {order: {type: string}, paid: {type: integer}, refunded: {type: integer}}
  - name: payments.refund
    about: Pay back a part of what was paid for one order, in cents.
    effect: irreversible
    post: /refunds
    args:
      order: {type: string, pattern: "^A-[0-9]{4,6}$"}
      amount: {type: integer, minimum: 1}
    result: {id: {type: string}, order: {type: string}, amount: {type: integer}, status: {type: string}}
    facts: {order: {call: orders.get, args: {order: "${ args.order }"}}}
    idempotency: {header: Idempotency-Key, provider_keeps: 24h}
    lookup: {call: payments.refunds, args: {order: "${ args.order }"}, that: "result.rows.exists(r, r.amount == args.amount && r.key == key)"}
  - name: payments.refunds
    about: List what was paid back of one order.
    effect: none
    get: /refunds
    args: {order: {type: string, pattern: "^A-[0-9]{4,6}$"}}
    fresh: true
    result: {rows: {type: array, items: {type: object, properties: {id: {type: string}, order: {type: string}, amount: {type: integer}, status: {type: string}, key: {type: string}, at: {type: string}}}}}
  - name: customers.notify
    about: Write to the customer of an order.
    effect: irreversible
    post: /orders/{order}/notify
    args:
      order: {type: string, pattern: "^A-[0-9]{4,6}$"}
      text: {type: string, minLength: 1, maxLength: 600}
    take: '{"id": body.id}'
    result: {id: {type: string}}
    idempotency: {header: Idempotency-Key, provider_keeps: 24h}
`,
		"tools/keyless.yaml": `server: {base: {env: KEYLESS_URL}, auth: {bearer: {env: BACKOFFICE_TOKEN}}}
defaults: {timeout: 5s}
tools:
  - name: payments.payout
    about: Pay out a part of what was paid for one order, in cents.
    effect: irreversible
    post: /payouts
    args:
      order: {type: string, pattern: "^A-[0-9]{4,6}$"}
      amount: {type: integer, minimum: 1}
    bind: {shop: scope.shop}
    result: {id: {type: string}, order: {type: string}, amount: {type: integer}, status: {type: string}}
  - name: letters.send
    about: Send a letter.
    effect: irreversible
    post: /letters
    args: {order: {type: string}, text: {type: string, minLength: 1, maxLength: 40000}}
    result: {id: {type: string}}
`,
		"policy.yaml": `default: {none: allow, write: deny, irreversible: ask}
approve: {by: [finance], within: 4h, four_eyes: true}
rules:
  - tools: [payments.refund, payments.payout]
    when: args.amount > 5000
    verdict: ask
    why: More than 50.00 at once.
    approve: {by: [finance], within: 4h, in: C0FINANCE, four_eyes: true}
  - {tools: [payments.refund, payments.payout, customers.notify], verdict: allow}
`,
	}
}

// newEffectWorld builds the world. No bot runs yet.
func newEffectWorld(t *testing.T, o effectOptions) *effectWorld {
	t.Helper()
	w := &effectWorld{t: t, o: o, dir: t.TempDir(), name: "shop-" + strings.ToLower(rand.Text()[:8]), orders: 5000}
	w.points.begin("")
	files := effectPack()
	maps.Copy(files, o.files)
	for name, text := range files {
		w.write(name, strings.ReplaceAll(text, "NAME", w.name))
	}
	w.ws = sim.New(sim.Options{Team: "T0SHOP", Times: sim.Times{
		Ack: o.ack, Retry: []time.Duration{0, 200 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second},
	}})
	w.ws.SetOrder(sim.MentionFirst)
	w.ws.AddApp(sim.App{ID: "A0BOT", Name: "shop", User: botUser, Bot: "B0BOT", BotToken: rigBotToken, AppToken: rigAppToken})
	w.people = []string{botUser, "U0SUE", "U0BOB", "U0FAY", "U0GIL", "U0STR"}
	for _, p := range []sim.Person{
		{ID: "U0SUE", Name: "Sue"}, {ID: "U0BOB", Name: "Bob"}, {ID: "U0FAY", Name: "Fay"}, {ID: "U0GIL", Name: "Gil", Kind: sim.Guest}, {ID: "U0STR", Name: "Str"},
	} {
		w.ws.AddPerson(p)
	}
	for i := range o.people {
		w.people = append(w.people, w.ws.AddPerson(sim.Person{ID: personOf(i), Name: fmt.Sprintf("person-%d", i)}).ID)
	}
	w.ws.AddGroup(sim.Group{ID: "S0FIN", Handle: "fin", Members: []string{"U0FAY"}})
	w.ws.AddChannel(sim.Channel{ID: "C0FINANCE", Name: "finance", Kind: sim.Private, Members: []string{botUser, "U0BOB", "U0FAY"}})
	var err error
	if w.office, err = backoffice.Start(t.Context(), backoffice.Options{}); err != nil {
		t.Fatal(err)
	}
	office := w.office.Env()
	at := office["BACKOFFICE_URL"]
	passages := w.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if w.points.pass(r.FormValue("bot"), r.FormValue("name")) {
			panic(http.ErrAbortHandler)
		}
		rw.WriteHeader(http.StatusOK)
	}))
	slackURL := w.serve(w.points.door(slackCall, w.ws.Handler()))
	w.ws.SetURL(slackURL)
	if w.o.store == "" {
		w.o.store = "sqlite:" + filepath.Join(w.dir, "bot.db")
	}
	w.env = []string{
		"BOT_STORE=" + w.o.store, "BOT_ADDR=127.0.0.1:0", "BOT_LOG=info", "TMPDIR=" + w.dir,
		"SLACK_BOT_TOKEN=" + rigBotToken, "SLACK_APP_TOKEN=" + rigAppToken, "SLACK_API_URL=" + slackURL + "/api/",
		"OPENAI_API_KEY=bench", "OPENAI_BASE_URL=" + w.serve(w.points.door(modelCall, clerk{w.o.latency})) + "/v1",
		"BACKOFFICE_URL=" + w.serve(w.points.door(toolCall, passOn(t, at))), "BACKOFFICE_TOKEN=" + office["BACKOFFICE_TOKEN"],
		"KEYLESS_URL=" + w.serve(w.points.door(toolCall, w.letters.or(keyless(passOn(t, at))))),
	}
	if o.plain {
		passages = ""
	}
	w.passages = passages
	w.points.strike = func(bot string) { w.bot(bot).kill() }
	t.Cleanup(func() {
		for _, b := range w.bots {
			b.end()
		}
		w.ws.Close()
		if err := w.office.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// write puts a file into the pack.
func (w *effectWorld) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, "pack", filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// serve serves on a free port until the end of the test.
func (w *effectWorld) serve(h http.Handler) string {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = nil
	s.Start()
	w.t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// passOn lets requests through to a server, byte for byte; where it gives no answer, none is given.
func passOn(t *testing.T, to string) http.Handler {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(u) },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
}

// keyless makes every request a new one for a provider that knows keys: it has none to go by.
func keyless(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/refunds"
		r.Header.Set("Idempotency-Key", rand.Text())
		next.ServeHTTP(w, r)
	})
}

// letters takes in letters, as they came.
type letters struct {
	mu   sync.Mutex
	sent []letter
}

type letter struct{ method, uri, body string }

func (l *letters) or(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/letters" {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.sent = append(l.sent, letter{r.Method, r.RequestURI, string(body)})
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"l_%d"}`, len(l.sent))
	})
}
