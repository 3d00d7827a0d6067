package scripted

import (
	"fmt"
	"slices"
	"strings"

	"switchboard/config"
	"switchboard/llm"
)

// suggestions is how many things to try are named.
const suggestions = 3

// speech is what a person reads where no step can be played: what offline mode is, what to try, how to get a real model.
func (s *Script) speech(w llm.Where, r *config.Rehearsal) string {
	var b strings.Builder
	b.WriteString("No language model is connected. Offline I can only play the rehearsed conversations of this pack, ")
	if r == nil {
		b.WriteString("and none of them begins this way.")
	} else {
		fmt.Fprintf(&b, "and this one (“%s”) has left its script.", r.Name)
		if say := next(r, w.Replies); say != "" {
			fmt.Fprintf(&b, " It goes on with “%s”.", say)
		}
	}
	if tries := s.tries(w); len(tries) > 0 {
		b.WriteString("\nStart a new conversation with one of these:")
		for _, t := range tries {
			b.WriteString("\n- " + t)
		}
	} else {
		b.WriteString("\nThis pack has no rehearsals yet.")
	}
	return b.String() + "\n" + s.toTalkFreely()
}

// next gives what the person says next in a rehearsal that has had so many replies; "" where nothing more is said.
func next(r *config.Rehearsal, replies int) string {
	for i, st := range r.Steps {
		switch {
		case st.ByModel():
			replies--
		case st.Say != "" && replies <= 0 && i > 0:
			return strings.Join(strings.Fields(st.Say), " ")
		}
	}
	return ""
}

func (s *Script) toTalkFreely() string {
	var keys []string
	for _, m := range s.pack.Models {
		name := map[string]string{"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}[m.Provider]
		if m.Key != nil {
			name = m.Key.Env
		}
		if name != "" && !slices.Contains(keys, name) {
			keys = append(keys, name)
		}
	}
	if len(keys) == 0 {
		return "To talk freely, start the bot with --live: it then asks the language models that the pack names."
	}
	return "To talk freely, set " + strings.Join(keys, " and ") + " and start the bot again; --live insists on a real model."
}

// tries lists first messages of rehearsals, those that the person can play here before the others, good cases before
// failures, and not the same assistant again while there is another.
func (s *Script) tries(w llm.Where) []string {
	var list []part
	for _, here := range []bool{true, false} {
		for _, good := range []bool{true, false} {
			list = append(list, mixed(s.parts, func(p part) bool { return fits(p.Rehearsal, w) == here && isGood(p.Rehearsal) == good })...)
		}
	}
	var out []string
	for _, p := range list {
		if line := try(p.Rehearsal, w); len(out) < suggestions && !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}

// mixed gives the parts that are wanted: one of each assistant, then the rest.
func mixed(parts []part, wanted func(part) bool) []part {
	var first, rest []part
	seen := map[string]bool{}
	for _, p := range parts {
		if !wanted(p) {
			continue
		}
		if name := firstAssistant(p.Rehearsal); seen[name] {
			rest = append(rest, p)
		} else {
			seen[name] = true
			first = append(first, p)
		}
	}
	return append(first, rest...)
}

func firstAssistant(r *config.Rehearsal) string {
	for _, st := range r.Steps {
		if st.Route != nil {
			return st.Route.Assistant
		}
	}
	return ""
}

// isGood says whether nothing goes wrong in a rehearsal on purpose.
func isGood(r *config.Rehearsal) bool {
	for _, c := range r.Tools {
		if slices.ContainsFunc(c.Answers, func(a config.CannedAnswer) bool { return a.Fail != "" }) {
			return false
		}
	}
	return !slices.ContainsFunc(r.Steps, func(st config.Step) bool {
		broken := slices.ContainsFunc(st.Calls, func(c config.ScriptCall) bool { return c.RawArgs != nil })
		e := st.Expect
		return broken || st.Fault != "" || st.Finish != nil || st.Raw != nil ||
			e != nil && (e.Refused != "" || e.Denied != "" || e.Outcome != "" && e.Outcome != "answered")
	})
}

// try names a first message, and whom and where it must come from if not from this person in this place.
func try(r *config.Rehearsal, w llm.Where) string {
	i := slices.IndexFunc(r.Steps, func(st config.Step) bool { return st.Say != "" })
	line := "“" + strings.Join(strings.Fields(r.Steps[i].Say), " ") + "”"
	var by []string
	if r.As != "" && r.As != w.Person {
		by = append(by, "as "+r.As)
	}
	if r.In != "" && r.In != w.Channel {
		by = append(by, "in "+r.In)
	}
	if len(by) > 0 {
		line += " (" + strings.Join(by, ", ") + ")"
	}
	return line
}
