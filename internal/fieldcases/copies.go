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
)

// lateCopies: each call of an execution arrives once more when all is over.
func lateCopies(f *field) {
	p := f.process(nil, nil)
	_, err := p.Execute(f.Context(), "k", func(ctx context.Context) (idem.Result, error) {
		claim, _ := idem.ClaimFrom(ctx)
		f.must(claim.Renew(ctx), "Renew")
		f.must(claim.SaveRef(ctx, "acme", "ch_1"), "SaveRef")
		return idem.Result{Value: []byte("1")}, nil
	})
	f.must(err, "Execute")
	before := fmt.Sprint(f.record(p, "k"))
	for _, e := range p.faults.Log() {
		_, _ = p.faults.Replay(f.Context(), e.Call)
		f.that(fmt.Sprint(f.record(p, "k")) == before, "a late copy of %s changed the record", e.Method)
	}
	f.replays(p, "k", "1")
}

// takeovers: many callers meet a claim whose lease has ended, or a released
// record, all at once.
func takeovers(f *field) {
	procs := []*process{f.process(nil, nil), f.process(nil, nil)}
	for round := range 20 {
		key := fmt.Sprint(round)
		if round%2 == 0 {
			f.lapsed(procs[0], key)
		} else {
			_, err := procs[0].Execute(f.Context(), key, func(context.Context) (idem.Result, error) { return idem.Result{}, errBoom })
			f.is(err, errBoom, "the attempt before")
		}
		var n atomic.Int64
		var wg sync.WaitGroup
		errs := make([]error, 20)
		for i := range errs {
			wg.Go(func() {
				_, err := procs[i%len(procs)].Execute(context.WithoutCancel(f.Context()), key, counted(&n, returns("1")))
				if !errors.Is(err, idem.ErrInProgress) {
					errs[i] = err
				}
			})
		}
		wg.Wait()
		f.must(errors.Join(errs...), "a caller")
		f.that(n.Load() == 1, "%d ran", n.Load())
	}
}

// lapsed leaves a claim whose lease has ended.
func (f *field) lapsed(p *process, key string) {
	f.Helper()
	claim, err := p.Claim(f.Context(), key, time.Hour)
	f.must(err, "Claim")
	call, _ := p.faults.Nth("Claim", p.faults.Count("Claim"))
	ref := driver.Ref{Key: call.Key, Owner: call.Owner, Token: claim.Token()}
	f.must(p.faults.Renew(f.Context(), ref, &driver.RenewParams{Lease: time.Millisecond, Retention: time.Hour}), "Renew")
	for began := time.Now(); f.record(p, key).State == driver.Claimed; {
		f.that(time.Since(began) < patience, "the lease does not end")
	}
}
