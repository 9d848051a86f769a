package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idem-go/idem/driver"
)

const (
	long = time.Hour      // a lease that does not end during a rule
	kept = 24 * time.Hour // a retention that does not end during a rule

	takeAll = driver.TakeAbsent | driver.TakeReleased | driver.TakeDoubtful | driver.TakeUnknown | driver.TakeHeld
)

// random returns n random bytes in hexadecimal.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// newOwner returns an owner that nobody has used.
func newOwner() (o driver.Owner) {
	_, _ = rand.Read(o[:]) // never fails
	return o
}

// printOf returns the fingerprint of a request under a key.
func printOf(keyID, request string) driver.Fingerprint {
	return driver.Fingerprint{KeyID: keyID, Sum: sha256.Sum256([]byte(keyID + "/" + request))}
}

// success and failure are outcomes.
func success(value string) driver.Outcome {
	return driver.Outcome{Value: []byte(value), Codec: "text"}
}

func failure(code string) driver.Outcome {
	return driver.Outcome{Failed: true, Code: code, Message: "declined: " + code}
}

// subject is one key, as one handle sees it.
type subject struct {
	*trial
	b   driver.Backend
	raw driver.Backend // b without the trace, for the harness
	key string
	// under, if set, is the context of its calls instead of the test's.
	under func() context.Context
}

func (s *subject) ctx() context.Context {
	if s.under != nil {
		return s.under()
	}
	return s.trial.ctx()
}

// open returns a fresh handle.
func (t *trial) open() driver.Backend { return t.h.New(t.tb) }

// pair returns two handles on the same data.
func (t *trial) pair() (a, b driver.Backend) {
	if t.h.Pair != nil {
		return t.h.Pair(t.tb)
	}
	one := t.open()
	return one, one
}

// on returns the subject for a user's key, in the trial's namespace.
func (t *trial) on(b driver.Backend, key string) *subject {
	return &subject{trial: t, b: &traced{t.claims(b), &t.trace}, raw: b, key: driver.JoinKey(t.space, key)}
}

// subject returns a key that has no record, on a fresh handle.
func (t *trial) subject() *subject { return t.on(t.open(), "key") }

func (t *trial) ctx() context.Context { return t.tb.Context() }

// option changes the parameters of a claim.
type option func(*driver.ClaimParams)

func lease(d time.Duration) option  { return func(p *driver.ClaimParams) { p.Lease = d } }
func take(x driver.Take) option     { return func(p *driver.ClaimParams) { p.Take = x } }
func owned(o driver.Owner) option   { return func(p *driver.ClaimParams) { p.Owner = o } }
func expecting(token uint64) option { return func(p *driver.ClaimParams) { p.ExpectToken = token } }
func leaving(d time.Duration) option {
	return func(p *driver.ClaimParams) { p.MinWindow = d }
}

func keeping(d time.Duration) option {
	return func(p *driver.ClaimParams) { p.Retention = d }
}

func prints(fps ...driver.Fingerprint) option {
	return func(p *driver.ClaimParams) { p.Fingerprints = fps }
}

func calling(name string, window time.Duration) option {
	return func(p *driver.ClaimParams) {
		p.Providers = append(p.Providers, driver.ProviderWindow{Name: name, Window: window})
	}
}

// params are those of a claim by a new owner that may take everything.
func (s *subject) params(opts ...option) *driver.ClaimParams {
	p := &driver.ClaimParams{Key: s.key, Owner: newOwner(), Lease: long, Retention: kept, Take: takeAll}
	for _, o := range opts {
		o(p)
	}
	return p
}

// claimed is the result of a claim that must find the given fact.
func (s *subject) claimed(want driver.Fact, opts ...option) *driver.ClaimResult {
	res, err := s.b.Claim(s.ctx(), s.params(opts...))
	switch {
	case err != nil:
		s.Fatalf("Claim: error %q, want %v", err, want)
	case res == nil:
		s.Fatalf("Claim: neither a result nor an error, want %v", want)
	case res.Fact != want:
		s.Fatalf("Claim: %v, want %v", res.Fact, want)
	}
	return res
}

// refusedClaim is a claim that must end in the given error.
func (s *subject) refusedClaim(want error, opts ...option) {
	res, err := s.b.Claim(s.ctx(), s.params(opts...))
	if !errors.Is(err, want) {
		s.Errorf("Claim: %s, want error %q", found(res, err), want)
	}
}

// found prints what a claim returned.
func found(res *driver.ClaimResult, err error) string {
	if err != nil {
		return fmt.Sprintf("error %q", err)
	}
	if res == nil {
		return "nothing"
	}
	return res.Fact.String()
}

// acquire claims the key, fresh or taken over, and returns the claim's ref.
func (s *subject) acquire(opts ...option) driver.Ref {
	p := s.params(opts...)
	res, err := s.b.Claim(s.ctx(), p)
	if err != nil || res == nil || res.Fact != driver.Acquired && res.Fact != driver.TakenOver {
		s.Fatalf("Claim: %s, want the key", found(res, err))
	}
	return driver.Ref{Key: s.key, Owner: p.Owner, Token: res.Record.Token}
}

func (s *subject) renew(ref driver.Ref, d time.Duration) error {
	return s.b.Renew(s.ctx(), ref, &driver.RenewParams{Lease: d, Retention: kept})
}

func (s *subject) annotate(ref driver.Ref, p driver.AnnotateParams) error {
	return s.b.Annotate(s.ctx(), ref, &p)
}

func (s *subject) complete(ref driver.Ref, o driver.Outcome) error {
	return s.b.Complete(s.ctx(), ref, &driver.CompleteParams{Outcome: o, Retention: kept})
}

func (s *subject) release(ref driver.Ref, p driver.ReleaseParams) error {
	if p.Retention == 0 {
		p.Retention = kept
	}
	return s.b.Release(s.ctx(), ref, &p)
}

// must ends the rule unless the call succeeded.
func (t *trial) must(err error, call string) {
	if err != nil {
		t.Fatalf("%s: error %q, want success", call, err)
	}
}

// refused notes a failure unless err matches the sentinel.
func (t *trial) refused(err, want error, call string) {
	switch {
	case err == nil:
		t.Errorf("%s: succeeded, want error %q", call, want)
	case !errors.Is(err, want):
		t.Errorf("%s: error %q, want %q", call, err, want)
	}
}

// look returns the record, which must be there.
func (s *subject) look() *driver.Record {
	rec, err := s.b.Inspect(s.ctx(), s.key)
	if err != nil || rec == nil {
		s.Fatalf("Inspect: error %v, want the record", err)
	}
	for _, fault := range inconsistent(s.key, rec) {
		s.Errorf("Inspect: %s", fault)
	}
	return rec
}

// gone notes a failure unless the key has no record.
func (s *subject) gone(when string) {
	if rec, err := s.b.Inspect(s.ctx(), s.key); !errors.Is(err, driver.ErrNotFound) {
		if rec != nil {
			s.Errorf("%s: Inspect found a %v record, want error %q", when, rec.State, driver.ErrNotFound)
			return
		}
		s.Errorf("%s: Inspect: error %v, want %q", when, err, driver.ErrNotFound)
	}
}

// stands notes a failure unless the record completed with the outcome.
func (s *subject) stands(o driver.Outcome) *driver.Record {
	rec := s.look()
	if !rec.State.Completed() || !rec.Outcome.Equal(&o) {
		s.Errorf("the record is %v with outcome %s, want %s", rec.State, describe(&rec.Outcome), describe(&o))
	}
	return rec
}

// picture is a record at one instant.
type picture struct {
	rec *driver.Record // nil: none
	err error
	raw []byte
}

// picture remembers the record as it is. In a bubble, where that takes no time,
// the clock moves on before: what a call writes in passing, like the time of a
// change or a later end, then shows.
func (s *subject) picture() picture {
	if s.tick > 0 {
		s.pass(s.tick)
	}
	rec, err := s.b.Inspect(s.ctx(), s.key)
	p := picture{rec: rec, err: err}
	if s.h.RawBytes != nil {
		if p.raw = s.h.RawBytes(s.tb, s.raw, s.key); rec != nil && len(p.raw) == 0 {
			s.Errorf("the harness's RawBytes finds nothing, Inspect a %v record", rec.State)
		}
	}
	return p
}

// unchanged notes a failure if the record is not as it was in the picture.
func (s *subject) unchanged(was picture, by string) {
	is := s.picture()
	if (was.err == nil) != (is.err == nil) {
		s.Errorf("%s changed the record: Inspect's error was %v and is %v", by, was.err, is.err)
		return
	}
	if !bytes.Equal(was.raw, is.raw) {
		s.Errorf("%s changed the stored bytes: %.300q, then %.300q", by, was.raw, is.raw)
	}
	if was.err != nil {
		return
	}
	if d := append(different(was.rec, is.rec), extended(was.rec, is.rec)...); len(d) > 0 {
		s.Errorf("%s changed the record: %s", by, strings.Join(d, "; "))
	}
}

// state prints the state in the picture.
func (p picture) state() string {
	if p.rec == nil {
		return fmt.Sprintf("error %v", p.err)
	}
	return p.rec.State.String()
}
