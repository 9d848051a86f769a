package storetest

import (
	"github.com/idem-go/idem/driver"
)

func tokenRules() []rule {
	return []rule{
		{name: "token/rises_over_everything", text: i2, check: tokenRises},
		{name: "token/rises_over_reset", text: cite(i2, textReset), needs: needEditor, check: tokenRisesOverReset},
		{name: "token/rises_over_purge", text: cite(i2, i13), needs: needPurger, alone: true, check: tokenRisesOverPurge},
		{name: "token/rises_over_restart", text: cite(i2, i10), needs: needRestart, alone: true, check: tokenRisesOverRestart},
		{name: "token/rises_across_handles", text: i2, needs: needPair, check: tokenRisesAcrossHandles},
		{name: "token/stays_while_the_claim_stands", text: cite(i2, i3), check: tokenStays},
	}
}

// ladder notes a failure unless tokens rise from step to step.
type ladder struct {
	t    *trial
	last uint64
}

func (l *ladder) step(token uint64, over string) {
	if token == 0 || token <= l.last {
		l.t.Errorf("over %s: token %d after %d", over, token, l.last)
	}
	l.last = token
}

func tokenRises(t *trial) {
	s := t.subject()
	l := &ladder{t: t}
	ref := s.acquire(lease(t.short()))
	l.step(ref.Token, "the first claim")
	t.lapse()
	ref = s.acquire()
	l.step(ref.Token, "a takeover")
	for _, p := range []driver.ReleaseParams{{}, {Doubt: true}, {Held: true}, {NotExecuted: true}} {
		s.must(s.release(ref, p), "Release")
		ref = s.acquire()
		l.step(ref.Token, "a release")
	}
	for range 2 {
		s.completeFor(ref, success("done"), t.short())
		t.lapse()
		ref = s.acquire()
		l.step(ref.Token, "the end of the retention")
	}
	s.must(s.renew(ref, t.short()), "Renew")
	t.lapse()
	ref = s.acquire(expecting(ref.Token), take(driver.TakeUnknown))
	l.step(ref.Token, "a resolve")
}

func tokenRisesOverReset(t *trial) {
	s := t.subject()
	ed := t.editor(s.raw)
	l := &ladder{t: t}
	for range 3 {
		ref := s.acquire()
		l.step(ref.Token, "a claim")
		s.must(s.complete(ref, success("done")), "Complete")
		t.must(ed.Reset(t.ctx(), s.key, edit(ref.Token)), "Reset")
		l.step(s.look().Token, "a reset")
	}
}

func tokenRisesOverPurge(t *trial) {
	s := t.subject()
	pu := t.purger(s.raw)
	l := &ladder{t: t}
	for _, end := range []string{"completed", "unknown", "completed"} {
		ref := s.acquire(lease(t.short()), keeping(t.short()))
		l.step(ref.Token, "a purge")
		if end == "completed" {
			s.completeFor(ref, success("done"), t.short())
		}
		t.pass(t.unit)
		_, err := pu.Purge(t.ctx(), &driver.PurgeParams{UnknownAfter: t.short()})
		t.must(err, "Purge")
		s.gone("after the purge of a record that was " + end)
	}
}

func tokenRisesOverRestart(t *trial) {
	b := t.open()
	live, done, free, gone := t.on(b, "live"), t.on(b, "done"), t.on(b, "free"), t.on(b, "gone")
	r1, r2, r3, r4 := live.acquire(), done.acquire(), free.acquire(), gone.acquire()
	done.completeFor(r2, success("done"), kept)
	t.must(free.release(r3, driver.ReleaseParams{}), "Release")
	gone.completeFor(r4, success("old"), t.short())
	t.lapse()

	b = t.h.Restart(t.tb, b)
	live, done, free, gone = t.on(b, "live"), t.on(b, "done"), t.on(b, "free"), t.on(b, "gone")
	live.claimed(driver.InProgress)
	t.must(live.complete(r1, success("after the restart")), "Complete by the owner from before the restart")
	done.stands(success("done"))
	for s, last := range map[*subject]driver.Ref{free: r3, gone: r4} {
		if ref := s.acquire(); ref.Token <= last.Token {
			t.Errorf("over a restart: token %d after %d", ref.Token, last.Token)
		}
	}
}

func tokenRisesAcrossHandles(t *trial) {
	a, b := t.pair()
	l := &ladder{t: t}
	for i := range 6 {
		s := t.on([]driver.Backend{a, b}[i%2], "key")
		ref := s.acquire()
		l.step(ref.Token, "a claim on another handle")
		if i == 3 {
			s.completeFor(ref, success("done"), t.short())
			t.lapse()
			continue
		}
		s.must(s.release(ref, driver.ReleaseParams{}), "Release")
	}
}

func tokenStays(t *trial) {
	s := t.subject()
	ref := s.acquire()
	for name, call := range map[string]func() error{
		"Renew":          func() error { return s.renew(ref, 2*long) },
		"Annotate":       func() error { return s.annotate(ref, driver.AnnotateParams{Refs: refs("a"), NotExecuted: true}) },
		"a second claim": func() error { s.claimed(driver.InProgress); return nil },
	} {
		s.must(call(), name)
		if rec := s.look(); rec.Token != ref.Token || rec.Owner != ref.Owner {
			t.Errorf("%s changed owner or token", name)
		}
	}
	s.must(s.complete(ref, success("done")), "Complete")
	if rec := s.look(); rec.Token != ref.Token {
		t.Errorf("Complete changed the token")
	}
}
