package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"switchboard/chat"
	"switchboard/store"
)

// Recorder writes one turn's record. What is staged becomes durable with the next commit, never after it, so that a
// model's reply and the intent of its first call share one write to the disk. Safe for concurrent calls of a round.
type Recorder struct {
	store store.Committer
	lease store.Lease
	turn  string
	now   func() time.Time
	keep  time.Duration
	mask  Mask

	mu      sync.Mutex // held while a commit that carries staged rows is under way, so that nothing overtakes them
	staged  store.Batch
	pending bool
}

// RecorderOptions say whose record it is and how long its words are kept.
type RecorderOptions struct {
	Store     store.Committer
	Lease     store.Lease
	Turn      string
	Now       func() time.Time
	Retention time.Duration
	Mask      Mask
}

// NewRecorder writes to the turn's stream under the lease of its thread.
func NewRecorder(o RecorderOptions) *Recorder {
	return &Recorder{store: o.Store, lease: o.Lease, turn: o.Turn, now: o.Now, keep: o.Retention, mask: o.Mask}
}

// Turn is the id of the turn that is recorded.
func (r *Recorder) Turn() string { return r.turn }

// Mask hides what this turn's record may not hold.
func (r *Recorder) Mask() Mask { return r.mask }

// Stage adds to what the next commit makes durable.
func (r *Recorder) Stage(add func(*store.Batch)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	add(&r.staged)
	r.pending = true
}

// Commit makes everything that was staged, and then add's rows, durable in one step. add may be nil.
func (r *Recorder) Commit(ctx context.Context, add func(*store.Batch)) error {
	r.mu.Lock()
	b := r.staged
	if add != nil {
		add(&b)
	}
	b.Lease = &r.lease
	if !r.pending {
		r.mu.Unlock()
		return r.commit(ctx, b)
	}
	defer r.mu.Unlock()
	if err := r.commit(ctx, b); err != nil {
		return err
	}
	r.staged, r.pending = store.Batch{}, false
	return nil
}

func (r *Recorder) commit(ctx context.Context, b store.Batch) error {
	if err := r.store.Commit(ctx, b); err != nil {
		return fmt.Errorf("record turn %s: %w", r.turn, err)
	}
	return nil
}

// Event appends a row of the turn's stream to b. meta must be one of the structs named beside the kinds.
func (r *Recorder) Event(b *store.Batch, kind string, meta any) {
	data, err := json.Marshal(meta)
	if err != nil { // the structs hold only plain fields
		panic(fmt.Sprintf("encode %s event: %v", kind, err))
	}
	b.Events = append(b.Events, store.Event{Stream: r.turn, At: r.now(), Kind: kind, Meta: data})
}

// Content adds words to b, kept for the retention. A value that is no string or bytes is written as JSON.
func (r *Recorder) Content(b *store.Batch, key string, value any) {
	var data []byte
	switch v := value.(type) {
	case string:
		data = []byte(v)
	case []byte:
		data = v
	default:
		var err error
		if data, err = json.Marshal(v); err != nil {
			panic(fmt.Sprintf("encode content %s: %v", key, err))
		}
	}
	b.Contents = append(b.Contents, store.Content{Key: key, Value: data, Until: r.now().Add(r.keep)})
}

// Message keeps what was asked.
func (r *Recorder) Message(b *store.Batch, text string) {
	r.Content(b, messageKey(r.turn), r.mask.Text(text))
}

// Seen keeps what the turn knows of its message beside the text, as JSON that is the turn's own.
func (r *Recorder) Seen(b *store.Batch, value any) { r.Content(b, seenKey(r.turn), value) }

// Reply keeps what was answered.
func (r *Recorder) Reply(b *store.Batch, text string) { r.Content(b, replyKey(r.turn), text) }

// Step stages a model call. It becomes durable with the turn's next commit.
func (r *Recorder) Step(s Step) { r.Stage(func(b *store.Batch) { r.Event(b, KindStep, s) }) }

// Round stages a model's reply, which must be durable before the first call that it asks for, and the messages that it has
// answered beside the turn's own.
func (r *Recorder) Round(n int, reply Reply, folded []Folded) {
	r.Stage(func(b *store.Batch) {
		for _, f := range folded {
			if f.Said == f.Text {
				f.Said = ""
			}
			reply.Heard, reply.Said = append(reply.Heard, f.Text), append(reply.Said, f.Said)
			r.Event(b, KindFolded, f)
		}
		r.Content(b, roundKey(r.turn, n), reply)
	})
}

// Scope keeps the values that are bound to the run: a run that goes on later goes on with the same.
func (r *Recorder) Scope(b *store.Batch, scope map[string]string) {
	if len(scope) > 0 {
		r.Content(b, scopeKey(r.turn), scope)
	}
}

// Talk keeps the conversation that a run answers, as JSON that is the turn's own, for when it goes on after a wait.
func (r *Recorder) Talk(b *store.Batch, value any) { r.Content(b, talkKey(r.turn), value) }

// Epoch is that of the lease under which the record is written.
func (r *Recorder) Epoch() int64 { return r.lease.Epoch }

// Ask makes the intent of a call durable that waits for a person, with the decision that it waits for and its card.
func (r *Recorder) Ask(ctx context.Context, c Call, a Approval, card chat.Card) error {
	return r.Commit(ctx, func(b *store.Batch) {
		r.Event(b, KindIntent, c.Intent)
		r.Content(b, wordsKey(r.turn, c.Seq), c.Words)
		r.ask(b, a, card)
	})
}

// Attempt makes durable that an effect is begun now: its intent too where that is not written yet, and that the decision
// which allows it is used up, where there was one. request is the bytes that will be sent.
func (r *Recorder) Attempt(ctx context.Context, c Call, at Attempt, by *Approval, request []byte) error {
	return r.Commit(ctx, func(b *store.Batch) {
		if len(c.Attempts) == 0 && c.Card == "" {
			r.Event(b, KindIntent, c.Intent)
			r.Content(b, wordsKey(r.turn, c.Seq), c.Words)
		}
		r.Event(b, KindAttempt, at)
		if len(request) > 0 && len(c.Attempts) == 0 {
			r.Content(b, requestKey(r.turn, c.Seq), request)
		}
		if by != nil {
			by.use(b)
		}
	})
}

// Doubt adds a decision about an effect that nobody knows the outcome of to what the next commit makes durable.
func (r *Recorder) Doubt(a Approval, card chat.Card) {
	r.Stage(func(b *store.Batch) { r.ask(b, a, card) })
}

// Intend makes a call's intent durable, before anything of it is dispatched. A call that is settled at once brings both.
func (r *Recorder) Intend(ctx context.Context, c Call) error {
	return r.Commit(ctx, func(b *store.Batch) {
		r.Event(b, KindIntent, c.Intent)
		r.Content(b, wordsKey(r.turn, c.Seq), c.Words)
		if c.Settled != nil {
			r.settle(b, c)
		}
	})
}

// Settle makes a call's outcome durable, before the model is told. full is the whole result where only its beginning is
// shown, and empty otherwise.
func (r *Recorder) Settle(ctx context.Context, c Call, full string) error {
	return r.Commit(ctx, func(b *store.Batch) {
		r.settle(b, c)
		if full != "" {
			r.Content(b, fullKey(r.turn, c.Seq), full)
		}
	})
}

// Settled adds a call's outcome to a batch.
func (r *Recorder) Settled(b *store.Batch, c Call) { r.settle(b, c) }

func (r *Recorder) settle(b *store.Batch, c Call) {
	r.Event(b, KindOutcome, c.Settled)
	r.Content(b, answerKey(r.turn, c.Seq), c.Answer)
}
