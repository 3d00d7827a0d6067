package backoffice

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPagesAreShownOnlyWhenTheyArePublishedAndOnlyOnce(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	create := `{"org":"org_7","slug":"summer-camp","title":"Summer camp","text":"In July."}`
	made := c.get("POST /pages", create, "Idempotency-Key: k1")
	if again := c.get("POST /pages", create, "Idempotency-Key: k1"); !cmp.Equal(made, again) {
		t.Errorf("the same key gave %v and %v", made, again)
	}
	if status, answer := c.do("POST /pages", create); status != 409 || !strings.Contains(answer, "/summer-camp already") {
		t.Errorf("a second page of the address: %d %s", status, answer)
	}
	path := "/pages/" + made["page"].(string)
	live := "org = 'org_7' AND slug = 'summer-camp' AND live_title = 'Summer camp' AND live_image = 'img_7001'"
	placed := c.get("PUT "+path+"/image", `{"org":"org_7","image":"img_7001"}`)
	if placed["status"] != "draft" || placed["old_image"] != "" || c.count("pages", live) != 0 {
		t.Errorf("a picture in a draft is shown: %v", placed)
	}
	publish := `{"org":"org_7"}`
	shown := c.get("POST "+path+"/publish", publish, "Idempotency-Key: k2")
	if shown["version"] != 1.0 || shown["address"] != "/summer-camp" || c.count("pages", live) != 1 {
		t.Errorf("published: %v", shown)
	}
	c.get("POST "+path+"/publish", publish, "Idempotency-Key: k2")
	if status, answer := c.do("POST "+path+"/publish", publish); status != 409 || !strings.Contains(answer, "nothing on page") {
		t.Errorf("publishing what is published: %d %s", status, answer)
	}
	changed := c.get("PUT "+path, `{"org":"org_7","text":"In August."}`)
	if changed["status"] != "changed" || changed["old_text"] != "In July." || changed["title"] != "Summer camp" || c.count("pages", live+" AND live_text = 'In July.'") != 1 {
		t.Errorf("a change is shown before it is published: %v", changed)
	}
	if got := c.get("POST "+path+"/publish", publish, "Idempotency-Key: k3"); got["version"] != 2.0 {
		t.Errorf("published again: %v", got)
	}
}

func TestThemeAndPicturesAreTheClubsOwn(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	got := c.get("PUT /theme", `{"org":"org_7","colour":"clay","font":"serif"}`)
	want := map[string]any{"old": map[string]any{"colour": "blue", "font": "plain"}, "new": map[string]any{"colour": "clay", "font": "serif"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("theme (-want +got):\n%s", diff)
	}
	if n := c.count("themes", "org = 'org_9' AND colour = 'blue'"); n != 1 {
		t.Error("the other club looks otherwise too")
	}
	for line, says := range map[string]string{
		"PUT /pages/p_7001/image": "no image", "PUT /pages/p_9001/image": "no page", "POST /pages/p_9006/publish": "no page",
	} {
		body := `{"org":"org_7","image":"img_9001"}`
		if strings.HasSuffix(line, "publish") {
			body = `{"org":"org_7"}`
		}
		if status, answer := c.do(line, body); status != 404 || !strings.Contains(answer, says) {
			t.Errorf("%s of the other club: %d %s", line, status, answer)
		}
	}
	if rows := c.get("GET /images?org=org_9&q=camp", "")["rows"].([]any); len(rows) != 2 || rows[0].(map[string]any)["image"] != "img_9001" {
		t.Errorf("pictures: %v", rows)
	}
	for _, body := range []string{`{"org":"org_7","colour":"pink","font":"serif"}`, `{"org":"org_7","colour":"blue"}`} {
		if status, _ := c.do("PUT /theme", body); status != 400 {
			t.Errorf("%s gave status %d", body, status)
		}
	}
}

func TestMembersReachOnlyWhatIsTheirs(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	if got := c.get("GET /accounts/U0MIA?org=org_7", ""); got["id"] != "m_7101" || got["name"] != "Mia Torres" {
		t.Errorf("the account of Mia: %v", got)
	}
	for _, line := range []string{"GET /accounts/U0MIA?org=org_9", "GET /accounts/U0OMAR?org=org_7", "GET /accounts/U0ANA?org=org_7"} {
		if status, answer := c.do(line, ""); status != 404 {
			t.Errorf("%s: %d %s", line, status, answer)
		}
	}
	mine := func(from string) []any {
		return c.get("GET /my/bookings?org=org_7&member=m_7103&from="+from, "")["rows"].([]any)
	}
	if rows := mine("2026-05-04"); len(rows) != 1 || rows[0].(map[string]any)["booking"] != "b_7001" {
		t.Errorf("Tom's bookings: %v", rows)
	}
	if rows := mine("2026-05-06"); len(rows) != 0 {
		t.Errorf("what was before is listed: %v", rows)
	}
	if status, answer := c.do("DELETE /my/bookings/b_7002?org=org_7&member=m_7103", ""); status != 404 || !strings.Contains(answer, "no booking") {
		t.Errorf("cancelling somebody else's: %d %s", status, answer)
	}
	if n := c.count("bookings", "booking = 'b_7002' AND status = 'booked'"); n != 1 {
		t.Error("somebody else's booking is cancelled")
	}
	b := c.get("POST /my/bookings", `{"org":"org_7","member":"m_7103","court":2,"day":"2026-05-10","start":"10:00"}`, "Idempotency-Key: k1")
	if b["name"] != "Tom Becker" || len(mine("2026-05-04")) != 2 {
		t.Errorf("booked: %v", b)
	}
	c.get("DELETE /my/bookings/"+b["booking"].(string)+"?org=org_7&member=m_7103", "")
	if len(mine("2026-05-04")) != 1 {
		t.Error("a cancelled booking is listed")
	}
	if _, err := c.s.Exec(t.Context(), `UPDATE members SET left_on = '2026-04-01' WHERE org = 'org_7' AND member = 'm_7103'`); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"GET /accounts/U0TOM?org=org_7", "GET /my/bookings?org=org_7&member=m_7103&from=2026-05-04", "GET /my/slots?org=org_7&member=m_7103&day=2026-05-10"} {
		if status, answer := c.do(line, ""); status != 404 {
			t.Errorf("%s of somebody who left: %d %s", line, status, answer)
		}
	}
}

func TestHoursAndClassesForMembers(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	got := c.get("GET /club/hours?org=org_7&day=2026-05-01", "")
	want := map[string]any{
		"day": "2026-05-01", "weekday": "friday", "opens": "08:00", "closes": "22:00",
		"closed": []any{map[string]any{"area": "club", "reason": "Labour Day"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hours (-want +got):\n%s", diff)
	}
	rows := c.get("GET /club/classes?org=org_7&q=yoga", "")["rows"].([]any)
	if len(rows) != 2 || rows[0].(map[string]any)["start"] != "18:00" || rows[1].(map[string]any)["free_places"] != 0.0 {
		t.Errorf("classes: %v", rows)
	}
	for line, status := range map[string]int{"GET /club/classes?org=org_7&q=boxing": 404, "GET /club/classes?org=org_7&weekday=someday": 400, "GET /club/hours?org=org_7": 400} {
		if got, answer := c.do(line, ""); got != status {
			t.Errorf("%s: %d %s, want %d", line, got, answer, status)
		}
	}
}

func TestFaultsMeetTheNewDoorsToo(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	c.fault(Fault{Match: "GET /accounts/{account}", Kind: FaultUnavailable, Times: 2})
	c.fault(Fault{Match: "POST /pages/{page}/publish", Kind: FaultMalformed})
	for _, want := range []int{503, 503, 200} {
		if status, answer := c.do("GET /accounts/U0TOM?org=org_7", ""); status != want {
			t.Errorf("status %d %s, want %d", status, answer, want)
		}
	}
	c.do("POST /pages/p_7006/publish", `{"org":"org_7"}`)
	if n := c.count("pages", "page = 'p_7006' AND version = 1"); n != 1 {
		t.Error("a cut answer must not undo the work")
	}
}
