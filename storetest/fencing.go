package storetest

import (
	"strings"

	"github.com/idem-go/idem/driver"
)

// fencingRules: a stale or foreign (owner, token) has no effect, and the current
// one has, until somebody takes over (I3).
func fencingRules() []rule {
	out := []rule{
		{name: "fencing/key_without_a_record", text: i3, check: fencedWithoutRecord},
		{name: "fencing/retention_ended", text: cite(i3, i13), check: fencedAfterRetention},
		{name: "fencing/wrong_owner_or_token", text: i3, check: fencedWrongRef},
		{name: "fencing/token_zero_is_for_release_and_complete", text: cite(i3, i3Zero), check: tokenZero},
		{name: "fencing/owner_acts_after_lease_end_until_takeover", text: i3, check: ownerActsAfterLeaseEnd},
		{name: "fencing/after_own_release", text: cite(i3, i6), check: fencedAfterRelease},
		{name: "fencing/after_own_completion", text: cite(i3, i4), check: fencedAfterCompletion},
		{name: "fencing/after_reset", text: cite(i3, textReset), needs: needEditor, check: fencedAfterReset},
		{name: "fencing/on_the_other_handle", text: cite(i3, i11), needs: needPair, check: fencedOnOtherHandle},
	}
	for _, next := range successors() {
		out = append(out, rule{
			name: "fencing/after_takeover/" + next.name, text: i3,
			check: func(t *trial) {
				s := t.subject()
				old := s.acquire(lease(t.short()))
				t.lapse()
				next.make(s)
				t.lapse()
				s.fenced(old, "the owner that was taken over")
			},
		})
	}
	return out
}

// successors are what may have become of the key after a takeover.
func successors() []situation {
	released := func(p driver.ReleaseParams) func(s *subject) driver.Ref {
		return func(s *subject) driver.Ref { return releasedAs(s, p) }
	}
	completed := func(o driver.Outcome) func(s *subject) driver.Ref {
		return func(s *subject) driver.Ref { return completedAs(s, o) }
	}
	return []situation{
		{name: "successor_runs", make: func(s *subject) driver.Ref { return planted(s) }},
		{name: "successor_lost_its_lease", make: func(s *subject) driver.Ref { return planted(s, lease(s.short())) }},
		{name: "successor_succeeded", make: completed(success("B"))},
		{name: "successor_failed", make: completed(failure("B"))},
		{name: "successor_released", make: released(driver.ReleaseParams{})},
		{name: "successor_released_in_doubt", make: released(driver.ReleaseParams{Doubt: true})},
		{name: "successor_released_held", make: released(driver.ReleaseParams{Held: true})},
		{name: "successor_found_it_not_executed", make: released(driver.ReleaseParams{NotExecuted: true})},
	}
}

// attack is a call that a claim makes on its record.
type attack struct {
	name string
	call func(s *subject, ref driver.Ref) error
}

// attacks are all of them. The outcomes are not those of any other rule.
func attacks() []attack {
	return []attack{
		{"Renew", func(s *subject, ref driver.Ref) error { return s.renew(ref, 2*long) }},
		{"Annotate", func(s *subject, ref driver.Ref) error {
			return s.annotate(ref, driver.AnnotateParams{Refs: []driver.ProviderRef{{Provider: "acme", Ref: "stale"}}})
		}},
		{"Annotate not executed", func(s *subject, ref driver.Ref) error {
			return s.annotate(ref, driver.AnnotateParams{NotExecuted: true, Audit: &driver.Audit{By: "stale"}})
		}},
		{"Complete", func(s *subject, ref driver.Ref) error { return s.complete(ref, success("stale")) }},
		{"Complete failed", func(s *subject, ref driver.Ref) error { return s.complete(ref, failure("stale")) }},
		{"Release", release(driver.ReleaseParams{})},
		{"Release in doubt", release(driver.ReleaseParams{Doubt: true})},
		{"Release held", release(driver.ReleaseParams{Held: true})},
		{"Release not executed", release(driver.ReleaseParams{NotExecuted: true})},
	}
}

func release(p driver.ReleaseParams) func(*subject, driver.Ref) error {
	return func(s *subject, ref driver.Ref) error { return s.release(ref, p) }
}

// isRelease and takesZero tell the attacks apart.
func (a attack) isRelease() bool { return strings.HasPrefix(a.name, "Release") }
func (a attack) takesZero() bool { return a.isRelease() || strings.HasPrefix(a.name, "Complete") }

// fenced tries every attack with ref, and with its owner and Token 0.
func (s *subject) fenced(ref driver.Ref, who string) {
	s.fencedBut(ref, who, func(attack) bool { return false })
}

func (s *subject) fencedBut(ref driver.Ref, who string, spare func(attack) bool) {
	before := s.picture()
	for _, a := range attacks() {
		if spare(a) {
			continue
		}
		s.refused(a.call(s, ref), driver.ErrLeaseLost, a.name+" by "+who)
		s.unchanged(before, a.name+" by "+who)
		zero := driver.Ref{Key: ref.Key, Owner: ref.Owner}
		s.refused(a.call(s, zero), driver.ErrLeaseLost, a.name+" with Token 0 by "+who)
		s.unchanged(before, a.name+" with Token 0 by "+who)
	}
}

func fencedWithoutRecord(t *trial) {
	s := t.subject()
	s.fenced(driver.Ref{Key: s.key, Owner: newOwner(), Token: 1}, "an owner of nothing")
	s.gone("after it")
}

func fencedAfterRetention(t *trial) {
	s := t.subject()
	ref := s.acquire()
	t.must(s.b.Complete(s.ctx(), ref, &driver.CompleteParams{Outcome: success("old"), Retention: t.short()}), "Complete")
	t.lapse()
	s.fenced(ref, "the owner of a record whose retention has ended")
	s.gone("after it")
	again := s.acquire()
	s.fenced(ref, "the owner of the record before")
	s.must(s.complete(again, success("new")), "Complete")
}

func fencedWrongRef(t *trial) {
	s := t.subject()
	first := s.acquire()
	s.must(s.release(first, driver.ReleaseParams{}), "Release")
	ref := s.acquire()
	s.fenced(driver.Ref{Key: s.key, Owner: newOwner(), Token: ref.Token}, "a foreign owner with the right token")
	s.fenced(driver.Ref{Key: s.key, Owner: first.Owner, Token: ref.Token}, "the owner before, with the right token")
	s.fenced(driver.Ref{Key: s.key, Owner: driver.Owner{}, Token: ref.Token}, "no owner, with the right token")
	before := s.picture()
	for _, token := range []uint64{first.Token, ref.Token + 1, 1} {
		for _, a := range attacks() {
			bad := driver.Ref{Key: s.key, Owner: ref.Owner, Token: token}
			s.refused(a.call(s, bad), driver.ErrLeaseLost, a.name+" with another token")
			s.unchanged(before, a.name+" with another token")
		}
	}
}

func tokenZero(t *trial) {
	b := t.open()
	for _, a := range attacks() {
		s := t.on(b, a.name)
		ref := s.acquire()
		ref.Token = 0
		if a.takesZero() {
			s.must(a.call(s, ref), a.name+" with Token 0 by the owner")
			continue
		}
		before := s.picture()
		s.refused(a.call(s, ref), driver.ErrLeaseLost, a.name+" with Token 0")
		s.unchanged(before, a.name+" with Token 0")
	}
}

func ownerActsAfterLeaseEnd(t *trial) {
	b := t.open()
	all, zero := attacks(), []bool{false, true}
	refs := map[string]driver.Ref{}
	for _, a := range all {
		for _, z := range zero {
			s := t.on(b, a.name+map[bool]string{true: "/0"}[z])
			ref := s.acquire(lease(t.short()))
			if z {
				ref.Token = 0
			}
			refs[s.key] = ref
		}
	}
	t.lapse()
	for _, a := range all {
		for _, z := range zero {
			if z && !a.takesZero() {
				continue
			}
			s := t.on(b, a.name+map[bool]string{true: "/0"}[z])
			if err := a.call(s, refs[s.key]); err != nil {
				t.Errorf("%s after the lease's end, before a takeover: error %q", a.name, err)
			}
		}
	}
}

func fencedAfterRelease(t *trial) {
	b := t.open()
	for name, how := range map[string]driver.ReleaseParams{
		"clean": {}, "doubt": {Doubt: true}, "held": {Held: true}, "not executed": {NotExecuted: true},
	} {
		s := t.on(b, name)
		ref := s.acquire()
		s.must(s.release(ref, how), "Release")
		s.fencedBut(ref, "the owner that released it ("+name+")", attack.isRelease)
	}
}

func fencedAfterCompletion(t *trial) {
	b := t.open()
	for _, o := range []driver.Outcome{success("done"), failure("no")} {
		s := t.on(b, describe(&o))
		ref := s.acquire()
		s.must(s.complete(ref, o), "Complete")
		s.fenced(ref, "the owner that completed it")
	}
}

func fencedAfterReset(t *trial) {
	b := t.open()
	ed := t.editor(b)
	for _, sit := range situations() {
		s := t.on(b, sit.name)
		if sit.state == 0 || sit.state == driver.Claimed {
			continue
		}
		ref := sit.make(s)
		t.lapse()
		t.must(ed.Reset(t.ctx(), s.key, edit(ref.Token)), "Reset")
		s.fenced(ref, "the owner before the reset")
		next := s.acquire()
		s.fenced(ref, "the owner before the reset, after the next claim")
		s.must(s.complete(next, success("again")), "Complete")
	}
}

func fencedOnOtherHandle(t *trial) {
	a, b := t.pair()
	mine, theirs := t.on(a, "key"), t.on(b, "key")
	old := mine.acquire(lease(t.short()))
	t.lapse()
	next := theirs.acquire()
	mine.fenced(old, "the owner on the handle that was taken over from")
	t.must(theirs.complete(next, success("B")), "Complete")
	mine.fenced(old, "the owner on the handle that was taken over from")
	mine.stands(success("B"))
}
