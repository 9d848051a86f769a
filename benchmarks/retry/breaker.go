package retry

import (
	"math/rand/v2"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/idem-go/idem/backoff"
	"github.com/sony/gobreaker/v2"
)

func random() uint64 { return rand.Uint64() }

// BreakerPeer is a circuit breaker of a library.
type BreakerPeer struct {
	Name string
	// Call asks a closed breaker and reports a success. It reports whether the
	// breaker let it pass.
	Call func() bool
}

// Breakers returns breakers with a rolling window of 10 s that open when half of
// at least 20 calls fail; idem first.
func Breakers() ([]BreakerPeer, error) {
	circuit, err := backoff.NewCircuit(nil)
	if err != nil {
		return nil, err
	}
	settings := gobreaker.Settings{
		Interval: 10 * time.Second, BucketPeriod: time.Second,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.Requests >= 20 && 2*c.TotalFailures >= c.Requests },
	}
	sony, around := gobreaker.NewTwoStepCircuitBreaker[int](settings), gobreaker.NewCircuitBreaker[int](settings)
	failsafe := circuitbreaker.NewBuilder[int]().WithFailureRateThreshold(0.5, 20, 10*time.Second).Build()
	return []BreakerPeer{
		{Idem, func() bool { return pass(circuit) }},
		{"gobreaker 2.4, two steps", func() bool { return pass(sony) }},
		{"gobreaker 2.4, around a call", func() bool {
			_, err := around.Execute(func() (int, error) { return 0, nil })
			return err == nil
		}},
		{"failsafe-go 0.9", func() bool {
			ok := failsafe.TryAcquirePermit()
			if ok {
				failsafe.RecordSuccess()
			}
			return ok
		}},
	}, nil
}

func pass(b backoff.Breaker) bool {
	done, err := b.Allow()
	if err == nil {
		done(nil)
	}
	return err == nil
}
