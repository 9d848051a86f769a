package storetest

import (
	"bytes"
	"strings"

	"github.com/idem-go/idem/driver"
)

func valueRules() []rule {
	return []rule{
		{name: "value/round_trips_byte_for_byte", text: cite(i4, textValues), check: valuesRoundTrip},
		{name: "value/every_field_of_the_outcome_is_kept", text: i4, check: outcomesRoundTrip},
		{name: "value/of_a_claim_is_the_callers_own", text: textValueOwn, check: claimedValueIsOwn},
		{name: "params/are_not_retained", text: textParams, check: paramsNotRetained},
	}
}

// values are what operations return (C25).
func values() map[string][]byte {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	return map[string][]byte{
		"nil": nil, "empty": {}, "NUL": {0}, "NUL inside": []byte("a\x00b"), "bad UTF-8": {0xff, 0xfe, 0x00}, "surrogate": {0xed, 0xa0, 0x80},
		"every byte": every, "blanks": []byte(" \t\r\n "), "JSON with an escaped NUL": []byte(`{"a":"\u0000"}`),
		"JSON with a lone surrogate": []byte(`{"a":"\ud800"}`), "JSON": []byte("{\"b\":1,\n \"a\":1.0}"), "hex": []byte(`\x00ff`),
		"false": []byte("false"), "null": []byte("null"), "1 MiB": bytes.Repeat(every, 4096),
	}
}

func valuesRoundTrip(t *trial) {
	b := t.open()
	for name, v := range values() {
		s := t.on(b, name)
		ref := s.acquire()
		want := driver.Outcome{Value: v}
		if err := s.complete(ref, want); err != nil {
			t.Errorf("Complete with %s: error %q", name, err)
			continue
		}
		if err := s.complete(ref, want); err != nil {
			t.Errorf("Complete with %s, again: error %q", name, err)
		}
		s.stands(want)
		if res := s.claimed(driver.Completed); !bytes.Equal(res.Record.Outcome.Value, v) {
			t.Errorf("a claim finds %s, want the value %s", describe(&res.Record.Outcome), name)
		}
	}
}

func outcomesRoundTrip(t *trial) {
	b := t.open()
	for name, o := range map[string]driver.Outcome{
		"zero":        {},
		"codec":       {Value: []byte("1"), Codec: "json/é 1"},
		"recovered":   {Value: []byte("1"), Recovered: true},
		"not encoded": {Body: driver.BodyNotEncoded},
		"too large":   {Body: driver.BodyTooLarge, Codec: "json"},
		"failed":      {Failed: true, Code: "card_declined", Message: "no \"funds\", é 🙂\n\tline 2\u2028"},
		"long text":   {Failed: true, Code: strings.Repeat("c", 200), Message: strings.Repeat("é", 2048)},
		"no text":     {Failed: true},
		"all failed":  {Failed: true, Code: "x", Message: "y", Recovered: true},
	} {
		s := t.on(b, name)
		ref := s.acquire()
		s.must(s.complete(ref, o), "Complete "+name)
		s.must(s.complete(ref, o), "Complete "+name+", again")
		rec := s.stands(o)
		if rec.State == driver.Failed != o.Failed {
			t.Errorf("%s: the state is %v", name, rec.State)
		}
	}
}

// claimedValueIsOwn: the caller may also append to it, which writes to what room
// there is behind it.
func claimedValueIsOwn(t *trial) {
	b := t.open()
	for name, v := range values() {
		s := t.on(b, name)
		ref := s.acquire()
		want := driver.Outcome{Value: v, Codec: "text"}
		s.must(s.complete(ref, want), "Complete")
		other := s.claimed(driver.Completed)
		for _, again := range []option{owned(newOwner()), owned(ref.Owner)} {
			value := s.claimed(driver.Completed, again).Record.Outcome.Value
			value = value[:cap(value)]
			for i := range value {
				value[i] ^= 0xff
			}
			if o := s.claimed(driver.Completed).Record.Outcome; !o.Equal(&want) {
				t.Errorf("%s: after a change of what a claim returned, the next one finds %s, want %s", name, describe(&o), describe(&want))
			}
		}
		if o := other.Record.Outcome; !o.Equal(&want) {
			t.Errorf("%s: a change of what one claim returned changed what another one had: %s", name, describe(&o))
		}
		s.stands(want)
	}
}

// paramsNotRetained changes everything that was passed, after each call.
func paramsNotRetained(t *trial) {
	s := t.subject()
	fp := printOf("k1", "charge 5")
	p := s.params(prints(fp), calling("acme", long))
	res, err := s.b.Claim(s.ctx(), p)
	t.must(err, "Claim")
	ref := driver.Ref{Key: s.key, Owner: p.Owner, Token: res.Record.Token}
	p.Fingerprints[0] = printOf("k1", "charge 6")
	p.Providers[0] = driver.ProviderWindow{Name: "changed", Window: 2 * long}
	p.Owner = newOwner()

	added := driver.AnnotateParams{Refs: refs("a", "b"), Audit: audit("olga", "ticket 12")}
	s.must(s.b.Annotate(s.ctx(), ref, &added), "Annotate")
	added.Refs[0].Ref, added.Audit.By = "changed", "changed"

	done := driver.CompleteParams{Outcome: success("done"), Retention: kept}
	s.must(s.b.Complete(s.ctx(), ref, &done), "Complete")
	copy(done.Outcome.Value, "gone")
	done.Retention = 0

	rec := s.stands(success("done"))
	s.wantRefs("after the caller changed its slice", refs("a", "b")...)
	if _, ok := provider(rec, "acme"); !ok || rec.Fingerprint != fp || rec.Owner != ref.Owner || rec.Audit.By != "olga" {
		t.Errorf("the record changed with the caller's slices: %v, %v, audit by %q", windows(rec), rec.Fingerprint, rec.Audit.By)
	}
}
