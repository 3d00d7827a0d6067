package tools

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode"

	"switchboard/chat"
	"switchboard/config"
	"switchboard/guards"
	"switchboard/journal"
)

// mostOpen is how many decisions may wait in a thread at once: who is asked too often stops reading.
const mostOpen = 3

// mostAsked is how long a request may be that a person decides about, in bytes.
const mostAsked = 256 << 10

// Origin says for whom a run asks people, and where.
type Origin struct {
	Pack, Version string // the bot, and the version that the run is pinned to
	Thread        string // where a decision is queued
	Assistant     string
	Requester     chat.Person
	Open          func(ctx context.Context) (int, error) // how many decisions wait in the thread
	Unknown       []string                               // who finds out about effects in doubt; empty: the requester
	// May says whether a person may still meet a need. It is asked again when the call is about to run.
	May func(n journal.Need, by chat.Person) bool
}

// ask makes the wish that a person should decide durable. The call then waits: no goroutine does.
func (d *Dispatcher) ask(ctx context.Context, w wish, v guards.Verdict) (Answer, error) {
	d.asking.Lock() // reads of a round run side by side: what is open is counted and added to by one at a time
	defer d.asking.Unlock()
	open, err := d.o.Origin.Open(ctx)
	if err != nil {
		return Answer{}, err
	}
	if open >= mostOpen {
		why := fmt.Sprintf("%d decisions are waiting in this thread already; a person has to make them first", open)
		return d.notRun(ctx, w, guards.Verdict{Say: guards.Refuse, Why: why})
	}
	if max(len(w.request), len(w.call.Args)) > mostAsked {
		why := fmt.Sprintf("the call is longer than the %d bytes that a person can be asked to read; make it smaller", mostAsked)
		return d.notRun(ctx, w, guards.Verdict{Say: guards.Refuse, Why: why})
	}
	now := d.o.Now()
	a := d.o.Origin.approval(w.call, d.o.Record.Turn(), kindOf(w.bound.Contract), now)
	a.Request = w.call.Request
	card := d.card(w, a, v)
	var within time.Duration
	for _, n := range v.Needs {
		a.Needs = append(a.Needs, journal.Need{Rule: n.Rule, At: n.At, By: n.By, FourEyes: n.FourEyes})
		if within == 0 || n.Within < within {
			within = n.Within
		}
		if n.In != "" && !slices.Contains(a.In, n.In) {
			a.In = append(a.In, n.In)
		}
	}
	a.Until = now.Add(within)
	card.Until, card.Deciders = a.Until, deciders(a, d.o.Origin.Requester)
	c := w.call
	c.Verdict, c.RuleAt, c.Card, c.Rules = string(guards.Ask), v.Rule, a.ID, journal.Rules(a.Needs)
	if err := d.o.Record.Ask(context.WithoutCancel(ctx), c, a, card); err != nil {
		return Answer{}, err
	}
	d.keep(c)
	d.watch(c)
	return Answer{Waits: true}, nil
}

// boundNote stands beside a value that the runtime binds, and that nobody is shown.
const boundNote = "set by the bot itself"

func kindOf(t *config.Tool) chat.CardKind {
	if t.Name == AskPerson {
		return chat.CardAsk
	}
	return chat.CardApprove
}

// approval begins the record of a decision about a call.
func (o Origin) approval(c journal.Call, turn string, kind chat.CardKind, now time.Time) journal.Approval {
	return journal.Approval{
		ID: journal.CardID(turn, c.Seq, kind), Kind: kind, Pack: o.Pack, Version: o.Version, Turn: turn, Seq: c.Seq, Tool: c.Tool,
		Thread: o.Thread, Requester: o.Requester.ID, Call: c.Digest, Asked: now, Stand: journal.Open,
	}
}

// deciders lists those who may decide, for people.
func deciders(a journal.Approval, requester chat.Person) []string {
	var out []string
	add := func(who string) {
		if !slices.Contains(out, who) {
			out = append(out, who)
		}
	}
	for _, n := range a.Needs {
		for _, who := range n.By {
			if who == config.Requester {
				who = requester.ID
			}
			if !n.FourEyes || who != requester.ID {
				add(who)
			}
		}
	}
	return out
}

// card draws what the person who decides sees, from the arguments that will run and from nothing else.
func (d *Dispatcher) card(w wish, a journal.Approval, v guards.Verdict) chat.Card {
	card := d.cardOf(w.call, a)
	card.Title, card.Digest = d.mask(w.bound.Contract.About), w.call.Request
	if a.Kind == chat.CardAsk {
		card.Question, _ = w.input.Args["question"].(string)
		card.Question = d.mask(card.Question)
		return card
	}
	card.Args = append(card.Args, d.fields("", w.input.Args)...)
	for arg, name := range w.bound.Contract.Bind {
		card.Args = append(card.Args, chat.Field{Name: arg, Value: "‹" + name + "›", Note: boundNote})
	}
	sort.SliceStable(card.Args, func(i, j int) bool { return card.Args[i].Name < card.Args[j].Name })
	card.Facts = d.fields("", w.facts)
	for _, n := range v.Needs {
		line := n.Why
		if n.At != "" {
			line += " (" + n.At + ")"
		}
		card.Rules = append(card.Rules, d.mask(line))
	}
	return card
}

func (d *Dispatcher) cardOf(c journal.Call, a journal.Approval) chat.Card {
	return chat.Card{
		ID: a.ID, Kind: a.Kind, Turn: a.Turn, Tool: c.Tool, Asker: d.o.Origin.Requester, Channel: d.o.Asked.Channel.ID, Assistant: d.o.Origin.Assistant, Why: c.Why, Expects: c.Expects,
	}
}

// fields spells a value out, one line for each of its parts.
func (d *Dispatcher) fields(under string, v any) []chat.Field {
	obj, ok := v.(map[string]any)
	if !ok || under != "" && len(obj) == 0 {
		text, isText := v.(string)
		if !isText {
			text = string(config.Canonical(v))
		}
		text = d.mask(text)
		return []chat.Field{{Name: under, Value: text, Note: note(text)}}
	}
	names := make([]string, 0, len(obj))
	for name := range obj {
		names = append(names, name)
	}
	sort.Strings(names)
	var out []chat.Field
	for _, name := range names {
		full := d.mask(name)
		if under != "" {
			full = under + "." + full
		}
		out = append(out, d.fields(full, obj[name])...)
	}
	return out
}

// note says what a reader could miss in a text.
func note(text string) string {
	var notes []string
	hidden, scripts := false, map[string]bool{}
	for _, r := range text {
		hidden = hidden || unicode.In(r, unicode.Cf, unicode.Co) || unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Variation_Selector, r)
		for name, table := range map[string]*unicode.RangeTable{"Latin": unicode.Latin, "Cyrillic": unicode.Cyrillic, "Greek": unicode.Greek, "Armenian": unicode.Armenian, "Cherokee": unicode.Cherokee} {
			if unicode.Is(table, r) {
				scripts[name] = true
			}
		}
	}
	if hidden {
		notes = append(notes, "holds characters that nobody sees")
	}
	if len(scripts) > 1 {
		notes = append(notes, "mixes alphabets whose letters look alike")
	}
	return strings.Join(notes, "; ")
}

// Doubt draws up the question whether an effect took place, which only a person can find out.
func (d *Dispatcher) doubtful(c journal.Call, why string) (journal.Approval, chat.Card) {
	a := d.o.Origin.approval(c, d.o.Record.Turn(), chat.CardUnknown, d.o.Now())
	by := d.o.Origin.Unknown
	if len(by) == 0 {
		by = []string{config.Requester}
	}
	a.Needs = []journal.Need{{Rule: "unknown", By: by}}
	a.Request = c.Request
	card := d.cardOf(c, a)
	card.Digest, card.Deciders = c.Request, deciders(a, d.o.Origin.Requester)
	if b, ok := d.tools[c.Tool]; ok {
		card.Title = d.mask(b.Contract.About)
	}
	if v, err := config.DecodeJSON(c.Args); err == nil {
		card.Args = d.fields("", v)
	}
	card.Question = fmt.Sprintf("Nobody knows whether this took effect: %s", strings.TrimRight(why, "."))
	if len(c.Attempts) > 0 {
		card.Question += fmt.Sprintf(". It was begun at %s", c.Begun.UTC().Format(time.RFC3339))
		if key := c.Attempts[0].Key; key != "" {
			card.Question += " under the key " + key
		}
	}
	card.Question += ". Please look there and say what you find; it will not be made again."
	return a, card
}

// decided goes on with a call that has waited: as its person said, and only if everything is as it was when they were asked.
// held: an earlier call of its round still waits, and this one may not overtake it.
func (d *Dispatcher) decided(ctx context.Context, w wish, past journal.Call, held bool) (Answer, error) {
	if past.Decided == nil {
		return Answer{Waits: true}, nil
	}
	said := past.Decided
	reason := ""
	if said.Words != "" {
		reason = ": " + said.Words
	}
	fresh := w
	w.call = past
	switch said.Stand {
	case journal.Rejected:
		return d.settle(ctx, w, d.failed(w, journal.Denied, "", "a person refused this"+reason))
	case journal.Expired:
		return d.settle(ctx, w, d.failed(w, journal.Denied, "", "nobody decided this in time, which counts as refused"))
	case journal.Withdrawn:
		return d.settle(ctx, w, d.failed(w, journal.NotRun, "", "the run was stopped before this was decided"))
	case journal.Answered:
		return d.settle(ctx, w, d.ok(w, map[string]any{"answer": said.Words, "by": said.By}, Output{}))
	case journal.Approved:
	default:
		return Answer{}, fmt.Errorf("call %s: the decision %s is of an unknown kind %q", past.Tool, past.Card, said.Stand)
	}
	if held {
		return Answer{Waits: true}, nil
	}
	refuse := func(why string) (Answer, error) {
		return d.settle(ctx, w, d.failed(w, journal.Denied, "", why))
	}
	a, _, err := journal.FindApproval(ctx, d.o.Approvals, past.Card)
	if err != nil {
		return Answer{}, err
	}
	fresh.ready()
	switch {
	case fresh.wrong != "":
		return refuse("it was approved, but it cannot be made any more: " + fresh.wrong)
	case a.Used || a.Stand != journal.Approved:
		return refuse("the decision was used before; ask again")
	case fresh.call.Digest != past.Digest || a.Call != past.Digest || fresh.call.Request != past.Request || a.Request != past.Request:
		return refuse("what would be done now is not what was approved; ask again")
	}
	if !a.Until.IsZero() && d.o.Now().After(a.Until) {
		return refuse("it was approved, but the time for it was over before it could be done; ask again")
	}
	for _, n := range a.Needs {
		if n.Signed == nil || !d.o.Origin.May(n, *n.Signed) {
			return refuse("who approved this may not decide it any more; ask again")
		}
	}
	if v := d.factsAndRules(ctx, &fresh); v.Say != guards.Allow {
		if v.Say != guards.Ask {
			return refuse("it was approved, but the rules forbid it now: " + v.Why)
		}
		if rulesOf(v.Needs) != past.Rules {
			return refuse("it was approved under other rules than hold now; ask again")
		}
	}
	return d.begin(ctx, fresh.as(past), &a)
}

func rulesOf(needs []guards.Need) string {
	var out []journal.Need
	for _, n := range needs {
		out = append(out, journal.Need{Rule: n.Rule})
	}
	return journal.Rules(out)
}

// as is the wish with the record that it has already.
func (w wish) as(past journal.Call) wish {
	w.call = past
	return w
}
