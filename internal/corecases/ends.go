package corecases

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
)

func completionRepeated(b *bench) {
	for name, hook := range map[string]faultstore.Hook{
		"not applied": faultstore.Fail(faultstore.Complete, 1, errDown),
		"reply lost":  faultstore.Lose(faultstore.Complete, 1),
		"sent twice":  faultstore.Duplicate(faultstore.Complete, 1),
	} {
		p, n := b.process(b.one, hook, nil), 0
		res, err := p.Execute(b.Context(), name, counted(&n, "7", nil))
		b.must(err)
		b.that(string(res.Value) == "7" && !res.Replayed, "%s: executed, got %q", name, res.Value)
		p.replays(name, "7")
		b.plain(b.two).replays(name, "7")
		b.that(n == 1, "%s: one run, got %d", name, n)
	}
}

func completionFails(b *bench) {
	down, n := faultstore.Fail(faultstore.Complete, 0, errDown), 0
	run := func(key string, lease time.Duration, opts ...idem.ExecuteOption) {
		p := b.process(b.one, down, &idem.Options{Lease: lease, RecordTimeout: 500 * time.Millisecond})
		res, err := p.Execute(b.Context(), key, counted(&n, "7", nil), opts...)
		b.matches(err, idem.ErrNotRecorded)
		b.differs(err, idem.ErrUnavailable, errBoom)
		b.that(string(res.Value) == "7", "the result comes with the error, got %q", res.Value)
		b.that(p.faults.Count(faultstore.Release) == 0, "the record is not given up")
	}
	run("living", long)
	for _, over := range []driver.Backend{b.one, b.two} {
		b.plain(over).rejected("living", idem.ErrInProgress)
	}
	run("ended", short)
	b.must(b.plain(b.two).takesOver("ended").returns("8", nil).err)
	run("held", short, idem.OnUnknown(idem.Hold))
	b.plain(b.two).heldAfterItsLease("held")
	b.that(n == 3, "one run each, got %d", n)
}

// heldAfterItsLease requires that under Hold a call gets ErrOutcomeUnknown as
// soon as the lease has ended, and ErrInProgress before.
func (p *process) heldAfterItsLease(key string) {
	p.Helper()
	p.eventually("the outcome is unknown", func() bool {
		_, err := p.Execute(p.Context(), key, p.forbidden(), idem.OnUnknown(idem.Hold))
		p.that(errors.Is(err, idem.ErrOutcomeUnknown) || errors.Is(err, idem.ErrInProgress), "got %v", err)
		return errors.Is(err, idem.ErrOutcomeUnknown)
	})
}

// dies claims a key as a process does that is killed: nothing more comes.
func (b *bench) dies(lease time.Duration) (token uint64) {
	b.Helper()
	c, err := b.plain(b.one).Claim(b.Context(), key, lease, idem.WithRetention(24*time.Hour))
	b.must(err)
	return c.Token()
}

func crash(b *bench) {
	token := b.dies(time.Second)
	next := b.plain(b.two)
	_, err := next.Execute(b.Context(), key, counted(new(int), "", errBoom))
	var busy *idem.InProgressError
	if errors.As(err, &busy) { // unless a second has passed already
		b.that(busy.RetryAfter > 0 && busy.RetryAfter <= time.Second, "the hint is within the lease: %v", busy.RetryAfter)
		b.that(busy.LeaseLeft <= time.Second, "the lease is the claim's own: %v", busy.LeaseLeft)
	}
	c := next.takesOver(key)
	b.that(c.claim.Token() > token, "the token rises")
	b.that(c.claim.Attempt() >= 2, "attempts are counted, got %d", c.claim.Attempt())
	b.must(c.returns("1", nil).err)
	next.replays(key, "1")
}

func crashUnderHold(b *bench) {
	b.dies(short)
	p := b.plain(b.two)
	p.heldAfterItsLease(key)
	b.that(p.record(key).State == driver.Unknown, "the record says so, got %v", p.record(key).State)
	b.plain(b.one).rejected(key, idem.ErrOutcomeUnknown, idem.OnUnknown(idem.Hold))
}

func failures(b *bench) {
	p := b.plain(b.one)
	for name, tc := range map[string]struct {
		err    error
		second error // of the second call; nil: it runs
	}{
		"plain":       {errBoom, nil},
		"not applied": {idem.NotApplied(errNothing), nil},
		"permanent":   {idem.Permanent(errPermanent), idem.ErrRecordedFailure},
		"unknown":     {idem.Unknown(errUnknown), idem.ErrOutcomeUnknown},
	} {
		n := 0
		_, err := p.Execute(b.Context(), name, counted(&n, "", tc.err))
		b.matches(err, tc.err)
		_, err = b.plain(b.two).Execute(b.Context(), name, counted(&n, "7", nil))
		if tc.second == nil {
			b.must(err)
			b.that(n == 2, "%s: the second call runs, %d runs", name, n)
			continue
		}
		b.matches(err, tc.second)
		b.that(n == 1, "%s: the second call does not run, %d runs", name, n)
	}
}

func resolved(b *bench) {
	p := b.plain(b.one)
	for name, tc := range map[string]struct {
		recovery idem.Recovery
		runs     int
		err      error
	}{
		"not executed":     {idem.NotExecuted(), 2, nil},
		"failed":           {idem.RecoveredFailure(errPermanent), 1, idem.ErrRecordedFailure},
		"succeeded with 7": {idem.Recovered(idem.Result{Value: []byte("7")}), 1, nil},
	} {
		n := 0
		_, err := p.Execute(b.Context(), name, counted(&n, "", idem.Unknown(errUnknown)))
		b.matches(err, idem.ErrOutcomeUnknown)
		b.plain(b.two).rejected(name, idem.ErrOutcomeUnknown)
		before := p.record(name)
		b.must(p.Resolve(b.Context(), name, before.Token, idem.Resolution{Recovery: tc.recovery, By: "ann", Why: "asked the bank"}))
		b.that(p.record(name).Token > before.Token, "%s: the token rises", name)
		res, err := b.plain(b.two).Execute(b.Context(), name, counted(&n, "7", nil))
		b.that(errors.Is(err, tc.err), "%s: got %v", name, err)
		b.that(n == tc.runs, "%s: %d runs, got %d", name, tc.runs, n)
		if tc.err == nil {
			b.that(string(res.Value) == "7", "%s: got %q", name, res.Value)
		}
	}
}

func panics(b *bench) {
	for name, exit := range map[string]func(){
		"panic of a string": func() { panic("x") },
		"panic of an error": func() { panic(errBoom) },
		"panic of nil":      func() { panic(nil) }, //nolint:govet // on purpose
		"Goexit":            runtime.Goexit,
	} {
		for _, hold := range []bool{false, true} {
			key, opts := name, []idem.ExecuteOption(nil)
			if hold {
				key, opts = name+", held", []idem.ExecuteOption{idem.OnUnknown(idem.Hold)}
			}
			got := b.exits(key, exit, opts...)
			b.that((got == nil) == (name == "Goexit"), "%s: the caller gets %v", key, got)
			if want, ok := got.(string); ok {
				b.that(want == "x", "the value is unchanged, got %q", want)
			}
			n := 0
			_, err := b.plain(b.two).Execute(b.Context(), key, counted(&n, "1", nil), opts...)
			if hold {
				b.matches(err, idem.ErrOutcomeUnknown)
			} else {
				b.must(err)
			}
			b.that(n == 1 != hold, "%s: at once, as the policy says, %d runs", key, n)
		}
	}
}

// exits executes an operation that ends in an unusual way, and returns what was
// recovered from it.
func (b *bench) exits(key string, exit func(), opts ...idem.ExecuteOption) (recovered any) {
	b.Helper()
	p, done := b.plain(b.one), make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		_, _ = p.Execute(b.Context(), key, func(context.Context) (idem.Result, error) {
			exit()
			return idem.Result{}, nil
		}, opts...)
	}()
	return <-done
}
