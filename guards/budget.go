package guards

import (
	"fmt"

	"switchboard/llm"
)

// Budget is what a run may spend. A limit of 0 is no limit.
type Budget struct {
	Calls  int
	Tokens int
	Money  llm.USD
}

// Spent is what a run has spent so far.
type Spent struct {
	Calls  int
	Tokens int
	Money  llm.USD
}

// Call says whether one more tool call fits (rule L6).
func (b Budget) Call(s Spent) Verdict {
	if b.Calls > 0 && s.Calls >= b.Calls {
		return Verdict{Say: Refuse, Why: fmt.Sprintf("this run may make %d calls and has made them; answer with what you have", b.Calls)}
	}
	return Verdict{Say: Allow}
}

// Ask says whether a model call fits before it is made, times over: a round with tools must leave room for the final
// answer, so it asks for twice its own reserve (rule L6).
func (b Budget) Ask(s Spent, reserve llm.Usage, times int) Verdict {
	tokens := (reserve.Input + reserve.Output) * times
	if b.Tokens > 0 && s.Tokens+tokens > b.Tokens {
		return Verdict{Say: Refuse, Why: fmt.Sprintf("the run's limit of %d tokens leaves no room for another model call", b.Tokens)}
	}
	if b.Money > 0 && s.Money+reserve.Cost*llm.USD(times) > b.Money {
		return Verdict{Say: Refuse, Why: fmt.Sprintf("the run's limit of %.4f USD leaves no room for another model call", b.Money.Dollars())}
	}
	return Verdict{Say: Allow}
}

// bytesPerToken is on the safe side: English has about four, code and other scripts fewer.
const bytesPerToken = 3

// Reserve estimates the most that a request can use: its bytes over three, and the whole output limit.
func Reserve(r llm.Request, output int, price *llm.Price) llm.Usage {
	u := llm.Usage{Input: r.Size()/bytesPerToken + 1, Output: output}
	if price != nil {
		u.Cost = price.Cost(u)
	}
	return u
}
