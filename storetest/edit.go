package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/idem-go/idem/driver"
)

func editRules() []rule {
	return []rule{
		{name: "redact/leaves_a_tombstone", text: textRedact, needs: needEditor, check: redactLeavesTombstone},
		{name: "redact/failure_keeps_its_code", text: textRedact, needs: needEditor, check: redactFailure},
		{name: "redact/is_idempotent", text: textRedactTwice, needs: needEditor, check: redactTwice},
		{name: "redact/is_a_compare_and_set", text: cite(i4, textRedact), needs: needEditor, check: redactCompares},
		{name: "redact/late_completion_does_not_undo_it", text: cite(i4, textRedact), needs: needEditor, check: redactStays},
	}
}

func resetRules() []rule {
	return []rule{
		{name: "reset/lets_the_key_run_again", text: cite(textReset, zeroOwner), needs: needEditor, check: resetRunsAgain},
		{name: "reset/is_a_compare_and_set", text: textReset, needs: needEditor, check: resetCompares},
		{name: "reset/works_on_what_is_settled_or_ended", text: textReset, needs: needEditor, check: resetStates},
		{name: "reset/one_of_many_succeeds", text: cite(textReset, i2), needs: needEditor, check: resetOnce},
		{name: "reset/record_is_kept_as_long", text: cite(textReset, i13Kept), needs: needEditor, check: resetIsKept},
		{name: "edit/audit_is_stored_with_the_backends_time", text: cite(textEditAudit, i7), needs: needEditor, check: editAudited},
		{name: "edit/other_keys_are_untouched", text: i9, needs: needEditor, check: editOneKey},
	}
}

// editor returns the backend's Editor, which the harness declared.
func (t *trial) editor(b driver.Backend) driver.Editor {
	ed, ok := driver.As[driver.Editor](b)
	if !ok {
		t.Fatalf("Capabilities.Editor is declared, but driver.As finds no Editor")
	}
	return ed
}

// edit are the parameters of an edit.
func edit(token uint64) *driver.EditParams {
	return &driver.EditParams{Token: token, Audit: *audit(operator, "ticket 12"), Retention: kept}
}

func redactLeavesTombstone(t *trial) {
	s := t.subject()
	ed := t.editor(s.raw)
	ref := planted(s)
	s.must(s.complete(ref, success("a secret")), "Complete")
	before := s.look()
	s.must(ed.Redact(t.ctx(), s.key, edit(ref.Token)), "Redact")
	after := s.look()
	if after.State != driver.Succeeded || after.Token != ref.Token || after.Revision <= before.Revision {
		t.Errorf("%v, token %d, revision %d; want succeeded, %d, more than %d", after.State, after.Token, after.Revision, ref.Token, before.Revision)
	}
	o := after.Outcome
	if len(o.Value) != 0 || o.Body != driver.BodyRedacted || o.Message != "" || len(after.Refs) != 0 {
		t.Errorf("left over: %s, references %v; want a redacted body and none", describe(&o), after.Refs)
	}
	if !after.Newer(before) {
		t.Errorf("a tombstone is not newer than the record it replaces")
	}
	if after.RetentionLeft > before.RetentionLeft+grain || after.RetentionLeft == 0 {
		t.Errorf("retention left was %v and is %v", before.RetentionLeft, after.RetentionLeft)
	}
	if s.h.RawBytes != nil && strings.Contains(string(s.h.RawBytes(t.tb, s.raw, s.key)), "a secret") {
		t.Errorf("the stored bytes still hold the value")
	}
	res := s.claimed(driver.Completed)
	if res.Record.Outcome.Body != driver.BodyRedacted {
		t.Errorf("a claim finds body %d, want redacted", res.Record.Outcome.Body)
	}
	s.claimed(driver.Mismatch, prints(printOf("k1", "charge 6")))
}

func redactFailure(t *trial) {
	s := t.subject()
	ref := s.acquire()
	s.must(s.complete(ref, failure("card_declined")), "Complete")
	s.must(t.editor(s.raw).Redact(t.ctx(), s.key, edit(ref.Token)), "Redact")
	rec := s.look()
	if o := rec.Outcome; rec.State != driver.Failed || !o.Failed || o.Code != "card_declined" || o.Message != "" || o.Body != driver.BodyRedacted {
		t.Errorf("%v, %s, body %d; want a failure with its code, no message and a redacted body", rec.State, describe(&o), o.Body)
	}
}

func redactTwice(t *trial) {
	b := t.open()
	ed := t.editor(b)
	for _, o := range []driver.Outcome{success("a secret"), failure("card_declined")} {
		s := t.on(b, describe(&o))
		ref := s.acquire()
		s.must(s.complete(ref, o), "Complete")
		s.must(ed.Redact(t.ctx(), s.key, edit(ref.Token)), "Redact")
		before := s.picture()
		again := edit(ref.Token)
		again.Audit.By = "otto"
		s.must(ed.Redact(t.ctx(), s.key, again), "Redact, again")
		s.unchanged(before, "a repeated redaction of "+describe(&o))
	}
}

func redactCompares(t *trial) {
	b := t.open()
	ed := t.editor(b)
	for _, sit := range situations() {
		s := t.on(b, sit.name)
		ref := sit.make(s)
		if sit.lapses() || sit.state == 0 {
			t.lapse()
		}
		before := s.picture()
		if sit.state == 0 {
			t.refused(ed.Redact(t.ctx(), s.key, edit(max(ref.Token, 1))), driver.ErrNotFound, "Redact of a key that is "+sit.name)
			s.unchanged(before, "Redact of a key that is "+sit.name)
			continue
		}
		tokens := []uint64{ref.Token + 1, ref.Token + 1<<20}
		if !sit.state.Completed() {
			tokens = append(tokens, ref.Token)
		}
		for _, token := range tokens {
			t.refused(ed.Redact(t.ctx(), s.key, edit(token)), driver.ErrConflict, "Redact of a record that is "+sit.name)
			s.unchanged(before, "Redact of a record that is "+sit.name)
		}
	}
}

// redactStays: a copy of the owner's Complete arrives after the redaction. The
// contract leaves its answer open, not what it does.
func redactStays(t *trial) {
	s := t.subject()
	ref := s.acquire()
	s.must(s.complete(ref, success("a secret")), "Complete")
	s.must(t.editor(s.raw).Redact(t.ctx(), s.key, edit(ref.Token)), "Redact")
	before := s.picture()
	_ = s.complete(ref, success("a secret"))
	s.unchanged(before, "a late copy of Complete")
	s.fenced(ref, "the owner of a redacted record")
}

func resetRunsAgain(t *trial) {
	s := t.subject()
	ref := planted(s)
	s.must(s.complete(ref, success("done")), "Complete")
	s.must(t.editor(s.raw).Reset(t.ctx(), s.key, edit(ref.Token)), "Reset")
	rec := s.look()
	if rec.State != driver.Released || rec.Doubt || rec.Held || rec.Token <= ref.Token || rec.Attempt != 1 {
		t.Errorf("%v, doubt %v, held %v, token %d (was %d), attempt %d", rec.State, rec.Doubt, rec.Held, rec.Token, ref.Token, rec.Attempt)
	}
	if !rec.Outcome.Equal(&driver.Outcome{}) || !rec.RecordedAt.IsZero() {
		t.Errorf("an outcome is left: %s, recorded at %v", describe(&rec.Outcome), rec.RecordedAt)
	}
	if rec.Owner != (driver.Owner{}) {
		t.Errorf("the owner is not forgotten: %x", rec.Owner)
	}
	if rec.Fingerprint != printOf("k1", plantedRequest) || !slices.Equal(rec.Refs, []driver.ProviderRef{plantedRef()}) {
		t.Errorf("fingerprint %v, references %v; both stay", rec.Fingerprint, rec.Refs)
	}
	s.fenced(driver.Ref{Key: s.key, Token: rec.Token}, "the zero owner, with the right token")
	res := s.claimed(driver.Acquired, take(driver.TakeReleased))
	if res.Record.Attempt != 2 || res.Record.Token <= rec.Token {
		t.Errorf("attempt %d, token %d after %d; want 2 and higher", res.Record.Attempt, res.Record.Token, rec.Token)
	}
}

func resetCompares(t *trial) {
	b := t.open()
	ed := t.editor(b)
	for _, sit := range situations() {
		s := t.on(b, sit.name)
		ref := sit.make(s)
		if sit.lapses() || sit.state == 0 {
			t.lapse()
		}
		before, want, tokens := s.picture(), driver.ErrConflict, []uint64{ref.Token + 1, ref.Token + 1<<20}
		if sit.state == 0 {
			want = driver.ErrNotFound
		}
		if sit.state == driver.Claimed {
			tokens = append(tokens, ref.Token)
		}
		for _, token := range tokens {
			t.refused(ed.Reset(t.ctx(), s.key, edit(token)), want, "Reset of a key that is "+sit.name)
			s.unchanged(before, "Reset of a key that is "+sit.name)
		}
	}
}

func resetStates(t *trial) {
	b := t.open()
	ed := t.editor(b)
	for _, sit := range situations() {
		if sit.state == 0 || sit.state == driver.Claimed {
			continue
		}
		s := t.on(b, sit.name)
		ref := sit.make(s)
		if sit.lapses() {
			t.lapse()
		}
		attempt := s.look().Attempt
		if err := ed.Reset(t.ctx(), s.key, edit(ref.Token)); err != nil {
			t.Errorf("Reset of a record that is %s: error %q", sit.name, err)
			continue
		}
		s.states("after a reset of what was "+sit.name, driver.Released, false, false)
		if rec := s.claimed(driver.Acquired, take(driver.TakeReleased)).Record; rec.Attempt != attempt+1 {
			t.Errorf("%s: attempt %d after attempt %d", sit.name, rec.Attempt, attempt)
		}
	}
}

// resetOnce: of many operators that saw the same token, one is the first.
func resetOnce(t *trial) {
	b := t.open()
	ed := t.editor(b)
	for i := range t.rounds() {
		s := t.on(b, fmt.Sprint(i))
		ref := completedAs(s, success("done"))
		var won atomic.Int64
		t.together(6, func(int) {
			err := ed.Reset(t.ctx(), s.key, edit(ref.Token))
			if err == nil {
				won.Add(1)
				return
			}
			t.refused(err, driver.ErrConflict, "Reset, not the first")
		})
		if won.Load() != 1 {
			t.Fatalf("round %d: %d resets with one token succeeded, want 1", i, won.Load())
		}
	}
}

func resetIsKept(t *trial) {
	s := t.subject()
	ref := s.acquire(keeping(t.short()))
	s.completeFor(ref, success("done"), kept)
	p := edit(ref.Token)
	p.Retention = 4 * t.unit
	begun := time.Now()
	t.must(t.editor(s.raw).Reset(t.ctx(), s.key, p), "Reset")
	t.pass(3 * t.unit)
	_, err := s.b.Inspect(t.ctx(), s.key)
	t.within(begun, 4*t.unit)
	if err != nil {
		t.Errorf("3 units after a reset with a retention of 4: Inspect: error %q", err)
	}
}

func editAudited(t *trial) {
	b := t.open()
	ed := t.editor(b)
	for _, edited := range []string{"redact", "reset"} {
		s := t.on(b, edited)
		ref := s.acquire()
		s.must(s.complete(ref, success("done")), "Complete")
		call := ed.Redact
		if edited == "reset" {
			call = ed.Reset
		}
		s.must(call(t.ctx(), s.key, edit(ref.Token)), edited)
		s.audited("ticket 12", edited)
	}
}

func editOneKey(t *trial) {
	b := t.open()
	ed := t.editor(b)
	mine, yours := t.on(b, "k"), t.on(b, "k ")
	ref, other := mine.acquire(), yours.acquire()
	mine.must(mine.complete(ref, success("done")), "Complete")
	yours.must(yours.complete(other, success("done")), "Complete")
	before := yours.picture()
	t.must(ed.Redact(t.ctx(), mine.key, edit(ref.Token)), "Redact")
	t.must(ed.Reset(t.ctx(), mine.key, edit(ref.Token)), "Reset")
	yours.unchanged(before, "edits of another key")
}
