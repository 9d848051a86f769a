package storetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/idem-go/idem/driver"
)

func keyRules() []rule {
	return []rule{
		{name: "key/hostile_keys_are_distinct", text: cite(i9, textInvalid), check: hostileKeys},
		{name: "key/unstorable_keys_are_refused_or_kept_apart", text: cite(textInvalid, i8, i9), check: unstorableKeys},
		{name: "key/namespaces_are_apart", text: i9, check: namespacesApart},
		{name: "key/keys_are_independent", text: i9, check: keysIndependent},
	}
}

// storable are keys that every backend holds: valid UTF-8 without NUL, up to 512
// bytes of a user's own.
func storable() []string {
	return []string{
		"k", "K", "k ", " k", "k\t", "k\n", "k.", "k:", ":", "0:k", "k/k", "../k", "k\\", "k'", "k\"", "k`", "k;--", "k%", "k_", "k*", "k?",
		"{", "}", "{}", "{x}y", "a{b}c", "}{", "{{x}}", "${k}", "%s", "%00", "\\x00", "NULL", "true", "0", "00", "0.0",
		"é", "e\u0301", "ſ", "ß", "ss", "SS", "i", "ı", "İ", "🙂", "🙂\u200d🙂", "\u202ek", "\u00a0", "k\u00ad", "\ufeffk", "\x01", "\x7f",
		strings.Repeat("a", 511), strings.Repeat("a", 512), strings.Repeat("é", 256), strings.Repeat("a", 511) + "b",
	}
}

func hostileKeys(t *trial) {
	b := t.open()
	var subjects []*subject
	var held []driver.Ref
	for _, key := range storable() {
		s := t.on(b, key)
		res, err := s.b.Claim(s.ctx(), s.params(owned(driver.Owner{1})))
		if err != nil || res.Fact != driver.Acquired || res.Record.Attempt != 1 {
			t.Errorf("Claim of %.40q: %s, want acquired, first attempt", key, found(res, err))
			continue
		}
		subjects = append(subjects, s)
		held = append(held, driver.Ref{Key: s.key, Owner: driver.Owner{1}, Token: res.Record.Token})
	}
	for i, s := range subjects {
		if err := s.complete(held[i], success(s.key)); err != nil {
			t.Errorf("Complete of %.80q: error %q", s.key, err)
		}
	}
	for _, s := range subjects {
		if rec := s.stands(success(s.key)); rec.Key != s.key {
			t.Errorf("the record of %.80q says it is of %.80q", s.key, rec.Key)
		}
	}
}

// unstorableKeys: a backend may hold them; if not, it says so at each call,
// before anything has happened.
func unstorableKeys(t *trial) {
	b := t.open()
	for _, key := range []string{
		"\x00", "a\x00b", "a\x00c", "\xff\xfe", "\xff\xff", "\xed\xa0\x80", "\xc3", strings.Repeat("r4", 5_000), strings.Repeat("x", 1<<20),
	} {
		s := t.on(b, key)
		p := s.params()
		res, err := s.b.Claim(s.ctx(), p)
		ref := driver.Ref{Key: s.key, Owner: p.Owner}
		if err == nil {
			if res.Fact != driver.Acquired {
				t.Errorf("Claim of %.20q: %v, want acquired", key, res.Fact)
				continue
			}
			ref.Token = res.Record.Token
			s.must(s.complete(ref, success(key[:1])), "Complete")
			if rec := s.stands(success(key[:1])); rec.Key != s.key {
				t.Errorf("the record of %.20q says it is of %.20q", s.key, rec.Key)
			}
			continue
		}
		t.refused(err, driver.ErrInvalidKey, fmt.Sprintf("Claim of %.20q", key))
		for _, a := range attacks() {
			if err := a.call(s, driver.Ref{Key: s.key, Owner: p.Owner, Token: 1}); !driver.NoEffect(err) {
				t.Errorf("%s of %.20q: error %v, want one that says that nothing changed", a.name, key, err)
			}
		}
		if _, err := s.b.Inspect(s.ctx(), s.key); !errors.Is(err, driver.ErrInvalidKey) && !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("Inspect of %.20q: error %v", key, err)
		}
	}
}

func namespacesApart(t *trial) {
	b := t.open()
	one, two := t.on(b, "k"), t.on(b, "k")
	two.key = driver.JoinKey(t.space+"k", "")
	three := t.on(b, "k")
	three.key = driver.JoinKey("", t.space+"k")
	for _, s := range []*subject{one, two, three} {
		ref := s.claimedRef()
		s.must(s.complete(ref, success(s.key)), "Complete")
	}
	for _, s := range []*subject{one, two, three} {
		s.stands(success(s.key))
	}
}

// claimedRef acquires a key that must be new.
func (s *subject) claimedRef() driver.Ref {
	o := newOwner()
	res := s.claimed(driver.Acquired, owned(o), take(driver.TakeAbsent))
	return driver.Ref{Key: s.key, Owner: o, Token: res.Record.Token}
}

// keysIndependent: one owner may hold many keys, and no key learns of another.
func keysIndependent(t *trial) {
	b := t.open()
	owner := newOwner()
	x, y := t.on(b, "x"), t.on(b, "y")
	resX, resY := x.claimed(driver.Acquired, owned(owner)), y.claimed(driver.Acquired, owned(owner))
	refX := driver.Ref{Key: x.key, Owner: owner, Token: resX.Record.Token}
	refY := driver.Ref{Key: y.key, Owner: owner, Token: resY.Record.Token}
	before := y.picture()
	x.must(x.renew(refX, 2*long), "Renew")
	x.must(x.annotate(refX, driver.AnnotateParams{Refs: refs("a"), NotExecuted: true}), "Annotate")
	x.must(x.complete(refX, success("x")), "Complete")
	y.unchanged(before, "calls for another key")
	y.must(y.release(refY, driver.ReleaseParams{}), "Release")
	x.stands(success("x"))
}
