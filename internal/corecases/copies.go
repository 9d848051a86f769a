package corecases

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
)

func callerLeft(b *bench) {
	ctx, cancel := context.WithCancel(b.Context())
	res, err := b.plain(b.one).Execute(ctx, key, func(context.Context) (idem.Result, error) {
		cancel()
		return idem.Result{Value: []byte("7")}, nil
	})
	b.must(err)
	b.that(string(res.Value) == "7", "the result comes back, got %q", res.Value)
	b.plain(b.two).replays(key, "7")
}

func callerLeftFailing(b *bench) {
	for name, failed := range map[string]error{"plain": errBoom, "not applied": idem.NotApplied(errBoom)} {
		ctx, cancel := context.WithCancel(b.Context())
		_, err := b.plain(b.one).Execute(ctx, name, func(context.Context) (idem.Result, error) {
			cancel()
			return idem.Result{}, failed
		})
		b.matches(err, errBoom)
		n := 0
		_, err = b.plain(b.two).Execute(b.Context(), name, counted(&n, "7", nil))
		b.must(err)
		b.that(n == 1, "%s: the next call runs, well before the lease would have ended", name)
	}
}

func lostAcknowledgement(b *bench) {
	for _, method := range []string{faultstore.Claim, faultstore.Complete} {
		for name, hook := range map[string]faultstore.Hook{
			"reply lost": faultstore.Lose(method, 1), "request lost": faultstore.Fail(method, 1, errDown), "sent twice": faultstore.Duplicate(method, 1),
		} {
			key, n := method+", "+name, 0
			res, err := b.process(b.one, hook, nil).Execute(b.Context(), key, counted(&n, "7", nil))
			b.must(err)
			b.that(string(res.Value) == "7" && n == 1, "%s: %q, %d runs", key, res.Value, n)
			p := b.plain(b.two)
			p.replays(key, "7")
			b.that(p.record(key).Attempt == 1, "%s: one attempt", key)
		}
	}
}

// lateCopies has each call of an execution arrive once more when all is over.
func lateCopies(b *bench) {
	p := b.plain(b.one)
	_, err := p.Execute(b.Context(), key, func(ctx context.Context) (idem.Result, error) {
		claim, _ := idem.ClaimFrom(ctx)
		b.must(claim.Renew(ctx))
		b.must(claim.SaveRef(ctx, "acme", "ch_1"))
		return idem.Result{Value: []byte("1")}, nil
	})
	b.must(err)
	before := settled(p.record(key))
	for _, e := range p.faults.Log() {
		_, _ = p.faults.Replay(b.Context(), e.Call)
		b.that(sameRecord(before, settled(p.record(key))), "a late copy of %s changes nothing", e.Method)
	}
	b.plain(b.two).replays(key, "1")
}

// takeovers has many callers meet a claim whose lease has ended, or a released
// record, all at once.
func takeovers(b *bench) {
	procs := []*process{b.plain(b.one), b.plain(b.two)}
	for round := range 20 {
		key := fmt.Sprint(round)
		if round%2 == 0 {
			procs[0].lapsed(key)
		} else {
			_, err := procs[0].Execute(b.Context(), key, counted(new(int), "", errBoom))
			b.matches(err, errBoom)
		}
		var runs atomic.Int32
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				_, err := procs[i%2].Execute(b.Context(), key, func(context.Context) (idem.Result, error) {
					runs.Add(1)
					return idem.Result{Value: []byte("1")}, nil
				})
				if err != nil && !errors.Is(err, idem.ErrInProgress) {
					b.Errorf("unexpected error: %v", err)
				}
			})
		}
		all.Wait()
		b.that(runs.Load() == 1, "one run, got %d", runs.Load())
	}
}

// lapsed leaves a claim whose lease has ended.
func (p *process) lapsed(key string) {
	p.Helper()
	claim, err := p.Claim(p.Context(), key, long)
	p.must(err)
	call, ok := p.faults.Nth(faultstore.Claim, p.faults.Count(faultstore.Claim))
	p.that(ok, "there was a claim")
	ref := driver.Ref{Key: call.Key, Owner: call.Owner, Token: claim.Token()}
	p.must(p.faults.Renew(p.Context(), ref, &driver.RenewParams{Lease: time.Millisecond, Retention: long}))
	p.eventually("the lease has ended", func() bool { return p.record(key).State == driver.Unknown })
}

func anyValue(b *bench) {
	p, other := b.plain(b.one), b.plain(b.two)
	for i, v := range []string{"", "a\x00b", "\xff\xfe\x00", `{"a":"\u0000"}`, `{"a":"\ud800"}`, strings.Repeat("\x00\xff", 100_000)} {
		key := fmt.Sprint(i)
		_, err := p.Execute(b.Context(), key, counted(new(int), v, nil))
		b.must(err)
		p.replays(key, v)
		other.replays(key, v)
	}
	_, err := p.Execute(b.Context(), "error", counted(new(int), "", idem.Permanent(errors.New("a\x00b\xff"))))
	b.that(err != nil, "the failure comes back")
	b.differs(err, idem.ErrNotRecorded)
	other.rejected("error", idem.ErrRecordedFailure)
}

func keys(b *bench) {
	p := b.plain(b.one)
	for _, key := range []string{"", "\x00a", "\xff\xfe", strings.Repeat("x", 10_000), strings.Repeat("x", 1<<20)} {
		p.rejected(key, idem.ErrInvalidKey)
	}
	for _, key := range []string{strings.Repeat("y", 255), "K", "k", "k ", "\u00e9", "e\u0301", "{k}", "}{", "*"} {
		n := 0
		res, err := p.Execute(b.Context(), key, counted(&n, key, nil))
		b.must(err)
		b.that(n == 1 && string(res.Value) == key, "%.20q has a record of its own: %d runs, %.20q", key, n, res.Value)
	}
}
