package slack

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"
	"maps"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

const (
	lanes     = 16               // channels that are stored beside each other
	laneDepth = 1024             // deliveries that may wait in a lane; what finds it full comes again from Slack
	storeTime = 30 * time.Second // longest that storing one delivery may take; Slack has sent it again by then
	commands  = 64               // commands and decisions that are dealt with beside each other: each waits for a call of Slack
	taskers   = 8                // hands for what is left to do
	hasty     = 4                // hands beside them, only for what cannot wait
	taskDepth = 512
	taskTime  = time.Minute
	oddKinds  = 200 // kinds of odd things that are told apart
)

// The kinds of payload, as Socket Mode names them. Slack: https://docs.slack.dev/apis/events-api/using-socket-mode
const (
	kindEvents      = "events_api"
	kindInteractive = "interactive"
	kindSlash       = "slash_commands"
)

// delivery is one payload on its way in, by whichever mode.
type delivery struct {
	kind    string
	payload []byte
	// answer is called once, of every delivery that was taken: when it is stored, with what the acknowledgement carries; or
	// with an error when it is not, and then there is to be no acknowledgement, so that Slack sends it again. A retried
	// delivery is one like any other, for the first one may not have been stored.
	answer func(reply json.RawMessage, err error)
}

// chore is work that waits until the delivery it came from is acknowledged.
type chore struct {
	name   string
	do     func(context.Context)
	urgent bool // it opens a form: the trigger that lets it do so is good for 3 s
}

// intake stores what comes in and then acknowledges it, and does nothing else before the acknowledgement. Deliveries of
// one channel go through one lane and keep their order. A slow store delays acknowledgements, never the reading. Commands
// go beside the lanes, since they have to be posted before they are acknowledged; and so do decisions, since it has to be
// known who makes them.
type intake struct {
	seed     maphash.Seed
	lanes    []chan delivery
	store    func(delivery)
	commands chan struct{} // holds one for each command or decision that is dealt with
	tasks    chan chore
	urgent   chan chore
	quiet    time.Duration // longest silence of a socket
	agent    atomic.Bool   // an event has shown that the app has the agent view

	ctx     context.Context //nolint:containedctx // the life of what Start began, ended by Stop
	cancel  context.CancelFunc
	reading context.CancelFunc // ends the sockets
	sockets sync.WaitGroup
	storing sync.WaitGroup
	working sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	pending sync.WaitGroup // deliveries taken and not yet done with
	odd     map[string]int
}

func (in *intake) begin() {
	in.seed = maphash.MakeSeed()
	in.quiet = quiet
	in.odd = map[string]int{}
	in.closed = true // until open
}

// open starts the lanes and the hands.
func (in *intake) open(s *Slack) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ctx, in.cancel = context.WithCancel(context.Background())
	in.closed = false
	in.store = s.store
	in.commands = make(chan struct{}, commands)
	in.tasks, in.urgent = make(chan chore, taskDepth), make(chan chore, taskDepth)
	for range lanes {
		lane := make(chan delivery, laneDepth)
		in.lanes = append(in.lanes, lane)
		in.storing.Go(func() {
			for d := range lane {
				s.store(d)
			}
		})
	}
	for range taskers {
		in.working.Go(func() { s.hand(in.tasks, in.urgent) })
	}
	for range hasty {
		in.working.Go(func() { s.hand(nil, in.urgent) })
	}
}

// keep starts the sockets.
func (in *intake) keep(s *Slack) {
	ctx, cancel := context.WithCancel(in.ctx)
	in.reading = cancel
	in.sockets.Go(func() { (&keeper{s: s}).run(ctx) })
}

// take puts a delivery into its lane, without waiting. It is false where there is no room or the bot is stopping.
func (in *intake) take(d delivery) bool {
	number := maphash.String(in.seed, orderOf(d.payload)) % lanes // a payload may be large: it is read before the lock
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return false
	}
	in.pending.Add(1)
	if d.kind == kindSlash || d.kind == kindInteractive && bytes.Contains(d.payload, []byte(actionCard+".")) {
		select {
		case in.commands <- struct{}{}:
			in.storing.Go(func() { // the lanes are at work, so nobody waits for storing yet
				defer func() { <-in.commands }()
				in.store(d)
			})
			return true
		default:
		}
	} else {
		select {
		case in.lanes[number] <- d:
			return true
		default:
		}
	}
	in.pending.Done()
	return false
}

// orderOf names what a payload keeps its order with: with all that happens in its channel; and where it has none, as a form
// has, with what the same person does.
func orderOf(payload []byte) string {
	var p struct {
		Event struct {
			Channel json.RawMessage `json:"channel"`
			User    json.RawMessage `json:"user"`
		} `json:"event"`
		Channel struct {
			ID string `json:"id"`
		} `json:"channel"`
		User struct {
			ID string `json:"id"`
		} `json:"user"`
	}
	if json.Unmarshal(payload, &p) != nil {
		return ""
	}
	channel, user := bytes.Trim(p.Event.Channel, `"`), bytes.Trim(p.Event.User, `"`)
	return cmp.Or(string(channel), p.Channel.ID, string(user), p.User.ID)
}

// later hands a task to whoever is free. What is left out when there is too much of it is shown, not said: nothing that
// was accepted is lost.
func (in *intake) later(t chore) bool {
	to := in.tasks
	if t.urgent {
		to = in.urgent
	}
	select {
	case to <- t:
		return true
	default:
		return false
	}
}

// close takes nothing more in, and ends everything in the order in which it depends on each other: what is taken is stored
// and acknowledged on sockets that are still open, then the sockets are closed, then the tasks are done.
func (in *intake) close(ctx context.Context) error {
	in.mu.Lock()
	if in.closed {
		in.mu.Unlock()
		return nil
	}
	in.closed = true
	in.mu.Unlock()
	stop := context.AfterFunc(ctx, in.cancel) // whoever has no patience cancels all of it, which then ends soon
	defer stop()
	defer in.cancel()
	in.pending.Wait()
	for _, lane := range in.lanes {
		close(lane)
	}
	in.storing.Wait()
	if in.reading != nil {
		in.reading()
	}
	in.sockets.Wait()
	close(in.tasks)
	close(in.urgent)
	in.working.Wait()
	return context.Cause(ctx)
}

// store has a delivery stored and acknowledged. A fault in dealing with one delivery must not cost the others.
func (s *Slack) store(d delivery) {
	defer s.intake.pending.Done()
	answered := false
	defer func() {
		if !answered {
			d.answer(nil, errors.New("store a delivery: it broke off"))
		}
	}()
	defer s.recovered("store a delivery")
	ctx, cancel := context.WithTimeout(s.intake.ctx, storeTime)
	defer cancel()
	r, err := s.deal(ctx, d.kind, d.payload)
	if err != nil {
		s.o.Log.Error().Err(err).Str("kind", d.kind).Msg("a delivery of Slack is not stored and not acknowledged, so it will come again")
	}
	answered = true
	d.answer(r.reply, err)
	s.afterwards(r)
}

// afterwards hands on what a delivery has left to do.
func (s *Slack) afterwards(r result) {
	for _, t := range r.after {
		if !s.intake.later(t) {
			s.o.Log.Warn().Str("task", t.name).Msg("too much to do for Slack, left out")
		}
	}
}

// deal decides what a payload is and has it stored. An error means that it must come again.
func (s *Slack) deal(ctx context.Context, kind string, payload []byte) (result, error) {
	switch kind {
	case kindEvents:
		return s.events(ctx, payload)
	case kindInteractive:
		return s.interaction(ctx, payload)
	case kindSlash:
		return s.slash(ctx, payload)
	}
	s.odd("delivery of the kind " + kind)
	return result{}, nil
}

// hand does what there is to do, until there will be nothing more.
func (s *Slack) hand(tasks, urgent <-chan chore) {
	for tasks != nil || urgent != nil {
		select {
		case t, more := <-urgent:
			if !more {
				urgent = nil
				continue
			}
			s.work(t)
		case t, more := <-tasks:
			if !more {
				tasks = nil
				continue
			}
			s.work(t)
		}
	}
}

func (s *Slack) work(t chore) {
	defer s.recovered(t.name)
	ctx, cancel := context.WithTimeout(s.intake.ctx, taskTime)
	defer cancel()
	t.do(ctx)
}

// recovered keeps a panic, ours or a library's, from ending the process. It is to be deferred.
func (s *Slack) recovered(what string) {
	if p := recover(); p != nil {
		s.o.Log.Error().Str("while", what).Interface("panic", p).Bytes("stack", debug.Stack()).Msg("panic in the Slack surface")
	}
}

// odd counts something that is left aside on purpose or by ignorance, and logs its first time. kind holds no words of
// people.
func (s *Slack) odd(kind string) {
	in := &s.intake
	kind = short(kind, 100)
	in.mu.Lock()
	n := in.odd[kind]
	if n > 0 || len(in.odd) < oddKinds {
		in.odd[kind] = n + 1
	}
	in.mu.Unlock()
	if n == 0 {
		s.o.Log.Warn().Str("what", kind).Msg("left aside; further ones like it are only counted")
	}
}

// Odd tells how often something was left aside, by what it was.
func (s *Slack) Odd() map[string]int {
	in := &s.intake
	in.mu.Lock()
	defer in.mu.Unlock()
	return maps.Clone(in.odd)
}
