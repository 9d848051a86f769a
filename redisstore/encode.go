package redisstore

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/idem-go/idem/driver"
)

// The parameters of a call become bytes of their own here, in the format of the
// stored record (see format.go), so that nothing of the caller's is kept.

// errTooLong is how something is refused, before anything was sent, that has no
// place in the format.
var errTooLong = errors.New("redisstore: the id of a fingerprint key, a provider's name, or the providers together are longer than 64 KiB")

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// longest is the longest duration: any other becomes this one. An instant that
// is so far ahead is still an exact number in a script.
const longest = 100 * 365 * 24 * time.Hour

// micros is d in microseconds, rounded up, at least 1.
func micros(d time.Duration) uint64 {
	d = min(d, longest)
	us := d / time.Microsecond
	if d%time.Microsecond > 0 {
		us++
	}
	return uint64(max(us, 1))
}

// kept is how long a claim's record is kept: after the lease's end its outcome
// is unknown.
func kept(lease, retention time.Duration) time.Duration {
	return min(lease, longest) + min(max(retention, keepUnknown), longest)
}

func appendDuration(b []byte, d time.Duration) []byte {
	return binary.BigEndian.AppendUint64(b, micros(d))
}

func appendFingerprint(b []byte, fp driver.Fingerprint) ([]byte, error) {
	if fp.IsZero() {
		return b, nil
	}
	if len(fp.KeyID)+len(fp.Sum) > math.MaxUint16 {
		return nil, errTooLong
	}
	return append(append(b, fp.KeyID...), fp.Sum[:]...), nil
}

// appendWindow is a provider without the beginning of its window.
func appendWindow(b []byte, w driver.ProviderWindow) ([]byte, error) {
	if len(w.Name) > math.MaxUint16 {
		return nil, errTooLong
	}
	b = binary.BigEndian.AppendUint64(b, uint64(max(0, w.Window)/time.Microsecond))
	b = binary.BigEndian.AppendUint16(b, uint16(len(w.Name))) //nolint:gosec // it fits, see above
	return append(b, w.Name...), nil
}

func appendReference(b []byte, r driver.ProviderRef) ([]byte, error) {
	if len(r.Provider) > math.MaxUint16 || len(r.Ref) > math.MaxInt32 {
		return nil, errTooLong
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(r.Provider))) //nolint:gosec // it fits, see above
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Ref)))      //nolint:gosec // it fits, see above
	return append(append(b, r.Provider...), r.Ref...), nil
}

// encodeAudit is an audit without its instant; nil without one.
func encodeAudit(a *driver.Audit) []byte {
	if a == nil {
		return nil
	}
	return appendText(appendText(make([]byte, 0, len(a.By)+len(a.Why)+6), a.By), a.Why)
}

// detailsLen is at least how long appendDetails makes it.
func detailsLen(o *driver.Outcome) int {
	return 4 + 2 + 4*5 + len(o.Codec) + len(o.Code) + len(o.Message)
}

// appendDetails is what describes an outcome, without its value.
func appendDetails(b []byte, o *driver.Outcome, revision uint32, sealKeyID string) []byte {
	flags := byte(0)
	if o.Recovered {
		flags |= flagRecovered
	}
	b = binary.BigEndian.AppendUint32(b, revision)
	b = append(b, byte(o.Body), flags)
	b = appendText(appendText(b, o.Codec), sealKeyID)
	return appendText(appendText(b, o.Code), o.Message)
}
