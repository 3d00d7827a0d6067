package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"switchboard/chat"
	"switchboard/config"
	"switchboard/journal"
	"switchboard/slack/sim"
	"switchboard/turn"
)

// quick is a clock on which a second takes a twentieth of one, so that waits are over soon and still in order.
type quick struct {
	began time.Time
	mu    sync.Mutex
	ahead time.Duration
	moved chan struct{} // closed when the clock is put forward
}

const quickness = 20

func newQuick() *quick { return &quick{began: time.Now(), moved: make(chan struct{})} }

func (q *quick) now() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.began.Add(time.Since(q.began)*quickness + q.ahead)
}

func (q *quick) wait(ctx context.Context, d time.Duration) error {
	until := q.now().Add(d)
	for {
		q.mu.Lock()
		moved := q.moved
		q.mu.Unlock()
		left := until.Sub(q.now())
		if left <= 0 {
			return ctx.Err()
		}
		timer := time.NewTimer(left/quickness + time.Millisecond)
		select {
		case <-timer.C:
		case <-moved:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

func (q *quick) forward(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ahead += d
	close(q.moved)
	q.moved = make(chan struct{})
}

// stage is a simulated workspace and a surface that speaks there, without ears.
type stage struct {
	t     *testing.T
	w     *sim.Workspace
	s     *Slack
	clock *quick
	desk  *teller
	app   sim.App

	server string // its URL
}

// teller is the desk of a stage.
type teller struct {
	text string
	ok   bool
	err  error
	home Home
}

func (d *teller) Trace(context.Context, string, chat.Person) (string, bool, error) {
	return d.text, d.ok, d.err
}
func (d *teller) Home(context.Context, chat.Person) (Home, error) { return d.home, d.err }

func newStage(t *testing.T, change ...func(*sim.App)) *stage {
	t.Helper()
	st := &stage{t: t, clock: newQuick(), desk: &teller{}}
	st.w = sim.New(sim.Options{Now: st.clock.now, Seed: 7})
	server := httptest.NewServer(st.w.Handler())
	st.w.SetURL(server.URL)
	st.w.AddPerson(sim.Person{ID: "U0ANA", Name: "Ana"})
	st.w.AddPerson(sim.Person{ID: "U0BOB", Name: "Bob"})
	app := sim.App{ID: "A0BOT", Name: "bot", User: "U0BOT", Bot: "B0BOT", BotToken: "xoxb-1", SigningSecret: "a secret that is long", AgentView: true}
	for _, c := range change {
		c(&app)
	}
	st.app = st.w.AddApp(app)
	st.w.AddChannel(sim.Channel{ID: "C0FRONT", Name: "front-desk", Members: []string{"U0ANA", "U0BOB", "U0BOT"}})
	t.Cleanup(func() {
		st.w.Close()
		server.Close()
	})
	st.server = server.URL
	st.s = st.speaker(t, server.URL)
	return st
}

// speaker is another process that speaks for the same bot.
func (st *stage) speaker(t *testing.T, url string) *Slack {
	t.Helper()
	s, err := New(Options{
		BotToken: st.app.BotToken, SigningSecret: "a secret that is long", APIURL: url + "/api/",
		Settings: func() config.Slack {
			return config.Slack{Prompts: []config.Prompt{{Title: "Hours", Message: "When do you open?"}}}
		},
		Bot: newDesk(), Judge: newDesk(), Desk: st.desk, Now: st.clock.now, Wait: st.clock.wait, Log: zerolog.New(zerolog.NewTestWriter(t)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.me, err = s.identify(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.out.close(ctx); err != nil {
			t.Errorf("end what is shown: %v", err)
		}
		s.client.CloseIdleConnections()
	})
	return s
}

// asked is a question of Ana's in the channel.
func (st *stage) asked(t *testing.T, words string) chat.Message {
	t.Helper()
	ts, err := st.w.Say(sim.Say{From: "U0ANA", Channel: "C0FRONT", Text: "<@U0BOT> " + words})
	if err != nil {
		t.Fatal(err)
	}
	return chat.Message{
		Key: "msg:T0SIM:C0FRONT:" + ts, ID: ts, Thread: chat.Thread{Team: "T0SIM", Channel: "C0FRONT", Root: ts},
		Channel: chat.Channel{ID: "C0FRONT", Visibility: chat.Public}, From: chat.Person{ID: "U0ANA", Kind: chat.Member},
	}
}

// told is a question of Ana's in her direct messages with the bot.
func (st *stage) told(t *testing.T, words string) chat.Message {
	t.Helper()
	channel, err := st.w.OpenIM("U0ANA", "")
	if err != nil {
		t.Fatal(err)
	}
	ts, err := st.w.Say(sim.Say{From: "U0ANA", Channel: channel, Text: words})
	if err != nil {
		t.Fatal(err)
	}
	return chat.Message{
		Key: "msg:T0SIM:" + channel + ":" + ts, ID: ts, Thread: chat.Thread{Team: "T0SIM", Channel: channel, Root: ts},
		Channel: chat.Channel{ID: channel, Visibility: chat.DM}, From: chat.Person{ID: "U0ANA", Kind: chat.Member},
	}
}

func reply(m chat.Message, text string) turn.Post {
	return turn.Post{Key: "t_" + m.ID, Turn: "t_" + m.ID, To: m, Reply: chat.Reply{Text: text}, Outcome: turn.Answered}
}

func (st *stage) post(t *testing.T, p turn.Post) {
	t.Helper()
	if err := st.s.Post(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// show says something of the turn that answers a message.
func (st *stage) show(t *testing.T, m chat.Message, p turn.Progress) {
	t.Helper()
	p.Turn, p.To = "t_"+m.ID, m
	st.s.Show(t.Context(), p)
}

func call(seq int, why string, done *journal.Settled) turn.Progress {
	return turn.Progress{Call: &journal.Call{Intent: journal.Intent{Seq: seq, Tool: "bookings.list"}, Words: journal.Words{Why: why}, Settled: done}}
}

// bots gives what the bot says under a message now.
func (st *stage) bots(m chat.Message) []sim.Message {
	var out []sim.Message
	for _, said := range st.w.Thread(m.Thread.Channel, m.Thread.Root) {
		if said.App == st.app.ID {
			out = append(out, said)
		}
	}
	return out
}

// await waits for an entry of the log after one.
func (st *stage) await(t *testing.T, what string, from int, ok func(sim.Entry) bool) sim.Entry {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 15*time.Second, errors.New("in vain"))
	defer cancel()
	e, err := st.w.Await(ctx, from, ok)
	if err != nil {
		var tail strings.Builder
		for _, e := range st.w.Since(max(0, st.w.Mark()-12)) {
			fmt.Fprintf(&tail, "\n%d %s %s %s %.60q", e.N, e.What, e.Method, e.Error, e.Text)
		}
		t.Fatalf("waited for %s: %v%s", what, err, tail.String())
	}
	return e
}

// markdown gives the Markdown of a message.
func markdown(t *testing.T, m sim.Message) string {
	t.Helper()
	var out strings.Builder
	for _, raw := range m.Blocks {
		var b struct {
			Type string `json:"type"`
			Text any    `json:"text"`
		}
		if err := json.Unmarshal(raw, &b); err != nil {
			t.Fatal(err)
		}
		if b.Type == "markdown" {
			fmt.Fprint(&out, b.Text)
		}
	}
	return out.String()
}

// kinds gives the types of a message's blocks.
func kinds(t *testing.T, m sim.Message) string {
	t.Helper()
	var out []string
	for _, raw := range m.Blocks {
		var b struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(raw, &b); err != nil {
			t.Fatal(err)
		}
		out = append(out, b.Type)
	}
	return strings.Join(out, " ")
}

// checkWhole says that a reply stands under its question, whole, in order, marked, and nothing else of the bot's.
func (st *stage) checkWhole(t *testing.T, p turn.Post) []sim.Message {
	t.Helper()
	got, want := st.bots(p.To), parts(p.Reply.Text, usual())
	if len(got) != len(want) {
		var all []string
		for _, m := range got {
			all = append(all, fmt.Sprintf("%.80q", m.Visible()))
		}
		t.Fatalf("%d messages stand there, want %d: %v", len(got), len(want), all)
	}
	defer func() {
		if t.Failed() {
			for _, e := range st.w.Log() {
				t.Logf("%d %v %s %s %s %s %.40q %d", e.N, e.At.Format("05.000"), e.What, e.Method, e.Error, e.TS, e.Text, len(e.Text))
			}
		}
	}()
	for i, m := range got {
		if text := markdown(t, m); squeeze(text) != squeeze(want[i].text) {
			t.Errorf("message %d holds %d bytes, want %d: …%q, want …%q", i, len(text), len(want[i].text), text[max(0, len(text)-60):], want[i].text[max(0, len(want[i].text)-60):])
		}
		if m.Streaming {
			t.Errorf("message %d still streams", i)
		}
		var payload struct {
			Key         string
			Part, Parts int
		}
		if m.Metadata == nil || m.Metadata.Type != metadataType || json.Unmarshal(m.Metadata.Payload, &payload) != nil ||
			payload.Key != p.Key || payload.Part != i || payload.Parts != len(want) {
			t.Errorf("message %d is marked %+v", i, m.Metadata)
		}
		if n := m.Visible(); len(want) > 1 && !strings.Contains(n, fmt.Sprintf("(%d/%d)", i+1, len(want))) {
			t.Errorf("message %d does not say which of %d it is", i, len(want))
		}
	}
	return got
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// checkHarmless looks at every state that a message of the bot's was ever in: no half link, no live mention, no preview.
func (st *stage) checkHarmless(t *testing.T) {
	t.Helper()
	for _, e := range st.w.Log() {
		if e.Message == nil || e.Message.App != st.app.ID {
			continue
		}
		if n := strings.Count(e.Text, "]("); n != strings.Count(e.Text, "](https://good.com/")+strings.Count(e.Text, "](javascript") {
			t.Fatalf("entry %d (%s) holds half a link", e.N, e.What)
		}
		for _, bad := range []string{"<!channel>", "<!here>", "<!everyone>", "<!subteam"} {
			if strings.Contains(e.Text, bad) || strings.Contains(e.Message.Text, bad) {
				t.Fatalf("entry %d (%s) calls everybody: %s", e.N, e.What, bad)
			}
		}
		if len(e.Message.Attachments) > 0 {
			t.Fatalf("entry %d (%s) has a preview", e.N, e.What)
		}
	}
}
