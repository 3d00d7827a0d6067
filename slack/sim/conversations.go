package sim

import (
	"slices"
	"sort"
	"strconv"
	"strings"
)

// see gives a channel that an app may know of.
func (w *Workspace) see(c *call) (*channel, error) {
	ch := w.channels[c.str("channel")]
	if ch == nil || ch.private() && !ch.has(c.app.User) {
		return nil, fail("channel_not_found")
	}
	return ch, nil
}

// wireChannel is a channel as Slack gives it out. Slack: https://docs.slack.dev/reference/objects/conversation-object
func (w *Workspace) wireChannel(a *app, ch *channel) map[string]any {
	out := map[string]any{
		"id": ch.ID, "is_im": ch.Kind == IM, "is_mpim": ch.Kind == MPIM, "is_archived": ch.Archived, "is_channel": ch.Kind == Public || ch.Kind == Shared,
		"is_group": ch.Kind == Private, "is_private": ch.private(), "is_shared": ch.Kind == Shared, "is_ext_shared": ch.Kind == Shared,
		"is_org_shared": false, "is_pending_ext_shared": false, "is_general": false, "is_member": ch.has(a.User),
		"context_team_id": w.o.Team, "num_members": len(ch.Members), "created": 1700000000,
	}
	if ch.Kind != IM {
		out["name"], out["name_normalized"] = ch.Name, ch.Name
		return out
	}
	for _, m := range ch.Members {
		if m != a.User {
			out["user"] = m
		}
	}
	return out
}

// page cuts a list for one answer and gives the cursor of the next.
// Slack: https://docs.slack.dev/apis/web-api/pagination
func page[T any](c *call, all []T, usual, most int) ([]T, map[string]any, error) {
	limit := c.number("limit", usual)
	if limit < 1 || limit > most {
		if limit > most {
			limit = most
		} else {
			return nil, nil, fail("invalid_limit")
		}
	}
	from := 0
	if cur := c.str("cursor"); cur != "" {
		n, err := strconv.Atoi(strings.TrimPrefix(cur, "next:"))
		if err != nil || n < 0 || n > len(all) || !strings.HasPrefix(cur, "next:") {
			return nil, nil, fail("invalid_cursor")
		}
		from = n
	}
	to := min(from+limit, len(all))
	next := ""
	if to < len(all) {
		next = "next:" + strconv.Itoa(to)
	}
	return all[from:to], map[string]any{"response_metadata": map[string]any{"next_cursor": next}}, nil
}

// conversationsInfo is conversations.info. Slack: https://docs.slack.dev/reference/methods/conversations.info
func (w *Workspace) conversationsInfo(c *call) (map[string]any, error) {
	ch, err := w.see(c)
	if err != nil {
		return nil, err
	}
	need := map[ChannelKind]string{IM: "im:read", MPIM: "mpim:read", Private: "groups:read"}[ch.Kind]
	if need == "" {
		need = "channels:read"
	}
	if !c.app.may(need) {
		return nil, w.missing(c.app, need)
	}
	return map[string]any{"channel": w.wireChannel(c.app, ch)}, nil
}

// conversationsList is conversations.list. Slack: https://docs.slack.dev/reference/methods/conversations.list
func (w *Workspace) conversationsList(c *call) (map[string]any, error) {
	return w.listChannels(c, func(*channel) bool { return true })
}

// usersConversations is users.conversations. Slack: https://docs.slack.dev/reference/methods/users.conversations
func (w *Workspace) usersConversations(c *call) (map[string]any, error) {
	user := c.str("user")
	if user == "" {
		user = c.app.User
	}
	return w.listChannels(c, func(ch *channel) bool { return ch.has(user) })
}

func (w *Workspace) listChannels(c *call, ok func(*channel) bool) (map[string]any, error) {
	types := strings.Split(c.str("types"), ",")
	if c.str("types") == "" {
		types = []string{"public_channel"}
	}
	var all []map[string]any
	for _, id := range sorted(w.channels) {
		ch := w.channels[id]
		kind := map[ChannelKind]string{IM: "im", MPIM: "mpim", Private: "private_channel"}[ch.Kind]
		if kind == "" {
			kind = "public_channel"
		}
		if !slices.Contains(types, kind) || ch.private() && !ch.has(c.app.User) || ch.Archived && c.yes("exclude_archived") || !ok(ch) {
			continue
		}
		all = append(all, w.wireChannel(c.app, ch))
	}
	got, out, err := page(c, all, 100, 1000)
	if err != nil {
		return nil, err
	}
	out["channels"] = got
	return out, nil
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// conversationsMembers is conversations.members. Slack: https://docs.slack.dev/reference/methods/conversations.members
func (w *Workspace) conversationsMembers(c *call) (map[string]any, error) {
	ch, err := w.see(c)
	if err != nil {
		return nil, err
	}
	got, out, err := page(c, ch.Members, 100, 1000)
	if err != nil {
		return nil, err
	}
	out["members"] = append([]string{}, got...)
	return out, nil
}

// reader gives a channel whose messages an app may read.
func (w *Workspace) reader(c *call) (*channel, error) {
	ch, err := w.see(c)
	if err != nil {
		return nil, err
	}
	if !ch.has(c.app.User) {
		return nil, fail("not_in_channel")
	}
	if scope, _ := ch.Kind.history(); !c.app.may(scope) {
		return nil, w.missing(c.app, scope)
	}
	w.expire(ch)
	return ch, nil
}

// within says whether a message lies in the time that a call asks for. ts are compared as texts of one form.
func within(c *call, ts string) bool {
	if o := c.str("oldest"); o != "" && o != "0" && (ts < o || ts == o && !c.yes("inclusive")) {
		return false
	}
	if l := c.str("latest"); l != "" && (ts > l || ts == l && !c.yes("inclusive")) {
		return false
	}
	return true
}

// conversationsHistory is conversations.history: newest first, without replies in threads.
// Slack: https://docs.slack.dev/reference/methods/conversations.history
func (w *Workspace) conversationsHistory(c *call) (map[string]any, error) {
	ch, err := w.reader(c)
	if err != nil {
		return nil, err
	}
	var all []*Message
	for _, m := range slices.Backward(ch.messages) {
		if m.To == "" && (m.Thread == "" || m.Broadcast) && within(c, m.TS) {
			all = append(all, m)
		}
	}
	return w.history(c, ch, all, 100)
}

// conversationsReplies is conversations.replies: the first message, then the replies, oldest first.
// Slack: https://docs.slack.dev/reference/methods/conversations.replies
func (w *Workspace) conversationsReplies(c *call) (map[string]any, error) {
	ch, err := w.reader(c)
	if err != nil {
		return nil, err
	}
	root := c.str("ts")
	if m := ch.byTS[root]; m != nil && m.Thread != "" {
		root = m.Thread
	}
	thread := ch.thread(root)
	if len(thread) == 0 {
		return nil, fail("thread_not_found")
	}
	var all []*Message
	for i, m := range thread {
		if i == 0 && m.Thread == "" || within(c, m.TS) { // the first message always comes along
			all = append(all, m)
		}
	}
	return w.history(c, ch, all, 1000)
}

func (w *Workspace) history(c *call, ch *channel, all []*Message, usual int) (map[string]any, error) {
	got, out, err := page(c, all, usual, 1000)
	if err != nil {
		return nil, err
	}
	messages := make([]any, 0, len(got))
	for _, m := range got {
		messages = append(messages, w.wire(ch, m, c.yes("include_all_metadata")))
	}
	meta, _ := out["response_metadata"].(map[string]any)
	out["messages"], out["has_more"] = messages, meta["next_cursor"] != ""
	return out, nil
}

// conversationsOpen is conversations.open. Slack: https://docs.slack.dev/reference/methods/conversations.open
func (w *Workspace) conversationsOpen(c *call) (map[string]any, error) {
	if c.str("channel") != "" {
		ch, err := w.see(c)
		if err != nil {
			return nil, err
		}
		return map[string]any{"channel": w.wireChannel(c.app, ch)}, nil
	}
	users := c.texts("users")
	if len(users) == 0 {
		return nil, fail("users_list_not_supplied")
	}
	for _, u := range users {
		switch p := w.people[u]; {
		case p == nil:
			return nil, fail("user_not_found")
		case p.Kind == Bot:
			return nil, fail("cannot_dm_bot")
		}
	}
	if len(users) == 1 {
		if !c.app.may("im:write") {
			return nil, w.missing(c.app, "im:write")
		}
		ch := w.im(w.people[users[0]], c.app)
		return map[string]any{"channel": w.wireChannel(c.app, ch)}, nil
	}
	if !c.app.may("mpim:write") {
		return nil, w.missing(c.app, "mpim:write")
	}
	members := append(slices.Clone(users), c.app.User)
	sort.Strings(members)
	for _, id := range sorted(w.channels) {
		if ch := w.channels[id]; ch.Kind == MPIM && slices.Equal(ch.Members, members) {
			return map[string]any{"channel": w.wireChannel(c.app, ch)}, nil
		}
	}
	ch := w.addChannel(Channel{ID: w.id("C"), Name: "mpdm-" + strings.ToLower(strings.Join(members, "--")), Kind: MPIM, Members: members})
	return map[string]any{"channel": w.wireChannel(c.app, ch)}, nil
}

// conversationsJoin is conversations.join. Slack: https://docs.slack.dev/reference/methods/conversations.join
func (w *Workspace) conversationsJoin(c *call) (map[string]any, error) {
	ch, err := w.see(c)
	if err != nil {
		return nil, err
	}
	switch {
	case ch.private():
		return nil, fail("method_not_supported_for_channel_type")
	case ch.Archived:
		return nil, fail("is_archived")
	case ch.has(c.app.User):
		c.warn = append(c.warn, "already_in_channel")
	default:
		w.join(ch, w.people[c.app.User])
	}
	return map[string]any{"channel": w.wireChannel(c.app, ch)}, nil
}
