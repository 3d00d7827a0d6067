package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// errAbsent is wrapped where somebody or something is named that the workspace does not have.
var errAbsent = errors.New("there is no such thing in the workspace")

// channel is a Channel with what was said in it.
type channel struct {
	Channel
	messages []*Message // everything that is there, in the order of ts
	byTS     map[string]*Message
	threads  map[string][]*Message // replies by the ts of their first message
	streams  map[string]*stream    // by ts; kept after their end, to say why there is no going on
}

// AddPerson adds a person, or replaces the one with the same id. It gives the person with what was made up.
func (w *Workspace) AddPerson(p Person) Person {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *w.addPerson(p)
}

func (w *Workspace) addPerson(p Person) *Person {
	if p.ID == "" {
		p.ID = w.id("U")
	}
	if p.Kind == "" {
		p.Kind = Member
	}
	if p.Team == "" {
		p.Team = w.o.Team
		if p.Kind == External || p.Kind == Stranger {
			p.Team = "T0ELSEWHERE"
		}
	}
	if p.Kind == Bot && p.Bot == "" {
		p.Bot = "B" + strings.TrimLeft(p.ID, "UW")
	}
	w.people[p.ID] = &p
	w.note(Entry{What: Changed, Method: "person", Person: p.ID, Body: mustJSON(p)})
	return &p
}

// AddChannel adds a channel, or changes the name, the kind and the members of the one with the same id. nil members are all
// members of the workspace, without guests and bots.
func (w *Workspace) AddChannel(c Channel) Channel {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.Kind == "" {
		c.Kind = Public
	}
	if c.ID == "" {
		c.ID = w.id(map[ChannelKind]string{IM: "D"}[c.Kind] + map[bool]string{true: "C"}[c.Kind != IM])
	}
	if c.Members == nil {
		for _, p := range w.people {
			if p.Kind == Member {
				c.Members = append(c.Members, p.ID)
			}
		}
		slices.Sort(c.Members)
	}
	return w.addChannel(c).copy()
}

func (w *Workspace) addChannel(c Channel) *channel {
	c.Members = slices.Clone(c.Members)
	at := w.channels[c.ID]
	if at == nil {
		at = &channel{
			byTS: map[string]*Message{}, threads: map[string][]*Message{}, streams: map[string]*stream{},
		}
		w.channels[c.ID] = at
	}
	at.Channel = c
	w.note(Entry{What: Changed, Method: "channel", Channel: c.ID, Body: mustJSON(c)})
	return at
}

func (c *channel) copy() Channel {
	out := c.Channel
	out.Members = slices.Clone(out.Members)
	return out
}

func (c *channel) has(user string) bool { return slices.Contains(c.Members, user) }

// private says whether only members may know of the channel.
func (c *channel) private() bool { return c.Kind == Private || c.Kind == IM || c.Kind == MPIM }

// AddGroup adds a user group, or replaces the one with the same id.
func (w *Workspace) AddGroup(g Group) Group {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g.ID == "" {
		g.ID = w.id("S")
	}
	g.Members = slices.Clone(g.Members)
	w.groups[g.ID] = &g
	w.note(Entry{What: Changed, Method: "group", Body: mustJSON(g)})
	return g
}

// AddApp installs an app and its bot, or changes the one with the same id. It gives the app with what was made up.
func (w *Workspace) AddApp(a App) App {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.ID == "" {
		a.ID = w.id("A")
	}
	rest := strings.TrimPrefix(a.ID, "A")
	def := func(s *string, to string) {
		if *s == "" {
			*s = to
		}
	}
	def(&a.Name, "Switchboard")
	def(&a.User, "U"+rest)
	def(&a.Bot, "B"+rest)
	if a.BotToken == "" {
		a.BotToken = "xoxb-" + w.secret()
	}
	if a.AppToken == "" && a.EventsURL == "" {
		a.AppToken = "xapp-1-" + a.ID + "-" + w.secret()
	}
	if a.Scopes == nil {
		a.Scopes = DefaultScopes()
	}
	at := w.apps[a.ID]
	if at == nil {
		at = &app{tickets: map[string]bool{}, pending: map[string][]*delivery{}}
		w.apps[a.ID] = at
		w.order = append(w.order, a.ID)
	}
	at.App = a
	w.addPerson(Person{ID: a.User, Name: a.Name, Kind: Bot, App: a.ID, Bot: a.Bot})
	return a
}

// find gives a channel, or an error that names it.
func (w *Workspace) find(id string) (*channel, error) {
	c := w.channels[id]
	if c == nil {
		return nil, fmt.Errorf("find channel %q: %w", id, errAbsent)
	}
	return c, nil
}

// person gives somebody, or an error that names them.
func (w *Workspace) person(id string) (*Person, error) {
	p := w.people[id]
	if p == nil {
		return nil, fmt.Errorf("find person %q: %w", id, errAbsent)
	}
	return p, nil
}

// app gives an app; "" is the one that was added first.
func (w *Workspace) app(id string) (*app, error) {
	if id == "" && len(w.order) > 0 {
		id = w.order[0]
	}
	a := w.apps[id]
	if a == nil {
		return nil, fmt.Errorf("find app %q: %w", id, errAbsent)
	}
	return a, nil
}

// each gives the apps in order; with an id only that one.
func (w *Workspace) each(id string) []*app {
	var out []*app
	for _, o := range w.order {
		if id == "" || id == o {
			out = append(out, w.apps[o])
		}
	}
	return out
}

// Join brings a person or an app's bot into a channel. Apps there get a channel_join message and member_joined_channel, the
// new bot included.
func (w *Workspace) Join(ch, user string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, err := w.find(ch)
	if err != nil {
		return err
	}
	p, err := w.person(user)
	if err != nil {
		return err
	}
	w.join(c, p)
	return nil
}

func (w *Workspace) join(c *channel, p *Person) {
	if c.has(p.ID) {
		return
	}
	c.Members = append(c.Members, p.ID)
	w.note(Entry{What: Joined, Channel: c.ID, Person: p.ID})
	w.tell(c, "member_joined_channel", map[string]any{
		"type": "member_joined_channel", "user": p.ID, "channel": c.ID, "channel_type": letter(c.Kind), "team": w.o.Team,
	})
	m := &Message{Channel: c.ID, TS: w.ts(), User: p.ID, Subtype: "channel_join", Text: "<@" + p.ID + "> has joined the channel"}
	w.put(c, m)
	w.noteMessage(Said, m, Entry{})
	w.messageEvents(c, m)
}

// letter is how Slack names a channel's kind in member_joined_channel.
func letter(k ChannelKind) string {
	if k == Private || k == MPIM {
		return "G"
	}
	return "C"
}

// Leave takes a person or a bot out of a channel.
func (w *Workspace) Leave(ch, user string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, err := w.find(ch)
	if err != nil {
		return err
	}
	if i := slices.Index(c.Members, user); i >= 0 {
		c.Members = slices.Delete(c.Members, i, i+1)
		w.note(Entry{What: Left, Channel: ch, Person: user})
		w.tell(c, "member_left_channel", map[string]any{
			"type": "member_left_channel", "user": user, "channel": c.ID, "channel_type": letter(c.Kind), "team": w.o.Team,
		})
	}
	return nil
}

// Archive closes a channel; nothing can be posted there any more.
func (w *Workspace) Archive(ch string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, err := w.find(ch)
	if err != nil {
		return err
	}
	c.Archived = true
	w.note(Entry{What: Changed, Method: "archive", Channel: ch})
	w.tell(c, "channel_archive", map[string]any{"type": "channel_archive", "channel": ch})
	return nil
}

// OpenIM gives the id of the DM between a person and an app's bot ("" is the first app), and opens it when there is none.
func (w *Workspace) OpenIM(person, appID string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, err := w.person(person)
	if err != nil {
		return "", err
	}
	a, err := w.app(appID)
	if err != nil {
		return "", err
	}
	return w.im(p, a).ID, nil
}

// im finds or makes the DM. Its id follows from who is in it, so that it is the same in every run.
func (w *Workspace) im(p *Person, a *app) *channel {
	id := "D" + strings.TrimLeft(p.ID, "UW") + strings.TrimPrefix(a.ID, "A")
	if c := w.channels[id]; c != nil {
		return c
	}
	return w.addChannel(Channel{ID: id, Kind: IM, Members: []string{p.ID, a.User}, App: a.ID})
}
