package refunds_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

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

func TestOneLoopAndFourTools(t *testing.T) {
	t.Parallel()
	p := load(t)
	if len(p.Assistants) != 1 || p.Assistants[0].Name != "order-refunds" {
		t.Fatalf("the pack has %d assistants, want order-refunds alone", len(p.Assistants))
	}
	effects := map[string]config.Effect{}
	for _, name := range p.Assistants[0].Tools {
		tool := p.Tool(name)
		effects[name] = tool.Effect
		if tool.Effect != config.NoEffect && (tool.Idempotency == nil || !slices.Contains(tool.Targets, "order")) {
			t.Errorf("%s changes something and lacks a key or does not mark whom it reaches", name)
		}
	}
	want := map[string]config.Effect{
		"orders.get": config.NoEffect, "payments.refunds": config.NoEffect, "payments.refund": config.Irreversible, "customers.notify": config.Irreversible,
	}
	if diff := cmp.Diff(want, effects); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	refund := p.Tool("payments.refund")
	if len(refund.Facts) != 1 || refund.Facts[0].Tool != "orders.get" || refund.Lookup == nil || refund.Lookup.Tool != "payments.refunds" {
		t.Errorf("payments.refund reads the facts %v and looks up by %v", refund.Facts, refund.Lookup)
	}
}

// TestPolicyIsInNoPrompt makes sure that nothing of what the rules weigh is asked of a model.
func TestPolicyIsInNoPrompt(t *testing.T) {
	t.Parallel()
	p := load(t)
	told := p.Assistants[0].Instructions
	for _, name := range p.Assistants[0].Tools {
		tool := p.Tool(name)
		told += " " + tool.About + " " + string(tool.Shown)
	}
	rules := regexp.MustCompile(`(?i)\b(30|50|5000|days?|cancel\w*|approv\w*|finance|flagged|limit\w*|colleagues?|left to)\b`)
	for _, word := range rules.FindAllString(told, -1) {
		t.Errorf("a model is told of %q: that is a rule's business", word)
	}
}

// TestRulesByOrderAndAmount asks every rule of payments.refund about orders of every kind.
func TestRulesByOrderAndAmount(t *testing.T) {
	t.Parallel()
	p := load(t)
	now := time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)
	order := func(status string, paid, refunded int64, days int, flagged bool) map[string]any {
		at := ""
		if days > 0 {
			at = now.AddDate(0, 0, -days).Format(time.RFC3339)
		}
		return map[string]any{
			"order": "A-1001", "status": status, "currency": "EUR", "paid": paid, "refunded": refunded, "delivered_at": at,
			"customer": map[string]any{"id": "c_1", "flagged": flagged},
		}
	}
	for _, v := range []struct {
		name   string
		order  map[string]any
		amount int64
		want   []string // the verdicts of all rules that match, with who decides
	}{
		{"fifty", order("delivered", 9000, 0, 3, false), 5000, nil},
		{"above fifty", order("delivered", 9000, 0, 3, false), 5001, []string{"ask finance"}},
		{"above fifty with what went back before", order("delivered", 9000, 4000, 3, false), 1001, []string{"ask finance"}},
		{"not yet delivered", order("paid", 9000, 0, 0, false), 5000, nil},
		{"thirty days", order("delivered", 9000, 0, 30, false), 100, nil},
		{"thirty-one days", order("delivered", 9000, 0, 31, false), 100, []string{"deny"}},
		{"cancelled", order("cancelled", 0, 0, 0, false), 100, []string{"deny", "deny"}},
		{"all that is left", order("delivered", 4000, 1000, 3, false), 3000, nil},
		{"more than is left", order("delivered", 4000, 1000, 3, false), 3001, []string{"deny"}},
		{"flagged", order("delivered", 4000, 0, 3, true), 100, []string{"ask support"}},
		{"flagged and above fifty", order("delivered", 9000, 0, 3, true), 9000, []string{"ask finance", "ask support"}},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, r := range p.Policy.Rules {
				if r.When == nil || !slices.Contains(r.Tools, "payments.refund") {
					continue
				}
				vars := map[string]any{"tool": "payments.refund", "args": map[string]any{"order": "A-1001", "amount": v.amount}, "now": now, "order": v.order}
				holds, err := r.When.Holds(vars)
				if err != nil {
					t.Fatalf("the rule at %s: %v", r.Place, err)
				}
				if !holds {
					continue
				}
				if why, err := r.Why.Text(vars); err != nil || why == "" {
					t.Errorf("the rule at %s gives the reason %q, %v", r.Place, why, err)
				}
				said := string(r.Verdict)
				if r.Approve != nil {
					said += " " + strings.Join(r.Approve.By, ",")
					if !r.Approve.FourEyes || r.Approve.Within != 4*time.Hour {
						t.Errorf("the rule at %s lets the asker decide, or waits %s", r.Place, r.Approve.Within)
					}
				}
				got = append(got, said)
			}
			if diff := cmp.Diff(v.want, got); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestM2_ModelCanNeitherSeeNorSetTheShop holds every tool of the pack to rule M2.
func TestM2_ModelCanNeitherSeeNorSetTheShop(t *testing.T) {
	t.Parallel()
	p := load(t)
	for _, tool := range p.Tools {
		if tool.HTTP == nil {
			continue
		}
		if tool.Bind["shop"] != "shop" || strings.Contains(string(tool.Shown), `"shop"`) {
			t.Errorf("%s does not bind the shop (%v) or shows it: %s", tool.Name, tool.Bind, tool.Shown)
		}
		if err := tool.CheckArgs(map[string]any{"order": "A-1001", "shop": "shop_us", "why": "look", "expects": "rows"}); err == nil {
			t.Errorf("%s takes the shop from the model", tool.Name)
		}
	}
	for channel, want := range map[string]string{"C0SUPPORT": "shop_eu", "C0SUPPORTUS": "shop_us", "C0FINANCE": ""} {
		if got := p.ScopeOf(channel, "U0GIL")["shop"]; got != want {
			t.Errorf("the shop of %s is %q, want %q", channel, got, want)
		}
	}
	for person, want := range map[string]string{"U0SUE": "shop_eu", "U0PIA": "shop_us", "U0BOB": ""} {
		if got := p.ScopeOf("D0ANY", person)["shop"]; got != want {
			t.Errorf("the shop of %s in a direct message is %q, want %q", person, got, want)
		}
	}
	if got := p.ScopeOf("C0SUPPORT", "U0PIA")["shop"]; got != "shop_eu" {
		t.Errorf("the channel must win over the person, the shop is %q", got)
	}
}

// TestR2_OnlySupportAsksAndFinanceDecides holds who may do what to the people of the playground.
func TestR2_OnlySupportAsksAndFinanceDecides(t *testing.T) {
	t.Parallel()
	p := load(t)
	for person, want := range map[string][]string{"U0SUE": {"support"}, "U0PIA": {"support"}, "U0BOB": {"finance"}, "U0FAY": {"finance"}, "U0GIL": nil} {
		r, ok := p.Resident(person)
		if !ok {
			t.Errorf("%s is not in the playground", person)
		}
		if diff := cmp.Diff(want, p.Groups(chat.Person{ID: person, Kind: r.Kind, Groups: r.Groups})); diff != "" {
			t.Errorf("groups of %s (-want +got):\n%s", person, diff)
		}
	}
	if diff := cmp.Diff([]string{"support"}, p.Assistants[0].OpenTo); diff != "" {
		t.Errorf("open_to (-want +got):\n%s", diff)
	}
}

// TestPromptsAreRehearsed makes sure that what is suggested can be played offline.
func TestPromptsAreRehearsed(t *testing.T) {
	t.Parallel()
	p := load(t)
	for _, prompt := range p.Slack.Prompts {
		if !slices.ContainsFunc(p.Rehearsals, func(r *config.Rehearsal) bool { return config.Fold(r.Steps[0].Say) == config.Fold(prompt.Message) }) {
			t.Errorf("nobody rehearses %q", prompt.Message)
		}
	}
}

// TestToolsFitTheBackOffice asks the real server by each tool's contract and checks what comes back.
func TestToolsFitTheBackOffice(t *testing.T) {
	t.Parallel()
	p := load(t)
	s := office(t)
	for _, v := range []struct {
		tool string
		args map[string]any
	}{
		{"orders.get", map[string]any{"order": "A-1001"}},
		{"orders.get", map[string]any{"order": "A-1006"}}, // not delivered
		{"payments.refund", map[string]any{"order": "A-1001", "amount": int64(2000)}},
		{"payments.refunds", map[string]any{"order": "A-1001"}},
		{"customers.notify", map[string]any{"order": "A-1001", "text": "20 euros are on their way."}},
	} {
		tool := p.Tool(v.tool)
		model := map[string]any{"why": "see", "expects": "rows"}
		maps.Copy(model, v.args)
		if err := tool.CheckArgs(model); err != nil {
			t.Errorf("%s refuses its sample: %v", v.tool, err)
		}
		key := ""
		if tool.Idempotency != nil {
			key = "k-" + v.tool
		}
		got := ask(t, s, tool, v.args, key)
		if err := tool.CheckResult(got); err != nil {
			t.Errorf("%s: result %v: %v", v.tool, got, err)
		}
		if text, _ := json.Marshal(got); bytes.Contains(text, []byte("Lena")) {
			t.Errorf("%s hands on what the customer wrote: %s", v.tool, text)
		}
	}
}

// TestRel_E05_LookUpFindsTheRefundByItsKey books one refund whose answer is lost, and looks it up as the runtime would.
func TestRel_E05_LookUpFindsTheRefundByItsKey(t *testing.T) {
	t.Parallel()
	p := load(t)
	s := office(t)
	refund := p.Tool("payments.refund")
	args := map[string]any{"order": "A-1001", "amount": int64(8000)}
	since := time.Now()
	look := func(key string) bool {
		read, err := refund.Lookup.Args(args)
		if err != nil {
			t.Fatal(err)
		}
		found, err := refund.Lookup.Found(ask(t, s, p.Tool(refund.Lookup.Tool), read, ""), args, key, since)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if look("run-1") {
		t.Error("a refund was found before there was one")
	}
	ask(t, s, refund, map[string]any{"order": "A-1001", "amount": int64(900)}, "run-0")
	if err := s.Fault(backoffice.Fault{Match: "POST /refunds", Kind: backoffice.FaultResetAfter}); err != nil {
		t.Fatal(err)
	}
	if status, _ := send(t, s, refund, args, "run-1"); status != 0 {
		t.Errorf("the lost answer has status %d", status)
	}
	if !look("run-1") {
		t.Error("the refund that was booked was not found")
	}
	if look("run-2") {
		t.Error("another run's refund of the same amount was taken for this one")
	}
}

func office(t *testing.T) *backoffice.Server {
	t.Helper()
	s, err := backoffice.Start(t.Context(), backoffice.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ask sends one request as a tool describes it, for the first shop, and gives the result that it takes from the answer.
func ask(t *testing.T, s *backoffice.Server, tool *config.Tool, args map[string]any, key string) any {
	t.Helper()
	status, body := send(t, s, tool, args, key)
	if status != http.StatusOK {
		t.Fatalf("%s: status %d: %s", tool.Name, status, body)
	}
	v, err := config.DecodeJSON(body)
	if err != nil {
		t.Fatal(err)
	}
	if v, err = tool.Project(v, status); err != nil {
		t.Fatalf("%s: project %s: %v", tool.Name, body, err)
	}
	return v
}

// send gives status and body of the answer, or status 0 where there was none.
func send(t *testing.T, s *backoffice.Server, tool *config.Tool, args map[string]any, key string) (int, []byte) {
	t.Helper()
	order, _ := args["order"].(string)
	path, left := strings.ReplaceAll(tool.HTTP.Path, "{order}", order), map[string]any{"shop": "shop_eu"}
	maps.Copy(left, args)
	if path != tool.HTTP.Path {
		delete(left, "order")
	}
	method := strings.ToUpper(tool.HTTP.Method)
	var body []byte
	if method == http.MethodGet {
		q := url.Values{}
		for k, v := range left {
			text, _ := v.(string)
			q.Set(k, text)
		}
		path += "?" + q.Encode()
	} else {
		var err error
		if body, err = json.Marshal(left); err != nil {
			t.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.Token())
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set(tool.Idempotency.Header, key)
	}
	rt := &http.Transport{}
	defer rt.CloseIdleConnections()
	resp, err := rt.RoundTrip(r)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = resp.Body.Close() }()
	var all bytes.Buffer
	if _, err := all.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, all.Bytes()
}
