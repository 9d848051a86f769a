package backoff_test

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/idem-go/idem/backoff"
)

func ExampleClassify() {
	for _, err := range []error{
		&net.OpError{Op: "dial", Err: errors.New("no route to host")},
		&net.OpError{Op: "read", Err: errReset},
		errors.New("card declined"),
	} {
		fmt.Println(backoff.Classify(err))
	}
	// Output:
	// transient
	// ambiguous
	// permanent
}

// A caller who knows more than the error says marks it. Here the provider
// documents that this answer comes before anything is booked.
func ExampleMark() {
	errBusy := errors.New("ledger is closing the day")
	err := fmt.Errorf("charge: %w", backoff.Mark(errBusy, backoff.Transient))

	fmt.Println(err)
	fmt.Println(backoff.Classify(err), errors.Is(err, errBusy))
	// Output:
	// charge: ledger is closing the day
	// transient true
}

func ExampleNothingSent() {
	refused := &net.OpError{Op: "dial", Err: errRefused}
	reset := &net.OpError{Op: "read", Err: errReset}

	fmt.Println(backoff.NothingSent(refused))
	fmt.Println(backoff.NothingSent(reset))
	// Two calls were made: it is not enough that one of them never left.
	fmt.Println(backoff.NothingSent(errors.Join(reset, refused)))
	// Output:
	// true
	// false
	// false
}

func ExampleAfter() {
	err := backoff.After(errors.New("too many requests"), 30*time.Second)

	d, ok := backoff.Hint(fmt.Errorf("charge: %w", err))
	fmt.Println(d, ok)
	// Output: 30s true
}
