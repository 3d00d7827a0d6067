package config

import (
	"slices"
	"time"

	"switchboard/config/expr"
)

// Builtins are the contracts of the tools that the bot brings to every pack alike: docs.search, docs.fetch, time.now and
// result.read. ask.person is brought too; its contract depends on the pack's people, and stands among Pack.Tools. None of
// them changes anything. The tools of a pack cannot take their names.
func Builtins() []*Tool {
	str := func(about string, most int) map[string]any {
		return map[string]any{"type": "string", "description": about, "minLength": int64(1), "maxLength": int64(most)}
	}
	plain := map[string]any{"type": "string"}
	count := map[string]any{"type": "integer", "minimum": int64(0)}
	hit := objectDoc(map[string]any{"name": plain, "title": plain, "snippet": plain}, nil, false)
	return []*Tool{
		builtin("docs.search", "Search the documents; gives names, titles and snippets, best first.",
			map[string]any{"query": str("Words to look for.", 200)}, nil,
			map[string]any{"type": "array", "items": hit}),
		builtin("docs.fetch", "Read one document by its name, as docs.search gives it.",
			map[string]any{"name": str("Name of the document.", 200)}, nil,
			objectDoc(map[string]any{"name": plain, "title": plain, "text": plain}, nil, false)),
		builtin("time.now", "The present date and time.",
			map[string]any{"zone": str("Time zone such as Europe/Madrid; UTC when left out.", 60)}, []string{"zone"},
			objectDoc(map[string]any{"now": plain, "weekday": plain, "zone": plain}, nil, false)),
		builtin("result.read", "Read on in a result that was too long to be shown whole.",
			map[string]any{
				"handle": str("The handle that was shown with the result.", 100),
				"from":   map[string]any{"type": "integer", "minimum": int64(0), "description": "Byte to read from; 0 is the beginning."},
			}, nil,
			objectDoc(map[string]any{
				"text": plain, "from": count, "next": map[string]any{"type": []any{"integer", "null"}}, "total": count,
			}, nil, false)),
	}
}

// askPerson is the name of the built-in tool that puts a question to a person and waits for the answer.
const askPerson = "ask.person"

// askContract is the contract of ask.person: it knows the people of one pack.
func askContract(people []Group) *Tool {
	to := []any{Requester}
	for _, g := range people {
		to = append(to, g.Name)
	}
	t := builtin(askPerson, "Ask a person and wait for the answer. For a doubt that no tool can settle.",
		map[string]any{
			"to": map[string]any{"type": "string", "enum": to, "description": "Who should answer: the requester, or a group of people."},
			"question": map[string]any{
				"type": "string", "minLength": int64(1), "maxLength": int64(500),
				"description": "One question, with all that is needed to answer it.",
			},
		}, nil,
		objectDoc(map[string]any{"answer": map[string]any{"type": "string"}, "by": map[string]any{"type": "string"}}, nil, false))
	t.Fresh = true
	return t
}

// brings says whether a tool is built in.
func (l *loader) brings(name string) bool {
	return name == askPerson || slices.ContainsFunc(l.builtins, func(t *Tool) bool { return t.Name == name })
}

func builtin(name, about string, args map[string]any, optional []string, result map[string]any) *Tool {
	t := &Tool{
		Name: name, About: about, Effect: NoEffect, Bind: map[string]string{},
		Timeout: 10 * time.Second, Attempts: 1, Fresh: name == "time.now",
	}
	if err := t.compile(new(expr.Schemas), docs{objectDoc(args, optional, true), args, optional, result}); err != nil {
		panic("built-in tool " + name + ": " + err.Error()) // the contracts above are constants, and tested
	}
	return t
}
