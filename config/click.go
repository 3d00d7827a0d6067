package config

import (
	"fmt"
	"slices"
	"strings"

	"switchboard/chat"

	"go.yaml.in/yaml/v3"
)

// sayings are the keys of a click that say what is decided; one of them must be there.
func sayings() []string {
	return []string{"approve", "deny", "answer", "expire", "happened", "not_done"}
}

func (l *loader) clickTable(c *Click) *table {
	about := func(say chat.Saying) value {
		return used(l.toolName(&c.Tool), func(*source, *yaml.Node) { c.Say = say })
	}
	answer := used(text(&c.Words, 2_000), func(*source, *yaml.Node) { c.Say = chat.Answer })
	return &table{
		what:  "click",
		about: "What a person says to a card. Exactly one of " + strings.Join(sayings(), ", ") + "; each is said to the oldest open card of its tool.",
		keys: []key{
			{"approve", about(chat.Approve), "", "The call of this tool may run.", "payments.refund"},
			{"deny", about(chat.Deny), "", "It may not.", "payments.refund"},
			{"answer", answer, "", "Answer to the question that ask.person put.", "Yes, both of them."},
			{"expire", about(""), "", "Nobody decides, and the time runs out.", "payments.refund"},
			{"happened", about(chat.Happened), "", "An effect whose outcome was not known took place.", "payments.refund"},
			{"not_done", about(chat.NotDone), "", "It did not take place.", "payments.refund"},
			{"as", l.resident(&c.As), "required, except with expire", "Person who decides.", "U0BOB"},
			{"reason", text(&c.Words, 500), "none", "Why; only with deny.", "This order was refunded by hand."},
		},
	}
}

// oneClick checks that a click says one thing, and who says it.
func oneClick(d *source, n *yaml.Node, g got) bool {
	var said []string
	for _, s := range sayings() {
		if g.has(s) {
			said = append(said, s)
		}
	}
	switch {
	case len(said) == 0:
		return d.bad(n, "the click says nothing", "add one of "+strings.Join(sayings(), ", "))
	case len(said) > 1:
		return d.bad(n, "a click says one thing", "write one click an item: "+strings.Join(said, ", then "))
	case g.has("reason") && said[0] != "deny":
		return d.bad(g.nodes["reason"], "only a denial has a reason", "leave it out")
	case said[0] == "expire" && g.has("as"):
		return d.bad(g.nodes["as"], "nobody lets the time run out", "leave it out")
	case said[0] != "expire" && !g.has("as"):
		return d.bad(n, fmt.Sprintf("as is missing in a click that says %s", said[0]), "add as: and the id of a person")
	}
	return true
}

// clicksOf lists the people who click in a rehearsal.
func clicksOf(r *Rehearsal) []string {
	var out []string
	for _, s := range r.Steps {
		if s.Click != nil && !slices.Contains(out, s.Click.As) {
			out = append(out, s.Click.As)
		}
	}
	return out
}
