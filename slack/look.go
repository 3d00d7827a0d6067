package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	slackgo "github.com/slack-go/slack"

	"switchboard/chat"
	"switchboard/turn"
)

const (
	known     = 10 * time.Minute // that what Slack says of people and channels is believed
	unknown   = 30 * time.Second // that it does not know somebody
	stale     = time.Hour        // that the groups are believed where Slack does not answer
	mostKnown = 10_000
	nameMost  = 80 // characters of a name
	pastMost  = 50 // messages of a thread, beside its first
	pastPages = 10
	pastPage  = 200 // Slack: https://docs.slack.dev/reference/methods/conversations.replies
	pastTime  = 15 * time.Second
)

// somebody is what is known of a user.
type somebody struct {
	Name string
	Kind chat.Kind
}

// room tells of a channel.
type channelFacts struct {
	Name       string
	Visibility chat.Visibility
}

// groups is who is in which user group.
type groups struct {
	of    map[string][]string // user -> groups
	names map[string]string   // group -> handle
}

// knowledge is what the surface remembers of people and places. It is lost at the end of the process, and may be.
type knowledge struct {
	users    cache[somebody]
	channels cache[channelFacts]
	groups   cache[groups]
	old      cache[groups] // the last groups that Slack told, for when it does not answer
	clicks   cache[bool]   // choices that were just made
	once     sync.Map      // warnings that were given
}

func (k *knowledge) begin(now func() time.Time) {
	k.users.now, k.channels.now, k.groups.now, k.old.now, k.clicks.now = now, now, now, now, now
}

// Look completes a message: who said it and who reads along, names for ids, what its files say; with past, also what was
// said in the thread before. An error means that Slack could not be asked just now, so that it is worth to try again:
// what a person may do must not depend on that.
func (s *Slack) Look(ctx context.Context, m chat.Message, past bool) (turn.Seen, error) {
	from, err := s.person(ctx, m.From.ID)
	if err != nil {
		return turn.Seen{}, fmt.Errorf("find out who %s is: %w", m.From.ID, err)
	}
	m.From = from
	m.Channel.Visibility = s.visible(ctx, m.Channel)
	m.Text = s.plain(ctx, m.Text, true)
	m.Files = s.readFiles(ctx, m.Files)
	seen := turn.Seen{Message: m}
	if past {
		seen.Past, seen.Left = s.past(ctx, m)
	}
	return seen, nil
}

// person finds out who somebody is and what groups they are in.
func (s *Slack) person(ctx context.Context, id string) (chat.Person, error) {
	u, err := s.user(ctx, id)
	if err != nil {
		return chat.Person{}, err
	}
	g, err := s.membership(ctx)
	if err != nil {
		return chat.Person{}, err
	}
	return chat.Person{ID: id, Name: u.Name, Kind: u.Kind, Groups: slices.Clone(g.of[id])}, nil
}

// user asks who somebody is. Slack: https://docs.slack.dev/reference/methods/users.info
func (s *Slack) user(ctx context.Context, id string) (somebody, error) {
	return s.know.users.get(ctx, id, func(ctx context.Context) (somebody, time.Duration, error) {
		var u *slackgo.User
		err := s.call(ctx, looking, "users.info", "", func(ctx context.Context) (err error) {
			u, err = s.api.GetUserInfoContext(ctx, id)
			return err
		})
		if code := refusal(err); code != "" {
			s.warnOnce("users.info "+code, "Slack does not say who somebody is, so they may do least")
			return somebody{Name: id, Kind: chat.External}, unknown, nil
		}
		if err != nil {
			return somebody{}, 0, err
		}
		return somebody{Name: nameOf(u), Kind: s.kindOf(u)}, known, nil
	})
}

// kindOf says how far somebody belongs to the workspace. What is not sure is External, the kind that may do least.
// Slack: https://docs.slack.dev/reference/objects/user-object
func (s *Slack) kindOf(u *slackgo.User) chat.Kind {
	home := u.TeamID == s.me.Team || slices.Contains(u.Enterprise.Teams, s.me.Team)
	switch {
	case u.Deleted, u.IsBot, u.IsStranger, !home:
		return chat.External
	case u.IsRestricted, u.IsUltraRestricted:
		return chat.Guest
	}
	return chat.Member
}

// nameOf gives the name by which people call somebody, made harmless: it stands in texts that models read.
func nameOf(u *slackgo.User) string {
	for _, name := range []string{u.Profile.DisplayName, u.Profile.RealName, u.RealName, u.Name} {
		if name = tidyName(name); name != "" {
			return name
		}
	}
	return u.ID
}

// tidyName makes one short line of a name.
func tidyName(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && r != '\u200d' { // joins emoji
			return ' '
		}
		return r
	}, name)
	return limit(inOneLine(name), nameMost)
}

// membership asks who is in which group. Without the scope for it nobody is in any.
// Slack: https://docs.slack.dev/reference/methods/usergroups.list
func (s *Slack) membership(ctx context.Context) (groups, error) {
	return s.know.groups.get(ctx, "", func(ctx context.Context) (groups, time.Duration, error) {
		g, err := s.askGroups(ctx)
		if code := refusal(err); code != "" {
			s.warnOnce("usergroups "+code, "Slack does not say who is in which user group, so nobody counts as being in one")
			return groups{}, known, nil
		}
		if err != nil {
			if old, ok := s.know.old.peek(""); ok {
				return old, unknown, nil
			}
			return groups{}, 0, err
		}
		s.know.old.put("", g, stale)
		return g, known, nil
	})
}

func (s *Slack) askGroups(ctx context.Context) (groups, error) {
	var list []slackgo.UserGroup
	err := s.call(ctx, looking, "usergroups.list", "", func(ctx context.Context) (err error) {
		list, err = s.api.GetUserGroupsContext(ctx, slackgo.GetUserGroupsOptionIncludeUsers(true))
		return err
	})
	if err != nil {
		return groups{}, err
	}
	g := groups{of: map[string][]string{}, names: map[string]string{}}
	for _, one := range list {
		g.names[one.ID] = tidyName(one.Handle)
		users := one.Users
		if len(users) < one.UserCount || len(users) == 0 { // the list leaves members of large groups out
			err := s.call(ctx, looking, "usergroups.users.list", "", func(ctx context.Context) (err error) {
				users, err = s.api.GetUserGroupMembersContext(ctx, one.ID)
				return err
			})
			if err != nil {
				return groups{}, err
			}
		}
		for _, u := range users {
			g.of[u] = append(g.of[u], one.ID)
		}
	}
	for u := range g.of {
		slices.Sort(g.of[u])
	}
	return g, nil
}

// visible finds out who can read a channel. Where Slack does not say, it is treated as shared with strangers.
func (s *Slack) visible(ctx context.Context, c chat.Channel) chat.Visibility {
	facts, err := s.channel(ctx, c.ID)
	if err != nil {
		s.o.Log.Warn().Err(err).Str("channel", c.ID).Msg("Slack does not say who reads a channel, so it counts as shared")
		if c.Visibility == chat.DM {
			return chat.DM // nobody else can be in there
		}
		return chat.Shared
	}
	return facts.Visibility
}

// channel asks about a channel. Slack: https://docs.slack.dev/reference/methods/conversations.info
func (s *Slack) channel(ctx context.Context, id string) (channelFacts, error) {
	return s.know.channels.get(ctx, id, func(ctx context.Context) (channelFacts, time.Duration, error) {
		var c *slackgo.Channel
		err := s.call(ctx, looking, "conversations.info", "", func(ctx context.Context) (err error) {
			c, err = s.api.GetConversationInfoContext(ctx, &slackgo.GetConversationInfoInput{ChannelID: id})
			return err
		})
		if code := refusal(err); code != "" {
			s.warnOnce("conversations.info "+code, "Slack does not say who reads a channel, so it counts as shared")
			v := chat.Shared
			if direct(id, "") {
				v = chat.DM
			}
			return channelFacts{Visibility: v}, unknown, nil
		}
		if err != nil {
			return channelFacts{}, 0, err
		}
		facts := channelFacts{Name: tidyName(c.Name), Visibility: chat.Shared}
		switch {
		case c.IsIM:
			facts.Visibility = chat.DM
		case c.IsExtShared, c.IsShared, c.IsPendingExtShared, c.IsOrgShared:
		case c.IsPrivate, c.IsMpIM, c.IsGroup:
			facts.Visibility = chat.Private
		case c.IsChannel:
			facts.Visibility = chat.Public
		}
		return facts, known, nil
	})
}

// token is one <…> of Slack's notation.
var token = regexp.MustCompile(`<([@#!][^<>\s][^<>]*|(?:https?|mailto|tel|slack):[^<>]*)>`)

// plain turns Slack's notation into what people read: names for ids, links with their addresses, and the characters that
// were escaped. Where it must not ask Slack, it uses the names that it has.
func (s *Slack) plain(ctx context.Context, text string, ask bool) string {
	var b strings.Builder
	at := 0
	for _, m := range token.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(unescaper.Replace(text[at:m[0]]))
		b.WriteString(s.name(ctx, text[m[2]:m[3]], ask))
		at = m[1]
	}
	b.WriteString(unescaper.Replace(text[at:]))
	return b.String()
}

// name gives what stands for a token.
func (s *Slack) name(ctx context.Context, token string, ask bool) string {
	what, shown, _ := strings.Cut(token, "|")
	shown = unescaper.Replace(shown)
	switch {
	case strings.HasPrefix(what, "@"):
		return "@" + s.userName(ctx, what[1:], shown, ask)
	case strings.HasPrefix(what, "#"):
		if shown == "" {
			shown = s.channelName(ctx, what[1:], ask)
		}
		return "#" + shown
	case strings.HasPrefix(what, "!subteam^"):
		if shown == "" {
			shown = s.groupName(ctx, what[len("!subteam^"):], ask)
		}
		return "@" + strings.TrimPrefix(shown, "@")
	case strings.HasPrefix(what, "!date^"):
		return shown
	case strings.HasPrefix(what, "!"):
		if shown != "" {
			return shown
		}
		word, _, _ := strings.Cut(what[1:], "^")
		return "@" + word
	}
	address := unescaper.Replace(what)
	bare := strings.TrimPrefix(strings.TrimPrefix(address, "mailto:"), "tel:")
	if shown == "" || shown == address || shown == bare {
		return bare
	}
	return shown + " (" + bare + ")"
}

func (s *Slack) userName(ctx context.Context, id, shown string, ask bool) string {
	if id == s.me.User {
		return s.me.Name
	}
	u, ok := s.know.users.peek(id)
	if !ok && ask && idForm.MatchString(id) {
		u, _ = s.user(ctx, id) // where Slack does not answer the id must do
	}
	switch {
	case u.Name != "":
		return u.Name
	case shown != "":
		return shown
	}
	return id
}

func (s *Slack) channelName(ctx context.Context, id string, ask bool) string {
	c, ok := s.know.channels.peek(id)
	if !ok && ask && idForm.MatchString(id) {
		c, _ = s.channel(ctx, id)
	}
	if c.Name != "" {
		return c.Name
	}
	return id
}

func (s *Slack) groupName(ctx context.Context, id string, ask bool) string {
	g, ok := s.know.groups.peek("")
	if !ok && ask {
		g, _ = s.membership(ctx)
	}
	if g.names[id] != "" {
		return g.names[id]
	}
	return id
}

// speaker gives the name of whoever said something.
func (s *Slack) speaker(ctx context.Context, m *utterance, ask bool) string {
	switch {
	case s.own(m):
		return s.me.Name
	case m.BotProfile != nil && tidyName(m.BotProfile.Name) != "":
		return tidyName(m.BotProfile.Name)
	case tidyName(m.Username) != "":
		return tidyName(m.Username)
	case m.User != "":
		return s.userName(ctx, m.User, "", ask)
	}
	return m.BotID
}

// past fetches what was said in the thread before a message: its first message and the newest. It does without what Slack
// does not give.
func (s *Slack) past(ctx context.Context, m chat.Message) (past []chat.Said, left int) {
	ctx, cancel := context.WithTimeout(ctx, pastTime)
	defer cancel()
	all, err := s.fetch(ctx, m)
	if err != nil {
		s.o.Log.Warn().Err(err).Str("channel", m.Channel.ID).Int("found", len(all)).
			Msg("not all that was said in the thread could be read")
	}
	all = slices.DeleteFunc(all, func(u utterance) bool {
		switch u.Subtype {
		case "", "file_share", "thread_broadcast", "me_message", "bot_message":
		default:
			return true // joins and the like
		}
		// Of the bot's own posts only its replies count; status lines and half-written drafts are no answers.
		return u.TS == "" || !older(u.TS, m.ID) || s.own(&u) && (u.Metadata == nil || u.Metadata.EventType != metadataType)
	})
	slices.SortFunc(all, func(a, b utterance) int { return byTime(a.TS, b.TS) })
	all = slices.CompactFunc(all, func(a, b utterance) bool { return a.TS == b.TS })
	if most := pastMost + 1; len(all) > most {
		left = len(all) - most
		all = append(all[:1:1], all[len(all)-pastMost:]...)
	}
	for i := range all {
		u := &all[i]
		text := s.whole(ctx, u, true)
		if text == "" {
			continue
		}
		past = append(past, chat.Said{ID: u.TS, By: s.speaker(ctx, u, true), Bot: s.own(u), Text: text, At: when(u.TS)})
	}
	return past, left
}

// whole gives what a message says beside the bot, and what came with it.
func (s *Slack) whole(ctx context.Context, u *utterance, ask bool) string {
	parts := []string{s.plain(ctx, u.words(), ask)}
	for _, f := range u.Files {
		parts = append(parts, "[file: "+tidyName(f.Name)+"]")
	}
	return strings.TrimSpace(strings.Join(parts, "\n"))
}

// fetch reads the thread, or of a direct message without threads the newest messages, page by page. What it has it gives
// also with an error. Slack: https://docs.slack.dev/reference/methods/conversations.history
func (s *Slack) fetch(ctx context.Context, m chat.Message) ([]utterance, error) {
	var all []utterance
	cursor := ""
	for range pastPages {
		var page []slackgo.Message
		next := ""
		method := "conversations.replies"
		if m.Thread.Root == plainDM {
			method = "conversations.history"
		}
		err := s.call(ctx, looking, method, "", func(ctx context.Context) (err error) {
			if m.Thread.Root != plainDM {
				page, _, next, err = s.api.GetConversationRepliesContext(ctx, &slackgo.GetConversationRepliesParameters{
					ChannelID: m.Channel.ID, Timestamp: m.Thread.Root, Cursor: cursor, Latest: m.ID, Limit: pastPage,
					IncludeAllMetadata: true,
				})
				return err
			}
			r, err := s.api.GetConversationHistoryContext(ctx, &slackgo.GetConversationHistoryParameters{
				ChannelID: m.Channel.ID, Latest: m.ID, Limit: pastMost + 1, IncludeAllMetadata: true,
			})
			if err == nil {
				page = r.Messages // newest first, and one page is enough
			}
			return err
		})
		if err != nil {
			return all, err
		}
		for i := range page {
			u, err := utteranceOf(&page[i])
			if err != nil {
				s.odd("unreadable message of a thread")
				continue
			}
			all = append(all, u)
		}
		if cursor = next; cursor == "" {
			return all, nil
		}
	}
	return all, errors.New("the thread is too long to be read whole")
}

// utteranceOf brings a message that the library decoded into the form that events have, so that there is one reading of
// both.
func utteranceOf(m *slackgo.Message) (u utterance, err error) {
	raw, err := json.Marshal(m)
	if err == nil {
		err = json.Unmarshal(raw, &u)
	}
	return u, err
}

// older says whether a message stands before another one.
func older(ts, than string) bool { return byTime(ts, than) < 0 }

// byTime compares two ts of one channel. They are strings of digits: as numbers they would lose their last ones.
func byTime(a, b string) int {
	secA, fracA, _ := strings.Cut(a, ".")
	secB, fracB, _ := strings.Cut(b, ".")
	if len(secA) != len(secB) {
		return len(secA) - len(secB)
	}
	if c := strings.Compare(secA, secB); c != 0 {
		return c
	}
	return strings.Compare(fracA, fracB)
}

// refusal gives Slack's word for a call that it refuses and will go on to refuse, "" for anything else.
func refusal(err error) string {
	refused, ok := errors.AsType[slackgo.SlackErrorResponse](err)
	if !ok {
		return ""
	}
	switch refused.Err {
	case "ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org":
		return "" // these pass
	}
	return refused.Err
}

// warnOnce says something that an admin should know, and not again.
func (s *Slack) warnOnce(what, sentence string) {
	if _, said := s.know.once.LoadOrStore(what, true); !said {
		s.o.Log.Warn().Str("cause", what).Msg(sentence)
	}
}
