package movestore

import (
	"context"
	"errors"
	"time"

	"github.com/idem-go/idem/driver"
)

// The first store's word is the caller's: it is asked first where its acceptance
// must precede what the other one is told. What the other store refuses is no
// error: with NewAlone it may hold no claim, and with Both it holds one that has
// not been taken over as long as the first one's has not.

// Complete implements [driver.Backend].
func (b *Backend) Complete(ctx context.Context, ref driver.Ref, p *driver.CompleteParams) error {
	if err := b.first.Complete(ctx, ref, p); err != nil {
		return err
	}
	err := b.other.Complete(ctx, driver.Ref{Key: ref.Key, Owner: ref.Owner}, p)
	if b.phase == NewAlone {
		return nil // who looks into the old store looks into the new one too
	}
	return doubtful(err)
}

// Release implements [driver.Backend]. A doubt is told to the first store first,
// because it decides; what is free is freed there last, so that who claims it then
// finds the other one free too, unless that one did not answer.
func (b *Backend) Release(ctx context.Context, ref driver.Ref, p *driver.ReleaseParams) error {
	if p.Held || p.Doubt {
		if err := b.first.Release(ctx, ref, p); err != nil {
			return err
		}
		return b.releaseOther(ctx, ref, p)
	}
	bound, cancel := half(ctx)
	defer cancel()
	unanswered := b.releaseOther(bound, ref, p)
	if err := b.first.Release(ctx, ref, p); err != nil {
		return err
	}
	return unanswered // the caller repeats it; who claims meanwhile finds the other one in progress
}

// half is ctx with half of what it has left, so that a store which does not answer
// leaves the first one its share.
func half(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(deadline)/2)
	}
	return context.WithCancel(ctx)
}

func (b *Backend) releaseOther(ctx context.Context, ref driver.Ref, p *driver.ReleaseParams) error {
	return doubtful(b.other.Release(ctx, driver.Ref{Key: ref.Key, Owner: ref.Owner}, p))
}

// Renew implements [driver.Backend]: the claim in both stores.
func (b *Backend) Renew(ctx context.Context, ref driver.Ref, p *driver.RenewParams) error {
	if err := b.first.Renew(ctx, ref, p); err != nil {
		return err
	}
	return b.withOther(ctx, ref, func(there driver.Ref) error { return b.other.Renew(ctx, there, p) })
}

// Annotate implements [driver.Backend]: the claim in both stores.
func (b *Backend) Annotate(ctx context.Context, ref driver.Ref, p *driver.AnnotateParams) error {
	if err := b.first.Annotate(ctx, ref, p); err != nil {
		return err
	}
	return b.withOther(ctx, ref, func(there driver.Ref) error { return b.other.Annotate(ctx, there, p) })
}

// withOther calls f with the claim that ref's owner has in the other store. With
// Both there must be one; with NewAlone there may be.
func (b *Backend) withOther(ctx context.Context, ref driver.Ref, f func(there driver.Ref) error) error {
	rec, err := b.other.Inspect(ctx, ref.Key)
	held := err == nil && rec.Owner == ref.Owner && !rec.State.Completed() && rec.State != driver.Released
	switch {
	case err != nil && !errors.Is(err, driver.ErrNotFound):
		return unsure(err)
	case held:
		return unsureUnlessLost(f(driver.Ref{Key: ref.Key, Owner: ref.Owner, Token: rec.Token}))
	case b.phase == Both:
		return driver.ErrLeaseLost
	}
	return nil
}

// doubtful is err if the other store may have applied the call, nil if it has, or
// has refused.
func doubtful(err error) error {
	if err == nil || errors.Is(err, driver.ErrLeaseLost) || errors.Is(err, driver.ErrNotFound) {
		return nil
	}
	return unsure(err)
}

func unsureUnlessLost(err error) error {
	if errors.Is(err, driver.ErrLeaseLost) {
		return err
	}
	return unsure(err)
}
