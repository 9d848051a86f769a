package movestore_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
	"github.com/idem-go/idem/movestore"
	"github.com/idem-go/idem/storetest"
)

func move(tb testing.TB, old, next driver.Backend, phase movestore.Phase) *movestore.Backend {
	tb.Helper()
	b, err := movestore.New(old, next, phase)
	require.NoError(tb, err)
	return b
}

// The contract holds in each phase, for processes of that phase.
func TestEachPhaseConforms(t *testing.T) {
	t.Parallel()
	for name, phase := range map[string]movestore.Phase{"both": movestore.Both, "new alone": movestore.NewAlone} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair := func(tb testing.TB) (a, b driver.Backend) {
				tb.Helper()
				old, next := memstore.New(nil), memstore.New(nil)
				return move(tb, old, next, phase), move(tb, old, next, phase)
			}
			storetest.Run(t, storetest.Harness{
				New:  func(tb testing.TB) driver.Backend { tb.Helper(); a, _ := pair(tb); return a },
				Pair: pair,
				Wrap: synctest.Test,
				Capabilities: storetest.Capabilities{
					Checker: true, Editor: true, Lister: true, Purger: true, Retainer: true, Watcher: true,
				},
			})
		})
	}
}
