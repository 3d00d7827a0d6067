package slack

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	slackgo "github.com/slack-go/slack"

	"switchboard/chat"
	"switchboard/journal"
	"switchboard/turn"
)

const (
	gather     = 500 * time.Millisecond // between the first words and their being shown, so that they are more than one
	streamPace = time.Second            // between two pieces of a stream
	editPace   = 3 * time.Second        // between two edits of a message. Slack: as advised for live updates, https://docs.slack.dev/reference/methods/chat.update
	earlyPace  = time.Second            // for the first edits
	earlyEdits = 3
	idleTime   = 15 * time.Minute // after the last sign of life of a turn
	mostTasks  = 10               // cards that a draft shows
	mostShows  = 5000             // turns that are shown at once
)

// outbound is the state of what is being said and shown.
type outbound struct {
	gate  gate
	cards cards

	mu      sync.Mutex
	shows   map[string]*show     // by turn
	refused map[string]time.Time // what this workspace does not let the bot do -> until when that is believed
	shut    bool
	live    sync.WaitGroup
}

func (o *outbound) begin() {
	o.shows, o.refused = map[string]*show{}, map[string]time.Time{}
	o.cards.begin()
}

// close takes back what is being shown, and waits for it, at most until ctx ends.
func (o *outbound) close(ctx context.Context) error {
	o.mu.Lock()
	o.shut = true
	left := make([]*show, 0, len(o.shows))
	for _, sh := range o.shows {
		left = append(left, sh)
		sh.tell(turn.Progress{Ended: true})
	}
	o.mu.Unlock()
	done := make(chan struct{})
	go func() {
		o.live.Wait()
		close(done)
	}()
	select {
	case <-done:
		o.cards.cancel()
		return nil
	case <-ctx.Done():
	}
	o.cards.cancel()
	for _, sh := range left {
		sh.abort()
	}
	<-done
	return context.Cause(ctx)
}

func (o *outbound) closing() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.shut
}

// spot is where something is said.
type spot struct {
	channel string
	root    string // ts of the thread's first message; "" outside of threads
	dm      bool
}

func placeOf(m chat.Message) spot {
	p := spot{channel: m.Thread.Channel, root: m.Thread.Root}
	if p.channel == "" {
		p.channel = m.Channel.ID
	}
	p.dm = m.Channel.Visibility == chat.DM || strings.HasPrefix(p.channel, "D")
	if !isTS(p.root) {
		p.root = ""
		if !p.dm && isTS(m.ID) {
			p.root = m.ID
		}
	}
	return p
}

// isTS says whether a text is a timestamp of Slack's, the name of a message within its channel.
func isTS(s string) bool {
	seconds, micros, ok := strings.Cut(s, ".")
	if !ok || seconds == "" || micros == "" || len(seconds) > 12 || len(micros) > 9 {
		return false
	}
	return strings.Trim(seconds+micros, "0123456789") == ""
}

// show is what people see of one turn while it is under way. Its goroutine is the only one that shows it, until Post takes
// over.
type show struct {
	turn  string
	to    chat.Message // what it answers
	at    spot
	done  chan struct{}
	abort context.CancelFunc // of the calls under way

	mu      sync.Mutex
	news    news
	fresh   bool
	leaving bool
	wake    context.CancelFunc // of the pause
	held    func() bool        // see turn.Progress.Held; nil means always

	live live // the goroutine's, and once done is closed Post's
}

// news is what was said of a turn since it was last looked at.
type news struct {
	any                bool
	began, void, ended bool
	resumed            bool
	status             string
	tasks              []doing
	text               strings.Builder
}

// doing is a call, for people.
type doing struct {
	id, title string
	status    slackgo.TaskCardStatus
}

// live is what a turn has to show, and what of it stands in Slack.
type live struct {
	text   string
	tasks  []doing
	status string
	since  time.Time // there has been something to show

	changed bool      // since it was last drawn
	heard   time.Time // the last news

	messages []shown
	doubt    bool // there may be another message, of which nothing is known
	resumed  bool // there may be what another process has shown
	frozen   bool // no more of it can be shown; the reply will put it right
	edits    int
	edited   time.Time

	stream stream

	refused map[string]bool // what Slack does not let the bot do for this turn

	session bool // is set to processing
	words   string
	worded  time.Time
	busy    bool // Slack may say that the bot is busy, though words and session do not tell: a call was lost
}

// shown is a message of the turn that stands in Slack.
type shown struct {
	ts        string
	streaming bool
	seen      string // the text of a stream, or a draft as it was last drawn
}

// Show takes in a sign of life. It never waits for Slack.
func (s *Slack) Show(ctx context.Context, p turn.Progress) {
	if p.Card != nil {
		s.redraw(p.Card, whereabouts{asked: &p.To})
		if !p.Began && !p.Ended && !p.Void && p.Call == nil && p.Status == "" && p.Text == "" {
			return
		}
	}
	o := &s.out
	o.mu.Lock()
	defer o.mu.Unlock()
	sh := o.shows[p.Turn]
	if sh == nil {
		if p.Ended && !p.Resumed || o.shut || len(o.shows) >= mostShows {
			return
		}
		sh = &show{turn: p.Turn, to: p.To, at: placeOf(p.To), done: make(chan struct{})}
		var calls context.Context
		calls, sh.abort = context.WithCancel(context.WithoutCancel(ctx)) // what is shown outlives the turn that is being stopped
		calls = whileHeld(calls, sh.stillHeld)
		o.shows[p.Turn] = sh
		o.live.Go(func() {
			defer close(sh.done)
			defer sh.abort()
			s.display(calls, sh)
		})
	}
	sh.tell(p)
}

// stillHeld says whether what is shown is still this process's to change. One that stood still and was taken over finds that
// what was its draft has become the other's reply.
func (sh *show) stillHeld() bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.held == nil || sh.held()
}

// tell adds to the news. Many of them are shown at once.
func (sh *show) tell(p turn.Progress) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	switch {
	case p.Held == nil:
	case p.Ended && p.Held(): // it ended while it was this process's: so is what it leaves to be cleared away
		sh.held = nil
	default:
		sh.held = p.Held
	}
	n := &sh.news
	if p.Began {
		*n = news{began: true, resumed: n.resumed}
	}
	n.resumed = n.resumed || p.Resumed
	if p.Void {
		n.void = true
		n.text.Reset()
	}
	if p.Ended {
		n.ended = true
	}
	if p.Status != "" {
		n.status = p.Status
	}
	if p.Call != nil {
		n.tasks = append(n.tasks, taskOf(*p.Call))
	}
	n.text.WriteString(p.Text)
	sh.fresh = true
	if sh.wake != nil {
		sh.wake()
	}
}

func taskOf(c journal.Call) doing {
	t := doing{id: "call-" + strconv.Itoa(c.Seq), title: oneLine(c.Why, mostTitle), status: slackgo.TaskCardStatusInProgress}
	if t.title == "" {
		t.title = oneLine(c.Tool, mostTitle)
	}
	switch c.Outcome() {
	case "", journal.Waiting:
	case journal.OK, journal.Recorded:
		t.status = slackgo.TaskCardStatusComplete
	default:
		t.status = slackgo.TaskCardStatusError
	}
	return t
}

// take gives the news, and says whether Post wants to take over.
func (sh *show) take() (news, bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	n := news{any: sh.fresh, began: sh.news.began, void: sh.news.void, ended: sh.news.ended, resumed: sh.news.resumed, status: sh.news.status, tasks: sh.news.tasks}
	n.text.WriteString(sh.news.text.String())
	sh.news, sh.fresh = news{}, false
	return n, sh.leaving
}

// heed gives a context that also ends when there are news of the turn, or Post wants to take over. To be closed after use.
func (sh *show) heed(ctx context.Context) (within context.Context, done func()) {
	within, cancel := context.WithCancel(ctx)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.wake = cancel
	if sh.fresh || sh.leaving {
		cancel()
	}
	return within, func() {
		sh.mu.Lock()
		defer sh.mu.Unlock()
		sh.wake = nil
		cancel()
	}
}

// pause waits for a time or for news.
func (sh *show) pause(ctx context.Context, wait func(context.Context, time.Duration) error, d time.Duration) {
	within, done := sh.heed(ctx)
	defer done()
	_ = wait(within, d) // cut short by news; and by the end of ctx, which display sees
}

// leave ends the showing of a turn, so that its reply can take the place of what was shown. A call under way is awaited: an
// edit that Slack carries out later would stand over the reply.
func (o *outbound) leave(ctx context.Context, turn string) (live, error) {
	o.mu.Lock()
	sh := o.shows[turn]
	delete(o.shows, turn)
	o.mu.Unlock()
	if sh == nil {
		return live{}, nil
	}
	sh.mu.Lock()
	sh.leaving = true
	if sh.wake != nil {
		sh.wake()
	}
	sh.mu.Unlock()
	select {
	case <-sh.done:
		return sh.live, nil
	case <-ctx.Done():
		return live{}, context.Cause(ctx)
	}
}

// drop forgets a show that is over, unless there are news of it.
func (o *outbound) drop(sh *show) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.fresh && !sh.leaving {
		return false
	}
	if o.shows[sh.turn] == sh {
		delete(o.shows, sh.turn)
	}
	return true
}

// display shows a turn until it ends or its reply is posted.
func (s *Slack) display(ctx context.Context, sh *show) {
	l := &sh.live
	for {
		n, leaving := sh.take()
		if leaving || ctx.Err() != nil {
			return
		}
		if n.any {
			l.hear(&n, s.o.Now())
		}
		left := idleTime - s.o.Now().Sub(l.heard)
		if n.ended || left <= 0 {
			if s.withdraw(ctx, sh) && s.out.drop(sh) {
				return
			}
			continue
		}
		wait := s.refresh(ctx, sh)
		if wait <= 0 || wait > left {
			wait = left
		}
		sh.pause(ctx, s.o.Wait, wait)
	}
}

// hear takes in the news.
func (l *live) hear(n *news, now time.Time) {
	l.changed, l.heard, l.resumed = true, now, l.resumed || n.resumed
	if n.began {
		l.tasks, l.status = nil, ""
	}
	if n.began || n.void {
		l.text = ""
		l.stream.void()
	}
	for _, t := range n.tasks {
		l.put(t)
		l.stream.behind = append(l.stream.behind, t)
	}
	if n.status != "" {
		l.status = oneLine(n.status, 120)
	}
	if n.text.Len() > 0 {
		l.text = tidy(l.text + n.text.String())
	}
	if l.since.IsZero() && (l.text != "" || len(l.tasks) > 0) {
		l.since = now
	}
}

func (l *live) put(t doing) {
	for i := range l.tasks {
		if l.tasks[i].id == t.id {
			l.tasks[i] = t
			return
		}
	}
	l.tasks = append(l.tasks, t)
}

// refresh shows what is due, and says when to look again; 0 means when there are news.
func (s *Slack) refresh(ctx context.Context, sh *show) time.Duration {
	l := &sh.live
	next := s.refreshWords(ctx, sh)
	if l.frozen {
		return next
	}
	var more time.Duration
	if s.streams(sh) {
		more = s.refreshStream(ctx, sh)
	}
	if !s.streams(sh) && !l.frozen { // also where streaming has just been refused
		more = s.refreshDraft(ctx, sh)
	}
	if next <= 0 || more > 0 && more < next {
		return more
	}
	return next
}

// withdraw takes back what stands of a turn that ended without a reply, or will be tried again, and waits for Slack's limits
// to do so. It gives up when there are news of the turn or Post wants to take over: what is left is theirs. When the bot is
// stopping it does not wait either, since whoever goes on with the turn looks for what is left.
func (s *Slack) withdraw(ctx context.Context, sh *show) bool {
	within, done := sh.heed(ctx)
	defer done()
	l, u := &sh.live, saying
	if s.out.closing() {
		u = looking
	}
	l.busy = l.busy || l.resumed
	s.calm(ctx, sh.at, l)
	if u == saying && (l.resumed || l.doubt) {
		found, err := s.lookUp(within, sh.at, turn.Post{Turn: sh.turn, To: sh.to})
		s.quietly(err, "look for what was shown")
		l.messages = together(l.messages, found.orphans)
		if err != nil && within.Err() != nil {
			return false
		}
		l.resumed, l.doubt = false, false
	}
	for last, m := range slices.Backward(l.messages) {
		err := s.remove(within, u, sh.at, m)
		if err != nil && within.Err() != nil && !errors.Is(err, errLost) {
			return false
		}
		s.quietly(err, "delete a draft")
		l.messages = l.messages[:last]
		l.doubt = l.doubt || lost(err) // if it still stands, it is found and becomes the reply
	}
	l.stream, l.edits, l.text, l.tasks = stream{}, 0, "", nil
	return true
}

// remove deletes a message of the bot's own; a stream is ended first. An error that has no code of Slack's says that it may
// still stand.
func (s *Slack) remove(ctx context.Context, u urgency, at spot, m shown) error {
	if m.ts == "" {
		return nil
	}
	if m.streaming {
		s.quietly(s.stopStream(ctx, u, at, m.ts), "end a stream")
	}
	return s.call(ctx, u, "chat.delete", at.channel, func(ctx context.Context) error {
		_, _, err := s.api.DeleteMessageContext(ctx, at.channel, m.ts)
		return err
	})
}

// quietly logs an error that changes nothing.
func (s *Slack) quietly(err error, what string) {
	if err != nil && code(err) != "message_not_found" && code(err) != "message_not_in_streaming_state" {
		s.o.Log.Debug().Err(err).Msg(what)
	}
}
