package storetest

import (
	"bytes"
	"errors"
	"time"

	"github.com/idem-go/idem/driver"
)

func corruptRules() []rule {
	out := []rule{{name: "corrupt/unknown_fingerprint_key_is_reported", text: cite(i12, claim3), check: unknownKeyID}}
	for k := Truncated; k <= MissingOutcome; k++ {
		out = append(out, rule{
			name: "corrupt/" + snake(k.String()), text: i12, needs: needCorrupt,
			check: func(t *trial) { t.corrupted(k) },
		})
	}
	return out
}

// damaged are the situations that can be damaged in the given way.
func (k CorruptKind) damaged(sit *situation) bool {
	switch k {
	case MissingDeadline, ZeroDeadline:
		return sit.state == driver.Claimed || sit.lapses()
	case MissingOutcome:
		return sit.state.Completed()
	default:
		return sit.state != 0
	}
}

func (t *trial) corrupted(kind CorruptKind) {
	b := t.open()
	for _, sit := range situations() {
		if !kind.damaged(&sit) {
			continue
		}
		s := t.on(b, sit.name)
		ref := sit.make(s)
		if sit.lapses() {
			t.lapse()
		}
		if !t.h.Corrupt(t.tb, s.raw, s.key, kind) {
			t.Logf("the backend's storage cannot hold a %s record that is %s", sit.name, kind)
			continue
		}
		s.unreadable(ref, "a record that is "+sit.name+", "+kind.String())
	}
}

// unreadable tries everything on a record that cannot be read, twice: the second
// time shows what the first one left.
func (s *subject) unreadable(ref driver.Ref, what string) {
	var was []byte
	if s.h.RawBytes != nil {
		was = s.h.RawBytes(s.tb, s.raw, s.key)
	}
	claim := func(opts ...option) func() error {
		return func() error { _, err := s.b.Claim(s.ctx(), s.params(opts...)); return err }
	}
	same := prints(printOf("k1", plantedRequest))
	calls := map[string]func() error{
		"Inspect":                     func() error { _, err := s.b.Inspect(s.ctx(), s.key); return err },
		"Claim":                       claim(),
		"Claim that may take nothing": claim(take(0)),
		"Claim by its owner":          claim(owned(ref.Owner), same),
		"Claim, other fingerprint":    claim(prints(printOf("k1", "charge 6"))),
		"Claim, token expected":       claim(expecting(ref.Token)),
	}
	for _, a := range attacks() {
		calls[a.name] = func() error { return a.call(s, ref) }
		if a.takesZero() {
			calls[a.name+" with Token 0"] = func() error { return a.call(s, driver.Ref{Key: s.key, Owner: ref.Owner}) }
		}
	}
	if ed, ok := driver.As[driver.Editor](s.raw); ok && s.h.Capabilities.Editor {
		calls["Redact"] = func() error { return ed.Redact(s.ctx(), s.key, edit(ref.Token)) }
		calls["Reset"] = func() error { return ed.Reset(s.ctx(), s.key, edit(ref.Token)) }
	}
	for range 2 {
		for name, call := range calls {
			s.refused(call(), driver.ErrCorrupt, name+" of "+what)
			if s.h.RawBytes != nil {
				if is := s.h.RawBytes(s.tb, s.raw, s.key); !bytes.Equal(was, is) {
					s.Fatalf("%s of %s changed the stored bytes: %.300q, then %.300q", name, what, was, is)
				}
			}
		}
	}
}

// unknownKeyID: the fingerprint on record was made with a key that is configured
// no more. Nobody can tell whether the request is the same.
func unknownKeyID(t *trial) {
	s := t.subject()
	s.acquire(lease(t.short()), prints(printOf("retired", "charge 5")))
	t.lapse()
	before := s.picture()
	for _, given := range [][]driver.Fingerprint{
		{printOf("k1", "charge 5")},
		{printOf("k2", "charge 5"), printOf("k1", "charge 5")},
		{{Sum: printOf("retired", "charge 5").Sum}},
	} {
		res, err := s.b.Claim(s.ctx(), s.params(prints(given...)))
		if !errors.Is(err, driver.ErrCorrupt) {
			t.Fatalf("Claim with a fingerprint of another key id: %s, want error %q", found(res, err), driver.ErrCorrupt)
		}
		s.unchanged(before, "such a claim")
	}
	t.pass(time.Millisecond)
	s.claimed(driver.TakenOver, prints(printOf("k1", "charge 5"), printOf("retired", "charge 5")))
}
