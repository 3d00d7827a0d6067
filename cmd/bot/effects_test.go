package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"switchboard/examples/backoffice"
	"switchboard/slack/sim"
	"switchboard/store/redistest"
)

// errand is one refund that somebody asks for and finance approves, and what became of it as the world outside sees it.
type errand struct {
	w         *effectWorld
	b         *effectBot
	kind      string // refund | payout
	channel   string
	order     string
	mark      string
	cents     int
	asker     string
	root      string // ts of the message
	from      int    // entry of the log
	refunds   []backoffice.Effect
	notices   []backoffice.Effect
	cards     []sim.Message
	doubts    []sim.Message // cards that ask whether it happened
	replies   []sim.Message
	others    []sim.Message
	inFinance []sim.Message
}

const errandCents = 8000

// errand lets Sue ask for something and Bob approve it. Where deadly is not "", the bot dies there and is started again; died
// says whether it came by.
func (w *effectWorld) errand(b *effectBot, kind, deadly string) (e *errand, died bool, err error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), errandTime)
	defer cancel()
	if e, err = w.newErrand(ctx, kind); err != nil {
		return nil, false, err
	}
	e.b = b
	w.points.begin(deadly)
	over := make(chan struct{})
	nursed := make(chan error, 1)
	go func() {
		var err error
		if died, err = w.nurse(ctx, b, over); err != nil {
			cancel()
		}
		nursed <- err
	}()
	err = e.play(ctx)
	if mayBePassed(deadly) || deadly == "" || err != nil {
		close(over)
	}
	err = errors.Join(err, <-nursed)
	if err == nil {
		err = b.idle(ctx)
	}
	if err != nil {
		w.dump(e.from)
		return nil, died, fmt.Errorf("%s of %s, killed at %q: %w\npassed %v\n%s", kind, e.order, deadly, err, w.points.passed(), b.out)
	}
	return e, died, nil
}

// newErrand has an order of its own.
func (w *effectWorld) newErrand(ctx context.Context, kind string) (*errand, error) {
	w.mu.Lock()
	w.orders++
	n := w.orders
	w.mu.Unlock()
	e := &errand{w: w, kind: kind, order: fmt.Sprintf("A-%d", n), mark: fmt.Sprintf("m%d", n), cents: errandCents, asker: "U0SUE", from: w.ws.Mark()}
	// A channel of its own: the bot spaces what it says in one.
	e.channel = w.ws.AddChannel(sim.Channel{ID: fmt.Sprintf("C0S%d", n), Name: fmt.Sprintf("support-%d", n), Members: w.people}).ID
	return e, w.office.AddOrders(ctx, "shop_eu", backoffice.Order{Number: e.order, Paid: 3 * errandCents, Delivered: time.Hour})
}

// errandTime is more than anything may take, the lease of a dead bot included.
const errandTime = 40 * time.Second

// nurse starts the bot again once it has died.
func (w *effectWorld) nurse(ctx context.Context, b *effectBot, over <-chan struct{}) (died bool, err error) {
	select {
	case <-w.points.died:
		return true, b.start() //nolint:contextcheck // a bot lives until the end of the test
	case <-over:
		return false, nil
	case <-ctx.Done():
		return false, fmt.Errorf("the bot never came by: %w", context.Cause(ctx))
	}
}

// dump prints the log from an entry on.
func (w *effectWorld) dump(from int) {
	for _, e := range w.ws.Since(from) {
		w.t.Logf("%d %s %s %s %s %s %s %.200q", e.N, e.At.Format("05.000"), e.What, e.Method, e.Person, e.TS, e.Error, e.Text)
	}
}

// play says the message, clicks, and waits for the answer.
func (e *errand) play(ctx context.Context) error {
	if err := e.say(); err != nil {
		return err
	}
	if _, err := e.card(ctx, "C0FINANCE"); err != nil {
		return err
	}
	card, err := e.card(ctx, e.channel)
	if err != nil {
		return err
	}
	if err := e.b.idle(ctx); err != nil { // nobody is so fast
		return err
	}
	if err := e.approve(ctx, "U0BOB", card); err != nil {
		return err
	}
	return e.answered(ctx)
}

// say asks the bot.
func (e *errand) say() (err error) {
	e.root, err = e.w.ws.Say(sim.Say{From: e.asker, Channel: e.channel, Text: fmt.Sprintf("<@%s> %s %s %d %s", botUser, e.kind, e.order, e.cents, e.mark)})
	return err
}

// card waits for the card in a channel.
func (e *errand) card(ctx context.Context, channel string) (*sim.Message, error) {
	card, err := e.w.ws.Await(ctx, e.from, func(l sim.Entry) bool {
		return l.What == sim.Posted && l.Channel == channel && strings.Contains(l.Text, e.order) && button(l.Message, "approve") != ""
	})
	if err != nil {
		return nil, fmt.Errorf("await the card of %s in channel %s: %w", e.order, channel, err)
	}
	return card.Message, nil
}

// answered waits for the answer.
func (e *errand) answered(ctx context.Context) error {
	if _, err := e.w.ws.Await(ctx, e.from, e.says(whole)); err != nil {
		return fmt.Errorf("await the answer to %s: %w", e.mark, err)
	}
	return nil
}

// says tells the entries about a message of the bot in the errand's thread that holds a text.
func (e *errand) says(text string) func(sim.Entry) bool {
	return func(l sim.Entry) bool {
		return l.Thread == e.root && l.App != "" && l.Message != nil && strings.Contains(l.Text, text)
	}
}

// approve clicks until a click is taken in, as people do.
func (e *errand) approve(ctx context.Context, who string, m *sim.Message) error {
	ws := e.w.ws
	for {
		from := ws.Mark()
		delivery, err := ws.Click(sim.Click{From: who, Channel: m.Channel, TS: m.TS, Action: "switchboard.card.approve"})
		if err != nil {
			if now := e.w.message(m.Channel, m.TS); now != nil && button(now, "approve") == "" {
				return nil // it stands there as decided
			}
			return err
		}
		end, err := ws.Await(ctx, from, func(l sim.Entry) bool {
			return l.Delivery == delivery && (l.What == sim.Acked || l.What == sim.GivenUp)
		})
		if err != nil {
			return fmt.Errorf("await the acknowledgement of a click: %w", err)
		}
		if end.What == sim.Acked {
			return nil
		}
		for ws.Sockets("").Open == 0 {
			if _, err := ws.Await(ctx, from, func(l sim.Entry) bool { return l.What == sim.Opened }); err != nil {
				return fmt.Errorf("await the bot after a click that got no answer: %w", err)
			}
		}
	}
}

// message gives a message as it stands.
func (w *effectWorld) message(channel, ts string) *sim.Message {
	all := w.ws.Messages(channel)
	if i := slices.IndexFunc(all, func(m sim.Message) bool { return m.TS == ts }); i >= 0 {
		return &all[i]
	}
	return nil
}

// button gives the id of the card whose button of a kind a message has.
func button(m *sim.Message, say string) string {
	if m == nil {
		return ""
	}
	for _, raw := range m.Blocks {
		var b struct {
			Elements []struct {
				Action string `json:"action_id"`
				Value  string
			}
		}
		if json.Unmarshal(raw, &b) != nil { // other blocks have other elements
			continue
		}
		for _, e := range b.Elements {
			if e.Action == "switchboard.card."+say {
				return e.Value
			}
		}
	}
	return ""
}

// see takes in how the world stands now.
func (e *errand) see() error {
	effects, err := e.w.office.Effects(e.w.t.Context())
	if err != nil {
		return err
	}
	for _, f := range effects {
		if f.Order != e.order {
			continue
		}
		if f.Kind == "refund" {
			e.refunds = append(e.refunds, f)
		} else {
			e.notices = append(e.notices, f)
		}
	}
	for _, m := range e.w.ws.Messages(e.channel) {
		if m.Thread != e.root || m.App == "" || m.To != "" {
			continue
		}
		switch text := m.Visible(); {
		case strings.Contains(text, "Did this take place?"):
			e.doubts = append(e.doubts, m)
		case strings.Contains(text, "Approval needed"):
			e.cards = append(e.cards, m)
		case strings.Contains(text, whole):
			e.replies = append(e.replies, m)
		default:
			e.others = append(e.others, m)
		}
	}
	for _, m := range e.w.ws.Messages("C0FINANCE") {
		if m.App != "" && m.To == "" && strings.Contains(m.Visible(), e.order) {
			e.inFinance = append(e.inFinance, m)
		}
	}
	return nil
}

// hold says what is wrong with an errand, as Slack and the payment provider show it.
func (e *errand) hold(at string) {
	t := e.w.t
	t.Helper()
	if err := e.see(); err != nil {
		t.Error(err)
		return
	}
	wrong := func(format string, args ...any) {
		t.Errorf("killed at %q: %s", at, fmt.Sprintf(format, args...))
	}
	if len(e.replies) != 1 {
		wrong("%d replies, want 1", len(e.replies))
	}
	if len(e.cards) != 1 || len(e.inFinance) != 1 {
		wrong("%d cards in the thread and %d in finance, want 1 and 1", len(e.cards), len(e.inFinance))
	}
	for _, m := range e.others {
		wrong("something else stands in the thread: %q", m.Visible())
	}
	text := ""
	if len(e.replies) > 0 {
		text = e.replies[0].Visible()
	}
	if e.kind == "refund" { // its provider knows keys, so nothing is ever in doubt
		if len(e.refunds) != 1 || len(e.notices) != 1 || len(e.doubts) != 0 {
			wrong("%d refunds, %d notices and %d doubts, want 1, 1 and 0", len(e.refunds), len(e.notices), len(e.doubts))
		}
		if !strings.Contains(text, e.mark+". The refund of "+e.order+": ok, ok") {
			wrong("the reply says %q", text)
		}
		return
	}
	doubtful := strings.Contains(text, ": unknown;")
	switch {
	case len(e.refunds) > 1:
		wrong("%d payouts", len(e.refunds))
	case doubtful && len(e.doubts) != 1:
		wrong("in doubt with %d cards", len(e.doubts))
	case !doubtful && (len(e.refunds) != 1 || len(e.doubts) != 0 || !strings.Contains(text, ": ok;")):
		wrong("%d payouts and %d doubts; the reply says %q", len(e.refunds), len(e.doubts), text)
	}
}

// errandSteps are the steps of a refund above the limit, as the bot's store, Slack, the model and the back office see them. A
// bot can die before each of them and after.
func errandSteps() []string {
	return []string{
		"push#1",
		"claim#1",
		"model routes#1",
		"commit(turn.begun,step,turn.routed)#1",
		"model asks for orders__get#1",
		"commit(step,call.intent)#1",
		"tool GET /orders/{order}#1",
		"slack chat.postMessage(draft)#1",
		"commit(call.outcome)#1",
		"model asks for payments__refund#1",
		"tool GET /orders/{order}#2", // for the rules
		"commit(step,call.intent,approval,waiting)#1",
		"commit(turn,words of turn)#1",
		"slack chat.postMessage(card)#1",
		"slack chat.delete#1",
		"slack chat.postMessage(card in finance)#1",
		"slack chat.update(card)#1",
		"commit(turn.waits,ack)#1",
		"commit(call.decided,approval,waiting,push)#1",
		"slack chat.postEphemeral#1",
		"slack chat.update(card in finance)#1",
		"claim#2",
		"tool GET /orders/{order}#3", // for the rules again
		"commit(call.attempt,approval)#1",
		"tool POST /refunds#1",
		"commit(call.outcome)#2",
		"model asks for customers__notify#1",
		"commit(step,call.intent,call.attempt)#1",
		"tool POST /orders/{order}/notify#1",
		"commit(call.outcome)#3",
		"model replies#1",
		"commit(step)#1",
		"slack says the reply#1",
		"commit(turn.ended,ack)#1",
	}
}

// payoutSteps are the steps of a payout from its approval on.
func payoutSteps() []string {
	return []string{
		"commit(call.decided,approval,waiting,push)#1",
		"claim#2",
		"commit(call.attempt,approval)#1",
		"tool POST /payouts#1",
		"commit(call.outcome)#2",
		"model replies#1",
		"commit(step)#1",
		"slack says the reply#1",
		"commit(turn.ended,ack)#1",
	}
}

// pointsOf are the points before and after steps.
func pointsOf(steps []string) []string {
	var out []string
	for _, s := range steps {
		name, n, _ := strings.Cut(s, "#")
		if name != "claim" { // nobody sees a claim that waits
			out = append(out, name+".before#"+n)
		}
		out = append(out, name+".after#"+n)
	}
	return out
}

// What is shown beside an answer is best effort, and a message that comes in two events is pushed once or twice.
var shown = regexp.MustCompile(`^(push|slack chat\.(update|delete|postEphemeral|postMessage\(draft\)))`)

// mayBePassed says whether a bot may do its work without coming by a point.
func mayBePassed(point string) bool { return shown.MatchString(point) }

// The list of points is that of what a bot really passes: none is missing there, and none here.
func TestRel_R02_EveryPointIsNamed(t *testing.T) {
	t.Parallel()
	w := newEffectWorld(t, effectOptions{})
	b := w.start()
	for kind, steps := range map[string][]string{"refund": errandSteps(), "payout": payoutSteps()} {
		list := pointsOf(steps)
		missing := slices.Clone(list)
		for try := 0; len(missing) > 0; try++ { // what is shown may be left out
			e, _, err := w.errand(b, kind, "")
			if err != nil {
				t.Fatal(err)
			}
			e.hold("")
			passed := w.points.passed()
			missing = slices.DeleteFunc(missing, func(p string) bool { return slices.Contains(passed, p) })
			for _, p := range passed {
				if kind == "refund" && !slices.Contains(list, p) && !mayBePassed(p) {
					t.Errorf("a refund passes %s, which is not in the list: add it, so that bots are killed there", p)
				}
			}
			if try == 3 && len(missing) > 0 {
				t.Fatalf("a %s does not pass %v", kind, missing)
			}
		}
	}
	b.stop()
	if err := w.books(t.Context()); err != nil {
		t.Error(err)
	}
}

// killAt lets bots of several worlds die at points, once at each, and holds what became of it.
func killAt(t *testing.T, worlds int, o effectOptions, kind string, points []string) {
	t.Helper()
	queue := make(chan string, len(points))
	for _, p := range points {
		queue <- p
	}
	close(queue)
	var working sync.WaitGroup
	for range min(worlds, len(points)) {
		w := newEffectWorld(t, o)
		b := w.start()
		working.Go(func() {
			for p := range queue {
				if err := w.dieAt(b, kind, p); err != nil {
					t.Error(err)
					return
				}
			}
			b.stop()
			if err := w.books(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	working.Wait()
	for p := range queue {
		t.Errorf("nobody came to %s", p)
	}
}

// dieAt lets the bot die at a point.
func (w *effectWorld) dieAt(b *effectBot, kind, point string) error {
	for range 4 {
		e, died, err := w.errand(b, kind, point)
		if err != nil {
			return err
		}
		e.hold(point)
		if died {
			return nil
		}
	}
	return fmt.Errorf("the bot never comes by %s", point)
}

// A bot is killed at every point of a turn with an effect, and started again: nothing is lost, the money is paid back once, the
// customer hears of it once, and so does the clerk.
func TestRel_R02_KilledAtEveryPointOfARefund(t *testing.T) {
	t.Parallel()
	killAt(t, 3, effectOptions{}, "refund", pointsOf(errandSteps()))
}

// The same where the provider knows no keys and cannot be asked: at most once, and a person is asked where nobody knows.
func TestRel_E08_KilledAtEveryPointOfAPayoutWithoutKey(t *testing.T) {
	t.Parallel()
	killAt(t, 2, effectOptions{}, "payout", pointsOf(payoutSteps()))
}

// And on Redis, where the next bot has to wait until the lease of the dead one is over.
func TestRel_R02_KilledAtPointsOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	points := pointsOf(errandSteps())
	rnd := mathrand.New(mathrand.NewPCG(4, 1)) //nolint:gosec // a test that can be played again
	rnd.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	killAt(t, 6, effectOptions{store: server.URL()}, "refund", points[:12])
}
