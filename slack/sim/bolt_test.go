package sim_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"switchboard/slack/sim"
)

const boltDir = "testdata/bolt"

// startBolt starts the app and gives the rest of the line that says that it is ready. It ends with the test.
func startBolt(t *testing.T, w *world, mode string) string {
	t.Helper()
	_, noNode := exec.LookPath("node")
	_, noPackages := os.Stat(filepath.Join(boltDir, "node_modules", "@slack", "bolt"))
	if noNode != nil || noPackages != nil {
		const why = "Slack's own SDK is not there (%v, %v): run `make deps`"
		if os.Getenv("CI") != "" {
			t.Fatalf(why, noNode, noPackages)
		}
		t.Skipf(why, noNode, noPackages)
	}
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join(boltDir, "app.js"))
	cmd.Env = append(os.Environ(), "MODE="+mode, "API_URL="+w.s.APIURL(), "BOT_TOKEN="+bot, "APP_TOKEN="+app, "SIGNING_SECRET=shh")
	out, to := io.Pipe()
	cmd.Stdout, cmd.Stderr = to, to
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(ready)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if rest, ok := strings.CutPrefix(lines.Text(), "ready"); ok {
				ready <- strings.TrimSpace(rest)
			} else {
				t.Log("the app says: " + lines.Text())
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		_ = to.Close()
		<-ended
	})
	select {
	case rest, ok := <-ready:
		if !ok {
			t.Fatal("the app ended before it was ready")
		}
		return rest
	case <-time.After(30 * time.Second):
		t.Fatal("the app does not come up")
		return ""
	}
}

// TestOfficialSDK lets an app on Slack's own SDK work in the workspace: what the SDK takes for Slack is like Slack.
func TestOfficialSDK(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"socket", "http"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := open(t, func(o *sim.Options, _ *sim.App) {
				o.Now = time.Now // the SDK compares the time of signatures with its own clock
				o.Times.Ack = 10 * time.Second
			})
			at := startBolt(t, w, mode)
			if mode == "http" {
				a := w.app
				a.EventsURL = at
				w.AddApp(a)
				if err := w.Verify(t.Context(), a.ID); err != nil {
					t.Fatal(err)
				}
			}
			w.playBolt()
		})
	}
}

// playBolt does with the app what people do.
func (w *world) playBolt() {
	t := w.t
	t.Helper()
	mark := w.Mark()
	root := w.say("<@U0BOT> count")
	press := w.await(mark, sim.Updated, func(e sim.Entry) bool { return e.Method == "chat.update" })
	if press.Thread != root || press.Text != "Open" {
		t.Errorf("updated post: %+v", press)
	}
	done := w.await(mark, sim.Stopped)
	if want := "**one** two three\ncounted"; done.Text != want || done.Thread != root || done.Message.Metadata == nil {
		t.Errorf("streamed %q, want %q (%+v)", done.Text, want, done.Message)
	}

	mark = w.Mark()
	if _, err := w.Click(sim.Click{From: anas, Channel: hall, TS: press.TS, Action: "open", Value: "v1"}); err != nil {
		t.Fatal(err)
	}
	view := w.await(mark, sim.ViewOpened).View
	if view.Person != anas || view.Callback != "form" || !strings.Contains(string(view.Body), "Form v1") {
		t.Errorf("view %+v", view)
	}
	for name, want := range map[string]string{"al": "too short"} {
		mark = w.Mark()
		if _, err := w.SubmitView(sim.Submit{From: anas, View: view.ID, Values: named(name)}); err != nil {
			t.Fatal(err)
		}
		if got := w.await(mark, sim.ViewOpened).View.Errors["name"]; got != want {
			t.Errorf("submitted %s: error %q, want %q", name, got, want)
		}
	}
	mark = w.Mark()
	if _, err := w.SubmitView(sim.Submit{From: anas, View: view.ID, Values: named("alice")}); err != nil {
		t.Fatal(err)
	}
	if got := w.await(mark, sim.ViewOpened).View; !strings.Contains(string(got.Body), "Thanks alice") || got.ID != view.ID {
		t.Errorf("view after the submission: %+v", got)
	}

	mark = w.Mark()
	if _, err := w.Slash(sim.Command{From: anas, Channel: hall, Command: "/count", Text: "3"}); err != nil {
		t.Fatal(err)
	}
	if e := w.await(mark, sim.Whispered); e.Text != "counting 3" {
		t.Errorf("command's answer %q", e.Text)
	}
	if e := w.await(mark, sim.Posted); e.Text != "counted 3" {
		t.Errorf("command's answer over its URL %q", e.Text)
	}

	if err := w.OpenHome(sim.Visit{From: anas}); err != nil {
		t.Fatal(err)
	}
	if e := w.await(mark, sim.ViewOpened); e.View.Kind != "home" || e.Text != "Hello <@U0ANA>" {
		t.Errorf("home %+v", e)
	}
	for _, e := range w.Log() {
		if e.What == sim.Refused || e.What == sim.GivenUp {
			t.Errorf("%s %s: %s", e.What, e.Method, e.Error)
		}
	}
}

func named(s string) map[string]map[string]json.RawMessage {
	b, _ := json.Marshal(s) // a text can always be written
	return map[string]map[string]json.RawMessage{"name": {"it": b}}
}
