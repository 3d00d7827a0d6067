package turn

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"switchboard/assistants"
	"switchboard/journal"
	"switchboard/llm"
)

// The runtime's own sentences: for people, without causes, with the next step.
const (
	nobodyWords  = "I cannot help you with this: none of the assistants here is open to you. An admin of this bot can change that."
	spentWords   = "I have used up today's budget for your questions. I can go on tomorrow; an admin of this bot can raise the limit."
	staleWords   = "This question is over: it was answered, or another one has taken its place. Just tell me what you need."
	stoppedWords = "I stopped, as asked."
	shortWords   = "(I left out older parts of this conversation: it has grown too long for the language model.)"
	askWords     = "I need a person's word before I go on."
	doubtWords   = "Nobody knows whether this took effect. Please look, and say what you find."
	nothingWords = "I have nothing to add to that. If you need something, just ask."
)

func brokenWords(turn string) string {
	return fmt.Sprintf("Sorry, something broke on my side and I could not answer this. Please ask again later, or tell an admin the id %s.", turn)
}

func listWords(open []*assistants.Assistant) string {
	var b strings.Builder
	b.WriteString("Here is what I can do for you:")
	for _, a := range open {
		fmt.Fprintf(&b, "\n- %s: %s", a.Name, a.About)
		if len(a.Examples) > 0 {
			fmt.Fprintf(&b, " For example: “%s”", a.Examples[0])
		}
	}
	return b.String()
}

// modelWords says that the model could not be asked. Offline the model itself explains what it can play.
func modelWords(err error, turn string) (outcome, text string) {
	failed, ok := errors.AsType[*llm.Error](err)
	if noScript(err) {
		return Refused, failed.Detail
	}
	why := "the language model did not answer in time"
	if ok {
		why = reasonWords(failed)
	}
	return Failed, fmt.Sprintf("Sorry, I cannot answer this now: %s. Nothing was done. Please try again later, or tell an admin the id %s.", why, turn)
}

// noScript says whether an offline model had nothing to play.
func noScript(err error) bool {
	failed, ok := errors.AsType[*llm.Error](err)
	return ok && failed.Reason == llm.NoScript
}

func reasonWords(e *llm.Error) string {
	switch e.Reason {
	case llm.RateLimited:
		if e.Wait >= time.Minute {
			return fmt.Sprintf("the language model takes no more requests for about %s", e.Wait.Round(time.Minute))
		}
		return "the language model gets too many requests at the moment"
	case llm.ContextTooLong:
		return "this conversation has grown too long for the language model; a new thread helps"
	case llm.Auth, llm.Quota, llm.BadRequest:
		return "the language model refuses my requests, which an admin has to look into"
	case llm.Declined:
		return "the language model declines to answer this"
	case llm.Empty:
		return "the language model gave no answer"
	default:
		return "the language model cannot be reached at the moment"
	}
}

// accountWords says what was done, what was not and what nobody knows, from the record alone. A call that was done in the
// end is not listed as not done as well.
func accountWords(calls []journal.Call) string {
	done := map[string]bool{}
	list := func(intro string, outcomes ...journal.Outcome) string {
		var out []string
		for _, c := range calls {
			o := c.Outcome()
			if !c.Changes() || !slices.Contains(outcomes, o) || done[c.Digest] && o != journal.OK && o != journal.Unknown && o != "" {
				continue
			}
			done[c.Digest] = done[c.Digest] || o == journal.OK
			words := journal.Spell(c)
			if (o == journal.Denied || o == journal.Failed || o == journal.Refused) && c.Reason != "" {
				words += " (" + strings.TrimRight(c.Reason, ".") + ")"
			}
			if !slices.Contains(out, words) {
				out = append(out, words)
			}
		}
		if out == nil {
			return ""
		}
		return intro + strings.Join(out, "; ") + ". "
	}
	text := list("Done: ", journal.OK) +
		list("Not known whether it took effect, so a person has to look: ", journal.Unknown, "") +
		list("Not done: ", journal.Failed, journal.Denied, journal.Refused, journal.NotRun, journal.Waiting)
	if text == "" {
		return "Nothing was changed."
	}
	return strings.TrimSpace(text)
}
