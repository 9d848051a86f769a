package storetest

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idem-go/idem/driver"
)

// Bench runs the benchmarks that are named alike for every backend, each serial
// and parallel, so that benchstat can compare them:
//
//	ClaimComplete  a first execution: claim a new key, complete it
//	Replay         a duplicate of what has completed
//	InProgress     a duplicate of what is running
//	HotKey         claims and releases of one key, in parallel all against all
//	WideKeyspace   first claims of keys that are scattered over the key space
//	Renew          renewals of one claim
//	Mismatch       duplicates with another fingerprint
//
// Each asserts what it measures: the fact that every call found, and at the end
// the tokens and attempts on record. Only New of the harness is used.
// ClaimComplete and WideKeyspace leave a record for each iteration: New must
// give a backend that holds some millions of small ones.
func Bench(b *testing.B, h Harness) {
	b.Helper()
	if h.New == nil {
		b.Fatal("storetest: Harness.New is required")
	}
	for _, c := range benches() {
		b.Run(c.name, func(b *testing.B) {
			b.Run("serial", func(b *testing.B) { c.serial(b, &h) })
			b.Run("parallel", func(b *testing.B) { c.parallel(b, &h) })
		})
	}
}

// benchmark is one of them. start prepares the data and returns the step of one
// iteration and the assertion after n of them. Steps run concurrently.
type benchmark struct {
	name  string
	start func(x *bench) (step func(i uint64) error, check func(n uint64) error)
}

func benches() []benchmark {
	return []benchmark{
		{"ClaimComplete", benchClaimComplete},
		{"Replay", benchReplay},
		{"InProgress", benchInProgress},
		{"HotKey", benchHotKey},
		{"WideKeyspace", benchWideKeyspace},
		{"Renew", benchRenew},
		{"Mismatch", benchMismatch},
	}
}

func (c benchmark) serial(b *testing.B, h *Harness) {
	b.Helper()
	x := newBench(b, h)
	x.alone = true
	step, check := c.start(x)
	b.ReportAllocs()
	n := uint64(0)
	for b.Loop() {
		if err := step(n); err != nil {
			b.Fatal(err)
		}
		n++
	}
	if err := check(n); err != nil {
		b.Fatal(err)
	}
}

func (c benchmark) parallel(b *testing.B, h *Harness) {
	b.Helper()
	step, check := c.start(newBench(b, h))
	b.ReportAllocs()
	b.ResetTimer()
	var n atomic.Uint64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := step(n.Add(1) - 1); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	if err := check(n.Load()); err != nil {
		b.Fatal(err)
	}
}

// bench is what the steps of one benchmark share.
type bench struct {
	b       *testing.B
	backend driver.Backend
	space   string
	salt    [8]byte // of the owners: those of two runs differ
	alone   bool    // one goroutine makes all steps
}

func newBench(b *testing.B, h *Harness) *bench {
	b.Helper()
	x := &bench{b: b, backend: h.New(b), space: "bench-" + random(8)}
	copy(x.salt[:], random(8))
	return x
}

// key is the i-th key.
func (x *bench) key(i uint64) string {
	return driver.JoinKey(x.space, strconv.FormatUint(i, 10))
}

// owner is the i-th owner: made without the random source, which is not what is
// measured.
func (x *bench) owner(i uint64) (o driver.Owner) {
	copy(o[:], x.salt[:])
	binary.BigEndian.PutUint64(o[8:], i+1)
	return o
}

// claim claims and insists on the fact.
func (x *bench) claim(want driver.Fact, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	p.Lease, p.Retention, p.Take = long, kept, takeAll
	res, err := x.backend.Claim(x.b.Context(), p)
	if err != nil || res.Fact != want {
		return nil, fmt.Errorf("claim of %q: %s, want %v", p.Key, found(res, err), want)
	}
	return res, nil
}

// benchPrint is the fingerprint of every request but Mismatch's.
func benchPrint() []driver.Fingerprint {
	return []driver.Fingerprint{printOf("k1", "charge 5")}
}

// plant claims one key and completes it if asked. The iterations' owners differ
// from its.
func (x *bench) plant(complete bool) driver.Ref {
	x.b.Helper()
	p := &driver.ClaimParams{Key: x.key(0), Owner: newOwner(), Fingerprints: benchPrint()}
	res, err := x.claim(driver.Acquired, p)
	if err != nil {
		x.b.Fatal(err)
	}
	ref := driver.Ref{Key: p.Key, Owner: p.Owner, Token: res.Record.Token}
	if complete {
		done := &driver.CompleteParams{Outcome: benchOutcome(), Retention: kept}
		if err := x.backend.Complete(x.b.Context(), ref, done); err != nil {
			x.b.Fatal(err)
		}
	}
	return ref
}

// benchOutcome is a small answer, as of a payment.
func benchOutcome() driver.Outcome {
	return success(`{"id":"ch_3PZk2eLkdIwHu7ix0YbFqW4c","amount":500,"status":"succeeded"}`)
}

// untouched asserts that the planted record is the one that was planted.
func (x *bench) untouched(ref driver.Ref, state driver.State) error {
	rec, err := x.backend.Inspect(x.b.Context(), ref.Key)
	if err != nil {
		return err
	}
	if rec.State != state || rec.Token != ref.Token || rec.Attempt != 1 {
		return fmt.Errorf("the record is %v, token %d, attempt %d; want %v, %d, 1", rec.State, rec.Token, rec.Attempt, state, ref.Token)
	}
	return nil
}

func benchClaimComplete(x *bench) (func(uint64) error, func(uint64) error) {
	prints := benchPrint()
	step := func(i uint64) error {
		p := &driver.ClaimParams{Key: x.key(i), Owner: x.owner(i), Fingerprints: prints}
		res, err := x.claim(driver.Acquired, p) // acquired: no other iteration had this key
		if err != nil {
			return err
		}
		ref := driver.Ref{Key: p.Key, Owner: p.Owner, Token: res.Record.Token}
		return x.backend.Complete(x.b.Context(), ref, &driver.CompleteParams{Outcome: benchOutcome(), Retention: kept})
	}
	return step, x.recorded
}

// recorded asserts that n keys were completed in their first attempt: the first,
// the last and some in between.
func (x *bench) recorded(n uint64) error {
	want := benchOutcome()
	for _, i := range []uint64{0, n / 3, n / 2, n - 1} {
		rec, err := x.backend.Inspect(x.b.Context(), x.key(i))
		if err != nil {
			return err
		}
		if rec.Attempt != 1 || rec.Token == 0 || !rec.Outcome.Equal(&want) {
			return fmt.Errorf("key %d of %d: %v, attempt %d, token %d", i, n, rec.State, rec.Attempt, rec.Token)
		}
	}
	return nil
}

func benchReplay(x *bench) (func(uint64) error, func(uint64) error) {
	ref, prints, want := x.plant(true), benchPrint(), benchOutcome()
	step := func(i uint64) error {
		res, err := x.claim(driver.Completed, &driver.ClaimParams{Key: ref.Key, Owner: x.owner(i), Fingerprints: prints})
		if err == nil && !res.Record.Outcome.Equal(&want) {
			err = fmt.Errorf("the replay has %d bytes", len(res.Record.Outcome.Value))
		}
		return err
	}
	return step, func(uint64) error { return x.untouched(ref, driver.Succeeded) }
}

func benchInProgress(x *bench) (func(uint64) error, func(uint64) error) {
	ref, prints := x.plant(false), benchPrint()
	step := func(i uint64) error {
		_, err := x.claim(driver.InProgress, &driver.ClaimParams{Key: ref.Key, Owner: x.owner(i), Fingerprints: prints})
		return err
	}
	return step, func(uint64) error { return x.untouched(ref, driver.Claimed) }
}

func benchMismatch(x *bench) (func(uint64) error, func(uint64) error) {
	ref, prints := x.plant(true), []driver.Fingerprint{printOf("k1", "charge 6")}
	step := func(i uint64) error {
		_, err := x.claim(driver.Mismatch, &driver.ClaimParams{Key: ref.Key, Owner: x.owner(i), Fingerprints: prints})
		return err
	}
	return step, func(uint64) error { return x.untouched(ref, driver.Succeeded) }
}

// benchHotKey counts the claims that acquired: as many attempts must be on
// record. Serial, every claim does.
func benchHotKey(x *bench) (func(uint64) error, func(uint64) error) {
	key, prints := x.key(0), benchPrint()
	var acquired atomic.Int64
	var top atomic.Uint64
	step := func(i uint64) error {
		p := &driver.ClaimParams{
			Key: key, Owner: x.owner(i), Lease: long, Retention: kept, Take: takeAll, Fingerprints: prints,
		}
		res, err := x.backend.Claim(x.b.Context(), p)
		if err != nil || res.Fact != driver.Acquired && res.Fact != driver.InProgress {
			return fmt.Errorf("claim: %s, want acquired or in progress", found(res, err))
		}
		if res.Fact == driver.InProgress {
			return nil
		}
		acquired.Add(1)
		if last := top.Swap(res.Record.Token); last >= res.Record.Token {
			return fmt.Errorf("token %d after token %d", res.Record.Token, last)
		}
		ref := driver.Ref{Key: key, Owner: p.Owner, Token: res.Record.Token}
		return x.backend.Release(x.b.Context(), ref, &driver.ReleaseParams{Retention: kept})
	}
	return step, func(n uint64) error {
		rec, err := x.backend.Inspect(x.b.Context(), key)
		if err != nil {
			return err
		}
		got := acquired.Load()
		share := float64(got) / float64(n)
		if got == 0 || x.alone && share != 1 || int64(rec.Attempt) != got || rec.Token != top.Load() {
			return fmt.Errorf("%d of %d claims acquired, but attempt %d and token %d are on record", got, n, rec.Attempt, rec.Token)
		}
		x.b.ReportMetric(share, "acquired/op")
		return nil
	}
}

// scattered is a bijection of the 64-bit numbers, so that neighbours in time are
// far apart in the key space.
func scattered(i uint64) uint64 {
	i = (i ^ i>>30) * 0xbf58476d1ce4e5b9
	i = (i ^ i>>27) * 0x94d049bb133111eb
	return i ^ i>>31
}

func benchWideKeyspace(x *bench) (func(uint64) error, func(uint64) error) {
	prints := benchPrint()
	step := func(i uint64) error {
		p := &driver.ClaimParams{Key: x.key(scattered(i)), Owner: x.owner(i), Fingerprints: prints}
		res, err := x.claim(driver.Acquired, p)
		if err == nil && res.Record.Attempt != 1 {
			err = fmt.Errorf("key %q was claimed before", p.Key)
		}
		return err
	}
	return step, func(n uint64) error {
		for _, i := range []uint64{0, n / 2, n - 1} {
			rec, err := x.backend.Inspect(x.b.Context(), x.key(scattered(i)))
			if err != nil {
				return err
			}
			if rec.Owner != x.owner(i) || rec.State != driver.Claimed {
				return fmt.Errorf("key %d of %d is %v, of owner %x", i, n, rec.State, rec.Owner)
			}
		}
		return nil
	}
}

func benchRenew(x *bench) (func(uint64) error, func(uint64) error) {
	ref := x.plant(false)
	p := driver.RenewParams{Lease: 2 * long, Retention: kept}
	step := func(uint64) error {
		p := p
		return x.backend.Renew(x.b.Context(), ref, &p)
	}
	return step, func(uint64) error {
		rec, err := x.backend.Inspect(x.b.Context(), ref.Key)
		if err == nil && rec.LeaseLeft < 2*long-time.Minute {
			err = fmt.Errorf("%v of a lease of %v is left after the last renewal", rec.LeaseLeft, 2*long)
		}
		if err != nil {
			return err
		}
		return x.untouched(ref, driver.Claimed)
	}
}
