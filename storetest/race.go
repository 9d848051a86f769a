package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/idem-go/idem/driver"
)

// raceRules set a claim that takes over against what its owner does meanwhile
// (C31): by chance in many rounds, and by Pause exactly between read and write.
func raceRules() []rule {
	out := []rule{}
	for _, a := range attacks() {
		out = append(out, rule{
			name: "race/takeover_against_" + snake(a.name), text: cite(i11, i3, i4), needs: needPair,
			check: func(t *trial) { t.raced(a) },
		}, rule{
			name: "race/paused_takeover_meets_" + snake(a.name), text: cite(i11, i3, i4), needs: needPause,
			check: func(t *trial) { t.paused(a) },
		})
	}
	return append(out,
		rule{name: "race/paused_first_claim_meets_another", text: cite(i11, i1), needs: needPause, check: pausedFirst},
		rule{name: "race/paused_takeover_meets_another", text: cite(i11, i1), needs: needPause, check: pausedTakeover},
		rule{name: "race/paused_claim_of_released_meets_another", text: cite(i11, i1), needs: needPause, check: pausedReleased},
	)
}

// snake makes a name of a subtest.
func snake(s string) string { return strings.ReplaceAll(s, " ", "_") }

// raced: the owner of an ended lease acts while two others take over. Either the
// owner's call counts and the takeover sees it, or the takeover wins and the
// owner is told.
func (t *trial) raced(a attack) {
	x, y := t.pair()
	n := t.rounds()
	subjects, owners := make([][2]*subject, n), make([]driver.Ref, n)
	for i := range n {
		subjects[i] = [2]*subject{t.on(x, fmt.Sprint(i)), t.on(y, fmt.Sprint(i))}
		owners[i] = subjects[i][0].acquire(lease(t.short()))
	}
	t.lapse()
	for i, pair := range subjects {
		var won atomic.Int64
		var owner error
		t.together(3, func(j int) {
			s := pair[j%2]
			if j == 2 {
				owner = a.call(s, owners[i])
				return
			}
			res, err := s.b.Claim(s.ctx(), s.params(take(driver.TakeUnknown)))
			if err == nil && (res.Fact == driver.Acquired || res.Fact == driver.TakenOver) {
				won.Add(1)
			}
		})
		t.settledRace(a, i, pair[1], owners[i], owner, won.Load())
	}
}

// settledRace judges one round.
func (t *trial) settledRace(a attack, round int, s *subject, owner driver.Ref, err error, won int64) {
	rec := s.look()
	if won > 1 {
		t.Fatalf("round %d: two takeovers acquired", round)
	}
	if err != nil && !errors.Is(err, driver.ErrLeaseLost) {
		t.Fatalf("round %d: %s: error %q", round, a.name, err)
	}
	settles := !strings.HasPrefix(a.name, "Annotate") // what leaves nothing to take over
	switch {
	case err == nil && settles && won != 0:
		t.Fatalf("round %d: %s counted, and the takeover acquired too", round, a.name)
	case err != nil && won != 1:
		t.Fatalf("round %d: %s was refused, but nobody took over", round, a.name)
	case err != nil && rec.State.Completed():
		t.Fatalf("round %d: %s was refused, and completed the record", round, a.name)
	case won == 1 && (rec.Owner == owner.Owner || rec.Token <= owner.Token || rec.State != driver.Claimed):
		t.Fatalf("round %d: the takeover acquired, but the record is %v with token %d", round, rec.State, rec.Token)
	case won == 0 && rec.Owner != owner.Owner:
		t.Fatalf("round %d: nobody acquired, but the owner changed", round)
	}
}

// gap returns a subject whose Claim runs between after its read and before its
// write, once, and a subject for what happens there.
func (t *trial) gap(between func(other *subject)) (paused, other *subject) {
	var armed atomic.Bool
	p, o := t.h.Pause(t.tb, func() {
		if armed.CompareAndSwap(true, false) {
			between(other)
		}
	})
	paused, other = t.on(p, "key"), t.on(o, "key")
	armed.Store(true)
	return paused, other
}

// paused: the owner acts after the takeover has read and before it writes.
func (t *trial) paused(a attack) {
	var ref driver.Ref
	var acted error
	ran := false
	paused, other := t.gap(func(other *subject) {
		ran = true
		acted = a.call(other, ref)
	})
	ref = other.acquire(lease(t.short()))
	t.lapse()
	res, err := paused.b.Claim(t.ctx(), paused.params(take(driver.TakeUnknown)))
	if !ran {
		t.Fatalf("Pause never called between: the harness promises it for each Claim")
	}
	if acted != nil {
		t.Fatalf("%s by the owner before the takeover wrote: error %q", a.name, acted)
	}
	rec := other.look()
	won := int64(0)
	if err == nil && (res.Fact == driver.Acquired || res.Fact == driver.TakenOver) {
		won = 1
	}
	t.settledRace(a, 0, other, ref, nil, won)
	switch kept := slices.Contains(rec.Refs, driver.ProviderRef{Provider: "acme", Ref: "stale"}); {
	case a.name == "Annotate" && !kept, a.name == "Annotate not executed" && rec.Audit.By != "stale":
		t.Errorf("the owner's %s before the takeover wrote is lost", a.name)
	}
	if a.name == "Complete" && (err != nil || res.Fact != driver.Completed || string(rec.Outcome.Value) != "stale") {
		t.Errorf("the owner completed before the takeover wrote: Claim: %s, record %s; want the owner's outcome", found(res, err), describe(&rec.Outcome))
	}
}

// pausedBy lets another claim in between, and expects that it stays.
func (t *trial) pausedBy(prepare func(s *subject)) {
	var between *driver.ClaimResult
	paused, other := t.gap(func(other *subject) {
		between, _ = other.b.Claim(other.ctx(), other.params())
	})
	prepare(other)
	res, err := paused.b.Claim(t.ctx(), paused.params())
	if between == nil || between.Fact != driver.Acquired && between.Fact != driver.TakenOver {
		t.Fatalf("the claim in between: %s, want the key", found(between, nil))
	}
	if err != nil || res.Fact != driver.InProgress {
		t.Errorf("another claim acquired before this one wrote: Claim: %s, want in progress", found(res, err))
	}
	if rec := other.look(); rec.Token != between.Record.Token {
		t.Errorf("token %d on record, want that of the claim in between, %d", rec.Token, between.Record.Token)
	}
}

func pausedFirst(t *trial) { t.pausedBy(func(*subject) {}) }

func pausedTakeover(t *trial) {
	t.pausedBy(func(s *subject) {
		s.acquire(lease(t.short()))
		t.lapse()
	})
}

func pausedReleased(t *trial) {
	t.pausedBy(func(s *subject) { releasedAs(s, driver.ReleaseParams{}) })
}
