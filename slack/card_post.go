package slack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	slackgo "github.com/slack-go/slack"

	"switchboard/chat"
	"switchboard/turn"
)

const (
	mostCards   = 5000 // of which it is remembered where they stand
	leastRoom   = 1000 // characters of a card that Slack must take
	updateTries = 3
)

// cards is what this process knows of the cards that stand in Slack. It is lost at its end, and may be: where a card stands
// is also told by its metadata.
type cards struct {
	ctx    context.Context //nolint:containedctx // the life of what is drawn again, ended by close
	cancel context.CancelFunc

	mu    sync.Mutex
	known map[string]*cardState // by the card's id
	order []string              // the ids, oldest first
}

// cardState is one card in Slack.
type cardState struct {
	places []place
	files  []string   // what was shared for it: channel, root and name
	final  *chat.Card // as it was decided
	want   *chat.Card // to be drawn; nil: nothing
	hints  []whereabouts
	busy   bool // somebody draws it
}

// place is one message that shows a card.
type place struct {
	spot

	ts   string
	key  string // of the Post
	also int    // other places that its metadata names
}

// whereabouts are hints at where a card stands.
type whereabouts struct {
	asked   *chat.Message // a thread that it stands in
	clicked *place        // one of its messages
}

func (c *cards) begin() {
	c.known = map[string]*cardState{}
	c.ctx, c.cancel = context.WithCancel(context.Background())
}

// of gives what is known of a card, with the lock held.
func (c *cards) of(id string) *cardState {
	st := c.known[id]
	if st == nil {
		if len(c.order) >= mostCards {
			delete(c.known, c.order[0])
			c.order = c.order[1:]
		}
		st = &cardState{}
		c.known[id] = st
		c.order = append(c.order, id)
	}
	return st
}

// add remembers a place of a card.
func (st *cardState) add(p place) {
	if !slices.ContainsFunc(st.places, func(o place) bool { return o.channel == p.channel && o.ts == p.ts }) {
		st.places = append(st.places, p)
	}
}

// postCard says a card in a message of its own: in the thread of what it is about, or in a place of its own. What does not fit
// into the message goes before it as a file: nobody is asked to decide on what they cannot read.
func (s *Slack) postCard(ctx context.Context, p turn.Post) error {
	at := placeOf(p.To)
	if p.Place != nil {
		at = spot{channel: p.Place.ID, dm: strings.HasPrefix(p.Place.ID, "D")}
		return s.delivered(p, at, s.putCard(ctx, p, at))
	}
	left, err := s.out.leave(ctx, p.Turn)
	if err != nil {
		return fmt.Errorf("wait for what is being shown of turn %s: %w", p.Turn, err)
	}
	home := at
	err = s.putCard(ctx, p, at)
	if errors.Is(err, errGone) {
		if at, err = s.alone(ctx, p.To.From.ID, at, err); err == nil {
			err = s.putCard(ctx, p, at)
		}
	}
	s.clear(ctx, home, &left, p)
	return s.delivered(p, at, err)
}

// delivered says what became of a card.
func (s *Slack) delivered(p turn.Post, at spot, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errGone) && !errors.Is(err, turn.ErrUndeliverable):
		err = errors.Join(turn.ErrUndeliverable, err)
	}
	return fmt.Errorf("show card %s in channel %s: %w", p.Card.ID, at.channel, err)
}

// clear takes away what stands of a turn that waits for a person: it is no answer, and the bot is not busy.
func (s *Slack) clear(ctx context.Context, at spot, left *live, p turn.Post) {
	if p.Resumed || left.doubt || left.resumed {
		found, err := s.lookUp(ctx, at, p)
		s.quietly(err, "look for what was shown")
		left.messages = together(left.messages, found.orphans)
	}
	left.busy = left.busy || p.Resumed
	s.calm(ctx, at, left)
	for _, m := range left.messages {
		s.quietly(s.remove(ctx, saying, at, m), "delete a draft")
	}
}

// putCard brings a card to a place, once.
func (s *Slack) putCard(ctx context.Context, p turn.Post, at spot) error {
	c, doubt := p.Card, false
	if p.Again || p.Resumed {
		found, err := s.findCard(ctx, at, &p.To, c.ID)
		switch {
		case errors.Is(err, errNoLook):
			doubt = true
		case err != nil:
			return err
		}
		s.out.cards.found(c.ID, found)
		if slices.ContainsFunc(found.places, func(o place) bool { return o.key == p.Key }) {
			return nil
		}
	}
	for room := cardRoom; ; room /= 3 {
		card, others := s.out.cards.now(c)
		pic := draw(card, room)
		if pic.file != nil {
			if err := s.share(ctx, at, c.ID, pic.file); err != nil {
				return err
			}
		}
		if doubt {
			pic.blocks = append(pic.blocks, remark(againWords))
		}
		ts, err := s.post(ctx, saying, at, slackgo.MsgOptionCompose(slackgo.MsgOptionText(notice(p), false),
			slackgo.MsgOptionBlocks(pic.blocks...), slackgo.MsgOptionMetadata(cardMark(p.Key, c.ID, others))))
		switch refused := code(err); {
		case err == nil:
			s.stands(card, place{spot: at, ts: ts, key: p.Key, also: len(others)})
			return nil
		case elsewhere(refused):
			return errors.Join(errGone, err)
		case !aboutBlocks(refused) || room/3 < leastRoom:
			return err
		}
		s.o.Log.Debug().Err(err).Str("card", c.ID).Int("room", room).Msg("slack refuses a card of this size")
	}
}

// notice is a card for notifications.
func notice(p turn.Post) string {
	if blank(p.Reply.Text) {
		return (&sketch{card: p.Card}).heading()
	}
	return plain(p.Reply.Text)
}

// cardMark marks a message as a card's. Everybody in the workspace may read it.
func cardMark(key, card string, others []place) slackgo.SlackMetadata {
	payload := map[string]any{"key": key, "card": card}
	var also []any
	for _, o := range others {
		also = append(also, map[string]any{"channel": o.channel, "root": o.root, "ts": o.ts})
	}
	if len(also) > 0 {
		payload["also"] = also
	}
	return slackgo.SlackMetadata{EventType: cardType, EventPayload: payload}
}

// now gives a card as it is known to stand, for one that may have been decided meanwhile, and its places.
func (c *cards) now(card *chat.Card) (*chat.Card, []place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.of(card.ID)
	if st.final != nil {
		card = st.final
	}
	return card, slices.Clone(st.places)
}

// found takes in what a look-up tells.
func (c *cards) found(id string, f foundCard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.of(id)
	for _, p := range f.places {
		st.add(p)
	}
	st.files = append(st.files, f.files...)
}

// stands takes note of a card that was just posted. Its other messages are told where it stands, so that whichever is found
// by another process leads to the others; and if it was decided meanwhile it is drawn again.
func (s *Slack) stands(card *chat.Card, p place) {
	c := &s.out.cards
	c.mu.Lock()
	st := c.of(card.ID)
	st.add(p)
	again := len(st.places) > 1 || st.final != nil && card.Decided == ""
	c.mu.Unlock()
	if again {
		s.redraw(card, whereabouts{})
	}
}

// foundCard is what a look-up tells of a card.
type foundCard struct {
	places []place  // where it stands; what else its metadata names comes without a key
	files  []string // what the bot has shared there, as in cardState
}

// findCard looks for a card among the bot's own messages in a place, after what it is about.
func (s *Slack) findCard(ctx context.Context, at spot, asked *chat.Message, id string) (foundCard, error) {
	var f foundCard
	cursor := ""
	for range lookPages {
		messages, next, err := s.lookPage(ctx, at, *asked, cursor)
		switch c := refusal(err); {
		case c == "thread_not_found" || c == "message_not_found":
			return f, nil
		case c != "":
			return f, errors.Join(errNoLook, err)
		case err != nil:
			return f, fmt.Errorf("look for card %s: %w", id, err)
		}
		for i := range messages {
			f.see(&messages[i], s.me, at, id)
		}
		if cursor = next; cursor == "" {
			return f, nil
		}
	}
	return f, fmt.Errorf("%w: there are more than %d messages", errNoLook, lookPages*lookPage)
}

// see takes in a message.
func (f *foundCard) see(m *slackgo.Message, me identity, at spot, id string) {
	if m.User != me.User && (m.BotID == "" || m.BotID != me.Bot) {
		return
	}
	for _, file := range m.Files {
		f.files = append(f.files, markOf(at, file.Name))
	}
	payload := m.Metadata.EventPayload
	if m.Metadata.EventType != cardType || payload["card"] != id {
		return
	}
	key, _ := payload["key"].(string)
	also, _ := payload["also"].([]any)
	f.places = append(f.places, place{spot: at, ts: m.Timestamp, key: key, also: len(also)})
	for _, one := range also {
		o, _ := one.(map[string]any)
		channel, _ := o["channel"].(string)
		root, _ := o["root"].(string)
		if ts, _ := o["ts"].(string); idForm.MatchString(channel) && isTS(ts) {
			f.places = append(f.places, place{spot: spot{channel: channel, root: root}, ts: ts})
		}
	}
}

// redraw has a card drawn again wherever it stands, as soon as may be. It does not wait. A card that was decided is never
// drawn as an open one again.
func (s *Slack) redraw(card *chat.Card, hint whereabouts) {
	o := &s.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shut {
		return
	}
	c := &o.cards
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.of(card.ID)
	if card.Decided != "" {
		st.final = card
	}
	st.want, st.hints = card, append(st.hints, hint)
	if st.final != nil {
		st.want = st.final
	}
	if !st.busy {
		st.busy = true
		o.live.Go(func() { s.drawAgain(st) })
	}
}

// drawAgain draws a card as long as there are news of it.
func (s *Slack) drawAgain(st *cardState) {
	c := &s.out.cards
	defer s.recovered("draw a card again")
	for {
		c.mu.Lock()
		card, hints := st.want, st.hints
		st.want, st.hints, st.busy = nil, nil, st.want != nil
		posted := len(st.places) > 0
		c.mu.Unlock()
		if card == nil {
			return
		}
		for _, h := range hints {
			s.locate(c.ctx, card.ID, h, posted)
		}
		c.mu.Lock()
		places := slices.Clone(st.places)
		c.mu.Unlock()
		for i, p := range places {
			if card.Decided == "" && (p.key == "" || p.also >= len(places)-1) {
				continue
			}
			others := slices.Delete(slices.Clone(places), i, i+1)
			if err := s.drawAt(c.ctx, card, p, others); err != nil {
				s.quietly(err, "draw a card again")
				continue
			}
			c.mu.Lock()
			for n := range st.places {
				if st.places[n].channel == p.channel && st.places[n].ts == p.ts {
					st.places[n].also = len(others)
				}
			}
			c.mu.Unlock()
		}
	}
}

// locate finds out where a card stands: what this process has posted it knows, else the card's messages tell.
func (s *Slack) locate(ctx context.Context, id string, h whereabouts, posted bool) {
	var f foundCard
	var err error
	switch {
	case h.clicked != nil:
		f.places = []place{*h.clicked}
		if !posted {
			var m *slackgo.Message
			if m, err = s.message(ctx, h.clicked.spot, h.clicked.ts); err == nil {
				f.places = nil
				f.see(m, s.me, h.clicked.spot, id)
			}
		}
	case h.asked != nil && !posted:
		f, err = s.findCard(ctx, placeOf(*h.asked), h.asked, id)
	}
	s.quietly(err, "look for a card")
	s.out.cards.found(id, f)
}

// message reads one message.
func (s *Slack) message(ctx context.Context, at spot, ts string) (*slackgo.Message, error) {
	root := at.root
	if root == "" {
		root = ts
	}
	var found []slackgo.Message
	err := s.call(ctx, looking, "conversations.replies", "", func(ctx context.Context) (err error) {
		found, _, _, err = s.api.GetConversationRepliesContext(ctx, &slackgo.GetConversationRepliesParameters{
			ChannelID: at.channel, Timestamp: root, Oldest: ts, Latest: ts, Inclusive: true, Limit: 2, IncludeAllMetadata: true,
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range found { // the thread's first message comes along
		if found[i].Timestamp == ts {
			return &found[i], nil
		}
	}
	return nil, fmt.Errorf("find message %s in channel %s: it is not there any more", ts, at.channel)
}

// drawAt draws a card over the message that shows it. Doing so twice is as good as once, so what is lost is done again.
func (s *Slack) drawAt(ctx context.Context, card *chat.Card, p place, others []place) error {
	tries := 1
	for room := cardRoom; ; {
		pic := draw(card, room)
		options := []slackgo.MsgOption{slackgo.MsgOptionBlocks(pic.blocks...)}
		switch {
		case card.Decided != "":
			options = append(options, slackgo.MsgOptionText(escape(short(inLine(card.Decided), 500)), false))
		case pic.file != nil && !s.out.cards.shared(card.ID, p.spot, pic.file):
			return nil // an open card names no file that is not there
		}
		if p.key != "" {
			options = append(options, slackgo.MsgOptionMetadata(cardMark(p.key, card.ID, others)))
		}
		err := s.update(ctx, saying, p.spot, p.ts, slackgo.MsgOptionCompose(options...))
		switch {
		case aboutBlocks(code(err)) && room/3 >= leastRoom:
			room /= 3
		case lost(err) && tries < updateTries:
			if s.o.Wait(ctx, time.Duration(tries)*time.Second) != nil {
				return err
			}
			tries++
		default:
			return err
		}
	}
}
