package storetest_test

import (
	"testing"

	"github.com/idem-go/idem/storetest"
)

func TestAnIntactBackendPasses(t *testing.T) {
	t.Parallel()
	storetest.Run(t, harness(none))
}

func TestAnIntactCachePasses(t *testing.T) {
	t.Parallel()
	storetest.RunCache(t, cacheHarness(none))
}
