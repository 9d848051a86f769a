package memstore_test

import (
	"testing"
	"testing/synctest"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
	"github.com/idem-go/idem/storetest"
)

// The hooks that are left out have nothing to show here: no claim reads before
// it decides (Pause), no record can be damaged (Corrupt) or outlive its process
// (Restart), and no transaction holds one (Block).
func harness() storetest.Harness {
	return storetest.Harness{
		New:  func(testing.TB) driver.Backend { return memstore.New(nil) },
		Wrap: synctest.Test,
		Capabilities: storetest.Capabilities{
			Editor: true, Lister: true, Purger: true, Retainer: true, Reuser: true, Watcher: true, InProcess: true,
		},
	}
}

func TestTheBackendConforms(t *testing.T) {
	t.Parallel()
	storetest.Run(t, harness())
}

// A Cache in the process's own memory holds no garbage.
func TestTheCacheConforms(t *testing.T) {
	t.Parallel()
	storetest.RunCache(t, storetest.CacheHarness{
		New:  func(testing.TB) driver.Cache { return memstore.NewCache(nil) },
		Wrap: synctest.Test,
	})
}

func BenchmarkBackend(b *testing.B) {
	storetest.Bench(b, storetest.Harness{
		New: func(testing.TB) driver.Backend { return memstore.New(&memstore.Options{MaxBytes: 16 << 30}) },
	})
}
