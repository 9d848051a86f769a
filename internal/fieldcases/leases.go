package fieldcases

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
)

// ending is how a call ended.
type ending struct {
	res idem.Result
	err error
}

// start runs a call beside the case.
func (f *field) start(p *process, key string, op idem.Op, opts ...idem.ExecuteOption) <-chan ending {
	done := make(chan ending, 1)
	go func() {
		res, err := p.Execute(f.Context(), key, op, opts...)
		done <- ending{res, err}
	}()
	return done
}

// stalledHolder: A's renewals fail and it goes on; B takes over. B completes
// before A comes back, or is still running.
func stalledHolder(f *field) {
	for _, aFails := range []bool{false, true} {
		for _, bRuns := range []bool{false, true} {
			f.stalled(fmt.Sprintf("A fails: %v, B runs: %v", aFails, bRuns), aFails, bRuns)
		}
	}
}

func (f *field) stalled(key string, aFails, bRuns bool) {
	f.Helper()
	a, b, c := f.process(faultstore.Fail(faultstore.Renew, 0, errDown), nil), f.process(nil, nil), f.process(nil, nil)
	var tokenA, tokenB uint64
	goOn, began, end := make(chan struct{}), make(chan struct{}), make(chan struct{})
	doneA := f.start(a, key, func(ctx context.Context) (idem.Result, error) {
		claim, _ := idem.ClaimFrom(ctx)
		tokenA = claim.Token()
		close(began)
		err := hold(goOn)
		if aFails {
			err = errBoom
		}
		return idem.Result{Value: []byte("A")}, err
	}, idem.WithLease(short))
	receive(f, began, "A's beginning")
	began = make(chan struct{})
	doneB := f.start(b, key, func(ctx context.Context) (idem.Result, error) {
		claim, _ := idem.ClaimFrom(ctx)
		tokenB = claim.Token()
		close(began)
		if !bRuns {
			return idem.Result{Value: []byte("B")}, nil
		}
		return idem.Result{Value: []byte("B")}, hold(end)
	}, idem.WithLease(10*time.Minute), idem.WithWait(patience))
	receive(f, began, "B's takeover")
	if !bRuns {
		f.must(receive(f, doneB, "B's end").err, "B")
	}
	close(goOn)
	endA := receive(f, doneA, "A's end")
	f.is(endA.err, idem.ErrLeaseLost, "A")
	f.that(errors.Is(endA.err, errBoom) == aFails, "A's own error: %v", endA.err)
	if bRuns {
		f.bSurvives(a, b, c, key)
		close(end)
		f.must(receive(f, doneB, "B's end").err, "B")
	}
	f.that(tokenB > tokenA, "B's token %d is not above A's %d", tokenB, tokenA)
	for _, p := range []*process{a, b, c} {
		f.replays(p, key, "B")
	}
}

// bSurvives: neither A's late writes nor a copy of its heartbeat touch B's claim.
func (f *field) bSurvives(a, b, c *process, key string) {
	f.Helper()
	_, err := c.Execute(f.Context(), key, forbidden(f))
	f.is(err, idem.ErrInProgress, "a third call")
	before := f.record(b, key)
	renewal, ok := a.faults.Nth(faultstore.Renew, 1)
	f.that(ok, "A sent no renewal")
	_, err = a.faults.Replay(f.Context(), renewal)
	f.is(err, driver.ErrLeaseLost, "A's delayed heartbeat")
	f.that(f.record(b, key).Token == before.Token, "the record changed")
}

// crash: what a process leaves that dies is a claim that nobody renews.
func crash(f *field) {
	for _, strict := range []bool{false, true} {
		key := fmt.Sprint("strict: ", strict)
		dead, p := f.process(nil, nil), f.process(nil, nil)
		var opts []idem.ExecuteOption
		if strict {
			opts = append(opts, idem.OnUnknown(idem.Hold))
		}
		begun := time.Now()
		claim, err := dead.Claim(f.Context(), key, short, opts...)
		f.must(err, "Claim")
		_, err = p.Execute(f.Context(), key, returns("too early"), opts...)
		if time.Since(begun) < short {
			var busy *idem.InProgressError
			f.that(errors.As(err, &busy), "within the lease: %v", err)
			f.that(busy.RetryAfter > 0 && busy.RetryAfter <= short, "the hint is %v", busy.RetryAfter)
		}
		var n atomic.Int64
		_, err = p.Execute(f.Context(), key, func(ctx context.Context) (idem.Result, error) {
			n.Add(1)
			c, _ := idem.ClaimFrom(ctx)
			f.that(c.Takeover() && c.Attempt() == 2 && c.Token() > claim.Token(), "takeover %v, attempt %d, token %d", c.Takeover(), c.Attempt(), c.Token())
			return idem.Result{}, nil
		}, append(opts, idem.WithWait(patience))...)
		if strict {
			f.is(err, idem.ErrOutcomeUnknown, "after the lease, under Hold")
			f.that(n.Load() == 0, "it ran")
			continue
		}
		f.must(err, "after the lease")
		f.that(n.Load() == 1, "it did not run")
	}
}

// keyGone: somebody settles the key behind the operation's back, and takes it.
func keyGone(f *field) {
	for _, obeys := range []bool{true, false} {
		key := fmt.Sprint("obeys: ", obeys)
		p, other := f.process(nil, &idem.Options{Lease: short}), f.process(nil, nil)
		began, told := make(chan struct{}), make(chan error, 1)
		done := f.start(p, key, func(ctx context.Context) (idem.Result, error) {
			close(began)
			err := hold(ctx.Done())
			told <- context.Cause(ctx)
			if obeys && err == nil {
				err = ctx.Err()
			}
			return idem.Result{Value: []byte("mine")}, err
		})
		receive(f, began, "the beginning")
		call, ok := p.faults.Nth(faultstore.Claim, 1)
		f.that(ok, "there was no claim")
		ref := driver.Ref{Key: call.Key, Owner: call.Owner}
		f.must(other.faults.Release(f.Context(), ref, &driver.ReleaseParams{Retention: time.Hour}), "Release by owner")
		claim, err := other.Claim(f.Context(), key, time.Hour)
		f.must(err, "the other's claim")
		f.is(receive(f, told, "the end of the operation's context"), idem.ErrLeaseLost, "its cause")
		f.is(receive(f, done, "the end").err, idem.ErrLeaseLost, "Execute")
		rec := f.record(other, key)
		f.that(rec.State == driver.Claimed && rec.Token == claim.Token(), "the record is %v with token %d", rec.State, rec.Token)
	}
}

// overlapping: two processes, no deadline, no option set.
func overlapping(f *field) {
	procs := []*process{f.process(nil, nil), f.process(nil, nil), f.process(nil, nil), f.process(nil, nil)}
	for round := range 5 {
		key := fmt.Sprint(round)
		var n, busy atomic.Int64
		var wg sync.WaitGroup
		errs := make([]error, 100)
		finish := make(chan struct{})
		for i := range errs {
			wg.Go(func() {
				_, err := procs[i%len(procs)].Execute(context.WithoutCancel(f.Context()), key, func(context.Context) (idem.Result, error) {
					n.Add(1)
					return idem.Result{}, hold(finish)
				})
				if errors.Is(err, idem.ErrInProgress) && busy.Add(1) == int64(len(errs)-1) {
					close(finish)
				}
				errs[i] = err
			})
		}
		wg.Wait()
		f.that(n.Load() == 1 && busy.Load() == 99, "%d ran, %d were told that it is in progress: %v", n.Load(), busy.Load(), errors.Join(errs...))
	}
}

// rejectedDuplicate: what is refused frees and changes nothing.
func rejectedDuplicate(f *field) {
	a, b := f.process(nil, nil), f.process(nil, nil)
	one, two := idem.WithFingerprint([]byte("F1")), idem.WithFingerprint([]byte("F2"))
	began, finish := make(chan struct{}), make(chan struct{})
	done := f.start(a, "k", func(context.Context) (idem.Result, error) {
		close(began)
		return idem.Result{Value: []byte("1")}, hold(finish)
	}, one, idem.WithLease(10*time.Minute))
	receive(f, began, "the beginning")
	before := f.record(b, "k")
	for _, p := range []*process{a, b} {
		_, err := p.Execute(f.Context(), "k", forbidden(f), one)
		f.is(err, idem.ErrInProgress, "a duplicate")
		_, err = p.Execute(f.Context(), "k", forbidden(f), two)
		f.is(err, idem.ErrFingerprintMismatch, "another request")
	}
	f.that(fmt.Sprint(before) == fmt.Sprint(f.record(b, "k")), "the record changed")
	close(finish)
	f.must(receive(f, done, "the end").err, "the first call")
	before = f.record(b, "k")
	for _, p := range []*process{a, b} {
		_, err := p.Execute(f.Context(), "k", forbidden(f), two)
		f.is(err, idem.ErrFingerprintMismatch, "another request, later")
		f.replays(p, "k", "1")
	}
	f.that(fmt.Sprint(before) == fmt.Sprint(f.record(b, "k")), "the record changed")
}
