package main

import (
	"fmt"
	"io"
)

// What the generator makes of a stream, as shares.
const (
	shareBurst      = 0.35   // of the redeliveries: right behind the first delivery
	shareOtherBody  = 0.012  // of the redeliveries: the key of another request
	shareMalformed  = 0.006  // of the operations
	shareDeclined   = 0.012  // of the operations
	shareUnreadable = 0.0005 // of the deliveries

	recentOperations = 2048 // a redelivery is one of these
	shuffled         = 24   // operations wait in a pool of this size, so that they arrive out of order
)

// generator makes a stream of deliveries without keeping it: its memory does
// not depend on the number of deliveries.
type generator struct {
	r          rng
	duplicates float64
	left       int
	made       int
	operations int
	pool       []delivery // published, not yet delivered
	recent     []delivery // delivered; a ring
	oldest     int        // of the ring, once it is full
}

func newGenerator(n int, duplicates float64, seed uint64) *generator {
	return &generator{r: rng(mix(seed)), duplicates: duplicates, left: n}
}

// next returns the next delivery, io.EOF after the last.
func (g *generator) next() (delivery, error) {
	if g.left == 0 {
		return delivery{}, io.EOF
	}
	g.left--
	g.made++
	id := fmt.Sprintf("dlv_%07d", g.made)
	var d delivery
	if len(g.recent) > 0 && g.r.hits(g.duplicates) {
		d = g.again()
	} else {
		d = g.first()
	}
	d.ID = id
	if g.r.hits(shareUnreadable) {
		line, err := d.line()
		if err != nil {
			return delivery{}, err
		}
		return delivery{unreadable: true, raw: line[:len(line)/2]}, nil
	}
	return d, nil
}

// again returns a redelivery.
func (g *generator) again() delivery {
	back := g.r.below(len(g.recent))
	if g.r.hits(shareBurst) {
		back = g.r.below(min(3, len(g.recent)))
	}
	newest := g.oldest + len(g.recent) - 1
	d := g.recent[(newest-back)%len(g.recent)]
	if g.r.hits(shareOtherBody) {
		d.Amount += int64(1 + g.r.below(500))
	}
	return d
}

// first returns the first delivery of an operation, out of the pool.
func (g *generator) first() delivery {
	for len(g.pool) < shuffled {
		g.pool = append(g.pool, g.operation())
	}
	i := g.r.below(len(g.pool))
	d := g.pool[i]
	g.pool[i] = g.pool[len(g.pool)-1]
	g.pool = g.pool[:len(g.pool)-1]
	if len(g.recent) < recentOperations {
		g.recent = append(g.recent, d)
		return d
	}
	g.recent[g.oldest] = d
	g.oldest = (g.oldest + 1) % len(g.recent)
	return d
}

// operation publishes a new operation.
func (g *generator) operation() delivery {
	g.operations++
	d := delivery{Seq: g.operations, Currency: "EUR", Amount: int64(100 + g.r.below(25000))}
	switch kind := g.r.draw().share(); {
	case kind < 0.85:
		d.Type, d.Key = "charge", fmt.Sprintf("charge:inv_%07d", g.operations)
	case kind < 0.95:
		d.Type, d.Key = "refund", fmt.Sprintf("refund:ord_%07d", g.operations)
	default:
		d.Type, d.Key = "payout", fmt.Sprintf("payout:acc_%07d", g.operations)
	}
	d.Source = fmt.Sprintf("card_%03x", g.r.below(1<<12))
	switch poison := g.r.draw().share(); {
	case poison < shareMalformed/3:
		d.Type = ""
	case poison < shareMalformed*2/3:
		d.Amount = 0
	case poison < shareMalformed:
		d.Amount = -d.Amount
	case poison < shareMalformed+shareDeclined:
		d.Source = declinedSource
	}
	return d
}
