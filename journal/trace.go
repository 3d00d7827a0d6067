package journal

import (
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Draw writes the trace as people read it: every call with what it was for, what it expected and how it ended, and a
// line for every model call.
func Draw(w io.Writer, t Turn) error {
	d := drawing{w: w}
	id := t.Turn
	if t.Routed != nil && t.Routed.Assistant != "" && t.Routed.Kind != OutcomeClarify {
		id = RunID(t.Turn)
	}
	d.line("%s  turn %s  %s in %s  pack %s", t.At.Format("2006-01-02"), t.Turn, t.Person, t.Channel, short(t.Pack))
	if t.Message != "" {
		d.line("         asked    %q", clip(t.Message, 200))
	}
	if t.Routed != nil {
		d.line("         routed   %s", routedWords(*t.Routed))
	}
	for _, e := range t.Entries {
		switch {
		case e.Step != nil:
			d.step(e.At, id, *e.Step)
		case e.Folded != nil:
			d.line("%s %s -  folded: %s", clock(e.At), id, or(clip(e.Folded.Text, 200), "(no longer kept)"))
		case e.Decided != nil:
			d.decided(e.At, id, t, *e.Decided)
		default:
			if c := t.Call(e.Call); c != nil {
				d.call(id, *c)
			}
		}
	}
	switch {
	case t.Ended != nil:
		by := ""
		if t.Ended.By != "" {
			by = " by " + t.Ended.By
		}
		d.line("         ended    %s%s, %d ms, %d tokens, %.6f USD", t.Ended.Outcome, by, t.Ended.MS, t.Usage().Input+t.Usage().Output, t.Usage().Cost.Dollars())
	default:
		d.line("         ended    not yet")
	}
	if t.Reply != "" {
		d.line("         replied  %q", clip(t.Reply, 400))
	}
	if words := t.Rated.String(); words != "" {
		d.line("         feedback: %s", words)
	}
	return d.err
}

type drawing struct {
	w   io.Writer
	err error
}

func (d *drawing) line(format string, args ...any) {
	if d.err == nil {
		_, d.err = fmt.Fprintf(d.w, format+"\n", args...)
	}
}

func (d *drawing) step(at time.Time, id string, s Step) {
	end := fmt.Sprintf("%d in (%d cached), %d out, %.6f USD, %d ms, attempts %d", s.Input, s.Cached, s.Output, s.Cost.Dollars(), s.MS, s.Attempts)
	if s.Estimated {
		end += ", estimated"
	}
	if s.Error != "" {
		end = "failed: " + s.Error + status(s.Status) + ", " + end
	}
	d.line("%s %s -  model %s (%s): %s", clock(at), id, s.Model, s.Role, end)
}

func (d *drawing) call(id string, c Call) {
	d.line("%s %s %d  %s", clock(c.At), id, c.Seq, Spell(c))
	d.line("                   why      %s", or(clip(c.Why, 300), "(not said)"))
	d.line("                   expects  %s", or(clip(c.Expects, 300), "(not said)"))
	d.line("                   -> %s", Ending(c))
}

// decided says who decided what about a call.
func (d *drawing) decided(at time.Time, id string, t Turn, what Decided) {
	tool := "a call"
	if c := t.Call(what.Seq); c != nil {
		tool = c.Tool
		if c.Decided != nil {
			what.Words = c.Decided.Words
		}
	}
	line := string(what.Stand)
	switch {
	case len(what.Signed) > 0 && what.Stand == Approved:
		line += " by " + strings.Join(what.Signed, " and ")
	case what.By != "":
		line += " by " + what.By
	}
	if what.Words != "" {
		line += fmt.Sprintf(": %q", clip(what.Words, 200))
	}
	d.line("%s %s %d  %s %s", clock(at), id, what.Seq, tool, line)
}

// Spell writes a call as code: tool(name="value", …), arguments by name, each cut to 60 characters.
func Spell(c Call) string {
	if c.Args == nil {
		return c.Tool + "(" + clip(c.Raw, 60) + ")"
	}
	var args map[string]json.RawMessage
	if json.Unmarshal(c.Args, &args) != nil {
		return c.Tool + "(" + clip(string(c.Args), 60) + ")"
	}
	parts := make([]string, 0, len(args))
	for name, v := range args {
		parts = append(parts, name+"="+clip(string(v), 60))
	}
	sort.Strings(parts)
	return c.Tool + "(" + strings.Join(parts, ", ") + ")"
}

// Ending says in a few words how a call ended: outcome, rows, time, reason.
func Ending(c Call) string {
	if c.Settled == nil {
		if c.Outcome() == Waiting && c.Decided == nil {
			return "waits for a person"
		}
		if c.Outcome() == Waiting {
			return "decided, and goes on from there"
		}
		return "being attempted"
	}
	s := string(c.Settled.Outcome)
	switch v := c.Result().(type) {
	case []any:
		s += rows(len(v))
	case map[string]any:
		if list, ok := onlyList(v); ok {
			s += rows(len(list))
		}
	}
	if c.Settled.From != nil {
		s += fmt.Sprintf(", from call %d", *c.Settled.From)
	}
	if c.Settled.Attempts > 1 {
		s += fmt.Sprintf(", %d attempts", c.Settled.Attempts)
	}
	s += fmt.Sprintf(", %d ms", c.Settled.MS)
	s += status(c.Settled.Status)
	if c.Reason != "" {
		s += ": " + clip(c.Reason, 200)
	}
	return s
}

func status(code int) string {
	if code == 0 {
		return ""
	}
	return fmt.Sprintf(" (HTTP %d)", code)
}

func rows(n int) string {
	if n == 1 {
		return ", 1 row"
	}
	return fmt.Sprintf(", %d rows", n)
}

// onlyList gives the list of a result that holds exactly one, such as {"rows": […]}.
func onlyList(m map[string]any) ([]any, bool) {
	var found []any
	n := 0
	for _, v := range m {
		if list, ok := v.([]any); ok {
			found = list
			n++
		}
	}
	return found, n == 1
}

// RoutedStale is the kind of routing where a choice came too late.
const RoutedStale = "stale"

func routedWords(r Routed) string {
	sure := ""
	if r.Confidence != nil {
		sure = fmt.Sprintf(", confidence %.2f", *r.Confidence)
	}
	switch {
	case r.Kind == OutcomeClarify:
		return "a question to the person" + sure
	case r.Kind == RoutedStale:
		return "to nobody: " + r.By + " picked an answer to a question that was over"
	case r.Assistant == "":
		return "to nobody" + sure
	case r.By != "":
		return r.Assistant + " (" + r.Kind + " by " + r.By + ")"
	default:
		return r.Assistant + " (" + r.Kind + sure + ")"
	}
}

func clock(t time.Time) string { return t.Format("15:04:05") }

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// short gives the first characters of a digest, enough to tell versions apart.
func short(digest string) string {
	_, d, _ := strings.Cut(digest, ":")
	return d[:min(len(d), 12)]
}

// visible turns what would steer a terminal into a space.
func visible(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}

// clip cuts s to n characters and says so.
func clip(s string, n int) string {
	s = strings.Map(visible, strings.ToValidUTF8(s, "�"))
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n]) + "…"
}
