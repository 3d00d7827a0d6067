package expr

import (
	"slices"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

type duration = time.Duration

const day = 24 * time.Hour

// sort is the coarse sort of a Type.
type sort int

const (
	dyn sort = iota
	text
	whole
	number
	truth
	moment
	list
	object
	mapping
)

// Type says what an expression may do with a value. Types never change once they are built.
type Type struct {
	kind     sort
	fields   map[string]*Type
	elem     *Type
	enum     []any
	nullable bool
}

// Dyn is a value of any type: it is checked only when the expression runs.
func Dyn() *Type { return &Type{kind: dyn} }

// Text is a string; with values, only those can occur.
func Text(values ...string) *Type {
	t := &Type{kind: text}
	for _, v := range values {
		t.enum = append(t.enum, v)
	}
	return t
}

// Int is a whole number.
func Int() *Type { return &Type{kind: whole} }

// Double is any number.
func Double() *Type { return &Type{kind: number} }

// Bool is true or false.
func Bool() *Type { return &Type{kind: truth} }

// Time is a moment.
func Time() *Type { return &Type{kind: moment} }

// List is a list of one type.
func List(elem *Type) *Type { return &Type{kind: list, elem: elem} }

// Object is a value with these fields and no others.
func Object(fields map[string]*Type) *Type { return &Type{kind: object, fields: fields} }

// Without is an object without some of its fields.
func (t *Type) Without(names ...string) *Type {
	fields := map[string]*Type{}
	for name, f := range t.fields {
		if !slices.Contains(names, name) {
			fields[name] = f
		}
	}
	return Object(fields)
}

// FromSchema reads the type out of a JSON Schema: type, enum, properties, items and a null beside a type. What it cannot
// tell is Dyn.
func FromSchema(doc any) *Type {
	m, ok := doc.(map[string]any)
	if !ok {
		return Dyn()
	}
	t := &Type{}
	names, ok := typeNames(m["type"])
	t.nullable = ok && len(names) == 2 && slices.Contains(names, "null")
	names = slices.DeleteFunc(names, func(s string) bool { return s == "null" && t.nullable })
	enum, _ := m["enum"].([]any)
	if !ok && len(enum) > 0 && !slices.ContainsFunc(enum, func(v any) bool { _, ok := v.(string); return !ok }) {
		names = []string{"string"}
	}
	if len(names) != 1 {
		return Dyn()
	}
	t.enum = enum
	switch names[0] {
	case "string":
		t.kind = text
	case "integer":
		t.kind = whole
	case "number":
		t.kind = number
	case "boolean":
		t.kind = truth
	case "array":
		t.kind, t.elem = list, FromSchema(m["items"])
	case "object":
		t.kind, t.elem = mapping, Dyn()
		if props, ok := m["properties"].(map[string]any); ok {
			t.kind, t.fields = object, make(map[string]*Type, len(props))
			for name, p := range props {
				t.fields[name] = FromSchema(p)
			}
		}
	default:
		return Dyn()
	}
	if t.nullable && t.kind >= moment {
		return Dyn()
	}
	return t
}

func typeNames(v any) ([]string, bool) {
	switch v := v.(type) {
	case string:
		return []string{v}, true
	case []any:
		var out []string
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
		return out, true
	}
	return nil, false
}

// objects tells the checker which fields objects have. Objects themselves stay plain maps.
type objects struct {
	types.Provider
	byName map[string]*Type
	cels   map[string]*cel.Type // of fields, by the object's name and the field's
	missed []miss
}

// objectName is what the checker calls an object: no expression can spell it, and messages read well with it.
func objectName(path string) string { return "object " + path }

// miss is a field that the checker asked for in vain.
type miss struct{ object, field string }

// declare names a type by its path (args, args.customer, calls[]) and gives the checker's form of it.
func (o *objects) declare(path string, t *Type) *cel.Type {
	c := cel.DynType
	switch t.kind {
	case text:
		c = cel.StringType
	case whole:
		c = cel.IntType
	case number:
		c = cel.DoubleType
	case truth:
		c = cel.BoolType
	case moment:
		c = cel.TimestampType
	case list:
		return cel.ListType(o.declare(path+"[]", t.elem))
	case mapping:
		return cel.MapType(cel.StringType, o.declare(path+"{}", t.elem))
	case object:
		name := objectName(path)
		o.byName[name] = t
		for field, f := range t.fields {
			o.cels[name+"."+field] = o.declare(path+"."+field, f)
		}
		return cel.ObjectType(name)
	case dyn:
	}
	if t.nullable && c != cel.DynType {
		return cel.NullableType(c)
	}
	return c
}

func (o *objects) fields(name string) []string {
	t := o.byName[name]
	if t == nil {
		return nil
	}
	out := make([]string, 0, len(t.fields))
	for f := range t.fields {
		out = append(out, f)
	}
	slices.Sort(out)
	return out
}

// FindStructType implements types.Provider.
func (o *objects) FindStructType(name string) (*types.Type, bool) {
	if o.byName[name] != nil {
		return types.NewTypeTypeWithParam(cel.ObjectType(name)), true
	}
	return o.Provider.FindStructType(name)
}

// FindStructFieldNames implements types.Provider.
func (o *objects) FindStructFieldNames(name string) ([]string, bool) {
	if o.byName[name] != nil {
		return o.fields(name), true
	}
	return o.Provider.FindStructFieldNames(name)
}

// FindStructFieldType implements types.Provider.
func (o *objects) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	t := o.byName[name]
	if t == nil {
		return o.Provider.FindStructFieldType(name, field)
	}
	if t.fields[field] == nil {
		o.missed = append(o.missed, miss{name, field})
		return nil, false
	}
	return &types.FieldType{Type: o.cels[name+"."+field]}, true
}

// hasNumbers says whether values of the type may need a number turned into its declared form.
func (t *Type) hasNumbers() bool {
	switch t.kind {
	case whole, number:
		return true
	case list, mapping:
		return t.elem.hasNumbers()
	case object:
		for _, f := range t.fields {
			if f.hasNumbers() {
				return true
			}
		}
	case dyn, text, truth, moment:
	}
	return false
}

// fit gives numbers the form that their type declares: JSON writes 5 for a number that is typed as a double, and 5.0 for a
// whole one.
func (t *Type) fit(v any) any {
	if !t.hasNumbers() {
		return v
	}
	switch w := v.(type) {
	case int64:
		if t.kind == number {
			return float64(w)
		}
	case int:
		if t.kind == number {
			return float64(w)
		}
	case float64:
		if t.kind == whole && w == float64(int64(w)) {
			return int64(w)
		}
	case []any:
		if t.kind == list {
			out := make([]any, len(w))
			for i, e := range w {
				out[i] = t.elem.fit(e)
			}
			return out
		}
	case map[string]any:
		if t.kind == mapping || t.kind == object {
			out := make(map[string]any, len(w))
			for k, e := range w {
				out[k] = t.field(k).fit(e)
			}
			return out
		}
	}
	return v
}

func (t *Type) field(name string) *Type {
	if t.kind == mapping {
		return t.elem
	}
	if f := t.fields[name]; f != nil {
		return f
	}
	return Dyn()
}
