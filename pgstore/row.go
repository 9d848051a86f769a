package pgstore

import (
	"encoding/json"
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

	// as read
	now                             pgtype.Timestamptz
	packed, attempt                 int64
	version, token, revision        int64
	claimedAt, deadline, recordedAt pgtype.Timestamptz
	owner, digest, digestKey, codec []byte
	rareJSON, outcome               []byte

	// decoded by check
	format, state, body            int64
	held, doubt, failed, recovered bool
	rare                           rare
	providers                      []provider
	refs                           []driver.ProviderRef
}

// rare is what few records have.
type rare struct {
	Code        *string         `json:"c"`
	Message     *string         `json:"m"`
	SealKey     string          `json:"k"`
	AuditBy     string          `json:"b"`
	AuditWhy    string          `json:"w"`
	AuditAt     int64           `json:"a"` // microseconds
	Providers   json.RawMessage `json:"p"`
	Refs        json.RawMessage `json:"r"`
	WindowsFrom int64           `json:"f"` // microseconds
}

// dest are the targets of Scan, in the order of columns, after the time.
func (r *row) dest() []any {
	return []any{
		&r.now, &r.packed, &r.attempt, &r.version, &r.token, &r.revision, &r.claimedAt, &r.deadline, &r.recordedAt,
		&r.owner, &r.digest, &r.digestKey, &r.codec, &r.rareJSON, &r.outcome,
	}
}

// unpack decodes what columns packed.
func (r *row) unpack() error {
	r.state, r.body, r.format = r.packed&15, r.packed>>4&15, r.packed>>16
	r.held, r.doubt = r.packed&256 != 0, r.packed&512 != 0
	r.failed, r.recovered = r.packed&1024 != 0, r.packed&2048 != 0
	if r.rareJSON == nil {
		return nil
	}
	if err := json.Unmarshal(r.rareJSON, &r.rare); err != nil {
		return corrupt("a part of it cannot be decoded")
	}
	return nil
}

// instant returns the time of a column that must have one. NULL, infinity and
// the epoch are no times: a missing deadline never means that it has passed
// (I12).
func instant(t pgtype.Timestamptz) (time.Time, bool) {
	return t.Time, t.Valid && t.InfinityModifier == pgtype.Finite && t.Time.Unix() > 0
}

// check decodes what needs it, and says why the record cannot be read (I12).
func (r *row) check() error {
	if err := r.unpack(); err != nil {
		return err
	}
	if r.format != driver.FormatVersion {
		return corrupt(fmt.Sprintf("its format is %d, this release reads %d", r.format, driver.FormatVersion))
	}
	_, claimedAt := instant(r.claimedAt)
	_, now := instant(r.now)
	switch {
	case len(r.owner) != len(driver.Owner{}):
		return corrupt(fmt.Sprintf("its owner has %d bytes", len(r.owner)))
	case r.token <= 0 || r.attempt <= 0 || r.version <= 0 || r.revision < 0:
		return corrupt("a counter is not positive")
	case r.digest != nil && len(r.digest) != len(driver.Fingerprint{}.Sum):
		return corrupt(fmt.Sprintf("its fingerprint has %d bytes", len(r.digest)))
	case !claimedAt || !now:
		return corrupt("an instant is missing")
	}
	if err := r.checkState(); err != nil {
		return err
	}
	if r.rareJSON == nil {
		return nil
	}
	var err error
	if r.providers, err = decodeProviders(r.rare.Providers); err == nil {
		r.refs, err = decodeRefs(r.rare.Refs)
	}
	if len(r.providers) > 0 && r.rare.WindowsFrom <= 0 {
		err = corrupt("it has providers, and the beginning of their windows is missing")
	}
	return err
}

// checkState looks at what the state needs.
func (r *row) checkState() error {
	_, deadline := instant(r.deadline)
	_, recorded := instant(r.recordedAt)
	switch {
	case r.state < stateClaimed || r.state > stateCompleted:
		return corrupt(fmt.Sprintf("its state is %d", r.state))
	case r.state == stateClaimed && !deadline:
		return corrupt("it is claimed, without the end of a lease")
	case r.state == stateReleased && !r.held && !deadline:
		return corrupt("it is released, without the end of its retention")
	case r.state != stateCompleted:
		return nil
	case !deadline || !recorded || r.revision == 0:
		return corrupt("it is completed, and an instant is missing")
	case r.body < 0 || r.body > int64(driver.BodyRedacted):
		return corrupt(fmt.Sprintf("its body is of the kind %d", r.body))
	case r.failed && (r.rare.Code == nil || r.rare.Message == nil):
		return corrupt("it failed, without a code or message")
	case !r.failed && r.body == int64(driver.BodyKept) && r.outcome == nil:
		return corrupt("it is completed, without an outcome")
	}
	return nil
}

// unexpired reports whether a claim is exclusive (I1), when the row was read.
func (r *row) unexpired() bool {
	return r.state == stateClaimed && r.now.Time.Before(r.deadline.Time)
}

// expired reports whether the record behaves as absent (I13). One without an end
// never does, nor one that cannot be read.
func (r *row) expired() bool {
	at, ok := instant(r.deadline)
	return ok && r.state != stateClaimed && !r.now.Time.Before(at)
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
		Format: int(r.format), Revision: uint64(r.revision), SealKeyID: r.rare.SealKey, //nolint:gosec // checked: not negative
		ClaimAge: max(0, r.now.Time.Sub(r.claimedAt.Time)), ClaimedAt: r.claimedAt.Time.UTC(),
		Audit: driver.Audit{By: r.rare.AuditBy, Why: r.rare.AuditWhy},
	}
	copy(rec.Owner[:], r.owner)
	if r.rare.AuditAt != 0 {
		rec.Audit.At = time.UnixMicro(r.rare.AuditAt).UTC()
	}
	for _, p := range r.providers {
		rec.Providers = append(rec.Providers, driver.Provider{Name: p.name, Window: p.window, Elapsed: r.elapsed(p)})
	}
	switch at, ok := instant(r.deadline); {
	case rec.State == driver.Claimed:
		rec.LeaseLeft = at.Sub(r.now.Time)
	case ok && r.state != stateClaimed:
		rec.RetentionLeft = at.Sub(r.now.Time)
	}
	if r.state == stateCompleted {
		rec.RecordedAt = r.recordedAt.Time.UTC()
		rec.Outcome = r.result()
	}
	return rec
}

func (r *row) result() driver.Outcome {
	o := driver.Outcome{
		Failed: r.failed, Value: r.outcome, Body: driver.Body(r.body), Codec: string(r.codec), Recovered: r.recovered, //nolint:gosec // checked: a known kind
	}
	if r.rare.Code != nil {
		o.Code = *r.rare.Code
	}
	if r.rare.Message != nil {
		o.Message = *r.rare.Message
	}
	return o
}

// elapsed is how long a provider's window has been open.
func (r *row) elapsed(p provider) time.Duration {
	return max(0, r.now.Time.Sub(time.UnixMicro(r.since(p))))
}

// since is when a provider's window began, in microseconds.
func (r *row) since(p provider) int64 {
	if p.since > 0 {
		return p.since
	}
	return r.rare.WindowsFrom
}
