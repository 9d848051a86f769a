package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/idem-go/idem/backoff"
)

var errBusy = backoff.Mark(errors.New("busy"), backoff.Transient)

// flaky returns an operation that fails a few times, then succeeds.
func flaky(failures int) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		if failures--; failures >= 0 {
			return "", errBusy
		}
		return "done", nil
	}
}

func ExampleDo() {
	ctx := context.Background()
	v, err := backoff.Do(ctx, &backoff.Policy{Base: time.Millisecond}, flaky(2))
	fmt.Println(v, err)

	_, err = backoff.Do(ctx, &backoff.Policy{Base: time.Millisecond}, flaky(9))
	fmt.Println(err)
	// Output:
	// done <nil>
	// busy (backoff: attempts exhausted, 3 attempts)
}

func ExampleRun() {
	err := backoff.Run(context.Background(), nil, func(context.Context) error {
		return errors.New("card declined") // nobody has said that this is worth a retry
	})
	fmt.Println(err)
	// Output: card declined (backoff: permanent failure, 1 attempt)
}

// One value says why the loop ended, and what the operation said.
func ExampleError() {
	_, err := backoff.Do(context.Background(), &backoff.Policy{Base: backoff.NoDelay}, flaky(9))

	var e *backoff.Error
	if errors.As(err, &e) {
		fmt.Println(e.Attempts, "attempts")
		fmt.Println("reason:", e.Reason)
		fmt.Println("last:", e.Last)
	}
	fmt.Println(errors.Is(err, backoff.ErrExhausted), errors.Is(err, errBusy))
	// Output:
	// 3 attempts
	// reason: attempts exhausted
	// last: busy
	// true true
}

// With a minute left and ten to wait there is no point in waiting.
func ExampleErrDeadline() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	began := time.Now()
	_, err := backoff.Do(ctx, &backoff.Policy{Base: 10 * time.Minute, Cap: time.Hour, Jitter: backoff.None}, flaky(1))

	fmt.Println(err)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), time.Since(began) < time.Minute)
	// Output:
	// busy (backoff: no time left before the deadline, 1 attempt)
	// true true
}

// Delays are a pure function, of use without a loop.
func ExamplePolicy_Delay() {
	const quarter = 1 << 62 // a random number: a quarter of the way
	for _, j := range []backoff.Jitter{backoff.Full, backoff.Equal, backoff.None} {
		p := &backoff.Policy{Base: 100 * time.Millisecond, Cap: time.Second, Jitter: j}
		fmt.Print(j, ":")
		for attempt := 1; attempt <= 5; attempt++ {
			fmt.Print(" ", p.Delay(attempt, 0, quarter))
		}
		fmt.Println()
	}
	// Output:
	// full: 25ms 50ms 100ms 200ms 250ms
	// equal: 62.5ms 125ms 250ms 500ms 625ms
	// none: 100ms 200ms 400ms 800ms 1s
}

// A decorrelated delay goes by the one before.
func ExampleJitter_decorrelated() {
	p := &backoff.Policy{Base: 100 * time.Millisecond, Cap: 10 * time.Second, Jitter: backoff.Decorrelated}
	prev := time.Duration(0)
	for attempt := 1; attempt <= 4; attempt++ {
		prev = p.Delay(attempt, prev, 1<<63) // half of the way
		fmt.Println(prev)
	}
	// Output:
	// 200ms
	// 350ms
	// 575ms
	// 912.5ms
}

func ExamplePolicy_Validate() {
	err := (&backoff.Policy{Cap: -time.Second}).Validate()
	fmt.Println(err, errors.Is(err, backoff.ErrInvalidOption))
	// Output: backoff: invalid option: Cap is negative: -1s true
}

// Without a key, what may have been applied is not tried again.
func ExamplePolicy_unrepeatable() {
	p := &backoff.Policy{Unrepeatable: true}
	err := backoff.Run(context.Background(), p, func(context.Context) error {
		return fmt.Errorf("reading the answer: %w", io.ErrUnexpectedEOF)
	})
	fmt.Println(errors.Is(err, backoff.ErrAmbiguous))
	// Output: true
}

// Each attempt gets its own time; that one runs out of it is ambiguous, and is
// retried.
func ExamplePolicy_timeout() {
	p := &backoff.Policy{MaxAttempts: 2, Timeout: time.Millisecond, Base: backoff.NoDelay}
	err := backoff.Run(context.Background(), p, func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	fmt.Println(err)
	// Output: backoff: attempt timed out after 1ms (backoff: attempts exhausted, 2 attempts)
}

func ExamplePolicy_onRetry() {
	p := &backoff.Policy{
		Base: backoff.NoDelay,
		OnRetry: func(_ context.Context, r backoff.Retry) {
			fmt.Printf("attempt %d failed (%v): %v; next in %v\n", r.Failed, r.Class, r.Err, r.Delay)
		},
	}
	v, err := backoff.Do(context.Background(), p, flaky(2))
	fmt.Println(v, err)
	// Output:
	// attempt 1 failed (transient): busy; next in 0s
	// attempt 2 failed (transient): busy; next in 0s
	// done <nil>
}

// An own classifier judges what the package does not know, and leaves the rest.
func ExamplePolicy_classify() {
	errReplica := errors.New("replica is behind")
	p := &backoff.Policy{Base: backoff.NoDelay, Classify: func(err error) backoff.Class {
		if errors.Is(err, errReplica) {
			return backoff.Transient
		}
		return 0
	}}
	err := backoff.Run(context.Background(), p, func(context.Context) error { return errReplica })
	fmt.Println(err)
	// Output: replica is behind (backoff: attempts exhausted, 3 attempts)
}

// One budget for each target: retries end, first attempts go on.
func ExampleBudget() {
	budget, err := backoff.NewBudget(&backoff.BudgetOptions{Ratio: 0.1, Burst: 3})
	if err != nil {
		panic(err)
	}
	p := &backoff.Policy{Base: backoff.NoDelay, Budget: budget}
	for range 3 {
		_, err = backoff.Do(context.Background(), p, flaky(9))
		fmt.Printf("%v; %.1f left\n", err, budget.Balance())
	}
	// Output:
	// busy (backoff: attempts exhausted, 3 attempts); 1.0 left
	// busy (backoff: retry budget empty, 2 attempts); 0.1 left
	// busy (backoff: retry budget empty, 1 attempt); 0.2 left
}

// One circuit for each target. When it opens, loops end, and know until when.
func ExampleCircuit() {
	circuit, err := backoff.NewCircuit(&backoff.CircuitOptions{
		MinCalls: 2, Open: time.Hour,
	})
	if err != nil {
		panic(err)
	}
	p := &backoff.Policy{Base: backoff.NoDelay, Breaker: circuit}
	_, err = backoff.Do(context.Background(), p, flaky(9))
	left, _ := backoff.Hint(err)
	fmt.Println(errors.Is(err, backoff.ErrOpen), circuit.Stats().State, left > 0)
	// Output: true open true
}

// A circuit without a loop.
func ExampleCircuit_Allow() {
	circuit, err := backoff.NewCircuit(nil)
	if err != nil {
		panic(err)
	}
	done, err := circuit.Allow()
	if err != nil {
		return // open
	}
	_, err = flaky(0)(context.Background())
	done(err)
	fmt.Printf("%+v\n", circuit.Stats())
	// Output: {State:closed Calls:1 Failures:0 OpenFor:0s}
}

// Loops in loops are one, unless the inner work is detached.
func ExampleDetach() {
	p := &backoff.Policy{Base: backoff.NoDelay}
	for _, detached := range []bool{false, true} {
		calls := 0
		_ = backoff.Run(context.Background(), p, func(ctx context.Context) error {
			if detached {
				ctx = backoff.Detach(ctx)
			}
			return backoff.Run(ctx, p, func(context.Context) error { calls++; return errBusy })
		})
		fmt.Println(calls, "calls")
	}
	// Output:
	// 3 calls
	// 9 calls
}

// An answer of an HTTP server becomes an error with a class and a hint.
func ExampleResponse() {
	resp := &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"7"}}}
	err := backoff.Response(resp)

	hint, _ := backoff.Hint(err)
	fmt.Println(err, backoff.Classify(err), hint)
	// Output: http status 503 Service Unavailable throttled 7s
}

func ExampleRetryAfter() {
	h := http.Header{"Date": {"Sun, 29 Nov 2026 10:00:00 GMT"}, "Retry-After": {"Sun, 29 Nov 2026 10:02:00 GMT"}}
	fmt.Println(backoff.RetryAfter(h))
	// Output: 2m0s true
}

// Beyond MaxHint the loop ends, and the work can be put aside for as long.
func ExampleErrHint() {
	err := backoff.Run(context.Background(), nil, func(context.Context) error {
		return backoff.After(errBusy, time.Hour)
	})
	hint, _ := backoff.Hint(err)
	fmt.Println(errors.Is(err, backoff.ErrHint), hint)
	// Output: true 1h0m0s
}
