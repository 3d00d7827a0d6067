package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"switchboard/chat"
	"switchboard/journal"
	"switchboard/llm"
	"switchboard/router"
	"switchboard/store"
)

// How much folds in: more of it in one request would be too long for a model, and could not be made shorter.
const (
	mostJoining      = 20 // messages before one round
	mostJoiningBytes = 32 << 10
	mostFolded       = 50 // messages in one run
)

// more folds in what the asker has said since the last round, and lets it lift what was refused before (rule L4). Nothing of
// it is written here: the messages are part of the turn once a reply that has heard them is stored. Until then they wait in
// the queue, and if this try ends they are still there.
func (r *running) more(ctx context.Context) ([]llm.Turn, error) {
	items, err := r.e.o.Store.Items(context.WithoutCancel(ctx), r.lease)
	if err != nil {
		return nil, fmt.Errorf("turn %s: %w: what waits behind it: %w", r.journal.Turn(), errRead, err)
	}
	var said []llm.Turn
	var names []string
	for _, a := range r.mayUse(r.asker) {
		names = append(names, a.Name)
	}
	size := 0
	for _, it := range r.behind(items) {
		if len(said) == mostJoining || len(r.folded)+len(r.joining) == mostFolded || size > mostJoiningBytes {
			break // the rest waits for the next round, or for a turn of its own
		}
		q, ok := r.joins(it, items, names)
		if !ok {
			break
		}
		f, ok := r.lookCloser(ctx, q.Message)
		if !ok {
			break
		}
		f.Key = it.Key
		r.joining = append(r.joining, f)
		said = append(said, llm.Turn{Role: llm.User, Text: f.Text})
		size += len(f.Text)
	}
	if said != nil {
		var own []string
		file := false
		for _, f := range r.joining {
			own = append(own, f.Said)
			file = file || strings.Contains(f.Text, fileMark)
		}
		r.door.Heard(own, file)
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
func (r *running) joins(it store.Item, items []store.Item, names []string) (queued, bool) {
	var q queued
	if json.Unmarshal(it.Body, &q) != nil || q.Resume != nil || q.Pack != r.desk.Pack.Name {
		return q, false
	}
	m := q.Message
	if m.From.ID != r.asker.ID || m.Pick != nil || m.Unasked {
		return q, false
	}
	if open := r.thread.Open; open != nil && !r.picked {
		if _, ok := open.picked(m.Text); ok {
			return q, false
		}
	}
	if name, ok := router.Address(m.Text, names); ok && name != r.assistant.Name {
		return q, false
	}
	gone := slices.ContainsFunc(items, func(other store.Item) bool {
		stop, ok := r.e.stopOf(other)
		return ok && stop.Message == it.Key
	})
	return q, !gone
}

// lookCloser gives what a further message says to the model. One that cannot be looked at now waits for its own turn.
func (r *running) lookCloser(ctx context.Context, m chat.Message) (journal.Folded, bool) {
	got, err := r.e.o.Surface.Look(ctx, m, false)
	if err != nil {
		r.e.o.Log.Warn().Err(err).Str("turn", r.journal.Turn()).Msg("look at a message that came meanwhile")
		return journal.Folded{}, false
	}
	text, files := r.saying(got.Message), r.maskedFiles(got.Message.Files)
	return journal.Folded{ID: m.ID, Text: r.named(withFiles(text, files), r.several), Said: fileNames(text, files)}, true
}
