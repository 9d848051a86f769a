package storetest_test

import (
	"flag"
	"testing"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/storetest"
)

func BenchmarkReference(b *testing.B) {
	storetest.Bench(b, harness(none))
}

// TestABenchmarkOfTheWrongThingFails: each benchmark asserts what it measures, so
// that a broken backend gives no number.
//
// The length of a benchmark is a flag of the whole process. Nothing else in this
// package reads it while tests run, so that this test may run beside others.
func TestABenchmarkOfTheWrongThingFails(t *testing.T) {
	t.Parallel()
	length := flag.Lookup("test.benchtime").Value
	was := length.String()
	if err := length.Set("20x"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = length.Set(was) })
	for name, broken := range map[string][]bug{
		"ClaimComplete": {codecDropped, keysIgnored},
		"Replay":        {claimLosesOutcome, outcomeNotFound},
		"InProgress":    {takesLive},
		"HotKey":        {attemptStuck, tokenKeptOnRelease},
		"WideKeyspace":  {keysIgnored},
		"Renew":         {renewDoesNothing, renewRaisesToken},
		"Mismatch":      {printAfterReplay},
	} {
		for _, parallel := range []bool{false, true} {
			for _, b := range append(broken, none) {
				if failed := benchmarkFails(b, name, parallel); failed != (b != none) {
					t.Errorf("%s, parallel %v, although %q: failed %v", name, parallel, b, failed)
				}
			}
		}
	}
}

// benchmarkFails runs one benchmark over a reference with the bug.
func benchmarkFails(x bug, name string, parallel bool) (failed bool) {
	h := harness(x)
	h.New = func(tb testing.TB) driver.Backend {
		tb.Helper()
		tb.Cleanup(func() { failed = failed || tb.Failed() })
		return full{newReference(x)}
	}
	testing.Benchmark(func(b *testing.B) { //nolint:thelper // it is the benchmark
		h.BenchOne(b, name, parallel)
	})
	return failed
}
