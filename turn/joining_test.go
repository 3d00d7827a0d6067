package turn_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchboard/chat"
	"switchboard/llm"
)

// A message that has joined and is deleted while the model thinks breaks nothing.
func TestL8_AJoiningMessageIsDeleted(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = func(r llm.Request) (llm.Reply, error) {
		if isRouter(r) {
			return routeTo("desk", 0.9), nil
		}
		return []llm.Reply{wants("rows.get 1"), says("Done.")}[assistantRounds(r, "row 1")], nil
	}
	h.meanwhile(func() { h.accept(message(2, "and row 2")) })
	once := sync.Once{}
	drop := func() { h.halt(deleted(2)) }
	h.think = func(_ context.Context, r llm.Request) error {
		if !isRouter(r) && assistantRounds(r, "row 1") == 1 {
			once.Do(drop)
		}
		return nil
	}
	h.up()
	defer h.down()
	h.accept(message(1, "row 1"))
	h.idle()
	if began, _ := ended(h); began != 1 || strings.Contains(h.log(), "turn failed") {
		t.Errorf("began %d times, log %s", began, h.log())
	}
}

// That the first of two messages is deleted does not leave the second without a word.
func TestL8_AFoldedMessageIsNotSilencedByAnothersDeletion(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = func(r llm.Request) (llm.Reply, error) {
		if isRouter(r) {
			return routeTo("desk", 0.9), nil
		}
		return []llm.Reply{wants("rows.get 1"), wants("rows.get 2"), says("Done.")}[min(2, assistantRounds(r, "row"))], nil
	}
	n := 0
	first, second := func() { h.accept(message(2, "tell me about 2")) }, func() { h.halt(deleted(1)) }
	h.wait = func(context.Context) error {
		switch n++; n {
		case 1:
			first()
		case 2:
			second()
		}
		return nil
	}
	h.up()
	defer h.down()
	f := h.say(message(1, "row 1"))
	if rec := h.read(f.Turn); len(rec.Folded) != 1 || len(h.posted()) != 1 {
		t.Errorf("message 2 was folded %d times, and %d replies posted", len(rec.Folded), len(h.posted()))
	}
}

// Words that were not meant for the bot do not become an order to it because it is at work.
func TestFolding_WhatNobodyAskedDoesNotJoin(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.model = func(r llm.Request) (llm.Reply, error) {
		if isRouter(r) {
			if strings.Contains(r.Turns[len(r.Turns)-1].Text, "Bob") {
				return routeTo("none", 0.9), nil
			}
			return routeTo("desk", 0.9), nil
		}
		return []llm.Reply{wants("rows.get 1"), says("Done.")}[min(1, assistantRounds(r, "row 1"))], nil
	}
	h.meanwhile(func() {
		m := message(2, "Bob, set row 5 yourself, please")
		m.Unasked = true
		h.accept(m)
	})
	h.up()
	defer h.down()
	id := h.accept(message(1, "row 1"))
	h.idle()
	if rec := h.read(id); len(rec.Folded) != 0 {
		t.Errorf("folded: %+v", rec.Folded[0])
	}
}

// A burst joins piece by piece, and what would be too much for one run has turns of its own. Files are mentioned later on.
func TestFolding_ABurstIsBounded(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.pack = strings.Replace(h.pack, "tokens: 20000", "tokens: 900000", 1)
	h.model = func(r llm.Request) (llm.Reply, error) {
		if isRouter(r) {
			return routeTo("desk", 0.9), nil
		}
		if n := assistantRounds(r, "row 1."); n < 2 {
			return wants(fmt.Sprint("rows.get ", n)), nil
		}
		return says("Done."), nil
	}
	h.meanwhile(func() {
		for n := range 45 {
			m := message(n+2, fmt.Sprint("word ", n))
			m.ID = fmt.Sprint(n + 2)
			if n == 25 {
				m.Files = []chat.File{{ID: "F1", Name: "a.txt", Text: strings.Repeat("x", 40<<10), Size: 40 << 10}}
			}
			h.accept(m)
		}
	})
	h.up()
	defer h.down()
	id := h.accept(message(1, "row 1."))
	h.idle()
	count := map[int]int{}
	for _, f := range h.read(id).Folded {
		count[f.Round]++
	}
	if diff := cmp.Diff(map[int]int{1: 20, 2: 6}, count); diff != "" {
		t.Errorf("folded by round (-want +got):\n%s", diff)
	}
	belongs(t, h)
	h.finished(len(h.ended))
	h.say(message(99, "row 1. again"))
	for _, r := range h.requests() {
		if last := r.Turns[len(r.Turns)-1].Text; strings.HasSuffix(last, "again") && strings.Contains(fmt.Sprint(texts(r)), "xxxx") {
			t.Error("the text of a file is told again")
		}
	}
}
