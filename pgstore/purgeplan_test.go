package pgstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
)

// C40: a step is bounded whatever the planner believes of the table. A subquery
// that it runs anew for each row finds further rows each time.
func TestAStepIsBoundedWhateverTheStatisticsSay(t *testing.T) {
	t.Parallel()
	for name, analyze := range map[string]func(p place, exec func(sql string)){
		"none":            func(place, func(string)) {},
		"an empty table":  func(_ place, exec func(string)) { exec("DELETE FROM {records}"); exec("ANALYZE {records}") },
		"one record":      func(_ place, exec func(string)) { exec("ANALYZE {records}") },
		"a vacuumed one":  func(_ place, exec func(string)) { exec("VACUUM (ANALYZE) {records}") },
		"an emptied one":  func(_ place, exec func(string)) { exec("DELETE FROM {records}"); exec("VACUUM (ANALYZE) {records}") },
		"what is planted": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			pool := p.pool(t)
			exec := func(sql string) { p.exec(t, pool, sql) }
			model := storeOver(t, p.backend(t, pool), nil)
			_, err := model.Execute(t.Context(), "model", plain("x"))
			require.NoError(t, err)
			if analyze != nil {
				analyze(p, exec)
			}
			_, err = model.Execute(t.Context(), "model", plain("x"))
			require.NoError(t, err)
			p.plant(t, pool, join("model"), 100, "expires_at = clock_timestamp() - interval '1 hour'")
			if analyze == nil {
				exec("ANALYZE {records}")
			}
			last := int64(0)
			res, err := p.backend(t, pool).Purge(t.Context(), &driver.PurgeParams{Batch: 10, Progress: func(purged int64) {
				require.LessOrEqual(t, purged-last, int64(10))
				last = purged
			}})
			require.NoError(t, err)
			require.Equal(t, int64(100), res.Purged)
		})
	}
}
