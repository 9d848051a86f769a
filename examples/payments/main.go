// Payments survives the failure that no retry survives by itself: a process
// charges a card and dies before anybody has written that down. The message
// comes again. Two things keep the customer from paying twice, and each would be
// enough: the provider key, by which the provider recognises the attempt, and a
// recovery, which asks the provider before anything runs again.
//
//	go run ./examples/payments
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/backoff"
	"github.com/idem-go/idem/memstore"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer) error {
	records := memstore.New(nil) // Redis or Postgres, where processes are to share it
	bank := &provider{charges: make(map[string]Charge)}

	// The first process gets as far as the charge.
	first, err := newBilling(records, bank, w)
	if err != nil {
		return err
	}
	if err := first.dieAfterCharging(ctx, "inv_8842", 4200); err != nil {
		return err
	}

	// The message is delivered again, to another one; and then once more.
	second, err := newBilling(records, bank, w)
	if err != nil {
		return err
	}
	for range 2 {
		if err := second.handle(ctx, "inv_8842", 4200); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(w, "charges at the provider: %d\n", len(bank.charges))
	return errors.Join(err, first.store.Close(ctx), second.store.Close(ctx))
}

// billing is one process that handles messages.
type billing struct {
	store *idem.Store
	bank  *provider
	w     io.Writer
}

func newBilling(records *memstore.Backend, bank *provider, w io.Writer) (*billing, error) {
	store, err := idem.New(records, &idem.Options{
		Namespace: "billing", // part of every provider key
		Lease:     time.Second,
		Observer:  idem.Discard, // it would log the takeover, which is told below
	})
	return &billing{store, bank, w}, err
}

// key of the operation: it names the intent, not the message.
func key(invoice string) (string, error) { return idem.Key("charge", invoice) }

// dieAfterCharging is what a process does that is killed at the worst moment: it
// has claimed the key and charged the card, and nothing is recorded.
func (b *billing) dieAfterCharging(ctx context.Context, invoice string, amount int) error {
	k, err := key(invoice)
	if err != nil {
		return err
	}
	claim, err := b.store.Claim(ctx, k, 200*time.Millisecond)
	if err != nil {
		return err
	}
	charge := b.bank.charge(claim.ProviderKey("bank"), amount)
	_, err = fmt.Fprintf(b.w, "first process: charged %s, and died\n", charge.ID)
	return err
}

// handle is the message handler. While the dead process's lease lasts, the call
// is told how long to wait; then it takes over, and the recovery is asked first.
func (b *billing) handle(ctx context.Context, invoice string, amount int) error {
	k, err := key(invoice)
	if err != nil {
		return err
	}
	var res idem.Result
	charge, err := backoff.Do(ctx, &backoff.Policy{MaxAttempts: 20}, func(ctx context.Context) (Charge, error) {
		return idem.Do(ctx, b.store, k, func(_ context.Context, c *idem.Claim) (Charge, error) {
			return b.bank.charge(c.ProviderKey("bank"), amount), nil
		}, idem.WithRecover(b.askProvider), idem.ReportTo(&res))
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(b.w, "second process: %s over %d, recovered: %t, replayed: %t\n", charge.ID, charge.Amount, res.Recovered, res.Replayed)
	return err
}

// askProvider tells how an earlier attempt ended. It runs under the new claim,
// before the operation, whenever that attempt may have had its effect.
func (b *billing) askProvider(_ context.Context, c *idem.Claim) (idem.Recovery, error) {
	charge, found := b.bank.find(c.ProviderKey("bank"))
	if _, err := fmt.Fprintf(b.w, "second process: attempt %d asks the provider, found: %t\n", c.Attempt(), found); err != nil {
		return idem.Recovery{}, err
	}
	if !found {
		return idem.NotExecuted(), nil // the operation runs
	}
	value, err := json.Marshal(charge) // as idem.Do would have encoded it
	if err != nil {
		return idem.Recovery{}, err
	}
	return idem.Recovered(idem.Result{Value: value}), nil
}
