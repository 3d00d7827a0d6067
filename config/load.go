package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"switchboard/config/expr"

	"go.yaml.in/yaml/v3"
)

// Options say how much Load looks at.
type Options struct {
	// Env, when it is set, resolves every reference, and what is missing is a problem at its place. nil: references are not
	// looked at; Pack.Refs lists them.
	Env Environ
	// Offline says that no model will be asked: what models need may be missing.
	Offline bool
	// Examples are the names of the example servers that are compiled in. nil: any name is accepted.
	Examples []string
}

// The bounds of what is read, so that a mistaken folder ends in a sentence.
const (
	maxFile  = 1 << 20
	maxFiles = 5_000
)

// loader is one Load: what it has read so far, and what is wrong with it.
type loader struct {
	pack     *Pack
	problems Problems
	refs     []Ref

	*kit

	models, scope, groups, tools, assistants *names
	residents, rooms                         *names               // of playground.yaml
	contracts                                map[string]*contract // what was read of each tool of the pack
	money                                    []Place              // limits in money
	unpriced                                 map[string]bool      // models whose price could not be read
	bot                                      Place                // of bot.yaml's keys
	lost                                     bool                 // bot.yaml could not be read
	examples                                 []string             // see Options
	later                                    []func()             // what can be checked only once every file is read
	all                                      []*Tool              // see everyTool
	policies                                 map[string]*expr.Env
	ask                                      *Tool                       // ask.person for the people of this pack
	waits                                    []wait                      // how long calls may wait for a person
	wants                                    map[string]map[string]Place // where each assistant names a tool
}

// kit is what a Load needs and does not change: environments for expressions, compiled schemas, the built-in tools.
type kit struct {
	base, take, calls, run *expr.Env
	schemas                expr.Schemas
	builtins               []*Tool
}

func newKit() (*kit, error) {
	k := &kit{builtins: Builtins()}
	var err [4]error
	k.base, err[0] = expr.New()
	if err[0] == nil {
		k.take, err[1] = k.base.With(expr.TakeVars()...)
		k.calls, err[2] = k.base.With(expr.CallVars()...)
		k.run, err[3] = k.base.With(expr.RunVars()...)
	}
	return k, errors.Join(err[:]...)
}

// Load reads a pack and checks all of it. The error is Problems when the pack is wrong; a folder that cannot be read
// gives another error.
func Load(fsys fs.FS, o Options) (*Pack, error) {
	k, err := newKit()
	if err != nil {
		return nil, err
	}
	return k.load(fsys, o)
}

func (k *kit) load(fsys fs.FS, o Options) (*Pack, error) {
	l := newLoader(k)
	l.examples = o.Examples
	if is, err := l.isPack(fsys); err != nil {
		return nil, err
	} else if !is {
		return nil, l.problems
	}
	if err := l.readFiles(fsys); err != nil {
		return nil, err
	}
	l.parse()
	for _, check := range l.later {
		check()
	}
	l.settle()
	l.lint()
	if o.Env != nil {
		l.resolve(o)
	}
	if len(l.problems) > 0 {
		return nil, l.problems.sorted()
	}
	l.pack.populate()
	l.pack.Digest = digest(l.pack.Files)
	slices.SortFunc(l.refs, func(a, b Ref) int { return comparePlaces(a.Place, b.Place) })
	l.pack.refs = l.refs
	return l.pack, nil
}

func newLoader(k *kit) *loader {
	l := &loader{
		kit:        k,
		pack:       &Pack{Policy: Policy{Default: map[Effect]Verdict{NoEffect: Allow, Write: Allow, Irreversible: Ask}}},
		models:     newNames("model"),
		scope:      newNames("scope variable"),
		groups:     newNames("group of people"),
		tools:      newNames("tool"),
		assistants: newNames("assistant"),
		residents:  newNames("person of playground.yaml"),
		rooms:      newNames("channel of playground.yaml"),
		contracts:  map[string]*contract{},
		unpriced:   map[string]bool{},
		policies:   map[string]*expr.Env{},
		wants:      map[string]map[string]Place{},
	}
	l.assistants.define(NoAssistant, Place{})
	l.pack.Tools = slices.Clone(k.builtins)
	for _, t := range l.pack.Tools {
		l.tools.define(t.Name, Place{})
	}
	l.tools.define(askPerson, Place{})
	for _, g := range []string{Everyone, Guests, Externals} {
		l.groups.define(g, Place{})
	}
	return l
}

func (l *loader) report(p Place, msg, mend string) {
	l.problems = append(l.problems, Problem{Place: p, Msg: msg, Mend: mend})
}

// isPack says whether the folder has a bot.yaml. Without one it is most likely no pack at all, and nothing else is said.
func (l *loader) isPack(fsys fs.FS) (bool, error) {
	all, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return false, fmt.Errorf("read the pack: %w", err)
	}
	mend := "a pack is a folder with a bot.yaml; give its path"
	for _, e := range all {
		switch {
		case e.IsDir():
		case e.Name() == "bot.yaml":
			return true, nil
		case e.Name() == "bot.yml" || e.Name() == "bot.json" || expr.Near(e.Name(), []string{"bot.yaml"}) != "":
			mend = "rename " + e.Name() + " to bot.yaml"
		}
	}
	l.report(Place{"bot.yaml", 1, 1}, "bot.yaml is missing", mend)
	return false, nil
}

// readFiles collects the files of the pack and reports those that do not belong there.
func (l *loader) readFiles(fsys fs.FS) error {
	err := fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case Scratch(path.Base(name)):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir():
			return l.folder(name)
		case (path.Base(name) == "README.md" || path.Ext(name) == ".go") && !under(name, "docs"):
			return nil // for people, and for programs that embed or test the pack
		case !l.belongs(name):
			return nil
		case len(l.pack.Files) == maxFiles:
			l.report(Place{name, 1, 1}, fmt.Sprintf("the pack has more than %d files", maxFiles), "split it")
			return fs.SkipAll
		}
		info, err := e.Info()
		if err == nil && info.Size() > maxFile {
			l.report(Place{name, 1, 1}, "the file is larger than 1 MiB", "split it")
			return nil
		}
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		l.pack.Files = append(l.pack.Files, File{Name: name, Data: data})
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the pack: %w", err)
	}
	slices.SortFunc(l.pack.Files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// Scratch says whether a file is what an editor leaves beside the one that is edited (bot.yaml~, #bot.yaml#, .bot.yaml.swp,
// 4913). It is no part of a pack.
func Scratch(name string) bool {
	digits := strings.Trim(name, "0123456789") == ""
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#") || digits
}

// rootFiles are those that stand beside the folders.
func rootFiles() []string { return []string{"bot.yaml", "policy.yaml", "playground.yaml"} }

// folders are those that a pack may have.
func folders() []string { return []string{"assistants", "tools", "rehearsals", "docs"} }

func (l *loader) folder(name string) error {
	switch {
	case slices.Contains(folders(), name) || under(name, "docs"):
		return nil
	case name == "schedules":
		l.report(Place{name, 1, 1}, "schedules come with a later version; this one does not run them", "remove the folder")
	default:
		mend := "a pack has the folders " + strings.Join(folders(), ", ")
		if near := expr.Near(name, folders()); near != "" {
			mend = fmt.Sprintf("did you mean %q?", near)
		}
		l.report(Place{name, 1, 1}, fmt.Sprintf("unknown folder %q", name), mend)
	}
	return fs.SkipDir
}

// belongs says whether a file is part of a pack.
func (l *loader) belongs(name string) bool {
	dir, base := path.Split(name)
	ext := path.Ext(base)
	switch dir {
	case "":
		if slices.Contains(rootFiles(), base) {
			return true
		}
	case "assistants/", "tools/", "rehearsals/":
		if ext == ".yaml" {
			return true
		}
	default:
		if ext == ".md" || ext == ".txt" {
			return true
		}
	}
	l.stranger(name, dir, ext)
	return false
}

func (l *loader) stranger(name, dir, ext string) {
	mend := "remove it, or move it out of the pack"
	switch {
	case dir == "" && expr.Near(name, rootFiles()) != "":
		mend = fmt.Sprintf("did you mean %q?", expr.Near(name, rootFiles()))
	case (ext == ".yml" || ext == ".json") && dir != "docs/":
		mend = "rename it to " + strings.TrimSuffix(name, ext) + ".yaml"
	case under(name, "docs"):
		mend = "documents end in .md or .txt"
	}
	l.report(Place{name, 1, 1}, fmt.Sprintf("unknown file %q", name), mend)
}

// parse reads every file, those first that others build on.
func (l *loader) parse() {
	l.bot = Place{"bot.yaml", 1, 1}
	kinds := []struct {
		belongs func(name string) bool
		read    func(d *source, n *yaml.Node)
		lost    func(name string) // the file could not be read at all
	}{
		{func(s string) bool { return s == "bot.yaml" }, l.readBot, func(string) { l.lostBot() }},
		{func(s string) bool { return under(s, "tools") }, l.readTools, func(string) { l.tools.broken = true }},
		{func(s string) bool { return under(s, "assistants") }, l.readAssistant, l.lostAssistant},
		{func(s string) bool { return s == "policy.yaml" }, l.readPolicy, func(string) {}},
		{func(s string) bool { return s == "playground.yaml" }, l.readPlayground, func(string) { l.lostPlayground() }},
		{func(s string) bool { return under(s, "rehearsals") }, l.readRehearsals, func(string) {}},
	}
	for _, k := range kinds {
		for _, f := range l.pack.Files {
			if !k.belongs(f.Name) {
				continue
			}
			if d, root := l.open(f); d != nil {
				k.read(d, root)
			} else {
				k.lost(f.Name)
			}
		}
	}
	for _, f := range l.pack.Files {
		if under(f.Name, "docs") {
			l.readDoc(f)
		}
	}
	l.whole()
}

// whole checks that the parts are there which no pack can do without, and adds what depends on all of bot.yaml.
func (l *loader) whole() {
	l.ask = askContract(l.pack.People)
	l.pack.Tools = slices.Insert(l.pack.Tools, len(l.builtins), l.ask)
	if !slices.ContainsFunc(l.pack.Files, func(f File) bool { return f.Name == "bot.yaml" }) { // it was too large
		l.lostBot()
	}
	if !slices.ContainsFunc(l.pack.Files, func(f File) bool { return f.Name == "playground.yaml" }) { // it is put together later
		l.lostPlayground()
	}
	if len(l.assistants.defs) == 1 && !l.lost { // none
		l.report(l.bot, "the pack has no assistant", "add assistants/NAME.yaml")
	}
}

// lostBot notes that nothing is known of what bot.yaml defines.
func (l *loader) lostBot() {
	l.lost, l.models.broken, l.scope.broken, l.groups.broken = true, true, true, true
}

// settle reports the names that are wanted and defined nowhere.
func (l *loader) settle() {
	for _, ns := range []*names{l.models, l.scope, l.groups, l.tools, l.assistants, l.residents, l.rooms} {
		ns.settle(l)
	}
	for _, c := range l.contracts {
		c.args.settle(l)
		c.results.settle(l)
		c.facts.settle(l)
	}
}

func (l *loader) resolve(o Options) {
	for _, r := range l.refs {
		if o.Offline && r.Place.File == "bot.yaml" { // the models' are the only ones there
			continue
		}
		if _, err := r.Resolve(o.Env); err != nil {
			msg, mend, _ := strings.Cut(err.Error(), "; ")
			l.report(r.Place, msg, mend)
		}
	}
}

// readDoc takes a document: its name is its path without the extension, its title its first heading.
func (l *loader) readDoc(f File) {
	name := strings.TrimPrefix(f.Name, "docs/")
	doc := Doc{Name: strings.TrimSuffix(name, path.Ext(name)), Text: strings.TrimPrefix(string(f.Data), "\uFEFF")}
	doc.Title = doc.Name
	for line := range strings.Lines(doc.Text) {
		if h := strings.TrimLeft(line, "#"); h != line && strings.HasPrefix(h, " ") {
			doc.Title = strings.TrimSpace(h)
			break
		}
	}
	if slices.ContainsFunc(l.pack.Docs, func(d Doc) bool { return d.Name == doc.Name }) {
		l.report(Place{f.Name, 1, 1}, fmt.Sprintf("there are two documents %q", doc.Name), "rename one of them")
		return
	}
	l.pack.Docs = append(l.pack.Docs, doc) // its name exists, whatever it holds
	at := Place{f.Name, 1, 1}
	switch {
	case !utf8.Valid(f.Data):
		l.report(at, "the document is not valid UTF-8", "save it as UTF-8 text")
	case bytes.IndexByte(f.Data, 0) >= 0:
		l.report(at, "the document holds a zero byte", "save it as text")
	case strings.TrimSpace(doc.Text) == "":
		l.report(at, "the document is empty", "write its text, or delete the file")
	}
}
