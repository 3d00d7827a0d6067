package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"switchboard/config/expr"
)

// mostMessage is how long an error about arguments or results gets, in characters.
const mostMessage = 200

// failure is what a text result that means failure looks like, unless the contract says.
var failure = regexp.MustCompile(`(?i)^\s*error:|not found|not implemented`)

// docs are the parts of a contract's schemas, as plain JSON.
type docs struct {
	args     map[string]any // the schema of all arguments
	shown    map[string]any // the properties that a model sees
	optional []string       // those of them that may be absent
	result   map[string]any // the schema of the result; nil: anything
}

// compile builds the schemas of a contract.
func (t *Tool) compile(c *expr.Schemas, d docs) error {
	t.allowed = sortedKeys(d.shown)
	with := maps.Clone(d.shown)
	with["why"] = reason("Why this call is needed now, in one sentence.")
	with["expects"] = reason("What the result should look like if all is well, in one sentence.")
	var err [3]error
	t.args, err[0] = json.Marshal(d.args)
	t.shown, err[1] = c.Compile(objectDoc(with, d.optional, true))
	if d.result != nil {
		t.result, err[2] = c.Compile(d.result)
	}
	if err := errors.Join(err[:]...); err != nil {
		return err
	}
	t.Shown = t.shown.JSON()
	if t.failsText == nil {
		t.failsText = failure
	}
	return nil
}

func reason(about string) map[string]any {
	return map[string]any{"type": "string", "minLength": int64(1), "maxLength": int64(500), "description": about}
}

// CheckArgs holds what a model gave against the schema that it was shown: no unknown names, none missing, why and expects
// not blank. The error is a sentence for the model that never holds a value.
func (t *Tool) CheckArgs(obj map[string]any) error {
	if obj == nil {
		return errors.New("the arguments must be one JSON object")
	}
	if err := t.shown.Check(obj); err != nil {
		return t.argError(err)
	}
	for _, name := range []string{"why", "expects"} {
		if s, _ := obj[name].(string); strings.TrimSpace(s) == "" {
			return fmt.Errorf("argument %s: expected a sentence, found blanks", name)
		}
	}
	return nil
}

func (t *Tool) argError(err error) error {
	var m *expr.MismatchError
	if !errors.As(err, &m) {
		return errors.New("the arguments do not fit the schema")
	}
	if len(m.Unknown) > 0 && m.Path == "" {
		all := append(slices.Clone(t.allowed), "why", "expects")
		msg := fmt.Sprintf("unknown argument %q; allowed: %s", clip(m.Unknown[0]), strings.Join(all, ", "))
		if near := expr.Near(m.Unknown[0], all); near != "" {
			msg = fmt.Sprintf("unknown argument %q, did you mean %q? Allowed: %s", clip(m.Unknown[0]), near, strings.Join(all, ", "))
		}
		return errors.New(cut(msg))
	}
	if m.Path == "" {
		return errors.New(cut("arguments: " + m.Msg))
	}
	return errors.New(cut("argument " + m.Error()))
}

// cut shortens a message to what is shown of it.
func cut(s string) string {
	if r := []rune(s); len(r) > mostMessage {
		return string(r[:mostMessage-1]) + "…"
	}
	return s
}

// CheckResult holds a result against the contract; nil where the contract does not say. The error names the field first, in
// at most 200 characters, and never holds a value.
func (t *Tool) CheckResult(v any) error {
	if t.result == nil {
		return nil
	}
	err := t.result.Check(v)
	if err == nil {
		return nil
	}
	var m *expr.MismatchError
	if errors.As(err, &m) && m.Path != "" {
		return errors.New(cut("at " + m.Error()))
	}
	return errors.New(cut(err.Error()))
}

// Project takes the result out of a response: the contract's `take`, or the body as it is.
func (t *Tool) Project(body any, status int) (any, error) {
	if t.take == nil {
		return body, nil
	}
	v, err := t.take.Eval(map[string]any{"body": body, "status": int64(status)})
	if err != nil {
		return nil, fmt.Errorf("take the result of %s out of its response: %w", t.Name, err)
	}
	return v, nil
}

// Fails says whether a result that arrived well reports a failure: by the contract's condition, or, when it is text, by the
// contract's pattern. An error means that the condition could not be evaluated.
func (t *Tool) Fails(result any) (bool, error) {
	if t.failsWhen != nil {
		fails, err := t.failsWhen.Holds(map[string]any{"result": result})
		if err != nil {
			return false, fmt.Errorf("look for failure in the result of %s: %w", t.Name, err)
		}
		if fails {
			return true, nil
		}
	}
	s, ok := result.(string)
	return ok && t.failsText.MatchString(s), nil
}

// ArgsSchema is the schema of all arguments, the bound ones included; why and expects are not in it. It is for people who
// run the bot, never for a model.
func (t *Tool) ArgsSchema() json.RawMessage { return slices.Clone(t.args) }

// ResultSchema is the schema of the result; nil when the contract does not say.
func (t *Tool) ResultSchema() json.RawMessage {
	if t.result == nil {
		return nil
	}
	return t.result.JSON()
}

// ResultType is what expressions know of the result.
func (t *Tool) ResultType() *expr.Type {
	if t.result == nil {
		return expr.Dyn()
	}
	return t.result.Type()
}

// sortedKeys lists the keys of an object in order.
func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
