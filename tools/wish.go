package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"sort"
	"strings"
	"unicode/utf8"

	"switchboard/config"
	"switchboard/journal"
	"switchboard/llm"
)

// wish is a model's call as far as it could be understood.
type wish struct {
	asked   llm.ToolCall
	call    journal.Call // its record so far
	bound   Bound
	input   Input
	written string         // digest of the call as it was written, why and expects included
	wrong   string         // why it cannot run at all; empty when it can
	facts   map[string]any // what the runtime has read for its rules
	request []byte         // what will be sent, as it is kept in the ledger
}

// understand reads a model's call: is the tool known to this assistant, are the arguments one whole JSON object, do they
// keep the schema? Then it binds the scope. It runs nothing and judges nothing.
func (d *Dispatcher) understand(round, seq int, c llm.ToolCall) wish {
	w := wish{asked: c, call: journal.Call{At: d.o.Now(), Words: journal.Words{ID: c.ID}}}
	w.call.Intent = journal.Intent{Seq: seq, Round: round, Tool: clip(d.mask(c.Name), maxName)}
	w.written = digest(c.Name, c.Args)
	w.call.Digest = w.written

	obj, problem := object(c.Args)
	if obj == nil {
		w.call.Raw = clip(d.mask(c.Args), maxRaw)
	} else {
		w.call.Why, w.call.Expects = d.mask(word(obj, whyArg)), d.mask(word(obj, expectsArg))
	}
	args := without(obj, whyArg, expectsArg)
	switch {
	case obj == nil:
	case strings.TrimSpace(w.call.Why) == "" || strings.TrimSpace(w.call.Expects) == "": // they are what is wrong
		w.written = digest("unexplained", c.Name, string(config.Canonical(obj)))
	default:
		w.written = digest("written", c.Name, string(config.Canonical(args)))
	}
	if obj != nil {
		w.call.Args = []byte(d.o.Record.Mask().JSON(string(config.Canonical(args))))
	}

	bound, known := d.tools[c.Name]
	switch {
	case !known:
		w.wrong = d.unknownTool(c.Name)
		return w
	case problem != "":
		w.wrong = problem
	default:
		if err := bound.Contract.CheckArgs(obj); err != nil {
			w.wrong = d.mask(err.Error())
		}
	}
	w.bound = bound
	w.call.Effect = string(bound.Contract.Effect)
	w.input = Input{Args: args, Bound: d.bind(bound.Contract)}
	w.call.Digest = digest(c.Name, string(config.Canonical(args)), string(config.Canonical(plain(w.input.Bound))))
	if bound.Contract.Effect != config.NoEffect && bound.Contract.Idempotency != nil {
		w.input.Key = d.key(w.call)
		w.call.Key = w.input.Key
	}
	return w
}

// The two arguments that every tool has, and that no tool sees.
const (
	whyArg     = "why"
	expectsArg = "expects"
)

const (
	maxName = 100
	maxRaw  = 2000
)

func (d *Dispatcher) unknownTool(name string) string {
	var names []string
	for _, t := range d.Offered() {
		names = append(names, t.Name)
	}
	sort.Strings(names)
	return fmt.Sprintf("there is no tool %q here; the tools are %s", clip(d.mask(name), maxName), strings.Join(names, ", "))
}

// object reads the arguments. A model that has nothing to say may write nothing at all.
func object(text string) (map[string]any, string) {
	if strings.TrimSpace(text) == "" {
		return map[string]any{}, ""
	}
	v, err := config.DecodeJSON([]byte(text))
	if err != nil {
		return nil, "the arguments are not valid JSON: " + err.Error() + "; write one whole JSON object"
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return nil, "the arguments must be one JSON object"
	}
	return obj, ""
}

func word(obj map[string]any, name string) string {
	s, _ := obj[name].(string)
	return clip(s, maxRaw)
}

func without(obj map[string]any, names ...string) map[string]any {
	out := make(map[string]any, len(obj))
	maps.Copy(out, obj)
	for _, n := range names {
		delete(out, n)
	}
	return out
}

func (d *Dispatcher) bind(t *config.Tool) map[string]string {
	if len(t.Bind) == 0 {
		return nil
	}
	out := make(map[string]string, len(t.Bind))
	for arg, scope := range t.Bind {
		out[arg] = d.o.Asked.Scope[scope]
	}
	return out
}

func plain(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// key names an effect for ever: run, tool, arguments and bound values (rule M3). An effect that may be repeated gets a key
// of its own for every call.
func (d *Dispatcher) key(c journal.Call) string {
	parts := []string{d.o.Record.Turn(), c.Tool, c.Digest}
	if d.tools[c.Tool].Contract.Repeatable {
		parts = append(parts, fmt.Sprint(c.Seq))
	}
	return "sb_" + digest(parts...)
}

// digest is a short name for what the parts say together; the lengths keep the parts apart.
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(p), p) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// clip cuts s to n bytes at a character, and makes it valid UTF-8.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
