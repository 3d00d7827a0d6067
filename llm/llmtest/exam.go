// Package llmtest is the exam that every llm.Model takes, and a fake provider to take it against.
//
// The exam asks only what a caller may rely on, whoever answers. The fake speaks both wire formats and refuses what a real
// provider would refuse. It must not know how any Model works inside.
package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"switchboard/llm"
)

// The conversation that the exam's requests belong to: Where says so, and the first turn holds FirstMessage. A model that
// finds its place by Where is opened for these.
const (
	FirstMessage = "what is new at the front desk?"
	Person       = "U0EXAM"
	Channel      = "C0EXAM"
)

// Step is what the model's side does with one request, in no provider's words. The steps of a script are played in order,
// one for each request.
type Step struct {
	Text  string
	Calls []llm.ToolCall // ids may be empty, names are ours (docs.search)
	Cut   bool           // the output limit was hit
	// Refuse means that the model declined in its own words, which are in Text.
	Refuse bool
	// Fail answers with this failure instead. Wait goes with RateLimited; whole seconds. A stream that fails with CutShort
	// brings the Text before that.
	Fail llm.Reason
	Wait time.Duration
	// Hang never answers; it ends when the caller goes away.
	Hang bool
	// Usage is what the answer is said to have used. nil: the server's own figures, or none.
	Usage *llm.Usage
	// Again plays the step for every further request too.
	Again bool
	// Pace is asked before each word of a streamed answer, and may wait; its error ends the answer.
	Pace func(ctx context.Context) error
	// HTTP answers by itself; only the Server plays it.
	HTTP HandlerFunc
}

// Ability is something that not every model under test, or the server behind it, is able to show.
type Ability string

// The abilities.
const (
	Figures  Ability = "report the tokens of a step's Usage"
	Caching  Ability = "report cached tokens"
	Refusing Ability = "refuse in its own words"
	Failing  Ability = "fail for each reason"
	Hanging  Ability = "not answer"
	Pacing   Ability = "stream at a step's Pace"
	Breaking Ability = "break off in the middle of a stream"
)

// Price is the price that a model with Figures is opened with.
func Price() llm.Price { return llm.Price{Input: 150_000, Cached: 75_000, Output: 600_000} }

// Exam checks that models opened for a script keep llm.Model's promises, with the answer in one piece and as a stream. What
// the subject lacks is skipped by name.
func Exam(t *testing.T, open func(t *testing.T, script []Step) llm.Model, lacks ...Ability) {
	t.Helper()
	t.Run("whole", func(t *testing.T) {
		t.Parallel()
		e := exam{open: open}
		e.take(t, e.checks(), lacks)
	})
	t.Run("streamed", func(t *testing.T) {
		t.Parallel()
		e := exam{open: open, streamed: true}
		e.take(t, append(e.checks(),
			check{"word by word", Pacing, e.wordByWord},
			check{"context ended within the answer", Pacing, e.endedWithin},
			check{"broken off", Breaking, e.brokenOff},
			check{"what is released is the text", "", e.releasesTheText},
		), lacks)
	})
}

type check struct {
	name  string
	needs Ability
	check func(*testing.T)
}

type exam struct {
	open     func(t *testing.T, script []Step) llm.Model
	streamed bool
}

func (exam) take(t *testing.T, checks []check, lacks []Ability) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, l := range lacks {
				if l == c.needs {
					t.Skipf("not able to %s", l)
				}
			}
			c.check(t)
		})
	}
}

func (e exam) checks() []check {
	return []check{
		{"a text", "", e.text},
		{"one call", "", e.oneCall},
		{"several calls and text in one reply", "", e.severalCalls},
		{"results make the round trip", "", e.roundTrip},
		{"ids stay unique over the conversation", "", e.uniqueIDs},
		{"no tools, although the history holds calls", "", e.noTools},
		{"a JSON answer", "", e.jsonAnswer},
		{"cut off", "", e.cutOff},
		{"refused", Refusing, e.refused},
		{"failures", Failing, e.failures},
		{"context ended before", "", e.endedBefore},
		{"context ended during", Hanging, e.endedDuring},
		{"many at once", "", e.manyAtOnce},
		{"usage", Figures, e.usage},
		{"usage of a cached prompt", Caching, e.cachedUsage},
	}
}

// Tools are the tools that the exam offers.
func Tools() []llm.Tool {
	return []llm.Tool{
		{Name: "docs.search", About: "Search the handbook.", Schema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"}},"required":["query"],"additionalProperties":false}`)},
		{Name: "members_count", About: "Count the members.", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":["integer","null"]}}}`)},
	}
}

// Request is the exam's question after the given turns, at the place that belongs to it.
func Request(turns ...llm.Turn) llm.Request {
	replies := 0
	for _, u := range turns {
		if u.Role == llm.Assistant {
			replies++
		}
	}
	return llm.Request{
		System: "You help at the front desk.",
		Turns:  append([]llm.Turn{{Role: llm.User, Text: FirstMessage}}, turns...),
		Tools:  Tools(),
		Where:  llm.Where{First: FirstMessage, Last: FirstMessage, Person: Person, Channel: Channel, Replies: replies},
	}
}

// do asks, for a stream if that is what the exam is about, and checks what holds for the pieces of every stream.
func (e exam) do(ctx context.Context, t *testing.T, m llm.Model, r llm.Request) (llm.Reply, error) {
	t.Helper()
	if !e.streamed {
		return m.Do(ctx, r)
	}
	var mu sync.Mutex
	var all strings.Builder
	over, give := false, r.OnText
	r.OnText = func(text string) {
		if !mu.TryLock() {
			t.Error("OnText is called by two goroutines at once")
			return
		}
		defer mu.Unlock()
		if over || text == "" || !utf8.ValidString(text) {
			t.Errorf("the piece %q came, after the end: %v", text, over)
		}
		all.WriteString(text)
		if give != nil {
			give(text)
		}
	}
	got, err := m.Do(ctx, r)
	mu.Lock()
	defer mu.Unlock()
	over = true
	var failed *llm.Error
	switch {
	case err == nil && all.String() != got.Text:
		t.Errorf("the pieces make %q, the reply says %q", all.String(), got.Text)
	case errors.As(err, &failed) && failed.Released != (all.Len() > 0):
		t.Errorf("Released is %v after %q: %v", failed.Released, all.String(), err)
	case err != nil && (got.Text != "" || got.Calls != nil):
		t.Errorf("a reply beside an error: %+v, %v", got, err)
	}
	return got, err
}

// ask asks and checks what holds for every good reply.
func (e exam) ask(t *testing.T, m llm.Model, r llm.Request) llm.Reply {
	t.Helper()
	before, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.do(t.Context(), t, m, r)
	if err != nil {
		t.Fatalf("Do: %v", err)
	}
	if after, _ := json.Marshal(r); string(after) != string(before) {
		t.Errorf("the request was changed:\n%s\n%s", before, after)
	}
	if got.Model == "" || got.Attempts < 1 || got.Took < 0 {
		t.Errorf("Model %q, Attempts %d, Took %v", got.Model, got.Attempts, got.Took)
	}
	u := got.Usage
	if u.Cached < 0 || u.Cached > u.Input || u.Output < 0 || u.Cost < 0 {
		t.Errorf("usage has no sense: %+v", u)
	}
	if !u.Known && u.Cost != 0 {
		t.Errorf("usage is unknown but costs %d", u.Cost)
	}
	seen := map[string]bool{"": true}
	for _, h := range r.Turns {
		for _, c := range h.Calls {
			seen[c.ID] = true
		}
	}
	for _, c := range got.Calls {
		if seen[c.ID] {
			t.Errorf("call %s has the id %q, which is empty or in use", c.Name, c.ID)
		}
		seen[c.ID] = true
	}
	return got
}

// call is a ToolCall without its id and with its arguments read, for comparing.
type call struct {
	Name string
	Args any
}

func calls(t *testing.T, in []llm.ToolCall) []call {
	t.Helper()
	var out []call
	for _, c := range in {
		var v any
		if err := json.Unmarshal([]byte(c.Args), &v); err != nil {
			t.Errorf("arguments of %s: %q: %v", c.Name, c.Args, err)
		}
		out = append(out, call{c.Name, v})
	}
	return out
}

func same(t *testing.T, got llm.Reply, text string, finish llm.Finish, want []llm.ToolCall) {
	t.Helper()
	if got.Text != text || got.Finish != finish {
		t.Errorf("got text %q, finish %q; want %q, %q", got.Text, got.Finish, text, finish)
	}
	if d := cmp.Diff(calls(t, want), calls(t, got.Calls)); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
}

func (e exam) text(t *testing.T) {
	t.Helper()
	m := e.open(t, []Step{{Text: "Nothing new <& all \"quiet\">, señor 🙂.\nReally."}})
	same(t, e.ask(t, m, Request()), "Nothing new <& all \"quiet\">, señor 🙂.\nReally.", llm.Stop, nil)
}

func (e exam) oneCall(t *testing.T) {
	t.Helper()
	want := []llm.ToolCall{{Name: "docs.search", Args: `{"query":"export <waivers> & \"more\""}`}}
	m := e.open(t, []Step{{Calls: want}})
	same(t, e.ask(t, m, Request()), "", llm.Called, want)
}

func (e exam) severalCalls(t *testing.T) {
	t.Helper()
	want := []llm.ToolCall{
		{Name: "docs.search", Args: `{"query":"one"}`},
		{Name: "members_count", Args: `{"n":3}`},
		{Name: "docs.search", Args: `{"query":"two"}`},
	}
	m := e.open(t, []Step{{Text: "Let me look.", Calls: want}})
	same(t, e.ask(t, m, Request()), "Let me look.", llm.Called, want)
}

// asked is an assistant's turn as the loop keeps it, with a result for each call; the last one failed.
func asked(r llm.Reply) []llm.Turn {
	results := llm.Turn{Role: llm.Results}
	for i, c := range r.Calls {
		results.Results = append(results.Results, llm.Result{
			ID: c.ID, Name: c.Name, Text: fmt.Sprintf(`{"rows":%d}`, i), Failed: i == len(r.Calls)-1,
		})
	}
	return []llm.Turn{{Role: llm.Assistant, Text: r.Text, Calls: r.Calls}, results}
}

func (e exam) roundTrip(t *testing.T) {
	t.Helper()
	m := e.open(t, []Step{
		{Text: "Looking.", Calls: []llm.ToolCall{{Name: "docs.search", Args: `{"query":"a"}`}, {Name: "members_count", Args: `{}`}}},
		{Text: "Found it."},
	})
	first := e.ask(t, m, Request())
	same(t, e.ask(t, m, Request(asked(first)...)), "Found it.", llm.Stop, nil)
}

func (e exam) uniqueIDs(t *testing.T) {
	t.Helper()
	again := Step{Calls: []llm.ToolCall{{ID: "call_1", Name: "docs.search", Args: `{"query":"a"}`}, {ID: "call_1", Name: "docs.search", Args: `{"query":"b"}`}}}
	m := e.open(t, []Step{again, again, {Text: "Done."}})
	turns := asked(e.ask(t, m, Request()))
	turns = append(turns, asked(e.ask(t, m, Request(turns...)))...)
	same(t, e.ask(t, m, Request(turns...)), "Done.", llm.Stop, nil)
}

func (e exam) noTools(t *testing.T) {
	t.Helper()
	m := e.open(t, []Step{{Calls: []llm.ToolCall{{Name: "docs.search", Args: `{"query":"a"}`}}}, {Text: "That is all."}})
	r := Request(asked(e.ask(t, m, Request()))...)
	r.Choice = llm.None
	same(t, e.ask(t, m, r), "That is all.", llm.Stop, nil)
}

func (e exam) jsonAnswer(t *testing.T) {
	t.Helper()
	want := `{"assistant":"help","confidence":0.9,"question":""}`
	m := e.open(t, []Step{{Text: want}})
	r := Request()
	r.Tools = nil
	r.Schema = &llm.Schema{Name: "decision", JSON: json.RawMessage(`{"type":"object","properties":{"assistant":{"type":"string"},"confidence":{"type":"number"},"question":{"type":"string"}},"required":["assistant","confidence","question"],"additionalProperties":false}`)}
	got := e.ask(t, m, r)
	var a, b any
	if err := json.Unmarshal([]byte(got.Text), &a); err != nil {
		t.Fatalf("%q: %v", got.Text, err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("got %s, want %s", got.Text, want)
	}
}

func (e exam) cutOff(t *testing.T) {
	t.Helper()
	m := e.open(t, []Step{{Text: "The first thing to", Cut: true}})
	same(t, e.ask(t, m, Request()), "The first thing to", llm.CutOff, nil)
}

func (e exam) refused(t *testing.T) {
	t.Helper()
	m := e.open(t, []Step{{Text: "I will not help with that.", Refuse: true}})
	same(t, e.ask(t, m, Request()), "I will not help with that.", llm.Refused, nil)
}

func (e exam) failures(t *testing.T) {
	t.Helper()
	for _, want := range []llm.Reason{
		llm.RateLimited, llm.Overloaded, llm.Network, llm.Empty, llm.CutShort, llm.ContextTooLong,
		llm.Auth, llm.Quota, llm.BadRequest, llm.Declined,
	} {
		t.Run(string(want), func(t *testing.T) {
			m := e.open(t, []Step{{Fail: want, Wait: 2 * time.Second, Again: true}})
			reply, err := e.do(t.Context(), t, m, Request())
			var got *llm.Error
			if !errors.As(err, &got) {
				t.Fatalf("got %+v, %v; want an *llm.Error", reply, err)
			}
			if got.Reason != want || got.Model == "" || got.Attempts < 1 {
				t.Errorf("got reason %q of model %q after %d attempts (%v); want %q", got.Reason, got.Model, got.Attempts, err, want)
			}
			if !strings.Contains(err.Error(), got.Model) {
				t.Errorf("%q does not name the model", err)
			}
		})
	}
}

func (e exam) endedBefore(t *testing.T) {
	t.Helper()
	m := e.open(t, []Step{{Text: "too late", Again: true}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := e.do(ctx, t, m, Request()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %+v, %v", r, err)
	}
	ctx, cancel = context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	if r, err := e.do(ctx, t, m, Request()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("deadline: got %+v, %v", r, err)
	}
}

func (e exam) endedDuring(t *testing.T) {
	t.Helper()
	m := e.open(t, []Step{{Hang: true, Again: true}})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if r, err := e.do(ctx, t, m, Request()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %+v, %v; want the context's error", r, err)
	}
}

func (e exam) manyAtOnce(t *testing.T) {
	t.Helper()
	want := []llm.ToolCall{{Name: "docs.search", Args: `{"query":"x"}`}}
	m := e.open(t, []Step{{Text: "Hold on.", Calls: want, Again: true}})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			r, err := e.do(t.Context(), t, m, Request())
			if err != nil {
				t.Errorf("Do: %v", err)
				return
			}
			same(t, r, "Hold on.", llm.Called, want)
		})
	}
	wg.Wait()
}

func (e exam) usage(t *testing.T) {
	t.Helper()
	e.figures(t, llm.Usage{Input: 120, Output: 7, Known: true})
}

func (e exam) cachedUsage(t *testing.T) {
	t.Helper()
	e.figures(t, llm.Usage{Input: 120, Cached: 100, Output: 7, Known: true})
}

func (e exam) figures(t *testing.T, want llm.Usage) {
	t.Helper()
	m := e.open(t, []Step{{Text: "Looking.", Calls: []llm.ToolCall{{Name: "docs.search", Args: `{"query":"a"}`}}, Usage: &want}})
	got := e.ask(t, m, Request()).Usage
	want.Cost = Price().Cost(want)
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
