package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idem-go/idem/driver"
)

// matrixRules cross every situation of a key with every way to claim it.
func matrixRules() []rule {
	var out []rule
	for _, sit := range situations() {
		for _, m := range []struct {
			name  string
			text  string
			cells func(s *subject, last driver.Ref) []cell
		}{
			{"take", cite(claimOrder, claim2, claim4, claim7, claim8, claim9, claimTake, textHeldFlag), takeCells},
			{"fingerprint", cite(claimOrder, claim3, i5, i5None, i12), printCells},
			{"owner", cite(claimOrder, claim5, i6, i6Lease, i6Late), ownerCells},
			{"expected_token", cite(claimOrder, claim6), tokenCells},
			{"window", cite(claimOrder, claim8, claimWindow), windowCells},
		} {
			out = append(out, rule{
				name:  "claim/" + m.name + "/" + sit.name,
				text:  m.text,
				check: func(t *trial) { t.matrix(sit, m.cells) },
			})
		}
	}
	return out
}

// cell is one way to claim a key.
type cell struct {
	name string
	opts []option
}

// takeCells are all sets of permissions.
func takeCells(*subject, driver.Ref) []cell {
	var out []cell
	for x := range takeAll + 1 {
		out = append(out, cell{fmt.Sprintf("take %05b", x), []option{take(x)}})
	}
	return out
}

// printCells are the relations of a request to the one on record, each with and
// without the permission to take.
func printCells(*subject, driver.Ref) []cell {
	same, other := printOf("k1", plantedRequest), printOf("k1", "charge 6")
	rotated := printOf("k2", plantedRequest)
	var out []cell
	for _, x := range []driver.Take{0, takeAll} {
		for _, c := range []cell{
			{"same fingerprint", []option{prints(same)}},
			{"other fingerprint", []option{prints(other)}},
			{"no fingerprint", []option{prints()}},
			{"zero fingerprint", []option{prints(driver.Fingerprint{})}},
			{"same fingerprint, second", []option{prints(rotated, same)}},
			{"other fingerprint, second", []option{prints(rotated, other)}},
			{"unknown key id", []option{prints(rotated)}},
			{"other digest under no key id", []option{prints(driver.Fingerprint{Sum: same.Sum})}},
		} {
			out = append(out, cell{fmt.Sprintf("%s, take %05b", c.name, x), append(c.opts, take(x))})
		}
	}
	return out
}

// ownerCells repeat the last claim, as a client library's own retry does.
func ownerCells(_ *subject, last driver.Ref) []cell {
	same := prints(printOf("k1", plantedRequest))
	return []cell{
		{"own claim again", []option{owned(last.Owner), same}},
		{"own claim again, may take nothing", []option{owned(last.Owner), same, take(0)}},
		{"own claim again, longer lease", []option{owned(last.Owner), same, lease(2 * long)}},
		{"own claim again, other token expected", []option{owned(last.Owner), same, expecting(last.Token + 1)}},
		{"own claim again, other fingerprint", []option{owned(last.Owner), prints(printOf("k1", "charge 6"))}},
		{"other owner, may take nothing", []option{same, take(0)}},
	}
}

// tokenCells expect a token.
func tokenCells(_ *subject, last driver.Ref) []cell {
	var out []cell
	for _, x := range []driver.Take{0, takeAll, takeAll &^ driver.TakeAbsent} {
		for _, c := range []cell{
			{"right token", []option{expecting(max(last.Token, 1))}},
			{"later token", []option{expecting(last.Token + 1)}},
			{"earlier token", []option{expecting(max(last.Token-1, 1))}},
		} {
			if last.Token > 1 || c.name != "earlier token" {
				out = append(out, cell{fmt.Sprintf("%s, take %05b", c.name, x), append(c.opts, take(x))})
			}
		}
	}
	return out
}

// windowCells want some of each provider's window left.
func windowCells(*subject, driver.Ref) []cell {
	return []cell{
		{"enough left", []option{leaving(plantedWindow - long)}},
		{"not enough left", []option{leaving(plantedWindow + long)}},
		{"enough left, also of a new provider", []option{leaving(long), calling("new", 2*long)}},
		{"not enough in a new provider", []option{leaving(2 * long), calling("new", long)}},
		{"nothing wanted", []option{leaving(0), calling("new", time.Millisecond)}},
	}
}

// matrix plants one record for each cell, lets time pass once, and compares each
// claim with [decide].
func (t *trial) matrix(sit situation, cells func(*subject, driver.Ref) []cell) {
	b := t.open()
	n := len(cells(nil, driver.Ref{Token: 2}))
	subjects, lasts := make([]*subject, n), make([]driver.Ref, n)
	for i := range n {
		subjects[i] = t.on(b, fmt.Sprintf("%s/%d", sit.name, i))
		lasts[i] = sit.make(subjects[i])
		if lasts[i].Owner == (driver.Owner{}) {
			lasts[i].Owner = newOwner()
		}
	}
	t.lapse()
	for i, s := range subjects {
		if all := cells(s, lasts[i]); i < len(all) {
			s.cell(&sit, lasts[i], all[i])
		}
	}
}

// cell makes one claim of the matrix and checks all that it says and does.
func (s *subject) cell(sit *situation, last driver.Ref, c cell) {
	before, p := s.picture(), s.params(c.opts...)
	if sit.state == 0 != errors.Is(before.err, driver.ErrNotFound) || before.rec != nil && before.rec.State != sit.state {
		s.Errorf("%s: planted as %s, but Inspect finds %s", c.name, sit.name, before.state())
		return
	}
	fact, fault := decide(sit, last, before.rec, p)
	asked := time.Now()
	res, err := s.b.Claim(s.ctx(), p)
	if fault != nil {
		s.refused(err, fault, c.name+": Claim")
		s.unchanged(before, c.name)
		return
	}
	if err != nil || res == nil || res.Fact != fact {
		s.Errorf("%s: Claim: %s, want %v", c.name, found(res, err), fact)
		return
	}
	if fact == driver.Acquired || fact == driver.TakenOver {
		if p.Owner == last.Owner && sit.open {
			s.unchanged(before, c.name)
		} else {
			s.acquired(c.name, sit, last, before.rec, p, &res.Record, asked)
		}
	} else {
		s.unchanged(before, c.name)
	}
	s.agrees(c.name, res)
}

// agrees compares the record in a result with what Inspect tells.
func (s *subject) agrees(name string, res *driver.ClaimResult) {
	rec := s.look()
	got := res.Record
	if res.Fact == driver.Mismatch && got.Outcome.Equal(&driver.Outcome{}) {
		got.Outcome = rec.Outcome
	}
	if d := different(&got, rec); len(d) > 0 {
		s.Errorf("%s: the result's record is not the one that Inspect tells (%s): %s", name, textSnapshot, strings.Join(d, "; "))
	}
}

// acquired checks the record of a claim that changed hands.
func (s *subject) acquired(name string, sit *situation, last driver.Ref, was *driver.Record, p *driver.ClaimParams, is *driver.Record, asked time.Time) {
	want := driver.Record{ // what is left of an absent record
		Key: p.Key, State: driver.Claimed, Owner: p.Owner, Token: is.Token, Attempt: 1, Format: driver.FormatVersion,
		ClaimedAt: is.ClaimedAt, Revision: is.Revision, SealKeyID: is.SealKeyID,
	}
	if sit.state != 0 {
		want.Doubt = sit.doubt || sit.state == driver.Unknown
		want.Held, want.Attempt = sit.held, was.Attempt+1
		want.Fingerprint, want.Refs, want.Audit = was.Fingerprint, was.Refs, was.Audit
		want.Providers = append(want.Providers, was.Providers...)
	}
	if given := notZero(p.Fingerprints); want.Fingerprint.IsZero() && len(given) > 0 {
		want.Fingerprint = given[0]
	}
	for _, w := range p.Providers {
		if _, known := provider(&want, w.Name); !known {
			want.Providers = append(want.Providers, driver.Provider{Name: w.Name, Window: w.Window})
		}
	}
	if d := different(&want, is); len(d) > 0 {
		s.Errorf("%s: the claimed record is not what it should be (want, then have): %s", name, strings.Join(d, "; "))
	}
	if is.Token <= last.Token {
		s.Errorf("%s: token %d after token %d", name, is.Token, last.Token)
	}
	if least := p.Lease - time.Since(asked) - grain; is.LeaseLeft > p.Lease+grain || is.LeaseLeft < least {
		s.Errorf("%s: %v of a lease of %v is left", name, is.LeaseLeft, p.Lease)
	}
}
