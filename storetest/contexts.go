package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/idem-go/idem/driver"
)

func contextRules() []rule {
	return []rule{
		{name: "context/ended_claim_is_recognised", text: cite(textContexts, i8, i6), check: endedClaim},
		{name: "context/ended_calls_are_repeatable", text: cite(textContexts, i8, i6), check: endedCalls},
		{name: "context/wait_for_a_transaction_is_bounded", text: claimWait, needs: needBlock, check: boundedWait},
		{name: "context/wait_for_a_transaction_ends_with_it", text: cite(textContexts, i8), needs: needBlock, check: endedWait},
	}
}

// ended are contexts that have ended, in two ways.
func (t *trial) ended() map[string]context.Context {
	cancelled, cancel := context.WithCancel(t.ctx())
	cancel()
	late, cancelLate := context.WithDeadline(t.ctx(), time.Now().Add(-time.Second))
	cancelLate()
	return map[string]context.Context{"cancelled": cancelled, "past its deadline": late}
}

// honest checks one call under an ended context: it returned soon, and if its
// error says that nothing changed, nothing did.
func (s *subject) honest(was picture, began time.Time, err error, call string) {
	if d := time.Since(began); d > 50*s.unit {
		s.Errorf("%s under an ended context took %v", call, d)
	}
	if err != nil && driver.NoEffect(err) {
		s.unchanged(was, call+", which returned "+err.Error()+",")
	}
}

func endedClaim(t *trial) {
	b := t.open()
	for how, ctx := range t.ended() {
		s := t.on(b, how)
		p, was, began := s.params(), s.picture(), time.Now()
		_, err := s.b.Claim(ctx, p)
		s.honest(was, began, err, "Claim")
		res, err := s.b.Claim(s.ctx(), p)
		if err != nil || res.Fact != driver.Acquired || res.Record.Attempt != 1 {
			t.Errorf("Claim repeated by the same owner, its first context %s: %s; want acquired, attempt 1", how, found(res, err))
		}
	}
}

func endedCalls(t *trial) {
	b := t.open()
	for how, ctx := range t.ended() {
		for _, a := range attacks() {
			s := t.on(b, how+"/"+a.name)
			ref := s.acquire()
			was, began := s.picture(), time.Now()
			under := *s
			under.under = func() context.Context { return ctx }
			s.honest(was, began, a.call(&under, ref), a.name)
			if err := a.call(s, ref); err != nil {
				t.Errorf("%s repeated, its first context %s: error %q", a.name, how, err)
			}
			if rec := s.look(); rec.Attempt != 1 || rec.Revision > 1 {
				t.Errorf("%s, its first context %s, was applied twice", a.name, how)
			}
		}
		s := t.on(b, how+"/inspect")
		s.acquire()
		began := time.Now()
		rec, err := s.b.Inspect(ctx, s.key)
		if errors.Is(err, driver.ErrNotFound) || err == nil && rec == nil {
			t.Errorf("Inspect under a context %s: error %v, as if there were no record", how, err)
		}
		if d := time.Since(began); d > 50*t.unit {
			t.Errorf("Inspect under an ended context took %v", d)
		}
	}
}

// boundedWait: another transaction holds a record that could be taken.
func boundedWait(t *trial) {
	s := t.subject()
	ref := s.acquire()
	s.must(s.release(ref, driver.ReleaseParams{}), "Release")
	unblock := t.h.Block(t.tb, s.raw, s.key)
	began := time.Now()
	res, err := s.b.Claim(s.ctx(), s.params(func(p *driver.ClaimParams) { p.LockWait = t.unit }))
	if err != nil || res == nil || res.Fact != driver.InProgress {
		t.Errorf("Claim of a record that another transaction holds: %s, want in progress", found(res, err))
	} else if res.Record.LeaseLeft != 0 {
		t.Errorf("%v of a lease is left, although nobody may know", res.Record.LeaseLeft)
	}
	if d := time.Since(began); d > 50*t.unit {
		t.Errorf("Claim took %v, LockWait was %v", d, t.unit)
	}
	unblock()
	if rec := s.claimed(driver.Acquired).Record; rec.Attempt != 2 {
		t.Errorf("attempt %d, want 2: the claim that waited changed the record", rec.Attempt)
	}
}

func endedWait(t *trial) {
	s := t.subject()
	ref := s.acquire()
	s.must(s.release(ref, driver.ReleaseParams{}), "Release")
	unblock := t.h.Block(t.tb, s.raw, s.key)
	ctx, cancel := context.WithTimeout(s.ctx(), t.unit)
	defer cancel()
	p := s.params(func(p *driver.ClaimParams) { p.LockWait = 500 * t.unit })
	began := time.Now()
	_, err := s.b.Claim(ctx, p)
	if err == nil {
		t.Errorf("Claim of a record that another transaction holds ended with its context, without an error")
	}
	if d := time.Since(began); d > 100*t.unit {
		t.Errorf("Claim took %v, its context %v", d, t.unit)
	}
	unblock()
	if res, err := s.b.Claim(s.ctx(), p); err != nil || res.Fact != driver.Acquired || res.Record.Attempt != 2 {
		t.Errorf("Claim repeated by the same owner: %s, want acquired, attempt 2", found(res, err))
	}
}
