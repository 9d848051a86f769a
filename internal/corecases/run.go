// Package corecases has the cases from the field that a Store must pass whatever
// its backend is: what went wrong for people who run such code in production.
// Their numbers (C02 …) are cited in the tests of all packages.
//
//	func TestTheCasesOfTheCore(t *testing.T) { corecases.Run(t, harness()) }
//
// The root package's tests have the same cases, and more of each, over memory in
// bubbles, where every instant can be chosen. Here nothing depends on the speed
// of a machine: a claim that must live lasts an hour, one that must end is waited
// for, and the order of events is the tests' choice.
package corecases

import (
	"crypto/rand"
	"encoding/hex"
	"testing"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/storetest"
)

// Run runs every case as a subtest over the backend that a harness of the
// conformance suite reaches. It uses New, Pair, Wrap, Corrupt and Capabilities.
func Run(t *testing.T, h storetest.Harness) {
	t.Helper()
	for _, one := range cases() {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			body := func(t *testing.T) { one.run(newBench(t, h)) } //nolint:thelper // the case itself
			if h.Wrap != nil {
				h.Wrap(t, body)
				return
			}
			body(t)
		})
	}
}

type testCase struct {
	name string
	run  func(b *bench)
}

func cases() []testCase {
	return []testCase{
		{"C01 an outcome is recorded although the caller has left", callerLeft},
		{"C01 a key is released although the caller has left", callerLeftFailing},
		{"C02 a stalled holder does not overwrite its successor", staleOutcome},
		{"C02 a stalled holder that fails frees nothing", staleFailure},
		{"C05 a completion that fails once is repeated", completionRepeated},
		{"C05 a completion that always fails is no failure of the operation", completionFails},
		{"C07 overlapping calls run once", overlap},
		{"C07 C61 a record without a deadline runs nothing", noDeadline},
		{"C08 a call rejected as a duplicate frees nothing", duplicateRejected},
		{"C08 a call rejected for its fingerprint frees nothing", mismatchRejected},
		{"C10 C14 a lost acknowledgement is no failure", lostAcknowledgement},
		{"C13 a crash blocks the key for its lease only", crash},
		{"C13 a crash under Hold is not run again in silence", crashUnderHold},
		{"C14 late copies of calls change nothing", lateCopies},
		{"C17 an operation is told that its key is gone", told},
		{"C25 any value can be recorded", anyValue},
		{"C28 of many takeovers one runs", takeovers},
		{"C31 a delayed takeover finds the result", takeoverFindsResult},
		{"C31 a delayed takeover finds another one", takeoverFindsAnother},
		{"C31 completions at the deadline and takeovers agree", deadlineRace},
		{"C32 three kinds of failure", failures},
		{"C32 an unknown end is resolved", resolved},
		{"C34 no key is refused before the operation", noKey},
		{"C46 keys are accepted or refused before the operation", keys},
		{"C53 edges of durations", durations},
		{"C53 an outcome is kept for its retention", retention},
		{"C55 a panic or Goexit leaves the key settled", panics},
		{"C56 a replayed failure is not taken for a fresh one", replayedFailure},
		{"C56 contention and contexts are not recorded", nothingRecorded},
		{"C58 a renewal must fit twice into the lease", renewals},
		{"C61 an unreadable record runs nothing", unreadable},
	}
}

// newBench opens two handles on the same data, and makes a namespace that no
// other case uses.
func newBench(t *testing.T, h storetest.Harness) *bench {
	t.Helper()
	b := &bench{TB: t, h: h}
	switch {
	case h.Pair != nil:
		b.one, b.two = h.Pair(t)
	case h.Capabilities.InProcess:
		b.one = h.New(t)
		b.two = b.one
	default:
		b.one, b.two = h.New(t), h.New(t)
	}
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	b.namespace = hex.EncodeToString(random)
	return b
}

// stored is the key under which the backend keeps the record.
func (b *bench) stored(key string) string { return driver.JoinKey(b.namespace, key) }
