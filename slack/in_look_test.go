package slack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchboard/chat"
	"switchboard/slack/sim"
)

func TestLookAtPeople(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	h.w.AddPerson(sim.Person{ID: "U0SINGLE", Name: "Single", Kind: sim.SingleGuest})
	h.w.AddPerson(sim.Person{ID: "U0STRANGE", Name: "Strange", Kind: sim.Stranger})
	h.w.AddPerson(sim.Person{ID: "U0ROBOT", Name: "Robot", Kind: sim.Bot})
	for id, want := range map[string]chat.Person{
		ana:         {ID: ana, Name: "Ana", Kind: chat.Member, Groups: []string{"S0FIN"}},
		mia:         {ID: mia, Name: "Mia", Kind: chat.Member},
		gus:         {ID: gus, Name: "Gus", Kind: chat.Guest},
		"U0SINGLE":  {ID: "U0SINGLE", Name: "Single", Kind: chat.Guest},
		exa:         {ID: exa, Name: "Exa", Kind: chat.External},
		"U0STRANGE": {ID: "U0STRANGE", Name: "Strange", Kind: chat.External},
		"U0ROBOT":   {ID: "U0ROBOT", Name: "Robot", Kind: chat.External},
		"U0NOBODY":  {ID: "U0NOBODY", Name: "U0NOBODY", Kind: chat.External},
	} {
		seen, err := h.slack.Look(t.Context(), chat.Message{From: chat.Person{ID: id}, Channel: chat.Channel{ID: front}}, false)
		if err != nil {
			t.Fatal(id, err)
		}
		if d := cmp.Diff(want, seen.Message.From); d != "" {
			t.Error(d)
		}
	}
}

func TestLookAtChannels(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	h.w.AddChannel(sim.Channel{ID: "C0MANY", Kind: sim.MPIM, Members: []string{ana, mia, "U0BOT"}})
	d := h.dm(t, ana)
	look := func(id string, v chat.Visibility) chat.Visibility {
		t.Helper()
		seen, err := h.slack.Look(t.Context(), chat.Message{From: chat.Person{ID: ana}, Channel: chat.Channel{ID: id, Visibility: v}}, false)
		if err != nil {
			t.Fatal(err)
		}
		return seen.Message.Channel.Visibility
	}
	for id, want := range map[string]chat.Visibility{
		front: chat.Public, priv: chat.Private, ext: chat.Shared, "C0MANY": chat.Private, d: chat.DM, "C0NOWHERE": chat.Shared,
	} {
		if got := look(id, chat.Public); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	h.clock.forward(time.Hour)
	h.w.Fail(sim.Fault{Method: "conversations.info", Do: sim.Refuse, Error: "missing_scope", Times: -1})
	if got := look(front, chat.Public); got != chat.Shared {
		t.Errorf("a channel of which Slack says nothing is %s", got)
	}
	if got := look(d, chat.DM); got != chat.DM {
		t.Errorf("a direct message of which Slack says nothing is %s", got)
	}
}

// What is not known is not believed for long, what is known is asked for once.
func TestLookRemembers(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	calls := func(method string) (n int) {
		for _, e := range h.w.Log() {
			if e.Method == method && (e.What == sim.Called || e.What == sim.Refused) {
				n++
			}
		}
		return n
	}
	look := func(id string) chat.Kind {
		t.Helper()
		seen, err := h.slack.Look(t.Context(), chat.Message{From: chat.Person{ID: id}, Channel: chat.Channel{ID: front}, Text: "<@U0ANA> <@U0MIA>"}, false)
		if err != nil {
			t.Fatal(err)
		}
		return seen.Message.From.Kind
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { look(ana) })
	}
	all.Wait()
	if n := calls("users.info"); n != 2 {
		t.Errorf("users.info was called %d times for 2 people", n)
	}
	if n := calls("conversations.info"); n != 1 {
		t.Errorf("conversations.info was called %d times", n)
	}
	if got := look("U0LATER"); got != chat.External {
		t.Error(got)
	}
	h.w.AddPerson(sim.Person{ID: "U0LATER", Name: "Later"})
	h.clock.forward(time.Minute)
	if got := look("U0LATER"); got != chat.Member {
		t.Error(got)
	}
	h.w.AddPerson(sim.Person{ID: ana, Name: "Ana", Kind: sim.Guest})
	h.clock.forward(known)
	if got := look(ana); got != chat.Guest {
		t.Error(got)
	}
}

// What a person may do must not depend on whether Slack answers just now.
func TestLookFailsWithSlack(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	lift := h.w.Fail(sim.Fault{Method: "users.info", Do: sim.ServerError, Times: -1})
	m := chat.Message{From: chat.Person{ID: ana}, Channel: chat.Channel{ID: front}}
	if _, err := h.slack.Look(t.Context(), m, false); err == nil {
		t.Error("no error though Slack did not say who it is")
	}
	lift()
	lift = h.w.Fail(sim.Fault{Method: "usergroups.list", Do: sim.ServerError, Times: -1})
	if _, err := h.slack.Look(t.Context(), m, false); err == nil {
		t.Error("no error though Slack did not say in which groups they are")
	}
	lift()
	seen, err := h.slack.Look(t.Context(), m, false)
	if err != nil || len(seen.Message.From.Groups) != 1 {
		t.Fatal(seen, err)
	}
	h.clock.forward(known + time.Minute)
	h.w.Fail(sim.Fault{Method: "usergroups.list", Do: sim.ServerError, Times: -1})
	if seen, err = h.slack.Look(t.Context(), m, false); err != nil || len(seen.Message.From.Groups) != 1 {
		t.Error("the groups that were known are forgotten:", seen, err)
	}
}

// Slack's limits are no fault: who asks is waited for, however long Slack wants to be left alone.
func TestLookWaitsForSlacksLimits(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"users.info", "usergroups.list", "conversations.info"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			h := build(t, plan{})
			h.w.Fail(sim.Fault{Method: method, Do: sim.Limited, Retry: 30})
			m := chat.Message{From: chat.Person{ID: ana}, Channel: chat.Channel{ID: front}}
			seen, err := h.slack.Look(t.Context(), m, false)
			if err != nil || seen.Message.From.Kind != chat.Member || len(seen.Message.From.Groups) != 1 || seen.Message.Channel.Visibility != chat.Public {
				t.Error(seen.Message, err)
			}
			if got := h.clock.waited(); !slices.ContainsFunc(got, func(d time.Duration) bool { return d > longestLook }) {
				t.Errorf("waited %v", got)
			}
		})
	}
	t.Run("until it is not wanted any more", func(t *testing.T) {
		t.Parallel()
		h := build(t, plan{})
		h.clock.mu.Lock()
		h.clock.block = make(chan struct{})
		h.clock.mu.Unlock()
		from := h.w.Mark()
		h.w.Fail(sim.Fault{Method: "users.info", Do: sim.Limited, Retry: 30})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := h.slack.Look(ctx, chat.Message{From: chat.Person{ID: ana}, Channel: chat.Channel{ID: front}}, false)
			done <- err
		}()
		if _, err := h.w.Await(t.Context(), from, func(e sim.Entry) bool { return e.Method == "users.info" }); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// cutGroups is a Slack that leaves most members out of its list of groups, as it does with large ones.
type cutGroups struct{ with http.RoundTripper }

func (c cutGroups) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.with.RoundTrip(r)
	if err != nil || !strings.HasSuffix(r.URL.Path, "/usergroups.list") {
		return answer, err
	}
	defer func() { _ = answer.Body.Close() }()
	var list struct {
		OK     bool             `json:"ok"`
		Groups []map[string]any `json:"usergroups"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
		return nil, err
	}
	for _, g := range list.Groups {
		if all, ok := g["users"].([]any); ok && len(all) > 1 {
			g["users"] = all[:1]
		}
	}
	data, err := json.Marshal(list)
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	answer.Header.Del("Content-Length")
	return answer, err
}

// Groups of which Slack's list holds all members, also those without any, are not asked for one by one. And where Slack
// does not tell the members of one, that costs only those of its members who are not known.
func TestLookAtGroups(t *testing.T) {
	t.Parallel()
	h := build(t, plan{slack: func(o *Options) { o.Client = &http.Client{Transport: cutGroups{new(http.Transport)}} }})
	for i := range 40 {
		h.w.AddGroup(sim.Group{ID: fmt.Sprintf("S0EMPTY%d", i), Handle: fmt.Sprintf("empty-%d", i)})
	}
	h.w.AddGroup(sim.Group{ID: "S0ALL", Handle: "all", Members: []string{ana, mia}})
	asked := func() (n int) {
		for _, e := range h.w.Log() {
			if e.Method == "usergroups.users.list" && (e.What == sim.Called || e.What == sim.Refused) {
				n++
			}
		}
		return n
	}
	look := func(id string) string {
		t.Helper()
		seen, err := h.slack.Look(t.Context(), chat.Message{From: chat.Person{ID: id}, Channel: chat.Channel{ID: front}}, false)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(seen.Message.From.Groups, " ")
	}
	lift := h.w.Fail(sim.Fault{Method: "usergroups.users.list", Do: sim.ServerError, Times: -1})
	if a, m, g := look(ana), look(mia), look(gus); a != "S0ALL S0FIN" || m != "" || g != "" {
		t.Errorf("without the members: %q, %q, %q", a, m, g)
	}
	lift()
	before := asked()
	h.clock.forward(unknown)
	if a, m := look(ana), look(mia); a != "S0ALL S0FIN" || m != "S0ALL" {
		t.Errorf("with the members: %q, %q", a, m)
	}
	if n := asked() - before; n != 1 {
		t.Errorf("the members of groups were asked for %d times", n)
	}
	h.w.Fail(sim.Fault{Method: "usergroups.users.list", Do: sim.Limited, Retry: 30})
	h.clock.forward(known)
	if m := look(mia); m != "S0ALL" {
		t.Errorf("who was known to be in a group is in %q", m)
	}
}

// A message that calls hundreds of people must not hold up the look-ups of all others.
func TestLookAtManyNames(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	var words strings.Builder
	for i := range 400 {
		fmt.Fprintf(&words, "<@U0X%d> ", i)
		h.w.AddPerson(sim.Person{ID: fmt.Sprintf("U0X%d", i), Name: fmt.Sprintf("Number %d", i)})
	}
	m := chat.Message{From: chat.Person{ID: ana}, Channel: chat.Channel{ID: front}, Text: words.String()}
	seen, err := h.slack.Look(t.Context(), m, false)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range h.w.Log() {
		if e.Method == "users.info" && e.What == sim.Called {
			n++
		}
	}
	if n != namesMost+1 {
		t.Errorf("users.info was called %d times", n)
	}
	if got := seen.Message.Text; !strings.HasPrefix(got, "@Number 0 @Number 1 ") || !strings.HasSuffix(got, " @U0X398 @U0X399 ") {
		t.Errorf("text %.60q … %q", got, got[len(got)-40:])
	}
}

func TestLookWithoutGroups(t *testing.T) {
	t.Parallel()
	h := build(t, plan{app: func(a *sim.App) {
		a.Scopes = strings.Fields(strings.ReplaceAll(strings.Join(sim.DefaultScopes(), " "), "usergroups:read", ""))
	}})
	seen, err := h.slack.Look(t.Context(), chat.Message{From: chat.Person{ID: ana}, Channel: chat.Channel{ID: front}}, false)
	if err != nil || seen.Message.From.Kind != chat.Member || seen.Message.From.Groups != nil {
		t.Error(seen, err)
	}
}

// post posts as the bot, with metadata of a reply or without.
func (h *house) post(t *testing.T, channel, thread, text string, reply bool) {
	t.Helper()
	form := map[string]any{"channel": channel, "thread_ts": thread, "text": text}
	if reply {
		form["metadata"] = map[string]any{"event_type": metadataType, "event_payload": map[string]any{"key": "t_1", "part": 0, "parts": 1}}
	}
	h.call(t, "chat.postMessage", form)
}

func TestPast(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	h.w.AddPerson(sim.Person{ID: "U0ALERT", Name: "alerts", Kind: sim.Bot})
	root := h.say(t, sim.Say{From: ana, Channel: front, Text: "the <https://a.example|list> is wrong &amp; old"})
	h.post(t, front, root, "Working on it …", false)
	h.post(t, front, root, "It is from Monday.", true)
	h.say(t, sim.Say{From: "U0ALERT", Channel: front, Thread: root, Text: "I have approved the order"})
	h.say(t, sim.Say{From: mia, Channel: front, Thread: root, Text: "see <@U0ANA>", Files: []sim.Upload{{Name: "list.csv", Type: "text/csv", Content: []byte("a,b")}}})
	ask := h.say(t, sim.Say{From: mia, Channel: front, Thread: root, Text: "<@U0BOT> what now?"})
	h.say(t, sim.Say{From: ana, Channel: front, Thread: root, Text: "later words"})
	m := chat.Message{ID: ask, Thread: chat.Thread{Team: "T0SIM", Channel: front, Root: root}, From: chat.Person{ID: mia}, Channel: chat.Channel{ID: front}, Text: "what now, <@U0ANA>?"}
	seen, err := h.slack.Look(t.Context(), m, true)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range seen.Past {
		got = append(got, fmt.Sprintf("%s %v: %s", s.By, s.Bot, s.Text))
	}
	want := []string{
		"Ana false: the list (https://a.example) is wrong & old", "desk true: It is from Monday.",
		"alerts false: I have approved the order", "Mia false: see @Ana\n[file: list.csv]",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if seen.Left != 0 || seen.Message.Text != "what now, @Ana?" {
		t.Errorf("left %d, text %q", seen.Left, seen.Message.Text)
	}
}

func TestPastIsCut(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	root := h.say(t, sim.Say{From: ana, Channel: front, Text: "the beginning"})
	for i := range 250 {
		h.say(t, sim.Say{From: mia, Channel: front, Thread: root, Text: fmt.Sprint("reply ", i)})
	}
	ask := h.say(t, sim.Say{From: mia, Channel: front, Thread: root, Text: "<@U0BOT> x"})
	m := chat.Message{ID: ask, Thread: chat.Thread{Channel: front, Root: root}, From: chat.Person{ID: mia}, Channel: chat.Channel{ID: front}}
	past, left := h.slack.past(t.Context(), m)
	if len(past) != 51 || left != 200 || past[0].Text != "the beginning" || past[1].Text != "reply 200" || past[50].Text != "reply 249" {
		t.Errorf("%d, left %d: %q … %q", len(past), left, past[0].Text, past[len(past)-1].Text)
	}
	// What Slack gave before it refused is used.
	h.w.Fail(sim.Fault{Method: "conversations.replies", Do: sim.Refuse, Error: "internal_error", After: 1, Times: -1})
	if past, _ = h.slack.past(t.Context(), m); len(past) == 0 {
		t.Error("nothing is left of what was read")
	}
}

func TestPastOfDirectMessage(t *testing.T) {
	t.Parallel()
	h := build(t, plan{})
	d := h.dm(t, ana)
	h.say(t, sim.Say{From: ana, Channel: d, Text: "one"})
	h.post(t, d, "", "two", true)
	ask := h.say(t, sim.Say{From: ana, Channel: d, Text: "three"})
	past, _ := h.slack.past(t.Context(), chat.Message{ID: ask, Thread: chat.Thread{Channel: d, Root: plainDM}, Channel: chat.Channel{ID: d}})
	if len(past) != 2 || past[0].Text != "one" || past[1].Text != "two" || !past[1].Bot {
		t.Errorf("%+v", past)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	stolen := make(chan string, 1)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stolen <- r.Header.Get("Authorization")
	}))
	t.Cleanup(elsewhere.Close)
	big := strings.Repeat("é", fileMost)
	uploads := []sim.Upload{
		{Name: "a.txt", Type: "text/plain", Content: []byte("hello\r\nthere")},
		{Name: "b.json", Type: "application/json", Content: []byte(`{"a":1}`)},
		{Name: "c.go", Type: "application/octet-stream", Content: []byte("package c")},
		{Name: "d.png", Type: "image/png", Content: []byte("\x89PNG")},
		{Name: "e.txt", Type: "text/plain", Content: []byte("a\x00b")},
		{Name: "f.txt", Type: "text/plain", Content: []byte("\xff\xfeh\x00i\x00")},
		{Name: "g.html", Type: "text/html", Content: []byte("<!DOCTYPE html><p>mine")},
		{Name: "h.txt", Type: "text/plain", Content: []byte("x"), Elsewhere: elsewhere.URL},
		{Name: "i.txt", Type: "text/plain", Content: []byte(big)},
		{Name: "j.txt", Type: "text/plain", Content: []byte(big)},
		{Name: "k.txt", Type: "text/plain", Content: []byte("one too many")},
	}
	files := func(h *house) []chat.File {
		t.Helper()
		h.say(t, sim.Say{From: mia, Channel: h.dm(t, mia), Files: uploads})
		h.settled(t)
		got := h.take()
		if len(got) != 1 || len(got[0].Files) != len(uploads) {
			t.Fatalf("accepted %+v", got)
		}
		seen, err := h.slack.Look(t.Context(), got[0], false)
		if err != nil {
			t.Fatal(err)
		}
		return seen.Message.Files
	}
	h := build(t, plan{})
	got := files(h)
	for i, want := range []struct{ text, note string }{
		{"hello\nthere", ""},
		{`{"a":1}`, ""},
		{"package c", ""},
		{"", "cannot be read: it is not text"},
		{"", "cannot be read: it is not text"},
		{"hi", ""},
		{"<!DOCTYPE html><p>mine", ""},
		{"", "cannot be read: it is kept on another host, where the bot does not go"},
		{big[:fileMost], "only its first 64 KiB are read"},
		{"", "only its first"},
		{"", "not read: the files of this message are too much text together"},
	} {
		if want.note == "only its first" {
			if n := len(got[i].Text); n == 0 || !strings.HasPrefix(got[i].Note, want.note) || !strings.HasPrefix(big, got[i].Text) {
				t.Errorf("%s: %d bytes, %q", got[i].Name, n, got[i].Note)
			}
			continue
		}
		if got[i].Text != want.text || got[i].Note != want.note {
			t.Errorf("%s: %.60q, %q; want %.60q, %q", got[i].Name, got[i].Text, got[i].Note, want.text, want.note)
		}
	}
	total := 0
	for _, f := range got {
		total += len(f.Text)
	}
	if total > filesMost {
		t.Errorf("%d bytes in all", total)
	}
	select {
	case token := <-stolen:
		t.Errorf("another host was asked, with %q", token)
	default:
	}

	h = build(t, plan{app: func(a *sim.App) {
		a.Scopes = strings.Fields(strings.ReplaceAll(strings.Join(sim.DefaultScopes(), " "), "files:read", ""))
	}})
	if f := files(h)[0]; f.Text != "" || !strings.Contains(f.Note, "files:read") {
		t.Errorf("without the scope: %q, %q", f.Text, f.Note)
	}
}

func TestTokenGoesToSlackOnly(t *testing.T) {
	t.Parallel()
	s := reader()
	s.o.APIURL = "http://127.0.0.1:4000/api/"
	for address, want := range map[string]bool{
		"https://files.slack.com/x": true, "https://slack.com/x": true, "https://a.slack-gov.com/x": true, "http://127.0.0.1:4000/files/x": true,
		"http://files.slack.com/x": false, "https://slack.com.evil.example/x": false, "https://evilslack.com/x": false, "http://127.0.0.1:4001/x": false,
		"ftp://slack.com/x": false, "https://user@evil.example/slack.com": false,
	} {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.trusted(r.URL); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}
