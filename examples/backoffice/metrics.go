package backoffice

import (
	"context"
	"fmt"
	"math"
	"strings"
)

// maxDays bounds how far one question about figures may reach.
const maxDays = 400

// figure is what the nightly close wrote down for one day.
type figure struct {
	Day                       string
	Courts, Memberships, Shop int // cents
	Booked, Slots             int // court hours
	Joined, Left, Active      int // members
}

func (f *figure) dest() []any {
	return []any{&f.Day, &f.Courts, &f.Memberships, &f.Shop, &f.Booked, &f.Slots, &f.Joined, &f.Left, &f.Active}
}

// span is a period of whole days with its figures.
type span struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Complete bool   `json:"complete"` // there are figures for every day
	Until    string `json:"figures_until"`

	days []figure
}

// spanOf reads the figures between two dates, both included. names are what the client calls the dates.
func spanOf(ctx context.Context, c *call, names [2]string) (span, error) {
	s := span{From: c.query[names[0]], To: c.query[names[1]]}
	from, err := day(names[0], s.From)
	if err != nil {
		return s, err
	}
	to, err := day(names[1], s.To)
	if err != nil {
		return s, err
	}
	asked := int(to.Sub(from).Hours()/24) + 1
	if asked < 1 || asked > maxDays {
		return s, bad("%s must not be before %s, nor more than %d days after it", names[1], names[0], maxDays)
	}
	s.days, err = rows(ctx, c, (*figure).dest, `SELECT day, courts, memberships, shop, booked, slots, joined, left_on, active
		FROM figures WHERE org = ? AND day BETWEEN ? AND ? ORDER BY day`, c.org, s.From, s.To)
	if err != nil {
		return s, err
	}
	if len(s.days) == 0 {
		return s, missing("there are no figures from %s to %s", s.From, s.To)
	}
	s.Complete = len(s.days) == asked
	s.Until = s.days[len(s.days)-1].Day
	return s, nil
}

// periods sorts the days of a span into days, ISO weeks or months, in order.
func (s span) periods(by string) (names []string, days map[string][]figure, err error) {
	if by == "" {
		by = "month"
	}
	if err := oneOf("by", by, "day", "week", "month"); err != nil {
		return nil, nil, err
	}
	days = map[string][]figure{}
	for _, f := range s.days {
		t, err := day("day", f.Day)
		if err != nil {
			return nil, nil, err
		}
		name := f.Day
		switch by {
		case "week":
			year, week := t.ISOWeek()
			name = fmt.Sprintf("%d-W%02d", year, week)
		case "month":
			name = t.Format("2006-01")
		}
		if days[name] == nil {
			names = append(names, name)
		}
		days[name] = append(days[name], f)
	}
	return names, days, nil
}

func sum(days []figure, of func(figure) int) int {
	total := 0
	for _, f := range days {
		total += of(f)
	}
	return total
}

// cents gives what a source took in; the sources are courts, memberships, shop, and all.
func cents(source string) (func(figure) int, error) {
	switch source {
	case "", "all":
		return func(f figure) int { return f.Courts + f.Memberships + f.Shop }, nil
	case "courts":
		return func(f figure) int { return f.Courts }, nil
	case "memberships":
		return func(f figure) int { return f.Memberships }, nil
	case "shop":
		return func(f figure) int { return f.Shop }, nil
	}
	return nil, bad("source must be one of all, courts, memberships, shop")
}

// percent is a share with one decimal.
func percent(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return math.Round(1000*float64(part)/float64(whole)) / 10
}

func booked(f figure) int { return f.Booked }
func slots(f figure) int  { return f.Slots }
func joined(f figure) int { return f.Joined }
func left(f figure) int   { return f.Left }

func revenue(ctx context.Context, c *call) (any, error) {
	s, err := spanOf(ctx, c, [2]string{"from", "to"})
	if err != nil {
		return nil, err
	}
	of, err := cents(c.query["source"])
	if err != nil {
		return nil, err
	}
	names, days, err := s.periods(c.query["by"])
	if err != nil {
		return nil, err
	}
	type row struct {
		Period string `json:"period"`
		Cents  int    `json:"cents"`
		Amount string `json:"amount"`
	}
	out := struct {
		span
		Cents  int    `json:"cents"`
		Amount string `json:"amount"`
		Rows   []row  `json:"rows"`
	}{span: s, Cents: sum(s.days, of), Amount: euros(sum(s.days, of))}
	for _, name := range names {
		n := sum(days[name], of)
		out.Rows = append(out.Rows, row{name, n, euros(n)})
	}
	return out, nil
}

func occupancy(ctx context.Context, c *call) (any, error) {
	s, err := spanOf(ctx, c, [2]string{"from", "to"})
	if err != nil {
		return nil, err
	}
	names, days, err := s.periods(c.query["by"])
	if err != nil {
		return nil, err
	}
	type row struct {
		Period  string  `json:"period"`
		Booked  int     `json:"booked_hours"`
		Slots   int     `json:"court_hours"`
		Percent float64 `json:"percent"`
	}
	out := struct {
		span
		Percent float64 `json:"percent"`
		Rows    []row   `json:"rows"`
	}{span: s, Percent: percent(sum(s.days, booked), sum(s.days, slots))}
	for _, name := range names {
		b, n := sum(days[name], booked), sum(days[name], slots)
		out.Rows = append(out.Rows, row{name, b, n, percent(b, n)})
	}
	return out, nil
}

func memberships(ctx context.Context, c *call) (any, error) {
	s, err := spanOf(ctx, c, [2]string{"from", "to"})
	if err != nil {
		return nil, err
	}
	names, days, err := s.periods(c.query["by"])
	if err != nil {
		return nil, err
	}
	type row struct {
		Period string `json:"period"`
		Joined int    `json:"joined"`
		Left   int    `json:"left"`
		Active int    `json:"active"` // at the end of the period
	}
	out := struct {
		span
		Joined int   `json:"joined"`
		Left   int   `json:"left"`
		Active int   `json:"active"`
		Rows   []row `json:"rows"`
	}{span: s, Joined: sum(s.days, joined), Left: sum(s.days, left), Active: s.days[len(s.days)-1].Active}
	for _, name := range names {
		d := days[name]
		out.Rows = append(out.Rows, row{name, sum(d, joined), sum(d, left), d[len(d)-1].Active})
	}
	return out, nil
}

// compare sets one figure of two periods side by side. Where a period is not complete it says so and leaves the
// judgement to the reader.
func compare(ctx context.Context, c *call) (any, error) {
	first, err := spanOf(ctx, c, [2]string{"from", "to"})
	if err != nil {
		return nil, err
	}
	second, err := spanOf(ctx, c, [2]string{"with_from", "with_to"})
	if err != nil {
		return nil, err
	}
	var value func([]figure) float64
	unit := "members"
	all, err := cents("all")
	if err != nil {
		return nil, err
	}
	switch c.query["metric"] {
	case "revenue":
		value, unit = func(d []figure) float64 { return float64(sum(d, all)) }, "cents"
	case "occupancy":
		value, unit = func(d []figure) float64 { return percent(sum(d, booked), sum(d, slots)) }, "percent"
	case "joined":
		value = func(d []figure) float64 { return float64(sum(d, joined)) }
	case "left":
		value = func(d []figure) float64 { return float64(sum(d, left)) }
	default:
		return nil, bad("metric must be one of revenue, occupancy, joined, left")
	}
	type side struct {
		span
		Value float64 `json:"value"`
	}
	a, b := value(first.days), value(second.days)
	change := 0.0
	if b != 0 {
		change = math.Round(1000*(a-b)/b) / 10
	}
	return map[string]any{
		"metric": c.query["metric"], "unit": unit, "first": side{first, a}, "second": side{second, b}, "change_percent": change,
	}, nil
}

// top ranks courts, hours or members by their bookings in a period; ten at most.
func top(ctx context.Context, c *call) (any, error) {
	from, to := c.query["from"], c.query["to"]
	if _, err := day("from", from); err != nil {
		return nil, err
	}
	if _, err := day("to", to); err != nil {
		return nil, err
	}
	column := map[string]string{
		"courts": "'court ' || b.court", "hours": "printf('%02d:00', b.start / 60)", "members": "m.name",
	}[c.query["what"]]
	if column == "" {
		return nil, bad("what must be one of courts, hours, members")
	}
	type row struct {
		Name     string `json:"name"`
		Bookings int    `json:"bookings"`
	}
	all, err := rows(ctx, c, func(r *row) []any { return []any{&r.Name, &r.Bookings} }, strings.ReplaceAll(`SELECT COLUMN, count(*) AS n
		FROM bookings b JOIN members m ON m.org = b.org AND m.member = b.member
		WHERE b.org = ? AND b.status = 'booked' AND b.day BETWEEN ? AND ? GROUP BY 1 ORDER BY n DESC, 1 LIMIT 10`, "COLUMN", column), c.org, from, to)
	return map[string]any{"what": c.query["what"], "from": from, "to": to, "rows": all}, err
}
