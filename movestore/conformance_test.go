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

// unedited is a Backend without its edits: an edit of two stores is no single step,
// and says so with errors of its own when another call comes between. Tests of
// their own show what edits do.
type unedited struct {
	driver.Backend
	driver.Checker
	driver.Lister
	driver.Purger
	driver.Retainer
	driver.Watcher
}

func without(edits bool, m *movestore.Backend) driver.Backend {
	if edits {
		return m
	}
	return unedited{m, m, m, m, m, m}
}

// The contract holds in each phase, for processes of that phase.
func TestEachPhaseConforms(t *testing.T) {
	t.Parallel()
	for name, phase := range map[string]movestore.Phase{"both": movestore.Both, "new alone": movestore.NewAlone} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			edits := phase == movestore.NewAlone // the old store has nothing
			pair := func(tb testing.TB) (a, b driver.Backend) {
				tb.Helper()
				old, next := memstore.New(nil), memstore.New(nil)
				return without(edits, move(tb, old, next, phase)), without(edits, move(tb, old, next, phase))
			}
			storetest.Run(t, storetest.Harness{
				New:  func(tb testing.TB) driver.Backend { tb.Helper(); a, _ := pair(tb); return a },
				Pair: pair,
				Wrap: synctest.Test,
				Capabilities: storetest.Capabilities{
					Checker: true, Editor: edits, Lister: true, Purger: true, Retainer: true, Watcher: true,
				},
			})
		})
	}
}
