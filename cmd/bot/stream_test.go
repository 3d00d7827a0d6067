package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"switchboard/slack/sim"
)

// The answer's links are cut by the model's tokens at every place.
const linked = "To begin with, here is [the guide](https://docs.example.com/a/b?c=d) that everybody reads first.\n\n" +
	"Then there is [a trap](https://evil.example/steal?x=1), and <https://evil.example/y>, and evil.example alone, and <!channel> too. " +
	"There is more to say, so that the answer takes some time to be written: one, two, three, four, five, six, seven, eight, nine, ten. " +
	"And in the end [the other guide](https://docs.example.com/e) closes it, with **bold words** and `code`."

var (
	link = regexp.MustCompile(`\[the guide\]\(https://docs\.example\.com/a/b\?c=d\)|\[the other guide\]\(https://docs\.example\.com/e\)`)
	half = regexp.MustCompile(`docs\.example|\[the|https?:|evil\.example|<!channel`)
)

func TestM7_ATokenEach50MsIsSeenEarlyAndNeverHalfALink(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(*rig) (string, error){
		"in a channel": func(*rig) (string, error) { return channelOf(0), nil },
		"in a DM":      func(r *rig) (string, error) { return r.ws.OpenIM(personOf(0), "A0BOT") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := newRig(t.Context(), rigOptions{channels: 1, people: 1, token: 50 * time.Millisecond, env: []string{childVar + "=1"}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := r.close(); err != nil {
					t.Error(err)
				}
			})
			r.model.text = linked
			if err := r.start(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := r.stop(); err != nil {
					t.Error(err)
				}
			}()
			where, err := place(r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.ws.Say(sim.Say{From: personOf(0), Channel: where, Text: "<@" + botUser + "> read row 1"}); err != nil {
				t.Fatal(err)
			}
			if _, err := r.ws.Await(t.Context(), 0, func(e sim.Entry) bool {
				return e.App != "" && strings.Contains(e.Text, "closes it") && !e.Message.Streaming && strings.Contains(e.Text, "code")
			}); err != nil {
				t.Fatal(err)
			}
			first := time.Time{}
			for _, e := range r.ws.Log() {
				if e.App == "" || e.Message == nil || e.Person != botUser {
					continue
				}
				if rest := link.ReplaceAllString(e.Text, ""); half.MatchString(rest) {
					t.Errorf("entry %d (%s) holds half a link or one that is not allowed: %q", e.N, e.What, e.Text)
				}
				if first.IsZero() && strings.Contains(e.Text, "To begin with") {
					first = e.At
				}
			}
			last := time.UnixMicro(r.model.spoken.Load())
			if first.IsZero() || !first.Before(last.Add(-time.Second)) {
				t.Errorf("text was first seen at %s; the model sent its last word at %s", first, last)
			}
		})
	}
}
