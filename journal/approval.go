package journal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"switchboard/chat"
	"switchboard/store"
)

// Stand is how far a decision has got.
type Stand string

// The stands of an Approval. Every one but Open is final.
const (
	Open      Stand = "open"
	Approved  Stand = "approved"
	Rejected  Stand = "denied"
	Answered  Stand = "answered" // a question, in words
	Expired   Stand = "expired"  // it counts as refused
	Withdrawn Stand = "withdrawn"
	Happened  Stand = "happened" // an effect in doubt: it took place
	NotDone   Stand = "not_done" // it did not
)

// Approval is the record of a decision that a person has to make: about a call that waits, or about an effect that nobody
// knows the outcome of. It is metadata only and stays for ever; what was shown is a content of the turn.
type Approval struct {
	ID        string        `json:"id"`
	Kind      chat.CardKind `json:"kind"`
	Pack      string        `json:"pack"`    // name of the bot
	Version   string        `json:"version"` // of the pack, that the run is pinned to
	Turn      string        `json:"turn"`
	Seq       int           `json:"seq"` // of the call
	Tool      string        `json:"tool"`
	Thread    string        `json:"thread"` // where a decision is queued
	Requester string        `json:"requester"`
	Call      string        `json:"call"`              // digest of tool, arguments and scope
	Request   string        `json:"request,omitempty"` // digest of the bytes that will be sent
	Needs     []Need        `json:"needs"`
	In        []string      `json:"in,omitempty"` // channels that get the card beside the thread
	Asked     time.Time     `json:"asked"`
	Until     time.Time     `json:"until,omitzero"` // zero: it waits for ever
	Stand     Stand         `json:"stand"`
	By        *chat.Person  `json:"by,omitempty"` // who decided, without a name
	Key       string        `json:"key,omitempty"`
	At        time.Time     `json:"at,omitzero"`
	Used      bool          `json:"used,omitempty"` // the call has been dispatched on it: once and never again

	version int64
}

// Need is one reason why a person must decide, with those who may. All needs of an approval must be met; a person who may
// meet several meets them at once.
type Need struct {
	Rule     string       `json:"rule"`         // names what the rule says, wherever it stands
	At       string       `json:"at,omitempty"` // file:line:col
	By       []string     `json:"by"`           // names of the pack's people, ids, or config.Requester
	FourEyes bool         `json:"four_eyes,omitempty"`
	Signed   *chat.Person `json:"signed,omitempty"` // who has met it
	SignedAt time.Time    `json:"signed_at,omitzero"`
}

// Rules names the rules that asked, so that a decision holds for them and no others.
func Rules(needs []Need) string {
	var all []string
	for _, n := range needs {
		all = append(all, n.Rule)
	}
	slices.Sort(all)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(all), "\n")))
	return hex.EncodeToString(sum[:])[:32]
}

// CardID gives the id of the card of a call. It tells nobody anything, and is the same on every try.
func CardID(turn string, seq int, kind chat.CardKind) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "card %s %d %s", turn, seq, kind))
	return "a_" + hex.EncodeToString(sum[:])[:20]
}

func approvalKey(id string) string        { return "approval/" + id }
func waitingKey(thread, id string) string { return waitingIn(thread) + id }
func waitingIn(thread string) string      { return waiting + thread + "/" }

const waiting = "waiting/"

// cardKey is where the words of a card lie.
func cardKey(turn string, seq int, kind chat.CardKind) string {
	return fmt.Sprintf("%s/card/%05d/%s", turn, seq, kind)
}

// decisionKey is where a decision's words lie: a call may have been approved, and then be in doubt.
func decisionKey(turn string, seq int, kind chat.CardKind) string {
	return fmt.Sprintf("%s/said/%05d/%s", turn, seq, kind)
}

// ErrNoApproval says that there is no decision of that id.
var ErrNoApproval = errors.New("there is no such decision to make")

// FindApproval reads a decision by the id of its card, and what the card shows; the card is nil once retention took it.
func FindApproval(ctx context.Context, s Approvals, id string) (Approval, *chat.Card, error) {
	rec, err := s.Get(ctx, approvalKey(id))
	if err != nil {
		return Approval{}, nil, fmt.Errorf("read approval %s: %w", id, err)
	}
	if rec.Version == 0 {
		return Approval{}, nil, fmt.Errorf("read approval %s: %w", id, ErrNoApproval)
	}
	var a Approval
	if err := json.Unmarshal(rec.Value, &a); err != nil {
		return Approval{}, nil, fmt.Errorf("read approval %s: %w", id, err)
	}
	a.version = rec.Version
	data, err := s.Content(ctx, cardKey(a.Turn, a.Seq, a.Kind))
	if err != nil {
		return Approval{}, nil, fmt.Errorf("read the card of approval %s: %w", id, err)
	}
	if data == nil {
		return a, nil, nil
	}
	var card chat.Card
	if err := json.Unmarshal(data, &card); err != nil {
		return Approval{}, nil, fmt.Errorf("read the card of approval %s: %w", id, err)
	}
	return a, &card, nil
}

// Approvals is what reading decisions needs of a store.
type Approvals interface {
	store.Records
	store.Contents
}

// OpenApprovals lists the decisions that wait, the oldest first; thread "" means all threads.
func OpenApprovals(ctx context.Context, s Approvals, thread string) ([]Approval, error) {
	prefix := waiting
	if thread != "" {
		prefix = waitingIn(thread)
	}
	rows, err := s.Under(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("list the decisions that wait: %w", err)
	}
	var out []Approval
	for _, row := range rows {
		id := row.Key[strings.LastIndex(row.Key, "/")+1:]
		a, _, err := FindApproval(ctx, s, id)
		if errors.Is(err, ErrNoApproval) || err == nil && a.Stand != Open { // decided between the two reads
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	slices.SortStableFunc(out, func(a, b Approval) int { return cmp.Or(a.Asked.Compare(b.Asked), cmp.Compare(a.ID, b.ID)) })
	return out, nil
}

// ask adds a new decision to a batch.
func (r *Recorder) ask(b *store.Batch, a Approval, card chat.Card) {
	putApproval(b, a)
	b.Puts = append(b.Puts, store.Put{Key: waitingKey(a.Thread, a.ID), Value: []byte(`{}`)})
	r.Content(b, cardKey(a.Turn, a.Seq, a.Kind), card)
}

// Close adds what was decided to a batch: the record, under the version that was read, and the line of the log. words is
// the reason or the answer. A batch that fails with store.ErrConflict lost against another decision.
func (a *Approval) Close(b *store.Batch, words string, until time.Time) {
	putApproval(b, *a)
	if a.Stand == Open { // signed by one, and not by all
		return
	}
	b.Puts = append(b.Puts, store.Put{Key: waitingKey(a.Thread, a.ID), Version: 1})
	d := Decided{Seq: a.Seq, Card: a.ID, Kind: a.Kind, Stand: a.Stand}
	if a.By != nil {
		d.By = a.By.ID
	}
	for _, n := range a.Needs {
		if n.Signed != nil && !slices.Contains(d.Signed, n.Signed.ID) {
			d.Signed = append(d.Signed, n.Signed.ID)
		}
	}
	meta, err := json.Marshal(d)
	if err != nil { // plain fields only
		panic("encode a decision: " + err.Error())
	}
	b.Events = append(b.Events, store.Event{Stream: a.Turn, At: a.At, Kind: KindDecided, Meta: meta})
	if words != "" {
		b.Contents = append(b.Contents, store.Content{Key: decisionKey(a.Turn, a.Seq, a.Kind), Value: []byte(words), Until: until})
	}
}

// Shown is what the card shows, as it is kept.
func (a *Approval) Shown(card []byte, until time.Time) store.Content {
	return store.Content{Key: cardKey(a.Turn, a.Seq, a.Kind), Value: card, Until: until}
}

// use adds to a batch that a call is dispatched on this decision.
func (a *Approval) use(b *store.Batch) {
	a.Used = true
	putApproval(b, *a)
}

func putApproval(b *store.Batch, a Approval) {
	value, err := json.Marshal(a)
	if err != nil { // plain fields only
		panic("encode approval " + a.ID + ": " + err.Error())
	}
	b.Puts = append(b.Puts, store.Put{Key: approvalKey(a.ID), Value: value, Version: a.version})
}
