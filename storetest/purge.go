package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/idem-go/idem/driver"
)

// purgeRules run alone: a purge is for all keys of a server, not for those of
// one rule. What other runs left behind makes its sums larger, never smaller.
func purgeRules() []rule {
	all := []rule{
		{name: "purge/removes_what_has_ended_and_nothing_else", text: textPurge, check: purgeEnded},
		{name: "purge/leaves_unknown_records_unless_asked", text: cite(i13Unknown, textPurgeUnknown), check: purgeUnknownUnasked},
		{name: "purge/removes_old_unknown_records_if_asked", text: textPurgeUnknown, check: purgeUnknownAsked},
		{name: "purge/goes_in_bounded_steps", text: cite(textPurge, textPurgeBatch, textPurgeSum), check: purgeSteps},
		{name: "purge/keeps_to_its_rate", text: textPurgeRate, check: purgeRate},
		{name: "purge/refuses_what_is_not_possible", text: textPurgeBounds, check: purgeBounds},
		{name: "purge/changes_no_answer", text: cite(i13, textPurge), check: purgeChangesNoAnswer},
		{name: "purge/can_be_ended_and_goes_on", text: cite(textPurge, textPurgeResult), check: purgeCancelled},
		{name: "purge/leaves_what_is_claimed_meanwhile", text: cite(textPurge, i11), check: purgeAgainstClaims},
		{name: "purge/leaves_what_is_completed_meanwhile", text: cite(textPurgeUnknown, i11), check: purgeAgainstCompletions},
		{name: "purge/leaves_unreadable_records", text: i12, needs: needCorrupt, check: purgeCorrupt},
	}
	for i := range all {
		all[i].needs |= needPurger
		all[i].alone = true
	}
	return all
}

func (t *trial) purger(b driver.Backend) driver.Purger {
	p, ok := driver.As[driver.Purger](b)
	if !ok {
		t.Fatalf("Capabilities.Purger is declared, but driver.As finds no Purger")
	}
	return p
}

// purge purges with p and returns how many records went.
func (t *trial) purge(b driver.Backend, p driver.PurgeParams) int64 {
	res, err := t.purger(b).Purge(t.ctx(), &p)
	if err != nil || res == nil {
		t.Fatalf("Purge: error %v", err)
	}
	return res.Purged
}

func purgeEnded(t *trial) {
	b := t.open()
	before := map[*subject]picture{}
	for _, sit := range situations() {
		s := t.on(b, sit.name)
		sit.make(s)
		before[s] = picture{}
	}
	t.lapse()
	for s := range before {
		before[s] = s.picture()
	}
	if n := t.purge(b, driver.PurgeParams{}); n < 1 {
		t.Errorf("purged %d, but one record's retention had ended", n)
	}
	for s, was := range before {
		if t.h.RawBytes != nil && was.err != nil {
			if raw := t.h.RawBytes(t.tb, s.raw, s.key); len(raw) != 0 {
				t.Errorf("%q is still stored after the purge", s.key)
			}
			was.raw = nil
		}
		s.unchanged(was, "Purge")
	}
}

func purgeUnknownUnasked(t *trial) {
	b := t.open()
	ended, held := t.on(b, "ended"), t.on(b, "held")
	ended.acquire(lease(t.short()), keeping(t.short()))
	ref := held.acquire(keeping(t.short()))
	t.must(held.release(ref, driver.ReleaseParams{Held: true, Retention: t.short()}), "Release")
	t.pass(2 * t.unit)
	t.purge(b, driver.PurgeParams{})
	ended.states("after a purge", driver.Unknown, false, false)
	held.states("after a purge", driver.Unknown, true, true)
}

// purgeUnknownAsked: old means without a change for longer than UnknownAfter.
func purgeUnknownAsked(t *trial) {
	b := t.open()
	short, keep := lease(t.short()), keeping(t.short())
	oldEnded, oldHeld := t.on(b, "old ended"), t.on(b, "old held")
	oldEnded.acquire(short, keep)
	ref := oldHeld.acquire(keep)
	t.must(oldHeld.release(ref, driver.ReleaseParams{Held: true, Retention: t.short()}), "Release")
	changed := t.on(b, "changed since")
	changedRef := changed.acquire(short, keep)
	live, done := t.on(b, "live"), t.on(b, "done")
	live.acquire(keep)
	doneRef := done.acquire()
	t.must(done.complete(doneRef, success("done")), "Complete")
	t.pass(10 * t.unit)
	t.must(changed.renew(changedRef, t.short()), "Renew")
	t.lapse()
	if n := t.purge(b, driver.PurgeParams{UnknownAfter: 5 * t.unit}); n < 2 {
		t.Errorf("purged %d, but two unknown records were old", n)
	}
	oldEnded.gone("after a purge of old unknown records")
	oldHeld.gone("after a purge of old unknown records")
	changed.states("changed since", driver.Unknown, false, false)
	live.states("live", driver.Claimed, false, false)
	done.stands(success("done"))
}

// plantEnded leaves n records whose retention has ended.
func (t *trial) plantEnded(b driver.Backend, n int) (planted []*subject) {
	for i := range n {
		s := t.on(b, fmt.Sprintf("ended/%d", i))
		s.completeFor(s.acquire(), success("old"), t.short())
		planted = append(planted, s)
	}
	t.lapse()
	return planted
}

func purgeSteps(t *trial) {
	b := t.open()
	t.plantEnded(b, 5)
	var sums []int64
	n := t.purge(b, driver.PurgeParams{Batch: 2, Progress: func(sum int64) { sums = append(sums, sum) }})
	if n < 5 || len(sums) < 3 {
		t.Errorf("purged %d in steps %v; want at least 5 in at least 3 steps", n, sums)
	}
	last := int64(0)
	for _, sum := range sums {
		if sum < last || sum > last+2 {
			t.Errorf("a step from %d to %d, the batch is 2", last, sum)
		}
		last = sum
	}
	if last != n {
		t.Errorf("the last sum is %d, the result %d", last, n)
	}
	if again := t.purge(b, driver.PurgeParams{}); again != 0 {
		t.Logf("a second purge found %d more records, of other runs", again)
	}
}

// purgeRate: the last step need not be waited for, each before it must be.
func purgeRate(t *trial) {
	b := t.open()
	t.purge(b, driver.PurgeParams{}) // what other rules left
	t.plantEnded(b, 5)
	began := time.Now()
	n := t.purge(b, driver.PurgeParams{Batch: 1, Rate: 20})
	if least, took := time.Second/20*time.Duration(n-1), time.Since(began); n < 5 || took < least-grain {
		t.Errorf("purged %d in %v, want at least 5 and, at 20 a second, %v", n, took, least)
	}
}

func purgeBounds(t *trial) {
	b := t.open()
	s := t.plantEnded(b, 1)[0]
	was := s.picture()
	for _, p := range []driver.PurgeParams{{Batch: -1}, {Rate: -1}, {UnknownAfter: -1}} {
		if res, err := t.purger(b).Purge(t.ctx(), &p); err == nil || res != nil && res.Purged != 0 {
			t.Errorf("Purge with batch %d, rate %d, unknown after %v: result %+v, error %v", p.Batch, p.Rate, p.UnknownAfter, res, err)
		}
	}
	s.unchanged(was, "a Purge that was refused")
}

// purgeChangesNoAnswer is case C65 with a sweep before each look: an operation of
// 30 seconds, a retention of 60, looked at 59, 61, 89 and 91 seconds after the
// claim.
func purgeChangesNoAnswer(t *trial) {
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
		t.purge(s.b, driver.PurgeParams{})
		res, err := s.b.Claim(s.ctx(), s.params())
		t.within(completing, 60*second)
		if err != nil || res.Fact != driver.Completed || string(res.Record.Outcome.Value) != "done" {
			t.Fatalf("at %d s, after a purge: Claim: %s, want the outcome", at, found(res, err))
		}
	}
	t.pass(max(2*second, 61*second-time.Since(completed)))
	t.purge(s.b, driver.PurgeParams{})
	s.gone("at 91 s, after a purge")
	if rec := s.claimed(driver.Acquired, take(driver.TakeAbsent)).Record; rec.Attempt != 1 || rec.Token <= ref.Token {
		t.Errorf("at 91 s, after a purge: attempt %d, token %d after %d; want a new record", rec.Attempt, rec.Token, ref.Token)
	}
}

func purgeCancelled(t *trial) {
	b := t.open()
	t.plantEnded(b, 5)
	ctx, cancel := context.WithCancel(t.ctx())
	defer cancel()
	seen := int64(0)
	res, err := t.purger(b).Purge(ctx, &driver.PurgeParams{Batch: 2, Progress: func(sum int64) { seen = sum; cancel() }})
	if res == nil || res.Purged < seen || seen < 1 {
		t.Fatalf("Purge, ended after its first step: result %+v, progress %d, error %v", res, seen, err)
	}
	if err == nil && res.Purged < 5 {
		t.Errorf("Purge left records and returned no error")
	}
	if n := t.purge(b, driver.PurgeParams{Batch: 2}); res.Purged+n < 5 {
		t.Errorf("purged %d, then %d, but 5 records had ended", res.Purged, n)
	}
}

// purgeAgainstClaims: new claims of ended records, while a purge is on its way.
func purgeAgainstClaims(t *trial) {
	b := t.open()
	subjects := t.plantEnded(b, t.rounds())
	refs := make([]driver.Ref, len(subjects))
	t.together(5, func(j int) {
		if j == 0 {
			t.purge(b, driver.PurgeParams{Batch: 3})
			return
		}
		for i := j - 1; i < len(subjects); i += 4 {
			s, p := subjects[i], subjects[i].params()
			if res, err := s.b.Claim(s.ctx(), p); err != nil || res.Fact != driver.Acquired {
				t.Errorf("Claim beside a purge: %s, want acquired", found(res, err))
			} else {
				refs[i] = driver.Ref{Key: s.key, Owner: p.Owner, Token: res.Record.Token}
			}
		}
	})
	for i, s := range subjects {
		if err := s.complete(refs[i], success("new")); err != nil {
			t.Errorf("Complete of a key that was claimed beside a purge: error %q", err)
		}
	}
}

// purgeAgainstCompletions is case C23: owners complete old unknown records, while
// a purge of these is on its way. The record is there if the owner was told so.
func purgeAgainstCompletions(t *trial) {
	b := t.open()
	subjects, owners := make([]*subject, t.rounds()), make([]driver.Ref, t.rounds())
	for i := range subjects {
		subjects[i] = t.on(b, fmt.Sprint(i))
		owners[i] = subjects[i].acquire(lease(t.short()))
	}
	t.lapse()
	told := make([]error, len(subjects))
	t.together(5, func(j int) {
		if j == 0 {
			t.purge(b, driver.PurgeParams{Batch: 3, UnknownAfter: t.short() / 2})
			return
		}
		for i := j - 1; i < len(subjects); i += 4 {
			told[i] = subjects[i].complete(owners[i], success("late"))
		}
	})
	for i, s := range subjects {
		if told[i] == nil {
			s.stands(success("late"))
			continue
		}
		t.refused(told[i], driver.ErrLeaseLost, "Complete of a record that was purged")
		s.gone("after a purge")
	}
}

func purgeCorrupt(t *trial) {
	b := t.open()
	for _, kind := range []CorruptKind{Truncated, UnknownState, HigherFormat, Empty} {
		s := t.on(b, kind.String())
		s.completeFor(s.acquire(), success("old"), t.short())
		if !t.h.Corrupt(t.tb, s.raw, s.key, kind) {
			continue
		}
		t.pass(t.unit)
		_, _ = t.purger(b).Purge(t.ctx(), &driver.PurgeParams{UnknownAfter: t.short()})
		_, err := s.b.Inspect(t.ctx(), s.key)
		t.refused(err, driver.ErrCorrupt, "Inspect of a record that is "+kind.String()+", after a purge")
	}
}
