package casetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
)

// completionRepeated is C05 (a), C10 (b) and C14.
func completionRepeated(c *bench) {
	for key, hook := range map[string]faultstore.Hook{
		"not applied": faultstore.Fail(faultstore.Complete, 1, errBoom),
		"reply lost":  faultstore.Lose(faultstore.Complete, 1),
		"sent twice":  faultstore.Duplicate(faultstore.Complete, 1),
		"claim lost":  faultstore.Lose(faultstore.Claim, 1),
		"claim twice": faultstore.Duplicate(faultstore.Claim, 1),
		"refused":     faultstore.Fail(faultstore.Complete, 1, driver.ErrUnavailable),
	} {
		s := c.over(faultstore.New(c.h.New(c), hook))
		res, err := s.Execute(c.Context(), key, returns("7"))
		c.must(err)
		c.that(string(res.Value) == "7" && !res.Replayed, "it was executed")
		c.replays(s, key, "7")
		c.replays(c.process(), key, "7")
		c.that(c.record(key).Attempt == 1, "it was claimed once")
	}
}

// notRecorded is C05 (b).
func notRecorded(c *bench) {
	for key, strict := range map[string]bool{"rerun": false, "hold": true} {
		var opts []idem.ExecuteOption
		if strict {
			opts = append(opts, idem.OnUnknown(idem.Hold))
		}
		s, err := idem.New(faultstore.New(c.h.New(c), faultstore.Fail(faultstore.Complete, 0, errBoom)), &idem.Options{
			Namespace: c.space, Lease: longLease, RecordTimeout: 200 * time.Millisecond, Retention: aDay, Observer: idem.Discard,
		})
		c.must(err)
		res, err := s.Execute(c.Context(), key, returns("7"), opts...)
		c.is(err, idem.ErrNotRecorded)
		c.that(string(res.Value) == "7", "the result is given out")
		c.that(c.record(key).State == driver.Claimed, "the record is not deleted")
		_, err = c.process().Execute(c.Context(), key, c.forbidden(), opts...)
		c.is(err, idem.ErrInProgress)
		c.lapse(key)
		_, err = c.process().Execute(c.Context(), key, func(ctx context.Context) (idem.Result, error) {
			claim, _ := idem.ClaimFrom(ctx)
			c.that(!strict && claim.Takeover(), "a run after the lease is a takeover, by policy")
			return idem.Result{}, nil
		}, opts...)
		if strict {
			c.is(err, idem.ErrOutcomeUnknown)
			continue
		}
		c.must(err)
	}
}

func rejectedDuplicate(c *bench) {
	a, b := c.process(), c.process()
	same, other := idem.WithFingerprint([]byte("F1")), idem.WithFingerprint([]byte("F2"))
	run := c.start(a, "k", "1", same)
	before := c.record("k")
	for _, s := range []*idem.Store{a, b} {
		_, err := s.Execute(c.Context(), "k", c.forbidden(), same)
		c.is(err, idem.ErrInProgress)
		_, err = s.Execute(c.Context(), "k", c.forbidden(), other)
		c.is(err, idem.ErrFingerprintMismatch)
	}
	c.unchanged(before, "after rejected duplicates")
	c.must(run.finish().err)
	before = c.record("k")
	for _, s := range []*idem.Store{a, b} {
		_, err := s.Execute(c.Context(), "k", c.forbidden(), other)
		c.is(err, idem.ErrFingerprintMismatch)
		res, err := s.Execute(c.Context(), "k", c.forbidden(), same)
		c.must(err)
		c.that(string(res.Value) == "1", "the first request replays")
	}
	c.unchanged(before, "after another request")
}

// lateCopies: every call of an execution arrives once more when all is over.
func lateCopies(c *bench) {
	f := faultstore.New(c.h.New(c), nil)
	s := c.over(f)
	_, err := s.Execute(c.Context(), "k", func(ctx context.Context) (idem.Result, error) {
		claim, _ := idem.ClaimFrom(ctx)
		c.must(claim.Renew(ctx))
		c.must(claim.SaveRef(ctx, "acme", "ch_1"))
		return idem.Result{Value: []byte("1")}, nil
	})
	c.must(err)
	before := c.record("k")
	for _, e := range f.Log() {
		_, _ = f.Replay(c.Context(), e.Call)
		c.unchanged(before, "after a copy of "+e.Method)
	}
	c.replays(s, "k", "1")
}

func unusualEnds(c *bench) {
	for name, exit := range map[string]func(){
		"a string": func() { panic("x") },
		"an error": func() { panic(errBoom) },
		"nil":      func() { panic(nil) }, //nolint:govet // on purpose
		"Goexit":   runtime.Goexit,
	} {
		for _, strict := range []bool{false, true} {
			var opts []idem.ExecuteOption
			if strict {
				opts = append(opts, idem.OnUnknown(idem.Hold))
			}
			key, s := fmt.Sprint(name, strict), c.process()
			end := <-start(func() (idem.Result, error) {
				return s.Execute(c.Context(), key, func(context.Context) (idem.Result, error) {
					exit()
					return idem.Result{}, nil
				}, opts...)
			})
			c.that(end.exited == (name == "Goexit"), "Goexit ends the goroutine")
			c.that(end.exited || end.panicked != nil, "the panic goes on")
			rec := c.record(key)
			c.that(rec.Doubt && rec.Held == strict, "nothing is recorded or denied")
			_, err := c.process().Execute(c.Context(), key, returns("1"), opts...)
			c.that(!errors.Is(err, idem.ErrInProgress), "the key is not busy")
			if strict {
				c.is(err, idem.ErrOutcomeUnknown)
				continue
			}
			c.must(err)
		}
	}
}
