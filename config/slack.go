package config

import "go.yaml.in/yaml/v3"

// The bounds of suggestions. Slack takes four of them at most
// (https://docs.slack.dev/reference/methods/assistant.threads.setSuggestedPrompts); a title is the label of a button, which
// holds 75 characters (https://docs.slack.dev/reference/block-kit/block-elements/button-element).
const (
	mostPrompts = 4
	mostTitle   = 75
	mostPrompt  = 2_000
)

func slackTable(s *Slack) *table {
	return &table{
		what:  "slack",
		about: "How the bot behaves in Slack, and in the simulated workspace.",
		keys: []key{
			{"listen", choice(&s.Listen, listens(), nil), "thread", "Which messages of a channel are for the bot: mention is those that mention it, thread also all that is said in threads that it takes part in, all is every message. Direct messages always are.", "thread"},
			{"channels", s.listening(), "as listen", "Channels that differ from listen, by id.", "{C0FRONT: all}"},
			{"prompts", listOf("list of suggestions", 0, mostPrompts, promptTable(&Prompt{}), s.prompt), "none", "What a new conversation with the bot suggests, four at most.", "[{title: Export waivers, message: \"how do I export waivers?\"}]"},
		},
	}
}

func listens() []Listen { return []Listen{Mentions, Threads, All} }

// listening reads what the bot listens to in single channels.
func (s *Slack) listening() value {
	return entries("mention, thread or all by channel id", nil, func(d *source, k, v *yaml.Node) bool {
		var l Listen
		ok := d.fits(k, k.Value, roomID())
		if !choice(&l, listens(), nil).read(d, v) {
			return false
		}
		if s.Channels == nil {
			s.Channels = map[string]Listen{}
		}
		s.Channels[k.Value] = l
		return ok
	})
}

func (s *Slack) prompt(d *source, n *yaml.Node) bool {
	p := &Prompt{}
	_, ok := d.keysOf(n, promptTable(p))
	s.Prompts = append(s.Prompts, *p)
	return ok
}

func promptTable(p *Prompt) *table {
	return &table{what: "a suggestion", about: "Something to click on instead of writing.", keys: []key{
		{"title", text(&p.Title, mostTitle), required, "What stands on it.", "Export waivers"},
		{"message", text(&p.Message, mostPrompt), required, "What is said when somebody clicks on it.", "how do I export waivers?"},
	}}
}

func reloadTable(r *Reload) *table {
	return &table{what: "reload", about: "What a changed pack must pass before it takes over, beside being valid.", keys: []key{
		{"rehearse", boolean(&r.Rehearse), "false", "Its rehearsals are played first; one that fails keeps the old pack.", "true"},
	}}
}
