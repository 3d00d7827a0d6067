package sim_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMarkdownBlocksComeBackAsOthers(t *testing.T) {
	t.Parallel()
	w := open(t)
	const text = "# Head\n\nwords *a*\nmore\n\n## Two\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\n# no head\n| no table\n```\n"
	out := w.ok("chat.postMessage", args{"channel": hall, "markdown_text": text})
	var got []string
	for _, b := range dig(out, "message", "blocks").([]any) {
		got = append(got, str(b, "type"))
	}
	if diff := cmp.Diff([]string{"rich_text", "rich_text", "rich_text", "table", "rich_text"}, got); diff != "" {
		t.Error(diff)
	}
	// People see what was sent.
	if m := w.Messages(hall)[0]; m.Visible() != text || m.Text != text {
		t.Errorf("%q", m.Visible())
	}
	if rows := dig(dig(out, "message", "blocks").([]any)[3], "rows").([]any); len(rows) != 2 {
		t.Errorf("rows %v", rows)
	}
}
