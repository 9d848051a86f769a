package pgstore_test

import (
	"testing"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/fieldcases"
)

// C01, C02, C05, C07, C08, C10, C13, C17, C25, C46 and C55, as on any backend.
func TestTheCasesFromTheFieldHoldOnPostgres(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pool := p.pool(t)
	fieldcases.Run(t, func(tb testing.TB) driver.Backend { tb.Helper(); return p.backend(tb, pool) })
}
