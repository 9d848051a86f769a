// Package casetest runs the cases from the field that concern every backend
// against a real one, in real time: what the tests of package idem show on memory
// with a clock of their own, the server shows here. Each case is named by its
// number.
//
// No case waits for a lease to end by itself: the test shortens it as its owner
// and looks until the server says that it has ended, so that nothing depends on
// the speed of the machine.
package casetest

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
)

// Harness tells [Run] how to reach the backend.
type Harness struct {
	// New returns a handle. All handles share their data: they are what different
	// processes would have. Keys are in a random namespace.
	New func(tb testing.TB) driver.Backend
}

// Run runs every case as a subtest.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for name, check := range map[string]func(c *bench){
		"C02 a stalled holder does not overwrite its successor": stalledHolder,
		"C02 a late renewal does not touch its successor":       lateRenewal,
		"C05 a completion that fails once is repeated":          completionRepeated,
		"C05 an outcome that is not recorded is no fresh run":   notRecorded,
		"C08 a rejected duplicate frees nothing":                rejectedDuplicate,
		"C13 a dead process blocks the key for its lease only":  deadProcess,
		"C14 late copies of calls change nothing":               lateCopies,
		"C17 a running operation is told that its key is gone":  keyGone,
		"C25 any value and any text comes back":                 anyValue,
		"C28 many first callers run once":                       manyCallers,
		"C46 keys are refused before the operation or distinct": keys,
		"C55 a panic or Goexit leaves the key settled":          unusualEnds,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(&bench{TB: t, t: t, h: &h, space: "case-" + rand.Text()})
		})
	}
}

// bench is one case.
type bench struct {
	testing.TB
	t     *testing.T
	h     *Harness
	space string
}

const (
	aDay      = 24 * time.Hour
	longLease = time.Hour
)

var errBoom = errors.New("boom")

func (c *bench) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("unexpected error: %v", err)
	}
}

func (c *bench) is(err, want error) {
	c.Helper()
	if !errors.Is(err, want) {
		c.Fatalf("error %v, want %v", err, want)
	}
}

func (c *bench) that(ok bool, what string) {
	c.Helper()
	if !ok {
		c.Fatalf("it is not true that %s", what)
	}
}

// over returns a Store over b that renews nothing while a test runs.
func (c *bench) over(b driver.Backend) *idem.Store {
	c.Helper()
	s, err := idem.New(b, &idem.Options{
		Namespace: c.space, Lease: longLease, RenewEvery: 20 * time.Minute, Retention: aDay, Observer: idem.Discard,
	})
	c.must(err)
	c.Cleanup(func() { _ = s.Close(context.WithoutCancel(c.Context())) })
	return s
}

// process returns a Store of its own, as another process has it.
func (c *bench) process() *idem.Store {
	c.Helper()
	return c.over(c.h.New(c))
}

func (c *bench) record(key string) *driver.Record {
	c.Helper()
	rec, err := c.h.New(c).Inspect(c.Context(), driver.JoinKey(c.space, key))
	c.must(err)
	return rec
}

// lapse lets the lease of the running claim end.
func (c *bench) lapse(key string) {
	c.Helper()
	b, ctx := c.h.New(c), context.WithoutCancel(c.Context())
	rec := c.record(key)
	ref := driver.Ref{Key: rec.Key, Owner: rec.Owner, Token: rec.Token}
	c.must(b.Renew(ctx, ref, &driver.RenewParams{Lease: time.Millisecond, Retention: aDay}))
	c.eventually("the lease ends", func() bool {
		rec, err := b.Inspect(ctx, ref.Key)
		c.must(err)
		return rec.State != driver.Claimed
	})
}

// eventually waits until the condition holds.
func (c *bench) eventually(what string, holds func() bool) {
	c.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); !holds(); <-tick.C {
		if time.Since(began) > time.Minute {
			c.Fatalf("it did not become true within a minute that %s", what)
		}
	}
}

// unchanged notes a failure unless the record is the one from before. What counts
// down by itself is left out.
func (c *bench) unchanged(before *driver.Record, when string) {
	c.Helper()
	after := c.record(keyOf(c, before))
	same := before.State == after.State && before.Owner == after.Owner && before.Token == after.Token &&
		before.Attempt == after.Attempt && before.Held == after.Held && before.Doubt == after.Doubt &&
		before.Revision == after.Revision && before.Fingerprint == after.Fingerprint &&
		before.Outcome.Equal(&after.Outcome) && before.RecordedAt.Equal(after.RecordedAt) &&
		after.LeaseLeft <= before.LeaseLeft && len(before.Refs) == len(after.Refs)
	if !same {
		c.Fatalf("%s the record changed from %+v to %+v", when, before, after)
	}
}

func keyOf(c *bench, rec *driver.Record) string {
	c.Helper()
	_, key, err := driver.SplitKey(rec.Key)
	c.must(err)
	return key
}

func returns(value string) idem.Op {
	return func(context.Context) (idem.Result, error) { return idem.Result{Value: []byte(value)}, nil }
}

func (c *bench) forbidden() idem.Op {
	return func(context.Context) (idem.Result, error) {
		c.Error("the operation ran")
		return idem.Result{}, nil
	}
}

// replays requires that a key gives this value without running.
func (c *bench) replays(s *idem.Store, key, value string) idem.Result {
	c.Helper()
	res, err := s.Execute(c.Context(), key, c.forbidden())
	c.must(err)
	if string(res.Value) != value || !res.Replayed {
		c.Fatalf("%q replayed %v, want %q replayed", res.Value, res.Replayed, value)
	}
	return res
}

// ending is how a call in a goroutine of its own ended.
type ending struct {
	res      idem.Result
	err      error
	panicked any
	exited   bool
}

func start(call func() (idem.Result, error)) <-chan ending {
	done := make(chan ending, 1)
	go func() {
		end := ending{exited: true}
		defer func() {
			if p := recover(); p != nil {
				end.panicked, end.exited = p, false
			}
			done <- end
		}()
		end.res, end.err = call()
		end.exited = false
	}()
	return done
}

// running starts an operation and returns once it runs. It ends when end is
// closed, or with its context.
type running struct {
	done  <-chan ending
	end   chan struct{}
	claim *idem.Claim
}

func (c *bench) start(s *idem.Store, key, value string, opts ...idem.ExecuteOption) *running {
	c.Helper()
	r := &running{end: make(chan struct{})}
	begun := make(chan struct{})
	r.done = start(func() (idem.Result, error) {
		return s.Execute(c.Context(), key, func(ctx context.Context) (idem.Result, error) {
			r.claim, _ = idem.ClaimFrom(ctx)
			close(begun)
			select {
			case <-r.end:
				return idem.Result{Value: []byte(value)}, nil
			case <-ctx.Done():
				return idem.Result{}, context.Cause(ctx)
			}
		}, opts...)
	})
	select {
	case <-begun:
	case end := <-r.done:
		c.Fatalf("the operation did not run: %v", end.err)
	}
	return r
}

func (r *running) finish() ending {
	close(r.end)
	return <-r.done
}
