package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// How the provider fails, as shares of the requests.
const (
	shareRefused = 0.03 // answers 503, nothing charged
	shareSilent  = 0.02 // charges, and the answer never arrives

	patience = 10 * time.Millisecond // after which the client of the provider gives up

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

	// until is the last instant at which the request may be sent; zero: always.
	until time.Time
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
//
// It stands for another machine, which goes on when this one is stopped for a
// while or has too much to do: a request ends when its time is over, whenever
// this process gets to notice. Else it would be judged by the machine's load
// what overlaps.
type provider struct {
	seed    uint64
	latency time.Duration // of a call, on average
	forgets bool          // does not deduplicate at all

	ledger ledger

	mu   sync.Mutex // guards seen, under and what is in them
	seen map[uint64]uint32
	// under are the requests under way that are going to charge, by their keys.
	under map[uint64][]*visit
}

// visit is one request at the provider.
type visit struct {
	request
	ends    time.Time // by the provider's clock
	refused bool
	known   bool // the charge is on the ledger, by number
	number  chargeNumber
}

func newProvider(seed uint64, latency time.Duration, forgets bool) *provider {
	return &provider{seed: seed, latency: latency, forgets: forgets, seen: make(map[uint64]uint32), under: make(map[uint64][]*visit)}
}

// charge moves money. A request that was sent is carried out even if ctx ends
// meanwhile: that only loses the answer. The error matches errDeclined or
// errRefused if nothing was charged; after any other it may have been.
func (p *provider) charge(ctx context.Context, r request) (receipt, error) {
	if ctx.Err() != nil {
		return receipt{}, fmt.Errorf("%w: not sent: %w", errRefused, context.Cause(ctx))
	}
	v, sent := p.arrive(r)
	if !sent {
		return receipt{}, fmt.Errorf("%w: not sent: it is too late", errRefused)
	}
	time.Sleep(time.Until(v.ends))
	switch {
	case v.refused:
		return receipt{}, errRefused
	case r.source == declinedSource:
		return receipt{}, errDeclined
	}
	p.leave(v)
	if throw(p.seed, "silence", r.nonce, r.try).hits(shareSilent) {
		time.Sleep(patience)
		return receipt{}, errSilent
	}
	if ctx.Err() != nil {
		return receipt{}, fmt.Errorf("%w: %w", errSilent, context.Cause(ctx))
	}
	return p.answer(r, v.number)
}

// deduplicates reports whether the provider remembers the request's key.
func (p *provider) deduplicates(r request) bool { return r.key != "" && !p.forgets }

// arrive is the beginning of a request, and the first half of the provider's
// deduplication. It reports false if the request may not be sent any more.
func (p *provider) arrive(r request) (*visit, bool) {
	v := &visit{request: r, refused: throw(p.seed, "refuse", r.nonce, r.try).hits(shareRefused)}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !r.until.IsZero() && now.After(r.until) {
		return nil, false
	}
	v.ends = now.Add(p.work(r))
	if v.refused || r.source == declinedSource || !p.deduplicates(r) {
		return v, true
	}
	h := hash64(r.key)
	for _, earlier := range p.under[h] {
		if !earlier.ends.After(now) {
			p.settle(earlier) // it ended before this one began
		}
	}
	if n, known := p.seen[h]; known {
		v.number, v.known = chargeNumber(n), true
		return v, true
	}
	p.under[h] = append(p.under[h], v)
	return v, true
}

// leave is the end of a request that charges.
func (p *provider) leave(v *visit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(v)
	h := hash64(v.key)
	if left := slices.DeleteFunc(p.under[h], func(o *visit) bool { return o == v }); len(left) > 0 {
		p.under[h] = left
	} else {
		delete(p.under, h)
	}
}

// settle writes the charge, once, and is the second half of the deduplication.
// The caller holds the mutex.
func (p *provider) settle(v *visit) {
	if v.known {
		return
	}
	v.number = p.ledger.write(charge{operation: hash64(v.reference), delivery: v.delivery, amount: v.amount})
	v.known = true
	if p.deduplicates(v.request) {
		p.seen[hash64(v.key)] = uint32(v.number)
	}
}

// work is how long the provider takes: half to one and a half of its latency.
func (p *provider) work(r request) time.Duration {
	share := 0.5 + throw(p.seed, "latency", r.nonce, r.try).share()
	return time.Duration(share * float64(p.latency))
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
