package storetest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/idem-go/idem/driver"
)

// action is one of the four calls of an owner.
type action int

const (
	renewing action = iota
	annotating
	completing
	releasing
)

// errNothing says that a repetition was recognised.
var errNothing = errors.New("nothing to do")

// usable refuses what is refused before anything is looked at.
func (r *reference) usable(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		switch r.bug {
		case endedSaysNotFound:
			return driver.ErrNotFound
		case sentinelAfterEffect:
		case endedHangs:
			time.Sleep(time.Hour) // in a bubble
			return err
		default:
			return err
		}
	}
	if r.bug == nulEndsKey && strings.Contains(key, "\x00") {
		return nil
	}
	if !utf8.ValidString(key) || strings.Contains(key, "\x00") || len(key) > 2048 {
		if r.bug == invalidKeyIsUnknown {
			return errors.New("SQLSTATE 22021")
		}
		return driver.ErrInvalidKey
	}
	return nil
}

// lie is for the bug that returns a sentinel after the effect.
func (r *reference) lie(ctx context.Context) error {
	if r.bug == sentinelAfterEffect && ctx.Err() != nil {
		return driver.ErrUnavailable
	}
	return nil
}

// spell is the name under which a key is stored.
func (r *reference) spell(key string) string {
	switch r.bug {
	case keysFolded:
		return strings.ToLower(key)
	case keysTrimmed:
		return strings.TrimSpace(key)
	case keysCut:
		return key[:min(len(key), 255)]
	case nulEndsKey:
		key, _, _ = strings.Cut(key, "\x00")
	case keysIgnored:
		return "key"
	case namespaceFlat:
		_, rest, _ := strings.Cut(key, ":")
		return rest
	}
	return key
}

// extend is for the bug that lets reading extend the retention.
func (r *reference) extend(key string, rec *stored) {
	if r.bug == readExtends && rec.KeptUntil != nil {
		later := rec.KeptUntil.Add(500 * time.Millisecond)
		rec.KeptUntil = &later
		r.save(key, rec)
	}
}

// mistake is what can go wrong in a record that was just claimed.
func (r *reference) mistake(rec *stored, p *driver.ClaimParams) {
	switch r.bug {
	case heldForgotten:
		rec.Held = false
	case doubtForgotten:
		rec.Doubt = false
	case refsForgotten:
		rec.Refs = nil
	case attemptStuck:
		rec.Attempt = 1
	case printOfLast:
		rec.Print = driver.Fingerprint{}
		if len(p.Fingerprints) > 0 {
			rec.Print = p.Fingerprints[0]
		}
	case lastPrintStored:
		if n := len(p.Fingerprints); n > 0 && rec.Attempt == 1 {
			rec.Print = p.Fingerprints[n-1]
		}
	case leaseInSeconds:
		ends := rec.ClaimedAt.Add(p.Lease.Truncate(time.Second))
		rec.LeaseEnds = &ends
	case leaseAtLeastASecond:
		ends := rec.ClaimedAt.Add(max(p.Lease, time.Second))
		rec.LeaseEnds = &ends
	case leaseHasMargin:
		ends := rec.LeaseEnds.Add(p.Lease)
		rec.LeaseEnds = &ends
	case leaseIsShort:
		ends := rec.ClaimedAt.Add(p.Lease / 2)
		rec.LeaseEnds = &ends
	case providersOfFirstClaim:
		if rec.Attempt > 1 {
			rec.Providers = nil
		}
	case newRecordInherits:
		var old stored
		if json.Unmarshal(r.data.records[p.Key], &old) == nil && rec.Attempt == 1 {
			rec.Refs, rec.Providers = old.Refs, old.Providers
		}
	case claimsForgetAudit:
		rec.Audit = driver.Audit{}
	}
}

// spoil is what can go wrong with an outcome.
func (r *reference) spoil(rec *stored) {
	o := rec.Outcome
	switch r.bug {
	case valueEndsAtNUL:
		o.Value, _, _ = bytes.Cut(o.Value, []byte{0})
	case valueIsText:
		o.Value = bytes.ToValidUTF8(o.Value, []byte("?"))
	case valueTrimmed:
		o.Value = bytes.TrimSpace(o.Value)
	case codecDropped:
		o.Codec = ""
	case recoveredDropped:
		o.Recovered = false
	case codeCut:
		o.Code = o.Code[:min(len(o.Code), 64)]
	case completeDropsDoubt:
		rec.Doubt = false
	case completeDropsRefs:
		rec.Refs = nil
	case recordedAtMissing:
		rec.RecordedAt = time.Time{}
	case retentionInSeconds:
		until := rec.RecordedAt.Add(rec.KeptUntil.Sub(rec.RecordedAt).Truncate(time.Second))
		rec.KeptUntil = &until
	}
}

// distort is what can go wrong in showing a record.
func (r *reference) distort(key string, rec *stored, out *driver.Record) {
	switch r.bug {
	case paramsRetained:
		if rec.done() {
			out.Outcome.Value = r.data.kept[key]
		}
	case ownerHidden:
		if rec.Settled {
			out.Owner = driver.Owner{}
		}
	case ageHidden:
		out.ClaimAge = 0
	case claimedAtHidden:
		out.ClaimedAt = time.Time{}
	case unknownEnds:
		if out.State == driver.Unknown {
			out.RetentionLeft = time.Minute
		}
	case elapsedStands:
		for i := range out.Providers {
			out.Providers[i].Elapsed = 0
		}
	case lengthOfLeaseShown:
		if out.LeaseLeft > 0 {
			out.LeaseLeft = rec.LeaseEnds.Sub(rec.ClaimedAt)
		}
	}
}
