package storetest

import (
	"bytes"
	"time"

	"github.com/idem-go/idem/driver"
)

func outcomeRules() []rule {
	return []rule{
		{name: "outcome/is_recorded_and_found", text: cite(i4, claim4), check: outcomeIsRecorded},
		{name: "outcome/completion_is_idempotent", text: i6, check: completeTwice},
		{name: "outcome/completion_with_token_zero_is_idempotent", text: cite(i3Zero, i6), check: completeTwiceZero},
		{name: "outcome/other_bytes_are_refused", text: cite(i4, i6, i3), check: otherOutcomeRefused},
		{name: "outcome/nothing_touches_it", text: i4, check: nothingTouchesOutcome},
		{name: "outcome/accepted_after_lease_end_before_takeover", text: cite(i3, i4), check: completeAfterLeaseEnd},
		{name: "outcome/refused_after_takeover", text: cite(i3, i4), check: completeAfterTakeover},
		{name: "outcome/clears_held_and_keeps_doubt", text: cite(textHeldFlag, textDoubtFlag), check: completeClearsHeld},
		{name: "outcome/audit_is_stored_with_the_backends_time", text: cite(textAuditStored, i7), check: completeAudit},
		{name: "outcome/audit_survives_a_completion_without_one", text: textAuditKept, check: auditSurvives},
	}
}

func outcomeIsRecorded(t *trial) {
	b := t.open()
	for state, o := range map[driver.State]driver.Outcome{driver.Succeeded: success("done"), driver.Failed: failure("declined")} {
		s := t.on(b, state.String())
		ref := planted(s)
		before := s.look()
		s.must(s.complete(ref, o), "Complete")
		rec := s.stands(o)
		if rec.State != state || rec.Held || rec.LeaseLeft != 0 || rec.Revision != 1 {
			t.Errorf("state %v, held %v, lease left %v, revision %d; want %v, false, 0, 1", rec.State, rec.Held, rec.LeaseLeft, rec.Revision, state)
		}
		if rec.RecordedAt.IsZero() || rec.RecordedAt.Before(rec.ClaimedAt.Add(-grain)) {
			t.Errorf("recorded at %v, claimed at %v", rec.RecordedAt, rec.ClaimedAt)
		}
		if rec.RetentionLeft <= 0 || rec.RetentionLeft > kept+grain {
			t.Errorf("%v of a retention of %v is left", rec.RetentionLeft, kept)
		}
		before.State, before.Outcome, before.Revision, before.RecordedAt = rec.State, o, 1, rec.RecordedAt
		if d := different(before, rec); len(d) > 0 {
			t.Errorf("completion changed %v", d)
		}
		if res := s.claimed(driver.Completed); !res.Record.Outcome.Equal(&o) {
			t.Errorf("a claim finds %s, want %s", describe(&res.Record.Outcome), describe(&o))
		}
	}
}

func completeTwice(t *trial) {
	b := t.open()
	for _, o := range []driver.Outcome{success("done"), success(""), failure("declined")} {
		s := t.on(b, describe(&o))
		ref := s.acquire()
		s.must(s.complete(ref, o), "Complete")
		t.lapse()
		before := s.picture()
		for range 2 {
			if err := s.complete(ref, o); err != nil {
				t.Errorf("Complete with the same outcome, again: error %q", err)
			}
			s.unchanged(before, "a repeated completion")
		}
	}
}

func completeTwiceZero(t *trial) {
	s := t.subject()
	ref := s.acquire()
	ref.Token = 0
	s.must(s.complete(ref, success("done")), "Complete with Token 0")
	before := s.picture()
	if err := s.complete(ref, success("done")); err != nil {
		t.Errorf("Complete with Token 0, again: error %q", err)
	}
	s.unchanged(before, "a repeated completion")
}

// otherOutcomes differ from o in one field each.
func otherOutcomes(o driver.Outcome) []driver.Outcome {
	out := []driver.Outcome{success("other"), failure("other"), {}}
	change := func(f func(*driver.Outcome)) {
		other := o
		f(&other)
		out = append(out, other)
	}
	change(func(p *driver.Outcome) { p.Recovered = !o.Recovered })
	if o.Failed {
		change(func(p *driver.Outcome) { p.Code += "2" })
		change(func(p *driver.Outcome) { p.Message += " " })
		return out
	}
	change(func(p *driver.Outcome) { p.Value = append(bytes.Clone(o.Value), 0) })
	change(func(p *driver.Outcome) { p.Value = o.Value[:len(o.Value)-1] })
	change(func(p *driver.Outcome) { p.Codec += "2" })
	change(func(p *driver.Outcome) { p.Value, p.Body = nil, driver.BodyTooLarge })
	return out
}

func otherOutcomeRefused(t *trial) {
	b := t.open()
	for _, o := range []driver.Outcome{success("done"), failure("declined")} {
		s := t.on(b, describe(&o))
		ref := s.acquire()
		s.must(s.complete(ref, o), "Complete")
		before := s.picture()
		for _, other := range otherOutcomes(o) {
			call := "Complete with " + describe(&other) + " after " + describe(&o)
			t.refused(s.complete(ref, other), driver.ErrLeaseLost, call)
			s.unchanged(before, call)
		}
		s.stands(o)
	}
}

func nothingTouchesOutcome(t *trial) {
	s := t.subject()
	ref := planted(s)
	s.must(s.complete(ref, success("done")), "Complete")
	before := s.picture()
	for x := range takeAll + 1 {
		s.claimed(driver.Completed, take(x), expecting(uint64(x)))
	}
	s.claimed(driver.Mismatch, prints(printOf("k1", "charge 6")))
	s.fenced(ref, "the owner that completed it")
	s.fenced(driver.Ref{Key: s.key, Owner: newOwner(), Token: ref.Token}, "a foreign owner")
	s.unchanged(before, "all that was tried")
}

func completeAfterLeaseEnd(t *trial) {
	s := t.subject()
	ref := s.acquire(lease(t.short()))
	t.lapse()
	s.must(s.complete(ref, success("late")), "Complete after the lease's end")
	if rec := s.stands(success("late")); rec.Doubt {
		t.Errorf("nobody took over, but the record is in doubt")
	}
	s.claimed(driver.Completed)
}

func completeAfterTakeover(t *trial) {
	s := t.subject()
	a := s.acquire(lease(t.short()))
	t.lapse()
	b := s.acquire()
	t.refused(s.complete(a, success("A")), driver.ErrLeaseLost, "Complete after the takeover")
	s.must(s.complete(b, success("B")), "Complete by the successor")
	t.refused(s.complete(a, success("A")), driver.ErrLeaseLost, "Complete after the successor's")
	t.refused(s.complete(a, success("B")), driver.ErrLeaseLost, "Complete after the successor's, with the same bytes")
	s.stands(success("B"))
}

func completeClearsHeld(t *trial) {
	s := t.subject()
	ref := retaken(s, driver.ReleaseParams{Held: true})
	s.must(s.complete(ref, success("recovered")), "Complete")
	if rec := s.look(); rec.Held || !rec.Doubt {
		t.Errorf("held %v, doubt %v; want false, true", rec.Held, rec.Doubt)
	}
}

func completeAudit(t *trial) {
	s := t.subject()
	ref := s.acquire()
	p := &driver.CompleteParams{Outcome: success("7"), Retention: kept, Audit: audit(operator, "ticket 12")}
	s.must(s.b.Complete(s.ctx(), ref, p), "Complete")
	s.audited("ticket 12", "Complete")
	rec := s.look()
	if d := rec.Audit.At.Sub(rec.RecordedAt); d > time.Minute || d < -time.Minute {
		t.Errorf("audit at %v, recorded at %v: two clocks", rec.Audit.At, rec.RecordedAt)
	}
}

func auditSurvives(t *trial) {
	s := t.subject()
	ref := s.acquire()
	s.must(s.release(ref, driver.ReleaseParams{Audit: audit(operator, "ticket 12")}), "Release")
	s.audited("ticket 12", "Release")
	ref = s.acquire()
	s.audited("ticket 12", "the next claim")
	s.must(s.complete(ref, success("done")), "Complete")
	s.audited("ticket 12", "Complete without an audit")
}
