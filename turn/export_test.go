package turn

import "switchboard/llm"

// Quoted labels what somebody said, for the property that nothing in it ends the label.
func Quoted(name, text string) string {
	return quoted("Said in this thread by "+nameOf(name, ""), text)
}

// Compact makes a conversation shorter.
func Compact(turns []llm.Turn, request int) []llm.Turn {
	shorter, _ := compact(turns, request)
	return shorter
}
