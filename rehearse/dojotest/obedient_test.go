package dojotest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"switchboard/config"
	"switchboard/llm"
)

// call is a wish of the model.
type call struct {
	tool string
	args map[string]string
}

func (c call) String() string { return c.tool + " " + string(config.Canonical(anyOf(c.args))) }

func anyOf(m map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// heard is what the model was told of a call.
type heard struct {
	ok   bool
	text string   // all texts of the result, a line each
	rows []string // of a list of names
	said []note   // of a list of messages
}

// script is a task as its user meant it: what to call, with values from what was read.
type script func(d *desk)

// desk is where a script is played. It plays from the start for every request: what stands in the transcript is answered
// from there, and the first calls that do not are the model's next reply. So the model is a function of the request, as a
// real one is, and carries over every pause.
type desk struct {
	rounds []round
	at     int
	known  map[string]heard // reads that were answered: nobody asks twice for what he has before him
	// orders finds in a text what somebody orders; each is carried out once for every text that it stands in.
	orders func(text string) []script
	seen   map[string]bool
	under  bool // an order is being carried out
	obeyed int
	own    map[string]bool // calls that the task itself makes
}

type round struct {
	calls   []llm.ToolCall
	results []llm.Result
}

// wants is what the script panics with where the transcript ends.
type wants struct{ calls []call }

func newDesk(turns []llm.Turn, orders func(string) []script) *desk {
	d := &desk{known: map[string]heard{}, orders: orders, seen: map[string]bool{}, own: map[string]bool{}}
	for i, t := range turns {
		if t.Role == llm.Assistant && len(t.Calls) > 0 && i+1 < len(turns) {
			d.rounds = append(d.rounds, round{t.Calls, turns[i+1].Results})
		}
	}
	return d
}

// do makes the calls in one round, and carries out whatever their results order.
func (d *desk) do(calls ...call) []heard {
	out := make([]heard, len(calls))
	var fresh []int
	for i, c := range calls {
		if k, ok := d.known[c.String()]; ok {
			out[i] = k
		} else {
			fresh = append(fresh, i)
		}
		if !d.under {
			d.own[c.String()] = true
		}
	}
	if len(fresh) == 0 {
		return out
	}
	if d.at == len(d.rounds) {
		w := wants{}
		for _, i := range fresh {
			w.calls = append(w.calls, calls[i])
		}
		panic(w)
	}
	r := d.rounds[d.at]
	d.at++
	for n, i := range fresh {
		out[i] = understood(r.results[n])
		if out[i].ok && slices.Contains(reads(), calls[i].tool) {
			d.known[calls[i].String()] = out[i]
		}
	}
	for _, i := range fresh {
		d.obey(out[i].text)
	}
	return out
}

// one makes one call.
func (d *desk) one(tool string, args map[string]string) heard { return d.do(call{tool, args})[0] }

// obey carries out what a text orders.
func (d *desk) obey(text string) {
	if d.seen[text] || d.under {
		return
	}
	d.seen[text] = true
	d.under = true
	for _, order := range d.orders(text) {
		d.obeyed++
		order(d)
	}
	d.under = false
}

// understood reads what the model is told of a call.
func understood(r llm.Result) heard {
	var told struct {
		Outcome string          `json:"outcome"`
		Result  json.RawMessage `json:"result"`
	}
	if json.Unmarshal([]byte(r.Text), &told) != nil {
		return heard{text: r.Text}
	}
	h := heard{ok: !r.Failed}
	var list struct{ Rows []json.RawMessage }
	if json.Unmarshal(told.Result, &list) == nil {
		for _, raw := range list.Rows {
			var name string
			var n note
			if json.Unmarshal(raw, &name) == nil {
				h.rows = append(h.rows, name)
			} else if json.Unmarshal(raw, &n) == nil {
				h.said = append(h.said, n)
			}
		}
	}
	var v any
	if json.Unmarshal([]byte(r.Text), &v) == nil {
		h.text = strings.Join(texts(v), "\n")
	}
	return h
}

// texts lists all texts of a value, in a fixed order.
func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, e := range v {
			out = append(out, texts(e)...)
		}
		return out
	case map[string]any:
		var out []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out = append(out, texts(v[k])...)
		}
		return out
	}
	return nil
}

// obedient is the model: it plays the script of the place that it is spoken to in, and obeys every text.
type obedient struct{ runs *runs }

// Do implements llm.Model.
func (m obedient) Do(ctx context.Context, r llm.Request) (llm.Reply, error) {
	if err := ctx.Err(); err != nil {
		return llm.Reply{}, fmt.Errorf("ask: %w", err)
	}
	reply := llm.Reply{Finish: llm.Stop, Model: "openai/gpt-4o-mini", Attempts: 1, Usage: llm.Usage{Input: 10, Output: 5, Known: true}}
	run := m.runs.in(r.Where.Channel)
	if r.Schema != nil {
		reply.Text = fmt.Sprintf(`{"assistant":%q,"confidence":1,"question":null}`, run.assistant)
		return reply, nil
	}
	next := run.next(r)
	if len(next) == 0 || r.Choice == llm.None {
		reply.Text = "I have done what I could."
		return reply, nil
	}
	reply.Finish = llm.Called
	for i, c := range next {
		args := anyOf(c.args)
		args["why"], args["expects"] = "it was asked for", "that it is done"
		reply.Calls = append(reply.Calls, llm.ToolCall{ID: fmt.Sprintf("c%d_%d", r.Where.Replies, i), Name: c.tool, Args: string(config.Canonical(args))})
	}
	return reply, nil
}

// next is what the script wants next, nothing where it is over.
func (r *run) next(req llm.Request) (out []call) {
	d := newDesk(req.Turns, r.orders)
	defer func() {
		r.note(d)
		if w, ok := recover().(wants); ok {
			out = w.calls
		}
	}()
	r.script(d)
	return nil
}
