package main

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// calm returns a request whose fate is to be answered.
func calm(t *testing.T, seed uint64, key string) request {
	t.Helper()
	return fated(t, seed, key, false, false)
}

// fated returns a request with the given fate.
func fated(t *testing.T, seed uint64, key string, refused, silent bool) request {
	t.Helper()
	for i := range 10000 {
		nonce := fmt.Sprint("dlv_", i)
		if throw(seed, "refuse", nonce, 0).hits(shareRefused) == refused && throw(seed, "silence", nonce, 0).hits(shareSilent) == silent {
			return request{key: key, reference: "charge:inv_1", source: "card_1", amount: 500, nonce: nonce}
		}
	}
	require.FailNow(t, "no such request")
	return request{}
}

func TestTheProviderDeduplicatesWhatComesOneAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(1, time.Millisecond, false)
		first, err := p.charge(t.Context(), calm(t, 1, "k"))
		require.NoError(t, err)
		require.Equal(t, receipt{Charge: "ch_00000001", Reference: "charge:inv_1", Amount: 500}, first)
		again, err := p.charge(t.Context(), calm(t, 1, "k"))
		require.NoError(t, err)
		require.Equal(t, first, again)
		require.Equal(t, 1, p.ledger.len())

		other := calm(t, 1, "k")
		other.amount++
		_, err = p.charge(t.Context(), other)
		require.ErrorIs(t, err, errOtherUse)
		require.Equal(t, 1, p.ledger.len())

		_, err = p.charge(t.Context(), calm(t, 1, ""))
		require.NoError(t, err)
		require.Equal(t, 2, p.ledger.len(), "without a key there is no deduplication")
	})
}

func TestTheProviderChargesTwiceWhatOverlaps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(1, time.Millisecond, false)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { _, _ = p.charge(t.Context(), calm(t, 1, "k")) })
		}
		wg.Wait()
		require.Equal(t, 2, p.ledger.len())
	})
}

// A stall of this process must not be judged as a double effect: what the first
// request is stopped for, the provider is not.
func TestTheProviderHasEndedARequestThatThisProcessDidNotGetToNotice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(1, time.Millisecond, false)
		r := calm(t, 1, "k")
		stopped, sent := p.arrive(r)
		require.True(t, sent)
		time.Sleep(2 * time.Millisecond) // longer than any request takes; nobody called leave
		second, sent := p.arrive(r)
		require.True(t, sent)
		require.True(t, second.known, "the first one came to its end before")
		p.leave(second)
		p.leave(stopped)
		require.Equal(t, 1, p.ledger.len())
		require.Empty(t, p.under)
	})
}

func TestARequestIsNotSentAfterItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(1, time.Millisecond, false)
		r := calm(t, 1, "k")
		r.until = time.Now()
		time.Sleep(time.Nanosecond)
		_, err := p.charge(t.Context(), r)
		require.ErrorIs(t, err, errRefused)
		r.until = time.Now()
		_, err = p.charge(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, 1, p.ledger.len())
	})
}

func TestAForgetfulProviderChargesEachTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(1, time.Millisecond, true)
		for range 3 {
			_, err := p.charge(t.Context(), calm(t, 1, "k"))
			require.NoError(t, err)
		}
		require.Equal(t, 3, p.ledger.len())
	})
}

func TestWhatTheProviderRefusesIsNotCharged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(1, time.Millisecond, false)
		_, err := p.charge(t.Context(), fated(t, 1, "k", true, false))
		require.ErrorIs(t, err, errRefused)
		declined := calm(t, 1, "k")
		declined.source = declinedSource
		_, err = p.charge(t.Context(), declined)
		require.ErrorIs(t, err, errDeclined)
		ended, end := context.WithCancel(t.Context())
		end()
		_, err = p.charge(ended, calm(t, 1, "k"))
		require.ErrorIs(t, err, errRefused, "it was not sent")
		require.Zero(t, p.ledger.len())
	})
}

func TestASilentProviderHasCharged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(1, time.Millisecond, false)
		begun := time.Now()
		_, err := p.charge(t.Context(), fated(t, 1, "k", false, true))
		require.ErrorIs(t, err, errSilent)
		require.GreaterOrEqual(t, time.Since(begun), patience)
		require.Equal(t, 1, p.ledger.len())
		got, err := p.charge(t.Context(), calm(t, 1, "k"))
		require.NoError(t, err)
		require.Equal(t, "ch_00000001", got.Charge, "the retry gets the receipt that was lost")
	})
}

func TestARequestThatWasSentIsCarriedOutAfterItsCallerIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(1, time.Millisecond, false)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Microsecond)
		defer cancel()
		_, err := p.charge(ctx, calm(t, 1, "k"))
		require.ErrorIs(t, err, errSilent)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, p.ledger.len())
	})
}

func TestTheBackOfficeFindsTheFirstChargeOfAnOperation(t *testing.T) {
	t.Parallel()
	p := newProvider(1, 0, true)
	for range 2 {
		_, err := p.charge(t.Context(), calm(t, 1, "k"))
		require.NoError(t, err)
	}
	find := p.search()
	r, ok := find("charge:inv_1")
	require.True(t, ok)
	require.Equal(t, "ch_00000001", r.Charge)
	_, ok = find("charge:inv_2")
	require.False(t, ok)
}
