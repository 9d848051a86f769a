package storetest

import (
	"time"

	"github.com/idem-go/idem/driver"
)

func retentionRules() []rule {
	return []rule{
		{name: "retention/counts_from_completion", text: i13, check: retentionFromCompletion},
		{name: "retention/reading_does_not_extend_it", text: i13, check: readingDoesNotExtend},
		{name: "retention/ended_record_behaves_as_absent", text: cite(i13, claim2), check: endedIsAbsent},
		{name: "retention/of_the_completion_counts_not_of_the_claim", text: i13, check: completionsRetention},
		{name: "retention/fractions_and_years_are_kept", text: i13, check: oddRetentions},
		{name: "retention/released_record_is_kept_as_long", text: i13Kept, check: releasedIsKept},
		{name: "retention/claim_outlives_its_retention", text: cite(i1, i13Kept), check: claimOutlivesRetention},
		{name: "retention/unknown_record_does_not_end", text: cite(i13Unknown, i13Days), check: unknownDoesNotEnd},
		{name: "retention/held_record_does_not_end", text: i13Unknown, check: heldDoesNotEnd},
	}
}

func (s *subject) completeFor(ref driver.Ref, o driver.Outcome, d time.Duration) {
	s.must(s.b.Complete(s.ctx(), ref, &driver.CompleteParams{Outcome: o, Retention: d}), "Complete")
}

// retentionFromCompletion is case C65: an operation of 30 seconds, a retention of
// 60, looked at 59, 61, 89 and 91 seconds after the claim. A second is a tenth of
// a unit.
func retentionFromCompletion(t *trial) {
	s := t.subject()
	second := t.unit / 10
	ref := s.acquire(keeping(60 * second))
	t.pass(30 * second)
	completing := time.Now()
	s.completeFor(ref, success("done"), 60*second)
	completed := time.Now()
	now := 30
	for _, at := range []int{59, 61, 89} {
		t.pass(time.Duration(at-now) * second)
		now = at
		res, err := s.b.Claim(s.ctx(), s.params())
		t.within(completing, 60*second)
		if err != nil || res.Fact != driver.Completed || string(res.Record.Outcome.Value) != "done" {
			t.Fatalf("at %d s: Claim: %s, want the outcome", at, found(res, err))
		}
	}
	t.pass(max(2*second, 61*second-time.Since(completed)))
	s.gone("at 91 s")
	if rec := s.claimed(driver.Acquired, take(driver.TakeAbsent)).Record; rec.Attempt != 1 || rec.Token <= ref.Token {
		t.Errorf("at 91 s: attempt %d, token %d after %d; want a new record", rec.Attempt, rec.Token, ref.Token)
	}
}

func readingDoesNotExtend(t *trial) {
	s := t.subject()
	ref := s.acquire()
	completing := time.Now()
	s.completeFor(ref, success("done"), 4*t.unit)
	completed := time.Now()
	for range 6 {
		before := s.picture()
		_, _ = s.b.Claim(s.ctx(), s.params())
		_, _ = s.b.Claim(s.ctx(), s.params(owned(ref.Owner)))
		_ = s.complete(ref, success("done"))
		t.within(completing, 4*t.unit) // else one of them may have begun a new record
		if after := s.picture(); before.rec != nil && after.rec != nil && after.rec.RetentionLeft > before.rec.RetentionLeft+grain {
			t.Errorf("retention left grew from %v to %v", before.rec.RetentionLeft, after.rec.RetentionLeft)
		}
		t.pass(t.unit / 2)
	}
	t.pass(max(2*t.unit, 5*t.unit-time.Since(completed)))
	s.gone("5 units after completion, with a retention of 4, read all the time")
}

func endedIsAbsent(t *trial) {
	b := t.open()
	for name, o := range map[string]driver.Outcome{"succeeded": success("done"), "failed": failure("no")} {
		s := t.on(b, name)
		ref := planted(s)
		s.completeFor(ref, o, t.short())
		t.lapse()
		s.gone("after the retention of a record that " + name)
		s.refusedClaim(driver.ErrNotFound, take(takeAll&^driver.TakeAbsent))
		s.gone("after a refused claim")
		rec := s.claimed(driver.Acquired, take(driver.TakeAbsent), prints(printOf("k9", "another request"))).Record
		if rec.Doubt || rec.Held || rec.Attempt != 1 || len(rec.Refs)+len(rec.Providers) != 0 {
			t.Errorf("the new record of what %s has something of the old one: %+v", name, rec)
		}
	}
}

func completionsRetention(t *trial) {
	b := t.open()
	longer, shorter := t.on(b, "longer"), t.on(b, "shorter")
	r1, r2 := longer.acquire(keeping(t.short())), shorter.acquire(keeping(kept))
	longer.completeFor(r1, success("done"), kept)
	shorter.completeFor(r2, success("done"), t.short())
	t.pass(2 * t.unit)
	longer.stands(success("done"))
	shorter.gone("after the completion's shorter retention")
}

func oddRetentions(t *trial) {
	b := t.open()
	for _, d := range []time.Duration{1500 * time.Millisecond, 10 * 365 * 24 * time.Hour} {
		s := t.on(b, d.String())
		ref := s.acquire()
		asked := time.Now()
		s.completeFor(ref, success("done"), d)
		rec, err := s.b.Inspect(s.ctx(), s.key)
		t.within(asked, d)
		t.must(err, "Inspect")
		if least := d - time.Since(asked) - grain; rec.RetentionLeft > d+grain || rec.RetentionLeft < least {
			t.Errorf("%v of a retention of %v is left", rec.RetentionLeft, d)
		}
	}
}

// releasedIsKept: "at least as long"; what comes later is the backend's choice.
func releasedIsKept(t *trial) {
	b := t.open()
	begun := time.Now()
	clean, doubt := t.on(b, "clean"), t.on(b, "doubt")
	r1 := clean.acquire(keeping(t.short()))
	r2 := doubt.acquire(keeping(t.short()))
	t.must(clean.release(r1, driver.ReleaseParams{Retention: 4 * t.unit}), "Release")
	t.must(doubt.release(r2, driver.ReleaseParams{Doubt: true, Retention: 4 * t.unit}), "Release")
	t.pass(3 * t.unit)
	_, err1 := clean.b.Inspect(t.ctx(), clean.key)
	_, err2 := doubt.b.Inspect(t.ctx(), doubt.key)
	t.within(begun, 4*t.unit)
	if err1 != nil || err2 != nil {
		t.Errorf("3 units after a release with a retention of 4: Inspect: %v, and in doubt: %v", err1, err2)
	}
}

func claimOutlivesRetention(t *trial) {
	b := t.open()
	live, renewed := t.on(b, "live"), t.on(b, "renewed")
	live.acquire(keeping(t.short()))
	ref := renewed.acquire(lease(t.short()), keeping(t.short()))
	t.must(renewed.b.Renew(t.ctx(), ref, &driver.RenewParams{Lease: long, Retention: t.short()}), "Renew")
	t.pass(2 * t.unit)
	live.claimed(driver.InProgress)
	renewed.claimed(driver.InProgress)
	t.must(renewed.complete(ref, success("done")), "Complete")
}

func unknownDoesNotEnd(t *trial) {
	s := t.subject()
	ref := s.acquire(lease(t.short()), keeping(t.short()))
	t.pass(10 * t.unit)
	s.states("long after lease and retention", driver.Unknown, false, false)
	if left := s.look().RetentionLeft; left != 0 && left < 89*24*time.Hour {
		t.Errorf("an unknown record ends in %v, want never, or in 90 days at the earliest", left)
	}
	s.claimed(driver.Held, take(driver.TakeAbsent))
	s.must(s.complete(ref, success("late")), "Complete")
}

func heldDoesNotEnd(t *trial) {
	s := t.subject()
	ref := s.acquire(keeping(t.short()))
	s.must(s.release(ref, driver.ReleaseParams{Held: true, Retention: t.short()}), "Release")
	t.pass(10 * t.unit)
	s.states("long after the retention", driver.Unknown, true, true)
	s.claimed(driver.Held, take(driver.TakeAbsent))
}
