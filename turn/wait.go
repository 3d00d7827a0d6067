package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"switchboard/chat"
	"switchboard/guards"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/loop"
	"switchboard/store"
)

// resume is what a decision puts into the queue of a run's thread.
type resume struct {
	Card   string     `json:"card"`
	Halted *chat.Stop `json:"halted,omitempty"` // the run is to end instead
}

// waits is what a turn keeps while people decide. Its messages are off the queue, and its thread goes on.
type waits struct {
	Cards   []string      `json:"cards,omitempty"`   // that were posted
	Asking  []string      `json:"asking,omitempty"`  // that are to be posted now
	Told    bool          `json:"told,omitempty"`    // the thread knows what was asked
	Folded  int           `json:"folded,omitempty"`  // messages folded in that the thread knows, and that are off the queue
	Steps   int           `json:"steps,omitempty"`   // model calls that the thread counts
	Charged llm.USD       `json:"charged,omitempty"` // of what the turn has cost
	Worked  time.Duration `json:"worked,omitempty"`  // without the waiting
	Asker   *chat.Person  `json:"asker,omitempty"`   // on whose behalf the run works
	Picked  bool          `json:"picked,omitempty"`  // its message only picked a choice
}

// talk is the conversation that a run answers. It stays as it was when the run began, whatever the thread says meanwhile.
type talk struct {
	Turns   []llm.Turn   `json:"turns"`
	Several bool         `json:"several,omitempty"`
	Taint   guards.Taint `json:"taint,omitzero"` // what it knew of strangers' words
}

// wait ends this try of the turn: calls wait for people. What they are to decide is posted, and the thread is given back.
func (s *story) wait(ctx context.Context, st *loop.State, several bool, calls []journal.Call) error {
	if stopped, err := s.halted(ctx); err != nil {
		return err
	} else if stopped {
		return s.stopped(ctx, s.withdraw(calls), "")
	}
	w := &s.rec.Waits
	w.Asking = nil
	var words strings.Builder
	for _, c := range calls {
		if c.Outcome() != journal.Waiting || c.Decided != nil || slices.Contains(w.Cards, c.Card) {
			continue
		}
		w.Asking = append(w.Asking, c.Card)
		words.WriteString("\n- " + journal.Spell(c))
	}
	w.Worked += s.sinceTaken()
	w.Asker, w.Picked = &chat.Person{ID: s.asker.ID, Kind: s.asker.Kind, Name: s.asker.Name}, s.picked
	s.rec.State = stateAsking
	s.rec.Message = s.bare()
	if len(w.Asking) > 0 {
		s.reply = s.clean("Before I go on, a person has to decide:"+words.String(), nil)
	}
	err := s.commit(ctx, func(b *store.Batch) {
		if s.past.Talk == nil {
			s.journal.Talk(b, talk{st.Turns, several, s.taint()})
		}
		if len(w.Asking) > 0 {
			s.journal.Reply(b, s.reply)
		}
	})
	if err != nil {
		return err
	}
	return s.askPeople(ctx)
}

// bare is the message without its words, which are contents and go with the retention.
func (s *story) bare() *chat.Message {
	m := s.msg
	m.Text, m.Files = "", nil
	return &m
}

// sinceTaken is how long this try has worked.
func (s *story) sinceTaken() time.Duration { return s.e.o.Now().Sub(s.taken) }

// askPeople posts the cards and gives the thread back. The run goes on once they are decided.
func (s *story) askPeople(ctx context.Context) error {
	s.quiet(ctx)
	w := s.rec.Waits
	for _, id := range w.Asking {
		if err := s.postCard(ctx, id, askWords); err != nil {
			return err
		}
	}
	told := len(w.Asking) > 0 && !w.Told
	s.posted = told
	lines := s.lines()
	spent := s.spent.Cost
	next := waits{
		Cards: append(w.Cards, w.Asking...), Told: w.Told || told, Folded: len(s.folded), Steps: s.counted + s.steps, Charged: spent, Worked: w.Worked,
		Asker: w.Asker, Picked: w.Picked,
	}
	s.rec.State, s.rec.Waits = stateWaiting, next
	err := s.commit(context.WithoutCancel(ctx), func(b *store.Batch) {
		s.journal.Event(b, journal.KindWaits, journal.Waits{Cards: w.Asking})
		s.thread.Waits = slices.DeleteFunc(s.thread.Waits, func(o waiting) bool { return o.Turn == s.journal.Turn() })
		s.thread.Waits = append(s.thread.Waits, waiting{s.journal.Turn(), s.msg.Key})
		s.keepLines(b, lines)
		s.charge(b)
		s.finish(b)
	})
	if err != nil {
		s.rec.State, s.rec.Waits = stateAsking, w
		return err
	}
	s.e.tell(Finished{Turn: s.journal.Turn(), Key: s.msg.Key, Outcome: Waiting, Reply: chat.Reply{Text: s.reply}})
	return nil
}

// postCard posts a card where its people read: in the thread, and where the rules say.
func (s *story) postCard(ctx context.Context, id, text string) error {
	a, card, err := journal.FindApproval(ctx, s.e.o.Store, id)
	if err != nil {
		return err
	}
	if card == nil || a.Stand != journal.Open {
		return nil // it was decided before it could be posted, or its words are gone
	}
	again := s.again || s.resumed
	post := Post{Key: id, Turn: s.journal.Turn(), To: s.msg, Reply: chat.Reply{Text: text}, Card: card, Resumed: s.resumed, Again: again, Held: s.grip.held}
	if err := s.tryPost(ctx, post); err != nil {
		return err
	}
	for _, channel := range a.In {
		if channel == s.msg.Thread.Channel {
			continue
		}
		post.Key, post.Place = id+"/"+channel, &chat.Channel{ID: channel, Visibility: chat.Private}
		if err := s.tryPost(ctx, post); err != nil {
			return err
		}
	}
	return nil
}

// tryPost posts what may be lost where there is no place for it: a card that nobody sees runs out of time.
func (s *story) tryPost(ctx context.Context, p Post) error {
	err := s.e.o.Surface.Post(ctx, p)
	if errors.Is(err, ErrUndeliverable) {
		s.e.o.Log.Error().Err(err).Str("turn", p.Turn).Str("card", p.Key).Msg("a card has no place to be shown")
		return nil
	}
	if err != nil {
		return fmt.Errorf("post card %s of turn %s: %w", p.Key, p.Turn, err)
	}
	return nil
}

// goOn takes a turn up again that has waited, because of a decision.
func (s *story) goOn(ctx context.Context) error {
	s.redraw(ctx, s.woken.Card)
	if s.woken.Halted != nil {
		halted := *s.woken.Halted
		halted.Key = "" // it is off the queue
		s.stops = append(s.stops, halted)
		s.rec.State = stateRunning
		return s.stopped(ctx, s.withdraw(s.past.Calls), "")
	}
	s.rec.State = stateRunning
	return s.run(ctx)
}

// redraw shows a card as it was decided, wherever it stands.
func (s *story) redraw(ctx context.Context, id string) {
	_, card, err := journal.FindApproval(ctx, s.e.o.Store, id)
	if err != nil || card == nil {
		return // it is only drawn again; what was decided stands elsewhere
	}
	s.show(ctx, Progress{Card: card})
}

// withdraw closes calls that wait and will not run: the run ends without them.
func (s *story) withdraw(calls []journal.Call) []journal.Call {
	out := slices.Clone(calls)
	for i, c := range out {
		if c.Outcome() != journal.Waiting {
			continue
		}
		s.rec.Waits.Asking = append(slices.Clone(s.rec.Waits.Asking), c.Card) // what is open of it is closed with the turn
		c.Settled = &journal.Settled{Seq: c.Seq, Outcome: journal.NotRun}
		c.Answer = journal.Answer{Text: journal.Told{Outcome: journal.NotRun}.Encode(), Reason: "the run was stopped before this was decided"}
		s.journal.Stage(func(b *store.Batch) { s.journal.Settled(b, c) })
		out[i] = c
	}
	return out
}

// afterwards tells the thread what a person found out about an effect of a turn that is over.
func (s *story) afterwards(ctx context.Context) error {
	if s.woken == nil || s.rec.Message == nil {
		return s.ack(ctx)
	}
	a, card, err := journal.FindApproval(ctx, s.e.o.Store, s.woken.Card)
	if err != nil && !errors.Is(err, journal.ErrNoApproval) {
		return err
	}
	if err == nil && card != nil && a.Kind == chat.CardUnknown && a.Stand != journal.Open {
		s.redraw(ctx, a.ID)
		words := "For the record: " + sentence(card.Decided)
		if c := s.past.Call(a.Seq); c != nil {
			words = "For the record, " + journal.Spell(*c) + ": " + sentence(card.Decided)
		}
		post := Post{Key: a.ID + "/found", Turn: s.journal.Turn(), To: s.msg, Reply: chat.Reply{Text: s.clean(words, nil)}, Outcome: s.rec.Outcome, Resumed: s.resumed, Again: true, Held: s.grip.held}
		if err := s.tryPost(ctx, post); err != nil {
			return err
		}
		s.e.tell(Finished{Turn: s.journal.Turn(), Key: s.msg.Key, Outcome: s.rec.Outcome, Reply: post.Reply})
	}
	return s.ack(ctx)
}

// readTalk gives the conversation of a run that has waited.
func (s *story) readTalk() (talk, bool, error) {
	var t talk
	if s.past.Talk == nil {
		return t, false, nil
	}
	if err := json.Unmarshal(s.past.Talk, &t); err != nil {
		return t, false, fmt.Errorf("read the conversation of turn %s: %w", s.journal.Turn(), err)
	}
	return t, true, nil
}
