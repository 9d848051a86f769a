// Package storetest is the conformance suite of the [driver] contract. It runs
// against any backend with one call, and needs the standard library only:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Harness{
//			New: func(tb testing.TB) driver.Backend { return mystore.New(client) },
//		})
//	}
//
// Each rule is a subtest of its own on keys of its own. A failure prints what
// happened, the last calls, and the sentence of the contract that was broken,
// so that the contract can be read in the failure. One broken rule does not
// hide another.
//
// A rule is skipped only when the [Harness] does not declare what it needs. The
// skip says what was not declared and what remained unchecked.
//
// # Time
//
// No rule depends on the speed of the machine. A lease that must be alive lasts
// an hour. A lease that must have ended lasts a tenth of [Harness.Unit], and the
// suite lets twice as much pass. A check that must come before some deadline
// looks at the local clock afterwards: if the answer may have come too late, the
// rule is run again with a doubled unit.
//
// A backend that reads the clock of its own process can run in
// [testing/synctest] bubbles, where hours take microseconds: set [Harness.Wrap]
// to synctest.Test.
//
// # Caches and benchmarks
//
// [RunCache] is the suite for [driver.Cache]. [Bench] runs the same benchmarks,
// with the same names, for every backend.
package storetest
