package storetest

import (
	"context"
	"strings"

	"github.com/idem-go/idem/driver"
)

// reuserRules look at what ClaimInto promises beyond Claim. What it claims is
// the business of all the other rules, which Run runs a second time over it.
func reuserRules() []rule {
	return []rule{
		{name: "reuser/self_is_the_backend", text: reuserSelf, needs: needReuser, check: selfIsTheBackend},
		{name: "reuser/all_of_the_answer_is_written", text: reuserInto, needs: needReuser, check: allOfTheAnswer},
		{name: "reuser/nothing_of_the_callers_is_kept", text: cite(reuserNew, reuserKeeps), needs: needReuser, check: nothingIsKept},
	}
}

// reuserOf is b's, as the Store finds it.
func reuserOf(b driver.Backend) (driver.Reuser, bool) {
	r, ok := b.(driver.Reuser)
	return r, ok && r.Self() == b
}

func (t *trial) reuser(b driver.Backend) driver.Reuser {
	r, ok := b.(driver.Reuser)
	if !ok {
		t.Fatalf("Capabilities.Reuser is declared, but the backend is no driver.Reuser")
	}
	return r
}

func selfIsTheBackend(t *trial) {
	b := t.open()
	if t.reuser(b).Self() != b {
		t.Errorf("Self returns another backend: the Store would never use ClaimInto")
	}
}

// dirty is what is left in memory that is used again.
func dirty() driver.ClaimResult {
	o := newOwner()
	return driver.ClaimResult{Fact: 99, Record: driver.Record{
		Key: "dirt", State: 99, Held: true, Doubt: true, Owner: o, Token: 1 << 60, Attempt: 1 << 30,
		Fingerprint: printOf("dirt", "dirt"), Providers: []driver.Provider{{Name: "dirt"}}, Refs: refs("dirt"),
		Outcome: driver.Outcome{Failed: true, Value: []byte("dirt"), Body: 99, Codec: "dirt", Code: "dirt", Message: "dirt", Recovered: true},
		Audit:   *audit("dirt", "dirt"), Format: 99, Revision: 99, SealKeyID: "dirt",
		LeaseLeft: long, ClaimAge: long, RetentionLeft: long,
	}}
}

// allOfTheAnswer claims in every situation, and of a record that has nothing but
// its claim, what changes nothing.
func allOfTheAnswer(t *trial) {
	b := t.open()
	bare := t.on(b, "bare")
	bare.acquire()
	for _, sit := range situations() {
		sit.make(t.on(b, sit.name))
	}
	t.lapse()
	bare.sameAnswer("bare")
	for _, sit := range situations() {
		t.on(b, sit.name).sameAnswer(sit.name)
	}
}

// sameAnswer compares what Claim answers with what ClaimInto writes into dirty
// memory.
func (s *subject) sameAnswer(name string) {
	p := s.params(take(0), prints(printOf("k1", plantedRequest)))
	want, wantErr := s.raw.Claim(s.ctx(), p)
	have := dirty()
	err := s.reuser(s.raw).ClaimInto(s.ctx(), p, &have)
	if wantErr != nil || err != nil {
		if (err == nil) != (wantErr == nil) || driver.NoEffect(err) != driver.NoEffect(wantErr) {
			s.Errorf("%s: ClaimInto: error %v, Claim: error %v", name, err, wantErr)
		}
		return
	}
	if have.Fact != want.Fact {
		s.Errorf("%s: ClaimInto: %v, Claim: %v", name, have.Fact, want.Fact)
	}
	d := append(different(&want.Record, &have.Record), extended(&want.Record, &have.Record)...)
	if len(d) > 0 {
		s.Errorf("%s: ClaimInto leaves something of an earlier answer, or differs (Claim, then ClaimInto): %s", name, strings.Join(d, "; "))
	}
}

// nothingIsKept uses one memory for two keys, and writes over all of it.
func nothingIsKept(t *trial) {
	b := t.open()
	one, two := t.on(b, "one"), t.on(b, "two")
	completedAs(one, success("first"))
	two.must(two.annotate(two.acquire(calling(plantedProvider, long)), driver.AnnotateParams{Refs: refs("other")}), "Annotate")
	var p driver.ClaimParams
	var into driver.ClaimResult
	claim := func(s *subject) driver.Record {
		p = *s.params(prints(printOf("k1", plantedRequest)), take(0))
		if err := t.reuser(b).ClaimInto(s.ctx(), &p, &into); err != nil {
			t.Fatalf("ClaimInto: error %q", err)
		}
		return into.Record
	}
	before := [2]picture{one.picture(), two.picture()}
	first := claim(one)
	was := first
	was.Refs, was.Providers = append([]driver.ProviderRef(nil), was.Refs...), append([]driver.Provider(nil), was.Providers...)
	was.Outcome.Value = []byte(string(was.Outcome.Value))
	claim(two)
	into, p.Fingerprints[0] = dirty(), printOf("dirt", "dirt")
	left := into
	if err := t.reuser(b).ClaimInto(one.ctx(), one.params(take(0)), new(driver.ClaimResult)); err != nil {
		t.Fatalf("ClaimInto: error %q", err)
	}
	if d := different(&left.Record, &into.Record); len(d) > 0 || into.Fact != left.Fact {
		t.Errorf("a later claim wrote into the memory of an earlier one: %s", strings.Join(d, "; "))
	}
	if d := different(&was, &first); len(d) > 0 {
		t.Errorf("what an answer pointed to changed with the next one: %s", strings.Join(d, "; "))
	}
	for i, s := range []*subject{one, two} {
		s.unchanged(before[i], "a claim whose memory was written over")
	}
}

// claims returns b as its claims are to be made: by Claim, or by ClaimInto.
func (t *trial) claims(b driver.Backend) driver.Backend {
	if r, ok := reuserOf(b); ok && t.into {
		return into{b, r}
	}
	return b
}

// into is a backend whose claims are answered into memory that is dirty before
// and after.
type into struct {
	driver.Backend
	r driver.Reuser
}

func (w into) Unwrap() driver.Backend { return w.Backend }

func (w into) Claim(ctx context.Context, p *driver.ClaimParams) (*driver.ClaimResult, error) {
	memory := dirty()
	if err := w.r.ClaimInto(ctx, p, &memory); err != nil {
		return nil, err
	}
	res := memory
	memory = dirty()
	return &res, nil
}
