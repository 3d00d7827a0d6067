package sim

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The limits of Block Kit. Slack: https://docs.slack.dev/reference/block-kit/blocks
const (
	mostBlocks     = 50  // of a message
	mostViewBlocks = 100 // of a view
	mostSection    = 3000
	mostField      = 2000
	mostFields     = 10
	mostHeader     = 150
	mostContext    = 10
	mostActions    = 25
	mostButton     = 75
	mostValue      = 2000
	mostURL        = 3000
	mostID         = 255
	mostAlt        = 2000
	mostMarkdown   = 12000 // over all markdown blocks of a payload
	mostRows       = 100
	mostCells      = 20
	mostTable      = 10000
	mostOption     = 75
	mostOptionID   = 150
	mostOptions    = 100
	mostCard       = 256   // title of a task card
	mostRich       = 13000 // characters of all rich text of a message: a guess, Slack only names the error
	mostAsk        = 100
	mostAsked      = 300
	mostAnswer     = 30
)

// checker looks at the blocks of one payload.
type checker struct {
	view     bool
	errs     []string
	markdown int
	tables   int
	richText int
	ids      map[string]bool
}

// checkBlocks reads blocks, fills in their ids and refuses what Slack refuses. code is the name of the refusal.
func (w *Workspace) checkBlocks(raw json.RawMessage, view bool) ([]json.RawMessage, error) {
	in, err := list(raw)
	if err != nil {
		return nil, fail("invalid_blocks_format")
	}
	most := mostBlocks
	if view {
		most = mostViewBlocks
	}
	c := &checker{view: view, ids: map[string]bool{}}
	out, shown := make([]json.RawMessage, 0, len(in)), 0
	for i, one := range in {
		var b map[string]any
		if json.Unmarshal(one, &b) != nil || b == nil {
			return nil, fail("invalid_blocks", fmt.Sprintf("[ERROR] must be an object [json-pointer:/blocks/%d]", i))
		}
		c.block(b, fmt.Sprintf("/blocks/%d", i))
		shown += expands(b)
		if id, _ := b["block_id"].(string); id == "" {
			b["block_id"] = w.blockID()
		}
		out = append(out, mustJSON(b))
	}
	if shown > most {
		c.errs = append([]string{fmt.Sprintf("[ERROR] no more than %d items allowed [json-pointer:/blocks]", most)}, c.errs...)
	}
	if c.markdown > mostMarkdown {
		return nil, fail("msg_too_long", fmt.Sprintf("[ERROR] markdown blocks: %d characters, and %d are allowed", c.markdown, mostMarkdown))
	}
	if c.richText > mostRich {
		return nil, fail("msg_blocks_too_long", fmt.Sprintf("[ERROR] rich text: %d characters, and %d are allowed", c.richText, mostRich))
	}
	if len(c.errs) > 0 {
		return nil, fail("invalid_blocks", c.errs...)
	}
	return out, nil
}

// blockID makes an id of the look that Slack's have.
func (w *Workspace) blockID() string { return strings.ToLower(w.id("b"))[:6] }

func (c *checker) bad(at, format string, args ...any) {
	c.errs = append(c.errs, "[ERROR] "+fmt.Sprintf(format, args...)+" [json-pointer:"+at+"]")
}

// text checks a text's length, in characters, and that it is there.
func (c *checker) text(v any, most int, at string) {
	m, _ := v.(map[string]any)
	s, isText := v.(string)
	if m != nil {
		s, isText = m["text"].(string)
		if t := m["type"]; t != "plain_text" && t != "mrkdwn" {
			c.bad(at+"/type", "unsupported type: %v", t)
		}
	}
	n := utf8.RuneCountInString(s)
	switch {
	case !isText:
		c.bad(at, "missing required field: text")
	case n == 0:
		c.bad(at+"/text", "must be more than 0 characters")
	case n > most:
		c.bad(at+"/text", "must be less than %d characters", most+1)
	}
}

// optional checks a text that may be missing.
func (c *checker) optional(v any, most int, at string) {
	if v != nil {
		c.text(v, most, at)
	}
}

func (c *checker) id(v any, most int, at string) {
	if s, _ := v.(string); utf8.RuneCountInString(s) > most {
		c.bad(at, "must be less than %d characters", most+1)
	}
}

// block checks one block. What a message cannot hold is refused there.
func (c *checker) block(b map[string]any, at string) {
	kind, _ := b["type"].(string)
	c.id(b["block_id"], mostID, at+"/block_id")
	if id, _ := b["block_id"].(string); id != "" && kind != "markdown" {
		if c.ids[id] {
			c.bad(at+"/block_id", "`block_id` must be unique")
		}
		c.ids[id] = true
	}
	switch kind {
	case "section":
		c.section(b, at)
	case "header":
		c.text(b["text"], mostHeader, at+"/text")
	case "markdown":
		s, _ := b["text"].(string)
		if s == "" {
			c.bad(at+"/text", "missing required field: text")
		}
		if c.view {
			c.bad(at, "unsupported type: markdown")
		}
		c.markdown += utf8.RuneCountInString(s)
	case "context":
		c.elements(b, 1, mostContext, at, nil)
	case "actions":
		c.elements(b, 1, mostActions, at, c.element)
	case "context_actions":
		if c.view {
			c.bad(at, "unsupported type: context_actions")
		}
		c.elements(b, 1, 5, at, c.feedback)
	case "table":
		c.table(b, at)
	case "image":
		c.text(b["alt_text"], mostAlt, at+"/alt_text")
		if b["image_url"] == nil && b["slack_file"] == nil {
			c.bad(at, "missing required field: image_url")
		}
	case "input":
		c.text(b["label"], mostValue, at+"/label")
		if e, _ := b["element"].(map[string]any); e == nil {
			c.bad(at, "missing required field: element")
		} else {
			c.id(e["action_id"], mostID, at+"/element/action_id")
		}
	case "task_card":
		c.taskCard(b, at)
	case "plan":
		c.plan(b, at)
	case "rich_text":
		c.rich(b, at)
	case "divider", "file", "video", "data_table":
	default:
		// alert, card and carousel too, as reported of chat.postMessage.
		c.bad(at+"/type", "unsupported type: %s", kind)
	}
}

func (c *checker) section(b map[string]any, at string) {
	fields, _ := b["fields"].([]any)
	if b["text"] == nil && len(fields) == 0 {
		c.bad(at, "missing required field: text or fields")
	}
	c.optional(b["text"], mostSection, at+"/text")
	if len(fields) > mostFields {
		c.bad(at+"/fields", "no more than %d items allowed", mostFields)
	}
	for i, f := range fields {
		c.text(f, mostField, fmt.Sprintf("%s/fields/%d", at, i))
	}
	if e, ok := b["accessory"].(map[string]any); ok {
		c.element(e, at+"/accessory")
	}
}

func (c *checker) elements(b map[string]any, least, most int, at string, check func(map[string]any, string)) {
	es, _ := b["elements"].([]any)
	if len(es) < least {
		c.bad(at, "missing required field: elements")
	}
	if len(es) > most {
		c.bad(at+"/elements", "no more than %d items allowed", most)
	}
	seen := map[string]bool{}
	for i, e := range es {
		m, _ := e.(map[string]any)
		where := fmt.Sprintf("%s/elements/%d", at, i)
		if m == nil {
			c.bad(where, "must be an object")
			continue
		}
		if id, _ := m["action_id"].(string); id != "" {
			if seen[id] {
				c.bad(where+"/action_id", "`action_id` must be unique in its block")
			}
			seen[id] = true
		}
		if check != nil {
			check(m, where)
		}
	}
}

// element checks what people can press.
func (c *checker) element(e map[string]any, at string) {
	c.id(e["action_id"], mostID, at+"/action_id")
	switch kind := e["type"]; kind {
	case "button":
		c.text(e["text"], mostButton, at+"/text")
		c.id(e["value"], mostValue, at+"/value")
		c.id(e["url"], mostURL, at+"/url")
		if s, ok := e["style"].(string); ok && s != "primary" && s != "danger" {
			c.bad(at+"/style", "must be a valid enum value")
		}
		if e["confirm"] != nil {
			c.confirm(e["confirm"], at+"/confirm")
		}
	case "static_select", "radio_buttons", "checkboxes", "overflow", "multi_static_select":
		options, _ := e["options"].([]any)
		if len(options) > mostOptions {
			c.bad(at+"/options", "no more than %d items allowed", mostOptions)
		}
		for i, o := range options {
			m, _ := o.(map[string]any)
			where := fmt.Sprintf("%s/options/%d", at, i)
			c.text(m["text"], mostOption, where+"/text")
			c.id(m["value"], mostOptionID, where+"/value")
		}
	case nil, "":
		c.bad(at, "missing required field: type")
	}
}

// confirm checks the question that a button asks before it is a click.
// Slack: https://docs.slack.dev/reference/block-kit/composition-objects/confirmation-dialog-object
func (c *checker) confirm(v any, at string) {
	m, _ := v.(map[string]any)
	if m == nil {
		c.bad(at, "must be an object")
		return
	}
	c.text(m["title"], mostAsk, at+"/title")
	c.text(m["text"], mostAsked, at+"/text")
	c.text(m["confirm"], mostAnswer, at+"/confirm")
	c.text(m["deny"], mostAnswer, at+"/deny")
	if s, ok := m["style"].(string); ok && s != "primary" && s != "danger" {
		c.bad(at+"/style", "must be a valid enum value")
	}
}

// rich checks the pieces of a rich text, and counts its characters.
// Slack: https://docs.slack.dev/reference/block-kit/blocks/rich-text-block
func (c *checker) rich(b map[string]any, at string) {
	elements, ok := b["elements"].([]any)
	if !ok {
		c.bad(at, "missing required field: elements")
	}
	for i, e := range elements {
		m, _ := e.(map[string]any)
		where := fmt.Sprintf("%s/elements/%d", at, i)
		switch m["type"] {
		case "rich_text_section", "rich_text_quote", "rich_text_preformatted", "rich_text_list":
			if inner, ok := m["elements"].([]any); !ok || len(inner) == 0 {
				c.bad(where, "missing required field: elements")
			}
		default:
			c.bad(where+"/type", "unsupported type: %v", m["type"])
		}
	}
	for _, s := range richWords(b) {
		c.richText += utf8.RuneCountInString(s)
	}
}

// feedback checks what may stand in context_actions.
// Slack: https://docs.slack.dev/reference/block-kit/blocks/context-actions-block
func (c *checker) feedback(e map[string]any, at string) {
	c.id(e["action_id"], mostID, at+"/action_id")
	switch e["type"] {
	case "feedback_buttons":
		for _, side := range []string{"positive_button", "negative_button"} {
			b, _ := e[side].(map[string]any)
			if b == nil {
				c.bad(at, "missing required field: %s", side)
				continue
			}
			c.text(b["text"], mostButton, at+"/"+side+"/text")
			c.id(b["value"], mostValue, at+"/"+side+"/value")
		}
	case "icon_button":
		c.text(e["text"], mostButton, at+"/text")
	default:
		c.bad(at+"/type", "unsupported type: %v", e["type"])
	}
}

// table checks a table. Slack: https://docs.slack.dev/reference/block-kit/blocks/table-block
func (c *checker) table(b map[string]any, at string) {
	rows, _ := b["rows"].([]any)
	if c.tables++; c.tables > 1 {
		c.bad(at, "only one table is allowed")
	}
	if len(rows) == 0 {
		c.bad(at, "missing required field: rows")
	}
	if len(rows) > mostRows {
		c.bad(at+"/rows", "no more than %d items allowed", mostRows)
	}
	size := 0
	for i, r := range rows {
		cells, _ := r.([]any)
		if len(cells) > mostCells {
			c.bad(fmt.Sprintf("%s/rows/%d", at, i), "no more than %d items allowed", mostCells)
		}
		for j, cell := range cells {
			m, _ := cell.(map[string]any)
			switch m["type"] {
			case "raw_text", "raw_number", "rich_text":
			default:
				c.bad(fmt.Sprintf("%s/rows/%d/%d", at, i, j), "unsupported type: %v", m["type"])
			}
			for _, s := range valueWords(cell) {
				size += utf8.RuneCountInString(s)
			}
		}
	}
	if size > mostTable {
		c.bad(at, "must be less than %d characters", mostTable+1)
	}
}

func (c *checker) plan(b map[string]any, at string) {
	c.text(b["title"], mostCard, at+"/title")
	tasks, _ := b["tasks"].([]any)
	for i, t := range tasks {
		m, _ := t.(map[string]any)
		c.taskCard(m, fmt.Sprintf("%s/tasks/%d", at, i))
	}
}

// taskCard checks a card. Slack: https://docs.slack.dev/reference/block-kit/blocks/task-card-block
func (c *checker) taskCard(b map[string]any, at string) {
	c.text(b["title"], mostCard, at+"/title")
	if id, _ := b["task_id"].(string); id == "" {
		c.bad(at, "missing required field: task_id")
	}
	if !taskState(b["status"]) {
		c.bad(at+"/status", "must be a valid enum value")
	}
	for _, key := range []string{"details", "output"} {
		if m, ok := b[key].(map[string]any); b[key] != nil && (!ok || m["type"] != "rich_text") {
			c.bad(at+"/"+key, "must be rich_text")
		}
	}
}

func taskState(v any) bool {
	switch v {
	case nil, "pending", "in_progress", "complete", "error":
		return true
	}
	return false
}
