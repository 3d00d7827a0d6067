package sim

import "slices"

// authTest is auth.test. Slack: https://docs.slack.dev/reference/methods/auth.test
func (w *Workspace) authTest(c *call) (map[string]any, error) {
	return map[string]any{
		"url": "https://" + w.o.Domain + ".slack.com/", "team": w.o.Name, "team_id": w.o.Team, "user": c.app.Name,
		"user_id": c.app.User, "bot_id": c.app.Bot, "app_id": c.app.ID, "is_enterprise_install": false,
	}, nil
}

// apiTest is api.test. Slack: https://docs.slack.dev/reference/methods/api.test
func (*Workspace) apiTest(c *call) (map[string]any, error) {
	return map[string]any{"args": c.args}, nil
}

// teamInfo is team.info. Slack: https://docs.slack.dev/reference/methods/team.info
func (w *Workspace) teamInfo(*call) (map[string]any, error) {
	return map[string]any{"team": map[string]any{"id": w.o.Team, "name": w.o.Name, "domain": w.o.Domain, "email_domain": "", "icon": map[string]any{}}}, nil
}

// botsInfo is bots.info. Slack: https://docs.slack.dev/reference/methods/bots.info
func (w *Workspace) botsInfo(c *call) (map[string]any, error) {
	for _, p := range w.people {
		if p.Bot != "" && p.Bot == c.str("bot") {
			return map[string]any{"bot": map[string]any{"id": p.Bot, "name": p.Name, "app_id": p.App, "user_id": p.ID, "deleted": false, "icons": map[string]any{}}}, nil
		}
	}
	return nil, fail("bot_not_found")
}

// wireUser is a person as Slack gives them out. Slack: https://docs.slack.dev/reference/objects/user-object
func wireUser(p *Person) map[string]any {
	return map[string]any{
		"id": p.ID, "team_id": p.Team, "name": p.Name, "real_name": p.Name, "deleted": false, "is_admin": p.Admin, "is_owner": false,
		"is_bot": p.Kind == Bot, "is_app_user": false, "is_restricted": p.Kind == Guest || p.Kind == SingleGuest,
		"is_ultra_restricted": p.Kind == SingleGuest, "is_stranger": p.Kind == Stranger, "tz": "Europe/Madrid", "updated": 1700000000,
		"profile": map[string]any{"real_name": p.Name, "display_name": p.Name, "team": p.Team, "bot_id": p.Bot, "api_app_id": p.App},
	}
}

// usersInfo is users.info. Slack: https://docs.slack.dev/reference/methods/users.info
func (w *Workspace) usersInfo(c *call) (map[string]any, error) {
	p := w.people[c.str("user")]
	if p == nil {
		return nil, fail("user_not_found")
	}
	return map[string]any{"user": wireUser(p)}, nil
}

// usersList is users.list. Slack: https://docs.slack.dev/reference/methods/users.list
func (w *Workspace) usersList(c *call) (map[string]any, error) {
	var all []map[string]any
	for _, id := range sorted(w.people) {
		all = append(all, wireUser(w.people[id]))
	}
	got, out, err := page(c, all, 1000, 1000)
	if err != nil {
		return nil, err
	}
	out["members"] = got
	return out, nil
}

// groupsList is usergroups.list. Slack: https://docs.slack.dev/reference/methods/usergroups.list
func (w *Workspace) groupsList(c *call) (map[string]any, error) {
	all := []any{}
	for _, id := range sorted(w.groups) {
		g := w.groups[id]
		one := map[string]any{"id": g.ID, "team_id": w.o.Team, "is_usergroup": true, "name": g.Handle, "handle": g.Handle, "date_delete": 0}
		if c.yes("include_users") {
			one["users"] = orEmpty(slices.Clone(g.Members))
		}
		if c.yes("include_count") {
			one["user_count"] = len(g.Members)
		}
		all = append(all, one)
	}
	return map[string]any{"usergroups": all}, nil
}

// groupUsers is usergroups.users.list. Slack: https://docs.slack.dev/reference/methods/usergroups.users.list
func (w *Workspace) groupUsers(c *call) (map[string]any, error) {
	g := w.groups[c.str("usergroup")]
	if g == nil {
		return nil, fail("no_such_subteam")
	}
	return map[string]any{"users": orEmpty(slices.Clone(g.Members))}, nil
}
