// Quickstart charges an invoice, gets the same message again, and charges
// nothing: the second call is answered from what the first one recorded.
//
//	go run ./examples/quickstart
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/memstore"
)

// Charge is what the payment provider answers.
type Charge struct {
	ID     string
	Amount int
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer) error {
	store, err := idem.New(memstore.New(nil), &idem.Options{Namespace: "billing"})
	if err != nil {
		return err
	}
	for range 2 { // the queue delivers the message twice
		var res idem.Result
		charge, err := idem.Do(ctx, store, "charge:inv_8842", func(_ context.Context, claim *idem.Claim) (Charge, error) {
			return pay(w, claim.ProviderKey("payments"), 4200)
		}, idem.ReportTo(&res))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s over %d, replayed: %t\n", charge.ID, charge.Amount, res.Replayed); err != nil {
			return err
		}
	}
	return store.Close(ctx)
}

// pay stands for the call of a provider that deduplicates by the key it is
// sent, so that an attempt whose end nobody saw may be repeated.
func pay(w io.Writer, key string, amount int) (Charge, error) {
	_, err := fmt.Fprintf(w, "charging %d with key %s\n", amount, key)
	return Charge{ID: "ch_1", Amount: amount}, err
}
