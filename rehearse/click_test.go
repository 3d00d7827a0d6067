package rehearse_test

import (
	"strings"
	"testing"

	"switchboard/config"
	"switchboard/rehearse"
)

// guarded is the desk where a boss has to approve what is set above 50, and the stock assistant can ask people.
func guarded(t *testing.T, s *shelf, script string) rehearse.Options {
	t.Helper()
	return desk(t, s, "- name: it\n  as: U0ANA\n  in: C0FRONT\n  script:\n"+script, map[string]string{
		"policy.yaml": `default: {none: allow, write: allow, irreversible: ask}
rules:
  - tools: [stock.set]
    when: args.amount > 50
    verdict: ask
    why: "${ args.amount } is a lot."
    approve: {by: [bosses], within: 4h, four_eyes: true}
`,
		"bot.yaml": `pack: 1
name: desk
models:
  fast: {use: openai/gpt-4o-mini, price: {input: 0.15, cached: 0.075, output: 0.60}}
router: {model: fast, threshold: 0.8}
scope:
  org: {from: [channel], map: {C0FRONT: org_7}}
people: {keepers: [U0ANA], bosses: [U0BOB, S0BOSS]}
`,
		"playground.yaml": `people:
  U0ANA: {name: Ana}
  U0BOB: {name: Bob}
  U0FAY: {name: Fay, groups: [S0BOSS]}
  U0TOM: {name: Tom}
channels: {C0FRONT: {name: front}}
`,
		"assistants/stock.yaml": `about: What is on the shelf.
examples: ["how many balls are left?"]
model: fast
rounds: 4
tools: [stock.get, stock.set, ask.person]
open_to: [keepers]
instructions: Read before you write.
`,
	})
}

const setBalls = `    - say: set the balls to 60
    - route: {assistant: stock, confidence: 0.95}
    - call: {tool: stock.set, args: {item: ball, amount: 60}, why: as asked, expects: the new number}
`

// A click decides, and the run goes on where it was: through the real door, with the person that the playground knows.
func TestClicksDecide(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		balls  int
	}{
		"approved": {setBalls + `    - expect: {waits: stock.set, on: [bosses], outcome: waiting, that: "calls[0].outcome == 'waiting' && run.outcome == 'waiting'"}
    - click: {approve: stock.set, as: U0BOB}
    - reply: The shelf has ${ calls[0].result.amount }.
    - expect: {outcome: answered, says: [has 60], that: "run.rounds == 2 && calls[0].outcome == 'ok'"}
`, 60},
		"the thread goes on meanwhile": {setBalls + `    - expect: {outcome: waiting}
    - say: how do I close a day?
    - route: {assistant: help, confidence: 0.95}
    - reply: In the calendar.
    - expect: {assistant: help, outcome: answered}
    - click: {approve: stock.set, as: U0BOB}
    - reply: The shelf has ${ calls[0].result.amount }.
    - expect: {assistant: stock, outcome: answered, says: [has 60]}
`, 60},
		"by somebody of the group": {setBalls + `    - click: {approve: stock.set, as: U0FAY}
    - reply: Done.
`, 60},
		"denied": {setBalls + `    - click: {deny: stock.set, as: U0BOB, reason: The shelf is too small.}
    - reply: Bob said no.
    - expect: {denied: stock.set, that: "calls[0].reason.contains('too small')"}
`, 12},
		"nobody decides": {setBalls + `    - click: {expire: stock.set}
    - reply: Nobody decided.
    - expect: {denied: stock.set, that: "calls[0].reason.contains('in time')"}
`, 12},
		"a question": {`    - say: set the balls to 60
    - route: {assistant: stock, confidence: 0.95}
    - call: {tool: ask.person, args: {to: bosses, question: "Really 60?"}, why: it is a lot, expects: a yes}
    - expect: {waits: ask.person, on: [bosses], outcome: waiting}
    - click: {answer: "No, 40.", as: U0BOB}
    - call: {tool: stock.set, args: {item: ball, amount: 40}, why: as Bob said, expects: the new number}
    - reply: Bob said “${ calls[0].result.answer }”.
    - expect: {outcome: answered, says: ["no, 40"]}
`, 40},
		"two cards, one after the other": {`    - say: set balls and nets
    - route: {assistant: stock, confidence: 0.95}
    - calls:
        - {tool: stock.set, args: {item: ball, amount: 60}, why: as asked, expects: the new number}
        - {tool: stock.set, args: {item: net, amount: 70}, why: as asked, expects: the new number}
    - expect: {waits: stock.set, on: [bosses]}
    - click: {deny: stock.set, as: U0BOB}
    - expect: {waits: stock.set, outcome: waiting}
    - click: {approve: stock.set, as: U0BOB}
    - reply: Half of it.
    - expect: {outcome: answered, that: "calls[0].outcome == 'denied' && calls[1].outcome == 'ok'"}
`, 12},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t)
			got := play(t, guarded(t, s, c.script))
			if len(got.Failures) > 0 {
				t.Errorf("failures:\n%s", strings.Join(got.Failures, "\n"))
			}
			for _, sum := range got.Turns {
				if sum.Outcome == "waiting" {
					t.Errorf("turn %s is not over", sum.Turn)
				}
			}
			if want := strings.Count(c.script, "- say:"); len(got.Turns) != want {
				t.Errorf("%d turns, want %d", len(got.Turns), want)
			}
			if n := s.count("ball"); n != c.balls {
				t.Errorf("%d balls, want %d", n, c.balls)
			}
		})
	}
}

// What a person finds out about an effect in doubt is said in the thread; the run is over and stays so.
func TestAPersonFindsOutWhatHappened(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	o := guarded(t, s, `    - say: set the balls to 40
    - route: {assistant: stock, confidence: 0.95}
    - call: {tool: stock.set, args: {item: ball, amount: 40}, why: as asked, expects: the new number}
    - reply: I tried.
    - expect: {outcome: answered, that: "calls[0].outcome == 'unknown'"}
    - click: {happened: stock.set, as: U0ANA}
    - expect: {outcome: answered, says: [it took effect]}
`)
	o.Pack.Rehearsals[0].Tools["stock.set"] = &config.Canned{Answers: []config.CannedAnswer{{Fail: "timeout"}}}
	if got := play(t, o); len(got.Failures) > 0 || len(got.Turns) != 1 {
		t.Errorf("%d turns, failures:\n%s", len(got.Turns), strings.Join(got.Failures, "\n"))
	}
}

// A click that cannot be, or is not taken, is a failure with its line and the words that the person gets.
func TestClicksThatDoNotCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		want   []string
	}{
		"by a stranger":        {setBalls + "    - click: {approve: stock.set, as: U0TOM}\n", []string{":8: expected that U0TOM decides", "You may not decide this"}},
		"by whoever asked":     {setBalls + "    - click: {approve: stock.set, as: U0ANA}\n", []string{":8: expected that U0ANA decides"}},
		"of another tool":      {setBalls + "    - click: {approve: stock.get, as: U0BOB}\n", []string{":8: expected an open card for a call of stock.get, there is none"}},
		"no question":          {setBalls + "    - click: {answer: \"yes\", as: U0BOB}\n", []string{":8: expected an open card with a question, there is none"}},
		"waits for others":     {setBalls + "    - expect: {waits: stock.set, on: [keepers]}\n", []string{":8: expected that keepers may decide, it was bosses"}},
		"another tool waits":   {setBalls + "    - expect: {waits: stock.get}\n", []string{":8: expected a call of stock.get that waits for a person, there was none", "stock.set waiting"}},
		"it was not to wait":   {setBalls + "    - expect: {outcome: answered}\n", []string{":8: expected outcome answered, it was waiting"}},
		"an answer too many":   {setBalls + "    - click: {deny: stock.set, as: U0BOB}\n    - reply: No.\n    - reply: Really no.\n", []string{":10: the script has 2 answers here, the run asked for 1"}},
		"an answer too few":    {setBalls + "    - click: {deny: stock.set, as: U0BOB}\n", []string{":8: the script has 0 answers to this click, the run asked for 1"}},
		"a decision too many":  {setBalls + "    - click: {deny: stock.set, as: U0BOB}\n    - reply: No.\n    - click: {approve: stock.set, as: U0BOB}\n", []string{":10: expected an open card"}},
		"nothing to run out":   {setBalls + "    - click: {expire: stock.get}\n", []string{":8: expected an open card"}},
		"nothing was in doubt": {setBalls + "    - click: {not_done: stock.set, as: U0BOB}\n", []string{":8: expected an open card about an effect of stock.set"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := play(t, guarded(t, newShelf(t), c.script))
			if len(got.Failures) != 1 {
				t.Fatalf("failures %q, want one", got.Failures)
			}
			for _, w := range c.want {
				if !strings.Contains(got.Failures[0], w) {
					t.Errorf("%q does not say %q", got.Failures[0], w)
				}
			}
		})
	}
}
