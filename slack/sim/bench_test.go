package sim_test

import (
	"context"
	"testing"

	"github.com/gorilla/websocket"

	"switchboard/slack/sim"
)

// BenchmarkMention is what the workspace itself costs for a mention: two events over a socket, and their acknowledgements.
func BenchmarkMention(b *testing.B) {
	w := sim.New(sim.Options{Seed: 1, Keep: 1000})
	s, err := sim.Start(context.Background(), w, "")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	w.AddPerson(sim.Person{ID: anas, Name: "ana"})
	a := w.AddApp(sim.App{ID: "A0BOT", BotToken: bot, AppToken: app})
	w.AddChannel(sim.Channel{ID: hall, Name: "hall", Members: []string{anas, a.User}})
	x := &world{Workspace: w, s: s}
	_, body, err := x.requestFrom(b.Context(), "apps.connections.open", app, nil)
	if err != nil {
		b.Fatal(err)
	}
	conn, res, err := websocket.DefaultDialer.DialContext(b.Context(), str(decoded(b, body), "url"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _, _ = conn.Close(), res.Body.Close() }()
	var f struct {
		Envelope string `json:"envelope_id"`
	}
	if err := conn.ReadJSON(&f); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Say(sim.Say{From: anas, Channel: hall, Text: "<@" + a.User + "> hello, how are you?"}); err != nil {
			b.Fatal(err)
		}
		for range 2 {
			if err := conn.ReadJSON(&f); err != nil {
				b.Fatal(err)
			}
			if err := conn.WriteJSON(map[string]string{"envelope_id": f.Envelope}); err != nil {
				b.Fatal(err)
			}
		}
	}
}
