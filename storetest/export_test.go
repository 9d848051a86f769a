package storetest

import (
	"slices"
	"testing"
)

// Try runs the rules that want admits and hands out what they found.
func (h Harness) Try(t *testing.T, want func(name, text string) bool, done func(name, message string)) {
	t.Helper()
	try(t, h.suite(), rules(), want, done)
}

// Try does the same for a cache.
func (h CacheHarness) Try(t *testing.T, want func(name, text string) bool, done func(name, message string)) {
	t.Helper()
	try(t, h.suite(), cacheRules(), want, done)
}

func try(t *testing.T, s *suite, all []rule, want func(name, text string) bool, done func(name, message string)) {
	t.Helper()
	some := slices.DeleteFunc(all, func(r rule) bool { return !want(r.name, r.text) })
	s.each(t, some, func(_ *testing.T, tr *trial) { done(tr.rule.name, tr.message()) })
}

// BenchOne runs one of the benchmarks.
func (h Harness) BenchOne(b *testing.B, name string, parallel bool) {
	b.Helper()
	for _, c := range benches() {
		if c.name == name && parallel {
			c.parallel(b, &h)
		} else if c.name == name {
			c.serial(b, &h)
		}
	}
}
