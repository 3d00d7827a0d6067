package turn_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchboard/llm"
	"switchboard/turn"
)

// spoken gives text word by word where the request is streamed.
func spoken(r llm.Request, reply llm.Reply) llm.Reply {
	if r.OnText != nil {
		for _, word := range strings.SplitAfter(reply.Text, " ") {
			r.OnText(word)
		}
	}
	return reply
}

// watched puts together what people were shown: text, and what voids it.
func watched(h *house) []string {
	var out []string
	text := ""
	flush := func() {
		if text != "" {
			out = append(out, "text "+text)
		}
		text = ""
	}
	for _, p := range h.progress() {
		switch {
		case p.Text != "":
			text += p.Text
			continue
		case p.Call != nil:
			continue
		}
		flush()
		switch {
		case p.Began:
			out = append(out, "began")
		case p.Void:
			out = append(out, "void")
		case p.Ended:
			out = append(out, "ended")
		case p.Status != "":
			out = append(out, "status "+p.Status)
		}
	}
	flush()
	return out
}

// A reply is shown while it is written, filtered and masked; the router's answer is not, nor what turns out to stand beside calls.
func TestM7_AReplyIsStreamedThroughTheFilter(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = func(r llm.Request) (llm.Reply, error) {
		switch {
		case isRouter(r):
			if r.OnText != nil {
				t.Error("the router is streamed")
			}
			return routeTo("read", 0.9), nil
		case rounds(r) == 0:
			reply := wants("rows.get 1")
			reply.Text = "Let me see what there is."
			return spoken(r, reply), nil
		}
		return spoken(r, says("The org is "+orgCanary+", see https://evil.example/x?q=1 and [this one](https://docs.example.com/a b) or so.")), nil
	}
	h.up()
	defer h.down()
	f := h.say(message(1, "read"))
	got := watched(h)
	if len(got) != 5 || got[0] != "began" || !strings.HasPrefix(got[1], "text Let me see") || got[2] != "void" || got[3] != "status Let me see what there is." {
		t.Errorf("people were shown %q", got)
	}
	shown := strings.TrimPrefix(got[len(got)-1], "text ")
	if !strings.HasPrefix(f.Reply.Text, strings.TrimSpace(shown)) || !strings.Contains(shown, "The org is ‹org›, see ") || strings.Contains(shown, "evil.example/x") {
		t.Errorf("streamed %q, posted %q", shown, f.Reply.Text)
	}
}

// Once the run has asked for an effect its text is posted whole, denied or not.
func TestM8_AfterAnEffectNothingIsStreamed(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"", "\n-- policy.yaml --\nrules:\n  - {tools: [rows.set], verdict: deny, why: No writes today.}\n"} {
		h := newHouse(t)
		h.pack += rule
		h.model = func(r llm.Request) (llm.Reply, error) {
			switch {
			case isRouter(r):
				return routeTo("desk", 0.9), nil
			case rounds(r) == 0:
				return wants("rows.set 1"), nil
			}
			return spoken(r, says("I have set the row, believe me.")), nil
		}
		h.up()
		h.say(message(1, "set row 1"))
		if diff := cmp.Diff([]string{"began"}, watched(h)); diff != "" {
			t.Errorf("people were shown (-want +got):\n%s", diff)
		}
		h.down()
	}
}

// A failure after text was shown keeps what was shown, and says below it what went wrong.
func TestM7_AFailureInMidStreamKeepsWhatWasShown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = func(r llm.Request) (llm.Reply, error) {
		if isRouter(r) {
			return routeTo("read", 0.9), nil
		}
		spoken(r, says("The rows are:\n\n```\nrow 1\nrow 2\nand "))
		return llm.Reply{}, &llm.Error{Reason: llm.Empty, Released: true, Attempts: 1}
	}
	h.up()
	defer h.down()
	f := h.say(message(1, "read"))
	want := "The rows are:\n\n```\nrow 1\nrow 2\n```\n\nI could not put an answer into words. Nothing was changed."
	if f.Outcome != turn.Failed || !strings.HasPrefix(f.Reply.Text, want) || len(h.requests()) != 2 {
		t.Errorf("finished %+v after %d model calls", f, len(h.requests()))
	}
}

// A stop in the middle of a reply keeps what was shown; if the question is gone, that goes as well.
func TestL8_AStopInMidStream(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]bool{"the button": false, "deleted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.model = script("read", says("never"))
			reached := h.hang(func(r llm.Request) bool {
				if !isRouter(r) {
					r.OnText("The rows are these: one, ")
				}
				return !isRouter(r)
			})
			h.up()
			defer h.down()
			h.accept(message(1, "read"))
			<-reached
			if gone {
				h.halt(deleted(1))
			} else {
				h.halt(stop("1", ""))
			}
			f := <-h.ended
			want, last := "The rows are these: one,\n\nI stopped, as asked. Nothing was changed.", []string{"text The rows are these: one, "}
			if gone {
				want, last = "", []string{"void", "ended"}
			}
			got := watched(h)
			if f.Outcome != turn.Stopped || f.Reply.Text != want || !cmp.Equal(got[len(got)-len(last):], last) {
				t.Errorf("finished %+v, people were shown %q", f, got)
			}
		})
	}
}

// Where text was released no other answer is asked for, however the first one failed.
func TestM7_AfterReleaseNothingIsAskedAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = func(r llm.Request) (llm.Reply, error) {
		if isRouter(r) {
			return routeTo("read", 0.9), nil
		}
		spoken(r, says("The first half of it is this and "))
		return llm.Reply{}, &llm.Error{Reason: llm.ContextTooLong, Released: true, Attempts: 1}
	}
	h.up()
	defer h.down()
	if h.say(message(1, "read")); len(h.requests()) != 2 {
		t.Errorf("asked %d times; people were shown %q", len(h.requests()), watched(h))
	}
}
