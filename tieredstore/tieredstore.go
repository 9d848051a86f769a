package tieredstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/idem-go/idem/driver"
)

var (
	_ driver.Backend   = (*Backend)(nil)
	_ driver.Editor    = (*Backend)(nil)
	_ driver.Checker   = (*Backend)(nil)
	_ driver.Retainer  = (*Backend)(nil)
	_ driver.Refresher = (*Backend)(nil)
	_ driver.Unwrapper = (*Backend)(nil)
)

const (
	defaultWindow      = 7 * 24 * time.Hour
	defaultRetention   = 90 * 24 * time.Hour // at least: see withDefaults
	defaultFastTimeout = 100 * time.Millisecond
	defaultRefillBound = time.Minute
)

// Options of a [Backend]. The zero value is valid.
type Options struct {
	// Window is how long a copy is served by the fast tier after it was put. The
	// default value is 7 days, or Retention if that is shorter.
	Window time.Duration
	// Retention is how long an outcome is kept where neither idem.Options nor the
	// call says so ([driver.Retainer]). The default value is 90 days, or the
	// archive's if that is longer: an archive that keeps less needs this set too.
	Retention time.Duration
	// FastTimeout bounds each call of the fast tier, which also gets no more than
	// half of what the caller's context has left, and the read of the archive after a
	// completion, which is made for the fast tier's sake only. At least a millisecond. The default value is 100 milliseconds.
	FastTimeout time.Duration
	// RefillBound is how long no copy of a redacted or reset key is put. A reader
	// puts its copy within half of it, or not at all, so it must be more than twice
	// FastTimeout. It must outlast a Redact or Reset of the archive with its
	// time-out, and be the same in all processes that share the fast tier, those of
	// operators too. The default value is one minute.
	RefillBound time.Duration
}

// withDefaults returns the options with their defaults, or says which is wrong.
func (o *Options) withDefaults(archive driver.Backend) (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Window", out.Window}, {"Retention", out.Retention}, {"FastTimeout", out.FastTimeout}, {"RefillBound", out.RefillBound}} {
		if d.value < 0 || d.value > 0 && d.value < time.Millisecond {
			return out, fmt.Errorf("tieredstore: New: %s is %v: it must be 0 (the default) or at least 1ms", d.name, d.value)
		}
	}
	keeps := defaultRetention
	if r, ok := driver.As[driver.Retainer](archive); ok {
		keeps = max(keeps, r.DefaultRetention()) // nothing is forgotten sooner than by the archive alone
	}
	out.Retention = or(out.Retention, keeps)
	out.Window = or(out.Window, min(defaultWindow, out.Retention))
	out.FastTimeout = or(out.FastTimeout, defaultFastTimeout)
	out.RefillBound = or(out.RefillBound, defaultRefillBound)
	switch {
	case out.Window > out.Retention:
		return out, fmt.Errorf("tieredstore: New: Window is %v, longer than the Retention of %v: the fast tier cannot keep what the archive has forgotten",
			out.Window, out.Retention)
	case out.RefillBound <= 2*out.FastTimeout:
		return out, fmt.Errorf("tieredstore: New: RefillBound is %v, not more than twice the FastTimeout of %v: a slow reader could put an old copy back",
			out.RefillBound, out.FastTimeout)
	}
	return out, nil
}

func or(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// Backend is an archive with a fast tier in front of it. It is safe for
// concurrent use and keeps no goroutine. It is as durable as its archive (I10),
// whose clock decides everything but the end of a copy (I7).
//
// Optional interfaces that it does not have itself (Lister, Purger, Watcher) are
// the archive's, found by [driver.As].
type Backend struct {
	fast    fastTier
	archive driver.Backend
	opts    Options

	unchecked atomic.Bool // the archive is a Checker that has not answered yet
	counts    counts
}

// New returns a Backend over both tiers. A nil opts is valid. It returns an error
// if a tier is nil or an option is out of its bounds, and asks no server.
func New(fast driver.Cache, archive driver.Backend, opts *Options) (*Backend, error) {
	if fast == nil || archive == nil {
		return nil, errors.New("tieredstore: New: a tier is nil")
	}
	o, err := opts.withDefaults(archive)
	if err != nil {
		return nil, err
	}
	b := &Backend{archive: archive, opts: o}
	b.fast.init(fast, o.FastTimeout, &b.counts)
	_, checks := driver.As[driver.Checker](archive)
	b.unchecked.Store(checks)
	return b, nil
}

// Unwrap implements [driver.Unwrapper]: it returns the archive.
func (b *Backend) Unwrap() driver.Backend { return b.archive }

// DefaultRetention implements [driver.Retainer]: it is Options.Retention.
func (b *Backend) DefaultRetention() time.Duration { return b.opts.Retention }

// Renew implements [driver.Backend]. It is the archive's.
func (b *Backend) Renew(ctx context.Context, ref driver.Ref, p *driver.RenewParams) error {
	b.counts.renews.Add(1)
	return b.archive.Renew(ctx, ref, p)
}

// Annotate implements [driver.Backend]. It is the archive's.
func (b *Backend) Annotate(ctx context.Context, ref driver.Ref, p *driver.AnnotateParams) error {
	b.counts.annotates.Add(1)
	return b.archive.Annotate(ctx, ref, p)
}

// Release implements [driver.Backend]. It is the archive's.
func (b *Backend) Release(ctx context.Context, ref driver.Ref, p *driver.ReleaseParams) error {
	b.counts.releases.Add(1)
	return b.archive.Release(ctx, ref, p)
}

// Inspect implements [driver.Backend]. It is the archive's: what an operator sees
// is never a copy.
func (b *Backend) Inspect(ctx context.Context, key string) (*driver.Record, error) {
	b.counts.inspects.Add(1)
	return b.archive.Inspect(ctx, key)
}
