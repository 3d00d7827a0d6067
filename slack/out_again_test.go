package slack

import (
	"fmt"
	"strings"
	"testing"
	"time"

	slackgo "github.com/slack-go/slack"

	"switchboard/chat"
	"switchboard/slack/sim"
	"switchboard/turn"
)

// visible gives what people see of messages.
func visible(messages []sim.Message) string {
	var out []string
	for _, m := range messages {
		out = append(out, fmt.Sprintf("%.60q", m.Visible()))
	}
	return strings.Join(out, " | ")
}

func TestD3_OnlyWhatIsADraftBecomesTheReply(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]slackgo.MsgOption{
		"a question in somebody's name": slackgo.MsgOptionMetadata(slackgo.SlackMetadata{EventType: questionType, EventPayload: map[string]any{"by": "V1"}}),
		"another turn's draft":          slackgo.MsgOptionMetadata(slackgo.SlackMetadata{EventType: draftType, EventPayload: map[string]any{"turn": "t_other"}}),
		"another program's post":        slackgo.MsgOptionMetadata(slackgo.SlackMetadata{EventType: "tool_report", EventPayload: map[string]any{"rows": 3}}),
		"a post without a mark":         nil,
	} {
		everywhere(t, func(st *stage, m chat.Message) {
			t := st.t
			dm := m.Channel.Visibility == chat.DM
			if dm && options == nil {
				return // it may be a stream, which has no mark
			}
			all := []slackgo.MsgOption{slackgo.MsgOptionText("said beside it", false)}
			if options != nil {
				all = append(all, options)
			}
			if _, err := st.s.post(t.Context(), saying, placeOf(m), slackgo.MsgOptionCompose(all...)); err != nil {
				t.Fatal(err)
			}
			p := reply(m, "The answer.")
			p.Resumed, p.Again = true, true
			st.post(t, p)
			if got := visible(st.bots(m)); !strings.HasPrefix(got, `"said beside it`) || !strings.Contains(got, "The answer.") {
				t.Errorf("%s: %s", name, got)
			}
		})
	}
}

func TestD3_ALookUpWaitsForSlacksLimits(t *testing.T) {
	t.Parallel()
	everywhere(t, func(st *stage, m chat.Message) {
		t := st.t
		p := reply(m, "The answer.")
		st.post(t, p)
		st.w.Fail(sim.Fault{Method: "conversations.replies", Do: sim.Limited, Retry: 60})
		st.w.Fail(sim.Fault{Method: "conversations.replies", Do: sim.ServerError, After: 1})
		p.Again = true
		st.post(t, p)
		st.checkWhole(t, p)
	})
}

func TestD3_AFormsReplyIsFoundByAClockThatIsAhead(t *testing.T) {
	t.Parallel()
	everywhere(t, func(st *stage, m chat.Message) {
		t := st.t
		if _, err := st.s.post(t.Context(), saying, placeOf(m), slackgo.MsgOptionText("Said earlier.", false)); err != nil {
			t.Fatal(err)
		}
		m.Key = "click:V1:U0ANA:form"
		m.ID = fmt.Sprintf("%d.000000", st.clock.now().Add(30*time.Second).Unix())
		p := reply(m, "The answer.")
		st.post(t, p)
		p.Again = true
		st.post(t, p)
		if got := st.bots(m); len(got) != 2 || got[0].Text != "Said earlier." || markdown(t, got[1]) != "The answer." {
			t.Errorf("%s", visible(got))
		}
	})
}

func TestD3_NothingIsSaidAheadOfWhatStands(t *testing.T) {
	t.Parallel()
	everywhere(t, func(st *stage, m chat.Message) {
		t := st.t
		_, err := st.s.post(t.Context(), saying, placeOf(m), slackgo.MsgOptionCompose(slackgo.MsgOptionText("A draft.", false),
			slackgo.MsgOptionMetadata(slackgo.SlackMetadata{EventType: draftType, EventPayload: map[string]any{"turn": "t_" + m.ID}})))
		if err != nil {
			t.Fatal(err)
		}
		p := reply(m, strings.Repeat(strings.Repeat("Some words of an answer. ", 16)+"\n\n", 40))
		st.w.Fail(sim.Fault{Method: "chat.postMessage", Do: sim.CutFirst, After: 1})
		if err := st.s.Post(t.Context(), p); err == nil {
			t.Fatal("the loss is not told")
		}
		p.Again = true
		st.post(t, p)
		st.checkWhole(t, p)
	})
}

func TestADraftOfAKilledProcessIsTakenBack(t *testing.T) {
	t.Parallel()
	for _, began := range []bool{true, false} {
		everywhere(t, func(st *stage, m chat.Message) {
			t := st.t
			st.show(t, m, turn.Progress{Began: true})
			st.show(t, m, turn.Progress{Text: "Some words. "})
			st.await(t, "text", 0, says("Some words."))
			if _, err := st.s.out.leave(t.Context(), "t_"+m.ID); err != nil { // as dead as killed
				t.Fatal(err)
			}
			st.s = st.speaker(t, strings.TrimSuffix(st.s.o.APIURL, "/api/"))
			if began {
				st.show(t, m, turn.Progress{Began: true, Resumed: true})
			}
			st.show(t, m, turn.Progress{Ended: true, Resumed: true})
			st.s.out.live.Wait()
			if got := st.bots(m); len(got) != 0 {
				t.Errorf("left behind: %s", visible(got))
			}
			if s, _ := st.w.SessionOf(m.Thread.Channel, m.Thread.Root); s.State == "processing" || s.Words != "" {
				t.Errorf("it still seems busy: %+v", s)
			}
		})
	}
}

func TestADraftIsTakenBackThoughSlackAsksToWait(t *testing.T) {
	t.Parallel()
	everywhere(t, func(st *stage, m chat.Message) {
		t := st.t
		st.show(t, m, turn.Progress{Began: true})
		st.show(t, m, turn.Progress{Text: "Some words. "})
		st.await(t, "text", 0, says("Some words."))
		st.w.Fail(sim.Fault{Method: "chat.delete", Do: sim.Limited, Retry: 60})
		st.show(t, m, turn.Progress{Ended: true})
		st.s.out.live.Wait()
		if got := st.bots(m); len(got) != 0 {
			t.Errorf("left behind: %s", visible(got))
		}
	})
}

func TestAReplyDoesNotWaitForADraftThatIsBeingTakenBack(t *testing.T) {
	t.Parallel()
	everywhere(t, func(st *stage, m chat.Message) {
		t := st.t
		st.show(t, m, turn.Progress{Began: true})
		st.show(t, m, turn.Progress{Text: "Some words. "})
		st.await(t, "text", 0, says("Some words."))
		st.w.Fail(sim.Fault{Method: "chat.delete", Do: sim.Limited, Retry: 3600})
		st.show(t, m, turn.Progress{Ended: true})
		st.await(t, "the refusal", 0, func(e sim.Entry) bool { return e.Method == "chat.delete" })
		p := reply(m, "Other words.")
		st.post(t, p)
		st.checkWhole(t, p)
	})
}

func TestAStatusWhoseAnswerWasLostIsCleared(t *testing.T) {
	t.Parallel()
	everywhere(t, func(st *stage, m chat.Message) {
		t := st.t
		st.w.Fail(sim.Fault{Method: "assistant.threads.setStatus", Do: sim.LostAs500})
		st.show(t, m, turn.Progress{Began: true})
		e := st.await(t, "a status", 0, func(e sim.Entry) bool { return e.What == sim.Status && e.Text == working })
		st.show(t, m, turn.Progress{Ended: true})
		st.s.out.live.Wait()
		if s, _ := st.w.SessionOf(m.Thread.Channel, m.Thread.Root); s.State == "processing" || s.Words != "" {
			t.Errorf("since %d it still seems busy: %+v", e.N, s)
		}
	})
}

func TestOneRefusedStreamIsOne(t *testing.T) {
	t.Parallel()
	for refusal, general := range map[string]bool{"msg_too_long": false, "user_not_allowed": false, "unknown_method": true} {
		t.Run(refusal, func(t *testing.T) {
			t.Parallel()
			st := newStage(t)
			shownBy := func() string {
				m, from := st.told(t, "tell me"), st.w.Mark()
				st.show(t, m, turn.Progress{Began: true})
				st.show(t, m, turn.Progress{Text: "Some words. "})
				e := st.await(t, "text", from, says("Some words."))
				st.post(t, reply(m, "Some words."))
				return string(e.What)
			}
			st.w.Fail(sim.Fault{Method: "chat.startStream", Do: sim.Refuse, Error: refusal})
			first, second := shownBy(), shownBy()
			if want := map[bool]string{true: string(sim.Posted), false: string(sim.Began)}[general]; first != string(sim.Posted) || second != want {
				t.Errorf("the refused turn was %s, the next one %s", first, second)
			}
			st.clock.forward(refusedBy)
			if third := shownBy(); third != string(sim.Began) {
				t.Errorf("later on a turn is still %s", third)
			}
		})
	}
}
