package backoffice

import (
	"context"
	"fmt"
	"time"
)

// shopSchema holds everything by shop, which leads every key. The ledger has one row for each effect of a request, never
// one for what was seeded.
const shopSchema = `
CREATE TABLE IF NOT EXISTS shops (shop TEXT PRIMARY KEY, name TEXT NOT NULL, currency TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS customers (shop TEXT, customer TEXT, name TEXT NOT NULL, flagged INTEGER NOT NULL, PRIMARY KEY (shop, customer)) STRICT;
CREATE TABLE IF NOT EXISTS orders (shop TEXT, number TEXT, customer TEXT NOT NULL, status TEXT NOT NULL, paid INTEGER NOT NULL,
	delivered_at TEXT NOT NULL, PRIMARY KEY (shop, number)) STRICT;
CREATE TABLE IF NOT EXISTS refunds (shop TEXT, refund TEXT, number TEXT NOT NULL, amount INTEGER NOT NULL, status TEXT NOT NULL,
	key TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (shop, refund)) STRICT;
CREATE TABLE IF NOT EXISTS notices (shop TEXT, notice TEXT, number TEXT NOT NULL, text TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (shop, notice)) STRICT;
CREATE TABLE IF NOT EXISTS ledger (n INTEGER PRIMARY KEY, kind TEXT NOT NULL, shop TEXT NOT NULL, id TEXT NOT NULL, number TEXT NOT NULL,
	amount INTEGER NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL, at TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS kept (shop TEXT, name TEXT, digest TEXT NOT NULL, status INTEGER NOT NULL, body TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (shop, name)) STRICT;
`

// shopRoutes are those of the shops and of their payment provider.
func shopRoutes() []route {
	return []route{
		{"GET", "/orders/{order}", nil, getOrder},
		{"POST", "/orders/{order}/notify", nil, notifyCustomer},
		{"GET", "/refunds", []string{"order"}, listRefunds},
		{"POST", "/refunds", nil, bookRefund},
	}
}

type customer struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Flagged bool   `json:"flagged"` // the shop has reason to look twice
}

type order struct {
	Order     string   `json:"order"`
	Status    string   `json:"status"`       // paid | delivered | cancelled
	Currency  string   `json:"currency"`     // of all amounts
	Paid      int      `json:"paid"`         // cents; 0 where it was cancelled before
	Refunded  int      `json:"refunded"`     // cents, of paid
	Delivered string   `json:"delivered_at"` // "" until then
	Customer  customer `json:"customer"`
}

func (o *order) dest() []any {
	return []any{&o.Order, &o.Status, &o.Currency, &o.Paid, &o.Refunded, &o.Delivered, &o.Customer.ID, &o.Customer.Name, &o.Customer.Flagged}
}

// findOrder gives an order of the shop; one of another shop is not there.
func findOrder(ctx context.Context, c *call, number string) (order, error) {
	return one(ctx, c, missing("there is no order %q", number), (*order).dest, `SELECT o.number, o.status, s.currency, o.paid,
		(SELECT coalesce(sum(r.amount), 0) FROM refunds r WHERE r.shop = o.shop AND r.number = o.number), o.delivered_at, c.customer, c.name, c.flagged
		FROM orders o JOIN shops s ON s.shop = o.shop JOIN customers c ON c.shop = o.shop AND c.customer = o.customer
		WHERE o.shop = ? AND o.number = ?`, c.org, number)
}

func getOrder(ctx context.Context, c *call) (any, error) { return findOrder(ctx, c, c.path["order"]) }

// notifyCustomer writes to the customer of an order. What was written cannot be called back.
func notifyCustomer(ctx context.Context, c *call) (any, error) {
	var in struct{ Text string }
	if err := c.into(&in); err != nil {
		return nil, err
	}
	if err := between("text", in.Text, 1, 1000); err != nil {
		return nil, err
	}
	o, err := findOrder(ctx, c, c.path["order"])
	if err != nil {
		return nil, err
	}
	id, err := nextOf(ctx, c, "n", "notices")
	if err != nil {
		return nil, err
	}
	if _, err := change(ctx, c, `INSERT INTO notices (shop, notice, number, text, at) VALUES (?, ?, ?, ?, ?)`, c.org, id, o.Order, in.Text, c.now); err != nil {
		return nil, err
	}
	return map[string]any{"id": id, "order": o.Order, "to": o.Customer.Name}, record(ctx, c, Effect{Kind: "notice", ID: id, Order: o.Order})
}

// nextOf counts a shop's things of one kind, which are never deleted: r_1, r_2 and so on.
func nextOf(ctx context.Context, c *call, prefix, table string) (string, error) {
	var n int
	err := c.tx.QueryRowContext(ctx, "SELECT count(*) + 1 FROM "+table+" WHERE shop = ?", c.org).Scan(&n)
	if err != nil {
		return "", fmt.Errorf("count %s: %w", table, err)
	}
	return fmt.Sprintf("%s_%d", prefix, n), nil
}

// Order is an order as AddOrders takes it.
type Order struct {
	Number    string        // such as A-5001; the shops' own are below A-3000
	Paid      int           // cents
	Delivered time.Duration // how long before now; 0: not yet
}

// AddOrders gives a shop more orders of one customer who is not flagged, for tests that need many.
func (s *Server) AddOrders(ctx context.Context, shop string, orders ...Order) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("add orders to %s: %w", shop, err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	add := &seeder{ctx: ctx, tx: tx}
	for _, o := range orders {
		add.order(shop, s.now(), o, "c_1")
	}
	if add.err != nil {
		return fmt.Errorf("add orders to %s: %w", shop, add.err)
	}
	return tx.Commit()
}

const aDay = 24 * time.Hour

// shops seeds two shops. Their orders differ, so that a mix-up shows; those that examples speak of come first.
func (s *seeder) shops(now time.Time) {
	for _, shop := range []struct {
		id, name, currency string
		customers          []string // the third is flagged
		orders             []Order  // a negative time of delivery: cancelled
		who                []int    // the customer of each order, from 1
		refunded           map[string]int
	}{
		{
			"shop_eu", "Vela Outdoor", "EUR",
			[]string{"Lena Vogt", "Paul Marin", "Rita Sand", "Jon Bakke"},
			[]Order{
				{"A-1001", 8990, 3 * aDay},
				{"A-1002", 3990, 5 * aDay},
				{"A-1003", 6500, 45 * aDay},
				{"A-1004", 0, -1},
				{"A-1005", 7900, 10 * aDay},
				{"A-1006", 4500, 0},
				{"A-1007", 4200, 6 * aDay},
				{"A-1008", 24900, 12 * aDay},
			},
			[]int{1, 2, 4, 2, 4, 1, 3, 1},
			map[string]int{"A-1005": 5000},
		},
		{
			"shop_us", "Vela Outdoor US", "USD",
			[]string{"Grace Hill", "Sam Ortega", "Dee Fox"},
			[]Order{{"A-2001", 12900, 2 * aDay}, {"A-2002", 2990, 8 * aDay}, {"A-2003", 5900, 60 * aDay}, {"A-2004", 0, -1}, {"A-2210", 4800, 4 * aDay}},
			[]int{1, 2, 1, 3, 2},
			map[string]int{"A-2002": 1000},
		},
	} {
		s.add("shops", shop.id, shop.name, shop.currency)
		for i, name := range shop.customers {
			s.add("customers", shop.id, fmt.Sprintf("c_%d", i+1), name, i == 2)
		}
		for i, o := range shop.orders {
			s.order(shop.id, now, o, fmt.Sprintf("c_%d", shop.who[i]))
			if back := shop.refunded[o.Number]; back > 0 {
				s.add("refunds", shop.id, "r_1", o.Number, back, "done", "before-the-start", now.Add(-o.Delivered+aDay).UTC().Format(stamp))
			}
		}
	}
}

// order seeds one order of a customer.
func (s *seeder) order(shop string, now time.Time, o Order, customer string) {
	status, at := "delivered", now.Add(-o.Delivered).UTC().Format(stamp)
	switch {
	case o.Delivered < 0:
		status, at = "cancelled", ""
	case o.Delivered == 0:
		status, at = "paid", ""
	}
	s.add("orders", shop, o.Number, customer, status, o.Paid, at)
}
