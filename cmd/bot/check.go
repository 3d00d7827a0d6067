package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"switchboard/config"
)

// checked is what bot check says of one pack, for programs.
type checked struct {
	Pack     string    `json:"pack"`
	OK       bool      `json:"ok"`
	Name     *string   `json:"name"`
	Digest   *string   `json:"digest"`
	Problems []problem `json:"problems"`
	Needs    []string  `json:"needs"` // variables and files that must be there when it runs
	Policy   []ruled   `json:"policy"`
}

// ruled is what the policy may say of one tool: of those with an effect, or of which a rule speaks.
type ruled struct {
	Tool    string         `json:"tool"`
	Effect  config.Effect  `json:"effect"`
	Default config.Verdict `json:"default"` // where no rule matches
	Rules   []rule         `json:"rules"`
}

type rule struct {
	Place   string         `json:"place"` // file:line:col
	Verdict config.Verdict `json:"verdict"`
	When    *string        `json:"when"` // null: always
}

type problem struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Col  int    `json:"col"`
	Msg  string `json:"msg"`
	Mend string `json:"mend"`
}

func checkCommand(s streams, _ config.Environ) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "check PACK...",
		Short:   "Say everything that is wrong with packs, with file, line and column",
		Example: "bot check examples/club",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("%s takes the folder of a pack, or several; e.g. %s", cmd.CommandPath(), cmd.Example)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			bad := false
			for _, path := range args {
				c, pack, err := check(path)
				if err != nil {
					return err
				}
				bad = bad || !c.OK
				if asJSON {
					err = printJSON(s.out, c)
				} else {
					err = c.print(s, path, pack)
				}
				if err != nil {
					return err
				}
			}
			if bad {
				return no()
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line for every pack")
	return cmd
}

func check(path string) (checked, *config.Pack, error) {
	c := checked{Pack: path, Problems: []problem{}, Needs: []string{}, Policy: []ruled{}}
	p, err := load(path, config.Options{})
	if problems, ok := errors.AsType[config.Problems](err); ok {
		for _, x := range problems {
			c.Problems = append(c.Problems, problem{filepath.ToSlash(x.Place.File), x.Place.Line, x.Place.Col, x.Msg, x.Mend})
		}
		return c, nil, nil
	}
	if err != nil {
		return c, nil, err
	}
	c.OK, c.Name, c.Digest = true, &p.Name, &p.Digest
	for _, r := range p.Refs() {
		if n := r.String(); !slices.Contains(c.Needs, n) {
			c.Needs = append(c.Needs, n)
		}
	}
	c.Policy = policyOf(p)
	return c, p, nil
}

// policyOf lists which rules can touch which tools.
func policyOf(p *config.Pack) []ruled {
	out := []ruled{}
	for _, t := range p.Tools {
		of := ruled{Tool: t.Name, Effect: t.Effect, Default: p.Policy.Of(t.Effect), Rules: []rule{}}
		for _, r := range p.Policy.Rules {
			if !r.Names(t.Name) {
				continue
			}
			said := rule{Place: r.Place.String(), Verdict: r.Verdict}
			if r.When != nil {
				when := r.When.Source()
				said.When = &when
			}
			of.Rules = append(of.Rules, said)
		}
		if t.Effect.Changes() || len(of.Rules) > 0 {
			out = append(out, of)
		}
	}
	return out
}

// printPolicy writes the rules that can touch each tool; tools of which the same is said share their lines.
func (c checked) printPolicy(out *page) {
	same := map[string][]string{}
	var order []string
	for _, t := range c.Policy {
		var b strings.Builder
		for _, r := range t.Rules {
			when := "always"
			if r.When != nil {
				when = "when " + strings.Join(strings.Fields(*r.When), " ")
			}
			fmt.Fprintf(&b, "    %-5s %s  %s\n", r.Verdict, r.Place, when)
		}
		fmt.Fprintf(&b, "    %-5s if no rule matches (effect %s)\n", t.Default, t.Effect)
		if same[b.String()] == nil {
			order = append(order, b.String())
		}
		same[b.String()] = append(same[b.String()], t.Tool)
	}
	for _, lines := range order {
		out.print("  %s\n%s", strings.Join(same[lines], ", "), lines)
	}
}

func (c checked) print(s streams, path string, p *config.Pack) error {
	out := page{w: s.out}
	if !c.OK {
		for _, x := range c.Problems {
			mend := ""
			if x.Mend != "" {
				mend = " (" + x.Mend + ")"
			}
			out.print("%s:%d:%d: %s%s\n", x.File, x.Line, x.Col, x.Msg, mend)
		}
		out.print("%s: %s\n", path, count(len(c.Problems), "problem"))
		return out.err
	}
	own := 0 // the built-in tools are no merit of the pack
	for _, t := range p.Tools {
		if t.HTTP != nil {
			own++
		}
	}
	out.print("%s: good: %s, %s, %s, %s, %s\n", path, count(len(p.Assistants), "assistant"), count(own, "tool"),
		count(len(p.Policy.Rules), "rule"), count(len(p.Docs), "document"), count(len(p.Rehearsals), "rehearsal"))
	if len(c.Needs) > 0 {
		where := ""
		if p.Example != "" {
			where = "; bot chat starts the example server " + p.Example + ", which sets what is missing"
		}
		out.print("  needs %s%s\n", strings.Join(c.Needs, ", "), where)
	}
	c.printPolicy(&out)
	return out.err
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
