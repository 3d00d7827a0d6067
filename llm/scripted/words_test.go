package scripted_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchboard/llm"
	"switchboard/llm/scripted"
)

func detail(t *testing.T, m llm.Model, person, channel string) string {
	t.Helper()
	r := routed(conversation(0, "tell me a joke"))
	r.Where.Person, r.Where.Channel = person, channel
	_, err := m.Do(t.Context(), r)
	var got *llm.Error
	if !errors.As(err, &got) || got.Reason != llm.NoScript || got.Err == nil {
		t.Fatalf("got %v, want %s with its cause", err, llm.NoScript)
	}
	return got.Detail
}

func bullets(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "- "); ok {
			out = append(out, strings.TrimSpace(rest))
		}
	}
	return out
}

const offers = `- name: it fails
  script: [{say: a failing one}, {route: {assistant: help, confidence: 1}}, {error: overloaded}]
- name: the north only
  in: C0NORTH
  script: [{say: one of the north}, {route: {assistant: help, confidence: 1}}, {reply: fine}]
- name: help one
  as: U0ANA
  script: [{say: the first of help}, {route: {assistant: help, confidence: 1}}, {reply: fine}]
- name: help two
  as: U0ANA
  script: [{say: the second of help}, {route: {assistant: help, confidence: 1}}, {reply: fine}]
- name: insights
  script: [{say: a figure}, {route: {assistant: insights, confidence: 1}}, {reply: fine}, {expect: {outcome: answered}}]
- name: unclear
  as: U0ANA
  script: [{say: hm}, {route: {assistant: help, confidence: 0.2, question: "What?"}}, {expect: {outcome: clarify}}]
`

func TestOfflineWordsNameThreeThingsToTry(t *testing.T) {
	t.Parallel()
	m := open(t, offers)
	for who, want := range map[string][]string{
		"U0ANA/C0FRONT": {"“the first of help”", "“a figure”", "“the second of help”"},
		"U0ANA/C0NORTH": {"“one of the north”", "“a figure”", "“the first of help”"},
		"U0TOM/C0FRONT": {"“a figure”", "“a failing one”", "“one of the north” (in C0NORTH)"},
	} {
		person, channel, _ := strings.Cut(who, "/")
		got := detail(t, m, person, channel)
		if d := cmp.Diff(want, bullets(got)); d != "" {
			t.Errorf("%s (-want +got):\n%s", who, d)
		}
		for _, must := range []string{"No language model is connected", "rehearsed conversations", "OPENAI_API_KEY and ANTHROPIC_API_KEY", "--live"} {
			if !strings.Contains(got, must) {
				t.Errorf("%s: nothing of %q in:\n%s", who, must, got)
			}
		}
	}
}

func TestOfflineWordsWhereNothingFits(t *testing.T) {
	t.Parallel()
	p := load(t, offers)
	for _, r := range p.Rehearsals {
		r.As, r.In = "U0BOB", "C0BACK"
	}
	p.Models = p.Models[1:]
	m := scripted.New(p).Model(p.Models[0])
	got := detail(t, m, "U0ANA", "C0FRONT")
	want := []string{"“one of the north” (as U0BOB, in C0BACK)", "“a figure” (as U0BOB, in C0BACK)", "“the first of help” (as U0BOB, in C0BACK)"}
	if d := cmp.Diff(want, bullets(got)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if strings.Contains(got, "OPENAI") {
		t.Errorf("names a key that the pack does not use:\n%s", got)
	}
	if got := detail(t, open(t, ""), "U0ANA", "C0FRONT"); len(bullets(got)) != 0 || !strings.Contains(got, "no rehearsals yet") {
		t.Errorf("a pack without rehearsals: got\n%s", got)
	}
}

func TestBegins(t *testing.T) {
	t.Parallel()
	s := scripted.New(load(t, offers))
	if !s.Begins("The first of help!", "U0ANA", "C0FRONT") || s.Begins("the first of help", "U0TOM", "C0FRONT") || s.Begins("fine", "U0ANA", "C0FRONT") {
		t.Error("Begins does not go by message and person")
	}
}
