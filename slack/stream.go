package slack

import (
	"context"
	"slices"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"
)

// stream is what is known of a turn that Slack shows word by word. It is a dialogue with Slack that only goes forward:
// what has been said in it is taken back by an edit at its end.
type stream struct {
	sent   int     // bytes of the text that are in it
	gap    bool    // text that does not count stands before; the next begins on its own
	muddy  bool    // it holds more than the reply's text
	head   string  // opens a fence again in the next message
	behind []doing // calls that it does not show yet
	at     time.Time
	weight int  // bytes of the calls in its newest message
	ended  bool // no more streaming in this turn; edits go on
}

// void says that the text so far was not the reply.
func (st *stream) void() {
	st.gap = st.gap || st.sent > 0
	st.muddy = st.muddy || st.sent > 0
	st.sent, st.head = 0, ""
}

// streams says whether a turn is shown word by word: in threads of direct messages, where all who read along are the one
// who asked. In a channel others would see nothing but the beginning, as reported.
func (s *Slack) streams(sh *show) bool {
	return streamable(sh.at) && !sh.live.stream.ended && !s.forbidden("stream", sh)
}

// streamable says whether there may be streams in a place.
func streamable(at spot) bool { return at.dm && at.root != "" }

// refreshStream brings the stream up to date.
func (s *Slack) refreshStream(ctx context.Context, sh *show) time.Duration {
	l, st, now := &sh.live, &sh.live.stream, s.o.Now()
	if l.since.IsZero() || st.sent == len(l.text) && len(st.behind) == 0 {
		return 0
	}
	wait := st.at.Add(streamPace).Sub(now)
	if len(l.messages) == 0 && len(st.behind) == 0 {
		wait = max(wait, l.since.Add(gather).Sub(now))
	}
	if wait > 0 {
		return wait
	}
	for st.sent < len(l.text) || len(st.behind) > 0 {
		if !s.streamOn(ctx, sh) {
			break
		}
	}
	st.at = s.o.Now() // after the answer, so that Slack too sees the pace kept
	if st.ended || l.frozen || st.sent == len(l.text) && len(st.behind) == 0 {
		return 0
	}
	return streamPace
}

// streamOn adds one piece to the stream, at most as much as its newest message holds, and says whether it is there.
func (s *Slack) streamOn(ctx context.Context, sh *show) bool {
	l, st, at := &sh.live, &sh.live.stream, sh.at
	seen, last := "", len(l.messages)-1
	going := last >= 0 && l.messages[last].streaming
	if going {
		seen = l.messages[last].seen
	} else {
		st.weight = 0
	}
	weight := st.weight
	chunks := make([]slackgo.StreamChunk, 0, len(st.behind)+1)
	for _, t := range st.behind {
		c := slackgo.NewTaskUpdateChunk(t.id, t.title)
		c.Status = t.status
		chunks = append(chunks, c)
		weight += len(t.id) + len(t.title) + 100
	}
	piece, full := l.text[st.sent:], false
	lead := ""
	if seen == "" {
		lead = st.head
	} else if st.gap && piece != "" {
		lead = "\n\n"
	}
	if space := max(usual().bytes-weight-len(seen)-len(lead)-20, 0); len(piece) > space {
		piece, full = piece[:breakAt(piece, space)], true
	}
	text := lead + piece
	var head string
	if full { // the next message goes on with it
		d := readDocument(seen + text)
		head = d.head
		if d.tail != "" {
			text = strings.TrimSuffix(text, "\n") + "\n" + d.tail
		}
	}
	if text != "" {
		chunks = append(chunks, slackgo.NewMarkdownTextChunk(text))
	}
	if len(chunks) > 0 && !s.sendChunks(ctx, sh, going, seen+text, chunks) {
		return false
	}
	st.weight, st.behind, st.head = weight, nil, head
	st.sent += len(piece)
	st.gap = st.gap && piece == ""
	if full {
		last = len(l.messages) - 1
		st.muddy = true // the parts of the reply end where they may
		s.quietly(s.stopStream(ctx, looking, at, l.messages[last].ts), "end a stream")
		l.messages[last].streaming = false
	}
	return true
}

// breakAt gives where to cut a text after at most so many bytes: the end of a line, else a good place within one.
func breakAt(text string, most int) int {
	if most <= 0 {
		return 0
	}
	spans := uncut.FindAllStringIndex(text[:min(len(text), most+longestForm)], -1)
	inside := func(at int) bool {
		return slices.ContainsFunc(spans, func(s []int) bool { return s[0] < at && at < s[1] && s[1]-s[0] <= longestForm })
	}
	for at := most; at > most/3; at-- {
		if text[at-1] == '\n' && !inside(at) {
			return at
		}
	}
	at := cutAt(text, most)
	if inside(at) && most < longestForm {
		return 0 // it fits into the next message
	}
	return at
}

// sendChunks begins a stream or goes on with it. What Slack refuses goes on as edits of the message, and if there is none,
// as a draft.
func (s *Slack) sendChunks(ctx context.Context, sh *show, going bool, seen string, chunks []slackgo.StreamChunk) bool {
	l, at := &sh.live, sh.at
	if !going {
		var ts string
		err := s.call(ctx, showing, "chat.startStream", at.channel, func(ctx context.Context) (err error) {
			_, ts, err = s.api.StartStreamContext(ctx, at.channel, slackgo.MsgOptionTS(at.root), slackgo.MsgOptionChunks(chunks...))
			return err
		})
		if err == nil {
			l.messages = append(l.messages, shown{ts: ts, streaming: true, seen: seen})
			return true
		}
		switch {
		case code(err) != "":
			s.o.Log.Debug().Str("turn", sh.turn).Str("error", code(err)).Msg("slack does not stream here")
			s.forbid("stream", code(err), sh)
		case lost(err): // there may be one that nobody knows of
			l.doubt, l.frozen = true, true
		}
		return false
	}
	m := &l.messages[len(l.messages)-1]
	err := s.call(ctx, showing, "chat.appendStream", at.channel, func(ctx context.Context) error {
		_, _, err := s.api.AppendStreamContext(ctx, at.channel, m.ts, slackgo.MsgOptionChunks(chunks...))
		return err
	})
	switch c := code(err); {
	case err == nil:
		m.seen = seen
		return true
	case c == "" && !lost(err): // dropped
	case c == "stopped_by_user":
		m.streaming, l.stream.muddy, l.frozen = false, true, true
	default: // ended by Slack, or it is not known what it holds: said again as an edit, nothing is doubled
		l.stream.ended, l.stream.muddy = true, true
		l.edited, l.edits, l.changed = s.o.Now(), earlyEdits, true
	}
	return false
}

// stopStream ends a stream as it stands.
func (s *Slack) stopStream(ctx context.Context, u urgency, at spot, ts string) error {
	return s.call(ctx, u, "chat.stopStream", at.channel, func(ctx context.Context) error {
		_, _, err := s.api.StopStreamContext(ctx, at.channel, ts)
		return err
	})
}
