package storetest_test

import (
	"testing"
	"testing/synctest"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
	"github.com/idem-go/idem/storetest"
)

// The tests of a backend: what it can do beyond the six methods is declared, and
// what is not declared is skipped by name. This one reads the clock of its own
// process, so it runs in bubbles.
func ExampleRun() {
	testConformance := func(t *testing.T) {
		t.Helper()
		storetest.Run(t, storetest.Harness{
			New:  func(testing.TB) driver.Backend { return memstore.New(nil) },
			Wrap: synctest.Test,
			Capabilities: storetest.Capabilities{
				Editor: true, Lister: true, Purger: true, Retainer: true, Watcher: true, InProcess: true,
			},
		})
	}
	benchmark := func(b *testing.B) {
		b.Helper()
		storetest.Bench(b, storetest.Harness{New: func(testing.TB) driver.Backend { return memstore.New(nil) }})
	}
	_, _ = testConformance, benchmark
}
