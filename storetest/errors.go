package storetest

import (
	"context"
	"strings"

	"github.com/idem-go/idem/driver"
)

func errorRules() []rule {
	return []rule{
		{name: "errors/texts_hold_no_key_and_no_value", text: textErrors, check: errorTexts},
	}
}

// canary is in every key, value and name that the rule uses.
const canary = "canary4711"

// errorTexts provokes every error that it can, and looks for the canary in it.
func errorTexts(t *trial) {
	b := t.open()
	ended, cancel := context.WithCancel(t.ctx())
	cancel()
	check := func(call string, err error) {
		if err != nil && strings.Contains(err.Error(), canary) {
			t.Errorf("%s: the error's text tells what was stored or asked for: %q", call, err)
		}
	}
	for _, key := range []string{canary, canary + "\x00", canary + "\xff", strings.Repeat(canary, 1000)} {
		s := t.on(b, key)
		_, err := s.b.Inspect(t.ctx(), s.key)
		check("Inspect", err)
		_, err = s.b.Inspect(ended, s.key)
		check("Inspect under an ended context", err)
		_, err = s.b.Claim(t.ctx(), s.params(take(0)))
		check("Claim of nothing", err)
		p := s.params(prints(printOf(canary, canary)), calling(canary, long))
		_, err = s.b.Claim(ended, p)
		check("Claim under an ended context", err)
		res, err := s.b.Claim(t.ctx(), p)
		check("Claim", err)
		ref := driver.Ref{Key: s.key, Owner: p.Owner, Token: 1}
		if err == nil {
			ref.Token = res.Record.Token
		}
		_, err = s.b.Claim(t.ctx(), s.params(prints(printOf("k1", "x"))))
		check("Claim with an unknown key id", err)
		_, err = s.b.Claim(t.ctx(), s.params(expecting(ref.Token+1)))
		check("Claim with another token", err)
		s.errorsOfCalls(ref, check)
	}
}

// errorsOfCalls makes each call by a stranger, and then more often than the owner
// may.
func (s *subject) errorsOfCalls(ref driver.Ref, check func(string, error)) {
	secret := driver.Outcome{Value: []byte(canary), Codec: canary}
	failed := driver.Outcome{Failed: true, Code: canary, Message: canary}
	noted := driver.AnnotateParams{Refs: []driver.ProviderRef{{Provider: canary, Ref: canary}}, Audit: audit(canary, canary)}
	for _, r := range []driver.Ref{{Key: ref.Key, Owner: newOwner(), Token: ref.Token}, ref, ref} {
		check("Renew", s.renew(r, long))
		check("Annotate", s.annotate(r, noted))
		check("Complete", s.complete(r, secret))
		check("Complete with a failure", s.complete(r, failed))
		check("Release", s.release(r, driver.ReleaseParams{Audit: audit(canary, canary)}))
	}
	if ed, ok := driver.As[driver.Editor](s.raw); ok {
		check("Redact", ed.Redact(s.ctx(), s.key, edit(ref.Token+1)))
		check("Reset", ed.Reset(s.ctx(), s.key, edit(ref.Token+1)))
	}
	if s.h.Corrupt != nil && s.picture().rec != nil && s.h.Corrupt(s.tb, s.raw, s.key, Truncated) {
		_, err := s.b.Inspect(s.ctx(), s.key)
		check("Inspect of an unreadable record", err)
		_, err = s.b.Claim(s.ctx(), s.params())
		check("Claim of an unreadable record", err)
	}
}
