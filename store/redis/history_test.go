package redis_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"switchboard/store"
	"switchboard/store/redis"
	"switchboard/store/redistest"
)

// step is one call on a record in a history: a read, or a write that expects a version.
type step struct {
	put            bool
	version, value int64 // of a put: expected and new; of a read: seen
	deletes        bool
	conflict       bool // the answer of a put
}

// register is a record as it must seem to be: one place in which steps happen one after the other.
func register() porcupine.Model {
	type state struct{ version, value int64 }
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, input, output any) (bool, any) {
			now, _ := s.(state)
			in, _ := input.(step)
			out, _ := output.(step)
			switch {
			case !in.put:
				return out.version == now.version && out.value == now.value, now
			case out.conflict:
				return in.version != now.version, now
			case in.version != now.version:
				return false, now
			case in.deletes:
				return true, state{}
			default:
				return true, state{now.version + 1, in.value}
			}
		},
	}
}

// What many callers in three processes saw of one record, with answers being lost, could have happened one after the other.
func TestRel_R26_RecordsAreLinearizable(t *testing.T) {
	t.Parallel()
	p := redistest.Through(t, redistest.Start(t).Addr())
	var mu sync.Mutex
	var history []porcupine.Operation
	var callers sync.WaitGroup
	began := time.Now()
	for client := range 6 {
		if client == 0 {
			p.DropAtRandom(26, 0)
		}
		s := open(t, p.URL(), redis.Options{})
		callers.Go(func() {
			dice := rand.New(rand.NewPCG(26, uint64(client))) //nolint:gosec // a test that can be repeated
			seen := int64(0)
			for i := range 60 {
				in, out := step{}, step{}
				if dice.IntN(2) == 0 {
					in = step{put: true, version: seen, value: int64(client*1000 + i), deletes: seen > 0 && dice.IntN(8) == 0}
				}
				call := time.Since(began)
				if in.put {
					put := store.Put{Key: "r", Version: in.version}
					if !in.deletes {
						put.Value = fmt.Append(nil, in.value)
					}
					err := s.Commit(t.Context(), store.Batch{Puts: []store.Put{put}})
					out.conflict = errors.Is(err, store.ErrConflict)
					if err != nil && !out.conflict {
						t.Error(err)
						return
					}
				} else {
					r, err := s.Get(t.Context(), "r")
					if err != nil {
						t.Error(err)
						return
					}
					out.version, seen = r.Version, r.Version
					if _, err := fmt.Sscan(string(r.Value), &out.value); r.Version > 0 && err != nil {
						t.Error(err)
					}
				}
				back := time.Since(began)
				mu.Lock()
				history = append(history, porcupine.Operation{
					ClientId: client, Input: in, Call: call.Nanoseconds(), Output: out, Return: back.Nanoseconds(),
				})
				mu.Unlock()
			}
		})
	}
	p.DropAtRandom(26, 0.1)
	callers.Wait()
	if result := porcupine.CheckOperationsTimeout(register(), history, 20*time.Second); result != porcupine.Ok {
		t.Errorf("the history of %d steps is %s", len(history), result)
	}
	// The checker can tell: one changed answer, and the history could not have happened.
	for i, o := range history {
		if out, ok := o.Output.(step); ok && !o.Input.(step).put {
			out.version += 100
			history[i].Output = out
			break
		}
	}
	if result := porcupine.CheckOperationsTimeout(register(), history, 20*time.Second); result != porcupine.Illegal {
		t.Errorf("a falsified history is %s", result)
	}
	t.Logf("%d steps, %d answers lost", len(history), p.Lost())
}
