package storetest

import (
	"github.com/idem-go/idem/driver"
)

// flagRules follow Doubt and Held through chains of claims.
func flagRules() []rule {
	return []rule{
		{name: "doubt/set_by_takeover_and_kept", text: textDoubtFlag, check: doubtIsKept},
		{name: "doubt/not_set_by_clean_releases", text: textDoubtFlag, check: cleanIsClean},
		{name: "doubt/not_executed_then_crash_is_doubt_again", text: textDoubtFlag, check: doubtAgain},
		{name: "held/again_after_release", text: cite(textHeldFlag, textReleaseZero), check: heldAfterRelease},
		{name: "held/again_after_lease_end", text: textHeldFlag, check: heldAfterLeaseEnd},
		{name: "held/only_take_held_moves_it", text: textHeldFlag, check: onlyTakeHeld},
		{name: "unknown/is_never_a_fresh_run", text: cite(claim8, claim9, textDoubtFlag), check: unknownIsNotFresh},
	}
}

func doubtIsKept(t *trial) {
	s := t.subject()
	s.acquire(lease(t.short()))
	t.lapse()
	ref := s.acquire()
	s.states("after a takeover", driver.Claimed, true, false)
	for range 2 {
		s.must(s.release(ref, driver.ReleaseParams{}), "Release")
		s.states("after a clean release", driver.Released, true, false)
		s.claimed(driver.Held, take(takeAll&^driver.TakeDoubtful))
		ref = s.acquire(take(driver.TakeDoubtful))
		s.states("after the next claim", driver.Claimed, true, false)
	}
	s.must(s.complete(ref, success("done")), "Complete")
	s.states("after completion", driver.Succeeded, true, false)
}

func cleanIsClean(t *trial) {
	s := t.subject()
	for range 3 {
		ref := s.acquire()
		s.states("a claim after clean releases", driver.Claimed, false, false)
		s.must(s.release(ref, driver.ReleaseParams{}), "Release")
		s.states("a clean release", driver.Released, false, false)
	}
}

func doubtAgain(t *trial) {
	s := t.subject()
	ref := retaken(s, driver.ReleaseParams{Doubt: true}, lease(t.short()))
	s.must(s.annotate(ref, driver.AnnotateParams{NotExecuted: true}), "Annotate")
	s.must(s.renew(ref, t.short()), "Renew")
	t.lapse()
	if res := s.claimed(driver.TakenOver); !res.Record.Doubt {
		t.Errorf("the attempt after \"not executed\" died, but the takeover is not in doubt")
	}
}

func heldAfterRelease(t *trial) {
	b := t.open()
	for name, how := range map[string]driver.ReleaseParams{"clean": {}, "doubt": {Doubt: true}} {
		s := t.on(b, name)
		ref := retaken(s, driver.ReleaseParams{Held: true})
		s.states("taken with TakeHeld", driver.Claimed, true, true)
		s.must(s.release(ref, how), "Release")
		s.states("a claim of a held record, released ("+name+")", driver.Unknown, true, true)
		s.claimed(driver.Held, take(takeAll&^driver.TakeHeld))
	}
}

func heldAfterLeaseEnd(t *trial) {
	s := t.subject()
	retaken(s, driver.ReleaseParams{Held: true}, lease(t.short()))
	t.lapse()
	s.states("a claim of a held record whose lease ended", driver.Unknown, true, true)
	s.claimed(driver.Held, take(takeAll&^driver.TakeHeld))
	retakenRef := s.acquire(take(driver.TakeHeld), lease(t.short()))
	t.lapse()
	s.states("and once more", driver.Unknown, true, true)
	s.must(s.complete(retakenRef, success("recovered")), "Complete")
}

func onlyTakeHeld(t *trial) {
	s := t.subject()
	ref := s.acquire()
	s.must(s.release(ref, driver.ReleaseParams{Held: true}), "Release")
	t.pass(2 * t.unit)
	before := s.picture()
	for x := range driver.TakeHeld {
		s.claimed(driver.Held, take(x))
	}
	s.unchanged(before, "a claim without TakeHeld")
	s.claimed(driver.TakenOver, take(driver.TakeHeld))
}

// unknownIsNotFresh: a crash must show, however the key is claimed next.
func unknownIsNotFresh(t *trial) {
	s := t.subject()
	s.acquire(lease(t.short()))
	t.lapse()
	before := s.picture()
	s.claimed(driver.Held, take(driver.TakeAbsent))
	s.claimed(driver.Held, take(driver.TakeAbsent|driver.TakeReleased|driver.TakeDoubtful))
	s.claimed(driver.Held, take(takeAll&^driver.TakeUnknown))
	s.unchanged(before, "a claim that may not take an unknown record")
	if res := s.claimed(driver.TakenOver, take(driver.TakeUnknown)); !res.Record.Doubt || res.Record.Attempt != 2 {
		t.Errorf("doubt %v, attempt %d; want true, 2", res.Record.Doubt, res.Record.Attempt)
	}
}
