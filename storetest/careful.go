package storetest

import (
	"time"

	"github.com/idem-go/idem/driver"
)

// A Release may be repeated with other parameters: the caller gave up, and then
// learned more. The more careful of the two counts (I6).

// ends are the ways to release, by their names.
func ends() map[string]driver.ReleaseParams {
	return map[string]driver.ReleaseParams{
		"clean": {}, "not executed": {NotExecuted: true}, "doubt": {Doubt: true}, "held": {Held: true}, "held and doubt": {Held: true, Doubt: true},
	}
}

// care orders the ends.
func care(p driver.ReleaseParams) int {
	switch {
	case p.Held:
		return 2
	case p.Doubt:
		return 1
	}
	return 0
}

// repeated calls f with a record for each pair of ends, and for the claim's token
// as well as for Token 0.
func (t *trial) repeated(f func(s *subject, ref driver.Ref, first, second driver.ReleaseParams, what string)) {
	b := t.open()
	for one, first := range ends() {
		for two, second := range ends() {
			for _, zero := range []string{"", ", Token 0"} {
				what := one + ", then " + two + zero
				s := t.on(b, what)
				ref := planted(s)
				if zero != "" {
					ref.Token = 0
				}
				f(s, ref, first, second, what)
			}
		}
	}
}

func releaseMoreCareful(t *trial) {
	t.repeated(func(s *subject, ref driver.Ref, first, second driver.ReleaseParams, what string) {
		if care(second) <= care(first) {
			return
		}
		s.must(s.release(ref, first), "Release")
		want := s.look()
		s.must(s.release(ref, second), "Release ("+what+")")
		want.State, want.Doubt, want.Held = driver.Released, true, second.Held
		may := driver.TakeDoubtful
		if second.Held {
			want.State, may = driver.Unknown, driver.TakeHeld
		}
		if d := different(want, s.look()); len(d) > 0 {
			t.Errorf("%s: wanted, and is: %v", what, d)
		}
		before := s.picture()
		for name, less := range ends() {
			if care(less) <= care(second) {
				s.must(s.release(ref, less), "Release ("+what+", then "+name+")")
			}
		}
		s.refusedClaim(driver.ErrLeaseLost, owned(ref.Owner))
		s.claimed(driver.Held, take(takeAll&^may))
		s.unchanged(before, "what came after a release ("+what+")")
		s.claimed(driver.TakenOver, take(may))
	})
}

func releaseLessCareful(t *trial) {
	t.repeated(func(s *subject, ref driver.Ref, first, second driver.ReleaseParams, what string) {
		if care(second) > care(first) {
			return
		}
		s.must(s.release(ref, first), "Release")
		before := s.picture()
		if err := s.release(ref, second); err != nil {
			t.Errorf("Release (%s): error %q", what, err)
		}
		s.unchanged(before, "a repeated release ("+what+")")
	})
	s := t.subject()
	ref := retaken(s, driver.ReleaseParams{Held: true})
	s.must(s.release(ref, driver.ReleaseParams{}), "Release")
	before := s.picture()
	s.must(s.release(ref, driver.ReleaseParams{Held: true}), "Release")
	s.unchanged(before, "a repeated release that says held, of a record that is")
}

// releaseCarefulIsKept: the first release set an end to the record, and what is
// held has none.
func releaseCarefulIsKept(t *trial) {
	s := t.subject()
	ref := s.acquire()
	begun := time.Now()
	s.must(s.release(ref, driver.ReleaseParams{Retention: 2 * t.unit}), "Release")
	err := s.release(ref, driver.ReleaseParams{Held: true, Retention: 2 * t.unit})
	t.within(begun, 2*t.unit)
	s.must(err, "Release held, again")
	t.pass(3 * t.unit)
	s.states("a release with a short retention, then held, after that retention", driver.Unknown, true, true)
}

func releaseCarefulTooLate(t *trial) {
	b := t.open()
	olds := map[*subject]driver.Ref{}
	for _, next := range successors() {
		for name, first := range map[string]driver.ReleaseParams{"clean": {}, "doubt": {Doubt: true}} {
			s := t.on(b, name+"/"+next.name)
			ref := s.acquire()
			s.must(s.release(ref, first), "Release")
			next.make(s)
			olds[s] = ref
		}
	}
	t.lapse()
	for s, old := range olds {
		s.tooLate(old, "after the next claim")
	}
}

func releaseCarefulAfterReset(t *trial) {
	s := t.subject()
	ref := s.acquire()
	s.must(s.release(ref, driver.ReleaseParams{}), "Release")
	s.must(t.editor(s.raw).Reset(t.ctx(), s.key, edit(ref.Token)), "Reset")
	s.tooLate(ref, "after a reset")
}

// tooLate notes a failure if a repeated release by old has an effect.
func (s *subject) tooLate(old driver.Ref, when string) {
	before := s.picture()
	for name, second := range ends() {
		for _, token := range []uint64{old.Token, 0} {
			late := driver.Ref{Key: s.key, Owner: old.Owner, Token: token}
			s.refused(s.release(late, second), driver.ErrLeaseLost, "a repeated release ("+name+") "+when)
			s.unchanged(before, "a repeated release ("+name+") "+when)
		}
	}
}
