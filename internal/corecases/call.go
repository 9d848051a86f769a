package corecases

import (
	"context"
	"errors"
	"time"

	"github.com/idem-go/idem"
)

// call is an Execute whose operation ends when the case says so, whatever happens
// to its context.
type call struct {
	*process
	key     string
	entered chan struct{}   // closed once the operation runs
	claim   *idem.Claim     // of the operation; read after entered
	under   context.Context //nolint:containedctx // the operation's, for the case to look at
	finish  chan ending     // what the operation is to return
	done    chan ending     // what Execute returned
}

// ending is what an operation or an Execute returned.
type ending struct {
	res idem.Result
	err error
}

// begin starts a call in a goroutine of its own.
func (p *process) begin(key string, opts ...idem.ExecuteOption) *call {
	p.Helper()
	c := &call{process: p, key: key, entered: make(chan struct{}), finish: make(chan ending, 1), done: make(chan ending, 1)}
	go func() {
		res, err := p.Execute(p.Context(), key, func(ctx context.Context) (idem.Result, error) {
			c.claim, _ = idem.ClaimFrom(ctx)
			c.under = ctx
			close(c.entered)
			end := <-c.finish
			return end.res, end.err
		}, opts...)
		c.done <- ending{res, err}
	}()
	p.Cleanup(func() {
		select {
		case c.finish <- ending{err: errBoom}: // if the case has failed meanwhile
		default:
		}
	})
	return c
}

// runs begins a call of the case's key whose operation must run.
func (p *process) runs(opts ...idem.ExecuteOption) *call {
	p.Helper()
	c := p.begin(key, opts...)
	p.that(c.hasEntered(), "the operation runs")
	return c
}

// takesOver begins calls until one's operation runs: until the lease of the
// claim before it has ended.
func (p *process) takesOver(key string) (c *call) {
	p.Helper()
	p.eventually("the operation runs", func() bool {
		c = p.begin(key)
		return c.hasEntered()
	})
	p.that(c.claim.Takeover(), "the operation is told of the attempt before")
	return c
}

// hasEntered reports whether the operation runs; if not, the key was in progress,
// or its lease had ended before the operation began.
func (c *call) hasEntered() bool {
	c.Helper()
	end := time.NewTimer(patient)
	defer end.Stop()
	select {
	case <-c.entered:
		return true
	case got := <-c.done:
		c.that(errors.Is(got.err, idem.ErrInProgress) || errors.Is(got.err, idem.ErrUnavailable), "the operation does not run: %v", got.err)
		return false
	case <-end.C:
		c.Fatalf("the operation did not begin within %v", patient)
		return false
	}
}

// returns lets the operation end, and waits for Execute.
func (c *call) returns(value string, err error) ending {
	c.Helper()
	c.finish <- ending{idem.Result{Value: []byte(value)}, err}
	return c.wait()
}

// wait waits until Execute has returned.
func (c *call) wait() ending {
	c.Helper()
	end := time.NewTimer(patient)
	defer end.Stop()
	select {
	case got := <-c.done:
		return got
	case <-end.C:
		c.Fatalf("the call did not return within %v", patient)
		return ending{}
	}
}
