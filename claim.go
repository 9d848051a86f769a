package idem

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/idem-go/idem/driver"
)

// Claim is a key that the caller holds, or, beside [ErrAlreadyDone], the record
// of one that is done. Its methods are safe for concurrent use. A claim inside
// [Store.Execute] is renewed and settled by Execute; one from [Store.Claim] by
// its caller.
type Claim struct {
	// Result is the recorded outcome. Set when Claim returns ErrAlreadyDone.
	Result Result

	request // what was asked for
	lease   // how long the answer may be trusted

	token     uint64
	print     driver.Fingerprint // the record's
	providers []driver.Provider  // the record's
	state     atomic.Uint32      // the key's driver.State, as last seen
	began     atomic.Bool        // the operation has begun, or the caller of Store.Claim may have
	takeover  bool               // an earlier attempt may have had its effect
	held      bool               // acquired; false beside ErrAlreadyDone and before
	answered  bool               // the final write was made, or given up
	open      bool               // running without a claim (FailOpen)

	under opContext             // the operation's context
	final driver.CompleteParams // of a success

	storeTime, opTime atomic.Int64 // durations, for the observer
	waited            time.Duration
}

// claimKey is the context key of the claim a call runs under.
type claimKey struct{}

// aroundKey is the context key of the context that Claim.Context was given: its
// claims run around those of the claim's own.
type aroundKey struct{}

// ClaimFrom returns the claim under which an operation runs. It reports false
// outside one.
func ClaimFrom(ctx context.Context) (*Claim, bool) {
	c, ok := ctx.Value(claimKey{}).(*Claim)
	return c, ok
}

// Key returns the key as the caller gave it.
func (c *Claim) Key() string { return c.key }

// Token returns the fencing token: it rises with every claim of the key, so
// that a resource that remembers the highest one can refuse a stale holder. It
// orders claims; it authorises nothing. It is 0 if FailOpen ran the operation
// without a claim.
func (c *Claim) Token() uint64 { return c.token }

// ref names the claim to the backend.
func (c *Claim) ref() driver.Ref {
	return driver.Ref{Key: c.stored, Owner: c.owner, Token: c.token}
}

// Attempt returns the number of this claim of the key, from 1.
func (c *Claim) Attempt() int { return c.attempt }

// Takeover reports whether some earlier attempt may have had its effect. It is
// also true when nothing is known, because FailOpen ran the operation without a
// claim.
func (c *Claim) Takeover() bool { return c.takeover }

// ProviderKey returns the key to pass to a provider that deduplicates: the same
// for every attempt, process and release, different for every namespace, key
// and provider. It has the shape of a UUID, 36 characters.
func (c *Claim) ProviderKey(provider string) string {
	return providerKey(c.store.opts.Namespace, c.key, provider)
}

// Refs returns the provider references saved by this and earlier attempts, in
// order.
func (c *Claim) Refs() []ProviderRef {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]ProviderRef(nil), c.refs...)
}

// Remaining returns what is left of the trust window: how long the holder may
// act without asking. It is 0 when the window has ended or the claim is not
// held.
func (c *Claim) Remaining() time.Duration {
	if !c.held {
		return 0
	}
	return max(0, time.Duration(c.trusted.Load())-c.store.now())
}

// Context returns a context that ends, with cause [ErrLeaseLost], when the
// trust window does, and at once if the claim is not held. Renewals move its
// end. It also ends with cause [ErrMaxRun]: with the shortest provider's window
// (WithProvider), and, inside Execute, with MaxRun. Settling the claim does not end it. The caller must call
// the CancelFunc.
func (c *Claim) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.WithValue(context.WithValue(parent, aroundKey{}, parent), claimKey{}, c))
	if c.open {
		return ctx, func() { cancel(context.Canceled) }
	}
	lease := c.leaseContext()
	switch { // at once, not a goroutine later
	case lease.Err() != nil:
		cancel(context.Cause(lease))
	case c.isSettled():
		cancel(c.leaseLost(nil))
	}
	forget := context.AfterFunc(lease, func() { cancel(context.Cause(lease)) })
	return ctx, func() { forget(); cancel(context.Canceled) }
}

// isSettled reports whether nothing more may be written under the claim.
func (c *Claim) isSettled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settled
}

// leaseContext returns the context that ends with the trust window.
func (c *Claim) leaseContext() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.window == nil {
		c.window = newStoppable(context.WithoutCancel(c.ctx))
		switch {
		case c.settled:
		case c.over != nil:
			c.window.stop(c.over)
		case c.Remaining() == 0:
			c.window.stop(c.leaseLost(nil))
		}
	}
	return c.window
}

// Renew makes the lease begin anew, now, and moves the trust window. Inside
// [Store.Execute] that happens by itself; a claim from [Store.Claim] is never
// renewed otherwise. ctx and Options.StoreTimeout bound the call. It returns
// [ErrLeaseLost] if somebody took the key over, and [ErrUnavailable] if the
// store did not answer: then the trust window stays as it was, and Renew may be
// called again.
func (c *Claim) Renew(ctx context.Context) error {
	if err := c.usable(); err != nil {
		return err
	}
	started := c.store.now()
	err := c.store.try(ctx, func(ctx context.Context) error {
		return c.store.b.Renew(ctx, c.ref(), &driver.RenewParams{Lease: c.opts.lease, Retention: c.opts.retention})
	})
	if e := c.renewed(started, err); e.Kind != 0 {
		c.store.observe(ctx, c, e)
	}
	return c.callError(ctx, err)
}

// SaveRef notes the reference under which a provider knows the effect, durably,
// for the recovery of a later attempt. Saving the same one again changes
// nothing. ctx and Options.StoreTimeout bound the call. It returns
// [ErrLeaseLost] if somebody took the key over, [ErrUnavailable] if the store
// did not answer (it may be saved all the same; call again) or FailOpen runs
// the operation without a claim, and [ErrInvalidOption] for an empty name or
// reference, or one longer than 128 bytes or 4 KiB.
func (c *Claim) SaveRef(ctx context.Context, provider, ref string) error {
	if len(provider) > maxProviderLen || checkText(provider) != "" || len(ref) > maxMessage || checkText(ref) != "" {
		return invalidOption("SaveRef(%q): the provider's name or the reference is empty, too long, or has forbidden characters", provider)
	}
	if err := c.usable(); err != nil {
		return err
	}
	add := driver.ProviderRef{Provider: provider, Ref: ref}
	err := c.store.try(ctx, func(ctx context.Context) error {
		return c.store.b.Annotate(ctx, c.ref(), &driver.AnnotateParams{Refs: []driver.ProviderRef{add}})
	})
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !slices.Contains(c.refs, add) {
			c.refs = append(c.refs, add)
		}
	}
	return c.callError(ctx, err)
}

// usable returns an error if the claim cannot be renewed or annotated.
func (c *Claim) usable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.open:
		e := c.error(ErrUnavailable, "the operation runs without a claim, because the store was unavailable", nil)
		e.Effect = EffectUnknown // it is running
		return e
	case c.lost:
		return c.leaseLost(nil)
	case !c.held || c.settled:
		return invalidOption("the claim of key %s is not held any more", c.store.label(c.key))
	}
	return nil
}

// callError is what a failed Renew or SaveRef returns.
func (c *Claim) callError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrLeaseLost):
		return c.leaseLost(err)
	case errors.Is(err, driver.ErrCorrupt):
		return c.error(ErrCorrupt, "", err)
	}
	e := c.error(ErrUnavailable, "the lease stands as it was", withCause(ctx, err))
	e.Effect = EffectUnknown // the operation is running
	return e
}

// leaseLost is the error for the end of the trust window or the lease.
func (c *Claim) leaseLost(cause error) error {
	if errors.Is(cause, ErrLeaseLost) {
		cause = nil // it says no more than the sentinel
	}
	return c.error(ErrLeaseLost, "", cause)
}

// error builds an error about this claim.
func (c *Claim) error(reason error, detail string, cause error) *Error {
	return c.errorIn(driver.State(c.state.Load()), c.began.Load(), reason, detail, cause) //nolint:gosec // a State was stored
}

// spent adds the time since started to what the observer is told, if it asks.
func (c *Claim) spent(started time.Duration) {
	if c.store.timed {
		c.storeTime.Add(int64(c.store.now() - started))
	}
}
