package rehearse

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"switchboard/config"
	"switchboard/tools"
)

// World plays the tools that a rehearsal has answers for, each in the answers' order; the last one stays. For a tool that
// it leaves out the function gives nil: that one is really asked.
//
// An answer stands for what the tool's server sends, so it goes through the same contract: projected, judged and checked.
// Failures come at once, a timeout as well. One World is for one rehearsal: assistants that share a tool share its answers.
func World(r *config.Rehearsal) func(*config.Tool) tools.Tool {
	lists := map[string]*answerList{}
	for name, c := range r.Tools {
		lists[name] = &answerList{left: c.Answers}
	}
	return func(t *config.Tool) tools.Tool {
		if list, ok := lists[t.Name]; ok && len(list.left) > 0 {
			return &played{t, list}
		}
		return nil
	}
}

// answerList is what is left of a tool's answers.
type answerList struct {
	mu   sync.Mutex
	left []config.CannedAnswer
}

func (l *answerList) next() config.CannedAnswer {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.left[0]
	if len(l.left) > 1 {
		l.left = l.left[1:]
	}
	return a
}

type played struct {
	tool    *config.Tool
	answers *answerList
}

// Run gives the next answer.
func (p *played) Run(ctx context.Context, _ tools.Input) (tools.Output, error) {
	if ctx.Err() != nil {
		return tools.Output{}, fmt.Errorf("call %s: %w", p.tool.Name, context.Cause(ctx))
	}
	a := p.answers.next()
	if a.Fail != "" {
		return tools.Output{}, p.fault(a.Fail)
	}
	// Through JSON and back: numbers get the types that a server's have, and no two calls share a value.
	data := config.Canonical(a.Result)
	value, err := config.DecodeJSON(data)
	if err != nil {
		return tools.Output{}, &tools.Fault{Kind: tools.BadResult, Detail: "The rehearsal's answer is not sound JSON.", Err: err}
	}
	out := tools.Output{Value: value, Size: len(data)}
	if p.tool.HTTP != nil {
		out.Status = http.StatusOK
	}
	return out, nil
}

// fault fails as a server would. Where a request may change something, only a clear no leaves no doubt that it did not.
func (p *played) fault(kind string) *tools.Fault {
	changes := p.tool.Effect != config.NoEffect || p.tool.HTTP != nil && p.tool.HTTP.Method != http.MethodGet
	switch kind {
	case "timeout":
		return &tools.Fault{Kind: tools.Timeout, Detail: "The server did not answer in time.", Maybe: changes, Transient: true, Err: context.DeadlineExceeded}
	case "not_found":
		return &tools.Fault{Kind: tools.NotFound, Detail: "Not found.", Status: http.StatusNotFound}
	case "refused":
		return &tools.Fault{Kind: tools.Rejected, Detail: "The server refused the request.", Status: http.StatusUnprocessableEntity}
	case "unavailable":
		return &tools.Fault{Kind: tools.Unavailable, Detail: "The server could not do it.", Status: http.StatusServiceUnavailable, Maybe: changes, Transient: true}
	case "broken":
		return &tools.Fault{Kind: tools.BadResult, Detail: "The server's answer is not sound JSON.", Status: http.StatusOK, Maybe: changes}
	}
	return &tools.Fault{Kind: tools.Internal, Detail: fmt.Sprintf("The rehearsal names an unknown failure %q.", kind)} // Load refuses it
}
