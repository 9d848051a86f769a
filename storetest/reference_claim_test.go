package storetest_test

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/idem-go/idem/driver"
)

func (r *reference) Claim(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	if err := r.usable(ctx, p.Key); err != nil {
		return nil, err
	}
	if r.bug == panics {
		panic("a backend that panics")
	}
	r.data.mu.Lock()
	defer r.data.mu.Unlock()
	if res, err := r.wait(ctx, p); res != nil || err != nil {
		return res, err
	}
	rec, err := r.load(p.Key)
	r.gap()
	if r.bug != readThenWrite {
		rec, err = r.load(p.Key)
	}
	if err != nil {
		return nil, err
	}
	fact, err := r.decide(rec, p)
	if err != nil {
		return nil, err
	}
	if fact == driver.Acquired || fact == driver.TakenOver {
		rec, fact = r.acquire(rec, p, fact)
	}
	if r.bug == refusedSetsPrint && fact == driver.InProgress && rec.Print.IsZero() && len(p.Fingerprints) > 0 {
		rec.Print = p.Fingerprints[0]
		r.save(p.Key, rec)
	}
	r.extend(p.Key, rec)
	res := &driver.ClaimResult{Fact: fact, Record: r.show(p.Key, rec)}
	r.hand(p.Key, &res.Record)
	return res, r.lie(ctx)
}

// hand is what can go wrong with the outcome that a claim finds.
func (r *reference) hand(key string, rec *driver.Record) {
	o := &rec.Outcome
	switch r.bug {
	case claimLosesOutcome:
		*o = driver.Outcome{}
	case valuesShared:
		if _, ok := r.data.values[key]; !ok {
			r.data.values[key] = o.Value
		}
		o.Value = r.data.values[key]
	case valuesHaveNeighbours: // the codec's id stands behind the value
		if _, ok := r.data.values[key]; !ok {
			r.data.values[key] = []byte(o.Codec)
		}
		o.Codec = string(r.data.values[key])
		if n := len(o.Value); rec.State == driver.Succeeded {
			block := append(bytes.Clone(o.Value), o.Codec...)
			o.Value, r.data.values[key] = block[:n], block[n:]
		}
	}
}

// acquire gives the key to p, unless it is p's already.
func (r *reference) acquire(rec *stored, p *driver.ClaimParams, fact driver.Fact) (*stored, driver.Fact) {
	if rec != nil && rec.Owner == p.Owner && !rec.Settled && !rec.done() {
		return rec, fact
	}
	rec = r.take(rec, p)
	r.save(p.Key, rec)
	if rec.Doubt {
		return rec, driver.TakenOver
	}
	return rec, driver.Acquired
}

// gap lets others in between a read and the write.
func (r *reference) gap() {
	if r.between == nil {
		r.pauseIf(readThenWrite)
		return
	}
	r.data.mu.Unlock()
	r.between()
	r.data.mu.Lock()
}

// pauseIf lets others in, if the bug is to do things in two steps.
func (r *reference) pauseIf(b bug) {
	if r.bug == b {
		r.data.mu.Unlock()
		time.Sleep(time.Millisecond) // in a bubble: until all others have done what they can
		r.data.mu.Lock()
	}
}

// wait waits while another transaction holds the record. It has a result if the
// wait ended before that.
func (r *reference) wait(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	limit := time.Now().Add(p.LockWait)
	for r.data.blocked[p.Key] && r.bug != waitIgnored {
		now := time.Now()
		switch {
		case ctx.Err() != nil && r.bug != waitIgnoresContext:
			return nil, ctx.Err()
		case now.After(limit) && r.bug != waitUnbounded && r.bug != waitIgnoresContext, now.After(limit.Add(time.Hour)):
			res := &driver.ClaimResult{Fact: driver.InProgress, Record: driver.Record{Key: p.Key}}
			if r.bug == waitTellsLease {
				res.Record.LeaseLeft = p.Lease
			}
			return res, nil
		}
		r.data.mu.Unlock()
		time.Sleep(10 * time.Millisecond) // in a bubble
		r.data.mu.Lock()
	}
	return nil, nil //nolint:nilnil // nothing stands in the way
}

// decide is the order of Claim.
func (r *reference) decide(rec *stored, p *driver.ClaimParams) (driver.Fact, error) {
	if rec == nil {
		if p.Take.Has(driver.TakeAbsent) || r.bug == takeAbsentAlways {
			return driver.Acquired, nil
		}
		return 0, driver.ErrNotFound
	}
	now := time.Now()
	if !r.comparesLate(rec, now) {
		if fact, err := r.compare(rec, p); fact != 0 || err != nil {
			return fact, err
		}
	}
	if rec.done() {
		if r.bug == outcomeNotFound {
			return driver.InProgress, nil
		}
		return driver.Completed, nil
	}
	if fact, ok, err := r.owned(rec, p); ok {
		return fact, err
	}
	if p.ExpectToken != 0 && p.ExpectToken != rec.Token && r.bug != expectIgnored {
		return 0, driver.ErrConflict
	}
	if rec.State == "claimed" && !rec.ended(now) && r.bug != takesLive {
		return driver.InProgress, nil
	}
	if r.mayTake(rec, p, now) {
		return driver.Acquired, nil // the doubt is known after the taking
	}
	if rec.State == "released" && !rec.Doubt && r.bug != releasedIsHeld {
		return 0, driver.ErrConflict
	}
	return driver.Held, nil
}

// comparesLate is for the bugs that look at the fingerprint after other things.
func (r *reference) comparesLate(rec *stored, now time.Time) bool {
	switch r.bug {
	case printAfterReplay:
		return rec.done()
	case printIgnoredOnTakeover:
		return rec.ended(now)
	case printIgnoredOnReleased:
		return rec.State == "released"
	}
	return false
}

func (r *reference) compare(rec *stored, p *driver.ClaimParams) (driver.Fact, error) {
	given := p.Fingerprints
	if r.bug != zeroIsADigest {
		given = slices.DeleteFunc(slices.Clone(given), driver.Fingerprint.IsZero)
	}
	if len(given) == 0 || rec.Print.IsZero() {
		return 0, nil
	}
	if r.bug == onlyFirstPrint {
		given = given[:1]
	}
	for _, fp := range given {
		if fp == rec.Print {
			return 0, nil
		}
		if fp.KeyID == rec.Print.KeyID {
			return driver.Mismatch, nil
		}
	}
	switch r.bug {
	case unknownKeyIsEqual:
		return 0, nil
	case unknownKeyIsMismatch:
		return driver.Mismatch, nil
	}
	return 0, driver.ErrCorrupt
}

// owned answers a claim by the record's last owner.
func (r *reference) owned(rec *stored, p *driver.ClaimParams) (fact driver.Fact, ok bool, err error) {
	if rec.Owner != p.Owner {
		return 0, false, nil
	}
	if rec.Settled {
		if r.bug == lateCopyAccepted {
			return 0, false, nil
		}
		return 0, true, driver.ErrLeaseLost
	}
	switch r.bug {
	case ownClaimRefused:
		return 0, false, nil
	case ownClaimExtends:
		ends := time.Now().Add(p.Lease)
		rec.LeaseEnds = &ends
		r.save(p.Key, rec)
	case ownClaimExpects:
		if p.ExpectToken != 0 && p.ExpectToken != rec.Token {
			return 0, true, driver.ErrConflict
		}
	case ownClaimCounts:
		rec.Attempt++
		r.save(p.Key, rec)
	}
	if rec.Doubt && r.bug != ownTakeoverIsFresh || r.bug == ownTakeoverIsDoubt && rec.Attempt > 1 {
		return driver.TakenOver, true, nil
	}
	return driver.Acquired, true, nil
}

func (r *reference) mayTake(rec *stored, p *driver.ClaimParams, now time.Time) bool {
	unknown := rec.unknown(now) || r.bug == takesLive && rec.State == "claimed"
	var need driver.Take
	switch {
	case rec.Held && r.bug != heldIsUnknown:
		need = driver.TakeHeld
	case unknown && r.bug == unknownIsReleased:
		need = driver.TakeReleased
	case unknown:
		need = driver.TakeUnknown
	case rec.Doubt && r.bug != doubtIgnored:
		need = driver.TakeDoubtful
	default:
		need = driver.TakeReleased
	}
	if !p.Take.Has(need) {
		return false
	}
	if p.MinWindow <= 0 || !unknown && !rec.Doubt && r.bug != windowWithoutDoubt {
		return true
	}
	return r.windowLeft(rec, p, now)
}

func (r *reference) windowLeft(rec *stored, p *driver.ClaimParams, now time.Time) bool {
	if r.bug == windowIgnored {
		return true
	}
	for i, w := range rec.Providers {
		if w.Window-now.Sub(w.Since) < p.MinWindow && (r.bug != onlyFirstWindow || i == 0) {
			return false
		}
	}
	if r.bug == newWindowIgnored {
		return true
	}
	for _, w := range p.Providers {
		known := slices.ContainsFunc(rec.Providers, func(x window) bool { return x.Name == w.Name })
		if !known && w.Window < p.MinWindow {
			return false
		}
	}
	return true
}

// beginAnew lets windows begin with the claim if no provider has seen the key.
func (r *reference) beginAnew(rec *stored, p *driver.ClaimParams, now time.Time) {
	clean := rec.State == "released" && !rec.Doubt
	switch {
	case clean && r.bug == windowsOutliveClean:
	case clean && r.bug == onlyNamedBegin:
		for i, w := range rec.Providers {
			if slices.ContainsFunc(p.Providers, func(x driver.ProviderWindow) bool { return x.Name == w.Name }) {
				rec.Providers[i].Since = now
			}
		}
	case clean,
		r.bug == windowsBeginInDoubt && rec.State == "released",
		r.bug == windowsBeginWhenHeld && rec.Held,
		r.bug == windowsBeginOnTakeover && rec.ended(now):
		rec.restart(now)
	}
}

// restart lets every window begin.
func (rec *stored) restart(now time.Time) {
	for i := range rec.Providers {
		rec.Providers[i].Since = now
	}
}

// take gives the key to p.
func (r *reference) take(rec *stored, p *driver.ClaimParams) *stored {
	now := time.Now()
	if rec == nil {
		rec = &stored{Format: 1, Token: r.next(nil)}
	} else {
		if r.bug != tokenKeptOnRelease || rec.State != "released" {
			rec.Token = r.next(rec)
		}
		r.beginAnew(rec, p, now)
		rec.Doubt = rec.Doubt || rec.unknown(now) && r.bug != takeoverNotInDoubt && r.bug != unknownIsReleased || r.bug == releasedInDoubt
	}
	ends := now.Add(p.Lease)
	rec.State, rec.Owner, rec.Settled, rec.LeaseEnds, rec.ClaimedAt, rec.KeptUntil = "claimed", p.Owner, false, &ends, now, nil
	rec.Attempt++
	if r.bug == unknownExpires || r.bug == retentionFromClaim || r.bug == claimsRetention {
		until := now.Add(p.Retention)
		rec.KeptUntil = &until
	}
	if rec.Print.IsZero() && (rec.Attempt == 1 || r.bug != printOfFirstOnly) {
		rec.Print = p.Print()
		if r.bug == zeroHidesOthers && len(p.Fingerprints) > 0 {
			rec.Print = p.Fingerprints[0]
		}
	}
	for _, w := range p.Providers {
		i := slices.IndexFunc(rec.Providers, func(x window) bool { return x.Name == w.Name })
		switch {
		case i < 0:
			rec.Providers = append(rec.Providers, window{w.Name, w.Window, now})
		case r.bug == windowRestarts:
			rec.Providers[i] = window{w.Name, w.Window, now}
		}
	}
	r.mistake(rec, p)
	return rec
}
