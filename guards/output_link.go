package guards

import (
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"mvdan.cc/xurls/v2"
)

// dots are the characters besides the full stop that a browser reads as the dot of a host name, or that look like it.
const dots = "。．｡․"

var (
	// whole is an address that a form may lead to: nothing in its host that two readers could understand differently.
	whole = regexp.MustCompile(`^((?i:https?))://([A-Za-z0-9.\-]+)(?::([0-9]{1,5}))?([/?#][^\s\\<>]*)?$`)
	// begun is the same at the beginning of a bare text, with what follows it.
	begun = regexp.MustCompile(`^(?:((?i:https?))://)?([A-Za-z0-9.\-]+)(?::([0-9]{1,5}))?(.*)$`)
	// address is what is taken for one in bare text: any scheme with //, or one that is clickable without.
	address = regexp.MustCompile(`(?i)(?:[a-z][a-z0-9+.\-]*:[/\\]{2}|https?:|\b(?:mailto|tel|sms|callto|facetime|skype|javascript|vbscript|file|xmpp|magnet|bitcoin):|\bdata:[a-z]+/|\bwww\.)[^\s<>"` + "`" + `|\[\](){}]+`)
	// word is a run of what an address in running text may be made of.
	word = regexp.MustCompile(`[^\s<>"` + "`" + `|\[\](){}]+`)
	// second is a further address within an address.
	second = regexp.MustCompile(`[/\\]{2,}([^/\\?#&;,\s"']*)`)
	// named is what a host name needs at least: an ending of two letters or more, four numbers, or a scheme.
	named = regexp.MustCompile(`\.(?:[A-Za-z]{2}|[^\x00-\x7f])|(?:[0-9]+\.){3}[0-9]|://|(?i:mailto|tel|sms|file|xmpp|magnet|bitcoin):`)
	// acting is an address that needs no //.
	acting = regexp.MustCompile(`(?i)^(?:mailto|tel|sms|file|xmpp|magnet|bitcoin):`)
	// everybody is a mention in plain letters, which some clients expand.
	everybody = regexp.MustCompile(`(?i)(^|[^\pL\pN])[@＠﹫](channel|here|everyone|group)\b`)
)

// allowed says whether a form may lead to target.
func (f *filter) allowed(target string) bool {
	m := whole.FindStringSubmatch(target)
	return m != nil && f.host(m[1], m[2], m[3]) && f.stays(m[4])
}

// host compares whole names: an ending that fits is another host.
func (f *filter) host(scheme, name, port string) bool {
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if port == "" || port == "443" && strings.EqualFold(scheme, "https") || port == "80" && strings.EqualFold(scheme, "http") {
		return f.links[name]
	}
	return f.links[name+":"+port]
}

// stays refuses an address that carries another one to somewhere not allowed: the host may pass the reader on to it.
func (f *filter) stays(rest string) bool {
	for range 5 {
		for _, m := range second.FindAllStringSubmatch(rest, -1) {
			if !f.links[strings.ToLower(m[1])] {
				return false
			}
		}
		next, err := url.PathUnescape(rest)
		if err != nil || next == rest {
			return err == nil // a broken escape is read in different ways
		}
		rest = next
	}
	return false
}

// bareAllowed says whether an address in running text may stay. after is what follows it: it counts, since a client may
// see more of it as the host than we do. No scheme is as good as https.
func (f *filter) bareAllowed(text, after string) bool {
	m := begun.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	how, name, port, rest := m[1], strings.TrimRight(m[2], ".-"), m[3], m[4]
	if how == "" {
		how = "https"
	}
	if !f.host(how, name, port) {
		return false
	}
	if rest != "" && strings.Contains("/?#", rest[:1]) {
		return !strings.Contains(rest, `\`) && f.stays(rest)
	}
	if end := strings.IndexFunc(after, unicode.IsSpace); end >= 0 {
		after = after[:end]
	}
	rest = strings.TrimLeft(m[2][len(name):]+rest+after, ".,;:!?'*_~-") // what ends a sentence or an emphasis ends the host
	return rest == "" || strings.ContainsAny(rest[:1], ")]}>\"|`<") || strings.TrimFunc(rest, unicode.IsPunct) == "" && !strings.ContainsAny(rest, `@%\/&#`) ||
		strings.HasPrefix(rest, "…") || strings.HasPrefix(rest, "”") || strings.HasPrefix(rest, "»")
}

// bare cleans text that holds no forms: addresses go, host names and mail addresses lose their dots' power.
func (f *filter) bare(text string, code bool) string {
	if strings.ContainsAny(text, "@＠﹫") {
		text = everybody.ReplaceAllStringFunc(text, func(m string) string {
			parts := everybody.FindStringSubmatch(m)
			if f.mentions[strings.ToLower(parts[2])] {
				return m
			}
			f.took(RemovedMention, strings.ToLower(parts[2]))
			return parts[1] + parts[2]
		})
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf || r == '\\' && !code }) {
		text = f.disguised(text, code)
	}
	text = replace(text, inWords(text, hinted, address), func(m, before, after string) string {
		core := strings.TrimRight(m, ".,;:!?'*")
		if !address.MatchString(core) || f.bareAllowed(m, after) && (scheme.MatchString(m) || !glued(before)) {
			return m
		}
		return f.off(core, before, code) + m[len(core):]
	})
	return replace(text, inWords(text, named.MatchString, xurls.Relaxed()), func(m, before, after string) string { return f.named(m, before, after, code) })
}

// hinted says whether a word can hold an address with a scheme at all.
func hinted(word string) bool {
	return strings.Contains(word, ":") || strings.Contains(word, ".") && strings.Contains(strings.ToLower(word), "www.")
}

// inWords finds what the expression matches, in those words only that may hold it: the great expressions over a whole
// text would take milliseconds.
func inWords(text string, may func(word string) bool, re *regexp.Regexp) (found [][]int) {
	for at := 0; at < len(text); {
		end := len(text)
		if i := strings.IndexFunc(text[at:], unicode.IsSpace); i >= 0 {
			end = at + i
		}
		if w := text[at:end]; may(w) {
			for _, m := range re.FindAllStringIndex(w, -1) {
				found = append(found, []int{at + m[0], at + m[1]})
			}
		}
		_, size := utf8.DecodeRuneInString(text[end:])
		at = end + size
	}
	return found
}

// named judges what reads as an address without a scheme.
func (f *filter) named(m, before, after string, code bool) string {
	// mid:x and the like are clickable nowhere, but what follows them may be; name.tld:80 is no scheme.
	if how := scheme.FindString(m); how != "" && !strings.Contains(how, ".") && !strings.Contains(m, "://") && !address.MatchString(m) && !acting.MatchString(m) {
		rest := m[len(how):]
		return how + replace(rest, xurls.Relaxed().FindAllStringIndex(rest, -1), func(n, b, a string) string {
			return f.named(n, b, a, code)
		})
	}
	if f.bareAllowed(m, after) && (strings.Contains(m, "://") || !glued(before)) {
		return m
	}
	if strings.ContainsAny(m, "/?#") || address.MatchString(m) || acting.MatchString(m) {
		return f.off(m, before, code)
	}
	at := strings.LastIndex(m, "@")
	if at >= 0 && f.bareAllowed(m[at+1:], after) {
		return m
	}
	if !strings.Contains(m, ".") { // an address of numbers and colons alone is clickable nowhere
		return m
	}
	f.took(RemovedLink, m[at+1:])
	return m[:at+1] + strings.ReplaceAll(m[at+1:], ".", "[.]")
}

// glued says whether what stands before a host name would make another name of it.
func glued(before string) bool {
	r, _ := utf8.DecodeLastRuneInString(before)
	return before != "" && (strings.ContainsRune(`@.-_%\/:`, r) || unicode.IsLetter(r) || unicode.IsDigit(r))
}

// off takes an address out of running text. In code its letters stay, but it leads nowhere.
func (f *filter) off(m, before string, code bool) string {
	f.took(RemovedLink, whither(m))
	if code {
		return disarm(m)
	}
	if r, _ := utf8.DecodeLastRuneInString(before); before != "" && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(":,;.!?])", r)) {
		return " (link removed)" // not glued to a word, nor to a ] that would make a link of it
	}
	return "(link removed)"
}

// disarm writes an address so that it can be read and not followed: https[:]//evil[.]com.
func disarm(m string) string {
	if how := scheme.FindString(m); how != "" {
		m = how[:len(how)-1] + "[:]" + m[len(how):]
	}
	return strings.ReplaceAll(m, ".", "[.]")
}

// disguised takes out words that become addresses once their letters are folded to plain ones, or once Markdown has
// taken its backslashes out.
func (f *filter) disguised(text string, code bool) string {
	return word.ReplaceAllStringFunc(text, func(w string) string {
		readings := []string{fold(w)}
		if !code {
			readings = append(readings, strings.ReplaceAll(readings[0], `\`, ""))
		}
		for _, plain := range readings {
			if plain == w {
				continue
			}
			for _, m := range address.FindAllString(plain, -1) {
				if !f.bareAllowed(m, "") {
					f.took(RemovedLink, whither(m))
					return "(link removed)"
				}
			}
			if !named.MatchString(plain) {
				continue
			}
			for _, m := range xurls.Relaxed().FindAllString(plain, -1) {
				if !f.bareAllowed(m, "") && (strings.Contains(m, "://") || plainEnd(m)) {
					f.took(RemovedLink, whither(m))
					return "(link removed)"
				}
			}
		}
		return w
	})
}

// plainEnd says whether a name's last part is in ASCII: in scripts without spaces a full stop between words is just that.
func plainEnd(name string) bool {
	name, _, _ = strings.Cut(name, "/")
	return !strings.ContainsFunc(name[strings.LastIndex(name, ".")+1:], func(r rune) bool { return r >= utf8.RuneSelf })
}

func fold(text string) string {
	text = norm.NFKC.String(text)
	for _, d := range dots {
		text = strings.ReplaceAll(text, string(d), ".")
	}
	return text
}

// replace puts by's answer in the place of every match; by also sees what stands before and behind.
func replace(text string, matches [][]int, by func(m, before, after string) string) string {
	if len(matches) == 0 {
		return text
	}
	var out strings.Builder
	from := 0
	for _, m := range matches {
		out.WriteString(text[from:m[0]])
		out.WriteString(by(text[m[0]:m[1]], text[:m[0]], text[m[1]:]))
		from = m[1]
	}
	out.WriteString(text[from:])
	return out.String()
}

// whither names where an address leads, for the record: the host, or the scheme when there is no host.
func whither(target string) string {
	_, rest, ok := strings.Cut(target, "//")
	if !ok {
		if how := scheme.FindString(target); how != "" && !strings.Contains(how, ".") {
			return how
		}
		rest = target
	}
	if end := strings.IndexAny(rest, "/?#|"); end >= 0 {
		rest = rest[:end]
	}
	return strings.ToLower(rest[strings.LastIndex(rest, "@")+1:])
}
