package sim

import (
	"slices"
	"time"

	"github.com/idem-go/idem/driver"
)

// phase is what the last applied call made of a record.
type phase uint8

const (
	absent phase = iota
	claimed
	released
	completed
)

// model is what the contract (package driver) says about one record, written
// down a second time and independently of every backend: the backend's answers,
// and its records after every step, are compared with it. Instants are of the
// bubble's clock, which is the store's.
type model struct {
	phase       phase
	held, doubt bool
	owner       driver.Owner
	token       uint64
	attempt     int
	fingerprint driver.Fingerprint
	providers   []modelProvider
	refs        []driver.ProviderRef
	outcome     driver.Outcome
	revision    uint64
	by, why     string

	claimedAt, leaseUntil, changedAt, recordedAt, expiresAt time.Time

	// highest token ever seen for the key: it outlives the record (I2).
	highest uint64
}

type modelProvider struct {
	name   string
	window time.Duration
	since  time.Time
}

func (m *model) unexpired(now time.Time) bool {
	return m.phase == claimed && now.Before(m.leaseUntil)
}

// unknown reports whether nobody holds the record and its outcome is not known.
func (m *model) unknown(now time.Time) bool {
	return m.phase == claimed && !now.Before(m.leaseUntil) || m.phase == released && m.held
}

func (m *model) state(now time.Time) driver.State {
	switch {
	case m.phase == absent:
		return 0
	case m.phase == completed && m.outcome.Failed:
		return driver.Failed
	case m.phase == completed:
		return driver.Succeeded
	case m.unknown(now):
		return driver.Unknown
	case m.phase == released:
		return driver.Released
	}
	return driver.Claimed
}

// expire makes a record absent whose retention has ended (I13), and reports
// whether it did.
func (m *model) expire(now time.Time) bool {
	if m.expiresAt.IsZero() || now.Before(m.expiresAt) {
		return false
	}
	*m = model{highest: m.highest}
	return true
}

// purge makes a record absent that has been unknown for longer than the caller of
// Purge allows, and reports whether it did.
func (m *model) purge(p *driver.PurgeParams, now time.Time) bool {
	since := m.changedAt
	if m.phase == claimed && m.leaseUntil.After(since) {
		since = m.leaseUntil
	}
	if p.UnknownAfter <= 0 || !m.unknown(now) || now.Sub(since) <= p.UnknownAfter {
		return false
	}
	*m = model{highest: m.highest}
	return true
}

// answer is what the contract says to a call.
type answer struct {
	fact   driver.Fact
	err    error // a sentinel of package driver
	change bool
	rule   rule // the property that a wrong answer breaks
}

// claim makes the tests of driver.Backend.Claim, in their order.
func (m *model) claim(p *driver.ClaimParams, now time.Time) answer {
	if m.phase == absent {
		if !p.Take.Has(driver.TakeAbsent) {
			return answer{err: driver.ErrNotFound, rule: A10}
		}
		m.acquire(p, now)
		return answer{fact: driver.Acquired, change: true, rule: A7}
	}
	equal, known := m.compare(p.Fingerprints)
	own := m.owner == p.Owner
	switch {
	case !known:
		return answer{err: driver.ErrCorrupt, rule: A10}
	case !equal:
		return answer{fact: driver.Mismatch, rule: A6}
	case m.phase == completed:
		return answer{fact: driver.Completed, rule: A5}
	case own && m.phase == claimed:
		return answer{fact: m.fact(), rule: A7}
	case own:
		return answer{err: driver.ErrLeaseLost, rule: A4}
	case p.ExpectToken != 0 && p.ExpectToken != m.token:
		return answer{err: driver.ErrConflict, rule: A4}
	case m.unexpired(now):
		return answer{fact: driver.InProgress, rule: A2}
	}
	clean := m.phase == released && !m.held && !m.doubt
	if p.Take.Has(m.needs()) && (clean || m.windowLast(p, now)) {
		m.acquire(p, now)
		return answer{fact: m.fact(), change: true, rule: A2}
	}
	if clean {
		return answer{err: driver.ErrConflict, rule: A2}
	}
	return answer{fact: driver.Held, rule: A1}
}

// notZero reports whether f is a fingerprint: a zero one is none.
func notZero(f driver.Fingerprint) bool { return f != driver.Fingerprint{} }

// compare compares the stored fingerprint with those of a request. known is
// false if the request used other keys.
func (m *model) compare(given []driver.Fingerprint) (equal, known bool) {
	sameKey := func(f driver.Fingerprint) bool { return notZero(f) && f.KeyID == m.fingerprint.KeyID }
	if !notZero(m.fingerprint) || !slices.ContainsFunc(given, notZero) {
		return true, true
	}
	return slices.Contains(given, m.fingerprint), slices.ContainsFunc(given, sameKey)
}

// needs is what a claim must be allowed to take.
func (m *model) needs() driver.Take {
	switch {
	case m.held:
		return driver.TakeHeld
	case m.phase == claimed:
		return driver.TakeUnknown
	case m.doubt:
		return driver.TakeDoubtful
	}
	return driver.TakeReleased
}

func (m *model) windowLast(p *driver.ClaimParams, now time.Time) bool {
	if p.MinWindow <= 0 {
		return true
	}
	for _, have := range m.providers {
		if have.window-now.Sub(have.since) < p.MinWindow {
			return false
		}
	}
	for _, add := range p.Providers {
		if m.provider(add.Name) == nil && add.Window < p.MinWindow {
			return false
		}
	}
	return true
}

func (m *model) provider(name string) *modelProvider {
	i := slices.IndexFunc(m.providers, func(p modelProvider) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return &m.providers[i]
}

func (m *model) fact() driver.Fact {
	if m.doubt {
		return driver.TakenOver
	}
	return driver.Acquired
}

func (m *model) acquire(p *driver.ClaimParams, now time.Time) {
	if m.phase == claimed {
		m.doubt = true
	}
	clean := m.phase == released && !m.held && !m.doubt
	m.phase = claimed
	m.owner, m.attempt = p.Owner, m.attempt+1
	m.claimedAt, m.leaseUntil, m.changedAt, m.expiresAt = now, now.Add(p.Lease), now, time.Time{}
	if m.fingerprint == (driver.Fingerprint{}) {
		if i := slices.IndexFunc(p.Fingerprints, notZero); i >= 0 {
			m.fingerprint = p.Fingerprints[i]
		}
	}
	if clean {
		for i := range m.providers {
			m.providers[i].since = now
		}
	}
	for _, add := range p.Providers {
		if m.provider(add.Name) == nil {
			m.providers = append(m.providers, modelProvider{add.Name, add.Window, now})
		}
	}
}

// current reports whether ref names the last claim. Token 0 is whatever token
// the owner holds.
func (m *model) current(ref driver.Ref, zeroToken bool) bool {
	return m.phase != absent && m.owner == ref.Owner && (m.token == ref.Token || zeroToken && ref.Token == 0)
}

func (m *model) renew(ref driver.Ref, p *driver.RenewParams, now time.Time) answer {
	if !m.current(ref, false) || m.phase != claimed {
		return answer{err: driver.ErrLeaseLost, rule: A4}
	}
	m.leaseUntil, m.changedAt = now.Add(p.Lease), now
	return answer{change: true, rule: A4}
}

func (m *model) annotate(ref driver.Ref, p *driver.AnnotateParams, now time.Time) answer {
	if !m.current(ref, false) || m.phase != claimed {
		return answer{err: driver.ErrLeaseLost, rule: A4}
	}
	had := len(m.refs)
	for _, r := range p.Refs {
		if !slices.Contains(m.refs, r) {
			m.refs = append(m.refs, r)
		}
	}
	clears := p.NotExecuted && (m.doubt || m.held)
	if clears {
		m.doubt, m.held = false, false
		for i := range m.providers {
			m.providers[i].since = now
		}
	}
	if clears || len(m.refs) > had { // what is there already changes nothing, and keeps nothing longer
		m.changedAt = now
	}
	return answer{change: true, rule: A4}
}

func (m *model) complete(ref driver.Ref, p *driver.CompleteParams, now time.Time) answer {
	switch {
	case !m.current(ref, true) || m.phase == released:
		return answer{err: driver.ErrLeaseLost, rule: A4}
	case m.phase == completed && m.outcome.Equal(&p.Outcome):
		return answer{rule: A7}
	case m.phase == completed:
		return answer{err: driver.ErrLeaseLost, rule: A5}
	}
	m.phase, m.held = completed, false
	m.outcome, m.revision = p.Outcome, 1
	m.changedAt, m.recordedAt, m.expiresAt = now, now, now.Add(p.Retention)
	m.leaseUntil = time.Time{}
	m.audit(p.Audit)
	return answer{change: true, rule: A4}
}

func (m *model) release(ref driver.Ref, p *driver.ReleaseParams, now time.Time) answer {
	switch {
	case !m.current(ref, true) || m.phase == completed:
		return answer{err: driver.ErrLeaseLost, rule: A4}
	case m.phase == released && (m.held || !p.Held) && (m.doubt || !p.Doubt):
		return answer{rule: A7}
	}
	switch {
	case p.NotExecuted:
		m.doubt, m.held, m.providers = false, false, nil
	case p.Held:
		m.doubt, m.held = true, true
	case p.Doubt:
		m.doubt = true
	}
	m.phase, m.changedAt, m.leaseUntil, m.expiresAt = released, now, time.Time{}, time.Time{}
	if !m.held {
		m.expiresAt = now.Add(p.Retention)
	}
	m.audit(p.Audit)
	return answer{change: true, rule: A4}
}

func (m *model) audit(a *driver.Audit) {
	if a != nil {
		m.by, m.why = a.By, a.Why
	}
}

func (m *model) redact(p *driver.EditParams, now time.Time) answer {
	switch {
	case m.phase == absent:
		return answer{err: driver.ErrNotFound, rule: A10}
	case m.token != p.Token || m.phase != completed:
		return answer{err: driver.ErrConflict, rule: A5}
	case m.outcome.Body == driver.BodyRedacted:
		return answer{rule: A5}
	}
	m.outcome.Value, m.outcome.Message, m.refs = nil, "", nil
	m.outcome.Body = driver.BodyRedacted
	m.revision++
	m.changedAt = now
	m.audit(&p.Audit)
	return answer{change: true, rule: A5}
}

func (m *model) reset(p *driver.EditParams, now time.Time) answer {
	switch {
	case m.phase == absent:
		return answer{err: driver.ErrNotFound, rule: A10}
	case m.token != p.Token || m.unexpired(now):
		return answer{err: driver.ErrConflict, rule: A4}
	}
	m.phase, m.doubt, m.held = released, false, false
	m.owner = driver.Owner{}
	m.outcome, m.revision = driver.Outcome{}, 0
	m.changedAt, m.leaseUntil, m.recordedAt, m.expiresAt = now, time.Time{}, time.Time{}, now.Add(p.Retention)
	m.audit(&p.Audit)
	return answer{change: true, rule: A3}
}
