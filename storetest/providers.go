package storetest

import (
	"time"

	"github.com/idem-go/idem/driver"
)

func providerRules() []rule {
	return []rule{
		{name: "provider/window_begins_with_the_claim_that_names_it", text: claimProviders, check: windowBegins},
		{name: "provider/known_name_keeps_window_and_beginning", text: claimProviders, check: windowIsKept},
		{name: "provider/clean_record_begins_windows_anew", text: claimAnew, check: cleanBeginsAnew},
		{name: "provider/windows_go_on_in_doubt", text: cite(claimProviders, claimAnew), check: windowsGoOnInDoubt},
		{name: "provider/claim_that_changes_nothing_adds_none", text: claimProviders, check: refusedAddsNoProvider},
		{name: "provider/window_over_forbids_taking", text: claimWindow, check: windowOver},
		{name: "provider/shortest_window_decides", text: claimWindow, check: shortestWindow},
		{name: "provider/does_not_apply_without_doubt", text: claimWindow, check: windowWithoutDoubt},
		{name: "provider/not_executed_begins_windows_anew", text: textNotExecuted, check: windowsBeginAnew},
		{name: "provider/late_copy_of_not_executed_moves_no_window", text: textLateCopy, check: lateNotExecuted},
		{name: "provider/release_not_executed_forgets_providers", text: cite(textReleaseNotExecuted, claimProviders), check: providersForgotten},
	}
}

// window notes a failure unless the provider has this window, of which at least
// least has elapsed.
func (s *subject) window(when, name string, window, least time.Duration) {
	s.windowOf(s.look(), when, name, window, least, long)
}

// windowSince is window for one that began after the instant asked: the look may
// take its time too.
func (s *subject) windowSince(when, name string, window, least time.Duration, asked time.Time) {
	rec := s.look()
	s.windowOf(rec, when, name, window, least, time.Since(asked)+s.unit)
}

func (s *subject) windowOf(rec *driver.Record, when, name string, window, least, most time.Duration) {
	p, ok := provider(rec, name)
	if !ok || p.Window != window || p.Elapsed < least-grain || p.Elapsed > most+grain {
		s.Errorf("%s: provider %q there %v, window %v, elapsed %v; want window %v, elapsed %v to %v",
			when, name, ok, p.Window, p.Elapsed, window, least, most)
	}
}

func windowBegins(t *trial) {
	s := t.subject()
	first := time.Now()
	ref := s.acquire(calling("acme", 1500*time.Millisecond), calling("bank \"é\"", 90*24*time.Hour))
	s.windowSince("first claim", "acme", 1500*time.Millisecond, 0, first)
	s.windowSince("first claim", "bank \"é\"", 90*24*time.Hour, 0, first)
	t.pass(t.unit)
	s.must(s.release(ref, driver.ReleaseParams{Doubt: true}), "Release")
	second := time.Now()
	s.acquire(calling("new", long))
	s.windowSince("second claim", "new", long, 0, second)
	s.windowSince("second claim", "acme", 1500*time.Millisecond, t.unit, first)
}

func windowIsKept(t *trial) {
	s := t.subject()
	s.acquire(lease(t.short()), calling("acme", long))
	t.pass(t.unit)
	ref := s.acquire(calling("acme", 5*long))
	s.window("after a takeover that names it again", "acme", long, t.unit)
	if n := len(s.look().Providers); n != 1 {
		t.Errorf("%d providers, want 1", n)
	}
	s.must(s.release(ref, driver.ReleaseParams{}), "Release")
	s.window("after a release", "acme", long, t.unit)
	ref = s.acquire(calling("acme", long/2))
	s.window("after a claim of the released record", "acme", long, t.unit)
	s.must(s.complete(ref, success("done")), "Complete")
	s.window("after completion", "acme", long, t.unit)
}

// began notes a failure unless the windows of acme and bank, which have run for
// two units, began anew after asked.
func (s *subject) began(when string, asked time.Time) {
	rec := s.look()
	s.within(asked, s.unit)
	if n := len(rec.Providers); n != 2 {
		s.Errorf("%s: %d providers, want 2", when, n)
	}
	for _, p := range rec.Providers {
		if p.Elapsed > s.unit {
			s.Errorf("%s: %q: elapsed %v, want a window that begins anew", when, p.Name, p.Elapsed)
		}
	}
	s.window(when, "acme", long, 0)
	s.window(when, "bank", 2*long, 0)
}

// cleanBeginsAnew: also the window of a provider that the claim does not name,
// and also if the record was in doubt before.
func cleanBeginsAnew(t *trial) {
	b := t.open()
	fresh, cleared := t.on(b, "fresh"), t.on(b, "cleared")
	r1 := fresh.acquire(calling("acme", long), calling("bank", 2*long))
	r2 := cleared.acquire(calling("acme", long), calling("bank", 2*long))
	t.must(cleared.release(r2, driver.ReleaseParams{Held: true}), "Release")
	r2 = cleared.acquire()
	t.must(cleared.annotate(r2, driver.AnnotateParams{NotExecuted: true}), "Annotate")
	t.pass(2 * t.unit)
	t.must(fresh.release(r1, driver.ReleaseParams{}), "Release")
	t.must(cleared.release(r2, driver.ReleaseParams{}), "Release")
	for name, s := range map[string]*subject{"never in doubt": fresh, "no longer in doubt": cleared} {
		asked := time.Now()
		s.claimed(driver.Acquired, calling("acme", long))
		s.began("a claim of a released record, "+name, asked)
	}
}

// windowsGoOnInDoubt: a provider may have seen the key, and forgets it when its
// window is over.
func windowsGoOnInDoubt(t *trial) {
	b := t.open()
	for name, how := range doubts() {
		s := t.on(b, name)
		s.inDoubt(how, calling("acme", long), calling("bank", 2*long))
		t.pass(2 * t.unit)
		s.claimed(driver.TakenOver, calling("acme", long))
		s.window("a claim of a record in doubt ("+name+")", "acme", long, 2*t.unit)
		s.window("a claim of a record in doubt ("+name+")", "bank", 2*long, 2*t.unit)
	}
}

// doubts are the ways into doubt. The nil one is a lease that ends.
func doubts() map[string]*driver.ReleaseParams {
	return map[string]*driver.ReleaseParams{"lease ended": nil, "doubt": {Doubt: true}, "held": {Held: true}}
}

// inDoubt claims the key and leaves it in doubt.
func (s *subject) inDoubt(how *driver.ReleaseParams, opts ...option) {
	if how == nil {
		s.acquire(append(opts, lease(s.short()))...)
		s.lapse()
		return
	}
	s.must(s.release(s.acquire(opts...), *how), "Release")
}

func refusedAddsNoProvider(t *trial) {
	b := t.open()
	for _, sit := range situations() {
		if sit.state == 0 {
			continue
		}
		s := t.on(b, sit.name)
		ref := sit.make(s)
		if sit.lapses() {
			t.lapse()
		}
		before := s.picture()
		_, _ = s.b.Claim(s.ctx(), s.params(take(0), calling("new", long)))
		s.unchanged(before, "a refused claim of a record that is "+sit.name)
		if sit.open {
			s.acquire(owned(ref.Owner), calling("new", long))
			s.unchanged(before, "a repeated claim of a record that is "+sit.name)
		}
	}
}

// lapses reports whether the situation begins when a short lease ends.
func (sit *situation) lapses() bool { return sit.state == driver.Unknown && sit.open }

func windowOver(t *trial) {
	s := t.subject()
	begun := time.Now()
	s.acquire(lease(t.short()), calling("acme", 4*t.unit))
	t.pass(3 * t.unit)
	before := s.picture()
	s.claimed(driver.Held, leaving(2*t.unit))
	s.claimed(driver.Held, leaving(2*t.unit), calling("acme", 9*t.unit))
	s.unchanged(before, "a claim that wants more of the window than is left")
	res, err := s.b.Claim(s.ctx(), s.params(leaving(t.unit/2), lease(t.short())))
	t.within(begun, 3*t.unit+t.unit/2)
	if err != nil || res.Fact != driver.TakenOver {
		t.Fatalf("with a unit left and half of one wanted: Claim: %s, want taken over", found(res, err))
	}
	t.pass(2 * t.unit)
	if p, _ := provider(s.look(), "acme"); p.Left() > 0 {
		t.Errorf("%v of the window is left, want none", p.Left())
	}
	s.claimed(driver.Held, leaving(time.Millisecond))
	s.claimed(driver.TakenOver, leaving(0))
}

func shortestWindow(t *trial) {
	b := t.open()
	windows := []option{calling("a", 9*long), calling("b", 2*long), calling("c", 5*long)}
	doubt, crash := t.on(b, "doubt"), t.on(b, "crash")
	ref := doubt.acquire(windows...)
	t.must(doubt.release(ref, driver.ReleaseParams{Doubt: true}), "Release")
	crash.acquire(append(windows, lease(t.short()))...)
	t.lapse()
	for _, s := range []*subject{doubt, crash} {
		s.claimed(driver.Held, leaving(3*long))
		s.claimed(driver.Held, leaving(long), calling("d", long/2))
		s.claimed(driver.TakenOver, leaving(long), calling("d", 2*long))
	}
}

func windowWithoutDoubt(t *trial) {
	s := t.subject()
	ref := s.acquire(leaving(long), calling("acme", time.Millisecond))
	t.lapse()
	s.must(s.release(ref, driver.ReleaseParams{}), "Release")
	s.claimed(driver.Acquired, leaving(long))
}

func windowsBeginAnew(t *trial) {
	b := t.open()
	for name, how := range doubts() {
		s := t.on(b, name)
		s.inDoubt(how, calling("acme", long), calling("bank", 2*long))
		ref := s.acquire()
		t.pass(2 * t.unit)
		asked := time.Now()
		s.must(s.annotate(ref, driver.AnnotateParams{NotExecuted: true}), "Annotate")
		s.began("after \"not executed\" ("+name+")", asked)
	}
}

// lateNotExecuted: between the two copies, the owner may have called a provider.
// What a copy adds beside "not executed" is added.
func lateNotExecuted(t *trial) {
	b := t.open()
	said := driver.AnnotateParams{NotExecuted: true}
	doubtful, never := t.on(b, "doubtful"), t.on(b, "never in doubt")
	doubtful.inDoubt(nil, calling("acme", long))
	ref := doubtful.acquire()
	t.must(doubtful.annotate(ref, said), "Annotate")
	for s, ref := range map[*subject]driver.Ref{doubtful: ref, never: never.acquire(calling("acme", long))} {
		t.pass(2 * t.unit)
		before := s.picture()
		s.must(s.annotate(ref, said), "Annotate, \"not executed\"")
		s.unchanged(before, "\"not executed\" on a record that is not in doubt")
		more := driver.AnnotateParams{NotExecuted: true, Refs: refs("a"), Audit: audit(operator, "no charge")}
		s.must(s.annotate(ref, more), "Annotate with more")
		s.window("\"not executed\" with a reference", "acme", long, 2*t.unit)
		s.wantRefs("\"not executed\" with a reference", refs("a")...)
		s.audited("no charge", "Annotate with more")
	}
}

func providersForgotten(t *trial) {
	s := t.subject()
	ref := s.acquire(calling("acme", long), calling("bank", long))
	t.pass(2 * t.unit)
	s.must(s.release(ref, driver.ReleaseParams{NotExecuted: true}), "Release")
	asked := time.Now()
	s.acquire(calling("acme", 3*long))
	rec := s.look()
	t.within(asked, t.unit)
	if p, _ := provider(rec, "acme"); len(rec.Providers) != 1 || p.Window != 3*long || p.Elapsed > t.unit {
		t.Errorf("providers %+v, want acme alone with a new window", rec.Providers)
	}
}
