package idem

import (
	"context"
	"errors"
	"time"

	"github.com/idem-go/idem/driver"
)

// ProviderRef is the reference under which a provider knows an effect.
type ProviderRef = driver.ProviderRef

// RecoverFunc finds out how an earlier attempt ended, by asking the provider:
// with c.ProviderKey, with the references in c.Refs. It runs under a claim,
// before the operation may run again. It must not repeat the effect. If it
// returns an error, or the zero Recovery, the key is held.
//
// Inside Execute and Do the lease is renewed, and ctx ends with it and with
// MaxRun, as an operation's does. Inside [Store.Claim] nothing renews it but
// c.Renew, and ctx ends with the lease.
type RecoverFunc func(ctx context.Context, c *Claim) (Recovery, error)

// Recovery is the verdict over an attempt whose end was unknown. The zero value
// is no verdict.
type Recovery struct {
	verdict verdict
	res     Result
	err     error
}

type verdict uint8

const (
	verdictNone verdict = iota
	verdictSucceeded
	verdictFailed
	verdictNotExecuted
)

// Recovered is the verdict "it succeeded, with this result". Only res.Value is
// kept. For [Do] the value must be encoded as its codec does.
func Recovered(res Result) Recovery { return Recovery{verdict: verdictSucceeded, res: res} }

// RecoveredFailure is the verdict "it failed for good, with this error". A nil
// err is no verdict.
func RecoveredFailure(err error) Recovery {
	if err == nil {
		return Recovery{}
	}
	return Recovery{verdict: verdictFailed, err: err}
}

// NotExecuted is the verdict "the effect did not happen, and cannot happen any
// more": the operation may run again.
func NotExecuted() Recovery { return Recovery{verdict: verdictNotExecuted} }

// recover asks the call's recovery for a verdict, under a claim of Execute, and
// acts on it. settled is false if the operation has to run.
func (s *Store) recover(ctx context.Context, c *Claim) (settled bool, res Result, err error) {
	v, failed := c.opts.recover(ctx, c)
	if failed != nil || v.verdict != verdictNotExecuted {
		res, err = s.settleVerdict(c.ctx, c, v, failed) // ctx is the recovery's, and may have ended
		return true, res, err
	}
	if err := s.notExecuted(ctx, c); err != nil {
		return true, Result{}, err
	}
	return false, Result{}, nil
}

// recoverClaim is recover for Store.Claim, whose claim is not renewed, and is
// settled by its caller if the operation has to run. It returns what acquire
// returns.
func (s *Store) recoverClaim(ctx context.Context, c *Claim) (replay bool, err error) {
	under, cancel := c.Context(ctx)
	defer cancel()
	returned := false
	defer func() {
		if !returned { // a panic or Goexit of the recovery goes on after this
			_ = s.giveUp(ctx, c, &driver.ReleaseParams{Held: true}) // observed
		}
	}()
	v, failed := c.opts.recover(under, c)
	returned = true
	if failed == nil && v.verdict == verdictNotExecuted {
		return false, s.notExecuted(under, c)
	}
	c.Result, err = s.settleVerdict(ctx, c, v, failed)
	return true, err
}

// settleVerdict settles the claim by any verdict but "not executed".
func (s *Store) settleVerdict(ctx context.Context, c *Claim, v Recovery, failed error) (Result, error) {
	if c.finish() {
		return Result{}, s.lostWith(c, failed)
	}
	switch {
	case failed == nil && v.verdict == verdictSucceeded:
		return s.recordSuccess(ctx, c, Result{Value: v.res.Value, Recovered: true}, nil)
	case failed == nil && v.verdict == verdictFailed:
		out := failure(v.err)
		out.Recovered = true
		if err := s.recordFailure(ctx, c, out, v.err); err != nil {
			return Result{}, &bothErrors{err, v.err}
		}
		return Result{Recovered: true, Token: c.token}, &bothErrors{s.recordedError(&driver.Record{Outcome: out}, c.error), v.err}
	case failed == nil:
		failed = errNoVerdict
	}
	if err := s.giveUp(ctx, c, &driver.ReleaseParams{Held: true}); err != nil {
		return Result{}, &bothErrors{err, failed}
	}
	return Result{}, c.error(ErrOutcomeUnknown, "the recovery gave no verdict; the key is held", failed)
}

// errNoVerdict is what a recovery said that returned the zero Recovery.
var errNoVerdict = errors.New("the recovery returned no verdict")

// notExecuted records the verdict "not executed" before the operation runs:
// without that, a crash of the operation could be taken for a fresh attempt's.
// An error means that the operation must not run; the claim is then given up.
func (s *Store) notExecuted(ctx context.Context, c *Claim) error {
	err := s.retry(ctx, c, finalWrite{ref: c.ref(), annotate: &driver.AnnotateParams{NotExecuted: true}})
	switch {
	case errors.Is(err, driver.ErrLeaseLost):
		c.finish()
		return s.lost(ctx, c)
	case errors.Is(err, driver.ErrCorrupt):
		err = c.error(ErrCorrupt, "", err)
	case err != nil:
		err = c.error(ErrUnavailable, "the verdict \"not executed\" could not be recorded", mask(err))
	case ctx.Err() != nil:
		err = ended(c.ctx, ctx, c.error(nil, "it ended before the operation began", nil))
	default:
		s.observe(ctx, c, Event{Kind: EventNotExecuted})
		c.takeover = false
		c.limitTo(windowLeft(c.providers, func(p driver.Provider) time.Duration { return p.Window }))
		return nil
	}
	c.finish()
	_ = s.giveUp(c.ctx, c, &driver.ReleaseParams{}) // observed; the operation has not run
	return err
}

// windowLeft is what is left of the shortest provider's window; 0 without a
// provider, else positive.
func windowLeft[P any](providers []P, left func(P) time.Duration) time.Duration {
	var least time.Duration
	for i, p := range providers {
		if l := min(max(left(p), 1), maxDuration); i == 0 || l < least {
			least = l
		}
	}
	return least
}

// limitTo ends the operation's context with a provider's window that begins
// now.
func (c *Claim) limitTo(window time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opts.window = window
	if end := c.store.now() + window; window > 0 && (c.endAt == 0 || end < c.endAt) {
		c.endAt = end
		c.timer.Reset(max(0, c.next()-c.store.now()))
	}
}
