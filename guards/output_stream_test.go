package guards_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"switchboard/guards"

	"pgregory.net/rapid"
)

// play streams a text in the given pieces and checks every step, or every n-th one.
func play(t interface{ Fatalf(string, ...any) }, pieces []string, n int) *guards.Stream {
	s := guards.NewStream(filter(), nil, nil)
	before, steps := "", 0
	for i, p := range pieces {
		more := s.Add(p)
		if s.Shown() != before+more {
			t.Fatalf("after %q it shows %q, but gave %q and %q", pieces[:i+1], s.Shown(), before, more)
		}
		if before = s.Shown(); more == "" {
			continue
		}
		if steps++; steps%n != 0 {
			continue
		}
		if l := leaks(before); len(l) > 0 {
			whole, _ := filter().Clean(strings.Join(pieces[:i+1], ""))
			if len(leaks(whole)) == 0 { // else it is the filter's own gap, and no matter of streams
				t.Fatalf("after %q it shows %q, which leaks %q", pieces[:i+1], before, l)
			}
		}
		if again, _ := filter().Clean(before); again != before {
			t.Fatalf("after %q it shows %q, which is cleaned to %q", pieces[:i+1], before, again)
		}
	}
	return s
}

func cut(t *rapid.T, text string) (pieces []string) {
	for text != "" && len(pieces) < 400 {
		n := rapid.IntRange(1, min(len(text), 12)).Draw(t, "n")
		pieces = append(pieces, text[:n])
		text = text[n:]
	}
	return append(pieces, text)
}

func chars(text string) []string { return strings.Split(text, "") }

func TestM7_StreamOfAnythingIsHarmless(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		also := rapid.SampledFrom([]string{" ", "\n", "日本語。", "世界", "、", "！", " word ", "- ", "> ", "[x]", "[x]: //evil.com\n", "\n\n"})
		part := rapid.OneOf(crafted(), also, also, rapid.String())
		in := strings.Join(rapid.SliceOfN(part, 1, 5).Draw(t, "in"), "") + rapid.SampledFrom([]string{"", " ", "\n", "\n\nend ", "> ", ") ", "` "}).Draw(t, "end")
		play(t, cut(t, in), 1)
	})
}

func TestM7_StreamOfTheCorpus(t *testing.T) {
	t.Parallel()
	items, _ := corpus(t)
	whole := strings.Builder{}
	for _, it := range items {
		in := it.in + "\n\nand more \n"
		play(t, chars(in), 3)
		if it.section == "Ordinary text stays as it is" {
			whole.WriteString(in)
		}
	}
	// One text of everything that is ordinary, one byte at a time: all is shown.
	in := whole.String()
	s := play(t, chars(in), 50)
	if clean, _ := filter().Clean(in); s.Shown() != clean {
		t.Errorf("of %q\n is shown %q", clean, s.Shown())
	}
}

// atom is a text that must not be shown in part.
var atoms = []string{
	"[help](https://good.com/x)", "[our *big* help](https://good.com/a_(b) \"a (fine) title\")", "[help](<https://good.com/x>)", "[a\nb](https://good.com/x)", "[help]( https://good.com/x )", "[a [b] c](https://good.com/x)",
	"![pic](https://good.com/p.png)", "[click](https://evil.com/x y)", "![pic of it](https://evil.com/p.png)", "[a][b c]", "<https://good.com|our help>", "<https://good.com/x>", "<https://evil.com|click me>",
	"<@U0ANA>", "<@U0BOB|bob the builder>", "<!channel>", "< !here>", "<!subteam^S0OPS|@ops team>", "<!date^1392734382^{date}|Feb 18>", "<#C0FRONT>", "<a href=\"https://good.com\">click me</a>", "<a href='https://evil.com'>click me</a>",
	"<img src='https://good.com/a.png' alt='a b'>", "`a code span`", "``a ` b``", "`<!here> x`", "https://good.com/a?b=c#d", "good.com", "www.evil.com/path?q", "evil.com", "ana@good.com", "@channel", "javascript:alert(1)", "e&#46;vil&period;com",
	"&#91;help me](https://good.com/x)", "&lsqb;help me&rsqb;(https://good.com/x)", "e\u200bvil.com", "\u202eevil.com", "👩\u200d👩\u200d👧", "❤️",
}

func TestM7_SettledHoldsOpenFormsBack(t *testing.T) {
	t.Parallel()
	lines := []string{"```\nx [a] `b\n<c>\n```\n", "~~~sh\nwget evil.com\n~~~\n", "> ```\n> x y\n> ```\n", "[ref]: https://evil.com \"t t\"\n", "[ref]:\n  https://good.com/x\n"}
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		type span struct{ from, to int }
		var spans []span
		fenced := false
		for range rapid.IntRange(1, 8).Draw(t, "parts") {
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0, 1:
				from := text.Len()
				text.WriteString(rapid.SampledFrom(atoms).Draw(t, "atom"))
				spans = append(spans, span{from, text.Len()})
				text.WriteString(rapid.SampledFrom([]string{" ", "\n", ", ", ".\n\n"}).Draw(t, "gap"))
			case 2:
				text.WriteString(rapid.SampledFrom([]string{"word ", "(a) ", "x < 3 ", "- [ ] ", "arr[0] ", "naïve café\n", "שלום עולם ", "日本語。はい、", "[1] ", "wow! "}).Draw(t, "word"))
			default:
				text.WriteString("\n\n")
				line := rapid.SampledFrom(lines).Draw(t, "line")
				from := text.Len()
				text.WriteString(line)
				fenced = fenced || !strings.HasPrefix(line, "[")
				if end := strings.IndexByte(line, '\n'); strings.HasPrefix(line, "[") {
					spans = append(spans, span{from, text.Len()})
				} else { // a fence may be shown line by line
					spans = append(spans, span{from, from + end + 1})
				}
			}
		}
		whole := text.String()
		n := rapid.IntRange(0, len(whole)).Draw(t, "read")
		got := filter().Settled(whole[:n])
		if got < 0 || got > n || !utf8.ValidString(whole[:got]) {
			t.Fatalf("Settled(%q) = %d", whole[:n], got)
		}
		for _, s := range spans {
			if s.from < got && got < s.to {
				t.Fatalf("of %q\n %q is settled, in the middle of %q", whole[:n], whole[:got], whole[s.from:s.to])
			}
		}
		if rest := whole[got:n]; got < n && n == len(whole) && strings.HasSuffix(whole, ".\n\n") && !fenced && !strings.Contains(rest, "<") {
			t.Fatalf("%q is held back behind %q", rest, whole[:got])
		}
	})
}

func TestM7_Settled(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                                "",
		"Hello":                           "",
		"Hello there":                     "Hello ",
		"Hello there ":                    "Hello there ",
		"see [the help":                   "see ",
		"see [the help] ":                 "see [the help] ",
		"see [the help](https://good.com": "see ",
		"see [the help](https://good.com/x \"my ": "see ",
		"see [the help](https://good.com/x) and":  "see [the help](https://good.com/x) ",
		"[never closed\n\nnext paragraph":         "",
		"a [never closed\n\nnext paragraph":       "a [never closed\n\nnext ",
		"a < b and c":                             "a < b and ",
		"a <!chan nel":                            "a ",
		"a <https://good.com|our help":            "a ",
		"a <a href=\"https://good.com\">our help": "a ",
		"in `code that is":                        "in ",
		"in `code that is\nnot closed":            "in `code that is\nnot ",
		"text\n```go":                             "text\n",
		"text\n```go\nx := 1\ny := ":              "text\n```go\nx := 1\n",
		"text\n```go\nx\n``":                      "text\n```go\nx\n",
		"text\n```go\nx\n```\nmore and":           "text\n```go\nx\n```\nmore ",
		"text\n```\n<!chan\n":                     "text\n```\n",
		"[ref]: https://good.com \"t":             "",
		"[ref]:\n":                                "",
		"- [ ] to do":                             "- [ ] to ",
		"a &#60; b":                               "a &#60; ",
		"one\r":                                   "",
		"日本語。はい":                                  "日本語。",
		"日本語。":                                    "",
		"evil。com":                                "",
		"wow!":                                    "",
		"  ``":                                    "",
		"| a | b |\n|--":                          "| a | b |\n",
	} {
		if got := in[:filter().Settled(in)]; got != want {
			t.Errorf("of %q\n is settled %q\n want       %q", in, got, want)
		}
	}
}

// Ordinary answers come as they are written: what is shown is always the beginning of the whole text, cleaned, and only
// what is open stays back.
func TestM7_StreamOfOrdinaryText(t *testing.T) {
	t.Parallel()
	block := rapid.SampledFrom([]string{
		"# Title\n\n", "Some words, and more of them. ", "A [link](https://good.com/a) in it, and `code`.\n", "- one\n- two\n  - three\n\n", "1. first\n2. second\n", "> quoted words\n> go on\n\n", "| a | b |\n|---|---|\n| 1 | 2 |\n\n",
		"```go\nif x[0] < 3 && y > 4 {\n\treturn `raw`\n}\n```\n", "~~~\nplain\n~~~\n\n", "**bold** and *it*, ~no~ (10:30)\n", "<https://good.com|help> for <@U0ANA>! ", "evil.com and https://evil.com/x, or [x](https://evil.com). ", "a < b, c > d\n", "👍🏽 ❤️ 👨\u200d👩\u200d👧 ✅ ",
		"日本語。はい、どうぞ。\n", "שלום עולם, مرحبا\n\n", "@channel, <!here> and <@U0BOB|bob>\n", "arr[0], [1] and - [x] done\n", "R&D &amp; more&hellip; ", "![pic](https://evil.com/p.png) ", "line\r\nend\r\n", "[a][b]\n\n[b]: https://good.com/x\n",
	})
	rapid.Check(t, func(t *rapid.T) {
		in := "So " + strings.Join(rapid.SliceOfN(block, 0, 9).Draw(t, "blocks"), "")
		s := play(t, cut(t, in+"\n\n"), 40)
		clean, _ := filter().Clean(in + "\n\n")
		if s.Shown() != clean {
			t.Fatalf("of %q\n is shown %q", clean, s.Shown())
		}
	})
}

func TestM7_ALaterDefinitionIsNeverFollowed(t *testing.T) {
	t.Parallel()
	s := play(t, chars("See [this] and [that][r].\n\n[r]: https://evil.com\n[this]: https://evil.com\n\nMore words. "), 1)
	if got := s.Shown(); strings.Contains(got, "evil") || !strings.HasPrefix(got, "See [this] and ") {
		t.Errorf("it shows %q", got)
	}
}

// hider masks one value that has a space, as the journal's mask does.
func hider(value string) (func(string) string, func(string) int) {
	hide := func(text string) string { return strings.ReplaceAll(text, value, "‹v›") }
	return hide, func(text string) int {
		for n := min(len(value)-1, len(text)); n > 0; n-- {
			if strings.HasPrefix(value, text[len(text)-n:]) {
				return n
			}
		}
		return 0
	}
}

func TestM2_StreamHidesValues(t *testing.T) {
	t.Parallel()
	hide, hold := hider("Club del Mar")
	piece := rapid.SampledFrom([]string{"Club del Mar", "Club", " ", "del", "Mar", "Club\u200b del\u200b Mar", "C", "lub del", "\n", "the ", "[Club del Mar](https://good.com/x)", "`Club del Mar` "})
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"), "") + " end.\n"
		s := guards.NewStream(filter(), hide, hold)
		for _, p := range cut(t, in) {
			s.Add(p)
			if strings.Contains(s.Shown(), "Club del Mar") {
				t.Fatalf("%q shows %q", in, s.Shown())
			}
		}
		clean, _ := filter().Clean(hide(in))
		if clean = hide(clean); !strings.HasPrefix(clean, s.Shown()) || len(s.Shown()) < len(clean) {
			t.Fatalf("of %q\n is shown %q", clean, s.Shown())
		}
	})
}

// long is an answer of some 40,000 characters.
func long() string {
	return strings.Repeat("## Fees\n\nAna booked Mat Pilates at 10:30 on Monday. The fee is 3.50 a month, and members who pay for a year, see [help](https://good.com/x), pay less.\n\n- one point\n- and `another`\n\n", 40_000/183+1)
}

func TestM7_StreamCostsNoMoreForALongText(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"prose":         long(),
		"one line":      strings.ReplaceAll(long(), "\n", " "),
		"fence":         "```\n" + long(),
		"no spaces":     strings.Repeat("x", 40_000),
		"Japanese":      strings.Repeat("会員はいつでも、予約できます。", 10_000/15),
		"open brackets": strings.Repeat("[a (b <!c `d ", 40_000/13),
	} {
		s, began := guards.NewStream(filter(), nil, nil), time.Now()
		for _, c := range chars(text) {
			s.Add(c)
		}
		took := time.Since(began)
		began = time.Now()
		filter().Clean(text)
		once := time.Since(began)
		t.Logf("%s: %v, at once %v", name, took, once)
		if took > 20*once+time.Second { // a quadratic one takes thousands of times as long
			t.Errorf("%s: %v, where cleaning all of it at once takes %v", name, took, once)
		}
		if shown := len(s.Shown()); name != "no spaces" && name != "Japanese" && shown < len(text)*8/10 {
			t.Errorf("%s: only %d of %d bytes were shown", name, shown, len(text))
		}
	}
}

func BenchmarkStream(b *testing.B) {
	text := long()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		s := guards.NewStream(filter(), nil, nil)
		for i := range len(text) {
			s.Add(text[i : i+1])
		}
	}
}
