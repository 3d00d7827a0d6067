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
	// Key names the message for ever, whatever ids and retries it comes with: msg:team:channel:ts.
	Key     string    `json:"key"`
	Thread  Thread    `json:"thread"`
	Channel Channel   `json:"channel"`
	From    Person    `json:"from"`
	Text    string    `json:"text"`
	At      time.Time `json:"at"`
}

// Button is a choice offered under a reply. Value comes back in the click.
type Button struct {
	Label string `json:"label"`
	Value string `json:"value"`
}

// Reply is what the bot says. Text is plain Markdown, already filtered for the outside.
type Reply struct {
	Text    string   `json:"text"`
	Buttons []Button `json:"buttons,omitempty"`
}
