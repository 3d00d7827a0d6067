package turn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"switchboard/llm"
	"switchboard/store"
)

// errDay says that a model call would pass what the person may cost in a day.
var errDay = errors.New("today's budget for your questions is used up")

// errRead says that something which a turn depends on cannot be read. It is tried again, and nobody is told an answer.
var errRead = errors.New("read the store")

// overspent says whether the person has used up the day's money (rule L6).
func (s *story) overspent(ctx context.Context) (bool, error) {
	limit := llm.USD(s.desk.Pack.Limits.PersonDay)
	if limit == 0 {
		return false, nil
	}
	spent, err := s.onRecord(ctx)
	if err != nil {
		return false, err
	}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	return spent+s.e.purses[s.spendKey()] >= limit, nil
}

// afford sets aside what a model call may cost at the most, or says errDay. Turns of one person that this process works on
// side by side share what is left of the day; turns of other processes are seen once they are over.
func (s *story) afford(ctx context.Context, most llm.USD) error {
	var spent llm.USD
	limit := llm.USD(s.desk.Pack.Limits.PersonDay)
	if limit > 0 {
		var err error
		if spent, err = s.onRecord(ctx); err != nil {
			return err
		}
	}
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	want := s.spent.Cost - s.charged + most
	if limit > 0 && spent+s.e.purses[s.spendKey()]-s.held+want > limit {
		return errDay
	}
	s.keep(want)
	return nil
}

// hold sets what of the person's purse is this turn's.
func (s *story) hold(want llm.USD) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	s.keep(want)
}

// settle takes the turn out of the purse: what it has cost is on record, or the next try of it counts it again.
func (s *story) settle() { s.hold(0) }

// keep is hold for those who have the engine's lock.
func (s *story) keep(want llm.USD) {
	key := s.spendKey()
	s.e.purses[key] += want - s.held
	s.held = want
	if s.e.purses[key] == 0 {
		delete(s.e.purses, key)
	}
}

func (s *story) onRecord(ctx context.Context) (llm.USD, error) {
	n, err := s.e.o.Store.Count(ctx, s.spendKey())
	if err != nil {
		return 0, fmt.Errorf("turn %s: %w: what %s has spent today: %w", s.journal.Turn(), errRead, s.asker.ID, err)
	}
	return llm.USD(n), nil
}

// charge puts what the turn has cost on the person's day.
func (s *story) charge(b *store.Batch) {
	if due := s.spent.Cost - s.charged; due > 0 {
		b.Adds = append(b.Adds, store.Add{Key: s.spendKey(), Delta: int64(due), Until: s.rec.Began.Add(48 * time.Hour)})
	}
}

func (s *story) spendKey() string {
	return "usd/" + s.asker.ID + "/" + s.rec.Began.UTC().Format(time.DateOnly)
}
