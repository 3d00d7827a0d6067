package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"switchboard/assistants"
	"switchboard/chat"
	"switchboard/config"
	"switchboard/guards"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/loop"
	"switchboard/store"
	"switchboard/tools"
)

// run lets the assistant answer, and makes the final text durable.
func (s *story) run(ctx context.Context) error {
	a := s.desk.Assistant(s.rec.Assistant)
	if s.past.Routed != nil { // it is taken up again: who asks, and what they may, may have changed
		if err := s.look(ctx); err != nil {
			return err
		}
		if err := s.bind(ctx); err != nil {
			return err
		}
	}
	if a == nil || !slices.ContainsFunc(s.mayUse(s.asker), named(s.rec.Assistant)) {
		return s.breakOff(ctx, Refused, nobodyWords)
	}
	if s.past.Talk == nil && s.picked && s.thread.words.Unclear == "" || slices.ContainsFunc(s.past.Calls, func(c journal.Call) bool { return c.Round >= len(s.past.Rounds) }) {
		// The retention took what was asked or what the model had said, so nobody knows any more what the calls were for.
		return s.breakOff(ctx, Failed, "I could not finish this: it was interrupted, and what I had in mind is no longer kept. ("+journal.RunID(s.journal.Turn())+")")
	}
	door := s.door(ctx, a)
	timed, cancel := context.WithTimeoutCause(ctx, s.time(a), fmt.Errorf("the %s that an answer may take were over", a.Limits.Time))
	defer cancel()
	r := &running{story: s, assistant: a, door: door, prompt: s.journal.Mask().Text(a.Prompt(s.desk.Pack.Name, s.rec.Began))}
	st, err := r.state()
	if err != nil {
		return err
	}
	end, err := loop.Run(timed, st, loop.Deps{Ask: r.ask, Call: r.call, More: r.more, Save: r.save, Effect: door.Effect})
	s.rec.Tainted = door.Tainted() // whatever is said from here on may hold strangers' words
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(end.Err, errRead):
		return end.Err
	case isStopped(err):
		return s.stopped(ctx, s.withdraw(door.Calls()), r.shown)
	case err == nil && end.Waits:
		return s.wait(ctx, st, r.several, door.Calls())
	case err == nil: // the last safe point: before anything is posted
		if stopped, err := s.halted(ctx); err != nil {
			return err
		} else if stopped {
			return s.stopped(ctx, door.Calls(), r.shown)
		}
	}
	if err != nil {
		if _, isModel := errors.AsType[*llm.Error](err); !isModel {
			return err
		}
		end = loop.End{Err: err}
	}
	if end.Err != nil && !noScript(end.Err) && !errors.Is(end.Err, loop.ErrSpent) {
		s.e.o.Log.Error().Str("error", s.journal.Mask().Text(end.Err.Error())).Str("turn", s.journal.Turn()).Msg("ask the assistant's model")
	}
	outcome, text := r.close(end)
	s.doubts(door.Calls())
	return s.conclude(ctx, outcome, text)
}

// leastTime is what a run has left at the least when it goes on: what people have decided still gets its time.
const leastTime = 30 * time.Second

// time is how long this try of the run may take. Waiting for people is not counted.
func (s *story) time(a *assistants.Assistant) time.Duration {
	return max(a.Limits.Time-s.before.Worked, min(a.Limits.Time, leastTime))
}

// breakOff ends a run that may not go on. What it did before stays said, and an effect that was under way is in doubt.
func (s *story) breakOff(ctx context.Context, outcome, text string) error {
	calls, err := s.breakOffCalls(ctx)
	if err != nil {
		return err
	}
	s.doubts(calls)
	if slices.ContainsFunc(calls, journal.Call.Changes) {
		text += "\n\n" + accountWords(calls)
	}
	return s.conclude(ctx, outcome, s.clean(text, nil))
}

// breakOffCalls settles what was under way or waited when the run was broken off.
func (s *story) breakOffCalls(ctx context.Context) ([]journal.Call, error) {
	door := s.door(ctx, nil)
	for _, c := range s.past.Calls {
		if c.Settled != nil || !c.Changes() && c.Outcome() != journal.Waiting {
			continue
		}
		if _, err := door.Skip(ctx, c.Round, c.Seq, llm.ToolCall{ID: c.ID, Name: c.Tool, Args: string(c.Args)}, "the run was broken off while this was under way"); err != nil {
			return nil, err
		}
	}
	return door.Calls(), nil
}

// conclude makes the final text durable, before anybody sees it.
func (s *story) conclude(ctx context.Context, outcome, text string) error {
	s.rec.State, s.rec.Outcome, s.reply = stateDelivering, outcome, text
	if len(s.rec.Doubts) > 0 {
		s.rec.Message = s.bare()
	}
	return s.commit(ctx, func(b *store.Batch) { s.journal.Reply(b, text) })
}

// doubts notes the cards of effects that nobody knows the outcome of: they are posted with the reply.
func (s *story) doubts(calls []journal.Call) {
	s.rec.Doubts = nil
	for _, c := range calls {
		if c.Changes() && c.Outcome() == journal.Unknown {
			s.rec.Doubts = append(s.rec.Doubts, journal.CardID(s.journal.Turn(), c.Seq, chat.CardUnknown))
		}
	}
}

// origin says for whom this turn asks people.
func (s *story) origin(assistant string) tools.Origin {
	packs := []*config.Pack{s.desk.Pack, s.active.Pack}
	return tools.Origin{
		Pack: s.desk.Pack.Name, Version: s.desk.Pack.Digest, Thread: s.threadID, Assistant: assistant, Requester: s.asker,
		Unknown: s.desk.Pack.Policy.Approve.By,
		Open: func(ctx context.Context) (int, error) {
			open, err := journal.OpenApprovals(ctx, s.e.o.Store, s.threadID)
			return len(slices.DeleteFunc(open, func(a journal.Approval) bool { return a.Kind == chat.CardUnknown })), err
		},
		May: func(n journal.Need, by chat.Person) bool { return may(n, by, s.asker.ID, packs) },
	}
}

// door is the one way to the tools that exist for this person in this place.
func (s *story) door(ctx context.Context, a *assistants.Assistant) *tools.Dispatcher {
	show := func(c journal.Call) {
		c.Why, c.Expects, c.Reason = s.clean(c.Why, a), s.clean(c.Expects, a), s.clean(c.Reason, a)
		if c.Tool, c.Raw = s.clean(c.Tool, a), s.clean(c.Raw, a); c.Tool == "" { // the model may have written anything for a name
			c.Tool = "an unknown tool"
		}
		c.Args = s.cleanArgs(c.Args, a)
		s.show(ctx, Progress{Call: &c})
	}
	var heard []int
	for _, f := range s.folded {
		heard = append(heard, f.Round)
	}
	exist := map[string]tools.Bound{}
	name, limit := s.rec.Assistant, 0
	if a != nil {
		exist, limit = a.Tools(s.scope), a.Limits.Calls
	}
	return tools.NewDispatcher(tools.Options{
		Tools:  exist,
		Asked:  guards.Asked{Actor: s.asker, Channel: s.msg.Channel, Scope: s.scope, Taint: s.taint()},
		Policy: s.policy(), Calls: limit, Record: s.journal, Past: s.past.Calls, Heard: heard, Read: s.desk.Pack.Tool(tools.ResultRead), Results: s.e.o.Store,
		Reads: s.desk.Reads(), Origin: s.origin(name), Approvals: s.e.o.Store,
		Rates: &s.e.rates, Now: s.e.o.Now, Wait: s.e.o.Wait, Log: s.e.o.Log, Watch: show,
	})
}

// running is a run's dealings with the loop.
type running struct {
	*story
	assistant *assistants.Assistant
	door      *tools.Dispatcher
	prompt    string
	limit     string           // which limit ended the rounds
	request   int              // the place of the request in the conversation; before it stands the history
	several   bool             // more than one person speaks in the thread
	tight     bool             // the conversation has grown too long for the model, and is made shorter for it
	less      bool             // of which something was left out
	joining   []journal.Folded // what the next reply will have heard
	shown     string           // what people have seen of the reply that is under way
}

func (r *running) state() (*loop.State, error) {
	st := &loop.State{Limit: r.assistant.Rounds}
	if t, waited, err := r.readTalk(); err != nil {
		return nil, err
	} else if waited {
		st.Turns, r.several, r.request = t.Turns, t.Several, len(t.Turns)-1
	} else {
		history := r.history()
		r.request, r.several = len(history), r.story.several(r.told())
		st.Turns = append(history, llm.Turn{Role: llm.User, Text: r.named(r.asked(), r.several)})
	}
	for i, reply := range r.past.Rounds {
		round := loop.Round{Reply: reply.Reply, Final: reply.Final}
		for _, f := range r.folded {
			if f.Round == i {
				round.Before = append(round.Before, llm.Turn{Role: llm.User, Text: f.Text})
			}
		}
		st.Rounds = append(st.Rounds, round)
	}
	return st, nil
}

// asked is what the assistant is asked: the message with its files, or the one that a question was about, once its answer is
// a mere pick.
func (s *story) asked() string {
	if s.picked {
		return s.thread.words.Unclear
	}
	return withFiles(s.text, s.seen.Files)
}

// ask asks the assistant's model, if the run's limits leave room for it.
func (r *running) ask(ctx context.Context, turns []llm.Turn, offered bool) (llm.Reply, error) {
	req := llm.Request{System: r.prompt, Turns: turns, Tools: r.door.Offered()}
	if !offered {
		req.Choice = llm.None
	}
	shorten := func() {
		var less bool
		req.Turns, less = compact(turns, r.request)
		r.less = r.less || less
	}
	if r.tight {
		shorten()
	}
	reply, err := r.within(ctx, req)
	if tooLong(err) && !r.tight { // once a run; from then on every request is made shorter
		r.tight = true
		shorten()
		reply, err = r.within(ctx, req)
	}
	failed, ok := errors.AsType[*llm.Error](err)
	if ok && failed.Reason == llm.Empty && failed.Err == nil && !failed.Released && offered { // it was asked, and had nothing to say
		return llm.Reply{Finish: llm.Stop}, nil // it gets its chance to say something without tools
	}
	if err == nil && len(reply.Calls) > 0 && offered {
		r.beside(ctx, reply.Text)
	}
	return reply, err
}

// beside shows what a model says beside its calls: that was no reply, whatever people have seen of it.
func (r *running) beside(ctx context.Context, text string) {
	if r.shown != "" {
		r.shown = ""
		r.show(ctx, Progress{Void: true})
	}
	if strings.TrimSpace(text) != "" {
		r.show(ctx, Progress{Status: r.clean(text, r.assistant)})
	}
}

// within asks within the limits of the run.
func (r *running) within(ctx context.Context, req llm.Request) (llm.Reply, error) {
	role, times := journal.RoleRound, 2
	if req.Choice == llm.None {
		role, times = journal.RoleFinal, 1
	}
	spec := r.assistant.Asker.Spec
	spent := guards.Spent{Tokens: r.spent.Input + r.spent.Output, Money: r.spent.Cost}
	if v := r.assistant.Budget().Ask(spent, guards.Reserve(req, spec.Output, llm.PriceOf(spec.Price)), times); v.Say != guards.Allow {
		r.limit = v.Why
		return llm.Reply{}, loop.ErrSpent
	}
	if timeIsUp(ctx) {
		r.limit = context.Cause(ctx).Error()
		return llm.Reply{}, loop.ErrSpent
	}
	r.stream(ctx, &req)
	reply, err := r.story.ask(ctx, r.assistant.Asker, role, req)
	if errors.Is(err, errDay) {
		r.limit = errDay.Error()
		return llm.Reply{}, loop.ErrSpent
	}
	if err != nil && timeIsUp(ctx) {
		r.limit = context.Cause(ctx).Error()
		return llm.Reply{}, loop.ErrSpent
	}
	return reply, err
}

// timeIsUp looks at the clock as well: a context hears of its own end a little late where much is going on.
func timeIsUp(ctx context.Context) bool {
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) {
		<-ctx.Done()
	}
	return errors.Is(ctx.Err(), context.DeadlineExceeded)
}

func (r *running) call(ctx context.Context, at loop.At, c llm.ToolCall, offered bool) (loop.Answer, error) {
	if !offered {
		a, err := r.door.Refuse(ctx, at.Round, at.Seq, c, "no tools are offered any more; this was the last reply of the run")
		return loop.Answer(a), err
	}
	stopped, err := r.halted(ctx)
	if err != nil {
		return loop.Answer{}, err
	}
	if stopped {
		a, err := r.door.Skip(ctx, at.Round, at.Seq, c, "the run was stopped before this")
		return loop.Answer(a), err
	}
	a, err := r.door.Call(ctx, tools.At(at), c)
	return loop.Answer(a), err
}

// save stages the newest reply. It becomes durable with the first intent of its calls; a reply without calls is the final
// text, which is stored as such. With it goes which messages it has answered beside the turn's own.
func (r *running) save(_ context.Context, st *loop.State) error {
	n := len(st.Rounds) - 1
	if len(st.Rounds[n].Calls) == 0 && st.Rounds[n].Text != "" && len(r.joining) == 0 {
		return nil
	}
	for i := range r.joining {
		r.joining[i].Round = n
		r.joined(r.joining[i].Key)
	}
	r.journal.Round(n, journal.Reply{Reply: st.Rounds[n].Reply, Final: st.Rounds[n].Final}, r.joining)
	r.folded, r.joining = append(r.folded, r.joining...), nil
	return nil
}

// close turns the run's end into the outcome and the text for the person. The person always gets a sentence (rule L1), and
// where things can be changed, a last line about what was, from the record (rule M8).
func (r *running) close(end loop.End) (outcome, text string) {
	text = r.clean(end.Text, r.assistant)
	if end.Cut && text != "" {
		text += "\n\n(The answer was cut off: it grew longer than one answer may be.)"
	}
	if end.Asked && text != "" {
		text += "\n\n(I had to stop here: there were no steps left for more.)"
	}
	if r.less && text != "" {
		text += "\n\n" + shortWords
	}
	calls := r.door.Calls()
	switch {
	case end.Capped:
		outcome = Capped
	case text == "" && end.Err != nil:
		outcome = Failed
	default:
		outcome = Answered
	}
	if text == "" {
		outcome, text = r.speak(outcome, end.Err, calls)
		return outcome, below(r.shown, text)
	}
	if r.assistant.ChangesThings() {
		text += "\n\n" + r.clean(accountWords(calls), r.assistant)
	}
	return outcome, text
}

// speak is the runtime's own sentence, where the model had none.
func (r *running) speak(outcome string, cause error, calls []journal.Call) (string, string) {
	why := "I could not put an answer into words."
	if outcome == Capped {
		why = "I ran out of steps before I had an answer."
	}
	if r.limit != "" {
		why = "I had to stop before I had an answer: " + r.limit + "."
	}
	if noScript(cause) {
		outcome, why = modelWords(cause, r.journal.Turn())
		if !slices.ContainsFunc(calls, journal.Call.Changes) {
			return outcome, why
		}
		// The run began with a model that is not there any more. What it did must not be lost with it.
		return Failed, r.clean(why+"\n\n"+accountWords(calls), r.assistant)
	}
	if failed, ok := errors.AsType[*llm.Error](cause); ok && failed.Reason != llm.Empty {
		why = "I had to stop: " + reasonWords(failed) + "."
	}
	return outcome, r.clean(why+" "+accountWords(calls)+" ("+journal.RunID(r.journal.Turn())+")", r.assistant)
}

// output is what may leave in this turn's texts.
func (s *story) output(a *assistants.Assistant) guards.Output {
	out := guards.Output{Links: s.desk.Pack.Links}
	if a != nil {
		out = a.Output
	}
	out.Mentions = append(slices.Clone(out.Mentions), s.asker.ID, s.msg.From.ID)
	return out
}

// clean is the one filter on everything that leaves (rule M7). It also takes out what the mask hides.
func (s *story) clean(text string, a *assistants.Assistant) string {
	cleaned, removed := s.output(a).Clean(s.journal.Mask().Text(text))
	if len(removed) > 0 {
		s.e.o.Log.Warn().Str("turn", s.journal.Turn()).Int("removed", len(removed)).Msg("took links or mentions out of a reply")
	}
	return strings.TrimSpace(s.journal.Mask().Text(cleaned)) // what the filter has laid bare must not slip through
}

// cleanArgs filters the arguments of a call as they are shown, and leaves them JSON.
func (s *story) cleanArgs(raw json.RawMessage, a *assistants.Assistant) json.RawMessage {
	v, err := config.DecodeJSON(raw)
	if err != nil {
		return nil
	}
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case string:
			return s.clean(v, a)
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case map[string]any:
			out := make(map[string]any, len(v))
			for k := range v {
				out[s.clean(k, a)] = walk(v[k])
			}
			return out
		}
		return v
	}
	return json.RawMessage(config.Canonical(walk(v)))
}
