// Package scripted is the offline language model: it plays the rehearsals of a pack, router included, and says so in plain
// words where none fits.
//
// It keeps nothing between requests: the same request gets the same answer, after a crash as well. It must not know turns,
// runs or the store; where a conversation has got to, the request's Where tells it.
package scripted

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"

	"switchboard/config"
	"switchboard/llm"
)

// Script is every rehearsal of one pack, ready to be played. It never changes, and is safe to share.
type Script struct {
	pack   *config.Pack
	parts  []part
	hidden [][2]string // values that the runtime masks in what it passes on, with what stands for them
	pace   Pace
}

// Pace is asked before each word of an answer that is wanted as a stream, and may wait. Its error ends the answer.
type Pace func(ctx context.Context) error

// part is one rehearsal with its first message folded.
type part struct {
	*config.Rehearsal
	first string
}

// New makes the rehearsals of a pack ready. It never fails: what could be wrong with them, Load has refused.
func New(p *config.Pack) *Script {
	s := &Script{pack: p}
	for _, v := range p.Scope {
		for _, value := range v.Map {
			s.hidden = append(s.hidden, [2]string{value, "‹" + v.Name + "›"})
		}
	}
	// The longest first, as a value may stand inside another; then by text, so that the order is always the same.
	slices.SortFunc(s.hidden, func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(len(b[0]), len(a[0])), cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	for _, r := range p.Rehearsals {
		if i := slices.IndexFunc(r.Steps, func(st config.Step) bool { return st.Say != "" }); i >= 0 {
			s.parts = append(s.parts, part{r, s.fold(r.Steps[i].Say)})
		}
	}
	return s
}

// WithPace gives the same script with a pace of its own. Without one, streams come at once.
func (s *Script) WithPace(pace Pace) *Script {
	paced := *s
	paced.pace = pace
	return &paced
}

// Begins says whether a message of this person in this channel begins a rehearsal, if it is the first of its thread.
func (s *Script) Begins(text, person, channel string) bool {
	return s.find(llm.Where{First: text, Person: person, Channel: channel}) != nil
}

// Model is the model of the pack that m describes, played by the script. Its replies cost nothing; the tokens in their
// usage are an estimate, four bytes each, and are marked as not known.
//
// Beside the errors that a script asks for there are two of its own: llm.NoScript, whose Detail is written for people and
// whose cause says where the script and the conversation have parted; and llm.Empty, where a step needs the result of a
// call that ended otherwise.
func (s *Script) Model(m config.Model) llm.Model {
	return &model{s, m.Provider + "/" + m.ID}
}

type model struct {
	*Script
	name string
}

// Do plays the step that the request has got to. A streamed answer comes word by word.
func (m *model) Do(ctx context.Context, r llm.Request) (llm.Reply, error) {
	if ctx.Err() != nil {
		return llm.Reply{}, fmt.Errorf("ask model %s: %w", m.name, ended(ctx))
	}
	reply, failed := m.answer(r)
	if failed != nil {
		failed.Model, failed.Attempts = m.name, 1
		return llm.Reply{}, failed
	}
	if r.OnText != nil {
		if err := m.speak(ctx, reply.Text, r.OnText); err != nil {
			return llm.Reply{}, err
		}
	}
	reply.Model, reply.Attempts, reply.Usage = m.name, 1, estimate(r, reply)
	return reply, nil
}

// speak passes a text on word by word, at the script's pace.
func (m *model) speak(ctx context.Context, text string, give func(string)) error {
	released := false
	for word := range words(text) {
		var err error
		if m.pace != nil {
			err = m.pace(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("ask model %s: %w", m.name, ended(ctx))
		case err != nil:
			return &llm.Error{Reason: llm.CutShort, Model: m.name, Attempts: 1, Detail: err.Error(), Released: released, Err: err}
		}
		released = true
		give(word)
	}
	return nil
}

// ended is the context's error and its cause.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(ctx.Err(), cause) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

// words gives a text in pieces, each with the white space behind it; the first has that before it, too.
func words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			lead := len(text) - len(strings.TrimLeftFunc(text, unicode.IsSpace))
			end := len(text)
			if i := strings.IndexFunc(text[lead:], unicode.IsSpace); i >= 0 {
				end = len(text) - len(strings.TrimLeftFunc(text[lead+i:], unicode.IsSpace))
			}
			if !yield(text[:end]) {
				return
			}
			text = text[end:]
		}
	}
}

func (m *model) answer(r llm.Request) (llm.Reply, *llm.Error) {
	p := m.find(r.Where)
	if p == nil {
		return llm.Reply{}, m.noScript(r.Where, nil, "this message begins none of them")
	}
	step, why := m.step(p, r.Where)
	if why == "" {
		why = misfit(step, r.Schema != nil)
	}
	if why != "" {
		return llm.Reply{}, m.noScript(r.Where, p.Rehearsal, why)
	}
	return play(step, r)
}

// find gives the rehearsal that a thread plays: the one that names person and channel before one that leaves them open.
func (s *Script) find(w llm.Where) *part {
	first := s.fold(w.First)
	best, score := (*part)(nil), -1
	for i := range s.parts {
		p := &s.parts[i]
		if p.first != first || !fits(p.Rehearsal, w) {
			continue
		}
		n := 0
		if p.As != "" {
			n += 2
		}
		if p.In != "" {
			n++
		}
		if n > score {
			best, score = p, n
		}
	}
	return best
}

func fits(r *config.Rehearsal, w llm.Where) bool {
	return (r.As == "" || r.As == w.Person) && (r.In == "" || r.In == w.Channel)
}

// step gives the step whose turn it is: the script's answer of that number. why says where there is none, or where it
// answers another message than the conversation has come to. After a click it is an earlier message's run that goes on, whichever
// of them was clicked about.
func (s *Script) step(p *part, w llm.Where) (step config.Step, why string) {
	said, n := config.Step{}, 0
	var earlier []string // what was said before the last click; empty where something was said after it
	var all []string
	for _, st := range p.Steps {
		switch {
		case st.Say != "":
			said, earlier, all = st, nil, append(all, s.fold(st.Say))
		case st.Click != nil:
			earlier = all
		case !st.ByModel():
		case n < w.Replies:
			n++
		case s.fold(said.Say) != s.fold(w.Last) && !slices.Contains(earlier, s.fold(w.Last)):
			return st, fmt.Sprintf("the next answer of the script, at %s, is to the message at %s, and that is not what was said", at(st.Place), at(said.Place))
		default:
			return st, ""
		}
	}
	return config.Step{}, fmt.Sprintf("the script that begins at %s has no answer left", at(p.Place))
}

// at names a line; the column would tell people nothing.
func at(p config.Place) string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// fold makes texts comparable: values that the runtime masks are masked on both sides, then the pack's own rule holds.
func (s *Script) fold(text string) string {
	for _, h := range s.hidden {
		text = strings.ReplaceAll(text, h[0], h[1])
	}
	return config.Fold(text)
}

// bytesPerToken is what English has on average.
const bytesPerToken = 4

func estimate(r llm.Request, reply llm.Reply) llm.Usage {
	return llm.Usage{Input: r.Size() / bytesPerToken, Output: reply.Size() / bytesPerToken, Free: true}
}

// noScript says to a person what offline mode is and what to try. why, for admins and rehearsals, becomes the cause.
func (s *Script) noScript(w llm.Where, r *config.Rehearsal, why string) *llm.Error {
	return &llm.Error{Reason: llm.NoScript, Detail: s.speech(w, r), Err: errors.New(why)}
}
