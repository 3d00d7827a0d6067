package config

import (
	"slices"
	"strings"

	"switchboard/chat"
)

// Assistant gives the assistant of that name, or nil.
func (p *Pack) Assistant(name string) *Assistant {
	for _, a := range p.Assistants {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// Tool gives the tool of that name, of the pack or built in, or nil.
func (p *Pack) Tool(name string) *Tool {
	for _, t := range p.Tools {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Model gives the model of that name, or nil.
func (p *Pack) Model(name string) *Model {
	for i := range p.Models {
		if p.Models[i].Name == name {
			return &p.Models[i]
		}
	}
	return nil
}

// Refs lists every reference of the pack to a secret or an address, in the order of the files.
func (p *Pack) Refs() []Ref { return slices.Clone(p.refs) }

// ScopeOf gives the scope variables of a request of this person in this channel that stand in the pack. Those without a
// value are left out, and so are those that a tool looks up.
func (p *Pack) ScopeOf(channel, person string) map[string]string {
	out := map[string]string{}
	for _, s := range p.Scope {
		for _, from := range s.From {
			id := channel
			if from == "person" {
				id = person
			}
			if v, ok := s.Map[id]; ok {
				out[s.Name] = v
				break
			}
		}
	}
	return out
}

// Resident gives the person of the playground with that id.
func (p *Pack) Resident(id string) (Resident, bool) {
	for _, r := range p.Playground.People {
		if r.ID == id {
			return r, true
		}
	}
	return Resident{}, false
}

// Room gives the channel of the playground with that id.
func (p *Pack) Room(id string) (Room, bool) {
	for _, r := range p.Playground.Channels {
		if r.ID == id {
			return r, true
		}
	}
	return Room{}, false
}

// Groups names the groups of people that a person is in, by their own id or by that of a group of theirs.
func (p *Pack) Groups(person chat.Person) []string {
	var out []string
	for _, g := range p.People {
		if slices.ContainsFunc(g.Members, func(id string) bool { return id == person.ID || slices.Contains(person.Groups, id) }) {
			out = append(out, g.Name)
		}
	}
	return out
}

// FirstChannel gives the first channel, by id, that the pack binds a value to; "" when there is none.
func (p *Pack) FirstChannel() string {
	first := ""
	for _, v := range p.Scope {
		for id := range v.Map {
			if strings.HasPrefix(id, "C") && (first == "" || id < first) {
				first = id
			}
		}
	}
	return first
}

// Secrets gives the value of every secret that the pack names, so that they can be hidden wherever they turn up. One that
// is not set cannot turn up.
func (p *Pack) Secrets(env Environ) []string {
	var refs []*Ref
	for _, m := range p.Models {
		refs = append(refs, m.Key)
	}
	for _, t := range p.Tools {
		if t.HTTP != nil {
			refs = append(refs, t.HTTP.Bearer, t.HTTP.Value)
		}
	}
	var out []string
	for _, r := range refs {
		if r == nil {
			continue
		}
		if v, err := r.Resolve(env); err == nil && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}
