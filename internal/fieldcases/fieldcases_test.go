package fieldcases_test

import (
	"testing"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/fieldcases"
	"github.com/idem-go/idem/memstore"
)

func TestTheReferencePassesOnARealClock(t *testing.T) {
	t.Parallel()
	b := memstore.New(nil)
	fieldcases.Run(t, func(testing.TB) driver.Backend { return b })
}
