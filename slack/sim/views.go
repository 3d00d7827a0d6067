package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"
)

// The limits of views. Slack: https://docs.slack.dev/reference/views
const (
	mostPrivate  = 3000   // private_metadata
	mostLabel    = 24     // title, submit, close
	mostView     = 250000 // bytes
	mostStack    = 3
	viewModal    = "modal"
	viewHome     = "home"
	badArguments = "invalid_arguments"
)

// view is a View at work.
type view struct {
	View
	body   map[string]any
	notify bool // notify_on_close
	root   string
	below  string // the view under it
}

// trigger lets an app open a view: once, and not for long.
// Slack: https://docs.slack.dev/interactivity/handling-user-interaction
type trigger struct {
	app    *app
	person string
	at     time.Time
	used   bool
}

// trigger makes a trigger id.
func (w *Workspace) trigger(a *app, person string) string {
	const many = 1000
	if len(w.triggers) > many {
		maps.DeleteFunc(w.triggers, func(_ string, t *trigger) bool { return w.o.Now().Sub(t.at) > 10*w.o.Times.Trigger })
	}
	id := fmt.Sprintf("%d.%d.%s", w.random()%1e13, w.random()%1e12, w.secret())
	w.triggers[id] = &trigger{app: a, person: person, at: w.o.Now()}
	return id
}

// exchange uses a trigger id up and gives the person.
func (w *Workspace) exchange(c *call) (string, error) {
	t := w.triggers[c.str("trigger_id")]
	switch {
	case t == nil, t.app != c.app:
		return "", fail("invalid_trigger_id")
	case t.used:
		return "", fail("exchanged_trigger_id")
	case w.o.Now().Sub(t.at) > w.o.Times.Trigger:
		return "", fail("expired_trigger_id")
	}
	t.used = true
	return t.person, nil
}

// Views gives the modals that a person has open, the top one last.
func (w *Workspace) Views(person string) []View {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []View
	for _, v := range w.stacks[person] {
		out = append(out, v.View)
	}
	return out
}

// Home gives the Home tab that an app ("" is the first) has published for a person; ok is false where it has not.
func (w *Workspace) Home(appID, person string) (v View, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, err := w.app(appID)
	if err != nil {
		return View{}, false
	}
	if at := w.home(a, person); at != nil {
		return at.View, true
	}
	return View{}, false
}

func (w *Workspace) home(a *app, person string) *view { return w.homes[a.ID+"/"+person] }

// parseView reads a view and refuses what Slack refuses.
func (w *Workspace) parseView(a *app, raw json.RawMessage, kind string) (*view, error) {
	var b map[string]any
	if raw == nil || json.Unmarshal(raw, &b) != nil || b == nil {
		return nil, fail(badArguments, "[ERROR] missing required field: view")
	}
	if len(raw) > mostView {
		return nil, fail("view_too_large")
	}
	c := &checker{view: true, ids: map[string]bool{}}
	if b["type"] != kind {
		c.bad("/view/type", "must be %s", kind)
	}
	text := func(key string) string { s, _ := b[key].(string); return s }
	if kind == viewModal {
		c.text(b["title"], mostLabel, "/view/title")
		c.optional(b["submit"], mostLabel, "/view/submit")
		c.optional(b["close"], mostLabel, "/view/close")
	}
	for key, most := range map[string]int{"private_metadata": mostPrivate, "callback_id": mostID, "external_id": mostID} {
		if utf8.RuneCountInString(text(key)) > most {
			c.bad("/view/"+key, "must be less than %d characters", most+1)
		}
	}
	blocks, err := w.checkBlocks(mustJSON(b["blocks"]), true)
	if err != nil {
		return nil, fail(badArguments, err.Error())
	}
	if b["blocks"] == nil {
		c.bad("/view", "missing required field: blocks")
	}
	for _, raw := range blocks {
		var one map[string]any
		if json.Unmarshal(raw, &one) == nil && one["type"] == "input" && kind == viewModal && b["submit"] == nil {
			c.bad("/view/submit", "a view with inputs needs submit")
		}
	}
	if len(c.errs) > 0 {
		return nil, fail(badArguments, c.errs...)
	}
	b["blocks"] = blocks
	notify, _ := b["notify_on_close"].(bool)
	return &view{
		View: View{
			Kind: kind, App: a.ID, Hash: w.hash(), External: text("external_id"), Callback: text("callback_id"),
			Body: mustJSON(b), State: map[string]json.RawMessage{},
		},
		body: b, notify: notify,
	}, nil
}

// hash names a state of a view.
func (w *Workspace) hash() string { return w.ts() + "." + w.id("")[:8] }

// wireView is a view as Slack gives it out. Slack: https://docs.slack.dev/reference/views
func (w *Workspace) wireView(v *view) map[string]any {
	out := map[string]any{
		"private_metadata": "", "callback_id": "", "external_id": "", "clear_on_close": false, "notify_on_close": false,
		"submit": nil, "close": nil,
	}
	maps.Copy(out, v.body)
	out["id"], out["team_id"], out["hash"], out["app_id"] = v.ID, w.o.Team, v.Hash, v.App
	out["bot_id"] = w.apps[v.App].Bot
	out["root_view_id"], out["previous_view_id"] = v.root, nil
	if v.below != "" {
		out["previous_view_id"] = v.below
	}
	out["state"] = map[string]any{"values": v.State}
	return out
}

// take puts a checked view into the workspace, as a new one.
func (w *Workspace) take(v *view, person string) error {
	if v.External != "" {
		for _, o := range w.views {
			if o.External == v.External && o.App == v.App {
				return fail("duplicate_external_id")
			}
		}
	}
	v.ID, v.Person = w.id("V"), person
	v.root = v.ID
	w.views[v.ID] = v
	return nil
}

func (w *Workspace) noteView(what What, v *view, how string) {
	c := v.View
	w.note(Entry{What: what, Method: how, App: v.App, Person: v.Person, View: &c, Text: viewText(v)})
}

// viewText is what people read in a view.
func viewText(v *view) string {
	var m Message
	raw, _ := v.body["blocks"].([]json.RawMessage)
	m.Blocks = raw
	return m.Visible()
}

// viewsOpen is views.open. Slack: https://docs.slack.dev/reference/methods/views.open
func (w *Workspace) viewsOpen(c *call) (map[string]any, error) {
	raw, err := c.raw("view")
	if err != nil {
		return nil, err
	}
	v, err := w.parseView(c.app, raw, viewModal)
	if err != nil {
		return nil, err
	}
	person, err := w.exchange(c)
	if err != nil {
		return nil, err
	}
	if err := w.take(v, person); err != nil {
		return nil, err
	}
	w.closeAll(person)
	w.stacks[person] = []*view{v}
	w.noteView(ViewOpened, v, "views.open")
	return map[string]any{"view": w.wireView(v)}, nil
}

// viewsPush is views.push. Slack: https://docs.slack.dev/reference/methods/views.push
func (w *Workspace) viewsPush(c *call) (map[string]any, error) {
	raw, err := c.raw("view")
	if err != nil {
		return nil, err
	}
	v, err := w.parseView(c.app, raw, viewModal)
	if err != nil {
		return nil, err
	}
	person, err := w.exchange(c)
	if err != nil {
		return nil, err
	}
	if err := w.push(v, person, "views.push"); err != nil {
		return nil, err
	}
	return map[string]any{"view": w.wireView(v)}, nil
}

// push puts a view on top of those that a person has open.
func (w *Workspace) push(v *view, person, how string) error {
	stack := w.stacks[person]
	switch {
	case len(stack) == 0:
		return fail("not_found")
	case len(stack) >= mostStack:
		return fail("push_limit_reached")
	}
	if err := w.take(v, person); err != nil {
		return err
	}
	v.root, v.below = stack[0].ID, stack[len(stack)-1].ID
	w.stacks[person] = append(stack, v)
	w.noteView(ViewOpened, v, how)
	return nil
}

// viewsUpdate is views.update. Slack: https://docs.slack.dev/reference/methods/views.update
func (w *Workspace) viewsUpdate(c *call) (map[string]any, error) {
	raw, err := c.raw("view")
	if err != nil {
		return nil, err
	}
	old := w.views[c.str("view_id")]
	if ext := c.str("external_id"); ext != "" {
		for _, o := range w.views {
			if o.External == ext && o.App == c.app.ID {
				old = o
			}
		}
	}
	if old == nil || old.App != c.app.ID {
		return nil, fail("not_found")
	}
	v, err := w.parseView(c.app, raw, viewModal)
	if err != nil {
		return nil, err
	}
	if h := c.str("hash"); h != "" && h != old.Hash {
		return nil, fail("hash_conflict")
	}
	w.replaceView(old, v, "views.update")
	return map[string]any{"view": w.wireView(old)}, nil
}

// replaceView gives a view other contents. What was typed into blocks that stay is kept.
func (w *Workspace) replaceView(old, next *view, how string) {
	old.body, old.Body, old.Hash, old.notify, old.Callback = next.body, next.Body, next.Hash, next.notify, next.Callback
	old.Errors = nil
	if next.External != "" {
		old.External = next.External
	}
	w.noteView(ViewOpened, old, how)
}

// viewsPublish is views.publish. Slack: https://docs.slack.dev/reference/methods/views.publish
func (w *Workspace) viewsPublish(c *call) (map[string]any, error) {
	person := c.str("user_id")
	if p := w.people[person]; p == nil || p.Kind == Bot {
		return nil, fail("user_not_found")
	}
	if c.app.NoHome {
		return nil, fail("not_enabled")
	}
	raw, err := c.raw("view")
	if err != nil {
		return nil, err
	}
	v, err := w.parseView(c.app, raw, viewHome)
	if err != nil {
		return nil, err
	}
	old := w.home(c.app, person)
	if h := c.str("hash"); h != "" && (old == nil || h != old.Hash) {
		return nil, fail("hash_conflict")
	}
	if old != nil {
		w.replaceView(old, v, "views.publish")
		return map[string]any{"view": w.wireView(old)}, nil
	}
	if err := w.take(v, person); err != nil {
		return nil, err
	}
	w.homes[c.app.ID+"/"+person] = v
	w.noteView(ViewOpened, v, "views.publish")
	return map[string]any{"view": w.wireView(v)}, nil
}

// Submit is what a person sends off in a modal.
type Submit struct {
	From string `json:"from"`
	View string `json:"view"` // id
	// Values are block id -> action id -> value. A text stands for what such an element would say; anything else is sent as
	// it is. Slack: https://docs.slack.dev/reference/interaction-payloads/view-interactions-payload
	Values map[string]map[string]json.RawMessage `json:"values,omitempty"`
}

// SubmitView submits the modal on top and gives the id of the delivery. What the app answers decides what becomes of it.
func (w *Workspace) SubmitView(s Submit) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, v, err := w.topView(s.From, s.View)
	if err != nil {
		return "", err
	}
	for block, actions := range s.Values {
		w.fill(v, block, actions)
	}
	v.Errors = nil
	a := w.apps[v.App]
	body := w.interaction("view_submission", a, p)
	body["view"] = w.wireView(v)
	body["response_urls"] = []any{}
	w.note(Entry{What: Clicked, Method: "view_submission", App: a.ID, Person: p.ID, Body: mustJSON(s)})
	return w.send(a, &delivery{kind: "interactive", body: mustJSON(body), answers: true, person: p.ID, view: v.ID}), nil
}

// topView gives the modal that a person sees.
func (w *Workspace) topView(from, id string) (*Person, *view, error) {
	p, err := w.person(from)
	if err != nil {
		return nil, nil, err
	}
	stack := w.stacks[from]
	if len(stack) == 0 || stack[len(stack)-1].ID != id {
		return nil, nil, fmt.Errorf("find view %q on top of what %s has open: %w", id, from, errAbsent)
	}
	return p, stack[len(stack)-1], nil
}

// fill keeps what a person has put into a block.
func (w *Workspace) fill(v *view, block string, actions map[string]json.RawMessage) {
	out := map[string]any{}
	for id, raw := range actions {
		var s string
		if json.Unmarshal(raw, &s) != nil {
			out[id] = raw
			continue
		}
		kind := "plain_text_input"
		if e := inputOf(v, block); e != nil {
			kind, _ = e["type"].(string)
			if a := actionOf(e, s); a != nil {
				a["type"] = kind
				delete(a, "text")
				out[id] = a
				continue
			}
		}
		out[id] = map[string]any{"type": kind, "value": s}
	}
	v.State = maps.Clone(v.State) // the log and answers that are being written hold the old one
	v.State[block] = mustJSON(out)
}

// inputOf gives the element of an input block.
func inputOf(v *view, block string) map[string]any {
	raw, _ := v.body["blocks"].([]json.RawMessage)
	for _, r := range raw {
		var b map[string]any
		if json.Unmarshal(r, &b) == nil && b["type"] == "input" && b["block_id"] == block {
			e, _ := b["element"].(map[string]any)
			return e
		}
	}
	return nil
}

// clickView is a click in a view.
func (w *Workspace) clickView(k Click, p *Person) (string, error) {
	v := w.views[k.View]
	if v == nil || v.Person != k.From {
		return "", fmt.Errorf("find view %q of %s: %w", k.View, k.From, errAbsent)
	}
	raw, _ := v.body["blocks"].([]json.RawMessage)
	action := findAction(raw, k.Action, k.Value)
	if action == nil {
		return "", fmt.Errorf("find action %q with value %q in view %s: %w", k.Action, k.Value, k.View, errAbsent)
	}
	action["action_ts"] = w.ts()
	a := w.apps[v.App]
	body := w.interaction("block_actions", a, p)
	body["container"] = map[string]any{"type": "view", "view_id": v.ID}
	body["view"] = w.wireView(v)
	body["actions"] = []any{action}
	w.note(Entry{What: Clicked, Method: "block_actions", App: a.ID, Person: p.ID, Body: mustJSON(action)})
	return w.interactive(a, body), nil
}

// CloseView closes the modal on top. The app is told only if it asked for it.
// Slack: https://docs.slack.dev/reference/interaction-payloads/view-interactions-payload
func (w *Workspace) CloseView(from, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, v, err := w.topView(from, id)
	if err != nil {
		return err
	}
	w.drop(v, "closed")
	if v.notify {
		a := w.apps[v.App]
		body := w.interaction("view_closed", a, p)
		delete(body, "trigger_id")
		body["view"], body["is_cleared"] = w.wireView(v), false
		w.interactive(a, body)
	}
	return nil
}

// drop takes a view off its stack.
func (w *Workspace) drop(v *view, how string) {
	w.stacks[v.Person] = slices.DeleteFunc(slices.Clone(w.stacks[v.Person]), func(o *view) bool { return o == v })
	delete(w.views, v.ID)
	w.noteView(ViewClosed, v, how)
}

func (w *Workspace) closeAll(person string) {
	for _, v := range slices.Backward(w.stacks[person]) {
		w.drop(v, "replaced")
	}
}

// submitted does what an app answered to a submission.
func (w *Workspace) submitted(d *delivery, answer json.RawMessage) {
	v := w.views[d.view]
	if v == nil {
		return
	}
	var a struct {
		Action string            `json:"response_action"`
		Errors map[string]string `json:"errors"`
		View   json.RawMessage   `json:"view"`
	}
	_ = json.Unmarshal(answer, &a) // anything else counts as empty
	var err error
	switch a.Action {
	case "":
		w.drop(v, "submitted")
	case "clear":
		w.closeAll(d.person)
	case "errors":
		for block := range a.Errors {
			if inputOf(v, block) == nil {
				err = fail("invalid_response", "errors name "+block+", which is no input block")
			}
		}
		if err == nil {
			v.Errors = a.Errors
			w.noteView(ViewOpened, v, "errors")
		}
	case "update", "push":
		var next *view
		if next, err = w.parseView(d.app, a.View, viewModal); err == nil && a.Action == "update" {
			w.replaceView(v, next, "update")
		} else if err == nil {
			err = w.push(next, d.person, "push")
		}
	default:
		err = fail("invalid_response", "response_action "+a.Action)
	}
	if err != nil {
		w.note(Entry{What: Ignored, App: d.app.ID, Person: d.person, Delivery: d.envelope, Error: err.Error()})
	}
}
