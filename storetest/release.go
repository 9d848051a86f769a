package storetest

import (
	"github.com/idem-go/idem/driver"
)

func releaseRules() []rule {
	return []rule{
		{name: "release/frees_the_key", text: textReleaseZero, check: releaseFrees},
		{name: "release/is_idempotent", text: i6, check: releaseTwice},
		{name: "release/late_copy_does_not_touch_the_next_claim", text: cite(i6, i3), check: lateRelease},
		{name: "release/accepted_after_lease_end", text: i3, check: releaseAfterLeaseEnd},
		{name: "release/doubt_is_set", text: textReleaseDoubt, check: releaseDoubt},
		{name: "release/held_is_set", text: textReleaseHeld, check: releaseHeld},
		{name: "release/not_executed_clears_everything", text: textReleaseNotExecuted, check: releaseNotExecuted},
		{name: "release/clean_release_needs_its_permission", text: claim9, check: releasedNeedsPermission},
		{name: "release/audit_is_stored_with_the_backends_time", text: cite(textAuditStored, i7), check: releaseAudit},
	}
}

// states notes a failure unless the record has this state and these flags.
func (s *subject) states(when string, state driver.State, doubt, held bool) {
	rec := s.look()
	if rec.State != state || rec.Doubt != doubt || rec.Held != held {
		s.Errorf("%s: %v, doubt %v, held %v; want %v, %v, %v", when, rec.State, rec.Doubt, rec.Held, state, doubt, held)
	}
}

func releaseFrees(t *trial) {
	s := t.subject()
	ref := planted(s)
	before := s.look()
	s.must(s.release(ref, driver.ReleaseParams{}), "Release")
	after := s.look()
	before.State = driver.Released
	if d := different(before, after); len(d) > 0 {
		t.Errorf("a release changed %v", d)
	}
	if after.LeaseLeft != 0 {
		t.Errorf("%v of the lease is left after the release", after.LeaseLeft)
	}
	if res := s.claimed(driver.Acquired, take(driver.TakeReleased)); res.Record.Doubt || res.Record.Attempt != 2 {
		t.Errorf("doubt %v, attempt %d; want false, 2", res.Record.Doubt, res.Record.Attempt)
	}
}

func releaseTwice(t *trial) {
	b := t.open()
	for name, how := range map[string]driver.ReleaseParams{
		"clean": {}, "doubt": {Doubt: true}, "held": {Held: true}, "not executed": {NotExecuted: true},
	} {
		for _, zero := range []bool{false, true} {
			s := t.on(b, name+map[bool]string{true: "/0"}[zero])
			ref := planted(s)
			if zero {
				ref.Token = 0
			}
			s.must(s.release(ref, how), "Release")
			before := s.picture()
			if err := s.release(ref, how); err != nil {
				t.Errorf("Release (%s) again: error %q", name, err)
			}
			s.unchanged(before, "a repeated release ("+name+")")
		}
	}
}

func lateRelease(t *trial) {
	s := t.subject()
	old := s.acquire()
	s.must(s.release(old, driver.ReleaseParams{}), "Release")
	next := s.acquire()
	before := s.picture()
	for _, token := range []uint64{old.Token, 0} {
		late := driver.Ref{Key: s.key, Owner: old.Owner, Token: token}
		t.refused(s.release(late, driver.ReleaseParams{}), driver.ErrLeaseLost, "a late copy of a release")
		s.unchanged(before, "a late copy of a release")
	}
	s.must(s.complete(next, success("done")), "Complete")
}

func releaseAfterLeaseEnd(t *trial) {
	s := t.subject()
	ref := s.acquire(lease(t.short()))
	t.lapse()
	s.must(s.release(ref, driver.ReleaseParams{}), "Release after the lease's end")
	s.states("after it", driver.Released, false, false)
	s.claimed(driver.Acquired)
}

func releaseDoubt(t *trial) {
	s := t.subject()
	ref := s.acquire()
	s.must(s.release(ref, driver.ReleaseParams{Doubt: true}), "Release")
	s.states("after a release in doubt", driver.Released, true, false)
	s.claimed(driver.Held, take(takeAll&^driver.TakeDoubtful))
	if res := s.claimed(driver.TakenOver, take(driver.TakeDoubtful)); !res.Record.Doubt {
		t.Errorf("the claim that took it is not in doubt")
	}
}

func releaseHeld(t *trial) {
	b := t.open()
	for name, how := range map[string]driver.ReleaseParams{"held": {Held: true}, "held and doubt": {Held: true, Doubt: true}} {
		s := t.on(b, name)
		ref := s.acquire()
		s.must(s.release(ref, how), "Release")
		s.states("after a release, "+name, driver.Unknown, true, true)
		s.claimed(driver.Held, take(takeAll&^driver.TakeHeld))
		if res := s.claimed(driver.TakenOver, take(driver.TakeHeld)); !res.Record.Doubt || !res.Record.Held {
			t.Errorf("the claim that took it: doubt %v, held %v; want both", res.Record.Doubt, res.Record.Held)
		}
	}
}

func releaseNotExecuted(t *trial) {
	b := t.open()
	for name, how := range map[string]driver.ReleaseParams{"clean": {}, "doubt": {Doubt: true}, "held": {Held: true}} {
		s := t.on(b, name)
		ref := retaken(s, how)
		s.must(s.release(ref, driver.ReleaseParams{NotExecuted: true}), "Release")
		s.states("after \"not executed\" of "+name, driver.Released, false, false)
		rec := s.look()
		if len(rec.Providers) != 0 {
			t.Errorf("%s: providers %v are not forgotten", name, windows(rec))
		}
		if rec.Fingerprint.IsZero() || rec.Attempt != 2 {
			t.Errorf("%s: fingerprint %v, attempt %d: more was forgotten than the providers", name, rec.Fingerprint, rec.Attempt)
		}
		s.claimed(driver.Acquired, take(driver.TakeReleased))
	}
	s := t.on(b, "lease ended")
	ref := s.acquire(lease(t.short()))
	t.lapse()
	s.must(s.release(ref, driver.ReleaseParams{NotExecuted: true}), "Release")
	s.claimed(driver.Acquired, take(driver.TakeReleased))
}

func releasedNeedsPermission(t *trial) {
	s := t.subject()
	ref := s.acquire()
	s.must(s.release(ref, driver.ReleaseParams{}), "Release")
	before := s.picture()
	s.refusedClaim(driver.ErrConflict, take(takeAll&^driver.TakeReleased))
	s.unchanged(before, "a claim that may not take a released record")
}

func releaseAudit(t *trial) {
	b := t.open()
	for name, how := range map[string]driver.ReleaseParams{
		"clean": {}, "doubt": {Doubt: true}, "held": {Held: true}, "not executed": {NotExecuted: true},
	} {
		s := t.on(b, name)
		ref := s.acquire()
		how.Audit = audit(operator, name)
		s.must(s.release(ref, how), "Release")
		s.audited(name, "Release")
	}
}
