package idem_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/memstore"
)

// Charge is what the payment provider of these examples answers.
type Charge struct {
	ID     string
	Amount int
}

// provider is a payment provider that deduplicates by idempotency key.
type provider struct{ charges map[string]Charge }

func (p *provider) Charge(idempotencyKey string, amount int) (Charge, error) {
	if c, ok := p.charges[idempotencyKey]; ok {
		return c, nil
	}
	c := Charge{ID: fmt.Sprintf("ch_%d", len(p.charges)+1), Amount: amount}
	p.charges[idempotencyKey] = c
	return c, nil
}

// mustStore makes a Store over memory; Discard keeps the examples quiet.
func mustStore() *idem.Store {
	store, err := idem.New(memstore.New(nil), &idem.Options{Namespace: "billing", Observer: idem.Discard})
	if err != nil {
		panic(err)
	}
	return store
}

// A queue delivers a message twice; the customer pays once.
func Example() {
	ctx := context.Background()
	store, err := idem.New(memstore.New(nil), &idem.Options{Namespace: "billing"})
	if err != nil {
		fmt.Println(err)
		return
	}
	payments := &provider{charges: map[string]Charge{}}
	deliver := func(invoice string, amount int) {
		key, err := idem.Key("charge", invoice)
		if err != nil {
			fmt.Println(err)
			return
		}
		charge, err := idem.Do(ctx, store, key, func(_ context.Context, c *idem.Claim) (Charge, error) {
			return payments.Charge(c.ProviderKey("payments"), amount)
		})
		fmt.Println(charge.ID, charge.Amount, err)
	}
	deliver("inv_8842", 4200)
	deliver("inv_8842", 4200)
	fmt.Println("charges:", len(payments.charges))
	// Output:
	// ch_1 4200 <nil>
	// ch_1 4200 <nil>
	// charges: 1
}

func ExampleStore_Execute() {
	ctx := context.Background()
	store := mustStore()
	send := func(context.Context) (idem.Result, error) {
		fmt.Println("sending")
		return idem.Result{Value: []byte("msg_1")}, nil
	}
	for range 2 {
		res, err := store.Execute(ctx, "welcome:user_7", send)
		fmt.Printf("%s replayed=%t %v\n", res.Value, res.Replayed, err)
	}
	// Output:
	// sending
	// msg_1 replayed=false <nil>
	// msg_1 replayed=true <nil>
}

// A failure is recorded only where the operation says that it is final.
func ExampleStore_Execute_failures() {
	ctx := context.Background()
	store := mustStore()
	declined := errors.New("card declined")
	charge := func(context.Context) (idem.Result, error) { return idem.Result{}, idem.Permanent(declined) }
	_, err := store.Execute(ctx, "charge:inv_1", charge)
	fmt.Println(errors.Is(err, declined), errors.Is(err, idem.ErrRecordedFailure))

	_, err = store.Execute(ctx, "charge:inv_1", charge)
	var recorded *idem.RecordedError
	if errors.As(err, &recorded) {
		fmt.Println("recorded:", recorded.Message)
	}
	// Output:
	// true false
	// recorded: card declined
}

// Do is Execute for a value of a type of your own. ReportTo tells the rest.
func ExampleDo() {
	ctx := context.Background()
	store := mustStore()
	for range 2 {
		var report idem.Result
		charge, err := idem.Do(ctx, store, "charge:inv_1", func(_ context.Context, c *idem.Claim) (Charge, error) {
			return Charge{ID: "ch_1", Amount: 100 * c.Attempt()}, nil
		}, idem.ReportTo(&report))
		fmt.Println(charge, report.Replayed, err)
	}
	// Output:
	// {ch_1 100} false <nil>
	// {ch_1 100} true <nil>
}

func ExampleKey() {
	for _, parts := range [][]string{{"charge", "inv_8842"}, {"a:b", "c"}, {"a", "b:c"}, {"charge", ""}} {
		key, err := idem.Key(parts...)
		fmt.Println(key, err)
	}
	// Output:
	// charge:inv_8842 <nil>
	// a%3Ab:c <nil>
	// a:b%3Ac <nil>
	//  idem: invalid key: part 2 is empty (not run; fix the caller) [invalid_key]
}

// The steps, for work that does not fit into a function: a claim is taken in
// one place, renewed while the work goes on, and settled in another.
func ExampleStore_Claim() {
	ctx := context.Background()
	store := mustStore()
	claim, err := store.Claim(ctx, "export:2026-01", 30*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 { // the parts of a long piece of work
		if err := claim.Renew(ctx); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := store.Record(ctx, claim, idem.Result{Value: []byte("export.csv")}); err != nil {
		fmt.Println(err)
		return
	}

	claim, err = store.Claim(ctx, "export:2026-01", 30*time.Second)
	if errors.Is(err, idem.ErrAlreadyDone) {
		fmt.Printf("already done: %s\n", claim.Result.Value)
	}
	// Output:
	// already done: export.csv
}

// Execute, in its simplest form, written with its steps: claim the key for 30
// seconds; if that says ErrAlreadyDone, return the claim's Result; run the
// operation; if it fails, Release; else return the result together with what
// Record says.
func ExampleStore_Claim_executeFromItsSteps() {
	store := mustStore()
	execute := func(ctx context.Context, key string, op idem.Op) (idem.Result, error) {
		claim, err := store.Claim(ctx, key, 30*time.Second)
		if errors.Is(err, idem.ErrAlreadyDone) {
			return claim.Result, nil
		}
		if err != nil {
			return idem.Result{}, err
		}
		res, err := op(ctx)
		if err != nil {
			return idem.Result{}, errors.Join(err, store.Release(ctx, claim))
		}
		return res, store.Record(ctx, claim, res)
	}

	ctx := context.Background()
	down := true
	op := func(context.Context) (idem.Result, error) {
		if down {
			return idem.Result{}, errors.New("provider is down")
		}
		fmt.Println("running")
		return idem.Result{Value: []byte("7")}, nil
	}
	for range 3 {
		res, err := execute(ctx, "k", op)
		fmt.Printf("%q replayed=%t %v\n", res.Value, res.Replayed, err)
		down = false
	}
	// Output:
	// "" replayed=false provider is down
	// running
	// "7" replayed=false <nil>
	// "7" replayed=true <nil>
}

// A key stands for one request. A call that uses it for another is refused.
func ExampleWithFingerprint() {
	ctx := context.Background()
	store := mustStore()
	pay := func(context.Context) (idem.Result, error) { return idem.Result{Value: []byte("paid")}, nil }
	for _, body := range []string{`{"amount":100}`, `{"amount":100}`, `{"amount":999}`} {
		res, err := store.Execute(ctx, "order_1", pay, idem.WithFingerprint([]byte(body)))
		fmt.Printf("%s %t\n", res.Value, errors.Is(err, idem.ErrFingerprintMismatch))
	}
	// Output:
	// paid false
	// paid false
	//  true
}

// A duplicate waits for the call that is running, instead of being refused.
func ExampleWithWait() {
	ctx := context.Background()
	store := mustStore()
	running, finish, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_, err := store.Execute(ctx, "report", func(context.Context) (idem.Result, error) {
			close(running)
			<-finish
			return idem.Result{Value: []byte("report.pdf")}, nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}()
	<-running

	again := func(context.Context) (idem.Result, error) { panic("not called") }
	_, err := store.Execute(ctx, "report", again)
	var busy *idem.InProgressError
	fmt.Println(errors.As(err, &busy) && busy.RetryAfter > 0)

	close(finish)
	res, err := store.Execute(ctx, "report", again, idem.WithWait(time.Minute))
	fmt.Printf("%s %t %v\n", res.Value, res.Replayed, err)
	<-done
	// Output:
	// true
	// report.pdf true <nil>
}

// The effect may have happened: the next call asks the provider before anything
// runs again.
func ExampleWithRecover() {
	ctx := context.Background()
	store := mustStore()
	atTheProvider := map[string]string{} // what it has done, by our key
	charge := func(_ context.Context, c *idem.Claim) (string, error) {
		atTheProvider[c.ProviderKey("payments")] = "ch_1"
		return "", idem.Unknown(errors.New("connection reset"))
	}
	look := idem.WithRecover(func(_ context.Context, c *idem.Claim) (idem.Recovery, error) {
		id, ok := atTheProvider[c.ProviderKey("payments")]
		if !ok {
			return idem.NotExecuted(), nil
		}
		return idem.Recovered(idem.Result{Value: []byte(`"` + id + `"`)}), nil
	})
	_, err := idem.Do(ctx, store, "charge:inv_1", charge, look)
	fmt.Println(errors.Is(err, idem.ErrOutcomeUnknown))
	id, err := idem.Do(ctx, store, "charge:inv_1", charge, look)
	fmt.Println(id, err)
	// Output:
	// true
	// ch_1 <nil>
}

// An operator found out how an attempt ended that the program could not judge.
func ExampleStore_Resolve() {
	ctx := context.Background()
	store := mustStore()
	op := func(context.Context) (idem.Result, error) {
		return idem.Result{}, idem.Unknown(errors.New("time-out"))
	}
	for range 2 { // the second call does not run it
		_, err := store.Execute(ctx, "payout:9", op)
		fmt.Println(errors.Is(err, idem.ErrOutcomeUnknown))
	}
	rec, err := store.Inspect(ctx, "payout:9")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rec.State, rec.Held, rec.Attempt)
	err = store.Resolve(ctx, "payout:9", rec.Token, idem.Resolution{
		Recovery: idem.Recovered(idem.Result{Value: []byte("po_3")}),
		By:       "ann", Why: "seen on the bank statement",
	})
	fmt.Println(err)
	res, err := store.Execute(ctx, "payout:9", op)
	fmt.Printf("%s recovered=%t %v\n", res.Value, res.Recovered, err)
	// Output:
	// true
	// true
	// unknown true 1
	// <nil>
	// po_3 recovered=true <nil>
}

// Hold: an operation that nobody deduplicates does not run again while it is
// unknown how an earlier attempt ended.
func ExampleOnUnknown() {
	ctx := context.Background()
	store := mustStore()
	runs := 0
	op := func(context.Context) (idem.Result, error) {
		runs++
		return idem.Result{}, errors.New("connection reset")
	}
	for range 2 {
		_, err := store.Execute(ctx, "letter:7", op, idem.OnUnknown(idem.Hold))
		fmt.Println(errors.Is(err, idem.ErrOutcomeUnknown), runs)
	}
	// Output:
	// true 1
	// true 1
}
