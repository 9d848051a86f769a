// Package pace spreads work that comes in steps over time.
package pace

import (
	"context"
	"time"
)

// Pace holds work to a rate. The zero value, and nil, do not hold anything up.
// One goroutine at a time may use it.
type Pace struct {
	rate int
	due  time.Time // when what has been done so far may have been done
}

// New returns a Pace of so many units a second, beginning now. A rate that is
// not positive is none.
func New(rate int) *Pace { return &Pace{rate: rate, due: time.Now()} }

// Wait returns once n more units may have been done since the last call, or ctx
// has ended. Time in which less was done than the rate allows is not made up for:
// a slow step is followed by no burst.
func (p *Pace) Wait(ctx context.Context, n int64) {
	if p == nil || p.rate <= 0 || n <= 0 {
		return
	}
	p.due = p.due.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	left := time.Until(p.due)
	if left <= 0 {
		p.due = time.Now()
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
