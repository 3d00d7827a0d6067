package slack

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"switchboard/chat"
	"switchboard/journal"
	"switchboard/slack/sim"
	"switchboard/turn"
)

// everywhere tries something in a channel, where turns are shown as edits, and in direct messages, where Slack streams.
func everywhere(t *testing.T, try func(*stage, chat.Message)) {
	t.Helper()
	t.Run("channel", func(t *testing.T) {
		t.Parallel()
		st := newStage(t)
		try(st, st.asked(t, "tell me"))
	})
	t.Run("direct message", func(t *testing.T) {
		t.Parallel()
		st := newStage(t)
		try(st, st.told(t, "tell me"))
	})
}

func says(words string) func(sim.Entry) bool {
	return func(e sim.Entry) bool {
		return e.Message != nil && e.Message.App != "" && strings.Contains(e.Text, words)
	}
}

// speak shows a text as a model writes it, a word every 50 ms, and gives the entry's number when the last word was given.
func (st *stage) speak(t *testing.T, m chat.Message, text string) int {
	t.Helper()
	for _, word := range regexp.MustCompile(`\S*\s*`).FindAllString(text, -1) {
		st.show(t, m, turn.Progress{Text: word})
		if err := st.clock.wait(t.Context(), 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	return st.w.Mark()
}

func TestATurnIsShownFromItsBeginningToItsReply(t *testing.T) {
	t.Parallel()
	everywhere(t, func(st *stage, m chat.Message) {
		t := st.t
		st.show(t, m, turn.Progress{Began: true})
		st.await(t, "a status", 0, func(e sim.Entry) bool { return e.What == sim.Status && e.Text == working })
		if s, ok := st.w.SessionOf(m.Thread.Channel, m.Thread.Root); !ok || s.State != "processing" || !s.CanStop {
			t.Errorf("session: %+v", s)
		}
		st.show(t, m, call(1, "see what is booked", nil))
		st.await(t, "a card", 0, says("see what is booked"))
		st.show(t, m, call(1, "see what is booked", &journal.Settled{Outcome: journal.OK}))
		st.show(t, m, call(2, "look again", &journal.Settled{Outcome: journal.Failed}))
		st.await(t, "an ended card", 0, func(e sim.Entry) bool {
			return e.Message != nil && strings.Contains(fmt.Sprintf("%s", e.Message.Blocks), `"complete"`) && strings.Contains(fmt.Sprintf("%s", e.Message.Blocks), `"error"`)
		})
		text := "There is one booking on Monday, and " + strings.Repeat("quite a lot more on the other days ", 20) + "see [the list](https://good.com/list). That is all."
		last := st.speak(t, m, text)
		first := st.await(t, "text", 0, says("one booking on Monday"))
		if first.N >= last {
			t.Errorf("the text was first seen in entry %d, its last word was given at %d", first.N, last)
		}
		p := reply(m, text)
		st.post(t, p)
		got := st.checkWhole(t, p)[0]
		if got.TS != first.TS {
			t.Error("the reply is another message than what was shown")
		}
		if !strings.HasSuffix(kinds(t, got), "context_actions actions") {
			t.Errorf("blocks: %s", kinds(t, got))
		}
		if s, _ := st.w.SessionOf(m.Thread.Channel, m.Thread.Root); s.State == "processing" || s.Words != "" {
			t.Errorf("it still seems busy: %+v", s)
		}
		st.checkHarmless(t)
	})
}

func TestEveryReplyArrivesWholeAndHarmlessWhenShown(t *testing.T) {
	t.Parallel()
	texts := corpus()
	texts["40,000 characters"] = strings.Repeat(strings.Repeat("Some words of an answer. ", 16)+"\n\n", 100)[:40000]
	texts["calls"] = "<!channel> <!here> <!everyone> <!subteam^S0FIN> and `<!channel>` and more"
	for _, plain := range []string{"paragraphs", "long prose", "big table", "fence in quote", "nested list", "combining", "crlf"} {
		delete(texts, plain) // the way of parts into messages does not differ for them
	}
	for name, text := range texts {
		everywhere(t, func(st *stage, m chat.Message) {
			t := st.t
			st.show(t, m, turn.Progress{Began: true})
			pieces := regexp.MustCompile(`(?s)(\S*\s+){1,200}|\S+`).FindAllString(text, -1)
			if name == "one long word" || name == "emoji" || name == "combining" {
				pieces = []string{text}
			}
			for i, piece := range pieces {
				st.show(t, m, turn.Progress{Text: piece})
				if err := st.clock.wait(t.Context(), 200*time.Millisecond); err != nil {
					t.Fatal(err)
				}
				if i == len(pieces)/2 {
					st.await(t, name, 0, func(e sim.Entry) bool { return e.What == sim.Posted || e.What == sim.Began })
				}
			}
			p := reply(m, text)
			st.post(t, p)
			st.checkWhole(t, p)
			st.checkHarmless(t)
		})
	}
}

func TestM7_TextThatWasNotTheReplyIsTakenBack(t *testing.T) {
	t.Parallel()
	everywhere(t, func(st *stage, m chat.Message) {
		t := st.t
		st.show(t, m, turn.Progress{Began: true})
		st.show(t, m, turn.Progress{Text: "I will look that up. "})
		st.await(t, "text", 0, says("I will look that up."))
		st.show(t, m, turn.Progress{Void: true, Status: "I will look that up."})
		st.show(t, m, call(1, "see what is booked", nil))
		st.await(t, "a card", 0, says("see what is booked"))
		st.show(t, m, turn.Progress{Text: "Nothing is booked. "})
		st.await(t, "the reply", 0, says("Nothing is booked."))
		p := reply(m, "Nothing is booked.")
		st.post(t, p)
		got := st.checkWhole(t, p)
		if strings.Contains(got[0].Visible(), "I will look") {
			t.Errorf("still there: %q", got[0].Visible())
		}
	})
}

func TestATurnThatEndsWithoutAReplyLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	everywhere(t, func(st *stage, m chat.Message) {
		t := st.t
		st.show(t, m, turn.Progress{Began: true})
		st.show(t, m, turn.Progress{Text: "Some words. "})
		shown := st.await(t, "text", 0, says("Some words."))
		st.show(t, m, turn.Progress{Ended: true})
		st.await(t, "the end", shown.N, func(e sim.Entry) bool { return e.What == sim.Removed })
		st.await(t, "quiet", shown.N, func(e sim.Entry) bool {
			return e.What == sim.Status && e.Session.State == "active"
		})
		if got := st.bots(m); len(got) != 0 {
			t.Errorf("left behind: %+v", got)
		}
		st.show(t, m, turn.Progress{Began: true}) // another try
		st.show(t, m, turn.Progress{Text: "Other words. "})
		st.await(t, "the second try", shown.N, says("Other words."))
		p := reply(m, "Other words.")
		st.post(t, p)
		st.checkWhole(t, p)
	})
}

func TestStoppingTakesBackWhatIsShown(t *testing.T) {
	t.Parallel()
	everywhere(t, func(st *stage, m chat.Message) {
		t := st.t
		st.show(t, m, turn.Progress{Began: true})
		st.show(t, m, turn.Progress{Text: "Some words. "})
		st.await(t, "text", 0, says("Some words."))
		if err := st.s.out.close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := st.bots(m); len(got) != 0 {
			t.Errorf("left behind: %+v", got)
		}
		st.show(t, m, turn.Progress{Began: true})
		if n := len(st.s.out.shows); n != 0 {
			t.Errorf("%d turns are shown after the end", n)
		}
	})
}

func TestD3_WhatAKilledProcessHasShownBecomesTheReply(t *testing.T) {
	t.Parallel()
	everywhere(t, func(st *stage, m chat.Message) {
		t := st.t
		st.show(t, m, turn.Progress{Began: true})
		st.show(t, m, turn.Progress{Text: "Some words "})
		shown := st.await(t, "text", 0, says("Some words"))
		killed := st.s
		st.s = st.speaker(t, strings.TrimSuffix(killed.o.APIURL, "/api/"))
		p := reply(m, "Some words of another try.")
		p.Resumed = true
		st.post(t, p)
		got := st.checkWhole(t, p)
		if got[0].TS != shown.TS {
			t.Error("it is another message")
		}
		if s, _ := st.w.SessionOf(m.Thread.Channel, m.Thread.Root); s.State == "processing" || s.Words != "" {
			t.Errorf("it still seems busy: %+v", s)
		}
		for _, sh := range killed.out.shows { // it is dead, and takes nothing back
			sh.mu.Lock()
			sh.leaving = true
			sh.mu.Unlock()
		}
	})
}

func TestWhatCannotBeEditedAnyMoreIsReplaced(t *testing.T) {
	t.Parallel()
	for _, refusal := range []string{"block_mismatch", "edit_window_closed", "cant_update_message", "message_not_found", "is_inactive"} {
		everywhere(t, func(st *stage, m chat.Message) {
			t := st.t
			st.show(t, m, turn.Progress{Began: true})
			st.show(t, m, turn.Progress{Text: "Some words. "})
			st.await(t, "text", 0, says("Some words."))
			st.w.Fail(sim.Fault{Method: "chat.update", Do: sim.Refuse, Error: refusal, Times: -1})
			p := reply(m, "Quite other words.")
			st.post(t, p)
			st.checkWhole(t, p)
		})
	}
}

func TestADraftThatSomebodyDeletedIsReplaced(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	m := st.asked(t, "tell me")
	st.show(t, m, turn.Progress{Began: true})
	st.show(t, m, turn.Progress{Text: "Some words. "})
	shown := st.await(t, "text", 0, says("Some words."))
	st.s.quietly(st.s.remove(t.Context(), saying, placeOf(m), standing(shown.TS)), "delete what somebody deletes")
	st.speak(t, m, strings.Repeat("and more ", 40))
	p := reply(m, "Some words. "+strings.Repeat("and more ", 40))
	st.post(t, p)
	st.checkWhole(t, p)
}

func standing(ts string) shown { return shown{ts: ts} }

func TestAStreamThatSlackEndsGoesOnAsEdits(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	m := st.told(t, "tell me")
	st.show(t, m, turn.Progress{Began: true})
	st.show(t, m, turn.Progress{Text: "The beginning. "})
	began := st.await(t, "text", 0, says("The beginning."))
	st.clock.forward(6 * time.Minute)
	st.show(t, m, turn.Progress{Text: "The middle. "})
	edit := st.await(t, "an edit", began.N, func(e sim.Entry) bool { return e.What == sim.Updated && strings.Contains(e.Text, "The middle.") })
	if edit.TS != began.TS || !strings.Contains(edit.Text, "The beginning.") {
		t.Errorf("%+v", edit)
	}
	p := reply(m, "The beginning. The middle. The end.")
	st.post(t, p)
	st.checkWhole(t, p)
}

func TestALostAppendIsNotDoubled(t *testing.T) {
	t.Parallel()
	for _, how := range []sim.Trouble{sim.LostReply, sim.LostAs500, sim.CutFirst} {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			st := newStage(t)
			m := st.told(t, "tell me")
			st.show(t, m, turn.Progress{Began: true})
			st.show(t, m, turn.Progress{Text: "The beginning. "})
			began := st.await(t, "text", 0, says("The beginning."))
			st.w.Fail(sim.Fault{Method: "chat.appendStream", Do: how})
			st.show(t, m, turn.Progress{Text: "The middle. "})
			st.await(t, "an edit", began.N, func(e sim.Entry) bool { return e.What == sim.Updated && strings.Contains(e.Text, "The middle.") })
			p := reply(m, "The beginning. The middle. The end.")
			st.post(t, p)
			st.checkWhole(t, p)
			for _, e := range st.w.Log() {
				if strings.Count(e.Text, "The middle.") > 1 {
					t.Errorf("entry %d says it twice: %q", e.N, e.Text)
				}
			}
		})
	}
}

func TestWhatWasShownAndLostIsFound(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"chat.startStream", "chat.postMessage"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			st := newStage(t)
			m := st.asked(t, "tell me")
			if method == "chat.startStream" {
				m = st.told(t, "tell me")
			}
			st.w.Fail(sim.Fault{Method: method, Do: sim.LostReply})
			st.show(t, m, turn.Progress{Began: true})
			st.show(t, m, turn.Progress{Text: "The beginning. "})
			st.await(t, "text", 0, says("The beginning."))
			p := reply(m, "The beginning. The end.")
			st.post(t, p)
			st.checkWhole(t, p)
		})
	}
}

func TestWhereSlackDoesNotStreamOrShowAStatusThereIsADraft(t *testing.T) {
	t.Parallel()
	everywhere(t, func(st *stage, m chat.Message) {
		t := st.t
		st.w.Fail(sim.Fault{Method: "assistant.threads.setStatus", Do: sim.Refuse, Error: "unknown_method", Times: -1})
		st.w.Fail(sim.Fault{Method: "agents.sessions.setStatus", Do: sim.Refuse, Error: "not_allowed", Times: -1})
		st.w.Fail(sim.Fault{Method: "chat.startStream", Do: sim.Refuse, Error: "channel_type_not_supported", Times: -1})
		st.show(t, m, turn.Progress{Began: true})
		if m.Channel.Visibility != chat.DM {
			st.await(t, "a draft", 0, says("Working on it"))
		}
		st.show(t, m, call(1, "see what is booked", nil))
		draft := st.await(t, "a card", 0, says("see what is booked"))
		st.show(t, m, turn.Progress{Text: "Nothing is booked. "})
		st.await(t, "text", 0, says("Nothing is booked."))
		p := reply(m, "Nothing is booked.")
		st.post(t, p)
		if got := st.checkWhole(t, p); got[0].TS != draft.TS {
			t.Error("the reply is not the draft")
		}
		refused := 0
		for _, e := range st.w.Log() {
			if e.What == sim.Broken && e.Method != "chat.startStream" || e.What == sim.Refused {
				refused++
			}
		}
		if refused > 3 {
			t.Errorf("%d refusals: it does not learn", refused)
		}
	})
}

func TestCardsThatSlackDoesNotTakeBecomeLines(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	m := st.asked(t, "tell me")
	st.w.Fail(sim.Fault{Method: "chat.postMessage", Do: sim.Refuse, Error: "invalid_blocks"})
	st.show(t, m, turn.Progress{Began: true})
	st.show(t, m, call(1, "see what is booked", nil))
	e := st.await(t, "a line", 0, says("see what is booked"))
	if k := kinds(t, *e.Message); strings.Trim(strings.ReplaceAll(k, "context", ""), " ") != "" || len(e.Message.Blocks) != 2 {
		t.Errorf("blocks: %s", k)
	}
	st.post(t, reply(m, "Done."))
}

func TestEditsAreThrottled(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	m := st.asked(t, "tell me")
	st.show(t, m, turn.Progress{Began: true})
	text := strings.Repeat("word ", 400) // 20 s
	st.speak(t, m, text)
	st.post(t, reply(m, text))
	var at []time.Time
	var ts string
	for _, e := range st.w.Log() {
		if e.Message != nil && e.Message.App != "" && (e.What == sim.Posted || e.What == sim.Updated) {
			if at, ts = append(at, e.At), e.TS; ts != e.TS {
				t.Error("more than one message")
			}
		}
	}
	if len(at) < 5 {
		t.Fatalf("%d edits in 20 s", len(at))
	}
	for i := 5; i < len(at)-1; i++ {
		if gap := at[i].Sub(at[i-1]); gap < editPace*8/10 {
			t.Errorf("edit %d came %v after the one before it", i, gap)
		}
	}
}

func TestAStreamIsBatched(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	m := st.told(t, "tell me")
	st.show(t, m, turn.Progress{Began: true})
	text := strings.Repeat("word ", 200) // 10 s
	st.speak(t, m, text)
	st.post(t, reply(m, text))
	began, appended, last := 0, 0, time.Time{}
	for _, e := range st.w.Log() {
		began += count(e.What == sim.Began)
		if e.What == sim.Appended {
			if gap := e.At.Sub(last); gap < streamPace*8/10 {
				t.Errorf("a piece came %v after the one before it", gap)
			}
			appended, last = appended+1, e.At
		}
	}
	if began != 1 || appended < 3 {
		t.Errorf("%d streams, %d pieces in 10 s", began, appended)
	}
	st.checkWhole(t, reply(m, text))
}

func TestAPersonStopsAStream(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	m := st.told(t, "tell me")
	st.show(t, m, turn.Progress{Began: true})
	st.show(t, m, turn.Progress{Text: "The beginning. "})
	began := st.await(t, "text", 0, says("The beginning."))
	if err := st.w.Stop("U0ANA", m.Thread.Channel, m.Thread.Root); err != nil {
		t.Fatal(err)
	}
	st.show(t, m, turn.Progress{Text: "The middle. "})
	p := reply(m, "Stopped. Nothing had been done.")
	p.Outcome = "stopped"
	st.post(t, p)
	if got := st.checkWhole(t, p); got[0].TS != began.TS {
		t.Error("the words are not where the stream was")
	}
}

func TestTwoTurnsAtOnceDoNotMix(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	var done sync.WaitGroup
	var all []turn.Post
	for i := range 6 {
		m := st.asked(t, "tell me")
		if i%2 == 0 {
			m = st.told(t, "tell me")
		}
		all = append(all, reply(m, strings.Repeat(fmt.Sprintf("answer-%d ", i), 80)))
	}
	for _, p := range all {
		done.Go(func() {
			st.show(t, p.To, turn.Progress{Began: true})
			for _, word := range strings.SplitAfter(p.Reply.Text, " ") {
				st.show(t, p.To, turn.Progress{Text: word})
				if st.clock.wait(t.Context(), 50*time.Millisecond) != nil {
					return
				}
			}
			if err := st.s.Post(t.Context(), p); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	for _, p := range all {
		st.checkWhole(t, p)
	}
}

func TestShowNeverWaitsForSlack(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	m := st.asked(t, "tell me")
	lift := st.w.Fail(sim.Fault{Do: sim.Hang, Times: -1})
	began := time.Now()
	st.show(t, m, turn.Progress{Began: true})
	for range 10000 {
		st.show(t, m, turn.Progress{Text: "word "})
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	lift()
	st.w.Heal()
	p := reply(m, strings.Repeat("word ", 100))
	st.post(t, p)
	st.checkWhole(t, p)
}

func TestPostWaitsNoLongerThanItMay(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	m := st.asked(t, "tell me")
	lift := st.w.Fail(sim.Fault{Method: "chat.postMessage", Do: sim.Hang, Times: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := st.s.Post(ctx, reply(m, "The answer.")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	lift()
}

func TestATurnOfWhichNothingIsHeardAnyMoreIsNotShownForEver(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	m := st.asked(t, "tell me")
	st.show(t, m, turn.Progress{Began: true})
	st.show(t, m, turn.Progress{Text: "Some words. "})
	shown := st.await(t, "text", 0, says("Some words."))
	st.clock.forward(idleTime)
	st.await(t, "the end", shown.N, func(e sim.Entry) bool { return e.What == sim.Removed })
}
