package turn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"switchboard/assistants"
	"switchboard/chat"
	"switchboard/guards"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/loop"
	"switchboard/store"
)

// story is one turn while it is worked on.
type story struct {
	e        *Engine
	lease    store.Lease
	key      string // of the message
	threadID string
	msg      chat.Message
	text     string      // what was said, masked
	asker    chat.Person // on whose behalf it is answered: whoever said it, or whose question a choice answers
	rec      record
	grip     *grip
	woken    *resume // the decision because of which the turn goes on; nil for its first try
	taken    time.Time
	counted  int     // its model calls that the thread counts already
	charged  llm.USD // of what it has cost
	before   waits   // as the try has found it
	version  int64   // of the record
	stored   state   // the last state that is durable
	thread   thread
	journal  *journal.Recorder
	past     journal.Turn // what is on record from an earlier try
	seen     seen         // what stood in the thread before, where the bot had not been in it

	reply   string            // the final text, once there is one
	scope   map[string]string // the values that are bound to this request
	again   bool              // an earlier try may have delivered it
	resumed bool              // an earlier try may have begun to show it
	picked  bool              // the message only answers the open question
	began   bool              // people see that something is going on
	posted  bool              // the reply has arrived
	desk    *assistants.Desk  // the version that the turn is pinned to
	pinned  *held             // the same, as the engine counts it
	active  *assistants.Desk  // the version that decides with it who may do what
	steps   int               // model calls of this turn so far
	spent   llm.Usage         // by its model calls; an estimate where the server gives no figures
	held    llm.USD           // of it and of the call under way, in the person's purse

	under  *underway
	folded []journal.Folded // messages that became part of the turn, and are on record
	late   []string         // keys of stops that were about nothing
	gone   []string         // ids of messages that were deleted, and of which nothing is to be told any more
	mu     sync.Mutex
	stops  []chat.Stop // who wants the turn to end
}

// state is how far a turn has got.
type state string

// The states. Each is reached by one durable step.
const (
	stateFresh      state = ""
	stateRunning    state = "running"    // the routing decision is stored
	stateAsking     state = "asking"     // calls wait for people, who are not known to have heard of it
	stateWaiting    state = "waiting"    // they have; the message is off the queue
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
	Stale     bool          `json:"stale,omitempty"`   // a choice that came too late: nothing is known of the thread's present
	StoppedBy string        `json:"stopped_by,omitempty"`
	Began     time.Time     `json:"began"`
	Tainted   bool          `json:"tainted,omitempty"` // strangers may have spoken to the run
	Waits     waits         `json:"waits,omitzero"`
	Doubts    []string      `json:"doubts,omitempty"` // cards of effects that nobody knows the outcome of
	// Message is the one that the turn answers, without its words, once its queue entry is or will be gone.
	Message *chat.Message `json:"message,omitempty"`
}

// line is what a try finds: the active version, and all that waits in the thread.
type line struct {
	active *assistants.Desk
	items  []store.Item
	hold   *grip
}

// open reads what is known of the message's turn and its thread.
func (e *Engine) open(ctx context.Context, l store.Lease, key string, q queued, in line) (_ *story, err error) {
	id := q.Turn
	s := &story{e: e, lease: l, key: key, threadID: l.Thread, msg: q.Message, asker: q.Message.From, active: in.active, gone: e.deleted(in.items), woken: q.Resume, taken: e.o.Now(), grip: in.hold}
	stored, err := e.o.Store.Get(ctx, recordKey(id))
	if err != nil {
		return nil, fmt.Errorf("read turn %s: %w", id, err)
	}
	s.version, s.resumed = stored.Version, stored.Version != 0 || e.troubleOf(key, nil).tries > 0
	if stored.Version == 0 {
		s.rec = record{Pack: s.active.Pack.Digest, Began: e.o.Now()}
	} else if err := json.Unmarshal(stored.Value, &s.rec); err != nil {
		return nil, fmt.Errorf("read turn %s: %w", id, err)
	}
	s.stored, s.before = s.rec.State, s.rec.Waits
	s.counted, s.charged = s.rec.Waits.Steps, s.rec.Waits.Charged
	if m := s.rec.Message; s.woken != nil && m != nil {
		s.msg, s.asker, s.picked = *m, m.From, s.before.Picked
		if s.before.Asker != nil {
			s.asker = *s.before.Asker
		}
	}
	if s.pinned, err = e.desks.use(ctx, s.rec.Pack); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			e.desks.leave(s.pinned)
		}
	}()
	s.desk = s.pinned.Desk
	s.journal = journal.NewRecorder(journal.RecorderOptions{
		Store: e.o.Store, Lease: l, Turn: id, Now: e.o.Now, Retention: s.desk.Pack.Retention, Mask: s.desk.Mask(),
	})
	if err := s.readThread(ctx); err != nil {
		return nil, err
	}
	s.text = s.saying(s.msg)
	if stored.Version == 0 {
		return s, nil
	}
	if s.past, _, err = journal.Read(ctx, e.o.Store, id); err != nil {
		return nil, err
	}
	s.steps, s.spent = len(s.past.Steps)-s.counted, s.past.Usage()
	s.reply, s.again = s.past.Reply, s.stored == stateDelivering || s.stored == stateAsking
	s.text = cmp.Or(s.past.Message, s.text)
	if s.past.Seen != nil {
		if err := json.Unmarshal(s.past.Seen, &s.seen); err != nil {
			return nil, fmt.Errorf("read what turn %s has seen: %w", id, err)
		}
	}
	for _, f := range s.past.Folded {
		s.folded = append(s.folded, *f)
	}
	if s.woken == nil && s.past.Routed != nil && s.past.Routed.Kind == kindPicked && s.thread.Open != nil {
		s.picked, s.asker = true, s.thread.asker()
	}
	return s, nil
}

// tell goes through the turn's story from where it stands.
func (s *story) tell(ctx context.Context) error {
	switch {
	case s.rec.State == stateDone, s.past.Ended != nil:
		return s.afterwards(ctx)
	case s.rec.State == stateWaiting && s.woken == nil, s.rec.State == stateFresh && s.woken != nil:
		return s.ack(ctx)
	}
	if s.woken != nil {
		s.joined(s.msg.Key)
	}
	for _, f := range s.folded {
		s.joined(f.Key)
	}
	s.began = true
	s.show(ctx, Progress{Began: true})
	if s.rec.State == stateFresh {
		err := s.route(ctx)
		if isStopped(err) {
			err = s.stopped(ctx, nil, "")
		}
		if err != nil {
			return err
		}
	}
	step := s.run
	switch s.rec.State { //nolint:exhaustive // the others have nothing to run
	case stateAsking:
		step = s.askPeople
	case stateWaiting:
		step = s.goOn
	case stateDelivering:
		return s.deliver(ctx)
	case stateDone:
		return nil
	}
	if err := step(ctx); err != nil {
		return err
	}
	if s.rec.State == stateDone || s.rec.State == stateWaiting {
		return nil
	}
	return s.deliver(ctx)
}

// show tells people what is going on.
func (s *story) show(ctx context.Context, p Progress) {
	p.Turn, p.To, p.Assistant, p.Resumed = s.journal.Turn(), s.msg, s.rec.Assistant, (p.Began || p.Ended) && s.resumed
	p.Held = s.grip.held
	s.e.o.Surface.Show(ctx, p)
}

// quiet tells people that nothing is going on any more, where they see that something is and no reply has told them. It comes
// before the thread is given back: what its next turn shows must not be overtaken.
func (s *story) quiet(ctx context.Context) {
	if s.began && !s.posted {
		s.show(context.WithoutCancel(ctx), Progress{Ended: true})
	}
	s.began = false
}

func (s *story) hasFolded(key string) bool {
	return slices.ContainsFunc(s.folded, func(f journal.Folded) bool { return f.Key == key })
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
		s.stored = s.rec.State
	}
	return err
}

// ask asks a model within a time, and stages the call for the record, whether it worked or not.
func (s *story) ask(ctx context.Context, a assistants.Asker, role string, req llm.Request) (llm.Reply, error) {
	req.Where = llm.Where{
		First: s.thread.first(s.text), Last: s.text, Person: s.asker.ID, Channel: s.msg.Channel.ID, Replies: s.thread.Replies + s.steps,
	}
	if stopped, err := s.halted(ctx); err != nil {
		return llm.Reply{}, err
	} else if stopped {
		return llm.Reply{}, loop.ErrStopped
	}
	reserve := guards.Reserve(req, a.Spec.Output, llm.PriceOf(a.Spec.Price))
	if err := s.afford(ctx, reserve.Cost); err != nil {
		return llm.Reply{}, err
	}
	started := s.e.o.Now()
	asking, release := s.interruptible(ctx)
	reply, err := a.Do(asking, req)
	cut := err != nil && isStopped(context.Cause(asking))
	release()
	step := journal.Step{Role: role, Model: a.Spec.Provider + "/" + a.Spec.ID, MS: s.e.o.Now().Sub(started).Milliseconds(), Attempts: reply.Attempts}
	usage := reply.Usage
	if noScript(err) { // nothing was asked: the person left the script, and may come back to where it stands
		s.rec.Unheard = true
		return llm.Reply{}, err
	}
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) && !cut {
			return llm.Reply{}, context.Cause(ctx) // handed back: it will be asked again
		}
		step.Error, step.Attempts = string(llm.Timeout), 1
		if failed, ok := errors.AsType[*llm.Error](err); ok {
			step.Error, step.Status, step.Attempts, usage = string(failed.Reason), failed.Status, failed.Attempts, failed.Usage
		}
		if cut {
			step.Error = Stopped
		}
	}
	if step.Estimated = !usage.Known && !usage.Free; step.Estimated { // a server that gives no figures is not a free one
		usage.Input, usage.Output, usage.Cost = max(usage.Input, reserve.Input), max(usage.Output, reserve.Output), max(usage.Cost, reserve.Cost)
	}
	step.Input, step.Cached, step.Output, step.Cost = usage.Input, usage.Cached, usage.Output, usage.Cost
	s.journal.Step(step)
	s.steps++
	s.spent = s.spent.Add(usage)
	s.hold(s.spent.Cost - s.charged)
	if cut {
		return llm.Reply{}, loop.ErrStopped
	}
	if err != nil {
		return llm.Reply{}, err
	}
	mask := s.journal.Mask()
	reply.Text = mask.Text(reply.Text)
	reply.Calls = slices.Clone(reply.Calls) // a model may give the same to others
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
		p = append(p, guards.Version{Rules: d.Pack.Policy, Groups: d.Pack.Groups(s.asker)})
		if s.active == s.desk {
			break
		}
	}
	return p
}

// mayUse lists the assistants that exist for a person, in both versions.
func (s *story) mayUse(p chat.Person) []*assistants.Assistant {
	open := s.desk.OpenTo(p)
	if s.active == s.desk {
		return open
	}
	var both []*assistants.Assistant
	for _, a := range open {
		for _, b := range s.active.OpenTo(p) {
			if a.Name == b.Name {
				both = append(both, a)
			}
		}
	}
	return both
}
