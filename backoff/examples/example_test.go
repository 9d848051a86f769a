package examples_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/idem-go/idem/backoff"
	"github.com/sony/gobreaker/v2"

	"github.com/idem-go/idem/backoff/examples"
)

var errBusy = backoff.Mark(errors.New("busy"), backoff.Transient)

func ExampleGobreaker() {
	breaker := examples.Gobreaker(gobreaker.Settings{
		Timeout:     time.Minute,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 2 },
	})
	p := &backoff.Policy{MaxAttempts: 5, Base: backoff.NoDelay, Breaker: breaker}

	err := backoff.Run(context.Background(), p, func(context.Context) error { return errBusy })
	fmt.Println(err)
	fmt.Println(errors.Is(err, backoff.ErrOpen), errors.Is(err, gobreaker.ErrOpenState))
	// Output:
	// busy (backoff: breaker open: circuit breaker is open, 2 attempts)
	// true true
}

func ExampleFailsafe() {
	breaker := examples.Failsafe(circuitbreaker.NewBuilder[int]().WithFailureThreshold(2).WithDelay(time.Minute).Build())
	p := &backoff.Policy{MaxAttempts: 5, Base: backoff.NoDelay, Breaker: breaker}

	err := backoff.Run(context.Background(), p, func(context.Context) error { return errBusy })
	left, ok := backoff.Hint(err)
	fmt.Println(errors.Is(err, backoff.ErrOpen), errors.Is(err, circuitbreaker.ErrOpen))
	fmt.Println(ok, left.Round(time.Minute))
	// Output:
	// true true
	// true 1m0s
}
