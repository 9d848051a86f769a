package backoff_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/backoff"
)

// exact allows for the rounding of floats alone: a balance has nine decimals.
const exact = 1e-9

func TestABudgetOutOfItsBoundsIsRefused(t *testing.T) {
	t.Parallel()
	for _, opts := range []backoff.BudgetOptions{
		{Ratio: -0.1},
		{Ratio: 1.1},
		{Ratio: math.NaN()},
		{Ratio: math.Inf(1)},
		{Ratio: -2},
		{Burst: -1},
		{Burst: 1e9 + 1},
		{Burst: math.MaxInt},
		{PerSecond: -1},
		{PerSecond: math.NaN()},
		{PerSecond: math.Inf(1)},
		{Ratio: backoff.NoRatio},
		{Ratio: 1e-12},
	} {
		_, err := backoff.NewBudget(&opts)
		require.ErrorIs(t, err, backoff.ErrInvalidOption, "%+v", opts)
	}
	for _, opts := range []backoff.BudgetOptions{{}, {Ratio: 1}, {Ratio: 1e-9}, {Burst: 1e9}, {Ratio: backoff.NoRatio, PerSecond: 1}} {
		_, err := backoff.NewBudget(&opts)
		require.NoError(t, err, "%+v", opts)
	}
}

// backoff.md 2.4: what Finagle's defaults mean here. Five requests earn a retry
// at 20 %, ten at 10 %; the opening balance is full.
func TestRequestsEarnRetries(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		ratio           float64
		burst, requests int
	}{{0.2, 100, 5}, {0.1, 50, 10}, {0, 10, 10}, {1, 1, 1}, {0.3, 3, 4}} {
		b := newBudget(t, &backoff.BudgetOptions{Ratio: tc.ratio, Burst: tc.burst})
		require.InDelta(t, tc.burst, b.Balance(), 0, "a fresh process can retry")
		for range tc.burst {
			require.True(t, b.Withdraw())
		}
		require.False(t, b.Withdraw())
		require.InDelta(t, 0, b.Balance(), 0)
		for range tc.requests - 1 {
			b.Deposit()
			require.False(t, b.Withdraw())
		}
		b.Deposit()
		require.True(t, b.Withdraw(), "%+v", tc)
		require.False(t, b.Withdraw())
	}
}

func TestTheBalanceStaysWithinItsBounds(t *testing.T) {
	t.Parallel()
	b := newBudget(t, nil)
	for range 100 {
		b.Deposit()
		b.Refund()
		require.InDelta(t, 10, b.Balance(), 0)
	}
	for range 100 {
		b.Withdraw()
		require.GreaterOrEqual(t, b.Balance(), 0.0)
	}
	require.InDelta(t, 0, b.Balance(), 0)
}

func TestNoBudgetIsNoBound(t *testing.T) {
	t.Parallel()
	var b *backoff.Budget
	b.Deposit()
	b.Refund()
	require.True(t, b.Withdraw())
	require.Zero(t, b.Balance())
}

// backoff.md 4.19: a quiet client earns by time, whether or not it calls.
func TestTimeEarnsRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(t, &backoff.BudgetOptions{Ratio: backoff.NoRatio, PerSecond: 0.5, Burst: 4})
		for range 4 {
			require.True(t, b.Withdraw())
		}
		require.False(t, b.Withdraw())
		time.Sleep(2*time.Second - 1)
		require.False(t, b.Withdraw())
		time.Sleep(time.Nanosecond)
		require.InDelta(t, 1, b.Balance(), exact)
		require.True(t, b.Withdraw())
		require.False(t, b.Withdraw())
		require.InDelta(t, 0, b.Balance(), exact)
		b.Deposit()
		require.InDelta(t, 0, b.Balance(), exact, "requests earn nothing here")

		time.Sleep(24 * time.Hour)
		require.InDelta(t, 4, b.Balance(), exact, "no more than it holds")
		taken := 0
		for b.Withdraw() {
			taken++
		}
		require.Equal(t, 4, taken)
	})
}

// backoff.md 2.2: the SRE book's budget for a whole process, 60 retries a minute,
// and then fail without a retry.
func TestABudgetByTimeAloneIsTheSREBooksServerWideOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(t, &backoff.BudgetOptions{Ratio: backoff.NoRatio, PerSecond: 1, Burst: 1})
		p := &backoff.Policy{Budget: b, Base: backoff.NoDelay}
		const minutes = 10
		op := failing(transient())
		for range minutes * 60 * 20 { // an outage, at 20 requests a second
			require.ErrorIs(t, backoff.Run(t.Context(), p, op.run), errX)
			time.Sleep(time.Second / 20)
		}
		require.InDelta(t, minutes*60, op.count-minutes*60*20, 1, "retries")
	})
}

// The bound of the documentation, at every moment of many interleavings: after n
// requests and t seconds, retries ≤ Burst + Ratio·n + PerSecond·t.
func TestRetriesStayWithinTheBoundInEveryInterleaving(t *testing.T) {
	t.Parallel()
	const burst, ratio, perSecond = 7, 0.15, 3.0
	for _, tc := range []struct{ failing, refunded int }{{100, 0}, {100, 30}, {40, 10}, {5, 50}} {
		t.Run(fmt.Sprint(tc), func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			b := newBudget(t, &backoff.BudgetOptions{Ratio: ratio, Burst: burst, PerSecond: perSecond})
			var requests, retries, broken atomic.Int64
			var wg sync.WaitGroup
			for g := range 8 {
				rng := rand.New(rand.NewPCG(uint64(g), uint64(tc.failing)))
				wg.Go(func() {
					for range 5_000 {
						requests.Add(1) // before its deposit: so n is never too small
						b.Deposit()
						for range 2 {
							if rng.IntN(100) >= tc.failing || !b.Withdraw() {
								break
							}
							if rng.IntN(100) < tc.refunded {
								b.Refund() // not made
								break
							}
							made := retries.Add(1) // after its withdrawal: so never too large
							if float64(made) > burst+ratio*float64(requests.Load())+perSecond*time.Since(began).Seconds()+exact {
								broken.Add(1)
							}
							if balance := b.Balance(); balance < 0 || balance > burst {
								broken.Add(1)
							}
						}
					}
				})
			}
			wg.Wait()
			require.Zero(t, broken.Load())
			if tc.failing == 100 && tc.refunded == 0 {
				require.GreaterOrEqual(t, float64(retries.Load()), ratio*40_000, "and no retry is lost")
			}
		})
	}
}

// C59: an empty budget never stands in the way of a first attempt, says what it
// is, does not hide the target's error, costs no waiting, and refills.
func TestAnEmptyBudgetStopsRetriesAndRefills(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(t, nil)
		p := &backoff.Policy{Budget: b}
		for range 5 {
			requireStopped(t, backoff.Run(t.Context(), p, failing(transient()).run), backoff.ErrExhausted, 3)
		}
		require.InDelta(t, 4*0.1, b.Balance(), exact, "the first deposit found it full")

		began, op := time.Now(), failing(transient())
		e := stopped(t, backoff.Run(t.Context(), p, op.run), backoff.ErrBudget, 1)
		require.Equal(t, 1, op.count)
		require.Equal(t, transient(), e.Last)
		require.Zero(t, time.Since(began), "it does not wait for nothing")

		for range 100 {
			require.NoError(t, backoff.Run(t.Context(), p, failing(nil).run))
		}
		require.InDelta(t, 10, b.Balance(), exact)
		requireStopped(t, backoff.Run(t.Context(), p, failing(transient()).run), backoff.ErrExhausted, 3)
	})
}

// C59: each exit leaves the documented balance. A retry that is made costs one,
// whatever comes of it; one that is not made costs nothing.
func TestEveryExitLeavesTheDocumentedBalance(t *testing.T) {
	t.Parallel()
	const before, deposit = 5.0, 0.1
	for name, tc := range map[string]struct {
		errs    []error
		retries int
		change  func(p *backoff.Policy, cancel context.CancelFunc)
	}{
		"first attempt succeeds":     {errs: []error{nil}},
		"first attempt is permanent": {errs: []error{errX}},
		"retry succeeds":             {errs: []error{transient(), nil}, retries: 1},
		"retry is permanent":         {errs: []error{transient(), errX}, retries: 1},
		"attempts are exhausted":     {errs: []error{transient()}, retries: 2},
		"second retry succeeds":      {errs: []error{transient(), transient(), nil}, retries: 2},
		"context ends in the wait": {errs: []error{transient()}, change: func(p *backoff.Policy, cancel context.CancelFunc) {
			time.AfterFunc(time.Second, cancel)
			p.Base = time.Minute
		}},
		"context ends before the wait": {errs: []error{transient()}, change: func(p *backoff.Policy, cancel context.CancelFunc) {
			p.OnRetry = func(context.Context, backoff.Retry) { cancel() }
		}},
		"context ends in the retry":   {errs: []error{transient(), nil}, retries: 1, change: func(p *backoff.Policy, cancel context.CancelFunc) { p.Breaker = onAllow(2, cancel) }},
		"no time before the deadline": {errs: []error{transient()}, change: func(p *backoff.Policy, _ context.CancelFunc) { p.Base, p.Cap = 2*time.Hour, 3*time.Hour }},
		"hint too long":               {errs: []error{backoff.After(transient(), 2*time.Hour)}},
		"breaker refuses the retry":   {errs: []error{transient()}, change: func(p *backoff.Policy, _ context.CancelFunc) { p.Breaker = onAllow(2, nil) }},
		"breaker is known to refuse": {errs: []error{transient()}, change: func(p *backoff.Policy, _ context.CancelFunc) {
			p.Breaker, _ = backoff.NewCircuit(&backoff.CircuitOptions{MinCalls: 1})
		}},
		"first attempt panics": {errs: []error{errPanic}},
		"retry panics":         {errs: []error{transient(), errPanic}, retries: 1},
		"the hook panics before a retry": {errs: []error{transient()}, change: func(p *backoff.Policy, _ context.CancelFunc) {
			p.OnRetry = func(context.Context, backoff.Retry) { panic(errPanic) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBudget(t, nil)
				for range 5 {
					b.Withdraw()
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				p := &backoff.Policy{Budget: b, Base: time.Millisecond, Rand: most}
				if tc.change != nil {
					tc.change(p, cancel)
				}
				op := failing(tc.errs...)
				func() {
					defer func() { _ = recover() }()
					_ = backoff.Run(ctx, p, func(ctx context.Context) error {
						err := op.run(ctx)
						if err == errPanic { //nolint:errorlint // as given
							panic(err)
						}
						return err
					})
				}()
				require.Equal(t, tc.retries, op.count-1)
				require.InDelta(t, before+deposit-float64(tc.retries), b.Balance(), exact)
			})
		})
	}
}

var errPanic = fmt.Errorf("panics: %w", errX)

// onAllow returns a breaker that does something, or refuses, at its nth question.
func onAllow(n int, do func()) backoff.Breaker { return &counting{n: n, do: do} }

type counting struct {
	n  int
	do func()
}

func (c *counting) Allow() (func(error), error) {
	c.n--
	if c.n > 0 {
		return func(error) {}, nil
	}
	if c.do == nil {
		return nil, errX
	}
	c.do()
	return func(error) {}, nil
}

// A call that the breaker refused has put no load on the target, and earns
// nothing.
func TestARefusedRequestEarnsNothing(t *testing.T) {
	t.Parallel()
	b := newBudget(t, nil)
	b.Withdraw()
	requireStopped(t, backoff.Run(t.Context(), &backoff.Policy{Budget: b, Breaker: refusing{errX}}, failing(nil).run), backoff.ErrOpen, 0)
	requireStopped(t, backoff.Run(cancelled(t.Context(), nil), &backoff.Policy{Budget: b}, failing(nil).run), context.Canceled, 0)
	require.InDelta(t, 9, b.Balance(), exact)
}

// C59: policies share a budget only if they are given the same one.
func TestBudgetsDoNotAffectEachOther(t *testing.T) {
	t.Parallel()
	a, b := newBudget(t, nil), newBudget(t, nil)
	for range 20 {
		_ = backoff.Run(t.Context(), &backoff.Policy{Budget: a, Base: backoff.NoDelay}, failing(transient()).run)
	}
	require.Less(t, a.Balance(), 1.0)
	require.InDelta(t, 10, b.Balance(), 0)
	err := backoff.Run(t.Context(), &backoff.Policy{Budget: b, Base: backoff.NoDelay}, failing(transient()).run)
	requireStopped(t, err, backoff.ErrExhausted, 3)
}

// backoff.md 2.6: load per request and share of successes in per cent, for a
// failure probability per attempt and at most three attempts. Without a budget
// an outage triples the load; with it, it is 1 + Ratio for ever.
func TestLoadAndSuccessMatchTheTable(t *testing.T) {
	t.Parallel()
	const requests = 50_000
	probabilities := []float64{0.01, 0.10, 0.20, 0.50, 0.90, 1.00}
	for name, tc := range map[string]struct {
		ratio         float64
		load, success []float64
	}{
		"no budget":        {0, []float64{1.010, 1.110, 1.240, 1.749, 2.710, 3.000}, []float64{100, 99.90, 99.21, 87.5, 27.0, 0}},
		"per request 10 %": {0.1, []float64{1.010, 1.098, 1.100, 1.100, 1.100, 1.100}, []float64{100, 98.85, 88.0, 55.1, 11.0, 0}},
		"per request 20 %": {0.2, []float64{1.010, 1.110, 1.199, 1.200, 1.200, 1.200}, []float64{100, 99.90, 95.9, 60.0, 12.0, 0}},
	} {
		for i, probability := range probabilities {
			t.Run(fmt.Sprint(name, " ", probability), func(t *testing.T) {
				t.Parallel()
				p := &backoff.Policy{Base: backoff.NoDelay}
				if tc.ratio > 0 {
					p.Budget = newBudget(t, &backoff.BudgetOptions{Ratio: tc.ratio})
				}
				rng := rand.New(rand.NewPCG(26, uint64(i)))
				failure, calls, successes := transient(), 0, 0
				for range requests {
					err := backoff.Run(t.Context(), p, func(context.Context) error {
						calls++
						if rng.Float64() < probability {
							return failure
						}
						return nil
					})
					if err == nil {
						successes++
					}
				}
				require.InDelta(t, tc.load[i], float64(calls)/requests, 0.01)
				require.InDelta(t, tc.success[i], 100*float64(successes)/requests, 0.5)
				if tc.ratio > 0 {
					require.LessOrEqual(t, float64(calls-requests), 10+tc.ratio*requests+exact)
				}
			})
		}
	}
}
