package redisstore

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"time"

	"github.com/idem-go/idem/driver"
)

// Format 1 of a copy, which no Backend reads. Its first byte is none of a
// record's.
//
//	 0   1  'C'
//	 1   8  token
//	 9   8  revision
//	17   8  instant at which it was put, by the server's clock, written by put.lua
//	25   8  life of the server in which it was put, written by put.lua
//	33   1  version
//	34      state (1), flags (1), owner (16), attempt (4), format (4), claim age (8),
//	        retention left (8), claimed at, recorded at, audited at (8 each, in ns; see
//	        appendTime), text fingerprint key id, sum (32), number of providers (4), of
//	        references (4), each of these, body (1), outcome's flags (1), texts codec,
//	        seal key id, code, message, who, why; the value
//	        end: CRC-32C of all from the version on (4)
const (
	copyMark    = 'C'
	deletedMark = 'D' // a marker of Delete is this byte alone
	copyVersion = 1
	copyCheck   = 4 // bytes at the end
	copyHead    = 33
)

const (
	copyHeld byte = 1 << iota
	copyDoubt
)

const (
	copyFailed byte = 1 << iota
	copyRecovered
)

// noTime stands for the zero time.
const noTime = math.MinInt64

func appendTime(b []byte, t time.Time) []byte {
	ns := int64(noTime)
	if !t.IsZero() {
		ns = t.UnixNano()
	}
	return binary.BigEndian.AppendUint64(b, uint64(ns)) //nolint:gosec // bits
}

func bit(set bool, b byte) byte {
	if set {
		return b
	}
	return 0
}

// encodeCopy is the copy from its version on.
func encodeCopy(r *driver.Record) []byte {
	o := &r.Outcome
	b := make([]byte, 0, 256+len(o.Value)+len(o.Message))
	b = append(b, copyVersion, byte(r.State), bit(r.Held, copyHeld)|bit(r.Doubt, copyDoubt))
	b = append(b, r.Owner[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(r.Attempt))       //nolint:gosec // bits
	b = binary.BigEndian.AppendUint32(b, uint32(r.Format))        //nolint:gosec // bits
	b = binary.BigEndian.AppendUint64(b, uint64(r.ClaimAge))      //nolint:gosec // bits
	b = binary.BigEndian.AppendUint64(b, uint64(r.RetentionLeft)) //nolint:gosec // bits
	b = appendTime(appendTime(appendTime(b, r.ClaimedAt), r.RecordedAt), r.Audit.At)
	b = append(appendText(b, r.Fingerprint.KeyID), r.Fingerprint.Sum[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Providers))) //nolint:gosec // bits
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Refs)))      //nolint:gosec // bits
	for _, p := range r.Providers {
		b = appendText(b, p.Name)
		b = binary.BigEndian.AppendUint64(b, uint64(p.Window))  //nolint:gosec // bits
		b = binary.BigEndian.AppendUint64(b, uint64(p.Elapsed)) //nolint:gosec // bits
	}
	for _, ref := range r.Refs {
		b = appendText(appendText(b, ref.Provider), ref.Ref)
	}
	b = append(b, byte(o.Body), bit(o.Failed, copyFailed)|bit(o.Recovered, copyRecovered))
	for _, s := range [...]string{o.Codec, r.SealKeyID, o.Code, o.Message, r.Audit.By, r.Audit.Why} {
		b = appendText(b, s)
	}
	b = append(b, o.Value...)
	return binary.BigEndian.AppendUint32(b, copySum(b))
}

// copySum is the check of a copy, from its version on: one that was cut, or changed,
// is none.
func copySum[T []byte | string](s T) uint32 {
	return crc32.Checksum([]byte(s), crc32.MakeTable(crc32.Castagnoli))
}

// decodeCopy reports false for whatever is no copy: the archive knows better.
func decodeCopy(raw, key string, now uint64) (*driver.Record, bool) {
	if len(raw) < copyHead+1+copyCheck || raw[0] != copyMark || raw[copyHead] != copyVersion {
		return nil, false
	}
	end := len(raw) - copyCheck
	if check := (&decoder{s: raw[end:]}).u32(); copySum(raw[copyHead:end]) != check {
		return nil, false
	}
	d := decoder{s: raw[1:end]}
	r := &driver.Record{Key: key, Token: d.u64(), Revision: d.u64()}
	age := max(0, since(d.u64(), now))
	_, _ = d.u64(), d.byte() // get.lua has looked at the life
	r.State = driver.State(d.byte())
	flags := d.byte()
	r.Held, r.Doubt = flags&copyHeld != 0, flags&copyDoubt != 0
	copy(r.Owner[:], d.take(16))
	r.Attempt, r.Format = int(d.u32()), int(d.u32())
	r.ClaimAge, r.RetentionLeft = d.duration()+age, d.duration()
	if r.RetentionLeft > 0 {
		r.RetentionLeft = max(r.RetentionLeft-age, 1)
	}
	r.ClaimedAt, r.RecordedAt, r.Audit.At = d.time(), d.time(), d.time()
	r.Fingerprint.KeyID = d.text()
	copy(r.Fingerprint.Sum[:], d.take(32))
	d.lists(r, age)
	d.outcome(r)
	return r, !d.failed && r.State.Completed()
}

func (d *decoder) duration() time.Duration { return time.Duration(d.u64()) } //nolint:gosec // bits

func (d *decoder) time() time.Time {
	ns := int64(d.u64()) //nolint:gosec // bits
	if ns == noTime {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

func (d *decoder) lists(r *driver.Record, age time.Duration) {
	providers, refs := d.u32(), d.u32()
	for range providers {
		p := driver.Provider{Name: d.text(), Window: d.duration(), Elapsed: d.duration() + age}
		if d.failed {
			return
		}
		r.Providers = append(r.Providers, p)
	}
	for range refs {
		ref := driver.ProviderRef{Provider: d.text(), Ref: d.text()}
		if d.failed {
			return
		}
		r.Refs = append(r.Refs, ref)
	}
}

func (d *decoder) outcome(r *driver.Record) {
	o := &r.Outcome
	body, flags := d.byte(), d.byte()
	o.Body, o.Failed, o.Recovered = driver.Body(body), flags&copyFailed != 0, flags&copyRecovered != 0
	o.Codec, r.SealKeyID, o.Code, o.Message = d.text(), d.text(), d.text(), d.text()
	r.Audit.By, r.Audit.Why = d.text(), d.text()
	if d.s != "" {
		o.Value = []byte(d.s)
	}
}
