package backoffice

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// schema holds everything of the club by organisation: it leads every key, so that no query can do without it.
const schema = `
CREATE TABLE IF NOT EXISTS orgs (org TEXT PRIMARY KEY, name TEXT NOT NULL, zone TEXT NOT NULL, currency TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS courts (org TEXT, court INTEGER, name TEXT NOT NULL, surface TEXT NOT NULL, indoor INTEGER NOT NULL, PRIMARY KEY (org, court)) STRICT;
CREATE TABLE IF NOT EXISTS prices (org TEXT, court INTEGER, band TEXT, cents INTEGER NOT NULL, PRIMARY KEY (org, court, band)) STRICT;
CREATE TABLE IF NOT EXISTS hours (org TEXT, weekday TEXT, since TEXT, opens TEXT NOT NULL, closes TEXT NOT NULL, PRIMARY KEY (org, weekday, since)) STRICT;
CREATE TABLE IF NOT EXISTS closed_days (org TEXT, day TEXT, area TEXT, reason TEXT NOT NULL, PRIMARY KEY (org, day, area)) STRICT;
CREATE TABLE IF NOT EXISTS staff (org TEXT, person TEXT, name TEXT NOT NULL, role TEXT NOT NULL, PRIMARY KEY (org, person)) STRICT;
CREATE TABLE IF NOT EXISTS members (org TEXT, member TEXT, name TEXT NOT NULL, email TEXT NOT NULL, level TEXT NOT NULL,
	joined_on TEXT NOT NULL, left_on TEXT NOT NULL, PRIMARY KEY (org, member)) STRICT;
CREATE TABLE IF NOT EXISTS segments (org TEXT, segment TEXT, name TEXT NOT NULL, PRIMARY KEY (org, segment)) STRICT;
CREATE TABLE IF NOT EXISTS segment_members (org TEXT, segment TEXT, member TEXT, PRIMARY KEY (org, segment, member)) STRICT;
CREATE TABLE IF NOT EXISTS bookings (org TEXT, booking TEXT, member TEXT NOT NULL, court INTEGER NOT NULL, day TEXT NOT NULL,
	start INTEGER NOT NULL, minutes INTEGER NOT NULL, status TEXT NOT NULL, cents INTEGER NOT NULL, PRIMARY KEY (org, booking)) STRICT;
CREATE INDEX IF NOT EXISTS bookings_by_day ON bookings (org, day, court);
CREATE TABLE IF NOT EXISTS messages (org TEXT, message TEXT, recipient TEXT NOT NULL, subject TEXT NOT NULL, text TEXT NOT NULL,
	status TEXT NOT NULL, sent_at TEXT NOT NULL, PRIMARY KEY (org, message)) STRICT;
CREATE TABLE IF NOT EXISTS deliveries (org TEXT, message TEXT, member TEXT, status TEXT NOT NULL, PRIMARY KEY (org, message, member)) STRICT;
CREATE TABLE IF NOT EXISTS figures (org TEXT, day TEXT, courts INTEGER NOT NULL, memberships INTEGER NOT NULL, shop INTEGER NOT NULL,
	booked INTEGER NOT NULL, slots INTEGER NOT NULL, joined INTEGER NOT NULL, left_on INTEGER NOT NULL, active INTEGER NOT NULL, PRIMARY KEY (org, day)) STRICT;
CREATE TABLE IF NOT EXISTS documents (org TEXT, document TEXT, title TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (org, document)) STRICT;
CREATE TABLE IF NOT EXISTS pages (org TEXT, page TEXT, slug TEXT NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL, image TEXT NOT NULL,
	live_title TEXT NOT NULL, live_text TEXT NOT NULL, live_image TEXT NOT NULL, version INTEGER NOT NULL, published_at TEXT NOT NULL, PRIMARY KEY (org, page)) STRICT;
CREATE TABLE IF NOT EXISTS images (org TEXT, image TEXT, about TEXT NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL, PRIMARY KEY (org, image)) STRICT;
CREATE TABLE IF NOT EXISTS themes (org TEXT PRIMARY KEY, colour TEXT NOT NULL, font TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS accounts (org TEXT, account TEXT, member TEXT NOT NULL, PRIMARY KEY (org, account)) STRICT;
CREATE TABLE IF NOT EXISTS classes (org TEXT, class TEXT, name TEXT NOT NULL, weekday TEXT NOT NULL, start INTEGER NOT NULL, minutes INTEGER NOT NULL,
	coach TEXT NOT NULL, places INTEGER NOT NULL, taken INTEGER NOT NULL, PRIMARY KEY (org, class)) STRICT;
CREATE TABLE IF NOT EXISTS counters (org TEXT, kind TEXT, last INTEGER NOT NULL, PRIMARY KEY (org, kind)) STRICT;
CREATE TABLE IF NOT EXISTS answers (org TEXT, name TEXT, digest TEXT NOT NULL, body TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (org, name)) STRICT;
`

// club is one organisation as it is seeded. The numbers make the two differ everywhere, so that a mix-up shows.
type club struct {
	org, name string
	first     int // of the counters, and what tells the ids of one club from the other's
	courts    int
	members   int
	opens     string
	cents     int            // an hour on court 1 on a weekday morning
	day       int            // figures: a usual weekday's cents on the courts
	accounts  map[string]int // of the chat: which of the known members has it, from 0
}

func clubs() []club {
	return []club{
		{org: "org_7", name: "Northside Club", first: 7000, courts: 4, members: 236, opens: "08:00", cents: 1400, day: 61_300, accounts: map[string]int{"U0MIA": 0, "U0TOM": 2}},
		{org: "org_9", name: "Southside Club", first: 9000, courts: 3, members: 84, opens: "09:00", cents: 1100, day: 24_700, accounts: map[string]int{"U0OMAR": 4}},
	}
}

// seeder writes rows until the first error, which it keeps.
type seeder struct {
	ctx  context.Context //nolint:containedctx // lives as long as one call of seed
	tx   *sql.Tx
	into map[string]*sql.Stmt // by table; they end with the transaction
	err  error
}

func (s *seeder) add(table string, values ...any) {
	if s.err == nil && s.into[table] == nil {
		if s.into == nil {
			s.into = map[string]*sql.Stmt{}
		}
		marks := strings.TrimSuffix(strings.Repeat("?,", len(values)), ",")
		s.into[table], s.err = s.tx.PrepareContext(s.ctx, "INSERT INTO "+table+" VALUES ("+marks+")") //nolint:gosec // table is a word of this file
	}
	if s.err == nil {
		_, s.err = s.into[table].ExecContext(s.ctx, values...)
	}
}

// seed makes the tables and, where there is no organisation or no shop yet, its rows. They are the same at every start:
// nothing depends on chance, and on the clock only when the shops' orders were delivered. anew throws away what was there.
func seed(ctx context.Context, db *sql.DB, now time.Time, anew bool) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	if _, err := tx.ExecContext(ctx, schema+shopSchema); err != nil {
		return err
	}
	if anew {
		if err := empty(ctx, tx); err != nil {
			return err
		}
	}
	var n int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM orgs`).Scan(&n); err != nil {
		return err
	}
	// The driver starts a goroutine for each statement that can be cancelled; the transaction as a whole still can.
	s := &seeder{ctx: context.WithoutCancel(ctx), tx: tx}
	if n == 0 {
		for _, c := range clubs() {
			s.settings(c)
			s.people(c)
			s.calendar(c)
			s.mail(c)
			s.figures(c)
			s.documents(c)
			s.site(c)
			s.lessons(c)
		}
	}
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM shops`).Scan(&n); err != nil {
		return err
	}
	if n == 0 {
		s.shops(now)
	}
	if s.err != nil {
		return s.err
	}
	return tx.Commit()
}

// empty deletes every row.
func empty(ctx context.Context, tx *sql.Tx) error {
	for statement := range strings.SplitSeq(schema+shopSchema, ";") {
		_, after, found := strings.Cut(statement, "CREATE TABLE IF NOT EXISTS ")
		name, _, _ := strings.Cut(after, " ")
		if !found {
			continue
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+name); err != nil { //nolint:gosec // name is a word of the schema
			return err
		}
	}
	return nil
}

func (s *seeder) settings(c club) {
	s.add("orgs", c.org, c.name, "Europe/Madrid", "EUR")
	for _, kind := range []string{"b", "msg", "p"} {
		s.add("counters", c.org, kind, c.first+500)
	}
	surfaces := []string{"clay", "clay", "hard", "padel"}
	for n := 1; n <= c.courts; n++ {
		s.add("courts", c.org, n, fmt.Sprintf("Court %d", n), surfaces[n-1], n >= 3)
		for i, band := range bands() {
			s.add("prices", c.org, n, band, c.cents+200*(n-1)+300*i)
		}
	}
	for _, name := range weekdays() {
		opens, closes := c.opens, "22:00"
		if name == "saturday" || name == "sunday" {
			opens, closes = "09:00", "20:00"
		}
		s.add("hours", c.org, name, "2026-01-01", opens, closes)
	}
	s.add("closed_days", c.org, "2026-05-01", "club", "Labour Day")
	s.add("closed_days", c.org, "2026-12-25", "club", "Christmas")
	for i, v := range [][2]string{{"Ana Ruiz", "owner"}, {"Marco Sala", "manager"}, {"Lucy Hale", "coach"}, {"Ben Ortiz", "desk"}} {
		s.add("staff", c.org, fmt.Sprintf("s_%d", c.first+i+1), v[0], v[1])
	}
}

// people seeds the members. The first five are those that examples speak of; two of them share a first name.
func (s *seeder) people(c club) {
	known := []string{"Mia Torres", "Mia Tran", "Tom Becker", "Sara Lind", "Omar Haddad"}
	firsts := []string{"Alba", "Bruno", "Carla", "David", "Elena", "Felix", "Greta", "Hugo", "Ines", "Jonas", "Karin", "Leo", "Marta", "Nils", "Olga", "Pablo"}
	lasts := []string{"Abad", "Brandt", "Castro", "Dietz", "Esteve", "Fischer", "Garcia", "Hofer", "Iglesias", "Jensen", "Keller", "Lopez", "Moreno", "Nagel", "Ortega"}
	for _, v := range [][2]string{{"seg_everyone", "Everyone"}, {"seg_juniors", "Juniors"}, {"seg_seniors", "Seniors"}, {"seg_team", "League team"}} {
		s.add("segments", c.org, v[0], v[1])
	}
	levels := []string{"adult", "adult", "adult", "junior", "senior"}
	for i := range c.members {
		id, level := fmt.Sprintf("m_%d", c.first+101+i), levels[i%len(levels)]
		name := firsts[i%len(firsts)] + " " + lasts[(i/2)%len(lasts)]
		if i < len(known) {
			name, level = known[i], "adult"
		}
		domain, left := "members.example", ""
		if i%40 == 38 {
			domain = "bounce.example"
		}
		if i%29 == 28 {
			left = fmt.Sprintf("2026-%02d-15", 1+i%4)
		}
		email := fmt.Sprintf("%s.%d@%s", strings.ToLower(strings.ReplaceAll(name, " ", ".")), c.first+101+i, domain)
		s.add("members", c.org, id, name, email, level, fmt.Sprintf("202%d-%02d-01", i%6, 1+i%12), left)
		s.add("segment_members", c.org, "seg_everyone", id)
		switch {
		case level != "adult":
			s.add("segment_members", c.org, "seg_"+level+"s", id)
		case i%15 == 2:
			s.add("segment_members", c.org, "seg_team", id)
		}
	}
}

// calendar seeds two weeks of bookings, from Monday 4 May 2026. Sunday mornings stay free, and so does court 2 after 17:00.
func (s *seeder) calendar(c club) {
	n := c.first
	book := func(who int, b booking) {
		n++
		s.add("bookings", c.org, fmt.Sprintf("b_%d", n), fmt.Sprintf("m_%d", c.first+101+who), b.Court, b.Day, b.from, b.Minutes, "booked", b.Cents)
	}
	book(2, booking{Court: 1, Day: "2026-05-05", from: 18 * 60, Minutes: 60, Cents: c.cents + 600}) // Tom's lesson
	book(3, booking{Court: 3, Day: "2026-05-06", from: 10 * 60, Minutes: 90, Cents: (c.cents + 400) * 3 / 2})
	start := time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)
	for d := range 14 {
		t := start.AddDate(0, 0, d)
		for court := 1; court <= c.courts; court++ {
			for hour := 9; hour < 20; hour++ {
				evening, known := court == 2 && hour >= 17, d < 3 && (court == 1 && hour == 18 || court == 3 && hour < 13)
				if evening || known || t.Weekday() == time.Sunday && hour < 12 || (3*d+5*court+7*hour)%5 > 1 {
					continue
				}
				band := map[string]int{"weekday_morning": 0, "weekday_day": 300, "weekday_evening": 600, "weekend": 900}[bandOf(t, hour*60)]
				book(5+(d*31+court*17+hour*7)%(c.members-5), booking{
					Court: court, Day: t.Format(time.DateOnly), from: hour * 60, Minutes: 60, Cents: c.cents + 200*(court-1) + band,
				})
			}
		}
	}
}

// mail seeds one sent newsletter and one draft.
func (s *seeder) mail(c club) {
	id := fmt.Sprintf("msg_%d", c.first+1)
	s.add("messages", c.org, id, "seg_juniors", "Spring camp", "The spring camp of "+c.name+" begins on 6 April.", "sent", "2026-03-20T09:00:00Z")
	s.add("messages", c.org, fmt.Sprintf("msg_%d", c.first+2), "seg_team", "League start", "The league begins on 9 May at "+c.name+".", "draft", "")
	if s.err != nil {
		return
	}
	_, s.err = s.tx.ExecContext(s.ctx, `INSERT INTO deliveries SELECT m.org, ?, m.member, CASE WHEN m.email LIKE '%@bounce.example' THEN 'bounced' ELSE 'delivered' END
		FROM members m JOIN segment_members x ON x.org = m.org AND x.member = m.member WHERE m.org = ? AND x.segment = 'seg_juniors' AND m.left_on = ''`, id, c.org)
}

// lastDay is the number of days with figures.
const lastDay = 109

// joins and leaves are how many members come and go on the i-th day.
func joins(i int) int {
	if i%6 != 2 {
		return 0
	}
	return 1 + i/6%2
}

func leaves(i int) int {
	if i%17 != 11 {
		return 0
	}
	return 1
}

// figures seeds the nightly close of 1 January to 19 April 2026.
func (s *seeder) figures(c club) {
	active := c.members - c.members/29 // as many as there are members who have not left, on the last day
	for i := range lastDay {
		active -= joins(i) - leaves(i)
	}
	for i, t := 0, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC); i < lastDay; i, t = i+1, t.AddDate(0, 0, 1) {
		slots := 14 * c.courts
		courts, shop, fees := c.day+i*37+(i*911)%4_000, c.day/9+(i*677)%3_100, 0
		booked := slots*(45+(i*13)%20)/100 + i/40
		if t.Weekday() == time.Saturday || t.Weekday() == time.Sunday {
			slots = 11 * c.courts
			courts, booked = courts*3/2, slots*(70+(i*7)%15)/100
		}
		if t.Day() == 1 {
			fees = active * 4_900
		}
		active += joins(i) - leaves(i)
		s.add("figures", c.org, t.Format(time.DateOnly), courts, fees, shop, booked, slots, joins(i), leaves(i), active)
	}
}

// documents seeds what the club itself has written down; how the product works stands elsewhere.
func (s *seeder) documents(c club) {
	s.add("documents", c.org, "house-rules", "House rules", "Clay courts are brushed after every hour. Children under 12 play with an adult until 17:00. Each member of "+
		c.name+" may bring one guest a day, who pays 5 euros at the desk.")
	s.add("documents", c.org, "sauna", "Sauna", "The sauna of "+c.name+" is open to adults from 17:00 until half an hour before closing. Towels are needed, swimwear is not worn.")
	s.add("documents", c.org, "lost-property", "Lost property", "Things that are found are kept at the desk of "+c.name+" for four weeks and then given to the Red Cross.")
}

// site seeds the club's web pages and pictures: five pages that are published, and one that nobody has seen yet.
func (s *seeder) site(c club) {
	s.add("themes", c.org, "blue", "plain")
	pictures := []string{
		"Children at the summer camp, on the clay courts", "Court 1 in the evening light", "The league team after a win", "The sauna",
		"A coach with two juniors", "The terrace of the club house", "Summer camp: lunch under the trees", "The front desk",
	}
	for i, about := range pictures {
		s.add("images", c.org, fmt.Sprintf("img_%d", c.first+i+1), about, 1600, 900+100*(i%3))
	}
	for i, v := range [][3]string{
		{"home", c.name, "Welcome to " + c.name + ". Tennis and padel for everybody, since 1974."},
		{"opening-hours", "Opening hours", "We are open every day; see the hours of today at the door."},
		{"prices", "Prices", "An hour on court 1 costs from " + euros(c.cents) + "."},
		{"courts", "Our courts", fmt.Sprintf("We have %d courts.", c.courts)},
		{"contact", "Contact", "Come to the front desk of " + c.name + ", or call."},
	} {
		image := fmt.Sprintf("img_%d", c.first+i+2)
		s.add("pages", c.org, fmt.Sprintf("p_%d", c.first+i+1), v[0], v[1], v[2], image, v[1], v[2], image, 1, "2026-01-15T09:00:00Z")
	}
	s.add("pages", c.org, fmt.Sprintf("p_%d", c.first+6), "club-evening", "Club evening", "Food and music on the terrace.", "", "", "", "", 0, "")
}

// lessons seeds the weekly classes, and which members have an account of the chat.
func (s *seeder) lessons(c club) {
	for i, v := range []struct {
		name, weekday, coach string
		start, minutes       int
		places, taken        int
	}{
		{"Yoga", "tuesday", "Ines Garcia", 18 * 60, 60, 14, 9},
		{"Yoga", "thursday", "Ines Garcia", 9 * 60, 75, 14, 14},
		{"Tennis for beginners", "wednesday", "Lucy Hale", 17 * 60, 90, 8, 5},
		{"Padel evening", "friday", "Lucy Hale", 19 * 60, 120, 12, 7},
		{"Juniors", "saturday", "Hugo Keller", 10 * 60, 90, 16, 12},
	} {
		start := v.start
		if c.opens == "09:00" { // the smaller club begins an hour later
			start += 60
		}
		s.add("classes", c.org, fmt.Sprintf("c_%d", c.first+i+1), v.name, v.weekday, start, v.minutes, v.coach, v.places, v.taken)
	}
	for account, who := range c.accounts {
		s.add("accounts", c.org, account, fmt.Sprintf("m_%d", c.first+101+who))
	}
}
