package expr

import "slices"

// callOutcomes and runOutcomes are how calls and runs can end.
func callOutcomes() []string {
	return []string{"ok", "failed", "refused", "denied", "recorded", "waiting", "unknown", "not_run"}
}

func runOutcomes() []string {
	return []string{"answered", "clarify", "capped", "waiting", "stopped", "refused", "folded", "failed"}
}

// DoneVar is the variable behind done("tool"): a list of the names of the tools that were done in the run.
const DoneVar = "done_"

// PolicyVars are the names that a policy's condition may use: the arguments of one tool and the facts that are read for it,
// who asks, where, what the run has seen and done, and the scope variables.
func PolicyVars(args *Type, facts []Var, tools []string, scope *Type) []Var {
	return append(WhyVars(args, facts),
		Var{"tool", Text(tools...)},
		Var{"effect", Text("none", "write", "irreversible")},
		Var{"taint", Bool()},
		Var{DoneVar, List(Text(tools...))},
		Var{"actor", Object(map[string]*Type{"id": Text(), "kind": Text("member", "guest", "external"), "groups": List(Text())})},
		Var{"channel", Object(map[string]*Type{"id": Text(), "visibility": Text("public", "private", "dm", "shared")})},
		Var{"scope", scope},
	)
}

// WhyVars are the names that a policy's reason may use. It reaches models and people, so that scope is not among them.
func WhyVars(args *Type, facts []Var) []Var {
	return append([]Var{{"args", args}, {"now", Time()}}, facts...)
}

// PolicyNames lists what a policy's condition knows beside facts.
func PolicyNames() []string {
	out := []string{"done"}
	for _, v := range PolicyVars(Dyn(), nil, nil, Dyn()) {
		out = append(out, v.Name)
	}
	return out
}

// Taken says whether a name means something in conditions already, or in CEL, so that it cannot name a fact.
func Taken(name string) bool {
	switch name {
	case "bool", "bytes", "double", "dyn", "google", "int", "list", "map", "string", "type", "uint":
		return true
	}
	return Reserved(name) || slices.Contains(PolicyNames(), name)
}

// ReadVars are the names that the arguments of a fact or of a look-up may use.
func ReadVars(args *Type) []Var { return []Var{{"args", args}} }

// LookupVars are the names that the condition of a look-up may use.
func LookupVars(result, args *Type) []Var {
	return []Var{{"result", result}, {"args", args}, {"key", Text()}, {"since", Time()}}
}

// TakeVars are the names that `take` may use.
func TakeVars() []Var { return []Var{{"body", Dyn()}, {"status", Int()}} }

// CallVars are the names that a scripted reply or call may use: the calls of the run so far, in order.
func CallVars() []Var {
	return []Var{{"calls", List(Object(map[string]*Type{
		"tool": Text(), "args": Dyn(), "result": Dyn(), "outcome": Text(callOutcomes()...),
	}))}}
}

// RunVars are the names that a condition over a finished run may use.
func RunVars() []Var {
	return []Var{
		{"run", Object(map[string]*Type{
			"id": Text(), "assistant": Text(), "outcome": Text(runOutcomes()...),
			"rounds": Int(), "calls": Int(), "tokens": Int(), "usd": Double(), "ms": Int(),
		})},
		{"calls", List(Object(map[string]*Type{
			"seq": Int(), "tool": Text(), "args": Dyn(), "result": Dyn(), "outcome": Text(callOutcomes()...),
			"reason": Text(), "why": Text(), "expects": Text(),
		}))},
		{"reply", Text()},
	}
}
