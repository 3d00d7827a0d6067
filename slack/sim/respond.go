package sim

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// mostAnswers go to one response URL. Slack: https://docs.slack.dev/interactivity/handling-user-interaction
const mostAnswers = 5

// answerURL is a response URL: whoever has it may answer, also where the bot is no member.
type answerURL struct {
	app     *app
	channel string
	ts      string // of the message that was clicked; "" for commands
	person  string
	hidden  bool // the message is ephemeral
	at      time.Time
	used    int
}

// answerURL makes one.
func (w *Workspace) answerURL(a *app, ch, ts, person string, hidden bool) string {
	const many = 1000
	if len(w.answers) > many {
		maps.DeleteFunc(w.answers, func(_ string, u *answerURL) bool { return w.o.Now().Sub(u.at) > 2*w.o.Times.Respond })
	}
	id := w.secret()
	w.answers[id] = &answerURL{app: a, channel: ch, ts: ts, person: person, hidden: hidden, at: w.o.Now()}
	return w.url + "/respond/" + w.o.Team + "/" + id
}

// reply is what an app says over a response URL, or in the acknowledgement of a command.
type reply struct {
	Text        string          `json:"text"`
	Blocks      json.RawMessage `json:"blocks"`
	Attachments json.RawMessage `json:"attachments"`
	Type        string          `json:"response_type"`
	Replace     bool            `json:"replace_original"`
	Delete      bool            `json:"delete_original"`
	Thread      string          `json:"thread_ts"`
}

// respond takes what is posted to a response URL.
func (w *Workspace) respond(rw http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, mostBody))
	if err != nil {
		http.Error(rw, "invalid_payload", http.StatusBadRequest)
		return
	}
	var say reply
	if json.Unmarshal(b, &say) != nil {
		http.Error(rw, "invalid_payload", http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.answers[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]
	var problem *refusal
	switch {
	case u == nil:
		problem = fail("invalid_url")
	case w.o.Now().Sub(u.at) > w.o.Times.Respond:
		problem = fail("expired_url")
	case u.used >= mostAnswers:
		problem = fail("used_url")
	}
	if problem != nil {
		answer(rw, http.StatusNotFound, problem.body())
		return
	}
	u.used++
	if problem = w.reply(u, say); problem != nil {
		w.note(Entry{What: Refused, Method: "response_url", App: u.app.ID, Channel: u.channel, Error: problem.Error(), Body: b})
		answer(rw, http.StatusOK, problem.body())
		return
	}
	w.note(Entry{What: Called, Method: "response_url", App: u.app.ID, Channel: u.channel, TS: u.ts, Body: b})
	_, _ = rw.Write([]byte("ok")) // the caller may be gone
}

// reply does what was said over a response URL. It is ephemeral unless it says otherwise.
func (w *Workspace) reply(u *answerURL, say reply) *refusal {
	ch := w.channels[u.channel]
	m := ch.byTS[u.ts]
	if say.Delete {
		if m == nil {
			return fail("message_not_found")
		}
		w.remove(ch, m, Entry{Method: "response_url", Person: u.app.User})
		return nil
	}
	blocks, err := w.checkBlocks(say.Blocks, false)
	if err != nil {
		return fail(err.Error())
	}
	attachments, err := list(say.Attachments)
	if err != nil {
		return fail("invalid_attachments")
	}
	body := content{text: say.Text, blocks: blocks, attachments: attachments}
	if body.empty() {
		return fail("no_text")
	}
	if say.Replace && m != nil {
		before := *m
		m.Text, m.Blocks, m.Attachments = body.text, body.blocks, body.attachments
		m.Edited = &Edit{User: u.app.User, TS: w.ts()}
		w.noteMessage(Updated, m, Entry{Method: "response_url"})
		if m.To == "" {
			w.changedEvents(ch, m, &before)
		}
		return nil
	}
	if say.Type != "in_channel" {
		thread := ""
		if m != nil {
			thread = m.Thread
		}
		w.whisper(ch, u.app, u.person, thread, body)
		return nil
	}
	thread, err := w.thread(ch, say.Thread)
	if err != nil {
		return fail(err.Error())
	}
	w.post1(ch, &Message{
		Channel: ch.ID, TS: w.ts(), Thread: thread, User: u.app.User, App: u.app.ID, Bot: u.app.Bot,
		Text: body.text, Blocks: body.blocks, Attachments: body.attachments,
	})
	return nil
}

// acted does what an app answered in the acknowledgement of a click or a command.
func (w *Workspace) acted(d *delivery, answer json.RawMessage) {
	if d.view != "" {
		w.submitted(d, answer)
		return
	}
	if d.kind != "slash_commands" {
		return // Slack looks at no answer to other acts
	}
	var say reply
	if json.Unmarshal(answer, &say) != nil {
		_ = json.Unmarshal(answer, &say.Text) // a plain text; anything else shows nothing
	}
	if say.Text == "" && say.Blocks == nil {
		return
	}
	u := &answerURL{app: d.app, channel: d.channel, person: d.person}
	if problem := w.reply(u, say); problem != nil {
		w.note(Entry{What: Ignored, App: d.app.ID, Person: d.person, Delivery: d.envelope, Error: problem.Error()})
	}
}
