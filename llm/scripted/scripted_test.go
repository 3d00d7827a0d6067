package scripted_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"switchboard/config"
	"switchboard/llm"
	"switchboard/llm/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const waivers = `- name: waivers
  script:
    - say: How do I export waivers?
    - route: {assistant: help, confidence: 0.95}
    - calls:
        - {tool: docs.search, args: {query: export waivers}, why: find it, expects: one page}
        - {tool: docs.fetch, args: {name: waivers}, why: read it, expects: the page}
    - call: {tool: docs.fetch, args: {name: "${ calls[0].result[0].name }"}, why: read what there is, expects: the page}
    - reply: It is ${ calls[2].result.title }, and ${ calls[1].outcome }.
    - expect: {outcome: answered}
    - say: thanks
    - route: {assistant: none, confidence: 0.99}
`

// told are the results of the first round, and the call of the second with its result, as the runtime writes them.
func told(first llm.Reply, second *llm.Reply, last string) []llm.Turn {
	turns := []llm.Turn{
		{Role: llm.Assistant, Calls: first.Calls},
		{Role: llm.Results, Results: []llm.Result{
			{ID: first.Calls[0].ID, Name: "docs.search", Text: `{"outcome":"ok","result":[{"name":"close"}]}`},
			{ID: first.Calls[1].ID, Name: "docs.fetch", Text: `{"outcome":"failed","error":"there is no document waivers"}`, Failed: true},
		}},
	}
	if second != nil {
		turns = append(turns, llm.Turn{Role: llm.Assistant, Calls: second.Calls},
			llm.Turn{Role: llm.Results, Results: []llm.Result{{ID: second.Calls[0].ID, Name: "docs.fetch", Text: last}}})
	}
	return turns
}

func do(t *testing.T, m llm.Model, r llm.Request) llm.Reply {
	t.Helper()
	got, err := m.Do(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestWholeConversation(t *testing.T) {
	t.Parallel()
	m := open(t, waivers)
	const say = "how do I export WAIVERS"
	if got, want := do(t, m, routed(conversation(0, say))), `{"assistant":"help","confidence":0.95,"question":""}`; got.Text != want || got.Model != "openai/gpt-4o-mini" || got.Finish != llm.Stop {
		t.Errorf("router: got %+v, want %s", got, want)
	}
	r := conversation(1, say)
	first := do(t, m, r)
	want := []llm.ToolCall{
		{ID: "call_1_0", Name: "docs.search", Args: `{"expects":"one page","query":"export waivers","why":"find it"}`},
		{ID: "call_1_1", Name: "docs.fetch", Args: `{"expects":"the page","name":"waivers","why":"read it"}`},
	}
	if d := cmp.Diff(want, first.Calls); d != "" || first.Finish != llm.Called {
		t.Errorf("first round (-want +got), finish %s:\n%s", first.Finish, d)
	}
	r.Where.Replies, r.Turns = 2, append(r.Turns, told(first, nil, "")...)
	second := do(t, m, r)
	if want := `{"expects":"the page","name":"close","why":"read what there is"}`; len(second.Calls) != 1 || second.Calls[0].Args != want {
		t.Errorf("second round: got %+v, want arguments %s", second.Calls, want)
	}
	r = conversation(3, say)
	r.Turns = append(r.Turns, told(first, &second, `{"outcome":"ok","result":{"title":"Close a day"}}`)...)
	third := do(t, m, r)
	if want := "It is Close a day, and failed."; third.Text != want {
		t.Errorf("third round: got %q, want %q", third.Text, want)
	}
	if u := third.Usage; u.Known || u.Cost != 0 || u.Output != len(third.Text)/4 || u.Input == 0 {
		t.Errorf("usage %+v: want an estimate that costs nothing", u)
	}
	if got := do(t, m, routed(conversation(4, say, "Thanks!"))); !strings.Contains(got.Text, `"none"`) {
		t.Errorf("second message: got %q", got.Text)
	}
}

// A step that needs a result which is not there is no answer, and the runtime has to speak.
func TestMissingResultIsNoAnswer(t *testing.T) {
	t.Parallel()
	m := open(t, waivers)
	first := do(t, m, conversation(1, "how do I export waivers?"))
	r := conversation(3, "how do I export waivers?")
	r.Turns = append(r.Turns, told(first, &llm.Reply{Calls: []llm.ToolCall{{ID: "x", Name: "docs.fetch"}}}, `{"outcome":"failed","error":"no"}`)...)
	_, err := m.Do(t.Context(), r)
	var got *llm.Error
	if !errors.As(err, &got) || got.Reason != llm.Empty || !strings.Contains(got.Detail, "rehearsals/all.yaml:9") {
		t.Errorf("got %v, want %s at the reply's line", err, llm.Empty)
	}
	r = conversation(2, "how do I export waivers?") // and nothing was called at all
	if _, err := m.Do(t.Context(), r); !errors.As(err, &got) || got.Reason != llm.Empty {
		t.Errorf("got %v, want %s", err, llm.Empty)
	}
}

const several = `- name: anybody
  script: [{say: hello}, {raw: anybody}]
- name: somebody else
  as: U0TOM
  in: C0NORTH
  script: [{say: "what now?"}, {raw: Tom in the north}]
- name: here
  in: C0FRONT
  script: [{say: what now}, {raw: here}]
- name: failing
  script:
    - say: please fail
    - error: overloaded
    - finish: {reason: length, text: It goes on}
    - finish: {reason: refused, text: I will not.}
    - call: {tool: docs.search, raw_args: '{"query":'}
    - raw: ""
- name: masked
  script: [{say: "what about org_77, or org_7?"}, {raw: masked}]
`

func TestFindsTheRehearsal(t *testing.T) {
	t.Parallel()
	m := open(t, several)
	for _, c := range []struct{ say, person, channel, want string }{
		{"Hello!", "U0ANA", "C0FRONT", "anybody"},
		{" hello ", "U0NEW", "D0NEW", "anybody"},
		{"What, now?", "U0TOM", "C0NORTH", "Tom in the north"},
		{"what now", "U0TOM", "C0FRONT", "here"},
		{"what about ‹org›, or ‹org›?", "U0ANA", "C0FRONT", "masked"},
		{"what about org_77, or org_7?", "U0ANA", "C0FRONT", "masked"},
	} {
		r := conversation(0, c.say)
		r.Where.Person, r.Where.Channel = c.person, c.channel
		if got := do(t, m, r); got.Text != c.want {
			t.Errorf("%q by %s in %s: got %q, want %q", c.say, c.person, c.channel, got.Text, c.want)
		}
	}
}

func TestMoreSpecificRehearsalWins(t *testing.T) {
	t.Parallel()
	p := load(t, several)
	p.Rehearsals = p.Rehearsals[:4]
	for i, of := range []struct{ as, in, text string }{
		{"", "", "anybody"}, {"", "C0FRONT", "in front"}, {"U0ANA", "", "Ana"}, {"U0ANA", "C0FRONT", "Ana in front"},
	} {
		r := p.Rehearsals[i]
		r.As, r.In, r.Steps = of.as, of.in, []config.Step{{Say: "hello"}, {Raw: &of.text}}
	}
	m := scripted.New(p).Model(p.Models[0])
	for _, c := range []struct{ person, channel, want string }{
		{"U0ANA", "C0FRONT", "Ana in front"}, {"U0ANA", "C0NORTH", "Ana"}, {"U0TOM", "C0FRONT", "in front"}, {"U0TOM", "C0NORTH", "anybody"},
	} {
		r := conversation(0, "hello")
		r.Where.Person, r.Where.Channel = c.person, c.channel
		if got := do(t, m, r); got.Text != c.want {
			t.Errorf("%s in %s: got %q, want %q", c.person, c.channel, got.Text, c.want)
		}
	}
}

func TestBadAnswersAreScripted(t *testing.T) {
	t.Parallel()
	m := open(t, several)
	var failed *llm.Error
	if _, err := m.Do(t.Context(), conversation(0, "please fail")); !errors.As(err, &failed) || failed.Reason != llm.Overloaded || failed.Attempts != 1 {
		t.Errorf("got %v", err)
	}
	if got := do(t, m, routed(conversation(1, "please fail"))); got.Text != "It goes on" || got.Finish != llm.CutOff {
		t.Errorf("got %+v", got)
	}
	if got := do(t, m, conversation(2, "please fail")); got.Text != "I will not." || got.Finish != llm.Refused {
		t.Errorf("got %+v", got)
	}
	stubborn := conversation(3, "please fail")
	stubborn.Choice = llm.None
	if got := do(t, m, stubborn); len(got.Calls) != 1 || got.Calls[0].Args != `{"query":` {
		t.Errorf("got %+v: want the broken arguments, although no tools were offered", got)
	}
	if _, err := m.Do(t.Context(), conversation(4, "please fail")); !errors.As(err, &failed) || failed.Reason != llm.Empty {
		t.Errorf("got %v, want %s", err, llm.Empty)
	}
}

func TestScriptAndRunGoApart(t *testing.T) {
	t.Parallel()
	m := open(t, waivers)
	const say = "how do I export waivers?"
	for name, c := range map[string]struct {
		request llm.Request
		why     string
	}{
		"an assistant instead of the router": {conversation(0, say), "all.yaml:4 is the router's, but an assistant was asked"},
		"the router instead of an assistant": {routed(conversation(1, say)), "all.yaml:5 asks for tools, but the router was asked"},
		"the router instead of the reply":    {routed(conversation(3, say)), "all.yaml:9 is a reply, but the router was asked"},
		"one reply too many":                 {conversation(4, say), "all.yaml:12, is to the message at rehearsals/all.yaml:11"},
		"one reply too few":                  {routed(conversation(3, say, "thanks")), "all.yaml:9, is to the message at rehearsals/all.yaml:3"},
		"something else is said":             {routed(conversation(4, say, "and now?")), "and that is not what was said"},
		"past the end":                       {conversation(5, say, "thanks"), "all.yaml:1 has no answer left"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := m.Do(t.Context(), c.request)
			var got *llm.Error
			if !errors.As(err, &got) || got.Reason != llm.NoScript {
				t.Fatalf("got %v, want %s", err, llm.NoScript)
			}
			if got.Err == nil || !strings.Contains(got.Err.Error(), c.why) {
				t.Errorf("cause %q does not say %q", got.Err, c.why)
			}
			if !strings.Contains(got.Detail, "“waivers”") || strings.Contains(got.Detail, ".yaml") {
				t.Errorf("a person is not told which script ended, or is told of files:\n%s", got.Detail)
			}
		})
	}
}

func TestContextEnds(t *testing.T) {
	t.Parallel()
	m := open(t, waivers)
	why := errors.New("the bot is stopping")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := m.Do(ctx, conversation(0, "x")); !errors.Is(err, why) {
		t.Errorf("got %v, want the cause", err)
	}
}

// Ids repeat from round to round with some models; a result belongs to the latest call of its id. What is common to all
// calls, why and expects, is not among the arguments that expressions see.
func TestExpressionsSeeEachCallWithItsOwnResult(t *testing.T) {
	t.Parallel()
	m := open(t, `- name: two rounds
  script:
    - say: count
    - reply: ${ calls[0].tool }${ calls[0].args.size() } ${ calls[0].result }, ${ calls[1].tool } ${ calls[1].result } ${ calls[2].outcome }
`)
	r := conversation(0, "count")
	for i, tool := range []string{"docs.search", "docs.fetch"} {
		calls := []llm.ToolCall{{ID: "a", Name: tool, Args: `{"why":"w","expects":"e"}`}}
		results := []llm.Result{{ID: "a", Text: `{"outcome":"ok","result":` + []string{"1", "2"}[i] + `}`}}
		if i == 1 {
			calls = append(calls, llm.ToolCall{ID: "b", Name: tool, Args: `{"cut`})
			results = append(results, llm.Result{ID: "b", Text: `{"outcome":"refused","error":"no JSON"}`, Failed: true})
		}
		r.Turns = append(r.Turns, llm.Turn{Role: llm.Assistant, Calls: calls}, llm.Turn{Role: llm.Results, Results: results})
	}
	if got, want := do(t, m, r).Text, "docs.search0 1, docs.fetch 2 refused"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
