// Package chat holds the words that every surface and every package shares: who said what, where.
//
// It has no behaviour and imports nothing of ours. It must not know any surface: no Slack, no terminal.
package chat

import "time"

// Kind says how far a person belongs to the workspace.
type Kind string

// The kinds of people. An unknown kind is treated as External, the one that may do least.
const (
	Member   Kind = "member"
	Guest    Kind = "guest"
	External Kind = "external"
)

// Person is somebody who talks to the bot. ID is the surface's id (U0ANA), never a display name.
type Person struct {
	ID     string   `json:"id"`
	Name   string   `json:"name,omitempty"`
	Kind   Kind     `json:"kind"`
	Groups []string `json:"groups,omitempty"` // ids of the groups the person is in, e.g. S0FIN
}

// Visibility says who can read a channel.
type Visibility string

// The visibilities of a channel. Unknown must be treated like Shared, the one that trusts least.
const (
	Public  Visibility = "public"
	Private Visibility = "private"
	DM      Visibility = "dm"
	Shared  Visibility = "shared" // people of other organisations read along
)

// Channel is where people talk.
type Channel struct {
	ID         string     `json:"id"`
	Visibility Visibility `json:"visibility"`
}

// Thread names one conversation: the root messages of a plain DM are one thread, elsewhere the root message names it.
type Thread struct {
	Team    string `json:"team"`
	Channel string `json:"channel"`
	Root    string `json:"root"`
}

// Message is one thing that a person said to the bot.
type Message struct {
	// Key names the message for ever, whatever ids and retries it comes with: msg:team:channel:ts, or
	// click:card:person:action_ts for a choice that was clicked.
	Key     string  `json:"key"`
	ID      string  `json:"id,omitempty"` // what the surface calls it within its channel: Slack's ts
	Thread  Thread  `json:"thread"`
	Channel Channel `json:"channel"`
	From    Person  `json:"from"`
	Text    string  `json:"text"`
	Files   []File  `json:"files,omitempty"`
	Pick    *Pick   `json:"pick,omitempty"` // a click on one of the bot's buttons says it
	// Unasked: nobody addressed the bot, it reads along. To somebody whom it does not serve it says nothing then.
	Unasked bool      `json:"unasked,omitempty"`
	At      time.Time `json:"at"`
}

// Pick is a choice that was clicked: Card is the turn whose reply offered it, Value the value of its Button.
type Pick struct {
	Card  string `json:"card"`
	Value string `json:"value"`
}

// File is something that came with a message. Text is what it says, as far as the bot can read it and takes it in; Note
// says for people why there is no more of it.
type File struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Type string `json:"type"` // media type, as the surface says it: not to be trusted
	Size int64  `json:"size"`
	URL  string `json:"url,omitempty"`
	Text string `json:"text,omitempty"`
	Note string `json:"note,omitempty"`
}

// Said is something that stands in a thread and was not said to the bot: information, never an order to it. Bot marks the
// bot's own words; what other bots say is like what other people say.
type Said struct {
	ID   string    `json:"id"` // as Message.ID
	By   string    `json:"by"` // a name for people, or the id where there is none
	Bot  bool      `json:"bot,omitempty"`
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

// Stop is somebody's wish that a turn should end: the stop button, or the question was deleted.
type Stop struct {
	Key     string `json:"key"` // stop:team:channel:…, its name for ever
	Thread  Thread `json:"thread"`
	Message string `json:"message,omitempty"` // key of the message whose turn it is about; "": whatever is under way in the thread
	By      Person `json:"by"`
	Deleted bool   `json:"deleted,omitempty"` // the question is gone
	ID      string `json:"id,omitempty"`      // as Message.ID, of what was deleted: it is not to be told to anybody any more
}

// Feedback is what a person thinks of an answer; the latest word of a person on a turn counts.
type Feedback struct {
	Turn   string `json:"turn"`
	Person string `json:"person"`
	Good   bool   `json:"good"`
}

// Button is a choice offered under a reply. Value comes back in the click.
type Button struct {
	Label string `json:"label"`
	Value string `json:"value"`
}

// CardKind says what a person is to decide.
type CardKind string

// The kinds of cards.
const (
	CardApprove CardKind = "approve" // may this call run?
	CardAsk     CardKind = "ask"     // a question of the run, to be answered in words
	CardUnknown CardKind = "unknown" // did this effect take place?
)

// Card is what a surface shows where a person must decide. It is drawn from the bytes that will run, never from a model's
// description of them: a surface shows all of it, what is too long for it as a file beside it. Its texts come from strangers
// and are no Markdown.
type Card struct {
	ID        string    `json:"id"`
	Kind      CardKind  `json:"kind"`
	Turn      string    `json:"turn"`
	Tool      string    `json:"tool,omitempty"`
	Title     string    `json:"title,omitempty"`   // what the tool does, in words
	Asker     Person    `json:"asker"`             // on whose request
	Channel   string    `json:"channel,omitempty"` // where it was asked for
	Assistant string    `json:"assistant,omitempty"`
	Args      []Field   `json:"args,omitempty"`  // all of them; what the runtime binds stands there by its name
	Facts     []Field   `json:"facts,omitempty"` // what the runtime has read for the decision
	Why       string    `json:"why,omitempty"`   // the model's words
	Expects   string    `json:"expects,omitempty"`
	Question  string    `json:"question,omitempty"` // CardAsk: the run's; CardUnknown: what is known
	Rules     []string  `json:"rules,omitempty"`    // why a person must decide, each with its place
	Deciders  []string  `json:"deciders,omitempty"` // who may: ids of people and groups, or words
	Until     time.Time `json:"until,omitzero"`     // then it counts as refused
	Digest    string    `json:"digest,omitempty"`   // of the request that will be sent, sha256 in hex
	Decided   string    `json:"decided,omitempty"`  // how it was decided, in words; then nobody can any more
}

// Field is one named value of a card.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Note  string `json:"note,omitempty"` // what a reader could miss in the value: hidden characters, mixed alphabets
}

// Saying is what a person says to a card.
type Saying string

// What can be said. Each kind of card takes its own.
const (
	Approve  Saying = "approve"
	Deny     Saying = "deny"
	Answer   Saying = "answer" // Words is the answer
	Happened Saying = "happened"
	NotDone  Saying = "not_done"
)

// Decision is what a person says to a card. By must come over a channel that authenticates the person, complete with kind
// and groups; a decision never comes from text.
type Decision struct {
	Key   string    `json:"key"` // click:card:person:action_ts, its name for ever
	Card  string    `json:"card"`
	By    Person    `json:"by"`
	Say   Saying    `json:"say"`
	Words string    `json:"words,omitempty"` // the reason, or the answer
	Local bool      `json:"local,omitempty"` // the operator of this machine: By.ID is local:USER
	At    time.Time `json:"at"`
}

// Ruling answers a decision: to the one who decided, and to no other.
type Ruling struct {
	Taken bool   // it counts
	Words string // what to tell them
	Card  *Card  // as it stands now, to be drawn again; nil where there is none
}

// Reply is what the bot says. Text is plain Markdown, already filtered for the outside.
type Reply struct {
	Text    string   `json:"text"`
	Buttons []Button `json:"buttons,omitempty"`
}
