package storetest_test

import (
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/storetest"
)

func TestAnIntactBackendPassesEveryRule(t *testing.T) {
	t.Parallel()
	h := harness(none)
	h.Rounds = 20 // its records are JSON; memstore runs all of them
	storetest.Run(t, h)
}

func TestAnIntactCachePassesEveryRule(t *testing.T) {
	t.Parallel()
	storetest.RunCache(t, cacheHarness(none))
}

// tester is a harness of either kind.
type tester interface {
	Try(t *testing.T, want func(name, text string) bool, done func(name, message string))
}

// verdicts are what a broken backend made of the rules.
type verdicts struct {
	mu     sync.Mutex
	passed []string
	failed map[string]string
}

func (v *verdicts) add(name, message string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if message == "" {
		v.passed = append(v.passed, name)
		return
	}
	v.failed[name] = message
}

// judge runs the rules that the patterns name. It returns when all have ended.
func judge(t *testing.T, h tester, patterns []string) *verdicts {
	t.Helper()
	v := &verdicts{failed: map[string]string{}}
	t.Run("rules", func(t *testing.T) {
		h.Try(t, func(name, _ string) bool {
			return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
		}, v.add)
	})
	return v
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// missed returns the patterns of which no rule failed.
func (v *verdicts) missed(patterns []string) (missed []string) {
	for _, p := range patterns {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(v.failed)), func(name string) bool { return matches(p, name) }) {
			missed = append(missed, p)
		}
	}
	return missed
}

// raceTries is how often a rule that races callers against each other may be run
// until it catches a bug: which of them is first is left to the scheduler. One
// run of the suite has more rounds than a try here.
const raceTries = 50

// wants returns what a broken backend made of its rules. It fails the test unless
// each pattern has a rule that failed.
func wants(t *testing.T, h tester, b breakage) *verdicts {
	t.Helper()
	v := judge(t, h, b.rules)
	for range raceTries - 1 {
		missed := v.missed(b.rules)
		if len(missed) == 0 {
			break
		}
		maps.Copy(v.failed, judge(t, h, missed).failed)
	}
	for _, p := range v.missed(b.rules) {
		t.Errorf("although %s, no rule %s failed", b.bug, p)
	}
	return v
}

// TestABrokenBackendFailsTheRuleThatItBreaks is the proof that the suite can
// fail: each bug fails the rules named beside it, and each rule is failed by some
// bug.
func TestABrokenBackendFailsTheRuleThatItBreaks(t *testing.T) {
	t.Parallel()
	everywhere := map[string]bool{"optional/interfaces_are_declared": true} // has a test of its own
	for _, b := range breakages() {                                         //nolint:paralleltest // the rules inside are parallel; this waits for them
		t.Run(snake(b.bug), func(t *testing.T) {
			h := harness(b.bug)
			h.Rounds = 3
			for name := range wants(t, h, b).failed {
				everywhere[name] = true
			}
		})
	}
	storetest.Harness{}.Try(t, func(name, _ string) bool {
		if !everywhere[name] {
			t.Errorf("no bug breaks rule %s", name)
		}
		return false
	}, nil)
}

func TestABrokenCacheFailsTheRuleThatItBreaks(t *testing.T) {
	t.Parallel()
	everywhere := map[string]bool{}
	for _, b := range cacheBreakages() { //nolint:paralleltest // as above
		t.Run(snake(b.bug), func(t *testing.T) {
			for name := range wants(t, cacheHarness(b.bug), b).failed {
				everywhere[name] = true
			}
		})
	}
	storetest.CacheHarness{}.Try(t, func(name, _ string) bool {
		if !everywhere[name] {
			t.Errorf("no bug breaks rule %s", name)
		}
		return false
	}, nil)
}

func snake(b bug) string { return strings.ReplaceAll(b, " ", "_") }

func TestAPanicFailsOneRuleAndNoOther(t *testing.T) {
	t.Parallel()
	h := harness(none)
	intact := h.New
	var once sync.Once
	h.New = func(tb testing.TB) driver.Backend {
		tb.Helper()
		x := intact(tb)
		once.Do(func() { x = full{newReference(panics)} })
		return x
	}
	v := judge(t, h, []string{"outcome/*"})
	if len(v.failed) != 1 || len(v.passed) < 5 {
		t.Fatalf("%d rules failed and %d passed, want one and all others", len(v.failed), len(v.passed))
	}
	for _, message := range v.failed {
		if !strings.Contains(message, "a backend that panics") || !strings.Contains(message, "reference_claim_test.go") {
			t.Errorf("the failure does not show the panic and where it was: %s", message)
		}
	}
}

func TestUndeclaredAndMissingInterfacesAreFound(t *testing.T) {
	t.Parallel()
	rule := []string{"optional/interfaces_are_declared"}

	h := harness(none)
	h.Capabilities = storetest.Capabilities{}
	if v := judge(t, h, rule); strings.Count(v.failed[rule[0]], "watch.go:") != 7 {
		t.Errorf("seven interfaces are implemented and not declared, found: %q", v.failed)
	}

	h = harness(none)
	h.New = func(testing.TB) driver.Backend { return newReference(none) } // the six methods alone
	if v := judge(t, h, rule); strings.Count(v.failed[rule[0]], "watch.go:") != 7 {
		t.Errorf("seven interfaces are declared and not implemented, found: %q", v.failed)
	}
}
