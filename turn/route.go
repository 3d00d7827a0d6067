package turn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"switchboard/assistants"
	"switchboard/chat"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/router"
	"switchboard/store"
)

// The kinds of routing that no router's model decides.
const (
	kindPicked = "picked" // the person picked one of the choices of the last question
	kindNobody = "nobody" // no assistant exists for the person, or something stands before routing
)

// route finds who answers, and makes that durable. Where nobody does, it is the runtime that answers.
func (s *story) route(ctx context.Context) error {
	open := s.mayUse()
	if len(open) == 0 {
		return s.answer(ctx, journal.Routed{Kind: kindNobody}, Refused, nobodyWords)
	}
	if over, err := s.overspent(ctx); err != nil {
		return err
	} else if over {
		return s.answer(ctx, journal.Routed{Kind: kindNobody}, Refused, spentWords)
	}
	if q := s.thread.Open; q != nil && q.By == s.msg.From.ID {
		if name, ok := q.picked(s.text); ok && slices.ContainsFunc(open, named(name)) {
			s.picked = true
			return s.hand(ctx, journal.Routed{Kind: kindPicked, Assistant: name})
		}
	}
	timed, cancel := context.WithTimeoutCause(ctx, routerTime, fmt.Errorf("route: no decision within %s", routerTime))
	defer cancel()
	d, err := router.Decide(timed, s.routerInput(open), func(ctx context.Context, r llm.Request) (llm.Reply, error) {
		r.System = s.journal.Mask().Text(r.System)
		return s.ask(ctx, s.desk.Router, journal.RoleRouter, r)
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		outcome, text := modelWords(err, s.journal.Turn())
		if noScript(err) {
			return s.answer(ctx, journal.Routed{Kind: kindNobody}, outcome, text)
		}
		s.e.o.Log.Error().Err(errors.New(s.journal.Mask().Text(err.Error()))).Str("turn", s.journal.Turn()).Msg("ask the router's model")
		return s.answer(ctx, journal.Routed{Kind: kindNobody}, outcome, text)
	}
	routed := journal.Routed{Kind: string(d.Kind), Assistant: d.Assistant, Confidence: d.Confidence}
	switch d.Kind {
	case router.Clarify:
		return s.clarify(ctx, routed, d)
	case router.Nothing:
		text := nothingWords
		if !s.thread.Listed {
			text, s.rec.Listed = listWords(open), true
		}
		return s.answer(ctx, routed, Answered, text)
	default:
		return s.hand(ctx, routed)
	}
}

func named(name string) func(*assistants.Assistant) bool {
	return func(a *assistants.Assistant) bool { return a.Name == name }
}

func (s *story) routerInput(open []*assistants.Assistant) router.Input {
	in := router.Input{
		Text: s.text, History: s.thread.history(), Last: s.thread.Last, Asked: s.thread.Asked, Threshold: s.desk.Pack.Router.Threshold,
	}
	for _, a := range open {
		in.Candidates = append(in.Candidates, router.Candidate{Name: a.Name, About: a.About, Examples: a.Examples})
	}
	if !slices.ContainsFunc(open, named(in.Last)) {
		in.Last = ""
	}
	return in
}

// hand gives the message to an assistant: from here on the decision stands, whatever happens to the process.
func (s *story) hand(ctx context.Context, r journal.Routed) error {
	s.rec.State, s.rec.Assistant = stateRunning, r.Assistant
	return s.commit(ctx, func(b *store.Batch) { s.begin(b, r) })
}

// clarify asks the person, with the likely assistants as buttons.
func (s *story) clarify(ctx context.Context, r journal.Routed, d router.Decision) error {
	s.rec.Question = &question{Choices: d.Likely, By: s.msg.From.ID}
	if d.List {
		s.rec.Listed = true
	}
	for _, name := range d.Likely {
		s.rec.Buttons = append(s.rec.Buttons, chat.Button{Label: name, Value: name})
	}
	question := s.clean(d.Question, nil)
	if question == "" { // the model's own was nothing that can be shown
		question = "Which of these is it about: " + strings.Join(d.Likely, ", ") + "?"
	}
	return s.answer(ctx, r, Clarify, question)
}

// answer is the runtime's own answer, without an assistant.
func (s *story) answer(ctx context.Context, r journal.Routed, outcome, text string) error {
	s.rec.State, s.rec.Outcome, s.reply = stateDelivering, outcome, s.clean(text, nil)
	return s.commit(ctx, func(b *store.Batch) {
		s.begin(b, r)
		s.journal.Reply(b, s.reply)
	})
}

// begin opens the turn's stream, with the routing decision.
func (s *story) begin(b *store.Batch, r journal.Routed) {
	begun := journal.Begun{
		Turn: s.journal.Turn(), Thread: s.threadID, Person: s.msg.From.ID, Channel: s.msg.Channel.ID, Pack: s.rec.Pack,
	}
	// The stream begins with this event, before the router's model calls that were staged meanwhile.
	staged := b.Events
	b.Events = nil
	s.journal.Event(b, journal.KindBegun, begun)
	b.Events[0].At = s.rec.Began
	b.Events = append(b.Events, staged...)
	s.journal.Event(b, journal.KindRouted, r)
	s.journal.Message(b, s.text)
}

// overspent says whether the person has used up the day's money.
func (s *story) overspent(ctx context.Context) (bool, error) {
	limit := s.desk.Pack.Limits.PersonDay
	if limit == 0 {
		return false, nil
	}
	n, err := s.e.o.Store.Count(ctx, s.spendKey())
	if err != nil {
		return false, fmt.Errorf("read what %s has spent today: %w", s.msg.From.ID, err)
	}
	s.dayLeft = llm.USD(max(limit-n, 1))
	return n >= limit, nil
}

func (s *story) spendKey() string {
	return "usd/" + s.msg.From.ID + "/" + s.rec.Began.UTC().Format(time.DateOnly)
}
