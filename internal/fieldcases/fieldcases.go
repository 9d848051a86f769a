// Package fieldcases runs, over any backend and on real clocks, the cases from
// the field that say nothing about a backend: things that went wrong for people
// who run such code in production. The root package's tests have the same cases
// in more detail, over the memory backend and a clock of their own.
package fieldcases

import (
	"context"
	"crypto/rand"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
)

// patience bounds what a case waits for.
const patience = 20 * time.Second

// short is a lease that ends while a case waits for it.
const short = 2 * time.Second

var (
	errDown = errors.New("no answer")
	errBoom = errors.New("boom")
)

// Run runs each case as a subtest. open returns a handle on the same data each
// time, independent of the others, as another process would have.
func Run(t *testing.T, open func(tb testing.TB) driver.Backend) {
	t.Helper()
	for name, run := range map[string]func(f *field){
		"C01 an outcome is recorded although the caller has left": callerLeft,
		"C01 a key is released although the caller has left":      callerLeftFailing,
		"C02 a stalled holder does not overwrite its successor":   stalledHolder,
		"C05 a completion that fails once is repeated":            completionFailsOnce,
		"C05 what is not recorded is never a silent fresh run":    notRecorded,
		"C07 of overlapping calls one runs":                       overlapping,
		"C08 a rejected duplicate leaves the record alone":        rejectedDuplicate,
		"C10 a lost acknowledgement is no failure":                lostAcknowledgement,
		"C13 a crash blocks the key for its lease only":           crash,
		"C14 late copies of calls change nothing":                 lateCopies,
		"C17 a running operation is told that its key is gone":    keyGone,
		"C25 any value can be recorded":                           anyValue,
		"C28 of many takeovers one runs":                          takeovers,
		"C46 keys are held or refused before the operation":       keys,
		"C55 a panic or Goexit settles the key":                   unwinding,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(&field{T: t, open: open, namespace: rand.Text()})
		})
	}
}

// field is one case under way.
type field struct {
	*testing.T
	open      func(tb testing.TB) driver.Backend
	namespace string // of this case's keys
}

// process is a Store over a handle of its own.
type process struct {
	*idem.Store
	faults *faultstore.Store
}

// process opens one. hook and o may be nil.
func (f *field) process(hook faultstore.Hook, o *idem.Options) *process {
	f.Helper()
	var all idem.Options
	if o != nil {
		all = *o
	}
	all.Namespace = f.namespace
	all.StoreTimeout, all.Observer = time.Minute, idem.Discard // a slow machine is no failure
	if all.RecordTimeout == 0 {
		all.RecordTimeout = time.Minute
	}
	p := &process{faults: faultstore.New(f.open(f), hook)}
	var err error
	p.Store, err = idem.New(p.faults, &all)
	f.must(err, "New")
	return p
}

// must ends the case if err is not nil.
func (f *field) must(err error, what string) {
	f.Helper()
	if err != nil {
		f.Fatalf("%s: %v", what, err)
	}
}

// is ends the case unless err matches want.
func (f *field) is(err, want error, what string) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("%s: error %v, want one that matches %v", what, err, want)
	}
}

// that ends the case unless ok.
func (f *field) that(ok bool, what string, args ...any) {
	f.Helper()
	if !ok {
		f.Fatalf(what, args...)
	}
}

// replays ends the case unless the call replays want.
func (f *field) replays(p *process, key, want string) {
	f.Helper()
	res, err := p.Execute(f.Context(), key, forbidden(f))
	f.must(err, "the replay")
	f.that(res.Replayed && string(res.Value) == want, "the replay is %q (replayed: %v), want %q", res.Value, res.Replayed, want)
}

// record reads what is stored, without what passes by itself.
func (f *field) record(p *process, key string) driver.Record {
	f.Helper()
	r, err := p.Inspect(f.Context(), key)
	f.must(err, "Inspect")
	out := *r
	out.LeaseLeft, out.ClaimAge, out.RetentionLeft = 0, 0, 0
	return out
}

// receive waits for what comes from ch.
func receive[T any](f *field, ch <-chan T, what string) (v T) {
	f.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v = <-ch:
	case <-timer.C:
		f.Fatalf("%s did not happen within %v", what, patience)
	}
	return v
}

// hold blocks an operation until ch is closed, whatever its context says.
func hold(ch <-chan struct{}) error {
	timer := time.NewTimer(3 * patience)
	defer timer.Stop()
	select {
	case <-ch:
		return nil
	case <-timer.C:
		return errors.New("held for too long")
	}
}

func returns(v string) idem.Op {
	return func(context.Context) (idem.Result, error) { return idem.Result{Value: []byte(v)}, nil }
}

func counted(n *atomic.Int64, op idem.Op) idem.Op {
	return func(ctx context.Context) (idem.Result, error) {
		n.Add(1)
		return op(ctx)
	}
}

func forbidden(f *field) idem.Op {
	return func(context.Context) (idem.Result, error) {
		f.Error("the operation ran")
		return idem.Result{}, nil
	}
}
