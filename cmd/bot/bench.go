package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"switchboard/llm"
	"switchboard/slack/sim"
)

type benchFlags struct {
	conversations int
	steady        time.Duration
	json          bool
}

// measured is what bot bench says of one measurement. Times are in milliseconds.
type measured struct {
	Name string  `json:"name"`
	N    int     `json:"n"`
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
	Max  float64 `json:"max_ms"`
	Lost int     `json:"lost"`
	MB   float64 `json:"memory_mb,omitempty"` // the most that the bot's process held
}

func benchCommand(s streams) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the bot on this machine, through a simulated Slack",
		Long: `Measure the bot on this machine, through a simulated Slack.

The bot runs as a process of its own on a store on disk; Slack and the language model are simulated on this machine, so what is
measured is the bot and not the network. A bare program that makes the same calls and keeps nothing is measured beside it.`,
		Example: "bot bench",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.conversations < 1 || f.conversations > 5000 || f.steady < time.Second || f.steady > time.Hour {
				return usage("--conversations takes 1 to 5000, --steady 1s to 1h")
			}
			return runBench(cmd.Context(), f, s)
		},
	}
	cmd.Flags().IntVar(&f.conversations, "conversations", 500, "how many at once")
	cmd.Flags().DurationVar(&f.steady, "steady", 20*time.Second, "how long 25 events a second are sent")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object a line")
	return cmd
}

func runBench(ctx context.Context, f benchFlags, s streams) error {
	say := func(m measured, err error) error {
		if err != nil {
			return fmt.Errorf("measure %s: %w", m.Name, err)
		}
		if f.json {
			return printJSON(s.out, m)
		}
		out := page{w: s.out}
		out.print("%-52s %5d  p50 %7.1f ms  p99 %7.1f ms  max %7.1f ms  lost %d", m.Name, m.N, m.P50, m.P99, m.Max, m.Lost)
		if m.MB > 0 {
			out.print("  memory %.0f MB", m.MB)
		}
		out.print("\n")
		return out.err
	}
	for _, one := range []func(context.Context, benchFlags) (measured, error){benchSteady, benchBurst, benchBare, benchOff, benchOn} {
		if err := say(one(ctx, f)); err != nil {
			return err
		}
	}
	return nil
}

// eventsOf is how many events a message that mentions the bot makes: app_mention and message.
const eventsOf = 2

// benchSteady sends 25 events a second and measures how long each waits to be acknowledged.
func benchSteady(ctx context.Context, f benchFlags) (measured, error) {
	return benchAcks(ctx, "acknowledge, 25 events a second", int(f.steady.Seconds()*25/eventsOf), time.Second*eventsOf/25)
}

// benchBurst sends 500 events within a second.
func benchBurst(ctx context.Context, _ benchFlags) (measured, error) {
	return benchAcks(ctx, "acknowledge, a burst of 500 events a second", 500/eventsOf, time.Second*eventsOf/500)
}

func benchAcks(ctx context.Context, name string, n int, every time.Duration) (m measured, err error) {
	m.Name = name
	r, err := startRig(ctx, rigOptions{channels: 20, people: 20, latency: 300 * time.Millisecond})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, r.end()) }()
	from := r.ws.Mark()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := range n {
		if err := r.say(i, i); err != nil {
			return m, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return m, context.Cause(ctx)
		}
	}
	lost, err := r.answered(ctx, from, n)
	if err != nil {
		return m, err
	}
	return m.of(acks(r.ws.Since(from)), lost), nil
}

// acks gives the time from each event to its acknowledgement, of those that were acknowledged at the first try.
func acks(log []sim.Entry) []time.Duration {
	sent, waits := map[string]time.Time{}, []time.Duration{}
	for _, e := range log {
		switch at, ok := sent[e.Delivery]; {
		case e.What == sim.Sent && e.Attempt == 0 && strings.HasPrefix(e.Method, "event"):
			sent[e.Delivery] = e.At
		case e.What == sim.Missed:
			delete(sent, e.Delivery) // it comes again, and is another wait
		case e.What == sim.Acked && ok:
			waits = append(waits, e.At.Sub(at))
			delete(sent, e.Delivery)
		}
	}
	return waits
}

func benchOff(ctx context.Context, f benchFlags) (measured, error) {
	return benchTurns(ctx, fmt.Sprintf("%d conversations at once, Slack's limits off", f.conversations), f.conversations, false)
}

func benchOn(ctx context.Context, f benchFlags) (measured, error) {
	return benchTurns(ctx, fmt.Sprintf("%d conversations at once, Slack's limits on", f.conversations), f.conversations, true)
}

// benchTurns says one message in each of n threads and measures how long each waits for its whole answer.
func benchTurns(ctx context.Context, name string, n int, limits bool) (m measured, err error) {
	m.Name = name
	r, err := startRig(ctx, rigOptions{channels: 100, people: 50, latency: 300 * time.Millisecond, limits: limits})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, r.end()) }()
	from := r.ws.Mark()
	for i := range n {
		if err := r.say(i, i); err != nil {
			return m, err
		}
	}
	lost, err := r.answered(ctx, from, n)
	if err != nil {
		return m, err
	}
	most, _, err := r.memory()
	m.MB = float64(most) / (1 << 20)
	return m.of(r.turns(from), lost), err
}

// startRig builds a rig with a bot that serves.
func startRig(ctx context.Context, o rigOptions) (*rig, error) {
	r, err := newRig(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := r.start(ctx); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// end stops the bot and takes the world down.
func (r *rig) end() error { return errors.Join(r.stop(), r.close()) }

// say lets somebody mention the bot, with a mark of its own.
func (r *rig) say(n, channel int) error {
	_, err := r.ws.Say(sim.Say{
		From: personOf(n % r.o.people), Channel: channelOf(channel % r.o.channels), Text: fmt.Sprintf("<@%s> read row 1, m%d", botUser, n),
	})
	if err != nil {
		return fmt.Errorf("say message %d: %w", n, err)
	}
	return nil
}

// whole is how the stand-in ends its answers.
const whole = "nothing else to say of it."

// answered waits until n messages have their whole answer, or none got one for a while, and says how many have none.
func (r *rig) answered(ctx context.Context, from, n int) (lost int, err error) {
	const patience = 30 * time.Second
	seen := map[string]bool{}
	news := func(e sim.Entry) bool {
		before := len(seen)
		if e.App != "" && strings.Contains(e.Text, whole) {
			for _, m := range mark.FindAllString(e.Text, -1) {
				seen[m] = true
			}
		}
		return len(seen) > before
	}
	for len(seen) < n {
		quiet, cancel := context.WithTimeout(ctx, patience)
		e, err := r.ws.Await(quiet, from, news)
		cancel()
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if err != nil { // what is missing is lost
			return n - len(seen), nil //nolint:nilerr // only patience is over
		}
		from = e.N
	}
	return 0, nil
}

// turns gives the time from each message to its whole answer.
func (r *rig) turns(from int) []time.Duration {
	said, out := map[string]time.Time{}, []time.Duration{}
	for _, e := range r.ws.Since(from) {
		for _, m := range mark.FindAllString(e.Text, -1) {
			at, ok := said[m]
			switch {
			case e.What == sim.Said:
				said[m] = e.At
			case ok && e.App != "" && strings.Contains(e.Text, whole):
				out = append(out, e.At.Sub(at))
				delete(said, m)
			}
		}
	}
	return out
}

// of fills in what the times say.
func (m measured) of(times []time.Duration, lost int) measured {
	m.N, m.Lost = len(times), lost
	if len(times) == 0 {
		return m
	}
	slices.Sort(times)
	at := func(p float64) float64 {
		return float64(times[min(int(p*float64(len(times))), len(times)-1)].Microseconds()) / 1000
	}
	m.P50, m.P99, m.Max = at(0.50), at(0.99), at(1)
	return m
}

// benchBare is the bare program: the same calls of the same model and tool, one post, nothing kept, checked or shown.
func benchBare(ctx context.Context, f benchFlags) (m measured, err error) {
	m.Name = fmt.Sprintf("%d conversations at once, the bare program", f.conversations)
	r, err := newRig(ctx, rigOptions{channels: 100, people: 50, latency: 300 * time.Millisecond})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	transport := llm.NewTransport()
	defer transport.CloseIdleConnections()
	model, err := llm.Open(llm.Options{Provider: "openai", ID: "bench", BaseURL: r.model.url + "/v1", Key: "bench", Output: 1024, HTTP: transport})
	if err != nil {
		return m, err
	}
	b := bare{rig: r, model: model, client: &http.Client{Transport: transport}}
	times, errs := make([]time.Duration, f.conversations), make([]error, f.conversations)
	var work sync.WaitGroup
	for i := range f.conversations {
		work.Go(func() {
			began := time.Now()
			errs[i] = b.answer(ctx, i)
			times[i] = time.Since(began)
		})
	}
	work.Wait()
	return m.of(times, 0), errors.Join(errs...)
}

type bare struct {
	rig    *rig
	model  llm.Model
	client *http.Client
}

// answer answers one message.
func (b bare) answer(ctx context.Context, n int) error {
	tool := llm.Tool{Name: "rows.get", About: "Read one row.", Schema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"}}}`)}
	turns := []llm.Turn{{Role: llm.User, Text: fmt.Sprintf("read row 1, m%d", n)}}
	route := &llm.Schema{Name: "route", JSON: json.RawMessage(`{"type":"object"}`)}
	if _, err := b.model.Do(ctx, llm.Request{System: "Route.", Turns: turns, Schema: route}); err != nil {
		return err
	}
	r, err := b.model.Do(ctx, llm.Request{System: "Answer.", Turns: turns, Tools: []llm.Tool{tool}})
	if err != nil || len(r.Calls) == 0 {
		return errors.Join(err, errors.New("the stand-in asked for nothing"))
	}
	row, err := b.fetch(ctx, http.MethodGet, b.rig.model.url+"/rows?id=1", nil)
	if err != nil {
		return err
	}
	turns = append(turns, llm.Turn{Role: llm.Assistant, Calls: r.Calls}, llm.Turn{Role: llm.Results, Results: []llm.Result{{ID: r.Calls[0].ID, Name: "rows.get", Text: row}}})
	if r, err = b.model.Do(ctx, llm.Request{System: "Answer.", Turns: turns, Tools: []llm.Tool{tool}}); err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{"channel": channelOf(n % b.rig.o.channels), "text": r.Text})
	if err != nil {
		return err
	}
	_, err = b.fetch(ctx, http.MethodPost, b.rig.slack.APIURL()+"chat.postMessage", body)
	return err
}

func (b bare) fetch(ctx context.Context, method, url string, body []byte) (text string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+rigBotToken)
	resp, err := b.client.Do(req)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return string(data), errors.Join(err, resp.Body.Close())
}
