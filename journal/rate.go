package journal

import (
	"context"
	"encoding/json"
	"fmt"

	"switchboard/chat"
	"switchboard/store"
)

// rating is the row that a person's feedback on a turn leaves: metadata, so it stays.
type rating struct {
	Good bool `json:"good"`
}

// Rate keeps what a person thinks of a turn: one row for each person and turn, the latest word counts. A turn that is not
// on record cannot be rated.
func Rate(ctx context.Context, s store.Store, f chat.Feedback) error {
	if _, ok := TurnOf(f.Turn); !ok || f.Person == "" {
		return fmt.Errorf("rate turn %q: a rating needs the id of a turn and of a person", f.Turn)
	}
	known, err := s.Events(ctx, f.Turn)
	if err != nil {
		return fmt.Errorf("rate turn %s: %w", f.Turn, err)
	}
	if len(known) == 0 {
		return fmt.Errorf("rate turn %s: there is no such turn in this store", f.Turn)
	}
	data, err := json.Marshal(rating{f.Good})
	if err != nil {
		return fmt.Errorf("rate turn %s: %w", f.Turn, err)
	}
	if err := s.Commit(ctx, store.Batch{Contents: []store.Content{{Key: feedbackKey(f.Turn, f.Person), Value: data}}}); err != nil {
		return fmt.Errorf("rate turn %s: %w", f.Turn, err)
	}
	return nil
}

func (f *Feedback) add(r rating) {
	if r.Good {
		f.Good++
	} else {
		f.Bad++
	}
}

// String says it in words; empty where nobody has rated.
func (f Feedback) String() string {
	switch {
	case f.Good > 0 && f.Bad > 0:
		return fmt.Sprintf("%d good, %d bad", f.Good, f.Bad)
	case f.Good > 0:
		return fmt.Sprintf("%d good", f.Good)
	case f.Bad > 0:
		return fmt.Sprintf("%d bad", f.Bad)
	}
	return ""
}
