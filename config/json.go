package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep lists and objects may be nested in JSON that comes from outside.
const maxDepth = 64

// DecodeJSON reads exactly one JSON value: whole numbers become int64, others float64, objects map[string]any, lists []any.
//
// It refuses what two readers could understand differently: invalid UTF-8, an object with the same key twice, anything
// after the value, numbers beyond float64, whole numbers beyond int64 (they would lose digits), and nesting deeper than 64.
func DecodeJSON(data []byte) (any, error) { return decodeJSON(data, false) }

// reader reads one JSON value.
type reader struct {
	*json.Decoder
	loose bool // whole numbers beyond int64 become float64
}

func decodeJSON(data []byte, loose bool) (any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("decode JSON: the text is not valid UTF-8")
	}
	dec := &reader{json.NewDecoder(bytes.NewReader(data)), loose}
	dec.UseNumber()
	v, err := dec.value(0)
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the text ends too early")
		}
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode JSON: there is more text after the value")
	}
	return v, nil
}

func (dec *reader) value(depth int) (any, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := tok.(type) {
	case json.Number:
		return decodeNumber(t.String(), dec.loose)
	case json.Delim:
		if depth == maxDepth {
			return nil, fmt.Errorf("nested deeper than %d", maxDepth)
		}
		if t == '[' {
			return dec.list(depth + 1)
		}
		return dec.object(depth + 1)
	default:
		return tok, nil
	}
}

func (dec *reader) list(depth int) (any, error) {
	list := []any{}
	for dec.More() {
		v, err := dec.value(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := dec.Token()
	return list, err
}

func (dec *reader) object(depth int) (any, error) {
	obj := map[string]any{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, _ := tok.(string) // the decoder lets only strings stand here
		if _, dup := obj[key]; dup {
			return nil, fmt.Errorf("key %q stands twice in one object", key)
		}
		if obj[key], err = dec.value(depth); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token()
	return obj, err
}

func decodeNumber(s string, loose bool) (any, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	if !loose && !strings.ContainsAny(s, ".eE") {
		return nil, errors.New("a number has more digits than can be kept exactly")
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, errors.New("a number is too large")
	}
	return f, nil
}

// Canonical writes a value as JSON in the one form that equal values share: keys sorted, no spaces, nothing escaped for
// HTML, whole numbers exact, and 2.0 written as 2. What JSON cannot hold is written as null.
func Canonical(v any) []byte { return appendCanonical(nil, v) }

func appendCanonical(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case string:
		return appendString(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		return appendFloat(b, v)
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendCanonical(b, e)
		}
		return append(b, ']')
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		b = append(b, '{')
		for i, k := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, k), ':')
			b = appendCanonical(b, v[k])
		}
		return append(b, '}')
	default:
		return appendOther(b, v)
	}
}

// appendOther takes Go's own types by way of their JSON.
func appendOther(b []byte, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		return append(b, "null"...)
	}
	plain, err := decodeJSON(data, true) // json writes large floats without a point, too
	if err != nil {
		return append(b, "null"...)
	}
	return appendCanonical(b, plain)
}

func appendFloat(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return append(b, "null"...)
	case f == math.Trunc(f) && math.Abs(f) < 1<<63:
		return strconv.AppendInt(b, int64(f), 10)
	default:
		return strconv.AppendFloat(b, f, 'g', -1, 64)
	}
}

func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s { // an invalid byte becomes U+FFFD
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, '\\', 'n')
		case r == '\t':
			b = append(b, '\\', 't')
		case r == '\r':
			b = append(b, '\\', 'r')
		case r < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&0xf])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
