package backoffice

import (
	"context"
	"strings"
)

type segment struct {
	Segment string `json:"segment"`
	Name    string `json:"name"`
	Members int    `json:"members"`
}

func (v *segment) dest() []any { return []any{&v.Segment, &v.Name, &v.Members} }

const segmentColumns = `SELECT s.segment, s.name, (SELECT count(*) FROM segment_members x JOIN members m ON m.org = x.org AND m.member = x.member
	WHERE x.org = s.org AND x.segment = s.segment AND m.left_on = '') FROM segments s `

func listSegments(ctx context.Context, c *call) (any, error) {
	all, err := rows(ctx, c, (*segment).dest, segmentColumns+`WHERE s.org = ? ORDER BY s.segment`, c.org)
	return list[segment]{all}, err
}

type message struct {
	Message string `json:"message"`
	To      string `json:"to"`
	Subject string `json:"subject"`
	Status  string `json:"status"` // draft | sent
	SentAt  string `json:"sent_at"`

	text string
}

func (m *message) dest() []any {
	return []any{&m.Message, &m.To, &m.Subject, &m.text, &m.Status, &m.SentAt}
}

const messageColumns = `SELECT message, recipient, subject, text, status, sent_at FROM messages `

// listMessages gives the latest 20 messages, newest first.
func listMessages(ctx context.Context, c *call) (any, error) {
	status := c.query["status"]
	if status != "" {
		if err := oneOf("status", status, "draft", "sent"); err != nil {
			return nil, err
		}
	}
	all, err := rows(ctx, c, (*message).dest, messageColumns+`WHERE org = ? AND (status = ? OR ? = '')
		ORDER BY CAST(substr(message, 5) AS INTEGER) DESC LIMIT 20`, c.org, status, status)
	return list[message]{all}, err
}

func findMessage(ctx context.Context, c *call) (message, error) {
	return one(ctx, c, missing("there is no message %q", c.path["message"]), (*message).dest, messageColumns+`WHERE org = ? AND message = ?`, c.org, c.path["message"])
}

// findDraft gives a message that can still be changed and sent.
func findDraft(ctx context.Context, c *call) (message, error) {
	m, err := findMessage(ctx, c)
	if err == nil && m.Status != "draft" {
		err = conflict("message %s was sent at %s", m.Message, m.SentAt)
	}
	return m, err
}

// recipients gives who a message would go to now: a segment's present members, or one member.
func recipients(ctx context.Context, c *call, to string) ([]member, error) {
	if strings.HasPrefix(to, "seg_") {
		known, err := exists(ctx, c, `SELECT count(*) FROM segments WHERE org = ? AND segment = ?`, c.org, to)
		if err == nil && !known {
			err = missing("there is no segment %q", to)
		}
		if err != nil {
			return nil, err
		}
		return rows(ctx, c, (*member).dest, memberColumns+`WHERE org = ? AND left_on = ''
			AND member IN (SELECT member FROM segment_members WHERE org = ? AND segment = ?) ORDER BY member`, c.org, c.org, to)
	}
	m, err := one(ctx, c, missing("there is no active member %q", to), (*member).dest, memberColumns+`WHERE org = ? AND member = ? AND left_on = ''`, c.org, to)
	return []member{m}, err
}

type wording struct{ Subject, Text string }

func (w wording) check() error {
	if err := between("subject", w.Subject, 1, 120); err != nil {
		return err
	}
	return between("text", w.Text, 1, 4000)
}

func draftMessage(ctx context.Context, c *call) (any, error) {
	var in struct{ To, Subject, Text string }
	if err := c.into(&in); err != nil {
		return nil, err
	}
	if err := (wording{in.Subject, in.Text}).check(); err != nil {
		return nil, err
	}
	people, err := recipients(ctx, c, in.To)
	if err != nil {
		return nil, err
	}
	id, err := nextID(ctx, c, "msg")
	if err != nil {
		return nil, err
	}
	_, err = change(ctx, c, `INSERT INTO messages (org, message, recipient, subject, text, status, sent_at) VALUES (?, ?, ?, ?, ?, 'draft', '')`,
		c.org, id, in.To, in.Subject, in.Text)
	return map[string]any{"message": id, "status": "draft", "recipients": len(people)}, err
}

func editMessage(ctx context.Context, c *call) (any, error) {
	var in wording
	if err := c.into(&in); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	m, err := findDraft(ctx, c)
	if err != nil {
		return nil, err
	}
	_, err = change(ctx, c, `UPDATE messages SET subject = ?, text = ? WHERE org = ? AND message = ?`, in.Subject, in.Text, c.org, m.Message)
	return map[string]any{"message": m.Message, "status": "draft", "old_subject": m.Subject, "subject": in.Subject}, err
}

func previewMessage(ctx context.Context, c *call) (any, error) {
	m, err := findMessage(ctx, c)
	if err != nil {
		return nil, err
	}
	people, err := recipients(ctx, c, m.To)
	if err != nil {
		return nil, err
	}
	first := []string{}
	for _, p := range people[:min(3, len(people))] {
		first = append(first, p.Name)
	}
	return map[string]any{
		"message": m.Message, "status": m.Status, "to": m.To, "subject": m.Subject, "text": m.text, "recipients": len(people), "first": first,
	}, nil
}

// sendMessage sends only to as many people as the client was shown: a segment may have grown since the preview.
func sendMessage(ctx context.Context, c *call) (any, error) {
	var in struct{ Recipients *int }
	if err := c.into(&in); err != nil {
		return nil, err
	}
	m, err := findDraft(ctx, c)
	if err != nil {
		return nil, err
	}
	people, err := recipients(ctx, c, m.To)
	if err != nil {
		return nil, err
	}
	if in.Recipients == nil || *in.Recipients != len(people) {
		return nil, conflict("the message would go to %d people; preview it again and send with that number", len(people))
	}
	for _, p := range people {
		status := "delivered"
		if strings.HasSuffix(p.Email, "@bounce.example") {
			status = "bounced"
		}
		if _, err := change(ctx, c, `INSERT INTO deliveries (org, message, member, status) VALUES (?, ?, ?, ?)`, c.org, m.Message, p.Member, status); err != nil {
			return nil, err
		}
	}
	_, err = change(ctx, c, `UPDATE messages SET status = 'sent', sent_at = ? WHERE org = ? AND message = ?`, c.now, c.org, m.Message)
	return map[string]any{"message": m.Message, "status": "sent", "recipients": len(people), "sent_at": c.now}, err
}

func messageStatus(ctx context.Context, c *call) (any, error) {
	m, err := findMessage(ctx, c)
	if err != nil {
		return nil, err
	}
	var delivered, bounced int
	err = c.tx.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE status = 'delivered'), count(*) FILTER (WHERE status = 'bounced')
		FROM deliveries WHERE org = ? AND message = ?`, c.org, m.Message).Scan(&delivered, &bounced)
	return map[string]any{
		"message": m.Message, "to": m.To, "subject": m.Subject, "status": m.Status, "sent_at": m.SentAt, "delivered": delivered, "bounced": bounced,
	}, err
}

type document struct {
	Document string `json:"document"`
	Title    string `json:"title"`
	Text     string `json:"text"`
}

func (d *document) dest() []any { return []any{&d.Document, &d.Title, &d.Text} }

func findDocuments(ctx context.Context, c *call) (any, error) {
	if err := between("q", c.query["q"], 1, 100); err != nil {
		return nil, err
	}
	p := like(c.query["q"])
	all, err := rows(ctx, c, (*document).dest, `SELECT document, title, text FROM documents
		WHERE org = ? AND (title LIKE ? ESCAPE '\' OR text LIKE ? ESCAPE '\') ORDER BY document LIMIT 5`, c.org, p, p)
	if err == nil && len(all) == 0 {
		err = missing("no document of the club matches %q", c.query["q"])
	}
	return list[document]{all}, err
}

func getDocument(ctx context.Context, c *call) (any, error) {
	return one(ctx, c, missing("there is no document %q", c.path["document"]), (*document).dest,
		`SELECT document, title, text FROM documents WHERE org = ? AND document = ?`, c.org, c.path["document"])
}
