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
			Editor: true, Lister: true, Purger: true, Retainer: true, Watcher: true, InProcess: true,
		},
	}
}

func TestTheBackendConforms(t *testing.T) {
	t.Parallel()
	storetest.Run(t, harness())
}
