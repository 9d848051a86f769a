package retry_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/benchmarks/retry"
)

func BenchmarkPeers(b *testing.B) {
	works, err := retry.Works(b.Context())
	require.NoError(b, err)
	for _, w := range works {
		for _, s := range w.Subjects {
			b.Run(w.Title+"/"+s.Name, func(b *testing.B) {
				b.ReportAllocs()
				s.Run(b)
			})
		}
	}
}
