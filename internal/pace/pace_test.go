package pace_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem/internal/pace"
)

func TestWorkIsHeldToItsRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, began := pace.New(10), time.Now()
		for range 5 {
			time.Sleep(150 * time.Millisecond) // the step itself
			p.Wait(t.Context(), 2)
		}
		require.Equal(t, time.Second, time.Since(began))
	})
}

func TestASlowStepIsFollowedByNoBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, began := pace.New(10), time.Now()
		time.Sleep(time.Minute)
		p.Wait(t.Context(), 10)
		require.Equal(t, time.Minute, time.Since(began))
		p.Wait(t.Context(), 10)
		require.Equal(t, time.Minute+time.Second, time.Since(began))
	})
}

func TestWithoutARateNothingWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		(*pace.Pace)(nil).Wait(t.Context(), 1000)
		new(pace.Pace).Wait(t.Context(), 1000)
		pace.New(-1).Wait(t.Context(), 1000)
		require.Zero(t, time.Since(began))
	})
}

func TestTheEndOfTheContextEndsTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		pace.New(1).Wait(ctx, 1000)
		require.Equal(t, time.Second, time.Since(began))
	})
}
