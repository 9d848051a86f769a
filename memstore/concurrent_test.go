package memstore_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
)

// I1, I11, C28: whatever was there before, one of many claims acquires.
func TestOneOfManyConcurrentClaimsAcquires(t *testing.T) {
	t.Parallel()
	for _, situation := range []string{"absent", "expired", "released", "doubtful", "held", "unknown"} {
		t.Run(situation, func(t *testing.T) {
			t.Parallel()
			inBubble(t, nil, func(t *testing.T, b *memstore.Backend) {
				situations()[situation](t, b)
				var acquired, inProgress atomic.Int64
				var wg sync.WaitGroup
				for i := range 50 {
					wg.Go(func() {
						res, err := b.Claim(t.Context(), params(100+i))
						switch {
						case err != nil:
						case res.Fact == driver.InProgress:
							inProgress.Add(1)
						case res.Record.Owner == owner(100+i):
							acquired.Add(1)
						}
					})
				}
				wg.Wait()
				require.EqualValues(t, 1, acquired.Load())
				require.EqualValues(t, 49, inProgress.Load())
			})
		})
	}
}

// I2. Tokens of different keys never meet either.
func TestConcurrentClaimsGetDistinctTokens(t *testing.T) {
	t.Parallel()
	b := memstore.New(nil)
	const callers, rounds = 8, 200
	tokens := make([][]uint64, callers)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for r := range rounds {
				p := params(c*rounds+r, forKey(string(rune('a'+c))))
				res, err := b.Claim(t.Context(), p)
				if err != nil || b.Release(t.Context(), driver.Ref{Key: p.Key, Owner: p.Owner}, &driver.ReleaseParams{Retention: retention}) != nil {
					return
				}
				tokens[c] = append(tokens[c], res.Record.Token)
			}
		})
	}
	wg.Wait()
	seen := make(map[uint64]bool)
	for c := range callers {
		require.Len(t, tokens[c], rounds)
		for i, token := range tokens[c] {
			require.False(t, seen[token])
			require.True(t, i == 0 || token > tokens[c][i-1])
			seen[token] = true
		}
	}
}
