package pgstore

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/idem-go/idem/driver"
)

// maxTries bounds how often a claim begins again because the record changed
// between its read and its write: each time, somebody else got on.
const maxTries = 32

// Claim implements [driver.Backend].
//
// One statement answers with the record of the key, or creates it; whether it
// was created is decided by the row that its INSERT affected. A record that is
// there and may be taken is taken by a second statement, an UPDATE that restates
// what was read and what the clock said; if it affects no row, the claim begins
// anew. A wait for another transaction that holds the record is bounded by
// p.LockWait (0 is Options.LockWait).
func (b *Backend) Claim(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if err := checkClaim(p); err != nil {
		return nil, err
	}
	if b.met.Has(p.Key) { // trying to create a record costs a third more than a look, even where there is one
		if res, ok := b.shortcut(ctx, p); ok {
			return res, nil
		}
	}
	a := attempt{b: b, l: b.pool, p: p}
	return a.run(ctx)
}

// attempt is one Claim under way.
type attempt struct {
	b *Backend
	l link
	p *driver.ClaimParams
	r row // as last read
}

// run reads, decides and writes until one of them has the answer.
func (a *attempt) run(ctx context.Context) (*driver.ClaimResult, error) {
	for range maxTries {
		found, err := a.read(ctx)
		switch {
		case err != nil:
			return a.failed(ctx, err)
		case !found && !a.p.Take.Has(driver.TakeAbsent):
			return nil, errNotFound()
		case !found:
			continue // it came to be after the statement began; the next one sees it
		}
		fact, kind, err := a.decide()
		if err != nil {
			return nil, err
		}
		if kind != 0 {
			taken, err := a.take(ctx, kind)
			if err != nil {
				return a.failed(ctx, err)
			}
			if !taken {
				continue // something changed
			}
			if err := a.r.check(); err != nil {
				return nil, err
			}
			fact = a.fact()
		}
		a.b.met.Add(a.p.Key)
		return a.result(fact), nil
	}
	return nil, fmt.Errorf("pgstore: %w: the record changed %d times under the claim", driver.ErrUnavailable, maxTries)
}

// read answers with the record, and creates it where there is none and the claim
// may.
func (a *attempt) read(ctx context.Context) (found bool, err error) {
	a.r = row{key: a.p.Key}
	if !a.p.Take.Has(driver.TakeAbsent) {
		return a.l.ask(ctx, a.b.sql.look, &a.r, a.p.Key)
	}
	return a.l.write(ctx, a.b.sql.claim, &a.r, a.lockWait(), a.newClaim()...)
}

// newClaim are the first six arguments of claimText.
func (a *attempt) newClaim() []any {
	sum, keyID := a.fingerprint()
	args := make([]any, 6, 16)
	args[0], args[1], args[2], args[3], args[4] = a.p.Key, a.p.Owner[:], toMicros(a.p.Lease), sum, keyID
	args[5] = "[]"
	if len(a.p.Providers) > 0 {
		args[5] = mustProviders(a.named(nil, 0))
	}
	return args
}

// fingerprint is the one to store where there is none; NULL without one.
func (a *attempt) fingerprint() (sum, keyID any) {
	f := a.p.Print()
	if f.IsZero() {
		return nil, nil
	}
	return f.Sum[:], storable(f.KeyID)
}

// named adds to have the claim's providers that it does not have. Their windows
// begin at since.
func (a *attempt) named(have []provider, since int64) []provider {
	for _, w := range a.p.Providers {
		if !knows(have, w.Name) {
			have = append(have, provider{name: w.Name, window: w.Window, since: since})
		}
	}
	return have
}

func knows(ps []provider, name string) bool {
	for _, p := range ps {
		if p.name == name {
			return true
		}
	}
	return false
}

// failed is what a statement's error means for the claim.
func (a *attempt) failed(ctx context.Context, err error) (*driver.ClaimResult, error) {
	if sqlState(err) != stateLockTimeout {
		return nil, fail(ctx, err)
	}
	return a.l.blocked(ctx, a)
}

// inProgress answers for a record that another transaction holds. What can be
// seen of it is told; a record that the transaction has only just created cannot
// be seen.
func (a *attempt) inProgress(ctx context.Context) (*driver.ClaimResult, error) {
	rec := driver.Record{Key: a.p.Key}
	a.r = row{key: a.p.Key}
	found, err := a.l.ask(ctx, a.b.sql.look, &a.r, a.p.Key)
	if err != nil {
		return nil, fail(ctx, err)
	}
	if found {
		if err := a.r.check(); err != nil {
			return nil, err
		}
		rec = a.r.record()
	}
	rec.State, rec.LeaseLeft = driver.Claimed, 0 // nobody knows how long the transaction will go on
	return &driver.ClaimResult{Fact: driver.InProgress, Record: rec}, nil
}

func (a *attempt) lockWait() time.Duration {
	if a.p.LockWait > 0 {
		return a.p.LockWait
	}
	return a.b.lockWait
}

// millis is a lock wait as the server's setting, in milliseconds; 0 would be no
// bound at all.
func millis(d time.Duration) string {
	return strconv.FormatInt(max(1, d.Milliseconds()), 10)
}

// decide makes the tests of [driver.Backend.Claim], by their numbers there, in
// their order. kind is not 0 if the record may be taken: which condition on the
// clock the write restates.
func (a *attempt) decide() (fact driver.Fact, kind int, err error) {
	if err := a.r.check(); err != nil { // 1.
		return 0, 0, err
	}
	if a.r.expired() { // 2.
		if !a.p.Take.Has(driver.TakeAbsent) {
			return 0, 0, errNotFound()
		}
		return 0, takesExpired, nil
	}
	switch equal, known := a.r.fingerprint().Match(a.p.Fingerprints); { // 3.
	case !known:
		return 0, 0, corrupt("no fingerprint key has the id of the stored one")
	case !equal:
		return driver.Mismatch, 0, nil
	}
	switch r, p := &a.r, a.p; {
	case r.state == stateCompleted: // 4.
		return driver.Completed, 0, nil
	case r.ownedBy(p.Owner) && r.state == stateClaimed: // 5.
		return a.fact(), 0, nil
	case r.ownedBy(p.Owner): // 5.
		return 0, 0, errLeaseLost("this owner's claim was settled")
	case p.ExpectToken != 0 && p.ExpectToken != r.fencing(): // 6.
		return 0, 0, errConflict("it has another token than expected")
	case r.unexpired(): // 7.
		return driver.InProgress, 0, nil
	case a.mayTake(): // 8.
		return 0, a.takes(), nil
	case r.clean(): // 9.
		return 0, 0, errConflict("it is released, which this claim may not take")
	}
	return driver.Held, 0, nil // 9.
}

// mayTake is test 8. The record is released, unknown or held.
func (a *attempt) mayTake() bool {
	var needs driver.Take
	switch {
	case a.r.held:
		needs = driver.TakeHeld
	case a.r.state == stateClaimed:
		needs = driver.TakeUnknown
	case a.r.doubt:
		needs = driver.TakeDoubtful
	default:
		needs = driver.TakeReleased
	}
	return a.p.Take.Has(needs) && (a.r.clean() || a.windowsLast())
}

// windowsLast reports whether at least MinWindow is left of each provider's
// window. One that the record does not have yet would begin now.
func (a *attempt) windowsLast() bool {
	if a.p.MinWindow <= 0 {
		return true
	}
	for _, p := range a.r.providers {
		if p.window-a.r.elapsed(p) < a.p.MinWindow {
			return false
		}
	}
	for _, w := range a.p.Providers {
		if !knows(a.r.providers, w.Name) && w.Window < a.p.MinWindow {
			return false
		}
	}
	return true
}

// lastInstant is when, on the server's clock, less than MinWindow begins to be
// left of some window.
func (a *attempt) lastInstant() int64 {
	last := int64(math.MaxInt64)
	if a.p.MinWindow <= 0 || a.r.clean() {
		return last
	}
	for _, p := range a.r.providers {
		last = min(last, a.r.since(p)+int64((p.window-a.p.MinWindow)/time.Microsecond))
	}
	return last
}

// takes says which condition on the clock allows to take the record.
func (a *attempt) takes() int {
	switch {
	case a.r.state == stateClaimed:
		return takesEnded
	case a.r.held:
		return takesHeld
	}
	return takesReleased
}

// fact of a claim that is p.Owner's.
func (a *attempt) fact() driver.Fact {
	if a.r.doubt {
		return driver.TakenOver
	}
	return driver.Acquired
}

// take makes the record that was read p.Owner's, if it is still what was read.
func (a *attempt) take(ctx context.Context, kind int) (bool, error) {
	r := &a.r
	args := a.newClaim() // what a fresh record gets
	held, doubt, next, anew, last := false, false, int64(1), true, int64(math.MaxInt64)
	if kind != takesExpired {
		held, doubt, next, last = r.held, r.doubt || r.state == stateClaimed, r.attempt+1, a.lastInstant()
		if !r.fingerprint().IsZero() {
			args[3], args[4] = r.digest, string(r.digestKey)
		}
		anew = r.clean() // no provider has seen the key
		providers := r.providers
		since := r.now.Time.UnixMicro()
		if anew {
			since = 0
			for i := range providers {
				providers[i].since = 0
			}
		}
		args[5] = mustProviders(a.named(providers, since))
	}
	version, token := r.version, r.token
	a.r = row{key: a.p.Key}
	return a.l.write(ctx, a.b.sql.take, &a.r, a.lockWait(),
		append(args, version, token, kind, last, held, doubt, next, anew)...)
}

// mustProviders encodes what is always encodable: texts and numbers.
func mustProviders(ps []provider) string {
	text, err := encodeProviders(ps)
	if err != nil {
		panic("bug: " + err.Error())
	}
	return text
}

func (a *attempt) result(fact driver.Fact) *driver.ClaimResult {
	res := &driver.ClaimResult{Fact: fact, Record: a.r.record()}
	if fact == driver.Mismatch {
		res.Record.Outcome = driver.Outcome{} // it answers another request
	}
	return res
}

// shortcut answers a claim by reading alone, where the record leaves nothing to
// write: a replay, mostly, for the price of a lookup. Whatever else it finds, an
// error too, is no answer: then the claim is decided by writing (I11).
func (b *Backend) shortcut(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, bool) {
	a := attempt{b: b, l: b.pool, p: p, r: row{key: p.Key}}
	found, err := b.pool.ask(ctx, b.sql.look, &a.r, p.Key)
	if err != nil || !found {
		b.met.Remove(p.Key)
		return nil, false
	}
	fact, kind, err := a.decide()
	if err != nil || kind != 0 {
		return nil, false
	}
	return a.result(fact), true
}
