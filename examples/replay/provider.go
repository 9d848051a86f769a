package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// How the provider fails, as shares of the requests.
const (
	shareRefused = 0.03 // answers 503, nothing charged
	shareSilent  = 0.02 // charges, and the answer never arrives

	patience = 10 * time.Millisecond // after which the client of the provider gives up

	// The provider is another machine: when this process is stopped for a while,
	// the provider is not. See settle.
	stalled = 50 * time.Millisecond

	declinedSource = "card_declined"
)

var (
	errRefused  = errors.New("provider: 503, nothing was charged")
	errSilent   = errors.New("provider: no answer in time, it may have charged")
	errDeclined = errors.New("provider: the card was declined")
	errOtherUse = errors.New("provider: idempotency key used with another amount")
)

// request is what the provider is asked.
type request struct {
	key       string // idempotency key; "" asks for no deduplication
	reference string // the operation, by our name
	source    string
	amount    int64
	delivery  int64  // number of the delivery, for the ledger
	nonce     string // names the request; decides over its fate
	try       int    // the same
}

// receipt is what it answers. The JSON form is the outcome that is recorded.
type receipt struct {
	Charge    string `json:"charge"`
	Reference string `json:"reference"`
	Amount    int64  `json:"amount"`
}

func (r receipt) json() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic("bug: strings and a number are always encodable: " + err.Error())
	}
	return b
}

// provider is the payment provider: it fails, it charges without answering, and
// it deduplicates by the key it is sent. It looks the key up when a request
// begins and stores it when the request ends, as many do: of requests that
// follow each other it sees the duplicates, of requests that overlap it does
// not. It is safe for concurrent use.
type provider struct {
	seed    uint64
	latency time.Duration // of a call, on average
	forgets bool          // does not deduplicate at all

	ledger ledger

	mu   sync.Mutex // guards seen
	seen map[uint64]chargeNumber
}

func newProvider(seed uint64, latency time.Duration, forgets bool) *provider {
	return &provider{seed: seed, latency: latency, forgets: forgets, seen: make(map[uint64]chargeNumber)}
}

// charge moves money. A request that was sent is carried out even if ctx ends
// meanwhile: that only loses the answer. The error matches errDeclined or
// errRefused if nothing was charged; after any other it may have been.
func (p *provider) charge(ctx context.Context, r request) (receipt, error) {
	if ctx.Err() != nil {
		return receipt{}, fmt.Errorf("%w: not sent: %w", errRefused, context.Cause(ctx))
	}
	first, known := p.lookUp(r)
	begun := time.Now()
	p.work(r)
	if throw(p.seed, "refuse", r.nonce, r.try).hits(shareRefused) {
		return receipt{}, errRefused
	}
	if r.source == declinedSource {
		return receipt{}, errDeclined
	}
	if !known {
		first = p.settle(r, time.Since(begun))
	}
	if throw(p.seed, "silence", r.nonce, r.try).hits(shareSilent) {
		time.Sleep(patience)
		return receipt{}, errSilent
	}
	if ctx.Err() != nil {
		return receipt{}, fmt.Errorf("%w: %w", errSilent, context.Cause(ctx))
	}
	return p.answer(r, first)
}

// lookUp is the first half of the provider's deduplication.
func (p *provider) lookUp(r request) (chargeNumber, bool) {
	if r.key == "" || p.forgets {
		return 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n, known := p.seen[hash64(r.key)]
	return n, known
}

// settle writes the charge, and is the second half of the deduplication. The
// halves are a call's length apart. If this process stood still meanwhile,
// longer than a provider on a machine of its own would have taken, the first
// half is repeated: what is judged here is not the machine.
func (p *provider) settle(r request, took time.Duration) chargeNumber {
	p.mu.Lock()
	defer p.mu.Unlock()
	deduplicates := r.key != "" && !p.forgets
	if deduplicates && took > stalled {
		if n, known := p.seen[hash64(r.key)]; known {
			return n
		}
	}
	n := p.ledger.write(charge{operation: hash64(r.reference), delivery: r.delivery, amount: r.amount})
	if deduplicates {
		p.seen[hash64(r.key)] = n
	}
	return n
}

// work is how long the provider takes: half to one and a half of its latency.
func (p *provider) work(r request) {
	if p.latency > 0 {
		share := 0.5 + throw(p.seed, "latency", r.nonce, r.try).share()
		time.Sleep(time.Duration(share * float64(p.latency)))
	}
}

// answer returns the receipt of a charge; the same for each request with the
// same key.
func (p *provider) answer(r request, n chargeNumber) (receipt, error) {
	c := p.ledger.at(n)
	if c.amount != r.amount {
		return receipt{}, errOtherUse
	}
	return newReceipt(n, r.reference, c.amount), nil
}

func newReceipt(n chargeNumber, reference string, amount int64) receipt {
	return receipt{Charge: fmt.Sprintf("ch_%08d", n+1), Reference: reference, Amount: amount}
}

// search returns a function that finds an operation's first charge by its
// reference, as an operator would in the provider's back office. It knows the
// ledger as it is now.
func (p *provider) search() func(reference string) (receipt, bool) {
	index := make(map[uint64]chargeNumber)
	p.ledger.each(func(n chargeNumber, c charge) {
		if _, known := index[c.operation]; !known {
			index[c.operation] = n
		}
	})
	return func(reference string) (receipt, bool) {
		n, found := index[hash64(reference)]
		if !found {
			return receipt{}, false
		}
		return newReceipt(n, reference, p.ledger.at(n).amount), true
	}
}
