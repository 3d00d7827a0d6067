package turn

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"switchboard/chat"
	"switchboard/journal"
	"switchboard/store"
)

// queued is what waits in a thread's queue: a message, a click among them, or somebody's wish that a turn should end. A
// message has the id of its turn from the first moment on: a turn that is taken up again after a crash is the same turn.
type queued struct {
	Stop    *chat.Stop   `json:"stop,omitempty"` // first in the text, so that it is found without reading the rest
	Turn    string       `json:"turn,omitempty"`
	Pack    string       `json:"pack"` // the name of the bot that it was said to
	Message chat.Message `json:"message,omitzero"`
	Resume  *resume      `json:"resume,omitempty"` // a decision, in place of a message: the turn goes on
}

// Accept stores a message and returns the id of its turn; only then may the surface acknowledge it (rule D1). fresh is
// false, and there is no id, for a message that was accepted before.
func (e *Engine) Accept(ctx context.Context, m chat.Message) (turn string, fresh bool, err error) {
	desk := e.desks.desk()
	m.Text = desk.Mask().Text(m.Text)
	q := queued{Turn: turnID(m.Key, e.o.Now()), Pack: desk.Pack.Name, Message: m}
	if fresh, err = e.push(ctx, m.Key, m.Thread, q); err != nil {
		return "", false, fmt.Errorf("accept message %s: %w", m.Key, err)
	}
	if !fresh {
		return "", false, nil
	}
	return q.Turn, true, nil
}

// Halt stores the wish that a turn should end (rule L8). It acts at the turn's next safe point; a model call of this process
// is cut short at once. A wish that comes when the turn is over is no error, and no turn ends. What was deleted is forgotten:
// later turns are not told of it, as far as the thread's own words go; the record of its own turn stays as long as all records.
func (e *Engine) Halt(ctx context.Context, s chat.Stop) error {
	if s.Message == "" { // what is meant is what is under way now, not what may be by the time that this is read
		s.Message = e.worksOn(threadID(s.Thread))
	}
	q := queued{Stop: &s, Pack: e.desks.desk().Pack.Name}
	fresh, err := e.push(ctx, s.Key, s.Thread, q)
	if err != nil {
		return fmt.Errorf("stop what is under way by %s: %w", s.Key, err)
	}
	if fresh && s.Message != "" {
		e.cutShort(threadID(s.Thread), s.Message)
	}
	if s.Deleted && s.ID != "" { // it may have been heard, and not said to the bot
		if err := e.drop(ctx, heardKey(threadID(s.Thread))+url.PathEscape(s.ID)); err != nil {
			return fmt.Errorf("forget what was said by %s: %w", s.Key, err)
		}
	}
	return nil
}

func (e *Engine) push(ctx context.Context, key string, t chat.Thread, q queued) (fresh bool, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return false, err
	}
	return e.o.Store.Push(ctx, store.Item{Key: key, Thread: threadID(t), Body: body})
}

// Knows says whether the bot takes part in a thread: it has answered there, or is about to.
func (e *Engine) Knows(ctx context.Context, t chat.Thread) (bool, error) {
	id := threadID(t)
	rec, err := e.o.Store.Get(ctx, threadKey(id))
	if err != nil {
		return false, fmt.Errorf("look for thread %s: %w", id, err)
	}
	if rec.Version > 0 {
		return true, nil
	}
	n, err := e.o.Store.Queued(ctx, id)
	if err != nil {
		return false, fmt.Errorf("look for thread %s: %w", id, err)
	}
	return n > 0, nil
}

// Hear keeps what was said in a thread that the bot takes part in, but not to the bot: as long as the retention says, and
// once, however often it is heard.
func (e *Engine) Hear(ctx context.Context, t chat.Thread, said chat.Said) error {
	desk := e.desks.desk()
	said.Text, said.By = desk.Mask().Text(said.Text), desk.Mask().Text(said.By)
	data, err := json.Marshal(said)
	if err != nil {
		return fmt.Errorf("keep what was said in thread %s: %w", threadID(t), err)
	}
	row := store.Content{Key: heardKey(threadID(t)) + url.PathEscape(said.ID), Value: data, Until: e.o.Now().Add(desk.Pack.Retention)}
	if err := e.o.Store.Commit(ctx, store.Batch{Contents: []store.Content{row}}); err != nil {
		return fmt.Errorf("keep what was said in thread %s: %w", threadID(t), err)
	}
	if sum := sha256.Sum256([]byte(said.ID)); sum[0]%trimEvery == 0 {
		return e.trim(ctx, threadID(t))
	}
	return nil
}

// trimEvery is after how many messages, about, what is heard in a thread is cut down to what a model would see. Which of them
// it is, their ids say: so nobody has to count.
const trimEvery = 32

// trim forgets all but the newest of what was heard in a thread.
func (e *Engine) trim(ctx context.Context, thread string) error {
	rows, err := e.heard(ctx, thread)
	if err != nil || len(rows) <= mostSaid {
		return err
	}
	var old []string
	for _, row := range rows[:len(rows)-mostSaid] {
		old = append(old, row.key)
	}
	if err := e.drop(ctx, old...); err != nil {
		return fmt.Errorf("forget what was said first in thread %s: %w", thread, err)
	}
	return nil
}

// drop deletes contents.
func (e *Engine) drop(ctx context.Context, keys ...string) error {
	var b store.Batch
	for _, key := range keys {
		b.Contents = append(b.Contents, store.Content{Key: key, Until: e.o.Now().Add(-time.Second)}) // past its time at once
	}
	return e.o.Store.Commit(ctx, b)
}

// heardRow is what somebody said, and where it is kept.
type heardRow struct {
	chat.Said
	key string
}

// heard reads what was said in a thread but not to the bot, the oldest first.
func (e *Engine) heard(ctx context.Context, thread string) ([]heardRow, error) {
	rows, err := e.o.Store.ContentsUnder(ctx, heardKey(thread))
	if err != nil {
		return nil, fmt.Errorf("read what was heard in thread %s: %w", thread, err)
	}
	out := make([]heardRow, len(rows))
	for i, row := range rows {
		out[i].key = row.Key
		if err := json.Unmarshal(row.Value, &out[i].Said); err != nil {
			return nil, fmt.Errorf("read what was heard in thread %s: %w", thread, err)
		}
	}
	slices.SortStableFunc(out, func(a, b heardRow) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return out, nil
}

func heardKey(thread string) string { return "heard/" + thread + "/" }

// Rate keeps what a person thinks of an answer; the latest word of a person on a turn counts.
func (e *Engine) Rate(ctx context.Context, f chat.Feedback) error {
	return journal.Rate(ctx, e.o.Store, f)
}

// turnID begins with the time, so that what is written of turns at the same time lies side by side on the disk, which
// halves the pages that a commit writes. The rest tells turns of one second apart.
func turnID(key string, now time.Time) string {
	sum := sha256.Sum256([]byte(key))
	return journal.TurnID(fmt.Sprintf("%08x%s", uint32(now.Unix()), hex.EncodeToString(sum[:4]))) //nolint:gosec // until 2106
}

// threadID joins the parts so that no two threads share one, whatever their ids hold.
func threadID(t chat.Thread) string {
	return url.PathEscape(t.Team) + "/" + url.PathEscape(t.Channel) + "/" + url.PathEscape(t.Root)
}
