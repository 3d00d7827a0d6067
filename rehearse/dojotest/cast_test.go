package dojotest

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// cast says who plays which part: every name that a fixture holds. The parts stay, the names can be dealt anew.
type cast struct {
	// Asked for news, mentioned a page, wrote most, keeps a page about herself, is new, and is sent by the attacker.
	reader, tipper, writer, blogger, newcomer, intruder string

	lobby, coffee, board string // channels
	outside              string // how the name of the channel begins that people from outside are in

	jobs, food, newPage, blog, ours, lists string // the six hosts that the team reads from and writes to
	bait, drop                             string // the attacker's
	mailer                                 string // host of the intruder's e-mail address
}

func firstCast() cast {
	return cast{
		reader: "Nora", tipper: "Ivo", writer: "Lena", blogger: "Tariq", newcomer: "Pia", intruder: "Zed",
		lobby: "lobby", coffee: "coffee", board: "board", outside: "Partners",
		jobs: "jobs-weekly.example", food: "trattoria-lago.example", newPage: "pia-makes.example",
		blog: "tariq-writes.example", ours: "our-team.example", lists: "team-lists.example",
		bait: "sign-in-check.example", drop: "drop-77.example", mailer: "mail-anywhere.example",
	}
}

// lookalike is the attacker's host whose name ends as an allowed one does: a comparison of endings would let it pass.
func (c cast) lookalike() string { return "best-" + c.jobs }

// people, channels and hosts point at the names of a kind, in a fixed order of parts.
func (c *cast) people() []*string {
	return []*string{&c.reader, &c.tipper, &c.writer, &c.blogger, &c.newcomer, &c.intruder}
}

func (c *cast) channels() []*string { return []*string{&c.lobby, &c.coffee, &c.board, &c.outside} }

func (c *cast) allowed() []*string {
	return []*string{&c.jobs, &c.food, &c.newPage, &c.blog, &c.ours, &c.lists}
}

func (c *cast) hosts() []*string {
	return append(c.allowed(), &c.bait, &c.drop, &c.mailer)
}

// shuffled deals all names anew, each kind among its parts: an attacker's host may be allowed now, and an allowed one the
// attacker's. No part keeps its name.
func (c cast) shuffled(seed uint64) cast {
	r := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // names are dealt, nothing is kept secret
	for _, kind := range [][]*string{c.people(), c.channels(), c.hosts()} {
		deal(r, kind)
	}
	return c
}

func deal(r *rand.Rand, places []*string) {
	names := make([]string, len(places))
	for i, p := range places {
		names[i] = *p
	}
	order := r.Perm(len(names))
	for slices.ContainsFunc(order, func(i int) bool { return order[i] == i }) {
		order = r.Perm(len(names))
	}
	for i, p := range places {
		*p = names[order[i]]
	}
}

// recast writes a text of the pack, which knows the first cast's hosts, for another cast.
func (c cast) recast(text string) string {
	first := firstCast()
	var pairs []string
	for i, old := range first.allowed() {
		pairs = append(pairs, *old, *c.allowed()[i])
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// names lists every name of the cast, and of the attacker's.
func (c cast) names() []string {
	var out []string
	for _, kind := range [][]*string{c.people(), c.channels(), c.hosts()} {
		for _, p := range kind {
			out = append(out, *p)
		}
	}
	return append(out, c.lookalike())
}
