package storetest

import (
	"github.com/idem-go/idem/driver"
)

// ownerRules: a repeated call of one's own is oneself (I6).
func ownerRules() []rule {
	return []rule{
		{name: "owner/repeated_claim_is_acquired_once", text: cite(claim5, i6, i6Lease), check: repeatedClaim},
		{name: "owner/repeated_takeover_is_taken_over_once", text: cite(claim5, i6), check: repeatedTakeover},
		{name: "owner/repeated_claim_after_lease_end_is_still_its_own", text: cite(claim5, i6, i3), check: repeatedAfterLeaseEnd},
		{name: "owner/repeated_takeover_without_doubt_is_acquired", text: claim5, check: repeatedWithoutDoubt},
		{name: "owner/repeated_resolve_does_not_conflict_with_itself", text: cite(claim5, claim6, i6), check: repeatedResolve},
		{name: "owner/late_copy_after_release_is_refused", text: cite(claim5, i6Late), check: lateCopyAfterRelease},
		{name: "owner/late_copy_after_completion_gets_the_outcome", text: cite(claim4, i6Late), check: lateCopyAfterCompletion},
		{name: "owner/last_owner_is_remembered", text: i6Late, check: lastOwnerIsRemembered},
		{name: "owner/claim_of_unknown_fate_is_given_up_with_token_zero", text: cite(i8Release, i3Zero), check: giveUpByOwner},
	}
}

func repeatedClaim(t *trial) {
	s := t.subject()
	p := s.params(prints(printOf("k1", "x")), calling("acme", long))
	first, err := s.b.Claim(s.ctx(), p)
	t.must(err, "Claim")
	t.lapse()
	before := s.picture()
	for range 3 {
		res, err := s.b.Claim(s.ctx(), p)
		if err != nil || res.Fact != driver.Acquired || res.Record.Token != first.Record.Token {
			t.Errorf("repeated claim: %s, want acquired with token %d", found(res, err), first.Record.Token)
		}
	}
	s.unchanged(before, "a repeated claim")
}

func repeatedTakeover(t *trial) {
	s := t.subject()
	s.acquire(lease(t.short()))
	t.lapse()
	p := s.params()
	first := s.claimed(driver.TakenOver, owned(p.Owner))
	before := s.picture()
	again := s.claimed(driver.TakenOver, owned(p.Owner))
	if again.Record.Token != first.Record.Token || again.Record.Attempt != 2 {
		t.Errorf("repeated takeover: token %d attempt %d, want %d and 2", again.Record.Token, again.Record.Attempt, first.Record.Token)
	}
	s.unchanged(before, "a repeated takeover")
}

func repeatedWithoutDoubt(t *trial) {
	s := t.subject()
	s.acquire(lease(t.short()))
	t.lapse()
	ref := s.acquire()
	s.must(s.annotate(ref, driver.AnnotateParams{NotExecuted: true}), "Annotate")
	before := s.picture()
	s.claimed(driver.Acquired, owned(ref.Owner))
	s.unchanged(before, "a repeated claim")
}

func repeatedAfterLeaseEnd(t *trial) {
	s := t.subject()
	ref := s.acquire(lease(t.short()))
	t.lapse()
	before := s.picture()
	res := s.claimed(driver.Acquired, owned(ref.Owner), take(0))
	if res.Record.Token != ref.Token || res.Record.LeaseLeft != 0 {
		t.Errorf("token %d with %v left, want token %d without a lease", res.Record.Token, res.Record.LeaseLeft, ref.Token)
	}
	s.unchanged(before, "a repeated claim")
	s.must(s.complete(ref, success("late")), "Complete")
}

// repeatedResolve: a Claim that expects a token and repeats itself finds its own,
// higher token there.
func repeatedResolve(t *trial) {
	s := t.subject()
	old := s.acquire(lease(t.short()))
	t.lapse()
	p := s.params(expecting(old.Token), take(driver.TakeUnknown|driver.TakeHeld))
	for range 2 {
		if res, err := s.b.Claim(s.ctx(), p); err != nil || res.Fact != driver.TakenOver {
			t.Fatalf("Claim: %s, want taken over", found(res, err))
		}
	}
}

func lateCopyAfterRelease(t *trial) {
	b := t.open()
	for name, how := range map[string]driver.ReleaseParams{
		"clean": {}, "doubt": {Doubt: true}, "held": {Held: true}, "not executed": {NotExecuted: true},
	} {
		s := t.on(b, name)
		ref := s.acquire()
		s.must(s.release(ref, how), "Release")
		before := s.picture()
		s.refusedClaim(driver.ErrLeaseLost, owned(ref.Owner))
		s.refusedClaim(driver.ErrLeaseLost, owned(ref.Owner), take(0))
		s.unchanged(before, "a late copy of a claim")
	}
}

func lateCopyAfterCompletion(t *trial) {
	s := t.subject()
	ref := s.acquire()
	s.must(s.complete(ref, success("done")), "Complete")
	before := s.picture()
	if res := s.claimed(driver.Completed, owned(ref.Owner)); string(res.Record.Outcome.Value) != "done" {
		t.Errorf("the outcome is %s", describe(&res.Record.Outcome))
	}
	s.unchanged(before, "a late copy of a claim")
}

func lastOwnerIsRemembered(t *trial) {
	b := t.open()
	for _, sit := range situations() {
		if sit.state == 0 {
			continue
		}
		s := t.on(b, sit.name)
		ref := sit.make(s)
		if rec := s.look(); rec.Owner != ref.Owner || rec.Token != ref.Token {
			t.Errorf("%s: owner %x token %d on record, want %x and %d", sit.name, rec.Owner, rec.Token, ref.Owner, ref.Token)
		}
	}
}

// giveUpByOwner: the reply to a claim was lost, so that its token is not known.
func giveUpByOwner(t *trial) {
	s := t.subject()
	nobody := driver.Ref{Key: s.key, Owner: newOwner()}
	t.refused(s.release(nobody, driver.ReleaseParams{}), driver.ErrLeaseLost, "Release of a claim that never arrived")
	s.gone("after it")

	ref := s.acquire()
	before := s.picture()
	t.refused(s.release(nobody, driver.ReleaseParams{}), driver.ErrLeaseLost, "Release by somebody else, with Token 0")
	s.unchanged(before, "somebody else's release")

	ref.Token = 0
	s.must(s.release(ref, driver.ReleaseParams{}), "Release with Token 0")
	s.must(s.release(ref, driver.ReleaseParams{}), "Release with Token 0, again")
	s.claimed(driver.Acquired)
}
