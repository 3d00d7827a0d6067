package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"switchboard/llm"
	"switchboard/store"
)

// thread is what is known of a conversation. Its words are kept apart from the rest, as long as the retention says.
type thread struct {
	Last    string    `json:"last,omitempty"`    // the assistant that answered last
	Asked   int       `json:"asked,omitempty"`   // the router's questions in a row
	Open    *question `json:"open,omitempty"`    // the question that waits for an answer
	Listed  bool      `json:"listed,omitempty"`  // the bot has said what it can do
	Replies int       `json:"replies,omitempty"` // model replies so far

	words   words
	version int64
}

// question is a clarifying question that waits for its answer.
type question struct {
	Choices []string `json:"choices"`
	By      string   `json:"by"` // the person whose message it is about
}

// words is what was said in a thread.
type words struct {
	First   string    `json:"first"`
	FirstAt time.Time `json:"first_at"`
	Unclear string    `json:"unclear,omitempty"` // the message that the open question is about
	Said    []said    `json:"said,omitempty"`
	Left    int       `json:"left,omitempty"` // how many are left out before Said
}

type said struct {
	At   time.Time `json:"at"`
	Bot  bool      `json:"bot,omitempty"`
	Text string    `json:"text"`
}

// How much of a thread a model sees: the newest of it.
const (
	mostSaid  = 20
	mostBytes = 12 << 10
)

func threadKey(id string) string { return "thread/" + id }

func (s *story) readThread(ctx context.Context) error {
	key := threadKey(s.threadID)
	stored, err := s.e.o.Store.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("read thread %s: %w", s.threadID, err)
	}
	s.thread.version = stored.Version
	if stored.Version == 0 {
		return nil
	}
	if err := json.Unmarshal(stored.Value, &s.thread); err != nil {
		return fmt.Errorf("read thread %s: %w", s.threadID, err)
	}
	data, err := s.e.o.Store.Content(ctx, key)
	if err != nil {
		return fmt.Errorf("read the words of thread %s: %w", s.threadID, err)
	}
	if data == nil {
		return nil // retention took them
	}
	w := &s.thread.words
	if err := json.Unmarshal(data, w); err != nil {
		return fmt.Errorf("read the words of thread %s: %w", s.threadID, err)
	}
	// Each word goes with its own retention, however long people talk on; and what has been bound since is hidden by now.
	w.forget(s.e.o.Now().Add(-s.desk.Pack.Retention))
	mask := s.desk.Mask()
	w.First, w.Unclear = mask.Text(w.First), mask.Text(w.Unclear)
	for i := range w.Said {
		w.Said[i].Text = mask.Text(w.Said[i].Text)
	}
	return nil
}

// forget drops what was said before a time.
func (w *words) forget(before time.Time) {
	for len(w.Said) > 0 && w.Said[0].At.Before(before) {
		w.Said = w.Said[1:]
		w.Left++
	}
	if w.FirstAt.Before(before) {
		w.First = ""
	}
}

// first is the thread's first message; text is the present one, in case there was none before.
func (t *thread) first(text string) string {
	if t.words.First == "" {
		return text
	}
	return t.words.First
}

// history is what was said before this message, as a model sees it, with the cut marked.
func (t *thread) history() []llm.Turn {
	var turns []llm.Turn
	for _, s := range t.words.Said {
		role := llm.User
		if s.Bot {
			role = llm.Assistant
		}
		turns = append(turns, llm.Turn{Role: role, Text: s.Text})
	}
	if t.words.Left > 0 {
		mark := llm.Turn{Role: llm.User, Text: fmt.Sprintf("(%d earlier messages of this thread are left out.)", t.words.Left)}
		turns = append([]llm.Turn{mark}, turns...)
	}
	return turns
}

// say adds to what was said and cuts from the front what a model would not see.
func (w *words) say(lines ...said) {
	w.Said = append(w.Said, lines...)
	size := 0
	for _, s := range w.Said {
		size += len(s.Text)
	}
	for len(w.Said) > mostSaid || size > mostBytes && len(w.Said) > len(lines) {
		size -= len(w.Said[0].Text)
		w.Said = w.Said[1:]
		w.Left++
	}
}

// closeThread brings the thread to its state after the turn.
func (s *story) closeThread(b *store.Batch, reply string) {
	if s.rec.Unheard {
		return
	}
	t := s.thread
	if t.words.First == "" {
		t.words.First, t.words.FirstAt = s.text, s.rec.Began
	}
	t.words.say(said{At: s.rec.Began, Text: s.text}, said{At: s.rec.Began, Bot: true, Text: reply})
	t.Replies += s.steps
	t.Listed = t.Listed || s.rec.Listed
	if s.rec.Question != nil || t.Open == nil || t.Open.By == s.msg.From.ID { // nobody else can make a question void
		t.Open, t.words.Unclear = s.rec.Question, ""
	}
	switch {
	case s.rec.Question != nil:
		t.Asked++
		t.words.Unclear = s.request()
	default:
		t.Asked = 0
	}
	if s.rec.Assistant != "" {
		t.Last = s.rec.Assistant
	}
	value, err := json.Marshal(t)
	if err != nil { // plain fields only
		panic(fmt.Sprintf("encode thread %s: %v", s.threadID, err))
	}
	key := threadKey(s.threadID)
	b.Puts = append(b.Puts, store.Put{Key: key, Value: value, Version: t.version})
	s.journal.Content(b, key, t.words)
}

// picked finds the choice that an answer to the open question means: its number, or its name.
func (q *question) picked(text string) (string, bool) {
	text = strings.Trim(strings.TrimSpace(text), ".!")
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(q.Choices) {
		return q.Choices[n-1], true
	}
	for _, c := range q.Choices {
		if strings.EqualFold(c, text) {
			return c, true
		}
	}
	return "", false
}
