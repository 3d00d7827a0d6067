package journal_test

import (
	"testing"

	"switchboard/journal"
)

func TestM2_AMaskLearnsTheValuesOfARequestAndForgetsThemAfterIt(t *testing.T) {
	t.Parallel()
	m := journal.NewMask(map[string][]string{"org": {"org_7"}}, []string{"x-marks-it"})
	with := m.With("member", "m_7101", "", "org_7_9").With("desk", `d"esk`)
	for text, want := range map[string]string{
		"m_7101 of org_7":         "‹member› of ‹org›",
		"m_71011":                 "m_71011",  // another one
		"org_7_9":                 "‹member›", // not half of it as the organisation
		"here x-marks-it":         "here ‹secret›",
		`{"desk":"d\"esk","n":1}`: `{"desk":"‹desk›","n":1}`,
	} {
		if got := with.Text(text); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
	if got := m.Text("m_7101 of org_7"); got != "m_7101 of ‹org›" {
		t.Errorf("the mask that was there before became another one: %s", got)
	}
	if got := (journal.Mask{}).With("member", "m_7101").Text("m_7101"); got != "‹member›" {
		t.Errorf("a mask that hides nothing learned nothing: %s", got)
	}
}
