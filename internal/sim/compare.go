package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/idem-go/idem/driver"
)

// compare looks at the backend's record through an untouched Inspect.
func (w *world) compare(k *key, now time.Time) {
	rec, err := w.b.Inspect(w.base, k.stored)
	w.count.judged(A11)
	switch {
	case errors.Is(err, driver.ErrNotFound) && k.model.phase == absent:
		return
	case errors.Is(err, driver.ErrNotFound):
		w.fail(A11, "%s: forgotten; the last change was at %v, the outcome ends at %v", k.name, since(w, k.model.changedAt), since(w, k.model.expiresAt))
		return
	case err != nil:
		w.fail(A10, "%s: %v", k.name, err)
		return
	case k.model.phase == absent:
		w.fail(A11, "%s: there is a record after the end of its retention", k.name)
		return
	}
	w.compareWith(k, rec, now, false)
}

func since(w *world, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Sub(w.start).String()
}

// compareWith compares a record with the model, field by field. A difference
// breaks the property of the call that touched the record last: a refused call
// must leave it as it is.
func (w *world) compareWith(k *key, rec *driver.Record, now time.Time, mismatch bool) {
	m := &k.model
	r := k.touched
	w.count.judged(r)
	differ := func(field string, got, want any) {
		w.fail(r, "%s: %s is %v; the contract says %v (after %v)", k.name, field, got, want, k.refused)
	}
	if rec.State != m.state(now) {
		differ("the state", rec.State, m.state(now))
	}
	if rec.Held != m.held || rec.Doubt != m.doubt {
		differ("held, doubt", [2]bool{rec.Held, rec.Doubt}, [2]bool{m.held, m.doubt})
	}
	if rec.Owner != m.owner {
		differ("the owner", "another", "not that one")
	}
	if rec.Token != m.token || rec.Attempt != m.attempt {
		differ("token, attempt", fmt.Sprint(rec.Token, rec.Attempt), fmt.Sprint(m.token, m.attempt))
	}
	if rec.Fingerprint != m.fingerprint {
		differ("the fingerprint", rec.Fingerprint, m.fingerprint)
	}
	if !mismatch && (!rec.Outcome.Equal(&m.outcome) || rec.Revision != m.revision && m.phase == completed) {
		differ("the outcome", fmt.Sprintf("%+v, revision %d", rec.Outcome, rec.Revision), fmt.Sprintf("%+v, revision %d", m.outcome, m.revision))
	}
	if rec.Audit.By != m.by || rec.Audit.Why != m.why {
		differ("the audit", rec.Audit, m.by+", "+m.why)
	}
	if !slices.Equal(rec.Refs, m.refs) {
		differ("the references", rec.Refs, m.refs)
	}
	w.compareTimes(k, rec, now, differ)
}

func (w *world) compareTimes(k *key, rec *driver.Record, now time.Time, differ func(string, any, any)) {
	m := &k.model
	if len(rec.Providers) != len(m.providers) {
		differ("the providers", rec.Providers, m.providers)
		return
	}
	for i, p := range rec.Providers {
		want := driver.Provider{Name: m.providers[i].name, Window: m.providers[i].window, Elapsed: now.Sub(m.providers[i].since)}
		if p != want {
			differ("a provider", p, want)
		}
	}
	var lease, retention time.Duration
	if m.unexpired(now) {
		lease = m.leaseUntil.Sub(now)
	}
	if !m.expiresAt.IsZero() {
		retention = m.expiresAt.Sub(now)
	}
	if rec.LeaseLeft != lease {
		differ("what is left of the lease", rec.LeaseLeft, lease)
	}
	if rec.RetentionLeft != retention {
		differ("what is left of the retention", rec.RetentionLeft, retention)
	}
	if rec.ClaimAge != now.Sub(m.claimedAt) {
		differ("the age of the claim", rec.ClaimAge, now.Sub(m.claimedAt))
	}
	if !rec.RecordedAt.Equal(m.recordedAt) && m.phase == completed {
		differ("the recording's time", rec.RecordedAt, m.recordedAt)
	}
}
