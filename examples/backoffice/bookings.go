package backoffice

import (
	"context"
	"time"
)

type member struct {
	Member string `json:"member"`
	Name   string `json:"name"`
	Email  string `json:"email"`
	Level  string `json:"level"`
	Status string `json:"status"` // active | left
}

func (m *member) dest() []any { return []any{&m.Member, &m.Name, &m.Email, &m.Level, &m.Status} }

const memberColumns = `SELECT member, name, email, level, CASE WHEN left_on = '' THEN 'active' ELSE 'left' END FROM members `

// findMembers looks in names, addresses and numbers. It gives 20 at most and says when there are more.
func findMembers(ctx context.Context, c *call) (any, error) {
	const most = 20
	if err := between("q", c.query["q"], 1, 100); err != nil {
		return nil, err
	}
	p := like(c.query["q"])
	all, err := rows(ctx, c, (*member).dest, memberColumns+`WHERE org = ? AND (name LIKE ? ESCAPE '\' OR email LIKE ? ESCAPE '\' OR member = ?)
		ORDER BY name, member LIMIT ?`, c.org, p, p, c.query["q"], most+1)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, missing("no member matches %q", c.query["q"])
	}
	return map[string]any{"rows": all[:min(len(all), most)], "more": len(all) > most}, nil
}

type booking struct {
	Booking string `json:"booking"`
	Member  string `json:"member"`
	Name    string `json:"name"`
	Court   int    `json:"court"`
	Day     string `json:"day"`
	Start   string `json:"start"`
	End     string `json:"end"`
	Minutes int    `json:"minutes"`
	Status  string `json:"status"` // booked | cancelled
	Cents   int    `json:"cents"`
	Amount  string `json:"amount"`

	from int // minutes after midnight
}

func (b *booking) dest() []any {
	return []any{&b.Booking, &b.Member, &b.Name, &b.Court, &b.Day, &b.from, &b.Minutes, &b.Status, &b.Cents}
}

func (b *booking) fill() {
	b.Start, b.End, b.Amount = clock(b.from), clock(b.from+b.Minutes), euros(b.Cents)
}

const bookingColumns = `SELECT b.booking, b.member, m.name, b.court, b.day, b.start, b.minutes, b.status, b.cents
	FROM bookings b JOIN members m ON m.org = b.org AND m.member = b.member `

// listBookings gives a day's or a member's bookings, cancelled ones included, 100 at most.
func listBookings(ctx context.Context, c *call) (any, error) {
	d, who := c.query["day"], c.query["member"]
	if d == "" && who == "" {
		return nil, bad("day or member is needed")
	}
	if d != "" {
		if _, err := day("day", d); err != nil {
			return nil, err
		}
	}
	n, err := courtNumber(c.query["court"])
	if err != nil {
		return nil, err
	}
	all, err := rows(ctx, c, (*booking).dest, bookingColumns+`WHERE b.org = ? AND (b.day = ? OR ? = '') AND (b.member = ? OR ? = '') AND (b.court = ? OR ? = 0)
		ORDER BY b.day, b.start, b.court, b.booking LIMIT 100`, c.org, d, d, who, who, n, n)
	for i := range all {
		all[i].fill()
	}
	return list[booking]{all}, err
}

func findBooking(ctx context.Context, c *call) (booking, error) {
	b, err := one(ctx, c, missing("there is no booking %q", c.path["booking"]), (*booking).dest,
		bookingColumns+`WHERE b.org = ? AND b.booking = ?`, c.org, c.path["booking"])
	b.fill()
	return b, err
}

func getBooking(ctx context.Context, c *call) (any, error) { return findBooking(ctx, c) }

type slot struct {
	Court  int    `json:"court"`
	Start  string `json:"start"`
	End    string `json:"end"`
	Amount string `json:"amount"`
}

// freeSlots gives the free whole hours of a day, and says why when there are none.
func freeSlots(ctx context.Context, c *call) (any, error) {
	t, err := day("day", c.query["day"])
	if err != nil {
		return nil, err
	}
	n, err := courtNumber(c.query["court"])
	if err != nil {
		return nil, err
	}
	courts, err := rows(ctx, c, (*court).dest, `SELECT court, name, surface, indoor FROM courts WHERE org = ? AND (court = ? OR ? = 0) ORDER BY court`, c.org, n, n)
	if err != nil {
		return nil, err
	}
	if len(courts) == 0 {
		return nil, missing("there is no court %d", n)
	}
	free := []slot{}
	reason, err := closedReason(ctx, c, c.query["day"])
	if err != nil {
		return nil, err
	}
	if reason == "" {
		if free, err = freeHours(ctx, c, t, courts); err != nil {
			return nil, err
		}
		if len(free) == 0 {
			reason = "everything is booked"
		}
	}
	return map[string]any{"day": c.query["day"], "none_because": reason, "rows": free}, nil
}

func freeHours(ctx context.Context, c *call, t time.Time, courts []court) ([]slot, error) {
	date := t.Format(time.DateOnly)
	h, err := hoursOn(ctx, c, weekday(t), date)
	if err != nil {
		return nil, err
	}
	opens, _ := minute("opens", h.Opens) // stored times are well formed
	closes, _ := minute("closes", h.Closes)
	free := []slot{}
	for _, v := range courts {
		for from := opens; from+60 <= closes; from += 60 {
			taken, err := overlaps(ctx, c, booking{Court: v.Court, Day: date, from: from, Minutes: 60})
			if err != nil {
				return nil, err
			}
			if taken {
				continue
			}
			cents, err := centsOf(ctx, c, v.Court, bandOf(t, from))
			if err != nil {
				return nil, err
			}
			free = append(free, slot{v.Court, clock(from), clock(from + 60), euros(cents)})
		}
	}
	return free, nil
}

// bandOf gives the price band of a time.
func bandOf(t time.Time, from int) string {
	switch {
	case t.Weekday() == time.Saturday || t.Weekday() == time.Sunday:
		return "weekend"
	case from < 12*60:
		return "weekday_morning"
	case from < 17*60:
		return "weekday_day"
	default:
		return "weekday_evening"
	}
}

// closedReason says why nobody can play on a day; "" means that somebody can.
func closedReason(ctx context.Context, c *call, date string) (string, error) {
	closed, err := rows(ctx, c, (*closedDay).dest, `SELECT day, area, reason FROM closed_days
		WHERE org = ? AND day = ? AND area IN ('club', 'courts') ORDER BY area`, c.org, date)
	if err != nil || len(closed) == 0 {
		return "", err
	}
	return closed[0].Reason, nil
}

// overlaps says whether a court is taken at any time of a booking by another one.
func overlaps(ctx context.Context, c *call, b booking) (bool, error) {
	return exists(ctx, c, `SELECT count(*) FROM bookings WHERE org = ? AND court = ? AND day = ? AND status = 'booked'
		AND start < ? AND start + minutes > ? AND booking <> ?`, c.org, b.Court, b.Day, b.from+b.Minutes, b.from, b.Booking)
}

// place checks that a booking fits where it is to stand, and prices it.
func place(ctx context.Context, c *call, b *booking) error {
	t, err := day("day", b.Day)
	if err != nil {
		return err
	}
	if b.from, err = minute("start", b.Start); err != nil {
		return err
	}
	if b.from%30 != 0 {
		return bad("start must be on the hour or the half hour")
	}
	cents, err := centsOf(ctx, c, b.Court, bandOf(t, b.from))
	if err != nil {
		return err
	}
	b.Cents = cents * b.Minutes / 60
	reason, err := closedReason(ctx, c, b.Day)
	if err != nil {
		return err
	}
	if reason != "" {
		return conflict("closed on %s: %s", b.Day, reason)
	}
	h, err := hoursOn(ctx, c, weekday(t), b.Day)
	if err != nil {
		return err
	}
	if b.Start < h.Opens || clock(b.from+b.Minutes) > h.Closes {
		return conflict("outside the opening hours of %s, %s to %s", b.Day, h.Opens, h.Closes)
	}
	taken, err := overlaps(ctx, c, *b)
	if err != nil {
		return err
	}
	if taken {
		return conflict("court %d is taken on %s at %s", b.Court, b.Day, b.Start)
	}
	b.fill()
	return nil
}

func createBooking(ctx context.Context, c *call) (any, error) {
	in := struct {
		Member     string
		Court      int
		Day, Start string
		Minutes    int
	}{Minutes: 60}
	if err := c.into(&in); err != nil {
		return nil, err
	}
	if in.Minutes != 30 && in.Minutes != 60 && in.Minutes != 90 && in.Minutes != 120 {
		return nil, bad("minutes must be 30, 60, 90 or 120")
	}
	who, err := one(ctx, c, missing("there is no member %q", in.Member), (*member).dest, memberColumns+`WHERE org = ? AND member = ?`, c.org, in.Member)
	if err != nil {
		return nil, err
	}
	if who.Status != "active" {
		return nil, conflict("%s is no longer a member", who.Name)
	}
	b := booking{Member: in.Member, Name: who.Name, Court: in.Court, Day: in.Day, Start: in.Start, Minutes: in.Minutes, Status: "booked"}
	if err := place(ctx, c, &b); err != nil {
		return nil, err
	}
	if b.Booking, err = nextID(ctx, c, "b"); err != nil {
		return nil, err
	}
	_, err = change(ctx, c, `INSERT INTO bookings (org, booking, member, court, day, start, minutes, status, cents) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		c.org, b.Booking, b.Member, b.Court, b.Day, b.from, b.Minutes, b.Status, b.Cents)
	return b, err
}

func moveBooking(ctx context.Context, c *call) (any, error) {
	var in struct {
		Day, Start string
		Court      int
	}
	if err := c.into(&in); err != nil {
		return nil, err
	}
	old, err := findBooking(ctx, c)
	if err != nil {
		return nil, err
	}
	if old.Status != "booked" {
		return nil, conflict("booking %s is cancelled", old.Booking)
	}
	b := old
	b.Day, b.Start = in.Day, in.Start
	if in.Court != 0 {
		b.Court = in.Court
	}
	if err := place(ctx, c, &b); err != nil {
		return nil, err
	}
	_, err = change(ctx, c, `UPDATE bookings SET court = ?, day = ?, start = ?, cents = ? WHERE org = ? AND booking = ?`,
		b.Court, b.Day, b.from, b.Cents, c.org, b.Booking)
	return map[string]any{"old": old, "new": b}, err
}

func cancelBooking(ctx context.Context, c *call) (any, error) {
	b, err := findBooking(ctx, c)
	if err != nil {
		return nil, err
	}
	if b.Status != "booked" {
		return nil, conflict("booking %s is already cancelled", b.Booking)
	}
	b.Status = "cancelled"
	_, err = change(ctx, c, `UPDATE bookings SET status = 'cancelled' WHERE org = ? AND booking = ?`, c.org, b.Booking)
	return b, err
}
