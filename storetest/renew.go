package storetest

import (
	"strings"
	"time"

	"github.com/idem-go/idem/driver"
)

func renewRules() []rule {
	return []rule{
		{name: "renew/lease_ends_its_length_from_now", text: textRenew, check: renewFromNow},
		{name: "renew/excludes_others_beyond_the_first_lease", text: cite(textRenew, i1), check: renewExcludes},
		{name: "renew/shorter_lease_is_shorter", text: textRenew, check: renewShorter},
		{name: "renew/revives_a_lease_that_has_ended", text: cite(textRenew, i3), check: renewRevives},
		{name: "renew/changes_nothing_else", text: textRenew, check: renewChangesNothingElse},
		{name: "renew/keeps_the_held_flag", text: textHeldFlag, check: renewKeepsHeld},
	}
}

// leaseLeft notes a failure unless about d of the lease is left, counted from an
// instant after asked.
func (s *subject) leaseLeft(d time.Duration, asked time.Time, when string) {
	rec := s.look()
	if least := d - time.Since(asked) - grain; rec.LeaseLeft > d+grain || rec.LeaseLeft < least {
		s.Errorf("%s: %v of the lease is left, want %v at most and %v at least", when, rec.LeaseLeft, d, least)
	}
}

func renewFromNow(t *trial) {
	s := t.subject()
	ref := s.acquire()
	t.pass(t.unit)
	asked := time.Now()
	s.must(s.renew(ref, 2*long), "Renew")
	s.leaseLeft(2*long, asked, "after a renewal for 2 h")
	t.lapse()
	s.must(s.renew(ref, 2*long), "Renew")
	s.leaseLeft(2*long, asked, "after another one")
}

func renewExcludes(t *trial) {
	s := t.subject()
	ref := s.acquire(lease(4 * t.unit))
	t.pass(3 * t.unit)
	asked := time.Now()
	s.must(s.renew(ref, 4*t.unit), "Renew")
	t.pass(2 * t.unit)
	res, err := s.b.Claim(s.ctx(), s.params())
	t.within(asked, 4*t.unit)
	if err != nil || res.Fact != driver.InProgress {
		t.Errorf("2 units after a renewal for 4: Claim: %s, want in progress", found(res, err))
	}
	t.pass(3 * t.unit)
	s.claimed(driver.TakenOver)
	t.refused(s.renew(ref, long), driver.ErrLeaseLost, "Renew after the takeover")
}

func renewShorter(t *trial) {
	s := t.subject()
	ref := s.acquire()
	asked := time.Now()
	s.must(s.renew(ref, long/2), "Renew")
	s.leaseLeft(long/2, asked, "after a renewal for half as long")
	s.must(s.renew(ref, t.short()), "Renew")
	t.lapse()
	s.claimed(driver.TakenOver)
}

func renewRevives(t *trial) {
	s := t.subject()
	ref := s.acquire(lease(t.short()))
	t.lapse()
	asked := time.Now()
	s.must(s.renew(ref, long), "Renew after the lease's end")
	s.leaseLeft(long, asked, "after a renewal of an ended lease")
	if rec := s.look(); rec.State != driver.Claimed || rec.Doubt || rec.Attempt != 1 {
		t.Errorf("the record is %v, doubt %v, attempt %d; want claimed, false, 1", rec.State, rec.Doubt, rec.Attempt)
	}
	s.claimed(driver.InProgress)
	s.must(s.complete(ref, success("done")), "Complete")
}

func renewChangesNothingElse(t *trial) {
	s := t.subject()
	ref := planted(s)
	t.lapse()
	before := s.look()
	s.must(s.renew(ref, 2*long), "Renew")
	after := s.look()
	if d := different(before, after); len(d) > 0 {
		t.Errorf("a renewal changed %s", strings.Join(d, "; "))
	}
	if p, q := before.Providers[0], after.Providers[0]; q.Elapsed < p.Elapsed-grain {
		t.Errorf("a renewal began a provider's window anew: elapsed %v, then %v", p.Elapsed, q.Elapsed)
	}
	if after.ClaimAge < before.ClaimAge-grain {
		t.Errorf("a renewal made the claim younger: %v, then %v", before.ClaimAge, after.ClaimAge)
	}
}

func renewKeepsHeld(t *trial) {
	s := t.subject()
	ref := retaken(s, driver.ReleaseParams{Held: true})
	s.must(s.renew(ref, t.short()), "Renew")
	t.lapse()
	s.claimed(driver.Held, take(takeAll&^driver.TakeHeld))
	s.must(s.renew(ref, long), "Renew")
	if rec := s.look(); !rec.Held || !rec.Doubt {
		t.Errorf("held %v, doubt %v after a renewal; want both", rec.Held, rec.Doubt)
	}
}
