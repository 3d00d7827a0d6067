package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"switchboard/config"
	"switchboard/examples/backoffice"
)

// exampleServer is an example server that is compiled in: a pack can name one, and can start nothing else.
type exampleServer interface {
	Env() map[string]string
	Close(ctx context.Context) error
}

func exampleServers() map[string]func(context.Context) (exampleServer, error) {
	return map[string]func(context.Context) (exampleServer, error){
		"backoffice": func(ctx context.Context) (exampleServer, error) { return backoffice.Start(ctx, backoffice.Options{}) },
	}
}

// example starts the pack's example server, unless everything that its tools need is set in the environment already, and
// gives the environment in which the pack then stands.
func example(ctx context.Context, p *config.Pack, env config.Environ) (config.Environ, func() error, error) {
	nothing := func() error { return nil }
	if p.Example == "" || !lacks(p, env) {
		return env, nothing, nil
	}
	server, err := exampleServers()[p.Example](ctx) // load has checked the name
	if err != nil {
		return nil, nil, fmt.Errorf("start the example server of pack %s: %w", p.Name, err)
	}
	extra := server.Env()
	stop := func() error {
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), 5*time.Second, fmt.Errorf("stop the example server"))
		defer cancel()
		return server.Close(ctx)
	}
	return func(name string) (string, bool) {
		if v, ok := extra[name]; ok {
			return v, true
		}
		return env(name)
	}, stop, nil
}

// lacks says whether a variable that the pack's tools need is not set.
func lacks(p *config.Pack, env config.Environ) bool {
	return slices.ContainsFunc(p.Refs(), func(r config.Ref) bool {
		if r.Env == "" {
			return false
		}
		v, ok := env(r.Env)
		return !ok || v == ""
	})
}
