package slack

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"switchboard/chat"
	"switchboard/store"
	"switchboard/turn"
)

// A process that stood still and was taken over meanwhile says nothing twice, and takes nothing away: what was its draft is the
// other's reply by now.
func TestD2_WhoWasTakenOverTouchesNothing(t *testing.T) {
	t.Parallel()
	everywhere(t, func(st *stage, m chat.Message) {
		t := st.t
		var lost atomic.Bool
		held := func() bool { return !lost.Load() }
		st.show(t, m, turn.Progress{Began: true, Held: held})
		st.show(t, m, turn.Progress{Text: "Some words. ", Held: held})
		st.await(t, "text", 0, says("Some words."))
		lost.Store(true)
		old := st.s
		st.s = st.speaker(t, strings.TrimSuffix(st.s.o.APIURL, "/api/"))
		p := reply(m, "Some words. This is all of it.")
		p.Resumed = true
		st.post(t, p)
		st.checkWhole(t, p)

		st.s = old
		st.show(t, m, turn.Progress{Ended: true, Held: held})
		old.out.live.Wait()
		p.Held = held
		if err := old.Post(t.Context(), p); !errors.Is(err, turn.ErrTakenOver) || !errors.Is(err, store.ErrStale) {
			t.Errorf("Post = %v, want ErrTakenOver", err)
		}
		st.checkWhole(t, p)
	})
}
