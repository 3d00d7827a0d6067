package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"switchboard/chat"
	"switchboard/config"
)

// diagnosis is what bot doctor finds, for programs.
type diagnosis struct {
	OK      bool     `json:"ok"`    // nothing needs a person
	Store   string   `json:"store"` // sqlite | redis
	Promise string   `json:"promise"`
	Queued  int      `json:"queued"`  // items, in all threads
	Threads []queue  `json:"threads"` // the longest waiting first, at most mostThreads
	Stale   int64    `json:"stale"`   // writes refused because their lease was lost, ever
	Unknown []doubt  `json:"unknown"` // effects that nobody knows the outcome of
	Waiting []doubt  `json:"waiting"` // decisions that are open
	Needs   []string `json:"needs"`   // what a person has to do
}

// queue is a thread in which something waits.
type queue struct {
	Thread   string `json:"thread"`
	Items    int    `json:"items"`
	Epoch    int64  `json:"epoch"`     // 0: not known from outside, or never leased
	LeasedMS int64  `json:"leased_ms"` // how long its lease still runs; 0: nobody has it, or it is not known from outside
}

// doubt is an open decision with its age.
type doubt struct {
	waiting
	AgeS    int64 `json:"age_s"`
	Overdue bool  `json:"overdue"` // its time is over, and nobody has closed it
}

// mostThreads is how many queues are listed.
const mostThreads = 50

// overdueBy is how long after its time a decision should be closed at the latest, where a bot is at work.
const overdueBy = time.Minute

func doctorCommand(s streams, env config.Environ) *cobra.Command {
	var (
		asJSON bool
		pack   string
	)
	cmd := &cobra.Command{
		Use:   "doctor [PACK]",
		Short: "Say how the bot's store is, what is queued, and what needs a person",
		Long: `Say how the bot's store is: what it promises, what is queued and who has it, which writes of stale workers were refused,
which effects nobody knows the outcome of, and which decisions wait.

Exit code 1: something needs a person. It reads beside bots that are at work.`,
		Example: "bot doctor",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("%s takes the folder of one pack, or nothing; e.g. %s", cmd.CommandPath(), cmd.Example)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				pack = args[0]
			}
			d, err := examine(cmd.Context(), env, pack)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(s.out, d)
			} else {
				err = d.print(s)
			}
			if err == nil && !d.OK {
				return no()
			}
			return err
		},
	}
	packFlag(cmd, &pack)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// examine looks at the store from outside.
func examine(ctx context.Context, env config.Environ, pack string) (_ diagnosis, err error) {
	r, err := past(ctx, env, pack)
	if err != nil {
		return diagnosis{}, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	settings, err := config.ReadSettings(env)
	if err != nil {
		return diagnosis{}, err
	}
	d := diagnosis{Store: "sqlite", Promise: promiseOf(r), Threads: []queue{}, Unknown: []doubt{}, Waiting: []doubt{}, Needs: []string{}}
	if _, shared := settings.Redis(); shared {
		d.Store = "redis"
	}
	if d.Queued, err = r.Waiting(ctx); err != nil {
		return diagnosis{}, err
	}
	threads, err := r.Threads(ctx, mostThreads)
	if err != nil {
		return diagnosis{}, err
	}
	for _, t := range threads {
		d.Threads = append(d.Threads, queue{t.Thread, t.Waiting, t.Epoch, t.Leased.Milliseconds()})
	}
	if d.Stale, err = r.Stale(ctx); err != nil {
		return diagnosis{}, err
	}
	open, err := openDecisions(ctx, r)
	if err != nil {
		return diagnosis{}, err
	}
	d.sort(open, time.Now())
	return d, nil
}

// sort tells the effects in doubt from decisions that merely wait, and says what a person has to do.
func (d *diagnosis) sort(open []waiting, now time.Time) {
	for _, w := range open {
		one := doubt{waiting: w, AgeS: int64(now.Sub(w.Asked).Seconds()), Overdue: w.Until != nil && now.After(w.Until.Add(overdueBy))}
		if w.Kind == chat.CardUnknown {
			d.Unknown = append(d.Unknown, one)
			d.Needs = append(d.Needs, fmt.Sprintf("%s: find out whether %s took effect, then bot approvals happened|not-done %s", w.Card, w.line(), w.Card))
			continue
		}
		d.Waiting = append(d.Waiting, one)
		if one.Overdue {
			d.Needs = append(d.Needs, w.Card+": its time is over and no bot has closed it; start the bot")
		}
	}
	d.OK = len(d.Needs) == 0
}

func (d diagnosis) print(s streams) error {
	out := page{w: s.out}
	out.print("store    %s\n", d.Promise)
	more := ""
	if len(d.Threads) == mostThreads {
		more = " or more"
	}
	out.print("queues   %s in %s%s\n", count(d.Queued, "item"), count(len(d.Threads), "thread"), more)
	for _, t := range d.Threads {
		out.print("           %s  %s%s\n", t.Thread, count(t.Items, "item"), t.lease())
	}
	out.print("stale    %s of workers that had lost their thread, refused\n", count(int(d.Stale), "write"))
	for _, list := range []struct {
		title, what string
		open        []doubt
	}{{"unknown", "effect", d.Unknown}, {"waiting", "decision", d.Waiting}} {
		out.print("%s  %s\n", list.title, count(len(list.open), list.what))
		for _, w := range list.open {
			until := ""
			if w.Until != nil {
				until = ", until " + moment(*w.Until)
			}
			if w.Overdue {
				until += " (over)"
			}
			out.print("           %s  %s  since %s%s\n", w.Card, w.line(), time.Duration(w.AgeS)*time.Second, until)
		}
	}
	if d.OK {
		out.print("nothing needs a person\n")
	}
	for _, n := range d.Needs {
		out.print("NEEDED   %s\n", n)
	}
	return out.err
}

// lease says who has the thread, as far as that is known.
func (q queue) lease() string {
	switch {
	case q.LeasedMS > 0:
		return fmt.Sprintf(", leased under epoch %d for another %s", q.Epoch, time.Duration(q.LeasedMS)*time.Millisecond)
	case q.Epoch > 0:
		return fmt.Sprintf(", free since epoch %d", q.Epoch)
	}
	return ""
}
