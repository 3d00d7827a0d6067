package backoffice

import (
	"context"
	"strings"
)

// The doors of members. Each takes the member's number beside the organisation, and gives nothing of anybody else; who the
// member is, the client must know from /accounts.

// findAccount says which member an account of the chat belongs to. Who has left has none any more.
func findAccount(ctx context.Context, c *call) (any, error) {
	m, err := one(ctx, c, missing("no member has this account"), (*member).dest, memberColumns+`WHERE org = ? AND left_on = ''
		AND member IN (SELECT member FROM accounts WHERE org = ? AND account = ?)`, c.org, c.org, c.path["account"])
	return map[string]any{"id": m.Member, "name": m.Name, "level": m.Level}, err
}

// present refuses whoever is no member now.
func present(ctx context.Context, c *call, id string) error {
	known, err := exists(ctx, c, `SELECT count(*) FROM members WHERE org = ? AND member = ? AND left_on = ''`, c.org, id)
	if err == nil && !known {
		err = missing("there is no such member")
	}
	return err
}

// myBookings gives a member's bookings from a day on, the next one first; 50 at most.
func myBookings(ctx context.Context, c *call) (any, error) {
	from := c.query["from"]
	if _, err := day("from", from); err != nil {
		return nil, err
	}
	if err := present(ctx, c, c.query["member"]); err != nil {
		return nil, err
	}
	all, err := rows(ctx, c, (*booking).dest, bookingColumns+`WHERE b.org = ? AND b.member = ? AND b.day >= ? AND b.status = 'booked'
		ORDER BY b.day, b.start LIMIT 50`, c.org, c.query["member"], from)
	for i := range all {
		all[i].fill()
	}
	return list[booking]{all}, err
}

func myFree(ctx context.Context, c *call) (any, error) {
	if err := present(ctx, c, c.query["member"]); err != nil {
		return nil, err
	}
	return freeSlots(ctx, c)
}

// myBooking books for the member whose number the client gives, and checks as for everybody.
func myBooking(ctx context.Context, c *call) (any, error) { return createBooking(ctx, c) }

// cancelMine cancels a booking of the member's own. One of somebody else is not there.
func cancelMine(ctx context.Context, c *call) (any, error) {
	b, err := findBooking(ctx, c)
	if err == nil && b.Member != c.query["member"] {
		err = missing("there is no booking %q", c.path["booking"])
	}
	if err != nil {
		return nil, err
	}
	return cancelBooking(ctx, c)
}

type closedArea struct {
	Area   string `json:"area"`
	Reason string `json:"reason"`
}

func (a *closedArea) dest() []any { return []any{&a.Area, &a.Reason} }

// clubHours gives the opening hours of one day, and what is closed on it.
func clubHours(ctx context.Context, c *call) (any, error) {
	t, err := day("day", c.query["day"])
	if err != nil {
		return nil, err
	}
	h, err := hoursOn(ctx, c, weekday(t), c.query["day"])
	if err != nil {
		return nil, err
	}
	closed, err := rows(ctx, c, (*closedArea).dest, `SELECT area, reason FROM closed_days WHERE org = ? AND day = ? ORDER BY area`, c.org, c.query["day"])
	return map[string]any{"day": c.query["day"], "weekday": h.Weekday, "opens": h.Opens, "closes": h.Closes, "closed": closed}, err
}

type class struct {
	Class   string `json:"class"`
	Name    string `json:"name"`
	Weekday string `json:"weekday"`
	Start   string `json:"start"`
	End     string `json:"end"`
	Coach   string `json:"coach"`
	Free    int    `json:"free_places"`

	from, minutes int
}

func (v *class) dest() []any {
	return []any{&v.Class, &v.Name, &v.Weekday, &v.from, &v.minutes, &v.Coach, &v.Free}
}

// listClasses gives the weekly classes, of all names and weekdays or of some.
func listClasses(ctx context.Context, c *call) (any, error) {
	q, on := c.query["q"], c.query["weekday"]
	if err := between("q", q, 0, 100); err != nil {
		return nil, err
	}
	if on != "" {
		if err := oneOf("weekday", on, weekdays()...); err != nil {
			return nil, err
		}
	}
	all, err := rows(ctx, c, (*class).dest, `SELECT class, name, weekday, start, minutes, coach, places - taken FROM classes
		WHERE org = ? AND name LIKE ? ESCAPE '\' AND (weekday = ? OR ? = '')
		ORDER BY instr('montuewedthufrisatsun', substr(weekday, 1, 3)), start, class`, c.org, like(strings.TrimSpace(q)), on, on)
	for i := range all {
		all[i].Start, all[i].End = clock(all[i].from), clock(all[i].from+all[i].minutes)
	}
	if err == nil && len(all) == 0 {
		err = missing("there is no such class")
	}
	return list[class]{all}, err
}
