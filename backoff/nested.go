package backoff

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

type loopKey struct{}

// loopContext is the context inside a loop. It is a type of its own because
// that costs one small allocation, and it is on the path of every call.
type loopContext struct {
	context.Context //nolint:containedctx // it is a context

	budget   *Budget      // of the loop itself; may be nil
	retries  atomic.Int32 // of the loop so far
	accounts atomic.Pointer[accounts]
}

// Value implements context.Context.
func (c *loopContext) Value(key any) any {
	if key == (loopKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// detachedContext hides the loops around it.
type detachedContext struct {
	context.Context //nolint:containedctx // it is a context
}

// Value implements context.Context.
func (c *detachedContext) Value(key any) any {
	if key == (loopKey{}) {
		return nil
	}
	return c.Context.Value(key)
}

// Detach returns a context under which [Do] retries although a loop around it
// does too. It is for work that the outer loop does not repeat, such as work
// that an operation starts in the background: that has the operation's context,
// or one made from it with context.WithoutCancel, and would be taken for a part
// of the operation for ever. Nothing else about the context changes.
func Detach(ctx context.Context) context.Context {
	if loopAround(ctx) == nil {
		return ctx
	}
	return &detachedContext{ctx}
}

// loopAround returns the loop that retries around ctx, nil if there is none.
func loopAround(ctx context.Context) *loopContext {
	outer, _ := ctx.Value(loopKey{}).(*loopContext)
	return outer
}

// once makes the only attempt of a loop below another one. The retries are those
// of the outer loop, but they reach this loop's target too, and its budget pays
// for them, unless it is the outer one's own.
func (p *Policy) once(ctx context.Context, outer *loopContext, op func(context.Context) error) error {
	budget := p.Budget
	if budget == outer.budget {
		budget = nil
	}
	account, retry, stopped := outer.charge(budget)
	if stopped != nil {
		return stopped
	}
	admitted, refused := p.admit()
	switch {
	case refused != nil && retry:
		budget.Refund()
		return refused
	case refused != nil:
		return refused
	case !retry:
		budget.Deposit()
	}
	v := p.attempt(ctx, ctx, admitted, op)
	account.remember(v)
	if p.Unrepeatable && v.class == Ambiguous { // the outer loop must not repeat it either
		l := loop{}
		l.failed(v)
		return l.stop(ErrAmbiguous)
	}
	return v.err
}

// stoppedBelow returns why a loop further down ended, if no loop around it may go
// on: the breaker or the budget of its target refused the call, or it must not be
// repeated. A mark that the operation has set around that error says otherwise;
// one inside it, of an attempt of that loop, does not.
func stoppedBelow(err error) error {
	var room [shortChain]error
	nodes, branches := chain(err, room[:])
	if _, overruled := last[*marked](nodes); overruled {
		return nil
	}
	e, looped := last[*Error](nodes)
	for _, reason := range [...]error{ErrOpen, ErrBudget, ErrAmbiguous} {
		if looped && errors.Is(e.Reason, reason) || slices.ContainsFunc(nodes, func(n error) bool { return is(n, reason) }) {
			return reason
		}
	}
	if looped {
		return stoppedBelow(e.Last)
	}
	for _, b := range branches {
		if reason := stoppedBelow(b); reason != nil {
			return reason
		}
	}
	return nil
}

// accounts are those of the budgets of loops below another one.
type accounts struct {
	mu  sync.Mutex // guards what follows, the accounts included
	all map[*Budget]*account
}

// account is what a loop has called under the budget of loops below.
type account struct {
	of    *accounts
	began int32 // retries of the outer loop when it was first used: until there are more, each call is a request
	calls loop
}

// charge takes a retry from the budget of a loop below, if the outer loop has
// retried since that budget was first used. account is nil without a budget.
func (c *loopContext) charge(b *Budget) (_ *account, retry bool, stopped error) {
	if b == nil {
		return nil, false, nil
	}
	all := c.accounts.Load()
	if all == nil {
		c.accounts.CompareAndSwap(nil, &accounts{all: map[*Budget]*account{}})
		all = c.accounts.Load()
	}
	retries := c.retries.Load()
	all.mu.Lock()
	defer all.mu.Unlock()
	a := all.all[b]
	if a == nil {
		a = &account{of: all, began: retries, calls: loop{unsent: true}}
		all.all[b] = a
	}
	switch {
	case a.began == retries:
		return a, false, nil
	case b.Withdraw():
		return a, true, nil
	}
	return nil, false, a.calls.stop(ErrBudget)
}

// remember keeps what a call said, for the error when the budget is empty.
func (a *account) remember(v verdict) {
	if a == nil {
		return
	}
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	if v.err == nil {
		a.calls.unsent = false
		return
	}
	a.calls.failed(v)
}
