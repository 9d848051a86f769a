package casetest_test

import (
	"testing"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/casetest"
	"github.com/idem-go/idem/memstore"
)

// The cases hold on the reference, without a clock of their own.
func TestTheCasesHoldInMemory(t *testing.T) {
	t.Parallel()
	b := memstore.New(nil)
	casetest.Run(t, casetest.Harness{New: func(testing.TB) driver.Backend { return b }})
}
