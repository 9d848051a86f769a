package memstore_test

import (
	"testing"

	"github.com/idem-go/idem/internal/corecases"
)

func TestTheCasesFromTheFieldHold(t *testing.T) {
	t.Parallel()
	corecases.Run(t, harness())
}

// On a real clock, as the other backends run them.
func TestTheCasesFromTheFieldHoldOnARealClock(t *testing.T) {
	t.Parallel()
	h := harness()
	h.Wrap = nil
	corecases.Run(t, h)
}
