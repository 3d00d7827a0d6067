package expr

// callOutcomes and runOutcomes are how calls and runs can end.
func callOutcomes() []string {
	return []string{"ok", "failed", "refused", "denied", "recorded", "waiting", "unknown", "not_run"}
}

func runOutcomes() []string {
	return []string{"answered", "clarify", "capped", "waiting", "refused", "folded", "failed"}
}

// PolicyVars are the names that a policy's condition may use: the arguments of one tool, who asks, where, and the
// scope variables.
func PolicyVars(args *Type, tools []string, scope *Type) []Var {
	return append(WhyVars(args),
		Var{"tool", Text(tools...)},
		Var{"effect", Text("none", "write")},
		Var{"actor", Object(map[string]*Type{"id": Text(), "kind": Text("member", "guest", "external"), "groups": List(Text())})},
		Var{"channel", Object(map[string]*Type{"id": Text(), "visibility": Text("public", "private", "dm", "shared")})},
		Var{"scope", scope},
	)
}

// WhyVars are the names that a policy's reason may use. It reaches models and people, so that scope is not among them.
func WhyVars(args *Type) []Var {
	return []Var{{"args", args}, {"now", Time()}}
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
