package turn

import (
	"context"
	"slices"

	"switchboard/guards"
	"switchboard/journal"
	"switchboard/llm"
)

// stream lets people read the reply while it is written, filtered piece by piece (rule M7). Once the run has asked for an
// effect its text is posted whole: what was done is said by the runtime, beside it and not after it (rule M8).
func (r *running) stream(ctx context.Context, req *llm.Request) {
	if slices.ContainsFunc(r.door.Calls(), journal.Call.Changes) {
		return
	}
	mask := r.journal.Mask()
	s := guards.NewStream(r.output(r.assistant), mask.Text, mask.Open)
	req.OnText = func(piece string) {
		if more := s.Add(piece); more != "" {
			r.shown += more
			r.show(ctx, Progress{Text: more})
		}
	}
}
