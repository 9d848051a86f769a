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
		{name: "provider/claim_that_changes_nothing_adds_none", text: claimProviders, check: refusedAddsNoProvider},
		{name: "provider/window_over_forbids_taking", text: claimWindow, check: windowOver},
		{name: "provider/shortest_window_decides", text: claimWindow, check: shortestWindow},
		{name: "provider/does_not_apply_without_doubt", text: claimWindow, check: windowWithoutDoubt},
		{name: "provider/not_executed_begins_windows_anew", text: textNotExecuted, check: windowsBeginAnew},
		{name: "provider/release_not_executed_forgets_providers", text: cite(textReleaseNotExecuted, claimProviders), check: providersForgotten},
	}
}

// window notes a failure unless the provider has this window, of which at least
// least and at most most has elapsed.
func (s *subject) window(when, name string, window, least, most time.Duration) {
	p, ok := provider(s.look(), name)
	if !ok || p.Window != window || p.Elapsed < least-grain || p.Elapsed > most+grain {
		s.Errorf("%s: provider %q there %v, window %v, elapsed %v; want window %v, elapsed %v to %v",
			when, name, ok, p.Window, p.Elapsed, window, least, most)
	}
}

func windowBegins(t *trial) {
	s := t.subject()
	first := time.Now()
	ref := s.acquire(calling("acme", 1500*time.Millisecond), calling("bank \"é\"", 90*24*time.Hour))
	s.window("first claim", "acme", 1500*time.Millisecond, 0, time.Since(first)+t.unit)
	s.window("first claim", "bank \"é\"", 90*24*time.Hour, 0, time.Since(first)+t.unit)
	t.pass(t.unit)
	s.must(s.release(ref, driver.ReleaseParams{Doubt: true}), "Release")
	second := time.Now()
	s.acquire(calling("new", long))
	s.window("second claim", "new", long, 0, time.Since(second)+t.unit)
	s.window("second claim", "acme", 1500*time.Millisecond, t.unit, time.Since(first)+t.unit)
}

func windowIsKept(t *trial) {
	s := t.subject()
	s.acquire(lease(t.short()), calling("acme", long))
	t.pass(t.unit)
	ref := s.acquire(calling("acme", 5*long))
	s.window("after a takeover that names it again", "acme", long, t.unit, long)
	if n := len(s.look().Providers); n != 1 {
		t.Errorf("%d providers, want 1", n)
	}
	s.must(s.release(ref, driver.ReleaseParams{}), "Release")
	s.window("after a release", "acme", long, t.unit, long)
	ref = s.acquire(calling("acme", long/2))
	s.window("after a claim of the released record", "acme", long, t.unit, long)
	s.must(s.complete(ref, success("done")), "Complete")
	s.window("after completion", "acme", long, t.unit, long)
}

// cleanBeginsAnew: also the window of a provider that the claim does not name.
func cleanBeginsAnew(t *trial) {
	b := t.open()
	clean, doubt := t.on(b, "clean"), t.on(b, "doubt")
	r1 := clean.acquire(calling("acme", long), calling("bank", 2*long))
	r2 := doubt.acquire(calling("acme", long), calling("bank", 2*long))
	t.pass(2 * t.unit)
	t.must(clean.release(r1, driver.ReleaseParams{}), "Release")
	t.must(doubt.release(r2, driver.ReleaseParams{Doubt: true}), "Release")
	asked := time.Now()
	clean.acquire(calling("acme", long))
	doubt.acquire(calling("acme", long))
	was, is := clean.look(), doubt.look()
	t.within(asked, t.unit)
	for _, p := range was.Providers {
		if p.Elapsed > t.unit {
			t.Errorf("%q: elapsed %v right after a claim of a released record that is not in doubt", p.Name, p.Elapsed)
		}
	}
	for _, p := range is.Providers {
		if p.Elapsed < 2*t.unit-grain {
			t.Errorf("%q: elapsed %v, although the record is in doubt", p.Name, p.Elapsed)
		}
	}
	if len(was.Providers) != 2 || len(is.Providers) != 2 {
		t.Errorf("providers %v, in doubt %v; want two each", windows(was), windows(is))
	}
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
	s := t.subject()
	ref := s.acquire(calling("acme", long), calling("bank", 2*long))
	t.pass(2 * t.unit)
	asked := time.Now()
	s.must(s.annotate(ref, driver.AnnotateParams{NotExecuted: true}), "Annotate")
	rec := s.look()
	t.within(asked, t.unit)
	for _, p := range rec.Providers {
		if p.Elapsed > t.unit {
			t.Errorf("%q: elapsed %v right after \"not executed\"", p.Name, p.Elapsed)
		}
	}
	s.window("after \"not executed\"", "acme", long, 0, long)
	s.window("after \"not executed\"", "bank", 2*long, 0, long)
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
