package slack

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"switchboard/chat"
	"switchboard/slack/sim"
	"switchboard/turn"
)

func TestTheHomeSaysWhatTheBotCanDo(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	st.desk.home = Home{
		Bot: "club", Assistants: []Helper{{Name: "help", About: "How-to questions <!channel>.", Examples: []string{"how do I export waivers?"}}},
		Admin: &Versions{Active: "1f2e", Since: st.clock.now(), Rejected: &Rejected{At: st.clock.now(), Errors: nil}},
	}
	for i := range 30 {
		st.desk.home.Admin.Rejected.Errors = append(st.desk.home.Admin.Rejected.Errors, fmt.Sprintf("bot.yaml:%d:1: ```unknown``` %s", i, strings.Repeat("x", 4000)))
	}
	st.s.publishHome(t.Context(), "U0ANA")
	v, ok := st.w.Home(st.app.ID, "U0ANA")
	body := string(v.Body)
	if !ok {
		t.Fatal("no home was published")
	}
	for _, want := range []string{"What club can do for you", "how do I export waivers?", "1f2e", "bot.yaml:19:1", "and 10 more"} {
		if !strings.Contains(body, want) {
			t.Errorf("the home does not say %q", want)
		}
	}
	if strings.Contains(body, "<!channel>") || strings.Contains(body, `\u003c!channel`) || strings.Contains(body, "bot.yaml:20:1") {
		t.Error("the home says what it must not")
	}
}

func TestATraceIsShownInAForm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		desk teller
		want string
	}{
		"a trace":       {teller{text: "09:00 bookings.list\n  why <see> ```", ok: true}, "bookings.list"},
		"a long one":    {teller{text: strings.Repeat("a line of a trace that goes on\n", 20000), ok: true}, "pages more"},
		"not for them":  {teller{}, "no trace for you"},
		"cannot be had": {teller{err: errors.New("the store is closed")}, "cannot read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t)
			*st.desk = c.desk
			p := reply(st.asked(t, "tell me"), "The answer.")
			st.post(t, p)
			trigger := st.trigger(t, p)
			st.s.showTrace(t.Context(), trigger, p.Turn, chat.Person{ID: "U0ANA"}, placeOf(p.To))
			views := st.w.Views("U0ANA")
			if len(views) != 1 || !strings.Contains(string(views[0].Body), c.want) {
				t.Errorf("%+v", views)
			}
		})
	}
}

func TestM5_AClickWhoseFormDoesNotOpenGetsAnAnswer(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	m := st.asked(t, "tell me")
	st.w.Fail(sim.Fault{Method: "views.open", Do: sim.Refuse, Error: "expired_trigger_id"})
	from := st.w.Mark()
	st.s.showTrace(t.Context(), "1.2.old", "t_1", chat.Person{ID: "U0ANA"}, placeOf(m))
	st.await(t, "an answer that Ana alone sees", from, func(e sim.Entry) bool {
		return e.Method == "chat.postEphemeral" && e.Error == "" && e.Channel == m.Thread.Channel
	})
}

// trigger clicks on "How I got this" and gives the trigger id that Slack sends with it.
func (st *stage) trigger(t *testing.T, p turn.Post) string {
	t.Helper()
	got := st.bots(p.To)
	if _, err := st.w.Click(sim.Click{From: "U0ANA", Channel: "C0FRONT", TS: got[0].TS, Action: actionTrace}); err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, e := range st.w.Log() {
		if m := regexp.MustCompile(`"trigger_id":"([^"]+)"`).FindStringSubmatch(string(e.Body)); m != nil {
			found = m[1]
		}
	}
	if found == "" {
		t.Fatal("no trigger id in the log")
	}
	return found
}

func TestPromptsAreSuggested(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	m := st.told(t, "hello")
	st.s.suggest(t.Context(), m.Thread.Channel, "")
	if p := st.w.PromptsOf(m.Thread.Channel, ""); len(p.Prompts) != 1 || p.Prompts[0].Message != "When do you open?" {
		t.Errorf("%+v", p)
	}
}
