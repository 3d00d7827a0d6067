package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"switchboard/chat"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/router"
	"switchboard/store"
)

// more folds in what the asker has said since the last round, and lets it lift what was refused before (rule L4). Nothing of
// it is written here: the messages are part of the turn once a reply that has heard them is stored. Until then they wait in
// the queue, and if this try ends they are still there.
func (r *running) more(ctx context.Context) ([]llm.Turn, error) {
	items, err := r.e.o.Store.Items(ctx, r.lease)
	if err != nil {
		return nil, fmt.Errorf("turn %s: %w: %w", r.journal.Turn(), errQueue, err)
	}
	var said []llm.Turn
	for _, it := range r.behind(items) {
		q, ok := r.joins(it, items)
		if !ok {
			break
		}
		text, ok := r.lookCloser(ctx, q.Message)
		if !ok {
			break
		}
		r.joining = append(r.joining, journal.Folded{Key: it.Key, Text: text})
		r.joined(it.Key)
		said = append(said, llm.Turn{Role: llm.User, Text: text})
	}
	if said != nil {
		r.door.Heard()
	}
	return said, nil
}

// behind gives the messages that wait behind this turn and are no part of it yet.
func (r *running) behind(items []store.Item) []store.Item {
	at := slices.IndexFunc(items, func(it store.Item) bool { return it.Key == r.key })
	return slices.DeleteFunc(slices.Clone(items[at+1:]), func(it store.Item) bool {
		_, isStop := r.e.stopOf(it)
		return isStop || r.hasFolded(it.Key)
	})
}

// joins says whether a waiting message becomes part of this turn: plain words of the same person, that are not the answer to
// a question, not addressed to another assistant, and not taken back. Behind one that does not, none does.
func (r *running) joins(it store.Item, items []store.Item) (queued, bool) {
	var q queued
	if json.Unmarshal(it.Body, &q) != nil || q.Pack != r.desk.Pack.Name {
		return q, false
	}
	m := q.Message
	if m.From.ID != r.asker.ID || m.Pick != nil {
		return q, false
	}
	if open := r.thread.Open; open != nil && !r.picked {
		if _, ok := open.picked(m.Text); ok {
			return q, false
		}
	}
	if name, ok := router.Address(m.Text, r.routerInput(r.mayUse(r.asker)).Candidates); ok && name != r.assistant.Name {
		return q, false
	}
	gone := slices.ContainsFunc(items, func(other store.Item) bool {
		stop, ok := r.e.stopOf(other)
		return ok && stop.Message == it.Key
	})
	return q, !gone
}

// lookCloser gives what a further message says to the model. One that cannot be looked at now waits for its own turn.
func (r *running) lookCloser(ctx context.Context, m chat.Message) (string, bool) {
	got, err := r.e.o.Surface.Look(ctx, m, false)
	if err != nil {
		r.e.o.Log.Warn().Err(err).Str("turn", r.journal.Turn()).Msg("look at a message that came meanwhile")
		return "", false
	}
	return r.named(withFiles(r.saying(got.Message), r.maskedFiles(got.Message.Files)), r.several), true
}
