package movestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idem-go/idem/driver"
)

var (
	_ driver.Backend  = (*Backend)(nil)
	_ driver.Checker  = (*Backend)(nil)
	_ driver.Editor   = (*Backend)(nil)
	_ driver.Lister   = (*Backend)(nil)
	_ driver.Purger   = (*Backend)(nil)
	_ driver.Retainer = (*Backend)(nil)
	_ driver.Watcher  = (*Backend)(nil)
)

// Phase is a deploy of the migration.
type Phase uint8

const (
	// Both claims in the old store and then in the new one: the first deploy.
	Both Phase = iota + 1
	// NewAlone claims in the new store, and looks into the old one for what it does
	// not have: the second deploy.
	NewAlone
)

// Backend is two stores during a migration. It is safe for concurrent use and
// keeps nothing itself: a claim may be settled through another Backend of the same
// phase. It is no [driver.Unwrapper]: nobody may claim in one of its stores past
// it. What an operator lists, and the hints for those who wait, are those of the
// phase's first store: the old one with Both, the new one with NewAlone.
type Backend struct {
	phase Phase
	first driver.Backend // decides what is told; claimed, completed first
	other driver.Backend
}

// New returns a Backend for one phase. It returns an error if a store is nil, if
// both are the same, or if the phase is none; it asks no server.
func New(old, next driver.Backend, phase Phase) (*Backend, error) {
	switch {
	case old == nil || next == nil:
		return nil, errors.New("movestore: New: a store is nil")
	case old == next:
		return nil, errors.New("movestore: New: both stores are the same")
	case phase == Both:
		return &Backend{phase, old, next}, nil
	case phase == NewAlone:
		return &Backend{phase, next, old}, nil
	}
	return nil, fmt.Errorf("movestore: New: there is no phase %d: Both and NewAlone are the phases", phase)
}

// old returns the store that is moved away from, next the one that is moved to.
func (b *Backend) old() driver.Backend {
	if b.phase == Both {
		return b.first
	}
	return b.other
}

func (b *Backend) next() driver.Backend {
	if b.phase == Both {
		return b.other
	}
	return b.first
}

// Inspect implements [driver.Backend]: it returns the record of the first store, or
// of the other one if the first has none. An outcome that only the other one has
// comes to the first with the next claim.
func (b *Backend) Inspect(ctx context.Context, key string) (*driver.Record, error) {
	rec, _, err := b.shown(ctx, key)
	return rec, err
}

// shown is the record that Inspect returns, and the store that has it.
func (b *Backend) shown(ctx context.Context, key string) (*driver.Record, driver.Backend, error) {
	rec, err := b.first.Inspect(ctx, key)
	if !errors.Is(err, driver.ErrNotFound) {
		return rec, b.first, err
	}
	rec, err = b.other.Inspect(ctx, key)
	return rec, b.other, err
}

// DefaultRetention implements [driver.Retainer]: it is the first store's.
func (b *Backend) DefaultRetention() time.Duration {
	if r, ok := driver.As[driver.Retainer](b.first); ok {
		return r.DefaultRetention()
	}
	return 7 * 24 * time.Hour // the fallback of driver.Retainer
}

// Check implements [driver.Checker]: it asks both stores.
func (b *Backend) Check(ctx context.Context) error {
	var found []error
	for _, s := range []driver.Backend{b.first, b.other} {
		if c, ok := driver.As[driver.Checker](s); ok {
			found = append(found, c.Check(ctx))
		}
	}
	return errors.Join(found...)
}

// List implements [driver.Lister]: it lists the first store.
func (b *Backend) List(ctx context.Context, p *driver.ListParams) (*driver.ListResult, error) {
	if l, ok := driver.As[driver.Lister](b.first); ok {
		return l.List(ctx, p)
	}
	return nil, errors.ErrUnsupported
}

// Watch implements [driver.Watcher]: the hints are the first store's.
func (b *Backend) Watch(ctx context.Context, key string) (<-chan struct{}, error) {
	if w, ok := driver.As[driver.Watcher](b.first); ok {
		return w.Watch(ctx, key)
	}
	return nil, errors.ErrUnsupported
}

// Purge implements [driver.Purger]: it purges both stores, and tells of the first.
func (b *Backend) Purge(ctx context.Context, p *driver.PurgeParams) (*driver.PurgeResult, error) {
	res := &driver.PurgeResult{}
	purger, ok := driver.As[driver.Purger](b.first)
	if ok {
		done, err := purger.Purge(ctx, p)
		if done != nil {
			res = done
		}
		if err != nil {
			return res, err
		}
	}
	quiet := *p
	quiet.Progress = nil
	other, too := driver.As[driver.Purger](b.other)
	switch {
	case too:
		_, err := other.Purge(ctx, &quiet)
		return res, err
	case !ok:
		return nil, errors.ErrUnsupported
	}
	return res, nil
}

// unnamed hides the contract's sentinels: they speak of one store, and would say
// of both that nothing was changed (I8).
type unnamed struct{ err error }

func (u unnamed) Error() string { return u.err.Error() }

func (u unnamed) Is(target error) bool { return !driver.NoEffect(target) && errors.Is(u.err, target) }

func (u unnamed) As(target any) bool { return errors.As(u.err, target) }

// unsure is the error of a call of which some part may have been applied.
func unsure(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("movestore: the other store: %w", unnamed{err})
}
