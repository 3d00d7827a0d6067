package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Schema is a compiled JSON Schema (2020-12, formats asserted, no references out of the document).
type Schema struct {
	doc any
	raw json.RawMessage
	s   *jsonschema.Schema
}

// Schemas compiles schemas, each text once. It is safe for use by many goroutines at once.
type Schemas struct{ done sync.Map }

// Compile gives the schema of a document, as CompileSchema does. Documents that are equal share one.
func (s *Schemas) Compile(doc any) (*Schema, error) {
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	if v, ok := s.done.Load(string(raw)); ok {
		if known, ok := v.(*Schema); ok {
			return known, nil
		}
	}
	made, err := CompileSchema(doc)
	if err == nil {
		s.done.Store(string(raw), made)
	}
	return made, err
}

// CompileSchema compiles a schema from its JSON form as plain Go values.
func CompileSchema(doc any) (*Schema, error) {
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(nowhere{})
	if err := c.AddResource("schema.json", doc); err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	return &Schema{doc: doc, raw: raw, s: s}, nil
}

// nowhere refuses references to files and addresses.
type nowhere struct{}

func (nowhere) Load(string) (any, error) {
	return nil, errors.New("a schema cannot refer to another document")
}

// JSON is the schema's text, keys sorted.
func (s *Schema) JSON() json.RawMessage { return slices.Clone(s.raw) }

// Type is what expressions know of values that pass.
func (s *Schema) Type() *Type { return FromSchema(s.doc) }

// MismatchError is where a value breaks its schema, and how. It never holds the value.
type MismatchError struct {
	Path    string // e.g. rows[2].id; "" is the value itself
	Msg     string
	Unknown []string // properties that the schema does not have
}

// Error gives the path and the message.
func (m *MismatchError) Error() string {
	if m.Path == "" {
		return m.Msg
	}
	return m.Path + ": " + m.Msg
}

// Check validates a value of plain JSON types. The error is a *MismatchError for the first break, unknown names first.
func (s *Schema) Check(v any) error {
	err := s.s.Validate(v)
	if err == nil {
		return nil
	}
	var bad *jsonschema.ValidationError
	if !errors.As(err, &bad) {
		return &MismatchError{Msg: "the value cannot be checked"}
	}
	all := leaves(bad, nil)
	slices.SortFunc(all, func(a, b *MismatchError) int {
		if (len(a.Unknown) > 0) != (len(b.Unknown) > 0) {
			if len(a.Unknown) > 0 {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Path+"\x00"+a.Msg, b.Path+"\x00"+b.Msg)
	})
	return all[0]
}

func leaves(e *jsonschema.ValidationError, out []*MismatchError) []*MismatchError {
	if len(e.Causes) == 0 {
		return append(out, mismatch(e))
	}
	for _, c := range e.Causes {
		out = leaves(c, out)
	}
	return out
}

func mismatch(e *jsonschema.ValidationError) *MismatchError {
	m := &MismatchError{Path: dotted(e.InstanceLocation)}
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		names := slices.Sorted(slices.Values(k.Properties))
		m.Msg, m.Unknown = "unknown: "+strings.Join(names, ", "), names
	case *kind.Required:
		names := slices.Sorted(slices.Values(k.Missing))
		m.Msg = strings.Join(names, ", ") + " is missing"
		if len(names) > 1 {
			m.Msg = strings.Join(names, ", ") + " are missing"
		}
	case *kind.Type:
		m.Msg = "expected " + strings.Join(k.Want, " or ") + ", found " + k.Got
	case *kind.Enum:
		var want []string
		for _, w := range k.Want {
			b, _ := json.Marshal(w)
			want = append(want, string(b))
		}
		m.Msg = "expected one of " + strings.Join(want, ", ")
	case *kind.Pattern:
		m.Msg = "expected text that matches " + k.Want
	case *kind.Format:
		m.Msg = "expected text of the form " + k.Want
	default:
		m.Msg = bounds(e.ErrorKind)
	}
	return m
}

// bounds words a value that is too short, too large, or the like. It never says what the value is.
func bounds(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.MinLength:
		if k.Want == 1 {
			return "must not be empty"
		}
		return fmt.Sprintf("must have at least %d characters", k.Want)
	case *kind.MaxLength:
		return "must have at most " + count(k.Want, "character")
	case *kind.MinItems:
		return "must have at least " + count(k.Want, "item")
	case *kind.MaxItems:
		return "must have at most " + count(k.Want, "item")
	case *kind.UniqueItems:
		return "must not have an item twice"
	case *kind.Minimum:
		return "must be at least " + digits(k.Want)
	case *kind.Maximum:
		return "must be at most " + digits(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be above " + digits(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be below " + digits(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + digits(k.Want)
	default: // keywords that packs do not have
		return "breaks " + strings.Join(k.KeywordPath(), " ")
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// digits writes a number as people do.
func digits(r *big.Rat) string {
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// dotted writes a location as people do: rows[2].id.
func dotted(loc []string) string {
	var b strings.Builder
	for _, p := range loc {
		if strings.Trim(p, "0123456789") == "" && p != "" && b.Len() > 0 {
			b.WriteString("[" + p + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(p)
	}
	return b.String()
}
