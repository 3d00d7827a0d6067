package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchboard/examples/backoffice"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/llm/llmtest"
)

const waivers = "how do I export waivers?"

// what is the part of a summary that does not depend on who the model was, or on the clock.
func what(s journal.Summary) map[string]any {
	var calls []string
	for _, c := range s.Calls {
		args, _ := json.Marshal(c.Args)
		calls = append(calls, fmt.Sprintf("%d %s %s %s %q %q", c.Seq, c.Tool, args, c.Outcome, *c.Why, *c.Expects))
	}
	return map[string]any{
		"assistant": *s.Assistant, "confidence": *s.Confidence, "outcome": s.Outcome, "rounds": s.Rounds, "calls": calls, "reply": *s.Reply, "steps": len(s.Steps),
	}
}

func asks(tool, args string) llmtest.Step {
	return llmtest.Step{Calls: []llm.ToolCall{{Name: tool, Args: args}}, Usage: &llm.Usage{Input: 1000, Cached: 400, Output: 50}}
}

func routes(to string) llmtest.Step {
	return llmtest.Step{Text: fmt.Sprintf(`{"assistant":%q,"confidence":0.96,"question":null}`, to), Usage: &llm.Usage{Input: 300, Output: 20}}
}

// live makes the program ask the fake provider.
func (b *bench) live(steps ...llmtest.Step) *llmtest.Server {
	server := llmtest.NewServer(b.t, steps...)
	b.env["OPENAI_API_KEY"], b.env["OPENAI_BASE_URL"] = "sk-canary-1234567890", server.URL
	return server
}

// The failure that the product was built after: the second identical failing call never reaches the tool, offline and
// through a provider alike.
func TestL4_TheWaiversThatAreNotThere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	offline := b.chat(exitGood, waivers)
	if len(offline) != 1 {
		t.Fatalf("%d lines for one message", len(offline))
	}
	s := offline[0]
	if s.Outcome != "answered" || *s.Assistant != "help" || s.Calls[1].Outcome != journal.Word(journal.Failed) || s.Calls[2].Outcome != journal.Word(journal.Refused) {
		t.Errorf("summary %+v", s)
	}
	if !strings.Contains(*s.Calls[2].Reason, "Document not found: waivers") {
		t.Errorf("the refusal says %q", *s.Calls[2].Reason)
	}
	fetch := `{"name":"waivers","why":"read the document about waivers","expects":"steps for exporting them"}`
	b.live(routes("help"),
		asks("docs.search", `{"query":"export","why":"find documents about exporting","expects":"a document about exporting waivers"}`),
		asks("docs.fetch", fetch),
		asks("docs.fetch", strings.Replace(fetch, "waivers\",\"exp", "waivers again\",\"exp", 1)),
		llmtest.Step{Text: *s.Reply, Usage: &llm.Usage{Input: 2000, Cached: 1000, Output: 60}})
	live := b.chat(exitGood, waivers)
	if diff := cmp.Diff(what(s), what(live[0])); diff != "" {
		t.Errorf("offline and through a provider (-offline +live):\n%s", diff)
	}
	want := journal.UsageSummary{Input: 300 + 3*1000 + 2000, Cached: 3*400 + 1000, Output: 20 + 3*50 + 60}
	got := live[0].Usage
	got.CostUSD = 0
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	if cost := live[0].Usage.CostUSD; cost < 0.0007 || cost > 0.0009 { // (5300-2200)*0.15 + 2200*0.075 + 230*0.6, by a million
		t.Errorf("cost %f USD", cost)
	}
}

// The answer comes from the back office and from nowhere else: a changed row is a changed answer.
func TestTheOfflineAnswerFollowsTheRow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	office := b.office()
	before := *b.chat(exitGood, "revenue in March")[0].Reply
	n, err := office.Exec(t.Context(), "UPDATE figures SET shop = shop + 100000 WHERE org = 'org_7' AND day = '2026-03-10'")
	if err != nil || n != 1 {
		t.Fatalf("%d rows changed, %v", n, err)
	}
	after := *b.chat(exitGood, "revenue in March")[0].Reply
	if !strings.Contains(before, "36,787.99") || !strings.Contains(after, "37,787.99") {
		t.Errorf("before: %q\nafter:  %q; want 1,000 euros more", before, after)
	}
}

func TestL1_RoundsAndOneMoreThroughAProvider(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]llmtest.Step{
		"says something": {Text: "That is what I found."},
		"says nothing":   {Fail: llm.Empty, Again: true},
		"fails":          {Fail: llm.BadRequest},
		"asks again":     asks("docs.search", `{"query":"z","why":"w","expects":"e"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			steps := []llmtest.Step{routes("help")}
			for n := range 6 {
				steps = append(steps, asks("docs.search", fmt.Sprintf(`{"query":"q%d","why":"w","expects":"e"}`, n)))
			}
			server := b.live(append(steps, last)...)
			s := b.chat(exitGood, "tell me everything")[0]
			if s.Outcome != "capped" || s.Rounds != 6 || len(s.Steps) != 8 || s.Reply == nil || strings.TrimSpace(*s.Reply) == "" {
				t.Fatalf("summary %+v", s)
			}
			for i, sent := range server.Sent()[1:8] {
				var body map[string]json.RawMessage
				if err := json.Unmarshal(sent.Body, &body); err != nil {
					t.Fatal(err)
				}
				if _, offered := body["tools"]; offered != (i < 6) {
					t.Errorf("request %d of the assistant: tools offered: %v", i, offered)
				}
			}
			if name == "asks again" && s.Calls[6].Outcome != journal.Word(journal.Refused) {
				t.Errorf("the call of the last reply ended %s", s.Calls[6].Outcome)
			}
		})
	}
}

func TestJSONHasAlwaysAllKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	out := b.bot(exitGood, "chat", "../../examples/club", "--json", "-m", "something nobody rehearsed", "-m", waivers)
	lines := slices.Collect(strings.Lines(out))
	if len(lines) != 2 {
		t.Fatalf("%d lines for two messages:\n%s", len(lines), out)
	}
	var s map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &s); err != nil {
		t.Fatal(err)
	}
	want := []string{"assistant", "calls", "confidence", "ms", "outcome", "question", "reply", "rounds", "run", "steps", "turn", "usage"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(s))); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	for _, absent := range []string{"run", "assistant", "confidence", "question"} {
		if s[absent] != nil {
			t.Errorf("%s is %v, want null", absent, s[absent])
		}
	}
	if s["outcome"] != "refused" || strings.Count(s["reply"].(string), "\n- ") != 3 {
		t.Errorf("offline, outside every rehearsal: %v, %v; want three things to try", s["outcome"], s["reply"])
	}
	if strings.Contains(lines[0], ": ") && strings.HasPrefix(lines[0], "{ ") {
		t.Errorf("not compact: %s", lines[0])
	}
}

func TestAFailedTurnEndsWithCodeThree(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.live(llmtest.Step{Fail: llm.Auth})
	s := b.chat(exitRun, "anything")[0]
	if s.Outcome != "failed" || !strings.Contains(*s.Reply, s.Turn) {
		t.Errorf("summary %+v; want an apology with the turn's id", s)
	}
}

// Two writes in one round; the process is killed after the back office committed the first and before its outcome is
// stored. The next process goes on from the stored round: the first is asked for again under its key, by which the back office
// knows it, and takes effect once.
func TestD3_KillNineBetweenEffectAndOutcome(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	office := b.office()
	write := func(day string) llm.ToolCall {
		return llm.ToolCall{Name: "bookings.create", Args: fmt.Sprintf(
			`{"member":"m_7101","court":2,"day":%q,"start":"18:00","why":"book the hour","expects":"a booking"}`, day)}
	}
	server := b.live(routes("bookings"), llmtest.Step{Calls: []llm.ToolCall{write("2026-05-12"), write("2026-05-13")}})
	if err := office.Fault(backoffice.Fault{Match: "POST /bookings", Kind: backoffice.FaultTimeoutAfter}); err != nil {
		t.Fatal(err)
	}
	rows := func() int {
		t.Helper()
		n, err := office.Count(t.Context(), "bookings", "org = 'org_7' AND start = 18 * 60 AND court = 2 AND day IN ('2026-05-12', '2026-05-13') AND status = 'booked'")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := rows(); n != 0 {
		t.Fatalf("%d of the hours are taken before", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd, _ := b.child(ctx, "chat", "../../examples/club", "--json", "-m", "book court 2 for Mia on 12 and 13 May at 6 pm")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := office.Await(ctx, func(r backoffice.Request) bool { return r.Fault == backoffice.FaultTimeoutAfter && r.Status == 0 }); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the process ended well, though it was killed")
	}
	if n := rows(); n != 1 {
		t.Fatalf("%d rows after the kill, want 1", n)
	}

	server.Add(llmtest.Step{Text: "Booked both."})
	asked := len(server.Sent())
	resumed := b.summaries(b.bot(exitGood, "chat", "../../examples/club", "--json"))
	if len(resumed) != 1 {
		t.Fatalf("%d turns were resumed, want 1", len(resumed))
	}
	s := resumed[0]
	if len(server.Sent())-asked != 1 {
		t.Errorf("the model was asked %d times after the kill, want once: for what comes after the round", len(server.Sent())-asked)
	}
	if s.Outcome != "answered" || len(s.Calls) != 2 || s.Calls[0].Outcome != journal.Word(journal.OK) || s.Calls[1].Outcome != journal.Word(journal.OK) {
		t.Errorf("summary %+v", s)
	}
	if n := rows(); n != 2 {
		t.Errorf("%d rows in the end, want 2: each once", n)
	}
	if strings.Count(*s.Reply, "2026-05-12") != 1 || strings.Contains(*s.Reply, "Not known") {
		t.Errorf("the reply does not say what was done: %s", *s.Reply)
	}
	if trace := b.bot(exitGood, "trace", *s.Run); strings.Count(trace, "bookings.create(") < 2 || strings.Contains(trace, "-> unknown") {
		t.Errorf("the trace:\n%s", trace)
	}
	if again := b.bot(exitGood, "chat", "../../examples/club", "--json"); again != "" {
		t.Errorf("a third process resumed something: %s", again)
	}
}

// A canary for the key, the token and the bound values, through the whole program with its log at its loudest.
func TestM2_NoCanaryInWhatTheProgramPrintsOrSends(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	office := b.office()
	b.env["BOT_LOG"] = "debug"
	server := b.live(routes("bookings"),
		asks("bookings.list", `{"day":"2026-05-05","org":"org_7","why":"for org_7","expects":"rows"}`),
		asks("bookings.list", `{"day":"2026-05-05","why":"see the day","expects":"rows"}`),
		llmtest.Step{Text: "In org_7 and org_9, with " + office.Token() + " and sk-canary-1234567890."})
	if err := office.Fault(backoffice.Fault{Match: "GET /bookings", Kind: backoffice.FaultBadGateway}); err != nil {
		t.Fatal(err)
	}
	cmd, out := b.child(t.Context(), "chat", "../../examples/club", "--json", "-m", "show me org_7 on 5 May")
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	s := b.summaries(out.String())[0]
	var prompts strings.Builder
	for _, sent := range server.Sent() {
		prompts.Write(sent.Body)
	}
	for place, text := range map[string]string{
		"output": out.String(), "log": log.String(), "prompts": prompts.String(), "trace": b.bot(exitGood, "trace", s.Turn), "runs": b.bot(exitGood, "runs", "--json"),
	} {
		for _, canary := range []string{"org_7", "org_9", office.Token(), "sk-canary-1234567890"} {
			if strings.Contains(text, canary) {
				t.Errorf("%s hold %s", place, canary)
			}
		}
	}
	if log.Len() == 0 {
		t.Error("nothing was logged at debug, so the log was not tested")
	}
}
