package slack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	slackgo "github.com/slack-go/slack"
)

// gated is a surface of which only the gate is at work, on the clock of the test's bubble.
func gated() *Slack {
	s := &Slack{o: Options{Now: time.Now, Log: zerolog.Nop(), Wait: func(ctx context.Context, d time.Duration) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}}
	s.out.begin()
	return s
}

// diary writes down what happened when, in order.
type diary struct {
	mu    sync.Mutex
	began time.Time
	lines []string
}

func (d *diary) write(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf("%v %s", time.Since(d.began).Round(100*time.Millisecond), what))
}

func TestPostsInAChannelArePacedAndInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, d := gated(), &diary{began: time.Now()}
		var done sync.WaitGroup
		for i := range channelBurst + 3 {
			done.Go(func() {
				_ = s.call(t.Context(), saying, "chat.postMessage", "C1", func(context.Context) error { d.write(fmt.Sprint(i)); return nil })
			})
			synctest.Wait()
		}
		err := s.call(t.Context(), saying, "chat.postMessage", "C2", func(context.Context) error { d.write("other channel"); return nil })
		if err != nil {
			t.Fatal(err)
		}
		done.Wait()
		want := []string{}
		for i := range channelBurst {
			want = append(want, fmt.Sprintf("0s %d", i))
		}
		want = append(want, "0s other channel", "1s 5", "2s 6", "3s 7")
		if diff := cmp.Diff(want, d.lines); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWhatSlackTurnsAwayWaitsInOrderAndIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]error{
		"429":          &slackgo.RateLimitedError{RetryAfter: 3 * time.Second},
		"429 bare":     slackgo.StatusCodeError{Code: http.StatusTooManyRequests},
		"200":          slackgo.SlackErrorResponse{Err: "ratelimited"},
		"200 with a _": slackgo.SlackErrorResponse{Err: "rate_limited"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, d := gated(), &diary{began: time.Now()}
				turnedAway := 0
				var done sync.WaitGroup
				for i := range 4 {
					done.Go(func() {
						err := s.call(t.Context(), saying, "chat.update", "C1", func(context.Context) error {
							if turnedAway < 2 {
								turnedAway++
								return fmt.Errorf("as the library wraps it: %w", limit)
							}
							d.write(fmt.Sprint(i))
							return nil
						})
						if err != nil {
							t.Error(err)
						}
					})
					synctest.Wait()
				}
				if err := s.call(t.Context(), showing, "chat.update", "C1", func(context.Context) error { d.write("shown"); return nil }); !errors.Is(err, errDropped) {
					t.Errorf("what is shown is not dropped: %v", err)
				}
				if err := s.call(t.Context(), saying, "chat.delete", "C1", func(context.Context) error { d.write("another method"); return nil }); err != nil {
					t.Error(err)
				}
				done.Wait()
				var order []string
				for _, l := range d.lines {
					order = append(order, l[strings.Index(l, " ")+1:])
				}
				slices.Sort(order[min(2, len(order)):]) // once one has gone well the others go out together
				if diff := cmp.Diff([]string{"another method", "0", "1", "2", "3"}, order); diff != "" {
					t.Errorf("%s\n%v", diff, d.lines)
				}
			})
		})
	}
}

func TestWhatIsSaidOvertakesLookUpsAndWhatIsShownIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, d := gated(), &diary{began: time.Now()}
		first := true
		limit := func(what string) func(context.Context) error {
			return func(context.Context) error {
				if first {
					first = false
					return &slackgo.RateLimitedError{RetryAfter: 10 * time.Second}
				}
				d.write(what)
				return nil
			}
		}
		var done sync.WaitGroup
		for _, c := range []struct {
			what string
			u    urgency
		}{{"look 1", looking}, {"look 2", looking}, {"say 1", saying}, {"say 2", saying}} {
			done.Go(func() {
				if err := s.call(t.Context(), c.u, "conversations.replies", "", limit(c.what)); err != nil {
					t.Error(c.what, err)
				}
			})
			synctest.Wait()
		}
		done.Wait()
		if diff := cmp.Diff([]string{"10s say 1", "10s say 2", "10s look 1", "10s look 2"}, d.lines); diff != "" {
			t.Error(diff)
		}
	})
}

func TestACallUnderWayDoesNotShortenTheWaitOfAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, d := gated(), &diary{began: time.Now()}
		var done sync.WaitGroup
		slow, limited := make(chan struct{}), true
		done.Go(func() {
			_ = s.call(t.Context(), saying, "chat.update", "C1", func(context.Context) error { <-slow; d.write("slow"); return nil })
		})
		synctest.Wait()
		done.Go(func() {
			_ = s.call(t.Context(), saying, "chat.update", "C1", func(context.Context) error {
				if limited {
					limited = false
					return &slackgo.RateLimitedError{RetryAfter: 5 * time.Second}
				}
				d.write("limited")
				return nil
			})
		})
		synctest.Wait()
		close(slow)
		done.Wait()
		if diff := cmp.Diff([]string{"0s slow", "5s limited"}, d.lines); diff != "" {
			t.Error(diff)
		}
	})
}

func TestALookUpIsNotKeptWaitingForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := gated(), time.Now()
		err := s.call(t.Context(), looking, "conversations.replies", "", func(context.Context) error {
			return &slackgo.RateLimitedError{RetryAfter: time.Minute}
		})
		if !errors.Is(err, errBusy) || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestOnlyLookUpsAreMadeAgainAfterNoAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := gated()
		for _, failure := range []error{io.ErrUnexpectedEOF, slackgo.StatusCodeError{Code: 502}, errors.New("invalid character '<' looking for beginning of value")} {
			for u, want := range map[urgency]int{saying: 1, looking: 3, showing: 1} {
				tries := 0
				err := s.call(t.Context(), u, "chat.postMessage", fmt.Sprint(failure, u), func(context.Context) error { tries++; return failure })
				if tries != want || !lost(err) || !errors.Is(err, failure) {
					t.Errorf("%v, urgency %d: %d tries, %v", failure, u, tries, err)
				}
			}
		}
		tries := 0
		err := s.call(t.Context(), looking, "users.info", "", func(context.Context) error {
			tries++
			return slackgo.SlackErrorResponse{Err: "user_not_found"}
		})
		if tries != 1 || code(err) != "user_not_found" || lost(err) {
			t.Errorf("an answer was not taken as one: %d tries, %v", tries, err)
		}
	})
}

func TestACallHasATimeLimitThatNamesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := gated(), time.Now()
		err := s.call(t.Context(), saying, "chat.postMessage", "C1", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		if !lost(err) || !strings.Contains(err.Error(), "chat.postMessage") || !strings.Contains(err.Error(), "within 10s") || time.Since(began) != callTime {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := gated()
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("the turn was handed back")
		var done sync.WaitGroup
		for range 3 {
			done.Go(func() {
				err := s.call(ctx, saying, "chat.postMessage", "C1", func(context.Context) error {
					return &slackgo.RateLimitedError{RetryAfter: time.Hour}
				})
				if !errors.Is(err, gone) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		cancel(gone)
		done.Wait()
		if n := len(s.out.gate.lanes["chat.postMessage"].queue); n != 0 {
			t.Errorf("%d calls still wait", n)
		}
	})
}

func TestTheGateForgetsChannelsAtRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := gated()
		none := func(context.Context) error { return nil }
		for i := range 3 * mostLanes {
			if err := s.call(t.Context(), saying, "chat.postMessage", fmt.Sprint("C", i), none); err != nil {
				t.Fatal(err)
			}
			if err := s.o.Wait(t.Context(), channelPace/10); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(s.out.gate.lanes); n > mostLanes+20 {
			t.Errorf("%d lanes are kept", n)
		}
	})
}

func TestTheGateDoesNotForgetAChannelThatIsFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := gated(), time.Now()
		none := func(context.Context) error { return nil }
		for range channelBurst {
			if err := s.call(t.Context(), saying, "chat.postMessage", "C0FULL", none); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 2 * mostLanes {
			if err := s.call(t.Context(), saying, "chat.postMessage", fmt.Sprint("C", i), none); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.call(t.Context(), saying, "chat.postMessage", "C0FULL", none); err != nil || time.Since(began) < channelPace {
			t.Errorf("a full channel's pace was forgotten: after %v, %v", time.Since(began), err)
		}
	})
}

func TestAChannelThatIsFullDoesNotKeepTheOthersBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := gated()
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		full := 0
		for range 3 {
			done.Go(func() {
				_ = s.call(ctx, saying, "chat.postMessage", "C0FULL", func(context.Context) error {
					full++
					return &slackgo.RateLimitedError{RetryAfter: time.Second}
				})
			})
		}
		synctest.Wait()
		for i := range 20 {
			began := time.Now()
			if err := s.call(ctx, saying, "chat.postMessage", fmt.Sprint("C", i), func(context.Context) error { return nil }); err != nil || time.Since(began) > 0 {
				t.Errorf("post %d waited %v: %v", i, time.Since(began), err)
			}
			if err := s.o.Wait(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		done.Wait()
		if full < 10 || full > 25 {
			t.Errorf("%d posts were tried in the full channel in 20 s", full)
		}
	})
}

func TestALimitOfAMethodKeepsAllChannelsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := gated(), time.Now()
		var tries atomic.Int64
		var done sync.WaitGroup
		for i := range 20 {
			done.Go(func() {
				err := s.call(t.Context(), saying, "chat.postMessage", fmt.Sprint("C", i), func(context.Context) error {
					tries.Add(1)
					if left := 30*time.Second - time.Since(began); left > 0 {
						return &slackgo.RateLimitedError{RetryAfter: min(left, 10*time.Second)}
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		done.Wait()
		if n := tries.Load(); n > 30 { // 20 that go well, and 2 for each wait
			t.Errorf("%d calls", n)
		}
	})
}

func TestAMethodWithoutEffectIsCalledAgainAlsoForAReply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, tries := gated(), 0
		err := s.call(t.Context(), saying, "conversations.replies", "", func(context.Context) error {
			if tries++; tries < lookTries {
				return io.ErrUnexpectedEOF
			}
			return nil
		})
		if err != nil || tries != lookTries {
			t.Errorf("%d tries: %v", tries, err)
		}
	})
}

func TestHealthTellsThatTheTokenIsRefused(t *testing.T) {
	t.Parallel()
	s := gated()
	s.health.begin()
	s.health.start(true)
	for _, step := range []struct {
		method string
		err    error
		ready  bool
	}{
		{"chat.postMessage", nil, true},
		{"chat.postMessage", slackgo.SlackErrorResponse{Err: "missing_scope"}, true},
		{"chat.postMessage", slackgo.SlackErrorResponse{Err: "token_revoked"}, false},
		{"apps.connections.open", nil, false}, // the app token's
		{"chat.postMessage", io.ErrUnexpectedEOF, false},
		{"users.info", nil, true},
		{"apps.connections.open", slackgo.SlackErrorResponse{Err: "invalid_auth"}, true},
	} {
		_ = s.call(t.Context(), saying, step.method, "C1", func(context.Context) error { return step.err })
		if h := s.Health(); h.Ready != step.ready {
			t.Errorf("after %s gave %v: %+v", step.method, step.err, h)
		}
	}
}
