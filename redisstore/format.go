package redisstore

import (
	"fmt"
	"math"
	"time"

	"github.com/idem-go/idem/driver"
)

// Format 1 of a record: one string under one key. Numbers are big-endian,
// instants are microseconds since 1970 by the server's clock, and no instant and
// no number is optional. scripts/read.lua and write.lua do the same.
//
//	 0   1  version
//	 1   1  phase
//	 2   1  flags
//	 3  16  owner of the last claim; zero after a Reset
//	19   8  token of the last claim
//	27   4  attempt
//	31   8  instant of the last claim
//	39   8  instant at which the lease ends (claimed), or the record was settled
//	47   8  instant at which the record ends, as the key's own lifetime says it
//	55   2  length of the fingerprint
//	57   2  length of the providers
//	59   4  length of the references
//	63   4  length of the audit
//	67   4  length of the details; 0 without an outcome
//	71   4  length of the value
//	75      fingerprint, providers, references, audit, details, value
//
//	fingerprint  key id, sum (32); empty without one
//	provider     beginning of the window (8), window in µs (8), length of the name (2), name
//	reference    length of the provider (2), length of the reference (4), provider, reference
//	audit        instant (8), text who, why; empty without one
//	details      revision (4), body (1), flags (1), text codec, text seal key id, text code, message
//	text         length as a minimal uvarint, bytes
const headLen = 75

// The phases of a record: what the last step made of it. Whether a claim is
// still exclusive is a matter of the clock.
const (
	phaseClaimed byte = iota + 1
	phaseReleased
	phaseSucceeded
	phaseFailed
)

// The flags of a record.
const (
	flagHeld byte = 1 << iota
	flagDoubt
	// flagWatched: somebody waits for the end of the claim (see watch.go).
	flagWatched

	allFlags = flagHeld | flagDoubt | flagWatched
)

// flagRecovered is the flag of an outcome.
const flagRecovered byte = 1

// maxNumber is the largest instant and token: numbers are doubles in a script,
// and beyond it they have gaps. As an instant it is in the year 2255.
const maxNumber = 1<<53 - 1

// layout is a record taken apart, its sections unread. They are parts of the
// bytes it was read from.
type layout struct {
	raw     string
	phase   byte
	flags   byte
	owner   driver.Owner
	token   uint64
	attempt uint32
	claimed uint64
	at      uint64 // the lease's end, or when the record was settled
	expires uint64

	fingerprint, providers, references, audit, details, value string
}

// unreadable is the error for a record that cannot be read (I12).
func unreadable(what string) error {
	return fmt.Errorf("redisstore: %w: %s", driver.ErrCorrupt, what)
}

// split takes the bytes of a record apart. With peeked they end before the
// value.
func (l *layout) split(raw string, peeked bool) error {
	if raw == "" {
		return unreadable("it is empty")
	}
	if raw[0] != driver.FormatVersion {
		return unreadable(fmt.Sprintf("it has format %d, this release knows %d", raw[0], driver.FormatVersion))
	}
	if len(raw) < headLen {
		return unreadable("it ends within its head")
	}
	d := decoder{s: raw[1:]}
	l.raw, l.phase, l.flags = raw, d.byte(), d.byte()
	copy(l.owner[:], d.take(16))
	l.token, l.attempt = d.u64(), d.u32()
	l.claimed, l.at, l.expires = d.u64(), d.u64(), d.u64()
	lengths := [...]uint64{uint64(d.u16()), uint64(d.u16()), uint64(d.u32()), uint64(d.u32()), uint64(d.u32()), uint64(d.u32())}
	if peeked {
		lengths[5] = 0
	}
	for i, section := range []*string{&l.fingerprint, &l.providers, &l.references, &l.audit, &l.details, &l.value} {
		*section = d.take(lengths[i])
	}
	if d.failed || d.s != "" {
		return unreadable("its length is not what its head says")
	}
	return l.check()
}

// check reports what no release writes.
func (l *layout) check() error {
	completed := l.phase == phaseSucceeded || l.phase == phaseFailed
	switch {
	case l.phase < phaseClaimed || l.phase > phaseFailed:
		return unreadable(fmt.Sprintf("it is in phase %d", l.phase))
	case l.flags > allFlags, l.flags&flagHeld != 0 && (l.flags&flagDoubt == 0 || completed), l.flags&flagWatched != 0 && l.phase != phaseClaimed:
		return unreadable(fmt.Sprintf("it is in phase %d with flags %d", l.phase, l.flags))
	case l.token == 0 || l.token > maxNumber || l.attempt == 0:
		return unreadable("it has no token or no attempt")
	case l.owner == driver.Owner{} && l.phase != phaseReleased:
		return unreadable("it has no owner")
	case !instant(l.claimed) || !instant(l.at) || !instant(l.expires):
		return unreadable("an instant is missing") // never taken for one that has passed (C07)
	case completed != (l.details != ""), !completed && l.value != "":
		return unreadable("it has no outcome, or one that it should not have")
	}
	return nil
}

func instant(us uint64) bool { return us > 0 && us <= maxNumber }

// read reads the sections into rec, as of the server's clock.
func (l *layout) read(rec *driver.Record, key string, now uint64) error {
	*rec = driver.Record{
		Key: key, State: l.state(now), Held: l.flags&flagHeld != 0, Doubt: l.flags&flagDoubt != 0,
		Owner: l.owner, Token: l.token, Attempt: int(l.attempt), Format: driver.FormatVersion,
		ClaimAge: since(l.claimed, now), ClaimedAt: display(l.claimed),
		// Redis forgets the record by itself, at this instant or up to a millisecond later.
		RetentionLeft: max(since(now, l.expires), time.Microsecond),
	}
	if rec.State == driver.Claimed {
		rec.LeaseLeft = since(now, l.at)
	}
	if rec.State.Completed() {
		rec.RecordedAt = display(l.at)
	}
	return l.sections(rec, now)
}

func (l *layout) sections(rec *driver.Record, now uint64) error {
	fp, err := decodeFingerprint(l.fingerprint)
	if err != nil {
		return err
	}
	rec.Fingerprint = fp
	if rec.Providers, err = decodeProviders(l.providers, now); err != nil {
		return err
	}
	if rec.Refs, err = decodeReferences(l.references); err != nil {
		return err
	}
	if rec.Audit, err = decodeAudit(l.audit); err != nil {
		return err
	}
	if rec.State.Completed() {
		return l.outcome(rec)
	}
	return nil
}

// state is a matter of the clock for a claim only.
func (l *layout) state(now uint64) driver.State {
	switch {
	case l.phase == phaseSucceeded:
		return driver.Succeeded
	case l.phase == phaseFailed:
		return driver.Failed
	case l.phase == phaseClaimed && now < l.at:
		return driver.Claimed
	case l.phase == phaseReleased && l.flags&flagHeld == 0:
		return driver.Released
	}
	return driver.Unknown
}

func decodeFingerprint(s string) (fp driver.Fingerprint, err error) {
	if s == "" {
		return fp, nil
	}
	n := len(s) - len(fp.Sum)
	if n < 0 {
		return fp, unreadable("its fingerprint is short")
	}
	fp.KeyID = s[:n]
	copy(fp.Sum[:], s[n:])
	if fp.IsZero() {
		return fp, unreadable("its fingerprint is zero")
	}
	return fp, nil
}

func decodeProviders(s string, now uint64) (out []driver.Provider, err error) {
	for d := (decoder{s: s}); d.s != ""; {
		begun, window := d.u64(), d.u64()
		name := d.take(uint64(d.u16()))
		if d.failed || !instant(begun) {
			return nil, unreadable("its providers are damaged")
		}
		out = append(out, driver.Provider{Name: name, Window: duration(window), Elapsed: since(begun, now)})
	}
	return out, nil
}

func decodeReferences(s string) (out []driver.ProviderRef, err error) {
	for d := (decoder{s: s}); d.s != ""; {
		provider, ref := uint64(d.u16()), uint64(d.u32())
		r := driver.ProviderRef{Provider: d.take(provider), Ref: d.take(ref)}
		if d.failed {
			return nil, unreadable("its references are damaged")
		}
		out = append(out, r)
	}
	return out, nil
}

func decodeAudit(s string) (a driver.Audit, err error) {
	if s == "" {
		return a, nil
	}
	d := decoder{s: s}
	at := d.u64()
	a = driver.Audit{By: d.text(), Why: d.text(), At: display(at)}
	if d.failed || d.s != "" || !instant(at) {
		return a, unreadable("its audit is damaged")
	}
	return a, nil
}

func (l *layout) outcome(rec *driver.Record) error {
	d := decoder{s: l.details}
	revision, body, flags := d.u32(), d.byte(), d.byte()
	o := driver.Outcome{Failed: l.phase == phaseFailed, Body: driver.Body(body), Recovered: flags&flagRecovered != 0}
	o.Codec, rec.SealKeyID, o.Code, o.Message = d.text(), d.text(), d.text(), d.text()
	if d.failed || d.s != "" || revision == 0 || o.Body > driver.BodyRedacted || flags > flagRecovered {
		return unreadable("its outcome is damaged")
	}
	if l.value != "" {
		o.Value = []byte(l.value)
	}
	rec.Revision, rec.Outcome = uint64(revision), o
	return nil
}

// decoder reads from s. A read beyond the end fails, for good.
type decoder struct {
	s      string
	failed bool
}

func (d *decoder) take(n uint64) string {
	if n > uint64(len(d.s)) {
		d.s, d.failed = "", true
		return ""
	}
	out := d.s[:n]
	d.s = d.s[n:]
	return out
}

// number reads n bytes, big-endian.
func (d *decoder) number(n uint64) (x uint64) {
	s := d.take(n)
	for i := range len(s) {
		x = x<<8 | uint64(s[i])
	}
	return x
}

func (d *decoder) byte() byte  { return byte(d.number(1)) }   //nolint:gosec // one byte was read
func (d *decoder) u16() uint16 { return uint16(d.number(2)) } //nolint:gosec // two bytes were read
func (d *decoder) u32() uint32 { return uint32(d.number(4)) } //nolint:gosec // four bytes were read
func (d *decoder) u64() uint64 { return d.number(8) }

// text reads a length and as many bytes. Only the shortest form of a length is
// valid, so that equal outcomes have equal bytes.
func (d *decoder) text() string {
	var n uint64
	for shift := uint(0); ; shift += 7 {
		b := d.byte()
		if shift > 28 || b == 0 && shift > 0 {
			d.failed = true
		}
		if d.failed {
			d.s = ""
			return ""
		}
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return d.take(n)
		}
	}
}

// since is the time from one instant to a later one; negative if it is earlier.
func since(from, to uint64) time.Duration {
	if to < from {
		return -duration(from - to)
	}
	return duration(to - from)
}

func duration(us uint64) time.Duration {
	if us > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return time.Duration(us) * time.Microsecond
}

// display turns an instant into one for people.
func display(us uint64) time.Time { return time.UnixMicro(int64(us)).UTC() } //nolint:gosec // at most maxNumber
