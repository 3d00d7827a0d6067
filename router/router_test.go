package router_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"switchboard/llm"
	"switchboard/router"
)

func input(text string) router.Input {
	return router.Input{
		Text: text, Threshold: 0.8,
		Candidates: []router.Candidate{
			{Name: "bookings", About: "Courts and lessons.", Examples: []string{"book court 2"}},
			{Name: "insights", About: "Numbers about the club."},
			{Name: "help", About: "How-to questions."},
		},
	}
}

// says is a model that gives these answers in order and remembers what it was asked.
type says struct {
	answers []string
	asked   []llm.Request
}

func (s *says) ask(_ context.Context, r llm.Request) (llm.Reply, error) {
	s.asked = append(s.asked, r)
	if len(s.asked) > len(s.answers) {
		return llm.Reply{}, errors.New("asked too often")
	}
	return llm.Reply{Text: s.answers[len(s.asked)-1]}, nil
}

func TestR1_ConfidenceDecides(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]router.Kind{
		`{"assistant":"insights","confidence":0.80,"question":null}`:                      router.Chosen,
		`{"assistant":"insights","confidence":0.79,"question":null}`:                      router.Clarify,
		`{"assistant":"insights","confidence":1}`:                                         router.Chosen,
		`{"assistant":"insights","confidence":0}`:                                         router.Clarify,
		`{"assistant":"none","confidence":0.2,"question":null}`:                           router.Nothing,
		"```json\n{\"assistant\":\"insights\",\"confidence\":0.9,\"question\":null}\n```": router.Chosen,
		"```\n{\"assistant\":\"insights\",\"confidence\":0.9,\"question\":null}\n```":     router.Chosen,
		"```{\"assistant\":\"insights\",\"confidence\":0.9,\"question\":null}```":         router.Chosen,
	} {
		m := &says{answers: []string{text}}
		d, err := router.Decide(t.Context(), input("revenue?"), m.ask)
		if err != nil || d.Kind != want {
			t.Errorf("%s: %+v, %v; want %s", text, d, err, want)
		}
		if d.Kind == router.Clarify && (d.Question == "" || d.Likely[0] != "insights") {
			t.Errorf("%s: question %q with choices %v", text, d.Question, d.Likely)
		}
	}
}

func TestR1_ABadAnswerIsRepairedOnceAndThenBecomesAQuestion(t *testing.T) {
	t.Parallel()
	good := `{"assistant":"help","confidence":0.9,"question":null}`
	for name, bad := range map[string]string{
		"broken":            `{"assistant":"help"`,
		"prose before":      `Sure! ` + good,
		"two objects":       good + good,
		"two in a list":     `[` + good + `]`,
		"unknown assistant": `{"assistant":"root","confidence":0.99,"question":null}`,
		"wrong case":        `{"assistant":"Help","confidence":0.99,"question":null}`,
		"confidence 1.2":    `{"assistant":"help","confidence":1.2,"question":null}`,
		"confidence -1":     `{"assistant":"help","confidence":-1,"question":null}`,
		"confidence text":   `{"assistant":"help","confidence":"0.9","question":null}`,
		"confidence null":   `{"assistant":"help","confidence":null,"question":null}`,
		"confidence NaN":    `{"assistant":"help","confidence":NaN,"question":null}`,
		"no confidence":     `{"assistant":"help","question":null}`,
		"another key":       `{"assistant":"help","confidence":0.9,"question":null,"tools":["x"]}`,
		"duplicate key":     `{"assistant":"help","assistant":"bookings","confidence":0.9,"question":null}`,
		"single quotes":     `{'assistant':'help','confidence':0.9}`,
		"empty":             ``,
		"two fences":        "```json\n" + good + "\n```\n```json\n" + good + "\n```",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &says{answers: []string{bad, good}}
			d, err := router.Decide(t.Context(), input("x"), m.ask)
			if err != nil || d.Kind != router.Chosen || d.Assistant != "help" || len(m.asked) != 2 {
				t.Errorf("repaired: %+v, %v after %d calls; want help after 2", d, err, len(m.asked))
			}
			m = &says{answers: []string{bad, bad}}
			d, err = router.Decide(t.Context(), input("x"), m.ask)
			if err != nil || d.Kind != router.Clarify || d.Assistant != "" || d.Confidence != nil || d.Question == "" || len(m.asked) != 2 {
				t.Errorf("not repaired: %+v, %v after %d calls; want the runtime's question after 2", d, err, len(m.asked))
			}
			if diff := cmp.Diff([]string{"bookings", "insights", "help"}, d.Likely); diff != "" {
				t.Errorf("choices (-want +got):\n%s", diff)
			}
		})
	}
}

func TestR1_AfterTwoQuestionsTheListAndNoThirdQuestion(t *testing.T) {
	t.Parallel()
	for asked, list := range []bool{false, false, true, true} {
		in := input("hm")
		in.Asked = asked
		m := &says{answers: []string{`{"assistant":"help","confidence":0.3,"question":"What do you mean?"}`}}
		d, err := router.Decide(t.Context(), in, m.ask)
		if err != nil || d.List != list {
			t.Fatalf("after %d questions: %+v, %v; want the list: %v", asked, d, err, list)
		}
		if !list && d.Question != "What do you mean?" {
			t.Errorf("question %q, want the model's", d.Question)
		}
		if list && (!strings.Contains(d.Question, "- bookings: Courts") || strings.Contains(d.Question, "?")) {
			t.Errorf("the list reads %q", d.Question)
		}
	}
}

func TestR1_TheRouterIsOfferedNoTools(t *testing.T) {
	t.Parallel()
	m := &says{answers: []string{`{"assistant":"help","confidence":0.9,"question":null}`}}
	if _, err := router.Decide(t.Context(), input("x"), m.ask); err != nil {
		t.Fatal(err)
	}
	r := m.asked[0]
	if len(r.Tools) != 0 || r.Schema == nil {
		t.Errorf("request with %d tools and schema %v", len(r.Tools), r.Schema)
	}
	var schema struct {
		Properties struct{ Assistant struct{ Enum []string } }
	}
	if err := json.Unmarshal(r.Schema.JSON, &schema); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"bookings", "insights", "help", "none"}, schema.Properties.Assistant.Enum); diff != "" {
		t.Errorf("the names it may give (-want +got):\n%s", diff)
	}
}

func TestR3_AnExplicitAddressWins(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"@bot insights: revenue in March": "insights",
		"insights: revenue in March":      "insights",
		"@insights: revenue":              "insights",
		"<@U0BOT> Help: how do I":         "help",
		"  bookings : court 2":            "bookings",
		"please insights: revenue":        "",
		"root: give me everything":        "",
		"insights revenue":                "",
		"what about insights: good?":      "",
		": x":                             "",
	} {
		name, ok := router.Address(text, []string{"configuration", "bookings", "communication", "insights", "help"})
		if name != want || ok != (want != "") {
			t.Errorf("Address(%q) = %q, %v; want %q", text, name, ok, want)
		}
	}
	m := &says{}
	d, err := router.Decide(t.Context(), input("insights: revenue"), m.ask)
	if err != nil || d.Kind != router.Addressed || d.Assistant != "insights" || len(m.asked) != 0 {
		t.Errorf("Decide = %+v, %v after %d model calls; want insights without one", d, err, len(m.asked))
	}
}

// Text in a message cannot widen what a person may use: whatever the model says, only a candidate is ever chosen.
func TestR2_OnlyCandidatesAreEverChosen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.SampledFrom([]string{"bookings", "insights", "help", "none", "configuration", "", "help "}), rapid.String())
		answer := func() string {
			b, err := json.Marshal(map[string]any{"assistant": name.Draw(t, "name"), "confidence": rapid.Float64Range(-1, 2).Draw(t, "confidence")})
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		m := &says{answers: []string{answer(), answer()}}
		d, err := router.Decide(context.Background(), input(rapid.String().Draw(t, "text")), m.ask)
		if err != nil {
			t.Fatal(err)
		}
		allowed := map[string]bool{"": true, "bookings": true, "insights": true, "help": true}
		if !allowed[d.Assistant] {
			t.Fatalf("%q was chosen", d.Assistant)
		}
		for _, l := range d.Likely {
			if !allowed[l] {
				t.Fatalf("%q is offered", l)
			}
		}
	})
}

func TestR1_AModelWithNothingToSayIsRepairedToo(t *testing.T) {
	t.Parallel()
	asked := 0
	d, err := router.Decide(t.Context(), input("x"), func(context.Context, llm.Request) (llm.Reply, error) {
		asked++
		return llm.Reply{}, &llm.Error{Reason: llm.Empty}
	})
	if err != nil || d.Kind != router.Clarify || d.Question == "" || asked != 2 {
		t.Errorf("Decide = %+v, %v after %d calls; want the runtime's question after 2", d, err, asked)
	}
}

func TestAModelThatCannotBeAskedIsAnErrorAndNoGuess(t *testing.T) {
	t.Parallel()
	down := &llm.Error{Reason: llm.Overloaded}
	_, err := router.Decide(t.Context(), input("x"), func(context.Context, llm.Request) (llm.Reply, error) { return llm.Reply{}, down })
	if !errors.Is(err, down) {
		t.Errorf("Decide = %v, want the model's error", err)
	}
}
