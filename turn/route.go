package turn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"switchboard/assistants"
	"switchboard/chat"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/loop"
	"switchboard/router"
	"switchboard/store"
)

// The kinds of routing that no router's model decides.
const (
	kindPicked = "picked" // somebody picked one of the choices of the last question
	kindStale  = journal.RoutedStale
	kindNobody = "nobody" // no assistant exists for the person, or something stands before routing
)

// route finds who answers, and makes that durable. Where nobody does, it is the runtime that answers.
func (s *story) route(ctx context.Context) error {
	if stopped, err := s.halted(ctx); err != nil {
		return err
	} else if stopped {
		return loop.ErrStopped
	}
	if err := s.look(ctx); err != nil {
		return err
	}
	name, err := s.choice(ctx)
	switch {
	case err != nil:
		return err
	case name == "" && s.msg.Pick != nil, name != "" && s.thread.words.Unclear == "":
		s.picked, s.asker, s.rec.Stale = false, s.msg.From, true
		return s.answer(ctx, journal.Routed{Kind: kindStale, By: s.msg.From.ID}, Answered, staleWords)
	}
	open := s.mayUse(s.asker)
	if len(open) == 0 {
		return s.answer(ctx, journal.Routed{Kind: kindNobody}, Refused, nobodyWords)
	}
	if err := s.bind(ctx); err != nil {
		return err
	}
	if over, err := s.overspent(ctx); err != nil {
		return err
	} else if over {
		return s.answer(ctx, journal.Routed{Kind: kindNobody}, Refused, spentWords)
	}
	if s.picked {
		return s.hand(ctx, journal.Routed{Kind: kindPicked, Assistant: name, By: s.msg.From.ID})
	}
	return s.decide(ctx, open)
}

// choice finds which assistant the message picks as the answer to the open question, by a click or in words, whoever it is
// that answers. It only picks among what the asker may use, and the turn is then the asker's (rule R4).
func (s *story) choice(ctx context.Context) (name string, err error) {
	q := s.thread.Open
	if q == nil || s.msg.Pick != nil && s.msg.Pick.Card != q.Card {
		return "", nil
	}
	name, ok := q.picked(s.text)
	if s.msg.Pick != nil {
		name, ok = s.msg.Pick.Value, slices.Contains(q.Choices, s.msg.Pick.Value)
	}
	if !ok {
		return "", nil
	}
	asker, err := s.lookUp(ctx, s.thread.asker())
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(s.mayUse(asker), named(name)) {
		return "", nil
	}
	s.picked, s.asker = true, asker
	return name, nil
}

// decide asks the router.
func (s *story) decide(ctx context.Context, open []*assistants.Assistant) error {
	timed, cancel := context.WithTimeoutCause(ctx, routerTime, fmt.Errorf("route: no decision within %s", routerTime))
	defer cancel()
	in := s.routerInput(open)
	d, err := router.Decide(timed, in, s.askRouter(len(in.History)))
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isStopped(err) || errors.Is(err, errRead):
		return err
	case errors.Is(err, errDay):
		return s.answer(ctx, journal.Routed{Kind: kindNobody}, Refused, spentWords)
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
		if s.msg.Unasked && d.Confidence == nil { // nobody asked, and nobody is meant
			return s.silence(ctx, routed, Ignored)
		}
		return s.clarify(ctx, routed, d)
	case router.Nothing:
		if s.msg.Unasked {
			return s.silence(ctx, routed, Ignored)
		}
		text := nothingWords
		if !s.thread.Listed {
			text, s.rec.Listed = listWords(open), true
		}
		return s.answer(ctx, routed, Answered, text)
	default:
		return s.hand(ctx, routed)
	}
}

// askRouter asks the router's model. Where the conversation has grown too long for it, it is asked once more with less of it.
func (s *story) askRouter(request int) router.Ask {
	tight := false
	return func(ctx context.Context, r llm.Request) (llm.Reply, error) {
		r.System = s.journal.Mask().Text(r.System)
		turns := r.Turns
		if tight {
			r.Turns, _ = compact(turns, request)
		}
		reply, err := s.ask(ctx, s.desk.Router, journal.RoleRouter, r)
		if tooLong(err) && !tight {
			tight = true
			r.Turns, _ = compact(turns, request)
			reply, err = s.ask(ctx, s.desk.Router, journal.RoleRouter, r)
		}
		return reply, err
	}
}

func named(name string) func(*assistants.Assistant) bool {
	return func(a *assistants.Assistant) bool { return a.Name == name }
}

func (s *story) routerInput(open []*assistants.Assistant) router.Input {
	in := router.Input{
		Text: fileNames(s.text, s.seen.Files), History: s.history(), Last: s.thread.Last, Asked: s.thread.Asked, Threshold: s.desk.Pack.Router.Threshold,
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
	return s.commit(ctx, func(b *store.Batch) {
		s.begin(b, r)
		s.journal.Scope(b, s.scope)
	})
}

// clarify asks the person, with the likely assistants as buttons.
func (s *story) clarify(ctx context.Context, r journal.Routed, d router.Decision) error {
	s.rec.Question = &question{Choices: d.Likely, By: s.asker.ID, Card: s.journal.Turn()}
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

// answer is the runtime's own answer, without an assistant. Who did not ask the bot is not told that it cannot help.
func (s *story) answer(ctx context.Context, r journal.Routed, outcome, text string) error {
	if s.msg.Unasked && (outcome == Refused || outcome == Failed) {
		return s.silence(ctx, r, Ignored)
	}
	s.rec.State, s.rec.Outcome, s.reply = stateDelivering, outcome, s.clean(text, nil)
	return s.commit(ctx, func(b *store.Batch) {
		s.begin(b, r)
		s.journal.Reply(b, s.reply)
	})
}

// begin opens the turn's stream, with the routing decision.
func (s *story) begin(b *store.Batch, r journal.Routed) {
	begun := journal.Begun{
		Turn: s.journal.Turn(), Thread: s.threadID, Person: s.asker.ID, Channel: s.msg.Channel.ID, Pack: s.rec.Pack,
	}
	// The stream begins with this event, before the router's model calls that were staged meanwhile.
	staged := b.Events
	b.Events = nil
	s.journal.Event(b, journal.KindBegun, begun)
	b.Events[0].At = s.rec.Began
	b.Events = append(b.Events, staged...)
	s.journal.Event(b, journal.KindRouted, r)
	s.journal.Message(b, s.text)
	if len(s.seen.Files)+len(s.seen.Past) > 0 {
		s.journal.Seen(b, s.seen)
	}
}
