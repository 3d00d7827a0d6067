package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"switchboard/config/expr"
)

// names keeps the definitions and the uses of one kind of name, so that a name that does not exist is reported once, where
// the slip most likely is.
type names struct {
	what    string           // "model", in messages: unknown model "fsat"
	defs    map[string]Place // where each is defined
	uses    map[string][]Place
	broken  bool   // a definition could not be read: unknown names may be its fault, and are not reported
	section string // the key that holds the definitions, where a pack may have none
	home    Place  // of the mapping that would hold the section; the zero Place: the section is there
}

func newNames(what string) *names {
	return &names{what: what, defs: map[string]Place{}, uses: map[string][]Place{}}
}

// define notes a definition; false when there is one already.
func (ns *names) define(name string, at Place) bool {
	if _, dup := ns.defs[name]; dup {
		return false
	}
	ns.defs[name] = at
	return true
}

// use notes that a name is wanted.
func (ns *names) use(name string, at Place) { ns.uses[name] = append(ns.uses[name], at) }

// known lists the defined names.
func (ns *names) known() []string { return slices.Sorted(maps.Keys(ns.defs)) }

// settle reports the names that are used and not defined.
func (ns *names) settle(l *loader) {
	if ns.broken {
		return
	}
	var lost []string
	for _, name := range slices.Sorted(maps.Keys(ns.uses)) {
		if _, ok := ns.defs[name]; !ok {
			slices.SortFunc(ns.uses[name], comparePlaces)
			ns.uses[name] = slices.Compact(ns.uses[name])
			lost = append(lost, name)
		}
	}
	if len(lost) > 0 && ns.home != (Place{}) {
		ns.noSection(l, lost)
		return
	}
	for _, name := range lost {
		ns.unknown(l, name, ns.uses[name])
	}
}

// unknown reports one name. When it is wanted in several places and a near one is defined and wanted nowhere, the slip is in
// the definition.
func (ns *names) unknown(l *loader, name string, uses []Place) {
	near := expr.Near(name, ns.known())
	if near != "" && len(ns.uses[near]) == 0 && len(uses) > 1 && ns.defs[near] != (Place{}) {
		l.report(ns.defs[near], fmt.Sprintf("the %s %q is used nowhere, while %q is wanted at %s and in %d more places", ns.what, near, name, uses[0], len(uses)-1),
			fmt.Sprintf("did you mean %q?", name))
		return
	}
	var mend string
	switch {
	case near != "" && ns.defs[near] == (Place{}):
		mend = fmt.Sprintf("did you mean %q?", near)
	case near != "":
		mend = fmt.Sprintf("did you mean %q (%s)?", near, ns.defs[near])
	case len(ns.defs) == 0:
		mend = "define it, or leave it out"
	default:
		mend = "known: " + listed(ns.known())
	}
	for _, at := range uses {
		l.report(at, fmt.Sprintf("unknown %s %q", ns.what, name), mend)
	}
}

// noSection reports that nothing is defined at all.
func (ns *names) noSection(l *loader, lost []string) {
	var all []Place
	for _, name := range lost {
		all = append(all, ns.uses[name]...)
	}
	slices.SortFunc(all, comparePlaces)
	msg := fmt.Sprintf("%s is missing, while the %s %q is wanted at %s", ns.section, ns.what, lost[0], all[0])
	if len(all) > 1 {
		msg += fmt.Sprintf(" and there are %d more such places", len(all)-1)
	}
	l.report(ns.home, msg, "add "+ns.section+" with "+strings.Join(lost, ", "))
}

// listed writes at most a dozen names.
func listed(all []string) string {
	if len(all) > 12 {
		return strings.Join(all[:12], ", ") + fmt.Sprintf(" and %d more", len(all)-12)
	}
	return strings.Join(all, ", ")
}

// unsettled says whether a name is used that is not defined.
func (ns *names) unsettled() bool {
	for name := range ns.uses {
		if _, ok := ns.defs[name]; !ok {
			return true
		}
	}
	return false
}
