package backoffice

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

type hours struct {
	Weekday string `json:"weekday"`
	Since   string `json:"since"`
	Opens   string `json:"opens"`
	Closes  string `json:"closes"`
}

func (h *hours) dest() []any { return []any{&h.Weekday, &h.Since, &h.Opens, &h.Closes} }

type closedDay struct {
	Day    string `json:"day"`
	Area   string `json:"area"`
	Reason string `json:"reason"`
}

func (d *closedDay) dest() []any { return []any{&d.Day, &d.Area, &d.Reason} }

func weekdays() []string {
	return []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
}

func areas() []string { return []string{"club", "courts", "pool", "sauna"} }

func bands() []string {
	return []string{"weekday_morning", "weekday_day", "weekday_evening", "weekend"}
}

// weekday gives a date's name in the settings.
func weekday(t time.Time) string { return weekdays()[(int(t.Weekday())+6)%7] }

// getSettings answers with the whole opening plan, rows that only begin later included.
func getSettings(ctx context.Context, c *call) (any, error) {
	var out struct {
		Club     string      `json:"club"`
		Zone     string      `json:"zone"`
		Currency string      `json:"currency"`
		Hours    []hours     `json:"hours"`
		Closed   []closedDay `json:"closed_days"`
	}
	err := c.tx.QueryRowContext(ctx, `SELECT name, zone, currency FROM orgs WHERE org = ?`, c.org).Scan(&out.Club, &out.Zone, &out.Currency)
	if err != nil {
		return nil, err
	}
	out.Hours, err = rows(ctx, c, (*hours).dest, `SELECT weekday, since, opens, closes FROM hours WHERE org = ?
		ORDER BY instr('montuewedthufrisatsun', substr(weekday, 1, 3)), since`, c.org)
	if err != nil {
		return nil, err
	}
	out.Closed, err = rows(ctx, c, (*closedDay).dest, `SELECT day, area, reason FROM closed_days WHERE org = ? ORDER BY day, area`, c.org)
	return out, err
}

// hoursOn gives the opening hours that hold on a date.
func hoursOn(ctx context.Context, c *call, name, date string) (hours, error) {
	return one(ctx, c, missing("there are no opening hours for %s", name), (*hours).dest,
		`SELECT weekday, since, opens, closes FROM hours WHERE org = ? AND weekday = ? AND since <= ? ORDER BY since DESC LIMIT 1`, c.org, name, date)
}

func setHours(ctx context.Context, c *call) (any, error) {
	var in struct{ Since, Opens, Closes string }
	if err := c.into(&in); err != nil {
		return nil, err
	}
	name := c.path["weekday"]
	if err := oneOf("weekday", name, weekdays()...); err != nil {
		return nil, err
	}
	if _, err := day("since", in.Since); err != nil {
		return nil, err
	}
	opens, err := minute("opens", in.Opens)
	if err != nil {
		return nil, err
	}
	closes, err := minute("closes", in.Closes)
	if err != nil {
		return nil, err
	}
	if opens >= closes {
		return nil, bad("closes must be later than opens")
	}
	old, err := hoursOn(ctx, c, name, in.Since)
	if err != nil {
		return nil, err
	}
	if _, err := change(ctx, c, `INSERT INTO hours (org, weekday, since, opens, closes) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (org, weekday, since) DO UPDATE SET opens = excluded.opens, closes = excluded.closes`,
		c.org, name, in.Since, in.Opens, in.Closes); err != nil {
		return nil, err
	}
	return map[string]any{
		"weekday": name, "since": in.Since,
		"old": map[string]string{"opens": old.Opens, "closes": old.Closes},
		"new": map[string]string{"opens": in.Opens, "closes": in.Closes},
	}, nil
}

type court struct {
	Court   int    `json:"court"`
	Name    string `json:"name"`
	Surface string `json:"surface"`
	Indoor  bool   `json:"indoor"`
}

func (v *court) dest() []any { return []any{&v.Court, &v.Name, &v.Surface, &v.Indoor} }

func listCourts(ctx context.Context, c *call) (any, error) {
	all, err := rows(ctx, c, (*court).dest, `SELECT court, name, surface, indoor FROM courts WHERE org = ? ORDER BY court`, c.org)
	return list[court]{all}, err
}

type price struct {
	Court  int    `json:"court"`
	Band   string `json:"band"`
	Cents  int    `json:"cents"`
	Amount string `json:"amount"`
}

func (p *price) dest() []any { return []any{&p.Court, &p.Band, &p.Cents} }

func listPrices(ctx context.Context, c *call) (any, error) {
	n, err := courtNumber(c.query["court"])
	if err != nil {
		return nil, err
	}
	band := c.query["band"]
	if band != "" {
		if err := oneOf("band", band, bands()...); err != nil {
			return nil, err
		}
	}
	all, err := rows(ctx, c, (*price).dest, `SELECT court, band, cents FROM prices
		WHERE org = ? AND (court = ? OR ? = 0) AND (band = ? OR ? = '') ORDER BY court, band`, c.org, n, n, band, band)
	for i := range all {
		all[i].Amount = euros(all[i].Cents)
	}
	if err == nil && len(all) == 0 {
		err = missing("there is no court %d", n)
	}
	return list[price]{all}, err
}

// centsOf gives the price of an hour on a court.
func centsOf(ctx context.Context, c *call, n int, band string) (int, error) {
	var cents int
	err := c.tx.QueryRowContext(ctx, `SELECT cents FROM prices WHERE org = ? AND court = ? AND band = ?`, c.org, n, band).Scan(&cents)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, missing("there is no court %d", n)
	}
	return cents, err
}

func setPrice(ctx context.Context, c *call) (any, error) {
	var in struct{ Cents *int }
	if err := c.into(&in); err != nil {
		return nil, err
	}
	n, err := courtNumber(c.path["court"])
	if err != nil {
		return nil, err
	}
	band := c.path["band"]
	if err := oneOf("band", band, bands()...); err != nil {
		return nil, err
	}
	if in.Cents == nil || *in.Cents < 0 {
		return nil, bad("cents must be 0 or more")
	}
	old, err := centsOf(ctx, c, n, band)
	if err != nil {
		return nil, err
	}
	if _, err := change(ctx, c, `UPDATE prices SET cents = ? WHERE org = ? AND court = ? AND band = ?`, *in.Cents, c.org, n, band); err != nil {
		return nil, err
	}
	return map[string]any{
		"court": n, "band": band,
		"old_cents": old, "old_amount": euros(old), "new_cents": *in.Cents, "new_amount": euros(*in.Cents),
	}, nil
}

// closeDay leaves the bookings of the day alone and says how many there are: cancelling them is a person's decision.
func closeDay(ctx context.Context, c *call) (any, error) {
	var in closedDay
	if err := c.into(&in); err != nil {
		return nil, err
	}
	if _, err := day("day", in.Day); err != nil {
		return nil, err
	}
	if err := errors.Join(oneOf("area", in.Area, areas()...), between("reason", in.Reason, 3, 200)); err != nil {
		return nil, bad("%s", err)
	}
	n, err := change(ctx, c, `INSERT INTO closed_days (org, day, area, reason) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`, c.org, in.Day, in.Area, in.Reason)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, conflict("the %s is already closed on %s", in.Area, in.Day)
	}
	affected := 0
	if in.Area == "club" || in.Area == "courts" {
		err = c.tx.QueryRowContext(ctx, `SELECT count(*) FROM bookings WHERE org = ? AND day = ? AND status = 'booked'`, c.org, in.Day).Scan(&affected)
	}
	return map[string]any{"day": in.Day, "area": in.Area, "reason": in.Reason, "bookings": affected}, err
}

func reopenDay(ctx context.Context, c *call) (any, error) {
	n, err := change(ctx, c, `DELETE FROM closed_days WHERE org = ? AND day = ? AND area = ?`, c.org, c.path["day"], c.path["area"])
	if err == nil && n == 0 {
		err = missing("the %s is not closed on %s", c.path["area"], c.path["day"])
	}
	return map[string]any{"day": c.path["day"], "area": c.path["area"], "reopened": true}, err
}

type staff struct {
	Person string `json:"person"`
	Name   string `json:"name"`
	Role   string `json:"role"`
}

func (v *staff) dest() []any { return []any{&v.Person, &v.Name, &v.Role} }

func listStaff(ctx context.Context, c *call) (any, error) {
	all, err := rows(ctx, c, (*staff).dest, `SELECT person, name, role FROM staff WHERE org = ? ORDER BY person`, c.org)
	return list[staff]{all}, err
}

func setRole(ctx context.Context, c *call) (any, error) {
	var in struct{ Role string }
	if err := c.into(&in); err != nil {
		return nil, err
	}
	if err := oneOf("role", in.Role, "owner", "manager", "coach", "desk"); err != nil {
		return nil, err
	}
	old, err := one(ctx, c, missing("there is no staff member %q", c.path["person"]), (*staff).dest,
		`SELECT person, name, role FROM staff WHERE org = ? AND person = ?`, c.org, c.path["person"])
	if err != nil {
		return nil, err
	}
	if old.Role == "owner" && in.Role != "owner" {
		another, err := exists(ctx, c, `SELECT count(*) FROM staff WHERE org = ? AND role = 'owner' AND person <> ?`, c.org, old.Person)
		if err != nil {
			return nil, err
		}
		if !another {
			return nil, conflict("%s is the only owner; make somebody else an owner first", old.Name)
		}
	}
	_, err = change(ctx, c, `UPDATE staff SET role = ? WHERE org = ? AND person = ?`, in.Role, c.org, old.Person)
	return map[string]any{"person": old.Person, "name": old.Name, "old": old.Role, "new": in.Role}, err
}
