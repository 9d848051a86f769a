package storetest

import (
	"time"

	"github.com/idem-go/idem/driver"
)

// claimRules look at what a claim grants; matrixRules at when it is granted.
func claimRules() []rule {
	return []rule{
		{name: "claim/first_claim_is_attempt_one_with_a_token", text: cite(claim2, claim8, i2Zero, textAttempts, claimRec), check: firstClaim},
		{name: "claim/attempts_and_tokens_rise_with_each_claim", text: cite(claim8, i2, textAttempts), check: attemptsRise},
		{name: "claim/lease_excludes_others_until_it_ends", text: cite(i1, i7, claimLease), check: leaseExcludes},
		{name: "claim/shortest_lease_is_a_lease", text: claimLease, check: shortestLease},
		{name: "claim/fractions_and_years_of_a_lease_are_kept", text: claimLease, check: oddLeases},
		{name: "claim/time_left_and_age_move_with_the_clock", text: cite(i7, textClocks), check: clocksMove},
		{name: "claim/refused_claim_shows_the_holder", text: cite(claim7, claimRec), check: refusedClaimShowsTheHolder},
		{name: "claim/first_fingerprint_given_is_stored", text: cite(i5None, claim3), check: firstFingerprintIsStored},
		{name: "claim/later_claim_sets_a_missing_fingerprint", text: i5None, check: laterClaimSetsFingerprint},
		{name: "claim/refused_claim_sets_no_fingerprint", text: cite(i5None, claim7), check: refusedClaimSetsNoFingerprint},
		{name: "claim/zero_fingerprint_is_none", text: cite(i5Zero, i5None), check: zeroFingerprintIsNone},
		{name: "claim/fingerprint_outlives_claims_without_one", text: cite(i5, i5None), check: fingerprintOutlives},
		{name: "inspect/changes_nothing", text: textInspect, check: inspectChangesNothing},
		{name: "inspect/result_is_a_snapshot", text: textSnapshot, check: resultIsASnapshot},
	}
}

func firstClaim(t *trial) {
	s := t.subject()
	s.gone("before any claim")
	p := s.params(prints(printOf("k1", "charge 5")), calling("acme", long))
	asked := time.Now()
	res, err := s.b.Claim(s.ctx(), p)
	if err != nil || res == nil || res.Fact != driver.Acquired {
		t.Fatalf("Claim of a key without a record: %s, want acquired", found(res, err))
	}
	absent := situation{name: "absent"}
	s.acquired("first claim", &absent, driver.Ref{}, nil, p, &res.Record, asked)
	s.agrees("first claim", res)
	if res.Record.Token == 0 {
		t.Errorf("the first token is 0")
	}
	if res.Record.ClaimedAt.IsZero() {
		t.Errorf("ClaimedAt is not set")
	}
	if !res.Record.RecordedAt.IsZero() {
		t.Errorf("RecordedAt is set although no outcome is recorded")
	}
}

func attemptsRise(t *trial) {
	s := t.subject()
	var last uint64
	for attempt := 1; attempt <= 5; attempt++ {
		p := s.params()
		res := s.claimed(driver.Acquired, owned(p.Owner))
		if res.Record.Attempt != attempt {
			t.Errorf("attempt %d, want %d", res.Record.Attempt, attempt)
		}
		if res.Record.Token <= last {
			t.Errorf("token %d after token %d", res.Record.Token, last)
		}
		last = res.Record.Token
		s.must(s.release(driver.Ref{Key: s.key, Owner: p.Owner, Token: last}, driver.ReleaseParams{}), "Release")
	}
}

func leaseExcludes(t *trial) {
	s := t.subject()
	asked := time.Now()
	s.acquire(lease(4 * t.unit))
	t.pass(3 * t.unit)
	res, err := s.b.Claim(s.ctx(), s.params())
	rec := s.look()
	t.within(asked, 4*t.unit)
	if err != nil || res == nil || res.Fact != driver.InProgress || rec.State != driver.Claimed {
		t.Errorf("after 3 of 4 units: Claim: %s, want in progress; the record is %v", found(res, err), rec.State)
	}
	if rec.LeaseLeft > t.unit+grain {
		t.Errorf("after 3 of 4 units: %v left, a unit is %v", rec.LeaseLeft, t.unit)
	}
	t.pass(2 * t.unit)
	if rec := s.look(); rec.State != driver.Unknown || rec.LeaseLeft != 0 {
		t.Errorf("after 5 of 4 units the record is %v with %v left, want unknown", rec.State, rec.LeaseLeft)
	}
	s.claimed(driver.TakenOver)
}

func shortestLease(t *trial) {
	s := t.subject()
	s.acquire(lease(time.Millisecond))
	t.pass(max(2*time.Millisecond, t.short()))
	if rec := s.look(); rec.State != driver.Unknown {
		t.Errorf("after a lease of 1 ms the record is %v, want unknown", rec.State)
	}
}

func oddLeases(t *trial) {
	b := t.open()
	for _, d := range []time.Duration{1500 * time.Millisecond, 1001 * time.Millisecond, 10 * 365 * 24 * time.Hour} {
		s := t.on(b, d.String())
		asked := time.Now()
		s.acquire(lease(d))
		rec := s.look()
		if least := d - time.Since(asked) - grain; rec.LeaseLeft > d+grain || rec.LeaseLeft < least {
			t.Errorf("%v of a lease of %v is left", rec.LeaseLeft, d)
		}
	}
}

func clocksMove(t *trial) {
	s := t.subject()
	asked := time.Now()
	ref := s.acquire(calling("acme", long))
	t.pass(2 * t.unit)
	s.must(s.renew(ref, long), "Renew")
	rec := s.look()
	if passed := time.Since(asked) + 2*t.unit; rec.ClaimAge > passed {
		t.Errorf("ClaimAge is %v after at most %v", rec.ClaimAge, passed)
	}
	if rec.ClaimAge < 2*t.unit-grain {
		t.Errorf("ClaimAge is %v after %v: a renewal is not a claim", rec.ClaimAge, 2*t.unit)
	}
	if p, _ := provider(rec, "acme"); p.Elapsed < 2*t.unit-grain {
		t.Errorf("the provider's Elapsed is %v after %v", p.Elapsed, 2*t.unit)
	}
}

func refusedClaimShowsTheHolder(t *trial) {
	s := t.subject()
	ref := s.acquire()
	t.lapse()
	res := s.claimed(driver.InProgress)
	if res.Record.Owner != ref.Owner || res.Record.Token != ref.Token || res.Record.Attempt != 1 {
		t.Errorf("the record is of owner %x, token %d, attempt %d; want the holder's", res.Record.Owner, res.Record.Token, res.Record.Attempt)
	}
	if res.Record.LeaseLeft <= 0 || res.Record.ClaimAge <= 0 {
		t.Errorf("LeaseLeft %v and ClaimAge %v give no hint when to come back", res.Record.LeaseLeft, res.Record.ClaimAge)
	}
}

func firstFingerprintIsStored(t *trial) {
	s := t.subject()
	first, second := printOf("k2", "charge 5"), printOf("k1", "charge 5")
	s.acquire(prints(first, second))
	if fp := s.look().Fingerprint; fp != first {
		t.Errorf("stored %v, want the first one given, %v", fp, first)
	}
}

func laterClaimSetsFingerprint(t *trial) {
	s := t.subject()
	ref := s.acquire()
	if fp := s.look().Fingerprint; !fp.IsZero() {
		t.Errorf("stored %v although none was given", fp)
	}
	s.must(s.release(ref, driver.ReleaseParams{}), "Release")
	set := printOf("k1", "charge 5")
	s.acquire(prints(set))
	if fp := s.look().Fingerprint; fp != set {
		t.Errorf("stored %v, want %v", fp, set)
	}
	s.claimed(driver.Mismatch, prints(printOf("k1", "charge 6")))
}

func refusedClaimSetsNoFingerprint(t *trial) {
	s := t.subject()
	ref := s.acquire()
	for _, o := range []driver.Owner{newOwner(), ref.Owner} {
		before := s.picture()
		if _, err := s.b.Claim(s.ctx(), s.params(owned(o), prints(printOf("k1", "charge 5")))); err != nil {
			t.Errorf("Claim: error %q", err)
		}
		s.unchanged(before, "a claim that changes nothing")
	}
}

// zeroFingerprintIsNone: a digest that is zero and has no key id, which is what a
// caller gives who gives none, stands for no request.
func zeroFingerprintIsNone(t *trial) {
	s := t.subject()
	var zero driver.Fingerprint
	set := printOf("", "charge 5")
	ref := s.acquire(prints(zero))
	if fp := s.look().Fingerprint; !fp.IsZero() {
		t.Errorf("stored %v, which is zero and none", fp)
	}
	s.claimed(driver.InProgress, prints(set))
	s.must(s.release(ref, driver.ReleaseParams{}), "Release")
	ref = s.acquire(prints(zero, set))
	if fp := s.look().Fingerprint; fp != set {
		t.Errorf("stored %v, want %v: the first that is not zero", fp, set)
	}
	s.claimed(driver.InProgress, prints(zero))
	s.claimed(driver.InProgress, prints(zero, set))
	s.claimed(driver.Mismatch, prints(zero, printOf("", "charge 6")))
	s.refusedClaim(driver.ErrCorrupt, prints(zero, printOf("k1", "charge 5")))
	s.must(s.complete(ref, success("done")), "Complete")
	s.claimed(driver.Completed, prints(zero))
	s.claimed(driver.Mismatch, prints(zero, printOf("", "charge 6")))
}

func fingerprintOutlives(t *trial) {
	s := t.subject()
	set := printOf("k1", "charge 5")
	ref := s.acquire(prints(set))
	s.must(s.release(ref, driver.ReleaseParams{}), "Release")
	s.acquire(lease(t.short()))
	t.lapse()
	s.acquire()
	if fp := s.look().Fingerprint; fp != set {
		t.Errorf("stored %v, want %v", fp, set)
	}
	s.claimed(driver.Mismatch, prints(printOf("k1", "charge 6")))
}

func inspectChangesNothing(t *trial) {
	b := t.open()
	for _, sit := range situations() {
		s := t.on(b, sit.name)
		sit.make(s)
	}
	t.lapse()
	for _, sit := range situations() {
		s := t.on(b, sit.name)
		before := s.picture()
		s.unchanged(before, "Inspect of a record that is "+sit.name)
	}
}

// resultIsASnapshot: what was returned keeps telling how it was.
func resultIsASnapshot(t *trial) {
	s := t.subject()
	p := s.params(prints(printOf("k1", "x")), calling("acme", long))
	res, err := s.b.Claim(s.ctx(), p)
	if err != nil {
		t.Fatalf("Claim: error %q", err)
	}
	ref := driver.Ref{Key: s.key, Owner: p.Owner, Token: res.Record.Token}
	was := res.Record
	was.Providers = append([]driver.Provider(nil), was.Providers...)
	for _, name := range []string{"ch_1", "ch_2", "ch_3"} {
		rec := s.look()
		n := len(rec.Refs)
		add := driver.AnnotateParams{Refs: []driver.ProviderRef{{Provider: "acme", Ref: name}}}
		s.must(s.annotate(ref, add), "Annotate")
		if len(rec.Refs) != n {
			t.Errorf("a record from Inspect changed when a reference was added")
		}
	}
	s.must(s.complete(ref, success("done")), "Complete")
	if d := different(&was, &res.Record); len(d) > 0 {
		t.Errorf("a result of Claim changed with the record: %v", d)
	}
}
