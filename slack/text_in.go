package slack

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// What people say is kept in Slack's own notation until somebody looks at it: &, < and > of the text are escaped, so that
// every <…> is a token that stands for a person, a channel, a link. Names are put in their place by plain.
// Slack: https://docs.slack.dev/messaging/formatting-message-text

// node is any part of a message's blocks. Slack: https://docs.slack.dev/reference/block-kit/blocks
type node struct {
	Type        string          `json:"type"`
	Text        json.RawMessage `json:"text"`  // a string in rich text, an object in sections
	Style       json.RawMessage `json:"style"` // an object in rich text, a word in lists
	Title       json.RawMessage `json:"title"` // as Text
	Elements    []node          `json:"elements"`
	Fields      []node          `json:"fields"`
	Rows        [][]node        `json:"rows"`
	Indent      int             `json:"indent"`
	Offset      int             `json:"offset"`
	UserID      string          `json:"user_id"`
	ChannelID   string          `json:"channel_id"`
	UsergroupID string          `json:"usergroup_id"`
	URL         string          `json:"url"`
	Name        string          `json:"name"`
	Range       string          `json:"range"`
	Unicode     string          `json:"unicode"`
	Fallback    string          `json:"fallback"`
	AltText     string          `json:"alt_text"`
	Value       json.RawMessage `json:"value"`
}

// attachment is what hangs below a message: a forwarded message, a preview of a link, or an older form of blocks.
// Slack: https://docs.slack.dev/legacy/legacy-messaging/legacy-secondary-message-attachments
type attachment struct {
	Pretext     string          `json:"pretext"`
	Title       string          `json:"title"`
	Text        string          `json:"text"`
	Fallback    string          `json:"fallback"`
	AuthorName  string          `json:"author_name"`
	AuthorID    string          `json:"author_id"`
	FromURL     string          `json:"from_url"`
	OriginalURL string          `json:"original_url"`
	IsMsgUnfurl bool            `json:"is_msg_unfurl"`
	IsShare     bool            `json:"is_share"`
	Blocks      json.RawMessage `json:"blocks"`
	Fields      []struct {
		Title string `json:"title"`
		Value string `json:"value"`
	} `json:"fields"`
	MessageBlocks []struct {
		Message struct {
			Blocks json.RawMessage `json:"blocks"`
		} `json:"message"`
	} `json:"message_blocks"`
}

var (
	unescaper = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&") //nolint:gochecknoglobals // a constant table
	notSaid   = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`|(?m:^\\s*(?:&gt;|>)[^\n]*$)")
	gaps      = regexp.MustCompile(`\n{3,}`)
)

// words gives what a message says, in Slack's notation: the exact text of its blocks where there is one, and below it,
// quoted and labelled, what it forwards.
func (m *utterance) words() string {
	bot := m.fromBot()
	text := blockText(m.Blocks, bot)
	if strings.TrimSpace(text) == "" {
		text = m.Text
	}
	for i := range m.Attachments {
		if q := m.Attachments[i].words(bot); q != "" {
			text += "\n\n" + q
		}
	}
	return strings.TrimSpace(gaps.ReplaceAllString(text, "\n\n"))
}

// words gives an attachment as a quotation. What a person did not say is left out: that is a link's preview, which Slack
// has made, whereas the attachments of programs are what they say.
func (a *attachment) words(bot bool) string {
	forwarded := a.IsShare || a.IsMsgUnfurl
	if !forwarded && (!bot || a.FromURL != "" || a.OriginalURL != "") {
		return ""
	}
	body := blockText(a.Blocks, bot)
	for i := range a.MessageBlocks {
		body += blockText(a.MessageBlocks[i].Message.Blocks, bot)
	}
	if strings.TrimSpace(body) == "" {
		parts := []string{a.Pretext, a.Title, a.Text}
		for _, f := range a.Fields {
			parts = append(parts, strings.TrimSpace(f.Title+": "+f.Value))
		}
		body = joinLines(parts)
	}
	if body == "" {
		body = a.Fallback
	}
	if strings.TrimSpace(body) == "" {
		return ""
	}
	label := "[Attached]"
	if forwarded {
		label = "[Forwarded message]"
		switch {
		case idForm.MatchString(a.AuthorID):
			label = "[Forwarded message of <@" + a.AuthorID + ">]"
		case a.AuthorName != "":
			label = "[Forwarded message of " + escape(inOneLine(a.AuthorName)) + "]"
		}
	}
	return label + "\n" + quote(body)
}

// mentions says whether a message addresses a user. A name in code, in a quotation or in something forwarded addresses
// nobody: whoever quotes a call does not repeat it.
func (m *utterance) mentions(user string) bool {
	var nodes []node
	if json.Unmarshal(m.Blocks, &nodes) == nil {
		rich := false
		for _, b := range nodes {
			if b.Type != "rich_text" {
				continue
			}
			rich = true
			for _, part := range b.Elements {
				if (part.Type == "rich_text_section" || part.Type == "rich_text_list") && part.names(user) {
					return true
				}
			}
		}
		if rich {
			return false
		}
	}
	text := notSaid.ReplaceAllString(m.Text, "")
	return strings.Contains(text, "<@"+user+">") || strings.Contains(text, "<@"+user+"|")
}

func (n *node) names(user string) bool {
	if n.Type == "user" && n.UserID == user && !n.styled("code") {
		return true
	}
	for i := range n.Elements {
		if n.Elements[i].names(user) {
			return true
		}
	}
	return false
}

func (n *node) styled(as string) bool {
	var style map[string]any
	return json.Unmarshal(n.Style, &style) == nil && style[as] == true
}

// blockText gives the text of blocks, "" where there is none or their form is not known. Buttons say nothing.
func blockText(raw json.RawMessage, bot bool) string {
	var nodes []node
	if len(raw) == 0 || json.Unmarshal(raw, &nodes) != nil {
		return ""
	}
	var parts []string
	for i := range nodes {
		parts = append(parts, nodes[i].block(bot))
	}
	return joinLines(parts)
}

// block gives the text of one block.
func (n *node) block(bot bool) string {
	switch n.Type {
	case "rich_text":
		var b strings.Builder
		for i := range n.Elements {
			b.WriteString(n.Elements[i].rich())
		}
		return b.String()
	case "section":
		parts := []string{n.text()}
		for i := range n.Fields {
			parts = append(parts, n.Fields[i].text())
		}
		return joinLines(parts)
	case "header", "markdown", "alert":
		return n.text()
	case "context":
		if bot {
			return "" // small print, such as the number of a part
		}
		var parts []string
		for i := range n.Elements {
			parts = append(parts, n.Elements[i].text())
		}
		return joinLines(parts)
	case "image":
		return escape(n.AltText)
	case "table", "data_table":
		var rows []string
		for _, row := range n.Rows {
			var cells []string
			for i := range row {
				cells = append(cells, inOneLine(row[i].cell()))
			}
			rows = append(rows, "| "+strings.Join(cells, " | ")+" |")
		}
		return strings.Join(rows, "\n")
	}
	return ""
}

func (n *node) cell() string {
	if n.Type == "rich_text" {
		return n.block(false)
	}
	return n.text()
}

// text gives a text of a block, whichever form it has: plain text is escaped, the other forms are in Slack's notation.
func (n *node) text() string {
	var plain string
	if json.Unmarshal(n.Text, &plain) == nil {
		if n.Type == "mrkdwn" || n.Type == "markdown" {
			return plain
		}
		return escape(plain)
	}
	var inner node
	if len(n.Text) > 0 && json.Unmarshal(n.Text, &inner) == nil {
		return inner.text()
	}
	return ""
}

// rich gives the text of a part of a rich text, with a line break at its end.
// Slack: https://docs.slack.dev/reference/block-kit/blocks/rich-text-block
func (n *node) rich() string {
	body := n.inline()
	switch n.Type {
	case "rich_text_preformatted":
		return "```\n" + strings.TrimSuffix(body, "\n") + "\n```\n"
	case "rich_text_quote":
		return quote(body) + "\n"
	case "rich_text_list":
		var style string
		_ = json.Unmarshal(n.Style, &style)
		var b strings.Builder
		for i := range n.Elements {
			mark := "- "
			if style == "ordered" {
				mark = strconv.Itoa(n.Offset+i+1) + ". "
			}
			b.WriteString(strings.Repeat("    ", min(max(n.Indent, 0), 8)) + mark + n.Elements[i].inline() + "\n")
		}
		return b.String()
	}
	if body == "" || strings.HasSuffix(body, "\n") {
		return body
	}
	return body + "\n"
}

// inline gives the text of the elements of a part.
func (n *node) inline() string {
	var b strings.Builder
	for i := range n.Elements {
		b.WriteString(n.Elements[i].element())
	}
	return b.String()
}

// element gives one element in Slack's notation. Of the styles only those are kept that change what is meant.
func (n *node) element() string {
	text := ""
	_ = json.Unmarshal(n.Text, &text)
	text = escape(text)
	switch n.Type {
	case "text":
		switch {
		case text != "" && n.styled("code"):
			return "`" + text + "`"
		case strings.TrimSpace(text) != "" && n.styled("strike"):
			return "~" + text + "~"
		}
		return text
	case "link":
		url := strings.NewReplacer("<", "%3C", ">", "%3E", "|", "%7C").Replace(n.URL)
		if text == "" {
			return "<" + url + ">"
		}
		return "<" + url + "|" + text + ">"
	case "user":
		return "<@" + n.UserID + ">"
	case "channel":
		return "<#" + n.ChannelID + ">"
	case "usergroup":
		return "<!subteam^" + n.UsergroupID + ">"
	case "broadcast":
		return "<!" + n.Range + ">"
	case "emoji":
		if e := emoji(n.Unicode); e != "" {
			return e
		}
		return ":" + n.Name + ":"
	case "date":
		return escape(n.Fallback)
	case "color":
		value := ""
		_ = json.Unmarshal(n.Value, &value)
		return escape(value)
	}
	if len(n.Elements) > 0 {
		return n.inline() // a part within a part
	}
	return text
}

// emoji gives the characters that Slack names by their numbers in hexadecimal, joined by hyphens.
func emoji(codes string) string {
	var b strings.Builder
	for code := range strings.SplitSeq(codes, "-") {
		n, err := strconv.ParseInt(code, 16, 32)
		if err != nil {
			return ""
		}
		b.WriteRune(rune(n))
	}
	return b.String()
}

// quote puts a mark before each line.
func quote(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, l := range lines {
		lines[i] = "&gt; " + l
	}
	return strings.Join(lines, "\n")
}

// joinLines puts what is not empty below each other.
func joinLines(parts []string) string {
	var b strings.Builder
	for _, p := range parts {
		if p = strings.Trim(p, "\n"); p == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p)
	}
	return b.String()
}

// inOneLine makes one line of a text.
func inOneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
