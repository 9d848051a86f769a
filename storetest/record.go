package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idem-go/idem/driver"
)

// grain is the coarsest unit in which a backend may count a remaining time.
const grain = time.Millisecond

// different names the fields in which two snapshots of a record differ. What
// the passing of time changes by itself is left out.
func different(a, b *driver.Record) []string {
	var out []string
	field := func(name string, same bool, x, y any) {
		if !same {
			out = append(out, fmt.Sprintf("%s: %v, then %v", name, x, y))
		}
	}
	field("Key", a.Key == b.Key, a.Key, b.Key)
	field("State", a.State == b.State, a.State, b.State)
	field("Held", a.Held == b.Held, a.Held, b.Held)
	field("Doubt", a.Doubt == b.Doubt, a.Doubt, b.Doubt)
	field("Owner", a.Owner == b.Owner, a.Owner, b.Owner)
	field("Token", a.Token == b.Token, a.Token, b.Token)
	field("Attempt", a.Attempt == b.Attempt, a.Attempt, b.Attempt)
	field("Fingerprint", a.Fingerprint == b.Fingerprint, a.Fingerprint, b.Fingerprint)
	field("Providers", slices.Equal(windows(a), windows(b)), windows(a), windows(b))
	field("Refs", slices.Equal(a.Refs, b.Refs), a.Refs, b.Refs)
	field("Outcome", a.Outcome.Equal(&b.Outcome), describe(&a.Outcome), describe(&b.Outcome))
	field("Audit", a.Audit.By == b.Audit.By && a.Audit.Why == b.Audit.Why && a.Audit.At.Equal(b.Audit.At), a.Audit, b.Audit)
	field("Format", a.Format == b.Format, a.Format, b.Format)
	field("Revision", a.Revision == b.Revision, a.Revision, b.Revision)
	field("SealKeyID", a.SealKeyID == b.SealKeyID, a.SealKeyID, b.SealKeyID)
	field("ClaimedAt", a.ClaimedAt.Equal(b.ClaimedAt), a.ClaimedAt, b.ClaimedAt)
	field("RecordedAt", a.RecordedAt.Equal(b.RecordedAt), a.RecordedAt, b.RecordedAt)
	return out
}

// extended names the remaining times that have grown from a to b although the
// record should not have been touched.
func extended(a, b *driver.Record) []string {
	var out []string
	if b.LeaseLeft > a.LeaseLeft+grain {
		out = append(out, fmt.Sprintf("LeaseLeft grew: %v, then %v", a.LeaseLeft, b.LeaseLeft))
	}
	endless, nowEndless := a.RetentionLeft == 0, b.RetentionLeft == 0
	if endless != nowEndless || b.RetentionLeft > a.RetentionLeft+grain {
		out = append(out, fmt.Sprintf("RetentionLeft grew, or its end came or went: %v, then %v", a.RetentionLeft, b.RetentionLeft))
	}
	for _, p := range b.Providers {
		if was, _ := provider(a, p.Name); p.Elapsed < was.Elapsed-grain {
			out = append(out, fmt.Sprintf("the window of %q began anew: elapsed %v, then %v", p.Name, was.Elapsed, p.Elapsed))
		}
	}
	return out
}

// inconsistent names what contradicts itself in a record, whatever happened to
// it.
func inconsistent(key string, r *driver.Record) []string {
	var out []string
	must := func(ok bool, format string, args ...any) {
		if !ok {
			out = append(out, fmt.Sprintf("a %v record ", r.State)+fmt.Sprintf(format, args...))
		}
	}
	done, none := r.State.Completed(), r.Outcome.Equal(&driver.Outcome{})
	must(r.Key == key, "of %.80q says it is of %.80q", key, r.Key)
	must(r.State >= driver.Claimed && r.State <= driver.Unknown, "has no state")
	must(r.Token != 0, "has token 0")
	must(r.Attempt >= 1, "has attempt %d", r.Attempt)
	must(r.Format >= 1, "has format %d", r.Format)
	must(!r.Held || r.Doubt, "is held, but not in doubt")
	must(!r.Held || r.State == driver.Claimed || r.State == driver.Unknown, "is held")
	must(done == !r.RecordedAt.IsZero(), "is recorded at %v", r.RecordedAt)
	must(done || none, "has an outcome: %s", describe(&r.Outcome))
	must(!done || r.Outcome.Failed == (r.State == driver.Failed), "has outcome %s", describe(&r.Outcome))
	must(!done || r.Revision >= 1, "has revision %d", r.Revision)
	must(r.LeaseLeft == 0 || r.State == driver.Claimed && r.LeaseLeft > 0, "has %v of a lease left", r.LeaseLeft)
	must(r.ClaimAge >= 0 && r.RetentionLeft >= 0, "has age %v, retention left %v", r.ClaimAge, r.RetentionLeft)
	return out
}

// windows are the record's providers by name, without what passes by itself.
// The contract gives them no order.
func windows(r *driver.Record) []driver.ProviderWindow {
	var out []driver.ProviderWindow
	for _, p := range r.Providers {
		out = append(out, driver.ProviderWindow{Name: p.Name, Window: p.Window})
	}
	slices.SortFunc(out, func(a, b driver.ProviderWindow) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// provider finds a provider of the record.
func provider(r *driver.Record, name string) (driver.Provider, bool) {
	for _, p := range r.Providers {
		if p.Name == name {
			return p, true
		}
	}
	return driver.Provider{}, false
}

// describe prints an outcome briefly.
func describe(o *driver.Outcome) string {
	if o.Equal(&driver.Outcome{}) {
		return "none"
	}
	if o.Failed {
		return fmt.Sprintf("failed %q %.40q", o.Code, o.Message)
	}
	return fmt.Sprintf("%d bytes %.40q codec %q body %d recovered %v", len(o.Value), o.Value, o.Codec, o.Body, o.Recovered)
}
