package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"switchboard/chat"

	"go.yaml.in/yaml/v3"
)

func (l *loader) readPlayground(d *source, n *yaml.Node) {
	g, _ := d.keysOf(n, l.playgroundTable())
	l.residents.broken = l.residents.broken || !g.good("people")
	l.rooms.broken = l.rooms.broken || !g.good("channels")
}

// lostPlayground notes that nothing is known of who is in the workspace.
func (l *loader) lostPlayground() { l.residents.broken, l.rooms.broken = true, true }

func (l *loader) playgroundTable() *table {
	p := &l.pack.Playground
	resident := entries("people by id", residentTable(&Resident{}), l.readResident)
	room := entries("channels by id", l.roomTable(&Room{}), l.readRoom)
	return &table{
		what:  "playground.yaml",
		about: "Who is in the simulated workspace. Rehearsals speak as its people and in its channels. Without the file the workspace holds the ids that the pack names.",
		keys: []key{
			{"people", filled(resident, func() bool { return len(p.People) > 0 }, "add a person: U0ANA: {name: Ana}"), required, "The people, by id.", "{U0ANA: {name: Ana}}"},
			{"channels", filled(room, func() bool { return len(p.Channels) > 0 }, "add a channel: C0FRONT: {name: front-desk}"), required, "The channels, by id. Direct messages are not named: everybody has one with the bot.", "{C0FRONT: {name: front-desk}}"},
		},
	}
}

// filled is a value that must not be empty.
func filled(v value, some func() bool, mend string) value {
	read := v.read
	v.read = func(d *source, n *yaml.Node) bool {
		if !read(d, n) {
			return false
		}
		return some() || d.bad(n, "there is nothing in it", mend)
	}
	return v
}

func (l *loader) readResident(d *source, k, v *yaml.Node) bool {
	r := &Resident{ID: k.Value, Kind: chat.Member}
	ok := d.fits(k, k.Value, personID())
	_, good := d.keysOf(v, residentTable(r))
	l.residents.define(k.Value, d.at(k))
	l.pack.Playground.People = append(l.pack.Playground.People, *r)
	return ok && good
}

func residentTable(r *Resident) *table {
	return &table{what: "a person of the playground", about: "Somebody whom one can be in the simulated workspace.", keys: []key{
		{"name", text(&r.Name, 80), required, "What others read.", "Ana"},
		{"kind", choice(&r.Kind, []chat.Kind{chat.Member, chat.Guest, chat.External}, nil), "member", "How far the person belongs to the workspace; external is somebody of another organisation.", "guest"},
		{"groups", texts(&r.Groups, "list of ids of groups", 1, 100, func(d *source, n *yaml.Node, s string) bool { return d.fits(n, s, groupID()) }), "none", "Groups that the person is in, as `people` in bot.yaml names them.", "[S0FIN]"},
	}}
}

func (l *loader) readRoom(d *source, k, v *yaml.Node) bool {
	r := &Room{ID: k.Value, Visibility: chat.Public}
	ok := d.fits(k, k.Value, roomID())
	g, good := d.keysOf(v, l.roomTable(r))
	for _, other := range l.pack.Playground.Channels {
		if g.good("name") && other.Name == r.Name {
			good = d.bad(g.nodes["name"], fmt.Sprintf("%s is called %q too", other.ID, r.Name), "rename one of them")
		}
	}
	l.rooms.define(k.Value, d.at(k))
	l.pack.Playground.Channels = append(l.pack.Playground.Channels, *r)
	return ok && good
}

func (l *loader) roomTable(r *Room) *table {
	member := func(d *source, n *yaml.Node, s string) bool {
		if !d.fits(n, s, personID()) {
			return false
		}
		l.residents.use(s, d.at(n))
		return true
	}
	return &table{what: "a channel of the playground", about: "A place where people talk in the simulated workspace.", keys: []key{
		{"name", shaped(&r.Name, roomName()), required, "What people call it, without #.", "front-desk"},
		{"kind", choice(&r.Visibility, []chat.Visibility{chat.Public, chat.Private, chat.Shared}, nil), "public", "Who can read it; in a shared one people of other organisations read along.", "private"},
		{"members", texts(&r.Members, "list of ids of people", 1, 1_000, member), "all members, no guests", "Who is in it, of `people` above.", "[U0ANA]"},
	}}
}

// resident is the id of a person who speaks in a rehearsal.
func (l *loader) resident(p *string) value {
	return used(shaped(p, personID()), func(d *source, n *yaml.Node) { l.residents.use(*p, d.at(n)) })
}

// room is the id of a channel in which a rehearsal takes place. Nobody lists direct messages.
func (l *loader) room(p *string) value {
	return used(shaped(p, channelID()), func(d *source, n *yaml.Node) {
		if !strings.HasPrefix(*p, "D") {
			l.rooms.use(*p, d.at(n))
		}
	})
}

// used takes note of a value that could be read.
func used(v value, note func(d *source, n *yaml.Node)) value {
	read := v.read
	v.read = func(d *source, n *yaml.Node) bool {
		ok := read(d, n)
		if ok {
			note(d, n)
		}
		return ok
	}
	return v
}

// The ids of those who are in a workspace where the pack names nobody, or no channel.
const (
	anybody = "U0YOU"
	anyroom = "C0GENERAL"
)

// populate fills the playground of a pack that has no playground.yaml with the ids that the pack names, by id.
func (p *Pack) populate() {
	if len(p.Playground.People) > 0 {
		return
	}
	people, rooms := map[string]bool{}, map[string]bool{}
	name := func(id string) {
		switch {
		case personForm.MatchString(id):
			people[id] = true
		case roomForm.MatchString(id):
			rooms[id] = true
		}
	}
	for _, v := range p.Scope {
		for id := range v.Map {
			name(id)
		}
	}
	for _, g := range p.People {
		for _, id := range g.Members {
			name(id)
		}
	}
	for id := range p.Slack.Channels {
		name(id)
	}
	approvals := []Approve{p.Policy.Approve}
	for _, r := range p.Policy.Rules {
		if r.Approve != nil {
			approvals = append(approvals, *r.Approve)
		}
	}
	for _, a := range approvals {
		name(a.In)
		for _, id := range a.By {
			name(id)
		}
	}
	for _, r := range p.Rehearsals {
		name(r.As)
		name(r.In)
		for _, id := range clicksOf(r) {
			name(id)
		}
	}
	if len(people) == 0 {
		people[anybody] = true
	}
	if len(rooms) == 0 {
		rooms[anyroom] = true
	}
	for id := range people {
		p.Playground.People = append(p.Playground.People, Resident{ID: id, Name: callName(id), Kind: chat.Member})
	}
	for id := range rooms {
		p.Playground.Channels = append(p.Playground.Channels, Room{ID: id, Name: callName(id), Visibility: chat.Public})
	}
	slices.SortFunc(p.Playground.People, func(a, b Resident) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(p.Playground.Channels, func(a, b Room) int { return cmp.Compare(a.ID, b.ID) })
}

// callName makes a name of an id: without its letter, and a 0 after it, in small letters.
func callName(id string) string { return strings.ToLower(strings.TrimPrefix(id[1:], "0")) }
