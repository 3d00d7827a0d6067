package sim

import (
	"encoding/json"
	"strings"
)

// piece is a part of a Markdown text that becomes a block of its own.
type piece struct {
	kind string // heading | table | text
	text string
}

// pieces cuts a Markdown text the way Slack turns a markdown block into several: a heading and a table each become a block,
// what stands between them another, as reported. Slack: https://docs.slack.dev/reference/block-kit/blocks/markdown-block
func pieces(text string) []piece {
	var out []piece
	fence := false
	for line := range strings.Lines(text) {
		bare := strings.TrimSpace(line)
		mark := strings.HasPrefix(bare, "```")
		kind := "text"
		switch {
		case fence || mark:
		case strings.HasPrefix(bare, "#") && strings.HasPrefix(strings.TrimLeft(bare, "#"), " ") && len(bare)-len(strings.TrimLeft(bare, "#")) <= 6:
			kind = "heading"
		case strings.HasPrefix(bare, "|"):
			kind = "table"
		case bare == "" && (len(out) == 0 || out[len(out)-1].kind != "text"):
			continue
		}
		if mark {
			fence = !fence
		}
		if n := len(out); n > 0 && kind != "heading" && out[n-1].kind == kind {
			out[n-1].text += line
			continue
		}
		out = append(out, piece{kind, line})
	}
	return out
}

// expands says how many blocks Slack makes of a block.
func expands(b map[string]any) int {
	if b["type"] != "markdown" {
		return 1
	}
	text, _ := b["text"].(string)
	return max(len(pieces(text)), 1)
}

// spread gives blocks as Slack gives them back: there are no markdown blocks among them any more.
func spread(in []json.RawMessage) []json.RawMessage {
	var out []json.RawMessage
	for _, raw := range in {
		var b struct{ Type, Text string }
		// A block with a structure as its text is no markdown block.
		if json.Unmarshal(raw, &b) != nil || b.Type != "markdown" {
			out = append(out, raw)
			continue
		}
		for _, p := range pieces(b.Text) {
			switch p.kind {
			case "heading":
				words := strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(p.text), "#"))
				out = append(out, rich(map[string]any{"type": "text", "text": words, "style": map[string]any{"bold": true}}))
			case "table":
				out = append(out, table(p.text))
			default:
				out = append(out, rich(map[string]any{"type": "text", "text": strings.TrimRight(p.text, "\n")}))
			}
		}
	}
	return out
}

func rich(element map[string]any) json.RawMessage {
	return mustJSON(map[string]any{"type": "rich_text", "elements": []any{map[string]any{"type": "rich_text_section", "elements": []any{element}}}})
}

// table makes a table block of the lines of a Markdown table, without the one under its head.
func table(text string) json.RawMessage {
	var rows []any
	for line := range strings.Lines(text) {
		line = strings.Trim(strings.TrimSpace(line), "|")
		if strings.Trim(line, "-:| ") == "" {
			continue
		}
		var cells []any
		for cell := range strings.SplitSeq(line, "|") {
			cells = append(cells, map[string]any{"type": "raw_text", "text": strings.TrimSpace(cell)})
		}
		rows = append(rows, cells)
	}
	return mustJSON(map[string]any{"type": "table", "rows": rows})
}
