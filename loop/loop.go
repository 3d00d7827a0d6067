// Package loop is the bounded tool loop that every assistant runs on: ask the model, run the tools that it wants, ask again;
// when the rounds are over, one last call without tools, so that the person gets a sentence and not silence.
//
// It must not know Slack, the store or packs: it is given a model, a door for calls and a place to save.
package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"switchboard/llm"
)

// State is a run as a plain value. A run that was interrupted goes on from its State: stored replies are not asked for
// again, and their calls go through the door again, which answers from the record what it has answered before.
type State struct {
	Turns  []llm.Turn // the conversation, ending with the person's message
	Limit  int        // most rounds: model calls that may ask for tools
	Rounds []Round    // replies so far

	heard []llm.Turn // what was said meanwhile and no stored reply has seen
}

// Round is one reply of the model. Final: no tools were offered for it.
type Round struct {
	llm.Reply
	Final  bool
	Before []llm.Turn // what the person said meanwhile; the reply knows of it
}

// Deps is what a run needs from outside.
type Deps struct {
	// Ask asks the model. With tools false it must not be offered any. ErrSpent means that the run's limits leave no room,
	// ErrStopped that somebody wants the run to end.
	Ask func(ctx context.Context, turns []llm.Turn, tools bool) (llm.Reply, error)
	// Call carries one call to its end; whatever went wrong in it is data in the Answer. offered is false for a call that
	// a model made though no tools were offered. An error ends the run where it stands: nothing was lost, it can go on later.
	Call func(ctx context.Context, at At, c llm.ToolCall, offered bool) (Answer, error)
	// More gives what the person has said since the last round. It is asked before every round that is not stored, but the
	// first: what is said before a run begins, or once its last call has begun, is no part of it. It may be nil.
	More func(ctx context.Context) ([]llm.Turn, error)
	// Save makes the newest reply durable, at the latest with the first write that Call makes.
	Save func(ctx context.Context, s *State) error
	// Effect says whether a tool changes the world.
	Effect func(tool string) bool
}

// At numbers a call in its run, from 0. Held: a call before it in its round waits for a person.
type At struct {
	Round, Seq int
	Held       bool
}

// Answer is the result of a call. Ends says that the run makes no progress any more; Waits, that there is no result before a
// person has decided.
type Answer struct {
	Result llm.Result
	Ends   bool
	Waits  bool
}

// End is how a run came to its end. Text may be empty: then the runtime has to speak.
type End struct {
	Text   string
	Capped bool  // the rounds or another limit were over before the model was
	Cut    bool  // the model's output limit cut the text off
	Asked  bool  // the last reply asked for more, and did not get it
	Waits  bool  // calls wait for people: Run again from the same State once they have decided
	Err    error // why the last call failed, when it did
}

// ErrSpent is what Ask answers when a limit leaves no room for the call.
var ErrSpent = errors.New("the run's limits leave no room for another model call")

// ErrStopped is what Ask answers when the run is to end here and now. Run passes it on.
var ErrStopped = errors.New("the run was stopped")

// Run goes round until the model answers without asking for tools, at most s.Limit times, and then asks once more without
// tools. An error means that the run could not go on; s holds how far it got.
func Run(ctx context.Context, s *State, d Deps) (End, error) {
	turns, seq := s.Turns, 0
	for round := 0; round < s.Limit && !s.finalAt(round); round++ {
		more, err := s.more(ctx, d, round)
		if err != nil {
			return End{}, err
		}
		turns = append(slices.Clip(turns), more...)
		r, err := s.reply(ctx, d, round, turns, true)
		if errors.Is(err, ErrSpent) {
			break
		}
		if err != nil {
			return End{}, err
		}
		if len(r.Calls) == 0 && r.Text != "" {
			return End{Text: r.Text, Cut: r.Finish == llm.CutOff}, nil
		}
		if len(r.Calls) == 0 { // nothing said and nothing asked for: the last call gets its chance
			end, err := s.final(ctx, d, turns, seq)
			end.Capped = false
			return end, err
		}
		answers, err := calls(ctx, d, At{Round: round, Seq: seq}, r.Calls, true)
		if err != nil || waits(answers) {
			return End{Waits: true}, err
		}
		seq += len(r.Calls)
		turns = append(slices.Clip(turns), llm.Turn{Role: llm.Assistant, Text: r.Text, Calls: r.Calls}, results(answers))
		if ends(answers) {
			break
		}
	}
	return s.final(ctx, d, turns, seq)
}

// final asks once without tools. A model that asks for tools all the same gets its refusals on record, and no more turns.
func (s *State) final(ctx context.Context, d Deps, turns []llm.Turn, seq int) (End, error) {
	round := len(s.Rounds)
	if s.finalAt(round - 1) {
		round--
	}
	r, err := s.reply(ctx, d, round, turns, false)
	if errors.Is(err, errSave) || errors.Is(err, ErrStopped) || errors.Is(err, context.Canceled) {
		return End{}, err
	}
	if err != nil { // the person hears of it; the run is over all the same
		return End{Capped: true, Err: err}, nil //nolint:nilerr // the error is the End's
	}
	if _, err := calls(ctx, d, At{Round: round, Seq: seq}, r.Calls, false); err != nil {
		return End{}, err
	}
	return End{Text: r.Text, Capped: true, Cut: r.Finish == llm.CutOff, Asked: len(r.Calls) > 0}, nil
}

// more gives what was said before a round: as it is stored, or new.
func (s *State) more(ctx context.Context, d Deps, round int) ([]llm.Turn, error) {
	if round < len(s.Rounds) {
		return s.Rounds[round].Before, nil
	}
	if round == 0 || d.More == nil {
		return nil, nil
	}
	more, err := d.More(ctx)
	if err != nil {
		return nil, fmt.Errorf("hear what was said before round %d: %w", round, err)
	}
	s.heard = more
	return more, nil
}

func (s *State) finalAt(round int) bool {
	return round >= 0 && round < len(s.Rounds) && s.Rounds[round].Final
}

// reply gives the stored reply of a round, or asks for it and saves it.
func (s *State) reply(ctx context.Context, d Deps, round int, turns []llm.Turn, tools bool) (Round, error) {
	if round < len(s.Rounds) {
		return s.Rounds[round], nil
	}
	reply, err := d.Ask(ctx, turns, tools)
	if err != nil {
		return Round{}, fmt.Errorf("round %d: %w", round, err)
	}
	reply.Calls = distinct(round, reply.Calls)
	s.Rounds = append(s.Rounds, Round{reply, !tools, s.heard})
	s.heard = nil
	if err := d.Save(ctx, s); err != nil {
		return Round{}, fmt.Errorf("round %d: %w: %w", round, errSave, err)
	}
	return s.Rounds[round], nil
}

var errSave = errors.New("save the model's reply")
