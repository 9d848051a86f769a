package memstore

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/idem-go/idem/driver"
)

// phase is what the last step made of a record. Whether a claim is still
// exclusive is not in it: that is a matter of the clock (see record.state).
type phase uint8

const (
	claimed phase = iota + 1
	released
	completed
)

// What parts of a record take, about, besides the texts and values that they
// point to; a record with its element and its share of the map.
const (
	recordCost   = 640
	providerCost = 48
	refCost      = 32
)

// record is what a Backend keeps for a key. The mutex of its shard guards it.
// Its instants carry the monotonic clock; an instant that does not apply is
// zero, and is then never looked at.
type record struct {
	key     string // "" in the elements that are no records: see shard.order
	phase   phase
	held    bool
	doubt   bool
	owner   driver.Owner // of the last claim, settled or not; zero after a Reset
	token   uint64
	attempt int

	fingerprint driver.Fingerprint
	providers   []provider
	refs        []driver.ProviderRef
	// outcome.Value is never written to once it is stored, only replaced: it is
	// copied for callers after the mutex was given back.
	outcome  driver.Outcome
	revision uint64
	audit    *driver.Audit // nil: nobody changed it by hand

	leaseUntil time.Time // claimed: the claim is exclusive until then
	claimedAt  time.Time
	changedAt  time.Time // the last change of any kind
	recordedAt time.Time // completed
	expiresAt  time.Time // completed, or released and not held: the end of the retention

	bytes int64 // what this record has taken of the Backend's bytes
}

// provider is a [driver.ProviderWindow] and the instant from which it counts.
type provider struct {
	name   string
	window time.Duration
	since  time.Time
}

// restartWindows lets every provider's window begin now: no provider has seen
// the key.
func (r *record) restartWindows(now time.Time) {
	for i := range r.providers {
		r.providers[i].since = now
	}
}

// unexpired reports whether a claim is exclusive (I1).
func (r *record) unexpired(now time.Time) bool {
	return r.phase == claimed && now.Before(r.leaseUntil)
}

// expired reports whether the record behaves as absent (I13). Claimed, unknown
// and held records never do.
func (r *record) expired(now time.Time) bool {
	mayEnd := r.phase == completed || r.phase == released && !r.held
	return mayEnd && !now.Before(r.expiresAt)
}

func (r *record) state(now time.Time) driver.State {
	switch {
	case r.phase == completed && r.outcome.Failed:
		return driver.Failed
	case r.phase == completed:
		return driver.Succeeded
	case r.phase == released && !r.held:
		return driver.Released
	case r.unexpired(now):
		return driver.Claimed
	}
	return driver.Unknown // a claim whose lease has ended, or held
}

// unknownFor is how long the outcome has been unknown, without a change since.
// Only for records in the state Unknown.
func (r *record) unknownFor(now time.Time) time.Duration {
	since := r.changedAt
	if r.phase == claimed && r.leaseUntil.After(since) {
		since = r.leaseUntil
	}
	return now.Sub(since)
}

// providerNamed returns nil if the record has none of that name.
func (r *record) providerNamed(name string) *provider {
	i := slices.IndexFunc(r.providers, func(p provider) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return &r.providers[i]
}

// addRefs adds those that the record does not have, in order, and reports
// whether there were any.
func (r *record) addRefs(refs []driver.ProviderRef) (added bool) {
	for _, ref := range refs {
		if !slices.Contains(r.refs, ref) {
			r.refs = append(r.refs, driver.ProviderRef{Provider: strings.Clone(ref.Provider), Ref: strings.Clone(ref.Ref)})
			added = true
		}
	}
	return added
}

// setAudit stores a with the time of the backend; nil stores nothing.
func (r *record) setAudit(a *driver.Audit, now time.Time) {
	if a != nil {
		r.audit = &driver.Audit{By: strings.Clone(a.By), Why: strings.Clone(a.Why), At: display(now)}
	}
}

// cost estimates what the record takes now.
func (r *record) cost() int64 {
	n := recordCost + len(r.key) + textCost(&r.fingerprint, r.audit, &r.outcome, r.refs)
	for _, p := range r.providers {
		n += providerCost + len(p.name)
	}
	return int64(n)
}

// textCost counts what both a stored record and a snapshot point to. There may
// be no audit.
func textCost(f *driver.Fingerprint, a *driver.Audit, o *driver.Outcome, refs []driver.ProviderRef) int {
	n := len(f.KeyID) + len(o.Value) + len(o.Codec) + len(o.Code) + len(o.Message)
	if a != nil {
		n += len(a.By) + len(a.Why)
	}
	for _, ref := range refs {
		n += refCost + len(ref.Provider) + len(ref.Ref)
	}
	return n
}

// snapshot is the record for callers, in memory of its own.
func (r *record) snapshot(now time.Time) driver.Record {
	var rec driver.Record
	r.show(&rec, now)
	return rec
}

// show is the only place where a stored record becomes one for callers. It
// shares nothing with the stored one but the outcome's value: see detach.
func (r *record) show(rec *driver.Record, now time.Time) {
	*rec = driver.Record{
		Key: r.key, State: r.state(now), Held: r.held, Doubt: r.doubt,
		Owner: r.owner, Token: r.token, Attempt: r.attempt, Fingerprint: r.fingerprint,
		Refs: slices.Clone(r.refs), Outcome: r.outcome,
		Format: driver.FormatVersion, Revision: r.revision,
		ClaimAge: now.Sub(r.claimedAt), ClaimedAt: display(r.claimedAt),
	}
	if r.audit != nil {
		rec.Audit = *r.audit
	}
	for _, p := range r.providers {
		rec.Providers = append(rec.Providers, driver.Provider{Name: p.name, Window: p.window, Elapsed: now.Sub(p.since)})
	}
	switch rec.State {
	case driver.Claimed:
		rec.LeaseLeft = r.leaseUntil.Sub(now)
	case driver.Succeeded, driver.Failed:
		rec.RetentionLeft, rec.RecordedAt = r.expiresAt.Sub(now), display(r.recordedAt)
	case driver.Released:
		rec.RetentionLeft = r.expiresAt.Sub(now)
	case driver.Unknown: // neither a lease nor a retention runs
	}
}

// detach gives rec a value of its own. It needs no mutex: see record.outcome. A
// large value is copied without holding up the other keys of its shard.
func detach(rec *driver.Record) *driver.Record {
	rec.Outcome.Value = bytes.Clone(rec.Outcome.Value)
	return rec
}

// display turns an instant into one for people: without the monotonic clock,
// which must not be used to decide anything outside (I7).
func display(t time.Time) time.Time { return t.Round(0).UTC() }
