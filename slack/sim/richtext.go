package sim

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// richText turns a text in Slack's form into the rich_text block that Slack's own clients would send with it.
// Slack: https://docs.slack.dev/reference/block-kit/blocks/rich-text-block
func richText(text string) json.RawMessage {
	var blocks []any
	var lines []string
	flush := func() {
		if len(lines) > 0 {
			blocks = append(blocks, section("rich_text_section", strings.Join(lines, "\n")))
			lines = nil
		}
	}
	// Everything between two fences is preformatted, wherever they stand in a line.
	for i, piece := range strings.Split(text, "```") {
		if i%2 == 1 {
			flush()
			blocks = append(blocks, map[string]any{
				"type": "rich_text_preformatted", "elements": []any{map[string]any{"type": "text", "text": plain(strings.Trim(piece, "\n"))}},
			})
			continue
		}
		var quote []string
		for line := range strings.SplitSeq(strings.Trim(piece, "\n"), "\n") {
			if q, ok := strings.CutPrefix(line, "&gt;"); ok {
				flush()
				quote = append(quote, strings.TrimPrefix(q, " "))
				continue
			}
			if quote != nil {
				blocks = append(blocks, section("rich_text_quote", strings.Join(quote, "\n")))
				quote = nil
			}
			lines = append(lines, line)
		}
		if quote != nil {
			blocks = append(blocks, section("rich_text_quote", strings.Join(quote, "\n")))
		}
		if piece == "" || len(lines) == 1 && lines[0] == "" {
			lines = nil
		}
	}
	flush()
	return mustJSON(map[string]any{"type": "rich_text", "elements": blocks})
}

func section(kind, text string) map[string]any {
	return map[string]any{"type": kind, "elements": inline(text, nil)}
}

// plain undoes Slack's escapes. Slack: https://docs.slack.dev/messaging/formatting-message-text
func plain(s string) string {
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(s)
}

// inline finds code, styles, links and mentions in a text.
func inline(text string, style map[string]any) []any {
	mark := regexp.MustCompile("`[^`\n]+`|<[^<>\n]+>|\\*[^*\\s](?:[^*\n]*[^*\\s])?\\*|\\b_[^_\\s](?:[^_\n]*[^_\\s])?_\\b|~[^~\\s](?:[^~\n]*[^~\\s])?~")
	out := []any{}
	add := func(e map[string]any) {
		if len(style) > 0 {
			e["style"] = style
		}
		out = append(out, e)
	}
	rest := text
	for rest != "" {
		at := mark.FindStringIndex(rest)
		if at == nil {
			add(map[string]any{"type": "text", "text": plain(rest)})
			break
		}
		if at[0] > 0 {
			add(map[string]any{"type": "text", "text": plain(rest[:at[0]])})
		}
		found := rest[at[0]:at[1]]
		rest = rest[at[1]:]
		inner := found[1 : len(found)-1]
		with := func(name string) map[string]any {
			s := map[string]any{name: true}
			maps.Copy(s, style)
			return s
		}
		switch found[0] {
		case '<':
			add(special(inner))
		case '`':
			out = append(out, map[string]any{"type": "text", "text": plain(inner), "style": with("code")})
		case '*':
			out = append(out, inline(inner, with("bold"))...)
		case '_':
			out = append(out, inline(inner, with("italic"))...)
		case '~':
			out = append(out, inline(inner, with("strike"))...)
		}
	}
	return out
}

// special is what stands between < and >.
func special(s string) map[string]any {
	target, label, _ := strings.Cut(s, "|")
	switch {
	case strings.HasPrefix(target, "@"):
		return map[string]any{"type": "user", "user_id": target[1:]}
	case strings.HasPrefix(target, "#"):
		return map[string]any{"type": "channel", "channel_id": target[1:]}
	case strings.HasPrefix(target, "!subteam^"):
		return map[string]any{"type": "usergroup", "usergroup_id": strings.TrimPrefix(target, "!subteam^")}
	case strings.HasPrefix(target, "!"):
		return map[string]any{"type": "broadcast", "range": target[1:]}
	}
	out := map[string]any{"type": "link", "url": plain(target)}
	if label != "" {
		out["text"] = plain(label)
	}
	return out
}

// typed makes Slack's form of what a person types: mentions stay, addresses become links, the rest is escaped.
func typed(s string) string {
	keep := regexp.MustCompile(`<(?:[@#][A-Z0-9]+(?:\|[^<>]*)?|![a-z]+(?:\^[A-Z0-9]+)?(?:\|[^<>]*)?)>|https?://[^\s<>]+`)
	var b strings.Builder
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	for {
		at := keep.FindStringIndex(s)
		if at == nil {
			break
		}
		b.WriteString(escape.Replace(s[:at[0]]))
		if found := s[at[0]:at[1]]; found[0] == '<' {
			b.WriteString(found)
		} else {
			b.WriteString("<" + escape.Replace(found) + ">")
		}
		s = s[at[1]:]
	}
	b.WriteString(escape.Replace(s))
	return b.String()
}

// richWords is what people read in a rich_text block, mentions as <@U…>.
func richWords(b map[string]any) []string {
	var out []string
	elements, _ := b["elements"].([]any)
	for _, e := range elements {
		m, _ := e.(map[string]any)
		switch m["type"] {
		case "rich_text_section", "rich_text_quote", "rich_text_preformatted":
			out = append(out, richLine(m))
		case "rich_text_list":
			out = append(out, richWords(m)...)
		}
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

func richLine(b map[string]any) string {
	var out strings.Builder
	elements, _ := b["elements"].([]any)
	for _, e := range elements {
		m, _ := e.(map[string]any)
		text := func(key string) string { s, _ := m[key].(string); return s }
		switch m["type"] {
		case "text":
			out.WriteString(text("text"))
		case "link":
			if text("text") != "" {
				out.WriteString(text("text") + " ")
			}
			out.WriteString(text("url"))
		case "user":
			out.WriteString("<@" + text("user_id") + ">")
		case "channel":
			out.WriteString("<#" + text("channel_id") + ">")
		case "usergroup":
			out.WriteString("<!subteam^" + text("usergroup_id") + ">")
		case "broadcast":
			out.WriteString("<!" + text("range") + ">")
		case "emoji":
			out.WriteString(":" + text("name") + ":")
		}
	}
	return out.String()
}
