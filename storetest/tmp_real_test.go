package storetest_test

import (
	"testing"
	"time"

	"github.com/idem-go/idem/storetest"
)

func TestTmpReal(t *testing.T) {
	h := harness(none)
	h.Wrap = nil
	h.Unit = 0
	h.Rounds = 20
	_ = time.Second
	storetest.Run(t, h)
}
