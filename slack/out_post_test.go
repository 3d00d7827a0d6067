package slack

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchboard/chat"
	"switchboard/slack/sim"
	"switchboard/turn"
)

func TestAReplyStandsInItsThread(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"channel", "direct message"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			st := newStage(t)
			m := st.asked(t, "how do I export waivers?")
			if where != "channel" {
				m = st.told(t, "how do I export waivers?")
			}
			p := reply(m, "Use **Export**, see [the page](https://good.com/a_b).")
			st.post(t, p)
			got := st.checkWhole(t, p)[0]
			if k := kinds(t, got); k != "markdown context_actions actions" {
				t.Errorf("blocks: %s", k)
			}
			u := got.Unfurl
			if u.Links == nil || *u.Links || u.Media == nil || *u.Media || u.AppLinks == nil || *u.AppLinks {
				t.Errorf("previews are not off: %+v", u)
			}
			if !strings.Contains(got.Text, "Use **Export**") {
				t.Errorf("no words for notifications: %q", got.Text)
			}
		})
	}
}

func TestAPlainDirectMessageHasNoThread(t *testing.T) {
	t.Parallel()
	st := newStage(t, func(a *sim.App) { a.AgentView = false })
	m := st.told(t, "hello")
	m.Thread.Root = plainDM
	st.show(t, m, turn.Progress{Began: true})
	st.await(t, "a sign of life", 0, func(e sim.Entry) bool { return e.What == sim.Posted })
	st.post(t, reply(m, "Hello!"))
	all := st.w.Messages(m.Thread.Channel)
	if len(all) != 2 || all[1].Thread != "" || markdown(t, all[1]) != "Hello!" {
		t.Errorf("%+v", all)
	}
}

func TestAQuestionCarriesItsChoices(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	p := reply(st.asked(t, "change next week"), "Which do you mean?")
	p.Outcome = turn.Clarify
	p.Reply.Buttons = []chat.Button{{Label: "bookings", Value: "bookings"}, {Label: strings.Repeat("a long name ", 20), Value: "configuration"}, {Label: "", Value: "x"}}
	st.post(t, p)
	got := st.checkWhole(t, p)[0]
	if k := kinds(t, got); k != "markdown actions" {
		t.Fatalf("blocks: %s", k)
	}
	var row struct {
		Elements []struct {
			ActionID string `json:"action_id"`
			Value    string
		}
	}
	if err := json.Unmarshal(got.Blocks[1], &row); err != nil || len(row.Elements) != 3 {
		t.Fatalf("%s: %v", got.Blocks[1], err)
	}
	if e := row.Elements[1]; actionOf(e.ActionID) != actionPick || e.Value != p.Turn+"\nconfiguration" || e.ActionID == row.Elements[0].ActionID {
		t.Errorf("%+v", row.Elements)
	}
	st.s.picked(t.Context(), click{Channel: "C0FRONT", TS: got.TS, Thread: got.Thread, Card: p.Turn, Value: "bookings", Label: "bookings", Person: "U0ANA"})
	after := st.bots(p.To)[0]
	if k := kinds(t, after); strings.Contains(k, "actions") || !strings.HasSuffix(k, " context") || !strings.Contains(after.Visible(), "<@U0ANA> clicked *bookings*") || after.Metadata == nil {
		t.Errorf("after the choice: %s, %q", k, after.Visible())
	}
}

func TestEveryReplyArrivesWholeAndHarmless(t *testing.T) {
	t.Parallel()
	texts := corpus()
	texts["40,000 characters"] = strings.Repeat(strings.Repeat("Some words of an answer. ", 16)+"\n\n", 100)[:40000]
	texts["calls"] = "<!channel> <!here> <!everyone> <!subteam^S0FIN> and `<!channel>` and\n```\n<!channel>\n```\n"
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t)
			p := reply(st.asked(t, "tell me"), text)
			st.post(t, p)
			st.checkWhole(t, p)
			st.checkHarmless(t)
		})
	}
}

func TestNoReplyIsEmpty(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	p := reply(st.asked(t, "say nothing"), " \u200b\n")
	st.post(t, p)
	if got := st.bots(p.To); len(got) != 1 || markdown(t, got[0]) != emptyWords {
		t.Errorf("%+v", got)
	}
}

func TestWhatSlackRefusesIsSaidMorePlainly(t *testing.T) {
	t.Parallel()
	for times, want := range map[int]string{1: "markdown actions", 2: "section actions", 3: ""} {
		st := newStage(t)
		p := reply(st.asked(t, "tell me"), "**Yes**, see [it](https://good.com/x) & go.")
		st.w.Fail(sim.Fault{Method: "chat.postMessage", Do: sim.Refuse, Error: "invalid_blocks", Times: times})
		st.post(t, p)
		got := st.bots(p.To)
		if len(got) != 1 || kinds(t, got[0]) != want {
			t.Fatalf("%d refusals: %+v", times, got)
		}
		if times == 3 && got[0].Text != "*Yes*, see <https://good.com/x|it> &amp; go." {
			t.Errorf("as text: %q", got[0].Text)
		}
	}
}

func TestWhatSlackCallsTooLongIsSaidInPieces(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	p := reply(st.asked(t, "tell me"), strings.Repeat(strings.Repeat("Some words of an answer. ", 16)+"\n\n", 18))
	st.w.Fail(sim.Fault{Method: "chat.postMessage", Do: sim.Refuse, Error: "msg_too_long", Times: 2})
	st.post(t, p)
	all := ""
	for _, m := range st.bots(p.To) {
		all += " " + markdown(t, m)
	}
	if squeeze(all) != squeeze(p.Reply.Text) {
		t.Errorf("%d characters of %d arrive, in %d messages", len(squeeze(all)), len(squeeze(p.Reply.Text)), len(st.bots(p.To)))
	}
	p.Again, p.Resumed = true, true
	before := st.bots(p.To)
	st.post(t, p)
	if diff := cmp.Diff(before, st.bots(p.To), cmpopts.IgnoreUnexported(sim.Message{})); diff != "" {
		t.Errorf("a second try changes what stands whole:\n%s", diff)
	}
}

func TestD3_PiecesThatAreMissingAreSaid(t *testing.T) {
	t.Parallel()
	for _, how := range []sim.Trouble{sim.CutFirst, sim.LostReply} {
		st := newStage(t)
		p := reply(st.asked(t, "tell me"), strings.Repeat(strings.Repeat("Some words of an answer. ", 16)+"\n\n", 18))
		st.w.Fail(sim.Fault{Method: "chat.postMessage", Do: sim.Refuse, Error: "msg_too_long"})
		st.w.Fail(sim.Fault{Method: "chat.postMessage", Do: how, After: 1})
		if err := st.s.Post(t.Context(), p); err == nil {
			t.Fatal("the loss is not told")
		}
		p.Again = true
		st.w.Fail(sim.Fault{Method: "chat.update", Do: sim.Refuse, Error: "msg_too_long"})
		st.post(t, p)
		all, got := "", st.bots(p.To)
		for _, m := range got {
			all += " " + markdown(t, m)
		}
		if squeeze(all) != squeeze(p.Reply.Text) || len(got) != 2 {
			t.Errorf("%s: %d characters of %d stand there, in %d messages", how, len(squeeze(all)), len(squeeze(p.Reply.Text)), len(got))
		}
		if k := kinds(t, got[0]); strings.Contains(k, "actions") {
			t.Errorf("%s: there are buttons in the middle of the reply: %s", how, k)
		}
	}
}

func TestADraftThatIsReplacedIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	m := st.asked(t, "tell me")
	st.show(t, m, turn.Progress{Began: true})
	st.show(t, m, turn.Progress{Text: "Some words. "})
	st.await(t, "text", 0, says("Some words."))
	p := reply(m, strings.Repeat(strings.Repeat("Some words of an answer. ", 16)+"\n\n", 18))
	st.w.Fail(sim.Fault{Method: "chat.update", Do: sim.Refuse, Error: "invalid_blocks", Times: int(bare)}) // as text it is too long for an edit
	st.w.Fail(sim.Fault{Method: "chat.postMessage", Do: sim.Refuse, Error: "msg_too_long"})
	st.post(t, p)
	all := ""
	for _, m := range st.bots(m) {
		all += " " + markdown(t, m)
	}
	if squeeze(all) != squeeze(p.Reply.Text) {
		t.Errorf("%d characters of %d stand there: %s", len(squeeze(all)), len(squeeze(p.Reply.Text)), visible(st.bots(m)))
	}
}

func TestD3_AReplyWhoseAnswerWasLostIsNotRepeated(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(strings.Repeat("Some words of an answer. ", 16)+"\n\n", 60)
	for name, f := range map[string]sim.Fault{
		"lost reply":            {Method: "chat.postMessage", Do: sim.LostReply},
		"lost as 500":           {Method: "chat.postMessage", Do: sim.LostAs500},
		"cut before the effect": {Method: "chat.postMessage", Do: sim.CutFirst},
		"lost in the middle":    {Method: "chat.postMessage", Do: sim.LostReply, After: 1},
		"a page":                {Method: "chat.postMessage", Do: sim.HTML, After: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t)
			p := reply(st.asked(t, "tell me"), long)
			st.w.Fail(f)
			if err := st.s.Post(t.Context(), p); err == nil || errors.Is(err, turn.ErrUndeliverable) {
				t.Fatalf("the loss is not told: %v", err)
			}
			p.Again = true
			st.post(t, p)
			st.checkWhole(t, p)
			st.post(t, p) // and once more
			st.checkWhole(t, p)
		})
	}
}

func TestD3_WhereSlackCannotBeAskedARepetitionSaysSo(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]sim.Fault{
		"no scope": {Method: "conversations.replies", Do: sim.Refuse, Error: "missing_scope"},
		"no room":  {Method: "conversations.replies", Do: sim.Refuse, Error: "channel_not_found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t)
			p := reply(st.asked(t, "tell me"), "The answer.")
			p.Again = true
			lift := st.w.Fail(f)
			st.post(t, p)
			lift()
			if got := st.bots(p.To); len(got) != 1 || markdown(t, got[0]) != againWords+"\n\nThe answer." {
				t.Errorf("%+v", got)
			}
			q := reply(st.asked(t, "and me"), "Another.")
			q.Resumed = true
			st.w.Fail(f)
			st.post(t, q)
			st.checkWhole(t, q)
		})
	}
}

func TestAnswersWaitForSlacksLimitsInOrder(t *testing.T) {
	t.Parallel()
	for _, how := range []sim.Trouble{sim.Limited, sim.LimitedBare, sim.LimitedOK} {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			st := newStage(t)
			p := reply(st.asked(t, "tell me"), strings.Repeat(strings.Repeat("Some words of an answer. ", 16)+"\n\n", 80))
			st.w.Fail(sim.Fault{Method: "chat.postMessage", Do: how, Retry: 2, Times: 2, After: 1})
			st.post(t, p)
			st.checkWhole(t, p)
		})
	}
}

func TestWithLimitsOnNothingIsLost(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	st.w.SetLimits(true)
	done := make(chan error)
	var all []turn.Post
	for range 12 {
		all = append(all, reply(st.asked(t, "tell me"), "The answer."))
	}
	for _, p := range all {
		go func() { done <- st.s.Post(t.Context(), p) }()
	}
	for range all {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for _, p := range all {
		st.checkWhole(t, p)
	}
}

func TestWhereTheThreadIsGoneTheAskerIsToldAlone(t *testing.T) {
	t.Parallel()
	for name, breaks := range map[string]func(*stage, chat.Message) error{
		"parent deleted": func(st *stage, m chat.Message) error { return st.w.Delete("U0ANA", m.Thread.Channel, m.ID) },
		"bot removed":    func(st *stage, m chat.Message) error { return st.w.Leave(m.Thread.Channel, "U0BOT") },
		"archived":       func(st *stage, m chat.Message) error { return st.w.Archive(m.Thread.Channel) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t)
			m := st.asked(t, "tell me")
			dm, err := st.w.OpenIM("U0ANA", "")
			if err != nil {
				t.Fatal(err)
			}
			if err := breaks(st, m); err != nil {
				t.Fatal(err)
			}
			p := reply(m, "The answer.")
			st.post(t, p)
			p.Again = true
			st.post(t, p) // is found there
			for _, stray := range st.w.Messages("C0FRONT") {
				if stray.App == st.app.ID {
					t.Errorf("a stray in the channel: %q", stray.Visible())
				}
			}
			if got := st.w.Messages(dm); len(got) != 1 || markdown(t, got[0]) != movedWords+"\n\nThe answer." {
				t.Errorf("alone: %+v", got)
			}
		})
	}
}

func TestWhereNobodyCanBeToldTheReplyIsUndeliverable(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	p := reply(st.asked(t, "tell me"), "The answer.")
	if err := st.w.Archive("C0FRONT"); err != nil {
		t.Fatal(err)
	}
	st.w.Fail(sim.Fault{Method: "conversations.open", Do: sim.Refuse, Error: "user_disabled", Times: 1})
	if err := st.s.Post(t.Context(), p); !errors.Is(err, turn.ErrUndeliverable) || code(err) == "" {
		t.Errorf("%v", err)
	}
	st.w.Fail(sim.Fault{Method: "conversations.open", Do: sim.ServerError, Times: lookTries})
	if err := st.s.Post(t.Context(), p); err == nil || errors.Is(err, turn.ErrUndeliverable) {
		t.Errorf("a server's error is no end: %v", err)
	}
}

func TestPartsThatWereCutInAnotherWayBecomeTheReply(t *testing.T) {
	t.Parallel()
	whole := func(of, part int, ts string) piece { return piece{of: of, part: part, ts: ts} }
	for name, c := range map[string]struct {
		found   []piece
		count   int
		targets []shown
		want    string // what is there, and what becomes the rest
	}{
		"nothing":               {nil, 2, []shown{{ts: "5.0"}}, "[] 5.0"},
		"one of two":            {[]piece{whole(2, 0, "5.0")}, 2, []shown{{ts: "5.0"}, {ts: "6.0"}}, "[0] 6.0"},
		"complete, cut anew":    {[]piece{whole(2, 0, "5.0"), whole(2, 1, "6.0")}, 3, nil, "[0 1 2] "},
		"incomplete, cut anew":  {[]piece{whole(3, 1, "10.0"), whole(3, 0, "9.0")}, 2, []shown{{ts: "11.0"}}, "[] 9.0 10.0 11.0"},
		"all, and a left draft": {[]piece{whole(1, 0, "5.0")}, 1, []shown{{ts: "6.0"}}, "[0] 6.0"},
		"two ways of cutting":   {[]piece{whole(3, 0, "5.0"), whole(1, 0, "6.0")}, 2, nil, "[0 1] 5.0"},
		"all pieces":            {[]piece{{1, 0, 1, true, "6.0"}, {1, 0, 0, true, "5.0"}, {1, 0, 2, false, "7.0"}}, 1, nil, "[0] "},
		"the last is missing":   {[]piece{whole(2, 0, "5.0"), {2, 1, 0, true, "6.0"}, {2, 1, 1, true, "7.0"}}, 2, nil, "[0] 6.0 7.0"},
		"the first is missing":  {[]piece{{1, 0, 1, false, "6.0"}}, 1, nil, "[] 6.0"},
	} {
		targets, have := past{pieces: c.found}.match(c.count, c.targets)
		var there []int
		for i := range c.count {
			if have[i] != "" {
				there = append(there, i)
			}
		}
		var rest []string
		for _, m := range targets {
			rest = append(rest, m.ts)
		}
		if got := fmt.Sprint(there) + " " + strings.Join(rest, " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestTheEndOfAStreamSurvivesRefusalsAndLosses(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]sim.Fault{
		"blocks beside chunks": {Method: "chat.stopStream", Do: sim.Refuse, Error: "streaming_mode_mismatch"},
		"no such end":          {Method: "chat.stopStream", Do: sim.Refuse, Error: "invalid_blocks"},
		"ended already":        {Method: "chat.stopStream", Do: sim.Refuse, Error: "message_not_in_streaming_state"},
		"lost after it":        {Method: "chat.stopStream", Do: sim.LostReply},
		"lost before it":       {Method: "chat.stopStream", Do: sim.CutFirst},
		"not known":            {Method: "chat.stopStream", Do: sim.Refuse, Error: "internal_error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t)
			m := st.told(t, "tell me")
			st.show(t, m, turn.Progress{Began: true})
			st.show(t, m, turn.Progress{Text: "The beginning. "})
			st.await(t, "text", 0, says("The beginning."))
			st.w.Fail(f)
			p := reply(m, "The beginning. The end.")
			if err := st.s.Post(t.Context(), p); err != nil {
				p.Again = true
				st.post(t, p)
			}
			st.checkWhole(t, p)
		})
	}
}
