package slack

import (
	"errors"
	"strings"
	"testing"

	"switchboard/chat"
	"switchboard/slack/sim"
	"switchboard/turn"
)

const finance = "C0FINANCE"

func cardPost(m chat.Message, c *chat.Card, in string) turn.Post {
	p := turn.Post{Key: c.ID, Turn: "t_" + m.ID, To: m, Card: c, Reply: chat.Reply{Text: "Somebody must *decide* <!channel>."}}
	if in != "" {
		p.Key, p.Place = c.ID+"/in", &chat.Channel{ID: in, Visibility: chat.Private}
	}
	return p
}

func (st *stage) finance() {
	st.w.AddChannel(sim.Channel{ID: finance, Name: "finance", Kind: sim.Private, Members: []string{"U0BOB", "U0BOT"}})
}

func long() *chat.Card {
	c := refund()
	c.Args = append(c.Args, chat.Field{Name: "note", Value: strings.Repeat("a line of twenty kB\n", 1000) + "and pay it to evil"})
	return c
}

func TestACardStandsInItsThread(t *testing.T) {
	t.Parallel()
	everywhere(t, func(st *stage, m chat.Message) {
		t := st.t
		st.show(t, m, turn.Progress{Began: true, Status: "looking at the order"})
		st.show(t, m, call(1, "see what was paid", nil))
		st.await(t, "a sign of life", 0, func(e sim.Entry) bool { return e.What == sim.Posted || e.What == sim.Began || e.What == sim.Status })
		st.post(t, cardPost(m, refund(), ""))
		got := st.bots(m)
		if len(got) != 1 {
			t.Fatalf("%d messages stand there: %s", len(got), visible(got))
		}
		card := got[0]
		if card.Metadata == nil || card.Metadata.Type != cardType || !strings.Contains(card.Visible(), "Approval needed") || card.Thread != placeOf(m).root {
			t.Errorf("%+v", card)
		}
		if strings.Contains(card.Text, "<!") || !strings.Contains(card.Text, "Somebody must *decide*") {
			t.Errorf("words for notifications: %q", card.Text)
		}
		if u := card.Unfurl; u.Links == nil || *u.Links || u.AppLinks == nil || *u.AppLinks {
			t.Errorf("previews are not off: %+v", u)
		}
		for _, s := range st.w.State().Sessions {
			if s.Words != "" || s.State == "processing" {
				t.Errorf("the bot is still busy: %+v", s)
			}
		}
	})
}

func TestACardIsPostedOnce(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	st.finance()
	m, c := st.asked(t, "refund it"), refund()
	for _, in := range []string{"", finance} {
		p := cardPost(m, c, in)
		st.w.Fail(sim.Fault{Method: "chat.postMessage", Do: sim.LostReply})
		if err := st.s.Post(t.Context(), p); err == nil {
			t.Fatal("a lost answer is no delivery")
		}
		p.Again = true
		st.post(t, p)
		other := st.speaker(t, st.server)
		if err := other.Post(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if n, in := len(st.bots(m)), len(st.w.Messages(finance)); n != 1 || in != 1 {
		t.Errorf("%d cards in the thread and %d in its place, want one each", n, in)
	}
}

func TestRel_S31_TwentyKBOfArgumentsGoIntoAFileBeforeTheCard(t *testing.T) {
	t.Parallel()
	everywhere(t, func(st *stage, m chat.Message) {
		t := st.t
		c := long()
		p := cardPost(m, c, "")
		st.post(t, p)
		p.Again = true
		if err := st.speaker(t, st.server).Post(t.Context(), p); err != nil { // also for another process it is there
			t.Fatal(err)
		}
		got := st.bots(m)
		if len(got) != 2 || len(got[0].Files) != 1 || len(got[1].Files) != 0 {
			t.Fatalf("want a file and then the card: %s", visible(got))
		}
		want := enclose(c)
		data, ok := st.w.Bytes(got[0].Files[0].ID)
		if !ok || string(data) != string(want.data) || got[0].Files[0].Name != want.name {
			t.Errorf("the file holds %d bytes, want %d", len(data), len(want.data))
		}
		for _, words := range []string{want.name, want.digest, "only its beginning", "a line of twenty kB"} {
			if !strings.Contains(got[1].Visible(), words) {
				t.Errorf("the card does not say %q", words)
			}
		}
		if strings.Contains(got[1].Visible(), "and pay it to evil") {
			t.Error("the message holds all of it: the test is about one that does not")
		}
		r := reply(m, "The answer.") // a file is no stream that was left behind
		r.Key, r.Resumed = "t_other", true
		st.post(t, r)
		if got = st.bots(m); len(got) != 3 || len(got[0].Files) != 1 {
			t.Errorf("after the reply: %s", visible(got))
		}
	})
}

// Nobody is asked to decide on what is not shown.
func TestRel_S31_WithoutTheFileThereIsNoCard(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]sim.Fault{
		"no address":     {Method: "files.getUploadURLExternal", Do: sim.Refuse, Error: "file_upload_size_restricted"},
		"no scope":       {Method: "files.getUploadURLExternal", Do: sim.Refuse, Error: "missing_scope"},
		"not sent":       {Method: "files.upload", Do: sim.ServerError},
		"sent, not told": {Method: "files.upload", Do: sim.LostReply},
		"not shared":     {Method: "files.completeUploadExternal", Do: sim.Refuse, Error: "file_not_found"},
		"no connection":  {Method: "files.completeUploadExternal", Do: sim.CutFirst},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t)
			m := st.asked(t, "refund it")
			st.w.Fail(f)
			err := st.s.Post(t.Context(), cardPost(m, long(), ""))
			if err == nil || errors.Is(err, turn.ErrUndeliverable) || len(st.bots(m)) != 0 {
				t.Fatalf("%v; %s", err, visible(st.bots(m)))
			}
			if name == "no scope" && !strings.Contains(err.Error(), "files:write") {
				t.Errorf("the error does not say what to do: %v", err)
			}
			p := cardPost(m, long(), "")
			p.Again = true
			st.post(t, p)
			if got := st.bots(m); len(got) != 2 || len(got[0].Files) != 1 {
				t.Errorf("the next time: %s", visible(got))
			}
		})
	}
	t.Run("shared, not told", func(t *testing.T) {
		t.Parallel()
		st := newStage(t)
		m := st.asked(t, "refund it")
		st.w.Fail(sim.Fault{Method: "files.completeUploadExternal", Do: sim.LostReply})
		if err := st.s.Post(t.Context(), cardPost(m, long(), "")); err == nil {
			t.Fatal("a lost answer counts as shared")
		}
		p := cardPost(m, long(), "")
		p.Again = true
		st.post(t, p)
		if got := st.bots(m); len(got) != 2 {
			t.Errorf("the file is shared again: %s", visible(got))
		}
	})
}

func TestACardThatSlackCallsTooLongGoesIntoAFile(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	m := st.asked(t, "refund it")
	c := refund()
	c.Args = append(c.Args, chat.Field{Name: "note", Value: strings.Repeat("x ", 1200)}, chat.Field{Name: "note 2", Value: strings.Repeat("y ", 1200)})
	if draw(c, cardRoom).file != nil {
		t.Fatal("the card should fit")
	}
	st.w.Fail(sim.Fault{Method: "chat.postMessage", Do: sim.Refuse, Error: "msg_blocks_too_long"})
	st.post(t, cardPost(m, c, ""))
	if got := st.bots(m); len(got) != 2 || !strings.Contains(got[1].Visible(), enclose(c).digest) {
		t.Errorf("%s", visible(got))
	}
}

func TestACardWhosePlaceIsClosed(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	m, c := st.asked(t, "refund it"), refund()
	st.w.AddChannel(sim.Channel{ID: "C0CLOSED", Name: "closed", Members: []string{"U0BOB"}})
	if err := st.s.Post(t.Context(), cardPost(m, c, "C0CLOSED")); !errors.Is(err, turn.ErrUndeliverable) {
		t.Errorf("a channel that the bot is not in: %v", err)
	}
	if err := st.w.Delete("U0ANA", m.Thread.Channel, m.ID); err != nil {
		t.Fatal(err)
	}
	st.post(t, cardPost(m, c, ""))
	d, err := st.w.OpenIM("U0ANA", "")
	if err != nil {
		t.Fatal(err)
	}
	if got := st.w.Messages(d); len(got) != 1 || !strings.Contains(got[0].Visible(), "Approval needed") {
		t.Errorf("the asker alone: %s", visible(got))
	}
}

// decided waits until a message says how it was decided, and looks that it has no buttons.
func (st *stage) decided(t *testing.T, channel, ts string) {
	t.Helper()
	e := st.await(t, "a decided card", 0, func(e sim.Entry) bool {
		return e.What == sim.Updated && e.Channel == channel && e.TS == ts && strings.Contains(e.Message.Visible(), "denied by Bob")
	})
	if k := kinds(t, *e.Message); strings.Contains(k, "actions") {
		t.Errorf("buttons are left: %s", k)
	}
	if e.Message.Metadata == nil || e.Message.Metadata.Type != cardType {
		t.Errorf("it is not marked any more: %+v", e.Message.Metadata)
	}
}

func TestADecidedCardIsDrawnAgainWhereverItStands(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"who posted it", "another process, by the thread", "another process, by a click in its place"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			st := newStage(t)
			st.finance()
			m, c := st.asked(t, "refund it"), refund()
			st.post(t, cardPost(m, c, ""))
			st.post(t, cardPost(m, c, finance))
			home, in := st.bots(m)[0], st.w.Messages(finance)[0]
			st.await(t, "the card in the thread to know of the other", 0, func(e sim.Entry) bool {
				return e.What == sim.Updated && e.TS == home.TS && strings.Contains(string(e.Message.Metadata.Payload), in.TS)
			})
			if k := kinds(t, st.bots(m)[0]); !strings.Contains(k, "actions") {
				t.Fatalf("the open card has lost its buttons: %s", k)
			}
			s, done := st.s, *c
			done.Decided = "denied by Bob: not this month"
			if who != "who posted it" {
				s = st.speaker(t, st.server)
			}
			if who == "another process, by a click in its place" {
				s.redraw(&done, whereabouts{clicked: &place{spot: spot{channel: finance}, ts: in.TS}})
			} else {
				s.Show(t.Context(), turn.Progress{Turn: "t_" + m.ID, To: m, Card: &done})
			}
			st.decided(t, m.Thread.Channel, home.TS)
			st.decided(t, finance, in.TS)
			s.Show(t.Context(), turn.Progress{Turn: "t_" + m.ID, To: m, Card: c}) // late news of an open card
			s.Show(t.Context(), turn.Progress{Turn: "t_" + m.ID, To: m, Card: &done})
			ctx := t.Context()
			if err := s.out.close(ctx); err != nil {
				t.Fatal(err)
			}
			if k := kinds(t, st.bots(m)[0]); strings.Contains(k, "actions") {
				t.Errorf("a decided card is open again: %s", k)
			}
		})
	}
}

func TestACardIsDrawnAgainThoughSlackStumbles(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	m, c := st.asked(t, "refund it"), refund()
	st.post(t, cardPost(m, c, ""))
	st.w.Fail(sim.Fault{Method: "chat.update", Do: sim.LostReply})
	st.w.Fail(sim.Fault{Method: "chat.update", Do: sim.Limited, After: 1})
	done := *c
	done.Decided = "denied by Bob"
	st.s.Show(t.Context(), turn.Progress{Turn: "t_" + m.ID, To: m, Card: &done})
	st.decided(t, m.Thread.Channel, st.bots(m)[0].TS)
}

// What comes late opens no card again: neither news of it as it was, nor the card itself in another of its places.
func TestADecidedCardStaysDecided(t *testing.T) {
	t.Parallel()
	st := newStage(t)
	st.finance()
	m, c := st.asked(t, "refund it"), refund()
	st.post(t, cardPost(m, c, ""))
	done := *c
	done.Decided = "denied by Bob"
	st.s.Show(t.Context(), turn.Progress{Turn: "t_" + m.ID, To: m, Card: &done})
	home := st.bots(m)[0].TS
	st.decided(t, m.Thread.Channel, home)
	st.post(t, cardPost(m, c, finance))
	if k := kinds(t, st.w.Messages(finance)[0]); strings.Contains(k, "actions") {
		t.Errorf("a decided card is posted open: %s", k)
	}
	st.s.out.cards.found(c.ID, foundCard{places: []place{{spot: spot{channel: "C0ELSE"}, ts: "1.1"}}}) // so that there is something to tell the others
	st.s.Show(t.Context(), turn.Progress{Turn: "t_" + m.ID, To: m, Card: c})
	if err := st.s.out.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, now := range []sim.Message{st.bots(m)[0], st.w.Messages(finance)[0]} {
		if k := kinds(t, now); strings.Contains(k, "actions") {
			t.Errorf("a decided card is open again: %s", k)
		}
	}
}
