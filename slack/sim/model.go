package sim

import (
	"encoding/json"
	"strings"
)

// Kind says how a person belongs to the workspace.
type Kind string

// The kinds of people. What users.info says of each is Slack's: https://docs.slack.dev/reference/objects/user-object
const (
	Member      Kind = "member"
	Guest       Kind = "guest"        // is_restricted
	SingleGuest Kind = "single_guest" // is_restricted and is_ultra_restricted
	External    Kind = "external"     // of another team, in a shared channel
	Stranger    Kind = "stranger"     // external, and never seen in a channel with the app: is_stranger
	Bot         Kind = "bot"          // another app's bot that the test speaks for
)

// Person is somebody in the workspace. Each app's bot is one too.
type Person struct {
	ID    string `json:"id"` // "" gets one
	Name  string `json:"name"`
	Kind  Kind   `json:"kind"`           // "" is Member
	Team  string `json:"team,omitempty"` // "": the workspace, or a made-up one for an external person
	Admin bool   `json:"admin,omitempty"`
	App   string `json:"app,omitempty"` // the id of the app whose bot it is
	Bot   string `json:"bot,omitempty"` // of a bot: its B… id
}

// ChannelKind says what sort of conversation a channel is.
type ChannelKind string

// The kinds of channels.
const (
	Public  ChannelKind = "public"
	Private ChannelKind = "private"
	IM      ChannelKind = "im"
	MPIM    ChannelKind = "mpim"
	Shared  ChannelKind = "shared" // public, and shared with another organisation (Slack Connect)
)

// Channel is a conversation. Members are ids of people and of bots' users.
type Channel struct {
	ID       string      `json:"id"` // "" gets one
	Name     string      `json:"name,omitempty"`
	Kind     ChannelKind `json:"kind"` // "" is Public
	Members  []string    `json:"members"`
	Archived bool        `json:"archived,omitempty"`
	App      string      `json:"app,omitempty"` // of the DM with an app: the app's id
}

// Group is a user group.
type Group struct {
	ID      string   `json:"id"` // S…; "" gets one
	Handle  string   `json:"handle"`
	Members []string `json:"members"`
}

// App is an installed app. What is empty is made up by AddApp, but for SigningSecret, EventsURL and AgentView.
type App struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	User string `json:"user"` // its bot's U… id
	Bot  string `json:"bot"`  // its bot's B… id
	// BotToken and AppToken are what it shows to the Web API. An app without an app-level token has no Socket Mode.
	BotToken      string `json:"-"`
	AppToken      string `json:"-"`
	SigningSecret string `json:"-"`
	// EventsURL makes it an app in HTTP mode: everything is posted there, signed.
	EventsURL string `json:"events_url,omitempty"`
	// Scopes are what its bot token may do; nil is DefaultScopes().
	Scopes []string `json:"scopes"`
	// Events are what it subscribed to, with the names of an app manifest (message.im); nil is all there are.
	Events []string `json:"events,omitempty"`
	// AgentView is the manifest's agent_view: agents.sessions.*, and a thread for each message in the DM.
	AgentView bool `json:"agent_view,omitempty"`
	// Shortcuts are those of the manifest that stand in the menu of a message.
	Shortcuts []MessageShortcut `json:"shortcuts,omitempty"`
	// NoHome and NoMessages switch the tabs of its App Home off.
	NoHome     bool `json:"no_home,omitempty"`
	NoMessages bool `json:"no_messages,omitempty"`
}

// MessageShortcut is something that an app offers to do about a message.
type MessageShortcut struct {
	Name     string `json:"name"`
	Callback string `json:"callback"`
}

// DefaultScopes are those of a bot that reads, answers, streams and looks things up.
func DefaultScopes() []string {
	return strings.Fields(`app_mentions:read assistant:write channels:history channels:join channels:read chat:write commands
		files:read files:write groups:history groups:read im:history im:read im:write mpim:history mpim:read reactions:write
		team:read usergroups:read users:read`)
}

// Message is one message as it stands, for readers.
type Message struct {
	Channel     string            `json:"channel"`
	TS          string            `json:"ts"`
	Thread      string            `json:"thread,omitempty"` // ts of the thread's first message; "" outside of threads, and for the first message itself
	User        string            `json:"user"`             // of the person or the bot
	App         string            `json:"app,omitempty"`    // the app that posted it
	Bot         string            `json:"bot,omitempty"`    // B… of the bot that posted it
	Subtype     string            `json:"subtype,omitempty"`
	Text        string            `json:"text"`
	Blocks      []json.RawMessage `json:"blocks,omitempty"`
	Attachments []json.RawMessage `json:"attachments,omitempty"`
	Files       []*File           `json:"files,omitempty"`
	Metadata    *Metadata         `json:"metadata,omitempty"`
	Edited      *Edit             `json:"edited,omitempty"`
	Broadcast   bool              `json:"broadcast,omitempty"` // a reply that is shown in the channel too
	Replies     int               `json:"replies,omitempty"`
	Reactions   []Reaction        `json:"reactions,omitempty"`
	Streaming   bool              `json:"streaming,omitempty"` // the app may still append to it
	To          string            `json:"to,omitempty"`        // ephemeral: the only person who sees it
	Unfurl      Unfurl            `json:"unfurl"`              // what the app said about previews of links
	Deleted     bool              `json:"deleted,omitempty"`   // only in the log
	Plan        string            `json:"plan,omitempty"`      // the title of a stream's plan
	clientID    string
}

// Metadata is what an app keeps with a message. Slack: https://docs.slack.dev/messaging/message-metadata
type Metadata struct {
	Type    string          `json:"event_type"`
	Payload json.RawMessage `json:"event_payload"`
}

// Edit says who changed a message last, and when.
type Edit struct {
	User string `json:"user"`
	TS   string `json:"ts"`
}

// Reaction is an emoji under a message.
type Reaction struct {
	Name  string   `json:"name"`
	Users []string `json:"users"`
}

// Unfurl are an app's wishes about previews; nil is not said, which means yes for links.
// Slack: https://docs.slack.dev/messaging/unfurling-links-in-messages
type Unfurl struct {
	Links    *bool `json:"links,omitempty"`
	Media    *bool `json:"media,omitempty"`
	AppLinks *bool `json:"app_links,omitempty"`
}

// File is an uploaded file.
type File struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"` // "": as Name
	Type    string `json:"type"`            // media type
	Size    int64  `json:"size"`
	User    string `json:"user"`
	URL     string `json:"url"`
	Content []byte `json:"-"`
	// Elsewhere is where a download is sent to instead, for tests of what a client does with a foreign host.
	Elsewhere string `json:"-"`
}

// View is a modal, or the Home tab of an app for a person.
type View struct {
	ID       string                     `json:"id"`
	Kind     string                     `json:"kind"` // modal | home
	App      string                     `json:"app"`
	Person   string                     `json:"person"`
	Hash     string                     `json:"hash"`
	External string                     `json:"external,omitempty"`
	Callback string                     `json:"callback,omitempty"`
	Body     json.RawMessage            `json:"body"`            // as the app sent it
	State    map[string]json.RawMessage `json:"state,omitempty"` // block id -> action id -> value
	Errors   map[string]string          `json:"errors,omitempty"`
}

// Session is the state of a thread with an agent. Slack: https://docs.slack.dev/reference/methods/agents.sessions.setStatus
type Session struct {
	App     string   `json:"app"`
	Channel string   `json:"channel"`
	Thread  string   `json:"thread"`
	State   string   `json:"state"` // active | processing | suspended | closed
	Title   string   `json:"title,omitempty"`
	Words   string   `json:"words,omitempty"` // what the app says it is doing; "" when nothing is shown
	Loading []string `json:"loading,omitempty"`
	CanStop bool     `json:"can_stop,omitempty"` // people are shown the stop button
}

// Prompts are suggestions on top of a conversation with an app.
type Prompts struct {
	Title   string   `json:"title,omitempty"`
	Prompts []Prompt `json:"prompts"`
}

// Prompt is one of them.
type Prompt struct {
	Title   string `json:"title"`
	Message string `json:"message"`
}

// Suggestion is something to try, which the page shows to people who have just come.
type Suggestion struct {
	Channel string `json:"channel"` // id
	Text    string `json:"text"`
	Why     string `json:"why,omitempty"`
}

// Visible is all that people can read in the message: the texts of its blocks, or else its text; then its attachments.
func (m Message) Visible() string {
	var out []string
	for _, b := range m.Blocks {
		out = append(out, words(b)...)
	}
	if len(out) == 0 && m.Text != "" {
		out = append(out, m.Text)
	}
	for _, a := range m.Attachments {
		out = append(out, words(a)...)
	}
	return strings.Join(out, "\n")
}

// words gathers what a block shows, in the order of its fields.
func words(raw json.RawMessage) []string {
	var b map[string]any
	if json.Unmarshal(raw, &b) != nil {
		return nil
	}
	return blockWords(b)
}

func blockWords(b map[string]any) []string {
	switch kind, _ := b["type"].(string); kind {
	case "rich_text":
		return richWords(b)
	case "divider":
		return nil
	case "table":
		return tableWords(b)
	}
	var out []string
	for _, key := range []string{"title", "text", "fields", "caption", "pretext", "label", "details", "output", "tasks", "elements", "accessory", "alt_text", "blocks", "fallback", "positive_button", "negative_button"} {
		out = append(out, valueWords(b[key])...)
	}
	return out
}

func valueWords(v any) []string {
	switch v := v.(type) {
	case string:
		if v != "" {
			return []string{v}
		}
	case []any:
		var out []string
		for _, e := range v {
			out = append(out, valueWords(e)...)
		}
		return out
	case map[string]any:
		return blockWords(v)
	}
	return nil
}

// tableWords gives a line per row.
func tableWords(b map[string]any) []string {
	rows, _ := b["rows"].([]any)
	var out []string
	for _, r := range rows {
		cells, _ := r.([]any)
		var line []string
		for _, c := range cells {
			line = append(line, strings.Join(valueWords(c), " "))
		}
		out = append(out, strings.Join(line, " | "))
	}
	return out
}
