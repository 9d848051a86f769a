package corecases

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

// stalled begins a call on a short lease that is never renewed. Where the machine
// is so slow that nothing of the lease is left when the operation would begin, it
// tries again, with another key and a longer lease.
func (b *bench) stalled() *call {
	b.Helper()
	for i := range 6 {
		p := b.process(b.one, faultstore.Fail(faultstore.Renew, 0, errDown), &idem.Options{Lease: short << i})
		if c := p.begin(fmt.Sprint("k", i)); c.hasEntered() {
			return c
		}
	}
	b.Fatalf("a claim takes longer than its lease of %v", short<<5)
	return nil
}

// ref of the claim that a call made.
func (c *call) ref() driver.Ref {
	c.Helper()
	claim, ok := c.faults.Nth(faultstore.Claim, 1)
	c.that(ok, "there was a claim")
	return driver.Ref{Key: claim.Key, Owner: claim.Owner, Token: c.claim.Token()}
}

func staleOutcome(b *bench) {
	a := b.stalled()
	next := b.plain(b.two).takesOver(a.key)
	b.must(next.returns("B", nil).err)
	end := a.returns("A", nil)
	b.matches(end.err, idem.ErrLeaseLost)
	b.that(len(end.res.Value) == 0, "the value that was not recorded is not returned")
	b.that(next.claim.Token() > a.claim.Token(), "tokens rise: %d, then %d", a.claim.Token(), next.claim.Token())
	for _, over := range []driver.Backend{b.one, b.two} {
		b.plain(over).replays(a.key, "B")
	}
}

func staleFailure(b *bench) {
	a := b.stalled()
	next := b.plain(b.two).takesOver(a.key)
	b.matches(b.one.Renew(b.Context(), a.ref(), &driver.RenewParams{Lease: short, Retention: long}), driver.ErrLeaseLost) // a delayed heartbeat
	left := next.record(a.key).LeaseLeft
	b.that(left > long/2, "the successor's lease is its own, %v left", left)
	b.matches(a.returns("", errBoom).err, idem.ErrLeaseLost, errBoom)
	b.plain(b.one).rejected(a.key, idem.ErrInProgress)
	b.must(next.returns("B", nil).err)
	b.plain(b.one).replays(a.key, "B")
}

func overlap(b *bench) {
	stores := []*process{
		b.process(b.one, nil, &idem.Options{Lease: time.Minute}), b.process(b.two, nil, &idem.Options{Lease: time.Minute}),
	}
	var runs, rejected atomic.Int32
	release := make(chan struct{})
	var all sync.WaitGroup
	const calls = 100
	for i := range calls {
		all.Go(func() {
			_, err := stores[i%2].Execute(b.Context(), key, func(context.Context) (idem.Result, error) {
				runs.Add(1)
				<-release
				return idem.Result{Value: []byte("1")}, nil
			})
			switch {
			case errors.Is(err, idem.ErrInProgress):
				rejected.Add(1)
			case err != nil:
				b.Errorf("unexpected error: %v", err)
			}
		})
	}
	b.eventually("all calls but one are rejected", func() bool { return rejected.Load() == calls-1 || b.Failed() })
	close(release)
	all.Wait()
	b.that(runs.Load() == 1, "one run, got %d", runs.Load())
	stores[0].replays(key, "1")
}

func duplicateRejected(b *bench) {
	a := b.plain(b.one).runs()
	before := settled(a.record(key))
	for range 2 {
		b.plain(b.two).rejected(key, idem.ErrInProgress)
		a.rejected(key, idem.ErrInProgress)
	}
	b.that(sameRecord(before, settled(a.record(key))), "the record is unchanged")
	b.must(a.returns("1", nil).err)
	b.plain(b.two).replays(key, "1")
}

func mismatchRejected(b *bench) {
	first, other := idem.WithFingerprint([]byte("F1")), idem.WithFingerprint([]byte("F2"))
	a := b.plain(b.one).runs(first)
	for _, p := range []*process{a.process, b.plain(b.two)} {
		p.rejected(key, idem.ErrFingerprintMismatch, other)
		p.rejected(key, idem.ErrInProgress, first)
	}
	b.must(a.returns("1", nil).err)
	before := settled(a.record(key))
	for _, p := range []*process{a.process, b.plain(b.two)} {
		p.rejected(key, idem.ErrFingerprintMismatch, other)
		p.replays(key, "1", first)
	}
	b.that(sameRecord(before, settled(a.record(key))), "the record is unchanged")
}

func sameRecord(a, b idem.Record) bool { return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) }

func told(b *bench) {
	p := b.process(b.one, nil, &idem.Options{Lease: long, RenewEvery: 200 * time.Millisecond})
	a := p.runs()
	ref := a.ref()
	ref.Token = 0 // the record is released behind its owner's back
	b.must(b.two.Release(b.Context(), ref, &driver.ReleaseParams{Retention: long}))
	before := settled(a.record(key))
	b.eventually("the operation's context ends, long before the lease would", func() bool { return a.under.Err() != nil })
	b.matches(context.Cause(a.under), idem.ErrLeaseLost)
	end := a.returns("mine", nil)
	b.matches(end.err, idem.ErrLeaseLost)
	b.that(len(end.res.Value) == 0, "the value that was not recorded is not returned")
	b.that(sameRecord(before, settled(a.record(key))), "nothing is written any more")
}

// delayed begins a call whose claim was sent when a's lease had ended, and
// arrives when the channel is closed.
func (b *bench) delayed(a *call) (late *call, arrive chan struct{}) {
	b.Helper()
	b.eventually("the lease has ended", func() bool { return a.record(a.key).LeaseLeft == 0 })
	arrive = make(chan struct{})
	p := b.process(b.two, faultstore.At(faultstore.Claim, 1, faultstore.Fault{Before: faultstore.PauseUntil(arrive)}), nil)
	late = p.begin(a.key)
	b.eventually("the claim is on its way", func() bool { return p.faults.Count(faultstore.Claim) == 1 })
	return late, arrive
}

func takeoverFindsResult(b *bench) {
	a := b.stalled()
	late, arrive := b.delayed(a)
	b.must(a.returns("A", nil).err) // accepted: nobody has taken over
	close(arrive)
	end := late.wait()
	b.must(end.err)
	b.that(string(end.res.Value) == "A" && end.res.Replayed, "the fresh result is replayed, got %q", end.res.Value)
}

func takeoverFindsAnother(b *bench) {
	a := b.stalled()
	late, arrive := b.delayed(a)
	other := b.plain(b.one).takesOver(a.key)
	close(arrive)
	b.matches(late.wait().err, idem.ErrInProgress)
	b.that(other.record(a.key).Token == other.claim.Token(), "the token of who was first stays")
	b.matches(a.returns("A", nil).err, idem.ErrLeaseLost)
	b.must(other.returns("C", nil).err)
	b.plain(b.two).replays(a.key, "C")
}

// deadlineRace has owners complete about when their leases end, while two others
// try to take over: every answer agrees with the record.
func deadlineRace(b *bench) {
	const rounds, lease = 60, 300 * time.Millisecond
	owner := b.process(b.one, faultstore.Fail(faultstore.Renew, 0, errDown), &idem.Options{Lease: lease})
	rivals := []*process{b.plain(b.one), b.plain(b.two)}
	var all sync.WaitGroup
	for i := range rounds {
		all.Go(func() {
			key := fmt.Sprint(i)
			a := owner.begin(key)
			if !a.hasEntered() {
				return // a slow claim
			}
			timer := time.NewTimer(lease - 10*time.Millisecond + time.Duration(i%20)*time.Millisecond)
			defer timer.Stop()
			<-timer.C
			answers := make(chan ending, len(rivals))
			for _, r := range rivals {
				go func() {
					res, err := r.Execute(b.Context(), key, counted(new(int), "rival", nil))
					answers <- ending{res, err}
				}()
			}
			a.finish <- ending{res: idem.Result{Value: []byte("A")}}
			b.agree(key, <-a.done, <-answers, <-answers)
		})
	}
	all.Wait()
}

// agree checks what calls of a key returned against its record.
func (b *bench) agree(key string, ends ...ending) {
	b.Helper()
	rec, err := b.plain(b.one).Inspect(b.Context(), key)
	if err != nil {
		b.Errorf("key %s: %v", key, err)
		return
	}
	for _, e := range ends {
		ok := errors.Is(e.err, idem.ErrLeaseLost) || errors.Is(e.err, idem.ErrInProgress)
		if e.err == nil {
			ok = rec.State == driver.Succeeded && string(e.res.Value) == string(rec.Outcome.Value)
		}
		if !ok {
			b.Errorf("key %s: an answer (%q, %v) does not agree with the record %v %q", key, e.res.Value, e.err, rec.State, rec.Outcome.Value)
		}
	}
}
