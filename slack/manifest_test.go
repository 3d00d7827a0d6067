package slack

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What bot slack check looks for, what the manifests ask for and what docs/slack.md explains are the same scopes.
func TestTheManifestsAskForWhatIsNeeded(t *testing.T) {
	t.Parallel()
	var needed []string
	for _, s := range scopes() {
		needed = append(needed, s.name)
	}
	slices.Sort(needed)
	for _, name := range []string{"manifest-socket.yaml", "manifest-http.yaml"} {
		data, err := os.ReadFile("../docs/slack/" + name)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(data), "    bot:\n")
		list, _, _ := strings.Cut(rest, "\nsettings:")
		var asked []string
		for line := range strings.Lines(list + "\n") {
			asked = append(asked, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "- ")))
		}
		slices.Sort(asked)
		if diff := cmp.Diff(needed, asked); diff != "" {
			t.Errorf("%s asks for other scopes than the bot needs (-needed +asked):\n%s", name, diff)
		}
	}
	text, err := os.ReadFile("../docs/slack.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range needed {
		if !regexp.MustCompile("`" + regexp.QuoteMeta(s) + "`").Match(text) {
			t.Errorf("docs/slack.md does not say why %s is needed", s)
		}
	}
}
