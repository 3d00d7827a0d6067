package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// layout is the version of what the keys hold. A program opens its own and older ones.
const layout = 1

// facts are what a server says of itself.
type facts struct {
	version  string
	cluster  bool
	replica  bool
	replicas int
	policy   string // of eviction
	aof      bool
	// The settings below are empty where CONFIG is forbidden.
	fsync   string
	rewrite string // no-appendfsync-on-rewrite
	save    string
	known   bool // CONFIG is allowed
}

// inspect asks the server. Redis: https://redis.io/docs/latest/commands/info/ and …/config-get/ say what the fields mean.
func (r *Reader) inspect(ctx context.Context) (*facts, error) {
	var info string
	var config map[string]string
	err := r.read(ctx, func(ctx context.Context, c *goredis.Client) (err error) {
		if info, err = c.Info(ctx).Result(); err != nil {
			return err
		}
		config = nil
		for _, name := range []string{"appendfsync", "no-appendfsync-on-rewrite", "save"} {
			one, err := c.ConfigGet(ctx, name).Result()
			if _, refused := errors.AsType[goredis.Error](err); refused && judge(err) == answered {
				return nil // hosted servers forbid it
			}
			if err != nil {
				return err
			}
			if config == nil {
				config = map[string]string{}
			}
			config[name] = one[name]
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	said := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			said[name] = value
		}
	}
	replicas, err := strconv.Atoi(said["connected_slaves"])
	if err != nil {
		replicas = 0
	}
	return &facts{
		version: said["redis_version"], cluster: said["cluster_enabled"] == "1", replica: said["role"] == "slave",
		replicas: replicas, policy: said["maxmemory_policy"], aof: said["aof_enabled"] == "1",
		fsync: config["appendfsync"], rewrite: config["no-appendfsync-on-rewrite"], save: config["save"], known: config != nil,
	}, nil
}

// speak refuses servers that do not know what this package asks of them.
func (f *facts) speak(place string) error {
	major, _, _ := strings.Cut(f.version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 7 {
		return fmt.Errorf("open store %s: the server is Redis %q; use 7.0 or newer", place, f.version)
	}
	if f.cluster {
		return fmt.Errorf("open store %s: the server is part of a Redis Cluster, which would keep all of this store on one node "+
			"and lose acknowledged writes when that fails over; use a single server, with cluster-enabled no", place)
	}
	return nil
}

// fit refuses servers that could not keep the promises of package store.
func (f *facts) fit(place string, allowLoss bool) error {
	if err := f.speak(place); err != nil {
		return err
	}
	if f.replica {
		return fmt.Errorf("open store %s: this is a replica and takes no writes; name the primary", place)
	}
	if f.policy != "noeviction" {
		return fmt.Errorf("open store %s: when its memory is full the server deletes keys (maxmemory-policy %s), and with them "+
			"accepted messages and leases; set maxmemory-policy noeviction", place, f.policy)
	}
	if !f.aof && !allowLoss {
		return fmt.Errorf("open store %s: the server keeps no append-only file, so everything since its last snapshot would be lost "+
			"when it ends, accepted messages and the record of what was done included; set appendonly yes", place)
	}
	return nil
}

// promise says what may be lost.
func (f *facts) promise() string {
	var what string
	switch {
	case !f.aof && f.known && f.save == "":
		what = "it keeps neither an append-only file nor snapshots: when it ends, everything is lost"
	case !f.aof:
		what = "it keeps no append-only file: when it ends, everything since its last snapshot is lost"
		if f.save != "" {
			what += " (save " + f.save + ")"
		}
	case !f.known:
		what = "it keeps an append-only file, and how often that reaches the disk cannot be read here (CONFIG is forbidden): " +
			"a power failure loses nothing with appendfsync always and up to two seconds with everysec"
	case f.fsync == "always":
		what = "every write is on its disk before it is acknowledged (appendfsync always): nothing acknowledged is lost"
	case f.fsync == "everysec":
		what = "a crash of the server or a power failure may lose up to the last two seconds (appendfsync everysec; with always it loses nothing)"
	default:
		what = "a crash of the server loses nothing, a power failure whatever the system had not written by itself, " +
			"up to half a minute or so (appendfsync " + f.fsync + ")"
	}
	if f.aof && f.rewrite == "yes" {
		what += "; more while it rewrites its file (no-appendfsync-on-rewrite yes)"
	}
	if f.replicas > 0 {
		what += fmt.Sprintf("; its replicas (%d) follow a moment later, so a failover can lose the last writes", f.replicas)
	}
	return "Redis " + f.version + ": " + what + "."
}

// adopt marks the store as one of this layout.
func (s *Store) adopt(ctx context.Context) error {
	err := s.writes.try(ctx, true, func(ctx context.Context, c *goredis.Client) error { // it may run twice
		return c.HSetNX(ctx, s.keys.meta(), "version", layout).Err()
	})
	if err != nil {
		return fmt.Errorf("open store %s: %w", s.reads.place, err)
	}
	_, err = s.version(ctx)
	return err
}
