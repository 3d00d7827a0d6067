package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"switchboard/assistants"
	"switchboard/config"
	"switchboard/store"
)

// versions are the desks that turns work with: the active one, and those that older turns are pinned to (rule D5). It owns
// them: one that is not active any more is closed when the last turn has left it.
type versions struct {
	o Options

	mu     sync.Mutex
	active *held
	held   map[string]*held // by digest
}

// held is a desk and how many turns work with it.
type held struct {
	*assistants.Desk
	turns int
}

func newVersions(desk *assistants.Desk, o Options) *versions {
	h := &held{Desk: desk}
	return &versions{o: o, active: h, held: map[string]*held{desk.Pack.Digest: h}}
}

// desk is the active one, for what needs no tools.
func (v *versions) desk() *assistants.Desk {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.active.Desk
}

// swap makes another version the active one, and takes it over.
func (v *versions) swap(ctx context.Context, desk *assistants.Desk) error {
	if is, was := desk.Pack.Name, v.desk().Pack.Name; is != was { // what waits in the store was said to the other bot
		return fmt.Errorf("take up version %s: it is of the bot %q, and %q is running; give it the old name, or start it as a bot of its own", desk.Pack.Digest, is, was)
	}
	if err := v.keep(ctx, desk.Pack); err != nil {
		return err
	}
	v.mu.Lock()
	old, spare := v.active, (*assistants.Desk)(nil)
	if h, ok := v.held[desk.Pack.Digest]; ok { // an older turn is pinned to the same files
		v.active, spare = h, desk
	} else {
		v.active = &held{Desk: desk}
		v.held[desk.Pack.Digest] = v.active
	}
	v.mu.Unlock()
	v.let(spare)
	v.retire(old)
	return nil
}

// use gives the version of a digest to a turn, until it leaves it; "" is the active one.
func (v *versions) use(ctx context.Context, digest string) (*held, error) {
	if h := v.have(digest, nil); h != nil {
		return h, nil
	}
	desk, err := v.open(ctx, digest)
	if err != nil {
		return nil, err
	}
	h := v.have(digest, desk)
	if h.Desk != desk { // another turn was faster
		v.let(desk)
	}
	return h, nil
}

// have gives a version that is there to a turn; the desk is what becomes it where it is not.
func (v *versions) have(digest string, desk *assistants.Desk) *held {
	v.mu.Lock()
	defer v.mu.Unlock()
	h := v.held[digest]
	switch {
	case digest == "":
		h = v.active
	case h == nil && desk != nil:
		h = &held{Desk: desk}
		v.held[digest] = h
	}
	if h != nil {
		h.turns++
	}
	return h
}

// leave says that a turn does not work with a version any more.
func (v *versions) leave(h *held) {
	v.mu.Lock()
	h.turns--
	v.mu.Unlock()
	v.retire(h)
}

// retire closes a version that nobody uses and that is not active.
func (v *versions) retire(h *held) {
	v.mu.Lock()
	over := h.turns == 0 && h != v.active && v.held[h.Pack.Digest] == h
	if over {
		delete(v.held, h.Pack.Digest)
	}
	v.mu.Unlock()
	if over {
		v.let(h.Desk)
	}
}

// let closes a desk that nobody uses.
func (v *versions) let(desk *assistants.Desk) {
	if desk == nil {
		return
	}
	if err := desk.Close(); err != nil {
		v.o.Log.Error().Err(err).Str("version", desk.Pack.Digest).Msg("close a version of the pack")
	}
}

// close closes them all; no turn may be under way.
func (v *versions) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var errs []error
	for _, h := range v.held {
		errs = append(errs, h.Close())
	}
	clear(v.held)
	return errors.Join(errs...)
}

// keep stores the files of a version under its digest, for ever: a run names the version that it started with.
func (v *versions) keep(ctx context.Context, p *config.Pack) error {
	key := packKey(p.Digest)
	if have, err := v.o.Store.Content(ctx, key); err != nil {
		return fmt.Errorf("keep version %s of the pack: %w", p.Digest, err)
	} else if have != nil {
		return nil
	}
	data, err := json.Marshal(p.Files)
	if err != nil {
		return fmt.Errorf("keep version %s of the pack: %w", p.Digest, err)
	}
	if err := v.o.Store.Commit(ctx, store.Batch{Contents: []store.Content{{Key: key, Value: data}}}); err != nil {
		return fmt.Errorf("keep version %s of the pack: %w", p.Digest, err)
	}
	return nil
}

// open makes a kept version ready.
func (v *versions) open(ctx context.Context, digest string) (*assistants.Desk, error) {
	data, err := v.o.Store.Content(ctx, packKey(digest))
	if err != nil {
		return nil, fmt.Errorf("read version %s of the pack: %w", digest, err)
	}
	var files []config.File
	if err := json.Unmarshal(data, &files); err != nil {
		return nil, fmt.Errorf("read version %s of the pack: it is not kept as it should be: %w", digest, err)
	}
	d, err := v.o.Open(ctx, files)
	if err != nil {
		return nil, fmt.Errorf("open version %s of the pack: %w", digest, err)
	}
	return d, nil
}

func packKey(digest string) string { return "pack/" + digest }
