package config

import (
	"fmt"
	"strings"
)

// Reference writes docs/pack.md out of the tables that drive the parser: every key of every file, with what may stand there,
// what holds without it, what it means, and an example.
func Reference() string {
	l := newLoader(&kit{builtins: Builtins()})
	var b strings.Builder
	b.WriteString(`# The pack

A pack is a folder that defines one bot. Every key that it may have stands here. This page is written from the tables that
drive the parser: ` + "`go test ./config -run TestReference -update`" + `.

| file | holds |
| --- | --- |
| bot.yaml | the bot itself: models, scope, people, limits |
| assistants/NAME.yaml | one assistant each |
| tools/*.yaml | tools, one file for each server |
| policy.yaml | who may do what (may be left out) |
| playground.yaml | who is in the simulated workspace (may be left out) |
| rehearsals/*.yaml | scripted conversations, which are the offline model too |
| docs/**.md, .txt | documents for docs.search and docs.fetch |
| README.md, *.go | for people, and for programs that embed or test the pack; not read |

Files that begin with a dot are not read; any other file is an error. One YAML document a file, without anchors and tags. A
key that is not known, or that stands twice, is an error. Text that looks like a number, a date apart, must be quoted where
text is wanted.

Expressions are CEL, written bare where a condition or an expression is wanted, and as ` + "`${ … }`" + ` inside text; ` + "`$${`" + ` is
the two characters themselves. A value that is one whole expression keeps its type. They stand on one line, in quotes or in a
block that begins with |. Beside CEL's own functions there are ` + "`days(n)`" + ` and ` + "`sum(list)`" + `.
`)
	seen := map[string]bool{}
	for _, part := range []struct {
		title string
		t     *table
	}{
		{"bot.yaml", l.botTable()},
		{"assistants/NAME.yaml", l.assistantTable(&Assistant{})},
		{"tools/*.yaml", l.toolFileTable(&toolFile{})},
		{"policy.yaml", l.policyTable(&policyFile{})},
		{"playground.yaml", l.playgroundTable()},
		{"rehearsals/*.yaml: a list of rehearsals", l.rehearsalTable(&Rehearsal{})},
		{"{env: NAME} and {file: PATH}", refTable(&Ref{})},
	} {
		writeTable(&b, part.title, "##", part.t, seen)
	}
	writeBuiltins(&b)
	b.WriteString(`
## What else is refused

A pack whose keys are all good is refused where its parts together are unsafe, or say nothing:

- A rule that changes nothing: it allows what is allowed without it, its condition is always the same, or another rule denies
  all its tools in any case.
- Guests or people of other organisations may use an assistant with a tool that is irreversible, or an effect with a target,
  and nobody but they themselves would decide its calls.
- An assistant has an untrusted tool, and a tool with an effect whose argument is called like a recipient (to, email, url,
  payee, iban and the like, alone or as a word between underscores) without saying ` + "`target: true` or `target: false`" + `.
- A call may wait for a person longer than ` + "`retention`" + ` keeps its words.
`)
	return b.String()
}

// writeTable writes a table and then the tables of its keys, each once.
func writeTable(b *strings.Builder, title, level string, t *table, seen map[string]bool) {
	if seen[t.what] {
		return
	}
	seen[t.what] = true
	fmt.Fprintf(b, "\n%s %s\n\n%s\n\n| key | what may stand there | without it | meaning | example |\n| --- | --- | --- | --- | --- |\n", level, title, t.about)
	for _, k := range t.keys {
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | `%s` |\n", k.name, cell(k.value.words()), cell(k.need), cell(k.about), cell(k.example))
	}
	if len(t.later) > 0 {
		var names []string
		for name := range t.later {
			names = append(names, name)
		}
		fmt.Fprintf(b, "\nNot in this version: %s.\n", strings.Join(sortedWords(names), ", "))
	}
	for _, k := range t.keys {
		if k.value.sub != nil {
			writeTable(b, strings.TrimSuffix(title, ": a list of rehearsals")+": "+k.name, "###", k.value.sub, seen)
		}
	}
}

// cell makes a text fit for a cell of a Markdown table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func sortedWords(words []string) []string {
	m := map[string]any{}
	for _, w := range words {
		m[w] = nil
	}
	return sortedKeys(m)
}

func writeBuiltins(b *strings.Builder) {
	b.WriteString("\n## Built-in tools\n\nAssistants name them like other tools; a tool of the pack cannot take their names. `ask.person` asks the requester or a\ngroup of `people`; the run waits for the answer.\n\n| tool | what it does | arguments |\n| --- | --- | --- |\n")
	for _, t := range append(Builtins(), askContract(nil)) {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", t.Name, t.About, strings.Join(t.allowed, ", "))
	}
}
