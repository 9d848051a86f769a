package backoff

import (
	"fmt"
	"sync/atomic"
	"time"
)

// NoRatio as BudgetOptions.Ratio lets requests earn nothing.
const NoRatio = -1

// BudgetOptions configure a [Budget]. The zero value is valid, and nil stands
// for it.
type BudgetOptions struct {
	// Ratio is how much of a retry each request earns, to nine decimals: at most
	// 1. The default value is 0.1.
	Ratio float64
	// Burst is how many retries can be saved up, and the opening balance. The
	// default value is 10.
	Burst int
	// PerSecond is how many retries are earned by time alone, for clients with
	// few requests. The default value is 0.
	PerSecond float64
}

// Budget bounds the load that retries add to one target (a host, a database, a
// queue), whatever fails and for how long. Share one between all policies for
// the target, and no two targets. It is safe for concurrent use; nil is no
// bound.
//
// Each request, that is each first attempt, earns Ratio of a retry, and each
// retry costs one. A loop finds that out before it waits, and ends with
// [ErrBudget] and the target's error. In every interleaving, after n requests
// and t seconds,
//
//	retries ≤ Burst + Ratio·n + PerSecond·t
//
// The balance is the same however the attempts end: with success, failure or
// panic. A retry that was taken and is not made, because the context ended in
// the wait or the breaker refused, is given back.
type Budget struct {
	ratio, burst int64   // units
	perNano      float64 // units
	began        time.Time

	balance  atomic.Int64 // units, in [0, burst]
	credited atomic.Int64 // nanoseconds since began that PerSecond has paid for
}

// unit is what a retry costs: a Ratio has nine decimals.
const unit = 1e9

// maxBurst keeps all sums of units far from overflow.
const maxBurst = 1e9

// NewBudget returns a budget with a full balance: a fresh process can retry.
func NewBudget(opts *BudgetOptions) (*Budget, error) {
	var o BudgetOptions
	if opts != nil {
		o = *opts
	}
	if o.Ratio == 0 {
		o.Ratio = 0.1
	}
	if o.Burst == 0 {
		o.Burst = 10
	}
	// Written so that NaN is refused.
	if !(o.Ratio == NoRatio || o.Ratio >= 0 && o.Ratio <= 1) {
		return nil, fmt.Errorf("%w: Ratio is %v, not within (0, 1]", ErrInvalidOption, o.Ratio)
	}
	if !(o.PerSecond >= 0 && o.PerSecond <= maxBurst) {
		return nil, fmt.Errorf("%w: PerSecond is %v, not within [0, 1e9]", ErrInvalidOption, o.PerSecond)
	}
	if o.Burst < 1 || o.Burst > maxBurst {
		return nil, fmt.Errorf("%w: Burst is %d, not within [1, 1e9]", ErrInvalidOption, o.Burst)
	}
	b := &Budget{burst: int64(o.Burst) * unit, perNano: o.PerSecond, began: time.Now()}
	if o.Ratio != NoRatio {
		b.ratio = int64(o.Ratio*unit + 0.5)
	}
	if b.ratio == 0 && o.PerSecond == 0 {
		return nil, fmt.Errorf("%w: a budget with neither Ratio nor PerSecond never refills", ErrInvalidOption)
	}
	b.balance.Store(b.burst)
	return b, nil
}

// Deposit counts a request. [Do] calls it with each first attempt.
func (b *Budget) Deposit() {
	if b != nil {
		b.add(b.ratio)
	}
}

// Withdraw takes one retry, and reports whether there was one. [Do] calls it
// before each wait.
func (b *Budget) Withdraw() bool {
	if b == nil || b.take() {
		return true
	}
	// Only here is the time looked at: a clock costs more than all the rest.
	return b.credit() && b.take()
}

// Refund gives a retry back that was withdrawn and is not made.
func (b *Budget) Refund() {
	if b != nil {
		b.add(unit)
	}
}

// Balance returns how many retries are left, between 0 and Burst; 0 for nil.
func (b *Budget) Balance() float64 {
	if b == nil {
		return 0
	}
	earned, _, _ := b.earned()
	return float64(min(b.balance.Load()+earned, b.burst)) / unit
}

// add puts units in, up to the limit. Most of the time it is full, and then
// only read.
func (b *Budget) add(units int64) {
	for {
		have := b.balance.Load()
		want := min(have+units, b.burst)
		if want == have || b.balance.CompareAndSwap(have, want) {
			return
		}
	}
}

func (b *Budget) take() bool {
	for {
		have := b.balance.Load()
		if have < unit {
			return false
		}
		if b.balance.CompareAndSwap(have, have-unit) {
			return true
		}
	}
}

// earned returns the units that time has brought since it was last looked at, at
// most as many as the budget holds, and the time between the two.
func (b *Budget) earned() (units, from, to int64) {
	if b.perNano == 0 {
		return 0, 0, 0
	}
	from = b.credited.Load()
	to = max(int64(time.Since(b.began)), from)
	return int64(min(float64(to-from)*b.perNano, float64(b.burst))), from, to
}

// credit puts in what time has brought, once that makes up a retry, and reports
// whether it does: of several callers at once one brings it in for all.
func (b *Budget) credit() bool {
	units, from, to := b.earned()
	if units == 0 || b.balance.Load()+units < unit {
		return false
	}
	if b.credited.CompareAndSwap(from, to) {
		b.add(units)
	}
	return true
}
