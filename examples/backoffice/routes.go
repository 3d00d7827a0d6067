package backoffice

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// doors are all doors of the house: those of the club's back office, and those of the shops.
func doors() []door {
	var all []door
	for _, r := range routes() {
		all = append(all, door{r, side{
			tenant: "org", known: `SELECT count(*) FROM orgs WHERE org = ?`, unknown: "this organisation is not known",
		}})
	}
	for _, r := range shopRoutes() {
		all = append(all, door{r, side{
			tenant: "shop", known: `SELECT count(*) FROM shops WHERE shop = ?`, unknown: "this shop is not known", strict: true,
		}})
	}
	return all
}

// routes are those of the club's back office.
func routes() []route {
	return []route{
		{"GET", "/settings", nil, getSettings},
		{"PUT", "/hours/{weekday}", nil, setHours},
		{"GET", "/courts", nil, listCourts},
		{"GET", "/prices", []string{"court", "band"}, listPrices},
		{"PUT", "/prices/{court}/{band}", nil, setPrice},
		{"POST", "/closed_days", nil, closeDay},
		{"DELETE", "/closed_days/{day}/{area}", nil, reopenDay},
		{"GET", "/staff", nil, listStaff},
		{"PUT", "/staff/{person}/role", nil, setRole},

		{"GET", "/members", []string{"q"}, findMembers},
		{"GET", "/slots", []string{"day", "court"}, freeSlots},
		{"GET", "/bookings", []string{"day", "court", "member"}, listBookings},
		{"GET", "/bookings/{booking}", nil, getBooking},
		{"POST", "/bookings", nil, createBooking},
		{"POST", "/bookings/{booking}/move", nil, moveBooking},
		{"DELETE", "/bookings/{booking}", nil, cancelBooking},

		{"GET", "/segments", nil, listSegments},
		{"GET", "/messages", []string{"status"}, listMessages},
		{"POST", "/messages", nil, draftMessage},
		{"GET", "/messages/{message}", nil, messageStatus},
		{"PUT", "/messages/{message}", nil, editMessage},
		{"GET", "/messages/{message}/preview", nil, previewMessage},
		{"POST", "/messages/{message}/send", nil, sendMessage},

		{"GET", "/metrics/revenue", []string{"from", "to", "by", "source"}, revenue},
		{"GET", "/metrics/occupancy", []string{"from", "to", "by"}, occupancy},
		{"GET", "/metrics/memberships", []string{"from", "to", "by"}, memberships},
		{"GET", "/metrics/compare", []string{"metric", "from", "to", "with_from", "with_to"}, compare},
		{"GET", "/metrics/top", []string{"what", "from", "to"}, top},

		{"GET", "/pages", nil, listPages},
		{"POST", "/pages", nil, createPage},
		{"GET", "/pages/{page}", nil, getPage},
		{"PUT", "/pages/{page}", nil, updatePage},
		{"POST", "/pages/{page}/publish", nil, publishPage},
		{"PUT", "/pages/{page}/image", nil, placeImage},
		{"GET", "/images", []string{"q"}, searchImages},
		{"PUT", "/theme", nil, setTheme},

		{"GET", "/accounts/{account}", nil, findAccount},
		{"GET", "/my/bookings", []string{"member", "from"}, myBookings},
		{"GET", "/my/slots", []string{"member", "day", "court"}, myFree},
		{"POST", "/my/bookings", nil, myBooking},
		{"DELETE", "/my/bookings/{booking}", []string{"member"}, cancelMine},
		{"GET", "/club/hours", []string{"day"}, clubHours},
		{"GET", "/club/classes", []string{"q", "weekday"}, listClasses},

		{"GET", "/documents", []string{"q"}, findDocuments},
		{"GET", "/documents/{document}", nil, getDocument},
	}
}

// list is how every list of rows goes back.
type list[T any] struct {
	Rows []T `json:"rows"`
}

// rows runs a query and scans every row; scan gets the destinations' owner.
func rows[T any](ctx context.Context, c *call, dest func(*T) []any, query string, args ...any) ([]T, error) {
	r, err := c.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // Err below tells
	all := []T{}
	for r.Next() {
		var v T
		if err := r.Scan(dest(&v)...); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, r.Err()
}

// one runs a query for a single row; nothing is the error when there is none.
func one[T any](ctx context.Context, c *call, nothing error, dest func(*T) []any, query string, args ...any) (T, error) { //nolint:revive // a query and its parts
	all, err := rows(ctx, c, dest, query, args...)
	if err != nil {
		return *new(T), err
	}
	if len(all) == 0 {
		return *new(T), nothing
	}
	return all[0], nil
}

// change runs a write and gives the number of rows that it met.
func change(ctx context.Context, c *call, statement string, args ...any) (int64, error) {
	r, err := c.tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// nextID counts an organisation's things of one kind: b_7501, b_7502 and so on.
func nextID(ctx context.Context, c *call, prefix string) (string, error) {
	var n int
	err := c.tx.QueryRowContext(ctx, `UPDATE counters SET last = last + 1 WHERE org = ? AND kind = ? RETURNING last`, c.org, prefix).Scan(&n)
	if err != nil {
		return "", fmt.Errorf("count up %s: %w", prefix, err)
	}
	return fmt.Sprintf("%s_%d", prefix, n), nil
}

// day reads a date; name is what the client called it.
func day(name, text string) (time.Time, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return t, bad("%s must be a date like 2026-05-04", name)
	}
	return t, nil
}

// minute reads a time of day as minutes after midnight.
func minute(name, text string) (int, error) {
	t, err := time.Parse("15:04", text)
	if err != nil || len(text) != len("15:04") {
		return 0, bad("%s must be a time of day like 18:30", name)
	}
	return t.Hour()*60 + t.Minute(), nil
}

// clock is the way back from minutes to a time of day.
func clock(minutes int) string { return fmt.Sprintf("%02d:%02d", minutes/60, minutes%60) }

// between checks the length of a text in characters.
func between(name, text string, least, most int) error {
	if n := len([]rune(strings.TrimSpace(text))); n < least || n > most {
		return bad("%s must have %d to %d characters", name, least, most)
	}
	return nil
}

// oneOf checks a word against those allowed.
func oneOf(name, word string, words ...string) error {
	if !slices.Contains(words, word) {
		return bad("%s must be one of %s", name, strings.Join(words, ", "))
	}
	return nil
}

// courtNumber reads a court's number; "" is 0, for every court.
func courtNumber(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 99 {
		return 0, bad("court must be a number from 1 to 99")
	}
	return n, nil
}

// euros writes cents as an amount for people.
func euros(cents int) string {
	sign := ""
	if cents < 0 {
		sign, cents = "-", -cents
	}
	whole := strconv.Itoa(cents / 100)
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return fmt.Sprintf("%s%s.%02d euros", sign, whole, cents%100)
}

// like makes a pattern that finds a text anywhere, its own wildcards taken literally.
func like(text string) string {
	return "%" + regexp.MustCompile(`[\\%_]`).ReplaceAllString(text, `\$0`) + "%"
}

// exists says whether a count query finds anything.
func exists(ctx context.Context, c *call, query string, args ...any) (bool, error) {
	var n sql.NullInt64
	err := c.tx.QueryRowContext(ctx, query, args...).Scan(&n)
	return n.Int64 > 0, err
}
