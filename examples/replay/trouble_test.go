package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/memstore"
)

func TestAMessageIsDeliveredAgainNotSoonerThanTheErrorAsksForAndLaterEachTime(t *testing.T) {
	t.Parallel()
	longest := func(tries int, after time.Duration) time.Duration {
		most := time.Duration(0)
		for range 200 {
			m := &message{trouble: &trouble{since: time.Now(), tries: tries - 1}}
			pause, more := m.failed(ending{kind: waiting, after: after}, time.Now())
			require.True(t, more)
			require.GreaterOrEqual(t, pause, max(after, leastPause))
			most = max(most, pause)
		}
		return most
	}
	require.LessOrEqual(t, longest(1, 0), 2*leastPause)
	require.Greater(t, longest(4, 0), 4*leastPause)
	require.Greater(t, longest(50, 0), growingMost/2)
	require.LessOrEqual(t, longest(50, 0), leastPause+growingMost)
	require.Greater(t, longest(1, time.Second), time.Second)
}

func TestATroubleTellsItsReasons(t *testing.T) {
	t.Parallel()
	store, err := idem.New(memstore.New(nil), nil)
	require.NoError(t, err)
	_, busy := store.Execute(t.Context(), "k", func(ctx context.Context) (idem.Result, error) {
		_, err := store.Execute(ctx, "k", func(context.Context) (idem.Result, error) { return idem.Result{}, nil })
		return idem.Result{}, err
	})
	require.ErrorIs(t, busy, idem.ErrInProgress)
	var s slowest
	m := &message{delivery: delivery{ID: "dlv_1", Key: "k"}}
	s.settled(m, time.Now())
	require.Zero(t, s.d, "it met no trouble")
	begun := time.Now()
	for _, e := range []ending{
		{kind: waiting, err: busy},
		{kind: waiting, err: busy},
		{kind: killed},
		{kind: broken, err: errSilent},
		{kind: broken, err: errors.New("never seen before")},
	} {
		_, more := m.failed(e, begun)
		require.True(t, more)
	}
	s.settled(m, begun.Add(time.Minute))
	require.Equal(t, slowDelivery{
		"dlv_1", "k", time.Minute,
		"5 tries: 2 x in_progress, 1 x killed, 1 x provider: no answer in time, it may have charged, 1 x other; the last: never seen before",
	}, s.d)
}

func TestAMessageIsGivenUpByTimeAndNotByTries(t *testing.T) {
	t.Parallel()
	m := &message{}
	begun := time.Now()
	for range 10000 {
		_, more := m.failed(ending{kind: broken, err: errRefused}, begun.Add(giveUpAfter-1))
		require.True(t, more)
	}
	_, more := m.failed(ending{kind: broken, err: errRefused}, begun.Add(2*giveUpAfter))
	require.False(t, more)
}
