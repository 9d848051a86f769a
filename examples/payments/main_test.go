package main

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/memstore"
)

func TestACustomerPaysOnceThoughTheFirstProcessDied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		require.NoError(t, run(t.Context(), &out))
		require.Equal(t, `first process: charged ch_1, and died
second process: attempt 2 asks the provider, found: true
second process: ch_1 over 4200, recovered: true, replayed: false
second process: ch_1 over 4200, recovered: true, replayed: true
charges at the provider: 1
`, out.String())
	})
}

func TestWithoutAChargeAtTheProviderTheOperationRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		bank := &provider{charges: make(map[string]Charge)}
		records := memstore.New(nil)
		b, err := newBilling(records, bank, &out)
		require.NoError(t, err)
		_, err = b.store.Claim(t.Context(), "charge:inv_1", 1e9) // died before it charged
		require.NoError(t, err)
		require.NoError(t, b.handle(t.Context(), "inv_1", 500))
		require.Equal(t, "second process: attempt 2 asks the provider, found: false\n"+
			"second process: ch_1 over 500, recovered: false, replayed: false\n", out.String())
	})
}
