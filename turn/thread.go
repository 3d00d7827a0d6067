package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"switchboard/chat"
	"switchboard/guards"
	"switchboard/journal"
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
	Waits   []waiting `json:"waits,omitempty"`   // turns of it that wait for people

	words   words
	heard   []said // what was said meanwhile, but not to the bot
	version int64
}

// question is a clarifying question that waits for its answer.
type question struct {
	Choices []string `json:"choices"`
	By      string   `json:"by"`   // the person whose message it is about
	Card    string   `json:"card"` // the turn that asked
}

// waiting is a turn that waits for people, and the key of the message that it answers.
type waiting struct {
	Turn string `json:"turn"`
	Key  string `json:"key"`
}

// words is what was said in a thread.
type words struct {
	First   string       `json:"first"` // to the bot
	FirstAt time.Time    `json:"first_at"`
	Unclear string       `json:"unclear,omitempty"` // the message that the open question is about
	Of      string       `json:"of,omitempty"`      // its id
	Asker   *chat.Person `json:"asker,omitempty"`   // and whose it is
	Root    *said        `json:"root,omitempty"`    // what the thread began with: it stays when the middle is cut
	Said    []said       `json:"said,omitempty"`
	Left    int          `json:"left,omitempty"` // how many are left out before Said
}

// said is one thing that was said. Aside: not to the bot.
type said struct {
	At    time.Time `json:"at"`
	ID    string    `json:"id,omitempty"`
	Bot   bool      `json:"bot,omitempty"`
	Aside bool      `json:"aside,omitempty"`
	By    string    `json:"by,omitempty"` // id of the person, where it is known
	Name  string    `json:"name,omitempty"`
	Text  string    `json:"text"`
	Taint bool      `json:"taint,omitempty"` // the bot's words, of a run that strangers may have spoken to
}

// How much of a thread a model sees: what it began with, and the newest of it.
const (
	mostSaid  = 20
	mostBytes = 12 << 10
	mostOne   = 4 << 10 // of what was not said to the bot
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
	if err := s.readHeard(ctx); err != nil {
		return err
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
	w.drop(s.gone)
	s.thread.hide(s.desk.Mask())
	return nil
}

// hide masks all that was said.
func (t *thread) hide(mask journal.Mask) {
	w := &t.words
	w.First, w.Unclear = mask.Text(w.First), mask.Text(w.Unclear)
	if w.Root != nil {
		w.Root.Text = mask.Text(w.Root.Text)
	}
	for _, list := range [][]said{w.Said, t.heard} {
		for i := range list {
			list[i].Text = mask.Text(list[i].Text)
		}
	}
}

// readHeard reads what was said in the thread but not to the bot.
func (s *story) readHeard(ctx context.Context) error {
	rows, err := s.e.heard(ctx, s.threadID)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.ID == "" || row.ID != s.msg.ID && !slices.Contains(s.gone, row.ID) { // it may have been edited into a message to the bot
			s.thread.heard = append(s.thread.heard, s.aside(row.Said))
		}
	}
	return nil
}

// aside takes in what was not said to the bot. Its own words are its own wherever they were said.
func (s *story) aside(h chat.Said) said {
	mask := s.desk.Mask()
	return said{At: h.At, ID: h.ID, Bot: h.Bot, Aside: !h.Bot, Name: mask.Text(h.By), Text: short(mask.Text(h.Text))}
}

// short cuts what is too long for a history, and says so.
func short(text string) string {
	if len(text) <= mostOne {
		return text
	}
	return strings.ToValidUTF8(text[:mostOne], "") + " … (cut)"
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
	if w.Root != nil && w.Root.At.Before(before) {
		w.Root = nil
		w.Left++
	}
}

// drop takes out what was deleted, and says whether there was any of it.
func (w *words) drop(ids []string) bool {
	gone := func(l said) bool { return l.ID != "" && slices.Contains(ids, l.ID) }
	before := len(w.Said)
	w.Said = slices.DeleteFunc(w.Said, gone)
	some := len(w.Said) < before
	if w.Root != nil && gone(*w.Root) {
		w.Root, some = nil, true
	}
	if w.Of != "" && slices.Contains(ids, w.Of) { // nobody wants an answer to it any more
		w.Unclear, w.Of, some = "", "", true
	}
	return some
}

// first is the first thing that was said to the bot in this thread; text is the present one, in case there was none before.
func (t *thread) first(text string) string {
	if t.words.First == "" {
		return text
	}
	return t.words.First
}

// asker is whose message the open question is about.
func (t *thread) asker() chat.Person {
	if a := t.words.Asker; a != nil && a.ID == t.Open.By {
		return *a
	}
	return chat.Person{ID: t.Open.By}
}

// told is all that was said before this message: the thread's own log, or what a look at a new thread has shown, with what
// was heard meanwhile in its place.
func (s *story) told() words {
	w := s.thread.words
	w.Said = slices.Clone(w.Said)
	if s.thread.version == 0 {
		w.see(s.pastSaid(), s.seen.Left)
	}
	known := map[string]bool{}
	for _, l := range w.Said {
		known[l.ID] = true
	}
	if w.Root != nil {
		known[w.Root.ID] = true
	}
	at := 0
	for _, h := range s.thread.heard {
		if h.ID != "" && known[h.ID] {
			continue
		}
		for at < len(w.Said) && !w.Said[at].At.After(h.At) {
			at++
		}
		if at == 0 && w.Left > 0 { // it belongs to what is left out
			w.Left++
			continue
		}
		w.Said = slices.Insert(w.Said, at, h)
		at++
	}
	w.cut(2)
	return w
}

func (s *story) pastSaid() []said {
	var out []said
	for _, p := range s.seen.Past {
		out = append(out, s.aside(p))
	}
	return out
}

// see takes in what a look at the thread has shown: its first message, how many are left out, and the newest.
func (w *words) see(past []said, left int) {
	if len(past) == 0 {
		return
	}
	w.Root, w.Said, w.Left = &past[0], append(past[1:], w.Said...), w.Left+left
}

// say adds to what was said and cuts from the front what a model would not see.
func (w *words) say(lines ...said) {
	if w.Root == nil && len(w.Said) == 0 && w.Left == 0 && len(lines) > 0 {
		w.Root, lines = &lines[0], lines[1:]
	}
	w.Said = append(w.Said, lines...)
	w.cut(len(lines))
}

// cut leaves out the oldest; the newest few stay whatever their size.
func (w *words) cut(newest int) {
	size := 0
	for _, l := range w.Said {
		size += len(l.Text)
	}
	for len(w.Said) > mostSaid || size > mostBytes && len(w.Said) > newest {
		size -= len(w.Said[0].Text)
		w.Said = w.Said[1:]
		w.Left++
	}
}

// speakers gives the names of all who speak in a thread, but the bot.
func (w *words) speakers() map[string]bool {
	names := map[string]bool{}
	for _, l := range append(deref(w.Root), w.Said...) {
		if !l.Bot {
			names[nameOf(l.Name, l.By)] = true
		}
	}
	return names
}

func deref(l *said) []said {
	if l == nil {
		return nil
	}
	return []said{*l}
}

// several says whether more than one person speaks in the thread: then a model must be told who says what.
func (s *story) several(w words) bool {
	names := w.speakers()
	names[nameOf(s.asker.Name, s.asker.ID)] = true
	return len(names) > 1
}

// named puts the asker's name before their words where several people speak.
func (s *story) named(text string, several bool) string {
	if !several {
		return text
	}
	return nameOf(s.asker.Name, s.asker.ID) + ": " + text
}

// history is what was said before this message, as a model sees it, with the cut marked. Only the asker's words to the bot
// are orders to it, and only its own words are its own: what anybody else says, other bots included, is labelled.
func (s *story) history() []llm.Turn {
	w := s.told()
	several := s.several(w)
	var turns []llm.Turn
	for _, l := range deref(w.Root) {
		turns = append(turns, s.line(l, several))
	}
	if w.Left > 0 {
		turns = append(turns, llm.Turn{Role: llm.User, Text: fmt.Sprintf("(%d earlier messages of this thread are left out.)", w.Left)})
	}
	for _, l := range w.Said {
		turns = append(turns, s.line(l, several))
	}
	return turns
}

func (s *story) line(l said, several bool) llm.Turn {
	switch {
	case l.Bot:
		return llm.Turn{Role: llm.Assistant, Text: l.Text}
	case l.Aside || l.By != "" && l.By != s.asker.ID:
		return llm.Turn{Role: llm.User, Text: quoted("Said in this thread by "+nameOf(l.Name, l.By), l.Text)}
	}
	return llm.Turn{Role: llm.User, Text: s.named(l.Text, several)}
}

// closeThread brings the thread to its state after the turn.
func (s *story) closeThread(b *store.Batch) {
	t := s.thread
	t.Waits = slices.DeleteFunc(slices.Clone(t.Waits), func(w waiting) bool { return w.Turn == s.journal.Turn() })
	waited := len(t.Waits) < len(s.thread.Waits)
	switch {
	case s.rec.Unheard || s.rec.Stale: // nothing was said, but the bot was here
		s.putThread(b, t, len(s.gone) > 0)
		return
	case s.rec.Outcome == Ignored && t.version == 0, s.rec.Outcome == Stopped && s.reply == "":
		if t.version > 0 && (len(s.gone) > 0 || waited) {
			s.putThread(b, t, len(s.gone) > 0)
		}
		return // it has no part in this, or the question is gone
	}
	if t.version == 0 {
		t.words.see(s.pastSaid(), s.seen.Left)
	}
	if t.words.First == "" {
		t.words.First, t.words.FirstAt = s.text, s.rec.Began
	}
	t.words.say(s.lines()...)
	t.Replies += s.steps
	if s.rec.Outcome == Ignored {
		s.putThread(b, t, true)
		return
	}
	t.Listed = t.Listed || s.rec.Listed
	if s.woken != nil { // what the thread asks by now is not about this turn
		t.Last = s.rec.Assistant
		s.putThread(b, t, true)
		return
	}
	if s.rec.Question != nil || s.picked || t.Open == nil || t.Open.By == s.asker.ID { // nobody else can make a question void
		t.Open, t.words.Unclear, t.words.Of, t.words.Asker = s.rec.Question, "", "", nil
	}
	switch {
	case s.rec.Question != nil:
		t.Asked++
		t.words.Unclear, t.words.Of, t.words.Asker = s.asked(), s.msg.ID, &s.asker
	default:
		t.Asked = 0
	}
	if s.rec.Assistant != "" {
		t.Last = s.rec.Assistant
	}
	s.putThread(b, t, true)
}

// lines is what this turn adds to what was said.
func (s *story) lines() []said {
	at := s.msg.At
	if at.IsZero() {
		at = s.rec.Began
	}
	var lines []said
	if !s.before.Told {
		lines = append(lines, said{At: at, ID: s.msg.ID, By: s.msg.From.ID, Name: s.msg.From.Name, Text: fileNames(s.text, s.seen.Files)})
	}
	for _, f := range s.folded[min(s.before.Folded, len(s.folded)):] {
		lines = append(lines, said{At: s.e.o.Now(), ID: f.ID, By: s.asker.ID, Name: s.asker.Name, Text: f.Said})
	}
	gone := slices.Clone(s.gone)
	for _, stop := range s.stops {
		if stop.Deleted {
			gone = append(gone, stop.ID)
		}
	}
	lines = slices.DeleteFunc(lines, func(l said) bool { return l.ID != "" && slices.Contains(gone, l.ID) })
	if s.reply != "" && s.posted {
		lines = append(lines, said{At: s.e.o.Now(), Bot: true, Text: s.reply, Taint: s.rec.Tainted})
	}
	return lines
}

// keepLines brings the thread to its state while the turn waits: it goes on, and knows what was asked.
func (s *story) keepLines(b *store.Batch, lines []said) {
	t := s.thread
	if t.version == 0 {
		t.words.see(s.pastSaid(), s.seen.Left)
	}
	if t.words.First == "" {
		t.words.First, t.words.FirstAt = s.text, s.rec.Began
	}
	t.words.say(lines...)
	t.Replies += s.steps
	t.Last = s.rec.Assistant
	t.Asked = 0
	s.putThread(b, t, true)
}

// taint says who has spoken to the run beside the one who asks, and what that person has said themselves (rule M6).
func (s *story) taint() guards.Taint {
	if t, waited, err := s.readTalk(); err == nil && waited {
		for _, f := range s.folded {
			t.Taint.Words = append(t.Taint.Words, f.Said)
			if strings.Contains(f.Text, fileMark) {
				t.Taint.Sources = append(t.Taint.Sources, "a file")
			}
		}
		return t.Taint
	}
	var t guards.Taint
	if s.asker.Kind != chat.Member {
		t.Sources = append(t.Sources, "words of somebody who is no member of the workspace")
	}
	if len(s.seen.Files) > 0 {
		t.Sources = append(t.Sources, "a file")
	}
	w := s.told()
	for _, l := range append(deref(w.Root), w.Said...) {
		switch {
		case l.Bot && l.Taint:
			t.Sources = append(t.Sources, "an answer that strangers' words went into")
		case l.Bot:
		case l.Aside || l.By != s.asker.ID:
			t.Sources = append(t.Sources, "what other people said in this thread")
		default:
			t.Words = append(t.Words, l.Text)
		}
	}
	t.Words = append(t.Words, s.text)
	if s.picked {
		t.Words = append(t.Words, s.thread.words.Unclear)
		if s.msg.From.ID != s.asker.ID {
			t.Words = slices.DeleteFunc(t.Words, func(words string) bool { return words == s.text })
		}
	}
	for _, f := range s.folded {
		t.Words = append(t.Words, f.Said)
		if strings.Contains(f.Text, fileMark) {
			t.Sources = append(t.Sources, "a file")
		}
	}
	return t
}

func (s *story) putThread(b *store.Batch, t thread, words bool) {
	value, err := json.Marshal(t)
	if err != nil { // plain fields only
		panic(fmt.Sprintf("encode thread %s: %v", s.threadID, err))
	}
	key := threadKey(s.threadID)
	b.Puts = append(b.Puts, store.Put{Key: key, Value: value, Version: t.version})
	if words {
		s.journal.Content(b, key, t.words)
	}
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
