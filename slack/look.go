package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

	groupTime = 10 * time.Second // for the members of the groups that the list does not give whole

	fresh   = time.Minute             // that what Slack says of somebody is good for a decision
	freshBy = 1500 * time.Millisecond // for asking Slack: the click has to be acknowledged within 3 s
)

// somebody is what is known of a user.
type somebody struct {
	Name string
	Kind chat.Kind
}

// channelFacts tells of a channel.
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
	members  cache[[]string]        // group -> users, of groups that the list of groups does not give whole
	old      cache[groups]          // the last groups that Slack told, for when it does not answer
	clicks   cache[bool]            // choices that were just made
	rulings  cache[chat.Ruling]     // what was said to decisions, by their keys
	lately   cache[somebody]        // users, as decisions need them: never old
	grouped  cache[groups]          // and so their groups
	commands cache[json.RawMessage] // how commands that were just given were answered, by their triggers
	once     sync.Map               // warnings that were given
}

func (k *knowledge) begin(now func() time.Time) {
	k.users.now, k.channels.now, k.groups.now, k.members.now, k.old.now = now, now, now, now, now
	k.clicks.now, k.commands.now, k.rulings.now, k.lately.now, k.grouped.now = now, now, now, now, now
}

// Look completes a message: who said it and who reads along, names for ids, what its files say; with past, also what was
// said in the thread before. An error means that Slack could not be asked just now, so that it is worth to try again:
// what a person may do must not depend on that. Where Slack's limits are in the way, Look waits for as long as ctx lasts.
func (s *Slack) Look(ctx context.Context, m chat.Message, past bool) (turn.Seen, error) {
	from, err := s.person(ctx, m.From.ID, true)
	if err != nil {
		return turn.Seen{}, fmt.Errorf("find out who %s is: %w", m.From.ID, err)
	}
	m.From = from
	m.Channel.Visibility = s.visible(ctx, m.Channel)
	m.Text = s.named(ctx, m.Text)
	m.Files = s.readFiles(ctx, m.Files)
	seen := turn.Seen{Message: m}
	if past {
		seen.Past, seen.Left = s.past(ctx, m)
	}
	return seen, nil
}

// learn makes a look-up. Who is patient waits for Slack's limits as long as ctx lasts: a limit is no fault of Slack's, and
// trying again later would only find it again.
func (s *Slack) learn(ctx context.Context, method string, patient bool, do func(context.Context) error) error {
	err := s.call(ctx, looking, method, "", do)
	if patient && errors.Is(err, errBusy) {
		err = s.call(ctx, saying, method, "", do)
	}
	return err
}

// person finds out who somebody is and what groups they are in.
func (s *Slack) person(ctx context.Context, id string, patient bool) (chat.Person, error) {
	u, err := s.user(ctx, id, patient)
	if err != nil {
		return chat.Person{}, err
	}
	g, err := s.membership(ctx, patient)
	if err != nil {
		return chat.Person{}, err
	}
	return chat.Person{ID: id, Name: u.Name, Kind: u.Kind, Groups: slices.Clone(g.of[id])}, nil
}

// user asks who somebody is. Slack: https://docs.slack.dev/reference/methods/users.info
func (s *Slack) user(ctx context.Context, id string, patient bool) (somebody, error) {
	return s.know.users.get(ctx, id, func(ctx context.Context) (somebody, time.Duration, error) {
		return s.askUser(ctx, id, patient)
	})
}

func (s *Slack) askUser(ctx context.Context, id string, patient bool) (somebody, time.Duration, error) {
	var u *slackgo.User
	err := s.learn(ctx, "users.info", patient, func(ctx context.Context) (err error) {
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
}

// decider finds out who makes a decision, by what Slack says now or has said within the last minute. Nothing older counts,
// nor what it says only in part: an error means that the decision cannot be taken.
func (s *Slack) decider(ctx context.Context, id string) (chat.Person, error) {
	ctx, cancel := context.WithTimeout(ctx, freshBy)
	defer cancel()
	u, err := s.know.lately.get(ctx, id, func(ctx context.Context) (somebody, time.Duration, error) {
		u, keep, err := s.askUser(ctx, id, false)
		return u, min(keep, fresh), err
	})
	if err != nil {
		return chat.Person{}, fmt.Errorf("find out who %s is: %w", id, err)
	}
	g, err := s.know.grouped.get(ctx, "", func(ctx context.Context) (groups, time.Duration, error) {
		g, whole, err := s.askGroups(ctx, false, true)
		switch {
		case refusal(err) != "":
			return groups{}, fresh, nil // as for messages: without the scope nobody is in any group
		case err == nil && !whole:
			err = errors.New("Slack does not tell all members of the user groups")
		}
		return g, fresh, err
	})
	if err != nil {
		return chat.Person{}, fmt.Errorf("find out what groups %s is in: %w", id, err)
	}
	return chat.Person{ID: id, Name: u.Name, Kind: u.Kind, Groups: slices.Clone(g.of[id])}, nil
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
	return oneLine(name, nameMost)
}

// membership asks who is in which group. Without the scope for it nobody is in any.
// Slack: https://docs.slack.dev/reference/methods/usergroups.list
func (s *Slack) membership(ctx context.Context, patient bool) (groups, error) {
	return s.know.groups.get(ctx, "", func(ctx context.Context) (groups, time.Duration, error) {
		g, whole, err := s.askGroups(ctx, patient, false)
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
		if !whole {
			return g, unknown, nil
		}
		return g, known, nil
	})
}

// askGroups asks for the groups and who is in them. A group of which Slack does not tell the members just now costs nobody
// but those members: it stands with those that are known, and it is not whole then. With now nothing is taken from what was
// said before.
func (s *Slack) askGroups(ctx context.Context, patient, now bool) (g groups, whole bool, err error) {
	var list []slackgo.UserGroup
	err = s.learn(ctx, "usergroups.list", patient, func(ctx context.Context) (err error) {
		list, err = s.api.GetUserGroupsContext(ctx, slackgo.GetUserGroupsOptionIncludeUsers(true), slackgo.GetUserGroupsOptionIncludeCount(true))
		return err
	})
	if err != nil {
		return groups{}, false, err
	}
	soon, cancel := context.WithTimeout(ctx, groupTime)
	defer cancel()
	whole = true
	g = groups{of: map[string][]string{}, names: map[string]string{}}
	for _, one := range list {
		g.names[one.ID] = tidyName(one.Handle)
		users := one.Users
		if len(users) < one.UserCount { // the list leaves members of large groups out
			ask := s.membersOf
			if now {
				ask = s.askMembers
			}
			all, err := ask(soon, one.ID)
			switch {
			case err == nil:
				users = all
			case ctx.Err() != nil:
				return groups{}, false, context.Cause(ctx)
			case now:
				whole = whole && refusal(err) != ""
			default:
				whole = whole && refusal(err) != ""
				users = append(s.lastKnown(one.ID), users...)
				s.o.Log.Warn().Err(err).Str("group", one.ID).Msg("Slack does not tell all members of a user group, so some of them do not count as being in it")
			}
		}
		for _, u := range users {
			if !slices.Contains(g.of[u], one.ID) {
				g.of[u] = append(g.of[u], one.ID)
			}
		}
	}
	for u := range g.of {
		slices.Sort(g.of[u])
	}
	return g, whole, nil
}

// membersOf tells who is in a group.
func (s *Slack) membersOf(ctx context.Context, group string) ([]string, error) {
	return s.know.members.get(ctx, group, func(ctx context.Context) ([]string, time.Duration, error) {
		users, err := s.askMembers(ctx, group)
		return users, known, err
	})
}

// askMembers asks who is in a group. Slack: https://docs.slack.dev/reference/methods/usergroups.users.list
func (s *Slack) askMembers(ctx context.Context, group string) (users []string, err error) {
	err = s.call(ctx, looking, "usergroups.users.list", "", func(ctx context.Context) (err error) {
		users, err = s.api.GetUserGroupMembersContext(ctx, group)
		return err
	})
	return users, err
}

// lastKnown gives who was in a group when Slack last told.
func (s *Slack) lastKnown(group string) (users []string) {
	old, _ := s.know.old.peek("")
	for u, in := range old.of {
		if slices.Contains(in, group) {
			users = append(users, u)
		}
	}
	return users
}

// visible finds out who can read a channel. Where Slack does not say, it is treated as shared with strangers.
func (s *Slack) visible(ctx context.Context, c chat.Channel) chat.Visibility {
	facts, err := s.channel(ctx, c.ID, true)
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
func (s *Slack) channel(ctx context.Context, id string, patient bool) (channelFacts, error) {
	return s.know.channels.get(ctx, id, func(ctx context.Context) (channelFacts, time.Duration, error) {
		var c *slackgo.Channel
		err := s.learn(ctx, "conversations.info", patient, func(ctx context.Context) (err error) {
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
		return u.TS == "" || compareTS(u.TS, m.ID) >= 0 || s.own(&u) && (u.Metadata == nil || u.Metadata.EventType != metadataType)
	})
	slices.SortFunc(all, func(a, b utterance) int { return compareTS(a.TS, b.TS) })
	all = slices.CompactFunc(all, func(a, b utterance) bool { return a.TS == b.TS })
	if most := pastMost + 1; len(all) > most {
		left = len(all) - most
		all = append(all[:1:1], all[len(all)-pastMost:]...)
	}
	ask := &quota{namesPast}
	for i := range all {
		u := &all[i]
		text := s.whole(ctx, u, ask)
		if text == "" {
			continue
		}
		past = append(past, chat.Said{ID: u.TS, By: s.speaker(ctx, u, ask), Bot: s.own(u), Text: text, At: when(u.TS)})
	}
	return past, left
}

// whole gives what a message says beside the bot, and what came with it.
func (s *Slack) whole(ctx context.Context, u *utterance, ask *quota) string {
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

// warnOnce says something that an admin should know, and not again.
func (s *Slack) warnOnce(what, sentence string) {
	if _, said := s.know.once.LoadOrStore(what, true); !said {
		s.o.Log.Warn().Str("cause", what).Msg(sentence)
	}
}
