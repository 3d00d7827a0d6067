package llm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tmc/langchaingo/llms"
)

const (
	mostTries = 3 // attempts at one request, changes of habit not counted
	firstWait = 250 * time.Millisecond
	longest   = time.Minute // of one wait, whatever the server asks for
)

// errAttempt is the cause when an attempt's own limit ends it.
var errAttempt = errors.New("the attempt took too long")

// Do asks the model, and again where that is of use and the context leaves time for it.
func (m *live) Do(ctx context.Context, r Request) (Reply, error) {
	began := m.o.Now()
	spent := Usage{Known: true}
	var last *Error
	for sent, tries := 0, 0; ; {
		if ctx.Err() != nil {
			return Reply{}, m.ended(ctx, last)
		}
		q := m.query(r)
		x, reply := m.attempt(ctx, q)
		sent++
		if x.reached {
			spent = m.charge(spent, x.spent)
		}
		if ctx.Err() != nil {
			if x.reached {
				last = &Error{Reason: Timeout, Model: m.name, Attempts: sent, Usage: spent, Detail: "the caller's context ended", Released: x.released}
			}
			return Reply{}, m.ended(ctx, last)
		}
		if x.err == nil {
			reply.Usage, reply.Attempts, reply.Took = spent, sent, m.o.Now().Sub(began)
			return reply, nil
		}
		last = x.err
		last.Model, last.Attempts, last.Usage, last.Released = m.name, sent, spent, x.released
		if x.released {
			return Reply{}, last // another answer would begin with other words
		}
		if m.learn(q, x) {
			continue
		}
		tries++
		if x.final || !transient(last.Reason) || tries == mostTries {
			return Reply{}, last
		}
		wait := m.pause(last.Wait, tries)
		if end, ok := ctx.Deadline(); ok && m.o.Now().Add(wait).After(end) {
			return Reply{}, last
		}
		if err := m.o.Sleep(ctx, wait); err != nil && ctx.Err() == nil {
			return Reply{}, last
		}
	}
}

// query is a request with all that this model and this server add to it.
type query struct {
	Request
	temperature *float64
	output      int
	habits      habit
	p           profile
}

func (m *live) query(r Request) query {
	q := query{Request: r, temperature: m.o.Temperature, output: m.o.Output, habits: habit(m.habits.Load()), p: m.p}
	if r.MaxOutput > 0 {
		q.output = r.MaxOutput
	}
	if r.Choice == None && !m.p.keepTools {
		q.Tools = nil
	}
	return q
}

// attempt sends one request. What went wrong is in the exchange; the reply is good when nothing did.
func (m *live) attempt(ctx context.Context, q query) (x *exchange, reply Reply) {
	x = &exchange{wire: m.wire, q: q, scrub: m.scrub, now: m.o.Now}
	one, cancel := context.WithTimeoutCause(ctx, m.o.Timeout, errAttempt)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			x.fail(Error{Reason: BadRequest, Detail: fmt.Sprintf("the client library gave up: %v", p)}, true)
		}
	}()
	tools, err := wireTools(q.Tools)
	if err != nil {
		x.fail(Error{Reason: BadRequest, Detail: err.Error(), Err: err}, true)
		return x, Reply{}
	}
	messages := m.wire.messages(q)
	if len(messages) == 0 || messages[len(messages)-1].Role == llms.ChatMessageTypeSystem {
		x.fail(Error{Reason: BadRequest, Detail: "the request has no turns: give it what a person said"}, true)
		return x, Reply{}
	}
	got, err := m.client.GenerateContent(context.WithValue(one, exchangeKey{}, x), messages,
		llms.WithModel(m.o.ID), llms.WithMaxTokens(q.output), llms.WithTools(tools))
	switch {
	case (err != nil || x.err != nil) && one.Err() != nil && ctx.Err() == nil:
		x.err = nil // what the network said of it is no news
		x.fail(Error{Reason: Timeout, Detail: fmt.Sprintf("no whole answer within %s", m.o.Timeout), Err: context.Cause(one)}, true)
	case x.err != nil:
	case err != nil:
		x.fail(Error{Reason: BadRequest, Detail: err.Error()}, true)
	default:
		return x, m.fold(got, x)
	}
	return x, Reply{}
}

// fold makes one reply of all choices: a provider may put each block of an answer into one of its own.
func (m *live) fold(got *llms.ContentResponse, x *exchange) Reply {
	reply := Reply{Finish: x.finish, Model: m.name}
	var text strings.Builder
	for _, c := range got.Choices {
		text.WriteString(c.Content)
		for _, tc := range c.ToolCalls {
			reply.Calls = append(reply.Calls, ToolCall{ID: tc.ID, Name: ourName(tc.FunctionCall.Name), Args: m.wire.args(tc.FunctionCall.Arguments)})
		}
	}
	reply.Text = text.String()
	nameCalls(reply.Calls, x.q.Turns)
	return reply
}

// nameCalls gives an id of ours to calls whose own is empty or in use in the conversation: results are told apart by it.
func nameCalls(calls []ToolCall, history []Turn) {
	if len(calls) == 0 {
		return
	}
	used := map[string]bool{"": true}
	for _, t := range history {
		for _, c := range t.Calls {
			used[c.ID] = true
		}
	}
	for i := range calls {
		if used[calls[i].ID] {
			calls[i].ID = "call_" + rand.Text()
		}
		used[calls[i].ID] = true
	}
}

// charge adds what an attempt cost.
func (m *live) charge(sum, one Usage) Usage {
	if m.o.Price != nil && one.Known {
		one.Cost = m.o.Price.Cost(one)
	}
	return sum.Add(one)
}

// pause says how long to wait before the next attempt: as long as the server asked, else from 250 ms doubling, less up to
// half of it by chance, so that callers do not come back all at once.
func (m *live) pause(asked time.Duration, tries int) time.Duration {
	if asked > 0 {
		return min(asked, longest)
	}
	d := firstWait << (tries - 1)
	return d/2 + time.Duration(m.o.Rand()*float64(d/2))
}

// ended says that the caller's context ended, and what attempts before that had cost.
func (m *live) ended(ctx context.Context, last *Error) error {
	err := fmt.Errorf("ask model %s: %w", m.name, ctx.Err())
	if cause := context.Cause(ctx); cause != nil && !errors.Is(ctx.Err(), cause) {
		err = fmt.Errorf("ask model %s: %w: %w", m.name, ctx.Err(), cause)
	}
	if last != nil {
		err = fmt.Errorf("%w (the attempt before: %w)", err, last)
	}
	return err
}

// transient says whether the same request may do better later.
func transient(r Reason) bool {
	switch r {
	case RateLimited, Overloaded, Network, Empty, CutShort:
		return true
	default:
		return false
	}
}

// habit is a set of deviations that a server has been found to want.
type habit uint32

const (
	jsonObject habit = 1 << iota // no response_format json_schema: json_object, and the schema in the prompt
	plainText                    // no response_format at all: the schema in the prompt
	otherLimit                   // the other name for the limit of the answer
	bareStream                   // no stream_options: then a stream brings no figures
	wholeOnly                    // no streams at all
)

// learn looks for a refusal of something that can be said in another way, and remembers it for this model. It reports
// whether the request is to be sent again at once.
func (m *live) learn(q query, x *exchange) bool {
	if x.err.Reason != BadRequest || (x.err.Status != 400 && x.err.Status != 422) {
		return false
	}
	said := strings.ToLower(x.said)
	var h habit
	switch {
	case q.streamed() && q.p.format && q.habits&bareStream == 0 && has(said, "stream_options", "include_usage"):
		h = bareStream
	case q.streamed() && has(said, "to stream this model", "support stream", "supported for stream", "streaming is not", "'stream'"):
		h = wholeOnly
	case q.Schema != nil && q.p.format && has(said, "response_format", "json_schema", "json_object"):
		h = jsonObject
		if q.habits&jsonObject != 0 {
			h = plainText
		}
	case q.output > 0 && q.p.format && strings.Contains(said, limitField(q)) &&
		has(said, "unsupported", "not supported", "unrecognized", "unknown", "unexpected", "extra", "not permitted", "not allowed"):
		h = otherLimit
	}
	if h == 0 || q.habits&h != 0 {
		return false
	}
	m.habits.Or(uint32(h))
	return true
}

func has(s string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}
