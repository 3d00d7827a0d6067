package llmtest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"switchboard/llm"
)

const spoken = "One word, then another 🙂, and señor the last."

// wordByWord lets one word go at a time, and hears each before the next is sent.
func (e exam) wordByWord(t *testing.T) {
	t.Helper()
	next, heard := make(chan struct{}), make(chan string, 100)
	m := e.open(t, []Step{{Text: spoken, Pace: func(ctx context.Context) error {
		select {
		case <-next:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}})
	r := Request()
	r.OnText = func(text string) { heard <- text }
	done := make(chan llm.Reply, 1)
	go func() {
		defer close(done)
		if got, err := e.do(t.Context(), t, m, r); err != nil {
			t.Errorf("Do: %v", err)
		} else {
			done <- got
		}
	}()
	for i, word := range words(spoken) {
		select {
		case next <- struct{}{}:
		case <-done:
			t.Fatal("the answer ended early")
		}
		select {
		case got := <-heard:
			if strings.TrimSpace(got) != strings.TrimSpace(word) {
				t.Errorf("piece %d is %q, want %q", i, got, word)
			}
		case <-done:
			t.Fatal("the answer ended early")
		}
	}
	same(t, <-done, spoken, llm.Stop, nil)
}

// endedWithin ends the context after the first piece: that is an error, and never half a text.
func (e exam) endedWithin(t *testing.T) {
	t.Helper()
	stop := errors.New("the person pressed stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	first := true
	m := e.open(t, []Step{{Text: spoken, Again: true, Pace: func(ctx context.Context) error {
		if first {
			first = false
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}}})
	r := Request()
	r.OnText = func(string) { cancel(stop) }
	got, err := e.do(ctx, t, m, r)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, stop) {
		t.Errorf("got %+v, %v; want the context's error and its cause", got, err)
	}
}

// brokenOff is rule M7: no second attempt once text was released.
func (e exam) brokenOff(t *testing.T) {
	t.Helper()
	m := e.open(t, []Step{{Text: "So far, ", Fail: llm.CutShort}, {Text: "and not again"}})
	got, err := e.do(t.Context(), t, m, Request())
	var failed *llm.Error
	if !errors.As(err, &failed) || failed.Reason != llm.CutShort || !failed.Released || failed.Attempts != 1 {
		t.Errorf("got %+v, %v; want %s after one attempt, released", got, err, llm.CutShort)
	}
	m = e.open(t, []Step{{Fail: llm.CutShort}, {Text: "in the end"}})
	if failed, ok := e.do(t.Context(), t, m, Request()); ok != nil {
		t.Errorf("nothing was released, and yet it is not asked again: %+v, %v", failed, ok)
	}
}

// releasesTheText asks for what is easily cut or lost on its way.
func (e exam) releasesTheText(t *testing.T) {
	t.Helper()
	for _, text := range []string{
		"👩‍👩‍👧 🏳️‍🌈 日本語。 ",
		"\n\nafter a gap",
		"a line\r\nand another",
		"event: error\ndata: [DONE]\n\n",
		`\u00e9 "quoted" \`,
		strings.Repeat("long ", 2_000) + "end",
	} {
		m := e.open(t, []Step{{Text: text}})
		same(t, e.ask(t, m, Request()), text, llm.Stop, nil)
	}
}
