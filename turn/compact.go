package turn

import (
	"errors"
	"slices"
	"strings"

	"switchboard/llm"
)

func tooLong(err error) bool {
	failed, ok := errors.AsType[*llm.Error](err)
	return ok && failed.Reason == llm.ContextTooLong && !failed.Released
}

// headBytes is what stays of an old result.
const headBytes = 400

// compact makes a conversation that is too long for a model about half as long (rule L7): the oldest of the history goes,
// but for its first message, then old results are cut to their beginnings. request is the place of the message that is
// answered: all before it is history. It and the newest round stay whole, and every call keeps its result. less says whether
// anything was left out.
func compact(turns []llm.Turn, request int) (shorter []llm.Turn, less bool) {
	most := (llm.Request{Turns: turns}).Size() / 2
	out := slices.Clone(turns)
	size := func() int { return (llm.Request{Turns: out}).Size() }
	dropped := false
	for request > 1 && size() > most {
		out = slices.Delete(out, 1, 2)
		request--
		dropped = true
	}
	newest := len(out) - 1
	for newest > request && out[newest].Role != llm.Results {
		newest--
	}
	for i := request + 1; i < newest && size() > most; i++ {
		if out[i].Role == llm.Results {
			var cut bool
			out[i].Results, cut = heads(out[i].Results)
			less = less || cut
		}
	}
	if dropped {
		out = slices.Insert(out, 1, llm.Turn{Role: llm.User, Text: "(Older messages of this thread are left out here.)"})
	}
	return out, less || dropped
}

// heads cuts results to their beginnings, and says so in each; cut is false where all are short.
func heads(results []llm.Result) (out []llm.Result, cut bool) {
	out = slices.Clone(results)
	for i, r := range out {
		if len(r.Text) > headBytes {
			out[i].Text = strings.ToValidUTF8(r.Text[:headBytes], "") + " … (the rest of this older result was left out to make room)"
			cut = true
		}
	}
	return out, cut
}
