package driver

import (
	"crypto/subtle"
	"encoding/hex"
	"time"
)

// FormatVersion is the version of the stored record that this release writes.
// A backend that meets a higher one answers ErrCorrupt (I12).
const FormatVersion = 1

// State is the state of a key, as of the backend's clock.
type State uint8

const (
	// Claimed: an attempt holds the key and its lease has not ended.
	Claimed State = iota + 1
	// Succeeded: the outcome is recorded.
	Succeeded
	// Failed: a failure is recorded as the outcome.
	Failed
	// Released: the last attempt gave the key up.
	Released
	// Unknown: the lease ended without an outcome, or the record is held.
	Unknown
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case Claimed:
		return "claimed"
	case Succeeded:
		return "succeeded"
	case Failed:
		return "failed"
	case Released:
		return "released"
	case Unknown:
		return "unknown"
	}
	return "no state"
}

// Completed reports whether an outcome is recorded.
func (s State) Completed() bool { return s == Succeeded || s == Failed }

// Record is a snapshot of what a backend keeps for a key. It must not be
// changed by whoever receives it.
type Record struct {
	Key   string
	State State
	// Held: only a recovery or a resolution moves the record.
	Held bool
	// Doubt: some earlier attempt may have had its effect. On a claimed record
	// it speaks of the attempts before the current one.
	Doubt bool
	// Owner of the last claim, also after that claim was settled.
	Owner Owner
	// Token of the last claim; raised by Reset too.
	Token uint64
	// Attempt counts the claims of this record, from 1.
	Attempt int
	// Fingerprint is the zero value if no claim carried one.
	Fingerprint Fingerprint
	Providers   []Provider
	Refs        []ProviderRef
	// Outcome is the zero value unless State is Succeeded or Failed.
	Outcome Outcome
	// Audit tells of the last change made by an operator.
	Audit Audit

	// Format is the version in which the record is stored.
	Format int
	// Revision counts the changes made to a completed record, from 1: a copy
	// with a higher (Token, Revision) is newer.
	Revision uint64
	// SealKeyID names the key that sealed the outcome; "" is unsealed.
	SealKeyID string

	// LeaseLeft is how long the claim is still exclusive; 0 unless State is
	// Claimed.
	LeaseLeft time.Duration
	// ClaimAge is how long ago the last claim was made.
	ClaimAge time.Duration
	// RetentionLeft is how long the record is still kept. 0 means that it does
	// not end by itself.
	RetentionLeft time.Duration

	// ClaimedAt and RecordedAt are by the backend's clock, for display (I7).
	// RecordedAt is zero unless an outcome is recorded.
	ClaimedAt  time.Time
	RecordedAt time.Time
}

// Newer reports whether r supersedes o as a copy of the same key's completed
// record.
func (r *Record) Newer(o *Record) bool {
	if r.Token != o.Token {
		return r.Token > o.Token
	}
	return r.Revision > o.Revision
}

// Fingerprint is a digest of the request that a key stands for, and the id of
// the key it was made with ("" for an unkeyed digest). The zero value is none,
// wherever it stands: stored, or among those of a request.
type Fingerprint struct {
	KeyID string
	Sum   [32]byte
}

// IsZero reports whether there is no fingerprint.
func (f Fingerprint) IsZero() bool { return f == Fingerprint{} }

// Match compares f, a stored fingerprint, with those of a request, each in
// constant time (I5). It is the comparison that every backend makes. A zero
// fingerprint on either side is none, and with none on either side the two
// compare equal. known is false if f was made with a key that the request did
// not use: then nothing can be said, and the record counts as unreadable (I12).
func (f Fingerprint) Match(given []Fingerprint) (equal, known bool) {
	if f.IsZero() {
		return true, true
	}
	none := true
	for i := range given {
		g := &given[i]
		switch {
		case g.IsZero():
			continue
		case g.KeyID != f.KeyID:
		case subtle.ConstantTimeCompare(g.Sum[:], f.Sum[:]) == 1:
			return true, true
		default:
			known = true
		}
		none = false
	}
	return none, none || known
}

// String returns the beginning of the digest in hexadecimal, for failure
// messages.
func (f Fingerprint) String() string {
	if f.IsZero() {
		return "none"
	}
	return f.KeyID + "/" + hex.EncodeToString(f.Sum[:4])
}

// ProviderWindow declares how long a provider remembers the keys it is sent.
type ProviderWindow struct {
	Name   string
	Window time.Duration
}

// Provider is a stored [ProviderWindow].
type Provider struct {
	Name   string
	Window time.Duration
	// Elapsed is the time since its window began: with the first claim that
	// named it, and anew whenever the record is known not to be in doubt (see
	// ClaimParams.Providers and AnnotateParams.NotExecuted).
	Elapsed time.Duration
}

// Left is what is left of the provider's window; not positive once it is over.
func (p Provider) Left() time.Duration { return p.Window - p.Elapsed }

// ProviderRef is the reference under which a provider knows the effect.
type ProviderRef struct {
	Provider string
	Ref      string
}

// Body says what became of the value of a succeeded operation.
type Body uint8

const (
	// BodyKept: the value is recorded.
	BodyKept Body = iota
	// BodyNotEncoded: the value could not be encoded; done, without a body.
	BodyNotEncoded
	// BodyTooLarge: the value was over the limit; done, without a body.
	BodyTooLarge
	// BodyRedacted: an operator removed it; done, without a body.
	BodyRedacted
)

// Outcome is what is recorded against a key, for ever (I4).
type Outcome struct {
	// Failed: a failure is the outcome; Code and Message describe it.
	Failed bool
	// Value of a success, byte for byte.
	Value []byte
	Body  Body
	// Codec is the id of the codec that encoded Value; "" for raw bytes.
	Codec string
	// Code and Message of a failure; valid UTF-8 without NUL.
	Code    string
	Message string
	// Recovered: a recovery or a resolution supplied the outcome.
	Recovered bool
}

// Equal reports whether two outcomes are the same to the byte.
func (o *Outcome) Equal(p *Outcome) bool {
	return o.Failed == p.Failed && string(o.Value) == string(p.Value) && o.Body == p.Body &&
		o.Codec == p.Codec && o.Code == p.Code && o.Message == p.Message && o.Recovered == p.Recovered
}

// Audit says who changed a record by hand, why, and when by the backend's clock.
type Audit struct {
	By  string
	Why string
	At  time.Time
}
