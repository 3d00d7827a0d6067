package main

import (
	"strings"
	"testing"
	"time"

	"switchboard/slack/sim"
)

// One message comes twenty times: as a mention and as a message, in either order, with the same and with new event ids and
// envelopes, over two sockets. The log of the workspace then holds one answer, and the bot's record one turn.
func TestD1_TwentyDeliveriesAreOneTurnAndOneAnswer(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]sim.Order{"the mention first": sim.MentionFirst, "the message first": sim.MessageFirst} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := newRig(t.Context(), rigOptions{channels: 2, people: 1, latency: 20 * time.Millisecond, env: []string{childVar + "=1"}, retry: []time.Duration{0, time.Millisecond}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := r.close(); err != nil {
					t.Error(err)
				}
			})
			if err := r.start(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.ws.SetOrder(order)
			// A warning makes the bot open a second socket while the first is still read.
			from := r.ws.Mark()
			r.ws.Disconnect("A0BOT", sim.Warning)
			if _, err := r.ws.Await(t.Context(), from, func(e sim.Entry) bool { return e.What == sim.Opened }); err != nil {
				t.Fatal(err)
			}
			ts, err := r.ws.Say(sim.Say{From: personOf(0), Channel: channelOf(0), Text: "<@" + botUser + "> read row 1, m1"})
			if err != nil {
				t.Fatal(err)
			}
			r.ws.Resend(channelOf(0), ts, sim.Repeat{Times: 3, SameEnvelope: true})
			r.ws.Resend(channelOf(0), ts, sim.Repeat{Times: 3, NewEvent: true})
			if lost, err := r.answered(t.Context(), 0, 1); lost > 0 || err != nil {
				t.Fatalf("no answer: %v\n%s", err, r.output)
			}
			r.ws.Resend(channelOf(0), ts, sim.Repeat{Times: 3, NewEvent: true})
			// A message that came after all of them is answered after all of them.
			if err := r.say(2, 1); err != nil {
				t.Fatal(err)
			}
			if lost, err := r.answered(t.Context(), 0, 2); lost > 0 || err != nil {
				t.Fatalf("no answer: %v\n%s", err, r.output)
			}
			if err := r.stop(); err != nil {
				t.Error(err)
			}
			var sent, answers int
			for _, e := range r.ws.Log() {
				if e.What == sim.Sent && strings.Contains(string(e.Body), ts) && !strings.Contains(string(e.Body), "message_changed") {
					sent++
				}
			}
			for _, m := range r.ws.Thread(channelOf(0), ts) {
				if m.User == botUser {
					answers++
				}
			}
			if sent < 20 || answers != 1 {
				t.Errorf("the message was sent %d times and has %d answers, want at least 20 and 1", sent, answers)
			}
			if runs := strings.Count(r.runs(t), "\n"); runs != 2 {
				t.Errorf("the bot has %d turns on record, want 2", runs)
			}
		})
	}
}

// runs gives what bot runs prints of the rig's store, a line for each turn.
func (r *rig) runs(t *testing.T) string {
	t.Helper()
	b := &bench{t, map[string]string{"BOT_STORE": "sqlite:" + r.dir + "/bot.db"}}
	return b.bot(exitGood, "runs", "--json")
}
