package redisstore

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
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
	if err := checkClaim(p); err != nil {
		return nil, err
	}
	j := judgement{p: p, res: &driver.ClaimResult{}}
	if b.replay(ctx, &j) {
		return j.res, nil
	}
	first, windows, err := claimArgs(p)
	if err != nil {
		return nil, err
	}
	for {
		reply, _, err := b.run(ctx, &b.scripts.claim, p.Key, first, windows...)
		if err != nil {
			return nil, err
		}
		raw, found, now, err := answer(reply)
		if at, ok := reply.(int64); ok && at > 0 && len(first) > 0 {
			now, found, err = uint64(at), true, nil
			raw = made(first, windows, now)
		}
		for found && err == nil {
			if err = j.judge(raw, now); err == nil && !j.take {
				return b.claimed(ctx, &j)
			}
			if err == nil {
				raw, found, now, err = b.take(ctx, &j)
			}
		}
		if err != nil {
			return nil, err
		}
		if !p.Take.Has(driver.TakeAbsent) { // 2.
			return nil, errNotFound()
		}
		// The record that was judged has ended: the claim begins anew.
	}
}

func checkClaim(p *driver.ClaimParams) error {
	if err := checkKey(p.Key); err != nil {
		return err
	}
	if err := checkOwner(p.Owner); err != nil {
		return err
	}
	if err := checkLease(p.Lease); err != nil {
		return err
	}
	return checkRetention(p.Retention)
}

// take takes the record that was judged, and returns what is there then: the
// claim, or another record. found is false if there is none.
func (b *Backend) take(ctx context.Context, j *judgement) (raw string, found bool, now uint64, err error) {
	first, windows, err := j.takeArgs()
	if err != nil {
		return "", false, 0, err
	}
	reply, _, err := b.run(ctx, &b.scripts.take, j.p.Key, []byte(j.raw), append([]any{first}, windows...)...)
	switch {
	case err != nil:
		return "", false, 0, err
	case reply == int64(answerNoRecord):
		return "", false, 0, nil
	case reply == int64(answerUnreadable):
		return "", false, 0, unreadable("its parts are not what its head says")
	}
	return answer(reply)
}

// claimed returns what was found, once the replicas have what was acquired.
func (b *Backend) claimed(ctx context.Context, j *judgement) (*driver.ClaimResult, error) {
	if j.res.Fact == driver.Completed {
		b.done.Add(j.p.Key)
	}
	if j.res.Fact == driver.Acquired || j.res.Fact == driver.TakenOver {
		if err := b.replicated(ctx, j.p.Key); err != nil {
			return nil, err
		}
	}
	return j.res, nil
}

// Where the parts of claim.lua's first argument are.
const (
	argLease   = 19 // behind the record's first bytes
	argLengths = argLease + 3*8
	argPrint   = argLengths + 20
)

// claimArgs are the arguments of claim.lua: the record that it may make, with
// gaps where the server's time belongs.
func claimArgs(p *driver.ClaimParams) (first []byte, windows []any, err error) {
	if !p.Take.Has(driver.TakeAbsent) {
		return nil, nil, nil
	}
	first = append(make([]byte, 0, argPrint+64), driver.FormatVersion, phaseClaimed, 0)
	first = append(first, p.Owner[:]...)
	first = appendLease(first, p.Lease, p.Retention)
	first = binary.BigEndian.AppendUint64(first, uint64(kept(p.Lease, p.Retention)/time.Millisecond)+1) //nolint:gosec // positive
	first = first[:argPrint]
	if first, err = appendFingerprint(first, p.Print()); err != nil {
		return nil, nil, err
	}
	length := 0
	for i, w := range p.Providers {
		if named(p.Providers[:i], w.Name) {
			continue
		}
		b, err := appendWindow(nil, w)
		if length += len(b) + 8; err != nil || length > math.MaxUint16 {
			return nil, nil, errTooLong
		}
		windows = append(windows, b)
	}
	binary.BigEndian.PutUint16(first[argLengths:], uint16(len(first)-argPrint)) //nolint:gosec // it fits, see appendFingerprint
	binary.BigEndian.PutUint16(first[argLengths+2:], uint16(length))
	return first, windows, nil
}

func named(ws []driver.ProviderWindow, name string) bool {
	return slices.ContainsFunc(ws, func(w driver.ProviderWindow) bool { return w.Name == name })
}

// appendLease appends the lease, and how long the record is kept.
func appendLease(b []byte, lease, retention time.Duration) []byte {
	return appendDuration(appendDuration(b, lease), kept(lease, retention))
}

// made is the record that claim.lua has made at an instant.
func made(first []byte, windows []any, now uint64) string {
	raw := make([]byte, 0, len(first)+36)
	raw = binary.BigEndian.AppendUint64(append(raw, first[:argLease]...), now)
	raw = binary.BigEndian.AppendUint32(raw, 1)
	raw = binary.BigEndian.AppendUint64(raw, now)
	for _, at := range []int{argLease, argLease + 8} {
		raw = binary.BigEndian.AppendUint64(raw, now+binary.BigEndian.Uint64(first[at:]))
	}
	raw = append(raw, first[argLengths:]...)
	for _, w := range windows {
		window, _ := w.([]byte)
		raw = append(binary.BigEndian.AppendUint64(raw, now), window...)
	}
	return string(raw)
}

// judgement is what a claim makes of the record that it found.
type judgement struct {
	p *driver.ClaimParams
	layout
	now  uint64
	res  *driver.ClaimResult
	take bool // the record may be taken; then there is no fact yet
}

// judge makes the tests of [driver.Backend.Claim] on a record, by their numbers
// there, in their order. A record that claim.lua has just made is found to be
// one's own.
func (j *judgement) judge(raw string, now uint64) error {
	j.take, j.now = false, now
	if err := j.split(raw, false); err != nil { // 1.
		return err
	}
	if err := j.read(&j.res.Record, j.p.Key, now); err != nil { // 1.
		return err
	}
	return j.decide()
}

func (j *judgement) decide() error {
	rec := &j.res.Record
	equal, known := rec.Fingerprint.Match(j.p.Fingerprints)
	own := j.owner == j.p.Owner
	switch {
	case !known: // 3.
		return unreadable("no fingerprint key has the id of the stored one")
	case !equal: // 3.
		j.res.Fact, rec.Outcome = driver.Mismatch, driver.Outcome{} // it answers another request
	case rec.State.Completed(): // 4.
		j.res.Fact = driver.Completed
	case own && j.phase == phaseClaimed: // 5.
		j.res.Fact = driver.Acquired
		if rec.Doubt {
			j.res.Fact = driver.TakenOver
		}
	case own: // 5.
		return errLeaseLost("this owner's claim was settled")
	case j.p.ExpectToken != 0 && j.p.ExpectToken != j.token: // 6.
		return errConflict("it has another token than expected")
	case rec.State == driver.Claimed: // 7.
		j.res.Fact = driver.InProgress
	case j.mayTake(): // 8.
		j.take = true
	case j.clean(): // 9.
		return errConflict("it is released, which this claim may not take")
	default: // 9.
		j.res.Fact = driver.Held
	}
	return nil
}

// clean: released, and no earlier attempt is in doubt.
func (j *judgement) clean() bool { return j.res.Record.State == driver.Released && !j.res.Record.Doubt }

// mayTake is test 8. The record is released, unknown or held.
func (j *judgement) mayTake() bool {
	needs := driver.TakeReleased
	switch {
	case j.res.Record.Held:
		needs = driver.TakeHeld
	case j.res.Record.State == driver.Unknown:
		needs = driver.TakeUnknown
	case j.res.Record.Doubt:
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
	for _, have := range j.res.Record.Providers {
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
	for _, have := range j.res.Record.Providers {
		if have.Name == name {
			return true
		}
	}
	return false
}

// takeArgs are the arguments of take.lua behind the record that was judged.
func (j *judgement) takeArgs() (first []byte, windows []any, err error) {
	doubtful := byte(0)
	if j.res.Record.Doubt || j.phase == phaseClaimed { // its lease ended without an outcome
		doubtful = 1
	}
	first = append(make([]byte, 0, 51+len(j.fingerprint)+len(j.providers)+64), doubtful)
	first = append(first, j.p.Owner[:]...)
	first = appendLease(first, j.p.Lease, j.p.Retention)
	earliest, latest := j.bounds()
	first = binary.BigEndian.AppendUint64(first, earliest)
	first = binary.BigEndian.AppendUint64(first, latest)
	fp := []byte(j.fingerprint)
	if len(fp) == 0 {
		if fp, err = appendFingerprint(nil, j.p.Print()); err != nil {
			return nil, nil, err
		}
	}
	first = binary.BigEndian.AppendUint16(first, uint16(len(fp))) //nolint:gosec // at most what a record holds
	first = append(first, fp...)
	kept, begun := j.providers, []driver.ProviderWindow(nil)
	if j.clean() { // no provider has seen the key: every window begins anew
		kept = ""
		for _, have := range j.res.Record.Providers {
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
		for _, have := range j.res.Record.Providers {
			end := j.now + uint64((have.Left()-j.p.MinWindow)/time.Microsecond) //nolint:gosec // enough is left, see windowsLast
			if latest == 0 || end < latest {
				latest = end
			}
		}
	}
	return earliest, latest
}
