package assistants_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchboard/assistants"
	"switchboard/chat"
	"switchboard/config"
	"switchboard/llm"
	"switchboard/tools"
)

// club is a pack whose members are looked up, and their teams after them.
func club(rule string) fstest.MapFS {
	assistant := func(openTo, tools string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("about: Something.\nexamples: [a thing]\nmodel: fast\nrounds: 2\ntools: " + tools + "\nopen_to: " + openTo + "\ninstructions: Be kind.\n")}
	}
	return fstest.MapFS{
		"bot.yaml": {Data: []byte(`pack: 1
name: club
models: {fast: {use: openai/gpt-4o-mini}}
router: {model: fast}
scope:
  org: {from: channel, map: {C0FRONT: org_7, C0NORTH: org_9}}
  member: {from: person, call: members.by_slack, take: result.id}
  team: {from: channel, call: teams.of, take: result.team}
people: {admins: [U0ANA], members: [U0MIA, U0ODD, U0GONE, U0SLOW, U0LATE], teams: [U0TEA]}
`)},
		"assistants/mine.yaml":  assistant("[members]", "[my.bookings]"),
		"assistants/team.yaml":  assistant("[teams]", "[my.team]"),
		"assistants/admin.yaml": assistant("[admins]", "[all.bookings]"),
		"policy.yaml":           {Data: []byte("rules:\n  - {tools: [all.bookings], when: " + rule + ", verdict: deny, why: No.}\n")},
		"tools/rows.yaml": {Data: []byte(`server: {base: {env: ROWS_URL}}
defaults: {bind: {org: scope.org}, timeout: 1s}
tools:
  - {name: my.bookings, about: Read., effect: none, get: /rows, bind: {member: scope.member}}
  - {name: my.team, about: Read., effect: none, get: /rows, bind: {team: scope.team}}
  - {name: all.bookings, about: Read., effect: none, get: /rows}
  - name: members.by_slack
    about: Read.
    effect: none
    get: /members/{slack_id}
    args: {slack_id: {type: string, pattern: "^U0[A-Z]+$"}}
    result: {id: {type: [string, "null"]}}
  - {name: teams.of, about: Read., effect: none, get: /teams, args: {channel: {type: string}}, bind: {member: scope.member}, result: {team: {type: integer}}}
`)},
	}
}

// office answers the look-ups and writes down what they were asked for.
type office struct {
	mu     sync.Mutex
	asked  []string
	fails  int // how many requests are not answered well before one is
	closed chan struct{}
}

func (o *office) world(t *config.Tool) tools.Tool {
	return door{o, t.Name}
}

type door struct {
	*office
	name string
}

func (d door) Run(ctx context.Context, in tools.Input) (tools.Output, error) {
	id, _ := in.Args["slack_id"].(string)
	if d.name == "teams.of" {
		id, _ = in.Args["channel"].(string)
	}
	d.mu.Lock()
	d.asked = append(d.asked, d.name+" "+id+" "+in.Bound["org"]+" "+in.Bound["member"])
	d.fails--
	failing := d.fails >= 0
	d.mu.Unlock()
	switch {
	case failing:
		return tools.Output{}, &tools.Fault{Kind: tools.Unavailable, Detail: "not now", Transient: true}
	case d.name == "teams.of":
		return tools.Output{Value: map[string]any{"team": int64(4711)}, Status: 200}, nil
	}
	switch id {
	case "U0MIA", "U0TEA", "U0ANA":
		return tools.Output{Value: map[string]any{"id": "m_7101"}, Status: 200}, nil
	case "U0ODD":
		return tools.Output{Value: map[string]any{"id": "m_7"}, Status: 200}, nil // three characters
	case "U0GONE":
		return tools.Output{Value: map[string]any{"id": nil}, Status: 200}, nil
	case "U0LATE":
		return tools.Output{Value: map[string]any{"member": "m_7101"}, Status: 200}, nil // not what was promised
	case "U0SLOW":
		close(d.closed)
		<-ctx.Done()
		return tools.Output{}, ctx.Err()
	}
	return tools.Output{}, &tools.Fault{Kind: tools.NotFound, Detail: "nobody", Status: 404}
}

func openClub(t *testing.T, o *office, rule string) *assistants.Desk {
	t.Helper()
	p, err := config.Load(club(rule), config.Options{Env: env, Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	d, err := assistants.Open(t.Context(), p, assistants.Options{
		Env: env, Now: time.Now, World: o.world, Model: func(config.Model) (llm.Model, error) { return silent{}, nil },
	})
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

const plainRule = `actor.kind == "guest"`

func member(id string) chat.Person { return chat.Person{ID: id, Kind: chat.Member} }

func TestM2_AValueIsLookedUpOnlyForThoseWhoCanUseItAndNeverGuessed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		channel, person string
		want            map[string]string
		asked           []string
		says            string // in the error; "": there is none
	}{
		"a member":                      {"C0FRONT", "U0MIA", map[string]string{"org": "org_7", "member": "m_7101"}, []string{"members.by_slack U0MIA org_7 "}, ""},
		"an admin, who binds no member": {"C0FRONT", "U0ANA", map[string]string{"org": "org_7"}, nil, ""},
		"nobody's assistant":            {"C0FRONT", "U0EVE", map[string]string{"org": "org_7"}, nil, ""},
		"one look-up builds on another": {
			"C0NORTH", "U0TEA",
			map[string]string{"org": "org_9", "member": "m_7101", "team": "4711"},
			[]string{"members.by_slack U0TEA org_9 ", "teams.of C0NORTH org_9 m_7101"},
			"",
		},
		"without an organisation nothing is asked": {"D0MIA", "U0MIA", map[string]string{}, nil, ""},
		"a null is no value":                       {"C0FRONT", "U0GONE", map[string]string{"org": "org_7"}, []string{"members.by_slack U0GONE org_7 "}, ""},
		"a value too short to be masked":           {"C0FRONT", "U0ODD", map[string]string{"org": "org_7"}, []string{"members.by_slack U0ODD org_7 "}, "fewer than 4 characters"},
		"a result that breaks its contract":        {"C0FRONT", "U0LATE", map[string]string{"org": "org_7"}, []string{"members.by_slack U0LATE org_7 "}, "promised form"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &office{}
			d := openClub(t, o, plainRule)
			got, err := d.Scope(t.Context(), c.channel, member(c.person))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("scope (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.asked, o.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			}
			if err != nil && strings.Contains(err.Error(), "m_7") {
				t.Errorf("the error holds a value: %v", err)
			}
		})
	}
}

func TestM2_ARuleThatAsksForTheScopeGetsAllOfIt(t *testing.T) {
	t.Parallel()
	o := &office{}
	got, err := openClub(t, o, `scope.member == "m_7101"`).Scope(t.Context(), "C0FRONT", member("U0ANA"))
	if err != nil || got["member"] != "m_7101" {
		t.Errorf("scope %v, %v", got, err)
	}
}

func TestM2_ALookUpIsTriedAgainAndThenThereIsNoValue(t *testing.T) {
	t.Parallel()
	for fails, want := range map[int]string{2: "m_7101", 3: ""} {
		o := &office{fails: fails}
		d := openClub(t, o, plainRule)
		scope, err := d.Scope(t.Context(), "C0FRONT", member("U0MIA"))
		if scope["member"] != want || (err == nil) != (want != "") || len(o.asked) != 3 {
			t.Errorf("%d failures: scope %v, error %v, %d attempts", fails, scope, err, len(o.asked))
		}
		got := slices.Collect(maps.Keys(d.Assistant("mine").Tools(scope)))
		if (len(got) == 1) != (want != "") {
			t.Errorf("%d failures: the tools are %v", fails, got)
		}
	}
}

func TestM2_ALookUpEndsWithItsContextAndWithItsTimeout(t *testing.T) {
	t.Parallel()
	o := &office{closed: make(chan struct{})}
	d := openClub(t, o, plainRule)
	stop := errors.New("the process stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-o.closed; cancel(stop) }()
	if _, err := d.Scope(ctx, "C0FRONT", member("U0SLOW")); !errors.Is(err, stop) {
		t.Errorf("a stopped look-up gave %v", err)
	}
	o.closed = make(chan struct{})
	scope, err := d.Scope(t.Context(), "C0FRONT", member("U0SLOW")) // 1s by its contract
	if err == nil || scope["member"] != "" || scope["org"] != "org_7" {
		t.Errorf("a look-up without an answer gave %v, %v", scope, err)
	}
}

func TestM2_WhatWasLookedUpIsHiddenInThatRequestAlone(t *testing.T) {
	t.Parallel()
	d := openClub(t, &office{}, plainRule)
	scope, err := d.Scope(t.Context(), "C0FRONT", member("U0MIA"))
	if err != nil {
		t.Fatal(err)
	}
	if got := d.MaskFor(scope).Text("m_7101 of org_9"); got != "‹member› of ‹org›" {
		t.Errorf("the request's mask gave %s", got)
	}
	if got := d.Mask().Text("m_7101 of org_9"); got != "m_7101 of ‹org›" {
		t.Errorf("the desk's mask gave %s", got)
	}
}
