package tieredstore_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
	"github.com/idem-go/idem/storetest"
	"github.com/idem-go/idem/tieredstore"
)

// over returns a tier that must be valid.
func over(tb testing.TB, fast driver.Cache, archive driver.Backend, opts *tieredstore.Options) *tieredstore.Backend {
	tb.Helper()
	b, err := tieredstore.New(fast, archive, opts)
	require.NoError(tb, err)
	return b
}

func memory() driver.Cache { return memstore.NewCache(nil) }

// inMemory is the harness for tiers that live in the process: pair makes two
// handles on one archive, as two processes have them.
func inMemory(pair func(tb testing.TB) (a, b driver.Backend)) storetest.Harness {
	return storetest.Harness{
		New:  func(tb testing.TB) driver.Backend { tb.Helper(); a, _ := pair(tb); return a },
		Pair: pair,
		Wrap: synctest.Test,
		Capabilities: storetest.Capabilities{
			Checker: true, Editor: true, Lister: true, Purger: true, Retainer: true, Watcher: true,
		},
	}
}

func TestMemoryBeforeMemoryConforms(t *testing.T) {
	t.Parallel()
	storetest.Run(t, inMemory(func(tb testing.TB) (a, b driver.Backend) {
		tb.Helper()
		fast, archive := memory(), memstore.New(nil)
		return over(tb, fast, archive, nil), over(tb, fast, archive, nil)
	}))
}

func TestThreeTiersOfMemoryConform(t *testing.T) {
	t.Parallel()
	storetest.Run(t, inMemory(func(tb testing.TB) (a, b driver.Backend) {
		tb.Helper()
		first, second, archive := memory(), memory(), memstore.New(nil)
		three := func() driver.Backend { return over(tb, first, over(tb, second, archive, nil), nil) }
		return three(), three()
	}))
}
