package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchboard/chat"
)

func TestSlackReloadAndPlaygroundAreRead(t *testing.T) {
	t.Parallel()
	p := good(t)
	want := Slack{
		Listen: Mentions, Channels: map[string]Listen{"C0FRONT": All, "C0NORTH": Threads},
		Prompts: []Prompt{{"Waivers", "how do I export waivers?"}, {"Open orders", "what is open?"}},
	}
	if diff := cmp.Diff(want, p.Slack); diff != "" {
		t.Errorf("slack (-want +got):\n%s", diff)
	}
	if p.Slack.In("C0FRONT") != All || p.Slack.In("C0OTHER") != Mentions {
		t.Errorf("it listens to %s in C0FRONT and to %s elsewhere", p.Slack.In("C0FRONT"), p.Slack.In("C0OTHER"))
	}
	if !p.Reload.Rehearse {
		t.Error("reload: {rehearse: true} is lost")
	}
	people := []Resident{
		{ID: "U0ANA", Name: "Ana", Kind: chat.Member, Groups: []string{"S0ADM"}},
		{ID: "U0BOB", Name: "Bob", Kind: chat.Member},
		{ID: "U0GIL", Name: "Gil", Kind: chat.Guest},
		{ID: "U0EVA", Name: "Eva of Acme", Kind: chat.External},
	}
	rooms := []Room{
		{ID: "C0FRONT", Name: "front-desk", Visibility: chat.Public},
		{ID: "C0NORTH", Name: "north-desk", Visibility: chat.Private, Members: []string{"U0ANA", "U0BOB"}},
		{ID: "C0ACME", Name: "with-acme", Visibility: chat.Shared, Members: []string{"U0ANA", "U0EVA"}},
	}
	if diff := cmp.Diff(Playground{people, rooms}, p.Playground); diff != "" {
		t.Errorf("playground (-want +got):\n%s", diff)
	}
	if r, ok := p.Resident("U0GIL"); !ok || r.Kind != chat.Guest {
		t.Errorf("U0GIL is %+v, %t", r, ok)
	}
	if r, ok := p.Room("C0ACME"); !ok || r.Visibility != chat.Shared {
		t.Errorf("C0ACME is %+v, %t", r, ok)
	}
	if _, ok := p.Resident("C0ACME"); ok {
		t.Error("a channel is a person")
	}
}

// TestAPlaygroundIsNeverEmpty loads packs without a playground.yaml.
func TestAPlaygroundIsNeverEmpty(t *testing.T) {
	t.Parallel()
	files := plainPack()
	files["bot.yaml"] = []byte(strings.Replace(string(files["bot.yaml"]), "people: {admins: [U0ANA]}", `people: {admins: [U0ANA, S0ADM], finance: [W12AB34]}
slack: {channels: {G0BACK: all}}`, 1))
	files["rehearsals/a.yaml"] = []byte(`- name: one
  as: U0TOM
  in: D0TOM
  script: [{say: hello}, {route: {assistant: none, confidence: 1}}, {click: {answer: Yes., as: U0JON}}]
`)
	files["policy.yaml"] = []byte(`approve: {by: [U0LEA, S0FIN], in: C0LOOK}
rules:
  - {tools: [orders.refund], when: args.amount > 5, verdict: ask, why: Big., approve: {by: [U0MAX], in: C0BIG}}
`)
	member := func(id, name string) Resident { return Resident{ID: id, Name: name, Kind: chat.Member} }
	public := func(id, name string) Room { return Room{ID: id, Name: name, Visibility: chat.Public} }
	for _, c := range []struct {
		name string
		pack map[string][]byte
		want Playground
	}{
		{"ids that the pack names", files, Playground{
			[]Resident{member("U0ANA", "ana"), member("U0JON", "jon"), member("U0LEA", "lea"), member("U0MAX", "max"), member("U0TOM", "tom"), member("W12AB34", "12ab34")},
			[]Room{public("C0BIG", "big"), public("C0FRONT", "front"), public("C0LOOK", "look"), public("G0BACK", "back")},
		}},
		{"a pack that names nobody", map[string][]byte{
			"bot.yaml": []byte("pack: 1\nname: small\nmodels: {fast: {use: openai/gpt-4o-mini}}\nrouter: {model: fast}\n"),
			"assistants/help.yaml": []byte(`about: Help.
examples: [help]
model: fast
rounds: 2
open_to: [everyone]
instructions: Help.
`),
		}, Playground{[]Resident{member("U0YOU", "you")}, []Room{public("C0GENERAL", "general")}}},
	} {
		for range 5 { // whatever order maps have
			p, err := Load(fsOf(c.pack), Options{})
			if err != nil {
				t.Fatalf("%s:\n%v", c.name, err)
			}
			if diff := cmp.Diff(c.want, p.Playground); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", c.name, diff)
			}
			if p.Slack.Listen != Threads || p.Reload.Rehearse {
				t.Errorf("%s: the defaults are %+v, %+v", c.name, p.Slack, p.Reload)
			}
		}
	}
}

func TestM2_TakeGivesAValueThatCanBeHiddenOrNone(t *testing.T) {
	t.Parallel()
	p := good(t)
	call := p.Scope[2].Call
	if call == nil || call.Tool != "clerks.by_slack" || call.Arg != "slack_id" {
		t.Fatalf("the look-up is %+v", call)
	}
	for _, c := range []struct {
		result any
		want   string
		fails  bool
	}{
		{map[string]any{"clerk": "clerk-1"}, "clerk-1", false},
		{map[string]any{"clerk": " clerk-1\n"}, "clerk-1", false},
		{map[string]any{"clerk": nil}, "", false},
		{map[string]any{"clerk": " "}, "", false},
		{map[string]any{"clerk": "c-1"}, "", true},
		{map[string]any{"clerk": int64(4711)}, "4711", false},
		{map[string]any{"clerk": int64(471)}, "", true},
		{map[string]any{"clerk": []any{"clerk-1"}}, "", true},
		{map[string]any{}, "", true},
		{"clerk-1", "", true},
	} {
		got, err := call.Take(c.result)
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%v gave %q, %v", c.result, got, err)
		}
		if err != nil && (strings.Contains(err.Error(), "c-1") || strings.Contains(err.Error(), "471")) {
			t.Errorf("the error holds the value: %v", err)
		}
	}
}
