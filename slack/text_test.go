package slack

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// corpus is what answers may look like at their worst.
func corpus() map[string]string {
	var headings, table, links strings.Builder
	for i := range 60 {
		fmt.Fprintf(&headings, "## Heading %d\n\nWords under heading %d.\n\n", i, i)
	}
	table.WriteString("Before.\n\n| a | b | c | d | e | f |\n|---|---|---|---|---|---|\n")
	for i := range 40 {
		fmt.Fprintf(&table, "| row %d | 1 | 2 | 3 | 4 | %s |\n", i, strings.Repeat("x", i))
	}
	for i := range 400 {
		fmt.Fprintf(&links, "[link %d](https://good.com/a_b_c/%d?x=1&y=2) and <https://good.com/%d> and https://good.com/bare_%d ", i, i, i, i)
	}
	return map[string]string{
		"long prose":       strings.Repeat("A sentence of some words that goes on for a while. ", 800),
		"paragraphs":       strings.Repeat(strings.Repeat("Words of a paragraph. ", 20)+"\n\n", 100),
		"headings":         headings.String(),
		"fence":            "Look:\n\n```go title=\"x\"\n" + strings.Repeat("fmt.Println(\"a line of code\")\n", 320) + "```\n\nThat was it.",
		"fence in a list":  "1. do this\n\n   ```sh\n" + strings.Repeat("   run --this\n", 1200) + "   ```\n2. then that\n",
		"fence in quote":   "> ```\n" + strings.Repeat("> quoted code\n", 1200) + "> ```\n",
		"table":            table.String(),
		"big table":        strings.Replace(table.String(), "Before.", strings.Repeat("Before. ", 1200), 1) + strings.Repeat("| more | 1 | 2 | 3 | 4 | 5 |\n", 200),
		"links":            links.String(),
		"emoji":            strings.Repeat("👩‍👩‍👧‍👦🇩🇪👍🏽", 900),
		"right to left":    strings.Repeat("שלום עולם, זה טקסט ארוך. ", 500),
		"one long word":    strings.Repeat("x", 20000),
		"combining":        strings.Repeat("e\u0301", 8000),
		"references":       strings.Repeat("See [the page][p] for more.\n\n", 600) + "[p]: https://good.com/page\n",
		"open fence":       "```\nnot closed",
		"nested list":      strings.Repeat("- a\n  - b\n    - c\n      words below\n", 500),
		"links over lines": strings.Repeat("Some words and [the words\nof a link](https://good.com/a_b_c/1) go on. ", 400),
		"crlf":             strings.Repeat("line\r\n\r\n", 3000),
	}
}

func TestAReplyIsSplitIntoMessagesThatAreWhole(t *testing.T) {
	t.Parallel()
	for name, text := range corpus() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkParts(t, text, usual())
			checkParts(t, text, usual().smaller().smaller())
		})
	}
}

func checkParts(t interface {
	Helper()
	Fatalf(string, ...any)
}, text string, fits room,
) {
	t.Helper()
	got := parts(text, fits)
	source := tidy(text)
	at := 0
	for i, p := range got {
		if p.from != at {
			t.Fatalf("part %d begins at %d, the one before it ended at %d", i, p.from, at)
		}
		at = p.to
		if len(p.text) > fits.bytes+1500 {
			t.Fatalf("part %d has %d bytes, %d fit", i, len(p.text), fits.bytes)
		}
		if utf8.RuneCountInString(p.text) > 11000 {
			t.Fatalf("part %d is beyond Slack's limit", i)
		}
		if !utf8.ValidString(p.text) || blank(p.text) {
			t.Fatalf("part %d is empty or broken: %.60q", i, p.text)
		}
		if n := strings.Count(p.text, "\n## "); n > fits.blocks {
			t.Fatalf("part %d has %d headings", i, n)
		}
		if d := readDocument(p.text); d.tail != "" {
			t.Fatalf("part %d leaves a fence open: …%q", i, p.text[max(0, len(p.text)-60):])
		}
		if !contains(p.text, source[p.from:p.to]) {
			t.Fatalf("part %d does not carry its piece of the text:\n%.300q\n%.300q", i, p.text, source[p.from:p.to])
		}
	}
	if len(got) > 0 && at != len(source) {
		t.Fatalf("%d bytes of %d arrive", at, len(source))
	}
}

// contains says whether all lines of a piece stand in a part, in order; white space does not count.
func contains(part, piece string) bool {
	strip := func(s string) string { return strings.Join(strings.Fields(s), "") }
	return strings.Contains(strip(part), strip(piece))
}

func TestEveryTextArrivesWhole(t *testing.T) {
	t.Parallel()
	bits := []string{
		"word ", "words and words ", "\n", "\n\n", "```\n", "```go\n", "~~~\n", "| a | b |\n", "|---|---|\n", "# head\n", "- item\n", "   indented\n", "    code\n",
		"[x](https://good.com/a_b)", "<https://good.com>", "`code span` ", "👩‍👩‍👧", "é", "é", "שלום ", "> quote\n", "1. one\n", "***\n", "[r]: https://good.com/r\n", "[r] ", "\t", "**bold** ",
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(bits), 0, 200).Draw(t, "bits"), "")
		fits := room{bytes: rapid.IntRange(500, 1500).Draw(t, "bytes"), blocks: rapid.IntRange(1, 10).Draw(t, "blocks"), rows: rapid.IntRange(2, 9).Draw(t, "rows"), tables: 1}
		got := parts(text, fits)
		if blank(tidy(text)) != (len(got) == 0) {
			t.Fatalf("%d parts of %q", len(got), text)
		}
		at, source := 0, tidy(text)
		for i, p := range got {
			if p.from != at || blank(p.text) || !contains(p.text, source[p.from:p.to]) || len(p.text) > fits.bytes+1500 {
				t.Fatalf("part %d, from %d after %d: %q of %q", i, p.from, at, p.text, source)
			}
			at = p.to
			for _, link := range regexp.MustCompile(`https://[^\s)>]*`).FindAllString(p.text, -1) {
				switch link {
				case "https://good.com/a_b", "https://good.com", "https://good.com/r":
				default:
					t.Fatalf("half a link %q in part %d", link, i)
				}
			}
		}
		if len(got) > 0 && at != len(source) {
			t.Fatalf("%d of %d bytes arrive", at, len(source))
		}
	})
}

func TestNoLinkAndNoCharacterIsCutInTwo(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, p := range parts(corpus()["links"], usual()) {
		if strings.Count(p.text, "[") != strings.Count(p.text, "](https://good.com/a_b_c/") || strings.Count(p.text, "<") != strings.Count(p.text, ">") {
			t.Fatalf("half a link in …%q", p.text[len(p.text)-100:])
		}
		all.WriteString(p.text + " ")
	}
	if n := strings.Count(all.String(), "https://good.com/bare_"); n != 400 {
		t.Fatalf("%d bare links of 400", n)
	}
	for _, p := range parts(corpus()["emoji"], usual()) {
		if rest := strings.NewReplacer("👩‍👩‍👧‍👦", "", "🇩🇪", "", "👍🏽", "").Replace(p.text); rest != "" {
			t.Fatalf("a piece of a character: %q", rest)
		}
	}
	for _, p := range parts(corpus()["combining"], usual()) {
		if strings.HasPrefix(p.text, "\u0301") {
			t.Fatal("a mark without its letter")
		}
	}
}

func TestALinkThatGoesOverLinesIsNotCut(t *testing.T) {
	t.Parallel()
	for _, fits := range []room{usual(), usual().smaller().smaller().smaller()} {
		for _, p := range parts(corpus()["links over lines"], fits) {
			if strings.Count(p.text, "[") != strings.Count(p.text, "](https://good.com/a_b_c/1)") {
				t.Fatalf("half a link in %.60q … %q", p.text, p.text[len(p.text)-60:])
			}
		}
	}
	if at := breakAt("a [b\nc](https://good.com/a_b_c/1) d", 8); at > 2 {
		t.Errorf("a stream is cut at %d, within a link", at)
	}
}

func TestAFenceIsClosedAndOpenedAgain(t *testing.T) {
	t.Parallel()
	got := parts(corpus()["fence"], usual())
	if len(got) < 2 {
		t.Fatalf("%d parts", len(got))
	}
	for i, p := range got {
		if strings.Contains(p.text, "Println") && (strings.Count(p.text, "```go title=\"x\"\n") != 1 || strings.Count(p.text, "\n```") < 1) {
			t.Errorf("part %d: %.40q … %q", i, p.text, p.text[len(p.text)-40:])
		}
	}
	rows := 0
	for i, p := range parts(corpus()["big table"], usual()) {
		n := strings.Count(p.text, "\n| row") + strings.Count(p.text, "\n| more")
		if n > 0 && strings.Count(p.text, "| a | b | c |") != 1 {
			t.Errorf("part %d has rows without a header", i)
		}
		rows += n
	}
	if rows != 240 {
		t.Errorf("%d rows of 240", rows)
	}
	for i, p := range parts(corpus()["references"], usual()) {
		if strings.Contains(p.text, "[the page][p]") && !strings.Contains(p.text, "[p]: https://good.com/page") {
			t.Errorf("part %d refers to a link that it does not define", i)
		}
	}
}

func TestNothingIsSaidWhereNothingWouldBeSeen(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " ", "\n\n\t", "\u200b\u200d", "\u2800", "\u3164 \u115f"} {
		if got := parts(text, usual()); len(got) != 0 {
			t.Errorf("%q gives %d parts", text, len(got))
		}
	}
}

func TestOldMarkupIsHarmlessAndReadable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"5 < 6 && 7 > 3":                    "5 &lt; 6 &amp;&amp; 7 &gt; 3",
		"**Status:**OK":                     "*Status:*OK",
		"[x](https://a.b/c_d?e=1&f=2)":      "<https://a.b/c_d?e=1&amp;f=2|x>",
		"**[x](https://a.b/?c=1)**":         "*<https://a.b/?c=1|x>*",
		"`a_*b*_<c>`":                       "`a_*b*_&lt;c&gt;`",
		"# Title #":                         "*Title*",
		"<!channel> <!subteam^S1>":          "&lt;\u200b!channel&gt; &lt;\u200b!subteam^S1&gt;",
		"ask <@U0ANA> in <#C0FRONT>":        "ask <@U0ANA> in <#C0FRONT>",
		"```go\na < b\n```":                 "```\na &lt; b\n```",
		"| a | b |\n|---|---|\n| 1 | 2 |":   "```\n| a | b |\n|---|---|\n| 1 | 2 |\n```",
		"[x](javascript:alert(1))":          "[x](javascript:alert(1))",
		"<https://a.b/c|d>":                 "&lt;https://a.b/c|d&gt;",
		"https://a_b.c/d_e and https://f_g": "https://a_b.c/d_e and https://f_g",
	} {
		if diff := cmp.Diff(want, mrkdwn(in)); diff != "" {
			t.Errorf("%q:\n%s", in, diff)
		}
	}
	for name, text := range corpus() {
		for _, s := range chunks(mrkdwn(text), mostSection) {
			if n := utf8.RuneCountInString(s); n > 3000 || strings.Count(s, "```")%2 != 0 && name != "open fence" {
				t.Errorf("%s: a section of %d characters, fences %d", name, n, strings.Count(s, "```"))
			}
		}
		if n := utf8.RuneCountInString(plain(text)); n > mostFallback || n == 0 {
			t.Errorf("%s: a fallback of %d characters", name, n)
		}
	}
}

func BenchmarkParts(b *testing.B) {
	text := corpus()["paragraphs"]
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		parts(text, usual())
	}
}
