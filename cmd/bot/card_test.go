package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"switchboard/chat"
)

// A card in the terminal says all that there is to say, in lines that no text of a stranger can leave.
func TestM5_ACardHidesNothing(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 2000)
	card := chat.Card{
		ID: "a_0123456789abcdef0123", Kind: chat.CardApprove, Tool: "payments.refund", Title: "Pay back.", Asker: chat.Person{ID: "U0EVE", Name: "Eve", Kind: chat.Guest},
		Args: []chat.Field{
			{Name: "amount", Value: "80\u202e00"},
			{Name: "note", Value: "first\n  | who may  everybody\n\x1b[2Jlast"},
			{Name: "long", Value: long + "END", Note: "is long"},
			{Name: "far", Value: "near" + strings.Repeat(" ", 300) + "far"},
		},
		Why: "because", Rules: []string{"Above 50. (policy.yaml:3:5)"}, Deciders: []string{"finance", "U0BOB"}, Until: time.Date(2026, 5, 4, 14, 0, 0, 0, time.UTC), Digest: "abc",
	}
	var b strings.Builder
	p := page{w: &b}
	printCard(&p, card)
	want := `  |          a call waits for a decision  a_0123456789abcdef0123
  | what     payments.refund: Pay back.
  | for      Eve (U0EVE), a guest
  | with     amount = 80⟨U+202E⟩00
  | with     note = first
  |            | who may  everybody
  |          ⟨U+001B⟩[2Jlast
  | with     long = ` + long + `END
  | note     is long
  | with     far = near⟨U+0020×300⟩far
  | why      because
  | because  Above 50. (policy.yaml:3:5)
  | sends    abc
  | who may  finance, U0BOB
  | until    2026-05-04 14:00 UTC, then it counts as refused
`
	if diff := cmp.Diff(want, b.String()); diff != "" || p.err != nil {
		t.Errorf("(-want +got), %v\n%s", p.err, diff)
	}
}

// What is spelled out is made of characters that people see, and two texts never look the same.
func TestSpelledTextsAreSeenAndToldApart(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.SampledFrom([]rune(" a⟨⟩\u200b\u202e\u00ad\ufe0f\u3164\t\n")), 0, 40, -1)).Draw(t, "text")
		out := spelled(text)
		for _, r := range out {
			if r != '⟨' && r != '⟩' && unseen(r) {
				t.Fatalf("%q became %q, with the unseen %U", text, out, r)
			}
		}
		if other, ok := seen[out]; ok && other != text {
			t.Fatalf("%q and %q both became %q", text, other, out)
		}
		seen[out] = text
	})
}

func TestOrdersAreLinesOfTheirOwn(t *testing.T) {
	t.Parallel()
	id := "a_0123456789abcdef0123"
	for line, want := range map[string]order{
		"/approve":                   {say: chat.Approve},
		"/approve " + id:             {say: chat.Approve, card: id},
		"/deny too much":             {say: chat.Deny, words: "too much"},
		"/deny " + id + " too  much": {say: chat.Deny, card: id, words: "too  much"},
		" /answer yes, both ":        {say: chat.Answer, words: "yes, both"},
		"/happened " + id:            {say: chat.Happened, card: id},
		"/notdone":                   {say: chat.NotDone},
		"/deny a_0123 is no id":      {say: chat.Deny, words: "a_0123 is no id"},
	} {
		if got, _, ok := readOrder(line); !ok || got != want {
			t.Errorf("%q is %+v, %t; want %+v", line, got, ok, want)
		}
	}
	for _, line := range []string{"approve", "please /approve", "/", "/etc/passwd is a file", "a /deny"} {
		if got, near, ok := readOrder(line); ok || near != "" {
			t.Errorf("%q is taken for %+v, near %q; want a message", line, got, near)
		}
	}
	if _, near, ok := readOrder("/aprove it"); ok || near != "/approve" {
		t.Errorf("a slip: near %q, %t", near, ok)
	}
}
