package scripted_test

import (
	"encoding/json"
	"testing"

	"switchboard/config"
	"switchboard/llm"
	"switchboard/llm/llmtest"
	"switchboard/llm/scripted"
)

// TestExam takes the exam that every model takes. A script has no figures of its own and always answers at once.
func TestExam(t *testing.T) {
	t.Parallel()
	llmtest.Exam(t, func(_ *testing.T, steps []llmtest.Step) llm.Model {
		r := &config.Rehearsal{Name: "exam", As: llmtest.Person, In: llmtest.Channel, Steps: []config.Step{{Say: llmtest.FirstMessage}}}
		for _, st := range steps {
			r.Steps = append(r.Steps, scriptStep(st))
		}
		m := config.Model{Name: "fast", Provider: "openai", ID: "gpt-4o-mini"}
		script := scripted.New(&config.Pack{Models: []config.Model{m}, Rehearsals: []*config.Rehearsal{r}})
		if pace := steps[0].Pace; pace != nil {
			script = script.WithPace(pace)
		}
		return script.Model(m)
	}, llmtest.Figures, llmtest.Caching, llmtest.Hanging, llmtest.Breaking)
}

// scriptStep says in a rehearsal's words what the exam wants answered.
func scriptStep(st llmtest.Step) config.Step {
	var route config.RouteAnswer
	switch {
	case st.Fail != "":
		return config.Step{Fault: string(st.Fail)}
	case st.Cut:
		return config.Step{Finish: &config.Finished{Reason: string(llm.CutOff), Text: st.Text}}
	case st.Refuse:
		return config.Step{Finish: &config.Finished{Reason: string(llm.Refused), Text: st.Text}}
	case json.Unmarshal([]byte(st.Text), &route) == nil:
		return config.Step{Route: &route}
	}
	var out config.Step
	if st.Text != "" {
		out.Raw = &st.Text
	}
	for _, c := range st.Calls {
		out.Calls = append(out.Calls, config.ScriptCall{Tool: c.Name, RawArgs: &c.Args})
	}
	return out
}
