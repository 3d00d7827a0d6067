package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"switchboard/assistants"
	"switchboard/config"
	"switchboard/llm"
	"switchboard/llm/scripted"
	"switchboard/tools"
)

// mode says which model answers.
type mode string

const (
	byKey   mode = ""        // the real one if there is a key for it
	live    mode = "live"    // the real one
	offline mode = "offline" // the pack's rehearsals
)

// modeOf reads the two flags that force one.
func modeOf(forceLive, forceOffline bool) (mode, error) {
	switch {
	case forceLive && forceOffline:
		return "", usage("--live and --offline exclude each other")
	case forceLive:
		return live, nil
	case forceOffline:
		return offline, nil
	}
	return byKey, nil
}

// parts is a pack, checked and with its surroundings, before it is made ready.
type parts struct {
	pack     *config.Pack
	env      config.Environ // with what the example server brings
	settings config.Settings
	live     bool
	stop     func() error // ends the example server
	outside  config.Environ
	pace     scripted.Pace                           // offline: of an answer's words; nil: all at once
	begins   func(text, person, channel string) bool // offline: whether a message begins a rehearsal
}

// anew ends the example server and starts a fresh one, as every rehearsal finds it.
func (p *parts) anew(ctx context.Context) error {
	if err := p.stop(); err != nil {
		return err
	}
	p.stop = func() error { return nil }
	env, stop, err := example(ctx, p.pack, p.outside)
	if err != nil {
		return err
	}
	p.env, p.stop = env, stop
	return nil
}

// load reads the pack in a folder. Its problems name their files as they are seen from here.
func load(path string, o config.Options) (*config.Pack, error) {
	if err := isFolder(path); err != nil {
		return nil, err
	}
	o.Examples = slices.Sorted(maps.Keys(exampleServers()))
	p, err := config.Load(os.DirFS(path), o)
	if problems, ok := errors.AsType[config.Problems](err); ok {
		for i := range problems {
			problems[i].Place.File = filepath.Join(path, problems[i].Place.File)
		}
		return nil, problems
	}
	if err != nil {
		return nil, fmt.Errorf("load pack %s: %w", path, err)
	}
	return p, nil
}

// gather loads a pack, starts its example server and settles which model answers.
func gather(ctx context.Context, path string, env config.Environ, m mode) (*parts, error) {
	settings, err := config.ReadSettings(env)
	if err != nil {
		return nil, err
	}
	unresolved, err := load(path, config.Options{})
	if err != nil {
		return nil, err
	}
	around, stop, err := example(ctx, unresolved, env)
	if err != nil {
		return nil, err
	}
	p := &parts{pack: unresolved, env: around, settings: settings, stop: stop, live: m == live, outside: env}
	missing, open := p.missingKeys()
	switch {
	case m == byKey:
		p.live = len(missing) == 0
	case m == live && len(missing) > 0 && !open:
		return nil, errors.Join(fmt.Errorf("run live: %s is not set; set it, or play the pack's rehearsals in place of it (without --live, or with --offline)", missing[0]), stop())
	}
	if p.pack, err = load(path, p.options()); err != nil {
		return nil, errors.Join(err, stop())
	}
	return p, nil
}

// options are those with which versions of the pack are loaded here.
func (p *parts) options() config.Options { return config.Options{Env: p.env, Offline: !p.live} }

// missingKeys names the keys of the pack's models that are not set. open says that each of these models has an address of
// its own, behind which it may need no key.
func (p *parts) missingKeys() (names []string, open bool) {
	open = true
	for _, m := range p.pack.Models {
		name, key, base := p.provider(m)
		if m.Key != nil {
			name = m.Key.String()
			key, _ = m.Key.Resolve(p.env) // what is wrong with it is said when the pack is loaded
		}
		if key == "" {
			names = append(names, name)
			open = open && (m.Base != nil || base != "")
		}
	}
	return names, open
}

// provider gives the name of the key's variable, the key and the address that a model uses unless it has its own.
func (p *parts) provider(m config.Model) (name, key, base string) {
	if m.Provider == "anthropic" {
		return "ANTHROPIC_API_KEY", p.settings.AnthropicKey, p.settings.AnthropicBase
	}
	return "OPENAI_API_KEY", p.settings.OpenAIKey, p.settings.OpenAIBase
}

// models gives the way to open a model: the real one, or the one that plays the pack's rehearsals.
func (p *parts) models(pack *config.Pack) func(config.Model) (llm.Model, error) {
	if p.live {
		return p.liveModel
	}
	script := scripted.New(pack)
	if p.pace != nil {
		script = script.WithPace(p.pace)
	}
	return func(m config.Model) (llm.Model, error) { return script.Model(m), nil }
}

func (p *parts) liveModel(m config.Model) (llm.Model, error) {
	_, key, base := p.provider(m)
	var err error
	if m.Key != nil {
		if key, err = m.Key.Resolve(p.env); err != nil {
			return nil, err
		}
	}
	if m.Base != nil {
		if base, err = m.Base.Resolve(p.env); err != nil {
			return nil, err
		}
	}
	return llm.Open(llm.Options{
		Provider: m.Provider, ID: m.ID, BaseURL: base, Key: key, Price: llm.PriceOf(m.Price), Output: m.Output, Temperature: m.Heat,
	})
}

// desk makes a version of the pack ready to work.
func (p *parts) desk(ctx context.Context, pack *config.Pack) (*assistants.Desk, error) {
	return assistants.Open(ctx, pack, assistants.Options{
		Env: p.env, Model: p.models(pack), Client: tools.NewClient(p.settings.ToolNets...), Now: time.Now,
		Secrets: []string{p.settings.OpenAIKey, p.settings.AnthropicKey},
	})
}

// stored makes a version ready that the store has kept.
func (p *parts) stored(ctx context.Context, files []config.File) (*assistants.Desk, error) {
	pack, err := config.Load(config.FromFiles(files), p.options())
	if err != nil {
		return nil, err
	}
	return p.desk(ctx, pack)
}

// wait waits, or ends early with the context's cause.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
