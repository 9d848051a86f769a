package contention_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/backoff/internal/contention"
)

// table is that of backoff.md 2.1: an independent restatement of the model, with
// 1 000 repetitions.
func table() map[int][]contention.Cost {
	return map[int][]contention.Cost{
		10:  {{377, 50}, {3472, 51}, {736, 43}, {461, 39}, {436, 38}},
		50:  {{1138, 689}, {36381, 624}, {4254, 347}, {2867, 333}, {2219, 375}},
		100: {{2028, 2423}, {63409, 1855}, {6613, 812}, {4885, 796}, {4612, 1001}},
	}
}

// The delays of package backoff, in AWS's model, cost what its own delays cost:
// calls within 3 %, time within 6 %.
func TestTheSimulationReproducesTheTable(t *testing.T) {
	t.Parallel()
	for clients, want := range table() {
		for i, s := range contention.Strategies() {
			t.Run(fmt.Sprint(s.Name, clients), func(t *testing.T) {
				t.Parallel()
				got := contention.Average(s, clients, 200, rand.New(rand.NewPCG(2015, uint64(clients))))
				require.InEpsilon(t, want[i].Calls, got.Calls, 0.03)
				require.InEpsilon(t, want[i].Millis, got.Millis, 0.06)
			})
		}
	}
}

// The statements of AWS's article, at 100 clients.
func TestJitterCutsTheCallsToLessThanHalf(t *testing.T) {
	t.Parallel()
	cost := map[string]contention.Cost{}
	for _, s := range contention.Strategies() {
		cost[s.Name] = contention.Average(s, 100, 60, rand.New(rand.NewPCG(2015, 8)))
	}
	none, exponential, equal, full, decorrelated := cost["none"], cost["exponential"], cost["equal"], cost["full"], cost["decorrelated"]
	require.Less(t, full.Calls, equal.Calls)
	require.Less(t, equal.Calls, decorrelated.Calls)
	require.Less(t, decorrelated.Calls, exponential.Calls)
	require.Less(t, exponential.Calls, none.Calls)
	require.Less(t, full.Calls/exponential.Calls, 0.5)
	require.Less(t, full.Millis, equal.Millis)
	require.Less(t, equal.Millis, exponential.Millis)
}
