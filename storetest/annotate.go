package storetest

import (
	"slices"
	"strings"
	"time"

	"github.com/idem-go/idem/driver"
)

func annotateRules() []rule {
	return []rule{
		{name: "annotate/references_are_in_order_without_duplicates", text: cite(textAnnotate, textRefsAdded), check: refsInOrder},
		{name: "annotate/repetition_changes_nothing", text: textAnnotate, check: refsRepeated},
		{name: "annotate/references_survive_all_that_follows", text: textAnnotate, check: refsSurvive},
		{name: "annotate/leaves_the_lease_alone", text: textAnnotate, check: annotateLeavesLease},
		{name: "annotate/not_executed_clears_doubt_and_held", text: cite(textNotExecuted, textDoubtFlag, textHeldFlag), check: annotateNotExecuted},
		{name: "annotate/audit_is_stored_with_the_backends_time", text: cite(textAuditStored, i7), check: annotateAudit},
	}
}

func refs(names ...string) []driver.ProviderRef {
	var out []driver.ProviderRef
	for _, n := range names {
		out = append(out, driver.ProviderRef{Provider: "acme", Ref: n})
	}
	return out
}

func (s *subject) wantRefs(when string, want ...driver.ProviderRef) {
	if got := s.look().Refs; !slices.Equal(got, want) {
		s.Errorf("%s: references %v, want %v", when, got, want)
	}
}

func refsInOrder(t *trial) {
	s := t.subject()
	ref := s.acquire()
	s.must(s.annotate(ref, driver.AnnotateParams{Refs: refs("b", "a", "b")}), "Annotate")
	s.wantRefs("after b a b", refs("b", "a")...)
	s.must(s.annotate(ref, driver.AnnotateParams{Refs: refs("c", "a", "B")}), "Annotate")
	s.wantRefs("after c a B", refs("b", "a", "c", "B")...)
	bank := driver.ProviderRef{Provider: "bank \"é\"", Ref: "a"}
	s.must(s.annotate(ref, driver.AnnotateParams{Refs: []driver.ProviderRef{bank}}), "Annotate")
	s.wantRefs("after the same reference at another provider", append(refs("b", "a", "c", "B"), bank)...)
}

func refsRepeated(t *trial) {
	s := t.subject()
	ref := s.acquire()
	s.must(s.annotate(ref, driver.AnnotateParams{Refs: refs("a", "b")}), "Annotate")
	before := s.picture()
	for _, p := range []driver.AnnotateParams{{Refs: refs("a", "b")}, {Refs: refs("b")}, {}} {
		s.must(s.annotate(ref, p), "Annotate")
		s.unchanged(before, "Annotate with what is there")
	}
}

func refsSurvive(t *trial) {
	s := t.subject()
	first := s.acquire(lease(t.short()))
	s.must(s.annotate(first, driver.AnnotateParams{Refs: refs("a")}), "Annotate")
	t.lapse()
	second := s.acquire()
	s.wantRefs("after a takeover", refs("a")...)
	s.must(s.annotate(second, driver.AnnotateParams{Refs: refs("b", "a")}), "Annotate")
	s.must(s.release(second, driver.ReleaseParams{}), "Release")
	s.wantRefs("after a release", refs("a", "b")...)
	third := s.acquire()
	s.must(s.annotate(third, driver.AnnotateParams{Refs: refs("c")}), "Annotate")
	s.must(s.complete(third, success("done")), "Complete")
	s.wantRefs("after completion", refs("a", "b", "c")...)
}

func annotateLeavesLease(t *trial) {
	b := t.open()
	live, ended := t.on(b, "live"), t.on(b, "ended")
	r1, r2 := live.acquire(), ended.acquire(lease(t.short()))
	t.lapse()
	before := live.look()
	p := driver.AnnotateParams{Refs: refs("a")}
	t.must(live.annotate(r1, p), "Annotate")
	t.must(ended.annotate(r2, p), "Annotate after the lease's end")
	after := live.look()
	if after.LeaseLeft > before.LeaseLeft+grain || after.LeaseLeft < before.LeaseLeft-long/2 {
		t.Errorf("%v of the lease was left, now %v", before.LeaseLeft, after.LeaseLeft)
	}
	after.Refs = nil
	if d := different(before, after); len(d) > 0 {
		t.Errorf("beside the references, Annotate changed %s", strings.Join(d, "; "))
	}
	if rec := ended.look(); rec.State != driver.Unknown {
		t.Errorf("Annotate made a record whose lease has ended %v", rec.State)
	}
	ended.claimed(driver.TakenOver)
	ended.wantRefs("after the takeover", refs("a")...)
}

func annotateNotExecuted(t *trial) {
	b := t.open()
	for name, how := range map[string]driver.ReleaseParams{"doubt": {Doubt: true}, "held": {Held: true}} {
		s := t.on(b, name)
		ref := retaken(s, how)
		before := s.look()
		s.must(s.annotate(ref, driver.AnnotateParams{NotExecuted: true}), "Annotate")
		after := s.look()
		if after.Doubt || after.Held {
			t.Errorf("%s: doubt %v, held %v after \"not executed\"", name, after.Doubt, after.Held)
		}
		before.Doubt, before.Held = false, false
		if d := different(before, after); len(d) > 0 {
			t.Errorf("%s: \"not executed\" changed %s", name, strings.Join(d, "; "))
		}
		s.must(s.release(ref, driver.ReleaseParams{}), "Release")
		s.claimed(driver.Acquired, take(driver.TakeReleased))
	}
	s := t.on(b, "then lost")
	ref := retaken(s, driver.ReleaseParams{Held: true}, lease(t.short()))
	s.must(s.annotate(ref, driver.AnnotateParams{NotExecuted: true}), "Annotate")
	t.lapse()
	s.claimed(driver.TakenOver, take(driver.TakeUnknown))
}

// operator makes every change by hand.
const operator = "olga"

// audited notes a failure unless the record tells of the change, at the time of
// the backend. The time that callers send is one that no backend has.
func (s *subject) audited(why, call string) {
	got := s.look().Audit
	if got.By != operator || got.Why != why {
		s.Errorf("%s: audit by %q, why %q; want %q, %q", call, got.By, got.Why, operator, why)
	}
	if got.At.IsZero() || got.At.Before(time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)) {
		s.Errorf("%s: audit at %v, want the backend's time", call, got.At)
	}
}

func audit(by, why string) *driver.Audit {
	return &driver.Audit{By: by, Why: why, At: time.Date(1969, 7, 20, 0, 0, 0, 0, time.UTC)}
}

func annotateAudit(t *trial) {
	s := t.subject()
	ref := s.acquire()
	s.must(s.annotate(ref, driver.AnnotateParams{NotExecuted: true, Audit: audit(operator, "provider says \"no\", é")}), "Annotate")
	s.audited("provider says \"no\", é", "Annotate")
	s.must(s.annotate(ref, driver.AnnotateParams{Refs: refs("a")}), "Annotate")
	s.audited("provider says \"no\", é", "Annotate without an audit")
}
