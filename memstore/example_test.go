package memstore_test

import (
	"context"
	"fmt"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/memstore"
)

// A second delivery of the same message finds the outcome of the first.
func ExampleNew() {
	ctx := context.Background()
	store, err := idem.New(memstore.New(nil), nil)
	if err != nil {
		panic(err)
	}
	for range 2 {
		res, err := store.Execute(ctx, "welcome:42", func(context.Context) (idem.Result, error) {
			fmt.Println("sending the mail")
			return idem.Result{Value: []byte("sent")}, nil
		})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s, replayed: %v\n", res.Value, res.Replayed)
	}
	// Output:
	// sending the mail
	// sent, replayed: false
	// sent, replayed: true
}
