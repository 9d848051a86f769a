package idem_test

import (
	"context"
	"fmt"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backoff"
)

// A duplicate that meets a running operation does not poll: it waits as long as
// the error says, and then finds the outcome.
func ExampleStore_Execute_inALoop() {
	ctx := context.Background()
	store := mustStore()
	claim, err := store.Claim(ctx, "charge:inv_8842", 30*time.Second) // somebody else is at it
	if err != nil {
		fmt.Println(err)
		return
	}
	waits := &backoff.Policy{MaxAttempts: 10, OnRetry: func(ctx context.Context, r backoff.Retry) {
		fmt.Println(r.Class, r.Delay >= 100*time.Millisecond)
		if err := store.Record(ctx, claim, idem.Result{Value: []byte("charged")}); err != nil { // and is done meanwhile
			fmt.Println(err)
		}
	}}
	res, err := backoff.Do(ctx, waits, func(ctx context.Context) (idem.Result, error) {
		return store.Execute(ctx, "charge:inv_8842", func(context.Context) (idem.Result, error) {
			return idem.Result{}, fmt.Errorf("charged twice")
		})
	})
	fmt.Printf("%s %t %v\n", res.Value, res.Replayed, err)
	// Output:
	// transient true
	// charged true <nil>
}
