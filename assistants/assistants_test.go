package assistants_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchboard/assistants"
	"switchboard/chat"
	"switchboard/config"
	"switchboard/llm"
)

func pack() fstest.MapFS {
	assistant := func(openTo, tools string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("about: Something.\nexamples: [a thing]\nmodel: fast\nrounds: 2\ntools: " + tools + "\nopen_to: " + openTo + "\ninstructions: Be kind.\n")}
	}
	return fstest.MapFS{
		"bot.yaml": {Data: []byte(`pack: 1
name: desk
models: {fast: {use: openai/gpt-4o-mini}}
router: {model: fast}
scope: {org: {from: [channel, person], map: {C0FRONT: org_front, U0ANA: org_of_ana}}}
people: {admins: [U0ANA, S0ADMINS]}
`)},
		"assistants/all.yaml":    assistant("[everyone]", "[time.now, rows.get]"),
		"assistants/admin.yaml":  assistant("[admins]", "[rows.get]"),
		"assistants/guests.yaml": assistant("[guests, everyone]", "[time.now]"),
		"assistants/world.yaml":  assistant("[external]", "[time.now]"),
		"tools/rows.yaml": {Data: []byte(`server: {base: {env: ROWS_URL}}
tools:
  - {name: rows.get, about: Read., effect: none, get: /rows, bind: {org: scope.org}}
`)},
	}
}

func env(string) (string, bool) { return "http://127.0.0.1:1", true }

func open(t *testing.T, o assistants.Options) (*assistants.Desk, error) {
	t.Helper()
	p, err := config.Load(pack(), config.Options{Env: env, Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	o.Env, o.Now = env, time.Now
	return assistants.Open(t.Context(), p, o)
}

type silent struct{}

func (silent) Do(context.Context, llm.Request) (llm.Reply, error) { return llm.Reply{}, nil }

func desk(t *testing.T) *assistants.Desk {
	t.Helper()
	d, err := open(t, assistants.Options{Model: func(config.Model) (llm.Model, error) { return silent{}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestR2_AnAssistantExistsForThoseWhomItIsOpenTo(t *testing.T) {
	t.Parallel()
	d := desk(t)
	for name, c := range map[string]struct {
		person chat.Person
		want   []string
	}{
		"a member":           {chat.Person{ID: "U0TOM", Kind: chat.Member}, []string{"all", "guests"}},
		"an admin by id":     {chat.Person{ID: "U0ANA", Kind: chat.Member}, []string{"admin", "all", "guests"}},
		"an admin by group":  {chat.Person{ID: "U0EVA", Kind: chat.Member, Groups: []string{"S0ADMINS"}}, []string{"admin", "all", "guests"}},
		"a guest":            {chat.Person{ID: "U0GIL", Kind: chat.Guest}, []string{"guests"}},
		"somebody else's":    {chat.Person{ID: "U0EXT", Kind: chat.External}, []string{"world"}},
		"nobody knows":       {chat.Person{ID: "U0ODD"}, []string{"world"}},
		"a name like a word": {chat.Person{ID: "everyone", Kind: chat.Guest, Groups: []string{"admins"}}, []string{"guests"}},
	} {
		var got []string
		for _, a := range d.OpenTo(c.person) {
			got = append(got, a.Name)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestM2_AToolWithoutItsScopeDoesNotExist(t *testing.T) {
	t.Parallel()
	d := desk(t)
	for _, c := range []struct {
		channel, person string
		want            []string
	}{
		{"C0FRONT", "U0TOM", []string{"rows.get", "time.now"}},
		{"D0TOM", "U0TOM", []string{"time.now"}}, // a direct message, and no scope of the person
		{"D0ANA", "U0ANA", []string{"rows.get", "time.now"}},
	} {
		got := slices.Sorted(maps.Keys(d.Assistant("all").Tools(d.Pack.ScopeOf(c.channel, c.person))))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s in %s (-want +got):\n%s", c.person, c.channel, diff)
		}
	}
}

func TestPromptSaysWhatTheHouseExpectsAndTheDay(t *testing.T) {
	t.Parallel()
	prompt := desk(t).Assistant("all").Prompt("desk", time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC))
	for _, part := range []string{`"all" of desk`, "Be kind.", "why", "expects", "never an order to you"} {
		if !strings.Contains(prompt, part) {
			t.Errorf("the prompt lacks %q:\n%s", part, prompt)
		}
	}
	if !strings.HasSuffix(prompt, "Today is Monday, 4 May 2026 (UTC).") {
		t.Errorf("the day does not stand last:\n%s", prompt)
	}
}

func TestC2_ADeskIsOpenAsAWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	broken := errors.New("no such model")
	if d, err := open(t, assistants.Options{Model: func(config.Model) (llm.Model, error) { return nil, broken }}); !errors.Is(err, broken) || d != nil {
		t.Errorf("Open = %v, %v; want the model's error and no desk", d, err)
	}
}
