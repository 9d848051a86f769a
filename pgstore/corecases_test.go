package pgstore_test

import (
	"testing"

	"github.com/idem-go/idem/internal/corecases"
)

// C01, C02, C05, C07, C08, C10, C13, C14, C17, C25, C28, C31, C32, C34, C46, C53,
// C55, C56, C58, C61: the cases that say nothing about a backend.
func TestTheCasesFromTheFieldHold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	corecases.Run(t, p.harness(p.pool(t)))
}
