package archtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// program is what the README can tell people to type.
type program struct {
	targets  []string                      // of make
	commands []string                      // of bot
	flags    func(command string) []string // of one command of bot, with their dashes
	exists   func(path string) bool        // files of the project
}

var (
	codeBlock = regexp.MustCompile("(?ms)^```[^\n]*\n(.*?)^```")
	codeSpan  = regexp.MustCompile("`([^`\n]+)`")
	target    = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
)

func TestREADMECommandsExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatalf("a program without a README helps nobody: %v", err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	bot := filepath.Join(t.TempDir(), "bot")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bot, "./cmd/bot")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	p := program{
		commands: append(complete(t, bot, ""), "help"),
		flags:    func(command string) []string { return append(complete(t, bot, command, "-"), "--help") },
		exists: func(path string) bool {
			_, err := os.Stat(filepath.Join(root, filepath.FromSlash(path)))
			return err == nil
		},
	}
	for _, m := range target.FindAllStringSubmatch(string(makefile), -1) {
		p.targets = append(p.targets, m[1])
	}
	faults, typed := p.faults(string(text))
	for _, fault := range faults {
		t.Error(fault)
	}
	if typed == 0 {
		t.Error("the README names no command at all")
	}
}

func TestREADMEFaultsAreFound(t *testing.T) {
	t.Parallel()
	p := program{
		targets:  []string{"run"},
		commands: []string{"chat", "check"},
		flags:    func(command string) []string { return map[string][]string{"chat": {"--json", "-m"}}[command] },
		exists:   func(path string) bool { return path == "examples/club" },
	}
	const text = "Type `make run`, `make rnu`, or `bot chat examples/club -m \"a --b c\" --json`; make the bot work.\n" +
		"```\n$ bin/bot chat examples/pub --jsn=yes\n./bin/bot chek examples/club   # say --why not\nX=1 make run stop\n```\n"
	faults, typed := p.faults(text)
	want := []string{
		`"bin/bot chat examples/pub --jsn=yes": bot chat has no flag --jsn`,
		`"bin/bot chat examples/pub --jsn=yes": there is no examples/pub`,
		`"./bin/bot chek examples/club": bot has no command chek`,
		`"X=1 make run stop": make has no target stop`,
		`"make rnu": make has no target rnu`,
	}
	slices.Sort(want)
	slices.Sort(faults)
	if diff := cmp.Diff(want, faults); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if typed != 6 {
		t.Errorf("%d commands were found in the text, want 6", typed)
	}
}

// faults checks every command in code blocks and code spans, and says how many there were.
func (p program) faults(text string) (faults []string, typed int) {
	var lines []string
	for _, m := range codeBlock.FindAllStringSubmatch(text, -1) {
		lines = append(lines, strings.Split(m[1], "\n")...)
	}
	for _, m := range codeSpan.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		lines = append(lines, m[1])
	}
	for _, line := range lines {
		line, _, _ = strings.Cut(line, " #")
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "$ "))
		words := split(line)
		for len(words) > 0 && regexp.MustCompile(`^[A-Z_]+=`).MatchString(words[0]) {
			words = words[1:]
		}
		if len(words) < 2 {
			continue
		}
		var found []string
		switch words[0] {
		case "make":
			found = p.makeFaults(words[1:])
		case "bot", "bin/bot", "./bin/bot":
			found = p.botFaults(words[1], words[2:])
		default:
			continue
		}
		typed++
		for _, fault := range found {
			faults = append(faults, fmt.Sprintf("%q: %s", line, fault))
		}
	}
	return faults, typed
}

func (p program) makeFaults(words []string) []string {
	var out []string
	for _, word := range words {
		if !strings.Contains(word, "=") && !strings.HasPrefix(word, "-") && !slices.Contains(p.targets, word) {
			out = append(out, "make has no target "+word)
		}
	}
	return out
}

func (p program) botFaults(command string, words []string) []string {
	if !slices.Contains(p.commands, command) {
		return []string{"bot has no command " + command}
	}
	var out []string
	for _, word := range words {
		flag, _, _ := strings.Cut(word, "=")
		switch {
		case strings.HasPrefix(flag, "-") && !slices.Contains(p.flags(command), flag):
			out = append(out, fmt.Sprintf("bot %s has no flag %s", command, flag))
		case strings.HasPrefix(word, "examples/") && !p.exists(word):
			out = append(out, "there is no "+word)
		}
	}
	return out
}

// split cuts a command line into words; a quoted text is one word. A pipe or redirection ends it.
func split(line string) []string {
	var words []string
	for _, m := range regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`).FindAllString(line, -1) {
		if m == "|" || m == "&&" || m == ";" || strings.HasPrefix(m, ">") {
			break
		}
		words = append(words, strings.Trim(m, `"'[]…`))
	}
	return words
}

// complete asks the program itself what may be typed next, as a shell would.
func complete(t *testing.T, bot string, words ...string) []string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), bot, append([]string{"__complete"}, words...)...)
	cmd.Dir, cmd.Stderr = t.TempDir(), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ask the program for its commands: %v\n%s", err, stderr.String())
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		if name, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); name != "" && !strings.HasPrefix(name, ":") {
			names = append(names, name)
		}
	}
	return names
}
