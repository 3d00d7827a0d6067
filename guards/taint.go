package guards

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"sort"
	"strings"
	"unicode"

	"switchboard/config"
)

// Taint is what a run knows of strangers' words in it (rule M6): where they came from, and what it takes as the requester's
// own. The zero value is a run that only its requester has spoken to.
type Taint struct {
	Sources []string // what brought strangers' words: names of tools, or words
	Words   []string // what the requester said to the bot in this thread, as it stands
}

// Tainted says whether strangers' words are in the run.
func (t Taint) Tainted() bool { return len(t.Sources) > 0 }

// needs says what a person must decide in a tainted run: an irreversible effect, an argument that says whom or what place a
// call reaches, and a link in what an effect would carry. The requester's own words, the scope and the allowed hosts are
// trusted; a value must stand in them as a whole.
func (t Taint) needs(p config.Policy, a Asked) []Need {
	if !t.Tainted() {
		return nil
	}
	from := "this run has read " + t.from()
	var needs []Need
	add := func(rule, why string) {
		needs = append(needs, need(p, nil, Need{Rule: "taint " + rule, Why: why + "; " + from + "."}))
	}
	if a.Tool.Effect == config.Irreversible {
		add("irreversible", fmt.Sprintf("%s cannot be taken back", a.Tool.Name))
	}
	for _, name := range a.Tool.Targets {
		for _, v := range texts(a.Args[name]) {
			if !t.trusts(v, p, a.Scope) {
				add("target "+name, fmt.Sprintf("%s is %q, which the requester has not named", name, v))
				break
			}
		}
	}
	if a.Tool.Effect == config.NoEffect {
		return needs
	}
	for _, name := range sorted(a.Args) {
		if slices.Contains(a.Tool.Targets, name) {
			continue
		}
		if link, ok := t.strangeLink(a.Args[name], p.Hosts); ok {
			add("link "+name, fmt.Sprintf("%s carries the link %q, which leads to no allowed host", name, link))
		}
	}
	return needs
}

func (t Taint) from() string {
	seen := slices.Compact(slices.Sorted(slices.Values(t.Sources)))
	return strings.Join(seen, ", ")
}

// trusts says whether a value is one that no stranger can have chosen.
func (t Taint) trusts(v string, p config.Policy, scope map[string]string) bool {
	for _, bound := range scope {
		if v == bound {
			return true
		}
	}
	return t.said(v) || slices.Contains(p.Hosts, hostOf(v)) && staysThere(v, p.Hosts)
}

// staysThere says whether an address carries no other one to a host that is not allowed: the allowed one may pass on to it.
func staysThere(v string, hosts []string) bool {
	_, rest, ok := strings.Cut(v, "://")
	if !ok {
		rest = v
	}
	return Output{Links: hosts}.filter().stays(rest[strings.IndexAny(rest+"/", "/?#"):])
}

// said says whether the value stands in the requester's words, verbatim and as a whole: not as a part of a longer word.
func (t Taint) said(v string) bool {
	if strings.TrimSpace(v) == "" {
		return false
	}
	for _, words := range t.Words {
		for from := 0; ; {
			i := strings.Index(words[from:], v)
			if i < 0 {
				break
			}
			at := from + i
			if alone(words[:at], words[at+len(v):]) {
				return true
			}
			from = at + 1
			if from > len(words) {
				break
			}
		}
	}
	return false
}

// alone says whether nothing sticks to a word but what opens or closes a phrase.
func alone(before, after string) bool {
	before = before[strings.LastIndexFunc(before, unicode.IsSpace)+1:]
	if i := strings.IndexFunc(after, unicode.IsSpace); i >= 0 {
		after = after[:i]
	}
	return strings.Trim(before, opening) == "" && strings.Trim(after, closings) == ""
}

// What may stand before and after a word without being a part of it.
const (
	opening  = "([{<\"'`*_“‘«@#,;:"
	closings = ")]}>\"'`*_”’».,;:!?"
)

// hostOf gives the whole host name of a value that is a web address or a bare host name, in small letters; "" where there is
// any doubt about it.
func hostOf(v string) string {
	if m := whole.FindStringSubmatch(v); m != nil {
		u, err := url.Parse(v)
		if err != nil || u.User != nil || u.Port() != "" {
			return ""
		}
		return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	}
	name, _, _ := strings.Cut(v, "/")
	if begun.FindStringSubmatch(name) == nil || strings.ContainsAny(v, "@\\ \t\n?#:%") || !strings.Contains(name, ".") {
		return ""
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return ""
	}
	return strings.TrimSuffix(strings.ToLower(name), ".")
}

// strangeLink finds a link in a value that leads to no allowed host and that the requester has not written.
func (t Taint) strangeLink(v any, hosts []string) (string, bool) {
	out := Output{Links: hosts}
	for _, text := range texts(v) {
		what, some := leadsAway(out, text)
		if !some || t.said(text) {
			continue
		}
		own := false // every word of it that leads away is the requester's
		for word := range strings.FieldsSeq(text) {
			if _, away := leadsAway(out, word); !away {
				continue
			}
			if own = t.said(strings.Trim(strings.Trim(word, opening), closings)); !own {
				return what, true
			}
		}
		if !own {
			return what, true
		}
	}
	return "", false
}

func leadsAway(out Output, text string) (what string, yes bool) {
	_, removed := out.Clean(text)
	for _, r := range removed {
		if r.Kind == RemovedLink || r.Kind == RemovedImage {
			return r.What, true
		}
	}
	return "", false
}

// texts lists every text and number in a value, however deep.
func texts(v any) []string {
	switch v := v.(type) {
	case nil:
		return nil
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
		for _, k := range sorted(v) {
			out = append(append(out, k), texts(v[k])...)
		}
		return out
	}
	return []string{string(config.Canonical(v))}
}

func sorted(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
