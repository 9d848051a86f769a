package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/idem-go/idem/driver"
)

// Claim implements [driver.Backend]. A key without a record, a record of one's
// own, an outcome and a claim in progress are answered in one round trip. Taking
// a record that an earlier attempt left behind costs a second one: what was
// judged here is restated there, byte for byte.
//
// LockWait is ignored: Redis runs one script after another.
func (b *Backend) Claim(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	if err := errors.Join(checkOwner(p.Owner), checkLease(p.Lease), checkRetention(p.Retention)); err != nil {
		return nil, err
	}
	if err := checkKey(p.Key); err != nil {
		return nil, err
	}
	first, windows, err := claimArgs(p)
	if err != nil {
		return nil, err
	}
	reply, _, err := b.run(ctx, &b.scripts.claim, p.Key, first, windows...)
	for {
		if err != nil {
			return nil, err
		}
		j, err := judge(p, reply)
		if err != nil {
			return nil, err
		}
		if !j.take {
			return b.claimed(ctx, j)
		}
		first, windows, err = j.takeArgs()
		if err != nil {
			return nil, err
		}
		reply, _, err = b.run(ctx, &b.scripts.take, p.Key, []byte(j.raw), append([]any{first}, windows...)...)
		if err != nil {
			return nil, err
		}
	}
}

// claimed returns what was found, once the replicas have what was acquired.
func (b *Backend) claimed(ctx context.Context, j *judgement) (*driver.ClaimResult, error) {
	res := &driver.ClaimResult{Fact: j.fact, Record: j.rec}
	if j.fact == driver.Acquired || j.fact == driver.TakenOver {
		return res, b.replicated(ctx, j.p.Key)
	}
	return res, nil
}

// claimArgs are the arguments of claim.lua.
func claimArgs(p *driver.ClaimParams) (first []byte, windows []any, err error) {
	first = make([]byte, 1, 33+64)
	if p.Take.Has(driver.TakeAbsent) {
		first[0] = 1
	}
	first = append(first, p.Owner[:]...)
	first = appendLease(first, p.Lease, p.Retention)
	if len(p.Fingerprints) > 0 {
		if first, err = appendFingerprint(first, p.Fingerprints[0]); err != nil {
			return nil, nil, err
		}
	}
	room := math.MaxUint16
	for i, w := range p.Providers {
		if named(p.Providers[:i], w.Name) {
			continue
		}
		b, err := appendWindow(nil, w)
		if room -= len(b) + 8; err != nil || room < 0 {
			return nil, nil, errTooLong
		}
		windows = append(windows, b)
	}
	return first, windows, nil
}

func named(ws []driver.ProviderWindow, name string) bool {
	for _, w := range ws {
		if w.Name == name {
			return true
		}
	}
	return false
}

// appendLease appends the lease and how long the record is kept: after the
// lease's end the outcome is unknown.
func appendLease(b []byte, lease, retention time.Duration) []byte {
	b = appendDuration(b, lease)
	return binary.BigEndian.AppendUint64(b, micros2(lease, max(retention, keepUnknown)))
}

// judgement is what a claim makes of the record that it found.
type judgement struct {
	p *driver.ClaimParams
	*layout
	now  uint64
	rec  driver.Record
	fact driver.Fact
	take bool // the record may be taken; then there is no fact yet
}

// judge makes the tests of [driver.Backend.Claim], by their numbers there, in
// their order. A record that claim.lua has just made is found to be one's own.
func judge(p *driver.ClaimParams, reply any) (*judgement, error) {
	raw, now, err := answer(reply)
	if err != nil {
		return nil, err
	}
	if raw == "" { // 2.
		return nil, errNotFound()
	}
	j := &judgement{p: p, now: now}
	if j.layout, err = split(raw, false); err != nil { // 1.
		return nil, err
	}
	if j.rec, err = j.record(p.Key, now); err != nil { // 1.
		return nil, err
	}
	return j, j.decide()
}

func (j *judgement) decide() error {
	equal, known := j.rec.Fingerprint.Match(j.p.Fingerprints)
	own := j.owner == j.p.Owner
	switch {
	case !known: // 3.
		return unreadable("no fingerprint key has the id of the stored one")
	case !equal: // 3.
		j.fact, j.rec.Outcome = driver.Mismatch, driver.Outcome{} // it answers another request
	case j.rec.State.Completed(): // 4.
		j.fact = driver.Completed
	case own && j.phase == phaseClaimed: // 5.
		j.fact = driver.Acquired
		if j.rec.Doubt {
			j.fact = driver.TakenOver
		}
	case own: // 5.
		return errLeaseLost("this owner's claim was settled")
	case j.p.ExpectToken != 0 && j.p.ExpectToken != j.token: // 6.
		return errConflict("it has another token than expected")
	case j.rec.State == driver.Claimed: // 7.
		j.fact = driver.InProgress
	case j.mayTake(): // 8.
		j.take = true
	case j.clean(): // 9.
		return errConflict("it is released, which this claim may not take")
	default: // 9.
		j.fact = driver.Held
	}
	return nil
}

// clean: released, and no earlier attempt is in doubt.
func (j *judgement) clean() bool { return j.rec.State == driver.Released && !j.rec.Doubt }

// mayTake is test 8. The record is released, unknown or held.
func (j *judgement) mayTake() bool {
	needs := driver.TakeReleased
	switch {
	case j.rec.Held:
		needs = driver.TakeHeld
	case j.rec.State == driver.Unknown:
		needs = driver.TakeUnknown
	case j.rec.Doubt:
		needs = driver.TakeDoubtful
	}
	return j.p.Take.Has(needs) && (j.clean() || j.windowsLast())
}

// windowsLast reports whether at least MinWindow is left of each provider's
// window. One that the record does not have yet would begin now.
func (j *judgement) windowsLast() bool {
	if j.p.MinWindow <= 0 {
		return true
	}
	for _, have := range j.rec.Providers {
		if have.Left() < j.p.MinWindow {
			return false
		}
	}
	for _, w := range j.p.Providers {
		if !j.hasProvider(w.Name) && w.Window < j.p.MinWindow {
			return false
		}
	}
	return true
}

func (j *judgement) hasProvider(name string) bool {
	for _, have := range j.rec.Providers {
		if have.Name == name {
			return true
		}
	}
	return false
}

// takeArgs are the arguments of take.lua behind the record that was judged.
func (j *judgement) takeArgs() (first []byte, windows []any, err error) {
	flags := j.flags
	if j.phase == phaseClaimed {
		flags |= flagDoubt // its lease ended without an outcome
	}
	first = append(make([]byte, 0, 51+len(j.fingerprint)+len(j.providers)+64), flags)
	first = append(first, j.p.Owner[:]...)
	first = appendLease(first, j.p.Lease, j.p.Retention)
	earliest, latest := j.bounds()
	first = binary.BigEndian.AppendUint64(first, earliest)
	first = binary.BigEndian.AppendUint64(first, latest)
	fp := []byte(j.fingerprint)
	if len(fp) == 0 && len(j.p.Fingerprints) > 0 {
		if fp, err = appendFingerprint(nil, j.p.Fingerprints[0]); err != nil {
			return nil, nil, err
		}
	}
	first = binary.BigEndian.AppendUint16(first, uint16(len(fp))) //nolint:gosec // at most what a record holds
	first = append(first, fp...)
	kept, begun := j.providers, []driver.ProviderWindow(nil)
	if j.clean() { // no provider has seen the key: every window begins anew
		kept = ""
		for _, have := range j.rec.Providers {
			begun = append(begun, driver.ProviderWindow{Name: have.Name, Window: have.Window})
		}
	}
	for _, w := range j.p.Providers {
		if !j.hasProvider(w.Name) && !named(begun, w.Name) {
			begun = append(begun, w)
		}
	}
	first = append(first, kept...)
	room := math.MaxUint16 - len(kept)
	for _, w := range begun {
		b, err := appendWindow(nil, w)
		if room -= len(b) + 8; err != nil || room < 0 {
			return nil, nil, errTooLong
		}
		windows = append(windows, b)
	}
	return first, windows, nil
}

// bounds are the server's times between which the judgement holds: after the
// lease has ended (a clock may step back), and while enough of each window is
// left. 0 is no bound.
func (j *judgement) bounds() (earliest, latest uint64) {
	if j.phase == phaseClaimed {
		earliest = j.at
	}
	if j.p.MinWindow > 0 && !j.clean() {
		for _, have := range j.rec.Providers {
			end := j.now + uint64((have.Left()-j.p.MinWindow)/time.Microsecond) //nolint:gosec // enough is left, see windowsLast
			if latest == 0 || end < latest {
				latest = end
			}
		}
	}
	return earliest, latest
}
