package turn

// Quoted labels what somebody said, for the property that nothing in it ends the label.
func Quoted(name, text string) string {
	return quoted("Said in this thread by "+nameOf(name, ""), text)
}

// Compact makes a conversation shorter.
var Compact = compact
