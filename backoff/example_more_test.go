package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/idem-go/idem/backoff"
)

// A client of one server: three attempts at most, each with its own time, retries
// held to a tenth of the requests, and none while the server is down.
func Example() {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()

	budget, err := backoff.NewBudget(nil) // one for each target
	if err != nil {
		panic(err)
	}
	circuit, err := backoff.NewCircuit(nil) // one for each target
	if err != nil {
		panic(err)
	}
	policy := &backoff.Policy{
		Timeout:       2 * time.Second,
		Budget:        budget,
		Breaker:       circuit,
		ThrottledBase: time.Millisecond, // a second, if it is left alone
	}
	status, err := backoff.Do(context.Background(), policy, func(ctx context.Context) (int, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			return 0, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, errors.Join(backoff.Response(resp), resp.Body.Close())
	})
	fmt.Println(status, err, calls, "calls")
	// Output: 200 <nil> 3 calls
}

// A mark survives wrapping; what Classify reads from an error is none.
func ExampleMarked() {
	declined := fmt.Errorf("charge: %w", backoff.Mark(errors.New("card declined"), backoff.Permanent))
	fmt.Println(backoff.Marked(declined))
	fmt.Println(backoff.Marked(context.DeadlineExceeded))
	// Output:
	// permanent true
	// unclassified false
}

// A worker puts the work aside for as long as the server asks for.
func ExampleHint() {
	err := backoff.Run(context.Background(), &backoff.Policy{MaxHint: 5 * time.Second}, func(context.Context) error {
		return backoff.Response(&http.Response{
			StatusCode: http.StatusTooManyRequests,
			Header:     http.Header{"Retry-After": {"300"}},
		})
	})
	if after, ok := backoff.Hint(err); ok && errors.Is(err, backoff.ErrHint) {
		fmt.Println("again in", after)
	}
	// Output: again in 5m0s
}

// onlyAtNight is a breaker: one method.
type onlyAtNight struct{ hour int }

func (b onlyAtNight) Allow() (done func(error), err error) {
	if b.hour >= 6 && b.hour < 22 {
		return nil, errors.New("batch calls are for the night")
	}
	return func(error) {}, nil
}

// Whatever has the one method fits: breakers of other libraries, and own rules.
func ExampleBreaker() {
	op := func(context.Context) error { return nil }
	fmt.Println(backoff.Run(context.Background(), &backoff.Policy{Breaker: onlyAtNight{23}}, op))
	fmt.Println(backoff.Run(context.Background(), &backoff.Policy{Breaker: onlyAtNight{12}}, op))
	// Output:
	// <nil>
	// backoff: not attempted: breaker open: batch calls are for the night
}

// A loop of another kind keeps the same books: a request earns, a retry costs, and
// what was taken and is not used is given back.
func ExampleBudget_Withdraw() {
	budget, err := backoff.NewBudget(&backoff.BudgetOptions{Burst: 2})
	if err != nil {
		panic(err)
	}
	redeliveries := 0
	for range 5 { // messages, of which each fails once
		budget.Deposit()
		if budget.Withdraw() {
			redeliveries++
		}
	}
	fmt.Printf("%d redelivered; %.1f left\n", redeliveries, budget.Balance())
	// Output: 2 redelivered; 0.4 left
}

// The context's cause, its own error and the operation's last one all match.
func ExampleError_context() {
	errShutdown := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(context.Background())
	err := backoff.Run(ctx, nil, func(context.Context) error {
		cancel(errShutdown)
		return errBusy
	})
	fmt.Println(err)
	fmt.Println(errors.Is(err, errShutdown), errors.Is(err, context.Canceled), errors.Is(err, errBusy))
	// Output:
	// busy (backoff: shutting down, 1 attempt)
	// true true true
}

// The last value comes with the error: here, how far it got.
func ExampleDo_lastValue() {
	copied := 0
	n, err := backoff.Do(context.Background(), &backoff.Policy{Base: backoff.NoDelay}, func(context.Context) (int, error) {
		copied += 10
		return copied, errBusy
	})
	fmt.Println(n, err)
	// Output: 30 busy (backoff: attempts exhausted, 3 attempts)
}

// For ever means until the context ends.
func ExamplePolicy_unlimited() {
	p := &backoff.Policy{MaxAttempts: backoff.Unlimited, Base: time.Microsecond, Cap: time.Microsecond}
	fmt.Println(backoff.Do(context.Background(), p, flaky(0)))

	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	fmt.Println(backoff.Do(ctx, p, flaky(20)))
	// Output:
	//  backoff: invalid option: MaxAttempts is Unlimited, and the context cannot end
	// done <nil>
}
