package club_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"switchboard/chat"
	"switchboard/config"
	"switchboard/examples/backoffice"

	"github.com/google/go-cmp/cmp"
)

func load(t *testing.T) *config.Pack {
	t.Helper()
	p, err := config.Load(os.DirFS("."), config.Options{})
	if err != nil {
		t.Fatalf("the pack has problems:\n%v", err)
	}
	return p
}

func TestPackHasNoProblemsAndNeedsOnlyTheBackOffice(t *testing.T) {
	t.Parallel()
	needs := map[string]string{}
	for _, r := range load(t).Refs() {
		needs[r.Env] = "given"
	}
	want := map[string]string{"BACKOFFICE_URL": "given", "BACKOFFICE_TOKEN": "given"}
	if diff := cmp.Diff(want, needs); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}

func TestEightNarrowAssistants(t *testing.T) {
	t.Parallel()
	p := load(t)
	got := map[string]int{}
	for _, a := range p.Assistants {
		got[a.Name] = a.Rounds
		if len(a.Tools) > 10 {
			t.Errorf("%s has %d tools", a.Name, len(a.Tools))
		}
	}
	want := map[string]int{"configuration": 8, "bookings": 8, "communication": 8, "insights": 8, "help": 6, "website": 10, "member-bookings": 8, "member-desk": 6}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rounds (-want +got):\n%s", diff)
	}
	rehearsed := map[string]int{}
	for _, r := range p.Rehearsals {
		seen := map[string]bool{}
		for _, s := range r.Steps {
			if s.Expect != nil && s.Expect.Assistant != "" && !seen[s.Expect.Assistant] {
				seen[s.Expect.Assistant] = true
				rehearsed[s.Expect.Assistant]++
			}
		}
	}
	for name := range want {
		if rehearsed[name] < 2 {
			t.Errorf("%s has %d rehearsals, want 2 or more", name, rehearsed[name])
		}
	}
}

// TestM2_ModelCanNeitherSeeNorSetTheOrganisation holds every tool of the pack to rule M2.
func TestM2_ModelCanNeitherSeeNorSetTheOrganisation(t *testing.T) {
	t.Parallel()
	p := load(t)
	for _, tool := range p.Tools {
		if tool.HTTP == nil {
			continue
		}
		if tool.Bind["org"] != "org" {
			t.Errorf("%s does not bind the organisation: %v", tool.Name, tool.Bind)
		}
		mine := strings.HasPrefix(tool.Name, "my.")
		if mine != (tool.Bind["member"] == "member") {
			t.Errorf("%s binds %v: the tools for members bind the member, and no others do", tool.Name, tool.Bind)
		}
		for arg, value := range map[string]string{"org": "org_9", "member": "m_7103"} {
			if tool.Bind[arg] == "" {
				continue
			}
			if strings.Contains(string(tool.Shown), `"`+arg+`"`) {
				t.Errorf("%s shows %s: %s", tool.Name, arg, tool.Shown)
			}
			if err := tool.CheckArgs(map[string]any{arg: value, "why": "look", "expects": "rows"}); err == nil {
				t.Errorf("%s takes %s from the model", tool.Name, arg)
			}
		}
	}
	for channel, want := range map[string]string{"C0FRONT": "org_7", "C0MEMBERS": "org_7", "C0NORTH": "org_9", "C0OTHER": ""} {
		if got := p.ScopeOf(channel, "U0GIL")["org"]; got != want {
			t.Errorf("the organisation of %s is %q, want %q", channel, got, want)
		}
	}
	for person, want := range map[string]string{"U0ANA": "org_7", "U0TOM": "org_7", "U0OMAR": "org_9"} {
		if got := p.ScopeOf("D0ANY", person)["org"]; got != want {
			t.Errorf("the organisation of %s in a direct message is %q, want %q", person, got, want)
		}
	}
}

// TestR2_MembersSeeOnlyTheirAssistantsAndStaffOnlyTheirs holds who may use what to the two sides of the desk.
func TestR2_MembersSeeOnlyTheirAssistantsAndStaffOnlyTheirs(t *testing.T) {
	t.Parallel()
	p := load(t)
	members := []string{"member-bookings", "member-desk"}
	for person, want := range map[string][]string{
		"U0ANA": {"bookings", "communication", "configuration", "help", "insights", "website"}, "U0MGR": {"help", "insights"}, "U0BEN": {"help"},
		"U0MIA": members, "U0TOM": members, "U0OMAR": members, "U0GIL": nil, "U0EVA": nil,
	} {
		r, ok := p.Resident(person)
		if !ok {
			t.Errorf("%s is not in the playground", person)
		}
		groups := p.Groups(chat.Person{ID: person, Kind: r.Kind})
		var got []string
		for _, a := range p.Assistants {
			if slices.ContainsFunc(a.OpenTo, func(who string) bool {
				return slices.Contains(groups, who) || who == config.Everyone && r.Kind == chat.Member
			}) {
				got = append(got, a.Name)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", person, diff)
		}
	}
	if docs := p.Assistant("help").Docs; slices.ContainsFunc(p.Docs, func(d config.Doc) bool {
		return strings.HasPrefix(d.Name, "members/") && slices.ContainsFunc(docs, func(pattern string) bool { return config.DocMatches(pattern, d.Name) })
	}) {
		t.Errorf("help reads what is written for members: %v", docs)
	}
}

// TestPromptsAreRehearsed makes sure that what is suggested can be played offline, wherever Ana or a member clicks on it.
func TestPromptsAreRehearsed(t *testing.T) {
	t.Parallel()
	p := load(t)
	for _, prompt := range p.Slack.Prompts {
		if !slices.ContainsFunc(p.Rehearsals, func(r *config.Rehearsal) bool {
			return r.In == "" && config.Fold(r.Steps[0].Say) == config.Fold(prompt.Message)
		}) {
			t.Errorf("nobody rehearses %q in every channel", prompt.Message)
		}
	}
}

// TestToolsFitTheBackOffice asks the real server by each tool's contract and checks what comes back.
func TestToolsFitTheBackOffice(t *testing.T) {
	t.Parallel()
	p := load(t)
	s, err := backoffice.Start(t.Context(), backoffice.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	march := map[string]any{"from": "2026-03-01", "to": "2026-03-31"}
	samples := map[string]map[string]any{
		"config.get": {}, "config.courts": {}, "config.staff": {}, "config.prices": {"court": int64(3), "band": "weekend"},
		"config.set_hours":  {"weekday": "saturday", "since": "2026-05-02", "opens": "07:00", "closes": "20:00"},
		"config.set_price":  {"court": int64(3), "band": "weekend", "cents": int64(3000)},
		"config.close_day":  {"day": "2026-05-08", "area": "pool", "reason": "The pump is serviced"},
		"config.reopen_day": {"day": "2026-05-01", "area": "club"}, "config.set_role": {"person": "s_7004", "role": "coach"},
		"members.find": {"q": "Mia"}, "bookings.list": {"day": "2026-05-05"}, "bookings.get": {"booking": "b_7001"}, "bookings.free": {"day": "2026-05-05"},
		"bookings.create": {"member": "m_7101", "court": int64(2), "day": "2026-05-05", "start": "18:00"},
		"bookings.move":   {"booking": "b_7001", "day": "2026-05-07", "start": "20:00"}, "bookings.cancel": {"booking": "b_7002"},
		"segments.list": {}, "documents.find": {"q": "sauna"}, "messages.list": {},
		"messages.draft": {"to": "seg_team", "subject": "Training", "text": "Training is at 19:00."},
		"messages.edit":  {"message": "msg_7002", "subject": "League", "text": "It begins."}, "messages.preview": {"message": "msg_7002"},
		"messages.send": {"message": "msg_7002", "recipients": int64(16)}, "messages.status": {"message": "msg_7001"},
		"metrics.revenue": march, "metrics.occupancy": march, "metrics.memberships": march,
		"metrics.compare": {"metric": "revenue", "from": "2026-03-01", "to": "2026-03-31", "with_from": "2026-02-01", "with_to": "2026-02-28"},
		"metrics.top":     {"what": "hours", "from": "2026-05-04", "to": "2026-05-10"},
		"pages.list":      {}, "pages.get": {"page": "p_7001"}, "pages.create": {"slug": "summer-camp", "title": "Camp", "text": "In July."},
		"pages.update": {"page": "p_7002", "title": "Hours"}, "pages.publish": {"page": "p_7006"}, "pages.theme": {"colour": "clay", "font": "serif"},
		"images.search": {"q": "camp"}, "images.place": {"page": "p_7001", "image": "img_7001"},
		"members.by_slack": {"slack_id": "U0MIA"}, "my.bookings": {"from": "2026-05-04"}, "my.free": {"day": "2026-05-10", "court": int64(2)},
		"my.book": {"court": int64(2), "day": "2026-05-10", "start": "10:00"}, "my.cancel": {"booking": "b_7001"},
		"club.hours": {"day": "2026-05-10"}, "club.classes": {"weekday": "tuesday"},
	}
	for _, tool := range p.Tools {
		if tool.HTTP == nil {
			continue
		}
		args, ok := samples[tool.Name]
		if !ok {
			t.Errorf("%s has no sample", tool.Name)
			continue
		}
		model := map[string]any{"why": "see", "expects": "rows"}
		maps.Copy(model, args)
		if err := tool.CheckArgs(model); err != nil {
			t.Errorf("%s refuses its sample: %v", tool.Name, err)
		}
		status, body := ask(t, s, tool, args)
		if status != http.StatusOK {
			t.Errorf("%s: status %d: %s", tool.Name, status, body)
			continue
		}
		v, err := config.DecodeJSON(body)
		if err != nil {
			t.Fatal(err)
		}
		if v, err = tool.Project(v, status); err != nil {
			t.Errorf("%s: project %s: %v", tool.Name, body, err)
		}
		if err := tool.CheckResult(v); err != nil {
			t.Errorf("%s: result %s: %v", tool.Name, body, err)
		}
		if tool.Effect != config.NoEffect && tool.Idempotency == nil {
			t.Errorf("%s changes something and has no idempotency key", tool.Name)
		}
	}
}

// ask sends one request as a tool describes it, for the first organisation.
func ask(t *testing.T, s *backoffice.Server, tool *config.Tool, args map[string]any) (int, []byte) {
	t.Helper()
	left := map[string]any{"org": "org_7"}
	if tool.Bind["member"] != "" {
		left["member"] = "m_7103" // Tom Becker
	}
	path := tool.HTTP.Path
	for k, v := range args {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if filled := strings.ReplaceAll(path, "{"+k+"}", url.PathEscape(strings.Trim(string(text), `"`))); filled != path {
			path = filled
			continue
		}
		left[k] = v
	}
	method := strings.ToUpper(tool.HTTP.Method)
	var body io.Reader
	if slices.Contains([]string{"GET", "DELETE"}, method) {
		q := url.Values{}
		for k, v := range left {
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			q.Set(k, strings.Trim(string(text), `"`))
		}
		path += "?" + q.Encode()
	} else {
		b, err := json.Marshal(left)
		if err != nil {
			t.Fatal(err)
		}
		body = strings.NewReader(string(b))
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.Token())
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, b
}
