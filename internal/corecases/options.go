package corecases

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/storetest"
)

func noKey(b *bench) {
	p := b.plain(b.one)
	p.rejected("", idem.ErrInvalidKey)
	_, err := p.Claim(b.Context(), "", 0)
	b.matches(err, idem.ErrInvalidKey)
	_, err = p.Inspect(b.Context(), "")
	b.matches(err, idem.ErrInvalidKey)
	b.that(p.faults.Count("") == 0, "the store is not asked")
}

func durations(b *bench) {
	for _, opts := range []idem.Options{
		{Lease: -time.Second},
		{Lease: 500 * time.Microsecond},
		{Retention: -time.Second},
		{RetryWindow: -1},
		{MaxRun: -1},
		{Retention: time.Second}, // less than the retry window
	} {
		_, err := idem.New(b.one, &opts)
		b.matches(err, idem.ErrInvalidOption)
	}
	for i, opts := range []idem.Options{
		{Lease: time.Millisecond},
		{Lease: 1500 * time.Millisecond},
		{Retention: 1500 * time.Millisecond, RetryWindow: time.Second},
		{},
	} {
		opts.Namespace, opts.Observer, opts.StoreTimeout = b.namespace, idem.Discard, patient
		s, err := idem.New(b.one, &opts)
		b.must(err)
		key := fmt.Sprint(i)
		// Of a lease of 1 ms nothing may be left when the operation would begin.
		_, err = s.Execute(b.Context(), key, counted(new(int), "1", nil))
		b.that(err == nil || errors.Is(err, idem.ErrLeaseLost) || i == 0, "%+v: %v", opts, err)
		b.must(s.Close(context.WithoutCancel(b.Context())))
	}
}

func retention(b *bench) {
	const kept = 1500 * time.Millisecond
	p := b.process(b.one, nil, &idem.Options{Lease: time.Minute, Retention: kept, RetryWindow: time.Second})
	a := p.runs()
	left := p.record(key).RetentionLeft
	b.that(left == 0 || left >= kept, "a claim is kept for its lease and longer, %v left", left)
	b.must(a.returns("1", nil).err)
	rec, err := p.Inspect(b.Context(), key)
	if err == nil { // unless it has ended already
		b.that(rec.RetentionLeft > 0 && rec.RetentionLeft <= kept, "an outcome is kept for its retention, %v left", rec.RetentionLeft)
	} else {
		b.matches(err, idem.ErrNotFound)
	}
	n := 0
	b.eventually("the key runs again", func() bool {
		_, err := b.plain(b.two).Execute(b.Context(), key, counted(&n, "2", nil))
		b.must(err)
		return n == 1
	})
}

func renewals(b *bench) {
	for _, tc := range []struct {
		lease, every time.Duration
		ok           bool
	}{
		{5 * time.Second, 5 * time.Second, false},
		{5 * time.Second, 6 * time.Second, false},
		{5 * time.Second, 3 * time.Second, false},
		{5 * time.Second, 0, true},
		{5 * time.Second, -time.Second, false},
		{0, time.Second, true},
		{100 * time.Millisecond, 0, true},
	} {
		_, err := idem.New(b.one, &idem.Options{Lease: tc.lease, RenewEvery: tc.every, Observer: idem.Discard})
		if tc.ok {
			b.must(err)
			continue
		}
		b.matches(err, idem.ErrInvalidOption)
		named := strings.Contains(err.Error(), tc.every.String()) && (tc.every < 0 || strings.Contains(err.Error(), tc.lease.String()))
		b.that(named, "the error names both values: %v", err)
	}
}

func noDeadline(b *bench) {
	b.corrupted([]storetest.CorruptKind{storetest.MissingDeadline, storetest.ZeroDeadline}, func(key string) {
		_, err := b.plain(b.one).Claim(b.Context(), key, long)
		b.must(err)
	})
}

func unreadable(b *bench) {
	b.corrupted([]storetest.CorruptKind{
		storetest.Truncated, storetest.UnknownState, storetest.HigherFormat, storetest.Empty, storetest.WrongType, storetest.MissingOutcome,
	}, func(key string) {
		_, err := b.plain(b.one).Execute(b.Context(), key, counted(new(int), "1", nil))
		b.must(err)
	})
}

// corrupted damages records in each of the given ways, and requires that nothing
// runs and nothing changes. A harness without Corrupt has a backend whose records
// cannot be damaged; then what it would answer is put in its place.
func (b *bench) corrupted(kinds []storetest.CorruptKind, write func(key string)) {
	b.Helper()
	for _, kind := range kinds {
		key, over := kind.String(), b.two
		write(key)
		if b.h.Corrupt == nil {
			over = unreadableBackend{b.two}
		} else if !b.h.Corrupt(b, b.one, b.stored(key), kind) {
			continue // its storage cannot hold such a record
		}
		before := b.raw(key)
		for _, opts := range [][]idem.ExecuteOption{nil, {idem.OnUnknown(idem.Hold)}} {
			for _, failOpen := range []bool{false, true} {
				b.process(over, nil, &idem.Options{FailOpen: failOpen}).rejected(key, idem.ErrCorrupt, opts...)
			}
		}
		b.that(string(before) == string(b.raw(key)), "%s: the record is unchanged", kind)
	}
}

// raw is what is stored for a key, as far as the harness can tell.
func (b *bench) raw(key string) []byte {
	b.Helper()
	if b.h.RawBytes == nil {
		return nil
	}
	return b.h.RawBytes(b, b.one, b.stored(key))
}

// unreadableBackend finds every record unreadable.
type unreadableBackend struct{ driver.Backend }

func (unreadableBackend) Claim(context.Context, *driver.ClaimParams) (*driver.ClaimResult, error) {
	return nil, driver.ErrCorrupt
}
