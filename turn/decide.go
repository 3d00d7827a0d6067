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
	"switchboard/config"
	"switchboard/journal"
	"switchboard/store"
)

// Decide takes what a person says to a card (rule M5). It is durable before anything is answered, and the first decision
// counts, on whichever replica: the others are told so. Nothing runs here: the run's own thread takes it up.
//
// The error means that nothing is known to be stored; the same decision may be given again.
func (e *Engine) Decide(ctx context.Context, d chat.Decision) (chat.Ruling, error) {
	for {
		r, err := e.decide(ctx, d)
		if !errors.Is(err, store.ErrConflict) { // somebody was faster: look again
			return r, err
		}
	}
}

func (e *Engine) decide(ctx context.Context, d chat.Decision) (chat.Ruling, error) {
	a, card, err := journal.FindApproval(ctx, e.o.Store, d.Card)
	switch {
	case errors.Is(err, journal.ErrNoApproval), err == nil && a.Pack != e.desks.desk().Pack.Name:
		return chat.Ruling{Words: "I know nothing of this decision."}, nil
	case err != nil:
		return chat.Ruling{}, err
	case a.Stand != journal.Open:
		return e.late(a, card, d), nil
	case card == nil:
		return chat.Ruling{Words: "What this was about is no longer kept, so it cannot be decided any more."}, nil
	case !fits(a.Kind, d.Say):
		return chat.Ruling{Words: "That is no answer to this card."}, nil
	case d.Say == chat.Answer && strings.TrimSpace(d.Words) == "":
		return chat.Ruling{Words: "The answer is empty, so nothing was recorded."}, nil
	}
	now := e.o.Now()
	if !a.Until.IsZero() && now.After(a.Until) {
		if err := e.expire(ctx, a, card, now); err != nil {
			return chat.Ruling{}, err
		}
		return chat.Ruling{Words: "This came too late: the time to decide is over, which counts as refused.", Card: card}, nil
	}
	packs, mask, err := e.packs(ctx, a)
	if err != nil {
		return chat.Ruling{}, err
	}
	if !sign(&a, d, now, packs) {
		return chat.Ruling{Words: notYours(a, d.By, card)}, nil
	}
	words := e.desks.desk().Mask().Text(mask.Text(d.Words))
	if d.Say == chat.Approve && slices.ContainsFunc(a.Needs, func(n journal.Need) bool { return n.Signed == nil }) {
		b := store.Batch{}
		a.Close(&b, "", time.Time{})
		if err := e.o.Store.Commit(ctx, b); err != nil {
			return chat.Ruling{}, fmt.Errorf("record a decision on card %s: %w", a.ID, err)
		}
		return chat.Ruling{Taken: true, Words: "Your approval is recorded. Another rule needs somebody else's as well.", Card: card}, nil
	}
	a.Stand, a.Key, a.At = stands()[d.Say], d.Key, now
	a.By = &chat.Person{ID: d.By.ID, Kind: d.By.Kind, Groups: d.By.Groups}
	card.Decided = decidedWords(a, nameFor(d.By), words, now)
	if err := e.close(ctx, a, card, words, nil); err != nil {
		return chat.Ruling{}, err
	}
	return chat.Ruling{Taken: true, Words: "Recorded: " + sentence(card.Decided), Card: card}, nil
}

// stands gives what each saying makes of a decision.
func stands() map[chat.Saying]journal.Stand {
	return map[chat.Saying]journal.Stand{
		chat.Approve: journal.Approved, chat.Deny: journal.Rejected, chat.Answer: journal.Answered,
		chat.Happened: journal.Happened, chat.NotDone: journal.NotDone,
	}
}

func fits(kind chat.CardKind, say chat.Saying) bool {
	switch kind {
	case chat.CardApprove:
		return say == chat.Approve || say == chat.Deny
	case chat.CardAsk:
		return say == chat.Answer
	case chat.CardUnknown:
		return say == chat.Happened || say == chat.NotDone
	}
	return false
}

// late answers a decision on something that is decided.
func (e *Engine) late(a journal.Approval, card *chat.Card, d chat.Decision) chat.Ruling {
	how := "it is " + strings.ReplaceAll(string(a.Stand), "_", " ")
	if card != nil && card.Decided != "" {
		how = card.Decided
	}
	if a.Key == d.Key { // the same click, delivered again
		return chat.Ruling{Taken: true, Words: "Recorded: " + sentence(how), Card: card}
	}
	return chat.Ruling{Words: "This was decided before: " + sentence(how), Card: card}
}

// sentence ends words of people with one full stop.
func sentence(words string) string { return strings.TrimRight(words, ".") + "." }

// sign lets a person meet every need that they may meet; false where there is none. One who may meet any need may refuse.
func sign(a *journal.Approval, d chat.Decision, now time.Time, packs []*config.Pack) bool {
	some := false
	a.Needs = slices.Clone(a.Needs)
	for i, n := range a.Needs {
		if !may(n, d.By, a.Requester, packs) || d.Local != local(d.By) {
			continue
		}
		some = true
		if d.Say == chat.Approve && n.Signed == nil {
			a.Needs[i].Signed, a.Needs[i].SignedAt = &chat.Person{ID: d.By.ID, Kind: d.By.Kind, Groups: d.By.Groups}, now
		}
	}
	return some
}

// localPrefix begins the id of the operator of this machine, who started the bot with leave to decide.
const localPrefix = "local:"

func local(p chat.Person) bool { return strings.HasPrefix(p.ID, localPrefix) }

// may says whether a person may meet a need: by every version of the pack that has a say, and never a guest or somebody from
// outside.
func may(n journal.Need, p chat.Person, requester string, packs []*config.Pack) bool {
	if local(p) {
		return true
	}
	if p.Kind != chat.Member || n.FourEyes && p.ID == requester {
		return false
	}
	for _, pack := range packs {
		groups := pack.Groups(p)
		if !slices.ContainsFunc(n.By, func(who string) bool {
			return who == p.ID || who == config.Requester && p.ID == requester || slices.Contains(groups, who) || slices.Contains(p.Groups, who)
		}) {
			return false
		}
	}
	return true
}

func notYours(a journal.Approval, p chat.Person, card *chat.Card) string {
	four := slices.ContainsFunc(a.Needs, func(n journal.Need) bool { return n.FourEyes })
	if four && p.ID == a.Requester {
		return "You asked for this yourself, so somebody else has to decide it. Nothing was recorded."
	}
	words := "You may not decide this. Nothing was recorded."
	if len(card.Deciders) > 0 {
		words += " It is for: " + strings.Join(card.Deciders, ", ") + "."
	}
	return words
}

func nameFor(p chat.Person) string {
	if p.Name == "" || p.Name == p.ID {
		return p.ID
	}
	return nameOf(p.Name, p.ID) + " (" + p.ID + ")"
}

func decidedWords(a journal.Approval, who, words string, now time.Time) string {
	text := map[journal.Stand]string{
		journal.Approved: "approved by ", journal.Rejected: "refused by ", journal.Answered: "answered by ",
		journal.Happened: "it took effect, says ", journal.NotDone: "it did not take effect, says ",
	}[a.Stand] + who + ", " + now.UTC().Format("2006-01-02 15:04 MST")
	if words != "" {
		text += ": " + words
	}
	return text
}

// packs are the versions that have a say in who may decide: the run's and the active one (rule D5). mask hides what is bound
// to the run.
func (e *Engine) packs(ctx context.Context, a journal.Approval) (both []*config.Pack, mask journal.Mask, err error) {
	run, _, err := journal.Read(ctx, e.o.Store, a.Turn)
	if err != nil {
		return nil, mask, err
	}
	active, err := e.desks.use(ctx, "")
	if err != nil {
		return nil, mask, err
	}
	defer e.desks.leave(active)
	pinned, err := e.desks.use(ctx, a.Version)
	if err != nil {
		return nil, mask, err
	}
	defer e.desks.leave(pinned)
	return []*config.Pack{active.Pack, pinned.Pack}, pinned.MaskFor(run.Scope), nil // both are values: they outlive their desks
}

// close makes a decision durable, and queues it on its run's thread, in one step.
func (e *Engine) close(ctx context.Context, a journal.Approval, card *chat.Card, words string, halted *chat.Stop) error {
	body, err := json.Marshal(queued{Turn: a.Turn, Pack: a.Pack, Resume: &resume{Card: a.ID, Halted: halted}})
	if err != nil {
		return err
	}
	until := e.o.Now().Add(e.desks.desk().Pack.Retention)
	b := store.Batch{Push: []store.Item{{Key: "decided:" + a.ID, Thread: a.Thread, Body: body}}}
	a.Close(&b, words, until)
	if card != nil {
		data, err := json.Marshal(card)
		if err != nil {
			return err
		}
		b.Contents = append(b.Contents, a.Shown(data, until))
	}
	if err := e.o.Store.Commit(ctx, b); err != nil {
		return fmt.Errorf("record the decision on card %s: %w", a.ID, err)
	}
	return nil
}

func (e *Engine) expire(ctx context.Context, a journal.Approval, card *chat.Card, now time.Time) error {
	a.Stand, a.At = journal.Expired, now
	if card != nil {
		card.Decided = "nobody decided in time, which counts as refused"
	}
	return e.close(ctx, a, card, "", nil)
}

// Expire closes every decision whose time is over: that counts as refused. Any replica may do it at any time.
func (e *Engine) Expire(ctx context.Context) error {
	open, err := journal.OpenApprovals(ctx, e.o.Store, "")
	if err != nil {
		return err
	}
	var errs []error
	for _, a := range open {
		if a.Until.IsZero() || !e.o.Now().After(a.Until) || a.Pack != e.desks.desk().Pack.Name {
			continue
		}
		a, card, err := journal.FindApproval(ctx, e.o.Store, a.ID)
		if err == nil && a.Stand == journal.Open {
			err = e.expire(ctx, a, card, e.o.Now())
		}
		if err != nil && !errors.Is(err, store.ErrConflict) { // else somebody was faster
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// expireEvery is how often the engine looks for decisions whose time is over.
const expireEvery = time.Minute

func (e *Engine) watchTheClock(ctx context.Context) {
	for e.o.Wait(ctx, expireEvery) == nil {
		if err := e.Expire(ctx); err != nil && ctx.Err() == nil {
			e.o.Log.Error().Err(err).Msg("look for decisions whose time is over")
		}
	}
}

// withdrawn ends a waiting run because somebody wants it to: its open decisions are taken back.
func (e *Engine) withdrawn(ctx context.Context, turn string, stop chat.Stop, thread string) error {
	open, err := journal.OpenApprovals(ctx, e.o.Store, thread)
	if err != nil {
		return err
	}
	for _, a := range open {
		if a.Turn != turn || a.Kind == chat.CardUnknown {
			continue
		}
		a, card, err := journal.FindApproval(ctx, e.o.Store, a.ID)
		if err != nil {
			return err
		}
		a.Stand, a.At, a.By = journal.Withdrawn, e.o.Now(), &chat.Person{ID: stop.By.ID, Kind: stop.By.Kind}
		if card != nil {
			card.Decided = "taken back: the run was stopped"
		}
		if err := e.close(ctx, a, card, "", &stop); err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return nil
}
