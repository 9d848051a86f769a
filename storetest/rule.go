package storetest

import (
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// rule is one sentence of the contract and the check of it.
type rule struct {
	name string
	// text is what a failure prints: the contract's own words.
	text string
	// needs is what the harness must declare.
	needs need
	// alone keeps the rule from running beside others.
	alone bool
	check func(t *trial)
}

// cite joins the sentences that a rule stands on.
func cite(texts ...string) string { return strings.Join(texts, "\n") }

// suite runs rules: over a backend (h is set) or over a cache (ch is set).
type suite struct {
	wrap    func(t *testing.T, body func(t *testing.T))
	advance func(tb testing.TB, d time.Duration)
	unit    time.Duration
	tick    time.Duration
	lacks   func(need) string
	h       *Harness
	ch      *CacheHarness
	into    bool // claims are made by ClaimInto
}

func (s *suite) defaults() {
	if s.unit <= 0 {
		s.unit = 100 * time.Millisecond
		if s.wrap != nil {
			s.unit = time.Second
		}
	}
	if s.wrap != nil {
		s.tick = 2 * grain
	}
	if s.wrap == nil {
		s.wrap = func(t *testing.T, body func(t *testing.T)) { t.Helper(); body(t) }
	}
	if s.advance == nil {
		s.advance = sleep
	}
}

// sleep waits on the local clock, and no longer than the test lives.
func sleep(tb testing.TB, d time.Duration) {
	tb.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-tb.Context().Done():
	}
}

// each runs every rule in its own subtest and hands what it found to done.
func (s *suite) each(t *testing.T, rules []rule, done func(t *testing.T, tr *trial)) {
	t.Helper()
	for i := range rules {
		r := &rules[i]
		t.Run(r.name, func(t *testing.T) {
			if !r.alone {
				t.Parallel()
			}
			if why := s.lacks(r.needs); why != "" {
				t.Skip(why)
			}
			done(t, s.try(t, r))
		})
	}
}

// try runs one rule, again with a longer unit while the machine was too slow to
// tell.
func (s *suite) try(t *testing.T, r *rule) *trial {
	t.Helper()
	var tr *trial
	for unit, tries := s.unit, 0; tries < 9; unit, tries = 2*unit, tries+1 {
		tr = &trial{suite: s, rule: r, unit: unit, tick: s.tick}
		var slow bool
		s.wrap(t, func(t *testing.T) {
			t.Helper()
			tr.tb, tr.space = t, "storetest-"+random(8)
			slow = tr.perform()
		})
		if !slow {
			return tr
		}
	}
	tr.failures = append(tr.failures, "the machine was too slow to tell, nine times: give the harness a longer Unit")
	return tr
}

// report turns what a trial found into a failure of the test.
func report(t *testing.T, tr *trial) {
	t.Helper()
	if m := tr.message(); m != "" {
		t.Error(m)
	}
}

// message tells what happened, which rule that breaks, and the last calls; "" if
// nothing is broken.
func (t *trial) message() string {
	if len(t.failures) == 0 {
		return ""
	}
	text := fmt.Sprintf("broken rule %q\n%s\nthe rule:\n%s", t.rule.name, indent(strings.Join(t.failures, "\n")), indent(t.rule.text))
	if calls := t.trace.String(); calls != "" {
		text += "\nthe last calls:\n" + indent(calls)
	}
	return text
}

func indent(s string) string {
	return "\t" + strings.ReplaceAll(s, "\n", "\n\t")
}

// trial is one run of one rule. Its methods may be called by many goroutines,
// except Fatalf and those that end in "must".
type trial struct {
	*suite
	rule  *rule
	tb    testing.TB
	unit  time.Duration
	tick  time.Duration // what passes before each picture
	space string        // the namespace that no other trial uses
	trace trace

	mu       sync.Mutex
	failures []string // mu guards
}

// stop is what Fatalf and tooSlow panic with, to leave the rule.
type stop struct{ slow bool }

// perform runs the check. A panic of the backend is a failure of this rule and
// of no other. It reports whether the machine was too slow to tell.
func (t *trial) perform() (slow bool) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case stop:
			slow = p.slow && len(t.failures) == 0
		default:
			t.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	t.rule.check(t)
	return false
}

// Errorf notes a failure and goes on.
func (t *trial) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.failures) < 10 {
		t.failures = append(t.failures, caller()+": "+fmt.Sprintf(format, args...))
	}
}

// Fatalf notes a failure and ends the rule. Only the rule's own goroutine may
// call it.
func (t *trial) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	panic(stop{})
}

// within ends the trial, to be repeated with a longer unit, if d has passed
// since start: then what was expected before that end may have been answered
// after it.
func (t *trial) within(start time.Time, d time.Duration) {
	if time.Since(start) >= d {
		panic(stop{slow: true})
	}
}

// caller is the line of the rule: the first one outside the helpers.
func caller() string {
	pcs := make([]uintptr, 16)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		f, more := frames.Next()
		file := filepath.Base(f.File)
		helper := slices.Contains([]string{"rule.go", "subject.go", "record.go", "trace.go"}, file)
		if !helper || !more {
			return fmt.Sprintf("%s:%d", file, f.Line)
		}
	}
}

// pass lets d pass on the backend's clock.
func (t *trial) pass(d time.Duration) { t.advance(t.tb, d) }

// short is a lease or a retention that is over after lapse.
func (t *trial) short() time.Duration { return max(t.unit/10, time.Millisecond) }

// lapse lets everything that is short end.
func (t *trial) lapse() { t.pass(2 * t.short()) }

// together runs f(0) to f(n-1) in n goroutines that start at the same time, and
// waits for all of them.
func (t *trial) together(n int, f func(i int)) {
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("panic: %v\n%s", p, debug.Stack())
				}
			}()
			<-begin
			f(i)
		})
	}
	close(begin)
	wg.Wait()
}

// Logf notes what is no failure.
func (t *trial) Logf(format string, args ...any) { t.tb.Logf(format, args...) }
