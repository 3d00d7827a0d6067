package config

import (
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"switchboard/config/expr"

	"go.yaml.in/yaml/v3"
)

// property reads the schema of one argument or one field of a result, and gives it as JSON Schema.
//
// In arguments everything is strict: every property of an object is required unless optional names it, and there are no
// others. In results there may be others.
type property struct {
	strict                                 bool
	types                                  []string
	enum, optional                         []any
	about, pattern, format                 string
	minLength, maxLength                   int
	minimum, maximum, above, below, factor float64
	minItems, maxItems                     int
	unique                                 bool
	items                                  map[string]any
	props                                  map[string]any
	unsure                                 bool // of the names in props
	target                                 bool
}

// formats are those that are checked.
func formats() []string {
	return []string{"date", "date-time", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"}
}

// types are the words of JSON Schema.
func schemaTypes() []string {
	return []string{"string", "integer", "number", "boolean", "array", "object"}
}

// fitting says which types a keyword belongs to.
func fitting(keyword string) []string {
	switch keyword {
	case "pattern", "format", "minLength", "maxLength":
		return []string{"string"}
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		return []string{"integer", "number"}
	case "items", "minItems", "maxItems", "uniqueItems":
		return []string{"array"}
	case "properties", "optional":
		return []string{"object"}
	}
	return nil
}

// schema reads one property; doc is never nil, so that what uses it can go on.
func (d *source) schema(n *yaml.Node, strict bool) (doc map[string]any, ok bool) {
	p := &property{strict: strict}
	g, ok := d.keysOf(n, schemaTable(p))
	if ok && g.has("target") {
		ok = d.bad(g.nodes["target"], "target belongs to an argument itself: not to what is inside one, nor to a result", "leave it out, or make the value an argument of its own")
	}
	if !ok || !p.agrees(d, n, g) {
		return map[string]any{}, false
	}
	return p.doc(g), true
}

// argument reads the schema of one argument. target is nil where the contract does not say whether the argument is one.
func (d *source) argument(n *yaml.Node) (doc map[string]any, target *bool, ok bool) {
	p := &property{strict: true}
	g, ok := d.keysOf(n, schemaTable(p))
	if g.good("target") {
		target = &p.target
	}
	if !ok || !p.agrees(d, n, g) {
		return map[string]any{}, target, false
	}
	doc = p.doc(g)
	if target != nil && !reaches(doc) {
		ok = d.bad(g.nodes["target"], "only text, a number or a list of texts can say whom a call reaches", "leave it out, or make what names them an argument of its own")
	}
	return doc, target, ok
}

// reaches says whether an argument of this schema can name a recipient: text, a number, or a list of texts.
func reaches(doc map[string]any) bool {
	is := func(doc any, words ...string) bool {
		m, _ := doc.(map[string]any)
		switch t := m["type"].(type) {
		case string:
			return slices.Contains(words, t)
		case []any:
			return slices.ContainsFunc(t, func(v any) bool { s, _ := v.(string); return slices.Contains(words, s) })
		}
		return m["enum"] != nil
	}
	return is(doc, "string", "integer", "number") || is(doc, "array") && is(doc["items"], "string")
}

func schemaTable(p *property) *table {
	number := func(f *float64) value { return ratio(f, -1e15, 1e15) }
	return &table{
		what:  "a schema",
		about: "JSON Schema of one value. Every property of an object is required unless `optional` names it.",
		hints: map[string]string{
			"untrusted":            "a whole tool is untrusted, or not; write it beside its name",
			"required":             "every property is required; name the exceptions in optional",
			"additionalProperties": "arguments take no others, results may hold others; leave it out",
			"default":              "an argument has no default; make it optional and say in description what holds without it",
		},
		keys: []key{
			{"type", p.typeWords(), "the type of the enum", "string, integer, number, boolean, array, object; or a list of one of them and \"null\". Money is an integer of cents.", "string"},
			{"description", text(&p.about, 500), "", "What it means; the model reads it.", "Day of the booking."},
			{"enum", p.enumValues(), "", "The only values.", "[open, closed]"},
			{"pattern", pattern(func(s string, _ *regexp.Regexp) { p.pattern = s }), "", "Regular expression (RE2) that text must match somewhere.", `"^A-[0-9]+$"`},
			{"format", choice(&p.format, formats(), nil), "", "Form of a text, checked.", "date"},
			{"minLength", whole(&p.minLength, 0, 1_000_000), "", "Fewest characters.", "1"},
			{"maxLength", whole(&p.maxLength, 0, 1_000_000), "", "Most characters.", "600"},
			{"minimum", number(&p.minimum), "", "Least number.", "1"},
			{"maximum", number(&p.maximum), "", "Greatest number.", "100000"},
			{"exclusiveMinimum", number(&p.above), "", "Numbers must be above it.", "0"},
			{"exclusiveMaximum", number(&p.below), "", "Numbers must be below it.", "1"},
			{"multipleOf", ratio(&p.factor, 1e-6, 1e15), "", "Numbers must be a multiple of it.", "5"},
			{"items", p.itemSchema(), "anything, in results", "Schema of each item of a list.", "{type: string}"},
			{"minItems", whole(&p.minItems, 0, 100_000), "", "Fewest items.", "1"},
			{"maxItems", whole(&p.maxItems, 0, 100_000), "", "Most items.", "24"},
			{"uniqueItems", boolean(&p.unique), "false", "No item twice.", "true"},
			{"properties", p.properties(), "anything, in results", "Schemas of an object's properties, by name.", "{id: {type: string}}"},
			{"optional", p.optionalNames(), "none", "Properties that may be absent.", "[note]"},
			{"target", boolean(&p.target), "false", "Of an argument itself: it says whom or what place a call reaches (recipient, channel, address, payee). Once a run has read strangers' words, a person must approve it, unless it stands in the requester's own words, comes from scope, or is on `hosts` of policy.yaml. It is text, a number or a list of texts; the model does not see the key.", "true"},
		},
	}
}

func (p *property) typeWords() value {
	words := append(schemaTypes(), "null")
	return value{words: says("a type, or a list of one type and \"null\""), read: func(d *source, n *yaml.Node) bool {
		if n.Kind == yaml.SequenceNode {
			ok := texts(&p.types, "types", 0, 2, func(d *source, n *yaml.Node, s string) bool { return d.oneOf(n, s, words, nil) }).read(d, n)
			if ok && len(p.types) < 2 {
				return d.bad(n, "a list of types holds one type and \"null\"", "write the type alone, or add \"null\"")
			}
			if ok && !slices.Contains(p.types, "null") {
				return d.bad(n, "a value of two types", "choose one type; only null may stand beside it")
			}
			return ok
		}
		s, ok := d.text(n)
		p.types = []string{s}
		return ok && d.oneOf(n, s, schemaTypes(), nil)
	}}
}

func (p *property) enumValues() value {
	return listOf("list of texts or numbers", 1, 200, nil, func(d *source, n *yaml.Node) bool {
		v, ok := d.plain(n)
		if !ok {
			return false
		}
		if n.Kind != yaml.ScalarNode {
			return d.expected(n, "a text or a number", "write one value an item")
		}
		for _, e := range p.enum {
			if string(Canonical(e)) == string(Canonical(v)) {
				return d.bad(n, "the value stands twice in the list", "leave one of them out")
			}
		}
		p.enum = append(p.enum, v)
		return true
	})
}

func (p *property) itemSchema() value {
	return value{words: says("a schema"), read: func(d *source, n *yaml.Node) (ok bool) {
		p.items, ok = d.schema(n, p.strict)
		return ok
	}}
}

func (p *property) properties() value {
	v := entries("schemas by name", nil, func(d *source, k, v *yaml.Node) bool {
		if p.props == nil {
			p.props = map[string]any{}
		}
		doc, ok := d.schema(v, p.strict)
		p.props[k.Value] = doc
		return d.fits(k, k.Value, argName()) && ok
	})
	read := v.read
	v.read = func(d *source, n *yaml.Node) bool {
		ok := read(d, n)
		p.unsure = !ok
		return ok
	}
	return v
}

func (p *property) optionalNames() value {
	var all []string
	return texts(&all, "list of properties", 0, 200, func(d *source, n *yaml.Node, s string) bool {
		p.optional = append(p.optional, s)
		if p.props == nil || p.unsure || p.props[s] != nil {
			return true
		}
		return d.bad(n, fmt.Sprintf("there is no property %q to be optional", clip(s)), "known: "+listed(sortedKeys(p.props)))
	})
}

// agrees checks the keywords against each other.
func (p *property) agrees(d *source, n *yaml.Node, g got) bool {
	base := slices.DeleteFunc(slices.Clone(p.types), func(s string) bool { return s == "null" && len(p.types) > 1 })
	switch {
	case len(base) == 0 && len(p.enum) == 0:
		return d.bad(n, "type is missing in a schema", "add type: string (or "+strings.Join(schemaTypes()[1:], ", ")+")")
	case len(base) == 1:
		for _, k := range sortedNodes(g) {
			if fit := fitting(k); g.has(k) && fit != nil && !slices.Contains(fit, base[0]) {
				return d.bad(g.nodes[k], fmt.Sprintf("%s belongs to type %s, not to %s", k, strings.Join(fit, " or "), base[0]), "leave it out, or change the type")
			}
		}
		if at := slices.IndexFunc(p.enum, func(v any) bool { return !isType(v, p.types) }); at >= 0 {
			return d.bad(g.nodes["enum"].Content[at], "the value is no "+strings.Join(p.types, " or "), "write values of the type, or change it")
		}
		if p.strict && base[0] == "array" && !g.has("items") {
			return d.bad(n, "items is missing: an argument says what its list holds", "add items: {type: string}")
		}
		if p.strict && base[0] == "object" && !g.has("properties") {
			return d.bad(n, "properties is missing: an argument says what its object holds", "add properties: {id: {type: string}}")
		}
	}
	return p.ordered(d, g)
}

func (p *property) ordered(d *source, g got) bool {
	pairs := []struct {
		lo, hi string
		wrong  bool
	}{
		{"minLength", "maxLength", p.minLength > p.maxLength},
		{"minimum", "maximum", p.minimum > p.maximum},
		{"exclusiveMinimum", "exclusiveMaximum", p.above >= p.below},
		{"minItems", "maxItems", p.minItems > p.maxItems},
	}
	for _, pair := range pairs {
		if g.has(pair.lo) && g.has(pair.hi) && pair.wrong {
			return d.bad(g.nodes[pair.hi], fmt.Sprintf("%s lies below %s: no value fits", pair.hi, pair.lo), "raise it, or lower the other")
		}
	}
	return true
}

func isType(v any, types []string) bool {
	name := "null"
	switch v.(type) {
	case string:
		name = "string"
	case int64:
		name = "integer"
	case float64:
		name = "number"
	case bool:
		name = "boolean"
	}
	return slices.Contains(types, name) || name == "integer" && slices.Contains(types, "number")
}

// doc writes the property as JSON Schema.
func (p *property) doc(g got) map[string]any {
	doc := map[string]any{}
	put := func(key string, v any) {
		if g.has(key) {
			doc[key] = v
		}
	}
	switch len(p.types) {
	case 0:
		if !slices.ContainsFunc(p.enum, func(v any) bool { return !isType(v, []string{"string"}) }) {
			doc["type"] = "string"
		}
	case 1:
		doc["type"] = p.types[0]
	default:
		doc["type"] = []any{p.types[0], p.types[1]}
	}
	put("description", p.about)
	put("enum", p.enum)
	put("pattern", p.pattern)
	put("format", p.format)
	put("minLength", int64(p.minLength))
	put("maxLength", int64(p.maxLength))
	put("minimum", tidy(p.minimum))
	put("maximum", tidy(p.maximum))
	put("exclusiveMinimum", tidy(p.above))
	put("exclusiveMaximum", tidy(p.below))
	put("multipleOf", tidy(p.factor))
	put("items", p.items)
	put("minItems", int64(p.minItems))
	put("maxItems", int64(p.maxItems))
	put("uniqueItems", p.unique)
	if p.props != nil {
		var optional []string
		for _, o := range p.optional {
			optional = append(optional, fmt.Sprint(o))
		}
		maps.Copy(doc, objectDoc(p.props, optional, p.strict))
		doc["type"] = typeOf(p.types)
	}
	return doc
}

func typeOf(types []string) any {
	if len(types) == 1 {
		return types[0]
	}
	return []any{types[0], types[1]}
}

// tidy writes a whole number without a fraction.
func tidy(f float64) any {
	if r := new(big.Rat).SetFloat64(f); r != nil && r.IsInt() && r.Num().IsInt64() {
		return r.Num().Int64()
	}
	return f
}

// objectDoc is the schema of an object whose properties are required unless they are optional.
func objectDoc(props map[string]any, optional []string, strict bool) map[string]any {
	need := []any{}
	for _, name := range sortedKeys(props) {
		if !slices.Contains(optional, name) {
			need = append(need, name)
		}
	}
	doc := map[string]any{"type": "object", "properties": props, "required": need}
	if strict {
		doc["additionalProperties"] = false
	}
	return doc
}

// exprType is what expressions know of an object of these properties.
func exprType(props map[string]any) *expr.Type {
	return expr.FromSchema(map[string]any{"type": "object", "properties": props})
}
