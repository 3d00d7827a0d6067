package guards_test

import (
	"bufio"
	"flag"
	"fmt"
	"html"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"switchboard/guards"

	"golang.org/x/text/unicode/norm"
	"mvdan.cc/xurls/v2"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the corpus's outputs anew; read them before you commit them")

// filter is what the corpus and the properties run against.
func filter() guards.Output {
	return guards.Output{Links: []string{"good.com", "Help.Club.example.", "ports.org:8443"}, Mentions: []string{"U0ANA", "C0FRONT", "S0FIN"}}
}

var (
	anyScheme  = regexp.MustCompile(`(?i)([a-z][a-z0-9+.\-]*):[/\\]{2}([\pL\pN][^/\\?#\s\pZ<>"'|)\]` + "`" + `]*)`)
	actScheme  = regexp.MustCompile(`(?i)\b(?:javascript|vbscript|mailto|tel|sms|file|data):[\w/+]`)
	markdown   = regexp.MustCompile(`\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+["'][^()]*)?\s*\)`)
	slackForm  = regexp.MustCompile(`<([^<>|\s]+)(?:\|[^<>]*)?>`)
	tagAddress = regexp.MustCompile(`(?i)<[a-z][^<>]*(?:href|src)\s*=\s*["']?([^"'\s>]+)[^<>]*>`)
	outward    = regexp.MustCompile(`(?:^|:)//[\pL\pN]`)
	pings      = regexp.MustCompile(`(?i)<!(?:channel|here|everyone|subteam\^([A-Z0-9]+))(?:\|[^<>]*)?>|<[@#]([A-Z0-9]+)(?:\|[^<>]*)?>|(?:^|[^\pL\pN])@(channel|here|everyone)\b`)
	unseen     = regexp.MustCompile("[\u00ad\u061c\u180e\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0000-\U000e0fff\u0000-\u0008\u000b-\u001f\u007f]")
)

// fine says whether the host of an address is on the list. It asks the standard parser, not the filter.
func fine(address string) bool {
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(strings.TrimRight(address, ".,;:!?'*_~[({}`-…”»"))
	if err != nil || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	host := strings.TrimSuffix(strings.ToLower(u.Host), ".")
	return host == "good.com" || host == "help.club.example" || host == "ports.org:8443" || host == "good.com:443" || host == "good.com:80"
}

// leaks lists everything in a text that some client could make a link or a mention of, and that is not allowed.
func leaks(text string) (found []string) {
	for _, read := range []string{text, norm.NFKC.String(text), html.UnescapeString(text)} {
		for _, m := range xurls.Relaxed().FindAllString(read, -1) {
			how, rest, colon := strings.Cut(m, ":")
			switch {
			case colon && !strings.ContainsFunc(rest, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }): // a scheme alone
			case !strings.Contains(m, "://") && !strings.Contains(m, "."): // numbers and colons, clickable nowhere
			case strings.Contains(m, "@") && !strings.Contains(m, "/"):
				if !fine(m[strings.LastIndex(m, "@")+1:]) {
					found = append(found, "mail "+m)
				}
			case colon && !strings.Contains(how, ".") && !strings.HasPrefix(rest, "//"): // mid:x, geo:1.5
				if host := xurls.Relaxed().FindString(rest); host != "" && !fine(host) {
					found = append(found, "rest "+m)
				}
			case !fine(m):
				found = append(found, "address "+m)
			}
		}
		for _, m := range anyScheme.FindAllStringSubmatch(read, -1) {
			if !fine(m[1] + "://" + m[2]) {
				found = append(found, "scheme "+m[0])
			}
		}
		found = append(found, actScheme.FindAllString(read, -1)...)
	}
	for _, m := range markdown.FindAllStringSubmatch(text, -1) {
		dead := strings.HasSuffix(m[1], ":") || strings.Contains(m[1], "[:]") || strings.Contains(m[1], "[.]") // no client finds a scheme or a host in it
		if outside := strings.ContainsAny(m[1], `:\`) || strings.Contains(m[1], "//"); outside && !dead && !fine(m[1]) {
			found = append(found, "markdown "+m[0])
		}
	}
	for _, re := range []*regexp.Regexp{slackForm, tagAddress} {
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			if outward.MatchString(m[1]) && !fine(m[1]) {
				found = append(found, "form "+m[0])
			}
		}
	}
	for _, m := range pings.FindAllStringSubmatch(text, -1) {
		if id := strings.ToUpper(m[1] + m[2]); id != "U0ANA" && id != "C0FRONT" && id != "S0FIN" {
			found = append(found, "ping "+m[0])
		}
	}
	return append(found, unseen.FindAllString(text, -1)...)
}

// item is one line of the corpus: what goes in, and what comes out ("same": what went in).
type item struct{ section, in, out string }

func corpus(t *testing.T) (items []item, lines []string) {
	t.Helper()
	file, err := os.Open("testdata/output.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}()
	section := ""
	for s := bufio.NewScanner(file); s.Scan(); {
		line := s.Text()
		lines = append(lines, line)
		if name, ok := strings.CutPrefix(line, "# "); ok {
			section = name
			continue
		}
		if line == "" {
			continue
		}
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		in, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		it := item{section, in, in}
		if rest := strings.TrimPrefix(strings.TrimSpace(line[len(quoted):]), "-> "); rest != "same" {
			if it.out, err = strconv.Unquote(rest); err != nil && !*update {
				t.Fatalf("%s: %v", line, err)
			}
		}
		items = append(items, it)
	}
	return items, lines
}

func TestM7_Corpus(t *testing.T) {
	t.Parallel()
	items, lines := corpus(t)
	count, at := map[string]int{}, 0
	for i, line := range lines {
		if line == "" || strings.HasPrefix(line, "# ") {
			continue
		}
		it := items[at]
		at++
		count[strings.Fields(it.section)[0]]++
		got, removed := filter().Clean(it.in)
		if *update {
			want := "same"
			if got != it.in {
				want = strconv.Quote(got)
			}
			lines[i] = strconv.Quote(it.in) + " -> " + want
			continue
		}
		if got != it.out {
			t.Errorf("%s\n in   %q\n got  %q\n want %q", it.section, it.in, got, it.out)
		}
		if again, _ := filter().Clean(got); again != got {
			t.Errorf("not settled: %q\n then %q", got, again)
		}
		for _, l := range leaks(got) {
			t.Errorf("%q\n leaves %q\n in %q", it.in, l, got)
		}
		tidied := regexp.MustCompile(`good\.com|U0ANA|C0FRONT|S0FIN`).MatchString(got) || strings.Contains(it.section, "decoded")
		if changed := got != it.in; changed != (len(removed) > 0) && (!changed || !tidied) {
			t.Errorf("%q: changed to %q, but on record is %v", it.in, got, removed)
		}
	}
	if *update {
		if err := os.WriteFile("testdata/output.txt", []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if len(items) < 200 || count["S19"] < 100 || count["S22"] < 20 || count["S23"] < 20 || count["Ordinary"] < 30 {
		t.Errorf("the corpus has shrunk: %v", count)
	}
}

func TestM7_EmptyListsAllowNothing(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"[a](https://good.com) <@U0ANA> https://good.com good.com": "a (link removed) (mention removed) (link removed) good[.]com",
		" \u200b\n\u202e ": "",
		"":                 "",
	} {
		if got, _ := (guards.Output{}).Clean(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
	all := guards.Output{Mentions: []string{"channel", "here"}}
	if got, removed := all.Clean("<!channel> @here <!everyone>, @everyone"); got != "<!channel> @here everyone, everyone" || len(removed) != 2 {
		t.Errorf("%q %v", got, removed)
	}
}

func TestM7_RemovedSaysWhat(t *testing.T) {
	t.Parallel()
	_, got := filter().Clean("[a](https://EVIL.com/x?secret=1) ![b](https://pics.evil.com/p) <@U1|bob> \u200b" + "https://" + strings.Repeat("é", 200) + ".com")
	want := []guards.Removed{{guards.RemovedHidden, ""}, {guards.RemovedMention, "U1"}, {guards.RemovedLink, "evil.com"}, {guards.RemovedImage, "pics.evil.com"}}
	for i, w := range want {
		if i >= len(got) || got[i] != w {
			t.Fatalf("got %v", got)
		}
	}
	for _, r := range got {
		if len(r.What) > 100 || strings.Contains(r.What, "secret") {
			t.Errorf("%q", r.What)
		}
	}
}

// crafted draws texts out of the pieces that links are made of, which random text would hardly ever hit.
func crafted() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{
			"https://", "http://", "HTTPS://", "https:/", "https:", "//", `\\`, `https:\\`, "javascript:", "data:text/html,", "mailto:", "tel:", "slack://", "ftp://", "x://",
			"evil.com", "good.com", "evil", ".com", ".", "www.", "xn--vil-1cd.com", "еvil.com", "ｅｖｉｌ．ｃｏｍ", "evil。com", "1.2.3.4", "[::1]", "localhost", "README.md",
			"[", "]", "(", ")", "<", ">", "|", "!", "!(", "](", "][", "]:", "]: ", "[x](", "![x](", "<@U1>", "<@U0ANA>", "<!channel>", "<!subteam^S1|", "@here", "@", "#", "<!date^1^{date}^",
			"<a href=", "<a href=\"", "</a>", "<img src='", "'>", "\">", "`", "```", "\n```\n", "~~~", "\n", "\n\n", " ", "\t", "\r", "\\", "%2e", "%2f%2f", "%00", "?u=", "/", ":", ":8443", "&#46;", "&#x3a;", "&period;",
			"&lt;", "&gt;", "&amp;", "&colon;", "&Tab;", "&ZeroWidthSpace;", "\u200b", "\u00ad", "\u202e", "\U000e0041", "\ufe0f", "\u200d", "👍", "a", "b c", "é", "'", "\"", "*", "_", "~", ",", ";", "…", "(link removed)",
			"\n[x]: ", "[x]", "[x][]", "[a][x]", " \"t\"", "> ", "- ",
		}),
		rapid.StringN(0, 3, 8),
	)
	return rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(piece, 0, 14).Draw(t, "pieces"), "") })
}

func TestM7_NothingDisallowedIsLinkable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := crafted().Draw(t, "in")
		got, _ := filter().Clean(in)
		if l := leaks(got); len(l) > 0 {
			t.Fatalf("%q\n left %q\n in %q", in, l, got)
		}
	})
}

func TestM7_CleaningTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.OneOf(crafted(), rapid.String()).Draw(t, "in")
		once, _ := filter().Clean(in)
		twice, removed := filter().Clean(once)
		if twice != once || len(removed) > 0 && !strings.Contains(once, "<") {
			t.Fatalf("%q\n once  %q\n twice %q %v", in, once, twice, removed)
		}
	})
}

func TestM7_OrdinaryTextIsNotTouched(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{
		"Ana", "booked", "Mat-Pilates", "at", "10:30", "(room 2)", "3.50", "€", "e.g.", "i.e.", "report.csv", "v1.2.3", "*bold*", "_x_", "`code.js`", "a/b", "50%", "#general", "x < y", "y > x", "[1]", "[ ]", "arr[0]",
		"don't", "…", "“so”", "naïve", "日本語", "👍🏽", "❤️", "\n", "\n- ", "\n\n", "|", "R&D", "&amp;", "&lt;b&gt;", "org_7", "std::max", "https", "http", "www", "good.com", "https://good.com/a?b=c#d", "[help](https://good.com/x)",
		"<https://good.com|help>", "<@U0ANA>", "bob@good.com", "@ana", "1.", "2)", "12.5.", "U.S.", "p.m.", "key: value", "data: none", "tel: later", "! [", "f(x)", "\"q\"", "it's)", "~5~", "=>",
	})
	rapid.Check(t, func(t *rapid.T) {
		in := "So " + strings.Join(rapid.SliceOfN(word, 0, 30).Draw(t, "words"), " ") + " end"
		if got, removed := filter().Clean(in); got != in || len(removed) > 0 {
			t.Fatalf("%q\n became %q\n %v", in, got, removed)
		}
	})
}

func TestM7_LongHostileTextEndsSoon(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"[", "<", "`", "![", "](", "<a href=", "[x](", "\\", "&#46;", "\n```", "[x]: a.com\n", "evil.com", "https://evil.com/", "a@b.com ", "[[", "<!date^", "``a", "((", "\u200b.", ".a", "x:"} {
		got, _ := filter().Clean(strings.Repeat(unit, 8000/len(unit)))
		if l := leaks(got[:min(len(got), 4000)]); len(l) > 0 {
			t.Errorf("%q leaves %q", unit, l[0])
		}
	}
}

func BenchmarkClean(b *testing.B) {
	for _, size := range []int{1, 10} {
		text := strings.Repeat("Ana booked Mat Pilates at 10:30 on Monday. The fee is 3.50, see [help](https://good.com/x) or README.md, e.g. the part on fees.\n", 4*size)
		b.Run(fmt.Sprint(len(text)), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				filter().Clean(text)
			}
		})
	}
}
