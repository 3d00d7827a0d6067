package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"switchboard/assistants"
	"switchboard/chat"
	"switchboard/guards"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/store"
)

// story is one turn while it is worked on.
type story struct {
	e        *Engine
	key      string // of the message
	threadID string
	msg      chat.Message
	text     string // what was said, masked
	rec      record
	version  int64 // of the record
	thread   thread
	journal  *journal.Recorder
	past     journal.Turn // what is on record from an earlier try

	reply   string           // the final text, once there is one
	again   bool             // an earlier try may have delivered it
	picked  bool             // the message only answers the open question
	desk    *assistants.Desk // the version that the turn is pinned to
	active  *assistants.Desk // the version that decides with it who may do what
	steps   int              // model calls of this turn so far
	spent   llm.Usage        // against the limits of the run; an estimate where the server gives no figures
	dayLeft llm.USD          // what the person may still cost today; 0 is no limit
	cost    llm.USD          // what it really cost
}

// state is how far a turn has got.
type state string

// The states. Each is reached by one durable step.
const (
	stateFresh      state = ""
	stateRunning    state = "running"    // the routing decision is stored
	stateDelivering state = "delivering" // the final text is stored
	stateDone       state = "done"
)

// record is what the store keeps of a turn under its id, beside the journal: metadata only.
type record struct {
	State     state         `json:"state"`
	Pack      string        `json:"pack"`
	Assistant string        `json:"assistant,omitempty"`
	Outcome   string        `json:"outcome,omitempty"`
	Question  *question     `json:"question,omitempty"` // what the thread waits for, once this turn is delivered
	Buttons   []chat.Button `json:"buttons,omitempty"`
	Listed    bool          `json:"listed,omitempty"`  // this reply says what the bot can do
	Unheard   bool          `json:"unheard,omitempty"` // offline, and not in the script: to the thread it was never said
	Began     time.Time     `json:"began"`
}

// open reads what is known of the message's turn and its thread.
func (e *Engine) open(ctx context.Context, l store.Lease, key string, q queued) (*story, error) {
	id := q.Turn
	s := &story{e: e, key: key, threadID: l.Thread, msg: q.Message, active: e.desk.Load()}
	stored, err := e.o.Store.Get(ctx, recordKey(id))
	if err != nil {
		return nil, fmt.Errorf("read turn %s: %w", id, err)
	}
	s.version = stored.Version
	if stored.Version == 0 {
		s.rec = record{Pack: s.active.Pack.Digest, Began: e.o.Now()}
	} else if err := json.Unmarshal(stored.Value, &s.rec); err != nil {
		return nil, fmt.Errorf("read turn %s: %w", id, err)
	}
	if s.desk, err = e.version(ctx, s.rec.Pack); err != nil {
		return nil, err
	}
	s.text = s.desk.Mask().Text(s.msg.Text)
	s.journal = journal.NewRecorder(journal.RecorderOptions{
		Store: e.o.Store, Lease: l, Turn: id, Now: e.o.Now, Retention: s.desk.Pack.Retention, Mask: s.desk.Mask(),
	})
	if stored.Version != 0 {
		if s.past, _, err = journal.Read(ctx, e.o.Store, id); err != nil {
			return nil, err
		}
		s.steps, s.spent = len(s.past.Steps), s.past.Usage()
		s.cost = s.spent.Cost
		s.reply, s.again = s.past.Reply, s.rec.State == stateDelivering
		s.picked = s.past.Routed != nil && s.past.Routed.Kind == kindPicked
	}
	return s, s.readThread(ctx)
}

func recordKey(turn string) string { return "turn/" + turn }

// put adds the turn's record to a batch.
func (s *story) put(b *store.Batch) {
	value, err := json.Marshal(s.rec)
	if err != nil { // plain fields only
		panic(fmt.Sprintf("encode turn %s: %v", s.journal.Turn(), err))
	}
	b.Puts = append(b.Puts, store.Put{Key: recordKey(s.journal.Turn()), Value: value, Version: s.version})
}

// commit makes the turn's record durable, with what add brings and all that was staged.
func (s *story) commit(ctx context.Context, add func(*store.Batch)) error {
	err := s.journal.Commit(ctx, func(b *store.Batch) {
		s.put(b)
		add(b)
	})
	if err == nil {
		s.version++
	}
	return err
}

// ask asks a model within a time, and stages the call for the record, whether it worked or not.
func (s *story) ask(ctx context.Context, a assistants.Asker, role string, req llm.Request) (llm.Reply, error) {
	req.Where = llm.Where{
		First: s.thread.first(s.text), Last: s.text, Person: s.msg.From.ID, Channel: s.msg.Channel.ID, Replies: s.thread.Replies + s.steps,
	}
	started := s.e.o.Now()
	reply, err := a.Do(ctx, req)
	step := journal.Step{Role: role, Model: a.Spec.Provider + "/" + a.Spec.ID, MS: s.e.o.Now().Sub(started).Milliseconds(), Attempts: reply.Attempts}
	usage := reply.Usage
	if noScript(err) { // nothing was asked: the person left the script, and may come back to where it stands
		s.rec.Unheard = true
		return llm.Reply{}, err
	}
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return llm.Reply{}, context.Cause(ctx) // handed back: it will be asked again
		}
		step.Error, step.Attempts = string(llm.Timeout), 1
		if failed, ok := errors.AsType[*llm.Error](err); ok {
			step.Error, step.Status, step.Attempts, usage = string(failed.Reason), failed.Status, failed.Attempts, failed.Usage
		}
	}
	step.Input, step.Cached, step.Output, step.Cost = usage.Input, usage.Cached, usage.Output, usage.Cost
	s.journal.Step(step)
	s.steps++
	s.cost += usage.Cost
	if !usage.Known { // a server that gives no figures is not a free one
		reserve := guards.Reserve(req, a.Spec.Output, llm.PriceOf(a.Spec.Price))
		usage.Input, usage.Output, usage.Cost = max(usage.Input, reserve.Input), max(usage.Output, reserve.Output), max(usage.Cost, reserve.Cost)
	}
	s.spent = s.spent.Add(usage)
	if err != nil {
		return llm.Reply{}, err
	}
	mask := s.journal.Mask()
	reply.Text = mask.Text(reply.Text)
	for i := range reply.Calls {
		c := &reply.Calls[i]
		c.ID, c.Name, c.Args = mask.Text(c.ID), mask.Text(c.Name), mask.JSON(c.Args)
	}
	return reply, nil
}

// policy is the rules of the pinned and of the active version: the stricter wins.
func (s *story) policy() guards.Policy {
	var p guards.Policy
	for _, d := range []*assistants.Desk{s.desk, s.active} {
		p = append(p, guards.Version{Rules: d.Pack.Policy, Groups: d.Pack.Groups(s.msg.From)})
		if s.active == s.desk {
			break
		}
	}
	return p
}

// mayUse lists the assistants that exist for the person, in both versions.
func (s *story) mayUse() []*assistants.Assistant {
	open := s.desk.OpenTo(s.msg.From)
	if s.active == s.desk {
		return open
	}
	var both []*assistants.Assistant
	for _, a := range open {
		for _, b := range s.active.OpenTo(s.msg.From) {
			if a.Name == b.Name {
				both = append(both, a)
			}
		}
	}
	return both
}
