package driver

import (
	"context"
	"time"
)

// Backend stores records. Its methods are safe for concurrent use. Which errors
// they return, and what those say, stands at each method and under I8 in the
// package documentation.
type Backend interface {
	// Claim acquires the key for p.Owner, or tells what stands in the way, in
	// one atomic step (I11). Tests are made in this order, and the first that
	// applies answers:
	//
	//  1. The record cannot be read: ErrCorrupt (I12).
	//  2. No record, or its retention has ended (I13): acquired if p.Take has
	//     TakeAbsent, else ErrNotFound.
	//  3. Another fingerprint: Mismatch (I5). A stored fingerprint whose key id
	//     is in none of p.Fingerprints: ErrCorrupt (I12).
	//  4. An outcome is recorded: Completed, with it.
	//  5. The current claim is p.Owner's: TakenOver if the record is in doubt,
	//     else Acquired; nothing changes (I6). The last claim was p.Owner's and is
	//     settled: ErrLeaseLost (I6).
	//  6. p.ExpectToken is set and is not the record's token: ErrConflict.
	//  7. An unexpired claim: InProgress (I1).
	//  8. The record may be taken according to p.Take and p.MinWindow: it gets
	//     p.Owner, a higher token (I2), the next attempt number and the lease.
	//     TakenOver if it is now in doubt, else Acquired.
	//  9. Released and not in doubt: ErrConflict. Otherwise Held.
	//
	// A backend that cannot answer within p.LockWait because another
	// transaction holds the record returns InProgress, with LeaseLeft 0 and
	// whatever else of the record it knows.
	Claim(ctx context.Context, p *ClaimParams) (*ClaimResult, error)

	// Renew makes the lease end p.Lease from now, also if it has ended (I3).
	Renew(ctx context.Context, ref Ref, p *RenewParams) error

	// Annotate adds to a claim what later attempts must know. It does not touch
	// the lease. Adding what is already there changes nothing.
	Annotate(ctx context.Context, ref Ref, p *AnnotateParams) error

	// Complete records the outcome (I4, I6) and starts its retention (I13).
	Complete(ctx context.Context, ref Ref, p *CompleteParams) error

	// Release gives the claim up without an outcome. See ReleaseParams for what
	// becomes of the record.
	Release(ctx context.Context, ref Ref, p *ReleaseParams) error

	// Inspect returns the record as it stands, without changing it; ErrNotFound
	// if there is none or its retention has ended, ErrCorrupt if it cannot be
	// read.
	Inspect(ctx context.Context, key string) (*Record, error)
}

// Owner identifies one claim: 16 bytes from crypto/rand, made anew for each.
type Owner [16]byte

// Ref names a claim of a key. The zero Owner never holds one. Token 0 means
// "whatever token this Owner holds", where the method allows it (I3).
type Ref struct {
	Key   string
	Owner Owner
	Token uint64
}

// Take says which records a claim may take. An unexpired claim can never be
// taken, and a completed record neither.
type Take uint8

const (
	// TakeAbsent allows a key that has no record.
	TakeAbsent Take = 1 << iota
	// TakeReleased allows a released record that is not in doubt.
	TakeReleased
	// TakeDoubtful allows a released record that is in doubt.
	TakeDoubtful
	// TakeUnknown allows a claim whose lease has ended, unless it is held.
	TakeUnknown
	// TakeHeld allows a held record.
	TakeHeld
)

// Has reports whether t contains all of u.
func (t Take) Has(u Take) bool { return t&u == u }

// ClaimParams are the parameters of [Backend.Claim].
type ClaimParams struct {
	Key   string
	Owner Owner
	// Lease is how long the claim is exclusive, counted by the backend from the
	// instant at which it acquires. At least one millisecond.
	Lease time.Duration
	// Retention is how long a record without an outcome is kept after its last
	// change, at least (I13). Always positive.
	Retention time.Duration
	// Fingerprints of the request this key stands for: one per configured key.
	// A zero one is none, as if it were not there. The first of the others is
	// the one to store (see Print); without any the request compares equal to
	// every record.
	Fingerprints []Fingerprint
	// Providers that the operation is going to call. A name that the record
	// does not have yet is added when the claim is acquired, and its window
	// begins then; one it has keeps its window and its beginning. When the
	// record was released and not in doubt, no provider has seen the key, and
	// every window begins anew with the claim.
	Providers []ProviderWindow
	// Take says which records may be taken.
	Take Take
	// MinWindow, if positive, forbids taking a record in doubt (released in
	// doubt, or unknown) when less than this is left of some window among its
	// Providers and p.Providers. It does not apply to a record that is not in
	// doubt.
	MinWindow time.Duration
	// ExpectToken, if not 0, is the token that the record must have.
	ExpectToken uint64
	// LockWait bounds the wait for another transaction that holds the record;
	// 0 is the backend's default. Backends without such waits ignore it.
	LockWait time.Duration
}

// Print returns the fingerprint to store if the claim is acquired and the record
// has none: the first of Fingerprints that is not zero, or zero without one.
func (p *ClaimParams) Print() Fingerprint {
	for _, f := range p.Fingerprints {
		if !f.IsZero() {
			return f
		}
	}
	return Fingerprint{}
}

// Fact is what a claim found.
type Fact uint8

const (
	// Acquired: the key is p.Owner's, and no earlier attempt is in doubt.
	Acquired Fact = iota + 1
	// TakenOver: the key is p.Owner's, and some earlier attempt may have had
	// its effect (Record.Doubt).
	TakenOver
	// Held: nothing changed. How an earlier attempt ended is unknown, and
	// p.Take, p.MinWindow or the record's Held flag forbid taking it.
	Held
	// InProgress: nothing changed. Another claim is unexpired.
	InProgress
	// Completed: nothing changed. Record.Outcome is recorded.
	Completed
	// Mismatch: nothing changed. The key was used with another fingerprint.
	Mismatch
)

// String returns the fact in lower case.
func (f Fact) String() string {
	switch f {
	case Acquired:
		return "acquired"
	case TakenOver:
		return "taken over"
	case Held:
		return "held"
	case InProgress:
		return "in progress"
	case Completed:
		return "completed"
	case Mismatch:
		return "mismatch"
	}
	return "no fact"
}

// ClaimResult is what [Backend.Claim] found, and the record after the call. On
// a Mismatch the Record's Outcome may be left empty.
type ClaimResult struct {
	Fact   Fact
	Record Record
}

// RenewParams are the parameters of [Backend.Renew].
type RenewParams struct {
	Lease time.Duration
	// Retention as in ClaimParams.
	Retention time.Duration
}

// AnnotateParams are the parameters of [Backend.Annotate].
type AnnotateParams struct {
	// Refs are added to the record's, in order, without those it has.
	Refs []ProviderRef
	// NotExecuted says that no earlier attempt had its effect: Doubt and Held
	// are cleared, and the window of each provider begins anew, now. On a record
	// that is neither in doubt nor held it changes nothing, so that a late copy
	// cannot move a window (I6).
	NotExecuted bool
	// Audit, if set, is stored with the time of the backend.
	Audit *Audit
}

// CompleteParams are the parameters of [Backend.Complete].
type CompleteParams struct {
	Outcome Outcome
	// Retention is how long the outcome is kept, from now. Always positive.
	Retention time.Duration
	// Audit, if set, is stored with the time of the backend.
	Audit *Audit
}

// ReleaseParams are the parameters of [Backend.Release]. The zero value
// releases the record and keeps its Doubt and Held flags as they are: a record
// with Held set becomes unknown and held again, any other becomes released.
type ReleaseParams struct {
	// Held leaves the record unknown and held, and in doubt.
	Held bool
	// Doubt says that this attempt may have had its effect.
	Doubt bool
	// NotExecuted says that neither this nor any earlier attempt had its
	// effect: Doubt and Held are cleared, providers and their windows
	// forgotten. Not together with Held or Doubt.
	NotExecuted bool
	// Retention as in ClaimParams.
	Retention time.Duration
	// Audit, if set, is stored with the time of the backend.
	Audit *Audit
}
