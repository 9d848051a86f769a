package memstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idem-go/idem/driver"
)

// insertLooks is how many records an insertion looks at, to remove those whose
// retention has ended: more than one, so that the looks outrun the insertions.
const insertLooks = 2

// Claim implements [driver.Backend]. It ignores LockWait: no transaction holds a
// record here.
func (b *Backend) Claim(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	res := new(driver.ClaimResult)
	if err := b.ClaimInto(ctx, p, res); err != nil {
		return nil, err
	}
	return res, nil
}

// ClaimInto implements [driver.Reuser].
func (b *Backend) ClaimInto(ctx context.Context, p *driver.ClaimParams, into *driver.ClaimResult) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if err := checkClaim(p); err != nil {
		return err
	}
	err := b.claim(p, into)
	if err != nil && errors.Is(err, driver.ErrUnavailable) && b.makeRoom() {
		err = b.claim(p, into) // as if it were the first time (I11)
	}
	if err == nil {
		detach(&into.Record)
	}
	return err
}

// Self implements [driver.Reuser].
func (b *Backend) Self() driver.Backend { return b }

// claim is the atomic step.
func (b *Backend) claim(p *driver.ClaimParams, into *driver.ClaimResult) error {
	sh := b.shard(p.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := time.Now()
	a := attempt{b: b, sh: sh, p: p, now: now, r: sh.find(p.Key, now)}
	fact, err := a.decide()
	if err != nil {
		return err
	}
	into.Fact = fact
	a.r.show(&into.Record, now)
	if fact == driver.Mismatch {
		into.Record.Outcome = driver.Outcome{} // it answers another request
	}
	return nil
}

// attempt is one Claim under way, with the mutex of its shard held.
type attempt struct {
	b   *Backend
	sh  *shard
	p   *driver.ClaimParams
	now time.Time
	r   *record // nil: absent
}

// decide makes the tests of [driver.Backend.Claim], by their numbers there, in
// their order. Only takeAbsent and take change anything.
func (a *attempt) decide() (driver.Fact, error) {
	// 1. What is in memory can be read.
	if a.absent() { // 2.
		return a.takeAbsent()
	}
	equal, known := a.r.fingerprint.Match(a.p.Fingerprints)
	switch {
	case !known: // 3.
		return 0, fmt.Errorf("memstore: %w: no fingerprint key has the id of the stored one", driver.ErrCorrupt)
	case !equal: // 3.
		return driver.Mismatch, nil
	case a.completed(): // 4.
		return driver.Completed, nil
	case a.standing(): // 5.
		return a.fact(), nil
	case a.settled(): // 5.
		return 0, errLeaseLost("this owner's claim was settled")
	case a.otherToken(): // 6.
		return 0, errConflict("it has another token than expected")
	case a.inProgress(): // 7.
		return driver.InProgress, nil
	case a.mayTake(): // 8.
		return a.take(), nil
	case a.clean(): // 9.
		return 0, errConflict("it is released, which this claim may not take")
	}
	return driver.Held, nil // 9.
}

// absent is test 2. A record whose retention has ended is absent (I13).
func (a *attempt) absent() bool { return a.r == nil }

// completed is test 4.
func (a *attempt) completed() bool { return a.r.phase == completed }

// standing is the first half of test 5: the claim is p.Owner's, also after its
// lease has ended.
func (a *attempt) standing() bool { return a.r.phase == claimed && a.r.owner == a.p.Owner }

// settled is the second half of test 5, for records without an outcome.
func (a *attempt) settled() bool { return a.r.phase == released && a.r.owner == a.p.Owner }

// otherToken is test 6.
func (a *attempt) otherToken() bool { return a.p.ExpectToken != 0 && a.p.ExpectToken != a.r.token }

// inProgress is test 7 (I1).
func (a *attempt) inProgress() bool { return a.r.unexpired(a.now) }

// mayTake is test 8. The record is released, unknown or held.
func (a *attempt) mayTake() bool {
	var needs driver.Take
	switch {
	case a.r.held:
		needs = driver.TakeHeld
	case a.r.phase == claimed:
		needs = driver.TakeUnknown
	case a.r.doubt:
		needs = driver.TakeDoubtful
	default:
		needs = driver.TakeReleased
	}
	return a.p.Take.Has(needs) && (a.clean() || a.windowsLast())
}

// windowsLast reports whether at least MinWindow is left of each provider's
// window. One that the record does not have yet would begin now.
func (a *attempt) windowsLast() bool {
	if a.p.MinWindow <= 0 {
		return true
	}
	for _, pr := range a.r.providers {
		if pr.window-a.now.Sub(pr.since) < a.p.MinWindow {
			return false
		}
	}
	for _, pw := range a.p.Providers {
		if a.r.providerNamed(pw.Name) == nil && pw.Window < a.p.MinWindow {
			return false
		}
	}
	return true
}

// clean is test 9: released, and no earlier attempt is in doubt.
func (a *attempt) clean() bool { return a.r.phase == released && !a.r.held && !a.r.doubt }

// takeAbsent acquires a key without a record, or says why not.
func (a *attempt) takeAbsent() (driver.Fact, error) {
	if !a.p.Take.Has(driver.TakeAbsent) {
		return 0, errNotFound()
	}
	a.sh.sweep(a.now, insertLooks)
	cost := int64(recordCost + len(a.p.Key))
	if !a.b.reserve(cost) {
		return 0, errFull(a.b.bytes.Load(), a.b.maxBytes)
	}
	a.r = a.sh.insert(strings.Clone(a.p.Key), cost)
	return a.acquire(), nil
}

// take acquires a record that is released, unknown or held.
func (a *attempt) take() driver.Fact {
	switch {
	case a.r.phase == claimed:
		a.r.doubt = true // its lease ended without an outcome
	case a.clean():
		a.r.restartWindows(a.now) // no provider has seen the key
	}
	return a.acquire()
}

// acquire makes the record p.Owner's. Doubt and Held stay as they are.
func (a *attempt) acquire() driver.Fact {
	r := a.r
	r.phase = claimed
	r.owner = a.p.Owner
	r.token = a.b.nextToken()
	r.attempt++
	r.claimedAt = a.now
	r.leaseUntil = a.now.Add(a.p.Lease)
	r.expiresAt = time.Time{}
	if r.fingerprint.IsZero() {
		r.fingerprint = a.p.Print()
		r.fingerprint.KeyID = strings.Clone(r.fingerprint.KeyID)
	}
	for _, pw := range a.p.Providers {
		if r.providerNamed(pw.Name) == nil {
			r.providers = append(r.providers, provider{name: strings.Clone(pw.Name), window: pw.Window, since: a.now})
		}
	}
	a.sh.changed(r, a.now)
	return a.fact()
}

// fact of a claim that is p.Owner's.
func (a *attempt) fact() driver.Fact {
	if a.r.doubt {
		return driver.TakenOver
	}
	return driver.Acquired
}
