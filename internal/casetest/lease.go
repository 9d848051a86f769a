package casetest

import (
	"context"
	"errors"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
)

// stalledHolder: A stalls, B takes over; what A returns afterwards, a value or an
// error, changes nothing of B's.
func stalledHolder(c *bench) {
	for _, failure := range []error{nil, errBoom} {
		for key, completedFirst := range map[string]bool{"B completes first": true, "B still runs": false} {
			if failure != nil {
				key += ", A fails"
			}
			c.stalled(key, failure, completedFirst)
		}
	}
}

func (c *bench) stalled(key string, failure error, completedFirst bool) {
	c.Helper()
	a, b, other := c.process(), c.process(), c.process()
	begun, goOn := make(chan *idem.Claim, 1), make(chan struct{})
	doneA := start(func() (idem.Result, error) {
		return a.Execute(c.Context(), key, func(ctx context.Context) (idem.Result, error) {
			claim, _ := idem.ClaimFrom(ctx)
			begun <- claim
			<-goOn
			return idem.Result{Value: []byte("A")}, failure
		})
	})
	tokenA := (<-begun).Token()
	c.lapse(key)
	runB := c.start(b, key, "B")
	c.that(runB.claim.Takeover(), "B sees that an earlier attempt may have had its effect")
	c.that(runB.claim.Token() > tokenA, "B's token is higher")
	var endB ending
	if completedFirst {
		endB = runB.finish()
	}
	before := c.record(key)
	close(goOn)
	endA := <-doneA
	c.is(endA.err, idem.ErrLeaseLost)
	c.that(failure == nil || errors.Is(endA.err, failure), "A's own error is there too")
	c.that(len(endA.res.Value) == 0, "A's value is not given out")
	c.unchanged(before, "after A's end")
	if !completedFirst {
		_, err := other.Execute(c.Context(), key, c.forbidden())
		c.is(err, idem.ErrInProgress)
		endB = runB.finish()
	}
	c.must(endB.err)
	for _, s := range []*idem.Store{a, b, other} {
		c.that(c.replays(s, key, "B").Token == runB.claim.Token(), "the token is B's")
	}
}

// lateRenewal: A's heartbeat arrives while B runs.
func lateRenewal(c *bench) {
	a, b := c.process(), c.process()
	claim, err := a.Claim(c.Context(), "k", 0)
	c.must(err)
	c.lapse("k")
	run := c.start(b, "k", "B")
	before := c.record("k")
	c.is(claim.Renew(c.Context()), idem.ErrLeaseLost)
	c.unchanged(before, "after A's late renewal")
	c.must(run.finish().err)
}

// keyGone: the key is settled behind the operation's back.
func keyGone(c *bench) {
	for key, obeys := range map[string]bool{"and obeys": true, "and does not care": false} {
		b := c.h.New(c)
		s, err := idem.New(b, &idem.Options{
			Namespace: c.space, Lease: longLease, RenewEvery: 20 * time.Millisecond, Retention: aDay, Observer: idem.Discard,
		})
		c.must(err)
		done := start(func() (idem.Result, error) {
			return s.Execute(c.Context(), key, func(ctx context.Context) (idem.Result, error) {
				rec, err := b.Inspect(ctx, driver.JoinKey(c.space, key))
				c.must(err)
				c.must(b.Release(ctx, driver.Ref{Key: rec.Key, Owner: rec.Owner, Token: rec.Token}, &driver.ReleaseParams{Retention: aDay}))
				timer := time.NewTimer(time.Minute)
				defer timer.Stop()
				select {
				case <-ctx.Done():
				case <-timer.C:
					return idem.Result{}, errors.New("nobody told the operation")
				}
				if obeys {
					return idem.Result{}, context.Cause(ctx)
				}
				return idem.Result{Value: []byte("mine")}, nil
			})
		})
		end := <-done
		c.is(end.err, idem.ErrLeaseLost)
		c.that(len(end.res.Value) == 0, "the value is not given out")
		c.that(c.record(key).State == driver.Released, "nothing was written afterwards")
		_, err = s.Execute(c.Context(), key, returns("next"))
		c.must(err)
	}
}

// deadProcess: a claim of a process that is gone blocks the key for its lease,
// and then the policy decides.
func deadProcess(c *bench) {
	for key, strict := range map[string]bool{"rerun": false, "hold": true} {
		policy := idem.OnUnknown(idem.Rerun)
		if strict {
			policy = idem.OnUnknown(idem.Hold)
		}
		dead, err := c.process().Claim(c.Context(), key, time.Minute, policy) // nobody renews or settles it
		c.must(err)
		_, err = c.process().Execute(c.Context(), key, c.forbidden(), policy)
		var busy *idem.InProgressError
		c.that(errors.As(err, &busy), "it is in progress")
		c.that(busy.LeaseLeft <= time.Minute && busy.RetryAfter <= busy.LeaseLeft, "the wait is at most the lease")
		c.lapse(key)
		_, err = c.process().Execute(c.Context(), key, func(ctx context.Context) (idem.Result, error) {
			claim, _ := idem.ClaimFrom(ctx)
			c.that(!strict, "nothing runs")
			c.that(claim.Takeover() && claim.Token() > dead.Token(), "it sees that it takes over")
			return idem.Result{Value: []byte("1")}, nil
		}, policy)
		if strict {
			c.is(err, idem.ErrOutcomeUnknown)
			continue
		}
		c.must(err)
		c.replays(c.process(), key, "1")
	}
}
