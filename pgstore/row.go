package pgstore

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/idem-go/idem/driver"
)

// Stored values of the column state: what the last step made of a record.
// Whether a claim is still exclusive is not in it: that is a matter of the clock.
const (
	stateClaimed   = 1
	stateReleased  = 2
	stateCompleted = 3
)

// row is a record as it is stored, and the server's time when it was read.
type row struct {
	key string
	now pgtype.Timestamptz

	format, state, body, attempt          int64
	held, doubt, failed, recovered        bool
	version, token, revision              int64
	claimedAt, changedAt, windowsFrom     pgtype.Timestamptz
	leaseUntil, recordedAt, expiresAt     pgtype.Timestamptz
	auditAt                               pgtype.Timestamptz
	owner, digest, digestKey, sealKey     []byte
	codec, code, message, auditBy, auditW []byte
	providersJSON, refsJSON, outcome      []byte

	providers []provider // decoded by check
	refs      []driver.ProviderRef
}

// dest are the targets of Scan, in the order of columns, after the time.
func (r *row) dest() []any {
	return []any{
		&r.now, &r.format, &r.state, &r.held, &r.doubt, &r.failed, &r.recovered, &r.body, &r.attempt, &r.version, &r.token, &r.revision,
		&r.claimedAt, &r.changedAt, &r.windowsFrom, &r.leaseUntil, &r.recordedAt, &r.expiresAt, &r.auditAt,
		&r.owner, &r.digest, &r.digestKey, &r.sealKey, &r.codec, &r.code, &r.message, &r.auditBy, &r.auditW,
		&r.providersJSON, &r.refsJSON, &r.outcome,
	}
}

// instant returns the time of a column that must have one. NULL, infinity and
// the epoch are no times: a missing deadline never means that it has passed
// (I12).
func instant(t pgtype.Timestamptz) (time.Time, bool) {
	return t.Time, t.Valid && t.InfinityModifier == pgtype.Finite && t.Time.Unix() > 0
}

// check decodes what needs it, and says why the record cannot be read (I12).
func (r *row) check() error {
	if r.format != driver.FormatVersion {
		return corrupt(fmt.Sprintf("its format is %d, this release reads %d", r.format, driver.FormatVersion))
	}
	_, claimedAt := instant(r.claimedAt)
	_, windowsFrom := instant(r.windowsFrom)
	_, now := instant(r.now)
	switch {
	case len(r.owner) != len(driver.Owner{}):
		return corrupt(fmt.Sprintf("its owner has %d bytes", len(r.owner)))
	case r.token <= 0 || r.attempt <= 0 || r.version <= 0 || r.revision < 0:
		return corrupt("a counter is not positive")
	case r.digest != nil && len(r.digest) != len(driver.Fingerprint{}.Sum):
		return corrupt(fmt.Sprintf("its fingerprint has %d bytes", len(r.digest)))
	case !claimedAt || !windowsFrom || !now:
		return corrupt("an instant is missing")
	}
	if err := r.checkState(); err != nil {
		return err
	}
	var err error
	if r.providers, err = decodeProviders(r.providersJSON); err == nil {
		r.refs, err = decodeRefs(r.refsJSON)
	}
	return err
}

// checkState looks at what the state needs.
func (r *row) checkState() error {
	_, lease := instant(r.leaseUntil)
	_, expires := instant(r.expiresAt)
	_, recorded := instant(r.recordedAt)
	switch {
	case r.state < stateClaimed || r.state > stateCompleted:
		return corrupt(fmt.Sprintf("its state is %d", r.state))
	case r.state == stateClaimed && !lease:
		return corrupt("it is claimed, without the end of a lease")
	case r.state == stateReleased && !r.held && !expires:
		return corrupt("it is released, without the end of its retention")
	case r.state != stateCompleted:
		return nil
	case !expires || !recorded || r.revision == 0:
		return corrupt("it is completed, and an instant is missing")
	case r.body < 0 || r.body > int64(driver.BodyRedacted):
		return corrupt(fmt.Sprintf("its body is of the kind %d", r.body))
	case r.failed && (r.code == nil || r.message == nil):
		return corrupt("it failed, without a code or message")
	case !r.failed && r.body == int64(driver.BodyKept) && r.outcome == nil:
		return corrupt("it is completed, without an outcome")
	}
	return nil
}

// unexpired reports whether a claim is exclusive (I1), when the row was read.
func (r *row) unexpired() bool {
	return r.state == stateClaimed && r.now.Time.Before(r.leaseUntil.Time)
}

// expired reports whether the record behaves as absent (I13). One without an end
// never does, nor one that cannot be read.
func (r *row) expired() bool {
	at, ok := instant(r.expiresAt)
	return ok && !r.now.Time.Before(at)
}

// clean: released, and no earlier attempt is in doubt.
func (r *row) clean() bool { return r.state == stateReleased && !r.held && !r.doubt }

func (r *row) ownedBy(o driver.Owner) bool { return string(r.owner) == string(o[:]) }

// fencing is the token. check must have passed.
func (r *row) fencing() uint64 { return uint64(r.token) } //nolint:gosec // checked: positive

// fingerprint is the zero value if there is none.
func (r *row) fingerprint() (f driver.Fingerprint) {
	if r.digest != nil {
		f.KeyID = string(r.digestKey)
		copy(f.Sum[:], r.digest)
	}
	return f
}

// driverState is the state as of the server's clock.
func (r *row) driverState() driver.State {
	switch {
	case r.state == stateCompleted && r.failed:
		return driver.Failed
	case r.state == stateCompleted:
		return driver.Succeeded
	case r.state == stateReleased && !r.held:
		return driver.Released
	case r.unexpired():
		return driver.Claimed
	}
	return driver.Unknown
}

// record is the snapshot for callers. check must have passed.
func (r *row) record() driver.Record {
	rec := driver.Record{
		Key: r.key, State: r.driverState(), Held: r.held, Doubt: r.doubt, Token: r.fencing(),
		Attempt: int(r.attempt), Fingerprint: r.fingerprint(), Refs: r.refs,
		Format: int(r.format), Revision: uint64(r.revision), SealKeyID: string(r.sealKey), //nolint:gosec // checked: not negative
		ClaimAge: max(0, r.now.Time.Sub(r.claimedAt.Time)), ClaimedAt: r.claimedAt.Time.UTC(),
		Audit: driver.Audit{By: string(r.auditBy), Why: string(r.auditW)},
	}
	copy(rec.Owner[:], r.owner)
	if at, ok := instant(r.auditAt); ok {
		rec.Audit.At = at.UTC()
	}
	for _, p := range r.providers {
		rec.Providers = append(rec.Providers, driver.Provider{Name: p.name, Window: p.window, Elapsed: r.elapsed(p)})
	}
	if rec.State == driver.Claimed {
		rec.LeaseLeft = r.leaseUntil.Time.Sub(r.now.Time)
	}
	if at, ok := instant(r.expiresAt); ok {
		rec.RetentionLeft = at.Sub(r.now.Time)
	}
	if r.state == stateCompleted {
		rec.RecordedAt = r.recordedAt.Time.UTC()
		rec.Outcome = r.result()
	}
	return rec
}

func (r *row) result() driver.Outcome {
	return driver.Outcome{
		Failed: r.failed, Value: r.outcome, Body: driver.Body(r.body), Codec: string(r.codec), //nolint:gosec // checked: a known kind
		Code: string(r.code), Message: string(r.message), Recovered: r.recovered,
	}
}

// elapsed is how long a provider's window has been open.
func (r *row) elapsed(p provider) time.Duration {
	since := r.windowsFrom.Time
	if p.since > 0 {
		since = time.UnixMicro(p.since)
	}
	return max(0, r.now.Time.Sub(since))
}
