package dojotest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"switchboard/assistants"
	"switchboard/chat"
	"switchboard/config"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/store/sqlite"
	"switchboard/turn"
)

// run is one conversation: a user asks for a task, in a workspace of its own. What it is asked for is fixed; what came of it
// is filled in while it runs.
type run struct {
	channel   string
	assistant string
	ask       string
	script    script
	orders    func(text string) []script
	// approves says what the person does whose approval a call needs. own: the user's task needs exactly this call.
	approves func(own bool) bool
	world    *world

	events chan event

	mu     sync.Mutex
	own    map[string]bool
	obeyed int // texts with an order that the model was shown

	asked, askedOwn int // calls that waited for a person, and those of them that the task needs
	denied          int // calls that a rule denied outright
	refused         int // calls that were refused before any rule was asked: no such tool, or refused before
	outcome         string
	err             error
}

// event is what a user sees of a run: a card to decide, or the end.
type event struct {
	card  *chat.Card
	ended *turn.Finished
}

// note takes over what the model has learned.
func (r *run) note(d *desk) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own, r.obeyed = d.own, d.obeyed
}

// needs says whether the task itself makes the call of a card, with exactly these arguments.
func (r *run) needs(card *chat.Card) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	args := map[string]string{}
	for _, f := range card.Args {
		if f.Name != "lab" { // the runtime's own
			args[f.Name] = f.Value
		}
	}
	return r.own[call{card.Tool, args}.String()]
}

// runs are the conversations of one bot, by channel. It is the surface of all of them.
type runs struct {
	mu    sync.Mutex
	by    map[string]*run
	turns map[string]*run // by turn, once it has posted something
}

func (rs *runs) in(channel string) *run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.by[channel]
}

// of is the run of a turn that has ended or waits.
func (rs *runs) of(f turn.Finished) *run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.turns[f.Turn]
}

// Look implements turn.Surface: there is nothing more to know.
func (rs *runs) Look(_ context.Context, m chat.Message, _ bool) (turn.Seen, error) {
	return turn.Seen{Message: m}, nil
}

// Show implements turn.Surface: nobody looks on.
func (rs *runs) Show(context.Context, turn.Progress) {}

// Post implements turn.Surface: cards reach whoever has to decide.
func (rs *runs) Post(_ context.Context, p turn.Post) error {
	r := rs.in(p.To.Thread.Channel)
	rs.mu.Lock()
	rs.turns[p.Turn] = r
	rs.mu.Unlock()
	if p.Card != nil {
		r.events <- event{card: p.Card}
	}
	return nil
}

// bot is a whole bot on a store of its own, with the obedient model.
type bot struct {
	runs   *runs
	store  *sqlite.Store
	engine *turn.Engine
}

// play lets a bot with these files work off all runs, side by side, and fills in what came of them.
func play(t *testing.T, f files, list []*run) {
	t.Helper()
	worlds := newWorlds(t)
	env := func(name string) (string, bool) { return worlds.URL, name == "DOJO_URL" }
	rs := &runs{by: map[string]*run{}, turns: map[string]*run{}}
	for i, r := range list {
		r.channel, r.events = fmt.Sprintf("C%04d", i), make(chan event, 64)
		rs.by[r.channel] = r
		worlds.add(r.channel, r.world)
	}
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "bot.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	open := func(ctx context.Context, p *config.Pack) (*assistants.Desk, error) {
		return assistants.Open(ctx, p, assistants.Options{Env: env, Now: time.Now, Model: func(config.Model) (llm.Model, error) { return obedient{rs}, nil }})
	}
	desk, err := open(t.Context(), f.load(t, env))
	if err != nil {
		t.Fatal(err)
	}
	b := &bot{runs: rs, store: st}
	b.engine = turn.New(desk, turn.Options{
		Store: st, Surface: rs, Now: time.Now, Log: zerolog.Nop(), Workers: 32, Wait: pause,
		Open: func(ctx context.Context, stored []config.File) (*assistants.Desk, error) {
			p, err := config.Load(config.FromFiles(stored), config.Options{Env: env})
			if err != nil {
				return nil, err
			}
			return open(ctx, p)
		},
		Finished: func(f turn.Finished) {
			if r := rs.of(f); r != nil {
				r.events <- event{ended: &f}
			}
		},
	})
	if err := b.engine.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(b.engine.Stop(context.WithoutCancel(t.Context())), st.Close()); err != nil {
			t.Error(err)
		}
	}()
	var all sync.WaitGroup
	for _, r := range list {
		all.Go(func() { r.err = b.follow(t.Context(), r) })
	}
	all.Wait()
	for i, r := range list {
		if r.err != nil {
			t.Fatalf("run %d (%s): %v", i, r.ask, r.err)
		}
	}
}

// pause waits with the clock: the sweeper and repeated attempts are all that wait here.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

func message(r *run) chat.Message {
	return chat.Message{
		Key: "msg:T:" + r.channel + ":1", Thread: chat.Thread{Team: "T", Channel: r.channel, Root: "1"},
		Channel: chat.Channel{ID: r.channel, Visibility: chat.Private}, From: asker(), Text: r.ask, At: time.Now(),
	}
}

func asker() chat.Person { return chat.Person{ID: "U0ASKER", Name: "Asker", Kind: chat.Member} }

// follow sees one run to its end, and decides the cards that come up.
func (b *bot) follow(ctx context.Context, r *run) error {
	id, _, err := b.engine.Accept(ctx, message(r))
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e := <-r.events:
			switch {
			case e.card != nil:
				if err := b.decide(ctx, r, e.card); err != nil {
					return err
				}
			case e.ended.Turn != id || e.ended.Outcome == turn.Waiting:
			case e.ended.Err != nil:
				return fmt.Errorf("the turn broke: %w", e.ended.Err)
			default:
				r.outcome = e.ended.Outcome
				return b.account(ctx, r, id)
			}
		}
	}
}

// account counts how the calls of a run ended.
func (b *bot) account(ctx context.Context, r *run, id string) error {
	full, ok, err := journal.Read(ctx, b.store, id)
	if err != nil || !ok {
		return errors.Join(err, fmt.Errorf("turn %s is not on record: %t", id, ok))
	}
	for _, c := range full.Calls {
		switch {
		case c.Settled == nil:
			return fmt.Errorf("call %d of %s has no end", c.Seq, c.Tool)
		case c.Settled.Outcome == journal.Denied && !byPerson(c):
			r.denied++
		case c.Settled.Outcome == journal.Refused:
			r.refused++
		}
	}
	return nil
}
