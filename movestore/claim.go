package movestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/idem-go/idem/driver"
)

// Claim implements [driver.Backend].
//
// Both claims in the old store and then in the new one. NewAlone claims in the new
// one, reads the old one, and claims there too if a record is not settled in it.
// In both, whatever the second store says against it gives the first claim back;
// and an outcome in either is the answer. A key that only the second store has is
// compared there before the first gets a record of it.
func (b *Backend) Claim(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	first, second, err := b.params(ctx, p)
	if err != nil {
		return nil, err
	}
	res, err := b.claimFirst(ctx, first)
	if err != nil || res == nil {
		return res, err
	}
	switch res.Fact {
	case driver.Acquired, driver.TakenOver:
	case driver.Held, driver.Mismatch: // the outcome may have reached the other store only
		return b.orOutcome(ctx, p, res)
	default:
		return res, nil
	}
	c := &claim{b: b, p: p, res: res, ref: driver.Ref{Key: p.Key, Owner: p.Owner, Token: res.Record.Token}}
	if b.phase == NewAlone {
		return c.look(ctx, second)
	}
	return c.second(ctx, second)
}

// claimFirst claims in the first store. Before that makes a record, it looks whether
// the other store has the key for another request: a fingerprint that is once in a
// record stays there (I5), and would refuse the request that the key stands for.
func (b *Backend) claimFirst(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	if !p.Take.Has(driver.TakeAbsent) {
		return b.first.Claim(ctx, p)
	}
	there := *p
	there.Take &^= driver.TakeAbsent
	res, err := b.first.Claim(ctx, &there)
	if !errors.Is(err, driver.ErrNotFound) {
		return res, err
	}
	rec, err := b.other.Inspect(ctx, p.Key)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return b.first.Claim(ctx, p)
	case err != nil: // nothing runs while nobody knows
		return nil, err
	}
	equal, known := rec.Fingerprint.Match(p.Fingerprints)
	switch {
	case !known:
		return nil, fmt.Errorf("movestore: %w: no fingerprint key has the id of the stored one", driver.ErrCorrupt)
	case !equal:
		res := &driver.ClaimResult{Fact: driver.Mismatch, Record: *rec}
		res.Record.Outcome = driver.Outcome{} // of another request
		return res, nil
	case p.Print().IsZero() && !rec.Fingerprint.IsZero(): // the new record is of the same request
		there = *p
		there.Fingerprints = []driver.Fingerprint{rec.Fingerprint}
		p = &there
	}
	return b.first.Claim(ctx, p)
}

// params are those for the first store and for the second. A token that an
// operator expects is that of the store whose record Inspect shows.
func (b *Backend) params(ctx context.Context, p *driver.ClaimParams) (first, second *driver.ClaimParams, err error) {
	free := *p
	free.ExpectToken = 0
	free.Take |= driver.TakeAbsent | driver.TakeReleased // what is free there stands in nobody's way
	if p.ExpectToken == 0 {
		return p, &free, nil
	}
	_, err = b.first.Inspect(ctx, p.Key)
	switch {
	case err == nil:
		return p, &free, nil
	case !errors.Is(err, driver.ErrNotFound):
		return nil, nil, err
	}
	rec, err := b.other.Inspect(ctx, p.Key)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return p, &free, nil
	case err != nil:
		return nil, nil, err
	case rec.Token != p.ExpectToken:
		return nil, nil, driver.ErrConflict
	}
	return &free, p, nil
}

// orOutcome is res, unless the other store has an outcome.
func (b *Backend) orOutcome(ctx context.Context, p *driver.ClaimParams, res *driver.ClaimResult) (*driver.ClaimResult, error) {
	rec, err := b.other.Inspect(ctx, p.Key)
	if err != nil || !rec.State.Completed() {
		return res, nil //nolint:nilerr // what the first store says stands
	}
	return answer(rec, p)
}

// answer is what a completed record answers to a claim (I5, I12).
func answer(rec *driver.Record, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	equal, known := rec.Fingerprint.Match(p.Fingerprints)
	switch {
	case !known:
		return nil, driver.ErrCorrupt
	case equal:
		return &driver.ClaimResult{Fact: driver.Completed, Record: *rec}, nil
	}
	res := &driver.ClaimResult{Fact: driver.Mismatch, Record: *rec}
	res.Record.Outcome = driver.Outcome{} // of another request
	return res, nil
}

// claim is one that the first store has granted.
type claim struct {
	b   *Backend
	p   *driver.ClaimParams
	res *driver.ClaimResult
	ref driver.Ref // in the first store
}

// look reads the old store after the new one has granted the claim.
func (c *claim) look(ctx context.Context, second *driver.ClaimParams) (*driver.ClaimResult, error) {
	rec, err := c.b.other.Inspect(ctx, c.p.Key)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return c.res, nil
	case err != nil: // nothing runs while nobody knows
		return nil, c.back(ctx, err)
	case rec.State == driver.Released && !rec.Doubt && !rec.Held && rec.Fingerprint.IsZero():
		return c.res, nil // it never had an effect
	}
	return c.second(ctx, second)
}

// second asks the second store, which the first has not kept from running.
func (c *claim) second(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	res, err := c.b.other.Claim(ctx, p)
	switch {
	case err != nil && driver.NoEffect(err):
		return nil, c.back(ctx, err)
	case err != nil: // the caller repeats the whole, by the same owner (I8)
		return nil, err
	}
	switch res.Fact {
	case driver.Acquired:
		return c.granted(res), nil
	case driver.TakenOver:
		return c.granted(res), nil
	case driver.Completed:
		return c.completed(ctx, &res.Record)
	case driver.Held:
		return c.give(ctx, res, &driver.ReleaseParams{Doubt: true, Retention: c.p.Retention})
	case driver.InProgress, driver.Mismatch:
	}
	return c.give(ctx, res, &driver.ReleaseParams{Retention: c.p.Retention})
}

// granted is the answer when both stores have granted the claim: it is in doubt if
// it is in either, and knows what either knows.
func (c *claim) granted(other *driver.ClaimResult) *driver.ClaimResult {
	rec := &c.res.Record
	if other.Fact == driver.TakenOver {
		c.res.Fact, rec.Doubt = driver.TakenOver, true
	}
	rec.Held = rec.Held || other.Record.Held
	if rec.Fingerprint.IsZero() {
		rec.Fingerprint = other.Record.Fingerprint
	}
	rec.Refs = withRefs(rec.Refs, other.Record.Refs)
	rec.Providers = withProviders(rec.Providers, other.Record.Providers)
	return c.res
}

// completed is the answer when the second store has the outcome: the first one
// gets it too. If it does not, its claim's lease ends, and the next one looks
// again.
func (c *claim) completed(ctx context.Context, rec *driver.Record) (*driver.ClaimResult, error) {
	left := rec.RetentionLeft
	if left <= 0 {
		left = c.p.Retention
	}
	err := c.b.first.Complete(ctx, c.ref, &driver.CompleteParams{Outcome: rec.Outcome, Retention: left})
	if err == nil { // it is the first store's record now
		own := *rec
		own.Owner, own.Token, own.Attempt = c.ref.Owner, c.ref.Token, c.res.Record.Attempt
		rec = &own
	}
	return answer(rec, c.p)
}

// give returns res after the first store's claim is given back.
func (c *claim) give(ctx context.Context, res *driver.ClaimResult, p *driver.ReleaseParams) (*driver.ClaimResult, error) {
	if err := c.b.first.Release(ctx, c.ref, p); err != nil && !errors.Is(err, driver.ErrLeaseLost) {
		return nil, unsure(err)
	}
	return res, nil
}

// back gives the first store's claim back because of why, which it returns. Why
// says that the second store has changed nothing; nothing may be said of the first
// if it does not answer.
func (c *claim) back(ctx context.Context, why error) error {
	_, err := c.give(ctx, nil, &driver.ReleaseParams{Retention: c.p.Retention})
	if err != nil {
		return unsure(errors.Join(why, err))
	}
	if !driver.NoEffect(why) { // given back: the same owner has settled its claim, and must not ask again (I6)
		return fmt.Errorf("movestore: %w: the other store: %w", driver.ErrUnavailable, why)
	}
	return why
}
