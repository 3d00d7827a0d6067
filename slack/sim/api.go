package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// call is one call of a method of the Web API.
type call struct {
	app    *app
	args   map[string]any // texts from forms, any JSON value from a JSON body
	r      *http.Request
	header bool // the token came in the header
	warn   []string
}

// method is what a method of the Web API asks for, and does.
type method struct {
	do     func(*Workspace, *call) (map[string]any, error)
	scope  string // "" is none; with | one of several is enough
	tier   int    // calls a minute
	level  bool   // needs the app-level token
	post   bool   // counts as a message in its channel
	header bool   // takes the token from the header only
}

// refusal is an answer that is not ok. It is not an accident: Slack says it with status 200.
type refusal struct {
	name     string
	messages []string // response_metadata.messages
	more     map[string]any
}

func (r *refusal) Error() string {
	return strings.Join(append([]string{r.name}, r.messages...), "; ")
}

// fail makes a refusal with Slack's name for it.
func fail(name string, messages ...string) *refusal { return &refusal{name: name, messages: messages} }

func (r *refusal) body() map[string]any {
	out := map[string]any{"ok": false, "error": r.name}
	if len(r.messages) > 0 {
		out["response_metadata"] = map[string]any{"messages": r.messages}
	}
	maps.Copy(out, r.more)
	return out
}

// methods are all that this workspace can do. A tier is the one that the method's page names, an entry without one has
// "special" limits. Slack: https://docs.slack.dev/reference/methods
func methods() map[string]method {
	reading := "channels:read|groups:read|im:read|mpim:read"
	past := "channels:history|groups:history|im:history|mpim:history"
	return map[string]method{
		"apps.connections.open":                 {do: (*Workspace).connectionsOpen, tier: tier3, level: true, header: true},
		"auth.test":                             {do: (*Workspace).authTest, tier: severalHundred},
		"api.test":                              {do: (*Workspace).apiTest, tier: tier4},
		"team.info":                             {do: (*Workspace).teamInfo, tier: tier3, scope: "team:read"},
		"bots.info":                             {do: (*Workspace).botsInfo, tier: tier3, scope: "users:read"},
		"users.info":                            {do: (*Workspace).usersInfo, tier: tier4, scope: "users:read"},
		"users.list":                            {do: (*Workspace).usersList, tier: tier2, scope: "users:read"},
		"users.conversations":                   {do: (*Workspace).usersConversations, tier: tier3, scope: reading},
		"usergroups.list":                       {do: (*Workspace).groupsList, tier: tier2, scope: "usergroups:read"},
		"usergroups.users.list":                 {do: (*Workspace).groupUsers, tier: tier2, scope: "usergroups:read"},
		"conversations.info":                    {do: (*Workspace).conversationsInfo, tier: tier3, scope: reading},
		"conversations.list":                    {do: (*Workspace).conversationsList, tier: tier2, scope: reading},
		"conversations.members":                 {do: (*Workspace).conversationsMembers, tier: tier4, scope: reading},
		"conversations.history":                 {do: (*Workspace).conversationsHistory, tier: tier3, scope: past},
		"conversations.replies":                 {do: (*Workspace).conversationsReplies, tier: tier3, scope: past},
		"conversations.open":                    {do: (*Workspace).conversationsOpen, tier: tier3, scope: "im:write|mpim:write"},
		"conversations.join":                    {do: (*Workspace).conversationsJoin, tier: tier3, scope: "channels:join"},
		"chat.postMessage":                      {do: (*Workspace).postMessage, tier: severalHundred, scope: "chat:write", post: true},
		"chat.update":                           {do: (*Workspace).updateMessage, tier: tier3, scope: "chat:write"},
		"chat.delete":                           {do: (*Workspace).deleteMessage, tier: tier3, scope: "chat:write"},
		"chat.postEphemeral":                    {do: (*Workspace).postEphemeral, tier: tier4, scope: "chat:write"},
		"chat.getPermalink":                     {do: (*Workspace).getPermalink, tier: severalHundred},
		"chat.startStream":                      {do: (*Workspace).startStream, tier: tier2, scope: "chat:write", post: true},
		"chat.appendStream":                     {do: (*Workspace).appendStream, tier: tier4, scope: "chat:write"},
		"chat.stopStream":                       {do: (*Workspace).stopStream, tier: tier2, scope: "chat:write"},
		"agents.sessions.setStatus":             {do: (*Workspace).sessionStatus, tier: tier4, scope: "chat:write"},
		"agents.sessions.rename":                {do: (*Workspace).sessionRename, tier: tier4, scope: "chat:write"},
		"assistant.threads.setStatus":           {do: (*Workspace).threadStatus, tier: severalHundred, scope: "chat:write|assistant:write"},
		"assistant.threads.setTitle":            {do: (*Workspace).threadTitle, tier: tier4, scope: "assistant:write"},
		"assistant.threads.setSuggestedPrompts": {do: (*Workspace).threadPrompts, tier: tier4, scope: "assistant:write"},
		"views.open":                            {do: (*Workspace).viewsOpen, tier: tier4},
		"views.push":                            {do: (*Workspace).viewsPush, tier: tier4},
		"views.update":                          {do: (*Workspace).viewsUpdate, tier: tier4},
		"views.publish":                         {do: (*Workspace).viewsPublish, tier: tier4},
		"reactions.add":                         {do: (*Workspace).reactionsAdd, tier: tier3, scope: "reactions:write"},
		"files.info":                            {do: (*Workspace).filesInfo, tier: tier4, scope: "files:read"},
		"files.getUploadURLExternal":            {do: (*Workspace).uploadURL, tier: tier4, scope: "files:write"},
		"files.completeUploadExternal":          {do: (*Workspace).completeUpload, tier: tier4, scope: "files:write"},
	}
}

// api answers a call: its token, its scope, its limits, the faults that were asked for, and then the method itself.
func (w *Workspace) api(table map[string]method, rw http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/api/")
	c := &call{r: r}
	token, err := c.read(rw)
	if err != nil {
		answer(rw, http.StatusOK, fail("invalid_form_data", err.Error()).body())
		return
	}
	m, known := table[name]
	if !known {
		w.refuse(rw, name, c, fail("unknown_method"))
		return
	}
	f, refused := w.entry(name, m, c, token, rw)
	if f != nil {
		w.logCall(Broken, name, c, string(f.Do))
		if !w.before(rw, r, f) {
			return
		}
	}
	if refused != nil {
		w.refuse(rw, name, c, refused)
		return
	}
	w.mu.Lock()
	out, err := m.do(w, c)
	var body json.RawMessage
	if err == nil {
		body = c.finish(out) // here, since it may hold what changes
		w.noteCall(Called, name, c, "")
	}
	w.mu.Unlock()
	if f != nil && !w.after(rw, r, f) {
		return
	}
	if err != nil {
		var ref *refusal
		if !errors.As(err, &ref) {
			ref = fail("internal_error", err.Error())
		}
		w.refuse(rw, name, c, ref)
		return
	}
	answer(rw, http.StatusOK, body)
}

// finish makes the answer to a call that went well.
func (c *call) finish(out map[string]any) json.RawMessage {
	if out == nil {
		out = map[string]any{}
	}
	out["ok"] = true
	if len(c.warn) > 0 {
		out["warning"] = strings.Join(c.warn, ",")
		meta, _ := out["response_metadata"].(map[string]any)
		if meta == nil {
			meta = map[string]any{}
		}
		meta["warnings"] = c.warn
		out["response_metadata"] = meta
	}
	return mustJSON(out)
}

// entry finds the app, takes the fault that the call runs into, and looks whether the call may be made.
func (w *Workspace) entry(name string, m method, c *call, token string, rw http.ResponseWriter) (*fault, *refusal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	level := false
	for _, a := range w.each("") {
		switch token {
		case "":
		case a.BotToken:
			c.app = a
		case a.AppToken:
			c.app, level = a, true
		}
	}
	id := ""
	if c.app != nil {
		id = c.app.ID
		rw.Header().Set("X-OAuth-Scopes", strings.Join(c.app.Scopes, ","))
		if level {
			rw.Header().Set("X-OAuth-Scopes", "connections:write")
		}
	}
	f := w.strike(name, id)
	switch {
	case token == "", m.header && !c.header:
		return f, fail("not_authed")
	case c.app == nil:
		return f, fail("invalid_auth")
	case m.level != level && name != "auth.test":
		return f, fail("not_allowed_token_type")
	}
	if m.scope != "" && !slices.ContainsFunc(strings.Split(m.scope, "|"), c.app.may) {
		return f, w.missing(c.app, strings.ReplaceAll(m.scope, "|", ","))
	}
	if f == nil {
		if wait := w.admit(id, name, m, c.str("channel")); wait > 0 {
			f = &fault{Fault: Fault{Do: Limited, Retry: wait}}
		}
	}
	return f, nil
}

// missing says which scope a call needs. Slack: https://docs.slack.dev/authentication/installing-with-oauth
func (w *Workspace) missing(a *app, needed string) *refusal {
	r := fail("missing_scope")
	r.more = map[string]any{"needed": needed, "provided": strings.Join(a.Scopes, ",")}
	return r
}

// refuse answers with a refusal, and writes it down.
func (w *Workspace) refuse(rw http.ResponseWriter, name string, c *call, ref *refusal) {
	w.logCall(Refused, name, c, ref.Error())
	answer(rw, http.StatusOK, ref.body())
}

func (w *Workspace) logCall(what What, name string, c *call, problem string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteCall(what, name, c, problem)
}

func (w *Workspace) noteCall(what What, name string, c *call, problem string) {
	e := Entry{What: what, Method: name, Error: problem, Body: mustJSON(c.args), Channel: c.str("channel"), TS: c.str("ts"), Thread: c.str("thread_ts")}
	if e.Channel == "" {
		e.Channel = c.str("channel_id")
	}
	if c.app != nil {
		e.App = c.app.ID
	}
	w.note(e)
}

// answer writes JSON.
func answer(rw http.ResponseWriter, status int, body any) {
	rw.Header().Set("Content-Type", "application/json; charset=utf-8")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(body) // the caller may be gone
}

// mostBody is what a request may weigh; far above all that Slack takes.
const mostBody = 4 << 20

// read takes the arguments out of a form, a multipart form, JSON or the query, and the token out of the header or the
// arguments; it is kept nowhere. Slack: https://docs.slack.dev/apis/web-api
func (c *call) read(rw http.ResponseWriter) (token string, err error) {
	c.args = map[string]any{}
	c.r.Body = http.MaxBytesReader(rw, c.r.Body, mostBody)
	kind, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type")) // what cannot be read is no JSON
	if kind == "application/json" {
		b, err := io.ReadAll(c.r.Body)
		if err != nil {
			return "", fmt.Errorf("read body: %w", err)
		}
		if len(bytes.TrimSpace(b)) > 0 {
			d := json.NewDecoder(bytes.NewReader(b))
			d.UseNumber()
			if err := d.Decode(&c.args); err != nil {
				return "", fmt.Errorf("read JSON: %w", err)
			}
		}
	} else {
		if err := c.r.ParseMultipartForm(mostBody); err != nil && !errors.Is(err, http.ErrNotMultipart) {
			return "", fmt.Errorf("read form: %w", err)
		}
	}
	for k, v := range c.r.Form {
		c.args[k] = v[0]
	}
	if kind == "application/json" {
		for k, v := range c.r.URL.Query() {
			if _, set := c.args[k]; !set {
				c.args[k] = v[0]
			}
		}
	}
	token, _ = c.args["token"].(string)
	delete(c.args, "token")
	if h, ok := strings.CutPrefix(c.r.Header.Get("Authorization"), "Bearer "); ok {
		token, c.header = h, true
	}
	return strings.TrimSpace(token), nil
}

// str gives a text, also of a number.
func (c *call) str(name string) string {
	switch v := c.args[name].(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	default:
		return ""
	}
}

// has says whether an argument was given, be it empty.
func (c *call) has(name string) bool {
	v, ok := c.args[name]
	return ok && v != nil
}

// raw gives a structure: forms carry it as a JSON text. An empty text is none.
func (c *call) raw(name string) (json.RawMessage, error) {
	v := c.args[name]
	s, isText := v.(string)
	switch {
	case v == nil || isText && strings.TrimSpace(s) == "":
		return nil, nil
	case !isText:
		return mustJSON(v), nil
	case !json.Valid([]byte(s)):
		return nil, fail("invalid_arguments", "[ERROR] "+name+" is not valid JSON")
	}
	return json.RawMessage(s), nil
}

// truth gives a yes or no; nil where it was not said.
func (c *call) truth(name string) *bool {
	switch v := c.args[name].(type) {
	case bool:
		return &v
	case string:
		b := v == "true" || v == "1"
		return &b
	}
	return nil
}

// yes is truth where not saying means no.
func (c *call) yes(name string) bool {
	b := c.truth(name)
	return b != nil && *b
}

// number gives a whole number, or what is meant by none.
func (c *call) number(name string, otherwise int) int {
	n, err := strconv.Atoi(c.str(name))
	if err != nil {
		return otherwise
	}
	return n
}
