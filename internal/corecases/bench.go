package corecases

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/internal/faultstore"
	"github.com/idem-go/idem/storetest"
)

const (
	short   = time.Second     // a lease that is waited for until it has ended
	long    = time.Hour       // a lease that does not end during a case
	patient = 2 * time.Minute // how long is waited for what must happen
	key     = "k"
)

// Errors that operations fail with.
var (
	errBoom      = errors.New("boom")
	errPermanent = errors.New("card declined")
	errUnknown   = errors.New("connection broke")
	errNothing   = errors.New("nothing was sent")
	errDown      = errors.New("store down")
)

// bench is where one case runs.
type bench struct {
	testing.TB
	h         storetest.Harness
	one, two  driver.Backend // handles on the same data
	namespace string
}

// process is a Store as another process would have it, over a backend that makes
// the faults that a case asks for.
type process struct {
	*bench
	*idem.Store
	faults *faultstore.Store
}

// process makes one. opts may be nil.
func (b *bench) process(over driver.Backend, hook faultstore.Hook, opts *idem.Options) *process {
	b.Helper()
	var own idem.Options
	if opts != nil {
		own = *opts
	}
	own.Namespace, own.Observer = b.namespace, idem.Discard
	if own.Lease == 0 {
		own.Lease = long
	}
	if own.StoreTimeout == 0 {
		own.StoreTimeout = patient // no call fails because the machine is slow
	}
	p := &process{bench: b, faults: faultstore.New(over, hook)}
	s, err := idem.New(p.faults, &own)
	b.must(err)
	b.Cleanup(func() { b.must(s.Close(context.WithoutCancel(b.Context()))) })
	p.Store = s
	return p
}

// plain is a process without faults.
func (b *bench) plain(over driver.Backend) *process { b.Helper(); return b.process(over, nil, nil) }

// must fails the case if there is an error.
func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatalf("unexpected error: %v", err)
	}
}

// matches fails the case unless err matches each of the targets.
func (b *bench) matches(err error, targets ...error) {
	b.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			b.Fatalf("the error does not match %q: %v", target, err)
		}
	}
}

// differs fails the case if err matches one of the targets.
func (b *bench) differs(err error, targets ...error) {
	b.Helper()
	for _, target := range targets {
		if errors.Is(err, target) {
			b.Fatalf("the error matches %q: %v", target, err)
		}
	}
}

// that fails the case unless something holds.
func (b *bench) that(holds bool, format string, args ...any) {
	b.Helper()
	if !holds {
		b.Fatalf("does not hold: "+format, args...)
	}
}

// eventually waits until something holds.
func (b *bench) eventually(what string, holds func() bool) {
	b.Helper()
	end := time.NewTimer(patient)
	defer end.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-end.C:
			b.Fatalf("not within %v: %s", patient, what)
		}
	}
}

// record is what Inspect shows.
func (p *process) record(key string) *idem.Record {
	p.Helper()
	rec, err := p.Inspect(p.Context(), key)
	p.must(err)
	return rec
}

// replays requires that a call gets a recorded value without running anything.
func (p *process) replays(key, value string, opts ...idem.ExecuteOption) {
	p.Helper()
	res, err := p.Execute(p.Context(), key, p.forbidden(), opts...)
	p.must(err)
	p.that(string(res.Value) == value && res.Replayed, "the value %q is replayed, got %q, replayed %v", value, res.Value, res.Replayed)
}

// rejected requires that a call fails without running anything.
func (p *process) rejected(key string, want error, opts ...idem.ExecuteOption) {
	p.Helper()
	_, err := p.Execute(p.Context(), key, p.forbidden(), opts...)
	p.matches(err, want)
}

// forbidden is an operation that must not run.
func (b *bench) forbidden() idem.Op {
	b.Helper()
	return func(context.Context) (idem.Result, error) {
		b.Error("the operation ran")
		return idem.Result{}, nil
	}
}

// counted is an operation that counts its runs, which must not overlap.
func counted(n *int, value string, err error) idem.Op {
	return func(context.Context) (idem.Result, error) {
		*n++
		return idem.Result{Value: []byte(value)}, err
	}
}

// settled is a record without what changes by itself.
func settled(rec *idem.Record) idem.Record {
	own := *rec
	own.LeaseLeft, own.ClaimAge, own.RetentionLeft = 0, 0, 0
	return own
}
