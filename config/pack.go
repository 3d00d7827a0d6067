// Package config turns the files of a pack into one typed, checked, immutable Pack, or into a list of everything that is
// wrong with them, each problem with its place and a mend.
//
// It is the one validator for files, start-up and commands, and the one reader of the environment. It must not know how a
// pack is run: no models, no tools at work, no store.
package config

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"switchboard/chat"
	"switchboard/config/expr"
)

// Pack is one bot: everything that its files say, checked. It never changes after Load, and is safe to share.
type Pack struct {
	Name       string
	Digest     string // "sha256:…" over the names and bytes of Files
	Files      []File // what was read, sorted by name, so that a run can be resumed under the version it started with
	Models     []Model
	Router     Router
	Scope      []ScopeVar
	People     []Group
	Limits     Limits
	Links      []string // whole host names that a reply may link to
	Retention  time.Duration
	Example    string // an example server that is compiled in; "" for none
	Slack      Slack
	Reload     Reload
	Playground Playground
	Assistants []*Assistant
	Tools      []*Tool
	Policy     Policy
	Rehearsals []*Rehearsal
	Docs       []Doc

	refs []Ref
}

// File is one file of the pack, by its slash-separated path within it.
type File struct {
	Name string
	Data []byte
}

// Place is where something stands. Line and Col count from 1; Col counts characters.
type Place struct {
	File string
	Line int
	Col  int
}

// String gives file:line:col.
func (p Place) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col) }

// Model is a language model by the name that assistants use.
type Model struct {
	Name     string
	Provider string // openai | anthropic
	ID       string // the provider's name of it, e.g. gpt-4o-mini
	Base     *Ref   // address of a compatible server; nil: the provider's own, or its *_BASE_URL
	Key      *Ref   // nil: the provider's *_API_KEY
	Price    *Price // nil: unpriced; refused where a money limit needs it
	Output   int    // most tokens of one answer
	Heat     *float64
	Place    Place
}

// Price is in picodollars a token: USD per million tokens times 1,000,000.
type Price struct{ Input, Cached, Output int64 }

// Ref is a secret or an address that lives outside the pack.
type Ref struct {
	Env   string // name of a variable, or
	File  string // path of a file
	Place Place
}

// Router says how messages find their assistant.
type Router struct {
	Model     string
	Threshold float64 // below it the router asks instead
}

// ScopeVar is a value that the runtime binds to a request by where it comes from; the model can neither see nor set it.
type ScopeVar struct {
	Name string
	From []string          // channel | person, in the order they are tried; one of them where Call is set
	Map  map[string]string // channel or person id -> value; empty where Call is set
	Call *ScopeCall        // nil: Map has the values
}

// ScopeCall looks a value up for each request: a read of the pack is given the id, and beside it only what it binds.
type ScopeCall struct {
	Tool string // without effect
	Arg  string // its argument that takes the id of the channel or the person

	take *expr.Program
}

// Slack is how the bot behaves there.
type Slack struct {
	Listen   Listen            // in channels that Channels does not name
	Channels map[string]Listen // by channel id
	Prompts  []Prompt          // what a new conversation suggests; at most 4
}

// In gives what the bot listens to in a channel.
func (s Slack) In(channel string) Listen {
	if l, ok := s.Channels[channel]; ok {
		return l
	}
	return s.Listen
}

// Listen says which messages of a channel are for the bot. Direct messages always are.
type Listen string

// The ways to listen.
const (
	Mentions Listen = "mention" // only those that mention it
	Threads  Listen = "thread"  // also all that is said in threads that it takes part in; the default
	All      Listen = "all"     // every message
)

// Prompt is a suggestion to click on.
type Prompt struct{ Title, Message string }

// Reload says what a changed pack must pass before it takes over, beside being valid.
type Reload struct{ Rehearse bool }

// Playground is who is in the simulated workspace.
type Playground struct {
	People   []Resident
	Channels []Room
}

// Resident is a person of the simulated workspace.
type Resident struct {
	ID, Name string
	Kind     chat.Kind
	Groups   []string // ids, S0…
}

// Room is a channel of the simulated workspace.
type Room struct {
	ID, Name   string
	Visibility chat.Visibility
	Members    []string // ids of people; empty: all members
}

// Group is a named set of ids of people (U…) and groups (S…).
type Group struct {
	Name    string
	Members []string
}

// Limits bound a run and a person's spending.
type Limits struct {
	Run       RunLimits
	PersonDay int64 // picodollars a person may cost per day (UTC); 0: no limit
}

// RunLimits bound one run. 0 means the default that Load puts in; Money 0 means no limit.
type RunLimits struct {
	Tokens int
	Money  int64 // picodollars
	Time   time.Duration
	Calls  int
}

// Assistant is a narrow specialist.
type Assistant struct {
	Name         string
	About        string
	Examples     []string
	Model        string
	Rounds       int
	Tools        []string
	Docs         []string // path patterns within docs/; never empty after Load
	OpenTo       []string // everyone | guests | external | names of Groups
	Instructions string
	Limits       RunLimits // the bot's run limits where it sets none
	Place        Place
}

// The names in open_to that are no group of the pack's people.
const (
	Everyone  = "everyone" // every member of the workspace; guests are not
	Guests    = "guests"
	Externals = "external" // people of other organisations, and whoever cannot be told
)

// Effect says what a tool does to the world.
type Effect string

// The effects, mildest first.
const (
	NoEffect     Effect = "none"
	Write        Effect = "write"
	Irreversible Effect = "irreversible"
)

// Changes says whether it is an effect at all.
func (e Effect) Changes() bool { return e == Write || e == Irreversible }

// Tool is a typed contract: what goes in, what comes out, what it changes, and who may bind what.
type Tool struct {
	Name   string
	About  string
	Effect Effect
	HTTP   *HTTP             // nil: built in
	Bind   map[string]string // argument -> scope variable
	// Shown is the JSON Schema that a model sees: the arguments without bound names, with why and expects, strict.
	Shown       json.RawMessage
	Timeout     time.Duration
	Attempts    int     // of one call, where a retry is safe
	Rate        float64 // most calls a second; 0: no limit
	Idempotency *Idempotency
	Repeatable  bool   // an equal effect may run again in one run
	Fresh       bool   // never answered from the record
	FailsText   string // a pattern: text results that mean failure
	Untrusted   bool   // its results carry words of people who are not the team's
	// Targets are the arguments that say whom or what place a call reaches: recipient, channel, address, payee (rule M6).
	Targets []string
	Facts   []Fact  // what the runtime reads for the rules and the card, in order
	Lookup  *Lookup // how an outcome that is not known is found out; nil: a person is asked
	Place   Place

	args          json.RawMessage
	shown, result *expr.Schema // result is nil when the contract does not say
	take          *expr.Program
	failsWhen     *expr.Program
	failsText     *regexp.Regexp
	allowed       []string // names of the arguments that a model may give, without why and expects
}

// Read is a call of a read of the pack that the runtime makes itself, under the scope of the request.
type Read struct {
	Tool string
	args *expr.Template // over args
}

// Args fills in the arguments of the read from those of the call that it is for.
func (r Read) Args(args map[string]any) (map[string]any, error) {
	v, err := r.args.Eval(map[string]any{"args": args})
	if err != nil {
		return nil, err
	}
	obj, _ := v.(map[string]any)
	return obj, nil
}

// Fact is something that the runtime reads before it judges a call. Rules and the card know it by its name; the model does
// not see it.
type Fact struct {
	Name string
	Read
	Place Place
}

// Lookup says how to find out whether an effect took place.
type Lookup struct {
	Read
	Place Place

	that *expr.Program // over result, args, key, since
}

// Found says whether the result of the read shows that the effect took place. key is the idempotency key that went with
// it, since when its first attempt began. An error means that the result does not tell.
func (l Lookup) Found(result any, args map[string]any, key string, since time.Time) (bool, error) {
	return l.that.Holds(map[string]any{"result": result, "args": args, "key": key, "since": since})
}

// HTTP is a request built from parts: no argument can leave its part.
type HTTP struct {
	Method string
	Path   string // {name} is one escaped argument; the rest goes to the query (GET, DELETE) or the JSON body
	Base   Ref
	Bearer *Ref
	Header string // name of a header that carries HeaderRef instead of a bearer token
	Value  *Ref
}

// Idempotency says how a tool's server recognises a repeated request, and how long it keeps what it saw.
type Idempotency struct {
	Header        string
	ProviderKeeps time.Duration
}

// Doc is a document that assistants can search and fetch. Name is its path under docs/ without the extension.
type Doc struct {
	Name  string
	Title string // its first heading, or the name
	Text  string
}

// Verdict is what a rule says.
type Verdict string

// The verdicts, mildest first.
const (
	Allow Verdict = "allow"
	Ask   Verdict = "ask" // a person must approve it first
	Deny  Verdict = "deny"
)

// Policy is a list of rules; the strictest of all that match wins.
type Policy struct {
	Default map[Effect]Verdict
	Rules   []Rule
	Hosts   []string // whole host names that targets and links of calls may name (rule M6)
	Approve Approve  // who decides where no rule names anybody
}

// Rule speaks for some tools, when its condition holds.
type Rule struct {
	Tools   []string      // exact names, or prefixes ending in ".*"
	When    *expr.Program // nil: always
	Verdict Verdict
	Why     *expr.Template // nil only for allow
	Approve *Approve       // of a rule that asks; nil: the policy's
	// Digest names what the rule says, wherever it stands: a decision is bound to the rules that asked for it.
	Digest string
	Place  Place
}

// Approve says who may decide, where and for how long. Nothing in it is nothing said.
type Approve struct {
	By       []string      // names of the pack's people, ids of people and groups, or Requester; empty: Requester
	Within   time.Duration // then it counts as refused; 0: DefaultWithin
	In       string        // channel that gets the card too; "": only the thread
	FourEyes bool          // whoever asked for it may not decide
}

// Requester is, among those who may decide, the person on whose behalf a run works.
const Requester = "requester"

// DefaultWithin is how long a card may be decided where nothing else is said.
const DefaultWithin = 24 * time.Hour

// Rehearsal is a scripted conversation: what is said, what a model answered, what must hold.
type Rehearsal struct {
	Name  string
	As    string             // person id; "" is anybody
	In    string             // channel id; "" is anywhere
	At    time.Time          // zero: now
	Tools map[string]*Canned // what the world answers; a tool that is left out is really asked
	Steps []Step
	Place Place
}

// Canned plays a tool's answers in order; the last one stays.
type Canned struct{ Answers []CannedAnswer }

// CannedAnswer is a result, or a failure by name: timeout | not_found | refused | unavailable | broken.
type CannedAnswer struct {
	Result any
	Fail   string
}

// Step is one line of a script. Exactly one of the fields that say what it is, is set.
type Step struct {
	Say    string         // a person says it
	Route  *RouteAnswer   // the router's model answers
	Calls  []ScriptCall   // the model asks for these tools in one round
	Reply  *expr.Template // the model answers with text
	Raw    *string        // the model's literal text, for the router or for a final answer
	Finish *Finished      // the model stops for a reason of its own
	Fault  string         // the model call fails: rate_limited | overloaded | network | empty | cut_short | timeout | context_too_long | auth | quota | bad_request | declined
	Click  *Click         // a person decides a card
	Expect *Expect
	Place  Place
}

// Click is what a person says to a card of the rehearsal: the oldest open one of that tool.
type Click struct {
	Say   chat.Saying // "" where the time runs out instead
	Tool  string      // of the card; "" for an answer to a question
	As    string      // person id; "" where the time runs out
	Words string      // the reason, or the answer
}

// ByModel says whether the step is an answer of a model, and so counts for the place in the script.
func (s Step) ByModel() bool { return s.Say == "" && s.Expect == nil && s.Click == nil }

// RouteAnswer is what the router's model says.
type RouteAnswer struct {
	Assistant  string
	Confidence float64
	Question   string
}

// ScriptCall is a tool call as a model would write it. Args may hold expressions over the calls before it.
type ScriptCall struct {
	Tool         string
	Args         *expr.Template // an object; nil when RawArgs is set
	RawArgs      *string        // the literal text of the arguments, for broken ones
	Why, Expects string
}

// Finished is a model answer that ends for another reason than being done: text so far, and length or refused.
type Finished struct {
	Reason string
	Text   string
}

// Expect is what must hold after the turn before it. Empty fields are not looked at.
type Expect struct {
	That      *expr.Program // over run, calls, reply
	Outcome   string        // answered | clarify | capped | refused | failed
	Assistant string
	Refused   string   // a tool with a refused call
	Denied    string   // a tool with a denied call
	Waits     string   // a tool with a call that waits for a person
	On        []string // who may decide it, as the rules name them
	Says      []string // each must stand in the reply
}
