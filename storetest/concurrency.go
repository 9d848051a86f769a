package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/idem-go/idem/driver"
)

// crowd is how many goroutines claim one key at the same time (C28).
const crowd = 50

func concurrencyRules() []rule {
	var out []rule
	for _, sit := range situations() {
		if sit.state == driver.Claimed || sit.state.Completed() {
			continue
		}
		out = append(out, rule{
			name: "concurrency/one_of_many_acquires/" + sit.name, text: cite(i1, i11), needs: needPair,
			check: func(t *trial) { t.oneOfMany(&sit) },
		})
	}
	return append(out,
		rule{name: "concurrency/nobody_takes_a_live_claim", text: cite(i1, claimTake), needs: needPair, check: nobodyTakesLive},
		rule{name: "concurrency/copies_of_one_claim_acquire_once", text: cite(i6, i11), needs: needPair, check: copiesAcquireOnce},
		rule{name: "concurrency/annotations_are_all_kept", text: cite(i11, textRefsAdded), needs: needPair, check: annotationsKept},
		rule{name: "concurrency/copies_of_one_completion_count_once", text: cite(i6, i4), needs: needPair, check: completionsOnce},
		rule{name: "concurrency/handles_see_each_other", text: cite(i1, i11), needs: needPair, check: handlesSeeEachOther},
		rule{name: "concurrency/tokens_and_attempts_are_never_given_twice", text: cite(i1, i2), needs: needPair, check: tokensOnce},
		rule{name: "concurrency/all_methods_at_once", text: cite(textSafe, i2), needs: needPair, check: allAtOnce},
		rule{name: "concurrency/different_keys_do_not_meet", text: i9, needs: needPair, check: differentKeys},
	)
}

// rounds is how often a race is run.
func (t *trial) rounds() int {
	switch {
	case t.h.Rounds > 0:
		return t.h.Rounds
	case testing.Short():
		return 10
	}
	return 100
}

// oneOfMany lets a crowd on two handles claim one key, in many rounds.
func (t *trial) oneOfMany(sit *situation) {
	a, b := t.pair()
	var subjects [][2]*subject
	var lasts []driver.Ref
	for i := range t.rounds() {
		key := fmt.Sprintf("%s/%d", sit.name, i)
		pair := [2]*subject{t.on(a, key), t.on(b, key)}
		subjects = append(subjects, pair)
		lasts = append(lasts, sit.make(pair[0]))
	}
	t.lapse()
	for i, pair := range subjects {
		var won, progress atomic.Int64
		var token atomic.Uint64
		t.together(crowd, func(j int) {
			s := pair[j%2]
			res, err := s.b.Claim(s.ctx(), s.params())
			switch {
			case err != nil || res == nil:
				t.Errorf("round %d: Claim: %s", i, found(res, err))
			case res.Fact == driver.Acquired || res.Fact == driver.TakenOver:
				won.Add(1)
				token.Store(res.Record.Token)
			case res.Fact == driver.InProgress:
				progress.Add(1)
			default:
				t.Errorf("round %d: Claim: %v", i, res.Fact)
			}
		})
		if won.Load() != 1 || progress.Load() != crowd-1 {
			t.Fatalf("round %d: %d acquired, %d found it in progress; want 1 and %d", i, won.Load(), progress.Load(), crowd-1)
		}
		if rec := pair[1].look(); rec.Token != token.Load() || rec.Token <= lasts[i].Token {
			t.Fatalf("round %d: token %d on record, the winner's is %d, the one before %d", i, rec.Token, token.Load(), lasts[i].Token)
		}
	}
}

func nobodyTakesLive(t *trial) {
	a, b := t.pair()
	one, two := t.on(a, "key"), t.on(b, "key")
	ref := one.acquire()
	before := one.picture()
	t.together(crowd, func(j int) {
		s := []*subject{one, two}[j%2]
		if res, err := s.b.Claim(s.ctx(), s.params()); err != nil || res.Fact != driver.InProgress {
			t.Errorf("Claim: %s, want in progress", found(res, err))
		}
	})
	two.unchanged(before, "a crowd of claims")
	t.must(two.complete(ref, success("done")), "Complete on the other handle")
}

func copiesAcquireOnce(t *trial) {
	a, b := t.pair()
	for i := range t.rounds() {
		one, two := t.on(a, fmt.Sprint(i)), t.on(b, fmt.Sprint(i))
		p := one.params(calling("acme", long), prints(printOf("k1", "x")))
		t.together(8, func(j int) {
			s := []*subject{one, two}[j%2]
			if res, err := s.b.Claim(s.ctx(), p); err != nil || res.Fact != driver.Acquired {
				t.Errorf("a copy of the claim: %s, want acquired", found(res, err))
			}
		})
		if rec := two.look(); rec.Attempt != 1 || rec.Owner != p.Owner {
			t.Fatalf("round %d: attempt %d, want 1", i, rec.Attempt)
		}
	}
}

func annotationsKept(t *trial) {
	a, b := t.pair()
	one, two := t.on(a, "key"), t.on(b, "key")
	ref := one.acquire()
	t.together(20, func(j int) {
		s := []*subject{one, two}[j%2]
		for _, name := range []string{"both", fmt.Sprint(j)} {
			if err := s.annotate(ref, driver.AnnotateParams{Refs: refs(name)}); err != nil {
				t.Errorf("Annotate: error %q", err)
			}
			if err := s.renew(ref, long); err != nil {
				t.Errorf("Renew: error %q", err)
			}
		}
	})
	seen := map[string]int{}
	for _, r := range two.look().Refs {
		seen[r.Ref]++
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("reference %q is there %d times", name, n)
		}
	}
	if len(seen) != 21 {
		t.Errorf("%d references, want 21", len(seen))
	}
}

func completionsOnce(t *trial) {
	a, b := t.pair()
	for i := range t.rounds() {
		one, two := t.on(a, fmt.Sprint(i)), t.on(b, fmt.Sprint(i))
		ref := one.acquire()
		var other atomic.Int64
		t.together(8, func(j int) {
			s, o := []*subject{one, two}[j%2], success("done")
			if j >= 6 {
				o = success("other")
			}
			if err := s.complete(ref, o); err == nil && j >= 6 {
				other.Add(1)
			}
		})
		rec := two.look()
		if want := map[bool]string{true: "other", false: "done"}[other.Load() > 0]; string(rec.Outcome.Value) != want || rec.Revision != 1 {
			t.Fatalf("round %d: outcome %s, revision %d; want %q, 1", i, describe(&rec.Outcome), rec.Revision, want)
		}
	}
}

func handlesSeeEachOther(t *trial) {
	a, b := t.pair()
	one, two := t.on(a, "key"), t.on(b, "key")
	ref := one.acquire(prints(printOf("k1", "x")))
	two.claimed(driver.InProgress)
	two.claimed(driver.Mismatch, prints(printOf("k1", "y")))
	t.must(two.annotate(ref, driver.AnnotateParams{Refs: refs("a")}), "Annotate on the other handle")
	one.wantRefs("after the other handle's Annotate", refs("a")...)
	t.must(one.complete(ref, success("done")), "Complete")
	if res := two.claimed(driver.Completed); string(res.Record.Outcome.Value) != "done" {
		t.Errorf("the other handle finds %s", describe(&res.Record.Outcome))
	}
	if d := different(one.look(), two.look()); len(d) > 0 {
		t.Errorf("two handles tell different records: %v", d)
	}
}

// tokensOnce: many owners pass one key on.
func tokensOnce(t *trial) {
	a, b := t.pair()
	one, two := t.on(a, "key"), t.on(b, "key")
	type grant struct {
		token   uint64
		attempt int
	}
	grants := make(chan grant, 8*t.rounds())
	t.together(8, func(j int) {
		s := []*subject{one, two}[j%2]
		for range t.rounds() {
			p := s.params()
			res, err := s.b.Claim(s.ctx(), p)
			if err != nil || res.Fact != driver.Acquired {
				continue
			}
			grants <- grant{res.Record.Token, res.Record.Attempt}
			if err := s.release(driver.Ref{Key: s.key, Owner: p.Owner, Token: res.Record.Token}, driver.ReleaseParams{}); err != nil {
				t.Errorf("Release by the holder: error %q", err)
			}
		}
	})
	close(grants)
	byAttempt := map[int]uint64{}
	for g := range grants {
		if _, twice := byAttempt[g.attempt]; twice {
			t.Errorf("attempt %d was given twice", g.attempt)
		}
		byAttempt[g.attempt] = g.token
	}
	last := uint64(0)
	for n := 1; n <= len(byAttempt); n++ {
		if token, ok := byAttempt[n]; !ok || token <= last {
			t.Fatalf("attempt %d: token %d after %d (given: %v)", n, token, last, ok)
		}
		last = byAttempt[n]
	}
}

func differentKeys(t *trial) {
	a, b := t.pair()
	t.together(crowd, func(j int) {
		s := t.on([]driver.Backend{a, b}[j%2], fmt.Sprint(j))
		p := s.params()
		res, err := s.b.Claim(s.ctx(), p)
		if err != nil || res.Fact != driver.Acquired {
			t.Errorf("Claim: %s, want acquired", found(res, err))
			return
		}
		ref := driver.Ref{Key: s.key, Owner: p.Owner, Token: res.Record.Token}
		if err := s.complete(ref, success(s.key)); err != nil {
			t.Errorf("Complete: error %q", err)
		}
	})
	for j := range crowd {
		s := t.on(b, fmt.Sprint(j))
		s.stands(success(s.key))
	}
}

// allAtOnce makes every call at the same time. It is worth most with the race
// detector. No call may fail but with a sentinel, and nobody sees a token fall.
func allAtOnce(t *trial) {
	a, b := t.pair()
	t.together(8, func(j int) {
		seen := map[string]uint64{}
		saw := func(rec *driver.Record) {
			if rec.Token < seen[rec.Key] {
				t.Errorf("token %d after token %d", rec.Token, seen[rec.Key])
			}
			seen[rec.Key] = rec.Token
		}
		for i := range max(t.rounds(), 30) {
			s := t.on([]driver.Backend{a, b}[j%2], fmt.Sprint((i+j)%3))
			for name, err := range s.everyCall(i, saw) {
				if err != nil && !driver.NoEffect(err) {
					t.Errorf("%s: error %q", name, err)
				}
			}
		}
	})
}

// everyCall claims and settles the key, in a way that depends on i.
func (s *subject) everyCall(i int, saw func(*driver.Record)) map[string]error {
	p := s.params(prints(printOf("k1", "x")), calling("acme", long), lease(s.short()))
	res, err := s.b.Claim(s.ctx(), p)
	errs := map[string]error{"Claim": err}
	if err == nil {
		saw(&res.Record)
		ref := driver.Ref{Key: s.key, Owner: p.Owner, Token: res.Record.Token}
		errs["Renew"] = s.renew(ref, long)
		errs["Annotate"] = s.annotate(ref, driver.AnnotateParams{Refs: refs(fmt.Sprint(i)), NotExecuted: i%5 == 0})
		if i%2 == 0 {
			errs["Release"] = s.release(ref, driver.ReleaseParams{Doubt: i%4 == 0})
		}
		errs["Complete"] = s.b.Complete(s.ctx(), ref, &driver.CompleteParams{Outcome: success("x"), Retention: s.short()})
	}
	rec, err := s.b.Inspect(s.ctx(), s.key)
	if errs["Inspect"] = err; err == nil {
		saw(rec)
	}
	if ed, ok := driver.As[driver.Editor](s.raw); ok && err == nil {
		errs["Redact"] = ed.Redact(s.ctx(), s.key, edit(rec.Token))
		if i%7 == 0 {
			errs["Reset"] = ed.Reset(s.ctx(), s.key, edit(rec.Token))
		}
	}
	if l, ok := driver.As[driver.Lister](s.raw); ok {
		_, errs["List"] = l.List(s.ctx(), &driver.ListParams{Prefix: driver.JoinKey(s.space, ""), Limit: 2})
	}
	s.pass(s.short() / 4)
	return errs
}
