package config

import (
	"fmt"
	"math/big"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"switchboard/config/expr"

	"go.yaml.in/yaml/v3"
)

// text reads a text that is not blank. YAML's silent conversions are refused; a date stays the text that it is.
func (d *source) text(n *yaml.Node) (string, bool) {
	switch {
	case d.spoiled[n]:
		return "", false
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null":
		return "", d.expected(n, "text", "write some text")
	case n.Tag == "!!int" || n.Tag == "!!float" || n.Tag == "!!bool":
		return "", d.expected(n, "text", "put it in quotes: "+strconv.Quote(n.Value))
	case strings.TrimSpace(n.Value) == "":
		return "", d.bad(n, "expected text, found blanks", "write some text")
	}
	return n.Value, true
}

// text is any text; most is the longest allowed, in characters.
func text(p *string, most int) value {
	return value{words: func() string { return fmt.Sprintf("text, at most %d characters", most) }, read: func(d *source, n *yaml.Node) bool {
		s, ok := d.text(n)
		if !ok {
			return false
		}
		if c := len([]rune(s)); c > most {
			return d.bad(n, fmt.Sprintf("the text has %d characters, at most %d are allowed", c, most), "shorten it")
		}
		*p = s
		return true
	}}
}

// shape is a form that names and ids take.
type shape struct {
	re    *regexp.Regexp
	words string
	such  string // an example
	id    bool   // people know the thing by a name that is not its id
}

var (
	dashForm    = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)
	scopeForm   = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)
	argForm     = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,63}$`)
	toolForm    = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$`)
	envForm     = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
	fileForm    = regexp.MustCompile(`^/[^\x00]+$`)
	headerForm  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*$`)
	personForm  = regexp.MustCompile(`^[UW][A-Z0-9]{2,}$`)
	memberForm  = regexp.MustCompile(`^[UWS][A-Z0-9]{2,}$`)
	groupForm   = regexp.MustCompile(`^S[A-Z0-9]{2,}$`)
	roomForm    = regexp.MustCompile(`^[CG][A-Z0-9]{2,}$`)
	nameForm    = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,79}$`) // of a channel, Slack: https://docs.slack.dev/reference/methods/conversations.create
	idForm      = regexp.MustCompile(`^[A-Z][A-Z0-9]+$`)           // of anything
	channelForm = regexp.MustCompile(`^[CDG][A-Z0-9]{2,}$`)
	hostForm    = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$`)
	pathForm    = regexp.MustCompile(`^(/[A-Za-z0-9._~:@!$&'()*+,;=-]*)+$`)
	pathName    = regexp.MustCompile(`\{([^{}]*)\}`)
	numberForm  = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,12})?$`)
	periodForm  = regexp.MustCompile(`^([1-9][0-9]{0,6})([smhd])$`)
	rateForm    = regexp.MustCompile(`^([1-9][0-9]{0,5})/([smh])$`)
)

// The shapes of names. All of them begin with a letter.
func dashName() shape  { return shape{dashForm, "a name of a-z, 0-9 and -", "front-desk", false} }
func scopeName() shape { return shape{scopeForm, "a name of a-z, 0-9 and _", "org_unit", false} }
func argName() shape   { return shape{argForm, "a name of letters, digits and _", "order_id", false} }

func envName() shape {
	return shape{envForm, "a variable's name of A-Z, 0-9 and _", "PAYMENTS_TOKEN", false}
}
func filePath() shape   { return shape{fileForm, "an absolute path", "/run/secrets/token", false} }
func headerName() shape { return shape{headerForm, "a header's name", "X-Api-Key", false} }
func personID() shape   { return shape{personForm, "an id of a person", "U0ANA", true} }
func memberID() shape {
	return shape{memberForm, "an id of a person (U…) or of a group (S…)", "U0ANA or S0ADM", true}
}
func groupID() shape { return shape{groupForm, "an id of a group", "S0FIN", true} }
func roomID() shape  { return shape{roomForm, "an id of a channel (C… or G…)", "C0FRONT", true} }

func roomName() shape {
	return shape{nameForm, "a channel's name of a-z, 0-9, - and _", "front-desk", false}
}
func channelID() shape { return shape{channelForm, "an id of a channel", "C0FRONT", true} }
func toolName() shape {
	return shape{toolForm, "a name of two or more words joined by dots", "bookings.list", false}
}

// fits checks a text against a shape.
func (d *source) fits(n *yaml.Node, s string, sh shape) bool {
	if len(s) <= 200 && sh.re.MatchString(s) {
		return true
	}
	mend := "write one such as " + sh.such
	if sh.id {
		mend = "use the id, such as " + sh.such
		if !idForm.MatchString(s) {
			mend += "; names come with a later version"
		}
	}
	return d.bad(n, fmt.Sprintf("%q is not %s", clip(s), sh.words), mend)
}

// clip keeps messages short.
func clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return s
}

// shaped is a text of a shape.
func shaped(p *string, sh shape) value {
	return value{words: says(sh.words), read: func(d *source, n *yaml.Node) bool {
		s, ok := d.text(n)
		if !ok || !d.fits(n, s, sh) {
			return false
		}
		*p = s
		return true
	}}
}

// whole is a whole number in bounds.
func whole(p *int, lo, hi int) value {
	words := func() string { return fmt.Sprintf("whole number, %d to %d", lo, hi) }
	return value{words: words, read: func(d *source, n *yaml.Node) bool {
		if d.spoiled[n] {
			return false
		}
		if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || n.Style != 0 {
			return d.expected(n, "a "+words(), "write it in digits, without quotes")
		}
		v, err := strconv.Atoi(n.Value)
		if err != nil || strconv.Itoa(v) != n.Value {
			return d.bad(n, fmt.Sprintf("the number %s can be read in two ways", clip(n.Value)), "write it in plain digits")
		}
		if v < lo || v > hi {
			if lo == hi {
				return d.bad(n, fmt.Sprintf("%d is not known here", v), fmt.Sprintf("write %d", lo))
			}
			return d.bad(n, fmt.Sprintf("%d is outside %d to %d", v, lo, hi), "write a number in between")
		}
		*p = v
		return true
	}}
}

// decimal is a number in bounds; set says what to do with it.
func decimal(what string, lo, hi float64, set func(r *big.Rat, f float64)) value {
	words := func() string { return fmt.Sprintf("%s, %v to %v", what, lo, hi) }
	return value{words: words, read: func(d *source, n *yaml.Node) bool {
		if d.spoiled[n] {
			return false
		}
		if n.Kind != yaml.ScalarNode || n.Style != 0 || n.Tag != "!!int" && n.Tag != "!!float" {
			return d.expected(n, "a "+words(), "write it in digits, without quotes")
		}
		r, ok := new(big.Rat).SetString(n.Value)
		if !ok || !numberForm.MatchString(n.Value) {
			return d.bad(n, fmt.Sprintf("the number %s can be read in two ways", clip(n.Value)), "write it in plain digits, such as 0.15")
		}
		f, _ := r.Float64()
		if f < lo || f > hi {
			return d.bad(n, fmt.Sprintf("%s is outside %v to %v", n.Value, lo, hi), "write a number in between")
		}
		set(r, f)
		return true
	}}
}

// ratio is a number between bounds.
func ratio(p *float64, lo, hi float64) value {
	return decimal("number", lo, hi, func(_ *big.Rat, f float64) { *p = f })
}

// usd is an amount in US dollars, kept exactly in units of which one dollar has so many.
func usd(p *int64, unit int64, lo, hi float64) value {
	v := decimal("number of USD", lo, hi, func(r *big.Rat, _ float64) {
		amount := new(big.Rat).Mul(r, big.NewRat(unit, 1))
		*p = new(big.Int).Quo(amount.Num(), amount.Denom()).Int64()
	})
	read := v.read
	v.read = func(d *source, n *yaml.Node) bool {
		if _, frac, _ := strings.Cut(n.Value, "."); len(frac) > 6 && n.Kind == yaml.ScalarNode && !d.spoiled[n] {
			return d.bad(n, "the amount has more than six decimals", "round it")
		}
		return read(d, n)
	}
	return v
}

// boolean is true or false.
func boolean(p *bool) value {
	return value{words: says("true or false"), read: func(d *source, n *yaml.Node) bool {
		if d.spoiled[n] {
			return false
		}
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Style != 0 {
			return d.expected(n, "true or false", "write true or false, without quotes")
		}
		*p = strings.EqualFold(n.Value, "true")
		return true
	}}
}

// choice is one of a few words; later ones are known and refused.
func choice[T ~string](p *T, options []T, later map[string]string) value {
	var words []string
	for _, o := range options {
		words = append(words, string(o))
	}
	return value{words: func() string { return oneWord(words) }, read: func(d *source, n *yaml.Node) bool {
		s, ok := d.text(n)
		if !ok || !d.oneOf(n, s, words, later) {
			return false
		}
		*p = T(s)
		return true
	}}
}

// oneWord words a choice.
func oneWord(words []string) string {
	if len(words) > 2 {
		return "one of " + strings.Join(words, ", ")
	}
	return strings.Join(words, " or ")
}

// oneOf checks a word against those that may stand here.
func (d *source) oneOf(n *yaml.Node, s string, words []string, later map[string]string) bool {
	mend := "write " + oneWord(words)
	switch {
	case slices.Contains(words, s):
		return true
	case later[s] != "":
		return d.bad(n, fmt.Sprintf("%s (%s) comes with a later version; this one does not run it", s, later[s]), mend)
	}
	if near := expr.Near(s, words); near != "" {
		mend = fmt.Sprintf("did you mean %q?", near)
	}
	return d.bad(n, fmt.Sprintf("%q is not known here", clip(s)), mend)
}

// period is a duration with one unit: 90s, 15m, 4h, 30d.
func period(p *time.Duration, lo, hi time.Duration) value {
	words := func() string {
		return fmt.Sprintf("duration such as 90s, 15m, 4h or 30d, %s to %s", short(lo), short(hi))
	}
	return value{words: words, read: func(d *source, n *yaml.Node) bool {
		if n.Tag == "!!int" && !d.spoiled[n] {
			return d.expected(n, "a duration", "add its unit: "+n.Value+"s, "+n.Value+"m, "+n.Value+"h or "+n.Value+"d")
		}
		s, ok := d.text(n)
		if !ok {
			return false
		}
		m := periodForm.FindStringSubmatch(s)
		if m == nil {
			return d.bad(n, fmt.Sprintf("%q is not a duration", clip(s)), "write a number and its unit: 90s, 15m, 4h or 30d")
		}
		count, _ := strconv.Atoi(m[1])
		unit := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[m[2]]
		v := time.Duration(count) * unit
		if v < lo || v > hi {
			return d.bad(n, fmt.Sprintf("%s is outside %s to %s", s, short(lo), short(hi)), "write a duration in between")
		}
		*p = v
		return true
	}}
}

// short writes a duration in its largest whole unit.
func short(v time.Duration) string {
	switch {
	case v >= 24*time.Hour && v%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", v/(24*time.Hour))
	case v >= time.Hour && v%time.Hour == 0:
		return fmt.Sprintf("%dh", v/time.Hour)
	case v >= time.Minute && v%time.Minute == 0:
		return fmt.Sprintf("%dm", v/time.Minute)
	default:
		return fmt.Sprintf("%ds", v/time.Second)
	}
}

// reference is a secret or an address, named and never written down.
func reference(p **Ref) value {
	return value{words: says("{env: NAME} or {file: PATH}"), read: func(d *source, n *yaml.Node) bool {
		if n.Kind != yaml.MappingNode && !d.spoiled[n] {
			return d.expected(n, "{env: NAME} or {file: PATH}", "secrets and addresses stay outside a pack: write {env: NAME}")
		}
		r := &Ref{Place: d.at(n)}
		g, ok := d.keysOf(n, refTable(r))
		if !ok {
			return false
		}
		if g.has("env") == g.has("file") {
			return d.bad(n, "expected either env or file", "write {env: NAME} or {file: PATH}")
		}
		d.l.refs = append(d.l.refs, *r)
		*p = r
		return true
	}}
}

func refTable(r *Ref) *table {
	return &table{
		what:  "a reference ({env: NAME} or {file: PATH})",
		about: "A secret or an address that lives outside the pack. Exactly one key.",
		keys: []key{
			{"env", shaped(&r.Env, envName()), "", "Name of a variable of the environment.", "PAYMENTS_TOKEN"},
			{"file", shaped(&r.File, filePath()), "", "Path of a file that holds the value alone.", "/run/secrets/payments"},
		},
	}
}

// rate is a number of calls per second, minute or hour.
func rate(p *float64) value {
	const words = "rate such as 5/s, 30/m or 100/h"
	return value{words: says(words), read: func(d *source, n *yaml.Node) bool {
		s, ok := d.text(n)
		if !ok {
			return false
		}
		m := rateForm.FindStringSubmatch(s)
		if m == nil {
			return d.bad(n, fmt.Sprintf("%q is not a rate", clip(s)), "write calls and their unit of time: 5/s, 30/m or 100/h")
		}
		count, _ := strconv.ParseFloat(m[1], 64)
		*p = count / map[string]float64{"s": 1, "m": 60, "h": 3600}[m[2]]
		return true
	}}
}

// pattern is a regular expression (RE2).
func pattern(set func(s string, re *regexp.Regexp)) value {
	return value{words: says("regular expression"), read: func(d *source, n *yaml.Node) bool {
		s, ok := d.text(n)
		if !ok {
			return false
		}
		re, err := regexp.Compile(s)
		if err != nil {
			return d.bad(n, "the pattern cannot be read: "+strings.TrimPrefix(err.Error(), "error parsing regexp: "), "write a regular expression of RE2")
		}
		set(s, re)
		return true
	}}
}

// header is the name of a header that a tool may set.
func header(p *string) value {
	v := shaped(p, headerName())
	read := v.read
	v.read = func(d *source, n *yaml.Node) bool {
		switch http.CanonicalHeaderKey(n.Value) {
		case "Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Accept", "Accept-Encoding":
			return d.bad(n, "the header "+n.Value+" is set by the runtime", "name another one")
		}
		return read(d, n)
	}
	return v
}

// plain reads any value as JSON would hold it. Numbers that YAML reads in surprising ways are refused; dates stay text.
func (d *source) plain(n *yaml.Node) (any, bool) {
	switch {
	case d.spoiled[n]:
		return nil, false
	case n.Kind == yaml.SequenceNode:
		out, ok := make([]any, 0, len(n.Content)), true
		for _, c := range n.Content {
			v, good := d.plain(c)
			out, ok = append(out, v), ok && good
		}
		return out, ok
	case n.Kind == yaml.MappingNode:
		out := map[string]any{}
		ok := entries("keys and values", nil, func(d *source, k, v *yaml.Node) bool {
			p, good := d.plain(v)
			out[k.Value] = p
			return good
		}).read(d, n)
		return out, ok
	}
	return d.plainScalar(n)
}

func (d *source) plainScalar(n *yaml.Node) (any, bool) {
	switch n.Tag {
	case "!!null":
		if raw := string(d.line(n.Line)); n.Value == "" && strings.Contains(raw, "#") {
			return nil, d.expected(n, "a value", "put it in quotes")
		}
		return nil, true
	case "!!bool":
		return strings.EqualFold(n.Value, "true"), true
	case "!!int", "!!float":
		v, err := decodeNumber(n.Value, false)
		if err != nil || !numberForm.MatchString(n.Value) {
			return nil, d.bad(n, fmt.Sprintf("the number %s can be read in two ways", clip(n.Value)), "write it in plain digits, or put it in quotes: "+strconv.Quote(n.Value))
		}
		return v, true
	default:
		return n.Value, true
	}
}
