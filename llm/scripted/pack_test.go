package scripted_test

import (
	"testing"
	"testing/fstest"

	"switchboard/config"
	"switchboard/llm"
	"switchboard/llm/scripted"
)

// base is a small pack without rehearsals.
var base = map[string]string{
	"bot.yaml": `pack: 1
name: desk
models:
  fast: {use: openai/gpt-4o-mini}
  judge: {use: anthropic/claude-haiku-4-5}
router: {model: fast}
scope:
  org: {from: [channel], map: {C0FRONT: org_7, C0NORTH: org_77}}
`,
	"assistants/help.yaml": `about: How-to questions.
examples: ["how do I close a day?"]
model: fast
rounds: 4
tools: [docs.search, docs.fetch]
open_to: [everyone]
instructions: Answer from the documents.
`,
	"assistants/insights.yaml": `about: Figures.
examples: ["what was the revenue?"]
model: judge
rounds: 4
tools: [docs.search]
open_to: [everyone]
instructions: Answer with figures.
`,
	"docs/close.md": "# Close a day\n\nOpen the calendar.\n",
}

// load reads the pack with these rehearsals.
func load(t *testing.T, rehearsals string) *config.Pack {
	t.Helper()
	files := fstest.MapFS{}
	for name, text := range base {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	if rehearsals != "" {
		files["rehearsals/all.yaml"] = &fstest.MapFile{Data: []byte(rehearsals)}
	}
	p, err := config.Load(files, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// open is the model fast, played by these rehearsals.
func open(t *testing.T, rehearsals string) llm.Model {
	t.Helper()
	p := load(t, rehearsals)
	return scripted.New(p).Model(*p.Model("fast"))
}

// conversation is a request of an assistant after so many replies. The last of what was said is what it answers.
func conversation(replies int, said ...string) llm.Request {
	r := llm.Request{Where: llm.Where{First: said[0], Last: said[len(said)-1], Person: "U0ANA", Channel: "C0FRONT", Replies: replies}}
	for _, s := range said {
		r.Turns = append(r.Turns, llm.Turn{Role: llm.User, Text: s})
	}
	return r
}

// routed makes it a request of the router.
func routed(r llm.Request) llm.Request {
	r.Schema = &llm.Schema{Name: "route", JSON: []byte(`{"type":"object"}`)}
	return r
}
