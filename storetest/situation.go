package storetest

import (
	"slices"

	"github.com/idem-go/idem/driver"
)

// situation is a state in which a claim may find a key.
type situation struct {
	name string
	// state is 0 where the key behaves as absent.
	state driver.State
	doubt bool
	held  bool
	// open: the last claim was neither released nor completed.
	open bool
	// make brings the key there; whatever is short ends afterwards.
	make func(s *subject) driver.Ref
}

// The request and the provider of every planted record. The reference is saved
// by the last claim.
const (
	plantedRequest  = "charge 5"
	plantedProvider = "acme"
	plantedWindow   = 20 * long
)

func plantedRef() driver.ProviderRef {
	return driver.ProviderRef{Provider: plantedProvider, Ref: "ch_1"}
}

// planted is a claim as the situations make it.
func planted(s *subject, opts ...option) driver.Ref {
	ref := s.acquire(append([]option{
		prints(printOf("k1", plantedRequest)), calling(plantedProvider, plantedWindow),
	}, opts...)...)
	s.must(s.annotate(ref, driver.AnnotateParams{Refs: []driver.ProviderRef{plantedRef()}}), "Annotate")
	return ref
}

// releasedAs is a claim that was released.
func releasedAs(s *subject, p driver.ReleaseParams) driver.Ref {
	ref := planted(s)
	s.must(s.release(ref, p), "Release")
	return ref
}

// retaken is a claim that took what an earlier attempt released.
func retaken(s *subject, p driver.ReleaseParams, opts ...option) driver.Ref {
	releasedAs(s, p)
	return planted(s, opts...)
}

// completedAs is a claim that completed.
func completedAs(s *subject, o driver.Outcome) driver.Ref {
	ref := planted(s)
	s.must(s.complete(ref, o), "Complete")
	return ref
}

// situations are all the states of a key.
func situations() []situation {
	clean, doubt, held := driver.ReleaseParams{}, driver.ReleaseParams{Doubt: true}, driver.ReleaseParams{Held: true}
	return []situation{
		{name: "absent", make: func(*subject) driver.Ref { return driver.Ref{} }},
		{name: "retention_ended", make: func(s *subject) driver.Ref {
			ref := planted(s)
			s.must(s.b.Complete(s.ctx(), ref, &driver.CompleteParams{Outcome: success("old"), Retention: s.short()}), "Complete")
			return ref
		}},
		{name: "claimed", state: driver.Claimed, open: true, make: func(s *subject) driver.Ref { return planted(s) }},
		{name: "claimed_in_doubt", state: driver.Claimed, doubt: true, open: true, make: func(s *subject) driver.Ref {
			return retaken(s, doubt)
		}},
		{name: "claimed_held", state: driver.Claimed, doubt: true, held: true, open: true, make: func(s *subject) driver.Ref {
			return retaken(s, held)
		}},
		{name: "lease_ended", state: driver.Unknown, open: true, make: func(s *subject) driver.Ref {
			return planted(s, lease(s.short()))
		}},
		{name: "lease_ended_in_doubt", state: driver.Unknown, doubt: true, open: true, make: func(s *subject) driver.Ref {
			return retaken(s, doubt, lease(s.short()))
		}},
		{name: "lease_ended_held", state: driver.Unknown, doubt: true, held: true, open: true, make: func(s *subject) driver.Ref {
			return retaken(s, held, lease(s.short()))
		}},
		{name: "held", state: driver.Unknown, doubt: true, held: true, make: func(s *subject) driver.Ref {
			return releasedAs(s, held)
		}},
		{name: "released", state: driver.Released, make: func(s *subject) driver.Ref { return releasedAs(s, clean) }},
		{name: "released_in_doubt", state: driver.Released, doubt: true, make: func(s *subject) driver.Ref {
			return releasedAs(s, doubt)
		}},
		{name: "released_in_doubt_again", state: driver.Released, doubt: true, make: func(s *subject) driver.Ref {
			ref := retaken(s, doubt)
			s.must(s.release(ref, clean), "Release")
			return ref
		}},
		{name: "succeeded", state: driver.Succeeded, make: func(s *subject) driver.Ref {
			return completedAs(s, success("5 paid"))
		}},
		{name: "failed", state: driver.Failed, make: func(s *subject) driver.Ref {
			return completedAs(s, failure("card_declined"))
		}},
	}
}

// decide is the order of [driver.Backend.Claim], for a key in situation sit whose
// last claim is last and whose record is rec. It is written from the contract's
// text, step by step, and shares nothing with any backend.
func decide(sit *situation, last driver.Ref, rec *driver.Record, p *driver.ClaimParams) (driver.Fact, error) {
	if sit.state == 0 { // step 2
		if p.Take.Has(driver.TakeAbsent) {
			return driver.Acquired, nil
		}
		return 0, driver.ErrNotFound
	}
	if fact, err := compare(rec.Fingerprint, p.Fingerprints); fact != 0 || err != nil { // step 3
		return fact, err
	}
	if sit.state.Completed() { // step 4
		return driver.Completed, nil
	}
	if p.Owner == last.Owner { // step 5
		if !sit.open {
			return 0, driver.ErrLeaseLost
		}
		return taken(sit.doubt), nil
	}
	if p.ExpectToken != 0 && p.ExpectToken != rec.Token { // step 6
		return 0, driver.ErrConflict
	}
	if sit.state == driver.Claimed { // step 7
		return driver.InProgress, nil
	}
	doubtful := sit.doubt || sit.state == driver.Unknown
	if p.Take.Has(sit.wants()) && (!doubtful || windowLeft(rec, p)) { // step 8
		return taken(doubtful), nil
	}
	if sit.state == driver.Released && !sit.doubt { // step 9
		return 0, driver.ErrConflict
	}
	return driver.Held, nil
}

// wants is the permission that taking the record needs.
func (sit *situation) wants() driver.Take {
	switch {
	case sit.held:
		return driver.TakeHeld
	case sit.state == driver.Unknown:
		return driver.TakeUnknown
	case sit.doubt:
		return driver.TakeDoubtful
	}
	return driver.TakeReleased
}

func taken(doubt bool) driver.Fact {
	if doubt {
		return driver.TakenOver
	}
	return driver.Acquired
}

// compare is step 3.
func compare(stored driver.Fingerprint, given []driver.Fingerprint) (driver.Fact, error) {
	given = notZero(given)
	if stored.IsZero() || len(given) == 0 {
		return 0, nil
	}
	for _, fp := range given {
		if fp.KeyID == stored.KeyID {
			if fp.Sum != stored.Sum {
				return driver.Mismatch, nil
			}
			return 0, nil
		}
	}
	return 0, driver.ErrCorrupt
}

// notZero returns the fingerprints of a request without those that are none.
func notZero(given []driver.Fingerprint) []driver.Fingerprint {
	return slices.DeleteFunc(slices.Clone(given), driver.Fingerprint.IsZero)
}

// windowLeft reports whether enough of each provider's window is left. Rules
// keep away from the instant at which this changes.
func windowLeft(rec *driver.Record, p *driver.ClaimParams) bool {
	if p.MinWindow <= 0 {
		return true
	}
	for _, have := range rec.Providers {
		if have.Left() < p.MinWindow {
			return false
		}
	}
	for _, w := range p.Providers {
		if _, known := provider(rec, w.Name); !known && w.Window < p.MinWindow {
			return false
		}
	}
	return true
}
