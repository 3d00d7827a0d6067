package slack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	slackgo "github.com/slack-go/slack"
	"golang.org/x/time/rate"

	"switchboard/turn"
)

const (
	callTime    = 10 * time.Second // of one call, answer included
	longestLook = 20 * time.Second // that a look-up waits for Slack's limits; then its caller does without
	lookTries   = 3                // of a look-up that the network or the server broke
	mostLanes   = 1000             // channels whose pace is kept; the ones at rest are forgotten beyond it
	inChannel   = "in channel "
	mostWait    = time.Minute // between two tries where Slack does not say how long to wait
)

var (
	// errDropped says that something was not shown, since Slack's limits left no room for it just then.
	errDropped = errors.New("not shown: Slack's limits leave no room for it now")
	// errBusy says that a look-up would have to wait for too long.
	errBusy = errors.New("look up: Slack's limits leave no room for it now")
)

// gate keeps the calls within Slack's limits. Its zero value is ready.
type gate struct {
	mu    sync.Mutex
	lanes map[string]*lane
	last  uint64 // number of the latest call
}

// lane is one limit: of a method, or of posting in a channel.
type lane struct {
	pace    *rate.Limiter
	shut    time.Time // Slack wants no call before
	strikes int       // waits in a row that Slack asked for without saying how long
	wary    bool      // Slack has turned a call away and taken none since: one at a time, so that the order stays
	suspect string    // of a method: the channel in which a post was turned away, if none was taken since
	flying  int       // calls that have gone in and are not answered
	queue   []*waiter // what is urgent first, then as they came
}

// waiter is a call that waits for its turn. A call that is repeated keeps its number, and so its place.
type waiter struct {
	urgency urgency
	number  uint64
	front   chan struct{} // one token each time it comes to the front
}

// call carries out one call of a Slack method, when its turn comes: in order within a channel and a method, after the wait
// that Slack has asked for, what is urgent first. A showing call that would have to wait is dropped: errDropped. A look-up
// that would have to wait for more than 20 s is given up: errBusy.
//
// A call that Slack turned away for its limits has had no effect, so it is made again. Nothing else is made again but
// look-ups: a post that was sent and not answered may stand in the channel.
func (s *Slack) call(ctx context.Context, u urgency, method, channel string, do func(context.Context) error) error {
	w := s.out.gate.waiter(u)
	again := u == looking || u == saying && repeatable(method)
	for tries := 1; ; {
		err := s.attempt(ctx, w, method, channel, do)
		_, limited := asksToWait(err)
		switch {
		case limited && u == showing:
			return errDropped
		case limited:
		case err == nil:
			return nil
		case again && lost(err) && tries < lookTries && ctx.Err() == nil:
			if werr := s.o.Wait(ctx, time.Duration(tries)*500*time.Millisecond); werr != nil {
				return fmt.Errorf("call %s: %w", method, context.Cause(ctx))
			}
			tries++
		default:
			return fmt.Errorf("call %s: %w", method, err)
		}
	}
}

// heldKey is the context's key of whether what is said may still be said.
type heldKey struct{}

// whileHeld lets calls be made only as long as the process has the thread that they speak in.
func whileHeld(ctx context.Context, held func() bool) context.Context {
	if held == nil {
		return ctx
	}
	return context.WithValue(ctx, heldKey{}, held)
}

func stillHeld(ctx context.Context) bool {
	held, ok := ctx.Value(heldKey{}).(func() bool)
	return !ok || held()
}

// attempt makes a call once, when its turn comes.
func (s *Slack) attempt(ctx context.Context, w *waiter, method, channel string, do func(context.Context) error) error {
	g, taken := &s.out.gate, false
	if channel = laneOf(method, channel); channel != "" {
		if err := s.enter(ctx, channel, pace{rate.Every(channelPace), channelBurst}, w); err != nil {
			return err
		}
		defer func() { g.landed(channel, taken, s.o.Now()) }()
	}
	if err := s.enter(ctx, method, paceOf(method), w); err != nil {
		return err
	}
	if !stillHeld(ctx) { // it may have waited long for its turn
		g.landed(method, false, s.o.Now())
		return turn.ErrTakenOver
	}
	err := s.once(ctx, do)
	if method != "apps.connections.open" { // goes by the app token
		s.tell(err)
	}
	wait, limited := asksToWait(err)
	if limited {
		g.refused(method, channel, wait, s.o.Now())
	}
	taken = !limited
	g.landed(method, taken, s.o.Now())
	return err
}

// tell lets the health know what became of a call with the bot token.
func (s *Slack) tell(err error) {
	if err == nil {
		s.health.tokenWorks()
	} else if code(err) != "" {
		s.health.refusedToken(err)
	}
}

// once makes a call, within its time.
func (s *Slack) once(ctx context.Context, do func(context.Context) error) error {
	cause := fmt.Errorf("no answer from Slack within %s: %w", callTime, context.DeadlineExceeded)
	within, cancel := context.WithTimeoutCause(ctx, callTime, cause)
	defer cancel()
	err := do(within)
	_, limited := asksToWait(err)
	if err != nil && within.Err() != nil && code(err) == "" && !limited { // the library gives the context's error, which does not say whose time was over
		return errors.Join(errLost, context.Cause(within))
	}
	return err
}

// enter waits until a lane has room for the call.
func (s *Slack) enter(ctx context.Context, name string, p pace, w *waiter) error {
	g := &s.out.gate
	g.queue(name, p, w)
	defer func() { g.leave(name, w, s.o.Now()) }()
	for {
		wait, first := g.ask(name, w, s.o.Now())
		switch {
		case first && wait <= 0:
			return nil
		case w.urgency == showing:
			return errDropped
		case w.urgency == looking && wait > longestLook:
			return errBusy
		case first:
			if err := s.o.Wait(ctx, wait); err != nil {
				return fmt.Errorf("wait for Slack's limits of %s: %w", name, context.Cause(ctx))
			}
		default:
			select {
			case <-w.front:
			case <-ctx.Done():
				return fmt.Errorf("wait for Slack's limits of %s: %w", name, context.Cause(ctx))
			}
		}
	}
}

func (g *gate) waiter(u urgency) *waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last++
	return &waiter{urgency: u, number: g.last, front: make(chan struct{}, 1)}
}

// queue puts a call in its place in the lane.
func (g *gate) queue(name string, p pace, w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lane(name, p)
	at, _ := slices.BinarySearchFunc(l.queue, w, func(a, b *waiter) int {
		if a.urgency != b.urgency {
			return int(a.urgency) - int(b.urgency)
		}
		if a.number < b.number {
			return -1
		}
		return 1
	})
	l.queue = slices.Insert(l.queue, at, w)
}

// ask says whether a call is the first of its lane, and how long it must wait then. A call that may go has taken its room.
func (g *gate) ask(name string, w *waiter, now time.Time) (wait time.Duration, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lanes[name]
	if wait = l.shut.Sub(now); wait > 0 {
		return wait, l.queue[0] == w
	}
	if l.queue[0] != w || l.wary && l.flying > 0 {
		return 0, false
	}
	if w.urgency == showing && !l.roomy(now) {
		return time.Second, true
	}
	if w.urgency == showing || strings.HasPrefix(name, inChannel) || l.pace.TokensAt(now) > -float64(l.pace.Burst()) {
		r := l.pace.ReserveN(now, 1)
		// What is said or looked up keeps no pace of its own: Slack takes more than it promises, and says when it does not.
		if wait = r.DelayFrom(now); wait > 0 && strings.HasPrefix(name, inChannel) {
			r.CancelAt(now)
			return wait, true
		}
	}
	l.flying++
	return 0, true
}

// roomy says whether something may be shown: a third of the room is kept for what is said.
func (l *lane) roomy(now time.Time) bool {
	return l.pace.TokensAt(now) >= float64(l.pace.Burst())/3
}

// spare takes room for a later call of a method, if it has some to spare.
func (g *gate) spare(method string, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lane(method, paceOf(method))
	return !l.shut.After(now) && l.roomy(now) && l.pace.AllowN(now, 1)
}

// lane gives a lane, and makes it where it is new.
func (g *gate) lane(name string, p pace) *lane {
	if g.lanes == nil {
		g.lanes = map[string]*lane{}
	}
	l := g.lanes[name]
	if l == nil {
		l = &lane{pace: rate.NewLimiter(p.limit, p.burst)}
		g.lanes[name] = l
	}
	return l
}

// landed says that a call which has gone into a lane was answered, or never will be. taken: Slack did not turn it away.
func (g *gate) landed(name string, taken bool, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lanes[name]
	l.flying--
	if taken {
		l.suspect = ""
	}
	if taken && !l.shut.After(now) { // else it was under way before another was turned away
		l.strikes, l.wary = 0, false
	}
	l.call()
}

// call tells the first in the queue that it may be its turn.
func (l *lane) call() {
	if len(l.queue) > 0 {
		select {
		case l.queue[0].front <- struct{}{}:
		default:
		}
	}
}

// leave takes a call out of the lane's queue, and tells the next one.
func (g *gate) leave(name string, w *waiter, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lanes[name]
	if at := slices.Index(l.queue, w); at >= 0 {
		l.queue = slices.Delete(l.queue, at, at+1)
	}
	if l.call(); len(g.lanes) > mostLanes {
		for other, l := range g.lanes {
			if strings.HasPrefix(other, inChannel) && l.rests(now) {
				delete(g.lanes, other)
			}
		}
	}
}

// rests says that a lane knows nothing that a new one would not.
func (l *lane) rests(now time.Time) bool {
	return len(l.queue) == 0 && l.flying == 0 && !l.wary && !l.shut.After(now) && l.pace.TokensAt(now) >= float64(l.pace.Burst())
}

// refused says that Slack turned a call away for its limits. Of a post it does not say whether the channel's limit is over or
// the method's: the channel waits, so that the other channels need not, and the method only once a post in another channel
// is turned away too. Slack: https://docs.slack.dev/apis/web-api/rate-limits
func (g *gate) refused(method, channel string, wait time.Duration, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lanes[method]
	if channel == "" {
		l.close(wait, now)
		return
	}
	wait = g.lanes[channel].close(wait, now)
	if l.suspect == "" || l.suspect == channel {
		l.suspect = channel
		return
	}
	l.suspect = "" // after the wait both have to be turned away again, so that a full channel cannot keep the others back
	l.close(wait, now)
}

// close keeps a lane's calls back for as long as Slack asks for; where it does not say, for longer each time. It gives the
// time.
func (l *lane) close(wait time.Duration, now time.Time) time.Duration {
	if wait <= 0 {
		wait = min(time.Second<<min(l.strikes, 10), mostWait)
		l.strikes++
	}
	l.wary = true
	if until := now.Add(wait); until.After(l.shut) {
		l.shut = until
	}
	return wait
}

// In a channel Slack takes about one post a second, "bursts are tolerated": https://docs.slack.dev/apis/web-api/rate-limits
const (
	channelPace  = time.Second
	channelBurst = 5
)

// pace is how many calls there may be a second in the long run, and how many at once.
type pace struct {
	limit rate.Limit
	burst int
}

// paceOf gives the pace of a method. Slack counts by the minute, so that a third of a minute's calls at once leave it room.
func paceOf(method string) pace {
	n := perMinute(method)
	return pace{limit: rate.Limit(n / 60), burst: int(n / 3)}
}

// laneOf gives the lane of a channel that a call goes through before its method's, "" where there is none.
func laneOf(method, channel string) string {
	switch method {
	case "chat.postMessage", "chat.startStream", "chat.postEphemeral", "files.completeUploadExternal":
		if channel != "" {
			return inChannel + channel
		}
	}
	return ""
}

// repeatable says that calling a method twice is as good as calling it once.
func repeatable(method string) bool {
	switch method {
	case "conversations.replies", "conversations.history", "conversations.info", "conversations.open", "users.info",
		"usergroups.list", "usergroups.users.list", "files.info", "files.getUploadURLExternal", "chat.delete":
		return true
	}
	return false
}

// perMinute is how often a method may be called. Slack: the method's tier on its reference page (2: 20, 3: 50, 4: 100), and
// for chat.postMessage "several hundred a minute" for a workspace, https://docs.slack.dev/apis/web-api/rate-limits
func perMinute(method string) float64 {
	switch method {
	case "chat.startStream", "chat.stopStream", "usergroups.list", "usergroups.users.list", "users.list", "conversations.list":
		return 20
	case "chat.appendStream", "chat.postEphemeral", "users.info", "conversations.members", "assistant.threads.setSuggestedPrompts",
		"views.open", "views.update", "views.publish", "views.push", "files.getUploadURLExternal", "files.completeUploadExternal":
		return 100
	case "chat.postMessage":
		return 300
	case "assistant.threads.setStatus": // https://docs.slack.dev/reference/methods/assistant.threads.setStatus
		return 600
	}
	return 50
}

// errLost marks a call of which it is not known whether it had an effect.
var errLost = errors.New("no answer")

// code gives Slack's name of an error, "" for one that is not Slack's.
func code(err error) string {
	e, _ := errors.AsType[slackgo.SlackErrorResponse](err)
	return e.Err
}

// asksToWait says whether Slack turned the call away for its limits, and for how long; 0 where it does not say. Slack
// answers so with status 429, with and without the header, and some methods with status 200 and an error.
func asksToWait(err error) (time.Duration, bool) {
	if limit, ok := errors.AsType[*slackgo.RateLimitedError](err); ok {
		return limit.RetryAfter, true
	}
	if status, ok := errors.AsType[slackgo.StatusCodeError](err); ok && status.Code == http.StatusTooManyRequests {
		return 0, true
	}
	switch code(err) {
	case "ratelimited", "rate_limited":
		return 0, true
	}
	return 0, false
}

// lost says that a call was not answered, or by nobody who knows: it may have had its effect.
func lost(err error) bool {
	if err == nil || code(err) != "" {
		return false
	}
	if errors.Is(err, errLost) {
		return true
	}
	if status, ok := errors.AsType[slackgo.StatusCodeError](err); ok {
		return status.Code >= http.StatusInternalServerError
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return !errors.Is(err, errDropped) && !errors.Is(err, errBusy) && !errors.Is(err, context.Canceled)
}
