package slack

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"unicode/utf8"

	slackgo "github.com/slack-go/slack"

	"switchboard/turn"
)

var (
	errEmptyAnswer = errors.New("the answer to a post does not say where it stands")
	// errGone says that the place where a reply should go is no more, or not the bot's.
	errGone = errors.New("the reply cannot go where the question stands")
)

const (
	againWords = "(again: I cannot tell whether you have seen this)"
	// emptyWords stand for a reply of which nobody would see anything.
	emptyWords = "I have no words for an answer to this. That is a fault of mine, not of your question."
	movedWords = "I cannot answer any more where you asked (the thread is gone, or the channel is closed to me). My answer:"
	mostUpdate = 3900 // characters of text that an edit may have; Slack: 4,000, https://docs.slack.dev/reference/methods/chat.update
	mostHalves = 4    // times that a message which Slack calls too long is cut in two
)

// Post delivers a reply, whole: what was shown of it becomes its first message, the others follow in order. It returns a
// turn.ErrUndeliverable where it can be said neither in its place nor to the asker alone.
func (s *Slack) Post(ctx context.Context, p turn.Post) error {
	ctx = whileHeld(ctx, p.Held)
	if p.Card != nil {
		return s.postCard(ctx, p)
	}
	left, err := s.out.leave(ctx, p.Turn)
	if err != nil {
		return fmt.Errorf("wait for what is being shown of turn %s: %w", p.Turn, err)
	}
	d := &errand{s: s, p: p, at: placeOf(p.To)}
	home := d.at
	err = d.run(ctx, &left)
	if errors.Is(err, errGone) {
		err = d.move(ctx, err)
	}
	if err != nil && !errors.Is(err, turn.ErrUndeliverable) {
		return fmt.Errorf("deliver the reply of turn %s to channel %s: %w", p.Turn, home.channel, err)
	}
	// An earlier process may have said that the bot is busy; and after the stop button Slack leaves it to the app to take it back.
	left.busy = left.busy || p.Resumed || p.Outcome == turn.Stopped
	s.calm(ctx, home, &left)
	for _, m := range d.stale {
		s.quietly(s.remove(ctx, saying, m.at, m.shown), "delete a draft")
	}
	return err
}

// errand is one reply on its way.
type errand struct {
	s    *Slack
	p    turn.Post
	at   spot
	lead string // said before the reply

	pieces int     // of the part under way that stand
	stale  []stray // what is not needed, and deleted once the reply stands, since that may have to wait
}

// stray is a message that must go.
type stray struct {
	shown

	at spot
}

// run brings the reply to its place. left is what stands of the turn.
func (d *errand) run(ctx context.Context, left *live) error {
	found := past{}
	if d.p.Again || d.p.Resumed || left.doubt || left.resumed {
		var err error
		found, err = d.s.lookUp(ctx, d.at, d.p)
		switch {
		case errors.Is(err, errNoLook) && d.p.Again:
			d.lead = againWords + "\n\n" + d.lead
		case err != nil && !errors.Is(err, errNoLook):
			return err
		}
	}
	text := d.p.Reply.Text
	if blank(text) {
		text = emptyWords
	}
	pieces := parts(d.lead+text, usual())
	targets, have := found.match(len(pieces), together(left.messages, found.orphans))
	before := "" // ts of what stands last of the reply
	for i, piece := range pieces {
		if have[i] != "" {
			before = have[i]
			continue
		}
		for len(targets) > 0 && compareTS(targets[0].ts, before) < 0 { // it would come out of order
			d.drop(targets[0])
			targets = targets[1:]
		}
		var t shown
		if len(targets) > 0 {
			t, targets = targets[0], targets[1:]
		}
		m := message{part: piece, number: i, of: len(pieces), foot: footOf(d.p)}
		d.pieces = 0
		posted, err := d.deliver(ctx, m, t, left.stream, usual())
		if err == nil && !posted && t.streaming && !left.stream.muddy { // the end of a stream is the end of being busy
			left.words, left.session = "", false
		}
		if err != nil && !errors.Is(err, errGone) {
			return err
		}
		if posted || err != nil { // what stands would stand before it
			d.drop(targets...)
			targets = nil
		}
		if err != nil {
			return err
		}
	}
	d.drop(targets...)
	return nil
}

// together gives what was shown and what was found, each once.
func together(mine, found []shown) []shown {
	all := slices.Clone(mine)
	for _, m := range found {
		if !slices.ContainsFunc(all, func(a shown) bool { return a.ts == m.ts }) {
			all = append(all, m)
		}
	}
	return all
}

func (d *errand) drop(messages ...shown) {
	for _, m := range messages {
		d.stale = append(d.stale, stray{m, d.at})
	}
}

// deliver brings one message into the place of one that stands, or posts it, and says which. What Slack refuses is said in
// a plainer form, or in smaller pieces.
func (d *errand) deliver(ctx context.Context, m message, t shown, st stream, fits room) (posted bool, err error) {
	if t.ts != "" && t.streaming {
		done, err := d.finish(ctx, m, t, st)
		if done || err != nil {
			return false, err
		}
		t.streaming = false
	}
	conflict := false
	for f := dressed; ; {
		if t.ts != "" && utf8.RuneCountInString(m.fallback(f)) > mostUpdate {
			d.drop(t)
			t = shown{}
		}
		posted, err := d.send(ctx, m, t, f)
		c := code(err)
		switch {
		case err == nil:
			d.pieces++
			return posted, nil
		case c == "" || unsure(c) || hopeless(c):
			return posted, err
		case elsewhere(c):
			return posted, errors.Join(errGone, err)
		case c == "streaming_state_conflict" && !conflict: // Slack has it that it still streams
			conflict = true
			d.s.quietly(d.s.stopStream(ctx, looking, d.at, t.ts), "end a stream")
		case tooLong(c) && fits.bytes > usual().bytes>>mostHalves:
			return true, d.halve(ctx, m, t, fits.smaller())
		case t.ts != "" && !aboutBlocks(c): // it cannot be changed any more
			d.drop(t)
			t = shown{}
		case f < bare:
			d.s.o.Log.Debug().Str("turn", d.p.Turn).Str("error", c).Int("form", int(f)).Msg("slack refuses a form of a message")
			f++
		default:
			return posted, err
		}
	}
}

// halve says a message in smaller pieces. They are numbered, so that after an interruption it can be told whether all of
// them stand.
func (d *errand) halve(ctx context.Context, m message, t shown, fits room) error {
	pieces := parts(m.part.text, fits)
	for i, piece := range pieces {
		small := m
		small.part, small.more = piece, m.more || i < len(pieces)-1
		if _, err := d.deliver(ctx, small, t, stream{}, fits); err != nil {
			return err
		}
		t = shown{}
	}
	return nil
}

// finish ends a stream so that it is the message, if what it holds is the beginning of it. Otherwise it is left to an edit.
func (d *errand) finish(ctx context.Context, m message, t shown, st stream) (bool, error) {
	s := d.s
	rest, fits := cutPrefix(m.part.text, t.seen)
	if st.muddy || !fits || len(rest) > usual().bytes {
		s.quietly(s.stopStream(ctx, looking, d.at, t.ts), "end a stream")
		return false, nil
	}
	var chunks []slackgo.StreamChunk
	for _, task := range st.behind {
		c := slackgo.NewTaskUpdateChunk(task.id, task.title)
		c.Status = task.status
		chunks = append(chunks, c)
	}
	if rest != "" {
		chunks = append(chunks, slackgo.NewMarkdownTextChunk(rest))
	}
	feet := m.blocks(dressed)[1:] // without the text
	stop := func(feetApart bool) error {
		all := chunks
		options := []slackgo.MsgOption{slackgo.MsgOptionMetadata(d.metadata(m))}
		if len(feet) > 0 && feetApart {
			options = append(options, slackgo.MsgOptionBlocks(feet...))
		} else if len(feet) > 0 {
			all = append(all, slackgo.NewBlocksChunk(feet...))
		}
		if len(all) > 0 {
			options = append(options, slackgo.MsgOptionChunks(all...))
		}
		return s.call(ctx, saying, "chat.stopStream", d.at.channel, func(ctx context.Context) error {
			_, _, err := s.api.StopStreamContext(ctx, d.at.channel, t.ts, options...)
			return err
		})
	}
	err := stop(true)
	if code(err) == "streaming_mode_mismatch" { // as reported for blocks beside chunks
		err = stop(false)
	}
	switch c := code(err); {
	case err == nil:
		return true, nil
	case c == "" || unsure(c):
		return false, err
	case c != "message_not_in_streaming_state" && c != "stopped_by_user":
		s.quietly(s.stopStream(ctx, looking, d.at, t.ts), "end a stream")
	}
	return false, nil
}

// cutPrefix gives what of a text is not yet in a stream. White space at the end of either does not count.
func cutPrefix(whole, seen string) (string, bool) {
	if len(whole) >= len(seen) {
		return whole[len(seen):], whole[:len(seen)] == seen
	}
	return "", whole == seen[:len(whole)] && blank(seen[len(whole):])
}

// metadata marks a message as a part of the reply, to be found again. Everybody in the workspace may read it. What is only a
// piece of a part says which, and whether more pieces follow.
func (d *errand) metadata(m message) slackgo.SlackMetadata {
	payload := map[string]any{"key": d.p.Key, "part": m.number, "parts": m.of}
	if d.pieces > 0 || m.more {
		payload["piece"], payload["more"] = d.pieces, m.more
	}
	return slackgo.SlackMetadata{EventType: metadataType, EventPayload: payload}
}

// send puts a message in one form into the place of one that stands, or posts it, and says which.
func (d *errand) send(ctx context.Context, m message, t shown, f form) (posted bool, err error) {
	options := slackgo.MsgOptionCompose(slackgo.MsgOptionText(m.fallback(f), false), slackgo.MsgOptionBlocks(m.blocks(f)...),
		slackgo.MsgOptionMetadata(d.metadata(m)))
	if t.ts != "" {
		return false, d.s.update(ctx, saying, d.at, t.ts, options)
	}
	_, err = d.s.post(ctx, saying, d.at, options)
	return true, err
}

// move brings a reply to the asker alone, since it cannot go where the question stands.
func (d *errand) move(ctx context.Context, cause error) error {
	at, err := d.s.alone(ctx, d.p.To.From.ID, d.at, cause)
	if err != nil {
		return err
	}
	d.at, d.lead = at, movedWords+"\n\n"
	err = d.run(ctx, &live{})
	if refusal(err) != "" {
		return errors.Join(turn.ErrUndeliverable, cause, err)
	}
	return err
}

// alone gives the place where something can be said to the asker alone that cannot be said where it was asked.
// Slack: https://docs.slack.dev/reference/methods/conversations.open
func (s *Slack) alone(ctx context.Context, asker string, closed spot, cause error) (spot, error) {
	never := func(err error) (spot, error) { return spot{}, errors.Join(turn.ErrUndeliverable, cause, err) }
	if asker == "" {
		return never(errors.New("nobody asked"))
	}
	if closed.dm && closed.root == "" {
		return never(nil)
	}
	at, err := s.openDM(ctx, asker)
	if refusal(err) != "" {
		return never(err)
	}
	return at, err
}

func (s *Slack) openDM(ctx context.Context, person string) (spot, error) {
	var open *slackgo.Channel
	err := s.call(ctx, saying, "conversations.open", "", func(ctx context.Context) (err error) {
		open, _, _, err = s.api.OpenConversationContext(ctx, &slackgo.OpenConversationParameters{Users: []string{person}})
		return err
	})
	if err != nil {
		return spot{}, err
	}
	return spot{channel: open.ID, dm: true}, nil
}

// post says something new, with no previews of links, and no reading of names or addresses that are not marked as such.
// Where the thread is gone Slack posts into the channel instead and says so only in its answer: such a stray is deleted at
// once. Slack: https://docs.slack.dev/reference/methods/chat.postMessage
func (s *Slack) post(ctx context.Context, u urgency, at spot, options slackgo.MsgOption) (string, error) {
	all := []slackgo.MsgOption{options}
	if at.root != "" {
		all = append(all, slackgo.MsgOptionTS(at.root))
	}
	all = append(all, slackgo.MsgOptionDisableLinkUnfurl(), slackgo.MsgOptionDisableMediaUnfurl(), slackgo.MsgOptionParse(false),
		slackgo.MsgOptionLinkNames(false), s.extra("chat.postMessage", "unfurl_app_links", "false"))
	var ts, thread string
	err := s.call(ctx, u, "chat.postMessage", at.channel, func(ctx context.Context) error {
		_, at, m, err := s.api.PostMessageWithResponseContext(ctx, at.channel, all...)
		ts, thread = at, m.ThreadTimestamp
		return err
	})
	switch {
	case err != nil:
		return "", err
	case ts == "":
		return "", errors.Join(errLost, errEmptyAnswer)
	case at.root != "" && thread == "":
		s.quietly(s.remove(ctx, saying, at, shown{ts: ts}), "delete a message that went astray")
		return "", errors.Join(errGone, slackgo.SlackErrorResponse{Err: "thread_not_found"})
	}
	return ts, nil
}

// update changes a message. Blocks that are left out would stay away from it. Slack:
// https://docs.slack.dev/reference/methods/chat.update
func (s *Slack) update(ctx context.Context, u urgency, at spot, ts string, options slackgo.MsgOption) error {
	return s.call(ctx, u, "chat.update", at.channel, func(ctx context.Context) error {
		_, _, _, err := s.api.UpdateMessageContext(ctx, at.channel, ts, options, slackgo.MsgOptionParse(false), slackgo.MsgOptionLinkNames(false))
		return err
	})
}

// extra sets an argument that the library does not know.
func (s *Slack) extra(method, name, value string) slackgo.MsgOption {
	base := s.o.APIURL
	if base == "" {
		base = slackgo.APIURL
	}
	return slackgo.UnsafeMsgOptionEndpoint(base+method, func(v url.Values) { v.Set(name, value) })
}
