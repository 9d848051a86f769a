package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func ignore(*message) {}

func TestAMessageComesAgainUntilItIsSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		var mu sync.Mutex
		tries := make(map[string][]int)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for m := range b.out {
					mu.Lock()
					tries[m.ID] = append(tries[m.ID], m.try)
					mu.Unlock()
					if m.try < 2 {
						b.again(m, time.Second)
					} else {
						b.settle(m)
					}
				}
			})
		}
		begun := time.Now()
		require.NoError(t, b.run(t.Context(), stream(newGenerator(300, 0, 1), ignore)))
		wg.Wait()
		require.Len(t, tries, 300)
		for id, seen := range tries {
			require.Equal(t, []int{0, 1, 2}, seen, id)
		}
		require.Equal(t, 2*time.Second, time.Since(begun), "neither sooner nor later")
	})
}

func TestTheBrokerWaitsForMessagesThatAreOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		go func() {
			m := <-b.out
			time.Sleep(time.Minute)
			b.again(m, time.Minute)
			b.settle(<-b.out)
		}()
		begun := time.Now()
		require.NoError(t, b.run(t.Context(), stream(&sliceSource{make([]delivery, 1)}, ignore)))
		require.Equal(t, 2*time.Minute, time.Since(begun))
	})
}

func TestTheBrokerReadsNoFurtherWhileTooManyMessagesWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		read := 0
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- b.run(ctx, stream(newGenerator(3*maxDelayed, 0, 1), func(*message) { read++ }))
		}()
		go func() {
			for m := range b.out {
				b.again(m, time.Hour)
			}
		}()
		synctest.Wait()
		require.GreaterOrEqual(t, read, maxDelayed)
		require.Less(t, read, maxDelayed+100)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

func TestTheBrokerEndsWithItsContextWhoeverHoldsAMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		b := newBroker()
		done := make(chan error)
		go func() { done <- b.run(ctx, stream(newGenerator(10, 0, 1), ignore)) }()
		m := <-b.out
		cancel(io.ErrUnexpectedEOF)
		require.ErrorIs(t, <-done, io.ErrUnexpectedEOF)
		b.again(m, time.Second) // must not block for ever
		_, open := <-b.out
		require.False(t, open)
	})
}

func TestAnErrorOfTheSourceIsReturnedAfterWhatWasReadIsSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		settled := 0
		go func() {
			for m := range b.out {
				settled++
				b.settle(m)
			}
		}()
		err := b.run(t.Context(), stream(&chain{newGenerator(7, 0, 1), brokenSource{}}, ignore))
		require.ErrorIs(t, err, errSource)
		require.Equal(t, 7, settled)
	})
}

var errSource = errors.New("disk on fire")

type brokenSource struct{}

func (brokenSource) next() (delivery, error) { return delivery{}, errSource }

func TestMessagesThatAreSentAgainKeepTheirIdentity(t *testing.T) {
	t.Parallel()
	var held []*message
	for i := range 3 {
		held = append(held, &message{delivery: delivery{ID: fmt.Sprint(i)}, number: int64(i + 10), try: i})
	}
	out := make(chan *message, 3)
	require.NoError(t, resend(held)(t.Context(), out))
	for i := range 3 {
		m := <-out
		require.Equal(t, int64(i+10), m.number)
		require.Equal(t, i+1, m.try, "another try, so another fate")
	}
}
