package main

import "sync"

// charge is one effect: money that moved.
type charge struct {
	operation uint64 // hash of the reference, see hash64
	delivery  int64  // number in the stream of the delivery that asked for it
	amount    int64
}

// chargeNumber is the number of a charge in the ledger, from 0.
type chargeNumber int

// A ledger grows by pages of this many charges, so that growing moves nothing.
const ledgerPage = 4096

// ledger is the provider's list of charges: append-only, and written by the
// provider alone. idem never sees it; it is what the run is judged by. It is
// safe for concurrent use.
type ledger struct {
	mu    sync.Mutex // guards the fields below
	pages [][]charge
	n     int
}

// write appends a charge.
func (l *ledger) write(c charge) chargeNumber {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n%ledgerPage == 0 {
		l.pages = append(l.pages, make([]charge, 0, ledgerPage))
	}
	last := len(l.pages) - 1
	l.pages[last] = append(l.pages[last], c)
	l.n++
	return chargeNumber(l.n - 1)
}

// at returns a charge that was written.
func (l *ledger) at(n chargeNumber) charge {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pages[int(n)/ledgerPage][int(n)%ledgerPage]
}

// each calls f for each charge in order. Nobody may write meanwhile.
func (l *ledger) each(f func(chargeNumber, charge)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, page := range l.pages {
		for j, c := range page {
			f(chargeNumber(i*ledgerPage+j), c)
		}
	}
}

// first returns the first charge of an operation that has one. Nobody may write
// meanwhile.
func (l *ledger) first(operation uint64) (found charge) {
	seen := false
	l.each(func(_ chargeNumber, c charge) {
		if !seen && c.operation == operation {
			found, seen = c, true
		}
	})
	return found
}

func (l *ledger) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}
