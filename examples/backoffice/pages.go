package backoffice

import (
	"context"
	"regexp"
)

// page is what the club's web site shows under one address. What is written goes into a draft; publishing shows it.
type page struct {
	Page      string `json:"page"`
	Address   string `json:"address"`
	Title     string `json:"title"`
	Text      string `json:"text"`
	Image     string `json:"image"`
	Status    string `json:"status"`  // draft | changed | published
	Version   int    `json:"version"` // how often it was published
	Published string `json:"published_at"`
}

func (p *page) dest() []any {
	return []any{&p.Page, &p.Address, &p.Title, &p.Text, &p.Image, &p.Status, &p.Version, &p.Published}
}

const pageColumns = `SELECT page, '/' || slug, title, text, image, CASE WHEN version = 0 THEN 'draft'
	WHEN title = live_title AND text = live_text AND image = live_image THEN 'published' ELSE 'changed' END, version, published_at FROM pages `

type pageRow struct {
	Page    string `json:"page"`
	Address string `json:"address"`
	Title   string `json:"title"`
	Status  string `json:"status"`
}

func listPages(ctx context.Context, c *call) (any, error) {
	all, err := rows(ctx, c, (*page).dest, pageColumns+`WHERE org = ? ORDER BY page`, c.org)
	short := make([]pageRow, len(all))
	for i, p := range all {
		short[i] = pageRow{p.Page, p.Address, p.Title, p.Status}
	}
	return list[pageRow]{short}, err
}

func findPage(ctx context.Context, c *call) (page, error) {
	return one(ctx, c, missing("there is no page %q", c.path["page"]), (*page).dest, pageColumns+`WHERE org = ? AND page = ?`, c.org, c.path["page"])
}

func getPage(ctx context.Context, c *call) (any, error) { return findPage(ctx, c) }

// slugForm is the last part of a page's address.
var slugForm = regexp.MustCompile(`^[a-z][a-z0-9-]{1,39}$`)

func createPage(ctx context.Context, c *call) (any, error) {
	var in struct{ Slug, Title, Text string }
	if err := c.into(&in); err != nil {
		return nil, err
	}
	if !slugForm.MatchString(in.Slug) {
		return nil, bad("slug must be 2 to 40 small letters, digits or -, like summer-camp")
	}
	if err := pageWording(in.Title, in.Text); err != nil {
		return nil, err
	}
	taken, err := exists(ctx, c, `SELECT count(*) FROM pages WHERE org = ? AND slug = ?`, c.org, in.Slug)
	if err != nil {
		return nil, err
	}
	if taken {
		return nil, conflict("there is a page at /%s already", in.Slug)
	}
	id, err := nextID(ctx, c, "p")
	if err != nil {
		return nil, err
	}
	_, err = change(ctx, c, `INSERT INTO pages (org, page, slug, title, text, image, live_title, live_text, live_image, version, published_at)
		VALUES (?, ?, ?, ?, ?, '', '', '', '', 0, '')`, c.org, id, in.Slug, in.Title, in.Text)
	return pageRow{id, "/" + in.Slug, in.Title, "draft"}, err
}

func pageWording(title, text string) error {
	if err := between("title", title, 1, 120); err != nil {
		return err
	}
	return between("text", text, 1, 8000)
}

// updatePage changes the draft; who reads the site sees it once it is published.
func updatePage(ctx context.Context, c *call) (any, error) {
	var in struct{ Title, Text *string }
	if err := c.into(&in); err != nil {
		return nil, err
	}
	old, err := findPage(ctx, c)
	if err != nil {
		return nil, err
	}
	if in.Title == nil && in.Text == nil {
		return nil, bad("title or text is needed")
	}
	title, text := old.Title, old.Text
	if in.Title != nil {
		title = *in.Title
	}
	if in.Text != nil {
		text = *in.Text
	}
	if err := pageWording(title, text); err != nil {
		return nil, err
	}
	if _, err := change(ctx, c, `UPDATE pages SET title = ?, text = ? WHERE org = ? AND page = ?`, title, text, c.org, old.Page); err != nil {
		return nil, err
	}
	now, err := findPage(ctx, c)
	return map[string]any{"page": now.Page, "status": now.Status, "old_title": old.Title, "title": now.Title, "old_text": old.Text, "text": now.Text}, err
}

func publishPage(ctx context.Context, c *call) (any, error) {
	if err := c.into(&struct{}{}); err != nil {
		return nil, err
	}
	p, err := findPage(ctx, c)
	if err != nil {
		return nil, err
	}
	if p.Status == "published" {
		return nil, conflict("nothing on page %s has changed since it was published at %s", p.Page, p.Published)
	}
	_, err = change(ctx, c, `UPDATE pages SET live_title = title, live_text = text, live_image = image, version = version + 1, published_at = ?
		WHERE org = ? AND page = ?`, c.now, c.org, p.Page)
	return map[string]any{"page": p.Page, "address": p.Address, "status": "published", "version": p.Version + 1, "published_at": c.now}, err
}

func placeImage(ctx context.Context, c *call) (any, error) {
	var in struct{ Image string }
	if err := c.into(&in); err != nil {
		return nil, err
	}
	old, err := findPage(ctx, c)
	if err != nil {
		return nil, err
	}
	known, err := exists(ctx, c, `SELECT count(*) FROM images WHERE org = ? AND image = ?`, c.org, in.Image)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, missing("there is no image %q", in.Image)
	}
	if _, err := change(ctx, c, `UPDATE pages SET image = ? WHERE org = ? AND page = ?`, in.Image, c.org, old.Page); err != nil {
		return nil, err
	}
	now, err := findPage(ctx, c)
	return map[string]any{"page": now.Page, "status": now.Status, "old_image": old.Image, "image": now.Image}, err
}

type image struct {
	Image  string `json:"image"`
	About  string `json:"about"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
}

func (i *image) dest() []any { return []any{&i.Image, &i.About, &i.Width, &i.Height} }

// searchImages looks in what is written about the club's own pictures; ten at most.
func searchImages(ctx context.Context, c *call) (any, error) {
	if err := between("q", c.query["q"], 1, 100); err != nil {
		return nil, err
	}
	all, err := rows(ctx, c, (*image).dest, `SELECT image, about, width, height FROM images
		WHERE org = ? AND about LIKE ? ESCAPE '\' ORDER BY image LIMIT 10`, c.org, like(c.query["q"]))
	if err == nil && len(all) == 0 {
		err = missing("no image of the club matches %q", c.query["q"])
	}
	return list[image]{all}, err
}

type theme struct {
	Colour string `json:"colour"`
	Font   string `json:"font"`
}

func (v *theme) dest() []any { return []any{&v.Colour, &v.Font} }

// setTheme changes how the whole site looks, at once: there is no draft of it.
func setTheme(ctx context.Context, c *call) (any, error) {
	var in theme
	if err := c.into(&in); err != nil {
		return nil, err
	}
	if err := oneOf("colour", in.Colour, "blue", "green", "clay", "dark"); err != nil {
		return nil, err
	}
	if err := oneOf("font", in.Font, "plain", "serif", "round"); err != nil {
		return nil, err
	}
	old, err := one(ctx, c, missing("there is no site yet"), (*theme).dest, `SELECT colour, font FROM themes WHERE org = ?`, c.org)
	if err != nil {
		return nil, err
	}
	_, err = change(ctx, c, `UPDATE themes SET colour = ?, font = ? WHERE org = ?`, in.Colour, in.Font, c.org)
	return map[string]any{"old": old, "new": in}, err
}
