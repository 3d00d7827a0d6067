package scripted

import (
	"encoding/json"
	"fmt"
	"maps"

	"switchboard/config"
	"switchboard/llm"
)

// misfit says why a step cannot answer this request: the router's model routes, an assistant's model does the rest. It is
// empty where the step fits.
func misfit(st config.Step, router bool) string {
	var is string
	switch {
	case st.Fault != "", st.Finish != nil:
		return ""
	case len(st.Calls) > 0:
		is = "asks for tools"
	case st.Reply != nil:
		is = "is a reply"
	case st.Raw != nil:
		return ""
	case st.Route != nil:
		if router {
			return ""
		}
		return fmt.Sprintf("the answer at %s is the router's, but an assistant was asked", at(st.Place))
	default:
		return fmt.Sprintf("the step at %s says nothing", at(st.Place))
	}
	if router {
		return fmt.Sprintf("the answer at %s %s, but the router was asked", at(st.Place), is)
	}
	return ""
}

// play turns a step into the model's answer.
func play(st config.Step, r llm.Request) (llm.Reply, *llm.Error) {
	if st.Fault != "" {
		return llm.Reply{}, &llm.Error{Reason: llm.Reason(st.Fault), Detail: "the rehearsal says so at " + at(st.Place)}
	}
	reply, err := build(st, r)
	switch {
	case err != nil:
		return llm.Reply{}, &llm.Error{Reason: llm.Empty, Detail: fmt.Sprintf("fill in the step at %s: %v", at(st.Place), err), Err: err}
	case reply.Text == "" && len(reply.Calls) == 0 && reply.Finish == llm.Refused:
		return llm.Reply{}, &llm.Error{Reason: llm.Declined, Detail: "the rehearsal declines at " + at(st.Place)}
	case reply.Text == "" && len(reply.Calls) == 0:
		return llm.Reply{}, &llm.Error{Reason: llm.Empty, Detail: "the rehearsal answers nothing at " + at(st.Place)}
	}
	return reply, nil
}

// build fills in what the step leaves open. Calls are played even if none may be made: some models are like that. A step
// with calls may bring a text that is said beside them.
func build(st config.Step, r llm.Request) (llm.Reply, error) {
	reply := llm.Reply{Finish: llm.Stop}
	switch {
	case st.Finish != nil:
		return llm.Reply{Text: st.Finish.Text, Finish: llm.Finish(st.Finish.Reason)}, nil
	case st.Route != nil:
		answer := map[string]any{"assistant": st.Route.Assistant, "confidence": st.Route.Confidence, "question": st.Route.Question}
		return llm.Reply{Text: string(config.Canonical(answer)), Finish: llm.Stop}, nil
	case st.Raw != nil:
		reply.Text = *st.Raw
	case st.Reply != nil:
		text, err := st.Reply.Text(vars(r.Turns))
		if err != nil {
			return llm.Reply{}, fmt.Errorf("write the reply: %w", err)
		}
		reply.Text = text
	}
	for i, c := range st.Calls {
		args, err := arguments(c, r.Turns)
		if err != nil {
			return llm.Reply{}, fmt.Errorf("write the arguments of %s: %w", c.Tool, err)
		}
		reply.Calls = append(reply.Calls, llm.ToolCall{ID: fmt.Sprintf("call_%d_%d", r.Where.Replies, i), Name: c.Tool, Args: args})
		reply.Finish = llm.Called
	}
	return reply, nil
}

func arguments(c config.ScriptCall, turns []llm.Turn) (string, error) {
	if c.RawArgs != nil {
		return *c.RawArgs, nil
	}
	obj := map[string]any{}
	if c.Args != nil {
		v, err := c.Args.Eval(vars(turns))
		if err != nil {
			return "", err
		}
		given, ok := v.(map[string]any)
		if !ok {
			return "", fmt.Errorf("they are a %T and no object", v)
		}
		maps.Copy(obj, given)
	}
	if c.Why != "" {
		obj["why"] = c.Why
	}
	if c.Expects != "" {
		obj["expects"] = c.Expects
	}
	return string(config.Canonical(obj)), nil
}

// vars gives what expressions of a script see: the calls of this run so far, that is, since the last message.
func vars(turns []llm.Turn) map[string]any {
	from := 0
	for i, t := range turns {
		if t.Role == llm.User {
			from = i + 1
		}
	}
	var calls []map[string]any
	var ids []string
	asked := 0 // where the calls of the latest reply begin
	for _, t := range turns[from:] {
		if t.Role == llm.Assistant {
			asked = len(calls)
			for _, c := range t.Calls {
				calls = append(calls, map[string]any{"tool": c.Name, "args": plainArgs(c.Args), "result": nil, "outcome": ""})
				ids = append(ids, c.ID)
			}
		}
		for _, res := range t.Results {
			for i := asked; i < len(calls); i++ {
				if ids[i] == res.ID {
					calls[i]["outcome"], calls[i]["result"] = told(res.Text)
				}
			}
		}
	}
	list := make([]any, len(calls))
	for i, c := range calls {
		list[i] = c
	}
	return map[string]any{"calls": list}
}

// plainArgs gives the arguments without what every call has; nil where they are no object.
func plainArgs(text string) any {
	v, err := config.DecodeJSON([]byte(text))
	obj, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil
	}
	delete(obj, "why")
	delete(obj, "expects")
	return obj
}

// told reads what the runtime tells a model of a call: one JSON object with the outcome and, where there is one, the result.
func told(text string) (outcome string, result any) {
	var t struct {
		Outcome string          `json:"outcome"`
		Result  json.RawMessage `json:"result"`
	}
	if json.Unmarshal([]byte(text), &t) != nil || t.Result == nil {
		return t.Outcome, nil
	}
	result, err := config.DecodeJSON(t.Result)
	if err != nil {
		return t.Outcome, nil
	}
	return t.Outcome, result
}
