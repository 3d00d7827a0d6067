package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"switchboard/config"
	"switchboard/store"
	"switchboard/store/redis"
	"switchboard/store/sqlite"
)

// workshop is a store that is open for work, and what whoever works with it should know.
type workshop struct {
	store.Store
	lease   time.Duration // how long a worker may be silent; 0: the engine's own
	promise string        // what may be lost, and when
}

// sharedLease is how long a replica may be silent before another takes its threads over. With the renewals every 2 s that
// follow from it, a killed replica is taken over well within 10 s.
const sharedLease = 6 * time.Second

// onDisk is what one SQLite file promises: it is synced before anything is acknowledged.
const onDisk = "SQLite: every write is on the disk before it is acknowledged, so nothing acknowledged is lost. One process works on it."

// openStore opens the store that the environment names for work on a pack of that name.
func openStore(ctx context.Context, s config.Settings, name string) (workshop, error) {
	address, shared := s.Redis()
	if !shared {
		st, err := sqlite.Open(ctx, s.StorePath(), sqlite.Options{})
		if err != nil {
			return workshop{}, err
		}
		return workshop{Store: st, promise: onDisk}, nil
	}
	st, err := redis.Open(ctx, address, redis.Options{Name: name})
	if err != nil {
		return workshop{}, err
	}
	return workshop{Store: st, lease: sharedLease, promise: st.Promise()}, nil
}

// lookWithin is how long a command that only reads asks a server that does not answer.
const lookWithin = 5 * time.Second

// record is a store that is open for reading.
type record interface {
	store.Reader
	Close() error
}

// past opens the record for reading, beside bots that may be at work. The pack's folder, which may be "", says whose record
// it is where several bots keep theirs on one server.
func past(ctx context.Context, env config.Environ, pack string) (record, error) {
	settings, err := config.ReadSettings(env)
	if err != nil {
		return nil, err
	}
	if address, shared := settings.Redis(); shared {
		if pack == "" {
			return nil, usage("BOT_STORE names a Redis server, where several bots may keep their state: name the pack as well, with --pack FOLDER")
		}
		p, err := load(pack, config.Options{})
		if err != nil {
			return nil, err
		}
		return redis.OpenReader(ctx, address, redis.Options{Name: p.Name, Patience: lookWithin})
	}
	info, err := os.Stat(settings.StorePath())
	if err == nil && info.IsDir() {
		return nil, fmt.Errorf("open store %s: that is a folder; BOT_STORE names a file, e.g. sqlite:bot.db", settings.StorePath())
	}
	if err != nil {
		return nil, fmt.Errorf("open store %s: there is no such file yet; talk to a bot first (bot chat PACK), or set BOT_STORE to where its store is", settings.StorePath())
	}
	return sqlite.OpenReader(ctx, settings.StorePath())
}

// promiseOf says what a store that is open for reading promises.
func promiseOf(r record) string {
	if shared, ok := r.(*redis.Reader); ok {
		return shared.Promise()
	}
	return onDisk
}
